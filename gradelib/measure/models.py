"""Gemma 3 without weights: on the meta device for counting, or with tensors that have sizes but no
values, which run every operation of a training step in seconds and no memory.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from gradelib.measure.setup import Setup
from gradelib.shapes import Shape


def torch_dtype(name: str) -> torch.dtype:
    """PyTorch's dtype of that name."""
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def gemma_config(shape: Shape) -> Any:
    """The transformers configuration of a Gemma 3 shape."""
    return Gemma3TextConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        query_pre_attn_scalar=shape.head_dim,
        sliding_window=shape.sliding_window or 0,
        layer_types=[
            "full_attention" if shape.is_global(layer) else "sliding_attention"
            for layer in range(shape.layers)
        ],
        use_cache=False,
    )


def meta_model(setup: Setup) -> Any:
    """The model of a setup on the meta device, with its adapters and trainable parameters set."""
    with torch.device("meta"):
        architecture: Any = Gemma3ForCausalLM
        model = architecture._from_config(
            gemma_config(setup.shape),
            attn_implementation=setup.attention,
            dtype=torch_dtype(setup.dtype),
        )
        if setup.method == "qlora":
            # Here, since bitsandbytes takes a second to import and the other methods do without.
            from gradelib.measure.linear4bit import quantize_blocks

            quantize_blocks(model, torch_dtype(setup.dtype))
    if setup.method != "full":
        model = _with_adapters(model, setup)
    if setup.checkpointing:
        model.activation_checkpointing_enable({"use_reentrant": False})
    return model.train()


def materialise(model: Any) -> None:
    """Give a meta model tensors that have a size and no values. Call it inside `FakeTensorMode`."""
    new: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            if id(parameter) not in new:  # a tied head shares the embedding's
                empty = torch.empty(parameter.shape, dtype=parameter.dtype, device="cpu")
                new[id(parameter)] = nn.Parameter(empty, requires_grad=parameter.requires_grad)
            module._parameters[name] = new[id(parameter)]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype, device="cpu")
        if hasattr(module, "quant_state"):
            module.describe()


@contextmanager
def one_sequence_a_row() -> Iterator[None]:
    """Say that no row holds several sequences. transformers reads position ids to find out; where
    there are no values it would assume that they do, and build masks that a real run does without.
    """
    masking: Any = importlib.import_module("transformers.masking_utils")
    found = masking.find_packed_sequence_indices
    masking.find_packed_sequence_indices = lambda *_, **__: None
    try:
        yield
    finally:
        masking.find_packed_sequence_indices = found


def _with_adapters(model: Any, setup: Setup) -> Any:
    targets = setup.targets if isinstance(setup.targets, str) else list(setup.targets)
    if targets != "all-linear":
        known = {
            name.rsplit(".", 1)[-1]
            for name, module in model.named_modules()
            if isinstance(module, nn.Linear)
        }
        if isinstance(targets, str) or not targets or not set(targets) <= known:
            raise ValueError(
                f"targets must be 'all-linear' or a list of layers, from {', '.join(sorted(known))}: "
                f"got {setup.targets!r}"
            )
    config = LoraConfig(
        r=setup.rank, lora_alpha=setup.rank, target_modules=targets, task_type="CAUSAL_LM"
    )
    return get_peft_model(model, config)
