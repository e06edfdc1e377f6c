"""When two pieces of plain data agree: exactly, or within a stated tolerance.

`difference` returns what differs first, as data; the wording is left to `gradelib.wording`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gradelib.plain import MAX_ITEMS, Array


@dataclass(frozen=True)
class Tolerance:
    """How far a number may lie from the expected one: within `rel` of it or within `abs`, whichever
    is wider.

    With `signed_zero`, 0.0 and -0.0 differ. NaN agrees with NaN alone.
    """

    rel: float = 0.0
    abs: float = 0.0
    signed_zero: bool = False

    def __post_init__(self) -> None:
        if not (0 <= self.rel < 1 and 0 <= self.abs < math.inf):
            raise ValueError(f"a tolerance lies in [0, 1) relative and [0, ∞) absolute, got {self}")


exact = Tolerance()
same_bits = Tolerance(signed_zero=True)


def relative(rel: float) -> Tolerance:
    """Within a share of the expected value: `relative(0.02)` is 2 %."""
    return Tolerance(rel=rel)


def absolute(value: float) -> Tolerance:
    """Within a fixed distance of the expected value, in its unit."""
    return Tolerance(abs=value)


class Differs(StrEnum):
    """In what way two pieces of data differ."""

    TYPE = "type"
    NOT_FINITE = "not finite"
    VALUE = "value"
    LENGTH = "length"
    KEYS = "keys"


@dataclass(frozen=True)
class Difference:
    """The first difference: where it is (`path`, keys and positions), and the two parts that
    differ."""

    how: Differs
    got: Any
    expected: Any
    path: tuple[Any, ...] = ()


def kind_of(value: Any) -> str:
    """The everyday name of a plain value's type."""
    if value is None:
        return "None"
    if isinstance(value, bool):
        return "True or False"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a dictionary"
    if isinstance(value, frozenset):
        return "a set"
    if isinstance(value, Array):
        return "an array"
    return f"a {type(value).__name__}"


def difference(got: Any, expected: Any, tolerance: Tolerance = exact) -> Difference | None:
    """The first difference between plain data, or None where they agree.

    An int and a float that are equal agree; an array agrees with the list of its values; True is
    not 1.
    """
    return _difference(got, expected, tolerance, ())


def _difference(
    got: Any, expected: Any, tolerance: Tolerance, path: tuple[Any, ...]
) -> Difference | None:
    if isinstance(got, Array) and isinstance(expected, list):
        got = _as_list(got)
    if isinstance(got, list) and isinstance(expected, Array):
        expected = _as_list(expected)
    if kind_of(got) != kind_of(expected):
        return Difference(Differs.TYPE, got, expected, path)
    if isinstance(expected, Array):
        if got.shape != expected.shape:
            return Difference(Differs.LENGTH, list(got.shape), list(expected.shape), path)
        if got == expected:
            return None
        return _first(enumerate(zip(got.values(), expected.values(), strict=True)), tolerance, path)
    if isinstance(expected, list):
        if len(got) != len(expected):
            return Difference(Differs.LENGTH, len(got), len(expected), path)
        return _first(enumerate(zip(got, expected, strict=True)), tolerance, path)
    if isinstance(expected, dict):
        if got.keys() != expected.keys():
            return Difference(Differs.KEYS, list(got), list(expected), path)
        return _first(((key, (got[key], expected[key])) for key in expected), tolerance, path)
    if isinstance(expected, (int, float)) and not isinstance(expected, bool):
        return _number_difference(got, expected, tolerance, path)
    return None if got == expected else Difference(Differs.VALUE, got, expected, path)


def _first(
    parts: Iterable[tuple[Any, tuple[Any, Any]]], tolerance: Tolerance, path: tuple[Any, ...]
) -> Difference | None:
    for key, (got, expected) in parts:
        if found := _difference(got, expected, tolerance, (*path, key)):
            return found
    return None


def _number_difference(
    got: int | float, expected: int | float, tolerance: Tolerance, path: tuple[Any, ...]
) -> Difference | None:
    if expected != expected:  # NaN; `math.isnan` refuses an int beyond the range of a float
        return None if got != got else Difference(Differs.VALUE, got, expected, path)
    if not _is_finite(got) and _is_finite(expected):
        return Difference(Differs.NOT_FINITE, got, expected, path)
    if got == expected:
        signs_differ = got == 0 and math.copysign(1, got) != math.copysign(1, expected)
        if tolerance.signed_zero and signs_differ:
            return Difference(Differs.VALUE, got, expected, path)
        return None
    # Every number lies within a share of infinity.
    both_finite = _is_finite(got) and _is_finite(expected)
    if both_finite and (tolerance.rel or tolerance.abs):
        try:
            near = math.isclose(got, expected, rel_tol=0, abs_tol=tolerance.abs) or abs(
                got - expected
            ) <= tolerance.rel * abs(expected)
        except OverflowError:  # an int beyond the range of a float
            near = False
        if near:
            return None
    return Difference(Differs.VALUE, got, expected, path)


def _as_list(array: Array) -> Array | list[Any]:
    # A longer one equals no list that plain data can hold, and takes time that a learner chose.
    short = array.shape and math.prod(array.shape) <= MAX_ITEMS
    return array.tolist() if short else array


def _is_finite(value: int | float) -> bool:
    return isinstance(value, int) or math.isfinite(value)
