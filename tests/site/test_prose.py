"""Numbers in the book's prose are computed or cited, and chapters have the parts that the template names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.conftest import need_module

need_module("myst_parser")

from tests.site.prose import bare_numbers  # noqa: E402

BOOK = Path(__file__).resolve().parents[2] / "book"


def _in_toc(node: object) -> list[str]:
    if isinstance(node, dict):
        own = [node[key] for key in ("file", "root") if key in node]
        return own + [name for value in node.values() for name in _in_toc(value)]
    if isinstance(node, list):
        return [name for item in node for name in _in_toc(item)]
    return []


TOC = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
PAGES = {name: (BOOK / f"{name}.md").read_text(encoding="utf-8") for name in _in_toc(TOC)}
CHAPTERS = {name: text for name, text in PAGES.items() if "/" in name}


@pytest.mark.parametrize("name", PAGES)
def test_every_number_with_a_unit_is_computed_or_cited(name: str) -> None:
    bare = bare_numbers(PAGES[name])
    assert not bare, f"book/{name}.md:\n" + "\n".join(map(str, bare))


@pytest.mark.parametrize(
    "text",
    [
        "The weights take 7.2 GiB of memory.",
        "It draws 300 W, and more at night.",
        "A run of 12,000 tokens.",
        "About 40 % of it.",
        "About 40% of it.",
        "They have 4 billion parameters.",
        "It costs $3 an hour.",
        "Between 3 and 5 hours.",
        "A value of 16 bits.",
        "# A heading of 12 GB",
        "- an item of 3.5 ms",
        "```{note}\nIt takes 2 kWh.\n```",
        ":::{pitfall} Where 8 GB went\nText.\n:::",
        "```{glue:figure} plot\n:name: fig-a\nTook 12 s.\n```",
        "| a | b |\n|--|--|\n| x | 12 GB |",
        "```{list-table} Sizes\n* - a\n  - 12 GB\n```",
        "```{quiz}\nHow much?\n\n- [x] 12 GB\n\n  Yes.\n```",
        "Measured {cite:p}`a`. It took 12 s.",
        "Term\n: Definition of 12 GB",
    ],
)
def test_a_bare_number_is_found(text: str) -> None:
    assert len(bare_numbers(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "The weights take {glue:text}`weights_gib:.1f` GiB.",
        "A {given}`16 GB` card.",
        "It draws 300 W {cite:p}`nvidia2018`.",
        "According to {cite:t}`meta2024`, 539 t of CO₂e.",
        "A `12 GB` literal, and $12\\,\\text{GB}$.",
        "$$\n12\\,\\text{GB}\n$$",
        "```python\nx = 3  # 12 GB\n```",
        "```{code-cell} python3\nx = 3  # 12 GB\n```",
        "Gemma 3 4B in a 16-bit format, chapter 12, 8 of 10.",
        "Two bytes each, in 2024.",
        "| a | b |\n|--|--|\n| x {cite:p}`s` | 12 GB |",
        ":::{list-table} Sizes {cite:p}`s`\n* - a\n  - 12 GB\n:::",
        "```{list-table} Sizes\n* - a {cite:p}`s`\n  - 12 GB\n```",
        "```{quiz}\nHow much?\n\n- [ ] 12 GB\n\n  No.\n```",
        "---\ntitle: 12 GB\n---\n\nText.",
        "% a comment of 12 GB\n",
    ],
)
def test_what_is_computed_cited_or_given_is_let_through(text: str) -> None:
    assert bare_numbers(text) == []


def test_a_bare_number_is_reported_with_its_line() -> None:
    (found,) = bare_numbers("# Title\n\nText.\n\n```{note}\n:name: n\n\nIt takes 2 kWh.\n```\n")
    assert (found.line, found.number) == (8, "2 kWh")


TEMPLATE = ["objectives", "worked", "pitfall", "summary", "quiz", "sources"]


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_has_the_parts_of_the_template_in_order(name: str) -> None:
    used = re.findall(r"^(?:```+|:::+)\{([\w:-]+)\}", CHAPTERS[name], re.MULTILINE)
    missing = [part for part in TEMPLATE if part not in used]
    assert not missing, f"book/{name}.md lacks {missing}"
    assert used.count("objectives") == used.count("summary") == used.count("sources") == 1
    assert used.count("quiz") >= 2
    ends = [used.index(part) for part in ("objectives", "summary", "quiz", "sources")]
    assert ends == sorted(ends), "objectives, then the sections, then summary, quiz, sources"
    assert "glue:figure" in used or "figure" in used


def _exercise_chapters() -> dict[str, str]:
    """The chapter that each exercise names, by the exercise's folder."""
    named = {}
    for source in sorted((BOOK.parent / "exercises").glob("[0-9]*/*.md")):
        front = yaml.safe_load(source.read_text(encoding="utf-8").split("---")[1])
        named[source.parent.name] = front["exercise"]["chapter"]
    return named


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_leads_to_its_exercises(name: str) -> None:
    for exercise, chapter in _exercise_chapters().items():
        linked = re.search(rf"\{{exercise\}}\s*{exercise}\b", CHAPTERS[name]) is not None
        assert linked or chapter != name, f"book/{name}.md does not lead to exercise {exercise}"


def test_the_glossary_defines_no_term_twice() -> None:
    terms = re.findall(
        r"^(\S.*)$", PAGES["glossary"].split("```{glossary}")[1].split("```")[0], re.MULTILINE
    )
    names = [term for term in terms if not term.startswith(":")]
    assert len(names) == len({name.lower() for name in names})
    assert names


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_links_its_terms(name: str) -> None:
    assert len(set(re.findall(r"\{term\}`([^`]+)`", CHAPTERS[name]))) >= 3


def test_every_source_says_where_to_find_it() -> None:
    entries = re.split(
        r"^@", (BOOK / "references.bib").read_text(encoding="utf-8"), flags=re.MULTILINE
    )[1:]
    assert entries
    for entry in entries:
        key = re.match(r"\w+\{([^,]+),", entry).group(1)
        assert re.search(r"\b(doi|url|isbn)\s*=", entry), f"{key} has no doi, url or isbn"
        assert re.search(r"\byear\s*=", entry), f"{key} has no year"
