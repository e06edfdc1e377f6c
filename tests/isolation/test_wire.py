"""Whatever an answer process sends, the judge gives a verdict, in time and in bounded memory."""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
import tracemalloc
import types
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradelib import plain
from gradelib.checks import PreparedCheck
from gradelib.compare import Tolerance, difference
from gradelib.criteria import CRITERIA
from gradelib.grading.sandbox.session import Session
from gradelib.grading.sandbox.wire import MAX_FRAME_BYTES, Wire
from gradelib.grading.work import IsolationError, Limits, Work
from gradelib.judging import judge
from gradelib.outcomes import Kind, Outcome, call, load_driver
from gradelib.verdicts import Status, Verdict
from gradelib.wording import value_text
from tests.isolation.conftest import CHECKS

LIMITS = Limits(load_seconds=0.5, total_seconds=5.0)
CHECK = CHECKS["double"].prepare("double", "wire")
Reply = Callable[[dict[str, Any]], bytes]


def framed(data: bytes) -> bytes:
    """Bytes as the payload of a message."""
    return struct.pack(">I", len(data)) + data


class Impostor:
    """An answer process that sends what a test tells it to."""

    start_seconds = 1.0

    def __init__(self, load: Reply, call: Reply) -> None:
        ours, self._theirs = socket.socketpair()
        self.wire = Wire(ours)
        self._replies = [load, call]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            with self._theirs as theirs:
                theirs.sendall(framed(b'{"ready":true}'))
                for reply in self._replies:
                    (length,) = struct.unpack(">I", theirs.recv(4, socket.MSG_WAITALL))
                    request = json.loads(theirs.recv(length, socket.MSG_WAITALL))
                    theirs.sendall(reply(request))
        except (OSError, struct.error):
            pass  # the judge has hung up

    def end(self, patience_seconds: float = 0.0) -> str:  # noqa: ARG002 - as the protocol has it
        """Hang up."""
        self.wire.close()
        return "exit 0"


def loaded(request: dict[str, Any]) -> bytes:
    """What an honest process says when everything is loaded."""
    return framed(json.dumps({"id": request["id"], "loaded": {"double": None}}).encode())


def replied(request: dict[str, Any], outcome: Any, call: int = 0) -> bytes:
    """A reply to one of the calls of a request."""
    data = {"id": request["id"], "call": call, "outcome": outcome}
    return framed(json.dumps(data).encode())


def verdict_on(load: Reply, call: Reply, check: PreparedCheck = CHECK) -> Verdict:
    """The verdict on a process that sends these."""
    work = Work((), (), {"double": ("def double(x): return 2 * x",)})
    session = Session(work, lambda: Impostor(load, call), LIMITS)
    try:
        return judge(session["double"], check)
    finally:
        session.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text() | st.sampled_from(["$float", "$dict", "$set", "$array", "$record", "kind"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=60)
@given(junk=st.binary(max_size=200))
def test_junk_in_place_of_a_result_is_a_verdict(junk: bytes) -> None:
    verdict = verdict_on(loaded, lambda _: framed(junk))
    assert verdict.status in (Status.CRASHED, Status.TIMED_OUT)
    assert verdict.score == 0


@settings(deadline=None, max_examples=60)
@given(value=JSON)
def test_any_json_in_place_of_a_result_is_a_verdict(value: Any) -> None:
    def call(request: dict[str, Any]) -> bytes:
        return replied(request, value)

    assert verdict_on(loaded, call).score == 0


@settings(deadline=None, max_examples=60)
@given(value=JSON)
def test_any_json_in_place_of_a_value_is_a_verdict(value: Any) -> None:
    def call(request: dict[str, Any]) -> bytes:
        return replied(request, {"kind": "value", "value": value})

    assert verdict_on(loaded, call).score == 0


@settings(deadline=None, max_examples=60)
@given(value=JSON)
def test_any_json_in_place_of_what_was_loaded_is_a_verdict(value: Any) -> None:
    def load(request: dict[str, Any]) -> bytes:
        if not request["cells"]:
            return loaded(request)  # no learner code, no lie
        return framed(json.dumps({"id": request["id"], "loaded": value}).encode())

    assert verdict_on(load, lambda _: b"").score == 0


@pytest.mark.parametrize("field", ["kind", "value", "errors", "detail", "printed", "mutated"])
@settings(deadline=None, max_examples=60)
@given(value=JSON)
def test_an_outcome_of_any_fields_is_read_or_refused(field: str, value: Any) -> None:
    try:
        outcome = Outcome.from_data({"kind": "raised", field: value})
    except plain.WireError:
        return
    text = outcome.detail + outcome.printed + "".join(outcome.errors)
    text.encode("utf-8")
    assert "\0" not in text


@settings(deadline=None, max_examples=300)
@given(junk=st.binary(max_size=100) | JSON.map(lambda value: json.dumps(value).encode()))
def test_plain_data_is_read_or_refused(junk: bytes) -> None:
    try:
        value = plain.loads(junk)
    except plain.WireError:
        return
    assert difference(plain.loads(plain.dumps(value)), value, Tolerance(signed_zero=True)) is None


@settings(deadline=None, max_examples=300)
@given(
    got=JSON.map(plain.to_plain),
    expected=st.sampled_from([1, 10**30, 0.5, float("inf"), float("nan"), "text", [1.0], {"a": 1}]),
    tolerance=st.sampled_from([Tolerance(), Tolerance(rel=0.1), Tolerance(abs=1.0)]),
)
def test_any_value_can_be_compared(got: Any, expected: Any, tolerance: Tolerance) -> None:
    difference(got, expected, tolerance)


@pytest.mark.parametrize("digits", [300, 400, 4000])
@pytest.mark.parametrize("expected", [6, 6.0, float("inf"), float("nan"), -0.0])
def test_a_whole_number_beyond_floats_can_be_compared(digits: int, expected: float) -> None:
    got = 10**digits - 1
    for tolerance in (Tolerance(), Tolerance(rel=0.1), Tolerance(abs=1.0)):
        assert difference(got, expected, tolerance) is not None
        assert difference(expected, got, tolerance) is not None


@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance(rel=0.5), Tolerance(abs=1e300)])
def test_no_finite_number_is_close_to_infinity(tolerance: Tolerance) -> None:
    infinity = float("inf")
    for got in (0, 1.0, 1e308, -infinity, float("nan")):
        assert difference(got, infinity, tolerance) is not None
    assert difference(infinity, infinity, tolerance) is None


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b"[" + b"[]," * 3_000_000 + b"[]]",
        b"[" + b"0," * 3_000_000 + b"0]",
        b"[" + b'{"a":{}},' * 1_000_000 + b"0]",
        b"1" * 5_000,
        b"1." + b"1" * 5_000_000,
        b"1e999",
        b"NaN",
        b'{"a":1,"a":2}',
        b'{"$array":["float64",[99999999999],""]}',
        b'{"$array":["float64",[-1],""]}',
        b'{"$array":["float64",["1"],"AAAAAAAAAAA="]}',
        b'{"$array":[[],[],""]}',
        b'{"$array":"abc"}',
        b'{"$record":["Shape",{"vocab":{}}]}',
        b'{"$record":[{},{}]}',
        b'{"$dict":[[[],1]]}',
        b'{"$dict":5}',
        b'{"$set":[[1]]}',
        b'{"$float":"1e5"}',
        b'{"$float":{}}',
        b'{"$new":1}',
        b'{"$float":"nan","$set":[]}',
        b"\xff\xfe",
        b"",
    ],
)
def test_what_dumps_never_writes_is_refused(text: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(plain.WireError):
            plain.loads(text)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(text) + 10 * 2**20
    finally:
        tracemalloc.stop()


def test_memory_grows_with_what_arrives_not_with_what_is_announced() -> None:
    tracemalloc.start()
    try:
        verdict = verdict_on(loaded, lambda _: struct.pack(">I", MAX_FRAME_BYTES) + b"[1")
        assert verdict.status in (Status.CRASHED, Status.TIMED_OUT)
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    finally:
        tracemalloc.stop()


def test_a_result_for_another_request_is_discarded() -> None:
    def call(request: dict[str, Any]) -> bytes:
        stray = {"id": "0" * 32, "call": 0, "outcome": {"kind": "value", "value": 0}}
        right = replied(request, {"kind": "value", "value": 6})
        return framed(json.dumps(stray).encode()) * 50 + right

    work = Work((), (), {"double": ("",)})
    session = Session(work, lambda: Impostor(loaded, call), LIMITS)
    outcome = session.call("double", CHECK.cases[0], CHECK)
    session.close()
    assert outcome == Outcome(Kind.VALUE, 6)


def test_every_request_has_an_unpredictable_id() -> None:
    seen: set[str] = set()

    def call(request: dict[str, Any]) -> bytes:
        seen.add(request["id"])
        return replied(request, {"kind": "value"})

    for _ in range(20):
        verdict_on(loaded, call)
    assert len(seen) == 20
    assert all(len(each) == 32 for each in seen)


def test_a_process_that_never_starts_is_not_the_learners_fault() -> None:
    class Silent(Impostor):
        start_seconds = 0.1

        def _run(self) -> None:
            pass

    with pytest.raises(IsolationError, match="did not start"):
        Session(Work((), (), {}), lambda: Silent(loaded, loaded), LIMITS)


@pytest.mark.parametrize("expected", [6, "text", [1.0, 2.0], {"a": 1}])
def test_a_huge_array_costs_the_judge_no_time(expected: Any) -> None:
    size = plain.MAX_ARRAY_BYTES // 8
    huge = plain.Array("float64", (size,), b"\0" * plain.MAX_ARRAY_BYTES)
    begun = time.monotonic()
    for _ in range(20):
        assert difference(huge, expected) is not None
        assert difference(huge, huge) is None
        assert len(value_text(huge)) < 200
    assert time.monotonic() - begun < 5


# Hashes of whole numbers can be foreseen: all of these have the same.
ALIKE = [n * sys.hash_info.modulus for n in range(30_000)]
LONG = "1" + "0" * (plain.MAX_INT_DIGITS - 1)


@pytest.mark.parametrize(
    "text",
    [
        f'{{"$set":{ALIKE}}}',
        f'{{"$set":[{",".join(f"{n}.0" for n in ALIKE)}]}}',
        f'{{"$dict":{[[n, 0] for n in ALIKE]}}}',
        f'{{"$array":["int8",[{",".join([LONG] * 2000)},0],""]}}',
        f'{{"$array":["int8",[{",".join(["1"] * 50_000)}],"AA=="]}}',
    ],
    ids=["set", "set of floats", "dictionary", "large sizes", "many dimensions"],
)
def test_what_would_take_time_without_end_is_refused_at_once(text: str) -> None:
    begun = time.monotonic()
    with pytest.raises(plain.WireError):
        plain.loads(text)
    assert time.monotonic() - begun < 2


def test_no_value_makes_a_criterion_take_time_or_memory_without_end() -> None:
    inputs = [[3] * 20, 10]
    huge = plain.Array("int8", (plain.MAX_ARRAY_BYTES, 1), bytes(plain.MAX_ARRAY_BYTES))
    tracemalloc.start()
    begun = time.monotonic()
    try:
        for value in ([ALIKE], [[n] for n in ALIKE], huge, [huge]):
            for criterion in CRITERIA.values():
                assert criterion(value, inputs) != []
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()
    assert time.monotonic() - begun < 5


def test_messages_are_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradelib.grading.sandbox.wire._MAX_HELD_BYTES", 10**6)

    def call(request: dict[str, Any]) -> bytes:
        stray = {"id": "", "call": 0, "outcome": [[]] * 1000}
        right = replied(request, {"kind": "value", "value": 6})
        return framed(json.dumps(stray).encode()) * 20 + right

    assert verdict_on(loaded, call).status is Status.CRASHED


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (plain.Array("int8", (3,), b"\1\2\3"), "[1, 2, 3]"),
        (plain.Array("int8", (500,), b"\1" * 500), "an array of shape (500,)"),
    ],
)
def test_a_long_array_is_named_and_not_written_out(value: plain.Array, shown: str) -> None:
    assert value_text(value) == shown


def test_a_driver_stays_the_one_that_was_loaded_first(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("gradelib.drivers.sample")
    module.twice = lambda answer, x: 2 * answer(x)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gradelib.drivers", types.ModuleType("gradelib.drivers"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    name = "gradelib.drivers.sample:twice"
    load_driver(name)
    module.twice = lambda _answer, _x: "whatever is wanted"  # type: ignore[attr-defined]
    monkeypatch.delitem(sys.modules, module.__name__)
    assert call(lambda x: x + 1, [1], {}, name).value == 4
    load_driver.cache_clear()


@pytest.mark.parametrize(
    "name",
    ["os:system", "gradelib.judging:judge", "gradelib.drivers", "gradelib.driversx:f", ":f", ""],
)
def test_a_driver_lives_in_gradelib_drivers(name: str) -> None:
    with pytest.raises(ValueError, match=r"gradelib\.drivers"):
        load_driver(name)


class _Sly:
    """Equal to everything, and unpleasant to look at."""

    def __eq__(self, other: object) -> bool:
        return True

    def __iter__(self) -> object:
        raise KeyboardInterrupt

    __hash__ = None  # type: ignore[assignment]


def test_a_changed_input_is_seen_whatever_it_says_of_itself() -> None:
    def changes(values: list[object]) -> None:
        values[0] = _Sly()

    def keeps(values: list[object]) -> list[object]:
        return sorted(values, key=str)

    assert call(changes, [[1, 2]], {}).mutated
    assert not call(keeps, [[2, float("nan"), 1]], {}).mutated
