"""Binary floating-point formats, bit by bit: decode, encode, their limits, sums in a format.

A format is a sign bit, `exponent_bits` and `mantissa_bits`, and what its top codes mean
(`specials`): `"ieee"` has infinities and NaN, as IEEE 754; `"fn"` has NaN at all ones and nothing
else, as FP8 E4M3; `"finite"` has neither, as FP4 E2M1. No format is wider than float32, so a float
of Python holds every value exactly. Sources: IEEE 754-2019, section 3.4; OCP 8-bit Floating Point
Specification (OFP8) 1.0; OCP Microscaling Formats (MX) 1.0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from solutions.validation import require_known, require_whole

# What may become of a value beyond the largest finite one, by what the format can express.
OVERFLOWS = {
    "ieee": ("infinity", "saturate", "nan"),
    "fn": ("saturate", "nan"),
    "finite": ("saturate",),
}


def decode(bits: int, exponent_bits: int, mantissa_bits: int, specials: str = "ieee") -> float:
    """The number that the bit pattern `bits` stands for.

    From the highest bit down: sign s, exponent field e, mantissa field m. With the bias
    b = 2^(exponent_bits − 1) − 1, the value is (−1)^s · 2^(e − b) · (1 + m / 2^mantissa_bits); for
    e = 0 (zero and the subnormals) it is (−1)^s · 2^(1 − b) · m / 2^mantissa_bits. Raises
    ValueError for a pattern that does not fit in the format, or unknown `specials`.
    """
    require_format(exponent_bits, mantissa_bits, specials)
    width = 1 + exponent_bits + mantissa_bits
    if not 0 <= bits < 2**width:
        raise ValueError(f"bits must be from 0 to {2**width - 1}, {width} bits: got {bits}")
    sign = -1.0 if bits >> (exponent_bits + mantissa_bits) else 1.0
    exponent = (bits >> mantissa_bits) % 2**exponent_bits
    mantissa = bits % 2**mantissa_bits
    if exponent == 2**exponent_bits - 1:
        if specials == "ieee":
            return math.nan if mantissa else sign * math.inf
        if specials == "fn" and mantissa == 2**mantissa_bits - 1:
            return math.nan
    bias = 2 ** (exponent_bits - 1) - 1
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp(2**mantissa_bits + mantissa, exponent - bias - mantissa_bits)


def encode(
    value: float,
    exponent_bits: int,
    mantissa_bits: int,
    specials: str = "ieee",
    overflow: str = "infinity",
) -> int:
    """The bit pattern of the number nearest to `value`; of two equally near, the even pattern.

    Overflow is decided after rounding, as in IEEE 754: a value overflows when rounding with an
    unlimited exponent takes it beyond the largest finite number. It then becomes `overflow`:
    `"infinity"`, the largest finite number (`"saturate"`) or `"nan"`. An infinite `value` is an
    overflow too. NaN has one pattern here: sign 0, and the highest mantissa bit set (`"ieee"`) or
    all ones (`"fn"`).

    Software differs on E4M3: PyTorch 2.13 saturates, `ml_dtypes` 0.6 gives NaN. A rule that the
    format cannot follow (infinity where it has none) raises ValueError whatever the value, as do
    unknown names, and NaN in a format without NaN.
    """
    require_format(exponent_bits, mantissa_bits, specials)
    if overflow not in OVERFLOWS[specials]:
        raise ValueError(
            f"overflow must be one of {', '.join(OVERFLOWS[specials])} for a format with "
            f"specials={specials!r}: got {overflow!r}"
        )
    if math.isnan(value):
        return _nan_code(exponent_bits, mantissa_bits, specials)
    sign = (math.copysign(1.0, value) < 0) << (exponent_bits + mantissa_bits)
    largest = _largest_code(exponent_bits, mantissa_bits, specials)
    code = largest + 1
    if not math.isinf(value):
        bias = 2 ** (exponent_bits - 1) - 1
        # The exponent of the leading bit; zero and all subnormals share the smallest one.
        exponent = max(math.frexp(value)[1] - 1, 1 - bias) if value else 1 - bias
        # Scaling by a power of two is exact, and `round` takes ties to the even whole number.
        steps = round(math.ldexp(abs(value), mantissa_bits - exponent))
        # `steps` holds the hidden bit, hence − 1; a carry moves into the exponent by itself.
        code = ((exponent + bias - 1) << mantissa_bits) + steps
    if code <= largest:
        return sign + code
    if overflow == "nan":
        return _nan_code(exponent_bits, mantissa_bits, specials)
    return sign + (largest + 1 if overflow == "infinity" else largest)


def machine_epsilon(exponent_bits: int, mantissa_bits: int, specials: str = "ieee") -> float:
    """The gap between 1 and the next larger number: 2^−mantissa_bits."""
    require_format(exponent_bits, mantissa_bits, specials)
    return 2.0**-mantissa_bits


def largest_finite(exponent_bits: int, mantissa_bits: int, specials: str = "ieee") -> float:
    """The largest number that is not infinite."""
    require_format(exponent_bits, mantissa_bits, specials)
    code = _largest_code(exponent_bits, mantissa_bits, specials)
    return decode(code, exponent_bits, mantissa_bits, specials)


def smallest_subnormal(exponent_bits: int, mantissa_bits: int, specials: str = "ieee") -> float:
    """The smallest number above zero: 2^(1 − bias − mantissa_bits), the pattern 0…01."""
    require_format(exponent_bits, mantissa_bits, specials)
    return decode(1, exponent_bits, mantissa_bits, specials)


def bytes_for(count: int, bits: int) -> int:
    """Whole bytes that hold `count` values of `bits` bits each, packed without gaps.

    Raises ValueError for a negative count, or a width below one bit.
    """
    require_whole(at_least=0, count=count)
    require_whole(bits=bits)
    return (count * bits + 7) // 8


def sum_in_format(
    values: Sequence[float],
    exponent_bits: int,
    mantissa_bits: int,
    specials: str = "ieee",
    overflow: str = "infinity",
) -> float:
    """The sum from left to right with an accumulator of this format.

    Every value is rounded to the format, and so is the running sum after every addition. Python
    adds in float64, whose rounding cannot change the result: it has more than twice the digits of
    any format here (Figueroa, "When is double rounding innocuous?", SIGNUM 30(3), 1995).
    """

    def rounded(value: float) -> float:
        code = encode(value, exponent_bits, mantissa_bits, specials, overflow)
        return decode(code, exponent_bits, mantissa_bits, specials)

    total = rounded(0.0)
    for value in values:
        total = rounded(total + rounded(value))
    return total


def require_format(exponent_bits: int, mantissa_bits: int, specials: str) -> None:
    """Raise ValueError unless these three describe a format no wider than float32."""
    require_whole(exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)
    if not (2 <= exponent_bits <= 8 and mantissa_bits <= 23):
        raise ValueError(
            f"a format has 2 to 8 exponent bits and 1 to 23 mantissa bits: "
            f"got exponent_bits={exponent_bits}, mantissa_bits={mantissa_bits}"
        )
    require_known("specials", specials, OVERFLOWS)


def _largest_code(exponent_bits: int, mantissa_bits: int, specials: str) -> int:
    """Pattern of the largest finite number: the last one before the special codes."""
    all_ones = (1 << (exponent_bits + mantissa_bits)) - 1
    return all_ones - {"ieee": 1 << mantissa_bits, "fn": 1, "finite": 0}[specials]


def _nan_code(exponent_bits: int, mantissa_bits: int, specials: str) -> int:
    all_ones = (1 << (exponent_bits + mantissa_bits)) - 1
    if specials == "finite":
        raise ValueError("NaN cannot be stored: a format with specials='finite' has no NaN")
    return all_ones - ((1 << (mantissa_bits - 1)) - 1 if specials == "ieee" else 0)


@dataclass(frozen=True)
class Format:
    """A named format: the widths of its fields and the meaning of its top codes."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    specials: str = "ieee"

    def __post_init__(self) -> None:
        require_format(self.exponent_bits, self.mantissa_bits, self.specials)

    @property
    def bits(self) -> int:
        """Bits of the pattern, the sign included."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def key(self) -> tuple[int, int, str]:
        """The format as the functions of this module take it."""
        return self.exponent_bits, self.mantissa_bits, self.specials

    @property
    def default_overflow(self) -> str:
        """`"infinity"` where the format has one, else `"saturate"`."""
        return OVERFLOWS[self.specials][0]

    def round(self, value: float) -> float:
        """`value` rounded to the format, under its default overflow rule."""
        return decode(encode(value, *self.key, self.default_overflow), *self.key)

    def sum(self, values: Sequence[float]) -> float:
        """`sum_in_format` under the format's default overflow rule."""
        return sum_in_format(values, *self.key, self.default_overflow)


FORMATS = {
    named.name: named
    for named in (
        Format("FP32", 8, 23),
        # A way to multiply, stored as FP32. Some hardware truncates to it; here it is rounded.
        Format("TF32", 8, 10),
        Format("FP16", 5, 10),
        Format("BF16", 8, 7),
        Format("FP8 E4M3", 4, 3, "fn"),
        Format("FP8 E5M2", 5, 2),
        Format("FP4 E2M1", 2, 1, "finite"),
    )
}
