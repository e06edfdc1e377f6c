"""The shape of a decoder-only transformer: every size that a cost estimate needs, and nothing else.

A `Shape` describes the language model. The vision tower of a multimodal checkpoint is not part of
it and is never counted. Reading a Hugging Face configuration is left to `gradelib.model_config`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

_SIZES = ("vocab", "hidden", "intermediate", "layers", "heads", "kv_heads", "head_dim")
_FLAGS = ("tied", "gated", "qk_norm", "mlp_bias", "norm_bias")
ATTENTION_BIASES = ("", "qkv", "qkvo")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of a decoder-only transformer; all are counts of elements, layers or heads.

    - `vocab`: rows of the token embedding.
    - `hidden`: width of the residual stream.
    - `intermediate`: width of the MLP between its projections.
    - `layers`: number of transformer blocks.
    - `heads`, `kv_heads`: query heads, and key/value heads (fewer under grouped-query attention).
    - `head_dim`: width of one head. It need not be `hidden / heads`: Gemma 3 4B has 256, not 320.
    - `tied`: the output head reuses the embedding's weights.
    - `gated`: the MLP has a gate projection beside its up projection (SwiGLU, GeGLU).
    - `norms_per_layer`: normalisations of width `hidden` in a block (2, or 4 in Gemma 2 and 3).
    - `qk_norm`: queries and keys are normalised, each by one vector of `head_dim` weights a layer.
    - `attention_bias`: which attention projections have a bias: `""` (none), `"qkv"` or `"qkvo"`.
    - `mlp_bias`, `norm_bias`: the MLP's projections, and the norms of width `hidden`, have a bias.
    - `learned_positions`: rows of a learned position embedding; 0 if there is none.
    - `sliding_window`: tokens a local layer sees, itself included; `None` if every layer is global.
    - `sliding_pattern`: with a window, every `sliding_pattern`-th layer is global (Gemma 3: 6);
      `None` if every layer is local (Mistral 7B v0.1).

    Raises `ValueError` for sizes that no model can have.
    """

    vocab: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    tied: bool
    gated: bool
    norms_per_layer: int = 2
    qk_norm: bool = False
    attention_bias: str = ""
    mlp_bias: bool = False
    norm_bias: bool = False
    learned_positions: int = 0
    sliding_window: int | None = None
    sliding_pattern: int | None = None

    def __post_init__(self) -> None:
        for name in _SIZES:
            _require_int(name, getattr(self, name), at_least=1)
        _require_int("norms_per_layer", self.norms_per_layer, at_least=0)
        _require_int("learned_positions", self.learned_positions, at_least=0)
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, not {getattr(self, name)!r}")
        if self.heads % self.kv_heads:
            raise ValueError(
                f"kv_heads must divide heads: got heads={self.heads}, kv_heads={self.kv_heads}"
            )
        if self.attention_bias not in ATTENTION_BIASES:
            raise ValueError(
                f"attention_bias must name the projections that have a bias, one of "
                f"{', '.join(map(repr, ATTENTION_BIASES))}: got {self.attention_bias!r}"
            )
        if self.sliding_window is not None:
            _require_int("sliding_window", self.sliding_window, at_least=1)
        if self.sliding_pattern is not None:
            if self.sliding_window is None:
                raise ValueError("sliding_pattern was given without a sliding_window: give both")
            _require_int("sliding_pattern", self.sliding_pattern, at_least=1)

    def is_global(self, layer: int) -> bool:
        """Whether layer `layer` (from 0) attends to every earlier token, not to a window."""
        if not 0 <= layer < self.layers:
            raise ValueError(f"layer must be from 0 to {self.layers - 1}: got {layer}")
        if self.sliding_window is None:
            return True
        return self.sliding_pattern is not None and (layer + 1) % self.sliding_pattern == 0

    @property
    def global_layers(self) -> int:
        """How many layers attend to every earlier token."""
        if self.sliding_window is None:
            return self.layers
        return self.layers // self.sliding_pattern if self.sliding_pattern is not None else 0

    @property
    def local_layers(self) -> int:
        """How many layers attend to a sliding window only."""
        return self.layers - self.global_layers

    @classmethod
    def gemma3(cls, size: str, vocab: int = 262_144) -> Shape:
        """The text model of Gemma 3 in size `"270m"`, `"1b"`, `"4b"`, `"12b"` or `"27b"`.

        The tokenizer has 262,144 entries. The multimodal checkpoints on the hub (4B and larger)
        have 262,208 embedding rows: give `vocab=262_208` to describe one of those.

        Source: Gemma 3 Technical Report, arXiv:2503.19786, and the conversion script in
        transformers (`models/gemma3/convert_gemma3_weights.py`).
        """
        if size not in _GEMMA3:
            raise ValueError(f"unknown Gemma 3 size {size!r}; known: {', '.join(_GEMMA3)}")
        sizes: dict[str, Any] = dict(zip(_GEMMA3_FIELDS, _GEMMA3[size], strict=True))
        return cls(
            **sizes,
            vocab=vocab,
            tied=True,
            gated=True,
            norms_per_layer=4,
            qk_norm=True,
            sliding_pattern=6,
        )

    def code(self) -> str:
        """Python that makes this shape: `Shape.gemma3('4b')`, with a `vocab` of its own if it has one,
        or the fields that have no default or differ from it.
        """
        for size in _GEMMA3:
            if self == Shape.gemma3(size):
                return f"Shape.gemma3({size!r})"
            if self == Shape.gemma3(size, self.vocab):
                return f"Shape.gemma3({size!r}, vocab={self.vocab})"
        own = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        given = (f"{name}={value!r}" for name, value, default in own if value != default)
        return f"Shape({', '.join(given)})"

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | str | os.PathLike[str] | object) -> Shape:
        """The shape that a Hugging Face configuration describes.

        `config` is a dict, the path of a `config.json` (or of the folder that holds it), or a
        `PretrainedConfig`. Of a multimodal configuration the text model is read; the vision tower
        is left out. Raises `ValueError` for an architecture that is not known, a field that is
        missing, or a layout that a `Shape` cannot express, and `OSError` for an unreadable file.
        """
        from gradelib.model_config import shape_fields

        return cls(**shape_fields(config))


_GEMMA3_FIELDS = (
    "hidden",
    "intermediate",
    "layers",
    "heads",
    "kv_heads",
    "head_dim",
    "sliding_window",
)
_GEMMA3 = {
    "270m": (640, 2048, 18, 4, 1, 256, 512),
    "1b": (1152, 6912, 26, 4, 1, 256, 512),
    "4b": (2560, 10240, 34, 8, 4, 256, 1024),
    "12b": (3840, 15360, 48, 16, 8, 256, 1024),
    "27b": (5376, 21504, 62, 32, 16, 128, 1024),
}


def _require_int(name: str, value: object, at_least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}: got {value!r}")
