"""The one place where an answer is compared with a check: `judge`.

It serves the notebook, the browser and the grader. It reads plain data only; running the learner's
code is left to the `Answer` it is given, which in the grader stands for a process of its own.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from gradelib.checks import PreparedCase, PreparedCheck, same_outcome, seen
from gradelib.compare import Difference, Differs, Tolerance, difference, kind_of
from gradelib.limit import OutOfTimeError, time_limit
from gradelib.outcomes import FINAL, Kind, Outcome, call, load_driver, of_error
from gradelib.plain import RETURNED_ERROR
from gradelib.verdicts import Reason, Status, Verdict
from gradelib.wording import call_text, value_text


class Answer(Protocol):
    """A learner's answer to one task, wherever its code runs."""

    @property
    def failure(self) -> Outcome | None:
        """Why the answer cannot be called at all; None when it can."""

    def call(self, one: PreparedCase, check: PreparedCheck) -> Outcome:
        """Call it on a case's inputs; the outcome of a lost process is an outcome too."""

    def calls(self, cases: Sequence[PreparedCase], check: PreparedCheck) -> Iterator[Outcome]:
        """Call it on one case after the other. Where its code runs elsewhere this saves time: calls
        may be made before their outcomes are asked for, but for one after a final outcome."""


@dataclass(frozen=True)
class LocalAnswer:
    """An answer that lives in this very process: a learner's own notebook, or a test.

    limited: stop a call that takes longer than its check allows, where this process can.
    """

    function: Callable[..., Any] | None
    failure: Outcome | None = None
    limited: bool = False

    def call(self, one: PreparedCase, check: PreparedCheck) -> Outcome:
        """Call it here."""
        assert self.function is not None
        if not self.limited:
            return call(self.function, one.args, one.kwargs, check.driver)
        if check.driver is not None:
            load_driver(check.driver)
        try:
            with time_limit(check.seconds):
                return call(self.function, one.args, one.kwargs, check.driver)
        except OutOfTimeError as error:  # it came while the result was being read
            return of_error(error)

    def calls(self, cases: Sequence[PreparedCase], check: PreparedCheck) -> Iterator[Outcome]:
        """Call it here, each time when the outcome is asked for."""
        return (self.call(one, check) for one in cases)


@dataclass(frozen=True)
class _Tried:
    case: PreparedCase
    outcome: Outcome
    passed: bool


MISSING_NAME = "reads a name that is not there"
MISSING_PACKAGE = "imports a package that is not there"
# By how much the tolerance is narrowed to tell apart two known wrong answers that lie close together.
NARROW = 10
# A tolerance from here on is told to the learner: it is there for more than rounding.
TOLD = 1e-3
_STATUS = {
    Kind.RAISED: Status.RAISED,
    Kind.BAD_VALUE: Status.BAD_VALUE,
    Kind.TIMED_OUT: Status.TIMED_OUT,
    Kind.OUT_OF_MEMORY: Status.OUT_OF_MEMORY,
    Kind.CRASHED: Status.CRASHED,
    Kind.VALUE: Status.WRONG,
}


def judge(answer: Answer, check: PreparedCheck) -> Verdict:
    """The verdict on an answer: every case is tried, one is repeated to catch state, and the first
    failure is explained."""
    hidden = any(not one.visible for one in check.cases)
    total = len(check.cases)
    if answer.failure is not None:
        return _unloaded(answer.failure, check, total, hidden)
    tried: list[_Tried] = []
    for one, outcome in zip(check.cases, answer.calls(check.cases, check), strict=True):
        tried.append(_Tried(one, outcome, _passes(outcome, one, check)))
        if outcome.kind in FINAL:
            break
    passed = sum(each.passed for each in tried)

    def verdict(status: Status, reason: Reason, misconception: str | None = None) -> Verdict:
        score = 1.0 if status is Status.CORRECT else _score(tried, check)
        if status is Status.NOT_ATTEMPTED:
            score = 0.0
        return Verdict(check.task, status, score, reason, misconception, passed, total, hidden)

    if _is_placeholder([each.outcome for each in tried]) and passed < total:
        return verdict(Status.NOT_ATTEMPTED, Reason("placeholder"), "placeholder")
    if passed == total:
        repeated = answer.call(check.cases[0], check)
        if not _passes(repeated, check.cases[0], check):
            reason = Reason("state")
            return Verdict(check.task, Status.WRONG, 0.0, reason, "stateful", passed, total, hidden)
        return verdict(Status.CORRECT, Reason("rules met" if check.rules else "correct"))
    failing = next(each for each in tried if not each.passed)
    status, reason = _explained(failing, check)
    misconception, hint = _recognised(tried, failing, check)
    reason = _with_hint(reason, hint)
    if misconception in check.sentences and status in (Status.RAISED, Status.BAD_VALUE):
        status = Status.WRONG  # a recognised way of being wrong says more than how it showed
    return verdict(status, reason, misconception)


def _passes(outcome: Outcome, one: PreparedCase, check: PreparedCheck) -> bool:
    if outcome.mutated:
        return False
    if check.rules:
        return outcome.kind is Kind.VALUE and _broken_rule(outcome.value, check) is None
    return same_outcome(seen(outcome, one.args, check.criterion), one.expected, check.tolerance)


def _broken_rule(value: Any, check: PreparedCheck) -> int | None:
    """Position of the first rule that the value breaks."""
    return next((i for i, rule in enumerate(check.rules) if not rule.holds(value)), None)


def _score(tried: Sequence[_Tried], check: PreparedCheck) -> float:
    """The weights of the parts passed whole; nothing without the first part. Never the full score:
    something failed."""
    failed = {each.case.part for each in tried if not each.passed}
    reached = {id(each.case) for each in tried}
    failed |= {one.part for one in check.cases if id(one) not in reached}
    if next(iter(check.parts)) in failed:
        return 0.0
    passed = math.fsum(weight for name, weight in check.parts.items() if name not in failed)
    return min(round(passed, 9), 0.99)


def _unloaded(failure: Outcome, check: PreparedCheck, total: int, hidden: bool) -> Verdict:
    if failure.kind is Kind.VALUE:
        status, reason, misconception = Status.NOT_ATTEMPTED, Reason("missing"), "placeholder"
        return Verdict(check.task, status, 0.0, reason, misconception, 0, total, hidden)
    reason = Reason(f"load {failure.kind}", got=_error_text(failure))
    known = MISSING_PACKAGE if "ModuleNotFoundError" in failure.errors else None
    return Verdict(check.task, _STATUS[failure.kind], 0.0, reason, known, 0, total, hidden)


def _error_text(outcome: Outcome) -> str:
    name = outcome.errors[0] if outcome.errors else ""
    return f"{name}: {outcome.detail}" if name and outcome.detail else name or outcome.detail


def _is_placeholder(outcomes: Sequence[Outcome]) -> bool:
    """Whether nothing was written yet: the stub, `...` everywhere, or NotImplementedError."""
    return all(
        (one.kind is Kind.BAD_VALUE and one.detail == "the placeholder `...`")
        or (one.kind is Kind.RAISED and "NotImplementedError" in one.errors)
        for one in outcomes
    )


def _explained(failing: _Tried, check: PreparedCheck) -> tuple[Status, Reason]:
    """Status and reason of the first failing case. Of a hidden case only the part it belongs to is
    told."""
    one, outcome = failing.case, failing.outcome
    shown = one.visible
    call_shown = call_text(check.task, one.args, one.kwargs) if shown else ""

    def reason(what: str, got: str = "", expected: str = "", where: str = "") -> Reason:
        if not shown:
            return Reason(f"hidden {what}", part=one.part)
        return Reason(what, call_shown, got, expected, where, one.part)

    if outcome.mutated:
        return Status.WRONG, reason("mutated")
    if outcome.kind is Kind.RAISED:
        expected = value_text(one.expected.value) if one.expected.kind is Kind.VALUE else ""
        if one.expected.kind is Kind.RAISED:
            expected = f"{one.expected.errors[0]}"
        if check.rules or (check.criterion and one.expected.kind is Kind.VALUE):
            expected = ""  # many values are right: none of them is the expected one
        if not shown:
            # The text of an exception, and the name of a class that was made to fit, could carry a
            # hidden case's inputs. Python's own classes may be told.
            known = (name for name in outcome.errors if hasattr(builtins, name))
            name = next(known, "an exception")
            return Status.RAISED, Reason("hidden raised", got=name, part=one.part)
        return Status.RAISED, reason("raised", _error_text(outcome), expected)
    if outcome.kind is not Kind.VALUE:
        return _STATUS[outcome.kind], reason(str(outcome.kind), outcome.detail)
    if check.rules:
        broken = _broken_rule(outcome.value, check)
        assert broken is not None
        if not isinstance(outcome.value, dict):
            return Status.BAD_VALUE, reason("type", kind_of(outcome.value), "a dictionary")
        return Status.WRONG, reason("rule", value_text(outcome.value))
    if one.expected.kind is Kind.RAISED:
        return Status.WRONG, reason("no error", value_text(outcome.value), one.expected.errors[0])
    if check.criterion is not None:
        flaws = seen(outcome, one.args, check.criterion).value
        if isinstance(flaws, list):
            return Status.WRONG, reason("flawed", value_text(outcome.value), ", and ".join(flaws))
    found = difference(outcome.value, one.expected.value, check.tolerance)
    assert found is not None
    return _differing(found, outcome, one, check.tolerance, reason)


def _differing(
    found: Difference,
    outcome: Outcome,
    one: PreparedCase,
    tolerance: Tolerance,
    reason: Callable[..., Reason],
) -> tuple[Status, Reason]:
    where = "".join(f"[{key!r}]" for key in found.path)
    if found.how is Differs.TYPE:
        what = "printed" if outcome.value is None and outcome.printed else "type"
        return Status.BAD_VALUE, reason(what, kind_of(found.got), kind_of(found.expected), where)
    if found.how is Differs.NOT_FINITE:
        return Status.BAD_VALUE, reason("not finite", value_text(found.got), "", where)
    if found.how in (Differs.LENGTH, Differs.KEYS):
        got, expected = value_text(found.got), value_text(found.expected)
        return Status.WRONG, reason(str(found.how), got, expected, where)
    got, expected = value_text(outcome.value), value_text(one.expected.value)
    if tolerance.rel >= TOLD:
        expected = f"{expected}, within {100 * tolerance.rel:g} %"
    return Status.WRONG, reason("value", got, expected)


def _recognised(
    tried: Sequence[_Tried], failing: _Tried, check: PreparedCheck
) -> tuple[str | None, str]:
    """Id and sentence of the known wrong answer that this is, if it is one."""
    if check.rules:
        value = failing.outcome.value
        broken = _broken_rule(value, check) if failing.outcome.kind is Kind.VALUE else None
        if broken is not None:
            return check.rules[broken].id, check.rules[broken].explanation(value)
        return None, ""
    if any(each.outcome.mutated for each in tried):
        return "mutates its input", ""
    known = _known(tried, check)
    if known is not None:
        return known, check.sentences[known]
    return _general(tried, failing), ""


def _known(tried: Sequence[_Tried], check: PreparedCheck) -> str | None:
    """The catalogued misconception whose outcomes are the answer's own: on all cases, else on all
    failing ones, else on those of the first part that fails (the others may fail for a reason of
    their own).

    Several may fit. It is then the one that the cases which passed contradict least: a misconception
    that would have failed them is hardly this learner's. (Parts after the first that fails do not count
    here.) Of several that are left it is one that the answer meets well within the tolerance, and then
    the first in the catalogue.
    """
    narrow = replace(
        check.tolerance, rel=check.tolerance.rel / NARROW, abs=check.tolerance.abs / NARROW
    )

    def agrees(name: str, each: _Tried, tolerance: Tolerance = check.tolerance) -> bool:
        outcome = seen(each.outcome, each.case.args, check.criterion)
        return same_outcome(outcome, each.case.wrong[name], tolerance)

    failing = [each for each in tried if not each.passed]
    order = list(check.parts)
    first = order.index(failing[0].case.part)
    first_part = [each for each in failing if order.index(each.case.part) == first]
    passed = [each for each in tried if each.passed and order.index(each.case.part) <= first]

    def against(name: str) -> tuple[int, int]:
        contradicting = sum(not agrees(name, each) for each in passed)
        return contradicting, sum(not agrees(name, each, narrow) for each in first_part)

    for among in (tried, failing, first_part):
        fitting = [name for name in check.sentences if all(agrees(name, each) for each in among)]
        if fitting:
            return min(fitting, key=against)
    return None


def _general(tried: Sequence[_Tried], failing: _Tried) -> str | None:
    """Wrong shapes that any task can meet."""
    outcome, expected = failing.outcome, failing.case.expected
    if outcome.kind is Kind.RAISED:
        if "RecursionError" in outcome.errors:
            return "recursion without end"
        if "NameError" in outcome.errors or "UnboundLocalError" in outcome.errors:
            return MISSING_NAME
        if "ModuleNotFoundError" in outcome.errors:
            return MISSING_PACKAGE
        return None
    if outcome.kind is Kind.BAD_VALUE and outcome.detail.startswith(RETURNED_ERROR):
        return "returns an exception"
    if outcome.kind is not Kind.VALUE or expected.kind is not Kind.VALUE:
        return None
    if outcome.value is None and outcome.printed:
        return "prints instead of returns"
    if outcome.value is None:
        return "returns nothing"
    number = isinstance(expected.value, (int, float)) and not isinstance(expected.value, bool)
    if number and isinstance(outcome.value, str):
        return "returns text"
    if number and isinstance(outcome.value, list):
        return "returns a tuple"
    if number and outcome.value in (float("inf"), float("-inf")):
        return "infinity"
    if isinstance(outcome.value, float) and outcome.value != outcome.value:
        return "not a number"
    values = [each.outcome.value for each in tried if each.outcome.kind is Kind.VALUE]
    wanted = [each.case.expected.value for each in tried]
    if len(values) == len(tried) > 1 and _constant(values) and not _constant(wanted):
        right_once = any(each.passed for each in tried)
        return "hard-codes the example" if right_once else "ignores its arguments"
    return None


def _constant(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)


def _with_hint(reason: Reason, hint: str) -> Reason:
    return Reason(
        reason.what, reason.call, reason.got, reason.expected, reason.where, reason.part, hint
    )
