"""Takes a loss scaler through the steps of a training run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

# A loss, and the gradients that come back: for each parameter a list of numbers, or of such lists.
Step = tuple[float, Sequence[Any]]


def run(
    scaler_class: Callable[..., Any],
    initial: float,
    growth: float,
    backoff: float,
    interval: int,
    steps: Sequence[Step],
) -> list[list[Any]] | None:
    """What one scaler says at each step: the scaled loss, and whether the step may be taken."""
    scaler = scaler_class(initial, growth, backoff, interval)
    if scaler is None:
        return None
    said = []
    for loss, gradients in steps:
        scaled = scaler.scale(torch.tensor(loss))
        said.append([scaled, scaler.step_ok([torch.tensor(each) for each in gradients])])
    nothing = all(scaled is None and ok is None for scaled, ok in said)
    return None if nothing else said
