"""Gradient checkpointing: keep the inputs of segments of layers, and compute the rest again in the
backward pass. What it saves in bytes is left to `solutions.checkpointing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from solutions.validation import require_whole

Layer = Callable[[Tensor], Tensor]


def checkpointed_forward(layers: Sequence[Layer], x: Tensor, segments: int) -> Tensor:
    """`layers` applied in turn to `x`, saving only what enters each of `segments` segments.

    Segments differ by one layer at most. Gradients equal those without checkpointing, dropout
    included, since the random state is kept and replayed. The non-reentrant form records the graph
    of the first pass too, so layers learn even where `x` itself needs no gradient (frozen
    embeddings). Source: arXiv:1604.06174. Raises `ValueError` for fewer than 1 segment, or more
    than there are layers.
    """
    require_whole(segments=segments)
    if segments > len(layers):
        raise ValueError(
            f"segments must be at most the number of layers, {len(layers)}: got {segments}"
        )
    edges = [len(layers) * index // segments for index in range(segments + 1)]
    for first, last in pairwise(edges):
        x = checkpoint(_in_turn, layers[first:last], x, use_reentrant=False)
    return x


def _in_turn(layers: Sequence[Layer], x: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x)
    return x
