"""What one call of an answer gave, as data, and the function that makes the call.

The same `call` runs in a learner's notebook, in the browser and in the grader's answer process, so
an answer meets the same conversion of values and the same reading of errors everywhere.
"""

from __future__ import annotations

import contextlib
import dis
import errno
import functools
import importlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import FunctionType
from typing import Any, Self

from gradelib import plain
from gradelib.limit import OutOfTimeError

PRINTED_LIMIT = 2_000
DETAIL_LIMIT = 500
NAME_LIMIT = 200
# What a body of `...`, `pass` or a docstring compiles to.
_IDLE = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "COPY_FREE_VARS"}
# Control characters, lone surrogates and marks that reorder text: files, databases and terminals
# choke on them.
_UNREADABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


class Kind(StrEnum):
    """How a call ended."""

    VALUE = "value"
    RAISED = "raised"
    BAD_VALUE = "bad value"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"


# After these the answer's process is gone or worthless: the cases that remain are not tried.
FINAL = frozenset({Kind.TIMED_OUT, Kind.OUT_OF_MEMORY, Kind.CRASHED})
_FIELDS = dict.fromkeys(("kind", "value", "errors", "detail", "printed", "mutated")).keys()


@dataclass(frozen=True)
class Outcome:
    """The result of one call.

    `value` is plain data (kind VALUE only). `errors` holds the names of the raised exception's
    class and its bases, nearest first. `detail` is for a person: the exception's text, or what kind
    of object came back. `printed` is the start of what was printed. `mutated` tells that the call
    changed its inputs.
    """

    kind: Kind
    value: Any = None
    errors: tuple[str, ...] = ()
    detail: str = ""
    printed: str = ""
    mutated: bool = False

    def to_data(self) -> dict[str, Any]:
        """As plain data, for the wire and for files."""
        data: dict[str, Any] = {"kind": str(self.kind)}
        if self.kind is Kind.VALUE:
            data["value"] = self.value
        if self.errors:
            data["errors"] = list(self.errors)
        for name in ("detail", "printed"):
            if text := getattr(self, name):
                data[name] = text
        if self.mutated:
            data["mutated"] = True
        return data

    @classmethod
    def from_data(cls, data: object) -> Self:
        """Read `to_data`'s form; raises `WireError` for anything else, since a learner's code may
        have written it."""
        if not isinstance(data, dict) or not data.keys() <= _FIELDS:
            raise plain.WireError(f"an outcome has the fields {', '.join(_FIELDS)}")
        try:
            kind = Kind(data.get("kind", ""))
        except ValueError as error:
            raise plain.WireError(f"unknown kind of outcome {data.get('kind')!r}") from error
        errors = data.get("errors", [])
        if not isinstance(errors, list) or any(type(name) is not str for name in errors):
            raise plain.WireError("an outcome's errors are names")
        texts = [data.get("detail", ""), data.get("printed", "")]
        if any(type(text) is not str for text in texts):
            raise plain.WireError("an outcome's detail and printed are text")
        return cls(
            kind,
            data.get("value"),
            tuple(readable(name[:NAME_LIMIT]) for name in errors[:20]),
            readable(texts[0][:DETAIL_LIMIT]),
            readable(texts[1][:PRINTED_LIMIT]),
            data.get("mutated") is True,
        )


def readable(text: str) -> str:
    """A text of a learner's code as files, databases and terminals can take it."""
    if not text:
        return text
    return _UNREADABLE.sub("\N{REPLACEMENT CHARACTER}", text)


class Head(io.TextIOBase):
    """A stream that keeps the first characters written to it and drops the rest."""

    def __init__(self) -> None:
        self.text = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        room = PRINTED_LIMIT - len(self.text)
        if room > 0:
            self.text += text[:room]
        return len(text)


@functools.cache
def load_driver(name: str) -> Callable[..., Any]:
    """The driver function named `"module:function"`; it must live in `gradelib.drivers`.

    It is looked up once: what is loaded before a learner's code stays, whatever that code puts in
    its place. A driver binds the hooks that it measures with when it is imported.

    A driver takes the answer and a case's inputs, builds what the task needs (tensors from a seed,
    a layer), uses the answer and returns plain data.
    """
    module, _, function = name.partition(":")
    if module.split(".")[:2] != ["gradelib", "drivers"] or not function:
        raise ValueError(f"a driver is named 'gradelib.drivers…:function', got {name!r}")
    driver = getattr(importlib.import_module(module), function)
    assert callable(driver)
    return driver  # type: ignore[no-any-return]


def call(
    answer: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    driver: str | None = None,
) -> Outcome:
    """Call `answer` on fresh copies of plain inputs and report how that ended; never raises but for
    KeyboardInterrupt.

    What the answer prints, to standard output or standard error, is kept apart and does not decide
    anything.
    """
    fresh_args = [plain.copy(arg) for arg in args]
    fresh_kwargs = {name: plain.copy(arg) for name, arg in kwargs.items()}
    head = Head()
    with contextlib.redirect_stdout(head), contextlib.redirect_stderr(head):
        outcome = _called(answer, fresh_args, fresh_kwargs, driver)
    pairs = [*zip(fresh_args, args, strict=True)]
    pairs += [(now, kwargs[name]) for name, now in fresh_kwargs.items()]
    # Not `any`: learner code may have put something else in its place.
    mutated = bool([None for now, before in pairs if _changed(now, before)])
    return replace(outcome, printed=head.text, mutated=mutated) if head.text or mutated else outcome


def _changed(now: Any, before: Any) -> bool:
    if type(before) in (int, float, str, bool):
        return False  # nobody can change these
    # As plain data: what a learner's code put in has no say in the comparison.
    try:
        return bool(plain.to_plain(now) != before)
    except BaseException:  # noqa: BLE001 - it is not plain data any more
        return True


def _called(
    answer: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], driver: str | None
) -> Outcome:
    try:
        if driver is None:
            returned = answer(*args, **kwargs)
        else:
            returned = load_driver(driver)(answer, *args, **kwargs)
        if returned is None and is_stub(answer):
            returned = ...  # as it stands in the body
        return Outcome(Kind.VALUE, plain.to_plain(returned))
    except plain.BadValueError as error:
        return Outcome(Kind.BAD_VALUE, detail=str(error)[:DETAIL_LIMIT])
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a learner's code raises is a result
        return of_error(error)


def of_error(error: BaseException) -> Outcome:
    """The outcome of code that ended with `error`: raised, out of memory, or crashed where it asked
    Python to stop."""
    no_memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
    # PyTorch has no exception of its own for this on a CPU.
    no_memory |= isinstance(error, RuntimeError) and "can't allocate memory" in _text(error)
    if isinstance(error, OutOfTimeError):
        return Outcome(Kind.TIMED_OUT, detail=_text(error))
    if isinstance(error, MemoryError) or no_memory:
        return Outcome(Kind.OUT_OF_MEMORY, detail=_text(error))
    if isinstance(error, (SystemExit, GeneratorExit, KeyboardInterrupt)):
        return Outcome(
            Kind.CRASHED, detail=f"{type(error).__name__}: the code asked Python to stop"
        )
    return raised(error)


def unusable(answer: object) -> Outcome | None:
    """Why what stands under a task's name cannot be called; None when it can. A value: nothing was
    written."""
    if callable(answer):
        return None
    if answer is None or answer is Ellipsis:
        return Outcome(Kind.VALUE)
    kind = type(answer).__name__
    detail = f"a {kind} value, not a function: pass the function's name without calling it"
    return Outcome(Kind.BAD_VALUE, detail=detail)


def is_stub(answer: object) -> bool:
    """Whether nothing was written: a function that returns None and does nothing else, or a class
    whose functions are all like that."""
    if isinstance(answer, type):
        functions = [each for each in vars(answer).values() if isinstance(each, FunctionType)]
        return bool(functions) and all(map(is_stub, functions))
    if not isinstance(answer, FunctionType):
        return False
    steps = list(dis.get_instructions(answer))
    return all(step.opname in _IDLE for step in steps) and all(
        step.argval is None for step in steps if step.opname in ("LOAD_CONST", "RETURN_CONST")
    )


def raised(error: BaseException) -> Outcome:
    """The outcome of code that raised `error`."""
    names = tuple(base.__name__ for base in type(error).__mro__ if base is not object)
    return Outcome(Kind.RAISED, errors=names, detail=_text(error))


def _text(error: BaseException) -> str:
    try:
        return str(error)[:DETAIL_LIMIT]
    except Exception:  # noqa: BLE001 - an exception's own __str__ may be broken
        return "(its message could not be read)"
