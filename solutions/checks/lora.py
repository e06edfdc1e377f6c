"""Checks of exercise 43: a LoRA configuration for Gemma 3 4B, judged by rules.

Any configuration that meets the task passes. The layers are those of `Gemma3ForCausalLM` and, for
targets written for it, of `Gemma3ForConditionalGeneration`, as transformers 5 names them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradelib.checks import Check, case
from gradelib.rules import Rule
from gradelib.shapes import Shape
from solutions.layers import Linear, attention_layers, mlp_layers
from solutions.parameters import parameter_count

SHAPE = Shape.gemma3("4b")
TRAINABLE_SHARE = 0.01
TRAINABLE_LIMIT = math.floor(TRAINABLE_SHARE * parameter_count(SHAPE))

# SigLIP-So400m, the vision tower of Gemma 3 4B, 12B and 27B. Source: transformers,
# models/gemma3/convert_gemma3_weights.py.
VISION_LAYERS, VISION_HIDDEN, VISION_INTERMEDIATE = 27, 1152, 4304

# What peft 0.21.2 takes, and its default; a test holds it to the installed version. The default of
# `runtime_config` is an object of peft's own: it takes no plain value, not even None.
DEFAULTS: dict[str, Any] = {
    "task_type": None,
    "peft_type": "LORA",
    "auto_mapping": None,
    "peft_version": None,
    "base_model_name_or_path": None,
    "revision": None,
    "inference_mode": False,
    "r": 8,
    "target_modules": None,
    "exclude_modules": None,
    "lora_alpha": 8,
    "lora_dropout": 0.0,
    "fan_in_fan_out": False,
    "bias": "none",
    "use_rslora": False,
    "modules_to_save": None,
    "init_lora_weights": True,
    "layers_to_transform": None,
    "layers_pattern": None,
    "rank_pattern": {},
    "alpha_pattern": {},
    "megatron_config": None,
    "megatron_core": "megatron.core",
    "trainable_token_indices": None,
    "loftq_config": {},
    "eva_config": None,
    "corda_config": None,
    "lora_ga_config": None,
    "use_dora": False,
    "velora_config": None,
    "alora_invocation_tokens": None,
    "use_qalora": False,
    "qalora_group_size": 16,
    "monteclora_config": None,
    "layer_replication": None,
    "runtime_config": None,
    "lora_bias": False,
    "target_parameters": None,
    "use_bdlora": None,
    "arrow_config": None,
    "kasa_config": None,
    "ensure_weight_tying": False,
}
# Empty lists that peft reads as it reads its default, None. Other empty values change what trains, or
# peft refuses them.
AS_DEFAULT: dict[str, list[Any]] = {
    "exclude_modules": [[]],
    "layers_to_transform": [[]],
    "layers_pattern": [[]],
    "target_parameters": [[]],
}
# Keys that a rule of their own judges, and those that change nothing here.
FREE = [
    *("r", "lora_alpha", "lora_dropout", "target_modules", "bias", "task_type", "inference_mode"),
    *("modules_to_save", "init_lora_weights", "use_rslora", "use_dora"),
    *("auto_mapping", "peft_type", "peft_version", "base_model_name_or_path", "revision"),
    *("megatron_core", "qalora_group_size"),
]
AT_DEFAULT = {
    key: [*([default] if key != "runtime_config" else []), *AS_DEFAULT.get(key, [])]
    for key, default in DEFAULTS.items()
    if key not in FREE
}


def _model(text: str, head: str) -> dict[str, list[list[Any]]]:
    """The modules of the language model under the prefix `text`."""

    def rows(layers: list[Linear], block: str) -> list[list[Any]]:
        return [
            [f"{text}.layers.{{}}.{block}.{layer.name}", SHAPE.layers, layer.inputs, layer.outputs]
            for layer in layers
        ]

    inner = [
        *("self_attn", "self_attn.q_norm", "self_attn.k_norm", "mlp", "mlp.act_fn"),
        *("input_layernorm", "post_attention_layernorm"),
        *("pre_feedforward_layernorm", "post_feedforward_layernorm"),
    ]
    outer = ["embed_tokens", "layers", "norm", "rotary_emb"]
    return {
        "linear": rows(attention_layers(SHAPE), "self_attn") + rows(mlp_layers(SHAPE), "mlp"),
        "other": [
            ["", 1],
            [head, 1],
            [text, 1],
            *([f"{text}.{name}", 1] for name in outer),
            [f"{text}.layers.{{}}", SHAPE.layers],
            *([f"{text}.layers.{{}}.{name}", SHAPE.layers] for name in inner),
        ],
    }


def _vision_model(prefix: str) -> dict[str, list[list[Any]]]:
    """The modules of the vision tower and of its projector."""
    wide, narrow = VISION_INTERMEDIATE, VISION_HIDDEN
    layer = f"{prefix}.vision_tower.encoder.layers.{{}}"
    square = ["self_attn.k_proj", "self_attn.v_proj", "self_attn.q_proj", "self_attn.out_proj"]
    inner = ["self_attn", "layer_norm1", "layer_norm2", "mlp", "mlp.activation_fn"]
    outer = [
        *("vision_tower", "vision_tower.embeddings", "vision_tower.embeddings.patch_embedding"),
        *("vision_tower.embeddings.position_embedding", "vision_tower.encoder"),
        *("vision_tower.encoder.layers", "vision_tower.post_layernorm", "multi_modal_projector"),
        *("multi_modal_projector.mm_soft_emb_norm", "multi_modal_projector.avg_pool"),
    ]
    return {
        "linear": [
            *([f"{layer}.{name}", VISION_LAYERS, narrow, narrow] for name in square),
            [f"{layer}.mlp.fc1", VISION_LAYERS, narrow, wide],
            [f"{layer}.mlp.fc2", VISION_LAYERS, wide, narrow],
        ],
        "other": [
            [prefix, 1],
            *([f"{prefix}.{name}", 1] for name in outer),
            [layer, VISION_LAYERS],
            *([f"{layer}.{name}", VISION_LAYERS] for name in inner),
        ],
    }


def _models() -> list[dict[str, list[list[Any]]]]:
    text, vision = _model("model.language_model", "lm_head"), _vision_model("model")
    both = {kind: text[kind] + vision[kind] for kind in text}
    return [_model("model", "lm_head"), both]


MODELS = _models()


def lora_config_reference() -> dict[str, Any]:
    """A configuration that meets every rule: rank 16 on all linear layers, scaling 2."""
    return {
        "r": 16,
        "lora_alpha": 32,
        "lora_dropout": 0.05,
        "target_modules": "all-linear",
        "bias": "none",
        "task_type": "CAUSAL_LM",
    }


def _but(**changes: Any) -> Callable[[], dict[str, Any]]:
    """The reference with some keys changed; a key set to None goes away."""
    changed = {**lora_config_reference(), **changes}
    return lambda: {key: value for key, value in changed.items() if value is not None}


def _as_object() -> object:
    """What `LoraConfig(...)` gives: an object that holds every key and has `to_dict`."""
    names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    given = {**DEFAULTS, **_but(target_modules=set(names))(), "peft_version": "0.21.2"}
    del given["runtime_config"]  # peft leaves it out too

    class LoraConfig:
        def to_dict(self) -> dict[str, Any]:
            return given

    return LoraConfig()


lora_config = Check(
    reference=lora_config_reference,
    public=[case()],
    hidden=lambda _draw: [case()],
    rules=[
        Rule(
            "not a dictionary",
            "Return the keyword arguments as a dictionary: names in quotes, then their values.",
            "is-dictionary",
            wrong=lambda: ["r", 16, "lora_alpha", 32],
        ),
        Rule(
            "unknown key",
            "peft's LoraConfig does not know one of your keys, so it would refuse them all. Compare their "
            "spelling with the table.",
            "keys-among",
            {"names": list(DEFAULTS)},
            wrong=_but(alpha=32, lora_alpha=None),
        ),
        Rule(
            "rank out of range",
            "`r` is the rank: a whole number in the range that the task gives.",
            "whole-number-between",
            {"name": "r", "default": 8, "low": 4, "high": 64},
            wrong=_but(r=256),
        ),
        Rule(
            "scaling out of range",
            "The adapter's product is multiplied by lora_alpha / r. Keep this quotient in the range that the "
            "task gives.",
            "lora-scaling-between",
            {"low": 0.5, "high": 4},
            wrong=_but(lora_alpha=512),
        ),
        Rule(
            "dropout out of range",
            "`lora_dropout` is a share from 0 to 1, not a percentage, and a small one.",
            "number-between",
            {"name": "lora_dropout", "default": 0.0, "low": 0, "high": 0.3},
            wrong=_but(lora_dropout=5),
        ),
        Rule(
            "biases trained",
            "Gemma 3 has no biases. Say that none is trained.",
            "one-of",
            {"name": "bias", "default": "none", "values": ["none"]},
            wrong=_but(bias="all"),
        ),
        Rule(
            "wrong task type",
            "Gemma 3 predicts the next token. Which of peft's task types is that?",
            "one-of",
            {"name": "task_type", "values": ["CAUSAL_LM"]},
            wrong=_but(task_type="SEQ_CLS"),
        ),
        Rule(
            "adapters not trained",
            "With `inference_mode` the adapters are frozen, so nothing is trained.",
            "one-of",
            {"name": "inference_mode", "default": False, "values": [False]},
            wrong=_but(inference_mode=True),
        ),
        Rule(
            "does not start from the base model",
            "B has to start at zero, so that the first forward pass is the base model's. Leave "
            "`init_lora_weights` at its default.",
            "one-of",
            {"name": "init_lora_weights", "default": True, "values": [True, "gaussian"]},
            wrong=_but(init_lora_weights=False),
        ),
        Rule(
            "whole matrices trained",
            "`modules_to_save` trains whole copies of the modules it names. The embedding alone has "
            "hundreds of millions of parameters: leave it out.",
            "one-of",
            {"name": "modules_to_save", "values": [None, []]},
            wrong=_but(modules_to_save=["embed_tokens", "lm_head"]),
        ),
        Rule(
            "other settings changed",
            "One rank in all layers, and nothing beyond the keys of the task: leave the other keys out.",
            "others-at-default",
            {"free": FREE, "defaults": AT_DEFAULT},
            wrong=_but(layers_to_transform=[0, 1]),
        ),
        Rule(
            "a switch that is neither on nor off",
            "`use_rslora` and `use_dora` are switches: True or False, not a number and no text.",
            "true-or-false",
            {"names": ["use_rslora", "use_dora"]},
            wrong=_but(use_dora="yes"),
        ),
        Rule(
            "no targets",
            "Without `target_modules` the library guesses. Say which layers get adapters.",
            "has-key",
            {"name": "target_modules"},
            wrong=_but(target_modules=None),
        ),
        Rule(
            "head or embedding adapted",
            "The output head and the embedding are one tied matrix, with 262,144 rows. The task leaves both as "
            "they are.",
            "targets-avoid",
            {"names": ["lm_head", "model.embed_tokens", "model.language_model.embed_tokens"]},
            wrong=_but(target_modules=["q_proj", "down_proj", "lm_head"]),
        ),
        Rule(
            "targets that do not exist",
            "A target hits no linear layer of Gemma 3, or something that is not one. A list holds the last parts "
            "of names; a text is a pattern for the whole name.",
            "targets-exist",
            {"models": MODELS},
            wrong=_but(target_modules=["c_attn", "c_proj"]),
        ),
        Rule(
            "vision tower adapted",
            "An adapter sits in the vision tower, which reads images. The task is about the language model alone.",
            "targets-within",
            {"models": MODELS, "pattern": r"(?!.*vision).*"},
            wrong=_but(target_modules=r".*(language_model|vision_tower).*\.(q_proj|up_proj|fc1)"),
        ),
        Rule(
            "attention not reached",
            "No adapter sits in the attention of the language model. What are its projections called?",
            "targets-include",
            {"models": MODELS, "pattern": r".*\.self_attn\.\w+"},
            wrong=_but(target_modules=["gate_proj", "up_proj", "down_proj"]),
        ),
        Rule(
            "MLP not reached",
            "No adapter sits in the MLP of the language model, which holds most of a layer's weights. What are "
            "its projections called?",
            "targets-include",
            {"models": MODELS, "pattern": r".*\.mlp\.\w+"},
            wrong=_but(target_modules=["q_proj", "v_proj"]),
        ),
        Rule(
            "layers left out",
            "Some layers of the language model get no adapter in their attention, or none in their MLP. The task "
            "asks for both in every layer: name projections without a layer's number.",
            "targets-include",
            {
                "models": MODELS,
                "pattern": r".*\.layers\.(\d+)\.(self_attn|mlp)\.\w+",
                "count": 2 * SHAPE.layers,
            },
            wrong=_but(target_modules=["layers.0.self_attn.q_proj", "layers.0.mlp.up_proj"]),
        ),
        Rule(
            "too many trainable parameters",
            "Your adapters have more parameters than the task allows. Each adds r · (inputs + outputs): lower the "
            "rank, or adapt fewer layers.",
            "lora-parameters-at-most",
            {"models": MODELS, "limit": TRAINABLE_LIMIT},
            wrong=_but(r=64, lora_alpha=64),
        ),
    ],
    also_right=[
        _but(target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "down_proj"]),
        _but(target_modules={"q_proj", "down_proj"}, r=32, lora_alpha=32, lora_dropout=0),
        _but(
            target_modules=("o_proj", "up_proj"), lora_alpha=8, lora_dropout=None, use_rslora=True
        ),
        _but(target_modules=r"model\.layers\.\d+\.(self_attn|mlp)\.\w+_proj", r=8, lora_alpha=8),
        _but(target_modules=r".*language_model.*\.(q_proj|down_proj)", modules_to_save=[]),
        _but(
            target_modules="All-Linear", use_dora=True, init_lora_weights="gaussian", lora_alpha=16
        ),
        _as_object,
    ],
)
