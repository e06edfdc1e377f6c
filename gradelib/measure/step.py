"""Memory of a training step on the real model without weights: what the forward pass saves, and
the peak of the whole step by category.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from gradelib.measure.ledger import as_text
from gradelib.measure.models import materialise, meta_model, one_sequence_a_row
from gradelib.measure.progress import block_progress
from gradelib.measure.setup import Setup
from gradelib.measure.simulated import SimulatedGPU

UNLIMITED = 2**60


@dataclass(frozen=True)
class SavedBytes:
    """What autograd saved in a forward pass for the backward pass.

    `activation_bytes` leaves out weights and logits; `logits_bytes` are the saved tensors as wide
    as the vocabulary. `largest_block_bytes` is what one block saved at most. Under checkpointing a
    block saves its input only, and `largest_block_bytes` is what recomputing one block saves again
    in the backward pass.
    """

    activation_bytes: int
    logits_bytes: int
    largest_block_bytes: int
    recomputed_bytes: int = 0
    counts: str = (
        "each storage once that autograd saved in the forward pass, on the transformers model in "
        "PyTorch's eager mode"
    )
    leaves_out: str = (
        "what kernels take inside themselves, and gradients of activations in the backward pass"
    )

    @property
    def alive_bytes(self) -> int:
        """Activations alive at most in the backward pass: all that is saved, and under
        checkpointing one recomputed block."""
        return self.activation_bytes + self.recomputed_bytes

    def __str__(self) -> str:
        return (
            f"saved for the backward pass: {as_text(self.activation_bytes)} of activations, "
            f"{as_text(self.logits_bytes)} of logits\ncounts {self.counts}\n"
            f"leaves out {self.leaves_out}"
        )


@dataclass(frozen=True)
class StepMemory:
    """The peak of a training step after the first, and what it held.

    `parts` adds up to `peak_bytes`. `timeline` has the total after each allocation and release of
    that step, if it was asked for.
    """

    peak_bytes: int
    parts: dict[str, int]
    timeline: tuple[int, ...] = field(default=(), repr=False)
    counts: str = (
        "every tensor that the step makes, from the operations of the real model, with a GPU's "
        "default (foreach) optimizer"
    )
    leaves_out: str = (
        "the CUDA context, workspaces inside kernels, and the allocator's rounding and spare "
        "blocks: a real GPU reserves more"
    )

    def __str__(self) -> str:
        rows = [f"  {name:12} {as_text(size):>12}" for name, size in self.parts.items() if size]
        return "\n".join(
            [
                f"peak of a step: {as_text(self.peak_bytes)}",
                *rows,
                f"counts {self.counts}",
                f"leaves out {self.leaves_out}",
            ]
        )


def measure_saved_bytes(setup: Setup, progress: bool = True) -> SavedBytes:
    """Bytes that the forward pass of `setup` saves. Gemma 3 4B takes about 3 seconds.

    Sizes alone are computed: the model's values do not exist. Its own overhead is no memory.
    """
    if setup.checkpointing:
        plain = measure_saved_bytes(replace(setup, checkpointing=False), progress)
        block = plain.largest_block_bytes
    model = meta_model(setup)
    with one_sequence_a_row(), FakeTensorMode():
        materialise(model)
        ids = torch.zeros(setup.batch, setup.seq, dtype=torch.long)
        own = {p.untyped_storage()._cdata for p in [*model.parameters(), *model.buffers()]}
        saved: dict[int, Tensor] = {}
        blocks: dict[int, dict[int, int]] = {}
        inside: list[int] = []

        def keep(tensor: Tensor) -> Tensor:
            address = tensor.untyped_storage()._cdata
            if address not in own:
                if address not in saved and inside:
                    blocks[inside[-1]][address] = tensor.untyped_storage().nbytes()
                saved[address] = tensor  # kept, so that the address is not used again
            return tensor

        for index, block_module in enumerate(_blocks(model)):
            blocks[index] = {}
            block_module.register_forward_pre_hook(_enter(inside, index))
            block_module.register_forward_hook(_leave(inside))
        with (
            block_progress(model, "forward", 1, progress),
            torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        ):
            loss = model(input_ids=ids, labels=ids).loss
        sizes = {address: t.untyped_storage().nbytes() for address, t in saved.items()}
        logits = sum(
            sizes[address]
            for address, t in saved.items()
            if t.ndim > 1 and t.shape[-1] == setup.shape.vocab
        )
        del loss
    largest = block if setup.checkpointing else max(sum(each.values()) for each in blocks.values())
    return SavedBytes(
        activation_bytes=sum(sizes.values()) - logits,
        logits_bytes=logits,
        largest_block_bytes=largest,
        recomputed_bytes=largest if setup.checkpointing else 0,
    )


def measure_step_memory(
    setup: Setup, progress: bool = True, capacity_bytes: int | None = None, timeline: bool = False
) -> StepMemory:
    """Peak bytes of the second training step of `setup`, by category.

    The second, since the first has no optimizer state until its end. Gemma 3 4B takes about 10
    seconds and no memory to speak of. With `capacity_bytes`, a step that needs more raises
    `torch.cuda.OutOfMemoryError` where a GPU of that size would.
    """
    gpu = SimulatedGPU(capacity_bytes or UNLIMITED)
    with gpu:
        model = gpu.load(setup)
        optimizer = gpu.optimizer(model, setup)
        with block_progress(model, "two training steps", 4 if setup.checkpointing else 2, progress):
            gpu.train_step(model, optimizer, setup)
            start = gpu.ledger.event_count
            gpu.train_step(model, optimizer, setup)
        steps = gpu.ledger.timeline()[start:]
        parts = max(steps, key=lambda held: sum(held.values()))
    totals = tuple(sum(held.values()) for held in steps)
    return StepMemory(max(totals), parts, totals if timeline else ())


def _blocks(model: Any) -> list[Any]:
    return [module for module in model.modules() if type(module).__name__ == "Gemma3DecoderLayer"]


def _enter(inside: list[int], index: int) -> Any:
    def hook(*_: Any) -> None:
        inside.append(index)

    return hook


def _leave(inside: list[int]) -> Any:
    def hook(*_: Any) -> None:
        inside.pop()

    return hook
