"""Quantization against bitsandbytes' own kernels, bit for bit, and against torch's quantizers."""

from __future__ import annotations

import bitsandbytes.functional as bnb
import pytest
import torch
from bitsandbytes.backends.utils import CODE
from hypothesis import given, settings
from hypothesis import strategies as st

from solutions import quantization
from solutions.implementations import quantize as q
from tests.implementations.bitsandbytes_kernels import nearest_kernel

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def weights(count: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal values, some of them outliers, as a layer's weights are."""
    draw = torch.Generator().manual_seed(seed)
    values = torch.randn(count, generator=draw)
    values[:: max(1, count // 5)] *= 20
    return values.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block", [32, 64, 128, 4096])
@pytest.mark.parametrize("count", [2, 64, 1000, 65536 + 30])
def test_nf4_equals_bitsandbytes_bit_for_bit(dtype: torch.dtype, block: int, count: int) -> None:
    values = weights(count, dtype=dtype)
    packed, state = bnb.quantize_4bit(values, blocksize=block, quant_type="nf4")
    codes, scales = q.nf4_quantize(values, block)
    assert torch.equal(q.pack(codes), packed.reshape(-1))
    assert torch.equal(scales, state.absmax)
    restored = bnb.dequantize_4bit(packed, state)
    assert torch.equal(q.nf4_dequantize(codes, scales, block).to(dtype), restored.reshape(-1))


def test_the_nf4_table_is_computed_not_copied_and_equals_bitsandbytes() -> None:
    assert torch.equal(q.nf4_table(), CODE["nf4"].cpu())


@pytest.mark.parametrize("signed", [True, False])
def test_the_dynamic_table_equals_bitsandbytes(signed: bool) -> None:
    assert torch.equal(q.dynamic_table(signed), bnb.create_dynamic_map(signed=signed))


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block", [64, 256, 4096])
@pytest.mark.parametrize("count", [1, 256, 100_000 + 17])
def test_dynamic_8_bit_blocks_equal_bitsandbytes(
    signed: bool, dtype: torch.dtype, block: int, count: int
) -> None:
    values = weights(count, dtype=dtype)
    values = values if signed else values.abs()
    table = bnb.create_dynamic_map(signed=signed)
    codes, absmax = q.quantize_to_table(values, q.dynamic_table(signed), block)
    theirs, their_absmax = nearest_kernel(values, table, block)
    # In a last block that is not whole, bitsandbytes' PyTorch kernel alone divides by the largest
    # value; elsewhere, as here, it multiplies by the inverse, which can round otherwise.
    whole = count - count % block
    assert torch.equal(codes[:whole], theirs[:whole])
    assert (codes.int() - theirs.int()).abs().max() <= 1
    assert torch.equal(absmax, their_absmax)
    restored = torch.ops.bitsandbytes.dequantize_blockwise(
        theirs, their_absmax, table, block, torch.float32
    )
    assert torch.equal(
        q.dequantize_from_table(theirs, absmax, q.dynamic_table(signed), block), restored
    )


def test_the_compiled_cpu_kernel_of_bitsandbytes_is_within_one_bin_of_nearest() -> None:
    values, block = weights(1_000_000), 256
    codes, absmax = q.quantize_to_table(values, q.dynamic_table(), block)
    theirs, state = bnb.quantize_blockwise(values, blocksize=block)
    assert torch.equal(absmax, state.absmax)
    assert (codes != theirs).float().mean() < 3e-3
    ours = q.dequantize_from_table(codes, absmax, q.dynamic_table(), block)
    error, their_error = (ours - values).abs(), (bnb.dequantize_blockwise(theirs, state) - values)
    excess = (their_error.abs() - error) / absmax.repeat_interleave(block)[: len(values)]
    # A bin of 65,536 from -1 to 1 is 2 / 65,536 wide, so nearest to its middle is off by that.
    assert excess.max() < 2 / 65_536
    assert excess.min() > -1e-6


@pytest.mark.parametrize("shape", [(4096, 128), (5, 129), (257, 64)])
def test_double_quantization_equals_bitsandbytes(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = weights(shape[0] * shape[1]).reshape(shape)

    def quantize_blockwise(scales: torch.Tensor, blocksize: int) -> object:
        codes, absmax = nearest_kernel(scales, bnb.create_dynamic_map(), blocksize)
        return codes, bnb.QuantState(
            absmax, code=bnb.create_dynamic_map(), blocksize=blocksize, dtype=torch.float32
        )

    monkeypatch.setattr(bnb, "quantize_blockwise", quantize_blockwise)
    packed, state = bnb.quantize_4bit(values, quant_type="nf4", compress_statistics=True)
    codes, scales = q.nf4_quantize(values)
    stored = q.double_quantize(scales)
    assert torch.equal(q.pack(codes), packed.reshape(-1))
    assert torch.equal(stored.codes, state.absmax)
    assert torch.equal(stored.absmax, state.state2.absmax)
    assert torch.equal(stored.mean, state.offset)
    theirs = bnb.dequantize_4bit(packed, state)
    assert torch.equal(q.nf4_dequantize(codes, q.double_dequantize(stored)), theirs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block", [16, 64, 1000])
def test_int8_blocks_equal_bitsandbytes_rows(dtype: torch.dtype, block: int) -> None:
    values = weights(block * 40, dtype=dtype)
    theirs, stats, _ = bnb.int8_vectorwise_quant(values.reshape(-1, block).float())
    codes, absmax = q.blockwise_absmax(values, block)
    assert torch.equal(codes.reshape(-1, block), theirs)
    assert torch.equal(absmax, stats)
    restored = bnb.int8_vectorwise_dequant(theirs, stats).reshape(-1)
    torch.testing.assert_close(q.dequantize_int8(codes, absmax, block), restored)


def test_absmax_int8_is_one_block() -> None:
    values = weights(100)
    theirs, stats, _ = bnb.int8_vectorwise_quant(values.reshape(1, -1))
    codes, absmax = q.absmax_int8(values)
    assert torch.equal(codes, theirs.reshape(-1))
    assert torch.equal(absmax, stats[0])


@pytest.mark.parametrize("shift", [-30.0, -1.0, 0.0, 0.5, 30.0])
def test_affine_uint8_equals_torch(shift: float) -> None:
    values = weights(5000) + shift
    observer = torch.ao.quantization.MinMaxObserver(
        dtype=torch.quint8, qscheme=torch.per_tensor_affine
    )
    observer(values)
    scale, zero_point = observer.calculate_qparams()
    theirs = torch.quantize_per_tensor(values, scale.item(), zero_point.item(), torch.quint8)
    codes, our_scale, our_zero = q.affine_uint8(values)
    assert our_scale == pytest.approx(scale.item(), rel=1e-6)
    assert our_zero == zero_point.item()
    assert (codes.int() - theirs.int_repr().int()).abs().max() <= 1
    assert (codes != theirs.int_repr()).float().mean() < 1e-3
    torch.testing.assert_close(
        q.dequantize_affine(codes, our_scale, our_zero),
        values,
        atol=our_scale / 2 * 1.001,
        rtol=0,
    )


LARGE = 2.0**100


@given(st.lists(st.floats(-LARGE, LARGE, width=32), min_size=1, max_size=300), st.integers(1, 70))
@settings(max_examples=60, deadline=None)
def test_no_value_is_further_off_than_half_a_step(numbers: list[float], block: int) -> None:
    values = torch.tensor(numbers)
    nf4_step = (q.nf4_table()[1:] - q.nf4_table()[:-1]).max()
    int8_codes, absmax = q.blockwise_absmax(values, block)
    int8 = q.dequantize_int8(int8_codes, absmax, block)
    nf4 = q.nf4_dequantize(*q.nf4_quantize(values, block), block)
    largest = absmax.repeat_interleave(block)[: len(values)]
    for restored, step in ((int8, 1 / 127), (nf4, nf4_step)):
        # Blocks of values below 1e-38 have no scale to divide by: they may come back as zeros.
        assert ((restored - values).abs() <= largest * step / 2 * 1.0001 + 1e-37).all()


def test_what_is_stored_takes_the_bytes_that_are_predicted() -> None:
    values = weights(640 * 256)
    codes, scales = q.nf4_quantize(values)
    stored = q.double_quantize(scales)
    packed_bytes = q.pack(codes).nbytes
    assert packed_bytes + scales.nbytes == quantization.matrix_bytes(640, 256, "nf4")
    assert packed_bytes + sum(part.nbytes for part in stored) == quantization.matrix_bytes(
        640, 256, "nf4-dq"
    )


def test_smaller_blocks_and_more_bits_lose_less() -> None:
    values = weights(65_536)

    def error(bits: str, block: int) -> float:
        if bits == "int8":
            return q.quantization_error(
                values, q.dequantize_int8(*q.blockwise_absmax(values, block), block)
            )
        return q.quantization_error(values, q.nf4_dequantize(*q.nf4_quantize(values, block), block))

    assert error("int8", 64) < error("int8", 65_536) < error("nf4", 65_536)
    assert error("int8", 64) < error("nf4", 64) < error("nf4", 65_536)


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_unpacking_gives_the_packed_codes_back(count: int) -> None:
    codes, _ = q.nf4_quantize(weights(count))
    assert torch.equal(q.unpack(q.pack(codes), count), codes)


def test_a_block_of_zeros_comes_back_as_zeros() -> None:
    values = torch.zeros(130)
    assert torch.equal(q.nf4_dequantize(*q.nf4_quantize(values)), values)
    assert torch.equal(q.dequantize_int8(*q.absmax_int8(values)), values)
    codes, scale, zero_point = q.affine_uint8(values)
    assert torch.equal(q.dequantize_affine(codes, scale, zero_point), values)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "quantize", [q.absmax_int8, q.affine_uint8, q.nf4_quantize, lambda x: q.blockwise_absmax(x, 4)]
)
def test_a_value_that_is_not_finite_is_refused(quantize: object, bad: float) -> None:
    assert callable(quantize)
    with pytest.raises(ValueError, match="finite"):
        quantize(torch.tensor([1.0, bad]))
    with pytest.raises(ValueError, match="no values"):
        quantize(torch.tensor([]))


def test_wrong_blocks_and_scales_are_refused() -> None:
    with pytest.raises(ValueError, match="block must be a whole number"):
        q.nf4_quantize(weights(4), 0)
    codes, scales = q.nf4_quantize(weights(200))
    with pytest.raises(ValueError, match="need 4 scales, got 3"):
        q.nf4_dequantize(codes, scales[:3])
    with pytest.raises(ValueError, match="differ in shape"):
        q.quantization_error(weights(4), weights(5))
    with pytest.raises(ValueError, match="all zero"):
        q.quantization_error(torch.zeros(3), weights(3))
