"""The estimators start at once, without torch, and answer in well under a millisecond."""

from __future__ import annotations

import subprocess
import sys
import timeit

from gradelib.shapes import Shape
from solutions.flops import training_flops
from solutions.hardware import gpu
from solutions.lora import lora_parameters
from solutions.parameters import parameter_count
from solutions.quantization import quantized_bytes

ESTIMATORS = "communication, dtypes, flops, hardware, layers, lora, parameters, quantization, roofline, shapes"


def test_importing_every_estimator_takes_a_fifth_of_a_second_and_no_heavy_package() -> None:
    code = (
        "import sys, time; start = time.perf_counter(); "
        f"from solutions import {ESTIMATORS}; "
        "shapes.model_shape('llama3.2-1b'); hardware.gpu('t4'); "
        "took = time.perf_counter() - start; "
        "heavy = {'torch', 'numpy', 'transformers', 'yaml', 'rich'} & set(sys.modules); "
        "print(took, sorted(heavy))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    outputs = [run.stdout.split(maxsplit=1) for run in runs]
    assert {heavy.strip() for _, heavy in outputs} == {"[]"}
    assert min(float(took) for took, _ in outputs) < 0.2


def test_one_estimate_takes_less_than_a_millisecond() -> None:
    shape = Shape.gemma3("4b")

    def estimate() -> None:
        parameter_count(shape)
        lora_parameters(shape, 16)
        quantized_bytes(shape, "nf4-dq")
        training_flops(shape, 1, 1024, "qlora", checkpointing=True, r=16)
        gpu("t4")

    assert min(timeit.repeat(estimate, number=20, repeat=5)) / 20 < 1e-3
