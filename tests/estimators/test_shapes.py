"""Shapes: what they accept, and how they are read from a Hugging Face configuration."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from gradelib.shapes import Shape
from solutions.shapes import GEMMA3, model_names, model_shape, published_configs
from tests.estimators.facts import Fact, parameters
from tests.estimators.oracles import config
from tests.estimators.strategies import shapes

COVERED = [f"gemma3_{size}_config" for size in GEMMA3.values()]
TINY: dict[str, Any] = {
    "vocab": 256,
    "hidden": 64,
    "intermediate": 128,
    "layers": 4,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "tied": True,
    "gated": True,
}
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
}
GEMMA: dict[str, Any] = {**LLAMA, "model_type": "gemma3_text", "num_key_value_heads": 2}


@pytest.mark.parametrize("of", parameters(COVERED))
def test_gemma3_has_the_published_sizes(of: Fact) -> None:
    shape, expected = Shape.gemma3(of["inputs"]["model"]), of["expected"]
    assert {
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "sliding_window": shape.sliding_window,
        "vocab_size": shape.vocab,
        "sliding_window_pattern": shape.sliding_pattern,
        "global_layers": shape.global_layers,
        "local_layers": shape.local_layers,
        "tie_word_embeddings": shape.tied,
        "qk_norm": shape.qk_norm,
        "norms_per_layer": shape.norms_per_layer,
        "heads_x_head_dim": shape.heads * shape.head_dim,
    }.items() <= expected.items()


@pytest.mark.parametrize("name", model_names())
def test_a_transformers_configuration_gives_the_same_shape(name: str) -> None:
    assert Shape.from_config(config(name)) == model_shape(name)


@pytest.mark.parametrize("name", model_names())
def test_local_layers_are_those_that_transformers_makes_sliding(name: str) -> None:
    shape, kinds = model_shape(name), getattr(config(name), "layer_types", None)
    if kinds is None:
        assert shape.global_layers in (0, shape.layers)
        return
    is_global = [shape.is_global(layer) for layer in range(shape.layers)]
    assert is_global == [kind == "full_attention" for kind in kinds]


@given(shapes())
def test_global_layers_are_those_that_is_global_names(shape: Shape) -> None:
    assert shape.global_layers == sum(map(shape.is_global, range(shape.layers)))
    assert shape.global_layers + shape.local_layers == shape.layers


@pytest.mark.parametrize("layer", [-1, 4])
def test_a_layer_that_does_not_exist_is_an_error(layer: int) -> None:
    with pytest.raises(ValueError, match="from 0 to 3"):
        Shape(**TINY).is_global(layer)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        *[
            (name, value, name)
            for name in ("vocab", "hidden", "intermediate", "layers", "heads", "head_dim")
            for value in (0, -1, 1.5, True, None)
        ],
        ("kv_heads", 3, "kv_heads must divide heads"),
        ("tied", "yes", "tied must be True or False"),
        ("attention_bias", True, "attention_bias must name"),
        ("learned_positions", -1, "learned_positions"),
        ("norms_per_layer", -1, "norms_per_layer"),
        ("sliding_window", 0, "sliding_window"),
        ("sliding_pattern", 6, "without a sliding_window"),
    ],
)
def test_sizes_that_no_model_has_are_errors(field: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Shape(**{**TINY, field: value})


def test_a_shape_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Shape(**TINY).hidden = 1  # type: ignore[misc]


def test_an_unknown_size_or_model_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="270m, 1b, 4b, 12b, 27b"):
        Shape.gemma3("2b")
    with pytest.raises(ValueError, match=r"did you mean 'gemma3-4b'.*gpt2"):
        model_shape("gemma-3-4b")


def test_a_published_multimodal_file_leaves_out_what_4b_has() -> None:
    # The text part of google/gemma-3-4b-it's config.json, which states no heads and no vocabulary.
    published = {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
        "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"},
    }
    assert Shape.from_config(published) == Shape.gemma3("4b", vocab=262_208)


def test_a_path_a_folder_and_a_dict_give_the_same_shape(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA), encoding="utf-8")
    expected = Shape.from_config(LLAMA)
    assert Shape.from_config(file) == expected
    assert Shape.from_config(str(file)) == expected
    assert Shape.from_config(tmp_path) == expected


@pytest.mark.parametrize("name", sorted(LLAMA.keys() - {"model_type"}))
@pytest.mark.parametrize("absent", [True, False])
def test_a_missing_field_is_named(name: str, absent: bool) -> None:
    broken = {key: value for key, value in LLAMA.items() if key != name}
    with pytest.raises(ValueError, match=f"llama configuration lacks '{name}'"):
        Shape.from_config(broken if absent else {**broken, name: None})


@pytest.mark.parametrize(
    "value", ["64", 0, -4, 2.5, True, [64]], ids=lambda value: type(value).__name__
)
@pytest.mark.parametrize("name", sorted(LLAMA.keys() - {"model_type"}))
def test_a_field_that_is_no_size_is_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        Shape.from_config({**LLAMA, name: value})


@pytest.mark.parametrize("model_type", ["mixtral", "bert", None])
def test_an_unknown_architecture_lists_the_known_ones(model_type: str | None) -> None:
    with pytest.raises(ValueError, match=rf"{model_type}.*gemma3.*gpt2.*llama.*mistral.*qwen2"):
        Shape.from_config({**LLAMA, "model_type": model_type})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_types": ["full_attention"]}, "list of 4 names"),
        ({"layer_types": ["chunked_attention"] * 4}, "sliding_attention or full_attention"),
        ({"layer_types": 4}, "list of 4 names"),
        ({"layer_types": ["full_attention", *["sliding_attention"] * 3]}, "ordered otherwise"),
        ({"use_bidirectional_attention": True}, "causal"),
        ({"sliding_window_pattern": 0}, "sliding_window_pattern"),
    ],
)
def test_a_layout_that_a_shape_cannot_express_is_an_error(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Shape.from_config({**GEMMA, **changes})


def test_an_opt_model_with_projected_embeddings_is_an_error() -> None:
    opt = {**LLAMA, "model_type": "opt", "ffn_dim": 128, "max_position_embeddings": 32}
    assert Shape.from_config(opt).learned_positions == 34
    with pytest.raises(ValueError, match="word_embed_proj_dim=32"):
        Shape.from_config({**opt, "word_embed_proj_dim": 32})


def test_head_dim_is_read_before_it_is_derived() -> None:
    assert Shape.from_config(LLAMA).head_dim == 16
    assert Shape.from_config({**LLAMA, "head_dim": 32}).head_dim == 32
    with pytest.raises(ValueError, match="3 heads do not divide"):
        Shape.from_config({**LLAMA, "num_attention_heads": 3})


def test_tying_is_read_from_the_whole_model_before_its_text_part() -> None:
    inner = {**LLAMA, "tie_word_embeddings": True}
    assert Shape.from_config({"model_type": "llava", "text_config": inner}).tied
    outer = {"model_type": "llava", "text_config": inner, "tie_word_embeddings": False}
    assert not Shape.from_config(outer).tied


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '"llama"'])
def test_a_file_that_is_no_configuration_is_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json"):
        Shape.from_config(file)


def test_a_path_that_does_not_exist_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Shape.from_config(tmp_path / "absent.json")
    with pytest.raises(ValueError, match="got int"):
        Shape.from_config(3)


def test_every_published_configuration_names_its_source() -> None:
    assert all("/" in row["hub"] for row in published_configs().values())
