"""What a reader with a phone sees of figures, tables and formulas: whole, in a size that can be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

SMALLEST_TYPE_PX = 8


@pytest.fixture
def phone(browser: Browser) -> Iterator[Page]:
    """A tab as wide as a phone."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    yield context.new_page()
    context.close()


def test_figures_are_whole_and_their_words_can_be_read(
    phone: Page, site: Path, page_names: list[str]
) -> None:
    faults = []
    seen = 0
    for name in page_names:
        phone.goto(f"file://{site}/{name}.html")
        column = phone.locator("article").bounding_box()
        for figure in phone.locator("article .figure-svg").all():
            pictures = [svg for svg in figure.locator("svg").all() if svg.is_visible()]
            assert len(pictures) == 1, f"{name}: one layout of each figure is shown"
            box = pictures[0].bounding_box()
            seen += 1
            if box["width"] > column["width"] + 1 or box["x"] < column["x"] - 1:
                faults.append(f"{name}: a figure is {box['width']:.0f} px wide")
            words = pictures[0].evaluate(
                """(svg) => { const frame = svg.getBoundingClientRect();
                    const scale = frame.width / svg.viewBox.baseVal.width;
                    return [...svg.querySelectorAll("text")].filter((t) => t.textContent.trim()).map((t) => {
                      const b = t.getBoundingClientRect();
                      return [t.textContent.trim(), parseFloat(getComputedStyle(t).fontSize) * scale,
                              b.left - frame.left, b.top - frame.top, frame.right - b.right, frame.bottom - b.bottom];
                    }); }"""
            )
            assert words
            for text, size, *margins in words:
                # Raised digits of a power are smaller, as everywhere.
                if size < SMALLEST_TYPE_PX and not re.fullmatch(r"[\d−.]+", text):
                    faults.append(f"{name}: {text!r} is set in {size:.1f} px")
                if min(margins) < -2:
                    faults.append(f"{name}: {text!r} is cut, by {min(margins):.0f} px")
    assert seen
    assert not faults, "\n".join(faults)


def test_every_entry_of_a_legend_is_there_on_a_phone_too(site: Path, page_names: list[str]) -> None:
    """Every word of the wide layout, but ticks that would touch, is in the narrow one."""
    for name in page_names:
        html = (site / f"{name}.html").read_text(encoding="utf-8")
        for wide, narrow in re.findall(
            r'<svg[^>]*class="wide"(.*?)</svg>\s*<svg[^>]*class="narrow"(.*?)</svg>',
            html,
            re.DOTALL,
        ):
            told = " ".join(re.findall(r">([^<>]+)</t", narrow))
            entries = re.findall(r'id="[^"]*legend_1".*', wide, re.DOTALL)
            for entry in re.findall(r">([^<>]+)</t", entries[0]) if entries else []:
                assert entry.strip() in told, f"{name}: {entry}"


def test_numbers_of_equations_and_titles_of_tables_do_not_scroll_away(
    phone: Page, site: Path, page_names: list[str]
) -> None:
    numbers = titles = 0
    for name in page_names:
        phone.goto(f"file://{site}/{name}.html")
        column = phone.locator("article").bounding_box()
        right = column["x"] + column["width"] + 1
        for number in phone.locator("article .eqno").all():
            numbers += 1
            box = number.bounding_box()
            assert box["x"] + box["width"] <= right, f"{name}: {number.inner_text()}"
            assert number.evaluate("(e) => !e.closest('.math-scroll')")
            assert box["height"] < 40, f"{name}: a number is broken"
        for title in phone.locator("article .table-title").all():
            titles += 1
            box = title.bounding_box()
            assert box["x"] + box["width"] <= right, f"{name}: {title.inner_text()}"
        assert phone.locator("article .table-scroll caption").count() == 0, name
    assert numbers
    assert titles


def test_what_scrolls_sideways_shows_at_which_edge_it_goes_on(
    phone: Page, site: Path, page_names: list[str]
) -> None:
    scrolling = 0
    for name in page_names:
        phone.goto(f"file://{site}/{name}.html")
        for box in phone.locator(".table-scroll, .math-scroll, article pre").all():
            hidden = box.evaluate("(b) => b.scrollWidth - b.clientWidth")
            if hidden <= 1:
                assert box.get_attribute("data-more") is None
                continue
            scrolling += 1
            assert box.get_attribute("data-more") == "end"
            assert box.evaluate("(b) => getComputedStyle(b).maskImage") != "none"
            box.evaluate("(b) => { b.scrollLeft = 1e6; }")
            phone.wait_for_function("(b) => b.dataset.more === 'start'", arg=box.element_handle())
    assert scrolling


def test_a_named_table_keeps_its_name_and_its_anchor(site: Path, page_names: list[str]) -> None:
    named = 0
    for name in page_names:
        html = (site / f"{name}.html").read_text(encoding="utf-8")
        for label in re.findall(r'<table aria-labelledby="([^"]+)"', html):
            named += 1
            assert f'id="{label}"' in html
    assert named
