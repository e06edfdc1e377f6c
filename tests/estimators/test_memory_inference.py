"""The inference estimate: parts that add up, and peaks that transformers really reaches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.shapes import Shape
from solutions.inference_memory import Inference, inference_memory
from solutions.memory import inference_peak_bytes, kv_cache_bytes
from solutions.overhead import CUBLAS_WORKSPACE_BYTES
from solutions.shapes import model_shape
from tests.conftest import need_module
from tests.estimators.test_memory_training import GEMMA, LLAMA

GENERATIONS: list[dict[str, Any]] = [
    {"prompt": 400, "new_tokens": 4},
    {"prompt": 16, "new_tokens": 200},
    {"prompt": 400, "new_tokens": 4, "attention": "eager"},
    {"prompt": 300, "new_tokens": 4, "dtype": "float32"},
]


@pytest.mark.slow
@pytest.mark.parametrize("generation", GENERATIONS, ids=lambda g: " ".join(map(str, g.values())))
@pytest.mark.parametrize("model", [GEMMA, LLAMA], ids=lambda model: model["name"])
def test_a_generation_reaches_the_estimated_peak(
    model: dict[str, Any], generation: dict[str, Any]
) -> None:
    need_module("peft")
    from transformers import AutoModelForCausalLM

    from tests.estimators import oracles, tape

    configuration = oracles.config(**(model | {"vocab_size": 4096}))
    configuration.use_cache = True
    i = Inference(shape=Shape.from_config(configuration), batch=4, context_bytes=0, **generation)
    real = AutoModelForCausalLM.from_config(
        configuration, dtype=tape.DTYPES[i.dtype], attn_implementation=i.attention
    ).eval()
    measured = tape.generation_peak(real, 4, i.prompt, i.new_tokens, 4096)
    estimate = inference_memory(i).total_bytes - CUBLAS_WORKSPACE_BYTES
    assert estimate == pytest.approx(measured, rel=0.03)


settings = st.fixed_dictionaries(
    {
        "shape": st.sampled_from([Shape.gemma3("270m"), Shape.gemma3("27b"), model_shape("gpt2")]),
        "batch": st.integers(1, 8),
        "prompt": st.integers(1, 3000),
        "new_tokens": st.integers(0, 500),
        "dtype": st.sampled_from(["float32", "bfloat16"]),
        "quantization": st.sampled_from([None, "nf4", "nf4-dq", "int8"]),
        "attention": st.sampled_from(["sdpa", "eager"]),
        "windowed": st.booleans(),
        "all_logits": st.booleans(),
    }
)


@given(settings)
def test_the_parts_are_whole_and_add_up_to_the_peak(arguments: dict[str, Any]) -> None:
    memory = inference_memory(Inference(**arguments))
    assert memory.total_bytes == sum(part.bytes for part in memory.parts)
    assert memory.total_bytes == inference_peak_bytes(memory.by_moment())
    every = [*memory.always, *(part for moment in memory.moments for part in moment.parts)]
    assert all(isinstance(part.bytes, int) and part.bytes >= 0 for part in every)


@given(settings, st.sampled_from(["batch", "prompt", "new_tokens"]))
def test_a_longer_or_wider_generation_never_takes_less(
    arguments: dict[str, Any], grown: str
) -> None:
    smaller = inference_memory(Inference(**arguments)).total_bytes
    larger = inference_memory(Inference(**(arguments | {grown: arguments[grown] + 1}))).total_bytes
    assert smaller <= larger


def test_windows_shrink_the_cache_only_when_decoding_starts() -> None:
    shape = Shape.gemma3("4b")
    memory = inference_memory(Inference(shape=shape, batch=1, prompt=8192, new_tokens=1))
    moments = memory.by_moment()
    full = kv_cache_bytes(shape, 1, 8192, "bfloat16", windowed=False)
    assert moments["prefill, a block"]["kv_cache"] == full
    assert moments["decode"]["kv_cache"] == kv_cache_bytes(shape, 1, 8193, "bfloat16")


def test_generating_computes_the_last_tokens_logits_only() -> None:
    setting: dict[str, Any] = {"shape": Shape.gemma3("4b"), "batch": 1, "prompt": 2048}
    generated = inference_memory(Inference(**setting, new_tokens=1)).by_moment()
    plain = inference_memory(Inference(**setting, new_tokens=1, all_logits=True)).by_moment()
    last, every = generated["prefill, the logits"], plain["prefill, the logits"]
    assert every["logits"] == 2048 * last["logits"]


def test_the_explanation_names_the_parts() -> None:
    text = inference_memory(
        Inference(shape=Shape.gemma3("4b"), batch=1, prompt=8, new_tokens=8, quantization="nf4")
    ).explain()
    for word in ("quantized_weights", "kept_weights", "kv_cache", "decode", "left out"):
        assert word in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "batch"),
        ({"prompt": 0}, "prompt"),
        ({"new_tokens": -1}, "new_tokens"),
        ({"dtype": "nf4"}, "activations are"),
        ({"dtype": "half"}, "known: float32"),
        ({"quantization": "gptq"}, "known: nf4"),
        ({"attention": "flash"}, "known: sdpa, eager"),
    ],
)
def test_bad_input_is_an_error(changes: dict[str, Any], message: str) -> None:
    arguments = {"shape": Shape.gemma3("270m"), "batch": 1, "prompt": 8, "new_tokens": 8}
    with pytest.raises(ValueError, match=message):
        Inference(**(arguments | changes))
