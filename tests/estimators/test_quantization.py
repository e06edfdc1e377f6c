"""Quantized storage: equal to what bitsandbytes allocates, to the byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.shapes import Shape
from solutions.dtypes import BITS, bits
from solutions.parameters import parameter_count
from solutions.quantization import (
    BLOCK,
    bits_per_weight,
    kept_weights,
    matrix_bytes,
    packed_elements,
    quantized_bytes,
    quantized_weights,
)
from tests.conftest import need_module
from tests.estimators.facts import fact, tolerance
from tests.estimators.strategies import shapes

COVERED = ["nf4_dq_overhead_before", "nf4_bits_nodq", "nf4_construct", "nf4_rel_error"]


def test_published_bits_a_weight_come_out() -> None:
    overhead = fact("nf4_dq_overhead_before")
    assert (
        bits_per_weight(overhead["inputs"]["block"], double_quant=False) - 4 == overhead["expected"]
    )
    assert bits_per_weight(64, double_quant=False) == fact("nf4_bits_nodq")["expected"]
    # QLoRA, section 3: double quantization lowers the overhead from 0.5 to 0.127 bits.
    assert round(bits_per_weight(64, double_quant=True) - 4, 3) == 0.127
    assert bits_per_weight(64, double_quant=True) == 4.126953125


def test_the_nf4_table_starts_at_the_published_quantile() -> None:
    need_module("torch")
    from statistics import NormalDist

    from solutions.implementations.quantize import nf4_table

    # The outermost two values above zero are quantiles at p and at an eighth of the way to 1/2.
    of = fact("nf4_construct")
    p, quantile = of["expected"], NormalDist().inv_cdf
    ratio = quantile(p + (0.5 - p) / 8) / quantile(p)
    assert nf4_table()[-2].item() == pytest.approx(ratio, abs=1e-6)
    wrong = p + 10 * of["test"]["abs"]
    other = quantile(wrong + (0.5 - wrong) / 8) / quantile(wrong)
    assert nf4_table()[-2].item() != pytest.approx(other, abs=1e-6)


def test_nf4_loses_the_published_share_of_normal_values() -> None:
    need_module("torch")
    import torch

    from solutions.implementations.quantize import (
        nf4_dequantize,
        nf4_quantize,
        quantization_error,
    )

    values = torch.randn(1024, 1024, generator=torch.Generator().manual_seed(0))
    of = fact("nf4_rel_error")
    error = quantization_error(values, nf4_dequantize(*nf4_quantize(values)))
    assert error == pytest.approx(of["expected"], **tolerance(of))


@pytest.mark.parametrize("rows", [64, 96, 300])
@pytest.mark.parametrize("columns", [64, 640, 2048])
@pytest.mark.parametrize("scheme", ["nf4", "nf4-dq"])
def test_bitsandbytes_allocates_as_many_bytes(rows: int, columns: int, scheme: str) -> None:
    need_module("bitsandbytes")
    import torch
    from bitsandbytes.functional import quantize_4bit

    weights = torch.randn(rows, columns)
    packed, state = quantize_4bit(
        weights, blocksize=BLOCK, quant_type="nf4", compress_statistics=scheme == "nf4-dq"
    )
    stored = [packed, state.absmax]
    if state.nested:
        stored += [state.state2.absmax, state.offset]
    assert sum(part.nbytes for part in stored) == matrix_bytes(columns, rows, scheme)


@pytest.mark.parametrize("scheme", ["nf4", "nf4-dq"])
def test_a_whole_model_takes_its_bits_a_weight(scheme: str) -> None:
    shape = Shape.gemma3("4b")
    per_weight = 8 * quantized_bytes(shape, scheme) / quantized_weights(shape)
    assert per_weight == pytest.approx(bits(scheme), rel=1e-5)


@given(shapes())
def test_every_parameter_is_quantized_or_kept(shape: Shape) -> None:
    assert quantized_weights(shape) + kept_weights(shape) == parameter_count(shape)
    assert kept_weights(shape) >= shape.vocab * shape.hidden
    assert kept_weights(shape) < packed_elements(shape) < parameter_count(shape)


@given(st.integers(1, 4096), st.integers(1, 4096))
def test_more_compression_never_takes_more_bytes(block: int, second_block: int) -> None:
    plain = bits_per_weight(block, double_quant=False)
    double = bits_per_weight(block, True, second_block)
    assert plain > 4
    assert double > 4
    assert (double < plain) == (8 + 32 / second_block < 32)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float32", 32), ("tfloat32", 32), ("bfloat16", 16), ("float8_e4m3", 8), ("int8", 8)],
)
def test_formats_take_their_bits(dtype: str, expected: int) -> None:
    assert bits(dtype) == expected


def test_the_legal_formats_are_those_of_the_exercises() -> None:
    assert list(BITS) == [
        "float32",
        "tfloat32",
        "float16",
        "bfloat16",
        "float8_e4m3",
        "float8_e5m2",
        "int8",
        "nf4",
        "nf4-dq",
    ]


def test_int8_has_one_float32_scale_an_output_row() -> None:
    assert matrix_bytes(inputs=10, outputs=3, scheme="int8") == 10 * 3 + 4 * 3


@pytest.mark.parametrize(("block", "second_block"), [(0, 256), (64, 0), (-64, 256), (64, 1.5)])
def test_a_block_below_one_value_is_an_error(block: int, second_block: int) -> None:
    with pytest.raises(ValueError, match="block must be"):
        bits_per_weight(block, True, second_block)


def test_an_unknown_scheme_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"fp4.*nf4, nf4-dq, int8"):
        quantized_bytes(Shape.gemma3("4b"), "fp4")
    with pytest.raises(ValueError, match=r"inputs must be"):
        matrix_bytes(0, 8, "nf4")
