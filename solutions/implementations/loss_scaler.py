"""Dynamic loss scaling: keep float16 gradients above the smallest number, and below the largest."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from solutions.validation import require_whole


class DynamicLossScaler:
    """Multiplies the loss, so that small gradients do not round to zero in float16.

    After a step with an infinity or a NaN the factor shrinks by `backoff`, and that step is not
    taken; after `interval` good steps in a row it grows by `growth`. Source: arXiv:1710.03740,
    section 3.2; defaults as in `torch.amp.GradScaler`. Raises `ValueError` for a start that is not
    positive, a growth of 1 or less, a backoff outside (0, 1) or an interval below 1.
    """

    def __init__(
        self,
        initial: float = 65_536.0,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2_000,
    ) -> None:
        require_whole(interval=interval)
        if not (initial > 0 and growth > 1 and 0 < backoff < 1):
            raise ValueError(
                "initial must be above 0, growth above 1 and backoff between 0 and 1: "
                f"got {initial}, {growth} and {backoff}"
            )
        self.factor = initial
        self.growth = growth
        self.backoff = backoff
        self.interval = interval
        self.good_steps = 0

    def scale(self, loss: Tensor) -> Tensor:
        """The loss to call `backward()` on. Its gradients come out multiplied by `factor`."""
        return loss * self.factor

    def unscale(self, grads: Iterable[Tensor]) -> None:
        """Divide gradients by `factor`, in place. Do this before clipping and before `step_ok`."""
        for grad in grads:
            grad.div_(self.factor)

    def step_ok(self, grads: Iterable[Tensor]) -> bool:
        """Whether every gradient is finite, so that the step may be taken; adapts the factor."""
        if not all(bool(torch.isfinite(grad).all()) for grad in grads):
            self.factor *= self.backoff
            self.good_steps = 0
            return False
        self.good_steps += 1
        if self.good_steps == self.interval:
            self.factor *= self.growth
            self.good_steps = 0
        return True
