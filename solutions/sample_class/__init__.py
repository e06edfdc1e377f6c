"""A class of sample submissions for exercise 21, with the score and verdicts that each must get.

The demo grades it, and a test holds the grader to what is written here. A submission is made by
setting a student's few lines into the released notebook.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

EXERCISE = "21_number_formats"


@dataclass(frozen=True)
class Expected:
    """The verdict that an answer must get. `score` is the share of the task's points."""

    status: str
    score: float
    misconception: str | None = None


RIGHT = Expected("correct", 1.0)
BLANK = Expected("not attempted", 0.0, "placeholder")


@dataclass(frozen=True)
class Student:
    """One submission.

    answers: texts of answer cells, by grade id; the other cells stay as released.
    expected: verdicts by task; a task that is not named must be correct if it is in `answers`, and
        not attempted otherwise.
    added: cells at the end of the notebook.
    edit: changes the notebook as a whole; damage: changes the bytes of the file.
    hostile: its code attacks the grader, so it must not run without isolation.
    """

    id: str
    name: tuple[str, str]
    about: str
    answers: dict[str, str]
    expected: dict[str, Expected] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    edit: Callable[[dict[str, Any]], None] | None = None
    damage: Callable[[bytes], bytes] | None = None
    hostile: bool = False

    def expects(self, task: str) -> Expected:
        """The verdict that the answer to a task must get."""
        return self.expected.get(task, RIGHT if task in self.answers else BLANK)

    def submission(self, released: dict[str, Any]) -> bytes:
        """The file that the student hands in, from the released notebook."""
        notebook = deepcopy(released)
        for cell in notebook["cells"]:
            grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
            if grade_id in self.answers:
                cell["source"] = self.answers[grade_id]
        notebook["cells"] += [code_cell(f"added-{i}", text) for i, text in enumerate(self.added)]
        if self.edit is not None:
            self.edit(notebook)
        data = json.dumps(notebook, indent=1).encode()
        return data if self.damage is None else self.damage(data)


def code_cell(name: str, source: str) -> dict[str, Any]:
    """A code cell that has not been run."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": name,
        "metadata": {},
        "outputs": [],
        "source": source,
    }
