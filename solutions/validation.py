"""Checks that every estimator makes of its arguments: bad input is an error, never a number."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from numbers import Integral
from typing import Any


def require_positive(**amounts: float) -> None:
    """Raise `ValueError` that names the first of `amounts` that is not a finite number above 0."""
    for name, value in amounts.items():
        if not 0 < value < inf:
            raise ValueError(f"{name} must be above 0: got {value!r}")


def require_whole(at_least: int = 1, **sizes: Any) -> None:
    """Raise `ValueError` that names the first of `sizes` that is not a whole number from there."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < at_least:
            raise ValueError(f"{name} must be a whole number of at least {at_least}: got {value!r}")


def require_known(kind: str, name: str, known: Iterable[str]) -> None:
    """Raise `ValueError` that lists the `known` names if `name` is not one of them."""
    if name not in known:
        raise ValueError(f"unknown {kind} {name!r}; known: {', '.join(known)}")


def require_amount(**amounts: float) -> None:
    """Raise `ValueError` that names the first of `amounts` that is not a finite number from 0."""
    for name, value in amounts.items():
        if not 0 <= value < inf:
            raise ValueError(f"{name} must be a finite amount of at least 0: got {value!r}")
