"""The judge inside nbgrader: what a course's `nbgrader_config.py` plugs in.

`SubmissionExporter` reads any submission into a fresh copy of the release, `Judge` stands where
nbgrader would execute the notebook. No kernel is started. Saving grades, late penalties, manual
grades and regrades stay nbgrader's own.
"""

from __future__ import annotations

import atexit
import logging
import os
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbgrader.api import Gradebook
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    NbGraderPreprocessor,
    SaveAutoGrades,
)

from gradelib.grading import collect, grade, inlining
from gradelib.grading.course import Course
from gradelib.grading.errors import CourseError
from gradelib.grading.gradebook import require_same_points
from gradelib.grading.layout import TEXT_STUB, Layout
from gradelib.grading.submission import UnreadableError, empty_submission, read_submission
from gradelib.grading.work import Isolation

_log = logging.getLogger(__name__)


def configure(c: Any, root: Path) -> None:
    """Set up nbgrader for a course made by `one-gpu course new`."""
    c.CourseDirectory.root = str(root)
    c.ClearSolutions.code_stub = {"python": inlining.STUB}
    c.ClearSolutions.text_stub = TEXT_STUB
    c.Autograde.exporter_class = SubmissionExporter
    c.Autograde.pre_convert_hook = drop_traps
    c.Autograde.sanitize_preprocessors = [CheckCellMetadata]
    c.Autograde.autograde_preprocessors = [
        Judge,
        SaveAutoGrades,
        AssignLatePenalties,
        CheckCellMetadata,
    ]
    c.GenerateFeedback.exporter_class = "gradelib.grading.feedback.FeedbackExporter"
    c.GenerateFeedback.preprocessors = ["gradelib.grading.feedback.ReadGrades"]
    c.ExportApp.plugin_class = "gradelib.grading.exports.CsvExport"
    # The formgrader shows learners' Markdown to an instructor.
    c.HTMLExporter.filters = {"markdown2html": "gradelib.grading.feedback.clean_markdown"}


def drop_traps(notebooks: list[str], **_about: Any) -> None:
    """Remove every link, pipe and device from a student's folder before nbgrader copies it: what a
    link leads to would be handed back as feedback, and a pipe never ends.

    notebooks: nbgrader's own list of the student's notebooks; those that are none leave it.
    """
    for path in {Path(name).parent for name in notebooks}:
        for trap in _traps(path):
            _log.warning("%s was removed: %s", trap, collect.NO_LINKS)
            trap.unlink()
    notebooks[:] = [name for name in notebooks if collect.is_plain_file(Path(name))]


def _traps(folder: Path) -> list[Path]:
    """What must not be followed or read of a student's folder for an assignment."""
    linked = [path for path in (folder.parent, folder) if path.is_symlink()]
    return linked[:1] or [path for path, plain in collect.walk(folder) if not plain]


class SubmissionExporter(NotebookExporter):
    """Reads a submitted file, however damaged, as the release with the learner's texts."""

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The notebook's text, and nbconvert's resources."""
        converter: Any = self.parent
        if resources is None or not getattr(converter, "_sanitizing", False):
            return super().from_filename(filename, resources, **kw)
        if traps := _traps(Path(filename).parent):
            raise CourseError(f"{traps[0]} is a link or no plain file: {collect.NO_LINKS}")
        layout = _layout(converter.coursedir, resources["nbgrader"])
        try:
            submission = read_submission(collect.read_plain(Path(filename)), layout)
        except UnreadableError as error:
            self.log.warning("%s: %s", filename, error)
            submission = empty_submission(layout)
        for note in submission.notes:
            self.log.warning("%s: %s", filename, note.text)
        resources["metadata"] = {"name": Path(filename).stem, "path": str(Path(filename).parent)}
        notebook = nbformat.from_dict(submission.notebook)  # type: ignore[no-untyped-call]
        return self.from_notebook_node(notebook, resources, **kw)  # type: ignore[no-any-return, no-untyped-call]


class Judge(NbGraderPreprocessor):  # type: ignore[misc]
    """Judges the submitted file and writes the verdicts on the check cells."""

    def preprocess(self, nb: Any, resources: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Whatever happens, no check cell leaves without an output of its own."""
        about = resources["nbgrader"]
        coursedir = self.parent.parent.coursedir
        layout = _layout(coursedir, about)
        course = Course.open(Path(coursedir.root))
        checks = course.checks(layout.exercise) if layout.exercise else {}
        folder = coursedir.format_path(
            coursedir.submitted_directory, about["student"], about["assignment"]
        )
        with Gradebook(about["db_url"]) as book:
            require_same_points(book, about["notebook"], about["assignment"], layout)
        data = collect.read_plain(Path(folder) / f"{about['notebook']}.ipynb")
        place = _place(layout.requires, course.settings.isolation, course.settings.checks)
        result = grade.grade(data, layout, checks, place)
        grade.mark(nb, result.verdicts, result.printed)
        for i, cell in enumerate(nb.cells):
            nb.cells[i] = nbformat.from_dict(cell)  # type: ignore[no-untyped-call]
        return nb, resources


def _layout(coursedir: Any, about: dict[str, str]) -> Layout:
    folder = coursedir.format_path(coursedir.release_directory, ".", about["assignment"])
    path = Path(folder) / f"{about['notebook']}.ipynb"
    return _read_layout(path, path.stat().st_mtime_ns if path.is_file() else 0)


@cache
def _read_layout(path: Path, _changed: int) -> Layout:
    return Layout.load(path)


_places: dict[tuple[str, str | None, str, int], Isolation] = {}


def _place(requires: str, name: str | None, checks_package: str) -> Isolation:
    """One isolation per kind of exercise and process; it ends with the process."""
    key = (requires, name, checks_package, os.getpid())
    if key not in _places:
        _places[key] = grade.place_for(requires, name, checks_package)
        atexit.register(_places[key].close)
    return _places[key]
