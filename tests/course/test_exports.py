"""Exported grades open in a spreadsheet as they are meant."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbgrader.plugins import CsvExportPlugin

from gradelib.grading import cli
from gradelib.grading.course import Course
from gradelib.grading.exports import COLUMNS, CsvExport, TaskCsvExport, safe, task_rows, write_csv
from gradelib.grading.gradebook import nbgrader_of, open_gradebook
from tests.course.tools import RIGHT, TINY, answered, autograde, hand_in, released

NAMES = {
    "comma": ("Ann, Marie", "O'Neil"),
    "quote": ('Ann "Annie"', "Smith"),
    "newline": ("Ann\nMarie", "Smith\r\nJones"),
    "equals": ("=cmd|' /C calc'!A0", "Smith"),
    "plus": ("+1+1", "-2+3"),
    "at": ("@SUM(A1)", "\t=1"),
    "full width": ("＝1+1", "Smith"),
    "plain": ("Zoë", "Müller-Lüdenscheidt"),
}


@pytest.fixture
def graded(course: Course) -> Course:
    """A course whose students have difficult names; one of them handed in."""
    hand_in(course, "comma", answered(released(course), RIGHT))
    autograde(course)
    coursedir, _ = nbgrader_of(course)
    with open_gradebook(coursedir) as book:
        for student, (first, last) in NAMES.items():
            book.update_or_create_student(student, first_name=first, last_name=last)
    return course


def _export(course: Course, kind: type, path: Path) -> list[dict[str, str]]:
    coursedir, _ = nbgrader_of(course)
    with open_gradebook(coursedir) as book:
        kind(to=str(path)).export(book)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_name_comes_back_and_no_cell_is_a_formula(graded: Course, tmp_path: Path) -> None:
    rows = {row["student_id"]: row for row in _export(graded, CsvExport, tmp_path / "grades.csv")}
    assert set(rows) == set(NAMES)
    for student, names in NAMES.items():
        for column, name in zip(("first_name", "last_name"), names, strict=True):
            assert rows[student][column].removeprefix("'") == name
            assert (
                not rows[student][column].lstrip(" ").startswith(("=", "+", "-", "@", "\t", "＝"))
            )
    assert float(rows["comma"]["score"]) == 6.5
    assert float(rows["plain"]["score"]) == 0.0


def test_columns_and_plain_rows_are_nbgraders_own(graded: Course, tmp_path: Path) -> None:
    ours = _export(graded, CsvExport, tmp_path / "ours.csv")
    coursedir, _ = nbgrader_of(graded)
    with open_gradebook(coursedir) as book:
        for student in NAMES:
            if student not in ("plain", "comma"):
                book.remove_student(student)
        book.update_or_create_student("comma", first_name="Ann", last_name="B")
        book.db.commit()
    theirs = _export(graded, CsvExportPlugin, tmp_path / "theirs.csv")
    again = _export(graded, CsvExport, tmp_path / "again.csv")
    assert again == theirs
    assert list(ours[0]) == list(COLUMNS)


def test_the_table_by_task_has_a_column_for_each_task(graded: Course, tmp_path: Path) -> None:
    [row] = _export(graded, TaskCsvExport, tmp_path / "tasks.csv")
    assert (row["packed_bytes"], row["spread"], row["settings"]) == ("2.0", "3.0", "1.5")
    assert (row["score"], row["max_score"]) == ("6.5", "8.5")
    assert row["what_did_you_observe"] == ""  # not marked yet, which is not 0


def test_the_grades_command_writes_the_same_table(
    graded: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "by_task.csv"
    assert cli.main(["grades", "--course", str(graded.root), "--csv", str(target)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"comma +Ann, Marie O'Neil +2 +3 +1\.5 +– +6\.5 of 8\.5", shown)
    assert "1 packed_bytes  2 spread  3 settings  4 what_did_you_observe" in shown
    assert "not marked yet" in shown
    assert cli.main(["grades", "--course", str(graded.root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["what_did_you_observe"] is None
    _export(graded, TaskCsvExport, tmp_path / "tasks.csv")
    assert target.read_bytes() == (tmp_path / "tasks.csv").read_bytes()


def test_a_written_answer_has_points_once_a_person_gave_them(graded: Course) -> None:
    coursedir, _ = nbgrader_of(graded)
    with open_gradebook(coursedir) as book:
        grade = book.find_grade("what_did_you_observe", TINY, TINY, "comma")
        grade.manual_score, grade.needs_manual_grade = 0.0, False
        book.db.commit()
        [row] = task_rows(book, set())
    assert row["what_did_you_observe"] == 0.0


def test_an_untouched_written_answer_has_no_points_and_nobody_waits_for_it(course: Course) -> None:
    hand_in(course, "ann", released(course))
    autograde(course)
    coursedir, _ = nbgrader_of(course)
    with open_gradebook(coursedir) as book:
        [row] = task_rows(book, set())
    assert row["what_did_you_observe"] == 0.0


def test_a_name_in_the_table_is_no_markup_and_one_line(
    graded: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    coursedir, _ = nbgrader_of(graded)
    with open_gradebook(coursedir) as book:
        book.update_or_create_student("comma", first_name="[red]A\nB[/]", last_name="[/oops]")
    assert cli.main(["grades", "--course", str(graded.root)]) == 0
    assert "[red]A B[/] [/oops]" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["grade", "grades", "collect"])
def test_an_unknown_exercise_is_an_error_that_names_the_known_ones(
    course: Course, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command, "99_none", "--course", str(course.root)]) == cli.FAILED
    assert f"no exercise 99_none; it has {TINY}" in capsys.readouterr().err


@given(st.text(max_size=20))
def test_any_text_survives_and_is_no_formula(text: str) -> None:
    made = safe(text)
    assert isinstance(made, str)
    assert made in (text, f"'{text}")
    assert not made.lstrip(" ").startswith(("=", "+", "-", "@"))


def test_numbers_are_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "n.csv"
    with target.open("w", newline="") as file:
        write_csv(file, ["a"], [{"a": -1.5}, {"a": None}])
    assert target.read_text().split() == ["a", "-1.5", '""']
