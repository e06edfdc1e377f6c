"""The memory of a model: weights, gradients, optimizer state, cache, and the peak of parts that are
not all alive at the same moment. Activations, logits and optimizer state have modules of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from gradelib.shapes import Shape
from solutions.activations import activation_bytes
from solutions.dtypes import bits
from solutions.logits import logits_bytes
from solutions.optimizers import optimizer_bytes
from solutions.validation import require_amount, require_whole

__all__ = [
    "activation_bytes",
    "cached_tokens",
    "fits",
    "gradient_bytes",
    "inference_peak_bytes",
    "kv_cache_bytes",
    "logits_bytes",
    "optimizer_bytes",
    "training_peak_bytes",
    "weight_bytes",
]


def weight_bytes(params: int, dtype: str) -> float:
    """Bytes that `params` parameters take when stored as `dtype`, block scales included.

    Raises `ValueError` for a negative count or an unknown dtype.
    """
    require_whole(at_least=0, params=params)
    return params * bits(dtype) / 8


def gradient_bytes(trainable_params: int, dtype: str) -> float:
    """Bytes of the gradients: one value of `dtype` for each parameter that is trained.

    Gradients exist at full precision only: an integer or 4-bit dtype raises `ValueError`.
    """
    require_whole(at_least=0, trainable_params=trainable_params)
    if bits(dtype) < 16:
        raise ValueError(f"gradients are at least 16 bits wide: got dtype {dtype!r}")
    return trainable_params * bits(dtype) / 8


def cached_tokens(seq: int, window: int | None = None, include_current: bool = True) -> int:
    """Tokens whose keys and values one layer caches after `seq` tokens.

    A global layer (`window=None`) caches all, a local layer at most its window. The window counts
    the token that is being computed; transformers stores the others, `include_current=False`.
    """
    require_whole(seq=seq)
    if window is None:
        return seq
    require_whole(window=window)
    return min(seq, window if include_current else window - 1)


def kv_cache_bytes(shape: Shape, batch: int, seq: int, dtype: str, windowed: bool = True) -> float:
    """Bytes of the key/value cache: a key and a value a token, layer and key/value head.

    With `windowed`, local layers keep their window only; without, every layer keeps all tokens.
    Raises `ValueError` for a size below 1 or an unknown dtype.
    """
    require_whole(batch=batch, seq=seq)
    local = cached_tokens(seq, shape.sliding_window if windowed else None)
    tokens = shape.global_layers * seq + shape.local_layers * local
    return 2 * batch * tokens * shape.kv_heads * shape.head_dim * bits(dtype) / 8


def training_peak_bytes(parts: Mapping[str, Mapping[str, float]]) -> float:
    """The most bytes alive at one time in a training step.

    `parts["always"]` names what is alive throughout (weights, optimizer state); every other entry
    is a moment of the step and names what is alive at that moment too. The moments do not overlap,
    so the peak is what is always there and the largest moment.

    Raises `ValueError` without `"always"`, without a moment, or for a part that is negative.
    """
    return _peak_bytes(parts)


def inference_peak_bytes(parts: Mapping[str, Mapping[str, float]]) -> float:
    """The most bytes alive at one time while a model generates.

    `parts` is as in `training_peak_bytes`, with prefill and decoding as the moments. Inference
    keeps no gradients and no optimizer state: naming one raises `ValueError`.
    """
    training_only = {"gradients", "optimizer_state"}
    for moment, named in parts.items():
        if found := training_only & named.keys():
            raise ValueError(f"inference has no {', '.join(sorted(found))}: found in {moment!r}")
    return _peak_bytes(parts)


def _peak_bytes(parts: Mapping[str, Mapping[str, float]]) -> float:
    if "always" not in parts or len(parts) < 2:
        raise ValueError(
            f'parts must name "always" and at least one moment: got {", ".join(parts) or "nothing"}'
        )
    for moment, named in parts.items():
        for part, amount in named.items():
            require_amount(**{f"{moment}: {part}": amount})
    moments = [sum(named.values()) for moment, named in parts.items() if moment != "always"]
    return sum(parts["always"].values()) + max(moments)


def fits(peak_bytes: float, usable_bytes: float, headroom: float) -> bool:
    """Whether a peak fits in `usable_bytes` and leaves the fraction `headroom` of them free.

    `headroom` is a fraction from 0 to below 1: 0.1 keeps 10 % free, for fragmentation and what an
    estimate leaves out. Raises `ValueError` for a negative or infinite amount, or another headroom.
    """
    require_amount(peak_bytes=peak_bytes)
    require_amount(usable_bytes=usable_bytes)
    if not 0 <= headroom < 1:
        raise ValueError(f"headroom must be a fraction from 0 to below 1: got {headroom!r}")
    return peak_bytes <= usable_bytes * (1 - headroom)
