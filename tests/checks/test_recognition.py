"""Whether the visible cases tell the known wrong answers of a task apart.

A learner may have one known mistake and another one elsewhere. The judge then compares the failing
cases of the first part that fails, and of the misconceptions that agree on all of them it names the
one that the passed cases contradict least. So of two misconceptions, some case of that part or of one
before it has to tell them apart: of all parts after it nothing is known.
"""

from __future__ import annotations

from dataclasses import replace

from gradelib.checks import PreparedCase, PreparedCheck, same_outcome
from gradelib.judging import NARROW, LocalAnswer, judge
from solutions.formats import decode, encode, largest_finite
from tests.checks.tasks import WRONG, each_task, each_wrong_answer, prepared


def ruled_out(check: PreparedCheck, name: str, other: str) -> bool:
    """Whether a visible case tells an answer with the mistake `name` from `other`: one that the
    answer passes and `other` would not, or one that it fails otherwise than `other` does, by more than
    a part of the tolerance."""
    tolerance = check.tolerance
    narrow = replace(tolerance, rel=tolerance.rel / NARROW, abs=tolerance.abs / NARROW)
    visible = [one for one in check.cases if one.visible]
    order = list(check.parts)

    def passes(one: PreparedCase) -> bool:
        return same_outcome(one.wrong[name], one.expected, tolerance)

    first = min(order.index(one.part) for one in visible if not passes(one))
    return not all(
        same_outcome(one.wrong[name], one.wrong[other], tolerance if passes(one) else narrow)
        for one in visible
        if order.index(one.part) <= first
    )


def taken_for(check: PreparedCheck, name: str) -> list[str]:
    """The misconceptions before this one that no visible case rules out."""
    names = list(check.sentences)
    return [other for other in names[: names.index(name)] if not ruled_out(check, name, other)]


@each_task
def test_no_mistake_is_taken_for_another_on_the_visible_cases(exercise, task):
    check = prepared(exercise, task)
    found = {name: taken_for(check, name) for name in check.sentences}
    assert not {name: others for name, others in found.items() if others}


@each_wrong_answer
def test_a_known_wrong_answer_is_named_on_the_visible_cases(exercise, task, name):
    check = prepared(exercise, task)
    visible = PreparedCheck.from_public_data(task, check.public_data())
    assert judge(LocalAnswer(WRONG[exercise, task, name]), visible).misconception == name


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
