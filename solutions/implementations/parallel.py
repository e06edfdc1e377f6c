"""Training and running a model on more than one device: each rank's share of the data, gradients
that agree, layers placed on devices in order, and synchronising less often.

Functions that communicate use the default process group of `torch.distributed`. What is sent is
counted in `solutions.communication`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from solutions.validation import require_positive, require_whole


def shard(indices: Sequence[int], rank: int, world: int) -> list[int]:
    """The indices that `rank` of `world` processes trains on: every `world`-th, from `rank` on.

    All ranks get equally many, or the longest would wait for gradients that never come: the first
    indices are used again to fill up, as `torch.utils.data.DistributedSampler` does. Raises
    `ValueError` for no indices or a rank outside 0 to world - 1.
    """
    require_whole(world=world)
    if not 0 <= rank < world:
        raise ValueError(f"rank must be from 0 to {world - 1}: got {rank}")
    if not indices:
        raise ValueError("there are no indices to share out")
    each = -(-len(indices) // world)
    return [indices[i % len(indices)] for i in range(rank, each * world, world)]


def average_gradients(model: nn.Module, world: int) -> None:
    """Replace each gradient by its mean over `world` processes, in place.

    A parameter without a gradient takes part with zeros where it is trainable, since a collective
    call that one rank leaves out blocks the others for ever.
    """
    require_whole(world=world)
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
            parameter.grad /= world


def device_map(layer_bytes: Sequence[float], capacities: Sequence[float]) -> list[int]:
    """The device of each layer: fill each device in turn, so that a token crosses between devices
    as rarely as can be.

    Raises `ValueError` where the layers do not fit in order.
    """
    devices: list[int] = []
    device, used = 0, 0.0
    for layer, size in enumerate(layer_bytes):
        while device < len(capacities) and used + size > capacities[device]:
            device, used = device + 1, 0.0
        if device == len(capacities):
            raise ValueError(
                f"layer {layer} and later do not fit: the layers take {sum(layer_bytes)} bytes, "
                f"the devices hold {sum(capacities)}, and a layer is never split"
            )
        devices.append(device)
        used += size
    return devices


def average_parameters(model: nn.Module, world: int) -> None:
    """Replace each trainable parameter by its mean over `world` processes, in place."""
    require_whole(world=world)
    for parameter in model.parameters():
        if parameter.requires_grad:
            dist.all_reduce(parameter.data)
            parameter.data /= world


def local_sgd(
    model: nn.Module, batches: Sequence[Mapping[str, Tensor]], sync_every: int, lr: float = 0.1
) -> list[float]:
    """Plain SGD on this rank's batches, averaging the parameters every `sync_every` steps and after
    the last; returns the loss of each step.

    With `sync_every=1` it takes the same steps as averaging gradients. Source: Local SGD,
    arXiv:1805.09767. Raises `ValueError` for a `sync_every` below 1 or a learning rate that is not
    positive.
    """
    require_whole(sync_every=sync_every)
    require_positive(lr=lr)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    losses: list[float] = []
    for step, batch in enumerate(batches, start=1):
        optimizer.zero_grad()
        output: Any = model(**batch)
        output.loss.backward()
        optimizer.step()
        losses.append(output.loss.item())
        if step % sync_every == 0 or step == len(batches):
            average_parameters(model, dist.get_world_size())
    optimizer.zero_grad()
    return losses


def communication_saved(sync_every: int) -> float:
    """Share of the synchronisations that local SGD leaves out, from 0 up to 1.

    Raises `ValueError` for a `sync_every` below 1.
    """
    require_whole(sync_every=sync_every)
    return 1 - 1 / sync_every
