"""Rules a configuration must meet, as data: an operation's name and its parameters.

A configuration is judged by rules and not by comparison with one right answer, so every choice that
meets them passes. A rule that is data can stand beside a released notebook and runs there exactly
as in the grader.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from gradelib.compare import kind_of

Operation = Callable[[Any, dict[str, Any]], bool]
OPERATIONS: dict[str, Operation] = {}
PATTERN_SECONDS = 0.5


@dataclass(frozen=True)
class Rule:
    """One condition on an answer's value.

    `id` names the misconception that breaking it shows; `sentence` is what the learner then reads.
    `operation` is one of `OPERATIONS`. A hidden rule is not released. `wrong` builds an answer that
    breaks this rule and none before it: the tests run it.
    """

    id: str
    sentence: str
    operation: str
    parameters: dict[str, Any] = field(default_factory=dict)
    visible: bool = True
    wrong: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise ValueError(
                f"rule {self.id!r}: unknown operation {self.operation!r}; "
                f"the operations are {', '.join(sorted(OPERATIONS))}"
            )

    def holds(self, value: Any) -> bool:
        """Whether plain data `value` meets the rule."""
        return OPERATIONS[self.operation](value, self.parameters)

    def to_data(self) -> dict[str, Any]:
        """As plain data, for a released file."""
        return {
            "id": self.id,
            "sentence": self.sentence,
            "operation": self.operation,
            "parameters": self.parameters,
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Rule:
        """Read `to_data`'s form."""
        return cls(data["id"], data["sentence"], data["operation"], data["parameters"])


def operation(function: Operation) -> Operation:
    """Make a function available to rules under its own name, with dashes for underscores."""
    OPERATIONS[function.__name__.replace("_", "-")] = function
    return function


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@operation
def is_dictionary(value: Any, _parameters: dict[str, Any]) -> bool:
    """The value is a dictionary with text keys."""
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


@operation
def keys_among(value: Any, parameters: dict[str, Any]) -> bool:
    """Every key is one of `names`: the library would refuse any other."""
    return set(value) <= set(parameters["names"])


@operation
def has_key(value: Any, parameters: dict[str, Any]) -> bool:
    """The key `name` is there and not None."""
    return value.get(parameters["name"]) is not None


@operation
def whole_number_between(value: Any, parameters: dict[str, Any]) -> bool:
    """`name` is a whole number in [`low`, `high`]."""
    number = value.get(parameters["name"], parameters.get("default"))
    return type(number) is int and parameters["low"] <= number <= parameters["high"]


@operation
def number_between(value: Any, parameters: dict[str, Any]) -> bool:
    """`name` is a number in [`low`, `high`]."""
    number = value.get(parameters["name"], parameters.get("default"))
    return _number(number) and parameters["low"] <= number <= parameters["high"]


@operation
def one_of(value: Any, parameters: dict[str, Any]) -> bool:
    """`name` is one of `values`; an absent key counts as `default`."""
    found = value.get(parameters["name"], parameters.get("default"))
    return any(
        found == allowed and kind_of(found) == kind_of(allowed) for allowed in parameters["values"]
    )


@operation
def targets_exist(value: Any, parameters: dict[str, Any]) -> bool:
    """Every target names at least one of the layers `modules`, and only layers of type Linear are
    hit."""
    try:
        targets = value.get("target_modules")
        if isinstance(targets, (list, frozenset)):
            return bool(targets) and all(
                isinstance(target, str) and _targeted([target], parameters["modules"])
                for target in targets
            )
        return bool(targeted_modules(targets, parameters["modules"]))
    except (ValueError, TimeoutError):
        return False


@operation
def targets_include(value: Any, parameters: dict[str, Any]) -> bool:
    """The targets hit at least one layer whose name ends in one of `suffixes`."""
    try:
        hit = targeted_modules(value.get("target_modules"), parameters["modules"])
    except (ValueError, TimeoutError):
        return False
    return any(name.rpartition(".")[2] in parameters["suffixes"] for name in hit)


def targeted_modules(targets: Any, modules: Sequence[str]) -> list[str]:
    """The layers among `modules` that peft would adapt for `target_modules=targets`.

    As peft (0.21) reads it: a text is "all-linear" or a regular expression that matches the whole
    name; of a list or set, an item hits the layer of that name or any layer whose name ends in "."
    + item. Raises ValueError for anything else, TimeoutError for an expression that takes too long.
    """
    if isinstance(targets, str):
        if targets.lower() == "all-linear":
            return list(modules)
        if len(targets) > 2_000:
            raise ValueError("a pattern of more than 2,000 characters")
        try:
            pattern = re.compile(targets)
            with _time_limit(PATTERN_SECONDS):
                return [name for name in modules if pattern.fullmatch(name)]
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
    if isinstance(targets, (list, frozenset)) and all(isinstance(item, str) for item in targets):
        return _targeted(targets, modules)
    raise ValueError(f"target_modules is a list of names or a pattern, got {kind_of(targets)}")


def _targeted(targets: Sequence[str] | frozenset[str], modules: Sequence[str]) -> list[str]:
    ends = tuple(f".{target}" for target in targets)
    return [name for name in modules if name in targets or name.endswith(ends)]


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError when the body takes longer; a no-op where Python has no interval timer.

    Python's regular expressions look for pending signals while they search, so a hostile pattern
    ends too.
    """
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def expire(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
