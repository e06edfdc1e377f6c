"""The optimizers of a setup, as a GPU runs them by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor

Adafactor: Any = transformers.Adafactor

BLOCK_8BIT = 256
SMALLEST_8BIT = 4096  # bitsandbytes keeps the states of smaller tensors in float32


class InPlaceAdamW8bit(torch.optim.Optimizer):
    """The memory of bitsandbytes' 8-bit AdamW on a GPU, without its arithmetic.

    There one kernel reads and writes codes in place, so a step makes no tensor but the states. Its
    CPU version makes float32 copies, and so would measure another thing.
    """

    def __init__(self, params: list[torch.nn.Parameter]) -> None:
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Make the states of parameters that have a gradient and no state yet."""
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and not self.state[parameter]:
                    self.state[parameter].update(_state_8bit(parameter))


def _state_8bit(parameter: Tensor) -> dict[str, Tensor]:
    if parameter.numel() < SMALLEST_8BIT:
        return {name: torch.zeros_like(parameter, dtype=torch.float32) for name in "mv"}
    blocks = -(-parameter.numel() // BLOCK_8BIT)
    codes = {f"{n}_codes": torch.zeros_like(parameter, dtype=torch.uint8) for n in "mv"}
    return codes | {f"{n}_absmax": torch.zeros(blocks) for n in "mv"}


def make_optimizer(model: Any, name: str) -> torch.optim.Optimizer:
    """The optimizer over a model's trainable parameters. Names are those of `Setup`."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=1e-3, foreach=True)
    if name == "momentum":
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, foreach=True)
    if name == "adamw":
        return torch.optim.AdamW(parameters, foreach=True)
    if name == "adamw8bit":
        return InPlaceAdamW8bit(parameters)
    if name == "adafactor":
        made: torch.optim.Optimizer = Adafactor(
            parameters, lr=1e-3, relative_step=False, scale_parameter=False
        )
        return made
    raise ValueError(
        f"unknown optimizer {name!r}; known: sgd, momentum, adamw, adamw8bit, adafactor"
    )


def state_tensors(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """All tensors that an optimizer keeps between steps."""
    return [
        value
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, Tensor)
    ]
