"""Training settings drawn at random, and the memory that the reference gives for each, part by part."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from solutions.optimizers import OPTIMIZERS
from solutions.precision import METHODS, PRECISIONS
from solutions.shapes import model_shape
from solutions.training_memory import Training, training_memory

RANKS = (4, 8, 16, 64)


def settings(models: Sequence[str], schemes: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Settings as the ledger holds them; each model, window and method turns up many times."""
    draw = random.Random(34)
    found = []
    for index in range(count):
        model = models[index % len(models)]
        window = model_shape(model).sliding_window or 1024
        seq = draw.choice(
            [1, 7, 512, 2048, 8192, window - 1, window, window + 1, draw.randrange(1, 40_000)]
        )
        found.append(
            {
                "model": model,
                "method": draw.choice(METHODS),
                "precision": draw.choice(PRECISIONS),
                "optimizer": draw.choice(OPTIMIZERS),
                "attention": draw.choice(["sdpa", "eager"]),
                "checkpointing": draw.random() < 0.5,
                "quantization": draw.choice(schemes),
                "rank": draw.choice(RANKS),
                "batch": draw.choice([1, 1, 2, 3, 8, 64]),
                "seq": seq,
            }
        )
    return found


def reference(setting: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Bytes by moment and part."""
    fields = {name: value for name, value in setting.items() if name != "model"}
    memory = training_memory(Training(shape=model_shape(setting["model"]), **fields))
    return {moment: dict(parts) for moment, parts in memory.by_moment().items()}
