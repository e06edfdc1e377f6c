"""The demo: the whole way from exercises to grades, with the sample class."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gradelib.grading import release
from gradelib.grading.course import Course, Settings, sources_beside
from gradelib.grading.errors import CourseError
from gradelib.grading.source import read_exercise
from gradelib.grading.work import IsolationError
from solutions import demo
from solutions.sample_class import EXERCISE
from solutions.sample_class.students import STUDENTS


def test_without_isolation_nothing_hostile_runs_and_the_demo_says_so_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_isolation() -> None:
        raise IsolationError("bubblewrap is not installed.")

    def released(root: Path, name: str | None, *, replace: bool) -> Course:
        assert (name, replace) == ("none", False)
        exercise = read_exercise(sources_beside(demo.CHECKS) / EXERCISE / f"{EXERCISE}.md")
        path = root / "release" / EXERCISE / f"{EXERCISE}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(release.notebook_text(release.released_notebook(exercise)))
        return Course(root, Settings(demo.CHECKS, demo.SEED, name))

    def grade_class(course: Course, *_: object, **__: object) -> None:
        said = capsys.readouterr().err
        assert "without isolation" in said
        assert "left out: jun, lena. bubblewrap is not installed." in said
        handed_in = {path.name for path in (course.root / "submitted").iterdir()}
        assert handed_in == {student.id for student in STUDENTS if not student.hostile}
        raise CourseError("graded")

    monkeypatch.setattr(demo, "isolation", no_isolation)
    monkeypatch.setattr(demo, "_make", released)
    monkeypatch.setattr(demo, "_enrol", lambda *_: None)
    monkeypatch.setattr(demo.batch, "grade_class", grade_class)
    assert demo.main([str(tmp_path / "demo")]) == 2
    assert capsys.readouterr().err == "graded\n"


@pytest.mark.slow
def test_the_demo_grades_the_sample_class_as_intended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "demo"
    assert demo.main([str(root), "--jobs", "2", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["student"] for row in data["students"]] == [student.id for student in STUDENTS]
    assert all(row["as_intended"] for row in data["students"])
    assert data["isolation"]
    for row in data["students"]:
        page = Path(row["feedback"]).read_text(encoding="utf-8")
        assert f"<strong>{row['student']}</strong>" in page
    with (root / "grades.csv").open(newline="", encoding="utf-8") as file:
        rows = {
            row["student_id"]: row for row in csv.DictReader(file) if row["assignment"] == EXERCISE
        }
    assert {name: float(row["score"]) for name, row in rows.items()} == {
        row["student"]: pytest.approx(row["score"]) for row in data["students"]
    }
    assert rows["pilar"]["first_name"].startswith("'=HYPERLINK(")
    # Without --replace, a course that is there is left alone.
    assert demo.main([str(root)]) == 2
    assert "exists already" in capsys.readouterr().err
