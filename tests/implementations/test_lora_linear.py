"""The LoRA layer against peft's."""

from __future__ import annotations

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from solutions.implementations.lora_linear import LoRALinear


class One(nn.Module):
    """A model of one layer, since peft adapts layers inside a model."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x)
        return out


def both(r: int, alpha: float, bias: bool) -> tuple[LoRALinear, nn.Module]:
    torch.manual_seed(3)
    mine = nn.Linear(24, 17, bias=bias)
    theirs = nn.Linear(24, 17, bias=bias)
    theirs.load_state_dict(mine.state_dict())
    layer = LoRALinear(mine, r, alpha)
    config = LoraConfig(r=r, lora_alpha=alpha, target_modules=["linear"])
    model = get_peft_model(One(theirs), config)
    adapted = model.base_model.model.linear
    with torch.no_grad():
        layer.A.copy_(adapted.lora_A["default"].weight)
        layer.B.copy_(torch.randn(17, r))
        adapted.lora_B["default"].weight.copy_(layer.B)
    return layer, model


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("r", "alpha"), [(1, 1), (4, 16), (17, 5)])
def test_outputs_and_gradients_equal_pefts(r: int, alpha: int, bias: bool) -> None:
    layer, model = both(r, alpha, bias)
    x = torch.randn(5, 6, 24)
    torch.testing.assert_close(layer(x), model(x), rtol=0, atol=1e-6)
    layer(x).square().sum().backward()
    model(x).square().sum().backward()
    adapted = model.base_model.model.linear
    torch.testing.assert_close(layer.A.grad, adapted.lora_A["default"].weight.grad)
    torch.testing.assert_close(layer.B.grad, adapted.lora_B["default"].weight.grad)
    assert [name for name, p in layer.named_parameters() if p.requires_grad] == ["A", "B"]
    assert layer.base.weight.grad is None


def test_merged_weights_equal_pefts() -> None:
    layer, model = both(4, 16, True)
    layer.merge()
    model.merge_adapter()
    adapted = model.base_model.model.linear
    torch.testing.assert_close(layer.base.weight, adapted.base_layer.weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_merging_keeps_the_function_and_unmerging_gives_the_weight_back(
    dtype: torch.dtype,
) -> None:
    layer, _ = both(4, 16, True)
    layer = layer.to(dtype)
    before = layer.base.weight.clone()
    x = torch.randn(9, 24, dtype=dtype)
    unmerged = layer(x)
    layer.merge()
    layer.merge()
    assert not torch.equal(layer.base.weight, before)
    tolerance = 1e-5 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(layer(x), unmerged, rtol=tolerance, atol=tolerance)
    layer.unmerge()
    assert torch.equal(layer.base.weight, before)
    layer.unmerge()
    assert torch.equal(layer(x), unmerged)


def test_a_new_layer_is_its_base_and_its_b_learns() -> None:
    torch.manual_seed(0)
    base = nn.Linear(8, 4)
    x = torch.randn(3, 8)
    expected = base(x)
    layer = LoRALinear(base, r=2, alpha=4)
    assert torch.equal(layer(x), expected)
    assert layer.A.abs().max() > 0
    layer(x).sum().backward()
    assert layer.B.grad is not None
    assert layer.B.grad.abs().max() > 0


def test_ranks_and_alphas_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="r must be at most 4"):
        LoRALinear(nn.Linear(8, 4), r=5, alpha=1)
    with pytest.raises(ValueError, match="r must be a whole number"):
        LoRALinear(nn.Linear(8, 4), r=0, alpha=1)
    with pytest.raises(ValueError, match="alpha must be above 0"):
        LoRALinear(nn.Linear(8, 4), r=1, alpha=0)
