"""Sphinx extension: what the search page looks through, section by section, as the reader sees it.

Written from the finished pages, so that computed numbers are in it; a script, since files opened from a disk cannot
fetch. `theme/static/search.js` ranks and shows it. Other words for the same thing are in `search_aliases.json`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_ALIASES = Path(__file__).with_name("search_aliases.json")
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_VOID = {
    "area",
    "base",
    "br",
    "col",
    "embed",
    "hr",
    "img",
    "input",
    "link",
    "meta",
    "source",
    "wbr",
}
# Code, drawings, formulas, a widget's place, answers of quizzes, and lists of works are not what is searched for.
_SKIPPED_TAGS = {"pre", "svg", "script", "style", "details", "nav", "form", "noscript"}
_SKIPPED_CLASSES = {"headerlink", "widget", "math-scroll", "eqno", "sources", "references"}
_BLOCKS = {"p", "li", "tr", "td", "th", "div", "section", "dd", "dt", "figcaption", *_HEADINGS}


@dataclass
class Passage:
    """One section of a page, or one entry of the glossary."""

    anchor: str
    title: str
    text: str = ""
    is_term: bool = False


class PassageParser(HTMLParser):
    """Collects the passages of one page's article."""

    def __init__(self) -> None:
        super().__init__()
        self.passages: list[Passage] = []
        self._open: list[str] = []
        self._anchors: list[str] = []
        self._skipped_at: int | None = None
        self._article_at: int | None = None
        self._heading: list[str] | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag in _VOID:
            return
        self._open.append(tag)
        classes = set((given.get("class") or "").split())
        if tag == "article":
            self._article_at = len(self._open)
        if self._article_at is None or self._skipped_at is not None:
            return
        if tag in _SKIPPED_TAGS or classes & _SKIPPED_CLASSES:
            self._skipped_at = len(self._open)
        elif tag == "section":
            self._anchors.append(given.get("id") or "")
        elif tag in _HEADINGS:
            self._heading = []
        elif tag == "dt" and (given.get("id") or "").startswith("term-"):
            self.passages.append(Passage(given["id"] or "", "", is_term=True))
            self._heading = []
        elif tag in _BLOCKS:
            self.handle_data(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._open:
            return
        while self._open:  # an element that was left open ends with the one around it
            depth, last = len(self._open), self._open.pop()
            self._close(last, depth)
            if last == tag:
                return

    def _close(self, tag: str, depth: int) -> None:
        if self._skipped_at is not None:
            if depth == self._skipped_at:
                self._skipped_at = None
            return
        if tag == "article":
            self._article_at = None
        elif tag == "section" and self._anchors:
            self._anchors.pop()
        elif self._heading is not None and tag in _HEADINGS | {"dt"}:
            title = _plain("".join(self._heading))
            self._heading = None
            if tag == "dt":
                self.passages[-1].title = title
            else:
                anchor = self._anchors[-1] if self._anchors else ""
                self.passages.append(Passage(anchor, title))

    def handle_data(self, data: str) -> None:
        if self._article_at is None or self._skipped_at is not None:
            return
        if self._heading is not None:
            self._heading.append(data)
        elif self.passages:
            self.passages[-1].text += data


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def passages(html: str) -> list[Passage]:
    """The passages of a page as it was written."""
    parser = PassageParser()
    parser.feed(html)
    for passage in parser.passages:
        passage.text = _plain(passage.text)
    return parser.passages


def aliases() -> list[list[str]]:
    """Groups of words that find the same things, in small letters."""
    groups: list[list[str]] = json.loads(_ALIASES.read_text(encoding="utf-8"))
    return groups


def search_data(folder: Path, names: list[str]) -> str:
    """The script that the search page loads."""
    pages = [
        {
            "page": name,
            "passages": [
                [passage.anchor, passage.title, passage.text, int(passage.is_term)]
                for passage in passages((folder / f"{name}.html").read_text(encoding="utf-8"))
            ],
        }
        for name in names
    ]
    data = json.dumps(
        {"pages": pages, "aliases": aliases()}, ensure_ascii=False, separators=(",", ":")
    )
    return f"var SEARCH_DATA = {data};\n"


def _write(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        folder = Path(app.outdir)
        script = search_data(folder, sorted(app.env.found_docs))
        (folder / "_static" / "search-data.js").write_text(script, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the data once the pages are written."""
    app.connect("build-finished", _write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
