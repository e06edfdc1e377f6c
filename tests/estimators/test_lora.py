"""LoRA: equal to PEFT's count, to published counts, and refusing what PEFT cannot build."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.shapes import Shape
from solutions.layers import linear_layers
from solutions.lora import ALL_LINEAR, adapter_bytes, lora_parameters
from solutions.shapes import model_shape
from tests.estimators import oracles
from tests.estimators.facts import Fact, fact, parameters, tolerance
from tests.estimators.published import GPT3
from tests.estimators.strategies import shapes

LETTERS = dict(
    zip(
        "qkvogud",
        ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        strict=True,
    )
)
# Fact: (shape, rank, the letters of its targets).
COUNTS = {
    "lora_gemma3_270m_r128_all": (Shape.gemma3("270m"), 128, "qkvogud"),
    "lora_gemma3_270m_r16_all": (Shape.gemma3("270m"), 16, "qkvogud"),
    "lora_gemma3_4b_r8_all": (Shape.gemma3("4b"), 8, "qkvogud"),
    "lora_gemma3_27b_r8_all": (Shape.gemma3("27b"), 8, "qkvogud"),
    "lora_qwen3_14b_r32_all": (model_shape("qwen3-14b"), 32, "qkvogud"),
    "lora_llama32_3b_r32_qv": (model_shape("llama3.2-3b"), 32, "qv"),
    "lora_llama32_3b_r64_qv": (model_shape("llama3.2-3b"), 64, "qv"),
    "lora_llama2_7b_r8_qv": (model_shape("llama2-7b"), 8, "qv"),
    "lora_llama2_13b_r8_qv": (model_shape("llama2-13b"), 8, "qv"),
    "lora_llama2_7b_r64_all": (model_shape("llama2-7b"), 64, "qkvogud"),
    "lora_qwen25_7b_r16_qkvo": (model_shape("qwen2.5-7b"), 16, "qkvo"),
    "lora_mistral7b_r16_qkvo": (model_shape("mistral-7b-v0.3"), 16, "qkvo"),
    "lora_gpt3_r1_qv": (GPT3, 1, "qv"),
    "lora_gpt3_r8_qv": (GPT3, 8, "qv"),
}
COVERED = list(COUNTS)


@pytest.mark.parametrize("of", parameters(COVERED))
def test_published_adapters_come_out(of: Fact) -> None:
    shape, r, letters = COUNTS[of["id"]]
    count = lora_parameters(shape, r, [LETTERS[letter] for letter in letters])
    assert count == pytest.approx(of["expected"], **tolerance(of))
    assert of["inputs"].get("targets", letters) == letters
    assert of["inputs"].get("r", r) == r


@pytest.mark.parametrize(
    "name", ["gemma3-270m", "gemma3-4b", "llama3.2-1b", "qwen2.5-0.5b", "mistral-7b-v0.1"]
)
@pytest.mark.parametrize("targets", [ALL_LINEAR, ["q_proj", "v_proj"], ["o_proj", "down_proj"]])
def test_adapters_are_as_large_as_peft_makes_them(name: str, targets: str | list[str]) -> None:
    model_config = oracles.config(name, num_hidden_layers=2, layer_types=None)
    model = oracles.with_adapters(oracles.meta_model(model_config), r=8, targets=targets)
    expected = oracles.parameters(model, trainable=True)
    assert lora_parameters(Shape.from_config(model_config), 8, targets) == expected


@given(shapes(), st.data())
def test_adapters_add_up_over_targets_and_grow_with_the_rank(
    shape: Shape, data: st.DataObject
) -> None:
    names = [layer.name for layer in linear_layers(shape)]
    r = data.draw(st.integers(1, min(min(x.inputs, x.outputs) for x in linear_layers(shape))))
    one_by_one = sum(lora_parameters(shape, r, [name]) for name in names)
    assert lora_parameters(shape, r, names) == one_by_one
    assert lora_parameters(shape, r, ALL_LINEAR) == one_by_one
    assert one_by_one == r * lora_parameters(shape, 1, names)


def test_the_order_of_targets_does_not_matter() -> None:
    shape = Shape.gemma3("4b")
    assert lora_parameters(shape, 8, ("v_proj", "q_proj")) == lora_parameters(
        shape, 8, ["q_proj", "v_proj"]
    )


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([], "from q_proj, k_proj"),
        ("q_proj", "a list of layers"),
        (["q_proj", "c_attn"], "c_attn"),
        (["q_proj", "q_proj"], "named twice"),
    ],
)
def test_targets_the_model_lacks_are_errors(targets: list[str] | str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lora_parameters(Shape.gemma3("4b"), 8, targets)


def test_a_model_without_gates_has_no_gate_to_adapt() -> None:
    with pytest.raises(ValueError, match="gate_proj"):
        lora_parameters(model_shape("gpt2"), 8, ["gate_proj"])


@pytest.mark.parametrize(
    ("r", "message"),
    [(0, "r must be"), (-8, "r must be"), (1.5, "r must be"), (257, "at most 256")],
)
def test_a_rank_that_no_matrix_has_is_an_error(r: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lora_parameters(Shape.gemma3("270m"), r, ["k_proj"])


def test_adapter_bytes_follow_the_format() -> None:
    # microsoft/LoRA publishes a 1.5 MB file for GPT-2 medium, rank 4 on q and v, in float32.
    params = lora_parameters(model_shape("gpt2-medium"), 4, ["q_proj", "v_proj"])
    assert params == fact("lora_gpt2m")["expected"]
    assert adapter_bytes(params, "float32") / 2**20 == 1.5
    assert adapter_bytes(params, "bfloat16") == 2 * params
    with pytest.raises(ValueError, match=r"float64.*float32, tfloat32"):
        adapter_bytes(1, "float64")


@pytest.mark.parametrize("params", [-1, inf])
def test_adapter_bytes_of_no_number_of_parameters_is_an_error(params: float) -> None:
    with pytest.raises(ValueError, match="params"):
        adapter_bytes(params, "float32")  # type: ignore[arg-type]
