"""Weights, gradients, cache, sharded states and the peak of parts: published figures and laws."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.shapes import Shape
from solutions import checkpointing, memory, optimizers
from solutions.checkpointing import best_segments, checkpoint_bytes, recompute_overhead
from solutions.dtypes import BITS
from solutions.logits import chunked_logits_bytes, logits_bytes, logits_tensor_bytes
from solutions.lora import lora_parameters
from solutions.memory import (
    cached_tokens,
    fits,
    gradient_bytes,
    inference_peak_bytes,
    kv_cache_bytes,
    training_peak_bytes,
    weight_bytes,
)
from solutions.optimizers import optimizer_bytes, quantized_moments_bytes
from solutions.parameters import parameter_count
from solutions.quantization import quantized_bytes
from solutions.shapes import model_shape
from solutions.sharding import (
    deepspeed_zero2_bytes,
    deepspeed_zero3_offload_bytes,
    megatron_bytes_per_parameter,
    zero_bytes_per_device,
)
from tests.conftest import need_module
from tests.estimators.facts import Fact, fact, parameters, tolerance
from tests.estimators.strategies import shapes

GB, GIB, MIB = 10**9, 2**30, 2**20
WINDOWED_CACHE = {
    "kv_gemma3_270m_32k_swa": "gemma3-270m",
    "kv_gemma3_1b_32k_swa": "gemma3-1b",
    "kv_gemma3_12b_32k_swa": "gemma3-12b",
    "kv_gemma3_27b_32k_swa": "gemma3-27b",
}
ZERO = {
    "zero_7_5b_pos": "optimizer",
    "zero_7_5b_pos_g": "gradients",
    "zero_7_5b_pos_g_p": "weights",
}
DOUBLE_QUANTIZATION = ["delta_litgpt_dq_7b_train", "delta_litgpt_dq_13b_train"]
COVERED = [
    *WINDOWED_CACHE,
    *ZERO,
    *DOUBLE_QUANTIZATION,
    "kv_llama2_7b",
    "kv_scalingbook_serving",
    "kv_hf_window_minus_1",
    "zero_1_5b",
    "deepspeed_t5_3b_zero2_none",
    "deepspeed_t5_3b_zero2_offload",
    "deepspeed_t5_3b_zero3_opt_cpu",
    "megatron_bytes_per_param",
    "states_qlora_780",
    "act_logits_llama3_32k",
    "delta_ao_llama2_8bit",
    "delta_ao_llama2_4bit",
    "delta_bert_adafactor",
    "delta_litgpt_microbatch",
    "delta_tt_qlora",
]
CONTRACT = {
    memory.weight_bytes: "params, dtype",
    memory.gradient_bytes: "trainable_params, dtype",
    memory.optimizer_bytes: "trainable_params, optimizer, dtype",
    memory.activation_bytes: "shape, batch, seq, dtype, checkpointing=False, attention='sdpa'",
    memory.logits_bytes: "shape, batch, seq, dtype",
    memory.kv_cache_bytes: "shape, batch, seq, dtype, windowed=True",
    memory.training_peak_bytes: "parts",
    memory.inference_peak_bytes: "parts",
    memory.fits: "peak_bytes, usable_bytes, headroom",
    checkpointing.checkpoint_bytes: "layers, segments, layer_bytes, boundary_bytes",
    checkpointing.best_segments: "layers, layer_bytes, boundary_bytes",
    checkpointing.recompute_overhead: "forward_s, backward_s",
}


def held(of: Fact, value: float, unit: float = 1) -> bool:
    """Whether `value`, in `unit`, is within the fact's tolerance."""
    return value / unit == pytest.approx(of["expected"], **tolerance(of))


@pytest.mark.parametrize("function", CONTRACT, ids=lambda function: function.__name__)
def test_a_reference_takes_what_its_exercise_says(function: Callable[..., Any]) -> None:
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
    ]
    assert str(inspect.Signature(bare)) == f"({CONTRACT[function]})"


def test_one_token_of_llama_2_caches_the_published_bytes() -> None:
    of = fact("kv_llama2_7b")
    assert held(of, kv_cache_bytes(model_shape("llama2-7b"), 1, 1, "bfloat16"))
    assert kv_cache_bytes(model_shape("llama2-7b"), 1, 131_072, "bfloat16") == 64 * GIB


@pytest.mark.parametrize("of", parameters(list(WINDOWED_CACHE)))
def test_gemma_caches_its_windows_and_its_global_layers(of: Fact) -> None:
    shape = model_shape(WINDOWED_CACHE[of["id"]])
    assert held(of, kv_cache_bytes(shape, 1, 32_768, "bfloat16"))
    full = of["check"]["full_all_layers"]
    assert kv_cache_bytes(shape, 1, 32_768, "bfloat16", windowed=False) == full


def test_serving_llama_3_70b_takes_the_published_bytes() -> None:
    shape = model_shape("llama3-70b")
    weights = weight_bytes(parameter_count(shape), "int8")
    of = fact("kv_scalingbook_serving")
    assert held(of, weights + kv_cache_bytes(shape, 32, 8192, "int8"))


def test_transformers_keeps_a_window_without_the_current_token() -> None:
    of = fact("kv_hf_window_minus_1")
    window, tokens = of["inputs"]["window"], of["inputs"]["prefill"]
    assert held(of, cached_tokens(tokens, window, include_current=False))
    assert cached_tokens(tokens, window) == window


@pytest.mark.slow
def test_the_cache_is_what_transformers_keeps_while_decoding() -> None:
    need_module("transformers")
    import torch
    from transformers import AutoModelForCausalLM, DynamicCache

    from tests.estimators import oracles

    configuration = oracles.config(
        "gemma3-270m", num_hidden_layers=7, vocab_size=64, hidden_size=32, sliding_window=32
    )
    model = AutoModelForCausalLM.from_config(configuration)
    cache = DynamicCache(config=configuration)
    with torch.no_grad():
        for tokens in (torch.ones(2, 99, dtype=torch.long), torch.ones(2, 1, dtype=torch.long)):
            model(tokens, past_key_values=cache, use_cache=True)
    kept = sum(
        tensor.numel() * tensor.element_size()
        for layer in cache.layers
        for tensor in (layer.keys, layer.values)
    )
    shape = Shape.from_config(configuration)
    estimate = kv_cache_bytes(shape, 2, 100, "float32")
    # Between two steps a local layer keeps one token less than its window.
    one_token = kv_cache_bytes(shape, 2, 1, "float32") / shape.layers
    assert kept == estimate - shape.local_layers * one_token


def test_float32_logits_take_the_published_bytes() -> None:
    shape = model_shape("llama3-8b")
    assert held(
        fact("act_logits_llama3_32k"), logits_tensor_bytes(shape, 1, 32_768, "float32"), GIB
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_logits_and_loss_take_what_pytorch_allocates(dtype: str) -> None:
    need_module("torch")
    import torch
    from transformers.loss.loss_utils import ForCausalLMLoss

    from tests.estimators.tape import peak_of

    shape = dataclasses.replace(model_shape("gpt2"), vocab=4096)
    hidden = torch.randn(2, 200, 8, dtype=getattr(torch, dtype))
    head = torch.randn(shape.vocab, 8, dtype=hidden.dtype)
    labels = torch.randint(0, shape.vocab, (2, 200))

    def step() -> None:
        logits = hidden.requires_grad_() @ head.T
        ForCausalLMLoss(logits, labels, shape.vocab).backward()

    assert peak_of(step) == pytest.approx(logits_bytes(shape, 2, 200, dtype), rel=0.01)


def test_a_loss_in_chunks_saves_the_float32_tensors_of_the_other_chunks() -> None:
    shape = Shape.gemma3("4b")
    whole = chunked_logits_bytes(shape, 2, 1024, "bfloat16", 1)
    assert whole == logits_bytes(shape, 2, 1024, "bfloat16")
    logits = logits_tensor_bytes(shape, 2, 1024, "bfloat16")
    eighths = chunked_logits_bytes(shape, 2, 1024, "bfloat16", 8)
    assert eighths == 2 * logits + (whole - logits) / 8


def test_mixed_precision_adam_takes_sixteen_bytes_a_parameter() -> None:
    of = fact("zero_1_5b")
    params = 1_500_000_000
    states = (
        weight_bytes(params, "float16")
        + gradient_bytes(params, "float16")
        + weight_bytes(params, "float32")
        + optimizer_bytes(params, "adamw", "float32")
    )
    assert held(of, states, GB)
    assert zero_bytes_per_device(params, 1, "none") == states


@pytest.mark.parametrize("of", parameters(list(ZERO)))
def test_zero_splits_states_as_published(of: Fact) -> None:
    assert held(of, zero_bytes_per_device(7_500_000_000, 64, ZERO[of["id"]]), GB)


def test_deepspeeds_estimators_print_the_published_figures() -> None:
    sizes = fact("deepspeed_t5_3b_zero2_none")["inputs"]
    params, largest = int(sizes["params"]), int(sizes["largest_layer"])
    assert held(fact("deepspeed_t5_3b_zero2_none"), deepspeed_zero2_bytes(params, 8), GIB)
    offloaded = deepspeed_zero2_bytes(params, 8, offload=True)
    assert held(fact("deepspeed_t5_3b_zero2_offload"), offloaded, GIB)
    split = deepspeed_zero3_offload_bytes(params, 8, largest)
    assert held(fact("deepspeed_t5_3b_zero3_opt_cpu"), split, GIB)


def test_megatron_takes_eighteen_bytes_a_parameter_and_splits_twelve() -> None:
    alone, split = fact("megatron_bytes_per_param")["expected"].split(" ; ")
    assert megatron_bytes_per_parameter() == int(alone)
    for d in (2, 8, 64):
        assert megatron_bytes_per_parameter(d) == eval(split, {"d": d})


def test_full_finetuning_of_65b_in_16_bits_takes_the_published_bytes() -> None:
    of = fact("states_qlora_780")
    params = of["inputs"]["N"]
    states = (
        weight_bytes(params, "bfloat16")
        + gradient_bytes(params, "bfloat16")
        + optimizer_bytes(params, "adamw", "float32")
    )
    assert states == of["inputs"]["bytes_per_param"] * params
    assert held(of, states, GB)


@pytest.mark.parametrize("of", parameters(DOUBLE_QUANTIZATION))
def test_double_quantization_saves_what_was_measured(of: Fact) -> None:
    params = of["inputs"]["linear_params"]
    assert held(of, weight_bytes(params, "nf4") - weight_bytes(params, "nf4-dq"), GB)


def test_8bit_adamw_saves_what_was_measured() -> None:
    of = fact("delta_ao_llama2_8bit")
    params = of["inputs"]["N"]
    assert params == parameter_count(model_shape("llama2-7b"))
    full = optimizer_bytes(params, "adamw", "bfloat16")
    assert held(of, full - optimizer_bytes(params, "adamw8bit", "bfloat16"), GIB)
    four = quantized_moments_bytes(params, state_bits=4, block=128)
    assert held(fact("delta_ao_llama2_4bit"), full - four, GIB)


def test_adafactor_saves_what_was_measured() -> None:
    of = fact("delta_bert_adafactor")
    params = of["inputs"]["N"]
    saved = optimizer_bytes(params, "adamw", "float32")
    saved -= optimizer_bytes(params, "adafactor", "float32")
    assert held(of, saved, MIB)


def test_what_does_not_grow_with_the_batch_is_weights_and_adapters() -> None:
    # The measured peaks for batches of 1 and 2, continued to a batch of 0.
    shape = model_shape("llama2-7b")
    adapters = lora_parameters(shape, 8, ["q_proj", "v_proj"])
    states = weight_bytes(parameter_count(shape) + adapters, "bfloat16")
    states += optimizer_bytes(adapters, "adamw", "bfloat16")
    assert held(fact("delta_litgpt_microbatch"), states, GB)


def test_quantizing_the_base_saves_what_was_measured() -> None:
    of = fact("delta_tt_qlora")
    shape = model_shape("llama3.2-3b")
    linear = of["inputs"]["linear"]
    saved = weight_bytes(linear, "bfloat16") - quantized_bytes(shape, "nf4-dq")
    assert held(of, saved, GIB)


PARTS = {
    "always": {"weights": 8, "optimizer_state": 16},
    "loss": {"activations": 5, "logits": 7},
    "step": {"gradients": 8, "temporary": 3},
}


def test_the_peak_is_what_is_always_there_and_the_largest_moment() -> None:
    assert training_peak_bytes(PARTS) == 8 + 16 + 5 + 7
    assert training_peak_bytes(PARTS | {"loss": {"activations": 5}}) == 8 + 16 + 8 + 3


def test_inference_is_charged_no_gradients() -> None:
    parts = {
        "always": {"weights": 8},
        "prefill": {"kv_cache": 2, "logits": 1},
        "decode": {"kv_cache": 4},
    }
    assert inference_peak_bytes(parts) == 12
    with pytest.raises(ValueError, match="inference has no optimizer_state"):
        inference_peak_bytes(PARTS)


@given(
    st.dictionaries(
        st.sampled_from(["loss", "step", "end"]),
        st.dictionaries(st.text(max_size=3), st.integers(0, 10**12), max_size=4),
        min_size=1,
    ),
    st.dictionaries(st.text(max_size=3), st.integers(0, 10**12), max_size=4),
)
def test_a_peak_is_at_least_every_moment_and_at_most_their_sum(
    moments: dict[str, dict[str, int]], always: dict[str, int]
) -> None:
    peak = training_peak_bytes({"always": always} | moments)
    there = sum(always.values())
    sums = [sum(named.values()) for named in moments.values()]
    assert peak == max(there + each for each in sums) <= there + sum(sums)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "nothing"),
        ({"always": {}}, "at least one moment"),
        ({"loss": {"a": 1}}, "always"),
        ({"always": {"a": -1}, "loss": {}}, "always: a"),
        ({"always": {"a": float("nan")}, "loss": {}}, "always: a"),
        ({"always": {}, "loss": {"a": float("inf")}}, "loss: a"),
    ],
)
def test_parts_that_make_no_sense_are_an_error(parts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        training_peak_bytes(parts)
    with pytest.raises(ValueError, match=message):
        inference_peak_bytes(parts)


def test_fitting_keeps_the_headroom_free() -> None:
    assert fits(90, 100, 0.1)
    assert not fits(91, 100, 0.1)
    assert fits(100, 100, 0)
    for headroom in (-0.1, 1, 10, float("nan")):
        with pytest.raises(ValueError, match="headroom"):
            fits(1, 2, headroom)
    with pytest.raises(ValueError, match="peak_bytes"):
        fits(-1, 2, 0.1)


@given(st.integers(0, 10**12), st.sampled_from(sorted(BITS)))
def test_weights_take_their_bits(params: int, dtype: str) -> None:
    assert weight_bytes(params, dtype) == params * BITS[dtype] / 8


@given(shapes(), st.integers(1, 8), st.integers(1, 5000), st.integers(1, 5000))
def test_a_cache_grows_with_its_tokens_and_windows_only_shrink_it(
    shape: Shape, batch: int, seq: int, more: int
) -> None:
    windowed = kv_cache_bytes(shape, batch, seq, "bfloat16")
    assert windowed <= kv_cache_bytes(shape, batch, seq, "bfloat16", windowed=False)
    assert windowed <= kv_cache_bytes(shape, batch, seq + more, "bfloat16")
    assert kv_cache_bytes(shape, 2 * batch, seq, "bfloat16") == 2 * windowed


@given(st.integers(1, 60), st.integers(0, 1000), st.integers(0, 1000))
def test_the_best_number_of_segments_has_the_smallest_peak(
    layers: int, layer: int, boundary: int
) -> None:
    best = best_segments(layers, layer, boundary)
    peaks = [checkpoint_bytes(layers, n, layer, boundary) for n in range(1, layers + 1)]
    assert peaks[best - 1] == min(peaks)
    assert best == 1 + peaks.index(min(peaks))


def test_segments_near_the_square_root_are_best_when_inputs_weigh_like_layers() -> None:
    assert best_segments(64, 1, 1) == 8
    assert checkpoint_bytes(64, 8, 1, 1) == 16
    assert checkpoint_bytes(64, 1, 1, 1) == 65


def test_checkpointing_costs_a_forward_pass() -> None:
    assert recompute_overhead(1, 2) == pytest.approx(1 / 3)
    assert recompute_overhead(1, 0) == 1
    with pytest.raises(ValueError, match="takes time"):
        recompute_overhead(0, 0)
    with pytest.raises(ValueError, match="backward_s"):
        recompute_overhead(1, -1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weight_bytes(-1, "float32"), "params"),
        (lambda: weight_bytes(1, "fp16"), "known: float32, .*nf4-dq"),
        (lambda: gradient_bytes(1, "nf4"), "at least 16 bits"),
        (lambda: gradient_bytes(-5, "float32"), "trainable_params"),
        (lambda: optimizer_bytes(1, "banana", "float32"), "known: sgd, .*adafactor"),
        (lambda: optimizer_bytes(1, "adamw", "float64"), "known: float32"),
        (lambda: optimizers.state_bytes("adamw", [(0, 3)]), "size"),
        (lambda: kv_cache_bytes(Shape.gemma3("1b"), 0, 8, "bfloat16"), "batch"),
        (lambda: kv_cache_bytes(Shape.gemma3("1b"), 1, 0, "bfloat16"), "seq"),
        (lambda: logits_bytes(Shape.gemma3("1b"), 1, 8, "int8"), "activations are"),
        (lambda: checkpoint_bytes(4, 5, 1, 1), "5 segments for 4 layers"),
        (lambda: checkpoint_bytes(4, 0, 1, 1), "segments"),
        (lambda: best_segments(0, 1, 1), "layers"),
        (lambda: zero_bytes_per_device(1, 1, "zero3"), "known: none, optimizer"),
    ],
)
def test_bad_input_is_an_error(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
