"""The checks of every exercise: one module each, with one `Check` per task under the task's name."""

from __future__ import annotations

import importlib

from gradelib.checks import Check

EXERCISES = {
    "11_model_size_tradeoff": "model_size_tradeoff",
    "21_number_formats": "number_formats",
    "22_counting_flops": "counting_flops",
    "23_reducing_compute": "reducing_compute",
    "31_gpu_memory": "gpu_memory",
    "32_bfloat16": "bfloat16",
    "43_lora": "lora",
}


def load(exercise: str) -> dict[str, Check]:
    """The checks of an exercise, by task, in the order in which its module defines them.

    Raises ValueError, with the known names, for an unknown exercise.
    """
    if exercise not in EXERCISES:
        raise ValueError(f"unknown exercise {exercise!r}; known: {', '.join(EXERCISES)}")
    module = importlib.import_module(f"{__name__}.{EXERCISES[exercise]}")
    return {name: value for name, value in vars(module).items() if isinstance(value, Check)}
