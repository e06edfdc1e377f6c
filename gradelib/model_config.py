"""Reads a Hugging Face model configuration into the fields of a `Shape`.

Published configurations leave out what equals their architecture's default, so the defaults are
kept here, one function an architecture. A layout that a `Shape` cannot express is an error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Fields = dict[str, Any]


def shape_fields(config: Mapping[str, Any] | str | os.PathLike[str] | object) -> Fields:
    """Keyword arguments of `Shape` for a configuration: a dict, a path or a `PretrainedConfig`.

    Raises `ValueError` for an unknown architecture, a missing field or an inexpressible layout.
    """
    outer = _as_mapping(config)
    text = outer.get("text_config")
    # Tying is a property of the whole model: where a multimodal file states it, it does so outside.
    inner = {**text, **_given(outer, "tie_word_embeddings")} if isinstance(text, Mapping) else outer
    model_type = inner.get("model_type") or outer.get("model_type")
    if model_type not in _ARCHITECTURES:
        raise ValueError(
            f"cannot read a configuration with model_type {model_type!r}; "
            f"known: {', '.join(_ARCHITECTURES)}"
        )
    return _ARCHITECTURES[model_type](_Config(str(model_type), inner))


def _as_mapping(config: Mapping[str, Any] | str | os.PathLike[str] | object) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        return config
    if isinstance(config, str | os.PathLike):
        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        try:
            loaded = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is not a JSON configuration: {error}") from error
        if not isinstance(loaded, dict):
            raise ValueError(f"{path} must hold a JSON object, not a {type(loaded).__name__}")
        return loaded
    to_dict = getattr(config, "to_dict", None)
    if callable(to_dict):
        return dict(to_dict())
    raise ValueError(
        "a configuration must be a dict, the path of a config.json or an object with to_dict(): "
        f"got {type(config).__name__}"
    )


def _given(config: Mapping[str, Any], name: str) -> Fields:
    return {name: config[name]} if config.get(name) is not None else {}


class _Config:
    """A configuration whose missing fields are reported by name. A null counts as missing."""

    def __init__(self, model_type: str, values: Mapping[str, Any]) -> None:
        self.model_type = model_type
        self.values = values

    def need(self, name: str) -> Any:
        if self.values.get(name) is None:
            raise ValueError(f"the {self.model_type} configuration lacks {name!r}")
        return self.values[name]

    def size(self, name: str) -> int:
        value = self.need(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(
                f"{name!r} in the {self.model_type} configuration must be a whole number of at "
                f"least 1: got {value!r}"
            )
        return value

    def get(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        return default if value is None else value

    def nullable(self, name: str, default: Any) -> Any:
        """A field in which null turns a feature off, while absence means the default."""
        return self.values.get(name, default)

    def with_defaults(self, **defaults: Any) -> _Config:
        return _Config(self.model_type, {**defaults, **self.values})


def _common(
    c: _Config, *, kv_heads: int | None = None, head_dim: int | None = None, **fixed: Any
) -> Fields:
    """The sizes most architectures share, with an architecture's own defaults and constants."""
    head_dim = c.size("head_dim") if c.get("head_dim", None) is not None else head_dim
    fields = {
        "vocab": c.size("vocab_size"),
        "hidden": c.size("hidden_size"),
        "intermediate": c.size("intermediate_size"),
        "layers": c.size("num_hidden_layers"),
        "heads": c.size("num_attention_heads"),
        "kv_heads": c.size("num_key_value_heads") if kv_heads is None else kv_heads,
        "head_dim": _even_share(c) if head_dim is None else head_dim,
        "gated": True,
    }
    return {**fields, **fixed, "tied": c.get("tie_word_embeddings", fixed["tied"])}


def _even_share(c: _Config) -> int:
    """Head width where the configuration names none: the hidden size split over the heads."""
    hidden, heads = c.size("hidden_size"), c.size("num_attention_heads")
    if hidden % heads:
        raise ValueError(
            f"the {c.model_type} configuration lacks 'head_dim', and its {heads} heads do not "
            f"divide its hidden size, {hidden}"
        )
    return hidden // heads


def _window(c: _Config, layer_types: Sequence[str], window: int | None) -> Fields:
    """Sliding window and pattern from one attention type a layer."""
    layers, kinds = c.size("num_hidden_layers"), ("sliding_attention", "full_attention")
    if not (
        isinstance(layer_types, list | tuple)
        and len(layer_types) == layers
        and all(kind in kinds for kind in layer_types)
    ):
        raise ValueError(
            f"layer_types must be a list of {layers} names, one a layer, each of "
            f"{' or '.join(kinds)}: got {layer_types!r}"
        )
    local = [kind == "sliding_attention" for kind in layer_types]
    if window is None or not any(local):
        return {}
    if all(local):
        return {"sliding_window": window}
    pattern = local.index(False) + 1
    if local != [(i + 1) % pattern != 0 for i in range(len(local))]:
        raise ValueError(
            "a Shape has a global layer after every so many local ones; these layer_types are "
            f"ordered otherwise: {layer_types!r}"
        )
    return {"sliding_window": window, "sliding_pattern": pattern}


def _alternating(c: _Config, window: int, pattern: int) -> Fields:
    """The window of an architecture in which every `pattern`-th layer is global."""
    layers = c.size("num_hidden_layers")
    pattern = c.with_defaults(sliding_window_pattern=pattern).size("sliding_window_pattern")
    default = [
        "sliding_attention" if (i + 1) % pattern else "full_attention" for i in range(layers)
    ]
    return _window(c, c.get("layer_types", default), c.nullable("sliding_window", window))


def _attention_bias(c: _Config) -> Fields:
    return {"attention_bias": "qkvo" if c.get("attention_bias", False) else ""}


def _gemma(c: _Config) -> Fields:
    if c.get("use_bidirectional_attention", False):
        raise ValueError("a Shape is causal: this configuration has use_bidirectional_attention")
    return {**_common(c, tied=True, head_dim=256), **_attention_bias(c)}


def _gemma2(c: _Config) -> Fields:
    return {**_gemma(c), "norms_per_layer": 4, **_alternating(c, window=4096, pattern=2)}


def _gemma3(c: _Config) -> Fields:
    # The text part of a published multimodal file leaves out what equals these.
    c = c.with_defaults(vocab_size=262_208, num_attention_heads=8, num_key_value_heads=4)
    fields = {**_gemma(c), "norms_per_layer": 4, "qk_norm": True}
    return {**fields, **_alternating(c, window=4096, pattern=6)}


def _llama(c: _Config) -> Fields:
    kv_heads = c.get("num_key_value_heads", c.size("num_attention_heads"))
    fields = _common(c, tied=False, kv_heads=kv_heads, mlp_bias=c.get("mlp_bias", False))
    return {**fields, **_attention_bias(c)}


def _mistral(c: _Config) -> Fields:
    return {**_common(c, tied=False), "sliding_window": c.nullable("sliding_window", 4096)}


def _qwen2(c: _Config) -> Fields:
    return {**_common(c, tied=False, attention_bias="qkv"), **_qwen_window(c)}


def _qwen3(c: _Config) -> Fields:
    fields = _common(c, tied=False, head_dim=128, qk_norm=True)
    return {**fields, **_attention_bias(c), **_qwen_window(c)}


def _qwen_window(c: _Config) -> Fields:
    if not c.get("use_sliding_window", False):
        return {}
    layers, first = c.size("num_hidden_layers"), c.get("max_window_layers", 28)
    default = ["sliding_attention" if i >= first else "full_attention" for i in range(layers)]
    return _window(c, c.get("layer_types", default), c.nullable("sliding_window", 4096))


def _gpt2(c: _Config) -> Fields:
    if c.get("add_cross_attention", False):
        raise ValueError("a Shape is decoder-only: this configuration has add_cross_attention")
    hidden, heads = c.size("n_embd"), c.size("n_head")
    c = c.with_defaults(
        hidden_size=hidden,
        intermediate_size=c.get("n_inner", 4 * hidden),
        num_hidden_layers=c.need("n_layer"),
        num_attention_heads=heads,
    )
    return _with_all_biases(c, tied=True, kv_heads=heads, learned_positions=c.size("n_positions"))


def _gpt_neox(c: _Config) -> Fields:
    fields = _with_all_biases(c, tied=False, kv_heads=c.size("num_attention_heads"))
    return {**fields, "attention_bias": "qkvo" if c.get("attention_bias", True) else ""}


def _opt(c: _Config) -> Fields:
    required = {
        "word_embed_proj_dim": c.need("hidden_size"),
        "do_layer_norm_before": True,
        "layer_norm_elementwise_affine": True,
        "enable_bias": True,
        "_remove_final_layer_norm": False,
    }
    for name, value in required.items():
        if c.get(name, value) != value:
            raise ValueError(
                f"a Shape cannot express an OPT model with {name}={c.get(name, value)!r}, "
                f"only with {value!r}"
            )
    return _with_all_biases(
        c.with_defaults(intermediate_size=c.need("ffn_dim")),
        tied=True,
        kv_heads=c.size("num_attention_heads"),
        learned_positions=c.size("max_position_embeddings") + 2,  # OPT keeps two rows unused
    )


def _with_all_biases(c: _Config, **fields: Any) -> Fields:
    """A model of the GPT family: a plain MLP, and a bias in every linear layer and norm."""
    biases: Fields = {"attention_bias": "qkvo", "mlp_bias": True, "norm_bias": True}
    return _common(c, gated=False, **biases, **fields)


_ARCHITECTURES: dict[str, Callable[[_Config], Fields]] = {
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "llama": _llama,
    "mistral": _mistral,
    "opt": _opt,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
}
