"""The outcome of a check, as data: status, score, and the reason apart from its wording.

`Verdict.message` is the sentence a learner reads; `gradelib.wording` makes it from the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """How an answer fared."""

    CORRECT = "correct"
    WRONG = "wrong"
    NOT_ATTEMPTED = "not attempted"
    RAISED = "raised"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"
    BAD_VALUE = "bad value"
    UNGRADABLE = "ungradable"


@dataclass(frozen=True)
class Reason:
    """Why an answer did not pass, from its first failing case.

    `what` names the kind of failure (see `gradelib.wording`). `call`, `got` and `expected` are
    text, and are set for visible cases only: a hidden case never shows its inputs or its expected
    value. `hint` is the sentence of a misconception or of a broken rule.
    """

    what: str
    call: str = ""
    got: str = ""
    expected: str = ""
    where: str = ""
    part: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Verdict:
    """What a check says of one answer.

    `score` lies in [0, 1]. `misconception` is the id of the known wrong answer that was recognised,
    or None. `passed` and `total` count cases; `hidden` tells whether hidden cases were among them.
    """

    task: str
    status: Status
    score: float
    reason: Reason
    misconception: str | None = None
    passed: int = 0
    total: int = 0
    hidden: bool = False
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.score <= 1:
            raise ValueError(f"a score lies in [0, 1], got {self.score}")
        if (self.status is Status.CORRECT) != (self.score == 1):
            raise ValueError(f"status {self.status} does not go with score {self.score}")

    @property
    def message(self) -> str:
        """The sentence a learner reads."""
        from gradelib.wording import sentence

        return sentence(self)

    def __bool__(self) -> bool:
        return self.status is Status.CORRECT

    def __repr__(self) -> str:
        return self.message

    def _repr_html_(self) -> str:
        from gradelib.wording import html

        return html(self)

    def to_data(self) -> dict[str, Any]:
        """As plain data (JSON-ready), with the message."""
        return {
            "task": self.task,
            "status": str(self.status),
            "score": self.score,
            "misconception": self.misconception,
            "message": self.message,
            "reason": {name: text for name, text in vars(self.reason).items() if text},
            "passed": self.passed,
            "total": self.total,
            "hidden": self.hidden,
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Verdict:
        """Read `to_data`'s form."""
        return cls(
            data["task"],
            Status(data["status"]),
            data["score"],
            Reason(**data["reason"]),
            data["misconception"],
            data["passed"],
            data["total"],
            data["hidden"],
            tuple(data["warnings"]),
        )
