"""Every chapter that a page or a notebook names is there, or is said to be planned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TOC = yaml.safe_load((ROOT / "book/_toc.yml").read_text(encoding="utf-8"))
CHAPTERS = {entry["file"] for part in TOC["parts"] for entry in part["chapters"]}
TEXTS = sorted([*ROOT.glob("book/**/*.md"), *ROOT.glob("exercises/[0-9]*/*.md")])
# A chapter that is named by what it is about, and not by its title or a link.
BY_SUBJECT = re.compile(r"\bchapters? (?:on|about)\b|\b(?:later|next) chapters?\b", re.IGNORECASE)
BY_TITLE = re.compile(r"\bchapters? ((?:\*[^*]+\*(?:,? and |, )?)+)")

each_text = pytest.mark.parametrize("path", TEXTS, ids=[path.stem for path in TEXTS])


def title(page: str) -> str:
    text = (ROOT / "book" / f"{page}.md").read_text(encoding="utf-8")
    return re.search(r"^# (.+)$", text, re.MULTILINE)[1]


def sentences(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    prose = " ".join(re.sub(r"^```\{code-cell\}.*?^```$", "", text, flags=re.M | re.S).split())
    return re.split(r"(?<=[.:?!]) (?=[A-Z*\[])", prose)


@each_text
def test_a_chapter_that_is_not_linked_is_said_to_be_planned(path):
    promised = [one for one in sentences(path) if BY_SUBJECT.search(one)]
    assert [one for one in promised if "planned" not in one and "](" not in one] == []


@each_text
def test_a_chapter_in_italics_has_that_title(path):
    named = [
        name
        for one in sentences(path)
        for names in BY_TITLE.findall(one)
        for name in re.findall(r"\*([^*]+)\*", names)
    ]
    assert set(named) <= {title(page) for page in CHAPTERS}


@pytest.mark.parametrize("path", sorted(ROOT.glob("exercises/[0-9]*/*.md")), ids=lambda p: p.stem)
def test_an_exercise_belongs_to_a_chapter_that_is_there(path):
    front = yaml.safe_load(path.read_text(encoding="utf-8").split("---")[1])
    assert front["exercise"]["chapter"] in CHAPTERS


def test_the_start_page_names_every_chapter():
    start = (ROOT / "book/intro.md").read_text(encoding="utf-8")
    reference = {"notation", "glossary", "references"}
    assert [page for page in CHAPTERS - reference if f"[]({page}.md), with" not in start] == []
