"""Nothing that a student hands in is followed, waited for or written through but plain files in real
folders, whichever command grades it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from nbgrader.converters.base import NbGraderException

from gradelib.grading import batch, cli
from gradelib.grading.collect import collect
from gradelib.grading.course import Course
from tests.course.tools import (
    POINTS,
    RIGHT,
    TINY,
    answered,
    autograde,
    gradebook_rows,
    hand_in,
    released,
    scores,
)

NAME = f"{TINY}.ipynb"
SECRET = "a seed for tests"


def _home(course: Course, student: str = "eve") -> Path:
    home = course.root / "submitted" / student
    home.mkdir(exist_ok=True)
    return home


def _everything(course: Course) -> dict[str, bytes]:
    return {
        str(path.relative_to(course.root)): path.read_bytes()
        for path in sorted(course.root.rglob("*"))
        if path.is_file() and not path.is_symlink() and "gradebook" not in path.name
    }


@pytest.mark.parametrize(
    "target", ["nbgrader_config.py", "course.toml", f"submitted/ann/{TINY}/{NAME}", "new_file.py"]
)
@pytest.mark.parametrize("copy", [f"{TINY} (1).ipynb", f"{TINY}-Copy1.ipynb"])
def test_collecting_writes_through_no_link(course: Course, target: str, copy: str) -> None:
    notebook = answered(released(course), RIGHT)
    hand_in(course, "ann", notebook)
    hand_in(course, "eve", notebook, copy)
    (_home(course) / TINY / NAME).symlink_to(course.root / target)
    before = _everything(course)
    [_, found] = collect(course.root / "submitted", TINY, [TINY])
    after = _everything(course)
    assert after.pop(f"submitted/eve/{TINY}/{NAME}") == before[f"submitted/eve/{TINY}/{copy}"]
    assert after == before
    assert not found.files[TINY].is_symlink()
    assert "links are not followed" in found.note


def _link_to_solutions(course: Course) -> None:
    (_home(course) / TINY).symlink_to(course.root / "source" / TINY)


def _link_to_another_student(course: Course) -> None:
    (_home(course) / TINY).symlink_to(course.root / "submitted" / "ann" / TINY)


def _student_is_a_link(course: Course) -> None:
    (course.root / "submitted" / "eve").symlink_to(course.root / "submitted" / "ann")


def _notebook_is_a_link(course: Course) -> None:
    folder = _home(course) / TINY
    folder.mkdir()
    (folder / NAME).symlink_to(course.root / "source" / TINY / NAME)


def _copy_is_a_link(course: Course) -> None:
    folder = _home(course) / TINY
    folder.mkdir()
    (folder / f"{TINY} (1).ipynb").symlink_to(course.root / "source" / TINY / NAME)


def _folder_within_is_a_link(course: Course) -> None:
    folder = _home(course) / TINY
    folder.mkdir()
    (folder / "inner").symlink_to(course.root / "source" / TINY)


def _similar_folder_is_a_link(course: Course) -> None:
    (_home(course) / f"{TINY} (1)").symlink_to(course.root / "source" / TINY)


def _notebook_is_a_pipe(course: Course) -> None:
    folder = _home(course) / TINY
    folder.mkdir()
    os.mkfifo(folder / NAME)


def _notebook_is_a_folder(course: Course) -> None:
    (_home(course) / TINY / NAME).mkdir(parents=True)


TRAPS = (
    _link_to_solutions, _link_to_another_student, _student_is_a_link, _notebook_is_a_link,
    _copy_is_a_link, _folder_within_is_a_link, _similar_folder_is_a_link, _notebook_is_a_pipe,
    _notebook_is_a_folder,
)  # fmt: skip


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("plain_nbgrader", [False, True])
def test_what_is_no_plain_file_in_a_real_folder_is_no_submission(
    course: Course, trap: Callable[[Course], None], plain_nbgrader: bool
) -> None:
    hand_in(course, "ann", answered(released(course), RIGHT))
    before = _everything(course)
    trap(course)
    if plain_nbgrader:
        with contextlib.suppress(NbGraderException):
            autograde(course)
    else:
        report = batch.grade_class(course, TINY)
        assert report.missing == ["eve"]
        assert report.notes["eve"]
    found = scores(course)
    assert {task: found["ann"][task] for task in POINTS} == POINTS
    assert not any(found.get("eve", {}).values())
    assert not (course.root / "autograded" / "eve" / TINY).exists()
    after = _everything(course)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("target", ["course.toml", f"source/{TINY}", "nowhere"])
def test_links_beside_a_notebook_are_left_out_by_both_graders(course: Course, target: str) -> None:
    notebook = answered(released(course), RIGHT)
    results = []
    for grade in (autograde, batch.grade_class):
        path = hand_in(course, "eve", notebook)
        for name in ("notes.txt", "timestamp.txt", f"{TINY}-Copy1.ipynb"):
            with contextlib.suppress(FileExistsError):
                (path.parent / name).symlink_to(course.root / target)
        grade(course, TINY, force=True)
        folder = course.root / "autograded" / "eve"
        results.append(
            (
                {each.name: each.read_bytes() for each in folder.rglob("*") if each.is_file()},
                gradebook_rows(course),
            )
        )
    assert results[0] == results[1]
    files = results[0][0]
    assert "notes.txt" not in files
    assert not any(SECRET.encode() in content for content in files.values())
    assert {task: scores(course)["eve"][task] for task in POINTS} == POINTS


def test_a_pipe_beside_a_notebook_stops_neither_grader(course: Course) -> None:
    for grade in (autograde, batch.grade_class):
        path = hand_in(course, "eve", answered(released(course), RIGHT))
        os.mkfifo(path.parent / "notes.txt")
        grade(course, TINY, force=True)
        assert {task: scores(course)["eve"][task] for task in POINTS} == POINTS


def test_a_folder_name_with_a_line_break_is_passed_over_with_a_note(course: Course) -> None:
    hand_in(course, "ann", answered(released(course), RIGHT))
    hand_in(course, "e\nve", answered(released(course), RIGHT))
    report = batch.grade_class(course, TINY)
    assert list(report.graded) == ["ann"]
    assert report.missing == ["e\nve"]
    assert r"e\nve" in report.notes["e\nve"][0]
    assert cli.main(["collect", TINY, "--course", str(course.root), "--json"]) == cli.ATTENTION


def test_another_file_with_other_answers_is_noted(course: Course) -> None:
    hand_in(course, "ann", released(course))
    hand_in(course, "ann", answered(released(course), RIGHT), f"{TINY}-Copy1.ipynb")
    hand_in(course, "bob", released(course))
    hand_in(course, "bob", released(course), f"{TINY}-Copy1.ipynb")
    ann, bob = collect(course.root / "submitted", TINY, [TINY])
    assert f"{TINY}-Copy1.ipynb is there too" in ann.note
    assert bob.note == ""
