"""The widgets, each on a page of its own opened from a file: what they compute against Python, and what a reader does."""

from __future__ import annotations

import gzip
import importlib
import io
import math
import random
import sys
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import need_module

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
FLOATS = ["fp32", "tf32", "bf16", "fp16", "e4m3", "e5m2", "e2m1"]


@pytest.fixture(scope="session")
def widgets() -> ModuleType:
    """The Sphinx extension that places widgets."""
    need_module("sphinx")
    if (folder := str(BOOK / "_ext")) not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module("widgets")


@pytest.fixture(scope="session")
def address(widgets: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """`address(name)`: a page with this widget alone, its styles and scripts, as the book places it."""
    folder = tmp_path_factory.mktemp("widgets")
    widgets.write_data(folder)

    def made(name: str) -> str:
        def where(script: str) -> str:
            path = folder / script
            return (path if path.is_file() else BOOK / "_static" / "widgets" / script).as_uri()

        scripts = "".join(
            f'<script defer src="{where(script)}"></script>\n'
            for script in ["kit.js", *widgets.widget_scripts(name)]
        )
        page = folder / f"{name}.html"
        page.write_text(
            '<!DOCTYPE html><html lang="en" class="no-js"><head><meta charset="utf-8"><title>A widget of the book</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<script>document.documentElement.className="js";document.documentElement.dataset.theme='
            'matchMedia("(prefers-color-scheme: dark)").matches?"dark":"light"</script>'
            f'<link rel="stylesheet" href="{(BOOK / "_ext/theme/static/book.css").as_uri()}">'
            f'<link rel="stylesheet" href="{(BOOK / "_static/widgets/kit.css").as_uri()}">{scripts}</head><body>'
            f'<div class="page without-toc"><main><article><h1>A widget</h1><p>Before it.</p>'
            f"{widgets.widget_start(name)}{widgets.WIDGET_END}<p>After it.</p></article></main></div></body></html>",
            encoding="utf-8",
        )
        return page.as_uri()

    return made


@pytest.fixture(scope="module")
def explorer(browser: Browser, address: Callable[[str], str]) -> Iterator[Page]:
    """A tab with the format explorer, for tests of what its scripts compute."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(address("format_explorer"))
    yield page
    context.close()


def _encode(
    page: Page, name: str, texts: list[str], overflow: str = "infinity"
) -> list[int | None]:
    bits: list[int | None] = page.evaluate(
        """([name, texts, overflow]) => {
          const f = oneGpu.formats, format = f.FORMATS.find((one) => one.id === name);
          return texts.map((text) => f.encode(format, f.parse(text), {overflow}));
        }""",
        [name, texts, overflow],
    )
    return bits


def _differences(numbers: list[Any], got: list[Any], wanted: list[Any]) -> list[str]:
    return [
        f"{number!r}: {a!r}, not {b!r}"
        for number, a, b in zip(numbers, got, wanted, strict=True)
        if a != b
    ]


# ---------------------------------------------------------------- formats against Python


def test_the_widget_knows_the_formats_of_the_book(explorer: Page) -> None:
    from solutions.formats import FORMATS
    from tests.site.golden.formats import NAMES

    shown = explorer.evaluate(
        "oneGpu.formats.FORMATS.filter((f) => !f.integer).map((f) => [f.id, f.name, f.exponent, f.mantissa, f.specials])"
    )
    assert [NAMES[row[0]] for row in shown] == [row[1] for row in shown]
    assert {row[1]: tuple(row[2:]) for row in shown} == {n: f.key for n, f in FORMATS.items()}


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16", "e4m3", "e5m2"])
def test_numbers_are_rounded_as_torch_rounds_them(explorer: Page, name: str) -> None:
    from tests.site.golden.formats import exact, float32_only, hard_numbers, torch_bits

    numbers = float32_only(hard_numbers(name))
    assert len(numbers) > 100
    got = _encode(explorer, name, [exact(n) for n in numbers])
    assert not _differences(numbers, got, torch_bits(name, numbers))


@pytest.mark.parametrize(("name", "dtype"), [("fp32", "float32"), ("fp16", "float16")])
def test_numbers_are_rounded_as_numpy_rounds_them(explorer: Page, name: str, dtype: str) -> None:
    """numpy goes from float64 in one step, so that points a hair from the middle of two numbers tell."""
    import numpy as np

    from tests.site.golden.formats import exact, hard_numbers

    numbers = hard_numbers(name)
    assert len(numbers) > 600
    with np.errstate(over="ignore"):
        wanted = np.array(numbers).astype(dtype).view(f"u{np.dtype(dtype).itemsize}").tolist()
    got = _encode(explorer, name, [exact(n) for n in numbers])
    assert not _differences(numbers, got, wanted)


@pytest.mark.parametrize("name", ["bf16", "e4m3", "e5m2", "e2m1"])
def test_numbers_are_rounded_as_ml_dtypes_rounds_them(explorer: Page, name: str) -> None:
    from tests.site.golden.formats import exact, float32_only, hard_numbers, ml_dtypes_bits

    numbers = float32_only(hard_numbers(name))
    wanted = ml_dtypes_bits(name, numbers)
    # On overflow of E4M3 ml_dtypes gives a NaN of the number's sign; a NaN has no sign here.
    got = _encode(
        explorer, name, [exact(n) for n in numbers], "nan" if name == "e4m3" else "infinity"
    )
    if name == "e4m3":
        wanted = [0x7F if code == 0xFF else code for code in wanted]
    assert not _differences(numbers, got, wanted)


@pytest.mark.parametrize("overflow", ["infinity", "saturate", "nan"])
@pytest.mark.parametrize("name", FLOATS)
def test_numbers_are_rounded_as_the_reference_rounds_them(
    explorer: Page, name: str, overflow: str
) -> None:
    from tests.site.golden.formats import exact, hard_numbers, reference_bits

    numbers = hard_numbers(name)
    got = _encode(explorer, name, [exact(n) for n in numbers], overflow)
    assert not _differences(numbers, got, reference_bits(name, numbers, overflow))


@pytest.mark.parametrize("name", FLOATS)
def test_nan_is_stored_as_the_reference_stores_it(explorer: Page, name: str) -> None:
    from solutions.formats import FORMATS, encode
    from tests.site.golden.formats import NAMES

    fmt = FORMATS[NAMES[name]]
    wanted = None if fmt.specials == "finite" else encode(math.nan, *fmt.key, "saturate")
    assert _encode(explorer, name, ["nan"]) == [wanted]


@pytest.mark.parametrize("name", FLOATS)
def test_every_code_is_read_as_the_reference_reads_it(explorer: Page, name: str) -> None:
    from solutions.formats import FORMATS, decode
    from tests.site.golden.formats import NAMES

    fmt = FORMATS[NAMES[name]]
    draw = random.Random(name)
    codes = (
        list(range(2**fmt.bits))
        if fmt.bits <= 16
        else [draw.randrange(2**fmt.bits) for _ in range(2000)]
    )
    codes += [0, 1, 2 ** (fmt.bits - 1), 2**fmt.bits - 1]
    got = explorer.evaluate(
        """([name, codes]) => {
          const f = oneGpu.formats, format = f.FORMATS.find((one) => one.id === name);
          const plain = (v) => v.kind === "nan" ? "nan" : v.kind === "infinity" ? (v.negative ? "-inf" : "inf")
            : v.num === 0n && v.negative ? "-0" : String(f.approximate(v));
          return codes.map((code) => plain(f.decode(format, code)));
        }""",
        [name, codes],
    )

    def same(text: str, value: float) -> bool:
        number = float(text)
        both_nan = math.isnan(number) and math.isnan(value)
        return both_nan or (number == value and math.copysign(1, number) == math.copysign(1, value))

    wrong = [
        (code, text)
        for code, text in zip(codes, got, strict=True)
        if not same(text, decode(code, *fmt.key))
    ]
    assert not wrong, wrong[:5]


def test_int8_is_rounded_as_absmax_quantization_rounds(explorer: Page) -> None:
    import torch

    from solutions.implementations.quantize import absmax_int8
    from tests.site.golden.formats import exact

    draw = random.Random(8)
    for largest in (127.0, 1.0, 4.0, 0.375):
        # With 127 as the largest, halves are exact ties.
        values = [largest, -largest, 0.0, largest / 2]
        values += (
            [round(draw.uniform(-127, 127) * 2) / 2 * largest / 127 for _ in range(80)]
            if largest == 127.0
            else []
        )
        values += [draw.uniform(-largest, largest) for _ in range(200)]
        tensor = torch.tensor(values, dtype=torch.float32)
        codes, _ = absmax_int8(tensor)
        got = explorer.evaluate(
            """([texts, largest]) => {
              const f = oneGpu.formats, format = f.FORMATS.find((one) => one.integer);
              return texts.map((text) => f.encode(format, f.parse(text), {blockMax: f.parse(largest)}));
            }""",
            [[exact(v) for v in tensor.tolist()], exact(largest)],
        )
        signed = [code - 256 if code >= 128 else code for code in got]
        assert not _differences(values, signed, codes.tolist())


EXAMINE = """([name, texts, overflow]) => {
  const f = oneGpu.formats, format = f.FORMATS.find((one) => one.id === name);
  const options = {overflow, blockMax: f.parse("1")};
  const plain = (v) => v === null ? null : v.kind !== "finite" ? v.kind : `${v.negative && v.num ? "-" : ""}${v.num}/${v.den}`;
  return texts.map((text) => {
    const value = f.parse(text), r = f.examine(format, value, f.encode(format, value, options), options);
    return {stored: plain(r.stored), error: plain(r.error), relative: plain(r.relative), below: plain(r.below),
            above: plain(r.above), kind: r.kind, event: r.event};
  });
}"""


@pytest.mark.parametrize("name", FLOATS)
def test_errors_are_exact_fractions(explorer: Page, name: str) -> None:
    from solutions.formats import FORMATS, decode, encode
    from tests.site.golden.formats import NAMES, exact, hard_numbers

    fmt = FORMATS[NAMES[name]]
    numbers = [n for n in hard_numbers(name, count=30) if not math.isinf(n)]
    for number, found in zip(
        numbers,
        explorer.evaluate(EXAMINE, [name, [exact(n) for n in numbers], "infinity"]),
        strict=True,
    ):
        stored = decode(encode(number, *fmt.key, fmt.default_overflow), *fmt.key)
        if math.isinf(stored):
            assert (found["stored"], found["error"], found["event"]) == (
                "infinity",
                None,
                "overflow",
            ), number
            continue
        assert Fraction(found["stored"]) == Fraction(stored), number
        assert Fraction(found["error"]) == Fraction(stored) - Fraction(number), number
        if number:
            assert Fraction(found["relative"]) == abs(Fraction(stored) / Fraction(number) - 1), (
                number
            )
        assert (found["event"] == "exact") == (stored == number)


def test_neighbours_are_those_of_numpy(explorer: Page) -> None:
    import numpy as np

    from tests.site.golden.formats import exact, float32_only, hard_numbers

    for name, dtype in (("fp32", np.float32), ("fp16", np.float16)):
        numbers = float32_only(hard_numbers(name, count=30))
        with np.errstate(over="ignore"):
            stored = [dtype(n) for n in numbers]
        found = explorer.evaluate(EXAMINE, [name, [exact(n) for n in numbers], "infinity"])
        for value, one in zip(stored, found, strict=True):
            for side, towards in (("below", -math.inf), ("above", math.inf)):
                with np.errstate(over="ignore", under="ignore"):
                    wanted = float(np.nextafter(value, dtype(towards)))
                if math.isinf(value) and math.copysign(1, value) == math.copysign(1, towards):
                    assert one[side] is None
                elif math.isinf(wanted):
                    assert one[side] == "infinity"
                else:
                    assert Fraction(one[side]) == Fraction(wanted), (name, value, side)


@pytest.mark.parametrize(
    ("name", "text", "kind", "event"),
    [
        ("fp16", "65504", "normal", "exact"),
        ("fp16", "65519", "normal", "rounded"),
        ("fp16", "65520", "infinity", "overflow"),
        ("fp16", "2^-24", "subnormal", "exact"),
        ("fp16", "3e-8", "subnormal", "rounded"),
        ("fp16", "2^-25", "zero", "underflow"),
        ("fp16", "-0", "zero", "exact"),
        ("fp16", "inf", "infinity", "exact"),
        ("fp16", "nan", "NaN", "exact"),
        ("bf16", "65520", "normal", "rounded"),
        ("bf16", "1e39", "infinity", "overflow"),
        ("e4m3", "448", "normal", "exact"),
        ("e4m3", "464", "normal", "rounded"),
        ("e4m3", "465", "normal", "overflow"),
        ("e4m3", "inf", "normal", "overflow"),
        ("e5m2", "57344", "normal", "exact"),
        ("e5m2", "61440", "infinity", "overflow"),
        ("e2m1", "6.9", "normal", "rounded"),
        ("e2m1", "7", "normal", "overflow"),
        ("e2m1", "0.5", "subnormal", "exact"),
        ("int8", "2", "integer", "overflow"),
        ("int8", "0.001", "zero", "underflow"),
        ("int8", "1", "integer", "exact"),
    ],
)
def test_what_becomes_of_a_number_is_named(
    explorer: Page, name: str, text: str, kind: str, event: str
) -> None:
    (found,) = explorer.evaluate(EXAMINE, [name, [text], "infinity"])
    assert (found["kind"], found["event"]) == (kind, event)


# ---------------------------------------------------------------- reading and writing numbers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        (" 65,504 ", Fraction(65504)),
        ("1,234.5", Fraction(2469, 2)),
        ("-3e-8", Fraction(-3, 10**8)),
        ("1E+3", Fraction(1000)),
        ("−2", Fraction(-2)),
        ("1/3", Fraction(1, 3)),
        ("2^-24", Fraction(1, 2**24)),
        ("2**10", Fraction(1024)),
        ("-2^2", Fraction(-4)),
        ("(1+1/4)*2^3", Fraction(10)),
        ("1 + 2^-11", 1 + Fraction(1, 2**11)),
        ("1 - 1 - 1", Fraction(-1)),
        ("8/2/2", Fraction(2)),
        ("3 × 10^-2", Fraction(3, 100)),
        ("--1", Fraction(1)),
        ("1/-3", Fraction(-1, 3)),
    ],
)
def test_a_typed_number_is_read_exactly(explorer: Page, text: str, value: Fraction) -> None:
    num, den = explorer.evaluate(
        "(text) => { const v = oneGpu.formats.parse(text); return [`${v.negative && v.num ? '-' : ''}${v.num}`, String(v.den)]; }",
        text,
    )
    assert Fraction(int(num), int(den)) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "1..2",
        "1/0",
        "0^-1",
        "2^0.5",
        "1e5000",
        "9^9^9",
        "(1",
        "1)",
        "1 2",
        "+",
        "2^99999",
        "x" * 500,
        "1e",
    ],
)
def test_what_is_no_number_is_answered_with_a_sentence(explorer: Page, text: str) -> None:
    said = explorer.evaluate(
        "(text) => { try { oneGpu.formats.parse(text); return null; } catch (e) { return e.constructor === Error ? e.message : 'fault: ' + e; } }",
        text,
    )
    assert said is not None
    assert not said.startswith("fault")
    assert len(said.split()) >= 4


def test_numbers_are_written_in_the_digits_that_python_gives(explorer: Page) -> None:
    draw = random.Random(3)
    numbers = [draw.uniform(1, 10) * 10.0 ** draw.randrange(-12, 12) for _ in range(300)]
    numbers += [9.9999995, 99999.95, 0.00099999, 1e6, 1234567.0, 0.5, 2.0**-149, 1e300]
    from tests.site.golden.formats import exact

    for digits in (3, 6, 12):
        texts = explorer.evaluate(
            "([texts, digits]) => texts.map((t) => oneGpu.formats.show(oneGpu.formats.parse(t), digits).text)",
            [[exact(n) for n in numbers], digits],
        )
        for number, text in zip(numbers, texts, strict=True):
            plain = (
                text.replace(",", "")
                .translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
                .replace(" × 10", "e")
            )
            rounded = Context(prec=digits, rounding=ROUND_HALF_EVEN).create_decimal(Decimal(number))
            assert Decimal(plain) == rounded, (number, text)


def test_a_number_taken_from_bits_is_read_back_as_the_same_number(explorer: Page) -> None:
    wrong = explorer.evaluate(
        """() => {
          const f = oneGpu.formats, wrong = [], options = {blockMax: f.parse("1/3")};
          for (const format of f.FORMATS) {
            const last = 2 ** f.width(format), step = Math.max(1, Math.floor(last / 509));
            for (let code = 0; code < last; code += step) {
              const value = f.decode(format, code, options), again = f.parse(f.typed(value));
              const same = value.kind === again.kind && (value.kind === "nan" || value.negative === again.negative)
                && (value.kind !== "finite" || f.compare(value, again) === 0);
              if (!same) { wrong.push([format.id, code, f.typed(value)]); }
            }
          }
          return wrong;
        }"""
    )
    assert not wrong


# ---------------------------------------------------------------- what a reader does, for every widget

NAMES = ["format_explorer", "memory_ledger", "batch_packing", "flops_to_hours", "roofline"]
SIZES = {"desktop": (1280, 900), "phone": (390, 844), "narrow": (320, 640)}


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """Each widget in turn."""
    return str(request.param)


@pytest.fixture
def open_tab(browser: Browser, address: Callable[[str], str]) -> Iterator[Callable[..., Page]]:
    """`open_tab(name, hash="", **context)`: the widget's page; the test fails on any error that it reports."""
    from tests.site.conftest import watch_faults

    contexts: list[BrowserContext] = []
    faults: list[list[str]] = []

    def opened(name: str, hash: str = "", **settings: Any) -> Page:
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        faults.append(watch_faults(page))
        page.goto(address(name) + hash)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not [fault for found in faults for fault in found]


def test_a_reader_without_scripts_gets_a_table(open_tab: Callable[..., Page], name: str) -> None:
    page = open_tab(name, java_script_enabled=False)
    assert page.locator(".widget table tbody tr").count() >= 3
    assert page.locator(".widget table").first.is_visible()
    assert page.locator(".widget button").count() == 0


def test_what_is_there_without_scripts_gives_way_to_the_widget(
    open_tab: Callable[..., Page], name: str
) -> None:
    page = open_tab(name)
    assert page.locator(".widget-body").is_visible()
    assert not page.locator(".widget-fallback").is_visible()


def test_if_a_widget_cannot_start_its_table_comes_back(
    browser: Browser, address: Callable[[str], str], name: str
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.route("**/kit.js", lambda route: route.abort())
    page.goto(address(name))
    page.wait_for_function(
        "getComputedStyle(document.querySelector('.widget-fallback')).visibility === 'visible'",
        timeout=5000,
    )
    context.close()


def test_axe_finds_nothing_in_a_widget_that_was_used(
    open_tab: Callable[..., Page], name: str
) -> None:
    """As they are at first, the site's own test looks at them, in every theme and size."""
    need_module("axe_playwright_python")
    from axe_playwright_python.sync_playwright import Axe

    used = {
        "format_explorer": "?n=nan&overflow=nan&block=0.3",
        "memory_ledger": "?method=qlora&seq=4096",
        "batch_packing": "?way=packed&max=200",
        "flops_to_hours": "?gpu=t4&seq=4096",
        "roofline": "?gpu=h100-sxm&batch=64&method=qlora",
    }
    page = open_tab(
        name, f"#{name}{used[name]}", viewport={"width": 390, "height": 844}, color_scheme="dark"
    )
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.locator(".widget input").first.fill("?" if name == "format_explorer" else "0")
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    results = Axe().run(page, options={"runOnly": rules, "preload": False}).response
    assert not [
        (violation["id"], [node["html"][:150] for node in violation["nodes"][:3]])
        for violation in results["violations"]
    ]


@pytest.mark.parametrize("size", SIZES)
def test_a_widget_never_widens_the_page(
    open_tab: Callable[..., Page], name: str, size: str
) -> None:
    width, height = SIZES[size]
    page = open_tab(name, viewport={"width": width, "height": height})
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_control_is_large_enough_for_a_finger(
    open_tab: Callable[..., Page], name: str
) -> None:
    page = open_tab(name, viewport={"width": 390, "height": 844}, has_touch=True)
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    small = page.evaluate(
        """() => [...document.querySelectorAll(".widget :is(button, input, select, summary)")].filter((e) => e.checkVisibility())
             .map((e) => [e.outerHTML.slice(0, 90), e.getBoundingClientRect()])
             .filter(([, r]) => r.width < 24 || r.height < 24).map(([html]) => html)"""
    )
    assert not small


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_the_page_does_not_jump_when_a_widget_starts(
    open_tab: Callable[..., Page], name: str, size: str
) -> None:
    width, height = SIZES[size]
    page = open_tab(name, viewport={"width": width, "height": height})
    page.wait_for_timeout(300)
    shift = page.evaluate(
        """() => new Promise((done) => {
          let sum = 0;
          new PerformanceObserver((list) => { for (const e of list.getEntries()) { sum += e.value; } })
            .observe({type: "layout-shift", buffered: true});
          setTimeout(() => done(sum), 200);
        })"""
    )
    assert shift < 0.01


def test_words_on_coloured_shapes_have_enough_contrast(
    open_tab: Callable[..., Page], name: str
) -> None:
    for theme in ("light", "dark"):
        page = open_tab(name, color_scheme=theme)
        ratios = page.evaluate(
            """() => {
              const root = getComputedStyle(document.documentElement);
              const level = (name) => {
                const hex = root.getPropertyValue(name).trim().slice(1);
                const full = hex.length === 3 ? [...hex].map((c) => c + c).join("") : hex;
                const [r, g, b] = [0, 2, 4].map((i) => parseInt(full.slice(i, i + 2), 16) / 255)
                  .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
              };
              return [1, 2, 3, 4, 5, 6].map((i) => {
                const pair = [level(`--series-${i}`), level("--paper")];
                return Math.max(...pair) / Math.min(...pair);
              });
            }"""
        )
        assert min(ratios) >= 4.5, (theme, ratios)


def test_a_widget_and_the_kit_are_small(widgets: ModuleType, tmp_path: Path, name: str) -> None:
    widgets.write_data(tmp_path)
    folder = BOOK / "_static" / "widgets"
    files = ["kit.js", *widgets.widget_scripts(name)]
    size = sum(
        len(
            gzip.compress(
                (tmp_path / f if (tmp_path / f).is_file() else folder / f).read_bytes(), 6
            )
        )
        for f in files
    )
    assert size < 25_000


# ---------------------------------------------------------------- the format explorer


def _card(page: Page, fmt: str) -> dict[str, str]:
    card: dict[str, str] = page.locator(f".fx-card-{fmt}").evaluate(
        """(card) => ({bits: [...card.querySelectorAll(".fx-bits button")].map((b) => b.textContent).join(""),
             state: card.querySelector(".fx-state").textContent, value: card.querySelector(".fx-value").textContent,
             error: card.querySelectorAll("dd")[1].textContent, reads: card.querySelectorAll("dd")[2].textContent,
             ends: card.querySelector(".fx-ends").innerText})"""
    )
    return card


def test_typing_a_number_shows_it_in_every_format(open_tab: Callable[..., Page]) -> None:
    page = open_tab("format_explorer")
    page.get_by_label("Number", exact=True).fill("65520")
    assert _card(page, "fp16")["bits"] == "0111110000000000"
    assert _card(page, "fp16")["state"] == "overflow to infinity"
    assert _card(page, "bf16")["value"] == "65,536"
    assert _card(page, "bf16")["error"] == "+16, relative 0.000244"
    assert _card(page, "e4m3")["state"] == "overflow to the largest"
    page.get_by_label("Number", exact=True).fill("nan")
    assert _card(page, "fp16")["bits"] == "0111111000000000"
    assert _card(page, "e2m1")["state"] == "cannot be stored"
    page.get_by_label("Number", exact=True).fill("3e-8")
    assert _card(page, "fp16")["state"] == "subnormal, rounded"
    assert _card(page, "e4m3")["state"] == "underflow to zero"


def test_a_mistyped_number_says_so_and_shows_no_old_result(open_tab: Callable[..., Page]) -> None:
    page = open_tab("format_explorer")
    number = page.get_by_label("Number", exact=True)
    number.fill("1..2")
    assert number.get_attribute("aria-invalid") == "true"
    described = number.get_attribute("aria-describedby")
    assert described
    assert "Cannot read" in page.locator(f"#{described.split()[0]}").inner_text()
    assert not page.locator(".fx-card-fp16 .fx-value").is_visible()
    page.wait_for_selector("[aria-live]:text('Cannot read')", state="attached")
    number.fill("2")
    assert page.locator(".fx-card-fp16 .fx-value").is_visible()
    assert number.get_attribute("aria-invalid") is None
    assert _card(page, "fp16")["value"] == "2"


@pytest.mark.parametrize("text", ["inf", "-inf", "1e39"])
def test_what_passes_the_largest_number_becomes_it_where_there_is_no_infinity(
    open_tab: Callable[..., Page], text: str
) -> None:
    page = open_tab("format_explorer")
    page.get_by_label("Number", exact=True).fill(text)
    assert _card(page, "e4m3")["state"] == "overflow to the largest"
    assert _card(page, "e2m1")["state"] == "overflow to the largest"


def test_bits_are_changed_with_the_keyboard_alone(open_tab: Callable[..., Page]) -> None:
    page = open_tab("format_explorer", "#format_explorer?n=1")
    bits = page.locator(".fx-card-fp16 .fx-bits button")
    bits.first.focus()
    assert page.locator(".fx-card-fp16 .fx-bits button[tabindex='0']").count() == 1
    page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    assert (
        page.evaluate("document.activeElement.getAttribute('aria-label')")
        == "mantissa bit worth 1/1,024"
    )
    page.keyboard.press("Space")
    assert bits.last.get_attribute("aria-pressed") == "true"
    assert page.get_by_label("Number", exact=True).input_value() == "1.0009765625"
    assert _card(page, "fp16")["value"] == "1.0009765625"
    assert _card(page, "bf16")["value"] == "1"
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    assert page.get_by_label("Number", exact=True).input_value() == "-1.0009765625"
    page.keyboard.press("Tab")  # leaves the row of bits at once
    assert page.evaluate("document.activeElement.closest('.fx-card-fp16')") is None


def test_bits_can_make_every_nan_and_keep_it(open_tab: Callable[..., Page]) -> None:
    page = open_tab("format_explorer", "#format_explorer?n=inf")
    page.locator(".fx-card-fp16 .fx-bits button").last.click()
    card = _card(page, "fp16")
    assert (card["bits"], card["state"], card["value"]) == ("0111110000000001", "NaN", "NaN")
    assert _card(page, "bf16")["bits"] == "0111111111000000"


def test_dragging_the_slider_moves_the_number(open_tab: Callable[..., Page]) -> None:
    page = open_tab("format_explorer", "#format_explorer?n=-1")
    slider = page.get_by_label("Drag its size")
    slider.focus()
    page.keyboard.press("ArrowRight")
    number = page.get_by_label("Number", exact=True)
    assert float(number.input_value()) == pytest.approx(-(2**0.02), rel=0.01)
    slider.fill("17")
    assert number.input_value() == "-131000"
    assert slider.get_attribute("aria-valuetext") == "131000"
    assert _card(page, "fp16")["value"] == "−∞"


def test_the_address_changes_once_after_a_drag(open_tab: Callable[..., Page]) -> None:
    """Safari throws when it changes a hundred times in half a minute."""
    page = open_tab("format_explorer")
    changes = page.evaluate(
        """() => new Promise((done) => {
          const slider = document.querySelector("input[type=range]"), real = history.replaceState;
          let calls = 0;
          history.replaceState = (...all) => { calls += 1; real.apply(history, all); };
          for (let i = 0; i < 300; i += 1) { slider.value = i / 30; slider.dispatchEvent(new Event("input")); }
          setTimeout(() => done(calls), 600);
        })"""
    )
    assert changes == 1
    assert "n=" in page.url


def test_overflow_and_the_scale_of_int8_can_be_set(open_tab: Callable[..., Page]) -> None:
    page = open_tab("format_explorer", "#format_explorer?n=70000")
    page.get_by_text("Overflow, and the scale of INT8").click()
    page.get_by_label("Too large becomes").select_option("saturate")
    assert _card(page, "fp16")["value"] == "65,504"
    page.get_by_label("Too large becomes").select_option("nan")
    assert _card(page, "e4m3")["value"] == "NaN"
    assert _card(page, "e2m1")["value"] == "6"
    page.get_by_label("INT8: largest value of the block").fill("127000")
    assert _card(page, "int8")["value"] == "70,000"
    page.get_by_label("INT8: largest value of the block").fill("0")
    assert page.get_by_text("A number above 0").is_visible()


def test_a_change_is_spoken_once_the_reader_pauses(open_tab: Callable[..., Page]) -> None:
    page = open_tab("format_explorer")
    region = page.locator(".widget [aria-live=polite]")
    assert region.inner_text() == ""
    for text in ("3", "30", "300"):
        page.get_by_label("Number", exact=True).fill(text)
    assert region.inner_text() == ""
    page.wait_for_function("document.querySelector('.widget [aria-live]').textContent !== ''")
    assert region.text_content() == "300: BF16 stores 300, FP16 stores 300, FP8 E4M3 stores 288."


def test_the_address_brings_another_reader_to_the_same_number(
    open_tab: Callable[..., Page],
) -> None:
    page = open_tab("format_explorer")
    page.get_by_label("Number", exact=True).fill("1 + 2^-11")
    page.wait_for_function("location.hash !== ''")
    link = page.url
    other = open_tab("format_explorer", "#" + link.split("#")[1])
    assert other.get_by_label("Number", exact=True).input_value() == "1 + 2^-11"
    assert _card(other, "fp16") == _card(page, "fp16")
    broken = open_tab(
        "format_explorer", "#format_explorer?n=%3Cimg%20src=x%3E&overflow=no&block=-1&other=2"
    )
    assert broken.get_by_label("Number", exact=True).input_value() == "0.1"
    assert broken.get_by_label("Too large becomes").input_value() == "infinity"


# ---------------------------------------------------------------- the memory ledger


@pytest.fixture(scope="module")
def ledger(browser: Browser, address: Callable[[str], str]) -> Iterator[Page]:
    """A tab with the memory ledger, for tests of what its scripts compute."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(address("memory_ledger"))
    yield page
    context.close()


def test_every_part_of_the_ledger_is_what_the_reference_gives(
    ledger: Page, widgets: ModuleType
) -> None:
    from tests.site.golden.memory import reference, settings

    drawn = settings(widgets.LEDGER_MODELS, widgets.LEDGER_SCHEMES, 800)
    found = ledger.evaluate("(settings) => settings.map(oneGpu.memory.trainingMemory)", drawn)
    wrong = [
        f"{setting}: {moment}: {part}: {got.get(moment, {}).get(part)}, not {wanted.get(moment, {}).get(part)}"
        for setting, got in zip(drawn, found, strict=True)
        for wanted in [reference(setting)]
        for moment, part in sorted(
            {(m, p) for side in (got, wanted) for m, parts in side.items() for p in parts}
        )
        if got.get(moment, {}).get(part) != wanted.get(moment, {}).get(part)
    ]
    assert not wrong, f"{len(wrong)} parts differ, the first: {wrong[0]}"


def test_every_part_of_the_reference_has_a_name_in_the_ledger(
    ledger: Page, widgets: ModuleType
) -> None:
    from tests.site.golden.memory import reference, settings

    named = set(ledger.evaluate("oneGpu.ledgerParts"))
    parts = {
        part
        for setting in settings(widgets.LEDGER_MODELS, widgets.LEDGER_SCHEMES, 60)
        for moment in reference(setting).values()
        for part in moment
    }
    assert parts == named


def test_the_ledger_shows_the_peak_of_the_reference(open_tab: Callable[..., Page]) -> None:
    from solutions.shapes import model_shape
    from solutions.training_memory import Training, training_memory

    page = open_tab("memory_ledger")
    page.get_by_label("Model").select_option("gemma3-1b")
    page.get_by_label("Method").select_option("qlora")
    page.get_by_label("Optimizer", exact=True).select_option("paged_adamw8bit")
    page.get_by_label("Batch, sequences").fill("4")
    page.get_by_label("Sequence, tokens").fill("1536")
    page.get_by_label("Attention").select_option("eager")
    page.get_by_label("Adapter rank").select_option("64")
    page.get_by_label("Gradient checkpointing").check()
    memory = training_memory(
        Training(
            shape=model_shape("gemma3-1b"),
            method="qlora",
            optimizer="paged_adamw8bit",
            batch=4,
            seq=1536,
            attention="eager",
            rank=64,
            checkpointing=True,
            quantization="nf4-dq",
        )
    )
    shown = f"{memory.total_bytes / 2**30:.2f} GiB"
    assert (
        f"QLoRA of Gemma 3 1B peaks at {shown} ({memory.peak.name})"
        in page.locator(".ml-headline").inner_text()
    )
    table = page.locator(".widget-body > div > div > .w-table table")
    total = table.locator("tbody tr").last.inner_text().split("\t")
    assert [cell.strip() for cell in total] == ["Total at the peak", shown, "100.0 %"]
    rows = {
        cells[0]: cells[1]
        for cells in (row.split("\t") for row in table.locator("tbody tr").all_inner_texts())
    }
    assert len(rows) == sum(part.bytes > 0 for part in memory.parts) + 1


def test_a_card_is_judged_as_the_reference_judges_it(open_tab: Callable[..., Page]) -> None:
    from solutions.hardware import gpu
    from solutions.memory import fits
    from solutions.shapes import model_shape
    from solutions.training_memory import Training, training_memory

    verdicts = set()
    for seq in (256, 1024, 1152, 2048, 4096):
        page = open_tab("memory_ledger", f"#memory_ledger?method=lora&seq={seq}")
        peak = training_memory(
            Training(shape=model_shape("gemma3-4b"), batch=1, seq=seq, method="lora")
        ).total_bytes
        words = page.locator(".w-plot svg text").all_text_contents()
        for name, title in (("t4", "T4"), ("l4", "L4"), ("a100-40gb", "A100 40 GB")):
            usable = gpu(name).usable_bytes
            assert usable
            wanted = "✓" if fits(peak, usable, 0.1) else "!" if fits(peak, usable, 0) else "✗"
            shown = words[words.index(title) + 1]
            assert shown[0] == wanted, (seq, title, shown)
            assert shown.split()[-3] == f"{abs(usable - peak) / 2**30:.2f}"
            verdicts.add(wanted)
    assert verdicts == {"✓", "!", "✗"}


def test_cards_that_emulate_the_precision_are_named(open_tab: Callable[..., Page]) -> None:
    from solutions.hardware import gpu

    page = open_tab("memory_ledger")
    note = page.locator(".w-note", has_text="Without units")
    assert not gpu("t4").is_native("bfloat16")
    assert note.inner_text() == "Without units for bfloat16, which works there but slowly: T4."
    page.get_by_label("Precision").select_option("float16")
    assert gpu("t4").is_native("float16")
    assert not note.is_visible()


@pytest.mark.parametrize("model", ["gemma3-4b", "gemma3-1b", "llama3.2-1b", "gpt2"])
def test_the_ledger_warns_of_overflow_where_the_command_line_does(
    open_tab: Callable[..., Page], model: str
) -> None:
    from solutions import estimate

    for precision in ("float16", "float16-mixed", "bfloat16", "float32"):
        page = open_tab("memory_ledger", f"#memory_ledger?model={model}&precision={precision}")
        given = estimate.parser().parse_args([model, "--precision", precision])
        warned = [w for w in estimate.estimate(given).warnings if "overflow" in w]
        shown = page.locator(".w-note", has_text="overflow in float16")
        assert shown.all_inner_texts() == [f"Warning: {words}." for words in warned]


@pytest.mark.parametrize(
    ("words", "layers"),
    [
        # PyTorch has no fused kernel for bfloat16 before compute capability 8.0.
        ("model=gemma3-4b&precision=bfloat16", 34),
        # Grouped queries: 5 of the 34 layers are global, and pass no mask at any length.
        ("model=gemma3-4b&precision=float16&seq=2048", 5),
        ("model=gemma3-4b&precision=float16&seq=1024", 5),
        ("model=gemma3-4b&precision=float16&seq=1023", 34),
        ("model=llama3.2-1b&precision=float16-mixed", 16),
        ("model=gpt2&precision=float16", 0),
        ("model=gpt2&precision=bfloat16-mixed", 12),
    ],
)
def test_the_ledger_says_which_layers_a_t4_cannot_fuse(
    open_tab: Callable[..., Page], words: str, layers: int
) -> None:
    page = open_tab("memory_ledger", f"#memory_ledger?{words}")
    note = page.locator(".w-note", has_text="On a T4").inner_text()
    assert f"On a T4, {layers} of " in note if layers else "every layer" in note
    page.get_by_label("Attention").select_option("eager")
    assert page.locator(".w-note", has_text="On a T4").count() == 0


def test_transformers_asks_for_grouped_queries_where_the_caveat_says_so() -> None:
    import torch
    from transformers.integrations.sdpa_attention import use_gqa_in_sdpa

    from solutions.caveats import unfused_layers
    from solutions.shapes import model_names, model_shape

    for name in model_names():
        shape = model_shape(name)
        key = torch.empty(1, shape.kv_heads, 1, shape.head_dim, device="meta")
        grouped = shape.kv_heads < shape.heads and use_gqa_in_sdpa(None, key, key)
        masked = shape.sliding_window is not None
        unmasked = shape.global_layers if masked else shape.layers
        assert not use_gqa_in_sdpa(torch.empty(1, device="meta"), key, key)
        assert unfused_layers(shape, 10**6, "float16") == (unmasked if grouped else 0), name


def test_sizes_out_of_range_are_answered_with_a_sentence(open_tab: Callable[..., Page]) -> None:
    page = open_tab("memory_ledger")
    before = page.locator(".ml-headline").inner_text()
    batch = page.get_by_label("Batch, sequences")
    for wrong in ("0", "", "-1", "1.5", "1e9"):
        batch.fill(wrong)
        assert batch.get_attribute("aria-invalid") == "true"
        error = page.locator(".w-error", has_text="A whole number from 1 to 1,024.")
        assert error.is_visible()
        assert page.locator(".ml-headline").inner_text().startswith("No estimate yet. Batch")
        assert not page.locator(".w-plot svg").first.is_visible(), "an old result is shown"
    page.wait_for_selector("[aria-live]:text('No estimate yet')", state="attached")
    batch.fill("2")
    assert batch.get_attribute("aria-invalid") is None
    assert " peaks at " in page.locator(".ml-headline").inner_text() != before
    assert page.locator(".w-plot svg").first.is_visible()


def test_fields_that_do_not_apply_are_hidden(open_tab: Callable[..., Page]) -> None:
    page = open_tab("memory_ledger")
    rank, base = page.get_by_label("Adapter rank"), page.get_by_label("Base weights in")
    assert [rank.is_visible(), base.is_visible()] == [False, False]
    page.get_by_label("Method").select_option("lora")
    assert [rank.is_visible(), base.is_visible()] == [True, False]
    page.get_by_label("Method").select_option("qlora")
    assert [rank.is_visible(), base.is_visible()] == [True, True]


def test_the_ledger_is_used_spoken_and_linked_with_the_keyboard_alone(
    open_tab: Callable[..., Page],
) -> None:
    page = open_tab("memory_ledger")
    page.get_by_label("Method").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.get_by_label("Method").input_value() == "qlora"
    while page.evaluate("document.activeElement.type") != "checkbox":
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    spoken = page.locator(".ml-headline").text_content()
    page.wait_for_function(
        "(words) => document.querySelector('.widget [aria-live]').textContent === words", arg=spoken
    )
    page.wait_for_function("location.hash.includes('checkpointing=true')")
    other = open_tab("memory_ledger", "#" + page.url.split("#")[1])
    assert other.locator(".ml-headline").text_content() == spoken
    broken = open_tab(
        "memory_ledger", "#memory_ledger?model=banana&batch=-3&seq=1e99&rank=5&optimizer=%00"
    )
    assert "Gemma 3 4B" in broken.locator(".ml-headline").inner_text()


def test_the_lines_are_those_of_the_table_and_of_the_reference(
    open_tab: Callable[..., Page],
) -> None:
    from solutions.shapes import model_shape
    from solutions.training_memory import Training, training_memory

    page = open_tab("memory_ledger", "#memory_ledger?model=llama3.2-1b&batch=2&quantization=nf4")
    page.get_by_text("How it grows with the sequence").click()
    assert page.locator(".w-plot polyline").count() == 3
    page.get_by_text("Show as table").click()
    rows = [
        row.split("\t") for row in page.locator(".w-details .w-table tbody tr").all_inner_texts()
    ]
    assert len(rows) == 8
    for seq, *peaks in rows:
        for method, shown in zip(("full", "lora", "qlora"), peaks, strict=True):
            memory = training_memory(
                Training(
                    shape=model_shape("llama3.2-1b"),
                    batch=2,
                    seq=int(seq.replace(",", "")),
                    method=method,
                )
            )
            assert shown.strip() == f"{memory.total_bytes / 2**30:,.2f}"


def test_plots_are_drawn_anew_when_the_window_changes(open_tab: Callable[..., Page]) -> None:
    page = open_tab("memory_ledger", viewport={"width": 1000, "height": 800})
    wide = page.locator(".w-plot svg").first.evaluate("(s) => s.getBoundingClientRect().width")
    page.set_viewport_size({"width": 360, "height": 700})
    page.wait_for_function(
        f"document.querySelector('.w-plot svg').getBoundingClientRect().width < {wide / 2}"
    )
    outside = page.evaluate(
        """() => { const box = document.querySelector(".w-plot").getBoundingClientRect();
             return [...document.querySelectorAll(".w-plot")][0].querySelectorAll("text").length
               && [...document.querySelector(".w-plot").querySelectorAll("text")].map((t) => [t.textContent, t.getBoundingClientRect()])
                 .filter(([, r]) => r.left < box.left - 1 || r.right > box.right + 1).map(([words]) => words); }"""
    )
    assert outside == []


# ---------------------------------------------------------------- batch packing


@pytest.fixture(scope="module")
def packing(browser: Browser, address: Callable[[str], str]) -> Iterator[Page]:
    """A tab with the batch packing widget, for tests of what its scripts compute."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(address("batch_packing"))
    yield page
    context.close()


def test_batches_of_the_widget_are_those_of_the_reference(packing: Page) -> None:
    from gradelib import Shape
    from solutions.batching import WAYS, batches, epoch_flops, padding_waste

    draw = random.Random(5)
    settings = []
    for longest in (1, 3, 40, 384, 8192):
        for _ in range(60):
            lengths = [draw.randint(1, longest) for _ in range(draw.randint(1, 64))]
            maximum = draw.choice([max(16, longest), max(16, longest // 2), 8192])
            settings.append([lengths, draw.randint(1, 64), maximum, draw.choice(WAYS)])
    found = packing.evaluate(
        """(settings) => settings.map(([lengths, size, max, way]) => {
          const made = oneGpu.batching.batches(lengths, size, max, way);
          return [made, oneGpu.batching.account(lengths, made, max, oneGpu.packingData.flops)];
        })""",
        settings,
    )
    for (lengths, size, maximum, way), (made, account) in zip(settings, found, strict=True):
        wanted = batches(lengths, size, maximum, way)
        assert [
            (tuple(map(tuple, batch["rows"])), batch["width"], batch["positions"]) for batch in made
        ] == [(batch.rows, batch.width, batch.positions) for batch in wanted], (lengths, size, way)
        kept = [min(length, maximum) for length in lengths]
        positions = sum(batch.positions for batch in wanted)
        assert account["tokens"] == sum(kept)
        assert account["cut"] == sum(lengths) - sum(kept)
        assert account["positions"] == positions
        assert account["waste"] == pytest.approx(1 - sum(kept) / positions, abs=1e-12)
        if way in ("padded", "sorted"):
            expected = padding_waste(kept, size, sort=way == "sorted")
            assert account["waste"] == pytest.approx(expected, abs=1e-12)
        flops = epoch_flops(Shape.gemma3("4b"), wanted, "lora")
        assert account["operations"] == pytest.approx(flops, rel=1e-12)


def test_the_batch_widget_shows_what_the_reference_gives(open_tab: Callable[..., Page]) -> None:
    from gradelib import Shape
    from solutions.batching import WAYS, batches, epoch_flops

    page = open_tab("batch_packing")
    page.get_by_label("Lengths of the examples").fill("100, 20 30;40 50 200")
    page.get_by_label("Rows in a batch").fill("2")
    page.get_by_label("Maximum length").fill("160")
    page.get_by_label("Way").select_option("sorted")
    lengths = [100, 20, 30, 40, 50, 160]
    assert page.locator(".bp-headline").inner_text() == (
        "Sorted: 400 tokens of text take 480 positions in 3 batches. 16.7 % is padding."
    )
    assert (
        "One example is longer than the maximum: 40 tokens are cut off."
        in page.locator(".w-note").first.inner_text()
    )
    rows = [row.split("\t") for row in page.locator(".bp-ways tbody tr").all_inner_texts()]
    for way, cells in zip(WAYS, rows, strict=True):
        made = batches(lengths, 2, 160, way)
        positions = sum(batch.positions for batch in made)
        flops = epoch_flops(Shape.gemma3("4b"), made, "lora")
        assert [cell.strip() for cell in cells[1:]] == [
            f"{positions:,}",
            f"{100 * (1 - 400 / positions):.1f} %",
            f"{flops / 1e12:,.1f}",
        ]
    assert page.locator(".w-plot rect.w-fill").count() == len(lengths)
    assert page.locator(".w-plot rect.bp-frame").count() == 3
    page.get_by_text("Show as table").click()
    table = page.locator(".w-details .w-table tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in table] == ["1: 20, 30", "2: 40, 50", "3: 100, 160"]
    page.get_by_label("Way").select_option("packed")
    assert page.locator(".w-details .w-table tbody tr").first.inner_text().startswith("1: 160, 100")


def test_lengths_that_make_no_sense_are_answered_with_a_sentence(
    open_tab: Callable[..., Page],
) -> None:
    page = open_tab("batch_packing")
    field = page.get_by_label("Lengths of the examples")
    for wrong in ("", "0", "a", "1.5", "-3", "9000", "1 " * 65):
        field.fill(wrong)
        assert field.get_attribute("aria-invalid") == "true"
        assert (
            page.locator(".w-error:visible").inner_text().startswith("From 1 to 64 whole numbers")
        )
        assert page.locator(".bp-headline").inner_text().startswith("Nothing to show yet.")
        assert not page.locator(".w-plot svg").first.is_visible(), "an old result is shown"
    field.fill("5 6")
    assert field.get_attribute("aria-invalid") is None
    page.get_by_label("Maximum length").fill("5")
    assert page.locator(".bp-headline").inner_text().startswith("Nothing to show yet. Maximum")
    page.get_by_label("Maximum length").fill("50")
    assert page.locator(".w-plot svg").first.is_visible()


def test_the_batch_widget_is_used_spoken_and_linked_with_the_keyboard_alone(
    open_tab: Callable[..., Page],
) -> None:
    page = open_tab("batch_packing", has_touch=True)
    page.get_by_label("Way").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowUp")
    assert page.get_by_label("Rows in a batch").input_value() == "5"
    spoken = page.locator(".bp-headline").text_content()
    assert spoken is not None
    assert spoken.startswith("Sorted: ")
    page.wait_for_function(
        "(words) => document.querySelector('.widget [aria-live]').textContent === words", arg=spoken
    )
    page.wait_for_function("location.hash.includes('batch=5')")
    other = open_tab("batch_packing", "#" + page.url.split("#")[1])
    assert other.locator(".bp-headline").text_content() == spoken
    broken = open_tab("batch_packing", "#batch_packing?lengths=x&batch=-1&max=1e9&way=%00")
    assert broken.locator(".bp-headline").inner_text().startswith("Padded: ")
    page.get_by_role("button", name="SQuAD, 24 others").tap()
    assert len(page.get_by_label("Lengths of the examples").input_value().split()) == 24
    assert page.locator(".bp-headline").text_content() != spoken


# ---------------------------------------------------------------- from FLOPs to hours, and the roofline


@pytest.fixture(scope="module")
def hours(browser: Browser, address: Callable[[str], str]) -> Iterator[Page]:
    """A tab with the calculator, for tests of what its scripts compute."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(address("flops_to_hours"))
    yield page
    context.close()


def _same(found: Any, wanted: Any, where: str) -> list[str]:
    """What differs by more than the rounding of floats, leaf by leaf."""
    if isinstance(wanted, dict):
        if found.keys() != wanted.keys():
            return [f"{where}: {sorted(found)}, not {sorted(wanted)}"]
        return [
            line for key in wanted for line in _same(found[key], wanted[key], f"{where}: {key}")
        ]
    if isinstance(wanted, bool) or wanted is None:
        return [] if found is wanted else [f"{where}: {found}, not {wanted}"]
    return [] if math.isclose(found, wanted, rel_tol=1e-12) else [f"{where}: {found}, not {wanted}"]


def test_runs_take_what_the_reference_gives(hours: Page, widgets: ModuleType) -> None:
    from tests.site.golden.flops import run_reference, runs

    drawn = runs(widgets.LEDGER_MODELS, 800)
    found = hours.evaluate(
        """(runs) => runs.map((run) => ({
          parts: oneGpu.flops.runFlops(run), way: oneGpu.flops.againstRule(run), seconds: oneGpu.flops.runSeconds(run, 121e12, 0.3),
          mfu: oneGpu.flops.runMfu(run, 121e12, 0.3),
          forward: oneGpu.flops.forwardParts(oneGpu.memoryData.models[run.model], run.seq)}))""",
        drawn,
    )
    wrong = [
        line
        for run, got in zip(drawn, found, strict=True)
        for line in _same(got, run_reference(run, 121e12, 0.3), str(run))
    ]
    assert not wrong, f"{len(wrong)} differ, the first: {wrong[0]}"


def test_energy_is_what_the_command_line_gives(hours: Page) -> None:
    from solutions.hardware import gpu
    from tests.site.golden.flops import energy_reference

    cards = hours.evaluate("Object.keys(oneGpu.flopsData.gpus)")
    assert len(cards) >= 10
    found = hours.evaluate(
        "Object.values(oneGpu.flopsData.gpus).map((card) => oneGpu.flops.energyKwh(card, 12345))"
    )
    assert not _same(
        dict(zip(cards, found, strict=True)),
        {name: energy_reference(gpu(name), 12345) for name in cards},
        "kWh",
    )


def test_work_lies_under_the_roof_where_the_reference_puts_it(
    hours: Page, widgets: ModuleType
) -> None:
    from tests.site.golden.flops import work, work_reference

    peaks = {name: list(card["peaks"]) for name, card in widgets.flops_data()["gpus"].items()}
    drawn = work(widgets.LEDGER_MODELS, peaks, 600)
    found = hours.evaluate(
        "(all) => all.map((work) => ({...oneGpu.flops.placeWork(work), needed: oneGpu.flops.memoryNeeded(work)}))",
        drawn,
    )
    wrong = [
        line
        for one, got in zip(drawn, found, strict=True)
        for line in _same(got, work_reference(one), str(one))
    ]
    assert not wrong, f"{len(wrong)} differ, the first: {wrong[0]}"
    bounds = {(kind, got[kind]["memoryBound"]) for got in found for kind in got if kind != "needed"}
    assert len(bounds) == 6, "each kind of work is seen on both sides of the ridge"


def test_the_calculator_shows_operations_and_hours_of_the_reference(
    open_tab: Callable[..., Page],
) -> None:
    from solutions.hardware import gpu
    from solutions.run_cost import Run, run_flops, run_seconds
    from solutions.shapes import model_shape

    page = open_tab("flops_to_hours")
    page.get_by_label("Model").select_option("gemma3-12b")
    page.get_by_label("Method").select_option("qlora")
    page.get_by_label("Adapter rank").select_option("64")
    page.get_by_label("Length given in").select_option("steps")
    page.get_by_label("Steps", exact=True).fill("2000")
    page.get_by_label("Batch, sequences").fill("4")
    page.get_by_label("Sequence, tokens").fill("2048")
    page.get_by_label("Card").select_option("a100-40gb")
    page.get_by_label("Share of the peak").fill("40")
    run = Run(
        shape=model_shape("gemma3-12b"),
        tokens=2000 * 4 * 2048,
        seq=2048,
        method="qlora",
        rank=64,
        checkpointing=True,
    )
    total = sum(run_flops(run).values())
    hours = run_seconds(run, gpu("a100-40gb").peak("bfloat16"), 0.4) / 3600
    said = page.locator(".w-headline").inner_text()
    mantissa, exponent = f"{total:.2e}".split("e+")
    raised = exponent.translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    assert f"QLoRA of Gemma 3 12B on 16,384,000 tokens: {mantissa} × 10{raised} operations" in said
    assert f"On the A100 SXM 40 GB, at 40 % of its peak: {hours:.1f} hours." in said
    table = page.locator(".widget table", has_text="From the rule of thumb to the count")
    rows = [row.split("\t") for row in table.locator("tbody tr").all_inner_texts()]
    shares = [float(row[2].replace("−", "-").removesuffix(" %")) for row in rows]
    assert sum(shares[:-1]) == pytest.approx(100, abs=0.3)
    assert shares[-1] == 100


def test_a_format_that_a_card_lacks_gets_no_time(open_tab: Callable[..., Page]) -> None:
    page = open_tab("flops_to_hours", "#flops_to_hours?gpu=t4")
    headline = page.locator(".w-headline")
    assert "No time for the T4 in bfloat16" in headline.inner_text()
    assert "PyTorch emulates bfloat16" in headline.inner_text()
    assert page.get_by_text("Tokens a second").count() == 0
    page.get_by_label("Multiplies in").select_option("float16")
    assert "On the T4, at 30 % of its peak" in headline.inner_text()
    assert page.get_by_text("Tokens a second").is_visible()
    warning = page.locator(".w-note", has_text="overflow in float16")
    assert warning.is_visible()
    page.get_by_label("Multiplies in").select_option("float32")
    assert not warning.is_visible()
    page.get_by_label("Multiplies in").select_option("bfloat16")
    assert not page.get_by_text("Tokens a second").is_visible()
    other = open_tab("roofline", "#roofline?gpu=t4")
    assert (
        "No roof yet. No dense peak is known of the T4" in other.locator(".w-headline").inner_text()
    )
    assert not other.locator(".w-plot svg").is_visible()
    other.get_by_label("Multiplies in").select_option("float16")
    assert other.locator(".w-plot svg").is_visible()


def test_a_field_that_is_hidden_cannot_be_wrong(open_tab: Callable[..., Page]) -> None:
    page = open_tab("flops_to_hours")
    page.get_by_label("Tokens in all").fill("0")
    headline = page.locator(".w-headline")
    assert headline.inner_text().startswith("No estimate yet. Tokens in all")
    assert not page.locator(".w-plot svg").first.is_visible(), "an old result is shown"
    page.wait_for_selector("[aria-live]:text('No estimate yet')", state="attached")
    page.get_by_label("Length given in").select_option("steps")
    assert " operations" in headline.inner_text()
    page.get_by_label("Steps", exact=True).fill("1.5")
    assert headline.inner_text().startswith("No estimate yet. Steps")
    page.get_by_label("Steps", exact=True).fill("15")
    assert " operations" in headline.inner_text()
    assert not page.get_by_label("Tokens in all").is_visible()


@pytest.mark.parametrize(
    ("name", "keys", "expected"),
    [
        ("flops_to_hours", {"Method": "ArrowDown"}, "QLoRA of Gemma 3 4B"),
        ("roofline", {"Card": "ArrowUp", "Multiplies in": "ArrowUp"}, "on the T4 in float16"),
    ],
)
def test_calculator_and_roofline_are_used_spoken_and_linked_with_the_keyboard_alone(
    open_tab: Callable[..., Page], name: str, keys: dict[str, str], expected: str
) -> None:
    page = open_tab(name)
    assert page.locator(".widget [aria-live]").text_content() == ""
    for label, key in keys.items():
        page.get_by_label(label).first.focus()
        page.keyboard.press(key)
    while page.evaluate("document.activeElement.type") != "checkbox":
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    spoken = page.locator(".w-headline").text_content()
    assert expected in spoken
    page.wait_for_function(
        "(words) => document.querySelector('.widget [aria-live]').textContent === words", arg=spoken
    )
    page.wait_for_function("location.hash.includes('checkpointing=false')")
    other = open_tab(name, "#" + page.url.split("#")[1])
    assert other.locator(".w-headline").text_content() == spoken
    assert not other.get_by_label("Gradient checkpointing").is_checked()
    start = open_tab(name).locator(".w-headline").text_content()
    broken = open_tab(
        name, f"#{name}?model=banana&gpu=x&batch=-3&seq=1e99&percent=0&tokens=&rank=5"
    )
    assert broken.locator(".w-headline").text_content() == start


def test_the_roofline_shows_the_points_and_the_table_of_the_reference(
    open_tab: Callable[..., Page],
) -> None:
    from solutions import flops, roofline, traffic
    from solutions.hardware import gpu
    from solutions.shapes import model_shape

    page = open_tab("roofline", "#roofline?batch=8&context=4096&weights=nf4-dq")
    shape, card = model_shape("gemma3-4b"), gpu("l4")
    roof = card.peak("bfloat16"), card.bandwidth_bytes_per_s
    table = page.locator(".widget-body table").first
    cells = {
        row[0]: row[1:]
        for row in (line.split("\t") for line in table.locator("tbody tr").all_inner_texts())
    }
    operations = flops.decode_flops(shape, 8, 4096)
    moved = traffic.decode_bytes_moved(shape, 8, 4096, "bfloat16", "nf4-dq")
    assert cells["GB that move, at least"][1].strip() == f"{moved / 1e9:.2f}"
    assert cells["Waits for"] == ["arithmetic", "memory", "arithmetic"]
    # A rectangle of the plot for each point: prefill, decoding and training, and the small rings.
    assert page.locator(".w-plot svg g > path.w-fill").count() == 3
    assert page.locator(".w-plot svg circle.w-trail").count() == 11
    page.get_by_text("Show as table").click()
    rows = {
        row[0]: row[1:]
        for row in (
            line.split("\t")
            for line in page.locator(".w-details table", has_text="Decoding at a context")
            .locator("tbody tr")
            .all_inner_texts()
        )
    }
    for batch in (1, 8, 1024):
        operations = flops.decode_flops(shape, batch, 4096)
        moved = traffic.decode_bytes_moved(shape, batch, 4096, "bfloat16", "nf4-dq")
        seconds = operations / roofline.attainable_flops_per_s(operations / moved, *roof)
        bound = "memory" if roofline.is_memory_bound(operations, moved, *roof) else "arithmetic"
        assert rows[f"{batch:,}"][1].strip() == bound
        assert rows[f"{batch:,}"][2].strip() == f"{batch / seconds:,.0f}"
    roofs = page.locator(".w-details table", has_text="The roof of the L4").locator("tbody tr")
    assert roofs.count() == len({card.peak(d) for d in ("float32", "tfloat32", "bfloat16")})


def test_work_that_a_card_cannot_hold_is_named(open_tab: Callable[..., Page]) -> None:
    page = open_tab("roofline", "#roofline?batch=1024&context=32768&method=full")
    said = page.locator(".w-headline").inner_text()
    assert "Too large for the card’s memory: decoding, training." in said or (
        "Too large for the card’s memory: prefill, decoding, training." in said
    )
    assert page.locator("td", has_text="✗").count() >= 2


def test_words_of_the_roofline_lie_inside_the_plot(open_tab: Callable[..., Page]) -> None:
    for width in (1280, 320):
        for card in ("t4", "l4", "h100-sxm", "mi300x"):
            page = open_tab(
                "roofline",
                f"#roofline?gpu={card}&dtype=float16",
                viewport={"width": width, "height": 800},
            )
            outside = page.evaluate(
                """() => { const box = document.querySelector(".w-plot").getBoundingClientRect();
                     return [...document.querySelectorAll(".w-plot text")].map((t) => [t.textContent, t.getBoundingClientRect()])
                       .filter(([, r]) => r.left < box.left - 1 || r.right > box.right + 1).map(([words]) => words); }"""
            )
            assert outside == [], (width, card)


# ---------------------------------------------------------------- the directive


def test_numbers_of_the_fallback_are_printed_as_in_the_book(widgets: ModuleType) -> None:
    assert widgets.scientific(65504.0) == "65,504"
    assert widgets.scientific(2.0**-24) == "5.96046 × 10⁻⁸"
    assert widgets.scientific(0.1) == "0.1"
    assert widgets.scientific(3.4028234663852886e38) == "3.40282 × 10³⁸"
    assert widgets.scientific(2.0**-10) == "0.000976562"


def _build(folder: Path, text: str) -> tuple[Any, str]:
    """A book of one page, built by Sphinx with the extension alone: the application and its warnings."""
    need_module("myst_parser")
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    (folder / "index.md").write_text(text, encoding="utf-8")
    warnings = io.StringIO()
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            srcdir=folder,
            confdir=None,
            outdir=folder / "out",
            doctreedir=folder / "trees",
            buildername="html",
            status=None,
            warning=warnings,
            confoverrides={"extensions": ["myst_parser", "widgets"], "html_theme": "basic"},
        )
        app.build()
    return app, warnings.getvalue()


def test_a_page_gets_its_widget_its_scripts_and_their_data(
    widgets: ModuleType, tmp_path: Path
) -> None:
    from solutions.shapes import model_shape
    from solutions.training_memory import Training, training_memory

    app, warnings = _build(
        tmp_path, "# Page\n\n```{widget} memory_ledger\nWords *below* the table.\n```\n"
    )
    assert warnings == ""
    assert app.env.metadata["index"]["widget_scripts"] == widgets.widget_scripts("memory_ledger")
    html = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    fallback = html.split('class="widget-fallback">')[1].split("</div></div>")[0]
    full = training_memory(Training(shape=model_shape("gemma3-4b"), batch=1, seq=1024))
    assert f"<td>{full.total_bytes / 2**30:.2f} GiB</td>" in fallback
    assert "Words <em>below</em> the table." in html
    data = (tmp_path / "out" / "_static" / "widgets" / "memory_ledger_data.js").read_text(
        encoding="utf-8"
    )
    assert data.startswith("window.oneGpu = Object.assign(")


def test_an_unknown_widget_is_answered_with_the_known_ones(
    widgets: ModuleType, tmp_path: Path
) -> None:
    _, warnings = _build(tmp_path, "# Page\n\n```{widget} nonesuch\n```\n")
    assert "no widget 'nonesuch'" in warnings
    assert all(name in warnings for name in widgets.WIDGETS)


def test_pages_without_a_widget_load_nothing_of_one(site: Path, page_names: list[str]) -> None:
    with_widgets = 0
    for name in page_names:
        html = (site / f"{name}.html").read_text(encoding="utf-8")
        placed = "data-widget=" in html
        assert placed == ("_static/widgets/" in html), name
        with_widgets += placed
    assert with_widgets >= 2


def test_scripts_are_served_without_their_comments(widgets: ModuleType) -> None:
    script = "/**\n * What it does.\n */\nf();\n  // Why.\n  const a = b / c; // here\n/** One line. */\ng(`//`);\n"
    assert widgets.served(script) == "f();\nconst a = b / c; // here\ng(`//`);\n"
    for path in widgets.SCRIPTS.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        # Text that spans lines would lose its indentation.
        assert all(line.count("`") % 2 == 0 for line in text.splitlines()), path.name
        assert len(widgets.served(text)) < len(text)


@pytest.mark.parametrize("name", NAMES)
def test_every_script_of_a_widget_is_there_and_is_classic(widgets: ModuleType, name: str) -> None:
    for script in ["kit.js", *widgets.WIDGETS[name].scripts]:
        text = (BOOK / "_static" / "widgets" / script).read_text(encoding="utf-8")
        for word in ("import ", "export ", "fetch(", "XMLHttpRequest", "new Worker", "eval("):
            assert word not in text.replace("important", ""), (script, word)
