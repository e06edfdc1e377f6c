"""The book's own Sphinx extensions: what they write, and what they say about a mistake in a page."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import need_module

for package in ("sphinx", "myst_parser", "math_core", "matplotlib", "sphinxcontrib.bibtex"):
    need_module(package)

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import book_chapter  # noqa: E402
import book_math  # noqa: E402
import book_site  # noqa: E402
import figures  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Builds one page of MyST text; returns its HTML and the warnings."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    def run(text: str, **others: str) -> tuple[str, str]:
        source = tmp_path / "source"
        source.mkdir(exist_ok=True)
        (source / "index.md").write_text(text, encoding="utf-8")
        for name, content in others.items():
            (source / name.replace("__", ".")).write_text(content, encoding="utf-8")
        warnings = io.StringIO()
        with patch_docutils(), docutils_namespace():
            app = Sphinx(
                srcdir=source,
                confdir=None,
                outdir=tmp_path / "out",
                doctreedir=tmp_path / "trees",
                buildername="html",
                status=None,
                warning=warnings,
                confoverrides={
                    "extensions": [
                        "myst_parser",
                        "sphinxcontrib.bibtex",
                        "book_chapter",
                        "book_math",
                    ],
                    "myst_enable_extensions": ["dollarmath", "amsmath"],
                    "html_math_renderer": "mathml",
                    "html_theme": "basic",
                    "bibtex_bibfiles": ["refs.bib"] if "refs__bib" in others else [],
                    "bibtex_reference_style": "round_author_year",
                },
            )
            app.build()
        page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
        return page.split('<div class="body" role="main">')[1], warnings.getvalue()

    return run


QUIZ = """# Page

```{{quiz}}
How many?

{answers}
```
"""


def test_a_quiz_hides_each_explanation_behind_its_answer(
    build: Callable[..., tuple[str, str]],
) -> None:
    html, warnings = build(
        QUIZ.format(answers="- [ ] One\n\n  Too few.\n- [x] Two, `x`\n\n  Yes, two.\n")
    )
    assert not warnings
    assert html.count("<details") == 2
    assert html.count('class="choice right"') == 1
    assert "[x]" not in html
    wrong, right = html.split("<details")[1:]
    assert "One" in wrong.split("</summary>")[0]
    assert "Too few." in wrong.split("</summary>")[1]
    assert "Not this one." in wrong
    assert '<span class="pre">x</span>' in right.split("</summary>")[0]
    assert "Right." in right


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ("- [x] One\n", "explained"),
        ("- One\n\n  Why.\n- [x] Two\n\n  Why.\n", "starts with [x] or [ ]"),
        ("- [ ] One\n\n  Why.\n- [ ] Two\n\n  Why.\n", "one of them right"),
        ("- [x] One\n\n  Why.\n", "at least two answers"),
        ("No list.\n", "ends with a list of answers"),
    ],
)
def test_a_quiz_that_is_not_whole_says_what_it_lacks(
    build: Callable[..., tuple[str, str]], answers: str, said: str
) -> None:
    _, warnings = build(QUIZ.format(answers=answers))
    assert said in warnings
    assert "index.md" in warnings


def test_an_unknown_exercise_is_named_with_those_that_exist(
    build: Callable[..., tuple[str, str]],
) -> None:
    _, warnings = build("# Page\n\n```{exercise} 99_nothing\nText.\n```\n")
    assert "no exercise '99_nothing'" in warnings


def test_reading_time_counts_words_and_formulas_but_no_code(
    build: Callable[..., tuple[str, str]],
) -> None:
    words = " ".join(["word"] * 990)
    page = f"# Page\n\n```{{objectives}}\n- read.\n```\n\n{words}\n\n```python\n{'code ' * 2000}\n```\n\n"
    html, _ = build(page)
    assert "About 5 minutes to read." in html
    html, _ = build(page + "$$\na = b\n$$\n\n" * 4)
    assert "About 7 minutes to read." in html


def test_given_numbers_stay_on_one_line(build: Callable[..., tuple[str, str]]) -> None:
    html, warnings = build("# Page\n\nA {given}`16 GB` card.\n")
    assert not warnings
    assert "A 16\N{NO-BREAK SPACE}GB card." in html


def test_sources_lists_what_the_page_cites_and_nothing_else(
    build: Callable[..., tuple[str, str]],
) -> None:
    refs = "".join(
        f"@misc{{{key}, title={{Title {key}}}, author={{{name}, A.}}, year={{2020}}, doi={{10.1/{key}}}}}\n"
        for key, name in (("b", "Baker"), ("a", "Able"), ("c", "Cook"))
    )
    html, warnings = build(
        "# Page\n\nSee {cite:p}`b`. By {cite:t}`a`.\n\n## Sources\n\n```{sources}\n```\n\n```{toctree}\nall\n```\n",
        all__md="# All\n\n```{bibliography}\n:all:\n```\n",
        refs__bib=refs,
    )
    assert not warnings
    listed = html.split('id="sources"')[1]
    assert "Title a" in listed
    assert "Title b" in listed
    assert "Title c" not in listed
    assert listed.index("Able") < listed.index("Baker")
    assert 'href="#source-b"' in html
    assert 'id="source-b"' in html
    assert "(<a" in html


def test_works_of_the_same_authors_and_year_are_told_apart(
    build: Callable[..., tuple[str, str]],
) -> None:
    refs = "".join(
        f"@misc{{{key}, title={{{title}}}, author={{{{Maker}}}}, year={{{year}}}, doi={{10.1/{key}}}}}\n"
        for key, title, year in (("x", "Zebra", 2023), ("y", "Ant", 2023), ("z", "Bee", 2024))
    )
    html, warnings = build(
        "# Page\n\nSee {cite:p}`x,y,z`.\n\n## Sources\n\n```{sources}\n```\n\n```{toctree}\nall\n```\n",
        all__md="# All\n\n```{bibliography}\n:all:\n```\n",
        refs__bib=refs,
    )
    import re

    assert not warnings
    text = re.sub(r"<[^>]+>", "", html)
    assert "(Maker, 2023a; Maker, 2023b; Maker, 2024)" in text
    listed = text.split("Sources")[1]
    assert "Ant" in listed
    assert listed.index("2023a") < listed.index("2023b")
    assert re.search(r"Ant\.[^Z]*2023a", listed)


def test_years_are_told_apart_once_however_often_the_book_is_built() -> None:
    from pybtex.database import parse_string

    text = "@misc{a, author={{M}}, title={A}, year={2023}}\n@misc{b, author={{M}}, title={B}, year={2023}}\n"
    entries = parse_string(text, "bibtex").entries
    for _ in range(2):
        book_chapter.tell_years_apart(entries)
        assert [entries[key].fields["year"] for key in "ab"] == ["2023a", "2023b"]
    del entries["b"]
    book_chapter.tell_years_apart(entries)
    assert entries["a"].fields["year"] == "2023"


def test_sources_stand_in_the_order_of_the_references(
    build: Callable[..., tuple[str, str]],
) -> None:
    refs = "".join(
        f"@misc{{{key}, title={{Title {key}}}, author={{{name}}}, year={{2020}}, doi={{10.1/{key}}}}}\n"
        for key, name in (("a", "Zoe Able"), ("b", "Anna Baker"), ("c", "Maud Cook"))
    )
    html, _ = build(
        "# Page\n\nSee {cite:p}`c,b,a`.\n\n## Sources\n\n```{sources}\n```\n\n```{toctree}\nall\n```\n",
        all__md="# All\n\n```{bibliography}\n:all:\n```\n",
        refs__bib=refs,
    )
    listed = html.split('id="sources"')[1]
    assert listed.index("Able") < listed.index("Baker") < listed.index("Cook")


def test_a_page_that_lists_sources_and_cites_nothing_is_told_so(
    build: Callable[..., tuple[str, str]],
) -> None:
    _, warnings = build("# Page\n\n```{sources}\n```\n", refs__bib="")
    assert "cites nothing" in warnings


def test_maths_becomes_mathml_with_its_number(build: Callable[..., tuple[str, str]]) -> None:
    html, warnings = build(
        "# Page\n\n$$\nx = \\frac{1}{2}\n$$ (eq-half)\n\nBy {eq}`eq-half`, $a < b$.\n"
    )
    assert not warnings
    assert "<mfrac><mn>1</mn><mn>2</mn></mfrac>" in html
    assert 'id="equation-eq-half"' in html
    assert 'href="#equation-eq-half"' in html
    assert "<mo>&lt;</mo>" in html
    assert html.count('id="equation-eq-half"') == 1


@pytest.mark.parametrize(
    "tex",
    [
        r"\begin{align} a &= b \\ c &= d \end{align}",
        r"\begin{aligned} a &= b \\ c &= d \end{aligned}",
        r"a &= b \\ c &= d",
        r"\begin{cases} 0 & x < 0 \\ 1 & \text{otherwise} \end{cases}",
    ],
)
def test_several_lines_are_one_table_without_numbers_of_their_own(tex: str) -> None:
    mathml = book_math.to_mathml(tex, display=True)
    assert mathml.count("<mtr>") == 2
    assert "(1)" not in mathml


def test_maths_that_is_not_understood_stops_the_build_at_its_place(
    build: Callable[..., tuple[str, str]],
) -> None:
    html, warnings = build("# Page\n\nText.\n\n$$\n\\nonsense{x} < 1\n$$\n")
    assert "maths not understood" in warnings
    assert "index.md:5" in warnings
    assert "&lt; 1" in html


# ---------------------------------------------------------------- figures


@pytest.fixture
def drawn() -> str:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    with mpl.rc_context():
        figures.use_book_style()
        fig, ax = plt.subplots()
        ax.plot([1, 2, 3], [1, 4, 9], label="squares")
        ax.plot([1, 2, 3], [1, 8, 27], label="cubes")
        ax.set_xlabel("side of the square")
        ax.legend()
        shown = figures.figure(
            fig, alt='Two rising lines: cubes, "x³", grow faster than squares do.'
        )
        plt.close(fig)
    return shown._repr_html_()


def test_a_figure_takes_the_colours_of_the_page(drawn: str) -> None:
    import re

    assert "var(--series-1)" in drawn
    assert "var(--series-2)" in drawn
    assert "currentColor" in drawn
    fixed = set(re.findall(r"#[0-9a-fA-F]{6}\b", drawn))
    assert not fixed, f"colours that do not follow the theme: {fixed}"


def test_a_figure_has_its_text_alternative_and_keeps_words_as_words(drawn: str) -> None:
    import re
    import xml.etree.ElementTree as ElementTree

    pictures = re.findall(r"<svg.*?</svg>", drawn, re.DOTALL)
    assert len(pictures) == 2, "one for a desk, one for a phone"
    for picture in pictures:
        svg = ElementTree.fromstring(picture)
        assert svg.get("role") == "img"
        assert (
            svg.get("aria-label") == 'Two rising lines: cubes, "x³", grow faster than squares do.'
        )
        assert "side of the square" in "".join(svg.itertext())
    assert "DejaVu" not in drawn
    assert "<style" not in drawn, "a style inside the figure would apply to the whole page"


def test_two_figures_on_a_page_share_no_id() -> None:
    import re

    one = figures.theme_aware(
        '<svg viewBox="0 0 1 1"><g id="a"/><use href="#a" clip-path="url(#a)"/></svg>',
        "One",
        "wide",
    )
    two = figures.theme_aware('<svg viewBox="0 0 1 1"><g id="a"/></svg>', "Two", "wide")
    (first,) = re.findall(r' id="([^"]+)"', one)
    assert f'href="#{first}"' in one
    assert f"url(#{first})" in one
    assert first not in two


def test_a_figure_is_the_same_each_time_it_is_made() -> None:
    import matplotlib.pyplot as plt

    figures.use_book_style()
    fig, ax = plt.subplots()
    ax.plot([1, 2], [3, 4])
    first = figures.figure(fig, alt="A line that rises from three to four, no more.")._repr_html_()
    fig, ax = plt.subplots()
    ax.plot([1, 2], [3, 4])
    second = figures.figure(fig, alt="A line that rises from three to four, no more.")._repr_html_()
    plt.close("all")
    assert first == second


def test_the_narrow_layout_keeps_every_name_and_drops_ticks_that_touch() -> None:
    import re

    import matplotlib.pyplot as plt

    figures.use_book_style()
    fig, ax = plt.subplots(figsize=(7.2, 3.0))
    for i in range(6):
        ax.plot([10**6 * x for x in range(12)], range(i, i + 12), label=f"sum kept in format {i}")
    ax.set_xticks([10**6 * x for x in range(12)], [f"{10**6 * x:,}" for x in range(12)])
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    html = figures.figure(
        fig, alt="Six lines that rise side by side, one for each format."
    )._repr_html_()
    wide, narrow = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    for i in range(6):
        assert f"sum kept in format {i}" in wide
        assert f"sum kept in format {i}" in narrow
    assert "11,000,000" in wide
    assert 2 <= len(re.findall(r">\d+,000,000<", narrow)) <= 6
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', narrow).group(1))
    assert width == pytest.approx(72 * figures.NARROW_INCHES)


def test_words_in_a_box_are_made_to_fit_it() -> None:
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    figures.use_book_style()
    fig, ax = plt.subplots(figsize=(7.2, 2.0))
    ax.set(xlim=(0, 10), ylim=(0, 1))
    ax.add_patch(Rectangle((4, 0), 1.2, 1))
    text = ax.text(4.6, 0.5, "scores 12", ha="center")
    figures.narrow_down(fig)
    assert text.get_text() == "scores\n12"
    plt.close(fig)


def test_a_figure_without_a_real_text_alternative_is_refused() -> None:
    import matplotlib.pyplot as plt

    fig, _ = plt.subplots()
    with pytest.raises(ValueError, match="alt text must say what the figure shows"):
        figures.figure(fig, alt="A plot.")
    plt.close(fig)


# ---------------------------------------------------------------- the site


def test_a_change_to_what_numbers_come_from_changes_the_digest(tmp_path: Path) -> None:
    (tmp_path / "solutions").mkdir()
    module = tmp_path / "solutions" / "memory.py"
    module.write_text("BYTES = 4\n", encoding="utf-8")
    before = book_site.digest_of(book_site.COMPUTED_FROM, tmp_path)
    assert before == book_site.digest_of(book_site.COMPUTED_FROM, tmp_path)
    module.write_text("BYTES = 2\n", encoding="utf-8")
    assert before != book_site.digest_of(book_site.COMPUTED_FROM, tmp_path)


def test_the_digest_sees_the_files_it_names() -> None:
    for pattern in (*book_site.COMPUTED_FROM[:4], "book/_ext/figures.py"):
        if pattern != "gradelib/**/*.json":
            assert list(ROOT.glob(pattern)), pattern


def test_an_image_gets_its_size_and_waits_until_it_is_near(tmp_path: Path) -> None:
    from types import SimpleNamespace

    (tmp_path / "a.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20"/>'
    )
    app = SimpleNamespace(builder=SimpleNamespace(images={"a.svg": "a1.svg"}), srcdir=tmp_path)
    html = book_site.with_image_attributes(
        app, '<p><img alt="A card" src="../_images/a1.svg" /></p>'
    )
    assert 'width="30"' in html
    assert 'height="20"' in html
    assert 'loading="lazy"' in html
    assert 'alt="A card"' in html
    assert html.endswith("></p>")


def test_reading_time_is_never_nought() -> None:
    from docutils import nodes

    assert book_chapter.reading_minutes(nodes.paragraph("", "One word.")) == 1
