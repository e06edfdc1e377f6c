"""What transformers, PEFT and PyTorch say about a model, built on the meta device: no weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.checkpoint import set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

from solutions.shapes import GEMMA3, published_configs
from tests.estimators.facts import fact

GEMMA3_FIELDS = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "sliding_window",
    "vocab_size",
    "tie_word_embeddings",
    "query_pre_attn_scalar",
    "sliding_window_pattern",
)
VISION_FIELDS = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "image_size",
    "patch_size",
)


def config(name: str, **changes: Any) -> Any:
    """The transformers configuration of a model; Gemma 3's comes from the published facts."""
    if name in GEMMA3:
        published = fact(name.replace("-", "_") + "_config")["expected"]
        fields = {field: published[field] for field in GEMMA3_FIELDS}
        fields["model_type"] = "gemma3_text"
    else:
        fields = {key: value for key, value in published_configs()[name].items() if key != "hub"}
    fields |= changes
    return AutoConfig.for_model(fields.pop("model_type"), **fields, use_cache=False)


def meta_model(model_config: Any) -> Any:
    """The model on the meta device, with attention whose FLOPs are counted."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(model_config, attn_implementation="eager")


def multimodal_model(text: dict[str, Any], vision: dict[str, int]) -> Any:
    """Gemma 3 with its vision tower, on the meta device."""
    tower = {**vision, "vision_use_head": False}
    whole = AutoConfig.for_model("gemma3", text_config=text, vision_config=tower)
    with torch.device("meta"):
        return AutoModelForImageTextToText.from_config(whole)


def parameters(model: Any, trainable: bool = False) -> int:
    """Parameters of the model, tied ones once; with `trainable`, those that are not frozen."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad or not trainable)


def with_adapters(model: Any, r: int, targets: Sequence[str] | str) -> Any:
    """The model with LoRA adapters on `targets`."""
    targets = targets if isinstance(targets, str) else list(targets)
    return get_peft_model(model, LoraConfig(r=r, target_modules=targets, task_type="CAUSAL_LM"))


def checkpointed(model: Any) -> Any:
    """The model with gradient checkpointing, non-reentrant."""
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    return model


def forward_flops(model: Any, batch: int, seq: int) -> int:
    """FLOPs that PyTorch counts in one forward pass."""
    with FlopCounterMode(display=False) as counter:
        _logits(model, batch, seq)
    return int(counter.get_total_flops())


def training_flops(model: Any, batch: int, seq: int, early_stop: bool = False) -> int:
    """FLOPs of forward and backward. `early_stop` lets checkpointing cut a block's last product."""
    with FlopCounterMode(display=False) as counter, set_checkpoint_early_stop(early_stop):
        _logits(model, batch, seq).sum().backward()
    return int(counter.get_total_flops())


def _logits(model: Any, batch: int, seq: int) -> torch.Tensor:
    # A mask is given because building one reads values, which meta tensors do not have.
    mask: Any = torch.zeros(batch, 1, seq, seq, device="meta")
    if getattr(model.config, "layer_types", None):
        mask = {"full_attention": mask, "sliding_attention": mask}
    tokens = torch.zeros(batch, seq, dtype=torch.long, device="meta")
    logits: torch.Tensor = model(input_ids=tokens, attention_mask=mask).logits
    return logits
