"""Grades as CSV files that a spreadsheet opens safely: quoted, and no name read as a formula."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import ExportPlugin

COLUMNS = (
    "assignment",
    "duedate",
    "timestamp",
    "student_id",
    "last_name",
    "first_name",
    "email",
    "raw_score",
    "late_submission_penalty",
    "score",
    "max_score",
)
# What a row of `task_rows` has beside the tasks.
ABOUT = (
    "assignment",
    "student_id",
    "last_name",
    "first_name",
    "late_submission_penalty",
    "score",
    "max_score",
)
# A spreadsheet takes a cell that begins with one of these for a formula (also in full width).
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def safe(value: object) -> object:
    """Text that a spreadsheet would run as a formula, disarmed with an apostrophe; numbers as they
    are."""
    if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA):
        return f"'{value}"
    return "" if value is None else value


def write_csv(file: TextIO, columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    """Write rows with a header, every text made safe."""
    writer = csv.writer(file)
    writer.writerow([safe(column) for column in columns])
    for row in rows:
        writer.writerow([safe(row[column]) for column in columns])


class CsvExport(ExportPlugin):  # type: ignore[misc]
    """nbgrader's CSV export with its columns and order: one row per assignment and student."""

    def export(self, gradebook: Gradebook) -> None:
        """Write `--to`, by default grades.csv."""
        path = Path(self.to or "grades.csv")
        self.log.info("Exporting grades to %s", path)
        chosen = [set(map(str, names)) for names in (self.assignment, self.student)]
        with path.open("w", newline="", encoding="utf-8") as file:
            write_csv(file, COLUMNS, grade_rows(gradebook, *chosen))


def grade_rows(
    gradebook: Gradebook, assignments: set[str], students: set[str]
) -> Iterator[dict[str, Any]]:
    """One row per assignment and student, those named or all. No submission is 0 points."""
    for assignment in gradebook.assignments:
        if assignments and assignment.name not in assignments:
            continue
        for student in gradebook.students:
            if students and student.id not in students:
                continue
            row = {
                "assignment": assignment.name,
                "duedate": _text(assignment.duedate),
                "timestamp": "",
                "student_id": student.id,
                "last_name": student.last_name,
                "first_name": student.first_name,
                "email": student.email,
                "raw_score": 0.0,
                "late_submission_penalty": 0.0,
                "score": 0.0,
                "max_score": assignment.max_score,
            }
            try:
                submission = gradebook.find_submission(assignment.name, student.id)
            except MissingEntry:
                yield row
                continue
            penalty = submission.late_submission_penalty
            yield row | {
                "timestamp": _text(submission.timestamp),
                "raw_score": submission.score,
                "late_submission_penalty": penalty,
                "score": max(0.0, submission.score - penalty),
            }


def _text(value: object) -> str:
    return "" if value is None else str(value)


class TaskCsvExport(ExportPlugin):  # type: ignore[misc]
    """One row per student and assignment with the points of each task: `nbgrader export
    --exporter gradelib.grading.exports.TaskCsvExport`."""

    def export(self, gradebook: Gradebook) -> None:
        """Write `--to`, by default grades_by_task.csv."""
        path = Path(self.to or "grades_by_task.csv")
        self.log.info("Exporting grades to %s", path)
        rows = list(task_rows(gradebook, set(map(str, self.assignment))))
        columns = list(dict.fromkeys(column for row in rows for column in row))
        with path.open("w", newline="", encoding="utf-8") as file:
            write_csv(file, columns, ({**dict.fromkeys(columns), **row} for row in rows))


def task_rows(gradebook: Gradebook, assignments: set[str]) -> Iterator[dict[str, Any]]:
    """One row per student who handed in: points of each graded cell (None: a person has yet to mark
    it), penalty, score so far, maximum."""
    for assignment in gradebook.assignments:
        if assignments and assignment.name not in assignments:
            continue
        for submission in sorted(assignment.submissions, key=lambda each: str(each.student_id)):
            row: dict[str, Any] = {
                "assignment": assignment.name,
                "student_id": submission.student_id,
                "last_name": submission.student.last_name,
                "first_name": submission.student.first_name,
            }
            for notebook in sorted(submission.notebooks, key=lambda each: str(each.name)):
                for each in notebook.grades:
                    unmarked = each.needs_manual_grade and each.manual_score is None
                    row[each.name.removeprefix("check-")] = None if unmarked else each.score
            penalty = submission.late_submission_penalty
            yield row | {
                "late_submission_penalty": penalty,
                "score": max(0.0, submission.score - penalty),
                "max_score": submission.max_score,
            }
