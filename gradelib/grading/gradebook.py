"""nbgrader's gradebook of a course: open it as nbgrader would, and save many submissions at once.

`save` writes what nbgrader's own autograde writes, row for row, in one transaction; marks and
comments that a person gave stay.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    new_uuid,
)
from nbgrader.apps.baseapp import NbGrader
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties
from sqlalchemy import insert
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


def require_known(coursedir: CourseDirectory, assignments: Iterable[str]) -> None:
    """Raise CourseError, with those that there are, when the course has no such assignment."""
    root = Path(coursedir.root)
    folders = [root / coursedir.source_directory, root / coursedir.release_directory]
    known = {
        path.name
        for folder in folders
        if folder.is_dir()
        for path in folder.iterdir()
        if path.is_dir() and not path.name.startswith(".")
    }
    if unknown := sorted(set(assignments) - known):
        there = ", ".join(sorted(known)) or "none"
        raise CourseError(f"this course has no exercise {', '.join(unknown)}; it has {there}")


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
        self._insert(Student, [{"id": name} for name in names if name not in known])
        handed_in = {
            each.student_id: each
            for each in self.db.query(SubmittedAssignment).filter(
                SubmittedAssignment.assignment_id == self.assignment.id,
                SubmittedAssignment.student_id.in_(names),
            )
        }
        self._add([entry for entry in entries if entry.student not in handed_in])
        for entry in entries:
            if (submission := handed_in.get(entry.student)) is None:
                continue
            if entry.timestamp is not None:
                submission.timestamp = entry.timestamp
            for notebook in submission.notebooks:
                self._mark(notebook, entry.notebooks.get(notebook.name))
        self.db.flush()
        if self.assignment.duedate is not None:
            self._penalise_all(entries)

    def _insert(self, table: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            self.db.execute(insert(table), list(rows))

    def _add(self, entries: Sequence[Entry]) -> None:
        """New submissions, row by row as nbgrader makes them, but all rows of a table at once."""
        rows: dict[Any, list[dict[str, Any]]] = {
            table: [] for table in (SubmittedAssignment, SubmittedNotebook, Grade, Comment)
        }
        for entry in entries:
            submission = new_uuid()
            rows[SubmittedAssignment].append(
                {
                    "id": submission,
                    "assignment_id": self.assignment.id,
                    "student_id": entry.student,
                    "timestamp": entry.timestamp,
                }
            )
            for notebook in self.assignment.notebooks:
                made = new_uuid()
                rows[SubmittedNotebook].append(
                    {"id": made, "assignment_id": submission, "notebook_id": notebook.id}
                )
                marks = entry.notebooks.get(notebook.name)
                for cell in self.cells[notebook.name]:
                    where = {"cell_id": cell.id, "notebook_id": made}
                    if isinstance(cell, (SolutionCell, TaskCell)):
                        comment = marks.comments.get(cell.name) if marks is not None else None
                        rows[Comment].append({**where, "auto_comment": comment})
                    if not isinstance(cell, SolutionCell):
                        score = marks.scores.get(cell.name) if marks is not None else 0
                        rows[Grade].append(
                            {**where, "auto_score": score, "needs_manual_grade": score is None}
                        )
        for table, made_rows in rows.items():
            self._insert(table, made_rows)

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

    def _penalise_all(self, entries: Sequence[Entry]) -> None:
        wanted = {entry.student: entry for entry in entries}
        for submission in self.db.query(SubmittedAssignment).filter(
            SubmittedAssignment.assignment_id == self.assignment.id,
            SubmittedAssignment.student_id.in_(list(wanted)),
        ):
            entry = wanted[submission.student_id]
            late = submission.total_seconds_late
            for notebook in submission.notebooks:
                if entry.notebooks.get(notebook.name) is None:
                    continue
                notebook.late_submission_penalty = None
                if late > 0:
                    # The score is a sum that the database makes.
                    self.db.flush()
                    self.db.refresh(notebook)
                    penalty = self.penalties.plugin_inst.late_submission_penalty(
                        entry.student, notebook.score, late
                    )
                    if penalty is not None:
                        notebook.late_submission_penalty = self.penalties._check_late_penalty(
                            notebook, penalty
                        )
