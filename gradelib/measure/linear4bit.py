"""bitsandbytes' 4-bit layer on weights that have a size and no values, which its own parameter class
cannot hold. It runs bitsandbytes' own operations, and PEFT takes it for the real layer.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor, nn

BLOCK = 64
SECOND_BLOCK = 256

# Without its type hints, which are partial.
bitsandbytes: Any = importlib.import_module("bitsandbytes")
QuantState: Any = importlib.import_module("bitsandbytes.functional").QuantState
Base: Any = bitsandbytes.nn.Linear4bit


class ValuelessLinear4bit(Base):  # type: ignore[misc]
    """A linear layer in NF4 with double quantization, of the sizes of `linear`."""

    def __init__(self, linear: nn.Linear, compute_dtype: torch.dtype) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.compute_dtype = compute_dtype
        weights = linear.in_features * linear.out_features
        blocks = -(-weights // BLOCK)
        packed = torch.empty(-(-weights // 2), 1, dtype=torch.uint8)
        self.weight = nn.Parameter(packed, requires_grad=False)
        self.bias = None
        self.register_buffer("scale_codes", torch.empty(blocks, dtype=torch.uint8))
        self.register_buffer("scale_absmax", torch.empty(-(-blocks // SECOND_BLOCK)))
        self.register_buffer("scale_mean", torch.empty(()))
        self.register_buffer("scale_table", torch.empty(256))
        self.register_buffer("nf4_table", torch.empty(16))
        self.describe()

    def describe(self) -> None:
        """Say what the weight is, in the attributes that bitsandbytes and PEFT read. Call it again
        after weight and buffers were replaced."""
        weight: Any = self.weight
        weight.compress_statistics = True
        weight.quant_type = "nf4"
        self.quant_state = QuantState(
            self.scale_codes,
            shape=torch.Size((self.out_features, self.in_features)),
            code=self.nf4_table,
            blocksize=BLOCK,
            quant_type="nf4",
            dtype=self.compute_dtype,
            offset=self.scale_mean,
            state2=QuantState(
                self.scale_absmax,
                code=self.scale_table,
                blocksize=SECOND_BLOCK,
                dtype=torch.float32,
            ),
        )

    def forward(self, x: Tensor) -> Tensor:
        """As bitsandbytes' own forward pass."""
        out: Tensor = bitsandbytes.matmul_4bit(
            x.to(self.compute_dtype), self.weight, quant_state=self.quant_state
        )
        return out.to(x.dtype)


def quantize_blocks(model: Any, compute_dtype: torch.dtype) -> None:
    """Replace the linear layers of a model's blocks, as loading it with `load_in_4bit` does."""
    for module in list(model.model.layers.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Linear:
                setattr(module, name, ValuelessLinear4bit(child, compute_dtype))
    model.is_loaded_in_4bit = True
