"""What a 16-bit format asks of a training run: which updates it loses, where float16 overflows, which format a card and
a model leave over, what a recipe keeps for each parameter, and how many sequences fit beside that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from solutions.formats import decode, encode
from solutions.validation import require_amount, require_known, require_positive

# Exponent and mantissa bits of the formats that a weight can be trained in.
FIELDS = {"float32": (8, 23), "float16": (5, 10), "bfloat16": (8, 7)}

# Bytes for each parameter: weights, a master copy beside them, gradients, AdamW's two averages.
# "-mixed" is autocast: its 16-bit copies of the weights are gone when the optimizer steps. "-master"
# is what Rajbhandari et al. count, "ZeRO" (2020), section 3.1: 2 + 2 + 12.
STATE_BYTES = {
    "float32": (4, 0, 4, 2 * 4),
    "bfloat16": (2, 0, 2, 2 * 2),
    "bfloat16-mixed": (4, 0, 4, 2 * 4),
    "bfloat16-master": (2, 4, 2, 2 * 4),
}

# Of two formats that a card multiplies equally well, the earlier one: fewer bytes, and no loss scaling.
BEST_FIRST = ("bfloat16", "float16", "float32")


def stored(value: float, dtype: str) -> float:
    """The number that a tensor of this format holds in place of `value`: the nearest one."""
    return decode(encode(value, *FIELDS[dtype]), *FIELDS[dtype])


def updates_that_stick(
    weight: float, updates: Sequence[float], dtype: str, master: bool = False
) -> int:
    """How many of `updates` change the weight, added to it one after another.

    The weight is rounded to its format at the start and after each update; with a master copy it
    is kept in float32, whatever `dtype` the model multiplies with. Raises ValueError for a format
    that no weight is trained in.
    """
    require_known("dtype", dtype, FIELDS)
    kept_as = "float32" if master else dtype
    kept, changes = stored(weight, kept_as), 0
    for update in updates:
        moved = stored(kept + update, kept_as)
        changes += moved != kept
        kept = moved
    return changes


def training_state_bytes(params: int, precision: str) -> int:
    """Bytes of weights, master copy, gradients and AdamW's state when the optimizer steps.

    `precision`: `"float32"`, `"bfloat16"`, `"bfloat16-mixed"` (autocast) or `"bfloat16-master"`.
    Raises ValueError for any other, and for a negative count.
    """
    require_known("precision", precision, STATE_BYTES)
    require_amount(params=params)
    return params * sum(STATE_BYTES[precision])


def first_overflow(activations: Sequence[Sequence[float]]) -> int | None:
    """Position of the first layer with a value that float16 cannot hold; None if there is none.

    `activations` holds each layer's values, in the order in which the layers run.
    """
    for position, values in enumerate(activations):
        if any(math.isinf(stored(value, "float16")) for value in values):
            return position
    return None


def choose_dtype(gpu: Mapping[str, Any], model: Mapping[str, Any]) -> str | None:
    """The format for a run of `model` on `gpu`, or None when no format will do.

    A format will do if it holds the model's largest activation and its run fits in the usable
    bytes. Of those that will, the card's own formats come before emulated ones, and then
    `BEST_FIRST` decides. `gpu`: `native`, `usable_bytes`. `model`: `largest_activation`, and
    `peak_bytes` for each format.
    """
    will_do = [
        dtype
        for dtype in BEST_FIRST
        if math.isfinite(stored(model["largest_activation"], dtype))
        and model["peak_bytes"][dtype] <= gpu["usable_bytes"]
    ]
    native = [dtype for dtype in will_do if dtype in gpu["native"]]
    return next(iter(native or will_do), None)


def largest_batch(usable_bytes: float, fixed_bytes: float, bytes_per_sequence: float) -> int:
    """The most sequences that fit beside what does not depend on the batch; 0 if not one does.

    Raises ValueError for a negative amount, and for a sequence that takes nothing.
    """
    require_amount(usable_bytes=usable_bytes, fixed_bytes=fixed_bytes)
    require_positive(bytes_per_sequence=bytes_per_sequence)
    return max(0, int((usable_bytes - fixed_bytes) // bytes_per_sequence))


def predicted_peak_bytes(measured: Sequence[Sequence[float]], batch: int) -> float:
    """The peak of a step with `batch` sequences, on the line through two that were measured.

    `measured` holds two pairs: a batch size, and the peak in bytes. Raises ValueError if both are
    of the same size, since they then tell nothing of a sequence.
    """
    (first, first_peak), (second, second_peak) = measured
    if first == second:
        raise ValueError(f"two different batch sizes are needed: got {first} twice")
    for_each = (second_peak - first_peak) / (second - first)
    return first_peak + (batch - first) * for_each
