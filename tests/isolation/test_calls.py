"""Calls that go to the answer process together: in order, each with its own time and outcome, and
nothing hidden before all that is visible is done."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from gradelib.checks import Check, PreparedCheck, case
from gradelib.grading.sandbox import session as sessions
from gradelib.grading.sandbox.session import Session
from gradelib.grading.sandbox.wire import Wire
from gradelib.grading.work import Isolation, Limits, Work
from gradelib.judging import judge
from gradelib.outcomes import Kind, Outcome
from gradelib.verdicts import Status
from tests.isolation.conftest import Grade
from tests.isolation.test_wire import framed, loaded, replied

WORK = Work((), (), {"double": ("",)})
VISIBLE, HIDDEN = 3, 10
CHECK = Check(
    lambda x: 2 * x,
    [case(n) for n in range(VISIBLE)],
    lambda _: [case(1000 + n) for n in range(HIDDEN)],
).prepare("double", "calls")
Answer = Callable[[dict[str, Any], int], bytes | float | None]


class Process:
    """An answer process that answers as a test tells it to: with an outcome's bytes, after a pause
    (a number), or by ending (None)."""

    start_seconds = 5.0

    def __init__(self, answer: Answer) -> None:
        ours, self._theirs = socket.socketpair()
        self.wire = Wire(ours)
        self.requests: list[dict[str, Any]] = []
        self.ended = ""
        self._answer = answer
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            with self._theirs as theirs:
                theirs.sendall(framed(b'{"ready":true}'))
                theirs.sendall(loaded(self._receive(theirs)))
                while True:
                    self._serve(theirs, self._receive(theirs))
        except (OSError, struct.error, EOFError):
            pass  # the judge has hung up, or the process is to end

    def _receive(self, theirs: socket.socket) -> dict[str, Any]:
        (length,) = struct.unpack(">I", theirs.recv(4, socket.MSG_WAITALL))
        request: dict[str, Any] = json.loads(theirs.recv(length, socket.MSG_WAITALL))
        return request

    def _serve(self, theirs: socket.socket, request: dict[str, Any]) -> None:
        self.requests.append(request)
        for position in range(len(request["calls"])):
            said = self._answer(request, position)
            if said is None:
                raise EOFError
            if isinstance(said, float):
                time.sleep(said)
                said = right(request, position)
            theirs.sendall(said)

    def end(self, patience_seconds: float = 0.0) -> str:  # noqa: ARG002 - as the protocol has it
        """Hang up."""
        self.wire.close()
        return "exit 0"


def right(request: dict[str, Any], position: int) -> bytes:
    """The reply of an honest process."""
    value = 2 * request["calls"][position]["args"][0]
    return replied(request, {"kind": "value", "value": value}, position)


class Started:
    """Starts processes for a session, and keeps them."""

    def __init__(self, answer: Answer) -> None:
        self.processes: list[Process] = []
        self._answer = answer

    def __call__(self) -> Process:
        self.processes.append(Process(self._answer))
        return self.processes[-1]

    @property
    def requests(self) -> list[list[int]]:
        """The inputs of each request, of all processes."""
        return [
            [each["args"][0] for each in request["calls"]]
            for process in self.processes
            for request in process.requests
        ]


def opened(answer: Answer, seconds: float = 10.0) -> tuple[Session, Started]:
    started = Started(answer)
    return Session(WORK, started, Limits(total_seconds=seconds)), started


def outcomes(session: Session, check: PreparedCheck = CHECK) -> Iterator[Outcome]:
    return session.calls("double", check.cases, check)


def test_calls_go_together_but_nothing_hidden_with_anything_visible() -> None:
    session, started = opened(right)
    found = outcomes(session)
    for n in range(VISIBLE):
        assert next(found).value == 2 * n
        assert started.requests == [[0, 1, 2]]
    assert [each.value for each in found] == [2 * (1000 + n) for n in range(HIDDEN)]
    assert started.requests == [[0, 1, 2], [1000 + n for n in range(HIDDEN)]]
    session.close()


def test_hidden_inputs_leave_after_the_last_visible_outcome_only() -> None:
    hold = threading.Event()

    def answer(request: dict[str, Any], position: int) -> bytes:
        if request["calls"][position]["args"] == [VISIBLE - 1]:
            assert hold.wait(10)
        return right(request, position)

    session, started = opened(answer)
    found = outcomes(session)
    assert [next(found).value for _ in range(VISIBLE - 1)] == [0, 2]
    time.sleep(0.1)
    assert started.requests == [[0, 1, 2]]
    hold.set()
    assert len(list(found)) == HIDDEN + 1
    session.close()


def test_a_request_is_of_bounded_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "CALLS_AT_A_TIME", 4)
    session, started = opened(right)
    assert len(list(outcomes(session))) == VISIBLE + HIDDEN
    assert [len(each) for each in started.requests] == [3, 4, 4, 2]
    monkeypatch.setattr(sessions, "REQUEST_LENGTH", 2 * len(CHECK.cases[-1].inputs_text))
    assert len(list(outcomes(session))) == VISIBLE + HIDDEN
    assert max(map(len, started.requests[4:])) == 2
    monkeypatch.setattr(sessions, "REQUEST_LENGTH", 1)
    assert len(list(outcomes(session))) == VISIBLE + HIDDEN
    assert [len(each) for each in started.requests[-VISIBLE - HIDDEN :]] == [1] * 13
    session.close()


def test_each_call_has_all_of_its_time() -> None:
    check = replace(CHECK, seconds=0.5)
    session, _ = opened(lambda _request, _position: 0.1)
    begun = time.monotonic()
    assert all(each.kind is Kind.VALUE for each in outcomes(session, check))
    assert time.monotonic() - begun > 2 * check.seconds
    session.close()


def test_a_call_that_takes_too_long_is_the_one_that_is_told() -> None:
    check = replace(CHECK, seconds=0.3)
    session, started = opened(
        lambda request, position: 5.0 if position == 6 else right(request, position)
    )
    found = list(zip(range(VISIBLE + 7), outcomes(session, check), strict=False))
    kinds = [outcome.kind for _, outcome in found]
    assert kinds == [Kind.VALUE] * (VISIBLE + 6) + [Kind.TIMED_OUT]
    assert len(started.processes) == 1
    session.close()


def test_time_for_the_whole_submission_ends_calls_that_went_together() -> None:
    session, _ = opened(lambda _request, _position: 0.2, seconds=1.0)
    found = list(outcomes(session))
    late = [outcome for outcome in found if outcome.kind is Kind.TIMED_OUT]
    assert late
    assert all("whole submission" in each.detail for each in late)
    assert found[-len(late) :] == late
    session.close()


def test_a_process_that_ends_among_calls_costs_the_one_it_ended_in() -> None:
    def answer(request: dict[str, Any], position: int) -> bytes | None:
        return None if request["calls"][position]["args"] == [1003] else right(request, position)

    session, started = opened(answer)
    found = list(outcomes(session))
    kinds = [each.kind for each in found]
    assert kinds == [Kind.CRASHED if n == VISIBLE + 3 else Kind.VALUE for n in range(13)]
    # What comes after goes one at a time, to a fresh process.
    assert started.requests[2:] == [[1000 + n] for n in range(4, HIDDEN)]
    assert len(started.processes) == 2
    session.close()


@pytest.mark.parametrize(
    "position", [1, -1, 2**70, "0", None, 0.0, True, [0]], ids=lambda value: repr(value)[:9]
)
def test_a_reply_to_another_call_is_none(position: Any) -> None:
    session, _ = opened(
        lambda request, _: replied(request, {"kind": "value", "value": 0}, position)
    )
    assert next(outcomes(session)).kind is Kind.CRASHED
    session.close()


def test_replies_out_of_turn_gain_nothing() -> None:
    def answer(request: dict[str, Any], position: int) -> bytes:
        if position:
            return right(request, position)
        return right(request, 0) + right(request, 0) + right(request, 1)

    session, _ = opened(answer)
    found = outcomes(session)
    assert next(found).kind is Kind.VALUE
    assert next(found).kind is Kind.CRASHED
    session.close()


@pytest.mark.parametrize("kind", [Kind.CRASHED, Kind.OUT_OF_MEMORY, Kind.TIMED_OUT])
def test_after_a_final_outcome_nothing_more_is_waited_for(kind: Kind) -> None:
    """An honest process makes no call after it; what another sends is of no request."""

    def answer(request: dict[str, Any], position: int) -> bytes:
        if request["calls"][position]["args"] == [1001]:
            return replied(request, {"kind": str(kind)}, position)
        return right(request, position)

    session, started = opened(answer)
    verdict = judge(session["double"], CHECK)
    assert verdict.passed == VISIBLE + 1
    assert session.call("double", CHECK.cases[0], CHECK) == Outcome(Kind.VALUE, 0)
    assert len(started.processes) == 1
    session.close()


def test_calls_nobody_waited_for_do_not_delay_the_next() -> None:
    def answer(request: dict[str, Any], position: int) -> bytes | float:
        return 5.0 if request["calls"][position]["args"] == [1001] else right(request, position)

    session, started = opened(answer)
    found = outcomes(session)
    for _ in range(VISIBLE + 1):
        next(found)
    begun = time.monotonic()
    assert session.call("double", CHECK.cases[1], CHECK) == Outcome(Kind.VALUE, 2)
    assert time.monotonic() - begun < 2
    assert len(started.processes) == 2
    # And who asked first is served after all, by the process that there is.
    assert len(list(zip(range(HIDDEN - 2), found, strict=False))) == HIDDEN - 2
    session.close()


# --- with a real process


@pytest.mark.sandbox
def test_an_answer_is_not_called_after_it_stopped_python(grade: Grade) -> None:
    cell = (
        "def double(x):\n    if x in (3, 0.5): return 2 * x\n"
        "    open('calls', 'a').write('x')\n    exit()"
    )
    # `area` is wrong when `double` was called more than once on hidden cases.
    area = (
        "def area(width, height):\n    if width < 0: raise ValueError\n"
        "    return width * height * len(open('calls').read())"
    )
    verdicts = grade({"double": cell, "area": area})
    assert verdicts["double"].status is Status.CRASHED
    assert verdicts["area"].score == 1, verdicts["area"].message


@pytest.mark.sandbox
def test_an_answer_that_is_a_forked_copy_answers_nothing(grade: Grade) -> None:
    cell = "def double(x):\n    import os\n    os.fork()\n    return 2 * x"
    assert grade({"double": cell})["double"].score == 1


@pytest.mark.sandbox
def test_looking_ahead_at_the_inputs_gains_nothing(
    grade: Grade, bubblewrap: Isolation, checks: dict[str, PreparedCheck]
) -> None:
    """What came with a call can be read; what is expected is not among it."""
    spy = (
        "import sys\n"
        "def treasure(x):\n"
        "    if x == 1: return 'public'\n"
        "    frame, seen = sys._getframe(), []\n"
        "    while frame:\n"
        "        seen.append(repr({**frame.f_locals}))\n"
        "        frame = frame.f_back\n"
        "    return ' '.join(seen)[:100_000]"
    )
    check = checks["treasure"]
    secret = check.cases[-1].expected.value
    with bubblewrap.open(Work((), (), {"treasure": (spy,)})) as loaded_answers:
        seen = loaded_answers["treasure"].call(check.cases[-1], check).value
    assert str(check.cases[-1].args[0]) in seen
    assert secret not in seen
    verdict = grade({"treasure": spy})["treasure"]
    assert verdict.score == 0
    assert str(check.cases[-1].args[0]) not in repr(verdict.to_data())
