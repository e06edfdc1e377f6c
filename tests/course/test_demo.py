"""The demo: the whole way from exercises to grades, with the sample class."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from solutions import demo
from solutions.sample_class import EXERCISE
from solutions.sample_class.students import STUDENTS


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
