"""Rules a configuration must meet, as data: an operation's name and its parameters.

A configuration is judged by rules and not by comparison with one right answer, so every choice that
meets them passes. A rule that is data can stand beside a released notebook and runs there exactly
as in the grader.
"""

from __future__ import annotations

import difflib
import json
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from gradelib.compare import kind_of
from gradelib.outcomes import readable

Operation = Callable[[Any, dict[str, Any]], bool]
OPERATIONS: dict[str, Operation] = {}
# What of a value breaks a rule, in a sentence, for the operations that can tell.
Detail = Callable[[Any, dict[str, Any]], str]
DETAILS: dict[str, Detail] = {}
DETAIL_LIMIT = 60  # characters of a learner's own text that a sentence repeats
PATTERN_SECONDS = 0.5
MAX_TARGETS = 2_000
_START_SECONDS = 5.0
ALL_LINEAR = "all-linear"
LORA_DEFAULT = 8  # peft's r and lora_alpha where none is given


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
        """Whether plain data `value` meets the rule; a value of another shape does not."""
        try:
            return OPERATIONS[self.operation](value, self.parameters)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return False

    def explanation(self, value: Any) -> str:
        """The sentence for a value that breaks the rule, with what of the value breaks it."""
        detail = DETAILS.get(self.operation)
        try:
            found = detail(value, self.parameters) if detail else ""
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, TimeoutError):
            found = ""  # a value of a shape that has no such part
        return f"{self.sentence} {found}".rstrip()

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


def detail(function: Detail) -> Detail:
    """Make a function tell what breaks the operation that it is named after, with `_detail`."""
    name = function.__name__.removesuffix("_detail").replace("_", "-")
    if name not in OPERATIONS:
        raise ValueError(f"no operation {name!r} for the detail {function.__name__!r}")
    DETAILS[name] = function
    return function


def _quoted(texts: Iterable[str]) -> str:
    """Up to three texts of a learner, cut short, as code."""
    found = [readable(text).replace("`", "'") for text in texts]
    shown = [f"{text[:DETAIL_LIMIT]}…" if len(text) > DETAIL_LIMIT else text for text in found[:3]]
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return ", ".join(f"`{text}`" for text in shown) + more


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


@detail
def keys_among_detail(value: Any, parameters: dict[str, Any]) -> str:
    """The unknown keys, and for a single one a known key that is spelt alike."""
    unknown = sorted(set(value) - set(parameters["names"]))
    alike = difflib.get_close_matches(unknown[0][:DETAIL_LIMIT], parameters["names"], n=1)
    guess = f" Do you mean `{alike[0]}`?" if alike and len(unknown) == 1 else ""
    return f"Not known: {_quoted(unknown)}.{guess}"


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
    return _among(value.get(parameters["name"], parameters.get("default")), parameters["values"])


def _among(found: Any, values: Sequence[Any]) -> bool:
    """Whether `found` is one of `values` in value and kind: 0 is neither False nor None. A set
    stands for the list of its items."""
    found = list(found) if isinstance(found, frozenset) else found
    return any(found == allowed and kind_of(found) == kind_of(allowed) for allowed in values)


@operation
def others_at_default(value: Any, parameters: dict[str, Any]) -> bool:
    """Every key that is not among `free` has one of its values in `defaults`, of the same kind."""
    return not _changed(value, parameters)


@detail
def others_at_default_detail(value: Any, parameters: dict[str, Any]) -> str:
    """The keys that were changed."""
    return f"Changed: {_quoted(_changed(value, parameters))}."


def _changed(value: Any, parameters: dict[str, Any]) -> list[str]:
    return [
        key
        for key, given in value.items()
        if key not in parameters["free"] and not _among(given, parameters["defaults"].get(key, ()))
    ]


@operation
def true_or_false(value: Any, parameters: dict[str, Any]) -> bool:
    """Each of the keys `names` that is there is True or False."""
    return all(isinstance(value.get(name, False), bool) for name in parameters["names"])


@operation
def lora_scaling_between(value: Any, parameters: dict[str, Any]) -> bool:
    """What the adapter's product is multiplied by, `lora_alpha` / r, lies in [`low`, `high`]; with
    `use_rslora` it is `lora_alpha` / √r."""
    rank, alpha = _lora_rank(value), value.get("lora_alpha", LORA_DEFAULT)
    if not _number(alpha) or rank < 1:
        return False
    # Multiplied out, since a whole number can be too large to divide.
    divisor = rank**0.5 if value.get("use_rslora") else rank
    return bool(parameters["low"] * divisor <= alpha <= parameters["high"] * divisor)


@operation
def targets_avoid(value: Any, parameters: dict[str, Any]) -> bool:
    """No target hits one of the modules `names`."""
    targets = value.get("target_modules")
    if _is_all_linear(targets):
        return True
    try:
        return not targeted_modules(targets, parameters["names"])
    except (ValueError, TimeoutError):
        return True  # a rule on what targets are says more


@operation
def targets_exist(value: Any, parameters: dict[str, Any]) -> bool:
    """Of one of the `models`, the targets hit linear layers and nothing else, and each item of a
    list hits some."""
    return bool(_fitting(value, parameters))


@detail
def targets_exist_detail(value: Any, parameters: dict[str, Any]) -> str:
    """The targets that hit nothing, or something that is no linear layer; each is judged alone."""
    targets = value["target_modules"]
    one_text = isinstance(targets, str)
    linear, other = [], []
    for model in parameters["models"]:
        linear += [name for row in model["linear"] for name in _numbered(*row[:2])]
        other += [name for row in model["other"] for name in _numbered(*row)]
    items = [targets] if one_text else [[target] for target in sorted(targets)]
    stray = [item for item in items if targeted_modules(item, other)]
    lost = [item for item in items if item not in stray and not targeted_modules(item, linear)]
    found = []
    if lost:
        reached = "whole name matches" if one_text else "name ends in"
        found.append(f"No layer's {reached} {_targets_text(lost)}.")
    if stray:
        found.append(f"More than linear layers: {_targets_text(stray)}.")
    return " ".join(found)


def _targets_text(items: Sequence[str | list[str]]) -> str:
    return _quoted(item if isinstance(item, str) else item[0] for item in items)


@operation
def targets_include(value: Any, parameters: dict[str, Any]) -> bool:
    """The targets hit at least `count` linear layers (1 without it) whose whole names match
    `pattern`; names that agree in all its groups count once."""
    matches = [
        re.fullmatch(parameters["pattern"], name)
        for hit in _fitting(value, parameters)[:1]
        for name in hit
    ]
    return bool(len({match.groups() for match in matches if match}) >= parameters.get("count", 1))


@operation
def targets_within(value: Any, parameters: dict[str, Any]) -> bool:
    """The whole name of every linear layer that the targets hit matches `pattern`."""
    return all(
        re.fullmatch(parameters["pattern"], name)
        for hit in _fitting(value, parameters)[:1]
        for name in hit
    )


@operation
def lora_parameters_at_most(value: Any, parameters: dict[str, Any]) -> bool:
    """The adapters have at most `limit` parameters."""
    return bool(_lora_parameters(value, parameters) <= parameters["limit"])


@detail
def lora_parameters_at_most_detail(value: Any, parameters: dict[str, Any]) -> str:
    """How many there are, and how many layers they sit in."""
    layers = sum(len(hit) for hit in _fitting(value, parameters)[:1])
    return (
        f"Yours have {_lora_parameters(value, parameters):,}, in {layers:,} layers; "
        f"the most is {parameters['limit']:,}."
    )


def _lora_parameters(value: Any, parameters: dict[str, Any]) -> int:
    """Parameters of the adapters; 0 where the targets fit no model."""
    rank, extra = _lora_rank(value), bool(value.get("use_dora"))
    return sum(
        rank * (inputs + outputs) + extra * outputs
        for hit in _fitting(value, parameters)[:1]
        for inputs, outputs in hit.values()
    )


def _lora_rank(value: Any) -> int:
    rank = value.get("r", LORA_DEFAULT)
    return rank if type(rank) is int else 0


def _fitting(value: Any, parameters: dict[str, Any]) -> list[dict[str, tuple[int, int]]]:
    """For each of `models` that the targets fit: the linear layers hit, with inputs and outputs.

    A model is `{"linear": rows of [name, copies, inputs, outputs], "other": rows of [name,
    copies]}`; `{}` in a name stands for 0, 1, … copies − 1.
    """
    targets = value.get("target_modules")
    fitting = []
    for model in parameters["models"]:
        linear = {
            name: (inputs, outputs)
            for template, copies, inputs, outputs in model["linear"]
            for name in _numbered(template, copies)
        }
        other = [name for row in model["other"] for name in _numbered(*row)]
        try:
            hit = targeted_modules(targets, list(linear))
            stray = [] if _is_all_linear(targets) else targeted_modules(targets, other)
        except (ValueError, TimeoutError):
            return []
        items = [] if isinstance(targets, str) else [[item] for item in targets]
        if hit and not stray and all(_targeted(item, list(linear)) for item in items):
            fitting.append({name: linear[name] for name in hit})
    return fitting


def _numbered(template: str, copies: int) -> list[str]:
    return [template.replace("{}", str(number)) for number in range(copies)]


def _is_all_linear(targets: Any) -> bool:
    return isinstance(targets, str) and targets.lower() == ALL_LINEAR


def targeted_modules(targets: Any, modules: Sequence[str]) -> list[str]:
    """The layers among `modules` that peft would adapt for `target_modules=targets`.

    As peft (0.21) reads it: a text is "all-linear" or a regular expression that matches the whole
    name; of a list or set, an item hits the layer of that name or any layer whose name ends in "."
    + item. Raises ValueError for anything else, TimeoutError for an expression that takes too long.
    """
    if isinstance(targets, str):
        if _is_all_linear(targets):
            return list(modules)
        if len(targets) > 2_000:
            raise ValueError("a pattern of more than 2,000 characters")
        return _fully_matching(targets, modules)
    if isinstance(targets, (list, frozenset)) and all(isinstance(item, str) for item in targets):
        if len(targets) > MAX_TARGETS:
            raise ValueError(f"more than {MAX_TARGETS} targets")
        return _targeted(targets, modules)
    raise ValueError(f"target_modules is a list of names or a pattern, got {kind_of(targets)}")


def _targeted(targets: Sequence[str] | frozenset[str], modules: Sequence[str]) -> list[str]:
    ends = tuple(f".{target}" for target in targets)
    return [name for name in modules if name in targets or name.endswith(ends)]


def _fully_matching(pattern: str, names: Sequence[str]) -> list[str]:
    """The names that a learner's pattern matches whole, within `PATTERN_SECONDS`."""
    if threading.current_thread() is not threading.main_thread():
        return _matching_elsewhere(pattern, names)
    with _time_limit(PATTERN_SECONDS):
        return _matching(pattern, names)


def _matching(pattern: str, names: Sequence[str]) -> list[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = re.compile(pattern)
        return [name for name in names if compiled.fullmatch(name)]
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        raise ValueError(f"not a usable regular expression: {error}") from error


def _matching_elsewhere(pattern: str, names: Sequence[str]) -> list[str]:
    """The same in a process that can be killed: a timer interrupts the main thread alone."""
    # The timer's signal ends the process; on Windows, which has none, the wait below does.
    program = (
        "import json, re, signal, sys; pattern, names = json.load(sys.stdin); "
        f"getattr(signal, 'setitimer', lambda *_: None)(0, {PATTERN_SECONDS}); "
        "compiled = re.compile(pattern); print([n for n, name in enumerate(names) if compiled.fullmatch(name)])"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-W", "ignore", "-c", program],
            input=json.dumps([pattern, list(names)]),
            capture_output=True,
            text=True,
            timeout=PATTERN_SECONDS + _START_SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"more than {PATTERN_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        if error.returncode < 0:
            raise TimeoutError(f"more than {PATTERN_SECONDS} s") from error
        raise ValueError("not a usable regular expression") from error
    return [names[position] for position in json.loads(done.stdout)]


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError when the body takes longer; a no-op where Python has no interval timer (a
    browser, where a learner's own pattern harms nobody else).

    Python's regular expressions look for pending signals while they search, so a hostile pattern
    ends too.
    """
    if not hasattr(signal, "setitimer"):
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
