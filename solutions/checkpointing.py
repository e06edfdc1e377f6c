"""Gradient checkpointing: keep the inputs of a few segments of layers, and recompute the rest of a
segment when the backward pass reaches it. What one layer saves is left to `solutions.activations`.
"""

from __future__ import annotations

from math import ceil

from solutions.validation import require_amount, require_whole


def checkpoint_bytes(
    layers: int, segments: int, layer_bytes: float, boundary_bytes: float
) -> float:
    """Peak bytes of activations when `layers` layers are checkpointed in `segments` segments.

    Each segment keeps its input of `boundary_bytes`; the longest segment, recomputed, saves
    `layer_bytes` for each of its layers. Segments are as even as can be.

    Raises `ValueError` for a size below 1, more segments than layers, or a negative amount.
    Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174.
    """
    require_whole(layers=layers, segments=segments)
    require_amount(layer_bytes=layer_bytes)
    require_amount(boundary_bytes=boundary_bytes)
    if segments > layers:
        raise ValueError(
            f"a segment holds at least one layer: got {segments} segments for {layers} layers"
        )
    return segments * boundary_bytes + ceil(layers / segments) * layer_bytes


def best_segments(layers: int, layer_bytes: float, boundary_bytes: float) -> int:
    """The number of segments with the smallest peak; of equals, the smallest.

    Near the square root of `layers * layer_bytes / boundary_bytes`. Found by trying all: there are
    only as many as layers. Raises as `checkpoint_bytes` does.
    """
    require_whole(layers=layers)
    return min(
        range(1, layers + 1),
        key=lambda segments: checkpoint_bytes(layers, segments, layer_bytes, boundary_bytes),
    )


def recompute_overhead(forward_s: float, backward_s: float) -> float:
    """Time that checkpointing adds to a step, as a fraction of the step without it.

    The forward pass runs once more: forward / (forward + backward), one third when the backward
    pass takes twice as long. Raises `ValueError` for a negative time or a step of no time.
    """
    require_amount(forward_s=forward_s)
    require_amount(backward_s=backward_s)
    if forward_s + backward_s == 0:
        raise ValueError("a step takes time: got forward_s=0 and backward_s=0")
    return forward_s / (forward_s + backward_s)
