"""What tests one answer: cases, tolerance, known wrong answers, rules.

An author writes a `Check`, with a reference and a generator of hidden cases. `Check.prepare` works
it out into a `PreparedCheck`, which is plain data: the judge reads nothing else, and its visible
part is what stands beside a released notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gradelib.compare import Tolerance, difference, exact
from gradelib.criteria import CRITERIA
from gradelib.draw import Draw
from gradelib.outcomes import Kind, Outcome, call
from gradelib.plain import dumps, to_plain
from gradelib.rules import Rule

ONLY_PART = ""


@dataclass(frozen=True)
class Case:
    """One call: its inputs, and the named part of the task that it tests.

    expected: a value from elsewhere, for example a measured one, in place of the reference's. The
        reference has to lie within the check's tolerance of it.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    part: str = ONLY_PART
    expected: Any = None


def case(*args: Any, **kwargs: Any) -> Case:
    """The call `answer(*args, **kwargs)`."""
    return Case(args, kwargs)


def part(name: str, cases: Sequence[Case]) -> list[Case]:
    """The same cases, as the part `name` of the task, which `Check.parts` gives a weight."""
    return [replace(one, part=name) for one in cases]


def measured(expected: Any, *args: Any) -> Case:
    """The call `answer(*args)`, which should give what was measured: see `Case.expected`."""
    return Case(args, expected=expected)


@dataclass(frozen=True)
class Misconception:
    """A known wrong answer, with the sentence that helps a learner see it.

    `wrong` is the wrong answer itself: a function of the reference's signature. The sentence never
    gives the right value away.
    """

    id: str
    wrong: Callable[..., Any]
    sentence: str


@dataclass(frozen=True)
class Check:
    """Everything that decides whether an answer to one task is right.

    reference: the right answer. Where it raises, a right answer raises the same exception or a
        subclass of it.
    public: cases whose inputs and expected values a learner may see.
    hidden: makes cases from a `Draw`, anew for every course.
    tolerance: how far a number may lie from the expected one.
    misconceptions: known wrong answers, the most specific first.
    rules: for configurations: conditions on the value, in the order they are explained. With rules,
        values are not compared.
    criterion: for tasks that have many right answers: the name of one of `gradelib.criteria`, which
        finds what is wrong with a value. What it finds is compared, not the value.
    parts: weight of each named part of the cases, adding up to 1. The first part is the core:
        without it the others earn nothing.
    driver: `"gradelib.drivers…:function"` that uses the answer where calling it is not enough (see
        `outcomes.load_driver`).
    seconds: wall time that one call may take.
    also_right: the same answer written otherwise; the tests prove that they pass.
    """

    reference: Callable[..., Any]
    public: Sequence[Case]
    hidden: Callable[[Draw], Sequence[Case]]
    tolerance: Tolerance = exact
    misconceptions: Sequence[Misconception] = ()
    rules: Sequence[Rule] = ()
    criterion: str | None = None
    parts: dict[str, float] = field(default_factory=lambda: {ONLY_PART: 1.0})
    driver: str | None = None
    seconds: float = 5.0
    also_right: Sequence[Callable[..., Any]] = ()

    def __post_init__(self) -> None:
        if not self.public:
            raise ValueError("a check has at least one public case")
        if abs(sum(self.parts.values()) - 1) > 1e-9 or min(self.parts.values()) <= 0:
            raise ValueError(f"the parts' weights are positive and add up to 1, got {self.parts}")
        if self.criterion is not None and (self.rules or self.criterion not in CRITERIA):
            raise ValueError(
                f"a criterion is one of {', '.join(CRITERIA)} and goes without rules, "
                f"got {self.criterion!r}"
            )
        if self.rules and self.rules[0].operation != "is-dictionary":
            raise ValueError("the first rule is is-dictionary: the others read the value's keys")
        ids = [known.id for known in self.misconceptions] + [rule.id for rule in self.rules]
        if len(ids) != len(set(ids)):
            raise ValueError(f"two misconceptions or rules have the same id: {sorted(ids)}")

    def known_wrong(self) -> list[tuple[str, Callable[..., Any]]]:
        """Every catalogued wrong answer with its id: the misconceptions, and the rules'
        examples."""
        wrong = [(known.id, known.wrong) for known in self.misconceptions]
        return wrong + [(rule.id, rule.wrong) for rule in self.rules if rule.wrong is not None]

    def prepare(self, task: str, seed: str) -> PreparedCheck:
        """Draw the hidden cases and work out what the reference and every misconception give.

        Raises ValueError for a case whose part has no weight, a case the reference cannot answer,
        and a misconception that no case tells from the right answer.
        """
        draw = Draw(seed, task)
        cases = [self._prepared(task, one, visible=True) for one in self.public]
        cases += [self._prepared(task, one, visible=False) for one in self.hidden(draw)]
        prepared = PreparedCheck(
            task,
            tuple(cases),
            self.tolerance,
            {known.id: known.sentence for known in self.misconceptions},
            tuple(self.rules),
            dict(self.parts),
            self.driver,
            self.seconds,
            self.criterion,
        )
        used = {one.part for one in cases}
        if used != set(self.parts):
            raise ValueError(
                f"task {task!r}: the cases' parts {sorted(used)} are not those with a weight, {sorted(self.parts)}"
            )
        for known in self.misconceptions:
            if all(
                same_outcome(one.wrong[known.id], one.expected, self.tolerance) for one in cases
            ):
                raise ValueError(
                    f"task {task!r}: no case tells the misconception {known.id!r} from the right answer"
                )
        return prepared

    def _prepared(self, task: str, one: Case, *, visible: bool) -> PreparedCase:
        args = tuple(to_plain(arg) for arg in one.args)
        kwargs = {name: to_plain(arg) for name, arg in one.kwargs.items()}

        def outcome(answer: Callable[..., Any]) -> Outcome:
            given = call(answer, args, kwargs, self.driver)
            return seen(Outcome(given.kind, given.value, given.errors), args, self.criterion)

        expected = outcome(self.reference)
        if expected.kind not in (Kind.VALUE, Kind.RAISED):
            raise ValueError(f"task {task!r}: the reference gave {expected} for {one}")
        if one.expected is not None:
            elsewhere = Outcome(Kind.VALUE, to_plain(one.expected))
            if not same_outcome(expected, elsewhere, self.tolerance):
                raise ValueError(
                    f"task {task!r}: the reference gave {expected.value}, too far from {one.expected}"
                )
            expected = elsewhere
        if self.criterion and expected.kind is Kind.VALUE and expected.value != []:
            raise ValueError(f"task {task!r}: the reference's value has flaws: {expected.value}")
        if self.rules:
            broken = [rule.id for rule in self.rules if not rule.holds(expected.value)]
            if broken:
                raise ValueError(f"task {task!r}: the reference breaks the rules {broken}")
            # Rules decide, so the reference's own choice is nobody's business: it is not released.
            expected = Outcome(Kind.VALUE)
        wrong = {known.id: outcome(known.wrong) for known in self.misconceptions}
        return PreparedCase(args, kwargs, expected, wrong, one.part, visible)


@dataclass(frozen=True)
class PreparedCase:
    """A case with the expected outcome and the outcome of every misconception."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    expected: Outcome
    wrong: dict[str, Outcome]
    part: str = ONLY_PART
    visible: bool = True

    @cached_property
    def inputs_text(self) -> str:
        """Its inputs as text, for an answer elsewhere; they are the same for a whole class."""
        return dumps({"args": list(self.args), "kwargs": self.kwargs})

    def to_data(self) -> dict[str, Any]:
        """As plain data, for a released file."""
        return {
            "args": list(self.args),
            "kwargs": self.kwargs,
            "expected": self.expected.to_data(),
            "wrong": {name: outcome.to_data() for name, outcome in self.wrong.items()},
            "part": self.part,
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> PreparedCase:
        """Read `to_data`'s form, as a visible case."""
        return cls(
            tuple(data["args"]),
            data["kwargs"],
            Outcome.from_data(data["expected"]),
            {name: Outcome.from_data(outcome) for name, outcome in data["wrong"].items()},
            data["part"],
        )


@dataclass(frozen=True)
class PreparedCheck:
    """A check as the judge reads it: plain data, no reference, no code."""

    task: str
    cases: tuple[PreparedCase, ...]
    tolerance: Tolerance
    sentences: dict[str, str]
    rules: tuple[Rule, ...]
    parts: dict[str, float]
    driver: str | None
    seconds: float
    criterion: str | None = None

    def public_data(self) -> dict[str, Any]:
        """The part a learner may have: visible cases and rules, as plain data."""
        return {
            "cases": [one.to_data() for one in self.cases if one.visible],
            "tolerance": vars(self.tolerance),
            "sentences": self.sentences,
            "rules": [rule.to_data() for rule in self.rules if rule.visible],
            "parts": self.parts,
            "driver": self.driver,
            "seconds": self.seconds,
            "criterion": self.criterion,
        }

    @classmethod
    def from_public_data(cls, task: str, data: dict[str, Any]) -> PreparedCheck:
        """Read `public_data`'s form."""
        return cls(
            task,
            tuple(PreparedCase.from_data(one) for one in data["cases"]),
            Tolerance(**data["tolerance"]),
            data["sentences"],
            tuple(Rule.from_data(rule) for rule in data["rules"]),
            data["parts"],
            data["driver"],
            data["seconds"],
            data.get("criterion"),
        )


def seen(outcome: Outcome, args: Sequence[Any], criterion: str | None) -> Outcome:
    """The outcome as it is compared: under a criterion, with what is wrong with the value in the
    value's place. A value that is no list stays."""
    if criterion is None or outcome.kind is not Kind.VALUE:
        return outcome
    flaws = CRITERIA[criterion](outcome.value, args)
    return outcome if flaws is None else replace(outcome, value=flaws)


def same_outcome(got: Outcome, expected: Outcome, tolerance: Tolerance) -> bool:
    """Whether two outcomes agree: equal values within the tolerance, or the same exception or a
    subclass of it."""
    if got.kind is not expected.kind:
        return False
    if expected.kind is Kind.VALUE:
        return difference(got.value, expected.value, tolerance) is None
    if expected.kind is Kind.RAISED:
        return expected.errors[0] in got.errors
    return True
