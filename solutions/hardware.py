"""What accelerators can do: dense peaks by format, memory and power, each with its source.

The figures are in `gpus.json`. What follows from them in seconds is left to `solutions.roofline`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from solutions.validation import require_known, require_positive

GIB = 2**30


@dataclass(frozen=True)
class Gpu:
    """One accelerator, its figures in SI units.

    `peak_flops_per_s` holds the dense matrix peak of each format that the hardware multiplies
    itself. `usable_bytes` is what PyTorch reports as the device's memory, `None` where no report
    was found: drivers and error correction take their part of `capacity_bytes`. `tdp_w` is the
    power limit, `None` where it is not published.
    """

    name: str
    title: str
    peak_flops_per_s: Mapping[str, float]
    bandwidth_bytes_per_s: float
    capacity_bytes: int
    usable_bytes: int | None
    tdp_w: float | None
    sources: Mapping[str, str]
    note: str

    def is_native(self, dtype: str) -> bool:
        """Whether the hardware multiplies `dtype` itself, rather than by emulation."""
        return dtype in self.peak_flops_per_s

    def peak(self, dtype: str) -> float:
        """Dense peak in operations a second. Raises `ValueError` where `dtype` is not native."""
        if not self.is_native(dtype):
            raise ValueError(
                f"{self.title} does not multiply {dtype!r}; it has {', '.join(self.peak_flops_per_s)}"
            )
        return self.peak_flops_per_s[dtype]


@cache
def _table() -> dict[str, Gpu]:
    text = Path(__file__).with_name("gpus.json").read_text(encoding="utf-8")
    return {name: _gpu(name, row) for name, row in json.loads(text).items()}


def _gpu(name: str, row: Mapping[str, Any]) -> Gpu:
    # Vendors print the size of memory chips, which come in powers of two, as "GB": it is GiB.
    usable = row["usable_gib"]
    return Gpu(
        name=name,
        title=row["title"],
        peak_flops_per_s={dtype: peak * 1e12 for dtype, peak in row["peak_tflops"].items()},
        bandwidth_bytes_per_s=row["bandwidth_gb_per_s"] * 1e9,
        capacity_bytes=row["capacity_gib"] * GIB,
        usable_bytes=None if usable is None else round(usable * GIB),
        tdp_w=row["tdp_w"],
        sources=row["sources"],
        note=row.get("note", ""),
    )


def gpu_names() -> list[str]:
    """Every name that `gpu` knows."""
    return list(_table())


def gpu(name: str) -> Gpu:
    """The accelerator called `name`, for example `t4` or `a100-40gb`.

    Raises `ValueError` for an unknown name.
    """
    require_known("GPU", name, _table())
    return _table()[name]


def matrix_peak_flops_per_s(units: float, fma_per_cycle: float, clock_hz: float) -> float:
    """Dense peak from first principles: matrix units x fused multiply-adds a cycle x clock.

    A fused multiply-add is two operations. A100: 432 units x 256 x 1.41 GHz = 312e12 in bfloat16.
    """
    require_positive(units=units, fma_per_cycle=fma_per_cycle, clock_hz=clock_hz)
    return 2 * units * fma_per_cycle * clock_hz
