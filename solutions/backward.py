"""What is alive in one transformer block while the backward pass goes through it: the activations
that it has not freed yet, and the gradients of activations that it needs for a moment.
"""

from __future__ import annotations

from gradelib.shapes import Shape
from solutions.activations import (
    FLOAT32_BYTES,
    Saving,
    attention_bytes,
    boundary_bytes,
    hidden_norm_bytes,
    input_bytes,
    layer_bytes,
    query_input_bytes,
    query_norm_bytes,
    value_bytes,
)


def block_backward_bytes(
    shape: Shape, batch: int, seq: int, saving: Saving, local: bool = False
) -> int:
    """The most bytes alive in one block during its backward pass, its activations included.

    The MLP comes first. Eager attention can need more, although by then the MLP is freed.
    """
    mlp = mlp_backward_bytes(shape, batch, seq, saving, local)
    if saving.attention == "sdpa":
        return mlp
    return max(mlp, softmax_backward_bytes(shape, batch, seq, saving, local))


def mlp_backward_bytes(shape: Shape, batch: int, seq: int, saving: Saving, local: bool) -> int:
    """Bytes alive in a block during the backward pass of its MLP.

    Either the down projection's input is still there beside its gradient, and the gradients of the
    casts that an adapter makes of it, or it is freed and there are the gradients of the product of
    the MLP's branches and of each branch.
    """
    tokens = batch * seq
    width = tokens * shape.intermediate
    kept = input_bytes(("down_proj",), shape.intermediate, saving.linear, tokens, saving)
    casts = kept if saving.targets is not None else 0
    if saving.formats.recast:
        casts += value_bytes(saving.formats.trained) * width * saving.trains("down_proj")
    branches = 3 if shape.gated else 2
    gradients = max(saving.linear * width + casts, branches * saving.linear * width - kept)
    # A norm after the MLP (Gemma's) is the first thing that backward frees.
    freed = hidden_norm_bytes(shape, tokens, saving) if shape.norms_per_layer == 4 else 0
    stream = 2 * boundary_bytes(shape, batch, seq, saving)
    return layer_bytes(shape, batch, seq, saving, local) + gradients + stream - freed


def softmax_backward_bytes(shape: Shape, batch: int, seq: int, saving: Saving, local: bool) -> int:
    """Bytes alive in a block with eager attention during the backward pass of its softmax.

    Of each pair of tokens there are three float32 values: the probability, its gradient and the
    gradient of the score. Of the block there is what comes before the softmax.
    """
    tokens = batch * seq
    pairs = batch * shape.heads * seq * seq
    narrow = 0 if saving.kernel == FLOAT32_BYTES else saving.kernel
    scores = attention_bytes(shape, batch, seq, saving, local) - narrow * pairs
    return (
        hidden_norm_bytes(shape, tokens, saving)
        + query_norm_bytes(shape, tokens, saving)
        + query_input_bytes(shape, tokens, saving)
        + scores
        + 2 * FLOAT32_BYTES * pairs
        + 2 * boundary_bytes(shape, batch, seq, saving)
    )
