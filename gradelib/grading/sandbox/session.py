"""The judge's side of one submission: load it, call its answers, and turn every way of losing the
answer process into an outcome.

A cell or a call that takes the process down costs its own task: the rest goes on in a fresh
process, without the cell that did not load.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gradelib import plain
from gradelib.checks import PreparedCase, PreparedCheck
from gradelib.grading.sandbox.server import OUT_OF_MEMORY, OUT_OF_TIME, STOPPED
from gradelib.grading.sandbox.wire import ClosedError, Wire
from gradelib.grading.work import IsolationError, Limits, Work
from gradelib.judging import Answer
from gradelib.outcomes import FINAL, Kind, Outcome

START_SECONDS = 30.0
# What goes into one request: so many calls, and so long a text unless one call alone is longer.
CALLS_AT_A_TIME = 64
REQUEST_LENGTH = 2**18
_DYING_SECONDS = 1.0
# A process that waited for a busy machine for this share of its time gets another try, with more.
_STARVED_SHARE = 0.3
_SECOND_TRY = 4.0
_SIGNALS = {
    4: "illegal instruction",
    6: "abort",
    7: "bus error",
    8: "floating-point exception",
    9: "killed by the system",
    11: "segmentation fault",
}


class _LostError(Exception):
    """The process was lost on the way to an outcome, which this is; None: it deserves another
    try."""

    def __init__(self, outcome: Outcome | None) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class AnswerProcess(Protocol):
    """A process that has given everything up but its wire, and is about to load learner code."""

    wire: Wire
    start_seconds: float

    def end(self, patience_seconds: float = 0.0) -> str:
        """Kill it, with everything it started; how it had ended: "exit N", "signal N" or one of
        `server`'s words. It may take `patience_seconds` to end by itself."""


@dataclass(frozen=True)
class _Cell:
    kind: str
    name: str
    parts: tuple[str, ...]


@dataclass(frozen=True)
class _Step:
    """A cell to run, in the namespace that all tasks share ("") or in a task's own. `below`: it
    stands below the task."""

    cell: _Cell
    space: str = ""
    below: bool = False


def _steps(work: Work) -> list[_Step]:
    setup = [_Cell("setup", str(i), (text,)) for i, text in enumerate(work.setup)]
    order = [
        *(i for i in range(len(work.helpers)) if i not in work.order),
        *work.order,
        *(task for task in work.answers if task not in work.order),
    ]
    cells = [
        _Cell("helpers", str(each), (work.helpers[each],))
        if isinstance(each, int)
        else _Cell("answer", each, tuple(work.answers[each]))
        for each in order
        if isinstance(each, int) or each in work.answers
    ]
    if not work.apart:
        return [_Step(cell) for cell in (*setup, *cells)]
    steps = []
    for task in work.answers:
        own = next(i for i, cell in enumerate(cells) if cell.kind == "answer" and cell.name == task)
        steps += [_Step(cell, task) for cell in (*setup, *cells[: own + 1])]
        steps += [_Step(cell, task, below=True) for cell in cells[own + 1 :]]
    return steps


def _alike(cases: Iterable[PreparedCase], at_most: int) -> list[PreparedCase]:
    """The first cases: all visible or all hidden, and no more than go into one request."""
    chosen: list[PreparedCase] = []
    size = 0
    for one in cases:
        size += len(one.inputs_text)
        other = chosen and one.visible is not chosen[0].visible
        if chosen and (other or len(chosen) == at_most or size > REQUEST_LENGTH):
            break
        chosen.append(one)
    return chosen


class Session(Mapping[str, Answer]):
    """The answers of one submission, by task. `close` ends the process that holds them."""

    def __init__(self, work: Work, start: Callable[[], AnswerProcess], limits: Limits) -> None:
        self._steps = _steps(work)
        self._work = work
        self._start = start
        self._limits = limits
        self._end = time.monotonic() + limits.total_seconds
        self._stretch = 1.0
        self._process: AnswerProcess | None = None
        self._asking = False
        # Tasks whose own cell took the process down; their cells are left out from then on.
        self._lost: dict[_Cell, Outcome] = {}
        self._failures: dict[str, Outcome | None] = {}
        self._load()

    def __getitem__(self, task: str) -> Answer:
        if task not in self._work.answers:
            raise KeyError(task)
        return _RemoteAnswer(self, task)

    def __iter__(self) -> Iterator[str]:
        return iter(self._work.answers)

    def __len__(self) -> int:
        return len(self._work.answers)

    def close(self) -> None:
        """End the answer process and everything it started."""
        self._asking = False
        if self._process is not None:
            self._process.end()
            self._process = None

    def failure(self, task: str) -> Outcome | None:
        """Why a task cannot be called; None when it can."""
        return self._failures[task]

    def call(self, task: str, one: PreparedCase, check: PreparedCheck) -> Outcome:
        """Call an answer once; see `calls`."""
        return next(self.calls(task, [one], check))

    def calls(
        self, task: str, cases: Sequence[PreparedCase], check: PreparedCheck
    ) -> Iterator[Outcome]:
        """Call an answer on one case after the other; a lost process is an outcome, and the next
        call gets a fresh one.

        Several calls go to the process in one request, so that it need not wait for the judge
        between them. A request holds visible cases or hidden ones, never both: what is hidden
        leaves only when every case before it has its outcome. After a lost process each call goes
        alone.
        """
        left = deque(cases)
        at_most = CALLS_AT_A_TIME
        while left:
            failure = self._not_callable(task)
            if failure is not None:
                yield failure
                left.popleft()
                continue
            try:
                for outcome in self._asked(task, _alike(left, at_most), check):
                    left.popleft()
                    yield outcome
            except _LostError as lost:
                at_most = 1
                if lost.outcome is not None:  # else the same call gets another try
                    left.popleft()
                    yield lost.outcome

    def _not_callable(self, task: str) -> Outcome | None:
        """Why a task cannot be called, after a fresh process is there, should that be needed."""
        if self._asking:
            # Whoever asked did not wait for the answers. They would come before the next ones.
            self.close()
        if self._process is None:
            self._load()
        failure = self._failures[task]
        if failure is None and self._process is not None:
            return None
        # It loaded before, and does not any more.
        if failure is not None and failure.kind is not Kind.VALUE:
            return failure
        return Outcome(Kind.CRASHED, detail="its cell gave nothing the second time")

    def _asked(
        self, task: str, cases: Sequence[PreparedCase], check: PreparedCheck
    ) -> Iterator[Outcome]:
        """The outcomes of one request. After one that is final, the process leaves the others
        alone."""
        process = self._process
        assert process is not None
        seconds = check.seconds * self._stretch
        request_id = secrets.token_hex(16)
        about = {"id": request_id, "task": task, "driver": check.driver}
        texts = ",".join(one.inputs_text for one in cases)
        deadline = self._deadline(seconds)
        self._asking = True
        try:
            process.wire.send_text(f'{plain.dumps(about)[:-1]},"calls":[{texts}]}}', deadline)
            for position in range(len(cases)):
                if self._process is not process:  # ended by another call, made meanwhile
                    raise _LostError(None)
                # The time of a call begins when the outcome of the one before it is here.
                deadline = self._deadline(seconds) if position else deadline
                reply = self._reply(process, request_id, position, deadline)
                outcome = Outcome.from_data(reply)
                self._asking = position + 1 < len(cases) and outcome.kind not in FINAL
                yield outcome
                if outcome.kind in FINAL:
                    return
        except (TimeoutError, ClosedError, plain.WireError) as error:
            raise _LostError(self._lose(error, seconds)) from error

    def _deadline(self, seconds: float) -> float:
        return min(time.monotonic() + seconds, self._end)

    def _load(self) -> None:
        """Load every cell that can be, in as many processes as that takes."""
        while not self._try_to_load():
            pass  # each attempt but one leaves a cell out

    def _try_to_load(self) -> bool:
        """Load what is left. False when the process was lost: then there is less to load."""
        steps = [step for step in self._steps if step.cell not in self._lost]
        cells = list(dict.fromkeys(step.cell for step in steps))
        places = {cell: i for i, cell in enumerate(cells)}
        if time.monotonic() >= self._end:
            late = Outcome(Kind.TIMED_OUT, detail=self._late())
            self._failures = dict.fromkeys(self._work.answers, late)
            return True
        process = self._started()
        request_id = secrets.token_hex(16)
        request = {
            "id": request_id,
            "cells": [
                {"kind": cell.kind, "name": cell.name, "parts": list(cell.parts)} for cell in cells
            ],
            "steps": [
                {"cell": places[step.cell], "space": step.space, "below": step.below}
                for step in steps
            ],
            "files": {
                name: plain.Array("uint8", (len(content),), content)
                for name, content in self._work.files.items()
            },
            "drivers": list(self._work.drivers),
        }
        self._process = process
        position = 0
        seconds = self._limits.load_seconds * self._stretch
        try:
            process.wire.send(request, time.monotonic() + START_SECONDS)
            while True:
                deadline = min(time.monotonic() + seconds, self._end)
                message = self._message(process, request_id, deadline)
                if "loaded" in message:
                    break
                position = self._position(message, len(steps))
            self._failures = self._read_failures(message["loaded"])
            return True
        except (TimeoutError, ClosedError, plain.WireError) as error:
            outcome = self._lose(error, seconds)
            if outcome is not None and not steps:
                raise IsolationError(
                    f"the answer process could not load anything: {outcome.detail}"
                ) from error
            if outcome is not None:
                self._lost[steps[position].cell] = outcome
            return False

    def _started(self) -> AnswerProcess:
        process = self._start()
        try:
            # The first message comes before any learner code: it can be believed.
            first = process.wire.receive(time.monotonic() + process.start_seconds)
        except (TimeoutError, ClosedError, plain.WireError) as error:
            how = process.end(_DYING_SECONDS) or "it said nothing"
            raise IsolationError(f"the answer process did not start: {how}") from error
        if "refused" in first:
            process.end()
            raise IsolationError(f"the answer process could not be put apart: {first['refused']}")
        return process

    def _message(self, process: AnswerProcess, request_id: str, deadline: float) -> dict[str, Any]:
        """The next message that answers a request; strays are discarded."""
        while True:
            message = process.wire.receive(deadline)
            if isinstance(message, dict) and message.get("id") == request_id:
                return message

    def _reply(
        self, process: AnswerProcess, request_id: str, position: int, deadline: float
    ) -> Any:
        message = self._message(process, request_id, deadline)
        call = message.get("call")
        if type(call) is not int or call != position or "outcome" not in message:
            raise plain.WireError("a reply to another call")
        return message["outcome"]

    @staticmethod
    def _position(message: dict[str, Any], count: int) -> int:
        position = message.get("step")
        if type(position) is not int or not 0 <= position < count:
            raise plain.WireError("the position of a step that there is not")
        return position

    def _read_failures(self, data: Any) -> dict[str, Outcome | None]:
        if not isinstance(data, dict):
            raise plain.WireError("what was loaded is a dictionary")
        failures: dict[str, Outcome | None] = {}
        for task in self._work.answers:
            lost = self._lost.get(_Cell("answer", task, tuple(self._work.answers[task])))
            if lost is None and data.get(task) is not None:
                lost = Outcome.from_data(data[task])
            failures[task] = lost
        return failures

    def _lose(self, error: Exception, seconds: float) -> Outcome | None:
        """End the process, and say why it was lost; None when it deserves another try."""
        assert self._process is not None
        # A closed wire: it is about to end by itself, and how is worth knowing.
        how = self._process.end(_DYING_SECONDS if isinstance(error, ClosedError) else 0.0)
        self._process = None
        self._asking = False
        what, _, number = how.partition(" ")
        if isinstance(error, TimeoutError) or how == OUT_OF_TIME:
            late = time.monotonic() >= self._end or how == OUT_OF_TIME
            starved = what == STOPPED and float(number) > _STARVED_SHARE * seconds
            if starved and not late and self._stretch == 1.0:
                self._stretch = _SECOND_TRY
                return None
            return Outcome(Kind.TIMED_OUT, detail=self._late() if late else f"after {seconds:g} s")
        if how == OUT_OF_MEMORY:
            limit = self._limits.memory_bytes / 2**30
            return Outcome(Kind.OUT_OF_MEMORY, detail=f"more than {limit:g} GiB")
        if isinstance(error, plain.WireError):
            return Outcome(Kind.CRASHED, detail="it wrote to the channel that carries its results")
        if what == "signal":
            name = _SIGNALS.get(int(number), f"signal {number}")
            return Outcome(Kind.CRASHED, detail=f"its process ended: {name}")
        return Outcome(Kind.CRASHED, detail="it ended its own process")

    def _late(self) -> str:
        return f"the whole submission took {self._limits.total_seconds:g} s"


@dataclass(frozen=True)
class _RemoteAnswer:
    session: Session
    task: str

    @property
    def failure(self) -> Outcome | None:
        return self.session.failure(self.task)

    def call(self, one: PreparedCase, check: PreparedCheck) -> Outcome:
        return self.session.call(self.task, one, check)

    def calls(self, cases: Sequence[PreparedCase], check: PreparedCheck) -> Iterator[Outcome]:
        return self.session.calls(self.task, cases, check)
