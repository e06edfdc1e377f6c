"""The built site, a server that answers as GitHub Pages does, and Chromium, for every test of the site.

The site is built once: `_build/html` is reused while it is newer than everything it is made from. Set
ONE_GPU_SITE to the folder of a built site to test that one instead.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import re
import subprocess
import sys
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tests.conftest import need_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
THEMES = ("light", "dark")
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks for the browser is marked so."""
    for item in items:
        if Path(item.path).parent == Path(__file__).parent and "browser" in item.fixturenames:
            item.add_marker(pytest.mark.browser)


def _sources_changed_at() -> float:
    """When the newest of the files that the site is made from was changed."""
    newest = (ROOT / "_config.yml").stat().st_mtime
    for folder in ("book", "exercises", "gradelib", "solutions"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                newest = max(newest, path.stat().st_mtime)
    return newest


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built site."""
    if given := os.environ.get("ONE_GPU_SITE"):
        return Path(given).resolve()
    need_module("jupyter_book")
    SITE.parent.mkdir(exist_ok=True)
    stamp = SITE / ".built"
    with (SITE.parent / ".site-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes that run side by side build it once
        if not stamp.exists() or stamp.stat().st_mtime < _sources_changed_at():
            command = [str(Path(sys.executable).with_name("jupyter-book")), "build", "book"]
            command += ["--config", "_config.yml", "--path-output", ".", "-W", "-n", "--keep-going"]
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            started = time.time()
            built = subprocess.run(
                command,
                cwd=ROOT,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            if built.returncode:
                pytest.fail(
                    f"the site does not build:\n{built.stdout[-3000:]}\n{built.stderr[-3000:]}"
                )
            stamp.touch()
            os.utime(stamp, (started, started))  # what changes while it builds is newer than it
    return SITE


@pytest.fixture(scope="session")
def page_names(site: Path) -> list[str]:
    """Every page of the site, as in its address: 'intro', 'computation/number_formats', …, 'search'."""
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    names = json.loads(re.search(r'"?docnames"?:\s*(\[[^\]]*\])', index).group(1))
    return [*names, "search"]


class _Pages(SimpleHTTPRequestHandler):
    """Serves files compressed and cacheable, as GitHub Pages does."""

    protocol_version = "HTTP/1.1"
    compressed: ClassVar = {".html", ".css", ".js", ".svg", ".json", ".txt", ".xml", ".inv"}

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.is_dir():
            path = path / "index.html"
        if not path.is_file():
            self.send_error(404)
            return
        body = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Cache-Control", "max-age=600")
        if path.suffix in self.compressed and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 6, mtime=0)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Quiet."""


@pytest.fixture(scope="session")
def site_url(site: Path) -> Iterator[str]:
    """Address of a local server of the site, without a slash at the end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Pages, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A fresh desktop tab; the test fails on any error that a page in it reports."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    faults = watch_faults(page)
    yield page
    context.close()
    assert not faults, "\n".join(faults)


def watch_faults(page: Page) -> list[str]:
    """A list that fills with what goes wrong in `page`: console errors, exceptions, failed or outside requests."""
    faults: list[str] = []

    def requested(request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "file://", "data:", "blob:")):
            faults.append(f"{page.url}: request to the outside: {request.url}")

    page.on("request", requested)

    def failed(request: Any) -> None:
        if (
            request.failure != "net::ERR_ABORTED"
        ):  # a reader who turns the page stops what still loads
            faults.append(f"{page.url}: {request.failure}: {request.url}")

    page.on("request", requested)
    page.on("requestfailed", failed)
    page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
    page.on(
        "console",
        lambda message: (
            faults.append(f"{page.url}: {message.type}: {message.text}")
            if message.type in {"error", "warning"}
            else None
        ),
    )
    return faults
