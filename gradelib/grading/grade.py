"""Grade one submission: read it, run its answers in isolation, judge them, and write the verdicts
into the notebook in the form in which nbgrader counts points.

This is the unit of work that nbgrader's autograde, the parallel command and a cluster all share.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from gradelib import wording
from gradelib.checks import PreparedCase, PreparedCheck
from gradelib.grading.layout import CHECK_PREFIX, Layout
from gradelib.grading.submission import (
    Note,
    Submission,
    UnreadableError,
    empty_submission,
    read_submission,
)
from gradelib.grading.work import Isolation, isolation, preload_for
from gradelib.judging import Answer, LocalAnswer, judge
from gradelib.outcomes import FINAL, Kind, Outcome
from gradelib.verdicts import Reason, Status, Verdict

VERDICT_TYPE = "application/vnd.one-gpu.verdict+json"
_KEPT_CHARACTERS = 20_000
NOT_JUDGED = "Not judged: this course has no check for this cell, so it earned no points. Tell your instructor."


@dataclass(frozen=True)
class Result:
    """What grading one submission gave.

    verdicts: by task, in the release's order.
    printed: what answers printed on visible cases, by task; the start of it.
    notebook: the release with the learner's texts, not yet marked.
    unreadable: why the file could not be read; empty when it could.
    """

    verdicts: Mapping[str, Verdict]
    printed: Mapping[str, str]
    notebook: dict[str, Any]
    notes: tuple[Note, ...] = ()
    unreadable: str = ""


def grade(
    data: bytes, layout: Layout, checks: Mapping[str, PreparedCheck], place: Isolation
) -> Result:
    """Grade the file of one submission. Whatever the file holds, there is a verdict on each task;
    IsolationError means that the place is not fit to run anything."""
    try:
        submission = read_submission(data, layout)
    except UnreadableError as error:
        verdicts = {task: _ungradable(checks[task], str(error)) for task in _judged(layout, checks)}
        return Result(verdicts, {}, empty_submission(layout).notebook, (), str(error))
    verdicts, printed = _judge_all(submission, layout, checks, place)
    return Result(verdicts, printed, submission.notebook, submission.notes)


def _judge_all(
    submission: Submission,
    layout: Layout,
    checks: Mapping[str, PreparedCheck],
    place: Isolation,
) -> tuple[dict[str, Verdict], dict[str, str]]:
    tasks = _judged(layout, checks)
    drivers = sorted({driver for task in tasks if (driver := checks[task].driver)})
    present = {task: submission.work.answers.get(task, ()) for task in tasks}
    work = replace(
        submission.work,
        answers={task: parts for task, parts in present.items() if parts},
        drivers=tuple(drivers),
    )
    verdicts: dict[str, Verdict] = {}
    printed: dict[str, str] = {}
    with place.open(work) as answers:
        missing = LocalAnswer(None, Outcome(Kind.VALUE))
        heard = {
            task: _Listening(answers[task] if present[task] else missing, checks[task])
            for task in tasks
        }
        # Every visible case comes before the first hidden one: from then on an answer may know what
        # must not be heard, its own hidden inputs or another task's.
        for answer in heard.values():
            answer.listen()
        for task, answer in heard.items():
            verdict = judge(answer, checks[task])
            notes = submission.notes_of(task)
            verdicts[task] = replace(verdict, warnings=(*verdict.warnings, *notes))
            if answer.heard:
                printed[task] = answer.heard
    return verdicts, printed


def _judged(layout: Layout, checks: Mapping[str, PreparedCheck]) -> list[str]:
    return [task for task in layout.points if task in checks]


def _ungradable(check: PreparedCheck, why: str) -> Verdict:
    hidden = any(not one.visible for one in check.cases)
    reason = Reason("ungradable", got=why)
    return Verdict(check.task, Status.UNGRADABLE, 0.0, reason, None, 0, len(check.cases), hidden)


@dataclass
class _Listening:
    """An answer whose visible cases are called beforehand, and heard. What is printed later could
    give hidden inputs away, so nobody hears it."""

    answer: Answer
    check: PreparedCheck
    heard: str = ""
    outcomes: list[Outcome] = field(default_factory=list)

    def listen(self) -> None:
        """Call the visible cases, up to one that takes the process down."""
        if self.failure is not None:
            return
        visible = [one for one in self.check.cases if one.visible]
        for outcome in self.answer.calls(visible, self.check):
            self.outcomes.append(outcome)
            self.heard = self.heard or outcome.printed
            if outcome.kind in FINAL:
                break

    @property
    def failure(self) -> Outcome | None:
        return self.answer.failure

    def call(self, one: PreparedCase, check: PreparedCheck) -> Outcome:
        """A call like that of a hidden case."""
        return self.answer.call(one, check)

    def calls(self, cases: Sequence[PreparedCase], check: PreparedCheck) -> Iterator[Outcome]:
        """What was heard of the visible cases, which come first, then calls of the hidden ones."""
        yield from self.outcomes
        yield from self.answer.calls(cases[len(self.outcomes) :], check)


# -- verdicts as outputs


def mark(
    notebook: dict[str, Any], verdicts: Mapping[str, Verdict], printed: Mapping[str, str]
) -> None:
    """Write the verdicts into the notebook's check cells. A check cell without one gets 0 points.

    nbgrader takes a cell's points from the text of its result, gives none after an error and all of
    them where there is no output.
    """
    for cell in notebook["cells"]:
        about = cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] != "code" or not about.get("grade") or about.get("solution"):
            continue
        task = about["grade_id"].removeprefix(CHECK_PREFIX)
        cell["outputs"] = _outputs(verdicts.get(task), about["points"], printed.get(task, ""))
        cell["execution_count"] = None


def _outputs(verdict: Verdict | None, points: float, printed: str) -> list[dict[str, Any]]:
    if verdict is None:
        data: dict[str, Any] = {"text/plain": "0.0", "text/html": f"<strong>{NOT_JUDGED}</strong>"}
    else:
        data = {
            "text/plain": repr(round(verdict.score * float(points), 9)),
            "text/html": wording.html(verdict),
            VERDICT_TYPE: verdict.to_data(),
        }
    result = {
        "output_type": "execute_result",
        "data": data,
        "metadata": {},
        "execution_count": None,
    }
    if not printed:
        return [result]
    return [{"output_type": "stream", "name": "stdout", "text": printed}, result]


def autograded_text(notebook: dict[str, Any]) -> str:
    """A marked notebook as nbgrader writes it to `autograded/`: texts as lists of lines."""
    cells = [
        {**cell, "source": cell["source"].splitlines(keepends=True), **_split_outputs(cell)}
        for cell in notebook["cells"]
    ]
    # `json` indents slowly, and most cells are the same for a whole class.
    texts = [json.dumps(cell, sort_keys=True, ensure_ascii=False) for cell in cells]
    made = [_kept(text) if len(text) < _KEPT_CHARACTERS else _indented(text) for text in texts]
    empty, inside = '"cells": []', ",".join(f"\n  {text}" for text in made)
    before, _, after = _indented_data({**notebook, "cells": []}).partition(empty)
    return f'{before}"cells": [{inside}\n ]{after}\n' if cells else f"{before}{empty}{after}\n"


@lru_cache(maxsize=256)
def _kept(text: str) -> str:
    return _indented(text)


def _indented(text: str) -> str:
    return _indented_data(json.loads(text)).replace("\n", "\n  ")


def _indented_data(data: Any) -> str:
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False)


def _split_outputs(cell: Mapping[str, Any]) -> dict[str, Any]:
    if cell["cell_type"] != "code":
        return {}
    outputs = []
    for output in cell["outputs"]:
        made = dict(output)
        if "text" in made:
            made["text"] = made["text"].splitlines(keepends=True)
        if "data" in made:
            made["data"] = {
                kind: value.splitlines(keepends=True) if isinstance(value, str) else value
                for kind, value in made["data"].items()
            }
        outputs.append(made)
    return {"outputs": outputs}


def place_for(requires: str, name: str | None, checks: str) -> Isolation:
    """Where answers run: isolation of this name (None: the best there is), with what the exercise
    requires loaded beforehand, and without sight of `checks`, the package of the course's checks."""
    hidden = dict.fromkeys((checks.partition(".")[0], "solutions"))
    return isolation(name, preload=preload_for(requires), hide=tuple(hidden))
