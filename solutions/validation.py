"""The tests of sizes that every estimator shares."""

from __future__ import annotations

from math import inf
from numbers import Integral
from typing import Any


def require_positive(**amounts: float) -> None:
    """Raise `ValueError` that names the first of `amounts` that is not a finite number above 0."""
    for name, value in amounts.items():
        if not 0 < value < inf:
            raise ValueError(f"{name} must be above 0: got {value!r}")


def require_whole(**sizes: Any) -> None:
    """Raise `ValueError` that names the first of `sizes` that is not a whole number from 1 up."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1: got {value!r}")
