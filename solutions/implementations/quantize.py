"""Rounding values to few bits and back: int8 with one scale, 8 bits with a zero point, int8 in
blocks, 4-bit NormalFloat, and the quantization of the scales themselves.

Every function returns new tensors. Codes and scales of whole blocks equal those of bitsandbytes bit
for bit; what they take in storage is left to `solutions.quantization`.
"""

from __future__ import annotations

from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor

from solutions.quantization import BLOCK, SECOND_BLOCK
from solutions.validation import require_whole

INT8_MAX = 127  # the codes are symmetric: -127 to 127
UINT8_MAX = 255
# QLoRA's quantiles leave out the normal distribution's tails: none would otherwise be finite.
NF4_TAIL = 0.9677083
NF4_ZERO = 7  # the code of 0.0
# A block of zeros has no largest value to divide by; this one keeps its codes at zero.
SMALLEST_ABSMAX = 1e-38


def absmax_int8(values: Tensor) -> tuple[Tensor, Tensor]:
    """Round to int8 with one scale: code = round(127 x / max|x|), ties to even.

    Returns the codes (int8, shaped as `values`) and max|x| (float32, a scalar). Source: LLM.int8(),
    arXiv:2208.07339, section 2. Raises `ValueError` for no values, or one that is not finite.
    """
    codes, absmax = blockwise_absmax(values, max(1, values.numel()))
    return codes, absmax[0]


def blockwise_absmax(values: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """`absmax_int8` on each run of `block` values; the last block may be shorter.

    Returns the codes (int8, shaped as `values`) and each block's max|x| (float32). An outlier
    spoils the scale of its own block alone. Raises `ValueError` as `absmax_int8`, and for a block
    below 1.
    """
    blocks, absmax = _in_blocks(values, block)
    codes = torch.round(blocks * (INT8_MAX / absmax.clamp(min=SMALLEST_ABSMAX)[:, None]))
    return _flat(codes, values).to(torch.int8), absmax


def dequantize_int8(codes: Tensor, absmax: Tensor, block: int | None = None) -> Tensor:
    """Values (float32) from int8 codes: code max|x| / 127; with `block`, one `absmax` a block."""
    scale = absmax if block is None else _each(absmax, block, codes)
    return codes.float() * scale / INT8_MAX


def affine_uint8(values: Tensor) -> tuple[Tensor, float, int]:
    """Round to 8 bits with a scale and a zero point: code = round(x / scale) + zero_point.

    Returns the codes (uint8), the scale and the zero point. The range is that of the values,
    widened to hold 0, so that 0 has a code of its own. Source: arXiv:1712.05877, section 2.1.
    Raises `ValueError` for no values, or one that is not finite.
    """
    _require_finite(values)
    low, high = min(values.min().item(), 0.0), max(values.max().item(), 0.0)
    scale = (high - low) / UINT8_MAX or 1.0
    zero_point = round(-low / scale)
    codes = (torch.round(values.float() / scale) + zero_point).clamp(0, UINT8_MAX)
    return codes.to(torch.uint8), scale, zero_point


def dequantize_affine(codes: Tensor, scale: float, zero_point: int) -> Tensor:
    """Values (float32) from `affine_uint8`'s codes: (code - zero_point) scale."""
    return (codes.float() - zero_point) * scale


def nearest_code(scaled: Tensor, table: Tensor) -> Tensor:
    """Index (uint8) of the entry of the sorted `table` nearest to each value; ties go down."""
    midpoints = (table[:-1] + table[1:]) / 2
    return torch.bucketize(scaled, midpoints).to(torch.uint8)


def quantize_to_table(values: Tensor, table: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Codes (uint8) and each block's max|x|: divide the block by its max|x|, then look for the
    nearest entry of `table`, which spans -1 to 1 or 0 to 1.

    Raises `ValueError` for no values, one that is not finite, or a block below 1.
    """
    blocks, absmax = _in_blocks(values, block)
    scaled = blocks * (1 / absmax.clamp(min=SMALLEST_ABSMAX))[:, None]
    return _flat(nearest_code(scaled.clamp(-1, 1), table), values), absmax


def dequantize_from_table(codes: Tensor, absmax: Tensor, table: Tensor, block: int) -> Tensor:
    """Values (float32) from `quantize_to_table`'s codes: table[code] max|x|."""
    return table[codes.int()] * _each(absmax, block, codes)


@cache
def nf4_table() -> Tensor:
    """The 16 values of 4-bit NormalFloat (float32): quantiles of the normal distribution, 8 above
    zero, 7 below and zero itself, scaled to end at -1 and 1.

    Source: QLoRA, arXiv:2305.14314, section 3 and appendix E.
    """
    quantile = NormalDist().inv_cdf
    above = [quantile(p) for p in torch.linspace(NF4_TAIL, 0.5, 9)[:-1].tolist()]
    below = [-quantile(p) for p in torch.linspace(NF4_TAIL, 0.5, 8)[:-1].tolist()]
    table = torch.tensor(sorted([*below, 0.0, *above]))
    return table / table.max()


def nf4_quantize(values: Tensor, block: int = BLOCK) -> tuple[Tensor, Tensor]:
    """NF4 codes (uint8, 0 to 15, shaped as `values`) and each block's max|x| (float32).

    Two codes share a byte in storage: see `pack`. Raises `ValueError` for no values, one that is
    not finite, or a block below 1.
    """
    return quantize_to_table(values, nf4_table(), block)


def nf4_dequantize(codes: Tensor, scales: Tensor, block: int = BLOCK) -> Tensor:
    """Values (float32, shaped as `codes`) from NF4 codes and each block's max|x|.

    Raises `ValueError` where there is not one scale a block.
    """
    return dequantize_from_table(codes, scales, nf4_table(), block)


def pack(codes: Tensor) -> Tensor:
    """Two NF4 codes a byte (uint8, flat), the first in the high half. The last of an odd number of
    codes shares its byte with the code of 0."""
    flat = torch.nn.functional.pad(codes.reshape(-1), (0, codes.numel() % 2), value=NF4_ZERO)
    return (flat[::2] << 4) | flat[1::2]


def unpack(packed: Tensor, count: int) -> Tensor:
    """The first `count` 4-bit codes (uint8, flat) that `pack` put into `packed`."""
    return torch.stack([packed >> 4, packed & 0xF], dim=1).reshape(-1)[:count]


@cache
def dynamic_table(signed: bool = True) -> Tensor:
    """The 256 values of the 8-bit dynamic data type (float32), from -1 (or 0) to 1.

    A code spends some bits on a decimal exponent and the rest on a fraction: the nearer to 0, the
    fewer bits are left for the fraction. So it resolves small values that int8 would round to 0.
    Source: 8-bit Optimizers via Block-wise Quantization, arXiv:2110.02861, section 2.
    """
    table = [0.0, 1.0]
    for exponent in range(-6, 1):
        fractions = 2 ** (exponent + 6) if signed else 2 ** (exponent + 7)
        edges = torch.linspace(0.1, 1, fractions + 1)
        middles = (10**exponent * ((edges[:-1] + edges[1:]) / 2)).tolist()
        table += middles + ([-middle for middle in middles] if signed else [])
    return torch.tensor(sorted(table))


class DoubleQuantized(NamedTuple):
    """NF4 scales in 8 bits: codes (uint8), each second block's max (float32), and their mean."""

    codes: Tensor
    absmax: Tensor
    mean: Tensor


def double_quantize(scales: Tensor, second_block: int = SECOND_BLOCK) -> DoubleQuantized:
    """Quantize NF4's scales: take off their mean, then 8-bit codes with one float32 a second block.

    Scales are positive; without their mean they use both halves of the signed 8-bit type. Source:
    QLoRA, arXiv:2305.14314, section 3.
    """
    mean = scales.mean()
    return DoubleQuantized(*quantize_to_table(scales - mean, dynamic_table(), second_block), mean)


def double_dequantize(stored: DoubleQuantized, second_block: int = SECOND_BLOCK) -> Tensor:
    """NF4's scales (float32) from `double_quantize`."""
    centred = dequantize_from_table(stored.codes, stored.absmax, dynamic_table(), second_block)
    return centred + stored.mean


def quantization_error(values: Tensor, restored: Tensor) -> float:
    """Root mean square of the rounding errors, relative to that of the values. No unit.

    Raises `ValueError` for different shapes, or values that are all zero.
    """
    if values.shape != restored.shape:
        raise ValueError(
            f"values and restored differ in shape: {tuple(values.shape)} and {tuple(restored.shape)}"
        )
    size = values.double().norm().item()
    if size == 0:
        raise ValueError("values are all zero, so no error is relative to them")
    return float((restored.double() - values.double()).norm() / size)


def _require_finite(values: Tensor) -> None:
    if values.numel() == 0:
        raise ValueError("there are no values to quantize")
    if not torch.isfinite(values).all():
        raise ValueError("values must be finite: an infinity or a NaN has no scale to divide by")


def _in_blocks(values: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Values in rows of `block` (float32, the last row filled with zeros), and each row's max|x|."""
    require_whole(block=block)
    _require_finite(values)
    missing = -values.numel() % block
    flat = values.detach().reshape(-1).float()
    blocks = torch.nn.functional.pad(flat, (0, missing)).reshape(-1, block)
    return blocks, blocks.abs().amax(dim=1)


def _flat(blocks: Tensor, like: Tensor) -> Tensor:
    return blocks.reshape(-1)[: like.numel()].reshape(like.shape)


def _each(absmax: Tensor, block: int, codes: Tensor) -> Tensor:
    """Each code's own scale."""
    require_whole(block=block)
    expected = -(-codes.numel() // block)
    if absmax.numel() != expected:
        raise ValueError(
            f"{codes.numel()} codes in blocks of {block} need {expected} scales, got {absmax.numel()}"
        )
    return _flat(absmax.repeat_interleave(block), codes)
