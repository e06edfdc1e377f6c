"""Numbers that are hard to round, and what they must become: by torch, ml_dtypes and the reference in `solutions`."""

from __future__ import annotations

import math
import random
from decimal import Decimal

import ml_dtypes
import numpy as np
import torch

from solutions import formats

# The widget's short name of each format, and its name in `solutions.formats`.
NAMES = {
    "fp32": "FP32",
    "tf32": "TF32",
    "bf16": "BF16",
    "fp16": "FP16",
    "e4m3": "FP8 E4M3",
    "e5m2": "FP8 E5M2",
    "e2m1": "FP4 E2M1",
}
TORCH = {
    "fp32": (torch.float32, torch.int32),
    "bf16": (torch.bfloat16, torch.int16),
    "fp16": (torch.float16, torch.int16),
    "e4m3": (torch.float8_e4m3fn, torch.uint8),
    "e5m2": (torch.float8_e5m2, torch.uint8),
}
ML_DTYPES = {
    "bf16": (ml_dtypes.bfloat16, np.uint16),
    "e4m3": (ml_dtypes.float8_e4m3fn, np.uint8),
    "e5m2": (ml_dtypes.float8_e5m2, np.uint8),
    "e2m1": (ml_dtypes.float4_e2m1fn, np.uint8),
}


def exact(value: float) -> str:
    """The float, all its digits, as text that the widget reads."""
    return str(Decimal(value))


def hard_numbers(name: str, count: int = 60) -> list[float]:
    """Float32 numbers around everything that can go wrong in a format, of both signs, without NaN."""
    fmt = formats.FORMATS[NAMES[name]]
    draw = random.Random(name)
    largest = formats.largest_finite(*fmt.key)
    smallest = formats.smallest_subnormal(*fmt.key)
    last = formats.encode(largest, *fmt.key, "saturate")
    numbers = [0.0, 1.0, 0.1, 1 / 3, math.inf, largest, smallest, smallest / 2, largest * 2]
    for _ in range(count):
        # Two neighbours, the point between them, and a hair to each side of it.
        code = draw.randrange(last)
        low, high = (formats.decode(c, *fmt.key) for c in (code, code + 1))
        middle = (low + high) / 2
        numbers += [low, middle, math.nextafter(middle, 0), math.nextafter(middle, math.inf)]
        numbers.append(2.0 ** draw.uniform(-40, 40))
    edge = largest + (largest - formats.decode(last - 1, *fmt.key)) / 2
    numbers += [edge, math.nextafter(edge, 0), math.nextafter(edge, math.inf)]
    return [sign * number for number in numbers for sign in (1.0, -1.0)]


def float32_only(numbers: list[float]) -> list[float]:
    """Those that float32 holds: torch goes through float32, so that others would be rounded twice."""
    with np.errstate(over="ignore"):
        return [n for n in numbers if float(np.float32(n)) == n]


def torch_bits(name: str, numbers: list[float]) -> list[int]:
    """The codes that torch gives."""
    dtype, integer = TORCH[name]
    width = formats.FORMATS[NAMES[name]].bits
    codes = torch.tensor(numbers, dtype=torch.float32).to(dtype).view(integer).tolist()
    return [code % 2**width for code in codes]


def ml_dtypes_bits(name: str, numbers: list[float]) -> list[int]:
    """The codes that ml_dtypes gives."""
    dtype, integer = ML_DTYPES[name]
    return [int(code) for code in np.array(numbers, dtype=np.float32).astype(dtype).view(integer)]


def reference_bits(name: str, numbers: list[float], overflow: str) -> list[int]:
    """The codes of the reference; where a format cannot follow the rule, the largest number."""
    fmt = formats.FORMATS[NAMES[name]]
    rule = overflow if overflow in formats.OVERFLOWS[fmt.specials] else "saturate"
    return [formats.encode(number, *fmt.key, rule) for number in numbers]
