"""Measuring tools: what PyTorch itself says about parameters, FLOPs, memory and time.

Most need no GPU and no weights: they run the real model's operations on tensors without values, so
a laptop measures Gemma 3 4B. Every result says what it counts and what it leaves out; a tool that
cannot measure something raises `CannotMeasureError`. Needs the extra: pip install "one-gpu[torch]".
"""

try:
    import torch
    import transformers
except ImportError as error:
    raise ImportError(
        f"gradelib.measure needs PyTorch and transformers ({error}): pip install 'one-gpu[torch]'"
    ) from error

from gradelib.measure.counts import FlopCount, ParameterCount, count_flops, count_parameters
from gradelib.measure.errors import CannotMeasureError
from gradelib.measure.gpu import GpuPeak, StepTime, measure_gpu_peak, measure_step_time
from gradelib.measure.ledger import CATEGORIES, MemoryLedger
from gradelib.measure.setup import Setup
from gradelib.measure.simulated import SimulatedGPU
from gradelib.measure.step import SavedBytes, StepMemory, measure_saved_bytes, measure_step_memory

del torch, transformers

__all__ = [
    "CATEGORIES",
    "CannotMeasureError",
    "FlopCount",
    "GpuPeak",
    "MemoryLedger",
    "ParameterCount",
    "SavedBytes",
    "Setup",
    "SimulatedGPU",
    "StepMemory",
    "StepTime",
    "count_flops",
    "count_parameters",
    "measure_gpu_peak",
    "measure_saved_bytes",
    "measure_step_memory",
    "measure_step_time",
]
