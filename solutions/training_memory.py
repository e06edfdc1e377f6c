"""Peak GPU memory of a training step, part by part: full fine-tuning, LoRA and QLoRA, in any
precision, with or without checkpointing, accumulation and data parallelism.

A step has five moments that can be the peak: the loss, the backward pass in the last block and in
the first, its end, and the optimizer's step. Each part is estimated by one function elsewhere;
here it is decided which parts are alive when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, prod

from gradelib.shapes import Shape
from solutions.activations import (
    INT64_BYTES,
    Saving,
    blocks_bytes,
    boundary_bytes,
    outer_bytes,
    quantized_input_bytes,
    rotary_bytes,
    value_bytes,
)
from solutions.backward import block_backward_bytes
from solutions.breakdown import Breakdown, Moment, Part
from solutions.layers import head_layer, linear_layers
from solutions.logits import chunked_logits_bytes, logits_tensor_bytes
from solutions.lora import ALL_LINEAR, target_layers
from solutions.memory import gradient_bytes, weight_bytes
from solutions.optimizers import counted_state_bytes, step_temporary_bytes
from solutions.overhead import CUBLAS_WORKSPACE_BYTES, CUDA_CONTEXT_BYTES, causal_mask_bytes
from solutions.parameters import parameter_count
from solutions.precision import Formats, formats
from solutions.quantization import SCHEMES, kept_weights, quantized_bytes
from solutions.tensors import Tensors, adapter_tensors, model_tensors
from solutions.validation import require_amount, require_known, require_whole

LEFT_OUT = (
    "the allocator's rounding and fragmentation: reserved memory is above what tensors take",
    "padding masks, and dropout in the model itself: sequences are unpadded, dropout is 0",
    "attention kernels that fall back to materialised scores (SDPA on a T4, in bfloat16 or with "
    "grouped queries and no mask): count those as eager",
    "torch.compile, which fuses operations and saves less",
    "a vision tower, and anything that the training script itself keeps",
)


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training configuration.

    - `method` is `full`, `lora` or `qlora`; `precision` a name of `solutions.precision.PRECISIONS`.
    - `rank`, `targets` and `lora_dropout` (whether there is any) describe the adapters,
      `quantization` the frozen base of QLoRA.
    - `accumulation` is the number of micro-batches of `batch` sequences in a step.
    - `data_parallel` adds DDP's gradient buckets, unless gradients are views of them.
    - `fused_optimizer` is PyTorch's fused AdamW, which needs no temporary memory.
    - `loss_chunks` above 1 is a loss that handles the tokens in that many pieces.
    - `keeps_logits`: the script holds the model's output during the backward pass, as
      `out = model(...); out.loss.backward()` does. transformers' `Trainer` drops it.
    - `adapter_dtype` and `upcast_kept` are as in `solutions.precision.formats`.
    - `keeps_quantized_inputs` is as in `solutions.activations.Saving`; int8 layers always do.

    Raises `ValueError` for an unknown name, a size below 1, or a rank above a matrix's rank.
    """

    shape: Shape
    batch: int
    seq: int
    method: str = "full"
    precision: str = "bfloat16"
    optimizer: str = "adamw"
    attention: str = "sdpa"
    checkpointing: bool = False
    rank: int = 16
    targets: Sequence[str] | str = ALL_LINEAR
    lora_dropout: bool = False
    quantization: str = "nf4"
    accumulation: int = 1
    data_parallel: bool = False
    gradients_as_bucket_view: bool = False
    fused_optimizer: bool = False
    loss_chunks: int = 1
    keeps_logits: bool = True
    adapter_dtype: str = "float32"
    upcast_kept: bool = True
    keeps_quantized_inputs: bool = False
    context_bytes: int = CUDA_CONTEXT_BYTES

    def __post_init__(self) -> None:
        require_whole(
            batch=self.batch,
            seq=self.seq,
            accumulation=self.accumulation,
            loss_chunks=self.loss_chunks,
        )
        require_amount(context_bytes=self.context_bytes)
        require_known("quantization", self.quantization, SCHEMES)

    @cached_property
    def formats(self) -> Formats:
        """The format of each kind of tensor."""
        return formats(self.method, self.precision, self.adapter_dtype, self.upcast_kept)

    @cached_property
    def compute_dtype(self) -> str:
        """The format in which products are computed."""
        return self.precision.removesuffix("-mixed")

    @cached_property
    def saving(self) -> Saving:
        """What decides which activations are saved."""
        if self.method == "full":
            return Saving(self.formats, self.attention)
        names = frozenset(layer.name for layer in target_layers(self.shape, self.targets))
        keeps = self.keeps_quantized_inputs or self.quantization == "int8"
        quantized = keeps and self.method == "qlora"
        return Saving(self.formats, self.attention, names, self.rank, quantized, self.lora_dropout)

    @cached_property
    def trained(self) -> Tensors:
        """The tensors that the optimizer updates."""
        if self.method == "full":
            return model_tensors(self.shape)
        return adapter_tensors(self.shape, self.rank, self.targets)

    @cached_property
    def trained_parameters(self) -> int:
        """How many parameters the optimizer updates."""
        return sum(prod(size) * count for size, count in self.trained)


def training_memory(training: Training) -> Breakdown:
    """The peak memory of one training step after the first, as parts that add up."""
    t = training
    return Breakdown(
        title=f"{t.method}, {t.precision}, {t.optimizer}",
        always=always_parts(t),
        moments=(
            Moment("loss", loss_parts(t)),
            Moment("backward, last block", last_block_parts(t)),
            Moment("backward, first block", first_block_parts(t)),
            Moment("end of backward", end_of_backward_parts(t)),
            Moment("optimizer step", step_parts(t)),
        ),
        left_out=LEFT_OUT,
    )


def always_parts(t: Training) -> tuple[Part, ...]:
    """What is alive throughout the step."""
    gradients = all_gradient_bytes(t)
    buckets = t.data_parallel and not t.gradients_as_bucket_view
    return (
        *weight_parts(t),
        Part(
            "optimizer_state",
            counted_state_bytes(t.optimizer, t.trained, t.formats.trained),
            f"{t.optimizer} for {t.trained_parameters:,} trained parameters",
        ),
        Part(
            "accumulated_gradients",
            gradients if t.accumulation > 1 else 0,
            f"kept over {t.accumulation} micro-batches",
        ),
        Part("ddp_buckets", gradients if buckets else 0, "DDP's copy of the gradients"),
        Part("batch", 2 * INT64_BYTES * t.batch * t.seq, "token ids and labels, 8 bytes each"),
        Part("cublas_workspace", CUBLAS_WORKSPACE_BYTES, "PyTorch's default for most GPUs"),
        Part("cuda_context", t.context_bytes, "outside the allocator; differs by GPU"),
    )


def loss_parts(t: Training) -> tuple[Part, ...]:
    """The loss and the start of its backward pass: every activation is there."""
    casts = cast_head_bytes(t) + (0 if t.checkpointing else cast_blocks_bytes(t))
    logits = chunked_logits_bytes(t.shape, t.batch, t.seq, t.formats.logits, t.loss_chunks)
    if not t.keeps_logits and t.loss_chunks == 1:
        logits -= logits_tensor_bytes(t.shape, t.batch, t.seq, t.formats.logits)
    return (
        Part("activations", outer_part_bytes(t) + saved_blocks_bytes(t), saved_why(t)),
        Part("autocast_weights", casts, f"{t.compute_dtype} casts of float32 weights"),
        Part("logits_and_loss", logits, "logits, and the loss's float32 copies and gradients"),
        mask_part(t),
    )


def last_block_parts(t: Training) -> tuple[Part, ...]:
    """The backward pass in the last block, which comes first: all other blocks are still there."""
    layers = t.shape.layers
    others = saved_blocks_bytes(t) * (layers - 1) // layers
    return (
        Part("activations", others, saved_why(t)),
        *block_parts(t),
        Part("head_gradient", head_gradient_bytes(t), "the first weight gradient of the step"),
    )


def first_block_parts(t: Training) -> tuple[Part, ...]:
    """The backward pass in the first block, which comes last: the gradients are nearly all there."""
    new = 0 if t.accumulation > 1 else all_gradient_bytes(t) - embedding_bytes(t)
    layers = t.shape.layers
    return (
        *block_parts(t),
        Part("gradients", new * (layers - 1) // layers, "of the blocks already passed"),
        Part("head_gradient", head_gradient_bytes(t), "the first weight gradient of the step"),
    )


def block_parts(t: Training) -> tuple[Part, ...]:
    """What the backward pass needs in one block."""
    kinds = ((False, t.shape.global_layers), (True, t.shape.local_layers))
    # What checkpointing does not drop is among the activations already.
    kept = t.saving.keeps_quantized_inputs and not t.checkpointing
    saving = replace(t.saving, keeps_quantized_inputs=kept)
    block = max(
        block_backward_bytes(t.shape, t.batch, t.seq, saving, local)
        for local, count in kinds
        if count
    )
    if t.checkpointing and t.formats.residual != "float32":
        # The block's input beside the float32 copy of it that its norm makes.
        block += boundary_bytes(t.shape, t.batch, t.seq, t.saving)
    layers = t.shape.layers
    casts = cast_blocks_bytes(t) // layers if t.checkpointing else cast_blocks_bytes(t)
    return (
        Part("block", block, "the block that backward is in: its activations and their gradients"),
        Part("autocast_weights", casts, f"{t.compute_dtype} casts of float32 weights"),
        Part("dequantized_weight", dequantized_bytes(t), "the largest matrix, restored"),
        logits_part(t),
        mask_part(t),
    )


def end_of_backward_parts(t: Training) -> tuple[Part, ...]:
    """The end of the backward pass: every gradient is there, the embedding's comes last."""
    why = "the embedding's, dense, before it is added to the head's"
    return (
        gradient_part(t),
        Part("embedding_gradient", embedding_gradient_bytes(t), why),
        logits_part(t),
    )


def step_parts(t: Training) -> tuple[Part, ...]:
    """The optimizer's step."""
    largest = max(prod(size) for size, _ in t.trained)
    temporary = step_temporary_bytes(
        t.optimizer, t.trained_parameters, largest, t.formats.trained, t.fused_optimizer
    )
    return (
        gradient_part(t),
        Part("step_temporary", temporary, f"what {t.optimizer} allocates for one step"),
        logits_part(t),
    )


def logits_part(t: Training) -> Part:
    """The logits, which live as long as the model's output does."""
    size = logits_tensor_bytes(t.shape, t.batch, t.seq, t.formats.logits)
    why = f"one {t.formats.logits} value a token and word, in the model's output"
    return Part("logits", size if t.keeps_logits else 0, why)


def gradient_part(t: Training) -> Part:
    """The gradients that this micro-batch adds to memory: none when they accumulate."""
    new = 0 if t.accumulation > 1 else all_gradient_bytes(t)
    return Part("gradients", new, "one for each trained parameter")


def mask_part(t: Training) -> Part:
    """The causal masks."""
    return Part(
        "attention_mask",
        causal_mask_bytes(t.shape, t.batch, t.seq, t.seq, t.attention, t.saving.residual),
        "shared by all blocks of one kind",
    )


def all_gradient_bytes(t: Training) -> int:
    """Bytes of the gradients of all trained parameters."""
    return ceil(gradient_bytes(t.trained_parameters, t.formats.trained))


def outer_part_bytes(t: Training) -> int:
    """Bytes of activations outside the blocks."""
    return outer_bytes(t.shape, t.batch, t.seq, t.saving) + rotary_bytes(t.shape, t.seq, t.saving)


def saved_blocks_bytes(t: Training) -> int:
    """Bytes of activations of all blocks: under checkpointing, their inputs."""
    if t.checkpointing:
        inputs = boundary_bytes(t.shape, t.batch, t.seq, t.saving)
        return t.shape.layers * (inputs + quantized_input_bytes(t.shape, t.batch * t.seq, t.saving))
    return blocks_bytes(t.shape, t.batch, t.seq, t.saving)


def saved_why(t: Training) -> str:
    """Where the activations come from."""
    return "the input of every block" if t.checkpointing else "what every block saves for backward"


def weight_parts(t: Training) -> tuple[Part, ...]:
    """The weights: the base, quantized or not, and the adapters."""
    base = t.formats.weights
    if t.method == "full":
        count = parameter_count(t.shape)
        role = ", the master weights" if t.formats.autocast else ""
        why = f"{count:,} in {base}{role}"
        return (Part("weights", ceil(weight_bytes(count, base)), why),)
    adapters = Part(
        "adapters",
        ceil(weight_bytes(t.trained_parameters, t.formats.trained)),
        f"{t.trained_parameters:,} in {t.formats.trained}",
    )
    if t.method == "lora":
        count = parameter_count(t.shape)
        frozen = Part("weights", ceil(weight_bytes(count, base)), f"{count:,} frozen, in {base}")
        return frozen, adapters
    kept = kept_weights(t.shape)
    return (
        Part(
            "quantized_weights",
            quantized_bytes(t.shape, t.quantization),
            f"the linear layers of the blocks in {t.quantization}, scales included",
        ),
        Part(
            "kept_weights",
            ceil(weight_bytes(kept, base)),
            f"{kept:,} in {base}: embedding, head, norms, biases",
        ),
        adapters,
    )


def cast_blocks_bytes(t: Training) -> int:
    """Bytes of the 16-bit casts of float32 weights that autocast makes of all blocks' weights."""
    if not t.formats.autocast:
        return 0
    blocks = sum(layer.weights for layer in linear_layers(t.shape))
    return value_bytes(t.compute_dtype) * (blocks if t.method == "full" else t.trained_parameters)


def cast_head_bytes(t: Training) -> int:
    """Bytes of the 16-bit cast of a float32 output head."""
    if not t.formats.autocast or t.formats.weights != "float32":
        return 0
    return value_bytes(t.compute_dtype) * head_layer(t.shape).weights


def head_gradient_bytes(t: Training) -> int:
    """Bytes of the gradient of the output head."""
    if t.method != "full":
        return 0
    return ceil(gradient_bytes(head_layer(t.shape).weights, t.formats.trained))


def embedding_bytes(t: Training) -> int:
    """Bytes of the gradients of embedding and head, as they end up: one matrix if it is tied."""
    return head_gradient_bytes(t) * (1 if t.shape.tied else 2)


def embedding_gradient_bytes(t: Training) -> int:
    """Bytes that the embedding's gradient adds, at the end, to the gradients there are.

    The embedding is looked up, yet its gradient has a row for every word. With a tied head it is
    added to the head's gradient. When gradients accumulate, both are new beside the old ones.
    """
    return head_gradient_bytes(t) * (t.shape.tied + (t.accumulation > 1))


def dequantized_bytes(t: Training) -> int:
    """Bytes of the largest quantized matrix, restored to multiply with it.

    4-bit layers restore it in the format they compute in, int8 layers in their input's.
    """
    if t.method != "qlora":
        return 0
    largest = max(layer.inputs * layer.outputs for layer in linear_layers(t.shape))
    int8 = t.quantization == "int8"
    return largest * (t.saving.residual if int8 else value_bytes(t.compute_dtype))
