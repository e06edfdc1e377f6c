"""The formats of `solutions.formats`, bit for bit against PyTorch, ml_dtypes, NumPy and `struct`."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solutions.formats import (
    FORMATS,
    OVERFLOWS,
    bytes_for,
    decode,
    encode,
    largest_finite,
    machine_epsilon,
    smallest_subnormal,
    sum_in_format,
)
from tests.conftest import need_module
from tests.estimators.facts import fact

# Format, NumPy dtype that is its oracle, and what that dtype does on overflow.
ORACLES = [
    pytest.param((8, 23, "ieee"), np.dtype("float32"), "infinity", id="float32"),
    pytest.param((5, 10, "ieee"), np.dtype("float16"), "infinity", id="float16"),
    pytest.param((8, 7, "ieee"), np.dtype(ml_dtypes.bfloat16), "infinity", id="bfloat16"),
    pytest.param((4, 3, "fn"), np.dtype(ml_dtypes.float8_e4m3fn), "nan", id="float8_e4m3fn"),
    pytest.param((5, 2, "ieee"), np.dtype(ml_dtypes.float8_e5m2), "infinity", id="float8_e5m2"),
    pytest.param((4, 3, "ieee"), np.dtype(ml_dtypes.float8_e4m3), "infinity", id="float8_e4m3"),
    pytest.param((3, 4, "ieee"), np.dtype(ml_dtypes.float8_e3m4), "infinity", id="float8_e3m4"),
    pytest.param(
        (2, 1, "finite"), np.dtype(ml_dtypes.float4_e2m1fn), "saturate", id="float4_e2m1fn"
    ),
    pytest.param(
        (2, 3, "finite"), np.dtype(ml_dtypes.float6_e2m3fn), "saturate", id="float6_e2m3fn"
    ),
    pytest.param(
        (3, 2, "finite"), np.dtype(ml_dtypes.float6_e3m2fn), "saturate", id="float6_e3m2fn"
    ),
]
NARROW = [oracle for oracle in ORACLES if oracle.id != "float32"]
NAMES = [pytest.param(*each.key, id=name) for name, each in FORMATS.items()]


def width(key: tuple[int, int, str]) -> int:
    return 1 + key[0] + key[1]


def unsigned(dtype: np.dtype) -> str:
    return f"u{dtype.itemsize}"


def same(one: float, other: float) -> bool:
    """Equal, the sign of zero included; NaN is the same as NaN."""
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other and math.copysign(1, one) == math.copysign(1, other)


def telling_values(key: tuple[int, int, str]) -> Iterator[float]:
    """Every value of a narrow format, every midpoint between neighbours, and the float32 numbers
    just beside the midpoint (ml_dtypes 0.6 converts by way of float32)."""
    codes = range(2 ** (width(key) - 1))
    values = sorted({abs(decode(code, *key)) for code in codes} - {math.inf})
    finite = [value for value in values if math.isfinite(value)]
    beyond = finite[-1] + (finite[-1] - finite[-2])
    for low, high in zip(finite, [*finite[1:], beyond], strict=True):
        middle = (low + high) / 2
        beside = (np.nextafter(np.float32(middle), np.float32(end)) for end in (0, math.inf))
        yield from (low, middle, *map(float, beside))
    yield from (beyond, 2 * beyond, 3e38, 1e-45, math.inf, math.nan)


def rounded_by(dtype: np.dtype, value: float) -> int:
    """The pattern NumPy's conversion from float32 gives."""
    with np.errstate(all="ignore"):
        return int(np.array([value], np.float32).astype(dtype).view(unsigned(dtype))[0])


@pytest.mark.parametrize(("key", "dtype"), [each.values[:2] for each in NARROW])
def test_every_pattern_decodes_as_in_the_reference_library(key, dtype):
    patterns = np.arange(2 ** width(key), dtype=unsigned(dtype))
    with np.errstate(all="ignore"):
        expected = patterns.view(dtype).astype(np.float64)
    for pattern, value in zip(patterns.tolist(), expected.tolist(), strict=True):
        assert same(decode(pattern, *key), value), hex(pattern)


@pytest.mark.parametrize("key", [each.values[0] for each in NARROW])
def test_every_pattern_survives_decode_and_encode(key):
    overflow = OVERFLOWS[key[2]][0]
    for pattern in range(2 ** width(key)):
        value = decode(pattern, *key)
        if math.isnan(value):
            assert math.isnan(decode(encode(value, *key, overflow), *key))
        else:
            assert encode(value, *key, overflow) == pattern


@pytest.mark.parametrize(("key", "dtype", "overflow"), NARROW)
def test_values_midpoints_and_their_neighbours_encode_as_in_the_reference_library(
    key, dtype, overflow
):
    values = list(telling_values(key))
    if width(key) == 16:  # all 130,000 take a minute: every subnormal, and a sixteenth of the rest
        values = values[:8_192] + values[8_192::15] + values[-8:]
    for value in values:
        if math.isnan(value) and key[2] == "finite":
            continue
        for signed in (value, -value):
            got = encode(signed, *key, overflow)
            expected = rounded_by(dtype, signed)
            if math.isnan(decode(expected, *key)):
                assert math.isnan(decode(got, *key)), signed
            else:
                assert got == expected, signed


@pytest.mark.parametrize(("key", "dtype", "overflow"), ORACLES)
@given(data=st.data())
def test_random_float32_values_encode_as_in_the_reference_library(key, dtype, overflow, data):
    value = data.draw(st.floats(width=32, allow_nan=key[2] != "finite"))
    got, expected = encode(value, *key, overflow), rounded_by(dtype, value)
    if math.isnan(decode(expected, *key)):
        assert math.isnan(decode(got, *key))
    else:
        assert got == expected


@given(value=st.floats())
def test_random_float64_values_encode_to_float32_as_struct_does(value):
    if math.isnan(value):
        return
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", math.copysign(math.inf, value))
    assert encode(value, 8, 23) == int.from_bytes(packed, "little")


@given(value=st.floats())
def test_random_float64_values_encode_to_float16_as_struct_does(value):
    if math.isnan(value):
        return
    try:
        packed = struct.pack("<e", value)
    except OverflowError:
        packed = struct.pack("<e", math.copysign(math.inf, value))
    assert encode(value, 5, 10) == int.from_bytes(packed, "little")


@pytest.mark.parametrize(
    ("name", "key", "overflow"),
    [
        ("float8_e4m3fn", (4, 3, "fn"), "saturate"),
        ("float8_e5m2", (5, 2, "ieee"), "infinity"),
        ("bfloat16", (8, 7, "ieee"), "infinity"),
        ("float16", (5, 10, "ieee"), "infinity"),
    ],
)
def test_pytorch_agrees_on_every_pattern_and_on_random_float32_values(name, key, overflow):
    need_module("torch")
    import torch

    dtype = getattr(torch, name)
    integers = torch.uint8 if width(key) == 8 else torch.int16
    patterns = torch.arange(2 ** width(key), dtype=torch.int32)
    decoded = patterns.to(integers).view(dtype).double().tolist()
    for pattern, value in zip(patterns.tolist(), decoded, strict=True):
        assert same(decode(pattern, *key), value), hex(pattern)

    generator = torch.Generator().manual_seed(21)
    spread = torch.randint(-45, 40, (20_000,), generator=generator)
    values = torch.ldexp(torch.randn(20_000, generator=generator), spread)
    telling = [v for v in telling_values(key) if not math.isnan(v)][-4_000:]
    values = torch.cat([values, torch.tensor(telling), -torch.tensor(telling)])
    mask = 2 ** width(key) - 1
    codes = [code & mask for code in values.to(dtype).view(integers).tolist()]
    for value, code in zip(values.tolist(), codes, strict=True):
        assert encode(value, *key, overflow) == code, value


def test_e4m3_overflow_follows_the_rule_that_is_asked_for():
    # PyTorch 2.13 saturates, ml_dtypes 0.6 gives NaN; 464 is the midpoint of 448 and 480.
    assert decode(encode(464.0, 4, 3, "fn", "saturate"), 4, 3, "fn") == 448
    above = math.nextafter(464.0, 1000)
    assert encode(above, 4, 3, "fn", "saturate") == 0x7E
    assert encode(above, 4, 3, "fn", "nan") == 0x7F
    assert encode(-math.inf, 4, 3, "fn", "saturate") == 0xFE
    with pytest.raises(ValueError, match="saturate, nan"):
        encode(1.0, 4, 3, "fn", "infinity")


@given(value=st.floats(width=32, allow_nan=False))
def test_tf32_is_float32_with_its_mantissa_rounded_to_10_bits(value):
    # Independent of `encode`: round the 13 low bits of the float32 pattern away, ties to even.
    pattern = int.from_bytes(struct.pack("<f", value), "little")
    assert encode(value, 8, 10) == (pattern + 0x0FFF + ((pattern >> 13) & 1)) >> 13


FORMAT_KEYS = st.tuples(st.integers(2, 8), st.integers(1, 23), st.sampled_from(list(OVERFLOWS)))
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(key=FORMAT_KEYS, data=st.data())
def test_encode_undoes_decode(key, data):
    pattern = data.draw(st.integers(0, 2 ** width(key) - 1))
    value = decode(pattern, *key)
    overflow = OVERFLOWS[key[2]][0]
    if math.isnan(value):
        assert math.isnan(decode(encode(value, *key, overflow), *key))
    elif math.isinf(value):
        assert encode(value, *key, "infinity") == pattern
    else:
        assert encode(value, *key, overflow) == pattern


@given(key=FORMAT_KEYS, one=FINITE, other=FINITE)
def test_rounding_keeps_order(key, one, other):
    low, high = sorted((one, other))
    rounded = [decode(encode(value, *key, "saturate"), *key) for value in (low, high)]
    assert rounded[0] <= rounded[1]


@given(key=FORMAT_KEYS, value=FINITE)
def test_no_neighbour_is_nearer_and_ties_go_to_the_even_pattern(key, value):
    sign_bit = 2 ** (width(key) - 1)
    code = encode(value, *key, "saturate")
    magnitude = code % sign_bit
    distance = abs(Fraction(abs(value)) - Fraction(abs(decode(code, *key))))
    for neighbour in (magnitude - 1, magnitude + 1):
        if not 0 <= neighbour < sign_bit or not math.isfinite(decode(neighbour, *key)):
            continue
        other = abs(Fraction(abs(value)) - Fraction(decode(neighbour, *key)))
        assert distance < other or (distance == other and magnitude % 2 == 0)


@given(key=FORMAT_KEYS, value=FINITE)
def test_the_sign_is_kept_even_on_zero(key, value):
    positive = encode(abs(value), *key, "saturate")
    assert encode(-abs(value), *key, "saturate") == positive + 2 ** (width(key) - 1)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("fmt_float32", (8, 23, "ieee")),
        ("fmt_float16", (5, 10, "ieee")),
        ("fmt_bfloat16", (8, 7, "ieee")),
        ("fmt_float8_e4m3fn", (4, 3, "fn")),
        ("fmt_float8_e5m2", (5, 2, "ieee")),
        ("fmt_float4_e2m1fn", (2, 1, "finite")),
        ("fmt_float6_e2m3fn", (2, 3, "finite")),
        ("fmt_float6_e3m2fn", (3, 2, "finite")),
    ],
)
def test_published_limits_come_out(name, key):
    limits = fact(name)["expected"]
    exponent_bits, mantissa_bits, specials = key
    ours = {
        "bits": 1 + exponent_bits + mantissa_bits,
        "max": largest_finite(*key),
        "min_normal": decode(2**mantissa_bits, *key),
        "min_sub": smallest_subnormal(*key),
        "eps": machine_epsilon(*key),
        "has_inf": "infinity" in OVERFLOWS[specials],
    }
    assert {quantity: ours[quantity] for quantity in limits} == limits


def test_the_published_tf32_comes_out():
    limits, tf32 = fact("fmt_tf32")["expected"], FORMATS["TF32"]
    assert tf32.bits == limits["bits_used"]
    assert (tf32.exponent_bits, tf32.mantissa_bits) == (limits["exponent"], limits["mantissa"])
    assert machine_epsilon(*tf32.key) == limits["eps"]


def test_the_published_fp4_magnitudes_come_out():
    fp4 = FORMATS["FP4 E2M1"]
    assert [decode(code, *fp4.key) for code in range(8)] == fact("fp4_e2m1_codes")["expected"]


@pytest.mark.parametrize(("exponent_bits", "mantissa_bits", "specials"), NAMES)
def test_epsilon_is_the_gap_after_one(exponent_bits, mantissa_bits, specials):
    key = (exponent_bits, mantissa_bits, specials)
    one = encode(1.0, *key, "saturate")
    assert decode(one + 1, *key) - 1 == machine_epsilon(*key)


@given(
    values=st.lists(st.floats(-1e4, 1e4, width=32), max_size=40),
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16])
def test_a_sum_in_a_format_is_numpys_sum_one_by_one(dtype, values):
    key = {np.float16: (5, 10), np.float32: (8, 23), ml_dtypes.bfloat16: (8, 7)}[dtype]
    total = dtype(0)
    with np.errstate(over="ignore", invalid="ignore"):
        for value in values:
            total = dtype(total + dtype(np.float32(value)))
    assert same(sum_in_format(values, *key), float(total))


def test_the_published_257_is_256_in_bfloat16():
    published = fact("fmt_bf16_257")
    assert FORMATS["BF16"].round(257.0) == published["expected"]


def test_ones_stop_counting_where_the_gap_is_two():
    assert sum_in_format([1.0] * 3_000, 5, 10) == 2_048
    assert sum_in_format([1.0] * 300, 8, 7) == 256


def test_an_accumulator_overflows_by_its_rule():
    assert sum_in_format([60_000.0, 60_000.0, -60_000.0], 5, 10) == math.inf
    assert sum_in_format([300.0, 300.0, -300.0], 4, 3, "fn", "saturate") == 448 - 288
    assert math.isnan(sum_in_format([300.0, 300.0, -300.0], 4, 3, "fn", "nan"))


@given(count=st.integers(0, 10**30), bits=st.integers(1, 64))
def test_bytes_hold_the_bits_with_less_than_a_byte_to_spare(count, bits):
    assert 0 <= 8 * bytes_for(count, bits) - count * bits < 8


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: decode(256, 4, 3), "from 0 to 255, 8 bits: got 256"),
        (lambda: decode(-1, 4, 3), "got -1"),
        (lambda: decode(0, 4, 3, "fnuz"), "unknown specials 'fnuz'; known: ieee, fn, finite"),
        (lambda: decode(0, 1, 3), "2 to 8 exponent bits"),
        (lambda: decode(0, 8, 24), "1 to 23 mantissa bits"),
        (lambda: decode(0, 5, 0), "mantissa_bits"),
        (lambda: encode(1.0, 5, 2, "ieee", "wrap"), "infinity, saturate, nan"),
        (lambda: encode(1.0, 2, 1, "finite", "nan"), "one of saturate for"),
        (lambda: encode(math.nan, 2, 1, "finite", "saturate"), "has no NaN"),
        (lambda: sum_in_format([1.0], 4, 3, "fn"), "saturate, nan"),
        (lambda: bytes_for(-1, 8), "count must be a whole number of at least 0: got -1"),
        (lambda: bytes_for(8, 0), "bits must be a whole number of at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(call, says):
    with pytest.raises(ValueError, match=says):
        call()
