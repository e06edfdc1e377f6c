"""The `check` that a learner calls: it reads the visible part of an exercise's checks from the file
beside the notebook.

It prints nothing of hidden cases, because it has none. The grader's verdict comes from the same
`judge`, with more cases.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradelib import cells, plain
from gradelib.checks import PreparedCheck
from gradelib.judging import MISSING_NAME, LocalAnswer, judge
from gradelib.outcomes import unusable
from gradelib.verdicts import Verdict

CHECKS_SUFFIX = ".checks.json"
FORMAT = 1
# What grading promises beside the standard library, by what an exercise requires.
PACKAGES: Mapping[str, frozenset[str]] = {
    "pure": frozenset(),
    "torch": frozenset(
        ["accelerate", "bitsandbytes", "codecarbon", "numpy", "peft", "torch", "transformers"]
    ),
}
_NOT_GIVEN = object()


class NotJudgedError(RuntimeError):
    """A graded cell was run by a grader that does not judge answers in a process of their own."""


class CheckFailedError(AssertionError):
    """Raised in place of a quiet verdict when nbgrader validates a notebook."""


def checks_for(exercise: str, folder: str | os.PathLike[str] = ".") -> Callable[..., Verdict]:
    """The `check(task, answer)` function of an exercise, from `<exercise>.checks.json` in `folder`.

    Raises FileNotFoundError, with what to do, when the file is not there, and ValueError when it is
    damaged.
    """
    path = Path(folder) / f"{exercise}{CHECKS_SUFFIX}"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path.name} is not in {path.parent.resolve()}. It came with the notebook: keep the two in one folder, "
            "and start Jupyter there (on Colab, upload both)."
        )
    return Checks.from_file(path)


class Checks:
    """The visible checks of one exercise; call it with a task's name and your answer."""

    def __init__(
        self,
        exercise: str,
        tasks: Mapping[str, PreparedCheck],
        known: frozenset[str],
        requires: str = "pure",
    ):
        self.exercise = exercise
        self.tasks = dict(tasks)
        self.requires = requires
        self._known = known

    @classmethod
    def from_file(cls, path: Path) -> Checks:
        """Read a released `.checks.json` file."""
        try:
            data = plain.loads(path.read_text(encoding="utf-8"))
            if data["format"] != FORMAT:
                raise ValueError(f"it has format {data['format']}, this gradelib reads {FORMAT}")
            tasks = {
                name: PreparedCheck.from_public_data(name, check)
                for name, check in data["tasks"].items()
            }
            requires = data.get("requires", "pure")
            if requires not in PACKAGES:
                raise ValueError(f"it requires {requires!r}, which this gradelib does not know")
            return cls(data["exercise"], tasks, frozenset(data["names"]), requires)
        except (plain.WireError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path.name} is damaged or from another version ({error}). Download the exercise again."
            ) from error

    def __call__(self, task: str, answer: object = _NOT_GIVEN) -> Verdict:
        """Try `answer` on the task's visible cases and say how it did.

        Raises TypeError, with how to call it, without an answer or with a task that is not a name.
        """
        if answer is _NOT_GIVEN or not isinstance(task, str):
            meant = [task, getattr(task, "__name__", None), getattr(answer, "__name__", answer)]
            named = (each for each in meant if isinstance(each, str) and each in self.tasks)
            name = next(named, next(iter(self.tasks)))
            raise TypeError(
                f'check takes the name of a task, in quotes, and then your answer: check("{name}", {name})'
            )
        if task not in self.tasks:
            raise ValueError(
                f"exercise {self.exercise} has no task {task!r}; its tasks are {', '.join(self.tasks)}"
            )
        execution = os.environ.get("NBGRADER_EXECUTION")
        if execution == "autograde":
            raise NotJudgedError(
                "This cell is marked by the judge, outside the notebook's kernel. Autograde inside a course made by "
                "`one-gpu course new`, whose nbgrader_config.py names the judge."
            )
        verdict = judge(self._local(answer), self.tasks[task])
        verdict = replace(verdict, warnings=(*verdict.warnings, *self._warnings(answer, verdict)))
        if execution == "validate" and not verdict:
            raise CheckFailedError(verdict.message)
        return verdict

    @staticmethod
    def _local(answer: object) -> LocalAnswer:
        if callable(answer):
            return LocalAnswer(answer, limited=True)
        return LocalAnswer(None, unusable(answer))

    def _warnings(self, answer: object, verdict: Verdict) -> Iterator[str]:
        """What will be otherwise when this is graded; nothing outside IPython."""
        ran = _cells_run()
        try:
            source = textwrap.dedent(inspect.getsource(answer))  # type: ignore[arg-type]
        except (OSError, TypeError, *cells.UNREADABLE):
            return
        if not ran:
            return
        known = self._known | cells.defined_names(ran) | _names_of_modules(cells.star_imports(ran))
        # The cell of the answer itself is run whole.
        own = [cell for cell in ran if cells.defined_names([source]) & cells.defined_names([cell])]
        known |= cells.bound_names(own[-1]) if own else set()
        texts = cells.reached(source, ran)
        missing = sorted({name for text in texts for name in cells.missing_names(text, known)})
        there = getattr(answer, "__globals__", {})
        if made := [name for name in missing if name in there]:
            yield (
                f"{_listed(made)} will be missing when this is graded: it was made by code that runs, not by a "
                "definition. Define it in the answer cell or in the helpers cell."
            )
        unknown = [name for name in missing if name not in there]
        if unknown and verdict.misconception != MISSING_NAME:
            yield f"{_listed(unknown)} is defined nowhere in this notebook."
        used = cells.packages_used(source, ran) - _standard_library() - PACKAGES[self.requires]
        if used:
            also = " and what it imports itself" if PACKAGES[self.requires] else " alone"
            yield (
                f"{_listed(sorted(used))} may not be there when this is graded: this exercise promises "
                f"Python's standard library{also}."
            )


def _standard_library() -> set[str]:
    return {*sys.stdlib_module_names, "gradelib"}


def _names_of_modules(names: Iterable[str]) -> set[str]:
    """What `from MODULE import *` gives of modules that were imported."""
    found: set[str] = set()
    for name in names:
        module = sys.modules.get(name)
        public = [each for each in dir(module) if not each.startswith("_")]
        found |= set(getattr(module, "__all__", public))
    return found


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cells_run() -> list[str]:
    """The cells that were run in this notebook; none outside IPython."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return [] if shell is None else [source for source in shell.user_ns.get("In", []) if source]


def release_text(
    exercise: str,
    checks: Mapping[str, PreparedCheck],
    names: frozenset[str],
    requires: str = "pure",
) -> str:
    """The text of a `.checks.json` file. `names` are those that the release's own setup cells
    define, `requires` what the exercise does: `"pure"` or `"torch"`."""
    data: dict[str, Any] = {
        "format": FORMAT,
        "exercise": exercise,
        "requires": requires,
        "names": sorted(names),
        "tasks": {name: check.public_data() for name, check in checks.items()},
    }
    text = plain.dumps(data)
    return json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"
