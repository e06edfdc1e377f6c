"""Accumulation, checkpointing and loss scaling against doing without them, and against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from solutions.implementations.accumulate import (
    accumulated_step,
    counted_tokens,
    effective_batch,
)
from solutions.implementations.checkpoint import checkpointed_forward
from solutions.implementations.loss_scaler import DynamicLossScaler


def tiny(dtype: torch.dtype = torch.float64) -> Any:
    torch.manual_seed(1)
    config = Gemma3TextConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        query_pre_attn_scalar=8,
        sliding_window=16,
        attn_implementation="eager",
    )
    return Gemma3ForCausalLM(config).to(dtype)


def batch_of(lengths: list[int], width: int) -> dict[str, Tensor]:
    """Sequences whose first `lengths` tokens count; all as wide, as one padded batch is."""
    draw = torch.Generator().manual_seed(sum(lengths))
    ids = torch.randint(1, 64, (len(lengths), width), generator=draw)
    labels = ids.clone()
    for row, length in enumerate(lengths):
        labels[row, length:] = -100
    return {"input_ids": ids, "labels": labels}


@pytest.mark.parametrize("lengths", [[12, 3, 5, 2], [12, 1, 12, 2], [4, 4, 4, 4]])
def test_accumulation_takes_the_full_batchs_step(lengths: list[int]) -> None:
    full = batch_of(lengths, 12)
    micro = [{name: part[i : i + 1] for name, part in full.items()} for i in range(len(lengths))]
    one, many = tiny(), tiny()
    # SGD moves by the gradient itself, so equal weights mean equal gradients.
    optimizer = torch.optim.SGD(one.parameters(), lr=1.0)
    before = [parameter.detach().clone() for parameter in one.parameters()]
    loss = one(**full).loss
    loss.backward()
    optimizer.step()
    mean = accumulated_step(many, micro, torch.optim.SGD(many.parameters(), lr=1.0))
    # transformers computes norms and the loss in float32 even in a float64 model.
    assert mean == pytest.approx(loss.item(), rel=1e-6)
    steps = [
        torch.cat([(end - begin).reshape(-1) for begin, end in zip(start, ended, strict=True)])
        for start, ended in ((before, one.parameters()), (before, many.parameters()))
    ]
    assert (steps[1] - steps[0]).norm() < 1e-6 * steps[0].norm()
    assert all(parameter.grad is None for parameter in many.parameters())


def test_old_gradients_do_not_leak_into_a_step() -> None:
    batches = [batch_of([5], 8), batch_of([8], 8)]
    fresh, stale = tiny(), tiny()
    stale(**batches[0]).loss.backward()
    for model in (fresh, stale):
        accumulated_step(model, batches, torch.optim.SGD(model.parameters(), lr=1.0))
    for expected, got in zip(fresh.parameters(), stale.parameters(), strict=True):
        assert torch.equal(got, expected)


def test_counted_tokens_are_those_the_loss_averages_over() -> None:
    model, batch = tiny(), batch_of([7, 3], 9)
    count = counted_tokens(batch["labels"])
    assert count == 6 + 2
    summed = model(**batch, num_items_in_batch=torch.tensor(1)).loss
    assert model(**batch).loss.item() == pytest.approx(summed.item() / count)


def test_a_batch_with_nothing_to_learn_is_refused() -> None:
    model = tiny()
    with pytest.raises(ValueError, match="nothing to learn"):
        accumulated_step(model, [batch_of([1], 6)], torch.optim.SGD(model.parameters()))
    with pytest.raises(ValueError, match="nothing to learn"):
        accumulated_step(model, [], torch.optim.SGD(model.parameters()))


def test_effective_batch() -> None:
    assert effective_batch(2, 8, 4) == 64
    with pytest.raises(ValueError, match="steps must be a whole number"):
        effective_batch(2, 0, 4)


def stack(dropout: float = 0.0) -> nn.ModuleList:
    torch.manual_seed(2)
    return nn.ModuleList(
        nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(dropout)) for _ in range(5)
    )


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_checkpointing_gives_equal_gradients(segments: int, dropout: float) -> None:
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(3))
    plain, saving = stack(dropout), stack(dropout)
    torch.manual_seed(9)
    expected = x
    for layer in plain:
        expected = layer(expected)
    torch.manual_seed(9)
    got = checkpointed_forward(list(saving), x, segments)
    assert torch.equal(got, expected)
    expected.square().sum().backward()
    got.square().sum().backward()
    for one, other in zip(plain.parameters(), saving.parameters(), strict=True):
        assert one.grad is not None
        assert torch.equal(other.grad, one.grad)


def saved_bytes(run: Any) -> int:
    saved = 0

    def keep(tensor: Tensor) -> Tensor:
        nonlocal saved
        saved += tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run()
    return saved


def test_fewer_segments_save_fewer_bytes_in_the_forward_pass() -> None:
    layers = list(stack())
    x = torch.randn(512, 8, requires_grad=True)

    def plain() -> Tensor:
        y = x
        for layer in layers:
            y = layer(y)
        return y

    def bytes_with(segments: int) -> int:
        return saved_bytes(lambda: checkpointed_forward(layers, x, segments))

    # What is saved is what enters each segment; everything else is computed again.
    assert bytes_with(1) < bytes_with(2) < bytes_with(5) < saved_bytes(plain)


@pytest.mark.parametrize(("segments", "message"), [(0, "whole number"), (6, "at most the number")])
def test_segments_that_cannot_be_made_are_refused(segments: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checkpointed_forward(list(stack()), torch.randn(1, 8), segments)


@pytest.mark.parametrize("seed", range(5))
def test_loss_scaling_takes_torchs_path(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    settings = {"growth_factor": 3.0, "backoff_factor": 0.25, "growth_interval": 4}
    theirs = torch.amp.GradScaler("cpu", init_scale=64.0, **settings)
    mine = DynamicLossScaler(64.0, growth=3.0, backoff=0.25, interval=4)
    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    for _ in range(60):
        gradient = torch.randn(3, generator=draw)
        if torch.rand((), generator=draw) < 0.2:
            gradient[1] = [float("inf"), float("nan"), -float("inf")][seed % 3]
        before = weight.detach().clone()
        theirs.scale(torch.zeros(()))
        weight.grad = gradient * theirs.get_scale()
        ours = weight.grad.clone()
        mine.unscale([ours])
        ok = mine.step_ok([ours])
        theirs.step(optimizer)
        theirs.update()
        assert mine.factor == theirs.get_scale()
        assert ok == (not torch.equal(weight, before))
        if ok:
            torch.testing.assert_close(before - ours, weight.detach())


def test_scaling_saves_a_gradient_that_float16_would_lose() -> None:
    scaler = DynamicLossScaler(initial=2.0**16)
    small = torch.tensor(1e-8)
    assert small.half() == 0
    assert scaler.scale(small).half() > 0


@pytest.mark.parametrize(
    "settings",
    [{"initial": 0}, {"growth": 1.0}, {"backoff": 1.0}, {"backoff": 0.0}, {"interval": 0}],
)
def test_settings_that_never_adapt_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="got"):
        DynamicLossScaler(**settings)
