"""Criteria: what is wrong with an answer's value, where many values are right.

A criterion knows a case's inputs and reads the value; an answer passes where nothing is wrong. It
runs where the judge runs, on plain data that a learner's code may have made up, so it trusts
nothing in it. It is named, not released as code: the same one runs in a notebook and in grading.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from gradelib.plain import MAX_ITEMS, Array

# Of a value and the inputs: what is wrong with it, or None where it is no list at all.
Criterion = Callable[[Any, Sequence[Any]], list[str] | None]
CRITERIA: dict[str, Criterion] = {}

NO_ROWS = "a row is not a list of whole numbers"
NO_POSITION = "a number is no position in `lengths`"
LOST = "{} of the texts are in no row"
TWICE = "{} of the texts are there twice"
TOO_LONG = "a row holds {} tokens, more than `max_length`"
TOO_MANY = "it takes {} rows, and fewer would do"


def criterion(function: Criterion) -> Criterion:
    """Make a function available to checks under its own name, with dashes for underscores."""
    CRITERIA[function.__name__.replace("_", "-")] = function
    return function


@criterion
def packing(value: Any, inputs: Sequence[Any]) -> list[str] | None:
    """Rows of positions in `lengths`: each sequence whole and once, no row above `max_length`
    tokens, and at most 11/9 of the fewest rows that any packing needs, plus 6/9."""
    lengths, max_length = inputs
    rows = _listed(value)
    if rows is None:
        return None
    rows = [_listed(row) for row in rows]
    if not all(isinstance(row, list) and all(type(i) is int for i in row) for row in rows):
        return [NO_ROWS]
    # Before they are counted: numbers can be chosen so that a table takes hours.
    if not all(0 <= i < len(lengths) for row in rows for i in row):
        return [NO_POSITION]
    placed = Counter(i for row in rows for i in row)
    fullest = max((sum(lengths[i] for i in row) for row in rows), default=0)
    found = {
        LOST: len(lengths) - len(placed),
        TWICE: sum(count > 1 for count in placed.values()),
        TOO_LONG: fullest if fullest > max_length else 0,
        TOO_MANY: len(rows) if 9 * len(rows) > 11 * fewest_rows(lengths, max_length) + 6 else 0,
    }
    return [flaw.format(number) for flaw, number in found.items() if number]


def fewest_rows(lengths: Sequence[int], max_length: int) -> int:
    """A number of rows that no packing can do with less: all tokens in full rows, or each sequence
    of more than half a row in a row of its own. A check's cases are such that it is reached."""
    halves = sum(2 * length > max_length for length in lengths)
    return max(-(-sum(lengths) // max_length), halves)


def _listed(value: Any) -> list[Any] | None:
    """A list, or an array's values as one; None for anything else, and for an array with more
    values than a list may have."""
    if isinstance(value, Array) and value.shape and math.prod(value.shape) <= MAX_ITEMS:
        value = value.tolist()
    return value if isinstance(value, list) else None
