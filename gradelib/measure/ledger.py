"""A ledger of every tensor that is made and freed, and what each one was for.

`MemoryLedger` watches all operations of a program, on any device or on tensors without values. It
counts what PyTorch's caching allocator would be asked for, without its rounding and spare blocks,
and with no memory that a kernel takes inside itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CATEGORIES = (
    "weights",
    "gradients",
    "optimizer",
    "activations",
    "logits",
    "inputs",
    "temporary",
)
TEMPORARY = "temporary"


class MemoryLedger(TorchDispatchMode):
    """Counts the bytes of all tensors that live at one time, while it is entered.

    `current_bytes` and `peak_bytes` are kept as operations run. `at_peak()` tells what the memory
    held at the peak, by category; `timeline()` the total after every allocation and release. With
    `capacity_bytes`, an allocation above it raises `torch.cuda.OutOfMemoryError`.

    It slows a program down by some tens of microseconds an operation. It sees tensors that pass
    through an operation; those made before it was entered must be told to it, with `label`.
    """

    def __init__(self, capacity_bytes: int | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.capacity_bytes = capacity_bytes
        self.current_bytes = 0
        self.peak_bytes = 0
        self._tied_shape: torch.Size | None = None
        self._serials: dict[int, int] = {}  # storages alive now, by address, to their serial
        self._sizes: list[int] = []
        self._labels: list[str] = []
        self._events: list[tuple[int, int]] = []  # serial, and +1 for made or -1 for freed

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.add.Tensor and self._sums_gradients_of_a_tied_weight(args):
            self._take_over(args[0], out)
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self._seen(leaf)
        return out

    def label(self, tensors: Iterable[Tensor], category: str) -> None:
        """Say what these tensors are for. The last label that a tensor gets is what counts."""
        if category not in CATEGORIES:
            raise ValueError(f"unknown category {category!r}; known: {', '.join(CATEGORIES)}")
        for tensor in tensors:
            self._labels[self._seen(tensor)] = category

    def category_of(self, tensor: Tensor) -> str:
        """The label of a tensor that is alive."""
        return self._labels[self._seen(tensor)]

    def at_peak(self) -> dict[str, int]:
        """Bytes of each category when the total was highest. They add up to `peak_bytes`."""
        current = dict.fromkeys(CATEGORIES, 0)
        total = highest = 0
        best = dict(current)
        for serial, sign in self._events:
            current[self._labels[serial]] += sign * self._sizes[serial]
            total += sign * self._sizes[serial]
            if total > highest:
                highest, best = total, dict(current)
        return best

    @property
    def event_count(self) -> int:
        """How many allocations and releases there were: the length of `timeline()`."""
        return len(self._events)

    def timeline(self) -> list[dict[str, int]]:
        """Bytes of each category after each allocation or release, in order."""
        current = dict.fromkeys(CATEGORIES, 0)
        steps = []
        for serial, sign in self._events:
            current[self._labels[serial]] += sign * self._sizes[serial]
            steps.append(dict(current))
        return steps

    @contextmanager
    def backward_pass(self, tied: Tensor) -> Iterator[None]:
        """Count the sum of the two gradients of a tied weight as autograd makes it: in place.
        While its operations are watched, as here, it makes a third tensor instead."""
        self._tied_shape = tied.shape
        try:
            yield
        finally:
            self._tied_shape = None

    def _sums_gradients_of_a_tied_weight(self, args: tuple[Any, ...]) -> bool:
        return self._tied_shape is not None and all(
            isinstance(arg, Tensor) and arg.shape == self._tied_shape for arg in args[:2]
        )

    def _take_over(self, old: Tensor, new: Tensor) -> None:
        """Let the storage of `new` stand for that of `old`, which is about to be freed."""
        address = old.untyped_storage()._cdata
        if address in self._serials:
            storage = new.untyped_storage()
            self._serials[storage._cdata] = self._serials.pop(address)
            weakref.finalize(storage, self._freed, storage._cdata)

    @contextmanager
    def watching(self, model: Any, vocab: int | None = None) -> Iterator[None]:
        """Label a model's weights, its gradients as they appear, and what the forward pass saves.

        With `vocab`, saved tensors whose last size it is are logits.
        """
        parameters = list(model.parameters())
        self.label([*parameters, *model.buffers()], "weights")
        handles = [
            parameter.register_post_accumulate_grad_hook(self._label_gradient)
            for parameter in parameters
            if parameter.requires_grad
        ]

        def keep(tensor: Tensor) -> Tensor:
            if self.category_of(tensor) == TEMPORARY:
                logits = vocab is not None and tensor.ndim > 1 and tensor.shape[-1] == vocab
                self.label([tensor], "logits" if logits else "activations")
            return tensor

        try:
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _label_gradient(self, parameter: Tensor) -> None:
        if parameter.grad is not None:
            self.label([parameter.grad], "gradients")

    def _seen(self, tensor: Tensor) -> int:
        """The serial of a tensor's storage, which is entered in the ledger if it is new."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address in self._serials:
            return self._serials[address]
        size = storage.nbytes()
        if self.capacity_bytes is not None and self.current_bytes + size > self.capacity_bytes:
            raise torch.cuda.OutOfMemoryError(self._out_of_memory(size))
        serial = len(self._sizes)
        self._sizes.append(size)
        self._labels.append(TEMPORARY)
        self._serials[address] = serial
        self._events.append((serial, 1))
        self.current_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.current_bytes)
        weakref.finalize(storage, self._freed, address)
        return serial

    def _freed(self, address: int) -> None:
        serial = self._serials.pop(address, None)
        if serial is None:
            return  # another storage has taken its place
        self._events.append((serial, -1))
        self.current_bytes -= self._sizes[serial]

    def _out_of_memory(self, size: int) -> str:
        assert self.capacity_bytes is not None
        free = self.capacity_bytes - self.current_bytes
        return (
            f"CUDA out of memory. Tried to allocate {as_text(size)}. GPU 0 has a total capacity of "
            f"{as_text(self.capacity_bytes)} of which {as_text(free)} is free. Of the allocated "
            f"memory {as_text(self.current_bytes)} is allocated by PyTorch, and 0 bytes is "
            "reserved by PyTorch but unallocated. (A simulated GPU: no real memory was used.)"
        )


def as_text(size: float) -> str:
    """Bytes as PyTorch prints them: in GiB, MiB or KiB, with two digits."""
    for unit, bytes_ in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= bytes_:
            return f"{size / bytes_:.2f} {unit}"
    return f"{size:.0f} bytes"
