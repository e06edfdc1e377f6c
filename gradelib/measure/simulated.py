"""A GPU that is not there: it runs the real model's operations on tensors without values, and
raises the error that a full GPU raises.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from gradelib.measure.ledger import MemoryLedger, as_text
from gradelib.measure.models import materialise, meta_model, one_sequence_a_row
from gradelib.measure.optimizers import make_optimizer, state_tensors
from gradelib.measure.setup import Setup


class SimulatedGPU:
    """A GPU of `capacity_bytes` for tensors. Inside `with`, every tensor that is made lives on it.

    What does not fit raises `torch.cuda.OutOfMemoryError`, worded as on a real GPU, at the
    operation that would fail there. Tensors have no values: a loss can be computed, not read.
    Kernels' own workspaces, the CUDA context and fragmentation are left out, so a real GPU of this
    size is full a little earlier: give the bytes that are usable, not those on the box.
    """

    def __init__(self, capacity_bytes: int) -> None:
        if capacity_bytes < 1:
            raise ValueError(f"capacity_bytes must be at least 1: got {capacity_bytes!r}")
        self.ledger = MemoryLedger(int(capacity_bytes))
        self._entered: ExitStack | None = None

    def __enter__(self) -> Self:
        self._entered = ExitStack()
        self._entered.enter_context(one_sequence_a_row())
        self._entered.enter_context(FakeTensorMode())
        self._entered.enter_context(self.ledger)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._entered is not None
        self._entered.close()
        self._entered = None

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the tensors that live now, as `torch.cuda.memory_allocated()` tells."""
        return self.ledger.current_bytes

    @property
    def peak_bytes(self) -> int:
        """The most that lived at one time, as `torch.cuda.max_memory_allocated()` tells."""
        return self.ledger.peak_bytes

    def load(self, setup: Setup) -> Any:
        """The model of `setup` on this GPU, with adapters if it has any."""
        self._require_entered()
        with _disable_current_modes():
            model = meta_model(setup)
        materialise(model)
        self.ledger.label([*model.parameters(), *model.buffers()], "weights")
        return model

    def optimizer(self, model: Any, setup: Setup) -> torch.optim.Optimizer:
        """The optimizer of `setup` over the model's trainable parameters."""
        return make_optimizer(model, setup.optimizer)

    def train_step(self, model: Any, optimizer: torch.optim.Optimizer, setup: Setup) -> None:
        """One training step: forward, backward, optimizer, gradients cleared."""
        self._require_entered()
        ids = torch.zeros(setup.batch, setup.seq, dtype=torch.long)
        self.ledger.label([ids], "inputs")
        with self.ledger.watching(model, setup.shape.vocab):
            loss = model(input_ids=ids, labels=ids).loss
            with self.ledger.backward_pass(model.get_output_embeddings().weight):
                loss.backward()
            del loss
            optimizer.step()
        self.ledger.label(state_tensors(optimizer), "optimizer")
        optimizer.zero_grad()

    def summary(self) -> str:
        """What the memory held at the peak, by category."""
        assert self.ledger.capacity_bytes is not None
        rows = [
            f"  {name:12} {as_text(size):>12}"
            for name, size in self.ledger.at_peak().items()
            if size
        ]
        capacity = as_text(self.ledger.capacity_bytes)
        return "\n".join([f"peak {as_text(self.peak_bytes)} of {capacity}", *rows])

    def _require_entered(self) -> None:
        if self._entered is None:
            raise RuntimeError("use the simulated GPU inside a with statement: with gpu: ...")
