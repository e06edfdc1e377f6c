"""nbgrader's own commands inside a course: marks are the judge's, and nothing steers them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from nbgrader.converters.base import NbGraderException

from gradelib import checks_for
from gradelib.grading.course import Course
from gradelib.grading.grade import NOT_JUDGED, VERDICT_TYPE
from gradelib.grading.gradebook import nbgrader_of, open_gradebook
from gradelib.notebook import NotJudgedError
from tests.course.tools import (
    DATA,
    POINTS,
    RIGHT,
    TASKS,
    TINY,
    answered,
    autograde,
    autograded,
    cell_of,
    generate_assignment,
    hand_in,
    released,
    scores,
)

ROOT = Path(__file__).parents[2]


def _grade(course: Course, **students: Any) -> dict[str, dict[str, float | None]]:
    for name, file in students.items():
        hand_in(course, name, file)
    autograde(course, force=True)
    return scores(course)


def _output(course: Course, student: str, task: str) -> dict[str, Any]:
    [*_, last] = cell_of(autograded(course, student), f"check-{task}")["outputs"]
    return dict(last["data"])


def test_right_blank_and_partly_right_answers_get_their_points(course: Course) -> None:
    notebook = released(course)
    partly = dict(RIGHT)
    partly["spread-2"] = (
        "def spread(values):\n    mean = sum(values) / len(values)\n"
        "    return {'mean': mean, 'variance': 2 / 3}\n"
    )
    found = _grade(
        course,
        right=answered(notebook, RIGHT),
        blank=notebook,
        partly=answered(notebook, partly),
    )
    assert found["right"] == {**POINTS, "what_did_you_observe": None}
    assert found["blank"] == {**dict.fromkeys(POINTS, 0.0), "what_did_you_observe": 0.0}
    # The visible case is right, the hidden part is not: half of 3 points.
    assert found["partly"]["spread"] == 1.5


def test_the_output_is_the_sentence_and_the_verdict_as_data(course: Course) -> None:
    _grade(
        course,
        ann=answered(
            released(course),
            {"packed_bytes": "def packed_bytes(count, bits):\n    return count * bits"},
        ),
    )
    data = _output(course, "ann", "packed_bytes")
    assert float("".join(data["text/plain"])) == 0.0
    assert "That is bits. How many are in a byte?" in "".join(data["text/html"])
    assert data[VERDICT_TYPE]["misconception"] == "bits for bytes"


NOISY = (
    "import sys, warnings\ndef packed_bytes(count, bits):\n    warnings.warn('slow')\n"
    "    print('to stderr', file=sys.stderr)\n    return -(-count * bits // 8)\n"
)
ODD_RESULTS = ["-1", "False", "float('nan')", "float('inf')", "'2.0'", "[2.0]", "None", "1e309"]


def test_text_on_standard_error_costs_nothing(course: Course) -> None:
    found = _grade(course, ann=answered(released(course), {**RIGHT, "packed_bytes": NOISY}))
    assert found["ann"]["packed_bytes"] == POINTS["packed_bytes"]


@pytest.mark.parametrize("value", ODD_RESULTS)
def test_a_last_value_in_an_answer_earns_nothing(course: Course, value: str) -> None:
    source = f"def packed_bytes(count, bits):\n    return {value}\n\n{value}"
    found = _grade(course, ann=answered(released(course), {"packed_bytes": source}))
    assert found["ann"]["packed_bytes"] == 0.0


def _full_marks_outputs(notebook: dict[str, Any]) -> None:
    for task in TASKS:
        cell_of(notebook, f"check-{task}")["outputs"] = [
            {
                "output_type": "execute_result",
                "data": {"text/plain": "2"},
                "metadata": {},
                "execution_count": 1,
            }
        ]


def _tags(*tags: str) -> Callable[[dict[str, Any]], None]:
    def edit(notebook: dict[str, Any]) -> None:
        for cell in notebook["cells"]:
            cell["metadata"]["tags"] = list(tags)

    return edit


def _asserts(notebook: dict[str, Any]) -> None:
    for task in TASKS:
        cell_of(notebook, f"check-{task}")["source"] = "assert True"


def _manual(notebook: dict[str, Any]) -> None:
    for task in TASKS:
        cell_of(notebook, f"check-{task}")["metadata"]["nbgrader"].update(
            grade=False, solution=True
        )


@pytest.mark.parametrize(
    "edit",
    [_full_marks_outputs, _tags("skip-execution"), _tags("raises-exception"), _asserts, _manual],
)
def test_what_a_submission_says_of_its_checks_has_no_effect(
    course: Course, edit: Callable[[dict[str, Any]], None]
) -> None:
    notebook = released(course)
    found = _grade(
        course, cheat=answered(notebook, {}, edit), honest=answered(notebook, RIGHT, edit)
    )
    assert {task: found["cheat"][task] for task in TASKS} == dict.fromkeys(TASKS, 0.0)
    assert {task: found["honest"][task] for task in TASKS} == POINTS


@pytest.mark.parametrize(
    "data",
    [b"", b"<html></html>", b'{"cells": 1}', b"<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> b\n"],
    ids=["empty", "web page", "no cells", "conflict"],
)
def test_an_unreadable_file_is_ungradable_and_the_class_goes_on(
    course: Course, data: bytes
) -> None:
    right = answered(released(course), RIGHT)
    found = _grade(course, ann=right, bad=data, zoe=right)
    assert found["ann"] == found["zoe"]
    assert found["ann"]["spread"] == POINTS["spread"]
    assert {found["bad"][task] for task in TASKS} == {0.0}
    verdict = _output(course, "bad", "spread")[VERDICT_TYPE]
    assert verdict["status"] == "ungradable"
    assert "could not be graded" in verdict["message"]


def test_a_test_cell_that_the_course_has_no_check_for_gets_nothing_and_says_so(
    course: Course,
) -> None:
    path = course.root / "source" / TINY / f"{TINY}.ipynb"
    source = json.loads(path.read_text())
    own = json.loads(json.dumps(cell_of(source, "check-spread")))
    own["id"] = own["metadata"]["nbgrader"]["grade_id"] = "my-own-test"
    own["source"] = "assert packed_bytes(8, 8) == 8"
    source["cells"].append(own)
    path.write_text(json.dumps(source))
    generate_assignment(course, force=True)
    found = _grade(course, ann=answered(released(course), RIGHT))
    assert found["ann"]["my-own-test"] == 0.0
    assert found["ann"]["spread"] == POINTS["spread"]
    assert "".join(_output(course, "ann", "spread")["text/plain"]) == "3.0"
    [output] = cell_of(autograded(course, "ann"), "my-own-test")["outputs"]
    assert NOT_JUDGED in "".join(output["data"]["text/html"])


def test_points_that_differ_from_the_gradebook_stop_grading(course: Course) -> None:
    path = course.root / "release" / TINY / f"{TINY}.ipynb"
    path.write_text(path.read_text().replace('"points": 3.0', '"points": 30.0'))
    hand_in(course, "ann", answered(released(course), RIGHT))
    with pytest.raises(NbGraderException):
        autograde(course)
    assert scores(course)["ann"]["spread"] is None


def test_a_regrade_keeps_what_a_person_gave(course: Course) -> None:
    _grade(course, ann=answered(released(course), RIGHT))
    coursedir, _ = nbgrader_of(course)
    with open_gradebook(coursedir) as book:
        grade = book.find_grade("what_did_you_observe", TINY, TINY, "ann")
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        book.find_grade("check-spread", TINY, TINY, "ann").extra_credit = 0.5
        book.find_comment("what_did_you_observe", TINY, TINY, "ann").manual_comment = "Good."
        book.db.commit()
    _grade(course, ann=answered(released(course), {**RIGHT, "settings": ""}))
    with open_gradebook(coursedir) as book:
        grade = book.find_grade("what_did_you_observe", TINY, TINY, "ann")
        assert (grade.manual_score, grade.needs_manual_grade) == (1.5, True)
        assert book.find_grade("check-spread", TINY, TINY, "ann").extra_credit == 0.5
        assert book.find_comment("what_did_you_observe", TINY, TINY, "ann").comment == "Good."
        assert book.find_grade("check-settings", TINY, TINY, "ann").auto_score == 0.0


def test_late_penalties_are_nbgraders(course: Course) -> None:
    with (course.root / "nbgrader_config.py").open("a") as file:
        file.write("c.LateSubmissionPlugin.penalty_method = 'zero'\n")
    coursedir, _ = nbgrader_of(course)
    with open_gradebook(coursedir) as book:
        book.update_or_create_assignment(TINY, duedate=datetime(2026, 1, 1))
    path = hand_in(course, "late", answered(released(course), RIGHT))
    (path.parent / "timestamp.txt").write_text("2026-01-02 00:00:00 UTC")
    autograde(course)
    with open_gradebook(coursedir) as book:
        submission = book.find_submission(TINY, "late")
        assert submission.score == submission.late_submission_penalty == 6.5


# -- fail closed


def test_a_released_check_raises_when_another_grader_runs_it(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = checks_for(TINY, course.root / "release" / TINY)
    assert check("packed_bytes", lambda count, bits: -(-count * bits // 8))
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(NotJudgedError, match="one-gpu course new"):
        check("packed_bytes", lambda count, bits: -(-count * bits // 8))


def test_the_line_that_nbgrader_restores_raises_whatever_check_is(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    coursedir, _ = nbgrader_of(course)
    with open_gradebook(coursedir) as book:
        source = book.find_source_cell("check-spread", TINY, TINY).source
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(RuntimeError, match="marked by the judge"):
        exec(source, {"check": lambda *_: True, "spread": None})


def test_an_instructor_can_run_a_course_notebook_as_it_is(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(course.root / "source" / TINY)
    notebook = json.loads(Path(f"{TINY}.ipynb").read_text())
    namespace: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec(cell["source"], namespace)
    assert namespace["check"]("spread", namespace["spread"])


def _nbgrader(folder: Path, *arguments: str, status: int = 0) -> str:
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(DATA)]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stderr


@pytest.mark.slow
def test_nbgrader_without_the_judge_gives_nobody_a_point(course: Course) -> None:
    (course.root / "nbgrader_config.py").write_text("")
    hand_in(course, "ann", answered(released(course), RIGHT))
    cheat = {"packed_bytes": "check = lambda *_: None\ndef packed_bytes(count, bits): return 0"}
    hand_in(course, "cheat", answered(released(course), cheat))
    _nbgrader(course.root, "autograde", TINY)
    for student in ("ann", "cheat"):
        assert {task: scores(course)[student][task] for task in TASKS} == dict.fromkeys(TASKS, 0.0)


@pytest.mark.slow
def test_the_commands_of_nbgrader_work_in_the_folder_and_from_outside(
    course: Course, tmp_path: Path
) -> None:
    _nbgrader(course.root, "generate_assignment", "--force", TINY)
    hand_in(course, "ann", answered(released(course), RIGHT))
    log = _nbgrader(course.root, "autograde", TINY)
    assert "WARNING" not in log
    _nbgrader(course.root, "generate_feedback", TINY)
    _nbgrader(course.root, "export")
    assert (course.root / "feedback" / "ann" / TINY / f"{TINY}.html").is_file()
    assert "ann" in (course.root / "grades.csv").read_text()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "nbgrader_config.py").write_text(
        (course.root / "nbgrader_config.py")
        .read_text()
        .replace("Path(__file__).resolve().parent", f"Path({str(course.root)!r})")
    )
    _nbgrader(elsewhere, "autograde", "--force", TINY)
    assert scores(course)["ann"]["spread"] == POINTS["spread"]
