"""Tasks that have many right answers: what is wrong with a value decides, not which value it is."""

# ruff: noqa: ARG001, ARG005 - wrong answers ignore arguments

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.checks import Check, Misconception, PreparedCheck, case
from gradelib.criteria import (
    CRITERIA,
    LOST,
    NO_POSITION,
    NO_ROWS,
    TOO_LONG,
    TOO_MANY,
    TWICE,
    fewest_rows,
)
from gradelib.judging import LocalAnswer, judge
from gradelib.plain import to_plain
from gradelib.rules import Rule
from gradelib.verdicts import Status
from solutions.batching import pack

LENGTHS = [3, 9, 7, 1, 5, 5]
RIGHT = [[1, 3], [2, 0], [4, 5]]


def flaws(value, lengths=LENGTHS, max_length=10):
    return CRITERIA["packing"](to_plain(value), [lengths, max_length])


@pytest.mark.parametrize(
    "value",
    [
        RIGHT,
        tuple(map(tuple, RIGHT)),
        RIGHT[::-1],
        np.array(RIGHT),
        [np.array(row) for row in RIGHT],
        [[1], [3, 0], [2], [4, 5]],  # a row too many is within the bound
        [*RIGHT, []],
    ],
)
def test_any_good_packing_has_no_flaw(value):
    assert flaws(value) == []


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([[1, 3], [2, 0], [4]], [LOST.format(1)]),
        ([[1, 3], [2, 0], [4, 5], [0]], [TWICE.format(1)]),
        ([[1, 3, 0], [2], [4, 5]], [TOO_LONG.format(13)]),
        ([[0], [1], [2], [3], [4], [5]], [TOO_MANY.format(6)]),
        ([[0, 1], [1, 2, 4, 5]], [LOST.format(1), TWICE.format(1), TOO_LONG.format(26)]),
        ([[9, 1], [7, 3], [5, 5]], [NO_POSITION]),
        ([[-1, 3], [2, 0], [4, 1]], [NO_POSITION]),
        ([0, 1, 2, 3, 4, 5], [NO_ROWS]),
        ([[0.0, 1.0]], [NO_ROWS]),
        ([[True, False]], [NO_ROWS]),
        ([{"row": 1}], [NO_ROWS]),
        ([[[0]]], [NO_ROWS]),
        ([], [LOST.format(6)]),
    ],
)
def test_each_flaw_is_found(value, found):
    assert flaws(value) == found


@pytest.mark.parametrize("value", [None, 3, "[[0]]", {0: [0]}, {0}, np.array(3)])
def test_what_is_no_list_is_left_to_the_comparison(value):
    assert flaws(value) is None


def fewest_of_all_orders(lengths, room):
    """The best over all orders of next fit, which some order makes optimal."""
    best = len(lengths)
    for order in permutations(lengths):
        rows, used = 1, 0
        for length in order:
            if used + length > room:
                rows, used = rows + 1, 0
            used += length
        best = min(best, rows)
    return best


@given(st.lists(st.integers(1, 10), min_size=1, max_size=6), st.integers(10, 20))
def test_no_packing_needs_less_than_the_fewest_rows(lengths, room):
    assert fewest_rows(lengths, room) <= fewest_of_all_orders(lengths, room)


# --- in a check


def one_to_a_row(lengths, max_length):
    return [[i] for i in range(len(lengths))]


def in_one_row(lengths, max_length):
    return [list(range(len(lengths)))]


def packing(**changes):
    made = {
        "reference": pack,
        "public": [case([8, 2, 6, 4], 10), case([1] * 6, 3)],
        "hidden": lambda draw: [case([draw.integer(1, 4) for _ in range(9)], 9)],
        "criterion": "packing",
        "misconceptions": [
            Misconception("one to a row", one_to_a_row, "Two may share a row."),
            Misconception("in one row", in_one_row, "Does that fit?"),
        ],
    }
    return Check(**(made | changes))


PACKING = packing().prepare("pack", "seed")
RELEASED = PreparedCheck.from_public_data("pack", PACKING.public_data())


def verdict_on(answer, check=PACKING):
    return judge(LocalAnswer(answer), check)


def test_another_right_packing_passes_released_and_graded():
    def reversed_rows(lengths, max_length):
        return [row[::-1] for row in pack(lengths, max_length)][::-1]

    assert verdict_on(reversed_rows)
    assert verdict_on(reversed_rows, RELEASED)


def test_the_reference_s_own_choice_is_not_released():
    assert [one["expected"]["value"] for one in PACKING.public_data()["cases"]] == [[], []]


@pytest.mark.parametrize(
    ("answer", "name"), [(one_to_a_row, "one to a row"), (in_one_row, "in one row")]
)
def test_a_known_wrong_packing_is_named(answer, name):
    assert verdict_on(answer, RELEASED).misconception == name


def test_a_learner_reads_the_value_and_what_is_wrong_with_it():
    verdict = verdict_on(lambda lengths, max_length: [[0, 1], [2]])
    assert verdict.status is Status.WRONG
    assert f"`pack([8, 2, 6, 4], 10)` gave [[0, 1], [2]]: {LOST.format(1)}." in verdict.message


def test_a_flaw_of_a_hidden_case_tells_nothing_of_it():
    def right_where_visible(lengths, max_length):
        return pack(lengths, max_length)[len(lengths) == 9 :]

    verdict = verdict_on(right_where_visible)
    assert verdict.reason.got == verdict.reason.expected == verdict.reason.call == ""
    assert "The visible cases are right" in verdict.message


@pytest.mark.parametrize(("value", "kind"), [(3, "a number"), ("x", "text"), ({}, "a dictionary")])
def test_another_type_is_told_as_such(value, kind):
    verdict = verdict_on(lambda lengths, max_length: value)
    assert verdict.status is Status.BAD_VALUE
    assert f"returned {kind}; it should return a list." in verdict.message


def test_one_that_raises_is_not_told_a_value():
    def raises(lengths, max_length):
        raise KeyError("lost")

    verdict = verdict_on(raises)
    assert verdict.status is Status.RAISED
    assert "give" not in verdict.message


def test_nothing_and_printing_are_recognised():
    def prints(lengths, max_length):
        print(pack(lengths, max_length))  # noqa: T201

    assert verdict_on(lambda lengths, max_length: None).status is Status.NOT_ATTEMPTED
    assert verdict_on(prints).misconception == "prints instead of returns"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: packing(criterion="tidy"), "one of packing"),
        (lambda: packing(rules=[Rule("d", "", "is-dictionary")]), "goes without rules"),
        (lambda: packing(reference=one_to_a_row).prepare("pack", "seed"), "fewer would do"),
    ],
)
def test_an_author_is_told_what_is_wrong_with_a_criterion(make, says):
    with pytest.raises(ValueError, match=says):
        make()
