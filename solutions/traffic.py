"""The least bytes that have to move between a card's memory and its chip in prefill, decoding and
training: the other half of a roofline's arithmetic intensity.

What must be in memory before or after the work is moved once each way: weights, the cache, and in
training activations that are kept, gradients and optimizer state. Values that are used up at once
may stay on the chip and are left out, as are copies that a kernel can do without, such as the
16-bit copy of a 4-bit matrix. A real program moves more, so intensity is an upper bound.
"""

from __future__ import annotations

from gradelib.shapes import Shape
from solutions.activations import blocks_bytes
from solutions.dtypes import bits
from solutions.logits import logits_bytes
from solutions.memory import kv_cache_bytes, weight_bytes
from solutions.optimizers import counted_state_bytes
from solutions.parameters import parameter_count
from solutions.quantization import kept_weights, quantized_bytes
from solutions.training_memory import (
    Training,
    all_gradient_bytes,
    outer_part_bytes,
    saved_blocks_bytes,
    weight_parts,
)


def looked_up_parameters(shape: Shape) -> int:
    """Parameters of which a pass reads a few rows only: positions, and an embedding that is not the head."""
    embedding = 0 if shape.tied else shape.vocab * shape.hidden
    return embedding + shape.learned_positions * shape.hidden


def read_weight_bytes(shape: Shape, dtype: str, quantization: str | None = None) -> float:
    """Bytes of the weights that one forward pass reads, in `dtype`, or with the blocks' linear layers
    quantized. The few rows that an embedding looks up are left out.

    Raises `ValueError` for an unknown dtype or scheme.
    """
    if quantization is None:
        return weight_bytes(parameter_count(shape) - looked_up_parameters(shape), dtype)
    kept = kept_weights(shape) - looked_up_parameters(shape)
    return quantized_bytes(shape, quantization) + weight_bytes(kept, dtype)


def prefill_bytes_moved(
    shape: Shape, batch: int, prompt: int, dtype: str, quantization: str | None = None
) -> float:
    """Bytes of reading `batch` prompts at once: the weights are read, the cache is written."""
    cache = kv_cache_bytes(shape, batch, prompt, dtype)
    return read_weight_bytes(shape, dtype, quantization) + cache


def decode_bytes_moved(
    shape: Shape, batch: int, context: int, dtype: str, quantization: str | None = None
) -> float:
    """Bytes of one decoding step: the weights once for all sequences, and the cache of each.

    `context` counts the new token, whose keys and values are written; the others' are read.
    """
    cache = kv_cache_bytes(shape, batch, context, dtype)
    return read_weight_bytes(shape, dtype, quantization) + cache


def training_bytes_moved(training: Training) -> float:
    """Bytes of one training step, by the same account as its memory.

    The weights are read forward, backward, and once more under checkpointing. What is kept is
    written once and read once: activations (those that are recomputed, too), logits and the loss's
    copies of them, gradients. The optimizer reads and writes its state and the trained weights.

    Autocast, which casts every weight anew, is not described: a mixed precision raises `ValueError`.
    """
    t = training
    if t.formats.autocast:
        raise ValueError(f"precision must not be mixed: got {t.precision!r}")
    weights = sum(part.bytes for part in weight_parts(t))
    read = weights - looked_up_parameters(t.shape) * bits(t.formats.weights) / 8
    recomputed = blocks_bytes(t.shape, t.batch, t.seq, t.saving) if t.checkpointing else 0
    kept = outer_part_bytes(t) + saved_blocks_bytes(t) + recomputed
    logits = logits_bytes(t.shape, t.batch, t.seq, t.formats.logits)
    state = counted_state_bytes(t.optimizer, t.trained, t.formats.trained)
    trained = weight_bytes(t.trained_parameters, t.formats.trained)
    passes = 3 if t.checkpointing else 2
    return passes * read + 2 * (kept + logits + all_gradient_bytes(t) + state + trained)
