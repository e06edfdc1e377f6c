"""Hidden cases that tell nearly right answers from right ones, in every course and not in most."""

from __future__ import annotations

from functools import cache

import pytest

from gradelib.checks import PreparedCheck
from gradelib.judging import LocalAnswer, judge
from tests.checks.subtly_wrong import SUBTLY_WRONG
from tests.checks.tasks import TASKS

SEEDS = tuple(f"course {number}" for number in range(20))


@cache
def prepared(exercise: str, task: str, seed: str) -> PreparedCheck:
    return TASKS[exercise, task].prepare(task, seed)


@pytest.mark.parametrize(
    ("exercise", "task", "name"),
    [(*key, name) for key, answers in SUBTLY_WRONG.items() for name in answers],
    ids=lambda text: text.split("_")[0] if text[0].isdigit() else text,
)
def test_a_subtly_wrong_answer_loses_points_in_every_course(exercise, task, name):
    answer = SUBTLY_WRONG[exercise, task][name]
    passed = [
        seed
        for seed in SEEDS
        if judge(LocalAnswer(answer), prepared(exercise, task, seed)).score >= 1
    ]
    assert not passed
