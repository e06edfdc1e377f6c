"""Floating-point operations of a transformer's matrix products: forward, training, generation.

A multiplication and an addition count as two operations. Only matrix products are counted; norms,
activations, softmax, biases and the optimizer are left out (below 1 % at the sizes of real models).
How long they take is left to `solutions.roofline`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradelib.shapes import Shape
from solutions.layers import Linear, attention_layers, head_layer, mlp_layers
from solutions.lora import lora_parameters
from solutions.precision import METHODS
from solutions.validation import require_known, require_positive, require_whole

COUNTS = ("executed", "useful")


def matmul_flops(m: float, k: float, n: float) -> float:
    """Operations of an (m x k) by (k x n) product: a multiplication and an addition, m·k·n times.

    Raises `ValueError` for a size that is not above 0, as does every function here.
    """
    require_positive(m=m, k=k, n=n)
    return 2 * m * k * n


def linear_flops(layers: Iterable[Linear], tokens: float) -> float:
    """Operations of linear layers that `tokens` tokens pass through."""
    require_positive(tokens=tokens)
    return sum(layer.count * matmul_flops(tokens, layer.inputs, layer.outputs) for layer in layers)


def attended_pairs(seq: int, window: int | None = None) -> int:
    """Query-key pairs that a causal mask keeps: token i sees i tokens, or `window` if fewer."""
    reach = seq if window is None else min(seq, window)
    return reach * (reach + 1) // 2 + (seq - reach) * reach


def score_flops(shape: Shape, seq: int, count: str = "executed") -> float:
    """Operations of QKᵀ and of the product with V, in all layers, for one sequence.

    Each of the two products takes 2·head_dim operations a query head and pair of tokens.
    `executed` counts all seq² pairs, as a kernel without masking computes them; `useful` counts
    the pairs that the causal mask and the sliding window keep.
    """
    require_whole(seq=seq)
    require_known("count", count, COUNTS)
    if count == "executed":
        pairs = shape.layers * seq**2
    else:
        local = attended_pairs(seq, shape.sliding_window)
        pairs = shape.global_layers * attended_pairs(seq) + shape.local_layers * local
    return 4 * shape.heads * shape.head_dim * pairs


def attention_flops(shape: Shape, seq: int, count: str = "executed") -> float:
    """Operations of attention in all layers for one sequence: q, k, v, o projections and scores."""
    return linear_flops(attention_layers(shape), seq) + score_flops(shape, seq, count)


def mlp_flops(shape: Shape, seq: int) -> float:
    """Operations of the MLPs in all layers for one sequence."""
    return linear_flops(mlp_layers(shape), seq)


def head_flops(shape: Shape, seq: int) -> float:
    """Operations of the output head for `seq` tokens. A tied head shares weights, not work."""
    return linear_flops([head_layer(shape)], seq)


def forward_flops(shape: Shape, batch: int, seq: int, count: str = "executed") -> float:
    """Operations of one forward pass over `batch` sequences. The embedding lookup takes none."""
    require_whole(batch=batch, seq=seq)
    return batch * (
        attention_flops(shape, seq, count) + mlp_flops(shape, seq) + head_flops(shape, seq)
    )


def forward_flops_2nd(params: float, tokens: float) -> float:
    """The rule of thumb 2·N·D: each parameter takes part in one multiplication and one addition for
    each token that is read. A tied embedding counts once, as the head.

    It leaves out attention scores, so it is too small for long texts and for narrow models. Source:
    Kaplan et al., arXiv:2001.08361, section 2.1.
    """
    require_positive(params=params, tokens=tokens)
    return 2 * params * tokens


def training_flops_6nd(params: float, tokens: float) -> float:
    """The rule of thumb C = 6·N·D: 2·N operations a token forward, twice as many backward.

    It leaves out attention scores. Source: Kaplan et al., arXiv:2001.08361, section 2.1.
    """
    require_positive(params=params, tokens=tokens)
    return 6 * params * tokens


def training_flops(
    shape: Shape, batch: int, seq: int, method: str = "full", checkpointing: bool = False
) -> float:
    """Operations of one training step's forward and backward pass, as kernels execute them.

    The backward pass makes two products for each one of the forward pass: one for the gradient of
    its input, one for that of its other factor. Under `lora` and `qlora` the weights are frozen
    and need no gradient; attention has no weights, so it keeps both. Checkpointing runs the blocks
    forward once more. The adapters' own products are left out (see `adapter_flops`).

    Two savings of PyTorch's are left out. Under LoRA without checkpointing, the first block's q, k
    and v need no gradient of their input (below 0.5 % of a step). Non-reentrant checkpointing stops
    before a block's last product where no norm or dropout follows it; in Gemma 3 a norm does.

    Raises `ValueError` for an unknown method.
    """
    require_known("method", method, METHODS)
    forward = forward_flops(shape, batch, seq)
    blocks = forward - batch * head_flops(shape, seq)
    scores = batch * score_flops(shape, seq)
    backward = 2 * forward if method == "full" else forward + scores
    recomputed = blocks if checkpointing else 0
    return forward + backward + recomputed


def adapter_flops(
    shape: Shape,
    batch: int,
    seq: int,
    r: int,
    targets: Sequence[str] | str,
    checkpointing: bool = False,
) -> float:
    """Operations that rank-`r` adapters add to a training step.

    Adapters are trained, so each of their products is made three times, and once more where
    checkpointing recomputes it. Raises `ValueError` as `lora_parameters` does.
    """
    require_whole(batch=batch, seq=seq)
    products = 4 if checkpointing else 3
    return products * matmul_flops(batch * seq, lora_parameters(shape, r, targets), 1)


def prefill_flops(shape: Shape, batch: int, prompt: int) -> float:
    """Operations of reading prompts of `prompt` tokens; only the last token's logits are made."""
    require_whole(batch=batch)
    blocks = attention_flops(shape, prompt) + mlp_flops(shape, prompt)
    return batch * (blocks + head_flops(shape, 1))


def decode_flops(shape: Shape, batch: int, context: int) -> float:
    """Operations of generating one token a sequence that attends to `context` tokens, itself
    included. Local layers attend to their window at most.
    """
    require_whole(batch=batch, context=context)
    window = shape.sliding_window or context
    pairs = shape.global_layers * context + shape.local_layers * min(context, window)
    scores = 4 * shape.heads * shape.head_dim * pairs
    layers = [*attention_layers(shape), *mlp_layers(shape), head_layer(shape)]
    return batch * (linear_flops(layers, 1) + scores)


def generation_flops(shape: Shape, batch: int, prompt: int, new_tokens: int) -> float:
    """Operations of reading a prompt and generating `new_tokens` tokens, one by one.

    The prefill gives the first; each other one is a decoding step. A step at a context of c tokens
    costs what row c of a causal pass does, so all of them are the difference of two passes.
    """
    require_whole(batch=batch, prompt=prompt)
    require_whole(at_least=0, new_tokens=new_tokens)
    last = prompt + max(new_tokens, 1) - 1
    steps = forward_flops(shape, batch, last, "useful")
    steps -= forward_flops(shape, batch, prompt, "useful")
    return prefill_flops(shape, batch, prompt) + steps
