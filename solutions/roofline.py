"""From operations and bytes to seconds: how fast a device can go, and what share of it was used.

Peaks are dense: half of what vendors print for sparse matrices. Source of the model: Williams,
Waterman and Patterson, "Roofline", CACM 52(4), 2009.
"""

from __future__ import annotations

from solutions.validation import require_positive


def training_seconds(flops: float, peak_flops_per_s: float, mfu: float) -> float:
    """Seconds for `flops` operations at a model FLOPs utilization `mfu`, a fraction up to 1."""
    require_positive(flops=flops, peak_flops_per_s=peak_flops_per_s)
    if not 0 < mfu <= 1:
        raise ValueError(f"mfu must be a fraction above 0 and at most 1: got {mfu!r}")
    return flops / (peak_flops_per_s * mfu)


def model_flops_utilization(flops: float, seconds: float, peak_flops_per_s: float) -> float:
    """Share of the peak that the model's own operations reached: a fraction, not a percentage.

    Source: PaLM, arXiv:2204.02311, appendix B.
    """
    require_positive(flops=flops, seconds=seconds, peak_flops_per_s=peak_flops_per_s)
    return flops / seconds / peak_flops_per_s


def arithmetic_intensity(flops: float, bytes_moved: float) -> float:
    """Operations done for each byte moved to or from memory."""
    require_positive(flops=flops, bytes_moved=bytes_moved)
    return flops / bytes_moved


def attainable_flops_per_s(
    intensity: float, peak_flops_per_s: float, bandwidth_bytes_per_s: float
) -> float:
    """The roofline: the peak, or what the memory can feed, whichever is lower."""
    require_positive(
        intensity=intensity,
        peak_flops_per_s=peak_flops_per_s,
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
    )
    return min(peak_flops_per_s, intensity * bandwidth_bytes_per_s)


def is_memory_bound(
    flops: float, bytes_moved: float, peak_flops_per_s: float, bandwidth_bytes_per_s: float
) -> bool:
    """Whether moving the bytes takes longer than doing the operations."""
    require_positive(
        flops=flops,
        bytes_moved=bytes_moved,
        peak_flops_per_s=peak_flops_per_s,
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
    )
    return bytes_moved / bandwidth_bytes_per_s > flops / peak_flops_per_s


def decode_seconds_lower_bound(
    weight_bytes: float, bandwidth_bytes_per_s: float, tokens: float
) -> float:
    """Least seconds to generate `tokens` tokens one by one: each reads all the weights once."""
    require_positive(
        weight_bytes=weight_bytes, bandwidth_bytes_per_s=bandwidth_bytes_per_s, tokens=tokens
    )
    return tokens * weight_bytes / bandwidth_bytes_per_s
