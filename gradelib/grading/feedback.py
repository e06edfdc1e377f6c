"""Feedback pages: one light HTML file a learner can read anywhere, phone or screen reader included.

A page has no script and loads nothing. Everything of a learner's is escaped; text written in
Markdown is cleaned. Hidden cases are not in the notebook that it is made from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bleach
import jinja2
from markupsafe import Markup
from nbconvert.exporters import Exporter
from nbconvert.filters import markdown2html
from nbgrader.preprocessors import GetGrades

from gradelib import wording
from gradelib.grading.grade import NOT_JUDGED, VERDICT_TYPE
from gradelib.grading.layout import CHECK_PREFIX, METADATA_KEY
from gradelib.verdicts import Verdict

TEMPLATES = Path(__file__).parent / "templates"
_CODE = re.compile(r"(<(?:pre|code)\b.*?</(?:pre|code)>)", re.DOTALL)
# As in JupyterLab: `$5 and $6` is no formula, since a space stands before the second sign.
_FORMULA = re.compile(r"\$\$([^$<>]+)\$\$|\$(?!\s)([^$<>\n]+)(?<!\s)\$(?!\d)")
_TAGS = frozenset(
    [
        "a",
        "b",
        "blockquote",
        "br",
        "code",
        "dd",
        "del",
        "div",
        "dl",
        "dt",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "i",
        "li",
        "ol",
        "p",
        "pre",
        "s",
        "strong",
        "sub",
        "sup",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "u",
        "ul",
    ]
)


@dataclass
class Item:
    """One graded thing on the page: a task with its verdict, or a written answer.

    `score` is None where a person has yet to mark it.
    """

    name: str
    points: float
    score: float | None
    status: str
    verdict: Markup
    answer: Markup | None = None
    sources: list[str] = field(default_factory=list)
    printed: str = ""
    comments: list[Markup] = field(default_factory=list)


class ReadGrades(GetGrades):  # type: ignore[misc]
    """nbgrader's reading of grades from the gradebook, and who marked the answer: `marked` is True
    when a person did, False when a person has yet to, None when nobody needs to."""

    def _get_score(self, cell: Any, resources: dict[str, Any]) -> None:
        super()._get_score(cell, resources)
        about = cell.metadata.nbgrader
        grade = self.gradebook.find_grade(
            about["grade_id"], self.notebook_id, self.assignment_id, self.student_id
        )
        by_person = grade.manual_score is not None
        about["marked"] = True if by_person else False if grade.needs_manual_grade else None


class FeedbackExporter(Exporter):
    """Makes the page of one graded notebook."""

    def _file_extension_default(self) -> str:
        return ".html"

    def from_notebook_node(
        self, nb: Any, resources: Any = None, **kw: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The page, and nbconvert's resources with the scores that nbgrader read."""
        notebook, resources = super().from_notebook_node(nb, resources, **kw)
        about = resources["nbgrader"]
        own = [
            cell.source
            for cell in notebook.cells
            if cell.cell_type == "code" and str(cell.get("id", "")).startswith("own-")
        ]
        shown = items(notebook)
        page = _template().render(
            title=notebook.metadata.get(METADATA_KEY, {}).get("title", about["notebook"]),
            student=about["student"],
            score=about["score"],
            max_score=about["max_score"],
            late_penalty=about["late_penalty"],
            unmarked=sum(item.points for item in shown if item.score is None),
            items=shown,
            own=own,
        )
        return page, resources


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["points"] = points_text
    environment.filters["breakable"] = breakable
    return environment.get_template("feedback.html.j2")


def points_text(points: float) -> str:
    """Points as a person writes them: 2, 1.5, 0.33."""
    return f"{round(float(points), 2):g}"


def breakable(name: str) -> Markup:
    """A name that a narrow screen may break after each underscore."""
    return Markup(str(Markup.escape(name)).replace("_", "_<wbr>"))


def items(notebook: Any) -> list[Item]:
    """What the page shows, in the notebook's order."""
    sources: dict[str, list[str]] = {}
    comments: dict[str, list[Markup]] = {}
    found = []
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader", {})
        grade_id = about.get("grade_id", "")
        task = re.sub(r"-\d+$", "", grade_id.removeprefix(CHECK_PREFIX))
        if about.get("solution"):
            sources.setdefault(task, []).append(cell.source)
            if about.get("comment"):
                comments.setdefault(task, []).append(_prose(about["comment"]))
        if not about.get("grade"):
            continue
        if about.get("solution"):
            item = Item(grade_id, about["points"], about["score"], "no response", Markup())
            item.answer = _prose(cell.source)
            if about["marked"] is not None:
                item.status = "marked by a person" if about["marked"] else "not marked yet"
            if about["marked"] is False:
                item.score = None
        else:
            item = _judged(cell, about)
            item.name, item.sources = task, sources.get(task, [])
        item.comments = comments.get(task, [])
        found.append(item)
    return found


def _judged(cell: Any, about: Mapping[str, Any]) -> Item:
    item = Item("", about["points"], about["score"], "not judged", Markup.escape(NOT_JUDGED))
    for output in cell.outputs:
        if output.output_type == "stream":
            item.printed = output.text
        data = output.get("data", {}).get(VERDICT_TYPE)
        if data is not None:
            verdict = Verdict.from_data(data)
            item.verdict = Markup(wording.html(verdict))
            item.status = "partly right" if 0 < verdict.score < 1 else str(verdict.status)
    return item


def clean_markdown(text: str) -> Markup:
    """Markdown as HTML that can do nothing."""
    return Markup(
        bleach.clean(markdown2html(text), tags=_TAGS, attributes={"a": ["href", "title"]})
    )


def _prose(text: str) -> Markup:
    """Markdown for a page without scripts: a formula is set as code, without its dollar signs."""
    pieces = _CODE.split(str(clean_markdown(text)))
    # Every other piece is code already.
    return Markup("".join(piece if i % 2 else _formulas(piece) for i, piece in enumerate(pieces)))


def _formulas(html: str) -> str:
    return _FORMULA.sub(lambda found: f"<code>{(found[1] or found[2]).strip()}</code>", html)
