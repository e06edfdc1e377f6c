"""Takes a loss scaler through the steps of a training run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

# A loss, and the gradients that come back: for each parameter a list of numbers, or of such lists.
Step = tuple[float, Sequence[Any]]
LOSS_CHANGED = "the loss that was given is changed"
GRADIENTS_CHANGED = "the gradients that were given are changed"


def run(
    scaler_class: Callable[..., Any],
    initial: float,
    growth: float,
    backoff: float,
    interval: int,
    steps: Sequence[Step],
) -> list[list[Any]] | None:
    """What one scaler says at each step: the scaled loss, and whether the step may be taken. If it
    changed what it was given, a word on that comes after them."""
    scaler = scaler_class(initial, growth, backoff, interval)
    if scaler is None:
        return None
    said = []
    for number, numbers in steps:
        loss, gradients = torch.tensor(number), [torch.tensor(each) for each in numbers]
        # A copy: it may be the loss itself, and that may change yet.
        scaled = _copied(scaler.scale(loss))
        ok = _copied(scaler.step_ok(list(gradients)))
        said.append([scaled, ok])
        if not _same(loss, number):
            said[-1].append(LOSS_CHANGED)
        if not all(map(_same, gradients, numbers)):
            said[-1].append(GRADIENTS_CHANGED)
    nothing = all(len(each) == 2 and each[0] is None and each[1] is None for each in said)
    return None if nothing else said


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _same(now: torch.Tensor, numbers: Any) -> bool:
    before = torch.tensor(numbers)
    same_kind = now.shape == before.shape and now.dtype == before.dtype
    return same_kind and torch.allclose(now, before, rtol=0, atol=0, equal_nan=True)
