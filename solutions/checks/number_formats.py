"""Checks of exercise 21: decode and encode a format, its limits, its bytes, sums that swamp.

The wrong answers are the right algorithm with one step changed, so each differs from the reference
in that step alone. None of them tests its arguments: an answer that does is recognised all the same.
"""

# ruff: noqa: ARG005 - it is the mistake of many a wrong answer that it ignores an argument

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from gradelib.checks import Case, Check, Misconception, case, part
from gradelib.compare import exact, same_bits
from gradelib.draw import Draw
from solutions import formats

# Formats that the notebook names. Hidden cases draw others, so a table of these is no answer.
NAMED = {named.key for named in formats.FORMATS.values()}
UNKNOWN_SPECIALS = ("fnuz", "posit", "none", "e4m3")
UNKNOWN_OVERFLOWS = ("wrap", "zero", "largest", "clip")

# The ends of float64, of which `encode` takes any value.
HUGE, TINIEST = sys.float_info.max, math.ulp(0.0)

NORMAL = "normal numbers"
SMALL = "zero and subnormals"
SPECIAL = "special codes"
OVERFLOW = "overflow and NaN"
BAD_INPUT = "bad input"

Key = tuple[int, int, str]


def _draw_format(draw: Draw, specials: str) -> Key:
    """A format with these specials that the notebook does not name."""
    while True:
        key = (draw.integer(3, 7), draw.integer(3, 12), specials)
        if key not in NAMED and key[0] != key[1]:
            return key


def _draw_edge_formats(draw: Draw) -> list[Key]:
    """Of each kind: the most exponent bits, the fewest mantissa bits, and as many of both."""
    keys: list[Key] = []
    for specials in formats.OVERFLOWS:
        alike = draw.integer(3, 7)
        keys += [(8, draw.one([3, 9, 11, 12]), specials), (draw.integer(3, 7), 1, specials)]
        keys += [(alike, alike, specials)]
    return keys


def _draw_formats(draw: Draw) -> list[Key]:
    """One format of each kind."""
    return [_draw_format(draw, specials) for specials in formats.OVERFLOWS]


def _bias(exponent_bits: int) -> int:
    return (1 << (exponent_bits - 1)) - 1


def _ones(bits: int) -> int:
    return (1 << bits) - 1


# --- decode -----------------------------------------------------------------------------------


def _wrong_decoder(
    *,
    bias: Callable[[int], int] = _bias,
    hidden_bit: int = 1,
    subnormals: str = "right",
    special_rule: str | None = None,
    signed: bool = True,
    signed_zero: bool = True,
    scale: Callable[[int], int] = lambda mantissa_bits: 2**mantissa_bits,
) -> Callable[..., float]:
    """`decode` with one of its steps changed."""

    def decode(bits: int, exponent_bits: int, mantissa_bits: int, specials: str = "ieee") -> float:
        rule = special_rule or specials
        sign = -1.0 if signed and bits >> (exponent_bits + mantissa_bits) & 1 else 1.0
        exponent = bits >> mantissa_bits & _ones(exponent_bits)
        mantissa = bits & _ones(mantissa_bits)
        if exponent == _ones(exponent_bits):
            if rule == "ieee":
                return math.nan if mantissa else sign * math.inf
            if rule == "fn" and mantissa == _ones(mantissa_bits):
                return math.nan
        b = bias(exponent_bits)
        fraction = mantissa / scale(mantissa_bits)
        if exponent == 0 and subnormals == "flushed":
            return sign * 0.0
        if exponent == 0 and subnormals not in ("hidden bit", "as normal"):
            small = fraction * 2.0 ** (-b if subnormals == "exponent −b" else 1 - b)
            return sign * small if small or signed_zero else 0.0
        if not bits & _ones(exponent_bits + mantissa_bits) and subnormals != "as normal":
            return sign * 0.0  # many a learner who forgets subnormals still knows zero
        return sign * (hidden_bit + fraction) * 2.0 ** (exponent - b)

    return decode


def _decode_fp16_always(
    bits: int, exponent_bits: int, mantissa_bits: int, specials: str = "ieee"
) -> float:
    del exponent_bits, mantissa_bits, specials
    return formats.decode(bits & 0xFFFF, 5, 10)


def _decode_swapped(
    bits: int, exponent_bits: int, mantissa_bits: int, specials: str = "ieee"
) -> float:
    return _wrong_decoder()(bits, mantissa_bits, exponent_bits, specials)


def _decode_by_text(
    bits: int, exponent_bits: int, mantissa_bits: int, specials: str = "ieee"
) -> float:
    width = 1 + exponent_bits + mantissa_bits
    if specials not in ("ieee", "fn", "finite") or bits < 0 or bits >= 1 << width:
        raise ValueError("no such pattern")
    text = f"{bits:0{width}b}"
    sign, exponent, mantissa = text[0], text[1 : 1 + exponent_bits], text[1 + exponent_bits :]
    special = {
        "ieee": "0" not in exponent,
        "fn": "0" not in exponent + mantissa,
        "finite": False,
    }[specials]
    if special and (specials == "fn" or "1" in mantissa):
        return float("nan")
    if special:
        return float("-inf" if sign == "1" else "inf")
    power = max(int(exponent, 2), 1) - (2 ** (exponent_bits - 1) - 1)
    value = 1.0 if "1" in exponent else 0.0
    for place, digit in enumerate(mantissa, start=1):
        value += int(digit) / 2**place
    return float(sign.replace("0", "+").replace("1", "-") + repr(value * 2.0**power))


def _decode_by_fraction(
    bits: int, exponent_bits: int, mantissa_bits: int, specials: str = "ieee"
) -> float:
    if specials not in ("ieee", "fn", "finite"):
        raise ValueError(specials)
    sign, rest = divmod(bits, 1 << (exponent_bits + mantissa_bits))
    if sign not in (0, 1):
        raise ValueError(bits)
    exponent, mantissa = divmod(rest, 1 << mantissa_bits)
    last, full = exponent == (1 << exponent_bits) - 1, mantissa == (1 << mantissa_bits) - 1
    if specials == "ieee" and last and mantissa == 0:
        return (math.inf, -math.inf)[sign]
    if (specials == "ieee" and last) or (specials == "fn" and last and full):
        return math.nan
    hidden = 0 if exponent == 0 else 1 << mantissa_bits
    power = max(exponent, 1) - (1 << (exponent_bits - 1)) + 1 - mantissa_bits
    return math.copysign(float(Fraction(hidden + mantissa) * Fraction(2) ** power), -sign or 1)


class _Numpyish(float):
    """A subclass of float, as NumPy's float64 is."""


def _decode_as_subclass(*args: Any, **kwargs: Any) -> float:
    return _Numpyish(formats.decode(*args, **kwargs))


def _special_codes(draw: Draw, exponent_bits: int, mantissa_bits: int) -> list[int]:
    """Every code that is special under some `specials`, with both signs, and its neighbours."""
    top = _ones(exponent_bits) << mantissa_bits
    middle = 1 << (mantissa_bits - 1)
    # With the mantissa's highest bit and without it: NaN is NaN with any mantissa but 0.
    mantissas = [0, 1, draw.integer(1, max(1, middle - 1)), draw.integer(middle, 2 * middle - 1)]
    mantissas += [2 * middle - 2, 2 * middle - 1]
    codes = dict.fromkeys(top + mantissa for mantissa in mantissas)
    sign_bit = 1 << (exponent_bits + mantissa_bits)
    return [sign + code for code in codes for sign in (0, sign_bit)]


def _hidden_decode(draw: Draw) -> list[Case]:
    """Every kind of pattern of one format of each kind; of the formats at the edges, those that their
    widths could make a difference to."""
    cases: list[Case] = []
    for key in _draw_formats(draw):
        exponent_bits, mantissa_bits, _ = key
        sign_bit = 1 << (exponent_bits + mantissa_bits)
        highest = _ones(mantissa_bits)
        some = [_normal_code(draw, key) for _ in range(3)]
        normal = [some[0], some[1], sign_bit + some[0], sign_bit + some[2], highest + 1]
        cases += part(NORMAL, [case(bits, *key) for bits in normal])
        small = [1, sign_bit + 1, highest, sign_bit + draw.integer(1, highest), sign_bit, 0]
        cases += part(SMALL, [case(bits, *key) for bits in small])
        codes = _special_codes(draw, exponent_bits, mantissa_bits)
        cases += part(SPECIAL, [case(bits, *key) for bits in codes])
        bad = [2 * sign_bit + draw.integer(0, 9), 2 * sign_bit, -draw.integer(1, sign_bit)]
        cases += part(BAD_INPUT, [case(bits, *key) for bits in bad])
        unknown = draw.one(UNKNOWN_SPECIALS)
        cases += part(BAD_INPUT, [case(some[0], exponent_bits, mantissa_bits, unknown)])
    for key in _draw_edge_formats(draw):
        exponent_bits, mantissa_bits, _ = key
        sign_bit = 1 << (exponent_bits + mantissa_bits)
        top, highest = _ones(exponent_bits) << mantissa_bits, _ones(mantissa_bits)

        def signed(code: int, bit: int = sign_bit) -> int:
            return code + draw.one([0, bit])

        cases += part(NORMAL, [case(signed(_normal_code(draw, key)), *key)])
        cases += part(SMALL, [case(signed(draw.integer(1, highest)), *key)])
        others = dict.fromkeys([top, top + draw.integer(1, highest), top + highest])
        cases += part(SPECIAL, [case(signed(code), *key) for code in others])
    wide = [(8, 23, "ieee"), (8, 7, "ieee")]
    cases += part(NORMAL, [case(draw.integer(1 << key[1], 250 << key[1]), *key) for key in wide])
    cases += part(SMALL, [case(draw.integer(2, _ones(key[1])), *key) for key in wide])
    cases += part(SMALL, [case((1 << 31) + draw.integer(2, _ones(23)), *wide[0])])
    return cases


def _normal_code(draw: Draw, key: Key) -> int:
    """A positive normal number that is no power of two."""
    field = draw.integer(1, _ones(key[0]) - 1)
    return (field << key[1]) + draw.integer(1, _ones(key[1]))


decode = Check(
    reference=formats.decode,
    public=[
        *part(
            NORMAL, [case(0x3E00, 5, 10), case(0xC500, 5, 10), case(0x4049, 8, 7), case(9, 2, 3)]
        ),
        *part(SMALL, [case(0x0001, 5, 10), case(0x8000, 5, 10), case(0x03, 5, 2)]),
        *part(
            SPECIAL,
            [
                case(0x7C00, 5, 10),
                case(0x7E01, 5, 10),
                case(0x7E, 4, 3, "fn"),
                case(0x7F, 4, 3, "fn"),
                case(0xF, 2, 1, "finite"),
            ],
        ),
        *part(BAD_INPUT, [case(256, 4, 3, "fn"), case(-1, 5, 10), case(0, 5, 10, "unum")]),
    ],
    hidden=_hidden_decode,
    tolerance=same_bits,
    parts={NORMAL: 0.5, SMALL: 0.2, SPECIAL: 0.2, BAD_INPUT: 0.1},
    misconceptions=[
        Misconception(
            "accepts bad input",
            _wrong_decoder(),
            "The values are right, but a pattern that does not fit in the format, or an unknown "
            "`specials`, is accepted. Raise ValueError for both.",
        ),
        Misconception(
            "subnormal exponent one too small",
            _wrong_decoder(subnormals="exponent −b"),
            "The subnormals go on in the steps of the smallest normal numbers, so both have the same "
            "exponent. Which one is it?",
        ),
        Misconception(
            "bias one too large",
            _wrong_decoder(bias=lambda e: 2 ** (e - 1)),
            "Your bias is one too large. With 5 exponent bits the field 15 means 2⁰.",
        ),
        Misconception(
            "bias 2^e",
            _wrong_decoder(bias=lambda e: 2**e),
            "Your bias takes all values of the exponent field below zero. It sits in the middle of the "
            "field's range, so that half of the exponents are negative.",
        ),
        Misconception(
            "hidden bit forgotten",
            _wrong_decoder(hidden_bit=0),
            "A normal number has a leading 1 that is not stored. Where does your formula add it?",
        ),
        Misconception(
            "mantissa divided by one less",
            _wrong_decoder(scale=lambda m: 2**m - 1),
            "The mantissa field counts steps of 1 / 2^mantissa_bits. It never reaches a whole 1.",
        ),
        Misconception(
            "subnormals flushed to zero",
            _wrong_decoder(subnormals="flushed"),
            "An exponent field of 0 is not always zero: the mantissa still counts. What is it worth there?",
        ),
        Misconception(
            "subnormals given the hidden bit",
            _wrong_decoder(subnormals="hidden bit"),
            "With an exponent field of 0 there is no hidden 1. Otherwise nothing could come near zero.",
        ),
        Misconception(
            "normal formula at field 0",
            _wrong_decoder(subnormals="as normal"),
            "You use the formula of the normal numbers for the exponent field 0 too, so that even the pattern "
            "of all zeros is not zero. The table has another formula for that field.",
        ),
        Misconception(
            "infinities in every format",
            _wrong_decoder(special_rule="ieee"),
            "You read the top exponent as infinity and NaN in every format. `fn` and `finite` use those "
            "codes for numbers.",
        ),
        Misconception(
            "NaN read as a number",
            _wrong_decoder(special_rule="finite"),
            "Some codes are not numbers. Which ones are they under `ieee`, and which one under `fn`?",
        ),
        Misconception(
            "−0 lost",
            _wrong_decoder(signed_zero=False),
            "Zero has a sign too: a pattern with only the sign bit set is −0.0. `==` does not tell the "
            "two apart, `math.copysign` does.",
        ),
        Misconception(
            "sign ignored",
            _wrong_decoder(signed=False),
            "The highest bit is the sign. A pattern that has it set stands for a negative number.",
        ),
        Misconception(
            "every format read as FP16",
            _decode_fp16_always,
            "You cut every pattern as FP16. BF16 has as many bits, but cuts them elsewhere: use the widths "
            "that you are given.",
        ),
        Misconception(
            "widths swapped",
            _decode_swapped,
            "You took the exponent's width for the mantissa's, and the other way round. The exponent field "
            "comes first.",
        ),
    ],
    also_right=[_decode_by_text, _decode_by_fraction, _decode_as_subclass],
)


# --- encode -----------------------------------------------------------------------------------


def _half_up(value: float) -> int:
    return math.floor(value + 0.5)


def _wrong_encoder(
    *,
    rounding: Callable[[float], int] = round,
    bias: Callable[[int], int] = _bias,
    hidden_bit_stored: bool = False,
    small_rounding: Callable[[float], int] | None = None,
    subnormals: str = "right",
    carry: bool = True,
    signed_zero: bool = True,
    early_overflow: bool = False,
    special_rule: str | None = None,
    overflow_rule: str | None = None,
    nan_by_equality: bool = False,
) -> Callable[..., int]:
    """`encode` with one of its steps changed."""

    def encode(
        value: float,
        exponent_bits: int,
        mantissa_bits: int,
        specials: str = "ieee",
        overflow: str = "infinity",
    ) -> int:
        specials = special_rule or specials
        overflow = overflow_rule or overflow
        e, m, b = exponent_bits, mantissa_bits, bias(exponent_bits)
        largest = _ones(e + m) - {"ieee": 1 << m, "fn": 1}.get(specials, 0)
        nan = _ones(e + m) - (_ones(m - 1) if specials == "ieee" else 0)
        if math.isnan(value) and not nan_by_equality:
            return nan
        sign = (math.copysign(1.0, value) < 0) << (e + m)
        if value == 0:
            return sign if signed_zero else 0
        if math.isinf(value):
            code = largest + 1
        else:
            own = math.frexp(value)[1] - 1
            exponent = max(own, 1 - b)
            if own < 1 - b and subnormals == "flushed":
                return sign
            if own < 1 - b and subnormals == "hidden bit":
                return sign + rounding(math.ldexp(abs(value), m - own)) % (1 << m)
            to_whole = small_rounding if small_rounding and own < 1 - b else rounding
            steps = to_whole(math.ldexp(abs(value), m - exponent))
            if not carry and steps == 2 << m:
                steps = 1 << m
            if hidden_bit_stored and own >= 1 - b:
                steps = (1 << m) + steps // 2
            code = ((exponent + b - 1) << m) + steps
            ceiling = formats.decode(largest, e, m, "finite")
            if early_overflow and abs(value) > ceiling:
                code = largest + 1
        if code <= largest:
            return sign + code
        if overflow == "nan":
            return nan
        return sign + (largest + 1 if overflow == "infinity" else largest)

    return encode


def _checked(specials: str, overflow: str) -> None:
    legal = {"ieee": ["infinity", "saturate", "nan"], "fn": ["saturate", "nan"]}
    if overflow not in (legal | {"finite": ["saturate"]}).get(specials, []):
        raise ValueError("not a rule of this format")


def _encode_by_search(
    value: float,
    exponent_bits: int,
    mantissa_bits: int,
    specials: str = "ieee",
    overflow: str = "infinity",
) -> int:
    """The nearest of all values, found by halving: patterns of positive numbers are in order."""
    _checked(specials, overflow)
    all_ones = (1 << (exponent_bits + mantissa_bits)) - 1
    last = all_ones - {"ieee": 1 << mantissa_bits, "fn": 1, "finite": 0}[specials]
    nan = all_ones - ((1 << (mantissa_bits - 1)) - 1 if specials == "ieee" else 0)
    if value != value:
        if specials == "finite":
            raise ValueError("no NaN here")
        return nan
    sign = int(str(value).startswith("-")) << (exponent_bits + mantissa_bits)

    def positive(code: int) -> Fraction:
        field, mantissa = divmod(code, 1 << mantissa_bits)
        power = max(field, 1) - (2 ** (exponent_bits - 1) - 1) - mantissa_bits
        steps = mantissa + (1 << mantissa_bits if field else 0)
        return Fraction(steps * 2**power) if power > 0 else Fraction(steps, 2**-power)

    low, high = 0, last + 1
    if abs(value) != math.inf:
        wanted = Fraction(abs(value))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if positive(middle) <= wanted else (low, middle)
        below, above = wanted - positive(low), positive(high) - wanted
        low = low if below < above or (below == above and low % 2 == 0) else high
    else:
        low = last + 1
    if low <= last:
        return sign | low
    return {"infinity": sign | last + 1, "saturate": sign | last, "nan": nan}[overflow]


def _encode_by_steps(
    value: float,
    exponent_bits: int,
    mantissa_bits: int,
    specials: str = "ieee",
    overflow: str = "infinity",
) -> int:
    """Normal and subnormal numbers apart, ties by hand, the three fields put together at the end."""
    _checked(specials, overflow)
    if math.isnan(value) and specials == "finite":
        raise ValueError("no NaN here")
    highest = 2**exponent_bits - 1
    nan = (0, highest, 2 ** (mantissa_bits - 1) if specials == "ieee" else 2**mantissa_bits - 1)
    sign = 1 if math.copysign(1, value) == -1 else 0
    if specials == "ieee":
        most = (highest - 1, 2**mantissa_bits - 1)
    else:
        most = (highest, 2**mantissa_bits - (2 if specials == "fn" else 1))
    beyond = {"infinity": (sign, highest, 0), "saturate": (sign, *most), "nan": nan}[overflow]
    bias = 2 ** (exponent_bits - 1) - 1
    if math.isnan(value):
        fields = nan
    elif math.isinf(value):
        fields = beyond
    else:
        rest, power = Fraction(abs(value)), 1 - bias
        rest /= Fraction(2) ** power
        while rest >= 2:
            rest, power = rest / 2, power + 1
        count, left = divmod(rest * 2**mantissa_bits, 1)
        if left > Fraction(1, 2) or (left == Fraction(1, 2) and count % 2 == 1):
            count += 1
        if count == 2 ** (mantissa_bits + 1):
            count, power = Fraction(2**mantissa_bits), power + 1
        normal = count >= 2**mantissa_bits
        field = power + bias if normal else 0
        fields = (sign, field, int(count) - (2**mantissa_bits if normal else 0))
        fields = fields if fields[1:] <= most else beyond
    return int(f"{fields[0]:b}{fields[1]:0{exponent_bits}b}{fields[2]:0{mantissa_bits}b}", 2)


def _encode_as_float(*args: Any, **kwargs: Any) -> float:
    return float(formats.encode(*args, **kwargs))


def _midpoint(code: int, key: Key) -> float:
    """Halfway between two neighbours; exact, since no format has more than 13 digits here."""
    low, high = (formats.decode(each, key[0], key[1], "finite") for each in (code, code + 1))
    return (low + high) / 2


def _next(value: float, up: bool) -> float:
    """The next number: float32 cannot tell it from `value`."""
    return math.nextafter(value, math.inf if up else -math.inf)


def _both(value: float) -> tuple[float, float]:
    return value, -value


def _hidden_encode(draw: Draw) -> list[Case]:
    cases: list[Case] = []
    formats_drawn = _draw_formats(draw)
    for key in formats_drawn:
        _, mantissa_bits, specials = key
        rules = formats.OVERFLOWS[specials]
        rule = rules[0]
        sign = draw.one([-1.0, 1.0])
        limit = formats.largest_finite(*key)
        last = formats.encode(limit, *key, "saturate")
        bias = _bias(key[0])

        def even_code(low: int, high: int) -> int:
            return 2 * draw.integer(low // 2 + 1, high // 2 - 1)

        first = 1 << mantissa_bits
        power = draw.integer(2 - bias, bias - 2)
        even, odd = even_code(first, last), even_code(first, last) + 1
        normal = [
            sign * math.ldexp(draw.real(1, 2), draw.integer(2 - bias, bias - 2)),
            -sign * math.ldexp(draw.real(1, 2), draw.integer(2 - bias, bias - 2)),
            _midpoint(even, key),
            -_midpoint(odd, key),
            math.ldexp(2 - 2.0 ** -(mantissa_bits + 3), power),
            # Beside a tie, on the side to which it does not round.
            _next(_midpoint(even, key), up=True),
            -_next(_midpoint(odd, key), up=False),
        ]
        cases += part(NORMAL, [case(value, *key, rule) for value in normal])
        smallest = formats.smallest_subnormal(*key)
        small_even = 2 * draw.integer(0, first // 2 - 1)
        small_odd = 2 * draw.integer(0, first // 2 - 1) + 1
        small = [
            sign * draw.real(1.6, first - 1) * smallest,
            _midpoint(small_even, key),
            _midpoint(small_odd, key),
            -draw.real(0.1, 0.45) * smallest,
            -0.0,
            0.0,
            -_next(_midpoint(small_even, key), up=True),
            _next(_midpoint(small_odd, key), up=False),
            # Subnormals that round up to the smallest normal number.
            sign * (first - draw.real(0.1, 0.4)) * smallest,
            -sign * _midpoint(first - 1, key),
            TINIEST,
            -TINIEST,
        ]
        cases += part(SMALL, [case(value, *key, rule) for value in small])
        # Half a step above the largest: the first value that may round beyond it.
        edge = limit + math.ldexp(1, math.frexp(limit)[1] - 2 - mantissa_bits)
        goes_over = last % 2 == 1
        cases += part(OVERFLOW, [case(value, *key, rule) for value in _both(limit)])
        large = [
            sign * (limit + draw.real(0.6, 0.9) * (edge - limit)),
            -sign * _next(edge, up=False),
            sign * edge if goes_over else sign * _next(edge, up=True),
            -sign * _next(edge, up=True),
            *_both(limit * draw.real(2.5, 40)),
            *_both(draw.real(0.5, 1) * HUGE),
            *_both(math.inf),
        ]
        cases += part(OVERFLOW, [case(value, *key, each) for each in rules for value in large])
        if not goes_over:
            cases += part(OVERFLOW, [case(-sign * edge, *key, rule)])
        if specials != "finite":
            cases += part(OVERFLOW, [case(math.nan, *key, each) for each in rules])
        else:
            cases += part(BAD_INPUT, [case(math.nan, *key, rule)])
    cases += part(BAD_INPUT, _bad_names(draw, formats_drawn))
    value = math.ldexp(draw.real(1, 2), draw.integer(-100, 100))
    cases += part(NORMAL, [case(value, 8, 23), case(-value, 8, 7), case(value, 8, 10)])
    value = math.ldexp(draw.real(3, 1000), -149)
    return cases + part(SMALL, [case(value, 8, 23), case(-value * 2**16, 8, 7)])


def _bad_names(draw: Draw, keys: Sequence[Key]) -> list[Case]:
    """Names that there are not, and rules that a format cannot follow. They are refused whatever the
    value is, even where they make no difference."""
    cases: list[Case] = []
    for exponent_bits, mantissa_bits, specials in keys:
        key = (exponent_bits, mantissa_bits, specials)
        limit = draw.one([-1.0, 1.0]) * formats.largest_finite(*key)
        values = [limit * draw.real(0.01, 0.1), 0.0, math.nan, *_both(math.inf), 3 * limit]
        some = draw.shuffled(values)
        if specials == "ieee":
            unknown = (exponent_bits, mantissa_bits, draw.one(UNKNOWN_SPECIALS), "saturate")
            cases += [case(value, *key, draw.one(UNKNOWN_OVERFLOWS)) for value in values]
            cases += [case(value, *unknown) for value in values]
        else:
            cases += [case(value, *key, draw.one(UNKNOWN_OVERFLOWS)) for value in some[:2]]
        for illegal in formats.OVERFLOWS["ieee"]:
            if illegal not in formats.OVERFLOWS[specials]:
                cases += [case(value, *key, illegal) for value in values]
    return cases


encode = Check(
    reference=formats.encode,
    public=[
        *part(
            NORMAL,
            [
                case(1.0, 5, 10),
                case(-2.5, 8, 7),
                case(0.1, 5, 10),
                case(2049.0, 5, 10),
                case(2051.0, 5, 10),
                case(0.9999, 5, 10),
                case(2.2, 3, 4, "fn", "saturate"),
            ],
        ),
        *part(
            SMALL,
            [
                case(0.0, 5, 10),
                case(-0.0, 5, 10),
                case(1e-7, 5, 10),
                case(1e-5, 5, 10),
                case(2.0**-25, 5, 10),
            ],
        ),
        *part(
            OVERFLOW,
            [
                case(65519.0, 5, 10),
                case(65520.0, 5, 10),
                case(-math.inf, 8, 7),
                case(math.nan, 8, 7),
                case(1e6, 5, 10, "ieee", "saturate"),
                case(464.0, 4, 3, "fn", "nan"),
                case(500.0, 4, 3, "fn", "nan"),
                case(500.0, 4, 3, "fn", "saturate"),
                case(-7.0, 2, 1, "finite", "saturate"),
            ],
        ),
        *part(
            BAD_INPUT,
            [
                case(1.0, 4, 3, "fn", "infinity"),
                case(1.0, 5, 10, "ieee", "round"),
                case(1.0, 5, 10, "unum", "saturate"),
                case(math.nan, 2, 1, "finite", "saturate"),
            ],
        ),
    ],
    hidden=_hidden_encode,
    tolerance=exact,
    parts={NORMAL: 0.4, SMALL: 0.25, OVERFLOW: 0.25, BAD_INPUT: 0.1},
    misconceptions=[
        Misconception(
            "accepts bad input",
            _wrong_encoder(),
            "The patterns are right, but an input that makes no sense is accepted: an unknown name, an "
            "overflow rule that the format cannot follow, or NaN where there is none. Raise ValueError.",
        ),
        Misconception(
            "subnormals cut off",
            _wrong_encoder(small_rounding=math.floor),
            "You round the normal numbers, but cut off what does not fit of the subnormals. Their steps are "
            "rounded to the nearest too, ties to even: `round`, not `int`.",
        ),
        Misconception(
            "truncation",
            _wrong_encoder(rounding=math.floor),
            "You cut off the digits that do not fit. Round to the nearest number instead.",
        ),
        Misconception(
            "round half up",
            _wrong_encoder(rounding=_half_up),
            "You round every tie away from zero. Halfway between two numbers, take the one with an even "
            "pattern.",
        ),
        Misconception(
            "carry lost",
            _wrong_encoder(carry=False),
            "Rounding can reach the next power of two. Then the mantissa is 0, and the exponent grows by one.",
        ),
        Misconception(
            "overflow decided before rounding",
            _wrong_encoder(early_overflow=True),
            "A value a little above the largest number still rounds down to it. Round first, then see "
            "whether the result is too large.",
        ),
        Misconception(
            "bias one too large",
            _wrong_encoder(bias=lambda e: 2 ** (e - 1)),
            "Your bias is one too large. With 5 exponent bits, 1.0 has the exponent field 15.",
        ),
        Misconception(
            "bias 2^e",
            _wrong_encoder(bias=lambda e: 2**e),
            "Your bias takes all values of the exponent field below zero. It sits in the middle of the "
            "field's range, so that half of the exponents are negative.",
        ),
        Misconception(
            "hidden bit stored",
            _wrong_encoder(hidden_bit_stored=True),
            "You store the leading 1 of a normal number. It is always 1, so no bit is spent on it.",
        ),
        Misconception(
            "subnormals flushed to zero",
            _wrong_encoder(subnormals="flushed"),
            "Below the smallest normal number there are still numbers: exponent field 0, no hidden 1.",
        ),
        Misconception(
            "subnormals given the hidden bit",
            _wrong_encoder(subnormals="hidden bit"),
            "For a subnormal, count the steps of the smallest size. You scale the value as if it had a "
            "hidden 1 and an exponent of its own.",
        ),
        Misconception(
            "−0 lost",
            _wrong_encoder(signed_zero=False),
            "−0.0 keeps its sign bit. `value < 0` does not see it, `math.copysign(1, value)` does.",
        ),
        Misconception(
            "NaN compared with ==",
            _wrong_encoder(nan_by_equality=True),
            "NaN equals nothing, not even itself, so `==` never finds it. Use `math.isnan`.",
        ),
        Misconception(
            "infinities in every format",
            _wrong_encoder(special_rule="ieee"),
            "You keep the top exponent for infinity and NaN in every format. `fn` and `finite` use those "
            "codes for numbers, so their largest number is larger.",
        ),
        Misconception(
            "no special codes",
            _wrong_encoder(special_rule="finite"),
            "You use every code as a number. Which ones are taken under `ieee`, and which one under `fn`?",
        ),
        Misconception(
            "always saturates",
            _wrong_encoder(overflow_rule="saturate"),
            "Your answer takes the largest number on every overflow. What does the argument `overflow` ask for?",
        ),
        Misconception(
            "never saturates",
            _wrong_encoder(overflow_rule="infinity"),
            "Your answer takes the code after the largest number on every overflow. What does the argument "
            "`overflow` ask for?",
        ),
    ],
    also_right=[_encode_by_search, _encode_by_steps, _encode_as_float],
)


# --- the limits of a format ---------------------------------------------------------------------


def _each_kind(draw: Draw) -> list[Case]:
    kinds = [_draw_format(draw, specials) for specials in formats.OVERFLOWS for _ in range(2)]
    # Few enough mantissa bits that a search through all codes from the top ends soon.
    return [case(*key) for key in [*kinds, (2, 3, "finite"), (8, draw.integer(11, 14), "ieee")]]


_FORMATS_SHOWN = [
    case(5, 10),
    case(8, 7),
    case(4, 3, "fn"),
    case(5, 2),
    case(2, 1, "finite"),
]


def _epsilon_by_counting(exponent_bits: int, mantissa_bits: int, specials: str = "ieee") -> float:
    del exponent_bits, specials
    gap = 1.0
    for _ in range(mantissa_bits):
        gap /= 2
    return gap


def _epsilon_by_codes(exponent_bits: int, mantissa_bits: int, specials: str = "ieee") -> float:
    one = (2 ** (exponent_bits - 1) - 1) << mantissa_bits
    return formats.decode(one + 1, exponent_bits, mantissa_bits, specials) - 1


machine_epsilon = Check(
    reference=formats.machine_epsilon,
    public=_FORMATS_SHOWN,
    hidden=_each_kind,
    misconceptions=[
        Misconception(
            "half the gap",
            lambda e, m, s="ieee": 2.0 ** -(m + 1),
            "That is the largest rounding error next to 1, half of what is asked. Epsilon is the whole gap.",
        ),
        Misconception(
            "gap below one",
            lambda e, m, s="ieee": 2.0 ** -(m - 1),
            "Twice too wide. The mantissa has `mantissa_bits` places after the hidden 1: what is the last one worth?",
        ),
        Misconception(
            "that of Python's own float",
            lambda e, m, s="ieee": sys.float_info.epsilon,
            "That is the epsilon of float64, whatever the format. Use the widths that you are given.",
        ),
        Misconception(
            "from the exponent bits",
            lambda e, m, s="ieee": 2.0**-e,
            "The exponent sets the range. Which field sets how fine the steps are?",
        ),
        Misconception(
            "decimal digits",
            lambda e, m, s="ieee": 10.0**-m,
            "The places of the mantissa are binary: each is worth half of the one before, not a tenth.",
        ),
        Misconception(
            "smallest number instead",
            formats.smallest_subnormal,
            "That is the smallest number above 0. Epsilon is a gap, and it is taken at 1.",
        ),
    ],
    also_right=[
        _epsilon_by_counting,
        _epsilon_by_codes,
        lambda e, m, s="ieee": Fraction(1, 1 << m),
    ],
)


def _largest_by_search(exponent_bits: int, mantissa_bits: int, specials: str = "ieee") -> float:
    codes = range(2 ** (exponent_bits + mantissa_bits) - 1, -1, -1)
    values = (formats.decode(code, exponent_bits, mantissa_bits, specials) for code in codes)
    return next(value for value in values if math.isfinite(value))


def _largest_by_formula(exponent_bits: int, mantissa_bits: int, specials: str = "ieee") -> float:
    top = 2 ** (exponent_bits - 1) - (1 if specials == "ieee" else 0)
    missing = 2 if specials == "fn" else 1
    return math.ldexp(2 - missing / 2**mantissa_bits, top)


largest_finite = Check(
    reference=formats.largest_finite,
    public=_FORMATS_SHOWN,
    hidden=_each_kind,
    misconceptions=[
        Misconception(
            "infinities in every format",
            lambda e, m, s="ieee": formats.largest_finite(e, m, "ieee"),
            "Only `ieee` keeps the whole top exponent for infinity and NaN. The others count on into it.",
        ),
        Misconception(
            "NaN read as a number",
            lambda e, m, s="ieee": formats.largest_finite(e, m, "finite" if s == "fn" else s),
            "Under `fn` the code of all ones is NaN. The largest number is the code before it.",
        ),
        Misconception(
            "no special codes",
            lambda e, m, s="ieee": formats.largest_finite(e, m, "finite"),
            "You took the code of all ones for a number. Which codes are taken under `ieee` and `fn`?",
        ),
        Misconception(
            "mantissa forgotten",
            lambda e, m, s="ieee": 2.0 ** math.frexp(formats.largest_finite(e, m, s))[1] / 2,
            "The exponent is right. Now let the mantissa be as large as it can.",
        ),
        Misconception(
            "next power of two",
            lambda e, m, s="ieee": 2.0 ** math.frexp(formats.largest_finite(e, m, s))[1],
            "The mantissa never reaches a whole 2. The largest number lies one step below this power of two.",
        ),
        Misconception(
            "bias one too large",
            lambda e, m, s="ieee": formats.largest_finite(e, m, s) / 2,
            "Half of the right size: look at your bias again, or at which exponent field is the last.",
        ),
        Misconception(
            "infinity",
            lambda e, m, s="ieee": math.inf,
            "Infinity is a code of its own. The largest finite number comes before it.",
        ),
        Misconception(
            "hidden bit forgotten",
            lambda e, m, s="ieee": (
                formats.largest_finite(e, m, s)
                - 2.0 ** (math.frexp(formats.largest_finite(e, m, s))[1] - 1)
            ),
            "A normal number has a leading 1 that is not stored. Where does your formula add it?",
        ),
    ],
    also_right=[
        _largest_by_search,
        _largest_by_formula,
        lambda e, m, s="ieee": Fraction(_largest_by_formula(e, m, s)),
    ],
)


smallest_subnormal = Check(
    reference=formats.smallest_subnormal,
    public=_FORMATS_SHOWN,
    hidden=_each_kind,
    misconceptions=[
        Misconception(
            "smallest normal number",
            lambda e, m, s="ieee": 2.0 ** (1 - _bias(e)),
            "That is the smallest normal number. Below it, the exponent field is 0 and there is no hidden 1.",
        ),
        Misconception(
            "subnormal exponent one too small",
            lambda e, m, s="ieee": 2.0 ** (-_bias(e) - m),
            "Subnormals have the exponent of the smallest normal numbers, whose field is 1. Is your bias, or "
            "your exponent, off by one?",
        ),
        Misconception(
            "subnormals given the hidden bit",
            lambda e, m, s="ieee": 2.0 ** -_bias(e) * (1 + 2.0**-m),
            "With an exponent field of 0 there is no hidden 1.",
        ),
        Misconception(
            "machine epsilon",
            formats.machine_epsilon,
            "That is the gap at 1. Near 0 the gaps are smaller: how small is the last one?",
        ),
        Misconception(
            "that of Python's own float",
            lambda e, m, s="ieee": math.ulp(0.0),
            "That is the smallest float64. Use the widths that you are given.",
        ),
        Misconception(
            "zero",
            lambda e, m, s="ieee": 0.0,
            "The smallest number above zero is asked for. Which pattern comes right after that of 0?",
        ),
    ],
    also_right=[
        lambda e, m, s="ieee": 2.0 ** (2 - 2 ** (e - 1) - m),
        lambda e, m, s="ieee": math.ldexp(1, 1 - (2 ** (e - 1) - 1)) / 2**m,
        lambda e, m, s="ieee": formats.decode(1, e, m, s),
    ],
)


# --- bytes --------------------------------------------------------------------------------------

PACKED = "packed values"


def _refuses_negative(count: int) -> None:
    if count < 0:
        raise ValueError("count is negative")


def _bytes_by_ceil(count: int, bits: int) -> int:
    _refuses_negative(count)
    return math.ceil(count * bits / 8)


def _bytes_by_negation(count: int, bits: int) -> int:
    _refuses_negative(count)
    return -(-count * bits // 8)


def _bytes_by_remainder(count: int, bits: int) -> float:
    _refuses_negative(count)
    whole, left = divmod(count * bits, 8)
    return float(whole + (left > 0))


def _hidden_bytes(draw: Draw) -> list[Case]:
    widths = [3, 6, 12, 16, 24, 5]
    cases = [case(draw.log_integer(100, 10**10), bits) for bits in draw.shuffled(widths)]
    # Counts that leave a remainder of bits, and one that does not.
    cases += [case(2 * draw.integer(10, 10**6) + 1, 4), case(8 * draw.integer(10, 10**6), 7)]
    cases += [case(0, draw.integer(1, 32)), case(1, 1)]
    return part(PACKED, cases) + part(BAD_INPUT, [case(-draw.integer(2, 1000), 16)])


bytes_for = Check(
    reference=formats.bytes_for,
    public=[
        *part(PACKED, [case(1000, 32), case(1000, 4), case(3, 4), case(10, 6)]),
        *part(BAD_INPUT, [case(-1, 8)]),
    ],
    hidden=_hidden_bytes,
    parts={PACKED: 0.8, BAD_INPUT: 0.2},
    misconceptions=[
        Misconception(
            "accepts bad input",
            lambda count, bits: (count * bits + 7) // 8,
            "The bytes are right, but a negative count makes no sense: raise ValueError.",
        ),
        Misconception(
            "bits for bytes",
            lambda count, bits: count * bits,
            "That is the number of bits. How many bits are in a byte?",
        ),
        Misconception(
            "rounds down",
            lambda count, bits: count * bits // 8,
            "The last bits need a byte too, even if they do not fill it.",
        ),
        Misconception(
            "parts of a byte",
            lambda count, bits: count * bits / 8,
            "A part of a byte cannot be stored alone: round up to whole bytes.",
        ),
        Misconception(
            "whole bytes for each value",
            lambda count, bits: count * math.ceil(bits / 8),
            "You give each value whole bytes. Packed without gaps, two 4-bit values share one byte.",
        ),
        Misconception(
            "rounds each value down to whole bytes",
            lambda count, bits: count * (bits // 8),
            "You divided too early: multiply first, so that bits that do not fill a byte are not lost.",
        ),
        Misconception(
            "always four bytes",
            lambda count, bits: count * 4,
            "Your answer does not change with the format. What does a smaller one save?",
        ),
        Misconception(
            "in KiB",
            lambda count, bits: count * bits / 8 / 1024,
            "The answer is in bytes, not in KiB.",
        ),
    ],
    also_right=[_bytes_by_ceil, _bytes_by_negation, _bytes_by_remainder],
)


# --- sums ---------------------------------------------------------------------------------------

IN_RANGE = "sums within the range"
BEYOND = "sums beyond the range"


def _wrong_sum(
    *,
    round_values: bool = True,
    round_total: bool = True,
    round_end: bool = False,
    rounding: Callable[[float], int] = round,
    order: Callable[[Sequence[float]], Sequence[float]] = lambda values: values,
    overflow_rule: str | None = None,
    limited: bool = True,
) -> Callable[..., float]:
    """`sum_in_format` with one of its steps changed."""
    encoder = _wrong_encoder(rounding=rounding, overflow_rule=overflow_rule)

    def sum_in_format(
        values: Sequence[float],
        exponent_bits: int,
        mantissa_bits: int,
        specials: str = "ieee",
        overflow: str = "infinity",
    ) -> float:
        widths = (exponent_bits if limited else 8, mantissa_bits)
        rule = specials if limited else "finite"

        def rounded(value: float) -> float:
            return formats.decode(encoder(value, *widths, rule, overflow), *widths, rule)

        total = 0.0
        for value in order(values):
            total += rounded(value) if round_values else value
            total = rounded(total) if round_total else total
        return rounded(total) if round_end else total

    return sum_in_format


def _fp16(value: float) -> float:
    packed = struct.pack("<e", max(-65504.0, min(value, 65504.0)))
    return float(struct.unpack("<e", packed)[0])


def _sum_always_fp16(values: Sequence[float], *_: Any, **__: Any) -> float:
    total = 0.0
    for value in values:
        total = _fp16(total + _fp16(value))
    return total


def _sum_pairwise(values: Sequence[float], *key: Any, **named: Any) -> float:
    if len(values) < 2:
        return formats.sum_in_format(values, *key, **named)
    half = len(values) // 2
    parts = [_sum_pairwise(each, *key, **named) for each in (values[:half], values[half:])]
    return formats.sum_in_format(parts, *key, **named)


def _sum_by_codes(
    values: Sequence[float],
    exponent_bits: int,
    mantissa_bits: int,
    specials: str = "ieee",
    overflow: str = "infinity",
) -> float:
    code = 0
    for value in values:
        addend = _encode_by_steps(value, exponent_bits, mantissa_bits, specials, overflow)
        total = _decode_by_text(code, exponent_bits, mantissa_bits, specials)
        total += _decode_by_text(addend, exponent_bits, mantissa_bits, specials)
        code = _encode_by_search(total, exponent_bits, mantissa_bits, specials, overflow)
    return _decode_by_text(code, exponent_bits, mantissa_bits, specials)


def _sum_by_rounding_and_limit(
    values: Sequence[float],
    exponent_bits: int,
    mantissa_bits: int,
    specials: str = "ieee",
    overflow: str = "infinity",
) -> float:
    """Without `encode`: a significand of 1 + mantissa_bits bits, and a look at the limit."""
    limit = _largest_by_formula(exponent_bits, mantissa_bits, specials)
    beyond = {"infinity": math.inf, "saturate": limit, "nan": math.nan}[overflow]

    def rounded(value: float) -> float:
        if value == 0 or not math.isfinite(value):
            return value
        power = mantissa_bits + 1 - math.frexp(value)[1]
        near = math.ldexp(round(math.ldexp(value, power)), -power)
        return math.copysign(beyond, value) if abs(near) > limit else near

    total = 0.0
    for value in values:
        total = rounded(total + rounded(value))
    return total


def _sum_recursively(values: Sequence[float], *key: Any, **named: Any) -> float:
    if not values:
        return 0.0
    before = _sum_recursively(values[:-1], *key, **named)
    return formats.sum_in_format([before, values[-1]], *key, **named)


def _hidden_sums(draw: Draw) -> list[Case]:
    cases: list[Case] = []
    for specials in formats.OVERFLOWS:
        key = (draw.integer(5, 7), draw.integer(4, 7), specials)
        rule = formats.OVERFLOWS[specials][0]
        # Values between 1 and 4 whose digits do not fit, and enough of them to swamp.
        long = [draw.real(1, 4) for _ in range(draw.integer(20, 30))]
        mixed = [draw.real(0.5, 2) * draw.one([-1, 1, 1]) for _ in range(12)]
        swamped = [2.0 ** (key[1] + 1)] + [draw.real(0.3, 0.49)] * 6
        last = [*[draw.real(0.3, 0.49)] * 6, 2.0 ** (key[1] + 1)]
        tie = [1.0] * (2 ** (key[1] + 1) // 16 + 3) + [2.0 ** (key[1] + 1), 1.0, 1.0, 1.0]
        cancelled = [1 + draw.real(0.6, 0.9) * 2.0 ** -key[1], -1.0]
        lists = [long, mixed, swamped, last, tie, cancelled]
        cases += part(IN_RANGE, [case(values, *key, rule) for values in lists])
        cases += part(IN_RANGE, [case([], *key, rule)])
        short = (4, key[1], specials)
        limit = formats.largest_finite(*short)
        large = [draw.real(0.6, 0.9) * limit for _ in range(3)]
        back = [*large, -draw.real(0.6, 0.9) * limit]
        rules = formats.OVERFLOWS[specials]
        cases += part(BEYOND, [case(back, *short, each) for each in rules])
        cases += part(BEYOND, [case([-value for value in large], *short, each) for each in rules])
        # A value that is too large itself, after and before one of the other sign; and two of them.
        over, under = draw.real(1.2, 1.6) * limit, -draw.real(0.5, 0.7) * limit
        lists = [[under, over], [-under, -over], [over, under], [over, -over], [-over, 2 * over]]
        cases += part(BEYOND, [case(values, *short, each) for each in rules for values in lists])
    return cases


sum_in_format = Check(
    reference=formats.sum_in_format,
    public=[
        *part(
            IN_RANGE,
            [
                case([0.1, 0.2, 0.3], 5, 10),
                case([1.0] * 300, 8, 7),
                case([2048.0, 1.0, 1.0, 1.0], 5, 10),
                case([1.0, 1.0, 1.0, 2048.0], 5, 10),
                case([16.0, 1.1, 1.1, 1.1], 4, 3, "fn", "saturate"),
                # These tell apart what the cases above do not: values left as they are, one
                # rounding at the end, and another order.
                case([0.4, 2.7, 0.6], 4, 3, "fn", "saturate"),
                case([1.7, 0.6, 2.2, 3.2], 8, 7),
                case([16.0, 3.3, 3.1, 3.3], 4, 3, "fn", "saturate"),
            ],
        ),
        *part(
            BEYOND,
            [
                case([60000.0, 60000.0, -60000.0], 5, 10),
                case([60000.0, 60032.0], 5, 10),
                case([300.0, 300.0, -300.0], 4, 3, "fn", "saturate"),
                case([300.0, 300.0, -300.0], 4, 3, "fn", "nan"),
            ],
        ),
    ],
    hidden=_hidden_sums,
    parts={IN_RANGE: 0.7, BEYOND: 0.3},
    misconceptions=[
        Misconception(
            "adds without rounding",
            _wrong_sum(round_values=False, round_total=False),
            "That is the sum in Python's own float. An accumulator of this format rounds after every addition.",
        ),
        Misconception(
            "rounds once at the end",
            _wrong_sum(round_values=False, round_total=False, round_end=True),
            "You round once, at the end. The accumulator holds the running sum, so it rounds at every step.",
        ),
        Misconception(
            "rounds the values alone",
            _wrong_sum(round_total=False),
            "The values are rounded, the running sum is not. It is stored in the format too.",
        ),
        Misconception(
            "rounds the values, and the sum at the end",
            _wrong_sum(round_total=False, round_end=True),
            "Between two additions the running sum is stored in the format, so it is rounded there too.",
        ),
        Misconception(
            "values not rounded",
            _wrong_sum(round_values=False),
            "Each value is stored in the format before it is added: round it first.",
        ),
        Misconception(
            "sorted first",
            _wrong_sum(order=lambda values: sorted(values, key=abs)),
            "You add the small values first. That is a good idea, but here the order given is asked for.",
        ),
        Misconception(
            "from the end",
            _wrong_sum(order=lambda values: list(reversed(values))),
            "You add from right to left. In a format the order matters: begin with the first value.",
        ),
        Misconception(
            "pairs first",
            _sum_pairwise,
            "You add in pairs. That loses less, but here one running sum from left to right is asked for.",
        ),
        Misconception(
            "truncation",
            _wrong_sum(rounding=math.floor),
            "You cut off what does not fit. Round to the nearest number instead.",
        ),
        Misconception(
            "round half up",
            _wrong_sum(rounding=_half_up),
            "You round every tie away from zero. Halfway between two numbers, take the even one.",
        ),
        Misconception(
            "range ignored",
            _wrong_sum(limited=False),
            "The digits are right, but the exponent has a limit too: what happens beyond the largest number?",
        ),
        Misconception(
            "always saturates",
            _wrong_sum(overflow_rule="saturate"),
            "Your sum stays at the largest number on every overflow. What does the argument `overflow` ask for?",
        ),
        Misconception(
            "every format taken for FP16",
            _sum_always_fp16,
            "Your sum is the same in every format. Use the widths that you are given.",
        ),
    ],
    also_right=[_sum_by_codes, _sum_by_rounding_and_limit, _sum_recursively],
)
