"""Peak GPU memory of generation, part by part: weights, the key/value cache, and what the prefill
of the prompt and the decoding of each token need for a moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from gradelib.shapes import Shape
from solutions.activations import ATTENTIONS, FLOAT32_BYTES, value_bytes
from solutions.breakdown import Breakdown, Moment, Part
from solutions.layers import linear_layers
from solutions.logits import logits_tensor_bytes
from solutions.memory import kv_cache_bytes, weight_bytes
from solutions.overhead import CUBLAS_WORKSPACE_BYTES, CUDA_CONTEXT_BYTES, causal_mask_bytes
from solutions.parameters import parameter_count
from solutions.quantization import SCHEMES, kept_weights, quantized_bytes
from solutions.validation import require_amount, require_known, require_whole

LEFT_OUT = (
    "the allocator's rounding and fragmentation, also of a cache that grows token by token",
    "beam search, speculative decoding and a cache that is quantized or paged",
    "torch.compile and CUDA graphs",
    "a vision tower and its image tokens",
)


@dataclass(frozen=True, kw_only=True)
class Inference:
    """One generation: `batch` prompts of `prompt` tokens, each continued by `new_tokens`.

    - `dtype`: float32, float16 or bfloat16, of weights that are not quantized, activations and
      cache; `quantization`: `nf4`, `nf4-dq`, `int8` or `None`.
    - `windowed`: local layers cache their window only. transformers cuts the cache when the first
      token is decoded, so the prefill holds all of it.
    - `all_logits`: the prefill computes logits for every token, as a plain forward pass does.
      `generate` computes those of the last one.

    Raises `ValueError` for an unknown name or a size below 1 (`new_tokens` may be 0).
    """

    shape: Shape
    batch: int
    prompt: int
    new_tokens: int
    dtype: str = "bfloat16"
    quantization: str | None = None
    attention: str = "sdpa"
    windowed: bool = True
    all_logits: bool = False
    context_bytes: int = CUDA_CONTEXT_BYTES

    def __post_init__(self) -> None:
        require_whole(batch=self.batch, prompt=self.prompt)
        require_whole(at_least=0, new_tokens=self.new_tokens)
        require_amount(context_bytes=self.context_bytes)
        require_known("attention", self.attention, ATTENTIONS)
        value_bytes(self.dtype)
        if self.quantization is not None:
            require_known("quantization", self.quantization, SCHEMES)


def inference_memory(inference: Inference) -> Breakdown:
    """The peak memory of one generation, as parts that add up."""
    i = inference
    return Breakdown(
        title=f"inference, {i.quantization or i.dtype}",
        always=(
            *weight_parts(i),
            Part("cublas_workspace", CUBLAS_WORKSPACE_BYTES, "PyTorch's default for most GPUs"),
            Part("cuda_context", i.context_bytes, "outside the allocator; differs by GPU"),
        ),
        moments=(
            Moment("prefill, a block", block_parts(i, i.prompt, i.prompt, windowed=False)),
            Moment("prefill, the logits", prefill_logits_parts(i)),
            Moment("decode", decode_parts(i)),
        ),
        left_out=LEFT_OUT,
    )


def weight_parts(i: Inference) -> tuple[Part, ...]:
    """The weights, quantized or not."""
    if i.quantization is None:
        count = parameter_count(i.shape)
        return (Part("weights", ceil(weight_bytes(count, i.dtype)), f"{count:,} in {i.dtype}"),)
    kept = kept_weights(i.shape)
    return (
        Part(
            "quantized_weights",
            quantized_bytes(i.shape, i.quantization),
            f"the linear layers of the blocks in {i.quantization}, scales included",
        ),
        Part(
            "kept_weights",
            ceil(weight_bytes(kept, i.dtype)),
            f"{kept:,} in {i.dtype}: embedding, head, norms, biases",
        ),
    )


def prefill_logits_parts(i: Inference) -> tuple[Part, ...]:
    """The end of the prefill: the whole cache, the last hidden states and the logits."""
    value = value_bytes(i.dtype)
    logits = logits_tensor_bytes(i.shape, i.batch, i.prompt if i.all_logits else 1, i.dtype)
    return (
        cache_part(i, i.prompt, windowed=False),
        Part("hidden_states", value * i.batch * i.prompt * i.shape.hidden, "the head's input"),
        Part("logits", logits, "of every token" if i.all_logits else "of the last token"),
        sampling_part(i),
    )


def decode_parts(i: Inference) -> tuple[Part, ...]:
    """The last token: the cache is at its longest, and a layer's keys are copied to append one."""
    total = i.prompt + i.new_tokens
    layer = 2 * i.batch * total * i.shape.kv_heads * i.shape.head_dim * value_bytes(i.dtype)
    return (
        *block_parts(i, 1, total, i.windowed),
        Part("cache_growth", layer // 2, "the keys of a global layer, copied to append a token"),
        Part("logits", logits_tensor_bytes(i.shape, i.batch, 1, i.dtype), "of one token"),
        sampling_part(i),
    )


def block_parts(i: Inference, tokens: int, context: int, windowed: bool) -> tuple[Part, ...]:
    """One block's forward pass over `tokens` tokens a sequence, `context` tokens being cached."""
    return (
        cache_part(i, context, windowed),
        Part("block", block_forward_bytes(i, tokens, context), "one block's largest tensors"),
        Part("attention_mask", mask_bytes(i, tokens, context), "shared by all blocks of one kind"),
        Part("dequantized_weight", dequantized_bytes(i, tokens), f"the largest, in {i.dtype}"),
    )


def cache_part(i: Inference, context: int, windowed: bool) -> Part:
    """The key/value cache of `context` tokens."""
    size = ceil(kv_cache_bytes(i.shape, i.batch, context, i.dtype, windowed))
    return Part("kv_cache", size, f"keys and values of {context} tokens")


def sampling_part(i: Inference) -> Part:
    """The last token's logits in float32, from which `generate` samples; none without it."""
    size = 0 if i.all_logits else logits_tensor_bytes(i.shape, i.batch, 1, "float32")
    return Part("sampling_logits", size, "the last token's, in float32")


def block_forward_bytes(i: Inference, tokens: int, context: int) -> int:
    """The most bytes that one block's forward pass holds at once, without autograd.

    The residual stream is there several times: the embeddings, the block's input, the stream after
    attention and the norm's output. With it are, in the MLP, its branches and their product; in a
    norm, three float32 copies of the stream; in eager attention, the scores with their mask in
    `dtype`, float32 scores and probabilities, and queries, keys and values for every head.
    """
    value = value_bytes(i.dtype)
    rows = i.batch * tokens
    stream = value * rows * i.shape.hidden
    mlp = 4 * stream + (3 if i.shape.gated else 2) * value * rows * i.shape.intermediate
    norm = 3 * stream + 3 * FLOAT32_BYTES * rows * i.shape.hidden
    if i.attention == "sdpa":
        return max(mlp, norm)
    narrow = 0 if value == FLOAT32_BYTES else value
    scores = (narrow + 2 * FLOAT32_BYTES) * i.batch * i.shape.heads * tokens * context
    heads = value * i.batch * i.shape.heads * i.shape.head_dim * (tokens + 2 * context)
    return max(mlp, norm, 3 * stream + scores + heads)


def mask_bytes(i: Inference, tokens: int, context: int) -> int:
    """Bytes of the causal masks: as in training; a single token needs none with SDPA."""
    return causal_mask_bytes(i.shape, i.batch, tokens, context, i.attention, value_bytes(i.dtype))


def dequantized_bytes(i: Inference, tokens: int) -> int:
    """Bytes of the largest quantized matrix, restored; one token's product needs no such copy."""
    if i.quantization not in ("nf4", "nf4-dq") or tokens == 1:
        return 0
    return value_bytes(i.dtype) * max(
        layer.inputs * layer.outputs for layer in linear_layers(i.shape)
    )
