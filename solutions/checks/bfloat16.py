"""Checks of exercise 32: updates that 16 bits lose, float16's limit, the format for a card and a model, and the largest
batch beside what a step holds anyway.

Peaks in the cases of `predicted_peak_bytes` are PyTorch's own, of real models; `tests/checks/test_bfloat16.py` holds
the reference's prediction against what PyTorch counted for the batch that is asked for.
"""

# ruff: noqa: ARG001, ARG005 - it is the mistake of many a wrong answer that it ignores an argument

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from gradelib.checks import Case, Check, Misconception, case, part
from gradelib.compare import relative
from gradelib.draw import Draw
from solutions import precision_choice
from solutions.hardware import gpu
from solutions.precision_choice import BEST_FIRST, FIELDS, STATE_BYTES, stored
from solutions.validation import require_amount, require_known, require_positive

NO_MASTER = "without a master copy"
MASTER = "with a master copy"
NUMBERS = "numbers"
BAD_INPUT = "bad input"
OVERFLOWS = "something overflows"
NOTHING = "nothing overflows"
POSSIBLE = "a format will do"
IMPOSSIBLE = "no format will do"
NONE_FITS = "not one fits"

GIB = 2**30

# --- updates that stick ---------------------------------------------------------------------------

Rounding = Callable[[float, str], float]


def gap(value: float, dtype: str) -> float:
    """The distance from `value` to the next number of the format, away from zero."""
    exponent_bits, mantissa_bits = FIELDS[dtype]
    smallest = 2 - 2 ** (exponent_bits - 1)
    exponent = max(math.frexp(value)[1] - 1, smallest) if value else smallest
    return math.ldexp(1.0, exponent - mantissa_bits)


def _towards_zero(value: float, dtype: str) -> float:
    step = gap(value, dtype)
    return math.trunc(value / step) * step


def _half_away(value: float, dtype: str) -> float:
    step = gap(value, dtype)
    return math.copysign(math.floor(abs(value) / step + 0.5) * step, value)


def _as_it_is(value: float, dtype: str) -> float:
    return value


def _kept_as(dtype: str, master: bool) -> str:
    return "float32" if master else dtype


def _one_by_one(
    rounding: Rounding = stored,
    start: Rounding = stored,
    add: Callable[[float, float], float] = lambda kept, update: kept + update,
    form: Callable[[str, bool], str] = _kept_as,
) -> Callable[..., int]:
    """`updates_that_stick` with one of its steps changed."""

    def answer(weight: float, updates: Sequence[float], dtype: str, master: bool = False) -> int:
        require_known("dtype", dtype, FIELDS)
        kept_as = form(dtype, master)
        kept, changes = start(weight, kept_as), 0
        for update in updates:
            moved = rounding(add(kept, update), kept_as)
            changes += moved != kept
            kept = moved
        return changes

    return answer


def _each_against_the_first(
    weight: float, updates: Sequence[float], dtype: str, master: bool = False
) -> int:
    require_known("dtype", dtype, FIELDS)
    kept_as = _kept_as(dtype, master)
    first = stored(weight, kept_as)
    return sum(stored(first + update, kept_as) != first for update in updates)


def _of_an_exact_total(
    weight: float, updates: Sequence[float], dtype: str, master: bool = False
) -> int:
    require_known("dtype", dtype, FIELDS)
    kept_as = _kept_as(dtype, master)
    total, changes = stored(weight, kept_as), 0
    for update in updates:
        changes += stored(total + update, kept_as) != stored(total, kept_as)
        total += update
    return changes


def _of_the_copy(weight: float, updates: Sequence[float], dtype: str, master: bool = False) -> int:
    require_known("dtype", dtype, FIELDS)
    kept_as = _kept_as(dtype, master)
    kept, changes = stored(weight, kept_as), 0
    for update in updates:
        moved = stored(kept + update, kept_as)
        changes += stored(moved, dtype) != stored(kept, dtype)
        kept = moved
    return changes


def _master_never_rounded(
    weight: float, updates: Sequence[float], dtype: str, master: bool = False
) -> int:
    exact = _one_by_one(rounding=_as_it_is, start=_as_it_is)
    right = precision_choice.updates_that_stick
    return (exact if master else right)(weight, updates, dtype, master)


def _master_of_a_rounded_weight(
    weight: float, updates: Sequence[float], dtype: str, master: bool = False
) -> int:
    require_known("dtype", dtype, FIELDS)
    return precision_choice.updates_that_stick(stored(weight, dtype), updates, dtype, master)


def _master_of_any_format(
    weight: float, updates: Sequence[float], dtype: str, master: bool = False
) -> int:
    return precision_choice.updates_that_stick(weight, updates, "float32" if master else dtype)


def _compared_with_the_start(
    weight: float, updates: Sequence[float], dtype: str, master: bool = False
) -> int:
    require_known("dtype", dtype, FIELDS)
    kept_as = _kept_as(dtype, master)
    first = kept = stored(weight, kept_as)
    changes = 0
    for update in updates:
        kept = stored(kept + update, kept_as)
        changes += kept != first
    return changes


def _first_update_alone(
    weight: float, updates: Sequence[float], dtype: str, master: bool = False
) -> int:
    return precision_choice.updates_that_stick(weight, updates[:1], dtype, master)


def _by_the_gap(reaches: Callable[[float, float], bool]) -> Callable[..., int]:
    """Count updates that reach half the gap above the weight, as a formula gives it."""

    def answer(weight: float, updates: Sequence[float], dtype: str, master: bool = False) -> int:
        require_known("dtype", dtype, FIELDS)
        kept_as = _kept_as(dtype, master)
        kept, changes = stored(weight, kept_as), 0
        for update in updates:
            if reaches(abs(update), gap(kept, kept_as) / 2):
                changes += 1
                kept = stored(kept + update, kept_as)
        return changes

    return answer


def _above_a_share(share: float) -> Callable[..., int]:
    """Count updates that are more than a share of the weight: a share of the format's epsilon."""

    def answer(weight: float, updates: Sequence[float], dtype: str, master: bool = False) -> int:
        require_known("dtype", dtype, FIELDS)
        kept_as = _kept_as(dtype, master)
        kept, changes = stored(weight, kept_as), 0
        for update in updates:
            if abs(update) > share * gap(1.0, kept_as) * abs(kept):
                changes += 1
                kept = stored(kept + update, kept_as)
        return changes

    return answer


def _not_zero(weight: float, updates: Sequence[float], dtype: str, master: bool = False) -> int:
    require_known("dtype", dtype, FIELDS)
    return sum(update != 0 for update in updates)


def _stick_lost(weight: float, updates: Sequence[float], dtype: str, master: bool = False) -> int:
    right = precision_choice.updates_that_stick(weight, updates, dtype, master)
    return len(updates) - right


def _stick_share(
    weight: float, updates: Sequence[float], dtype: str, master: bool = False
) -> float:
    right = precision_choice.updates_that_stick(weight, updates, dtype, master)
    return right / len(updates)


def _sixteen_bits_swapped(dtype: str, master: bool) -> str:
    swapped = {"bfloat16": "float16", "float16": "bfloat16"}
    return _kept_as(swapped.get(dtype, dtype), master)


def _stick_by_history(
    weight: float, updates: Sequence[float], dtype: str, master: bool = False
) -> int:
    """The whole list of weights first, then a look at its neighbours."""
    kept_as = "float32" if master else dtype
    if kept_as not in FIELDS or dtype not in FIELDS:
        raise ValueError(dtype)
    weights = [stored(weight, kept_as)]
    for update in updates:
        weights.append(stored(weights[-1] + update, kept_as))
    return len([1 for old, new in pairwise(weights) if old != new])


def _stick_in_fractions(
    weight: float, updates: Sequence[float], dtype: str, master: bool = False
) -> Fraction:
    """Exact arithmetic, and rounding to the nearest multiple of the gap by hand."""
    if dtype not in ("float32", "float16", "bfloat16"):
        raise ValueError(f"no weight is trained in {dtype}")
    kept_as = "float32" if master else dtype

    def nearest(value: Fraction) -> Fraction:
        step = Fraction(gap(float(value), kept_as))
        return round(value / step) * step

    kept, changes = nearest(Fraction(weight)), Fraction(0)
    for update in updates:
        moved = nearest(kept + Fraction(update))
        changes += int(moved != kept)
        kept = moved
    return changes


def _stick_counted_down(
    weight: float, updates: Sequence[float], dtype: str, master: bool = False
) -> float:
    require_known("dtype", dtype, FIELDS)
    form, left = ("float32" if master else dtype), float(len(updates))
    kept = stored(weight, form)
    for update in updates:
        if stored(update + kept, form) == kept:
            left -= 1.0
        else:
            kept = stored(update + kept, form)
    return left


def _draw_updates(draw: Draw, dtype: str, *, master: bool = False) -> Case:
    """Updates around half a gap of where the weight is, with ties, zeros, and a move to another
    power of two. All are numbers of the format, so it does not matter who rounds them first."""
    kept_as = _kept_as(dtype, master)
    low, high = (0, 5) if dtype == "float16" and master else (-6, 2)
    sign = draw.one([-1.0, 1.0])
    weight = sign * draw.real(1.0, 2.0) * 2.0 ** draw.integer(low, high)
    kept, updates = stored(weight, kept_as), []
    for number in range(20):
        size = gap(kept, kept_as) * 2 ** draw.real(-3, 2.5)
        if number in (3, 14):
            size = gap(kept, kept_as) / 2
        if number in (9, 17):
            size = gap(kept, dtype) * 2 ** draw.real(-2.5, 2.5)
        if number == 6:
            size = 0.0
        direction = draw.one([-1.0, 1.0])
        if number == 11:
            size, direction = abs(kept) * draw.real(1.5, 4.0), math.copysign(1.0, kept)
        update = stored(direction * size, dtype)
        updates.append(update)
        kept = stored(kept + update, kept_as)
    return case(weight, updates, dtype, True) if master else case(weight, updates, dtype)


def _hidden_updates(draw: Draw) -> list[Case]:
    plain = [_draw_updates(draw, dtype) for dtype in ("bfloat16", "float16", "float32", "bfloat16")]
    master = [_draw_updates(draw, dtype, master=True) for dtype in ("bfloat16", "float16")]
    bad = [
        case(draw.real(1.0, 2.0), [draw.real(0.001, 0.1)], unknown)
        for unknown in ("int8", "nf4", "float8_e4m3", "float64", "half")
    ]
    bad.append(case(draw.real(1.0, 2.0), [draw.real(0.001, 0.1)], draw.one(["int8", "half"]), True))
    # 16 bits hold this weight as a power of two, above which float32 is too coarse for these updates.
    power = 2.0 ** draw.integer(-5, 3)
    below = power * (1 - draw.real(0.1, 0.4) * 2**-8)
    small = [power * draw.real(0.55, 0.9) * 2**-24 for _ in range(5)] + [power * 2**-40]
    master.append(case(below, small, "bfloat16", True))
    return part(NO_MASTER, plain) + part(MASTER, master) + part(BAD_INPUT, bad)


updates_that_stick = Check(
    reference=precision_choice.updates_that_stick,
    public=[
        *part(
            NO_MASTER,
            [
                case(1.0, [2**-9] * 7 + [2**-30], "bfloat16"),
                case(1.0, [2**-9] * 7 + [2**-30], "float16"),
                case(1.0, [-(2**-8)], "bfloat16"),
                case(1.0, [-3 * 2**-10], "bfloat16"),
                case(1.0, [-(2**-9)] * 3 + [2**-8] * 2 + [2**-7, 2**-8], "bfloat16"),
                case(1.0, [1.0, 2.0, 2**-7, 2**-5, -(2**-5)], "bfloat16"),
                case(1.5, [5 * 2**-10, -5 * 2**-10], "bfloat16"),
                case(0.1, [2**-14, -(2**-14), 0.0], "bfloat16"),
                case(-3.0, [2**-8, -(2**-7), 2**-6, 3 * 2**-8], "bfloat16"),
                case(1.0, [2**-9, 2**-25, 2**-22, 2**-24], "float32"),
            ],
        ),
        *part(
            MASTER,
            [
                case(1.0, [2**-9] * 8, "bfloat16", True),
                case(1.0, [2**-11, 2**-25, 2**-9, 2**-60], "bfloat16", True),
                case(0.06249, [3e-9] * 4, "bfloat16", True),
            ],
        ),
        *part(BAD_INPUT, [case(1.0, [0.5], "int4"), case(1.0, [0.5], "int4", True)]),
    ],
    hidden=_hidden_updates,
    parts={NO_MASTER: 0.6, MASTER: 0.3, BAD_INPUT: 0.1},
    misconceptions=[
        Misconception(
            "every update counted",
            _not_zero,
            "You count the updates that are not zero. Which of them still show after rounding?",
        ),
        Misconception(
            "lost ones counted",
            _stick_lost,
            "You count the updates that are lost. The task asks for the others.",
        ),
        Misconception(
            "a share",
            _stick_share,
            "That is a share of the updates. Return how many they are.",
        ),
        Misconception(
            "each against the first weight",
            _each_against_the_first,
            "The updates come one after another: each is added to the weight as the last one left it.",
        ),
        Misconception(
            "compared with the start",
            _compared_with_the_start,
            "Did this update change the weight? Compare with the weight right before it, not with the one at the start.",
        ),
        Misconception(
            "first update alone",
            _first_update_alone,
            "Only the first update is looked at. Is the `return` inside the loop?",
        ),
        Misconception(
            "total kept exact",
            _of_an_exact_total,
            "You add up all updates exactly and round for the comparison alone. In the format, what was rounded "
            "away is gone: the next update starts from the rounded weight.",
        ),
        Misconception(
            "start not rounded",
            _one_by_one(start=_as_it_is),
            "Is the weight itself a number of the format? Round it before the first update, or rounding counts as "
            "a change.",
        ),
        Misconception(
            "updates subtracted",
            _one_by_one(add=lambda kept, update: kept - update),
            "Here an update is added, sign included. Next to a power of two the gaps above and below differ.",
        ),
        Misconception(
            "sign of updates lost",
            _one_by_one(add=lambda kept, update: kept + abs(update)),
            "An update below zero makes the weight smaller, and the gap below a weight may be narrower than the one above "
            "it. Add each update with its sign.",
        ),
        Misconception(
            "always float32",
            _one_by_one(form=lambda dtype, master: "float32"),
            "Your answer does not depend on the format. Round to `dtype` when there is no master copy.",
        ),
        Misconception(
            "bfloat16 and float16 swapped",
            _one_by_one(form=_sixteen_bits_swapped),
            "Both have 16 bits, but they split them otherwise: bfloat16 has 7 bits of mantissa, float16 has 10.",
        ),
        Misconception(
            "truncated",
            _one_by_one(rounding=_towards_zero),
            "You cut the digits off. A tensor holds the nearest number, which may be further from zero.",
        ),
        Misconception(
            "ties away from zero",
            _one_by_one(rounding=_half_away),
            "What happens exactly half way between two numbers? The one with the even pattern is taken.",
        ),
        Misconception(
            "a share of epsilon",
            _above_a_share(1.0),
            "The limit is not epsilon times the weight: the gap between numbers is the same from one power of two to "
            "the next, and half of it is enough.",
        ),
        Misconception(
            "half of epsilon",
            _above_a_share(0.5),
            "Half of epsilon times the weight is a rule of thumb. The gap is the same from one power of two to the "
            "next, and below a power of two it is half as wide. Round and compare.",
        ),
        Misconception(
            "more than half a gap",
            _by_the_gap(lambda size, half: size > half),
            "You compare with half the gap above the weight. Right below a power of two the gap is narrower, and exactly "
            "half way the even neighbour is taken. Rounding knows both: round, then compare.",
        ),
        Misconception(
            "half a gap or more",
            _by_the_gap(lambda size, half: size >= half),
            "You compare with half the gap above the weight. Exactly half way the even neighbour is taken, which may be "
            "the old weight, and right below a power of two the gap is narrower. Round, then compare.",
        ),
        Misconception(
            "master copy ignored",
            _one_by_one(form=lambda dtype, master: dtype),
            "With a master copy the updates go to a weight in float32, whatever `dtype` is.",
        ),
        Misconception(
            "the 16-bit copy watched",
            _of_the_copy,
            "With a master copy, look at the master copy: an update that it takes is kept, even if the 16-bit copy "
            "does not show it yet.",
        ),
        Misconception(
            "master copy never rounded",
            _master_never_rounded,
            "float32 has gaps too. Round the master copy after each update.",
        ),
        Misconception(
            "master copy of a rounded weight",
            _master_of_a_rounded_weight,
            "You round the weight to `dtype` before it becomes the master copy. The master copy is rounded to float32 alone.",
        ),
        Misconception(
            "any format with a master copy",
            _master_of_any_format,
            "With a master copy, too, `dtype` has to be one of the three formats. Look at it before you replace it.",
        ),
    ],
    also_right=[_stick_by_history, _stick_in_fractions, _stick_counted_down],
)

# --- what a recipe keeps --------------------------------------------------------------------------


def _per_parameter(**changed: float) -> Callable[[int, str], float]:
    """`training_state_bytes` with another number of bytes for some recipes."""

    def answer(params: int, precision: str) -> float:
        right = precision_choice.training_state_bytes(params, precision)
        name = precision.replace("-", "_")
        return params * changed[name] if name in changed else right

    return answer


def _only(*kinds: int) -> Callable[[int, str], float]:
    """The bytes of some of the four kinds of tensors alone."""

    def answer(params: int, precision: str) -> float:
        precision_choice.training_state_bytes(params, precision)
        return params * sum(STATE_BYTES[precision][kind] for kind in kinds)

    return answer


def _state_by_cases(params: int, precision: str) -> int:
    if params < 0:
        raise ValueError("negative")
    if precision == "bfloat16":
        return 8 * params
    if precision in ("float32", "bfloat16-mixed", "bfloat16-master"):
        return 16 * params
    raise ValueError(precision)


def _state_by_bits(params: int, precision: str) -> float:
    """Bits of each tensor, added up."""
    wide, narrow = 32, 16
    bits = {
        "float32": [wide] * 4,
        "bfloat16": [narrow] * 4,
        "bfloat16-mixed": [wide] * 4,
        "bfloat16-master": [narrow, wide, narrow, wide, wide],
    }
    if precision not in bits or params < 0:
        raise ValueError((params, precision))
    return params / 8 * sum(bits[precision])


def _state_as_float(params: int, precision: str) -> float:
    return float(precision_choice.training_state_bytes(params, precision))


def _hidden_states(draw: Draw) -> list[Case]:
    def count() -> int:
        return draw.log_integer(10**6, 10**11)

    numbers = [case(count(), precision) for precision in draw.shuffled(list(STATE_BYTES))]
    bad = [case(-count(), draw.one(list(STATE_BYTES)))]
    bad += [
        case(count(), unknown) for unknown in ("float16", "mixed", "bfloat16-mixed-master", "int8")
    ]
    return part(NUMBERS, numbers) + part(BAD_INPUT, bad)


training_state_bytes = Check(
    reference=precision_choice.training_state_bytes,
    public=[
        *part(NUMBERS, [case(1000, precision) for precision in STATE_BYTES]),
        *part(NUMBERS, [case(3_880_099_328, "bfloat16-mixed"), case(0, "bfloat16")]),
        *part(BAD_INPUT, [case(1000, "bf16"), case(-1, "float32")]),
    ],
    hidden=_hidden_states,
    parts={NUMBERS: 0.9, BAD_INPUT: 0.1},
    misconceptions=[
        Misconception(
            "mixed taken for 16 bits",
            _per_parameter(bfloat16_mixed=8),
            "Mixed precision keeps the weights in float32, and so their gradients and averages. Only products are "
            "computed in 16 bits.",
        ),
        Misconception(
            "all of it in 16 bits",
            _per_parameter(bfloat16_mixed=8, bfloat16_master=8),
            "In one recipe everything is in 16 bits. What do the other two with bfloat16 in their names keep in float32?",
        ),
        Misconception(
            "16-bit copies counted",
            _per_parameter(bfloat16_mixed=18),
            "The 16-bit copies that autocast makes are gone when the optimizer steps. Count what is there then.",
        ),
        Misconception(
            "mixed with 16-bit weights and gradients",
            _per_parameter(bfloat16_mixed=12),
            "The name `-mixed` is of the products. What stays when the optimizer steps is all in one format: look at the "
            "recipe's row again.",
        ),
        Misconception(
            "mixed with 16-bit weights or gradients",
            _per_parameter(bfloat16_mixed=14),
            "The weights of this recipe are in float32, and a gradient has the format of its weight. autocast's 16-bit "
            "copies are gone when the optimizer steps.",
        ),
        Misconception(
            "master with float32 gradients",
            _per_parameter(bfloat16_master=18),
            "Some libraries keep float32 gradients beside a master copy. This recipe does not: look at its row again.",
        ),
        Misconception(
            "master without the 16-bit weights",
            _per_parameter(bfloat16_master=14),
            "This recipe keeps each weight twice: the master copy, and the 16-bit weight that is made from it.",
        ),
        Misconception(
            "float32 averages in bfloat16",
            _per_parameter(bfloat16=12),
            "AdamW's averages take the format of the weights that it is given. With bfloat16 weights alone, which is that?",
        ),
        Misconception(
            "master copy forgotten",
            _per_parameter(bfloat16_master=12),
            "Beside the 16-bit weights this recipe keeps a master copy of them in float32, and AdamW's two averages are "
            "in float32 too.",
        ),
        Misconception(
            "one average",
            _per_parameter(float32=12, bfloat16=6, bfloat16_mixed=12, bfloat16_master=12),
            "AdamW keeps two averages for each parameter: of the gradients, and of their squares.",
        ),
        Misconception(
            "gradients forgotten",
            _only(0, 1, 3),
            "The gradients are missing: one for each parameter that is trained.",
        ),
        Misconception(
            "optimizer forgotten",
            _only(0, 1, 2),
            "AdamW's averages are missing.",
        ),
        Misconception(
            "weights alone",
            _only(0, 1),
            "You count the weights. Training needs gradients and AdamW's averages as well.",
        ),
        Misconception(
            "16 bytes always",
            _per_parameter(bfloat16=16),
            "When everything is in bfloat16, each of the tensors takes half of what float32 takes.",
        ),
        Misconception(
            "bits for bytes",
            lambda params, precision: 8 * precision_choice.training_state_bytes(params, precision),
            "That is the number of bits.",
        ),
    ],
    also_right=[_state_by_cases, _state_by_bits, _state_as_float],
)

# --- float16's limit ------------------------------------------------------------------------------


def _overflow_from(limit: float) -> Callable[[Sequence[Sequence[float]]], int | None]:
    """The first layer with a magnitude of at least `limit`."""

    def answer(activations: Sequence[Sequence[float]]) -> int | None:
        return next(
            (i for i, layer in enumerate(activations) if any(abs(x) >= limit for x in layer)), None
        )

    return answer


_right_overflow = precision_choice.first_overflow
# Half way from 65,504 to what would be the next number.
LIMIT = 65_520.0


def _overflow_changed(
    change: Callable[[int, Sequence[Sequence[float]]], Any],
    none: Callable[[Sequence[Sequence[float]]], Any] = lambda activations: None,
) -> Callable[[Sequence[Sequence[float]]], Any]:
    """The right answer changed, where there is one, and another value where there is none."""

    def answer(activations: Sequence[Sequence[float]]) -> Any:
        found = _right_overflow(activations)
        return none(activations) if found is None else change(found, activations)

    return answer


def _overflows(layer: Sequence[float]) -> list[float]:
    return [value for value in layer if abs(value) >= LIMIT]


def _position_0_passed_over(activations: Sequence[Sequence[float]]) -> int | None:
    found: int | None = None
    for i, layer in enumerate(activations):
        if _overflows(layer) and not found:
            found = i
    return found


def _one_value(place: int) -> Callable[[Sequence[Sequence[float]]], int | None]:
    """The first layer whose value at this place overflows."""

    def answer(activations: Sequence[Sequence[float]]) -> int | None:
        return next((i for i, layer in enumerate(activations) if _overflows([layer[place]])), None)

    return answer


def _position_of_largest(activations: Sequence[Sequence[float]]) -> int:
    sizes = [max(map(abs, layer)) for layer in activations]
    return sizes.index(max(sizes))


def _without_sign(activations: Sequence[Sequence[float]]) -> int | None:
    return next((i for i, layer in enumerate(activations) if max(layer) >= LIMIT), None)


def _by_sums(activations: Sequence[Sequence[float]]) -> int | None:
    return next((i for i, layer in enumerate(activations) if abs(math.fsum(layer)) >= LIMIT), None)


def _whole_layers(activations: Sequence[Sequence[float]]) -> int | None:
    return next(
        (i for i, layer in enumerate(activations) if len(_overflows(layer)) == len(layer)), None
    )


def _vanishing_too(activations: Sequence[Sequence[float]]) -> int | None:
    def lost(value: float) -> bool:
        return abs(value) >= LIMIT or (value != 0 and stored(value, "float16") == 0)

    return next((i for i, layer in enumerate(activations) if any(map(lost, layer))), None)


def _flat_position(found: int, activations: Sequence[Sequence[float]]) -> int:
    before = sum(map(len, activations[:found]))
    return before + next(i for i, x in enumerate(activations[found]) if abs(x) >= LIMIT)


def _last_overflow(_found: int, activations: Sequence[Sequence[float]]) -> int:
    return max(i for i, layer in enumerate(activations) if _overflows(layer))


def _overflow_by_loop(activations: Sequence[Sequence[float]]) -> int | None:
    found = None
    for position, layer in enumerate(activations):
        for value in layer:
            if found is None and not -LIMIT < value < LIMIT:
                found = position
    return found


def _overflow_by_largest(activations: Sequence[Sequence[float]]) -> int | None:
    sizes = [max(abs(value) for value in layer) for layer in activations]
    over = [i for i, size in enumerate(sizes) if not math.isfinite(stored(size, "float16"))]
    return min(over, default=None)


def _overflow_backwards(activations: Sequence[Sequence[float]]) -> float | None:
    found = None
    for i in reversed(range(len(activations))):
        if _overflows(activations[i]):
            found = float(i)
    return found


def _draw_layers(draw: Draw, count: int) -> list[list[float]]:
    """Values that float16 holds, of all sizes, some next to its limit or too small for it."""
    layers = []
    for _ in range(count):
        values = [draw.one([-1.0, 1.0]) * 10 ** draw.real(-3, 4.7) for _ in range(4)]
        layers.append([round(value, 4) for value in values])
    layers[0][1] = draw.one([-1.0, 1.0]) * round(draw.real(65_505, 65_519), 2)
    layers[0][2] = draw.one([-1.0, 1.0]) * round(draw.real(65_519.3, 65_519.9), 2)
    layers[0][0] = draw.real(1e-9, 2e-8)
    return layers


def _hidden_activations(draw: Draw) -> list[Case]:
    def with_overflow(value: float) -> Case:
        layers = _draw_layers(draw, draw.integer(5, 8))
        first = draw.integer(1, len(layers) - 3)
        layers[first][draw.integer(1, 3)] = value
        layers[first + 1][draw.integer(0, 3)] = draw.real(3e6, 4e7)
        return case(layers)

    just_above = round(draw.real(65_521, 65_535), 2)
    values = [
        just_above,
        -round(draw.real(70_000, 2e6), 1),
        round(draw.real(66_000, 900_000), 1),
        -just_above,
    ]
    at_once = _draw_layers(draw, 3)
    at_once[0][3] = -round(draw.real(80_000, 200_000), 1)
    at_once[2][1] = round(draw.real(300_000, 900_000), 1)
    two = _draw_layers(draw, 4)
    two[1][1], two[1][2] = 50_000 + draw.real(1, 5000), 40_000 + draw.real(1, 5000)
    return part(OVERFLOWS, [*map(with_overflow, values), case(at_once)]) + part(
        NOTHING, [case(_draw_layers(draw, 4)), case(two)]
    )


first_overflow = Check(
    reference=precision_choice.first_overflow,
    public=[
        *part(
            OVERFLOWS,
            [
                case([[1.5, -2.0], [300.0, 70_000.0], [2.0], [9e5], [8.0, 66_000.0], [70_000.0]]),
                case([[20.0, 30.0], [-65_504.0, 65_510.0], [8.0, -65_530.0], [70_000.0, 1.0]]),
                case([[-123_456.0, 2.0], [3.0, 4.0]]),
                case([[2.0, 80_000.0, 1.0], [5.0], [-90_000.0]]),
                case([[1e-9, 5.0], [math.inf, 1.0], [2.0, 3.0]]),
                case([[33_000.0, 1.0], [40_000.0, 40_000.0], [65_520.0, -65_520.0], [70_000.0]]),
            ],
        ),
        *part(
            NOTHING,
            [case([[65_504.0, -65_519.0], [0.0, 60_000.0]]), case([[10.0, -2.0], [300.0, 4.0]])],
        ),
    ],
    hidden=_hidden_activations,
    parts={OVERFLOWS: 0.8, NOTHING: 0.2},
    misconceptions=[
        Misconception(
            "limit at 65,504",
            _overflow_from(math.nextafter(65_504, math.inf)),
            "Not everything above the largest number overflows. What is nearer to the largest number than to the one "
            "that would come next is rounded down to it.",
        ),
        Misconception(
            "limit at 65,536",
            _overflow_from(65_536),
            "Some values below 65,536 overflow too: those that rounding would take there.",
        ),
        Misconception(
            "limit of a 16-bit integer",
            _overflow_from(32_768),
            "That is the limit of whole numbers with 16 bits. What is the largest number of float16?",
        ),
        Misconception(
            "negative values missed",
            _without_sign,
            "Large negative values overflow as well, to minus infinity.",
        ),
        Misconception(
            "infinities alone",
            _overflow_from(math.inf),
            "You find what is infinite already. These values were computed in float32: which of them would become "
            "infinite in float16?",
        ),
        Misconception(
            "position 0 passed over",
            _position_0_passed_over,
            "The position of the first layer counts as false, so `not found` still holds after it was found. Return at "
            "once, or compare by `is`, not by truth.",
        ),
        Misconception(
            "position 0 taken for none",
            lambda activations: _right_overflow(activations) or None,
            "The position of the first layer counts as false: `or` and `if` take it for nothing. Compare by `is`, not by "
            "truth.",
        ),
        Misconception(
            "first value alone",
            _one_value(0),
            "You look at the first value of each layer alone. Any of its values may overflow.",
        ),
        Misconception(
            "last value alone",
            _one_value(-1),
            "You look at the last value of each layer alone. Any of its values may overflow.",
        ),
        Misconception(
            "counted from 1",
            _overflow_changed(lambda found, _: found + 1),
            "Positions in a list begin with 0.",
        ),
        Misconception(
            "last layer",
            _overflow_changed(_last_overflow),
            "That is the last layer with an overflow. Stop at the first one.",
        ),
        Misconception(
            "layer of the largest value",
            _position_of_largest,
            "The largest value need not be the first that is too large.",
        ),
        Misconception(
            "position of the value",
            _overflow_changed(_flat_position),
            "You count values. The task asks for the layer's position.",
        ),
        Misconception(
            "number of layers",
            lambda activations: sum(map(bool, map(_overflows, activations))),
            "That is how many layers overflow. Which of them is the first?",
        ),
        Misconception(
            "the value itself",
            _overflow_changed(lambda found, activations: _overflows(activations[found])[0]),
            "That is the value that overflows. Return its layer's position.",
        ),
        Misconception(
            "by sums",
            _by_sums,
            "Values overflow one by one: do not add them up.",
        ),
        Misconception(
            "whole layers",
            _whole_layers,
            "One value is enough: a single infinity reaches all values of the next layer.",
        ),
        Misconception(
            "vanishing values too",
            _vanishing_too,
            "A value that is too small for float16 becomes 0. That is underflow, and not asked for.",
        ),
        Misconception(
            "-1 for none",
            _overflow_changed(lambda found, _: found, none=lambda activations: -1),
            "Where nothing overflows there is no position. What does the task return then?",
        ),
        Misconception(
            "0 for none",
            _overflow_changed(lambda found, _: found, none=lambda activations: 0),
            "That is the position of the first layer. Where nothing overflows there is no position.",
        ),
        Misconception(
            "number of layers for none",
            _overflow_changed(lambda found, _: found, none=len),
            "No layer has this position. Where nothing overflows, what does the task return?",
        ),
    ],
    also_right=[_overflow_by_loop, _overflow_by_largest, _overflow_backwards],
)

# --- which format ---------------------------------------------------------------------------------


def _card(title: str, native: Sequence[str], usable_bytes: int) -> dict[str, Any]:
    return {"name": title, "native": list(native), "usable_bytes": usable_bytes}


def real_card(name: str) -> dict[str, Any]:
    """A card of `solutions.hardware` as the task takes it."""
    known = gpu(name)
    assert known.usable_bytes is not None
    return _card(known.title, list(known.peak_flops_per_s), known.usable_bytes)


def _run(name: str, largest: float, wide: int, narrow: int) -> dict[str, Any]:
    peaks = {"float32": wide, "float16": narrow, "bfloat16": narrow}
    return {"name": name, "largest_activation": largest, "peak_bytes": peaks}


# LoRA steps of one sequence of 128 tokens, as PyTorch counts them. The largest activation of the 270M
# model was measured; of the 4B model it is known that it exceeds float16's range, so it is taken as the
# next power of two.
GEMMA_270M = _run("Gemma 3 270M", 103_794.9, 1_668_787_708, 1_119_353_082)
GEMMA_4B = _run("Gemma 3 4B", 65_536.0, 17_425_890_172, 9_513_910_138)
MODEST = _run("a model with small activations", 2_600.0, 9 * GIB, 5 * GIB)
ROUNDED_DOWN = _run("a model at float16's limit", 65_519.0, 7 * GIB, 4 * GIB)
ROUNDED_UP = _run("a model beyond float16's limit", 65_520.0, 7 * GIB, 4 * GIB)

Choice = str | None


def _chosen(
    order: Sequence[str] = BEST_FIRST,
    overflow: bool = True,
    memory: bool = True,
    native: str = "first",
    strict: bool = False,
    limit: float = LIMIT,
) -> Callable[[Mapping[str, Any], Mapping[str, Any]], Choice]:
    """`choose_dtype` with some of its conditions left out. `native`: "first", "alone" (emulated
    formats never) or "ignored"."""

    def answer(gpu: Mapping[str, Any], model: Mapping[str, Any]) -> Choice:
        usable = gpu["usable_bytes"]
        peaks = model["peak_bytes"]
        too_large = model["largest_activation"] >= limit
        will_do = [
            dtype
            for dtype in order
            if not (overflow and dtype == "float16" and too_large)
            and not (memory and (peaks[dtype] >= usable if strict else peaks[dtype] > usable))
        ]
        own = [dtype for dtype in will_do if dtype in gpu["native"]]
        found = {"first": own or will_do, "alone": own, "ignored": will_do}[native]
        return found[0] if found else None

    return answer


def _float16_or_bfloat16(gpu: Mapping[str, Any], model: Mapping[str, Any]) -> Choice:
    """16 bits whatever the card can do: bfloat16 in place of a float16 that overflows."""
    right = precision_choice.choose_dtype(gpu, model)
    fits = model["peak_bytes"]["bfloat16"] <= gpu["usable_bytes"]
    return "bfloat16" if right == "float32" and fits else right


def _for_none(dtype: str) -> Callable[[Mapping[str, Any], Mapping[str, Any]], Choice]:
    """The right choice, and this format where no format will do."""
    return lambda gpu, model: precision_choice.choose_dtype(gpu, model) or dtype


def _never_none(gpu: Mapping[str, Any], model: Mapping[str, Any]) -> Choice:
    return precision_choice.choose_dtype(gpu, model) or _chosen(memory=False)(gpu, model)


def _choose_by_cases(gpu: Mapping[str, Any], model: Mapping[str, Any]) -> Choice:
    usable, peaks, native = gpu["usable_bytes"], model["peak_bytes"], set(gpu["native"])
    halves_fit = peaks["bfloat16"] <= usable
    if "bfloat16" in native and halves_fit:
        return "bfloat16"
    if "float16" in native and model["largest_activation"] < LIMIT and peaks["float16"] <= usable:
        return "float16"
    if "float32" in native and peaks["float32"] <= usable:
        return "float32"
    return "bfloat16" if halves_fit else None


def _choose_by_key(gpu: Mapping[str, Any], model: Mapping[str, Any]) -> Choice:
    """The best by a key: own formats first, then by rank."""
    holds = {"float16": LIMIT, "bfloat16": 3.39e38, "float32": 3.4e38}
    rank = {dtype: place for place, dtype in enumerate(("bfloat16", "float16", "float32"))}
    left = {
        dtype
        for dtype, limit in holds.items()
        if model["largest_activation"] < limit and gpu["usable_bytes"] >= model["peak_bytes"][dtype]
    }
    return min(left, key=lambda dtype: (dtype not in gpu["native"], rank[dtype]), default=None)


def _choose_by_removal(gpu: Mapping[str, Any], model: Mapping[str, Any]) -> Choice:
    left = ["bfloat16", "float16", "float32"]
    if not math.isfinite(stored(float(model["largest_activation"]), "float16")):
        left.remove("float16")
    for dtype in list(left):
        if gpu["usable_bytes"] - model["peak_bytes"][dtype] < 0:
            left.remove(dtype)
    emulated = [dtype for dtype in left if dtype not in gpu["native"]]
    left.sort(key=lambda dtype: dtype in emulated)
    return left[0] if left else None


OLD = ["float32", "float16", "int8"]
NEW = ["float32", "tfloat32", "float16", "bfloat16", "int8"]
NEWEST = [*NEW, "float8_e4m3", "float8_e5m2"]
OLDEST = ["float32"]
# As a P40: whole numbers of 8 bits, and no fast float16.
INTEGERS = ["float32", "int8"]
LARGE, SMALL = "too large for float16", "small enough for float16"
JUST_LARGE, JUST_SMALL = "rounded up to infinity by float16", "rounded down to float16's largest"
ACTIVATIONS = {
    LARGE: (90_000, 900_000),
    SMALL: (300, 30_000),
    JUST_LARGE: (65_521, 65_535),
    JUST_SMALL: (65_505, 65_519),
}
# Card, activations, and which peaks fit: all, the 16-bit ones (by little or by much), none.
SCENES = (
    (OLD, SMALL, "all"),
    (OLD, LARGE, "all"),
    (OLD, LARGE, "16-bit"),
    (OLD, SMALL, "16-bit"),
    (NEW, LARGE, "all"),
    (NEWEST, SMALL, "all"),
    (OLDEST, SMALL, "16-bit"),
    (OLDEST, SMALL, "all"),
    (INTEGERS, SMALL, "all"),
    (OLD, JUST_SMALL, "all"),
    (OLD, JUST_LARGE, "all"),
    (OLDEST, SMALL, "16-bit, by little"),
    (OLD, SMALL, "none"),
    (NEWEST, LARGE, "none"),
)


def _draw_scene(draw: Draw, native: Sequence[str], activations: str, fits: str) -> Case:
    usable = draw.log_integer(6 * GIB, 90 * GIB)
    narrow = round(usable * draw.real(0.3, 0.49))
    wide = round(narrow * draw.real(1.7, 2.0))
    if fits == "16-bit":
        wide = round(usable * draw.real(1.05, 1.9))
    if fits == "16-bit, by little":
        wide = usable + draw.integer(1, 10**5)
    if fits == "none":
        narrow = round(usable * draw.real(1.05, 1.5))
        wide = round(narrow * draw.real(1.7, 2.0))
    largest = draw.real(*ACTIVATIONS[activations])
    card = _card(f"card {draw.integer(10, 99)}", draw.shuffled(native), usable)
    return case(card, _run(f"model {draw.integer(10, 99)}", round(largest, 1), wide, narrow))


def _hidden_choices(draw: Draw) -> list[Case]:
    possible = [_draw_scene(draw, *scene) for scene in SCENES if scene[2] != "none"]
    impossible = [_draw_scene(draw, *scene) for scene in SCENES if scene[2] == "none"]
    return part(POSSIBLE, possible) + part(IMPOSSIBLE, impossible)


def _public_choices() -> list[Case]:
    t4, l4 = real_card("t4"), real_card("l4")
    possible = [
        case(t4, GEMMA_270M),
        case(t4, MODEST),
        case(t4, GEMMA_4B),
        case(l4, GEMMA_4B),
        case(l4, MODEST),
        case(_card("a card without 16-bit units", OLDEST, 8 * GIB), MODEST),
        case(_card("a card of just that size", OLD, 5 * GIB), MODEST),
        case(_card("an old card", OLD, 12 * GIB), ROUNDED_DOWN),
        case(_card("an old card", OLD, 12 * GIB), ROUNDED_UP),
    ]
    small = _card("a small card", NEWEST, 4 * GIB)
    smaller = _card("a small old card", OLD, 4 * GIB)
    return part(POSSIBLE, possible) + part(
        IMPOSSIBLE, [case(small, MODEST), case(smaller, GEMMA_4B)]
    )


choose_dtype = Check(
    reference=precision_choice.choose_dtype,
    public=_public_choices(),
    hidden=_hidden_choices,
    parts={POSSIBLE: 0.85, IMPOSSIBLE: 0.15},
    misconceptions=[
        Misconception(
            "float16 that overflows",
            _chosen(overflow=False),
            "On this card float16 is fast, but this model's activations do not fit in it: they become infinite, and the "
            "loss becomes NaN.",
        ),
        Misconception(
            "limit at 65,504",
            _chosen(limit=math.nextafter(65_504, math.inf)),
            "65,504 is float16's largest number, but what rounds down to it is held as well. The section before task 3 says "
            "from where on a value becomes infinite.",
        ),
        Misconception(
            "limit at 65,536",
            _chosen(limit=65_536),
            "float16 rounds some values below 65,536 up to infinity. The section before task 3 says from which one on, that "
            "one included.",
        ),
        Misconception(
            "by the card alone",
            lambda gpu, model: "bfloat16" if "bfloat16" in gpu["native"] else "float16",
            "You look at the card alone. Can float16 hold the model's activations, and does the run fit?",
        ),
        Misconception(
            "emulation before float32",
            _float16_or_bfloat16,
            "Emulated bfloat16 is slower than the card's own float32. If the run fits in float32, take that.",
        ),
        Misconception(
            "bfloat16 on a card without it",
            _chosen(native="ignored"),
            "This card has no units for bfloat16 and emulates it, slowly. Is there a format of its own that will do?",
        ),
        Misconception(
            "emulation refused",
            _chosen(native="alone"),
            "Emulated bfloat16 is slow, but it works: it is the last resort when no format of the card's own will do.",
        ),
        Misconception(
            "always an answer",
            _never_none,
            "No format leaves a run that fits. What does the task return then?",
        ),
        Misconception(
            "float32 for none",
            _for_none("float32"),
            "Where no format will do, float32 will not do either. What does the task return then?",
        ),
        Misconception(
            "bfloat16 for none",
            _for_none("bfloat16"),
            "Emulated bfloat16 is the last resort, but it has to fit too. What does the task return when it does not?",
        ),
        Misconception(
            "memory ignored",
            _chosen(memory=False),
            "Does the run fit? Compare its peak in this format with what is usable on the card.",
        ),
        Misconception(
            "float32 first",
            _chosen(order=BEST_FIRST[::-1]),
            "float32 will do, but a 16-bit format of the card's own is faster and takes half the memory.",
        ),
        Misconception(
            "float16 before bfloat16",
            _chosen(order=("float16", "bfloat16", "float32")),
            "Where a card has both, bfloat16 comes first: it has float32's range, so small gradients need no scaling.",
        ),
        Misconception(
            "strictly less",
            _chosen(strict=True),
            "A run that takes exactly what is usable fits.",
        ),
        Misconception(
            "the card's first format",
            lambda gpu, model: gpu["native"][0],
            "That is the first entry of the card's list. Which of the three formats will do for this model?",
        ),
        Misconception(
            "the card's last format",
            lambda gpu, model: gpu["native"][-1],
            "The card multiplies this format, but a model is not trained in it. Choose among float32, float16 and "
            "bfloat16.",
        ),
    ],
    also_right=[_choose_by_cases, _choose_by_key, _choose_by_removal],
)

# --- the largest batch ----------------------------------------------------------------------------


def _batches(change: Callable[[float, float, float], float]) -> Callable[..., float]:
    """A wrong largest batch, with bad input refused."""

    def answer(usable_bytes: float, fixed_bytes: float, bytes_per_sequence: float) -> float:
        require_amount(usable_bytes=usable_bytes, fixed_bytes=fixed_bytes)
        require_positive(bytes_per_sequence=bytes_per_sequence)
        return change(usable_bytes, fixed_bytes, bytes_per_sequence)

    return answer


def _counted_past(usable: float, fixed: float, each: float) -> int:
    batch = 0
    while fixed + batch * each <= usable:
        batch += 1
    return batch


def _nothing_refused(usable_bytes: float, fixed_bytes: float, bytes_per_sequence: float) -> int:
    require_positive(usable_bytes=usable_bytes, fixed_bytes=fixed_bytes)
    return precision_choice.largest_batch(usable_bytes, fixed_bytes, bytes_per_sequence)


def _power_of_two(usable: float, fixed: float, each: float) -> int:
    most = precision_choice.largest_batch(usable, fixed, each)
    return int(2 ** math.floor(math.log2(most))) if most else 0


def _by_adding(usable_bytes: float, fixed_bytes: float, bytes_per_sequence: float) -> int:
    if min(usable_bytes, fixed_bytes) < 0 or bytes_per_sequence <= 0:
        raise ValueError
    batch = 0
    while fixed_bytes + (batch + 1) * bytes_per_sequence <= usable_bytes:
        batch += 1
    return batch


def _by_fractions(usable_bytes: float, fixed_bytes: float, bytes_per_sequence: float) -> float:
    if usable_bytes < 0 or fixed_bytes < 0 or not bytes_per_sequence > 0:
        raise ValueError((usable_bytes, fixed_bytes, bytes_per_sequence))
    left = Fraction(usable_bytes) - Fraction(fixed_bytes)
    return float(max(0, math.floor(left / Fraction(bytes_per_sequence))))


def _by_comparing(usable_bytes: float, fixed_bytes: float, bytes_per_sequence: float) -> int:
    if usable_bytes < 0 or fixed_bytes < 0:
        raise ValueError("negative")
    if bytes_per_sequence <= 0:
        raise ValueError("a sequence takes something")
    if fixed_bytes >= usable_bytes:
        return 0
    return math.floor((usable_bytes - fixed_bytes) / bytes_per_sequence)


def _hidden_batches(draw: Draw) -> list[Case]:
    def room(batch: int, over: float) -> Case:
        fixed, each = draw.log_integer(10**9, 2 * 10**10), draw.log_integer(10**7, 2 * 10**9)
        return case(fixed + batch * each + round(over * each), fixed, each)

    numbers = [
        room(draw.integer(9, 15), draw.real(0.6, 0.9)),
        room(draw.integer(17, 31), draw.real(0.1, 0.4)),
        room(draw.integer(5, 7), 0.0),
    ]
    fixed, each = draw.log_integer(10**9, 10**10), draw.log_integer(10**7, 10**9)
    numbers += [
        case(fixed + draw.integer(8, 20) * each - 1, fixed, each),  # one byte short
        case(draw.integer(40, 90) * each, 0, each),
    ]
    full = draw.log_integer(10**9, 10**10)
    short = case(full, full + draw.integer(10**9, 3 * 10**9), draw.integer(10**7, 10**8))
    none = [room(0, draw.real(0.2, 0.4)), room(0, draw.real(0.6, 0.9)), short, case(0, fixed, each)]
    bad = [case(full, -draw.integer(1, 10**9), 1000), case(full, 0, 0), case(full, 0, -each)]
    return part(NUMBERS, numbers) + part(NONE_FITS, none) + part(BAD_INPUT, bad)


largest_batch = Check(
    reference=precision_choice.largest_batch,
    public=[
        *part(
            NUMBERS,
            [
                case(100, 40, 16),
                case(100, 36, 16),
                case(100, 40, 25),
                case(1000, 40, 3),
                case(100, 0, 16),
            ],
        ),
        *part(NONE_FITS, [case(50, 40, 16), case(30, 40, 16), case(30, 80, 16), case(0, 40, 16)]),
        *part(BAD_INPUT, [case(100, 40, 0), case(-1, 0, 16), case(100, -40, 16)]),
    ],
    hidden=_hidden_batches,
    parts={NUMBERS: 0.7, NONE_FITS: 0.2, BAD_INPUT: 0.1},
    misconceptions=[
        Misconception(
            "what is fixed forgotten",
            _batches(lambda usable, fixed, each: usable // each),
            "The weights and the optimizer are on the card too. Take what is fixed off first.",
        ),
        Misconception(
            "what is fixed charged to each sequence",
            _batches(lambda usable, fixed, each: usable // (fixed + each)),
            "The weights are there once, not once for each sequence.",
        ),
        Misconception(
            "rounded",
            _batches(lambda usable, fixed, each: max(0, round((usable - fixed) / each))),
            "You round to the nearest. A sequence that almost fits does not fit.",
        ),
        Misconception(
            "rounded up",
            _batches(lambda usable, fixed, each: max(0, math.ceil((usable - fixed) / each))),
            "You round up: the last sequence does not fit whole.",
        ),
        Misconception(
            "parts of sequences",
            _batches(lambda usable, fixed, each: max(0.0, (usable - fixed) / each)),
            "A batch has whole sequences.",
        ),
        Misconception(
            "one more",
            _batches(_counted_past),
            "This is the first batch that does not fit. Which is the last one that does?",
        ),
        Misconception(
            "one less than the first that fails",
            _batches(lambda usable, fixed, each: _counted_past(usable, fixed, each) - 1),
            "When what is fixed does not fit, no sequence does: a batch is never negative.",
        ),
        Misconception(
            "distance in place of the rest",
            _batches(lambda usable, fixed, each: abs(usable - fixed) // each),
            "What is fixed may be larger than what is usable. Nothing is left then, whatever the distance.",
        ),
        Misconception(
            "nothing refused",
            _nothing_refused,
            "0 bytes, usable or fixed, are no bad input: refuse what is below 0 alone.",
        ),
        Misconception(
            "negative batch",
            _batches(lambda usable, fixed, each: (usable - fixed) // each),
            "When what is fixed does not fit, no sequence does.",
        ),
        Misconception(
            "at least one",
            _batches(lambda usable, fixed, each: max(1, (usable - fixed) // each)),
            "If not one sequence fits, the answer is none.",
        ),
        Misconception(
            "one fewer",
            _batches(lambda usable, fixed, each: max(0, math.ceil((usable - fixed) / each) - 1)),
            "A batch that takes exactly what is usable fits.",
        ),
        Misconception(
            "a power of two",
            _batches(_power_of_two),
            "Batches need not be powers of two. Return the most that fit.",
        ),
        Misconception(
            "bytes left",
            _batches(lambda usable, fixed, each: max(0, usable - fixed)),
            "Those are the bytes that are left. How many sequences is that?",
        ),
    ],
    also_right=[_by_adding, _by_fractions, _by_comparing],
)

# --- predict a peak -------------------------------------------------------------------------------

Pairs = Sequence[Sequence[float]]
# Of a real model's training step: size, method, dtype, tokens in a sequence, checkpointing, and peaks by
# batch. Counted by PyTorch in `gradelib.measure.SimulatedGPU`, after one step, with AdamW and rank 16.
Steps = dict[int, int]
MEASURED: dict[tuple[str, str, str, int, bool], Steps] = {
    ("4b", "lora", "bfloat16", 128, False): {
        1: 9_513_910_138,
        2: 10_908_263_290,
        5: 15_091_322_746,
        6: 16_485_675_898,
    },
    ("270m", "full", "float32", 256, False): {
        2: 5_560_146_876,
        3: 6_730_993_596,
        5: 9_072_687_036,
        8: 12_585_227_196,
    },
    ("270m", "full", "bfloat16", 512, False): {
        2: 5_864_121_530,
        4: 10_118_378_682,
        7: 16_499_764_410,
    },
    ("270m", "lora", "bfloat16", 1024, False): {
        1: 4_912_390_394,
        3: 13_569_007_866,
        6: 26_553_934_074,
    },
    ("1b", "lora", "bfloat16", 512, False): {1: 5_449_754_298, 2: 8_741_603_002, 6: 21_908_997_818},
    ("1b", "lora", "float32", 128, False): {1: 5_072_652_220, 4: 7_819_149_244, 7: 10_565_646_268},
    ("1b", "qlora", "bfloat16", 256, True): {2: 2_765_133_442, 4: 4_408_782_466, 9: 8_517_905_026},
}
# The notebook measures the first of these.
SHOWN = [("4b", "lora", "bfloat16", 128, False)]


def _line(measured: Pairs) -> tuple[float, float]:
    """What is fixed, and what each sequence adds."""
    (first, first_peak), (second, second_peak) = measured
    if first == second:
        raise ValueError
    each = (second_peak - first_peak) / (second - first)
    return first_peak - first * each, each


def _peaks(change: Callable[[Pairs, int, float, float], float]) -> Callable[[Pairs, int], float]:
    """A wrong prediction of the two pairs, the batch, and the line through the pairs."""
    return lambda measured, batch: change(measured, batch, *_line(measured))


def _peak_by_parts(measured: Pairs, batch: int) -> float:
    fixed, each = _line(measured)
    return fixed + each * batch


def _peak_by_weights(measured: Pairs, batch: int) -> float:
    (first, low), (second, high) = sorted(map(tuple, measured))
    if second == first:
        raise ValueError("the same batch twice")
    share = Fraction(batch - int(first), int(second) - int(first))
    return float((1 - share) * int(low) + share * int(high))


def _peak_from_the_second(measured: Pairs, batch: int) -> int:
    (first, low), (second, high) = measured
    if first == second:
        raise ValueError((first, second))
    return round(high + (high - low) * (batch - second) / (second - first))


def _asked(steps: Steps, low: int, high: int, batch: int) -> Case:
    return case([[low, steps[low]], [high, steps[high]]], batch)


def _hidden_peaks(draw: Draw) -> list[Case]:
    rows = [steps for key, steps in MEASURED.items() if key not in SHOWN]
    cases = []
    for steps in draw.some(rows, 4):
        low, high, *others = sorted(steps)
        cases.append(_asked(steps, low, high, draw.one(others)))
    fixed, each = draw.log_integer(10**9, 10**10), draw.log_integer(10**7, 10**9)
    for first, second in ((2, 5), (4, 1)):
        batches = [first + draw.integer(0, 1) * 7, second + draw.integer(0, 1) * 7]
        pairs = [[each_batch, fixed + each_batch * each] for each_batch in batches]
        cases.append(case(pairs, draw.integer(20, 60)))
    same = draw.integer(2, 9)
    bad = case([[same, fixed], [same, fixed + draw.integer(1, 10**6)]], draw.integer(10, 20))
    return part(NUMBERS, cases) + part(BAD_INPUT, [bad])


def _public_peaks() -> list[Case]:
    shown = MEASURED[SHOWN[0]]
    numbers = [
        case([[1, 70], [3, 90]], 5),
        case([[4, 130], [2, 110]], 1),
        case([[2, 80], [4, 100]], 10),
        _asked(shown, 1, 2, 5),
    ]
    return part(NUMBERS, numbers) + part(BAD_INPUT, [case([[3, 70], [3, 71]], 5)])


predicted_peak_bytes = Check(
    reference=precision_choice.predicted_peak_bytes,
    public=_public_peaks(),
    hidden=_hidden_peaks,
    tolerance=relative(0.01),
    parts={NUMBERS: 0.9, BAD_INPUT: 0.1},
    misconceptions=[
        Misconception(
            "in proportion to the batch",
            _peaks(lambda measured, batch, fixed, each: measured[0][1] / measured[0][0] * batch),
            "You scale the whole peak with the batch. The weights do not grow with it.",
        ),
        Misconception(
            "in proportion to the second batch",
            _peaks(lambda measured, batch, fixed, each: measured[1][1] / measured[1][0] * batch),
            "You scale the whole of the second peak with the batch. The weights do not grow with it.",
        ),
        Misconception(
            "distance of the batches forgotten",
            _peaks(
                lambda measured, batch, fixed, each: (
                    measured[0][1] + (batch - measured[0][0]) * (measured[1][1] - measured[0][1])
                )
            ),
            "The two batches differ by more than one sequence. What does one sequence add?",
        ),
        Misconception(
            "first peak taken as fixed",
            _peaks(lambda measured, batch, fixed, each: measured[0][1] + batch * each),
            "The first peak holds sequences already. Add only those that are new.",
        ),
        Misconception(
            "second peak taken as fixed",
            _peaks(lambda measured, batch, fixed, each: measured[1][1] + batch * each),
            "The second peak holds sequences already. Add only those that are new.",
        ),
        Misconception(
            "counted from one sequence",
            _peaks(lambda measured, batch, fixed, each: measured[0][1] + (batch - 1) * each),
            "The first pair need not be a batch of one. How many sequences more are asked for?",
        ),
        Misconception(
            "what is fixed forgotten",
            _peaks(lambda measured, batch, fixed, each: batch * each),
            "That is what the sequences add. What is there without any of them?",
        ),
        Misconception(
            "what is fixed alone",
            _peaks(lambda measured, batch, fixed, each: fixed),
            "That is what is there without any sequence. Add the sequences.",
        ),
        Misconception(
            "what a sequence adds",
            _peaks(lambda measured, batch, fixed, each: each),
            "That is what one sequence adds. What is the peak?",
        ),
        Misconception(
            "the larger one",
            _peaks(lambda measured, batch, fixed, each: max(peak for _, peak in measured)),
            "That was measured already, with another batch.",
        ),
        Misconception(
            "in GiB",
            _peaks(lambda measured, batch, fixed, each: (fixed + batch * each) / GIB),
            "Return bytes, not GiB.",
        ),
        Misconception(
            "doubled each time",
            _peaks(
                lambda measured, batch, fixed, each: (
                    measured[0][1]
                    * (measured[1][1] / measured[0][1])
                    ** ((batch - measured[0][0]) / (measured[1][0] - measured[0][0]))
                )
            ),
            "You let the peak grow by the same factor each time. Each sequence adds the same number of bytes.",
        ),
    ],
    also_right=[_peak_by_parts, _peak_by_weights, _peak_from_the_second],
)
