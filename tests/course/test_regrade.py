"""An instructor changes an exercise after it was graded: explicit, and nothing that a person gave is lost.

Every change is graded again by nbgrader's own command and by the parallel one, in two copies of one
course, and the gradebooks must be equal.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from nbgrader.converters.base import NbGraderException

from gradelib.checks import Check, case
from gradelib.compare import relative
from gradelib.grading import batch
from gradelib.grading.course import Course, prepared_checks
from gradelib.grading.errors import CourseError
from gradelib.grading.gradebook import nbgrader_of, open_gradebook
from tests.course.classes import hand_in_honest
from tests.course.test_batch import _copy, _environment
from tests.course.tools import (
    RIGHT,
    TINY,
    answered,
    autograde,
    cell_of,
    generate_assignment,
    gradebook_rows,
    hand_in,
    released,
    scores,
)

pytestmark = pytest.mark.slow

STUDENT = "honest000"  # everything right
WRITTEN = "what_did_you_observe"
Rows = list[tuple[Any, ...]]
Change = Callable[[Course, pytest.MonkeyPatch], None]


def _edit_source(course: Course, edit: Callable[[dict[str, Any]], object]) -> None:
    path = course.root / "source" / TINY / f"{TINY}.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    edit(notebook)
    path.write_text(json.dumps(notebook), encoding="utf-8")


def _give_points(points: float) -> Change:
    def change(course: Course, _patch: pytest.MonkeyPatch) -> None:
        def edit(notebook: dict[str, Any]) -> None:
            cell_of(notebook, "check-spread")["metadata"]["nbgrader"]["points"] = points

        _edit_source(course, edit)

    return change


def _move_points(course: Course, _patch: pytest.MonkeyPatch) -> None:
    def edit(notebook: dict[str, Any]) -> None:
        for task, points in (("spread", 1.0), ("packed_bytes", 4.0)):
            cell_of(notebook, f"check-{task}")["metadata"]["nbgrader"]["points"] = points

    _edit_source(course, edit)


def _drop_a_check(course: Course, _patch: pytest.MonkeyPatch) -> None:
    _edit_source(course, lambda book: book["cells"].remove(cell_of(book, "check-settings")))


def _add_a_question(course: Course, _patch: pytest.MonkeyPatch) -> None:
    def edit(notebook: dict[str, Any]) -> None:
        new = deepcopy(cell_of(notebook, WRITTEN))
        new["metadata"]["nbgrader"]["grade_id"] = "and_why"
        new["id"] = "and-why"
        notebook["cells"].append(new)

    _edit_source(course, edit)


def _mend_a_check(_course: Course, patch: pytest.MonkeyPatch) -> None:
    """The reference was wrong: bytes are now rounded down."""
    from tiny_checks import tiny

    patch.setattr(
        tiny,
        "packed_bytes",
        Check(
            reference=lambda count, bits: count * bits // 8,
            public=[case(3, 4), case(16, 16)],
            hidden=lambda draw: [case(draw.integer(100, 900), 3)],
        ),
    )


def _widen_a_tolerance(_course: Course, patch: pytest.MonkeyPatch) -> None:
    from tiny_checks import references, tiny

    patch.setattr(
        tiny,
        "packed_bytes",
        Check(
            reference=references.packed_bytes,
            public=[case(3, 4)],
            hidden=lambda draw: [case(draw.integer(100, 900), 5)],
            tolerance=relative(0.5),
        ),
    )


def _take_another_seed(course: Course, _patch: pytest.MonkeyPatch) -> None:
    settings = course.root / "course.toml"
    settings.write_text(settings.read_text().replace("a seed for tests", "another seed"))


CHANGES: dict[str, tuple[Change, dict[str, float | None]]] = {
    # what changes, and the points of the student with everything right afterwards
    "points raised": (_give_points(4.5), {"spread": 4.5}),
    "points lowered": (_give_points(0.5), {"spread": 0.5}),
    "points moved": (_move_points, {"spread": 1.0, "packed_bytes": 4.0}),
    "a check mended": (_mend_a_check, {"packed_bytes": 0.0, "spread": 3.0}),
    "a tolerance widened": (_widen_a_tolerance, {"packed_bytes": 2.0}),
    "another seed": (_take_another_seed, {"packed_bytes": 2.0, "spread": 3.0, "settings": 1.5}),
}


@pytest.fixture(autouse=True)
def _fresh_checks() -> Iterator[None]:
    """Checks are prepared once a process; an instructor's next command is another process."""
    yield
    prepared_checks.cache_clear()


def _mark_by_hand(course: Course) -> None:
    """What a person gives: points and a comment for the written answer, extra credit, an override."""
    coursedir, _ = nbgrader_of(course)
    with open_gradebook(coursedir) as book:
        grade = book.find_grade(WRITTEN, TINY, TINY, STUDENT)
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        book.find_comment(WRITTEN, TINY, TINY, STUDENT).manual_comment = "Well seen."
        spread = book.find_grade("check-spread", TINY, TINY, STUDENT)
        spread.extra_credit = 0.25
        override = book.find_grade("check-packed_bytes", TINY, TINY, "honest002")
        override.manual_score, override.needs_manual_grade = 1.0, False
        book.db.commit()


def _by_hand(course: Course) -> tuple[Any, ...]:
    coursedir, _ = nbgrader_of(course)
    with open_gradebook(coursedir) as book:
        return (
            book.find_grade(WRITTEN, TINY, TINY, STUDENT).manual_score,
            book.find_comment(WRITTEN, TINY, TINY, STUDENT).manual_comment,
            book.find_grade("check-spread", TINY, TINY, STUDENT).extra_credit,
            book.find_grade("check-packed_bytes", TINY, TINY, "honest002").manual_score,
        )


def _graded_anew(course: Course) -> Rows:
    batch.grade_class(course, TINY, force=True)
    return gradebook_rows(course)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_after_grading_takes_new_marks_and_keeps_what_a_person_gave(
    course: Course, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    make, expected = CHANGES[change]
    hand_in_honest(course, 5)
    batch.grade_class(course, TINY)
    _mark_by_hand(course)
    make(course, monkeypatch)
    prepared_checks.cache_clear()
    course = Course.open(course.root)
    generate_assignment(course, force=True)
    theirs = _copy(course, "theirs")
    ours = _graded_anew(course)
    autograde(theirs, force=True)
    assert ours == gradebook_rows(theirs)
    assert _by_hand(course) == _by_hand(theirs) == (1.5, "Well seen.", 0.25, 1.0)
    found = scores(course)[STUDENT]
    assert {task: found[task] for task in expected} == expected


@pytest.mark.parametrize("change", [_drop_a_check, _add_a_question])
def test_nbgrader_refuses_other_cells_once_there_are_submissions_and_the_marks_stand(
    course: Course, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    hand_in_honest(course, 3)
    batch.grade_class(course, TINY)
    _mark_by_hand(course)
    before = gradebook_rows(course)
    source = course.root / "source" / TINY / f"{TINY}.ipynb"
    kept = source.read_text(encoding="utf-8")
    change(course, monkeypatch)
    with pytest.raises(NbGraderException):
        generate_assignment(course, force=True)
    # nbgrader removes the release that it could not make.
    with pytest.raises(CourseError, match="generate_assignment"):
        batch.grade_class(course, TINY, force=True)
    assert gradebook_rows(course) == before
    source.write_text(kept, encoding="utf-8")
    generate_assignment(course, force=True)
    assert batch.grade_class(course, TINY).already
    assert gradebook_rows(course) == before


@pytest.mark.parametrize("change", [CHANGES["points raised"][0], _move_points, _drop_a_check])
def test_until_the_release_is_made_anew_nothing_is_graded_by_other_points(
    course: Course, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    hand_in_honest(course, 2)
    batch.grade_class(course, TINY)
    _mark_by_hand_of_one(course)
    before = gradebook_rows(course)
    change(course, monkeypatch)
    # The instructor copies the notebook into release/ by hand, past the gradebook.
    shutil.copy(
        course.root / "source" / TINY / f"{TINY}.ipynb",
        course.root / "release" / TINY / f"{TINY}.ipynb",
    )
    with pytest.raises(CourseError, match="generate_assignment --force"):
        batch.grade_class(course, TINY, force=True)
    with pytest.raises((CourseError, NbGraderException)):
        autograde(course, force=True)
    marks = [row for row in gradebook_rows(course) if row[0] == "grade" and row[4] is not None]
    assert marks == [row for row in before if row[0] == "grade" and row[4] is not None]


def _mark_by_hand_of_one(course: Course) -> None:
    coursedir, _ = nbgrader_of(course)
    with open_gradebook(coursedir) as book:
        grade = book.find_grade(WRITTEN, TINY, TINY, STUDENT)
        grade.manual_score, grade.needs_manual_grade = 2.0, False
        book.db.commit()


@pytest.mark.parametrize("now", [RIGHT, {}, {**RIGHT, "packed_bytes": "def packed_bytes(:\n"}])
def test_a_second_submission_is_graded_alike_by_both_and_keeps_what_a_person_gave(
    course: Course, now: dict[str, str]
) -> None:
    hand_in_honest(course, 5)
    batch.grade_class(course, TINY)
    _mark_by_hand(course)
    for student in (STUDENT, "honest002"):
        hand_in(course, student, answered(released(course), now))
    theirs = _copy(course, "theirs")
    ours = _graded_anew(course)
    autograde(theirs, force=True)
    assert ours == gradebook_rows(theirs)
    assert _by_hand(course) == (1.5, "Well seen.", 0.25, 1.0)


# -- both commands at once, one SQLite gradebook

NBGRADER = """
import sys
from gradelib.grading.course import Course, prepared_checks
from tests.course.tools import autograde
import os
from gradelib.grading.gradebook import alembic_on_path
from nbgrader.apps import NbGraderApp
os.chdir(sys.argv[1])
with alembic_on_path():
    NbGraderApp.launch_instance(["autograde", "01_tiny", "--student=" + sys.argv[2]])
"""


def test_nbgraders_command_beside_the_parallel_one_loses_and_doubles_nothing(
    course: Course, tmp_path: Path
) -> None:
    hand_in_honest(course, 24)
    alone = _copy(course, "alone")
    batch.grade_class(alone, TINY)
    graders = [
        subprocess.Popen(
            [sys.executable, "-c", NBGRADER, str(course.root), f"honest00{number}"],
            env=_environment(),
            stdout=subprocess.DEVNULL,
            stderr=(tmp_path / f"{number}.txt").open("wb"),
        )
        for number in range(2)
    ]
    others = [f"honest{number:03}" for number in range(2, 24)]
    report = batch.grade_class(course, TINY, students=others)
    assert [each.wait() for each in graders] == [0, 0], (tmp_path / "0.txt").read_text()
    assert len(report.graded) == 22
    assert gradebook_rows(course) == gradebook_rows(alone)
