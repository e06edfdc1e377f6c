"""References of the tiny exercise."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tiny_checks.units import BITS_PER_BYTE as BYTE


def packed_bytes(count: int, bits: int) -> int:
    """Whole bytes that hold `count` values of `bits` bits."""
    # Rounded up: the last byte may be half empty.
    return math.ceil(count * bits / BYTE)


def _square(value: float) -> float:
    return value * value


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean and variance."""
    mean = sum(values) / len(values)
    return {"mean": mean, "variance": sum(_square(v - mean) for v in values) / len(values)}


def settings() -> dict[str, object]:
    """A configuration."""
    return {"rank": 8, "targets": ["q_proj", "v_proj"]}
