"""Search: what it finds, in which order, and what it shows of it; from a server and from a file."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.site.conftest import ROOT, watch_faults

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import book_search

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(params=["served", "from a file"])
def start(request: pytest.FixtureRequest, site: Path) -> str:
    """Where the site begins, once over HTTP and once from the disk."""
    if request.param == "served":
        return str(request.getfixturevalue("site_url"))
    return f"file://{site}"


def _search(tab: Page, start: str, words: str) -> list[tuple[str, str]]:
    """Address and text of what is found, best first."""
    tab.goto(f"{start}/search.html?q={words}")
    tab.wait_for_selector("#search-results [role=status]")
    return [
        (item.locator("a").get_attribute("href"), item.inner_text())
        for item in tab.locator("#search-results .search > li").all()
    ]


@pytest.mark.parametrize("words", ["swamping", "Swamping", "bfloat16", "optimizer state"])
def test_the_glossary_comes_first_for_its_own_terms(tab: Page, start: str, words: str) -> None:
    address, _ = _search(tab, start, words)[0]
    assert address == f"glossary.html#term-{words.lower().replace(' ', '-')}"


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("bf16", "bfloat16"),
        ("optimiser", "optimizer"),
        ("quantised", "quantized"),
        ("formats", "format"),
        ("GPU RAM", "memory"),
        ("activation checkpointing", "gradient checkpointing"),
    ],
)
def test_other_words_for_a_thing_find_the_same(
    tab: Page, start: str, words: str, same: str
) -> None:
    addresses = {address for address, _ in _search(tab, start, words)}
    wanted = {address for address, _ in _search(tab, start, same)}
    assert wanted
    assert addresses >= wanted if words != "formats" else addresses & wanted


def test_a_section_that_is_about_a_word_comes_before_one_that_names_it(
    tab: Page, start: str
) -> None:
    found = [address for address, _ in _search(tab, start, "swamping")]
    headed = [i for i, address in enumerate(found) if "#swamping" in address]
    assert headed
    assert headed[0] <= 1


def test_each_result_shows_the_place_itself_and_leads_there(tab: Page, start: str) -> None:
    faults = watch_faults(tab)
    found = _search(tab, start, "roofline")
    assert found
    for address, text in found[:5]:
        assert "roofline" in text.lower()
        tab.goto(f"{start}/{address}")
        anchor = address.partition("#")[2]
        if anchor:
            assert tab.locator(f"[id='{anchor}']").count() == 1
    assert not faults


def test_what_was_found_is_marked(tab: Page, start: str) -> None:
    _search(tab, start, "LoRA")
    marks = tab.locator("#search-results .search > li mark")
    assert marks.count()
    assert {text.lower() for text in marks.all_inner_texts()} == {"lora"}


def test_several_words_find_the_places_with_most_of_them(tab: Page, start: str) -> None:
    found = _search(tab, start, "optimizer xyzzyqwert")
    assert found
    assert "1 of 2" in tab.locator("#search-results [role=status]").inner_text()


def test_every_group_of_aliases_names_something_of_the_book(site: Path) -> None:
    text = (site / "_static" / "search-data.js").read_text(encoding="utf-8")
    data = json.loads(re.fullmatch(r"var SEARCH_DATA = (.*);\n", text, re.DOTALL).group(1))
    words = json.dumps(data["pages"], ensure_ascii=False).lower()
    for group in data["aliases"]:
        assert any(name in words for name in group), group
        assert all(name == name.lower() for name in group)
        assert len(set(group)) == len(group) > 1


def test_the_data_holds_computed_numbers_and_every_anchor(
    site: Path, page_names: list[str]
) -> None:
    anchors = 0
    for name in page_names:
        html = (site / f"{name}.html").read_text(encoding="utf-8")
        for passage in book_search.passages(html):
            assert passage.title, name
            anchors += 1
            assert f'id="{passage.anchor}"' in html or not passage.anchor, name
    assert anchors


def test_passages_are_sections_and_terms_without_code_formulas_and_answers() -> None:
    html = """<body><nav>No</nav><article><section id="a"><h1>Top<a class="headerlink" href="#a">#</a></h1>
      <p>One <b>two</b> 3.5&nbsp;GiB<br>four</p><pre>code</pre><div class="math"><div class="math-scroll"><math><mi>x</mi></math>
      </div></div><section id="b"><h2>Inner</h2><details class="choice"><summary>Answer</summary>Why</details><p>Five</p></section>
      <dl class="glossary"><dt id="term-x">ex<a class="headerlink" href="#">#</a></dt><dd><p>A letter.</p></dd></dl>
      </section></article><p>Foot</p></body>"""
    found = [(p.anchor, p.title, p.text, p.is_term) for p in book_search.passages(html)]
    assert found == [
        ("a", "Top", "One two 3.5 GiBfour", False),
        ("b", "Inner", "Five", False),
        ("term-x", "ex", "A letter.", True),
    ]


def test_a_search_stays_within_the_budget_of_a_first_view(browser: Browser, site_url: str) -> None:
    from tests.site.test_weight import FIRST_VIEW_BYTES, _traffic

    context = browser.new_context()
    page = context.new_page()
    sizes = _traffic(context, page)
    page.goto(f"{site_url}/search.html?q=format")
    page.wait_for_selector("#search-results .search li")
    page.wait_for_load_state("networkidle")
    context.close()
    assert any("search-data.js" in url for url in sizes)
    assert sum(sizes.values()) <= FIRST_VIEW_BYTES
