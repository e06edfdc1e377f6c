"""When two values agree, and how a difference is described."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.compare import (
    Difference,
    Differs,
    Tolerance,
    absolute,
    difference,
    exact,
    relative,
    same_bits,
)
from gradelib.plain import Array
from tests.conftest import label
from tests.core.test_plain import PLAIN

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(value=PLAIN)
def test_every_value_agrees_with_itself(value):
    assert difference(value, value) is None


@given(number=st.integers(-(2**53), 2**53))
def test_a_whole_float_agrees_with_its_int(number):
    assert difference(float(number), number) is None
    assert difference(number, float(number)) is None


@given(expected=FINITE, got=FINITE)
def test_exact_means_equal(expected, got):
    assert (difference(got, expected) is None) == (got == expected)


@given(expected=FINITE, share=st.floats(0, 0.5), got=FINITE)
def test_a_relative_tolerance_is_a_share_of_the_expected_value(expected, share, got):
    near = got == expected or abs(got - expected) <= share * abs(expected)
    assert (difference(got, expected, relative(share)) is None) == near


@given(expected=FINITE, distance=st.floats(0, 1e300), got=FINITE)
def test_an_absolute_tolerance_is_a_distance(expected, distance, got):
    near = got == expected or abs(got - expected) <= distance
    assert (difference(got, expected, absolute(distance)) is None) == near


def how(got, expected, tolerance=exact):
    found = difference(got, expected, tolerance)
    return found.how if found else None


@pytest.mark.parametrize(
    ("got", "expected", "differs"),
    [
        (True, 1, Differs.TYPE),
        (1, True, Differs.TYPE),
        ("1", 1, Differs.TYPE),
        (None, 0, Differs.TYPE),
        ([1], 1, Differs.TYPE),
        ({"a": 1}, [1], Differs.TYPE),
        (frozenset({1}), [1], Differs.TYPE),
        (math.nan, 1.0, Differs.NOT_FINITE),
        (math.inf, 1.0, Differs.NOT_FINITE),
        (-math.inf, math.inf, Differs.VALUE),
        (1.0, math.inf, Differs.VALUE),
        (math.nan, math.inf, Differs.VALUE),
        (1.0, math.nan, Differs.VALUE),
        (math.nan, math.nan, None),
        (math.inf, math.inf, None),
        (-0.0, 0.0, None),
        ([1, 2], [1], Differs.LENGTH),
        ({"a": 1}, {"b": 1}, Differs.KEYS),
        ("four", "4", Differs.VALUE),
        (10**400, 1.5, Differs.VALUE),
        (1.5, 10**400, Differs.VALUE),
        (10**400, 10**400, None),
    ],
    ids=label,
)
def test_a_difference_says_of_what_kind_it_is(got, expected, differs):
    assert how(got, expected) is differs
    if differs is not None and differs is not Differs.VALUE:
        assert how(got, expected, relative(0.1)) is differs


def test_infinity_is_never_near_a_number():
    assert how(1e308, math.inf, relative(0.9)) is Differs.VALUE
    assert how(math.inf, 1e308, relative(0.9)) is Differs.NOT_FINITE


def test_huge_whole_numbers_are_compared_exactly():
    assert how(2**60 + 1, 2**60) is Differs.VALUE
    assert how(2**60 + 1, 2**60, relative(1e-9)) is None
    assert how(10**400 + 1, 10**400) is Differs.VALUE


def test_the_sign_of_zero_counts_only_when_asked():
    assert how(-0.0, 0.0, same_bits) is Differs.VALUE
    assert how(0.0, -0.0, same_bits) is Differs.VALUE
    assert how(0, 0.0, same_bits) is None


def test_the_first_difference_is_found_with_its_place():
    got = {"rows": [[1, 2], [3, 5]], "n": 1}
    expected = {"rows": [[1, 2], [3, 4]], "n": 2}
    assert difference(got, expected) == Difference(Differs.VALUE, 5, 4, ("rows", 1, 1))


def test_an_array_agrees_with_lists_and_with_other_types_of_the_same_values():
    array = Array("float32", (2, 2), bytes(16))
    assert difference(array, [[0, 0], [0, 0]]) is None
    assert difference([[0.0, 0], [0, 0]], array) is None
    assert difference(Array("float64", (2, 2), bytes(32)), array) is None
    assert how(Array("float32", (4,), bytes(16)), array) is Differs.LENGTH
    assert how([[0, 0], [0, 1]], array) is Differs.VALUE
    assert how(0, array) is Differs.TYPE


@pytest.mark.parametrize("wrong", [{"rel": -0.1}, {"rel": 1.0}, {"abs": -1}, {"abs": math.inf}])
def test_a_tolerance_that_tolerates_everything_is_refused(wrong):
    with pytest.raises(ValueError, match="a tolerance lies in"):
        Tolerance(**wrong)
