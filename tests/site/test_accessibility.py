"""WCAG 2.2 AA on every page, in both themes, on a desk and on a phone: by axe, and by what axe cannot see."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.conftest import need_module
from tests.site.conftest import SIZES, THEMES

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_nothing_on_any_page(
    browser: Browser, site: Path, page_names: list[str], theme: str, size: str
) -> None:
    need_module("axe_playwright_python")
    from axe_playwright_python.sync_playwright import Axe

    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
    )
    page = context.new_page()
    found = []
    for name in page_names:
        page.goto(f"file://{site}/{name}.html" + ("?q=format" if name == "search" else ""))
        # What is folded away is read too.
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        results = (
            Axe().run(page, options={"runOnly": RULES, "resultTypes": ["violations"]}).response
        )
        for violation in results["violations"]:
            places = "; ".join(node["html"][:160] for node in violation["nodes"][:4])
            found.append(
                f"{name} ({theme}, {size}): {violation['id']}: {violation['help']}: {places}"
            )
    context.close()
    assert not found, "\n".join(found)


@pytest.mark.parametrize("size", SIZES)
def test_no_page_scrolls_sideways(
    browser: Browser, site: Path, page_names: list[str], size: str
) -> None:
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height})
    page = context.new_page()
    wide = []
    for name in page_names:
        page.goto(f"file://{site}/{name}.html")
        if (found := page.evaluate("document.documentElement.scrollWidth")) > width:
            wide.append(f"{name}: {found} px at {width} px")
    context.close()
    assert not wide, wide


def test_text_can_be_enlarged_to_twice_its_size(
    browser: Browser, site: Path, page_names: list[str]
) -> None:
    """WCAG 1.4.10: at 320 CSS pixels (1280 at 400 %) nothing needs scrolling in two directions."""
    context = browser.new_context(viewport={"width": 320, "height": 640})
    page = context.new_page()
    wide = []
    for name in page_names:
        page.goto(f"file://{site}/{name}.html")
        if (found := page.evaluate("document.documentElement.scrollWidth")) > 320:
            wide.append(f"{name}: {found} px")
    context.close()
    assert not wide, wide


def test_every_figure_has_a_text_alternative(tab: Page, site: Path, page_names: list[str]) -> None:
    figures = 0
    without = []
    for name in page_names:
        tab.goto(f"file://{site}/{name}.html")
        for picture in tab.query_selector_all(
            "article img, article svg[role=img], article .figure-svg svg"
        ):
            figures += 1
            text = picture.get_attribute("alt") or picture.get_attribute("aria-label") or ""
            if len(text.split()) < 5:
                without.append(f"{name}: {picture.evaluate('e => e.outerHTML.slice(0, 120)')}")
        # A picture that is neither named nor marked as decoration would be read as nothing at all.
        without += [
            f"{name}: {picture.evaluate('e => e.outerHTML.slice(0, 120)')}"
            for picture in tab.query_selector_all(
                "article svg:not([role=img]):not([aria-hidden=true] *):not([aria-hidden=true])"
            )
        ]
    assert not without, "\n".join(without)
    assert figures or not (site / "computation").exists()


def test_headings_form_an_outline(tab: Page, site: Path, page_names: list[str]) -> None:
    wrong = []
    for name in page_names:
        tab.goto(f"file://{site}/{name}.html")
        levels = tab.eval_on_selector_all(
            "main :is(h1,h2,h3,h4,h5,h6)", "hs => hs.map(h => +h.tagName[1])"
        )
        if levels.count(1) != 1 or levels[0] != 1:
            wrong.append(f"{name}: not one h1, first: {levels}")
        if any(deeper > shallower + 1 for shallower, deeper in itertools.pairwise(levels)):
            wrong.append(f"{name}: a level is skipped: {levels}")
    assert not wrong, wrong


def test_keyboard_reaches_every_control_and_shows_where_it_is(
    tab: Page, site: Path, page_names: list[str]
) -> None:
    for name in page_names:
        tab.goto(f"file://{site}/{name}.html")
        wanted = tab.evaluate(
            """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
                 .filter((e) => e.checkVisibility({visibilityProperty: true}) && e.tabIndex >= 0
                         && !(e.type === "radio" && !e.checked))
                 .map((e, i) => { e.dataset.tabtest = i; return String(i); })"""
        )
        reached = set()
        for _ in range(len(wanted) + 60):
            tab.keyboard.press("Tab")
            state = tab.evaluate(
                """() => {
                  const e = document.activeElement;
                  const s = getComputedStyle(e);
                  return {id: e.dataset.tabtest, body: e === document.body, html: e.outerHTML.slice(0, 100),
                          shown: parseFloat(s.outlineWidth) >= 2 && s.outlineStyle !== "none"};
                }"""
            )
            if state["body"]:
                break
            assert state["shown"], f"{name}: no visible focus on {state['html']}"
            if state["id"] is not None:
                reached.add(state["id"])
        missing = [i for i in wanted if i not in reached]
        html = [
            tab.evaluate(
                f"document.querySelector('[data-tabtest=\"{i}\"]').outerHTML.slice(0, 120)"
            )
            for i in missing[:5]
        ]
        assert not missing, f"{name}: the Tab key does not reach {html}"


def test_the_skip_link_leads_to_the_text(tab: Page, site: Path) -> None:
    tab.goto(f"file://{site}/intro.html")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the text"
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "content"


def test_targets_are_large_enough_for_a_finger(browser: Browser, site: Path) -> None:
    """WCAG 2.5.8: controls of at least 24 by 24 CSS pixels; links inside a sentence are exempt."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(f"file://{site}/intro.html")
    page.click("#menu-button")
    small = page.evaluate(
        """() => [...document.querySelectorAll("button, summary, .contents a, .bar a, .turn a")]
             .filter((e) => e.checkVisibility())
             .map((e) => [e.outerHTML.slice(0, 80), e.getBoundingClientRect()])
             .filter(([, r]) => r.width && (r.width < 24 || r.height < 24)).map(([html]) => html)"""
    )
    context.close()
    assert not small, small


def test_nothing_moves_for_a_reader_who_asked_for_less_motion(browser: Browser, site: Path) -> None:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(f"file://{site}/intro.html")
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    moving = page.evaluate(
        """() => [...document.querySelectorAll("*")].filter((e) => {
             const s = getComputedStyle(e);
             return parseFloat(s.transitionDuration) > 0 || s.animationName !== "none";
           }).map((e) => e.outerHTML.slice(0, 80))"""
    )
    context.close()
    assert not moving, moving


def test_print_shows_the_text_alone_in_dark_ink_with_answers_unfolded(
    browser: Browser, site: Path, page_names: list[str]
) -> None:
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    for name in page_names:
        page.goto(f"file://{site}/{name}.html")
        page.emulate_media(media="print", color_scheme="dark")
        for hidden in (".bar", ".contents", ".turn"):
            assert not page.evaluate(
                f"[...document.querySelectorAll('{hidden}')].some((e) => e.checkVisibility())"
            ), f"{name}: {hidden} is printed"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        folded = page.evaluate(
            "[...document.querySelectorAll('.choice > .why')].filter((e) => !e.checkVisibility()).length"
        )
        assert folded == 0, f"{name}: {folded} explanations are not printed"
        page.emulate_media(media="screen")
    context.close()
