"""On a real GPU: the peaks that it reports against those measured without one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gradelib.measure import Setup, measure_gpu_peak, measure_step_memory
from gradelib.shapes import Shape
from solutions.gpu_measure import training_step
from tests.conftest import need

pytestmark = pytest.mark.gpu

BASE = Setup(shape=Shape.gemma3("270m"), batch=2, seq=1024)


@pytest.mark.parametrize(
    "setup",
    [
        BASE,
        replace(BASE, checkpointing=True),
        replace(BASE, optimizer="adamw8bit", checkpointing=True),
        replace(BASE, method="lora", attention="eager"),
        replace(BASE, method="qlora", checkpointing=True),
    ],
    ids=str,
)
def test_the_real_peak_is_the_one_measured_without_a_gpu(setup: Setup) -> None:
    need("a CUDA GPU", torch.cuda.is_available(), "run this on a machine with an NVIDIA GPU")
    step = training_step(setup, "cuda")
    step()
    peak = measure_gpu_peak(step)
    expected = measure_step_memory(setup, progress=False).peak_bytes
    # Workspaces and the allocator's rounding come on top; the fused kernels differ a little.
    assert peak.allocated_bytes == pytest.approx(expected, rel=0.1)
    assert peak.reserved_bytes >= peak.allocated_bytes
