"""Whether the visible cases tell the known wrong answers of a task apart.

A learner may have one known mistake and another one elsewhere. The judge then compares the failing
cases of the first part that fails, and names the first misconception that agrees on all of them. So
no misconception may agree, on those cases, with one that stands after it.
"""

from __future__ import annotations

import pytest

from gradelib.checks import PreparedCase, PreparedCheck, same_outcome
from gradelib.judging import LocalAnswer, judge
from solutions.formats import decode, encode, largest_finite
from tests.checks.tasks import TASKS, prepared

HELD = ("21_number_formats", "32_bfloat16")
# (task, mistake, the name it may be given): both sentences are true of such an answer.
EXCUSED: set[tuple[str, str, str]] = set()


def first_failures(check: PreparedCheck, name: str) -> list[PreparedCase]:
    """The visible cases that a known wrong answer fails in the first part where it fails."""
    failed = [
        one
        for one in check.cases
        if one.visible and not same_outcome(one.wrong[name], one.expected, check.tolerance)
    ]
    return [one for one in failed if one.part == failed[0].part]


def taken_for(check: PreparedCheck, name: str) -> list[str]:
    """The misconceptions before this one that its first failures do not rule out."""
    failures, names = first_failures(check, name), list(check.sentences)
    return [
        other
        for other in names[: names.index(name)]
        if all(same_outcome(one.wrong[other], one.wrong[name], check.tolerance) for one in failures)
        and (check.task, name, other) not in EXCUSED
    ]


@pytest.mark.parametrize(
    ("exercise", "task"),
    [key for key in TASKS if key[0] in HELD],
    ids=[f"{exercise}-{task}" for exercise, task in TASKS if exercise in HELD],
)
def test_no_mistake_is_taken_for_another_on_the_visible_cases(exercise, task):
    check = prepared(exercise, task)
    assert not {name: taken_for(check, name) for name in check.sentences if taken_for(check, name)}


def test_every_excuse_is_still_needed():
    tasks = {task: prepared(exercise, task) for exercise, task in TASKS if exercise in HELD}
    for task, name, other in EXCUSED:
        failures = first_failures(tasks[task], name)
        assert all(one.wrong[other] == one.wrong[name] for one in failures)


# --- answers of learners with one mistake, who handle everything else in their own way


def message(task: str, answer) -> str:
    check = prepared("21_number_formats", task)
    visible = PreparedCheck.from_public_data(task, check.public_data())
    return judge(LocalAnswer(answer), visible).misconception


def test_a_running_sum_of_values_as_they_come_is_named():
    def sum_in_format(values, exponent_bits, mantissa_bits, specials="ieee", overflow="infinity"):
        key = (exponent_bits, mantissa_bits, specials)
        total = 0.0
        for value in values:
            total = decode(encode(total + value, *key, overflow), *key)
        return total

    def without_a_limit(values, _exponent_bits, mantissa_bits, *_names):
        total = 0.0
        for value in values:
            total = decode(encode(total + value, 8, mantissa_bits), 8, mantissa_bits)
        return total

    assert message("sum_in_format", sum_in_format) == "values not rounded"
    assert message("sum_in_format", without_a_limit) == "values not rounded"


def test_the_normal_formula_at_field_0_is_named():
    def decode_all_as_normal(bits, exponent_bits, mantissa_bits, specials="ieee"):
        value = decode(bits, exponent_bits, mantissa_bits, specials)
        exponent = bits >> mantissa_bits & (2**exponent_bits - 1)
        if exponent:
            return value
        sign = -1 if bits >> (exponent_bits + mantissa_bits) else 1
        fraction = bits % 2**mantissa_bits / 2**mantissa_bits
        return sign * (1 + fraction) * 2.0 ** (1 - 2 ** (exponent_bits - 1))

    assert message("decode", decode_all_as_normal) == "normal formula at field 0"


def test_int_in_place_of_round_for_subnormals_is_named():
    def encode_cutting(value, exponent_bits, mantissa_bits, specials="ieee", overflow="infinity"):
        code = encode(value, exponent_bits, mantissa_bits, specials, overflow)
        smallest = 2.0 ** (2 - 2 ** (exponent_bits - 1) - mantissa_bits)
        if value == value and abs(value) < smallest * 2**mantissa_bits:
            sign = code >> (exponent_bits + mantissa_bits) << (exponent_bits + mantissa_bits)
            return sign + int(abs(value) / smallest)
        return code

    assert message("encode", encode_cutting) == "subnormals cut off"


def test_an_overflow_decided_before_rounding_is_named_where_bad_input_is_refused():
    def encode_early(value, exponent_bits, mantissa_bits, specials="ieee", overflow="infinity"):
        key = (exponent_bits, mantissa_bits, specials)
        code = encode(value, *key, overflow)
        if abs(value) > largest_finite(*key):
            return encode(value * 2, *key, overflow)
        return code

    assert message("encode", encode_early) == "overflow decided before rounding"
