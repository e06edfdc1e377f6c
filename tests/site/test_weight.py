"""What a page costs a reader with a slow or paid connection, measured in Chromium as GitHub Pages would send it."""

from __future__ import annotations

import gzip
import sys
from typing import TYPE_CHECKING

from tests.site.conftest import watch_faults

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from playwright.sync_api import Browser, BrowserContext, Page

FIRST_VIEW_BYTES = 150_000
LATER_VIEW_BYTES = 60_000
SLOW_BYTES_PER_S = 400_000 / 8
TEXT_WITHIN_S = 3.0


def _traffic(context: BrowserContext, page: Page) -> dict[str, float]:
    """Bytes over the network by address, kept up to date while `page` loads; what the cache gives counts 0."""
    sizes: dict[str, float] = {}
    urls: dict[str, str] = {}
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.on(
        "Network.requestWillBeSent", lambda e: urls.update({e["requestId"]: e["request"]["url"]})
    )
    session.on(
        "Network.loadingFinished",
        lambda e: sizes.update({urls.get(e["requestId"], "?"): e["encodedDataLength"]}),
    )
    return sizes


def _view(page: Page, url: str) -> None:
    """Open a page and read it to its end, so that its font and its lazy images load too."""
    page.goto(url, wait_until="load")
    page.evaluate("document.fonts.ready")
    if page.evaluate("document.images.length"):
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        page.wait_for_load_state("networkidle")


def test_every_page_is_light(
    browser: Browser, site_url: str, page_names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = []
    heavy = []
    for name in page_names:
        context = browser.new_context(viewport={"width": 390, "height": 844})
        page = context.new_page()
        sizes = _traffic(context, page)
        _view(page, f"{site_url}/{name}.html")
        first, requests = sum(sizes.values()), len(sizes)
        context.close()

        # A later view: everything that another page has brought along is in the cache.
        context = browser.new_context(viewport={"width": 390, "height": 844})
        page = context.new_page()
        for other in [other for other in ("glossary", "notation", "intro") if other != name][:2]:
            _view(page, f"{site_url}/{other}.html")
        sizes = _traffic(context, page)
        _view(page, f"{site_url}/{name}.html")
        later = sum(sizes.values())
        context.close()

        rows.append((name, first, later, requests))
        if first > FIRST_VIEW_BYTES or later > LATER_VIEW_BYTES:
            heavy.append(f"{name}: first view {first:,.0f} B, later {later:,.0f} B")
    with capsys.disabled():
        sys.stdout.write(
            f"\n{'page':40} {'first view, B':>14} {'later view, B':>14} {'requests':>9}\n"
        )
        for name, first, later, requests in rows:
            sys.stdout.write(f"{name:40} {first:14,.0f} {later:14,.0f} {requests:9}\n")
    assert rows
    assert not heavy, (
        f"over {FIRST_VIEW_BYTES:,} B first or {LATER_VIEW_BYTES:,} B later:\n" + "\n".join(heavy)
    )


def test_text_shows_within_three_seconds_on_a_slow_connection(
    browser: Browser, site_url: str, page_names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    slow = {}
    for name in page_names:
        context = browser.new_context(viewport={"width": 390, "height": 844})
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        session.send(
            "Network.emulateNetworkConditions",
            {
                "offline": False,
                "latency": 150,
                "downloadThroughput": SLOW_BYTES_PER_S,
                "uploadThroughput": SLOW_BYTES_PER_S,
            },
        )
        page.goto(f"{site_url}/{name}.html", wait_until="commit")
        # Painted, and the whole text there: not the header alone.
        milliseconds = page.wait_for_function(
            """() => {
                const paint = performance.getEntriesByName("first-contentful-paint")[0];
                const loaded = performance.getEntriesByType("navigation")[0].domInteractive;
                return paint && loaded && Math.max(paint.startTime, loaded);
            }""",
            timeout=20_000,
        ).json_value()
        slow[name] = milliseconds / 1000
        context.close()
    with capsys.disabled():
        sys.stdout.write(f"\n{'page':40} {'whole text at 400 kbit/s, s':>28}\n")
        for name, seconds in slow.items():
            sys.stdout.write(f"{name:40} {seconds:28.2f}\n")
    assert all(seconds <= TEXT_WITHIN_S for seconds in slow.values()), slow


def test_nothing_is_fetched_from_elsewhere_and_no_cookie_is_set(
    browser: Browser, site_url: str, page_names: list[str]
) -> None:
    context = browser.new_context()
    page = context.new_page()
    faults = watch_faults(page)
    for name in page_names:
        _view(page, f"{site_url}/{name}.html")
    cookies = context.cookies()
    context.close()
    assert not faults, "\n".join(faults)
    assert cookies == []


def test_the_site_holds_no_file_that_no_page_needs(site: Path) -> None:
    """Big leftovers of themes and libraries would be in every offline copy."""
    files = [path for path in (site / "_static").rglob("*") if path.is_file()]
    assert files
    large = [
        f"{path.name}: {path.stat().st_size:,} B" for path in files if path.stat().st_size > 100_000
    ]
    # All that the book says, which the search page alone loads, compressed.
    words = site / "_static" / "search-data.js"
    assert large in ([], [f"{words.name}: {words.stat().st_size:,} B"])
    assert len(gzip.compress(words.read_bytes())) < 100_000
    assert not [path for path in files if path.suffix in {".map", ".ttf", ".eot"}]
