"""The storage formats an exercise may name, and the bits one value takes in each."""

from __future__ import annotations

from solutions.quantization import bits_per_weight
from solutions.validation import require_known

BITS: dict[str, float] = {
    "float32": 32,
    "tfloat32": 32,  # a way to multiply: stored as float32
    "float16": 16,
    "bfloat16": 16,
    "float8_e4m3": 8,
    "float8_e5m2": 8,
    "int8": 8,
    "nf4": bits_per_weight(block=64, double_quant=False),
    "nf4-dq": bits_per_weight(block=64, double_quant=True),
}


def bits(dtype: str) -> float:
    """Bits that one stored value takes as `dtype`, its share of block scales included.

    Raises `ValueError` for a name that is not legal.
    """
    require_known("dtype", dtype, BITS)
    return BITS[dtype]
