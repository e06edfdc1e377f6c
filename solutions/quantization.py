"""What quantized weights take in storage: bits a weight, bytes a model, and which weights stay in
16 bits. How values are rounded to codes is left to the implementations.

Source: QLoRA, arXiv:2305.14314, section 3; layouts as in bitsandbytes 0.50.
"""

from __future__ import annotations

from math import ceil

from gradelib.shapes import Shape
from solutions.layers import linear_layers
from solutions.parameters import parameter_count
from solutions.validation import require_known, require_whole

BLOCK = 64  # weights that share one scale
SECOND_BLOCK = 256  # scales that share one scale of their own, under double quantization
SCHEMES = ("nf4", "nf4-dq", "int8")


def bits_per_weight(block: int, double_quant: bool, second_block: int = 256) -> float:
    """Bits that one weight takes in NF4: its 4-bit code and its share of the scales.

    Each block has one float32 scale. Double quantization stores that scale in 8 bits, and adds one
    float32 scale for every `second_block` blocks. Raises `ValueError` for a block below 1.
    """
    require_whole(block=block, second_block=second_block)
    if double_quant:
        return 4 + 8 / block + 32 / (block * second_block)
    return 4 + 32 / block


def matrix_bytes(inputs: int, outputs: int, scheme: str) -> int:
    """Bytes of one quantized matrix, scales included, to the byte as bitsandbytes stores it.

    `nf4` and `nf4-dq` pack two codes a byte and round blocks up; `nf4-dq` also keeps the scales'
    mean (4 bytes). `int8` (LLM.int8) has one float32 scale an output row. Code tables that layers
    share (about 1 KiB in all) are left out. Raises `ValueError` for an unknown scheme.
    """
    require_known("quantization scheme", scheme, SCHEMES)
    require_whole(inputs=inputs, outputs=outputs)
    weights = inputs * outputs
    blocks = ceil(weights / BLOCK)
    if scheme == "nf4":
        return ceil(weights / 2) + 4 * blocks
    if scheme == "nf4-dq":
        return ceil(weights / 2) + blocks + 4 * ceil(blocks / SECOND_BLOCK) + 4
    return weights + 4 * outputs


def quantized_weights(shape: Shape) -> int:
    """Weights that quantization reaches: the linear layers inside the blocks."""
    return sum(layer.weights for layer in linear_layers(shape))


def kept_weights(shape: Shape) -> int:
    """Parameters that keep their 16 bits: embeddings, output head, norms and biases."""
    return parameter_count(shape) - quantized_weights(shape)


def quantized_bytes(shape: Shape, scheme: str) -> int:
    """Bytes of the quantized layers alone, scales included. Add `kept_weights` at 2 bytes each."""
    return sum(
        layer.count * matrix_bytes(layer.inputs, layer.outputs, scheme)
        for layer in linear_layers(shape)
    )


def packed_elements(shape: Shape) -> int:
    """Elements that `sum(p.numel() for p in model.parameters())` reports for a 4-bit model.

    Two codes share one `uint8`, so quantized layers appear with half their weights.
    """
    return kept_weights(shape) + quantized_weights(shape) // 2
