"""Feedback pages: escaped, silent about hidden cases, light, readable."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gradelib.grading.course import Course
from gradelib.grading.gradebook import nbgrader_of, open_gradebook
from tests.conftest import need_module
from tests.course.tools import (
    POINTS,
    RIGHT,
    TINY,
    answered,
    autograde,
    code_cell,
    generate_feedback,
    hand_in,
    released,
)

ATTACK = "<script>alert(1)</script><img src=x onerror=alert(2)>"

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def _page(course: Course, student: str = "ann") -> str:
    generate_feedback(course)
    return (course.root / "feedback" / student / TINY / f"{TINY}.html").read_text(encoding="utf-8")


class _Tags(HTMLParser):
    """Every tag with its attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


ATTACKS = {
    "printed": {"packed_bytes": f"def packed_bytes(count, bits):\n    print('''{ATTACK}''')\n"},
    "raised": {"packed_bytes": f"def packed_bytes(count, bits):\n    raise ValueError('''{ATTACK}''')\n"},
    "returned": {"packed_bytes": f"def packed_bytes(count, bits):\n    return '''{ATTACK}'''\n"},
    "in the code": {"packed_bytes": f"# {ATTACK}\n" + RIGHT["packed_bytes"]},
    "a class's name": {
        "packed_bytes": "Odd = type('''" + ATTACK + "''', (Exception,), {})\n"
        "def packed_bytes(count, bits):\n    raise Odd\n"
    },
    "in a written answer": {"what_did_you_observe": f"{ATTACK}\n\n[x](javascript:alert(3))\n\n<a href='javascript:alert(4)'>y</a>"},
}  # fmt: skip


@pytest.mark.parametrize("answers", ATTACKS.values(), ids=ATTACKS)
def test_nothing_of_a_learners_is_active_on_the_page(
    course: Course, answers: dict[str, str]
) -> None:
    def edit(notebook: dict[str, Any]) -> None:
        notebook["cells"].append(code_cell(f"# own cell {ATTACK}"))

    hand_in(course, "ann", answered(released(course), {**RIGHT, **answers}, edit))
    autograde(course)
    tags = _Tags(_page(course)).tags
    assert not {tag for tag, _ in tags} & {"script", "img", "iframe", "object", "svg"}
    for _, attributes in tags:
        assert not any(name.startswith("on") for name in attributes)
        assert not (attributes.get("href") or "").lower().startswith("javascript")


def test_the_page_says_the_verdict_the_points_and_a_persons_comment(course: Course) -> None:
    wrong = {"packed_bytes": "def packed_bytes(count, bits):\n    return count * bits"}
    hand_in(course, "ann", answered(released(course), {**RIGHT, **wrong}))
    autograde(course)
    text = re.sub(r"\s+", " ", _Tags(_page(course)).text)
    assert "A tiny exercise Feedback for ann: 4.5 of 8.5 points, 2 not marked yet." in text
    coursedir, _ = nbgrader_of(course)
    with open_gradebook(coursedir) as book:
        grade = book.find_grade("what_did_you_observe", TINY, TINY, "ann")
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        comment = book.find_comment("what_did_you_observe", TINY, TINY, "ann")
        comment.manual_comment = f"Well **seen**. {ATTACK}"
        book.db.commit()
    page = _page(course)
    text = re.sub(r"\s+", " ", _Tags(page).text)
    assert "That is bits. How many are in a byte?" in text
    assert "6 of 8.5 points." in text
    assert "Well seen." in text
    assert "marked by a person" in text
    assert RIGHT["what_did_you_observe"] in text
    assert "<script" not in page


def test_code_and_formulas_are_readable_on_the_page(course: Course) -> None:
    prose = "It is `x_$y$` and $2^{-24} < 1$, for $5 and $6.\n\n$$a \\cdot b$$\n\n```\ncost = '$a$'\n```"
    broken = {"packed_bytes": "def packed_bytes(count, bits):\n    return missing_name"}
    hand_in(course, "ann", answered(released(course), {**broken, "what_did_you_observe": prose}))
    autograde(course)
    page = _page(course)
    for code in ("x_$y$", "2^{-24} &lt; 1", "a \\cdot b", "packed_bytes(3, 4)"):
        assert f"<code>{code}</code>" in page
    text = _Tags(page).text
    assert "for $5 and $6." in text
    assert "cost = '$a$'" in text
    assert "`" not in re.sub(r"<pre.*?</pre>", "", page, flags=re.DOTALL)


def test_a_long_name_breaks_at_its_underscores(course: Course) -> None:
    hand_in(course, "ann", released(course))
    autograde(course)
    assert "what_<wbr>did_<wbr>you_<wbr>observe" in _page(course)


def test_an_answer_that_was_not_written_says_so(course: Course) -> None:
    hand_in(course, "ann", released(course))
    autograde(course)
    text = re.sub(r"\s+", " ", _Tags(_page(course)).text)
    assert "what_did_you_observeno response0 / 2" in text
    assert "marked by a person" not in text


def test_no_input_or_value_of_a_hidden_case_is_on_the_page(course: Course) -> None:
    # Right for the visible cases only; prints all that it is given.
    sneaky = {
        "packed_bytes": "def packed_bytes(count, bits):\n    print('given', count, bits)\n"
        "    return {(3, 4): 2, (16, 16): 32}.get((count, bits), 0)\n"
    }
    hand_in(course, "ann", answered(released(course), {**RIGHT, **sneaky}))
    autograde(course)
    hidden = [one for one in course.checks(TINY)["packed_bytes"].cases if not one.visible]
    files = [
        _page(course),
        (course.root / "autograded" / "ann" / TINY / f"{TINY}.ipynb").read_text(),
    ]
    for text in files:
        assert "given 3 4" in text
        for one in hidden:
            count, bits = one.args
            assert f"{count} {bits}" not in text
            assert f"({count}, {bits})" not in text
            assert not re.search(rf"\b{one.expected.value}\b", text)
        assert "HIDDEN TESTS" not in text


def test_long_output_is_cut_and_the_marks_stand(course: Course) -> None:
    loud = {
        "packed_bytes": "def packed_bytes(count, bits):\n    print('x' * 3_000_000)\n    return -(-count * bits // 8)\n"
    }
    notebook = answered(released(course), {**RIGHT, **loud})
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "y" * 10**6}]
    hand_in(course, "ann", notebook)
    autograde(course)
    page = _page(course)
    assert f"{POINTS['packed_bytes']:g} of 2 points" in page
    assert len(page) < 20_000
    assert (course.root / "autograded" / "ann" / TINY / f"{TINY}.ipynb").stat().st_size < 30_000


def test_a_page_is_light_and_loads_nothing(course: Course) -> None:
    hand_in(course, "ann", answered(released(course), RIGHT))
    autograde(course)
    page = _page(course)
    assert len(page.encode()) < 15_000
    for tag, attributes in _Tags(page).tags:
        address = attributes.get("src") or attributes.get("href") or "#"
        assert address.startswith(("#", "data:,")), (tag, address)
    assert "@import" not in page
    assert "url(" not in page


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_accessible_and_fits_a_phone(
    course: Course, browser: Browser, scheme: str, tmp_path: Path
) -> None:
    need_module("axe_playwright_python")
    from axe_playwright_python.sync_playwright import Axe

    wrong = {
        "packed_bytes": "def packed_bytes(count, bits):\n    print('z' * 300)\n    return count * bits  # "
        + "w" * 200
    }
    hand_in(
        course,
        "ann",
        answered(
            released(course),
            {**RIGHT, **wrong},
            lambda notebook: notebook["cells"].append(code_cell("BYTE = 8")),
        ),
    )
    autograde(course)
    target = tmp_path / "page.html"
    target.write_text(_page(course), encoding="utf-8")
    page = browser.new_page(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on(
        "request",
        lambda request: (
            problems.append(request.url) if not request.url.startswith(("file:", "data:")) else None
        ),
    )
    page.goto(target.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    found = Axe().run(page).response["violations"]
    page.close()
    assert not problems
    assert not found, json.dumps(found, indent=1)[:3000]


def test_an_instructor_who_marks_in_the_formgrader_is_shown_no_active_html(course: Course) -> None:
    from nbconvert.exporters import HTMLExporter
    from nbgrader.server_extensions.formgrader.handlers import template_path
    from traitlets.config import Config

    hand_in(course, "ann", answered(released(course), {**RIGHT, **ATTACKS["in a written answer"]}))
    autograde(course)
    _, config = nbgrader_of(course)
    extra = Config()
    extra.HTMLExporter.template_name = "formgrade"
    extra.HTMLExporter.extra_template_basedirs = [template_path]
    config.merge(extra)
    exporter = HTMLExporter(config=config)
    path = course.root / "autograded" / "ann" / TINY / f"{TINY}.ipynb"
    about = {"base_url": "", "submission_id": "1", "student": "ann", "assignment": TINY, "notebook": TINY,
             "index": 0, "total": 1, "prefix": "", "first_name": None, "last_name": None, "notebook_id": TINY,
             "assignment_id": TINY, "mathjax_url": "", "autosave_interval": 180, "show_name_in_formgrader": False}  # fmt: skip
    page, _ = exporter.from_filename(str(path), resources={**about, "keyword_links": {}})
    assert "&lt;script&gt;alert(1)" in page
    for tag, attributes in _Tags(page).tags:
        assert "alert" not in " ".join(filter(None, attributes.values())), (tag, attributes)
    assert "<script>alert" not in page
