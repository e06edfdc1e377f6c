"""Checks of exercise 31: where the memory of a training run goes, part by part."""

# ruff: noqa: ARG005 - it is the mistake of many a wrong answer that it ignores an argument

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gradelib.checks import Case, Check, Misconception, case, part
from gradelib.draw import Draw
from gradelib.shapes import Shape
from solutions import parameters
from solutions.shapes import GEMMA3, model_names, model_shape

GEMMA = "Gemma 3"
OTHERS = "other models"

# The notebook counts these; hidden cases take others.
SHOWN = ("gemma3-270m", "gemma3-4b", "gpt2", "llama3.2-1b")
# Two heads share one pair of key and value heads; small enough to count by hand.
TOY = Shape(
    vocab=10,
    hidden=4,
    intermediate=6,
    layers=1,
    heads=2,
    kv_heads=1,
    head_dim=3,
    tied=True,
    gated=True,
)


def _draw_shape(draw: Draw, **fixed: Any) -> Shape:
    """A shape that no model has, in which no two sizes are the same."""
    kv_heads = draw.integer(2, 5)
    head_dim = 16 * draw.integer(3, 9)
    heads = kv_heads * draw.integer(2, 4)
    sizes = {
        "vocab": draw.integer(5_000, 90_000),
        "hidden": heads * head_dim + 32 * draw.integer(1, 9),
        "intermediate": 64 * draw.integer(90, 300) + 8,
        "layers": draw.integer(3, 40),
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
    }
    return Shape(**{**sizes, **fixed})


def _hidden_counts(draw: Draw) -> list[Case]:
    gemma = {"tied": True, "gated": True, "norms_per_layer": 4, "qk_norm": True}
    sizes = [model_shape(name) for name in draw.some(sorted(set(GEMMA3) - set(SHOWN)), 2)]
    windowed = {"sliding_window": draw.integer(100, 2000), "sliding_pattern": draw.integer(2, 6)}
    sizes += [_draw_shape(draw, **gemma, **windowed), _draw_shape(draw, **gemma)]
    names = sorted(set(model_names()) - set(GEMMA3) - set(SHOWN))
    others = [model_shape(name) for name in draw.some(names, 3)]
    others += [
        _draw_shape(draw, tied=False, gated=True, attention_bias="qkv"),
        _draw_shape(
            draw,
            tied=True,
            gated=False,
            attention_bias="qkvo",
            mlp_bias=True,
            norm_bias=True,
            learned_positions=draw.integer(500, 4000),
        ),
        _draw_shape(draw, tied=False, gated=True, mlp_bias=True, norms_per_layer=3),
    ]
    return part(GEMMA, [case(shape) for shape in sizes]) + part(
        OTHERS, [case(shape) for shape in others]
    )


def _of(change: Callable[[Shape], dict[str, Any]]) -> Callable[[Shape], int]:
    """The count of the shape with some of its fields misread."""
    return lambda shape: parameters.parameter_count(replace(shape, **change(shape)))


def _plus(extra: Callable[[Shape], float]) -> Callable[[Shape], float]:
    """The count, and so many parameters more."""
    return lambda shape: parameters.parameter_count(shape) + extra(shape)


def _without(*names: str) -> Callable[[Shape], int]:
    """The count without some parts of the model."""
    return lambda shape: sum(
        count for name, count in parameters.parameters_by_part(shape).items() if name not in names
    )


def _count_in_one_sum(shape: Shape) -> int:
    """The same count in one formula, biases last."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    norm = shape.hidden * (1 + shape.norm_bias)
    layer = 2 * shape.hidden * (queries + keys)
    layer += shape.hidden * shape.intermediate * (3 if shape.gated else 2)
    layer += shape.norms_per_layer * norm + (2 * shape.head_dim if shape.qk_norm else 0)
    layer += queries + 2 * keys if shape.attention_bias else 0
    layer += shape.hidden if shape.attention_bias == "qkvo" else 0
    if shape.mlp_bias:
        layer += shape.intermediate * (2 if shape.gated else 1) + shape.hidden
    rows = shape.vocab * (1 if shape.tied else 2) + shape.learned_positions
    return rows * shape.hidden + shape.layers * layer + norm


def _count_layer_by_layer(shape: Shape) -> int:
    total = (shape.vocab + shape.learned_positions) * shape.hidden
    for _ in range(shape.layers):
        widths = {"q": shape.heads * shape.head_dim, "k": shape.kv_heads * shape.head_dim}
        widths["v"] = widths["k"]
        for letter, width in widths.items():
            total += shape.hidden * width + (width if letter in shape.attention_bias else 0)
        total += widths["q"] * shape.hidden + ("o" in shape.attention_bias) * shape.hidden
        for inputs, outputs in [(shape.hidden, shape.intermediate)] * (1 + shape.gated) + [
            (shape.intermediate, shape.hidden)
        ]:
            total += inputs * outputs + shape.mlp_bias * outputs
        total += shape.norms_per_layer * shape.hidden * (1 + shape.norm_bias)
        total += shape.qk_norm * 2 * shape.head_dim
    total += shape.hidden * (1 + shape.norm_bias)
    return total if shape.tied else total + shape.vocab * shape.hidden


def _count_as_float(shape: Shape) -> float:
    return float(sum(parameters.parameters_by_part(shape).values()))


parameter_count = Check(
    reference=parameters.parameter_count,
    public=[
        *part(GEMMA, [case(TOY), *(case(model_shape(name)) for name in SHOWN[:2])]),
        *part(OTHERS, [case(model_shape(name)) for name in SHOWN[2:]]),
        *part(OTHERS, [case(replace(TOY, tied=False, attention_bias="qkv"))]),
    ],
    hidden=_hidden_counts,
    parts={GEMMA: 0.6, OTHERS: 0.4},
    misconceptions=[
        Misconception(
            "tied head counted twice",
            _of(lambda shape: {"tied": False}),
            "You count the output head. When it is tied, it is the embedding's own matrix: count it once.",
        ),
        Misconception(
            "untied head forgotten",
            _of(lambda shape: {"tied": True}),
            "When the output head is not tied, it has a matrix of its own. Look at `shape.tied`.",
        ),
        Misconception(
            "head_dim taken as hidden / heads",
            _of(lambda shape: {"head_dim": max(1, shape.hidden // shape.heads)}),
            "The width of a head is `shape.head_dim`. In Gemma 3 it is not `hidden / heads`.",
        ),
        Misconception(
            "as many key heads as query heads",
            _of(lambda shape: {"kv_heads": shape.heads}),
            "Keys and values have fewer heads than queries: `shape.kv_heads`.",
        ),
        Misconception(
            "key and query heads swapped",
            lambda shape: (
                parameters.parameter_count(replace(shape, heads=shape.kv_heads))
                + 2 * shape.hidden * (shape.heads - shape.kv_heads) * shape.head_dim * shape.layers
            ),
            "Queries have `heads` heads; keys and values have `kv_heads`. You have them the other way round.",
        ),
        Misconception(
            "output projection forgotten",
            _plus(lambda shape: -shape.layers * shape.heads * shape.head_dim * shape.hidden),
            "Attention has four projections. After q, k and v, one leads back to the hidden width.",
        ),
        Misconception(
            "gate forgotten",
            _of(lambda shape: {"gated": False}),
            "A gated MLP has three matrices: gate, up and down.",
        ),
        Misconception(
            "gate always counted",
            _of(lambda shape: {"gated": True}),
            "Not every MLP has a gate. Look at `shape.gated`.",
        ),
        Misconception(
            "embedding forgotten",
            _without("embedding"),
            "The embedding is missing: one row for each entry of the vocabulary. It is a large part of a small model.",
        ),
        Misconception(
            "norms forgotten",
            _without("norms"),
            "The norms are missing. They are few, but the count is to be exact.",
        ),
        Misconception(
            "last norm forgotten",
            _plus(lambda shape: -shape.hidden * (1 + shape.norm_bias)),
            "After the last layer there is one more norm.",
        ),
        Misconception(
            "two norms in every layer",
            _of(lambda shape: {"norms_per_layer": 2}),
            "Not every layer has two norms: Gemma 3 normalises before and after. Look at `shape.norms_per_layer`.",
        ),
        Misconception(
            "query and key norms forgotten",
            _of(lambda shape: {"qk_norm": False}),
            "With `qk_norm`, each layer normalises queries and keys, each with `head_dim` weights.",
        ),
        Misconception(
            "query and key norms for every head",
            _plus(
                lambda shape: (
                    shape.qk_norm
                    * shape.layers
                    * shape.head_dim
                    * (shape.heads + shape.kv_heads - 2)
                )
            ),
            "All heads of a layer share one norm for queries, and one for keys.",
        ),
        Misconception(
            "biases forgotten",
            _of(lambda shape: {"attention_bias": "", "mlp_bias": False, "norm_bias": False}),
            "Some models have biases. Look at `attention_bias`, `mlp_bias` and `norm_bias`.",
        ),
        Misconception(
            "norm biases forgotten",
            _of(lambda shape: {"norm_bias": False}),
            "With `norm_bias`, each norm has a bias beside its weights.",
        ),
        Misconception(
            "positions forgotten",
            _of(lambda shape: {"learned_positions": 0}),
            "Models with learned positions have one more table, with `learned_positions` rows.",
        ),
        Misconception(
            "12 · L · h²",
            lambda shape: 12 * shape.layers * shape.hidden**2 + shape.vocab * shape.hidden,
            "12 · L · h² holds for GPT-2's proportions alone. Add up the matrices of this shape.",
        ),
        Misconception(
            "in billions",
            lambda shape: parameters.parameter_count(shape) / 1e9,
            "Return the number itself, not billions.",
        ),
    ],
    also_right=[_count_in_one_sum, _count_layer_by_layer, _count_as_float],
)
