"""The rules of exercise 43 against peft itself, on the real architecture."""

from __future__ import annotations

import contextlib
import inspect
import warnings

import pytest

from gradelib.plain import to_plain
from gradelib.rules import OPERATIONS, Rule, targeted_modules
from gradelib.shapes import Shape
from solutions.checks.lora import (
    AS_DEFAULT,
    AT_DEFAULT,
    DEFAULTS,
    FREE,
    MODELS,
    TRAINABLE_LIMIT,
    lora_config,
)
from solutions.lora import lora_parameters
from tests.conftest import label, need_module

SIZES = {
    "vocab_size": 262_144,
    "hidden_size": 2560,
    "intermediate_size": 10_240,
    "num_hidden_layers": 34,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
}
NAMES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
PATTERNS = [
    "all-linear",
    "ALL-LINEAR",
    ["q_proj"],
    ["q_proj", "down_proj"],
    NAMES,
    ["self_attn.q_proj", "mlp.down_proj"],
    ["layers.3.self_attn.q_proj", "layers.11.mlp.up_proj"],
    ["model.layers.0.self_attn.k_proj"],
    r".*\.(q|v)_proj",
    r"model\.layers\.\d+\.(self_attn|mlp)\..*_proj",
    r"model\.layers\.(1|2|30)\.mlp\.\w+_proj",
    r"(?i).*\.Q_PROJ",
]
# peft refuses these: nothing is hit, or something that is not a layer it can adapt.
REFUSED = [
    "q_proj",
    ["c_attn"],
    ["proj"],
    ["Q_proj"],
    ["q_proj."],
    ["mlp"],
    ["q_norm"],
    [r".*q_proj"],
    r"layers\.\d+\.self_attn\.q_proj",
    r"model\.layers\.0.*",
    r"model\.layers\.(1|2|30)\.mlp\.\w+",
]


@pytest.fixture(scope="module")
def text_model():
    """Gemma 3 4B without its vision tower, on the meta device. Not to be changed."""
    for module in ("torch", "transformers"):
        need_module(module)
    import torch
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    with torch.device("meta"):
        return Gemma3ForCausalLM(Gemma3TextConfig(**SIZES))


@pytest.fixture(scope="module")
def whole_model():
    """Gemma 3 4B with its vision tower, on the meta device. Not to be changed."""
    for module in ("torch", "transformers"):
        need_module(module)
    import torch
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    vision = {
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "image_size": 896,
        "patch_size": 14,
        "vision_use_head": False,
    }
    with torch.device("meta"):
        return Gemma3ForConditionalGeneration(Gemma3Config(text_config=SIZES, vision_config=vision))


def numbered(rows):
    return {
        row[0].replace("{}", str(number)): tuple(row[2:])
        for row in rows
        for number in range(row[1])
    }


def small_model():
    """All layers of Gemma 3 4B by name, with small sizes, on the meta device."""
    import torch
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    small = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "head_dim": 8}
    with torch.device("meta"):
        return Gemma3ForCausalLM(Gemma3TextConfig(**(SIZES | small)))


def adapted_by_peft(config, model=None):
    """Names of the layers that peft gives an adapter to, and its count of trainable parameters."""
    from peft import LoraConfig, get_peft_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = get_peft_model(model or small_model(), LoraConfig(**config))
    inside = "base_model.model."
    names = {
        name.removeprefix(inside).removesuffix(".lora_A")
        for name, _ in adapted.named_modules()
        if name.endswith(".lora_A")
    }
    return names, adapted.get_nb_trainable_parameters()[0]


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_the_modules_are_those_of_the_real_models(number, text_model, whole_model):
    import torch

    model = (text_model, whole_model)[number]
    modules = dict(model.named_modules())
    linear = {
        name: (module.in_features, module.out_features)
        for name, module in modules.items()
        if isinstance(module, torch.nn.Linear) and name != "lm_head"
    }
    assert numbered(MODELS[number]["linear"]) == linear
    assert set(numbered(MODELS[number]["other"])) == set(modules) - set(linear)


def test_the_keys_and_defaults_are_those_of_peft():
    need_module("peft")
    from peft import LoraConfig

    assert list(DEFAULTS) == list(inspect.signature(LoraConfig).parameters)
    made = to_plain(LoraConfig().to_dict())
    made.pop("peft_version")
    assert made == {key: DEFAULTS[key] for key in made}
    assert set(FREE) <= set(DEFAULTS)


@pytest.mark.slow
@pytest.mark.parametrize("targets", PATTERNS, ids=label)
def test_targets_are_read_as_peft_reads_them(targets):
    need_module("peft")
    need_module("transformers")
    expected, _ = adapted_by_peft({"r": 2, "target_modules": targets, "task_type": "CAUSAL_LM"})
    linear = list(numbered(MODELS[0]["linear"]))
    assert set(targeted_modules(targets, linear)) == expected
    assert OPERATIONS["targets-exist"]({"target_modules": targets}, {"models": MODELS})


@pytest.mark.slow
@pytest.mark.parametrize("targets", REFUSED, ids=label)
def test_targets_that_peft_refuses_do_not_exist(targets):
    need_module("peft")
    need_module("transformers")
    with pytest.raises(ValueError, match=r"[Tt]arget"):
        adapted_by_peft({"r": 2, "target_modules": targets, "task_type": "CAUSAL_LM"})
    assert not OPERATIONS["targets-exist"]({"target_modules": targets}, {"models": MODELS})


@pytest.mark.slow
@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("targets", ["all-linear", ["q_proj", "down_proj"]], ids=label)
def test_the_adapters_parameters_are_counted_as_peft_counts_them(targets, dora):
    need_module("peft")
    need_module("transformers")
    import torch
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    with torch.device("meta"):
        model = Gemma3ForCausalLM(Gemma3TextConfig(**SIZES))
    config = {"r": 4, "target_modules": targets, "task_type": "CAUSAL_LM", "use_dora": dora}
    _, trainable = adapted_by_peft(config, model)
    fits = OPERATIONS["lora-parameters-at-most"]
    assert fits(config, {"models": MODELS, "limit": trainable})
    assert not fits(config, {"models": MODELS, "limit": trainable - 1})
    if not dora:
        assert trainable == lora_parameters(Shape.gemma3("4b"), 4, targets)


@pytest.mark.slow
def test_peft_builds_every_accepted_configuration_and_adapts_a_model_with_it():
    need_module("peft")
    need_module("transformers")
    for answer in [lora_config.reference, *lora_config.also_right]:
        config = to_plain(answer())
        targets = config["target_modules"]
        if isinstance(targets, frozenset):
            config["target_modules"] = set(targets)
        if "language_model" in targets:
            continue  # written for the model with a vision tower
        names, _ = adapted_by_peft(config)
        assert any("self_attn" in name for name in names)
        assert any("mlp" in name for name in names)


def test_a_percent_of_the_model_is_the_limit():
    assert TRAINABLE_LIMIT == 38_800_993
    shape = Shape.gemma3("4b")
    rank_16, rank_32 = (lora_parameters(shape, r, "all-linear") for r in (16, 32))
    assert rank_16 < TRAINABLE_LIMIT < rank_32


# Of the model that also reads images: attention and MLP of both parts.
LANGUAGE_AND_VISION = r"model\.(language_model|vision_tower\.encoder)\.layers\.\d+\.(self_attn\.q_proj|mlp\.(up_proj|fc1))"
LAYER = ["self_attn.q_proj", "mlp.up_proj"]
RULES = {rule.id: rule for rule in lora_config.rules}
RIGHT = lora_config.reference()


def broken(changes):
    """Ids of the rules that the reference with these changes breaks."""
    value = to_plain({key: item for key, item in {**RIGHT, **changes}.items() if item is not None})
    return [name for name, rule in RULES.items() if not rule.holds(value)]


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"r": 16.0}, "rank out of range"),
        ({"r": True}, "rank out of range"),
        ({"r": "16"}, "rank out of range"),
        ({"r": 3}, "rank out of range"),
        ({"lora_alpha": 7}, "scaling out of range"),
        ({"lora_alpha": "32"}, "scaling out of range"),
        ({"use_rslora": True, "lora_alpha": 32}, "scaling out of range"),
        ({"lora_dropout": "0.1"}, "dropout out of range"),
        ({"lora_dropout": -0.1}, "dropout out of range"),
        ({"bias": "lora_only"}, "biases trained"),
        ({"task_type": None}, "wrong task type"),
        ({"task_type": "causal_lm"}, "wrong task type"),
        ({"init_lora_weights": "pissa"}, "does not start from the base model"),
        ({"modules_to_save": ["norm"]}, "whole matrices trained"),
        ({"rank_pattern": {"q_proj": 64}}, "other settings changed"),
        ({"exclude_modules": ["q_proj"]}, "other settings changed"),
        ({"target_modules": ["embed_tokens", "q_proj"]}, "head or embedding adapted"),
        ({"target_modules": r".*(q_proj|lm_head|down_proj)"}, "head or embedding adapted"),
        ({"target_modules": "q_proj"}, "targets that do not exist"),
        ({"target_modules": ["q_proj", "wi"]}, "targets that do not exist"),
        ({"target_modules": [16]}, "targets that do not exist"),
        ({"target_modules": "("}, "targets that do not exist"),
        ({"target_modules": r".*"}, "head or embedding adapted"),
        ({"target_modules": r"model\.layers\..*"}, "targets that do not exist"),
        ({"target_modules": ["fc1", "fc2"]}, "vision tower adapted"),
        ({"target_modules": r".*vision_tower.*(q_proj|fc1)"}, "vision tower adapted"),
        ({"target_modules": LANGUAGE_AND_VISION}, "vision tower adapted"),
        ({"target_modules": ["0.self_attn.q_proj", "0.mlp.up_proj"]}, "layers left out"),
        ({"target_modules": r".*\.layers\.\d\.\w+\.(q|up)_proj"}, "layers left out"),
        ({"target_modules": ["q_proj", "33.mlp.up_proj"]}, "layers left out"),
        ({"use_dora": "junk"}, "a switch that is neither on nor off"),
        ({"use_dora": 3}, "a switch that is neither on nor off"),
        ({"use_rslora": 0}, "a switch that is neither on nor off"),
        ({"target_modules": NAMES, "r": 32}, "too many trainable parameters"),
    ],
    ids=label,
)
def test_a_wrong_choice_breaks_its_rule_first(changes, first):
    assert broken(changes)[0] == first


@pytest.mark.parametrize(
    "changes",
    [
        {"r": None, "lora_alpha": None},
        {"r": 4, "lora_alpha": 2},
        {"lora_alpha": 64.0},
        {"bias": None, "lora_dropout": None},
        {"lora_dropout": 0},
        {"rank_pattern": {}, "exclude_modules": []},
        {"target_modules": NAMES},
        {"target_modules": set(NAMES)},
        {"target_modules": ["q_proj", "up_proj"], "r": 64, "lora_alpha": 64},
        {"target_modules": [f"{n}.{name}" for n in range(34) for name in LAYER]},
        {"target_modules": r".*language_model\..*_proj"},
        {"inference_mode": False, "fan_in_fan_out": False, "auto_mapping": None},
    ],
    ids=label,
)
def test_a_right_choice_breaks_no_rule(changes):
    assert broken(changes) == []


# Each is empty, 0 or False, yet it changes what trains or peft refuses it.
NOT_AS_DEFAULT = {
    "layers_to_transform": [0, False, "", {}, 0.0],
    "trainable_token_indices": [0, False, "", [], 0.0],
    "rank_pattern": [None, 0, False, "", []],
    "alpha_pattern": [None, 0, False, "", []],
    "target_parameters": [""],
    "monteclora_config": [{}],
    "kasa_config": [0, False, "", [], {}],
    "eva_config": [0, False, "", []],
    "corda_config": [0, False, "", []],
    "lora_ga_config": [0, False, "", []],
    "velora_config": [0, False, "", []],
    "use_bdlora": [0, False, "", [], {}],
    "arrow_config": [0, False, "", [], {}],
    "runtime_config": [None, 0, {}, "junk", True],
}
each_value = pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in NOT_AS_DEFAULT.items() for value in values]
)


@each_value
def test_an_empty_value_is_not_taken_for_another(key, value):
    assert not RULES["other settings changed"].holds(to_plain({**RIGHT, key: value}))


@pytest.mark.parametrize("key", sorted(AT_DEFAULT))
def test_an_empty_value_of_another_kind_than_the_default_is_refused(key):
    rule, accepted = RULES["other settings changed"], AT_DEFAULT[key]
    for value in [None, 0, False, "", [], {}, 0.0, True, 1]:
        same = any(value == one and type(value) is type(one) for one in accepted)
        assert rule.holds({**RIGHT, key: value}) == same, value


def tiny_model():
    """Two layers with an embedding: what peft makes of a key shows in it at once."""
    from torch import nn

    layers = [nn.ModuleDict({name: nn.Linear(4, 4) for name in NAMES}) for _ in range(2)]
    return nn.ModuleDict({"embed_tokens": nn.Embedding(8, 4), "layers": nn.ModuleList(layers)})


def trained_by_peft(changes):
    """Names of the parameters of `tiny_model` that peft trains."""
    from peft import LoraConfig, get_peft_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = get_peft_model(tiny_model(), LoraConfig(r=2, target_modules=NAMES, **changes))
    return [name for name, value in adapted.named_parameters() if value.requires_grad]


@each_value
def test_peft_refuses_a_value_that_the_rule_refuses_or_trains_something_else(key, value):
    need_module("peft")
    usual = trained_by_peft({})
    with contextlib.suppress(AttributeError, IndexError, TypeError, ValueError):
        assert trained_by_peft({key: value}) != usual


def test_peft_reads_what_the_rule_takes_for_a_default_as_its_default():
    need_module("peft")
    usual = trained_by_peft({})
    for key, values in AT_DEFAULT.items():
        for value in values:
            assert trained_by_peft({key: value}) == usual, (key, value)
    assert set(AS_DEFAULT) <= set(AT_DEFAULT) == set(DEFAULTS) - set(FREE)


def test_a_pattern_that_never_ends_is_refused_in_time():
    hostile = r"(model|model\.|[a-z.0-9_]+)+!"
    assert "targets that do not exist" in broken({"target_modules": hostile})


def test_a_rule_with_an_unknown_operation_names_those_that_are_known():
    with pytest.raises(ValueError, match="targets-exist"):
        Rule("typo", "A sentence.", "targets-exists")


# --- what of a configuration breaks a rule


def told(**changes):
    """What a learner reads of the reference configuration with these changes."""
    value = to_plain(lora_config.reference() | changes)
    broken = next(rule for rule in lora_config.rules if not rule.holds(value))
    return broken.id, broken.explanation(value).removeprefix(broken.sentence).strip()


@pytest.mark.parametrize(
    ("changes", "rule", "words"),
    [
        ({"lora_apha": 32}, "unknown key", "Not known: `lora_apha`. Do you mean `lora_alpha`?"),
        ({"zzz": 1, "alpha": 2}, "unknown key", "Not known: `alpha`, `zzz`."),
        (
            {"target_modules": ["q_proj", "down_porj"]},
            "targets that do not exist",
            "No layer's name ends in `down_porj`.",
        ),
        (
            {"target_modules": "q_proj"},
            "targets that do not exist",
            "No layer's whole name matches `q_proj`.",
        ),
        (
            {"target_modules": ["q_proj", "mlp"]},
            "targets that do not exist",
            "More than linear layers: `mlp`.",
        ),
        (
            {"layers_to_transform": [0]},
            "other settings changed",
            "Changed: `layers_to_transform`.",
        ),
    ],
)
def test_the_sentence_names_what_breaks_the_rule(changes, rule, words):
    assert told(**changes) == (rule, words)


def test_too_many_parameters_are_counted_as_peft_counts_them():
    rank = {"r": 64, "lora_alpha": 64, "target_modules": NAMES}
    counted = lora_parameters(Shape.gemma3("4b"), 64, NAMES)
    rule, words = told(**rank)
    assert rule == "too many trainable parameters"
    assert words == f"Yours have {counted:,}, in 238 layers; the most is {TRAINABLE_LIMIT:,}."


def test_a_learners_own_text_is_repeated_cut_short_and_cannot_end_its_code():
    _, words = told(**{"`" + "x" * 5_000: 1})
    assert len(words) < 200
    assert words.count("`") == 2


@pytest.mark.parametrize("targets", [None, 5, [5], {"a": 1}, "(", "(a+)+$", []])
def test_a_value_of_another_shape_gets_the_sentence_alone_or_more(targets):
    for rule in lora_config.rules:
        value = {"r": 8, "target_modules": targets}
        assert rule.explanation(value).startswith(rule.sentence)
