"""Packed rows on a real Gemma 3: when sequences in one row do not see one another, and what they cost."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from gradelib.shapes import Shape
from solutions.batching import batches_flops
from solutions.layers import head_layer, linear_layers

LENGTHS = [7, 20, 3, 12]
WIDTH = 45  # with positions to spare at the end of the row


@pytest.fixture(scope="module", params=["eager", "sdpa"])
def model(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(5)
    config = Gemma3TextConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=6,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        query_pre_attn_scalar=8,
        sliding_window=8,
        attn_implementation=request.param,
    )
    model: Any = Gemma3ForCausalLM(config).train()
    with torch.no_grad():
        for parameter in model.parameters():  # so that attention is far from uniform
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def sequences() -> list[Tensor]:
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(1, 64, (length,), generator=draw) for length in LENGTHS]


def loss_of(model: nn.Module, labels: Tensor, **inputs: Any) -> float:
    logits = model(**inputs).logits[:, :-1].reshape(-1, 64)
    targets = labels[:, 1:].reshape(-1)
    return nn.functional.cross_entropy(logits, targets, ignore_index=-100, reduction="sum").item()


def packed() -> tuple[Tensor, Tensor, Tensor]:
    """Ids, positions and labels of one row; what is left at its end counts anew too."""
    ids, labels = torch.zeros(1, WIDTH, dtype=torch.long), torch.full((1, WIDTH), -100)
    positions = torch.zeros_like(ids)
    start = 0
    for each in sequences():
        end = start + len(each)
        ids[0, start:end] = labels[0, start:end] = each
        labels[0, start] = -100  # nothing in its own sequence predicts it
        positions[0, start:end] = torch.arange(len(each))
        start = end
    positions[0, start:] = torch.arange(WIDTH - start)
    return ids, positions, labels


def apart(model: nn.Module) -> float:
    return sum(loss_of(model, each[None], input_ids=each[None]) for each in sequences())


def test_positions_that_begin_again_keep_sequences_apart_without_a_cache(model: Any) -> None:
    ids, positions, labels = packed()
    loss = loss_of(model, labels, input_ids=ids, position_ids=positions, use_cache=False)
    assert loss == pytest.approx(apart(model), rel=1e-5)


@pytest.mark.parametrize(
    "inputs",
    [{"use_cache": True}, {"use_cache": False, "attention_mask": torch.ones(1, WIDTH)}],
    ids=["cache", "attention mask"],
)
def test_a_cache_or_a_mask_lets_them_see_each_other(model: Any, inputs: dict[str, Any]) -> None:
    ids, positions, labels = packed()
    loss = loss_of(model, labels, input_ids=ids, position_ids=positions, **inputs)
    assert loss != pytest.approx(apart(model), rel=1e-3)


def test_a_cache_is_what_a_model_takes_unless_it_is_told_not_to(model: Any) -> None:
    ids, positions, labels = packed()
    told = loss_of(model, labels, input_ids=ids, position_ids=positions, use_cache=True)
    assert loss_of(model, labels, input_ids=ids, position_ids=positions) == told


def test_positions_that_go_on_let_them_see_each_other(model: Any) -> None:
    ids, _, labels = packed()
    loss = loss_of(model, labels, input_ids=ids, use_cache=False)
    assert loss != pytest.approx(apart(model), rel=1e-3)


def test_a_row_costs_what_all_of_its_pairs_cost(model: Any) -> None:
    ids, positions, labels = packed()
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, position_ids=positions, labels=labels, use_cache=False).loss.backward()
    shape = Shape.from_config(model.config)
    weights = sum(layer.weights for layer in [*linear_layers(shape), head_layer(shape)])
    width = shape.layers * shape.heads * shape.head_dim
    if model.config._attn_implementation == "sdpa":
        width = 0  # PyTorch counts no operations of its fused attention on a CPU
    assert counter.get_total_flops() == batches_flops([(1, WIDTH)], weights, width)
