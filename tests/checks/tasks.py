"""Every task of every exercise with a check, prepared for a seed: what the tests of this folder run
over."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from gradelib.checks import Check, PreparedCheck
from gradelib.grading.source import Exercise, Role, read_exercise
from solutions.checks import EXERCISES, load

SEEDS = ("spring", "autumn", "2027")
EXERCISES_FOLDER = Path(__file__).parents[2] / "exercises"

TASKS: dict[tuple[str, str], Check] = {
    (exercise, task): check for exercise in EXERCISES for task, check in load(exercise).items()
}
WRONG = {
    (exercise, task, name): wrong
    for (exercise, task), check in TASKS.items()
    for name, wrong in check.known_wrong()
}

each_seed = pytest.mark.parametrize("seed", SEEDS)
each_wrong_answer = pytest.mark.parametrize(
    ("exercise", "task", "name"),
    list(WRONG),
    ids=[f"{exercise[:2]}-{task}-{name}" for exercise, task, name in WRONG],
)


@cache
def prepared(exercise: str, task: str, seed: str = SEEDS[0]) -> PreparedCheck:
    return TASKS[exercise, task].prepare(task, seed)


def each_task_where(holds: Callable[[PreparedCheck], bool]) -> pytest.MarkDecorator:
    """The tasks for whose check this holds, as the parameters of a test."""
    chosen = [key for key in TASKS if holds(prepared(*key))]
    ids = [f"{exercise[:2]}-{task}" for exercise, task in chosen]
    return pytest.mark.parametrize(("exercise", "task"), chosen, ids=ids)


def has_inputs(check: PreparedCheck) -> bool:
    """Whether the answer takes arguments, so that they can be hidden."""
    return any(one.args for one in check.cases)


def is_called_directly(check: PreparedCheck) -> bool:
    """Whether the answer is called with a case's inputs; a driver may use it otherwise."""
    return check.driver is None


def has_changeable_inputs(check: PreparedCheck) -> bool:
    """Whether an argument that the answer gets is a list or a dictionary."""
    return is_called_directly(check) and any(
        isinstance(arg, (list, dict)) for one in check.cases for arg in one.args
    )


def expects_numbers(check: PreparedCheck) -> bool:
    """Whether the first case's answer is a number."""
    value = check.cases[0].expected.value
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def has_rules(check: PreparedCheck) -> bool:
    """Whether rules decide, rather than a comparison of values."""
    return bool(check.rules)


each_task = each_task_where(lambda _check: True)


@cache
def source(exercise: str) -> Exercise:
    return read_exercise(EXERCISES_FOLDER / exercise / f"{exercise}.md")


def stub(exercise: str, task: str) -> str:
    """The text of a task's answer cell, as its author wrote it."""
    cells = source(exercise).cells
    parts = [cell.text for cell in cells if cell.role is Role.ANSWER and cell.task == task]
    return "\n".join(parts)
