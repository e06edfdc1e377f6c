"""Checks that every estimator makes of its arguments, so that bad input is an error, never a
number.
"""

from __future__ import annotations

from collections.abc import Sequence


def check_sizes(at_least: int = 1, **sizes: int) -> None:
    """Raise `ValueError` for a size that is not a whole number of at least `at_least`."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            raise ValueError(f"{name} must be a whole number of at least {at_least}: got {value!r}")


def check_choice(name: str, value: object, known: Sequence[str]) -> None:
    """Raise `ValueError` for a `value` that is not one of `known`."""
    if value not in known:
        raise ValueError(f"unknown {name} {value!r}; known: {', '.join(known)}")
