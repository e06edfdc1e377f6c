"""What PyTorch itself keeps and allocates: the oracles of the memory estimates.

Saved bytes are seen by `saved_tensors_hooks` on fake tensors, which have sizes and no values: a
whole 4B model fits on a laptop. Peaks are seen on real, small models, by following every storage.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from bitsandbytes.nn import Int8Params, Linear4bit, Linear8bitLt, Params4bit
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM

from solutions.training_memory import Training

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def model_dtype(t: Training) -> torch.dtype:
    """The format in which the script loads the model."""
    mixed = t.precision.endswith("-mixed") and t.method == "full"
    return torch.float32 if mixed else DTYPES[t.compute_dtype]


def adapt(model: Any, t: Training) -> Any:
    """The model as the configuration trains it: adapters, checkpointing, training mode."""
    if t.method != "full":
        assert not isinstance(t.targets, str)
        settings = LoraConfig(
            r=t.rank,
            target_modules=list(t.targets),
            task_type="CAUSAL_LM",
            lora_dropout=0.05 if t.lora_dropout else 0.0,
        )
        model = get_peft_model(model, settings)
    model.train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        if t.checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
            if t.method != "full":
                model.enable_input_require_grads()
    return model


def quantize(model: Any, t: Training) -> Any:
    """The model with every projection in its blocks quantized, as bitsandbytes stores it."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear) and name != "lm_head":
                setattr(module, name, _quantized(child, t))
    setattr(model, "is_loaded_in_8bit" if t.quantization == "int8" else "is_loaded_in_4bit", True)
    model.requires_grad_(False)
    if t.upcast_kept:
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    return model


def _quantized(linear: torch.nn.Linear, t: Training) -> Any:
    if t.quantization == "int8":
        int8 = Linear8bitLt(
            linear.in_features,
            linear.out_features,
            bias=False,
            has_fp16_weights=False,
            threshold=6.0,
        )
        weights = linear.weight.data.to(torch.float16)
        int8.weight = Int8Params(weights, requires_grad=False, has_fp16_weights=False)
        return int8.to("cpu")
    nested = t.quantization == "nf4-dq"
    quantized = Linear4bit(
        linear.in_features,
        linear.out_features,
        bias=False,
        compute_dtype=DTYPES[t.compute_dtype],
        compress_statistics=nested,
        quant_type="nf4",
    )
    quantized.weight = Params4bit(
        linear.weight.data,
        requires_grad=False,
        compress_statistics=nested,
        quant_type="nf4",
        module=quantized,
    )
    return quantized.to("cpu")


def weight_tensors(model: Any) -> Iterator[torch.Tensor]:
    """The tensors that a model's weights consist of, the scales of quantized ones included."""
    for parameter in model.parameters():
        yield parameter
        state = getattr(parameter, "quant_state", None)
        if state is not None:
            yield state.absmax
            if state.nested:
                yield from (state.state2.absmax, state.offset)


def weight_bytes(model: Any) -> int:
    """Bytes of a model's weights."""
    allocations = Allocations()
    for tensor in weight_tensors(model):
        allocations.add(tensor)
    return allocations.now


def autocast(t: Training) -> Any:
    mixed = t.precision.endswith("-mixed")
    return torch.autocast("cpu", dtype=DTYPES[t.compute_dtype], enabled=mixed)


def saved_bytes(model_config: Any, t: Training) -> int:
    """Bytes of all tensors that a forward pass saves, but weights, casts of them, and the loss."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            model_config, attn_implementation=t.attention, dtype=model_dtype(t)
        )
    model = adapt(model, t)
    weights: set[tuple[int, ...]] = set()
    saved: dict[int, torch.UntypedStorage] = {}
    own: set[int] = set()
    inside: list[str] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        is_cast = tuple(tensor.shape) in weights
        in_loss = not inside[-1].replace("base_model.model", "")
        if storage._cdata not in own and not is_cast and not in_loss:
            saved[storage._cdata] = storage
        return tensor

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda *_, name=name: inside.append(name))
        module.register_forward_hook(lambda *_: void(inside.pop()))
    with FakeTensorMode(allow_non_fake_inputs=True), unpacked_sequences(), fused_dropout():
        _make_fake(model)
        own.update(p.untyped_storage()._cdata for p in model.parameters())
        for p in model.parameters():
            if p.dim() == 2:
                weights |= {(p.shape[0], p.shape[1]), (p.shape[1], p.shape[0])}
        assert not any(t.batch * t.seq in shape for shape in weights), "choose another length"
        ids = torch.empty((t.batch, t.seq), dtype=torch.long)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x), autocast(t):
            model(input_ids=ids, labels=ids)
        return sum(storage.nbytes() for storage in saved.values())


def void(_: object) -> None:
    """A hook that returns something replaces the output: this returns nothing."""


def _make_fake(model: Any) -> None:
    new: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, old in module._parameters.items():
            if old is None:
                continue
            if id(old) not in new:  # a tied weight stays one
                empty = torch.empty(old.shape, dtype=old.dtype)
                new[id(old)] = torch.nn.Parameter(empty, requires_grad=old.requires_grad)
            module._parameters[name] = new[id(old)]
        for name, old in module._buffers.items():
            if old is not None:
                module._buffers[name] = torch.empty(old.shape, dtype=old.dtype)


@contextmanager
def unpacked_sequences() -> Iterator[None]:
    """Say that a batch row is one sequence: transformers would read values to find out."""
    with mock.patch("transformers.masking_utils.find_packed_sequence_indices", return_value=None):
        yield


@contextmanager
def fused_dropout() -> Iterator[None]:
    """Drop out as CUDA's kernel does: PyTorch's way on a CPU keeps a mask of floats."""

    def fused(values: torch.Tensor, p: float, training: bool, *_: object) -> torch.Tensor:
        return torch.native_dropout(values, p, training)[0] if p else values

    with mock.patch("torch.nn.functional.dropout", fused):
        yield


class Allocations(TorchDispatchMode):
    """Bytes of all storages alive, and the most there were since `reset`."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.watched: dict[int, object] = {}
        self.now = self.peak = 0

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.alive:
            return
        self.alive[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        self.watched[key] = weakref.ref(storage, lambda _: self._freed(key))

    def _freed(self, key: int) -> None:
        self.now -= self.alive.pop(key)

    def reset(self) -> None:
        self.peak = self.now

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(output):
            if isinstance(leaf, torch.Tensor):
                self.add(leaf)
        return output


def training_peak(model: Any, t: Training) -> int:
    """Peak bytes of the second training step of `model`, weights and batch included."""
    allocations = Allocations()
    for tensor in weight_tensors(model):
        allocations.add(tensor)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, foreach=True)
    ids = torch.randint(0, t.shape.vocab, (t.batch, t.seq))
    labels = ids.clone()
    allocations.add(ids)
    allocations.add(labels)
    for _ in range(2):
        optimizer.zero_grad()
        with allocations:
            allocations.reset()
            for _ in range(t.accumulation):
                with autocast(t):
                    output = model(input_ids=ids, labels=labels)
                loss = output.loss
                if not t.keeps_logits:
                    del output
                loss.backward()
            optimizer.step()
            output = loss = None
    return allocations.peak


def generation_peak(model: Any, batch: int, prompt: int, new_tokens: int, vocab: int) -> int:
    """Peak bytes of a greedy generation, weights and prompt included."""
    allocations = Allocations()
    for p in model.parameters():
        allocations.add(p)
    ids = torch.randint(3, vocab, (batch, prompt))
    allocations.add(ids)
    mask = torch.ones_like(ids)
    with torch.no_grad(), allocations:
        model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=new_tokens,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=-1,
        )
    return allocations.peak


def peak_of(step: Callable[[], object]) -> int:
    """Peak bytes that `step` allocates."""
    with Allocations() as allocations:
        step()
    return allocations.peak
