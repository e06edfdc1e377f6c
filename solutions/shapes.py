"""Shapes of published models, by name. Their configurations are in `models.json`: each row is what
its Hugging Face repository (`hub`) states, cut to the fields that sizes depend on.
"""

from __future__ import annotations

import difflib
import json
from functools import cache
from pathlib import Path
from typing import Any

from gradelib.shapes import Shape

GEMMA3 = {f"gemma3-{size}": size for size in ("270m", "1b", "4b", "12b", "27b")}


@cache
def published_configs() -> dict[str, dict[str, Any]]:
    """Hugging Face configurations of the models other than Gemma 3, by name."""
    text = Path(__file__).with_name("models.json").read_text(encoding="utf-8")
    configs: dict[str, dict[str, Any]] = json.loads(text)
    return configs


def model_names() -> list[str]:
    """Every name that `model_shape` knows."""
    return [*GEMMA3, *published_configs()]


def model_shape(name: str) -> Shape:
    """The shape of a published model, for example `gemma3-4b`, `llama3.2-1b` or `gpt2`.

    Gemma 3 has the tokenizer's 262,144 rows here; the multimodal checkpoints have 262,208, which
    `Shape.gemma3("4b", vocab=262_208)` describes. Raises `ValueError` for an unknown name.
    """
    if name in GEMMA3:
        return Shape.gemma3(GEMMA3[name])
    if name not in published_configs():
        near = difflib.get_close_matches(name, model_names(), n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"unknown model {name!r}{hint}; known: {', '.join(model_names())}")
    return Shape.from_config(published_configs()[name])


# Two heads share one pair of key and value heads; small enough to count by hand.
TOY = Shape(
    vocab=10,
    hidden=4,
    intermediate=6,
    layers=1,
    heads=2,
    kv_heads=1,
    head_dim=3,
    tied=True,
    gated=True,
)
