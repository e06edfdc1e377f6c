"""What a reader does with the site, done in Chromium: read, search, switch colours, open answers; served and from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.site.conftest import watch_faults

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page


@pytest.fixture(params=["served", "from a file"])
def start(request: pytest.FixtureRequest, site: Path) -> str:
    """Where the site begins, once over HTTP and once from the disk."""
    if request.param == "served":
        return str(request.getfixturevalue("site_url"))
    return f"file://{site}"


def test_every_page_opens_without_a_fault(
    browser: Browser, start: str, page_names: list[str]
) -> None:
    context = browser.new_context()
    page = context.new_page()
    faults = watch_faults(page)
    for name in page_names:
        page.goto(f"{start}/{name}.html", wait_until="load")
        assert page.locator("main h1").is_visible(), name
        assert "theme" in page.evaluate("({...document.documentElement.dataset})"), name
    context.close()
    assert not faults, "\n".join(faults)


def test_the_first_address_is_the_start_page(tab: Page, start: str) -> None:
    tab.goto(f"{start}/index.html")
    assert tab.locator("h1").inner_text().startswith("Bigger Models")
    tab.click("#contents >> text=Glossary")
    tab.wait_for_url("**/glossary.html")


def test_code_is_copied_as_it_stands(browser: Browser, start: str, page_names: list[str]) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    copied = 0
    for name in page_names:
        page.goto(f"{start}/{name}.html")
        for button in page.locator("button.copy").all():
            button.focus()
            page.keyboard.press("Enter")
            page.wait_for_function("document.activeElement.textContent === 'Copied'")
            shown = button.evaluate("(b) => b.parentElement.querySelector('pre').innerText")
            assert page.evaluate("navigator.clipboard.readText()") == shown
            assert "Copy" not in shown
            copied += 1
    context.close()
    if any("/" in name for name in page_names):
        assert copied


def test_a_search_from_the_header_finds_and_opens_a_page(tab: Page, start: str) -> None:
    tab.goto(f"{start}/intro.html")
    tab.fill("#bar-query", "swamping")
    tab.press("#bar-query", "Enter")
    tab.wait_for_selector("#search-results .search li a")
    hits = tab.eval_on_selector_all(
        "#search-results .search li a", "as => as.map(a => a.getAttribute('href'))"
    )
    assert any("glossary.html" in hit for hit in hits), hits
    assert "found" in tab.locator("#search-results > [role=status]").inner_text()
    tab.click("#search-results .search li a >> nth=0")
    tab.wait_for_selector("main h1")
    assert "search.html" not in tab.url


def test_a_search_without_a_result_says_so(tab: Page, start: str) -> None:
    tab.goto(f"{start}/search.html?q=xyzzyqwert")
    tab.wait_for_selector("#search-results :text('did not match')")
    assert tab.locator("#search-results .search li").count() == 0


def test_words_typed_into_search_are_never_read_as_markup(tab: Page, start: str) -> None:
    tab.goto(f"{start}/search.html?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%20format")
    tab.wait_for_selector("#search-results h2, #search-results p")
    assert tab.locator("#search-results img").count() == 0


def test_the_colour_switch_goes_round_and_is_remembered(browser: Browser, start: str) -> None:
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(f"{start}/intro.html")

    def shown() -> tuple[str, str]:
        return page.evaluate(
            "[document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]"
        )

    assert shown()[0] == "dark"  # as the system
    page.click("#theme-button")
    light = shown()
    assert light[0] == "light"
    assert page.get_attribute("#theme-button", "aria-label") == "Colours: light"
    page.goto(f"{start}/glossary.html")
    assert shown() == light  # on the next page too
    page.click("#theme-button")
    dark = shown()
    assert dark[0] == "dark"
    assert dark[1] != light[1]
    page.click("#theme-button")
    page.emulate_media(color_scheme="light")
    page.wait_for_function(
        "document.documentElement.dataset.theme === 'light'"
    )  # follows the system live
    context.close()


def test_the_contents_open_on_a_phone_and_close_with_escape(browser: Browser, start: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    page.goto(f"{start}/intro.html")
    assert not page.locator("#contents").is_visible()
    page.tap("#menu-button")
    assert page.locator("#contents").is_visible()
    assert page.get_attribute("#menu-button", "aria-expanded") == "true"
    page.keyboard.press("Escape")
    assert not page.locator("#contents").is_visible()
    assert page.evaluate("document.activeElement.id") == "menu-button"
    page.tap("#menu-button")
    page.tap("#contents >> text=Glossary")
    page.wait_for_url("**/glossary.html")
    assert page.get_attribute("#contents a.current", "aria-current") == "page"
    context.close()


def test_the_current_page_is_in_view_in_long_contents(browser: Browser, start: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 260})
    page = context.new_page()
    page.goto(f"{start}/references.html")
    page.wait_for_function("document.getElementById('contents').scrollTop > 0")
    box, link = (
        page.locator("#contents").bounding_box(),
        page.locator("#contents a.current").bounding_box(),
    )
    assert box["y"] <= link["y"] <= box["y"] + box["height"] - link["height"]
    context.close()


def test_the_site_reads_without_scripts(
    browser: Browser, start: str, page_names: list[str]
) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page = context.new_page()
    for name in page_names:
        page.goto(f"{start}/{name}.html")
        assert page.locator("main h1").is_visible(), name
        assert page.locator("#contents a").first.is_visible(), f"{name}: no way to another page"
        for choice in page.locator(".choice").all():
            choice.locator("summary").click()
            assert choice.locator(".verdict").is_visible()
    context.close()


def test_a_reader_without_scripts_gets_the_colours_of_the_system(
    browser: Browser, start: str
) -> None:
    shown = {}
    for scheme in ("light", "dark"):
        for scripts in (True, False):
            context = browser.new_context(java_script_enabled=scripts, color_scheme=scheme)
            page = context.new_page()
            page.goto(f"{start}/intro.html")
            page.screenshot(path=None)
            shown[scheme, scripts] = page.evaluate(
                """[...["--paper", "--ink", "--accent", "--series-6", "--code-comment"]].map(
                     (name) => getComputedStyle(document.documentElement).getPropertyValue(name))"""
            )
            context.close()
    assert shown["light", False] == shown["light", True]
    assert shown["dark", False] == shown["dark", True] != shown["light", True]


@pytest.mark.parametrize("missing", ["nothing.html", "computation/nothing.html", "memory/a/b/c"])
def test_a_page_that_is_not_there_leads_back(
    browser: Browser, site: Path, site_url: str, missing: str
) -> None:
    """Below a folder, as on a project's own pages at GitHub."""
    body = (site / "404.html").read_text(encoding="utf-8")
    assert "src=" not in body
    assert "<link" not in body
    context = browser.new_context()
    page = context.new_page()
    page.route(
        "**/book/**", lambda route: route.fulfill(status=404, body=body, content_type="text/html")
    )
    page.goto(f"{site_url}/book/{missing}")
    assert page.locator("h1").inner_text() == "There is no such page"
    links = page.eval_on_selector_all("a", "as => as.map((a) => new URL(a.href).pathname)")
    assert links == ["/book/intro.html", "/book/search.html"]
    context.close()


def test_an_answer_explains_itself_with_the_keyboard_alone(
    tab: Page, start: str, page_names: list[str]
) -> None:
    quizzes = 0
    for name in page_names:
        tab.goto(f"{start}/{name}.html")
        for choice in tab.locator(".choice").all():
            quizzes += 1
            choice.locator("summary").focus()
            tab.keyboard.press("Enter")
            why = choice.locator(".why")
            assert why.is_visible()
            assert len(why.inner_text().split()) >= 4, f"{name}: an answer is not explained"
    if any("/" in name for name in page_names):
        assert quizzes


def test_formulas_are_mathml_in_the_math_font(tab: Page, start: str, page_names: list[str]) -> None:
    formulas = 0
    for name in page_names:
        tab.goto(f"{start}/{name}.html")
        tab.evaluate("document.fonts.ready")
        count = tab.locator("article math").count()
        formulas += count
        if not count:
            continue
        assert tab.evaluate(
            "[...document.fonts].some((f) => f.family.includes('Book Math') && f.status === 'loaded')"
        )
        raw = tab.evaluate(
            r"""() => { const t = document.querySelector("article").cloneNode(true);
                t.querySelectorAll("pre, code").forEach((e) => e.remove());
                return t.textContent.match(/\\(frac|text|times|begin|left|sum)|\$\$/g); }"""
        )
        assert not raw, f"{name}: TeX is left in the text: {raw}"
    assert formulas


def test_every_sign_of_every_formula_is_in_the_math_font(
    tab: Page, site: Path, page_names: list[str]
) -> None:
    """A sign outside the font's subset would be set in whatever the reader has: add it to the subset (see OFL.txt)."""
    import re

    css = (site / "_static" / "book.css").read_text(encoding="utf-8")
    listed = re.search(r"unicode-range:\s*([^;]+);", css).group(1)
    known: set[int] = set()
    for part in listed.replace("U+", "").split(","):
        first, _, last = part.strip().partition("-")
        known.update(range(int(first, 16), int(last or first, 16) + 1))
    foreign = {}
    for name in page_names:
        tab.goto(f"file://{site}/{name}.html")
        signs = set(
            tab.evaluate(
                "[...document.querySelectorAll('article math')].map((m) => m.textContent).join('')"
            )
        )
        if unknown := {sign for sign in signs if ord(sign) not in known and not sign.isspace()}:
            foreign[name] = unknown
    assert not foreign, foreign
