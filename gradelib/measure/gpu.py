"""What a real device takes: the peak of its memory, and the time of a step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import torch

from gradelib.measure.errors import CannotMeasureError


@dataclass(frozen=True)
class GpuPeak:
    """Peak memory of a CUDA GPU in a step.

    `allocated_bytes` are in tensors; `reserved_bytes` is what PyTorch took from the GPU for them.
    Both leave out the CUDA context, some hundred MiB that `nvidia-smi` shows.
    """

    allocated_bytes: int
    reserved_bytes: int
    before_bytes: int


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step: the median of `repeats` runs, and their quartiles."""

    seconds: float
    quarter_seconds: tuple[float, float]
    repeats: int


def measure_gpu_peak(step: Callable[[], Any]) -> GpuPeak:
    """Run `step` once and read the GPU's peaks. Call it after one step that is not measured, so
    that the optimizer's state exists.

    It has no overhead: PyTorch's allocator keeps these counts anyway. Raises `CannotMeasureError`
    without a CUDA GPU.
    """
    if not torch.cuda.is_available():
        raise CannotMeasureError(
            "no CUDA GPU is here, so there is no GPU memory to measure: use measure_step_memory, "
            "which needs none, or run this on a machine with an NVIDIA GPU"
        )
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return GpuPeak(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), before)


def measure_step_time(step: Callable[[], Any], repeats: int = 5, warmup: int = 2) -> StepTime:
    """Seconds that `step` takes, after `warmup` runs that do not count.

    Waits for the GPU, if there is one, before it reads the clock. Other programs on the machine
    make it slower: look at the quartiles. Raises `ValueError` for fewer than 2 repeats.
    """
    if repeats < 2 or warmup < 0:
        raise ValueError(
            f"repeats must be at least 2 and warmup at least 0: got {repeats} and {warmup}"
        )
    for _ in range(warmup):
        step()
    seconds = []
    for _ in range(repeats):
        _wait()
        began = time.perf_counter()
        step()
        _wait()
        seconds.append(time.perf_counter() - began)
    low, _, high = quantiles(seconds, n=4, method="inclusive")
    return StepTime(median(seconds), (low, high), repeats)


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
