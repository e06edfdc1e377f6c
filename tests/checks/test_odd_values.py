"""Whatever plain data comes back in place of an answer's value, every check gives a verdict: no mark,
and a message that any file can hold."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from gradelib import plain
from gradelib.checks import PreparedCase, PreparedCheck
from gradelib.judging import judge
from gradelib.outcomes import Kind, Outcome
from gradelib.plain import Array
from gradelib.wording import html
from tests.checks.tasks import TASKS, prepared

LARGE = 10 ** (plain.MAX_INT_DIGITS - 1)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
BAD_TEXT = "\x00\ud800\u202e<script>`{got}"


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


VALUES: list[Any] = [
    *(None, True, False, -1, LARGE, -LARGE, 10**400, math.nan, math.inf, -math.inf),
    *("", "x" * plain.MAX_TEXT, BAD_TEXT, [], [[]], {}, frozenset(), [BAD_TEXT], {BAD_TEXT: 1}),
    *({"": 1}, {1: 2}, {"$x": 1}, frozenset([1, "a", None]), _nested(19), [_nested(15)]),
    *([LARGE, -LARGE], [[LARGE]], [[True]], [[-1]], [[0.0]], [None, None], [math.nan] * 3),
    Array("bool", (2,), b"\1\0"),
    *(Array("int8", shape, b"") for shape in ((0, 5), (5, 0), (2**62, 0))),
    Array("int8", (), b"\1"),
    Array("float32", (1,) * 20, b"\0\0\0\x7f"),
    {"input_ids": None, "attention_mask": [[1]], "labels": Array("int8", (0, 0), b"")},
    {"r": LARGE, "lora_alpha": LARGE, "target_modules": "all-linear"},
    {"r": 16, "lora_alpha": math.nan, "target_modules": frozenset([1, None])},
    {"r": 16, "lora_alpha": 16, "target_modules": [BAD_TEXT], "task_type": "CAUSAL_LM"},
    {"r": -1.5, "target_modules": {"a": []}, "bias": [], "task_type": {}},
]
OUTCOMES = [
    *(Outcome(Kind.VALUE, plain.loads(plain.dumps(value))) for value in VALUES),
    *(Outcome(kind, value=VALUES[4]) for kind in Kind if kind is not Kind.VALUE),
    *(
        Outcome.from_data({"kind": kind, "errors": [BAD_TEXT], "detail": BAD_TEXT, "printed": "`"})
        for kind in ("raised", "crashed", "bad value")
    ),
]


@dataclass(frozen=True)
class Always:
    """An answer with one outcome, whatever it is asked."""

    outcome: Outcome
    failure: Outcome | None = None

    def call(self, one: PreparedCase, check: PreparedCheck) -> Outcome:  # noqa: ARG002 - as the protocol has it
        return self.outcome

    def calls(self, cases: Sequence[PreparedCase], check: PreparedCheck) -> Iterator[Outcome]:
        return (self.call(one, check) for one in cases)


@pytest.mark.parametrize(("exercise", "task"), list(TASKS))
def test_any_outcome_has_a_verdict_without_a_mark(exercise: str, task: str) -> None:
    for outcome in OUTCOMES:
        verdict = judge(Always(outcome), prepared(exercise, task))
        assert verdict.score == 0, outcome
        for text in (verdict.message, html(verdict)):
            assert not CONTROL.search(text), outcome
            assert len(text) < 3000
        assert "<script" not in html(verdict)
        assert json.dumps(verdict.to_data())
