"""Optimizer state and temporaries: to the byte what torch, transformers and bitsandbytes keep."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.shapes import Shape
from solutions.lora import lora_parameters
from solutions.optimizers import (
    MIN_8BIT_VALUES,
    OPTIMIZERS,
    counted_state_bytes,
    optimizer_bytes,
    state_bytes,
    step_temporary_bytes,
)
from solutions.parameters import parameter_count
from solutions.shapes import model_shape
from solutions.tensors import adapter_tensors, model_tensors
from tests.conftest import need_module
from tests.estimators.facts import fact
from tests.estimators.strategies import shapes

COVERED = ["adam8bit_bytes", "adafactor_elems"]
# Matrices, vectors, a convolution, and sizes on both sides of where bitsandbytes quantizes.
TENSORS = [(512, 256), (300,), (1000, 65), (4095,), (4096,), (64, 3, 8, 8)]
VALUES = sum(prod(tensor) for tensor in TENSORS)


def make(optimizer: str) -> Callable[[list[Any]], Any]:
    import bitsandbytes
    import torch
    import transformers

    return {
        "sgd": lambda p: torch.optim.SGD(p, lr=1e-3, foreach=True),
        "momentum": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9, foreach=True),
        "adamw": lambda p: torch.optim.AdamW(p, foreach=True),
        "fused adamw": lambda p: torch.optim.AdamW(p, fused=True),
        "adamw8bit": bitsandbytes.optim.AdamW8bit,
        "adafactor": transformers.Adafactor,
    }[optimizer]


def stepped(optimizer: str, dtype: str) -> tuple[Any, list[Any]]:
    """An optimizer after its first step, and its parameters with new gradients."""
    import torch

    parameters = [
        torch.nn.Parameter(torch.randn(size, dtype=getattr(torch, dtype))) for size in TENSORS
    ]
    made = make(optimizer)(parameters)
    for _ in range(2):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        if not made.state:
            made.step()
    return made, parameters


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw", "adamw8bit", "adafactor"])
def test_state_takes_what_the_real_optimizer_keeps(optimizer: str, dtype: str) -> None:
    need_module("bitsandbytes")
    made, _ = stepped(optimizer, dtype)
    storages = {
        value.untyped_storage()._cdata: value.untyped_storage().nbytes()
        for state in made.state.values()
        for value in state.values()
        if hasattr(value, "untyped_storage") and value.numel() > 1  # step counters are scalars
    }
    assert state_bytes(optimizer, TENSORS, dtype) == sum(storages.values())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw", "fused adamw", "adafactor"])
def test_a_step_allocates_what_is_estimated(optimizer: str, dtype: str) -> None:
    need_module("bitsandbytes")
    from tests.estimators.tape import Allocations

    made, parameters = stepped(optimizer, dtype)
    allocations = Allocations()
    for parameter in parameters:
        allocations.add(parameter)
    before = allocations.now
    with allocations:
        made.step()
    estimate = step_temporary_bytes(
        optimizer.removeprefix("fused "),
        VALUES,
        max(map(prod, TENSORS)),
        dtype,
        fused=optimizer.startswith("fused"),
    )
    # What is left are the scalars, rows and columns of the update.
    assert allocations.peak - before == pytest.approx(estimate, rel=0.01, abs=64)


def test_8bit_state_takes_the_measured_bytes_a_parameter() -> None:
    of = fact("adam8bit_bytes")
    block = of["inputs"]["block"]
    assert optimizer_bytes(4 * block, "adamw8bit", "bfloat16") == 4 * block * of["expected"]
    assert optimizer_bytes(4 * block, "paged_adamw8bit", "float32") == 4 * block * of["expected"]


def test_adafactor_keeps_the_measured_rows_and_columns() -> None:
    assert state_bytes("adafactor", [(1000, 2000)]) == 4 * fact("adafactor_elems")["expected"]


def test_small_tensors_keep_float32_state_in_bitsandbytes() -> None:
    small = state_bytes("adamw8bit", [(MIN_8BIT_VALUES - 1,)])
    assert small == optimizer_bytes(MIN_8BIT_VALUES - 1, "adamw", "float32")
    assert state_bytes("adamw8bit", [(MIN_8BIT_VALUES,)]) < small


@given(shapes())
def test_the_tensors_of_a_model_have_all_its_parameters(shape: Shape) -> None:
    counted = sum(prod(size) * count for size, count in model_tensors(shape))
    assert counted == parameter_count(shape)


@pytest.mark.parametrize("targets", ["all-linear", ["q_proj", "v_proj"], ["down_proj"]])
def test_the_tensors_of_adapters_have_all_their_parameters(targets: Any) -> None:
    shape = model_shape("gemma3-4b")
    counted = sum(prod(size) * count for size, count in adapter_tensors(shape, 16, targets))
    assert counted == lora_parameters(shape, 16, targets)


@pytest.mark.parametrize("name", ["gemma3-270m", "gemma3-4b", "llama3.2-1b", "gpt2"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_counting_parameters_comes_within_a_fiftieth_of_counting_tensors(
    name: str, optimizer: str
) -> None:
    shape = model_shape(name)
    exact = counted_state_bytes(optimizer, model_tensors(shape), "float32")
    counted = optimizer_bytes(parameter_count(shape), optimizer, "float32")
    if optimizer == "adafactor":  # a bound, far below one per cent of AdamW's
        assert counted <= exact < optimizer_bytes(parameter_count(shape), "adamw", "float32") / 100
    else:
        assert counted == pytest.approx(exact, rel=0.02)


@given(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=3), max_size=6))
def test_state_adds_up_over_tensors(tensors: list[list[int]]) -> None:
    for optimizer in ("sgd", "momentum", "adamw", "adafactor"):
        apart = sum(state_bytes(optimizer, [tensor]) for tensor in tensors)
        assert state_bytes(optimizer, tensors) == apart
    least = optimizer_bytes(sum(map(prod, tensors)), "adafactor", "float32")
    matrices = [tensor for tensor in tensors if len(tensor) > 1]
    if len(matrices) == len(tensors):
        assert least <= state_bytes("adafactor", tensors)
