"""nbgrader's gradebook of a course: open it as nbgrader would, and save many submissions at once.

`save` writes what nbgrader's own autograde writes, row for row, in one transaction; marks and
comments that a person gave stay.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.api import (
    Assignment,
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    MissingEntry,
    SolutionCell,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
    TaskCell,
)
from nbgrader.apps.baseapp import NbGrader
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from gradelib.grading.course import Course
from gradelib.grading.errors import CourseError
from gradelib.grading.layout import Layout

ATTEMPTS = 8


@dataclass(frozen=True)
class Marks:
    """What autograding says of one notebook: points by cell (None: a person must mark it), and
    automatic comments by cell."""

    scores: Mapping[str, float | None]
    comments: Mapping[str, str | None]


@dataclass(frozen=True)
class Entry:
    """One submission for the gradebook. A notebook without marks was not handed in."""

    student: str
    timestamp: datetime | None
    notebooks: Mapping[str, Marks | None]


def nbgrader_of(course: Course) -> tuple[CourseDirectory, Any]:
    """nbgrader's view of the course, and its configuration, read as its own commands read it."""
    app = NbGrader(log_level="ERROR")
    try:
        app.initialize([], root=str(course.root))
    finally:
        # nbgrader puts the current folder in front; a course must not shadow a module.
        sys.path[:] = [entry for entry in sys.path if entry != str(Path.cwd())] + [
            entry for entry in sys.path if entry == str(Path.cwd())
        ][:1]
    return app.coursedir, app.config


@contextmanager
def alembic_on_path() -> Iterator[None]:
    """nbgrader asks the command `alembic`, which lies beside the interpreter, when it makes a
    gradebook."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before


@contextmanager
def open_gradebook(coursedir: CourseDirectory) -> Iterator[Gradebook]:
    """The gradebook, made when it is not there yet. Raises CourseError when it cannot be opened."""
    try:
        with alembic_on_path():
            book = Gradebook(coursedir.db_url, coursedir.course_id)
    except DBAPIError as error:
        raise CourseError(f"the gradebook cannot be opened: {error.orig}") from error
    with book:
        yield book


def require_same_points(book: Gradebook, notebook: str, assignment: str, layout: Layout) -> None:
    """Raise CourseError when the release and the gradebook do not agree on a cell's points."""
    try:
        cells = book.find_notebook(notebook, assignment).grade_cells
    except MissingEntry as error:
        raise CourseError(
            f"{assignment} is not in the gradebook: run nbgrader generate_assignment {assignment}"
        ) from error
    known = {cell.name: float(cell.max_score) for cell in cells}
    released = {
        about["grade_id"]: float(about["points"])
        for cell in layout.notebook["cells"]
        if (about := cell["metadata"].get("nbgrader", {})).get("grade")
    }
    if known != released:
        differing = sorted(set(known.items()) ^ set(released.items()))
        raise CourseError(
            f"release/{assignment} and the gradebook differ in {', '.join(dict.fromkeys(n for n, _ in differing))}: run "
            f"nbgrader generate_assignment --force {assignment}"
        )


def save(book: Gradebook, assignment: str, entries: Sequence[Entry], config: Any) -> None:
    """Write submissions in one transaction, again when another grader was in the way.

    Raises CourseError when the assignment is not in the gradebook or the database refuses; then
    nothing of these entries was written.
    """
    for attempt in range(ATTEMPTS):
        try:
            _Writer(book, assignment, config).write(entries)
            book.db.commit()
            return
        except (IntegrityError, OperationalError) as error:
            book.db.rollback()
            full = "full" in str(error.orig).lower()
            if attempt == ATTEMPTS - 1 or full:
                raise CourseError(
                    f"the gradebook refused {len(entries)} submissions: {error.orig}"
                ) from error
            time.sleep(0.05 * 2**attempt)
        except BaseException:
            book.db.rollback()
            raise


class _Writer:
    def __init__(self, book: Gradebook, assignment: str, config: Any) -> None:
        self.db = book.db
        try:
            self.assignment: Assignment = book.find_assignment(assignment)
        except MissingEntry as error:
            raise CourseError(
                f"{assignment} is not in the gradebook: run nbgrader generate_assignment {assignment}"
            ) from error
        self.penalties = AssignLatePenalties(config=config)
        self.penalties.init_plugin()
        self.cells: dict[str, list[BaseCell]] = {
            notebook.name: list(notebook._base_cells) for notebook in self.assignment.notebooks
        }

    def write(self, entries: Sequence[Entry]) -> None:
        names = [entry.student for entry in entries]
        known = {row.id for row in self.db.query(Student.id).filter(Student.id.in_(names))}
        for name in names:
            if name not in known:
                self.db.add(Student(id=name))
        self.db.flush()
        handed_in = {
            each.student_id: each
            for each in self.db.query(SubmittedAssignment).filter(
                SubmittedAssignment.assignment_id == self.assignment.id,
                SubmittedAssignment.student_id.in_(names),
            )
        }
        for entry in entries:
            submission = handed_in.get(entry.student) or self._added(entry)
            if entry.timestamp is not None:
                submission.timestamp = entry.timestamp
            for notebook in submission.notebooks:
                self._mark(notebook, entry.notebooks.get(notebook.name))
            self.db.flush()
            self._penalise(submission, entry)

    def _added(self, entry: Entry) -> SubmittedAssignment:
        submission = SubmittedAssignment(assignment_id=self.assignment.id, student_id=entry.student)
        self.db.add(submission)
        for notebook in self.assignment.notebooks:
            made = SubmittedNotebook(notebook_id=notebook.id, assignment=submission)
            self.db.add(made)
            for cell in self.cells[notebook.name]:
                if isinstance(cell, (SolutionCell, TaskCell)):
                    self.db.add(Comment(cell_id=cell.id, notebook=made))
                if not isinstance(cell, SolutionCell):
                    self.db.add(Grade(cell_id=cell.id, notebook=made))
        self.db.flush()
        return submission

    def _mark(self, notebook: SubmittedNotebook, marks: Marks | None) -> None:
        for grade in notebook.grades:
            if marks is None:
                grade.auto_score, grade.needs_manual_grade = 0, False
                continue
            if grade.name not in marks.scores:
                continue
            grade.auto_score = marks.scores[grade.name]
            grade.needs_manual_grade = grade.manual_score is not None or grade.auto_score is None
        for comment in notebook.comments:
            if marks is not None and comment.name in marks.comments:
                comment.auto_comment = marks.comments[comment.name]

    def _penalise(self, submission: SubmittedAssignment, entry: Entry) -> None:
        late = submission.total_seconds_late
        for notebook in submission.notebooks:
            if entry.notebooks.get(notebook.name) is None:
                continue
            notebook.late_submission_penalty = None
            if late > 0:
                self.db.flush()
                self.db.refresh(notebook)
                penalty = self.penalties.plugin_inst.late_submission_penalty(
                    entry.student, notebook.score, late
                )
                if penalty is not None:
                    notebook.late_submission_penalty = self.penalties._check_late_penalty(
                        notebook, penalty
                    )
