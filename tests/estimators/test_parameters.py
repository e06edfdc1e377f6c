"""Parameters: equal to the meta device's, to published counts, and adding up."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given

from gradelib.shapes import Shape
from solutions.parameters import non_embedding_count, parameter_count, parameters_by_part
from solutions.quantization import packed_elements
from solutions.shapes import model_names, model_shape
from tests.estimators import oracles
from tests.estimators.facts import Fact, fact, parameters, tolerance
from tests.estimators.strategies import shapes

GEMMA3_TEXT = ["gemma3_270m_params_text", "gemma3_4b_params_text", "gemma3_27b_params_text"]
REPORTED = [
    "gemma3_1b_report_embed",
    "gemma3_1b_report_nonembed",
    "gemma3_4b_report_embed",
    "gemma3_4b_report_nonembed",
    "gemma3_12b_report_embed",
    "gemma3_12b_report_nonembed",
    "gemma3_27b_report_embed",
]
PUBLISHED = [
    "params_gpt2",
    "params_gpt2_medium",
    "params_gpt2_large",
    "params_gpt2_xl",
    "params_llama1_33b",
    "params_llama1_65b",
    "params_llama2_70b",
    "params_llama3_8b",
    "params_llama3_70b",
    "params_llama3_2_3b",
    "params_smollm2_135m",
    "params_gemma_2b",
    "params_gemma2_2b",
    "params_gemma2_9b",
    "params_pythia_70m",
    "params_pythia_6_9b",
    "params_opt_6_7b",
    "params_qwen2_5_0_5b",
    "params_qwen2_5_7b",
    "params_qwen3_0_6b",
]
PACKED = {"trap_llama2_4bit_numel": "llama2-7b", "trap_llama3_4bit_numel": "llama3-8b"}
COVERED = [*GEMMA3_TEXT, *REPORTED, *PUBLISHED, *PACKED]


def size(of: Fact) -> str:
    """The Gemma 3 size in a fact's id."""
    found = re.search(r"gemma3_(\d+[mb])", of["id"])
    assert found
    return found[1]


@pytest.mark.parametrize("name", model_names())
def test_parameters_equal_those_of_the_meta_device(name: str) -> None:
    model = oracles.meta_model(oracles.config(name))
    assert parameter_count(model_shape(name)) == oracles.parameters(model)


@pytest.mark.parametrize("of", parameters(GEMMA3_TEXT))
def test_gemma3_has_the_published_parameters(of: Fact) -> None:
    shape = Shape.gemma3(size(of))
    assert parameter_count(shape) == of["expected"]
    assert parameters_by_part(shape)["embedding"] == of["check"]["embedding"]
    assert non_embedding_count(shape) == of["check"]["non_embedding"]
    untied = dataclasses.replace(shape, tied=False)
    assert parameter_count(untied) == of["check"]["untied_wrong_answer"]


def test_the_vision_tower_of_a_multimodal_checkpoint_is_left_out() -> None:
    of = fact("gemma3_4b_params_mm")
    text = oracles.config("gemma3-4b", vocab_size=of["inputs"]["vocab"]).to_dict()
    vision = fact("siglip_config")["expected"]
    sizes = {field: vision[field] for field in oracles.VISION_FIELDS}
    model = oracles.multimodal_model(text, sizes)
    assert oracles.parameters(model) == of["expected"]
    shape = Shape.from_config(model.config)
    assert shape == Shape.gemma3("4b", vocab=262_208)
    assert parameter_count(shape) == of["check"]["text"]
    assert parameter_count(shape) == of["expected"] - of["check"]["vision"] - of["check"]["proj"]


@pytest.mark.parametrize("of", parameters(REPORTED))
def test_the_technical_report_agrees(of: Fact) -> None:
    shape = Shape.gemma3(size(of))
    embedding = parameters_by_part(shape)["embedding"]
    value = non_embedding_count(shape) if "nonembed" in of["id"] else embedding
    assert value / 1e6 == pytest.approx(of["expected"], **tolerance(of))


@pytest.mark.parametrize("of", parameters(PUBLISHED))
def test_published_counts_come_out_exactly(of: Fact) -> None:
    assert parameter_count(model_shape(of["inputs"]["model"])) == of["expected"]


@pytest.mark.parametrize("of", parameters(list(PACKED)))
def test_a_4bit_model_reports_half_of_its_quantized_weights(of: Fact) -> None:
    assert packed_elements(model_shape(PACKED[of["id"]])) == of["expected"]


@given(shapes())
def test_the_tied_head_is_counted_once(shape: Shape) -> None:
    tied = dataclasses.replace(shape, tied=True)
    untied = dataclasses.replace(shape, tied=False)
    assert parameter_count(untied) - parameter_count(tied) == shape.vocab * shape.hidden
    assert non_embedding_count(untied) == non_embedding_count(tied)


@given(shapes())
def test_every_layer_has_the_same_parameters(shape: Shape) -> None:
    counts = [
        parameter_count(dataclasses.replace(shape, layers=shape.layers + more)) for more in range(3)
    ]
    assert counts[2] - counts[1] == counts[1] - counts[0] > 0


@given(shapes())
def test_a_sliding_window_changes_no_parameter(shape: Shape) -> None:
    open_window = dataclasses.replace(shape, sliding_window=None, sliding_pattern=None)
    assert parameter_count(open_window) == parameter_count(shape)
