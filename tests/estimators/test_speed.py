"""The estimators start at once, without torch, and answer in well under a millisecond.

Times are of the processor, so that what else the machine does is not measured.
"""

from __future__ import annotations

import subprocess
import sys
import time
import timeit

from gradelib.shapes import Shape
from solutions.estimate import Device, as_data, estimate_training
from solutions.hardware import gpu
from solutions.training_memory import Training


def test_importing_every_estimator_takes_a_fifth_of_a_second_and_no_heavy_package() -> None:
    code = (
        "import sys, time; start = time.process_time(); "
        "from solutions import communication, estimate, hardware, shapes; "
        "shapes.model_shape('llama3.2-1b'); hardware.gpu('t4'); "
        "took = time.process_time() - start; "
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
    training = Training(shape=Shape.gemma3("4b"), batch=1, seq=1024, method="qlora")

    def once() -> None:
        as_data(estimate_training("gemma3-4b", training, Device(gpu("t4"))))

    assert min(timeit.repeat(once, timer=time.process_time, number=20, repeat=5)) / 20 < 1e-3
