"""The bundled class: every student gets the intended score and verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gradelib.grading import grade, release
from gradelib.grading.course import prepared_checks
from gradelib.grading.layout import Layout
from gradelib.grading.source import read_exercise
from gradelib.grading.work import Isolation
from gradelib.notebook import release_text
from solutions.sample_class import EXERCISE, Student
from solutions.sample_class.students import STUDENTS
from tests.conftest import need_command

ROOT = Path(__file__).parents[2]
SEEDS = ["demo", "another seed"]


@pytest.fixture(scope="module")
def layout() -> Layout:
    """Exercise 21 as it is released."""
    exercise = read_exercise(ROOT / "exercises" / EXERCISE / f"{EXERCISE}.md")
    checks = prepared_checks("solutions.checks", EXERCISE, SEEDS[0])
    public = release_text(EXERCISE, checks, frozenset())
    files = {f"{EXERCISE}.checks.json": public.encode()}
    return Layout.of(EXERCISE, release.released_notebook(exercise), files)


@pytest.fixture(scope="module")
def place(layout: Layout) -> Iterator[Isolation]:
    """Bubblewrap: the class has cheats that try to break out."""
    need_command("bwrap", "apt-get install bubblewrap")
    place = grade.place_for(layout.requires, "bubblewrap", "solutions.checks")
    yield place
    place.close()


@pytest.mark.sandbox
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("student", STUDENTS, ids=[student.id for student in STUDENTS])
def test_a_student_gets_the_intended_verdicts(
    student: Student, seed: str, layout: Layout, place: Isolation
) -> None:
    checks = prepared_checks("solutions.checks", EXERCISE, seed)
    result = grade.grade(student.submission(layout.notebook), layout, checks, place)
    assert list(result.verdicts) == list(checks)
    for task, verdict in result.verdicts.items():
        wanted = student.expects(task)
        found = (str(verdict.status), verdict.score, verdict.misconception)
        assert found == (wanted.status, wanted.score, wanted.misconception), verdict.message


def test_the_class_has_every_kind_of_submission() -> None:
    assert len(STUDENTS) >= 12
    assert len({student.id for student in STUDENTS}) == len(STUDENTS)
    statuses = {each.status for student in STUDENTS for each in student.expected.values()}
    assert statuses >= {"wrong", "bad value", "raised", "crashed", "timed out", "ungradable"}
    assert sum(student.about.startswith("right") for student in STUDENTS) >= 3
    assert sum(student.about.startswith("cheating") for student in STUDENTS) >= 3
