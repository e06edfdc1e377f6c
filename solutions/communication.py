"""Bytes that data-parallel training sends over each device's link, and what syncing less saves.

Latency is left out. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce", JPDC 69(2), 2009.
"""

from __future__ import annotations

from solutions.validation import require_positive, require_whole


def gather_bytes(nbytes: float, n: int) -> float:
    """Bytes each of `n` devices sends in a ring all-gather or reduce-scatter of `nbytes` in all.

    Every device sends its 1/n share on, n − 1 times. One device sends nothing.
    """
    require_positive(nbytes=nbytes)
    require_whole(n=n)
    return (n - 1) * nbytes / n


def allreduce_bytes(nbytes: float, n: int) -> float:
    """Bytes each of `n` devices sends in a ring all-reduce: a reduce-scatter, then an all-gather.

    It tends to 2·nbytes, and never to n·nbytes.
    """
    return 2 * gather_bytes(nbytes, n)


def zero3_bytes(weight_bytes: float, gradient_bytes: float, n: int) -> float:
    """Bytes each device sends in a step with sharded weights (ZeRO-3, FSDP).

    Weights are gathered for the forward and again for the backward pass, and gradients are
    reduce-scattered. Source: ZeRO, arXiv:1910.02054, section 7.
    """
    return 2 * gather_bytes(weight_bytes, n) + gather_bytes(gradient_bytes, n)


def allreduce_seconds(nbytes: float, n: int, bandwidth_bytes_per_s: float) -> float:
    """Least seconds of a ring all-reduce over links of the given bandwidth in each direction."""
    require_positive(bandwidth_bytes_per_s=bandwidth_bytes_per_s)
    return allreduce_bytes(nbytes, n) / bandwidth_bytes_per_s


def communication_saved(sync_every: int) -> float:
    """Share of traffic that averaging weights every `sync_every` steps saves, from 0 to 1.

    Local SGD sends as many bytes a time as data-parallel training does every step.
    """
    require_whole(sync_every=sync_every)
    return 1 - 1 / sync_every
