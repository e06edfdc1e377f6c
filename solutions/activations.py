"""What autograd saves in the forward pass for the backward pass: the activations, term by term.

The terms follow the operations of the transformers implementation of Gemma 3, Llama and GPT-2 in
PyTorch's eager mode. Sequences are unpadded and dropout is 0. Logits and the loss are left to
`solutions.logits`, what the backward pass adds for a moment to `solutions.backward`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradelib.shapes import Shape
from solutions.dtypes import bits
from solutions.precision import Formats, uniform
from solutions.validation import require_known, require_whole

ATTENTIONS = ("sdpa", "eager")
FLOAT32_BYTES = 4
INT64_BYTES = 8


@dataclass(frozen=True)
class Saving:
    """What decides which tensors are saved: formats, attention kernel and trained weights.

    `targets` names the projections that have an adapter of rank `rank`; `None` means that every
    weight is trained. `keeps_quantized_inputs`: quantized layers keep their input although they
    never use it, as bitsandbytes' int8 layers do, and its 4-bit layers did up to 0.41. `dropout`:
    adapters drop out part of their input.
    """

    formats: Formats
    attention: str = "sdpa"
    targets: frozenset[str] | None = None
    rank: int = 0
    keeps_quantized_inputs: bool = False
    dropout: bool = False

    def __post_init__(self) -> None:
        require_known("attention", self.attention, ATTENTIONS)

    @property
    def residual(self) -> int:
        """Bytes of a value of the residual stream."""
        return value_bytes(self.formats.residual)

    @property
    def linear(self) -> int:
        """Bytes of a value that a projection returns."""
        return value_bytes(self.formats.linear)

    @property
    def kernel(self) -> int:
        """Bytes of a value of the queries, keys and values that the attention kernel reads."""
        return value_bytes(self.formats.attention)

    @property
    def kept(self) -> int:
        """Bytes of a value of the input that a trained projection keeps."""
        return value_bytes(self.formats.kept)

    def trains(self, projection: str) -> bool:
        """Whether `projection` has weights of its own that are trained."""
        return self.targets is None or projection in self.targets


def value_bytes(dtype: str) -> int:
    """Bytes of one value of an activation: activations are 16 or 32 bits wide."""
    size = bits(dtype) / 8
    if size not in (2, 4):
        raise ValueError(
            f"activations are float32, tfloat32, float16 or bfloat16: got dtype {dtype!r}"
        )
    return int(size)


def norm_bytes(shape: Shape, rows: int, width: int, value: int, saving: Saving) -> int:
    """Saved by a normalisation of `rows` vectors of `width` values of `value` bytes each.

    RMSNorm computes in float32: it saves its input as float32 and one reciprocal root a row. If
    its weights are trained it also saves the normalised vectors, in float32 where Gemma multiplies
    before it casts back, in the input's format where Llama casts first. LayerNorm saves its input
    as it is, a mean and a reciprocal root.
    """
    values = rows * width
    if shape.norm_bias:
        return value * values + 2 * FLOAT32_BYTES * rows
    saved = FLOAT32_BYTES * (values + rows)
    if is_gemma(shape):
        saved += FLOAT32_BYTES * width  # 1 + weight
    if saving.targets is None:
        saved += (FLOAT32_BYTES if is_gemma(shape) else value) * values
    return saved


def is_gemma(shape: Shape) -> bool:
    """Whether the norms are Gemma's: four a layer, multiplied by 1 + weight in float32."""
    return shape.norms_per_layer == 4


def is_gpt2(shape: Shape) -> bool:
    """Whether blocks are GPT-2's: LayerNorm with a bias, q, k and v from one fused projection."""
    return shape.norm_bias and shape.learned_positions > 0


def attention_bytes(shape: Shape, batch: int, seq: int, saving: Saving, local: bool) -> int:
    """Saved by the attention kernel: queries, keys, values and what the softmax needs.

    Eager attention saves the probabilities of every pair of tokens: in float32, as the softmax
    computes them, and again in the kernel's format if that is narrower. A fused kernel (SDPA)
    saves its output and one log-sum-exp a query. Its mask is saved in every local layer that is
    at least as long as the window; elsewhere `is_causal` makes a mask needless.
    """
    tokens = batch * seq
    pairs = batch * shape.heads * seq * seq
    masked = local and shape.sliding_window is not None and seq >= shape.sliding_window
    eager = saving.attention == "eager"
    # Keys and values are copied once for each query head, but where the kernel itself handles
    # grouped queries (no mask), or where a view can stand for the copies (one key/value head). A
    # cast makes the view a copy: under autocast the rotary tables leave the keys in float32.
    repeated = eager or masked
    view = shape.kv_heads == 1 and not (eager and batch > 1)
    cast = saving.residual != saving.kernel
    key_heads = shape.heads if repeated and (cast or not view) else shape.kv_heads
    value_heads = shape.heads if repeated and not view else shape.kv_heads
    saved = saving.kernel * tokens * (shape.heads + key_heads + value_heads) * shape.head_dim
    if eager:
        if is_gpt2(shape) and not saving.formats.autocast:
            return saved + saving.kernel * pairs  # its softmax stays in the format of its input
        narrow = 0 if saving.kernel == FLOAT32_BYTES else saving.kernel
        return saved + (FLOAT32_BYTES + narrow) * pairs
    saved += saving.kernel * tokens * shape.heads * shape.head_dim  # the output
    saved += FLOAT32_BYTES * batch * shape.heads * seq
    if masked:
        saved += saving.kernel * batch * seq * seq
    return saved


def projection_bytes(shape: Shape, tokens: int, saving: Saving) -> int:
    """Saved by the projections of a block: see `input_bytes`."""
    return (
        query_input_bytes(shape, tokens, saving)
        + input_bytes(("o_proj",), shape.heads * shape.head_dim, saving.kernel, tokens, saving)
        + input_bytes(
            ("gate_proj", "up_proj") if shape.gated else ("up_proj",),
            shape.hidden,
            saving.residual,
            tokens,
            saving,
        )
        + input_bytes(("down_proj",), shape.intermediate, saving.linear, tokens, saving)
    )


def query_input_bytes(shape: Shape, tokens: int, saving: Saving) -> int:
    """Saved by the query, key and value projections; in GPT-2 they are one fused projection."""
    names = ("q_proj",) if is_gpt2(shape) else ("q_proj", "k_proj", "v_proj")
    return input_bytes(names, shape.hidden, saving.residual, tokens, saving)


def input_bytes(names: Sequence[str], width: int, value: int, tokens: int, saving: Saving) -> int:
    """Saved by projections that read one tensor of `width` values a token, `value` bytes each.

    If the weights of any are trained the tensor is saved: once, or once for each if they cast it
    for themselves. A frozen projection saves nothing. The output projection of attention reads
    what the fused kernel has saved already. An adapter also saves `rank` values a token and, with
    dropout, a copy of its input and a mask of one byte a value, as CUDA's fused kernel has it.
    """
    trained = sum(saving.trains(name) for name in names)
    dropout = saving.dropout and saving.targets is not None
    recast = saving.formats.recast or saving.kept != value or dropout
    saved = trained * saving.rank * saving.kept * tokens
    if recast:
        saved += trained * (saving.kept + (1 if dropout else 0)) * tokens * width
    by_kernel = "o_proj" in names and saving.attention == "sdpa"
    if saving.keeps_quantized_inputs or (trained and not recast):
        saved += 0 if by_kernel else value * tokens * width
    return saved


def quantized_input_bytes(shape: Shape, tokens: int, saving: Saving) -> int:
    """Kept by the quantized layers of a block that keep their inputs, in spite of checkpointing.

    They keep them as attributes, not as saved tensors, so checkpointing does not drop them.
    """
    if not saving.keeps_quantized_inputs:
        return 0
    hidden = 2 * saving.residual * shape.hidden
    attention = saving.kernel * shape.heads * shape.head_dim
    return tokens * (hidden + attention + saving.linear * shape.intermediate)


def mlp_bytes(shape: Shape, tokens: int, saving: Saving) -> int:
    """Saved between the MLP's projections.

    A gated MLP saves the activation function's input, its output and the up projection's output.
    GPT-2 spells GELU's tanh form out in four operations that each save a tensor.
    """
    return saving.linear * tokens * shape.intermediate * (3 if shape.gated else 4)


def hidden_norm_bytes(shape: Shape, tokens: int, saving: Saving) -> int:
    """Saved by one norm of the residual stream."""
    return norm_bytes(shape, tokens, shape.hidden, saving.residual, saving)


def query_norm_bytes(shape: Shape, tokens: int, saving: Saving) -> int:
    """Saved by the norms of queries and keys, if the model has them."""
    if not shape.qk_norm:
        return 0
    heads = (shape.heads, shape.kv_heads)
    return sum(
        norm_bytes(shape, tokens * count, shape.head_dim, saving.linear, saving) for count in heads
    )


def layer_bytes(shape: Shape, batch: int, seq: int, saving: Saving, local: bool = False) -> int:
    """Bytes that one transformer block saves; `local` says that it attends to a window."""
    tokens = batch * seq
    return (
        shape.norms_per_layer * hidden_norm_bytes(shape, tokens, saving)
        + query_norm_bytes(shape, tokens, saving)
        + projection_bytes(shape, tokens, saving)
        + attention_bytes(shape, batch, seq, saving, local)
        + mlp_bytes(shape, tokens, saving)
    )


def outer_bytes(shape: Shape, batch: int, seq: int, saving: Saving) -> int:
    """Saved outside the blocks: token ids, the last norm and the head's input."""
    tokens = batch * seq
    saved = hidden_norm_bytes(shape, tokens, saving)
    if saving.trains("lm_head"):
        saved += saving.kept * tokens * shape.hidden
    if saving.targets is None:
        saved += INT64_BYTES * tokens * (2 if shape.learned_positions else 1)
    return saved


def rotary_bytes(shape: Shape, seq: int, saving: Saving) -> int:
    """A cosine and a sine for each position, for each kind of layer. Shared by all layers."""
    if shape.learned_positions:
        return 0
    kinds = (shape.global_layers > 0) + (shape.local_layers > 0)
    return kinds * 2 * saving.residual * seq * shape.head_dim


def boundary_bytes(shape: Shape, batch: int, seq: int, saving: Saving) -> int:
    """Bytes of one block's input, all that checkpointing keeps of a block."""
    return saving.residual * batch * seq * shape.hidden


def blocks_bytes(shape: Shape, batch: int, seq: int, saving: Saving) -> int:
    """Bytes that all blocks save together, without checkpointing."""
    saved = 0
    if shape.global_layers:
        saved += shape.global_layers * layer_bytes(shape, batch, seq, saving, local=False)
    if shape.local_layers:
        saved += shape.local_layers * layer_bytes(shape, batch, seq, saving, local=True)
    return saved


def largest_layer_bytes(shape: Shape, batch: int, seq: int, saving: Saving) -> int:
    """Bytes that the block saving most saves: what checkpointing recomputes at one time."""
    kinds = [
        local for local in (False, True) if (shape.local_layers if local else shape.global_layers)
    ]
    return max(layer_bytes(shape, batch, seq, saving, local) for local in kinds)


def activation_bytes(
    shape: Shape,
    batch: int,
    seq: int,
    dtype: str,
    checkpointing: bool = False,
    attention: str = "sdpa",
) -> int:
    """Bytes that a forward pass of full fine-tuning in `dtype` saves for the backward pass.

    With checkpointing each block keeps only its input, and the backward pass recomputes one block
    at a time: what is counted is all inputs and one recomputed block. Logits are not included.
    Raises `ValueError` for a size below 1, an unknown attention, or a dtype that activations
    cannot have. Derived from what `saved_tensors_hooks` shows, see the tests.
    """
    require_whole(batch=batch, seq=seq)
    saving = Saving(uniform(dtype), attention)
    outer = outer_bytes(shape, batch, seq, saving) + rotary_bytes(shape, seq, saving)
    if not checkpointing:
        return outer + blocks_bytes(shape, batch, seq, saving)
    inputs = shape.layers * boundary_bytes(shape, batch, seq, saving)
    return outer + inputs + largest_layer_bytes(shape, batch, seq, saving)


def hidden_state_copies(shape: Shape, batch: int, seq: int, dtype: str = "bfloat16") -> float:
    """What one block holds after its forward pass, in copies of the hidden state.

    Counts what is saved and the block's output. Source of the unit: S. Bekman, Machine
    Learning Engineering, "Training performance".
    """
    saving = Saving(uniform(dtype))
    one_copy = boundary_bytes(shape, batch, seq, saving)
    return layer_bytes(shape, batch, seq, saving) / one_copy + 1


def bytes_of_copies(copies: float, tokens: int, hidden: int, layers: int, dtype: str) -> float:
    """Bytes of activations when each of `layers` blocks saves `copies` hidden states a token."""
    require_whole(tokens=tokens, hidden=hidden, layers=layers)
    return copies * value_bytes(dtype) * tokens * hidden * layers


def megatron_layer_bytes(batch: int, seq: int, hidden: int, heads: int) -> int:
    """Bytes that one GPT block with dropout saves in 16 bits: s·b·h·(34 + 5·a·s/h).

    Source: Korthikanti et al., arXiv:2205.05198, equation 1. It counts one byte a dropout mask and
    16-bit softmax outputs, as Megatron-LM's fused kernels have them.
    """
    require_whole(batch=batch, seq=seq, hidden=hidden, heads=heads)
    return seq * batch * (34 * hidden + 5 * heads * seq)
