"""Wrong answers that are right on most inputs: each must fail the hidden cases of every course.

They are kept apart from the misconceptions, which have a sentence of their own. A task's answers
are written as the whole function with one step changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gradelib.shapes import Shape
from solutions.parameters import parameter_count

Answer = Callable[..., Any]

# --- parameter_count


def counted(**changes: Callable[[Shape], Any]) -> Answer:
    """The count of the shape with these fields taken from others."""
    return lambda shape: parameter_count(
        replace(shape, **{field: change(shape) for field, change in changes.items()})
    )


def counted_with(extra: Callable[[Shape], int]) -> Answer:
    """The count, and so many more."""
    return lambda shape: parameter_count(shape) + extra(shape)


def qk_norms(shape: Shape) -> int:
    return shape.qk_norm * shape.layers * 2 * shape.head_dim


PARAMETER_COUNT: dict[str, Answer] = {
    "biases of an MLP without a gate": counted(
        norm_bias=lambda shape: not shape.gated,
        attention_bias=lambda shape: "" if shape.gated else "qkvo",
    ),
    "norm biases without a gate": counted(norm_bias=lambda shape: not shape.gated),
    "MLP biases without a gate": counted(mlp_bias=lambda shape: not shape.gated),
    "attention biases without a gate": counted(
        attention_bias=lambda shape: "" if shape.gated else shape.attention_bias
    ),
    "norm biases with positions": counted(norm_bias=lambda shape: shape.learned_positions > 0),
    "norm biases with MLP biases": counted(norm_bias=lambda shape: shape.mlp_bias),
    "MLP biases with norm biases": counted(mlp_bias=lambda shape: shape.norm_bias),
    "MLP biases with attention biases": counted(mlp_bias=lambda shape: shape.attention_bias != ""),
    "MLP biases with the output projection's": counted(
        mlp_bias=lambda shape: shape.attention_bias == "qkvo"
    ),
    "output bias with MLP biases": counted(
        attention_bias=lambda shape: shape.attention_bias and ("qkv" + "o" * shape.mlp_bias)
    ),
    "output bias always": counted(attention_bias=lambda shape: shape.attention_bias and "qkvo"),
    "output bias never": counted(attention_bias=lambda shape: shape.attention_bias and "qkv"),
    "attention biases always": counted(attention_bias=lambda shape: shape.attention_bias or "qkv"),
    "gate without norm biases": counted(gated=lambda shape: not shape.norm_bias),
    "gate without positions": counted(gated=lambda shape: not shape.learned_positions),
    "gate without MLP biases": counted(gated=lambda shape: not shape.mlp_bias),
    "no bias on the gate": counted_with(
        lambda shape: -shape.layers * shape.intermediate * (shape.gated and shape.mlp_bias)
    ),
    "bias of the head": counted_with(lambda shape: 0 if shape.tied else shape.vocab),
    "bias of the head beside that of the output projection": counted_with(
        lambda shape: shape.vocab * (not shape.tied and shape.attention_bias == "qkvo")
    ),
    "positions counted twice when untied": counted_with(
        lambda shape: 0 if shape.tied else shape.learned_positions * shape.hidden
    ),
    "positions when tied alone": counted(
        learned_positions=lambda shape: shape.learned_positions * shape.tied
    ),
    "tied with positions": counted(tied=lambda shape: shape.tied or shape.learned_positions > 0),
    "tied without a gate": counted(tied=lambda shape: shape.tied or not shape.gated),
    "bias of the query and key norms": counted_with(
        lambda shape: qk_norms(shape) if shape.norm_bias else 0
    ),
    "query and key norms with a gate alone": counted(
        qk_norm=lambda shape: shape.qk_norm and shape.gated
    ),
    "query and key norms when tied alone": counted(
        qk_norm=lambda shape: shape.qk_norm and shape.tied
    ),
    "query and key norms with 4 norms": counted(qk_norm=lambda shape: shape.norms_per_layer == 4),
    "query and key norms without attention biases alone": counted(
        qk_norm=lambda shape: shape.qk_norm and not shape.attention_bias
    ),
    "no bias of the last norm when untied": counted_with(
        lambda shape: -shape.hidden * (shape.norm_bias and not shape.tied)
    ),
    "no bias of the last norm": counted_with(lambda shape: -shape.hidden * shape.norm_bias),
    "at least two norms": counted(norms_per_layer=lambda shape: shape.norms_per_layer or 2),
    "4 norms with query and key norms when tied": counted(
        norms_per_layer=lambda shape: 4 if shape.qk_norm and shape.tied else shape.norms_per_layer
    ),
    "2 or 4 norms": counted(norms_per_layer=lambda shape: 4 if shape.qk_norm else 2),
    "head_dim at most hidden / heads": counted(
        head_dim=lambda shape: max(1, min(shape.head_dim, shape.hidden // shape.heads))
    ),
    "head_dim at least hidden / heads": counted(
        head_dim=lambda shape: max(shape.head_dim, shape.hidden // shape.heads)
    ),
    "the sizes of a bias swapped": counted_with(
        lambda shape: (
            shape.layers
            * (shape.attention_bias == "qkvo")
            * (shape.heads * shape.head_dim - shape.hidden)
        )
    ),
}

SUBTLY_WRONG: dict[tuple[str, str], dict[str, Answer]] = {
    ("31_gpu_memory", "parameter_count"): PARAMETER_COUNT,
}
