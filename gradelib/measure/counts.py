"""Parameters and FLOPs of the real model, counted by PyTorch on the meta device: no weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils.checkpoint import set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

from gradelib.measure.models import meta_model
from gradelib.measure.setup import Setup


@dataclass(frozen=True)
class ParameterCount:
    """Parameters of a model, each counted once where two layers share it.

    `stored_elements` is what `sum(p.numel() ...)` gives: for 4-bit layers it is half the weights,
    since two codes share a byte.
    """

    total: int
    trainable: int
    stored_elements: int
    by_module: dict[str, int]

    def __str__(self) -> str:
        rows = "\n".join(f"  {name:12} {count:>14,}" for name, count in self.by_module.items())
        return f"{self.total:,} parameters, {self.trainable:,} trainable\n{rows}"


@dataclass(frozen=True)
class FlopCount:
    """FLOPs of a forward pass, and of a training step without the optimizer's."""

    forward: int
    training: int
    counts: str = (
        "matrix products and attention, two FLOPs a multiply-add; attention in full, as kernels "
        "without masking run it"
    )
    leaves_out: str = (
        "norms, activation functions, rotary embeddings and the optimizer, which are small"
    )

    def __str__(self) -> str:
        return (
            f"{self.forward:.4g} FLOPs forward, {self.training:.4g} a training step\n"
            f"counts {self.counts}\nleaves out {self.leaves_out}"
        )


def count_parameters(setup: Setup) -> ParameterCount:
    """Parameters of `setup`'s model with its adapters, by the kind of module. About 1 second."""
    model = meta_model(setup)
    seen: set[int] = set()
    by_module: Counter[str] = Counter()
    trainable = stored = 0
    for name, module in model.named_modules():
        for parameter in module._parameters.values():
            if parameter is None or id(parameter) in seen:
                continue
            seen.add(id(parameter))
            packed = parameter.dtype == torch.uint8
            weights = module.in_features * module.out_features if packed else parameter.numel()
            by_module[_kind(name)] += int(weights)
            stored += parameter.numel()
            trainable += parameter.numel() if parameter.requires_grad else 0
    return ParameterCount(sum(by_module.values()), trainable, stored, dict(by_module))


def count_flops(setup: Setup) -> FlopCount:
    """FLOPs of `setup` as PyTorch counts them; attention is run eagerly, since the fused CPU
    kernel is counted as 0. Gemma 3 4B takes about 3 seconds.

    With QLoRA the products are counted as those of a 16-bit base, without the work of turning
    codes into numbers. Checkpointing counts the whole recomputed forward pass.
    """
    base = "lora" if setup.method == "qlora" else setup.method
    model = meta_model(replace(setup, attention="eager", method=base))
    with FlopCounterMode(display=False) as forward:
        _logits(model, setup)
    with FlopCounterMode(display=False) as training, set_checkpoint_early_stop(False):
        torch.autograd.backward(_logits(model, setup).sum())
    return FlopCount(int(forward.get_total_flops()), int(training.get_total_flops()))


def _logits(model: Any, setup: Setup) -> torch.Tensor:
    # Building a mask reads values, which meta tensors do not have; so one is given.
    size = (setup.batch, 1, setup.seq, setup.seq)
    mask = torch.zeros(size, dtype=getattr(torch, setup.dtype), device="meta")
    masks = {"full_attention": mask, "sliding_attention": mask}
    tokens = torch.zeros(setup.batch, setup.seq, dtype=torch.long, device="meta")
    logits: torch.Tensor = model(input_ids=tokens, attention_mask=masks).logits
    return logits


def _kind(name: str) -> str:
    """`q_proj` of `model.layers.3.self_attn.q_proj`, and `adapters` for LoRA's matrices."""
    if "lora_" in name:
        return "adapters"
    parts = [part for part in name.split(".") if part != "base_layer"]
    kind = parts[-1]
    return "norms" if kind.endswith("norm") else kind
