"""The references take what the exercises' stubs take: the published names, in order."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from solutions import communication, flops, lora, parameters, quantization, roofline, tradeoff

CONTRACT = {
    flops.matmul_flops: "m, k, n",
    flops.attention_flops: "shape, seq, count='executed'",
    flops.mlp_flops: "shape, seq",
    flops.forward_flops: "shape, batch, seq, count='executed'",
    flops.training_flops_6nd: "params, tokens",
    flops.training_flops: "shape, batch, seq, method='full', checkpointing=False",
    roofline.training_seconds: "flops, peak_flops_per_s, mfu",
    roofline.model_flops_utilization: "flops, seconds, peak_flops_per_s",
    roofline.arithmetic_intensity: "flops, bytes_moved",
    roofline.is_memory_bound: "flops, bytes_moved, peak_flops_per_s, bandwidth_bytes_per_s",
    tradeoff.tokens_per_second: "tokens, seconds",
    tradeoff.perplexity: "mean_nll",
    tradeoff.smallest_that_meets: "models, min_quality, max_seconds",
    roofline.decode_seconds_lower_bound: "weight_bytes, bandwidth_bytes_per_s, tokens",
    parameters.parameter_count: "shape",
    lora.lora_parameters: "shape, r, targets",
    lora.adapter_bytes: "params, dtype",
    quantization.bits_per_weight: "block, double_quant, second_block=256",
    communication.allreduce_bytes: "nbytes, n",
    communication.communication_saved: "sync_every",
}


@pytest.mark.parametrize("function", CONTRACT, ids=lambda function: function.__name__)
def test_a_reference_takes_what_its_exercise_says(function: Callable[..., Any]) -> None:
    definition = ast.parse(inspect.getsource(function)).body[0]
    assert isinstance(definition, ast.FunctionDef)
    for argument in definition.args.args:
        argument.annotation = None
    assert ast.unparse(definition.args) == CONTRACT[function]
