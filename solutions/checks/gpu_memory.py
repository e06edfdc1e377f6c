"""Checks of exercise 31: where the memory of a training run goes, part by part."""

# ruff: noqa: ARG005 - it is the mistake of many a wrong answer that it ignores an argument

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil, sqrt
from typing import Any, NamedTuple

from gradelib.checks import Case, Check, Misconception, case, part
from gradelib.compare import relative
from gradelib.draw import Draw
from gradelib.shapes import Shape
from solutions import memory, parameters
from solutions.dtypes import BITS, bits
from solutions.optimizers import OPTIMIZERS, quantized_moments_bytes
from solutions.quantization import bits_per_weight
from solutions.shapes import GEMMA3, TOY, model_names, model_shape
from solutions.validation import require_known, require_whole

GEMMA = "Gemma 3"
OTHERS = "other models"
BAD_INPUT = "bad input"
GIB = 2**30

# The notebook counts these; hidden cases take others.
SHOWN = ("gemma3-270m", "gemma3-4b", "gpt2", "llama3.2-1b")


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


def _draw_mixed_shapes(draw: Draw) -> list[Shape]:
    """16 shapes in which nothing goes with anything else: whichever three flags one looks at, each
    combination of them occurs, so no flag can stand for another.

    The flags are the columns of a two-level orthogonal array of strength 3: parities of the four
    bits of the row's number, over the masks with an odd number of bits.
    """
    masks = draw.shuffled([1, 2, 4, 8, 7, 11, 13, 14])
    turned = [draw.integer(0, 1) for _ in masks]
    norms = draw.shuffled([0, 1, 2, 3, 4] * 3 + [draw.integer(0, 3)])
    shapes = []
    for row in range(16):
        parities = [(row & mask).bit_count() % 2 for mask in masks]
        flags = [bool(bit ^ turn) for bit, turn in zip(parities, turned, strict=True)]
        tied, gated, qk_norm, mlp_bias, norm_bias, positions, biased, output_biased = flags
        kv_heads = draw.integer(1, 6)
        shape = Shape(
            vocab=draw.integer(5_000, 90_000),
            hidden=8 * draw.integer(60, 400) + 4,
            intermediate=8 * draw.integer(100, 2000),
            layers=draw.integer(1, 40),
            heads=kv_heads * draw.integer(1, 4),
            kv_heads=kv_heads,
            head_dim=8 * draw.integer(3, 30),
            tied=tied,
            gated=gated,
            norms_per_layer=norms[row],
            qk_norm=qk_norm,
            attention_bias=("qkvo" if output_biased else "qkv") if biased else "",
            mlp_bias=mlp_bias,
            norm_bias=norm_bias,
            learned_positions=draw.integer(500, 4000) if positions else 0,
        )
        shapes.append(shape)
    return shapes


def _hidden_counts(draw: Draw) -> list[Case]:
    gemma = {"tied": True, "gated": True, "norms_per_layer": 4, "qk_norm": True}
    sizes = [model_shape(name) for name in draw.some(sorted(set(GEMMA3) - set(SHOWN)), 2)]
    windowed = {"sliding_window": draw.integer(100, 2000), "sliding_pattern": draw.integer(2, 6)}
    sizes += [_draw_shape(draw, **gemma, **windowed), _draw_shape(draw, **gemma)]
    names = sorted(set(model_names()) - set(GEMMA3) - set(SHOWN))
    others = [model_shape(name) for name in draw.some(names, 3)]
    others += _draw_mixed_shapes(draw)
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


# Small, with nothing as wide as anything else.
_BIASED = replace(TOY, hidden=5, intermediate=8, heads=4)


parameter_count = Check(
    reference=parameters.parameter_count,
    public=[
        *part(GEMMA, [case(TOY), *(case(model_shape(name)) for name in SHOWN[:2])]),
        *part(OTHERS, [case(model_shape(name)) for name in SHOWN[2:]]),
        *part(
            OTHERS,
            [
                case(replace(TOY, tied=False, hidden=5, attention_bias="qkv")),
                case(replace(_BIASED, attention_bias="qkvo")),
                case(replace(_BIASED, mlp_bias=True, layers=2)),
                case(replace(_BIASED, norm_bias=True, qk_norm=True, norms_per_layer=3)),
            ],
        ),
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
            "hidden / heads in the projections alone",
            _plus(
                lambda shape: (
                    2
                    * shape.layers
                    * shape.hidden
                    * (shape.heads + shape.kv_heads)
                    * (max(1, shape.hidden // shape.heads) - shape.head_dim)
                )
            ),
            "The projections are as wide as their heads together, and a head is `shape.head_dim` wide. In Gemma 3 that is not `hidden / heads`.",
        ),
        Misconception(
            "queries as wide as the hidden state",
            _plus(
                lambda shape: (
                    2 * shape.layers * shape.hidden * (shape.hidden - shape.heads * shape.head_dim)
                )
            ),
            "The queries, and the input of the output projection, are `heads` · `head_dim` wide. In Gemma 3 that is not `hidden`.",
        ),
        Misconception(
            "values forgotten",
            _plus(lambda shape: -shape.layers * shape.hidden * shape.kv_heads * shape.head_dim),
            "Keys have a matrix, and so have the values, of the same size.",
        ),
        Misconception(
            "one layer",
            _of(lambda shape: {"layers": 1, "sliding_window": None, "sliding_pattern": None}),
            "You count one layer. The model has `shape.layers`.",
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
            "four norms in every layer",
            _of(lambda shape: {"norms_per_layer": 4}),
            "Four norms are Gemma 3's. Other models have fewer: look at `shape.norms_per_layer`.",
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
            "biases as long as the inputs",
            _plus(
                lambda shape: (
                    shape.layers
                    * (
                        (shape.attention_bias != "")
                        * (3 * shape.hidden - (shape.heads + 2 * shape.kv_heads) * shape.head_dim)
                        + (shape.attention_bias == "qkvo")
                        * (shape.heads * shape.head_dim - shape.hidden)
                    )
                )
            ),
            "A bias is added to what a matrix gives: it has one element for each output, not for each input.",
        ),
        Misconception(
            "biases of q, k and v as wide as hidden",
            _plus(
                lambda shape: (
                    shape.layers
                    * (shape.attention_bias != "")
                    * (3 * shape.hidden - (shape.heads + 2 * shape.kv_heads) * shape.head_dim)
                )
            ),
            "The biases of q, k and v are as wide as what these projections give: their heads together, not `hidden`.",
        ),
        Misconception(
            "output projection's bias as wide as its input",
            _plus(
                lambda shape: (
                    shape.layers
                    * (shape.attention_bias == "qkvo")
                    * (shape.heads * shape.head_dim - shape.hidden)
                )
            ),
            "The output projection leads back to the hidden width: its bias has `hidden` elements.",
        ),
        Misconception(
            "output projection always with a bias",
            _of(lambda shape: {"attention_bias": shape.attention_bias and "qkvo"}),
            '`"qkv"` gives a bias to three projections. The output projection has one if the text also holds an `o`.',
        ),
        Misconception(
            "output projection never with a bias",
            _of(lambda shape: {"attention_bias": shape.attention_bias and "qkv"}),
            'With `"qkvo"` the output projection has a bias too.',
        ),
        Misconception(
            "gate's bias forgotten",
            _plus(
                lambda shape: -shape.layers * shape.intermediate * (shape.gated and shape.mlp_bias)
            ),
            "With `mlp_bias` every matrix of the MLP has a bias, the gate too.",
        ),
        Misconception(
            "biases of the query and key norms",
            _plus(
                lambda shape: (
                    shape.layers * 2 * shape.head_dim * (shape.qk_norm and shape.norm_bias)
                )
            ),
            "`norm_bias` is for the norms of width `hidden`. Those of queries and keys never have a bias.",
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


# --- weights ------------------------------------------------------------------------------------

NO_SCALES = "formats without scales"
WITH_SCALES = "4-bit formats"
GEMMA_4B = parameters.parameter_count(model_shape("gemma3-4b"))


def _refuses_negative(count: int) -> None:
    if count < 0:
        raise ValueError("the count is negative")


def _looked_up(table: Mapping[str, float]) -> Callable[[int, str], float]:
    """Bytes by a table of bits, with nothing checked: an unknown name is a KeyError."""
    return lambda count, dtype: count * table[dtype] / 8


def _stored(**changed: float) -> Callable[[int, str], float]:
    """`weight_bytes` with some widths misread, and bad input refused."""
    return lambda params, dtype: (
        memory.weight_bytes(params, dtype) * changed.get(dtype, bits(dtype)) / bits(dtype)
    )


def _times(function: Callable[..., float], factor: float) -> Callable[..., float]:
    """The right answer, but for a factor."""
    return lambda *args, **named: function(*args, **named) * factor


def _weights_in_full_blocks(params: int, dtype: str) -> float:
    """The last block is dropped where it is not full."""
    if "nf4" not in dtype:
        return memory.weight_bytes(params, dtype)
    _refuses_negative(params)
    blocks = params // 64
    return params / 2 + (blocks + blocks // 256 * 4 if dtype == "nf4-dq" else 4 * blocks)


def _weights_without_4_bits(params: int, dtype: str) -> float:
    if "nf4" in dtype:
        raise KeyError(dtype)
    return memory.weight_bytes(params, dtype)


def _weights_refusing_4_bits(params: int, dtype: str) -> float:
    if "nf4" in dtype:
        raise ValueError(dtype)
    return memory.weight_bytes(params, dtype)


def _weights_of_some(params: int, dtype: str) -> float:
    if params == 0:
        raise ValueError("no parameters")
    return memory.weight_bytes(params, dtype)


def _weights_in_blocks(params: int, dtype: str) -> int:
    """Whole blocks, as bitsandbytes stores them."""
    _refuses_negative(params)
    if not dtype.startswith("nf4"):
        return int(params * bits(dtype)) // 8
    blocks = ceil(params / 64)
    scales = blocks + 4 * ceil(blocks / 256) if dtype == "nf4-dq" else 4 * blocks
    return ceil(params / 2) + scales


def _weights_by_cases(params: int, dtype: str) -> float:
    _refuses_negative(params)
    if dtype in ("float32", "tfloat32"):
        return 4 * params
    if dtype in ("float16", "bfloat16"):
        return 2.0 * params
    if dtype in ("float8_e4m3", "float8_e5m2", "int8"):
        return params
    if dtype == "nf4":
        return params / 2 + params / 64 * 4
    if dtype == "nf4-dq":
        return params / 2 + params / 64 + params / 64 / 256 * 4
    raise ValueError(dtype)


def _hidden_weights(draw: Draw) -> list[Case]:
    def count() -> int:
        return draw.log_integer(2 * 10**7, 10**11)

    plain = [case(count(), dtype) for dtype in draw.shuffled([n for n in BITS if "nf4" not in n])]
    scaled = [case(count(), dtype) for dtype in ("nf4", "nf4-dq")]
    # Small enough for a block to count, and so near to whole blocks that the last one may count
    # whole or in part.
    nearly = [16_384 * blocks - 2 for blocks in draw.some([2, 3, 4, 6, 7, 8, 9, 10], 2)]
    scaled += [case(params, dtype) for params in nearly for dtype in ("nf4", "nf4-dq")]
    scaled += [case(0, "nf4-dq")]
    bad = [case(-count(), draw.one(["float32", "int8"])), case(count(), "float64x")]
    return (
        part(NO_SCALES, [*plain, case(0, "bfloat16")])
        + part(WITH_SCALES, scaled)
        + part(BAD_INPUT, bad)
    )


weight_bytes = Check(
    reference=memory.weight_bytes,
    public=[
        *part(
            NO_SCALES,
            [
                case(1000, "float32"),
                case(1000, "tfloat32"),
                case(GEMMA_4B, "bfloat16"),
                case(GEMMA_4B, "int8"),
            ],
        ),
        *part(NO_SCALES, [case(0, "float16")]),
        *part(
            WITH_SCALES,
            [
                case(32_768, "nf4"),
                case(32_768, "nf4-dq"),
                # The last block lacks two weights.
                case(5 * 16_384 - 2, "nf4"),
                case(5 * 16_384 - 2, "nf4-dq"),
            ],
        ),
        *part(BAD_INPUT, [case(-1, "float32"), case(1000, "float12")]),
    ],
    hidden=_hidden_weights,
    tolerance=relative(1e-5),
    parts={NO_SCALES: 0.5, WITH_SCALES: 0.3, BAD_INPUT: 0.2},
    misconceptions=[
        Misconception(
            "checks nothing",
            _looked_up(BITS),
            "The bytes are right. A negative count and an unknown format raise ValueError; looking a name up "
            "in a dictionary raises KeyError.",
        ),
        Misconception(
            "negative count accepted",
            lambda params, dtype: params * bits(dtype) / 8,
            "A negative count makes no sense: raise ValueError.",
        ),
        Misconception(
            "KeyError for an unknown format",
            lambda params, dtype: (
                memory.weight_bytes(params, dtype) if dtype in BITS else BITS[dtype]
            ),
            "A dictionary raises KeyError for a name that it lacks. Raise ValueError, and say which names there are.",
        ),
        Misconception(
            "bits for bytes",
            _times(memory.weight_bytes, 8),
            "That is the number of bits. How many bits are in a byte?",
        ),
        Misconception(
            "always four bytes",
            lambda params, dtype: params * 4,
            "Your answer does not change with the format. What does bfloat16 save?",
        ),
        Misconception(
            "TF32 taken as 19 bits",
            _stored(tfloat32=19),
            "TF32 is a way to multiply. In memory its numbers are stored as float32 stores them.",
        ),
        Misconception(
            "KeyError for 4 bits",
            _weights_without_4_bits,
            "`BITS` lacks the 4-bit formats, since their scales depend on the number of weights. Work them out from the text.",
        ),
        Misconception(
            "4-bit formats refused",
            _weights_refusing_4_bits,
            "The 4-bit formats are in the task's table, though not in `BITS`: work out their codes and scales from the text.",
        ),
        Misconception(
            "last block dropped",
            _weights_in_full_blocks,
            "`//` drops the last block where it is not full. Its weights need a scale as well.",
        ),
        Misconception(
            "zero refused",
            _weights_of_some,
            "No parameters take no bytes. Only a negative count makes no sense.",
        ),
        Misconception(
            "block scales forgotten",
            _stored(**{"nf4": 4, "nf4-dq": 4}),
            "The codes take four bits each. Each block also stores its scale.",
        ),
        Misconception(
            "double quantization ignored",
            _stored(**{"nf4-dq": bits_per_weight(64, False)}),
            "With `nf4-dq` the scales themselves are quantized. How wide is a scale then?",
        ),
        Misconception(
            "scales of the scales forgotten",
            _stored(**{"nf4-dq": 4 + 8 / 64}),
            "The quantized scales have scales too: one float32 number for each block of scales.",
        ),
        Misconception(
            "block sizes swapped",
            _stored(
                **{"nf4-dq": bits_per_weight(256, True, 64), "nf4": bits_per_weight(256, False)}
            ),
            "Which blocks are which? The weights come in the smaller blocks, their scales in the larger ones.",
        ),
        Misconception(
            "each 4-bit code in a byte of its own",
            _stored(**{"nf4": 8.5, "nf4-dq": 8 + bits_per_weight(64, True) - 4}),
            "Two 4-bit codes share one byte.",
        ),
        Misconception(
            "4-bit elements counted from packed storage",
            _stored(
                **{"nf4": bits_per_weight(64, False) / 2, "nf4-dq": bits_per_weight(64, True) / 2}
            ),
            "You halve twice. `params` counts the parameters, not the bytes that hold two of them.",
        ),
        Misconception(
            "in GiB",
            _times(memory.weight_bytes, 1 / GIB),
            "Return bytes. GiB are for printing.",
        ),
    ],
    also_right=[
        _weights_in_blocks,
        _weights_by_cases,
        lambda params, dtype: ceil(memory.weight_bytes(params, dtype)),
    ],
)


# --- gradients ----------------------------------------------------------------------------------

GRADIENTS = "gradients"
WIDE = {name: width for name, width in BITS.items() if width >= 16}


def _gradients_by_cases(trainable_params: int, dtype: str) -> float:
    if trainable_params < 0:
        raise ValueError("negative")
    if dtype in {"float32", "tfloat32"}:
        return 4 * trainable_params
    if dtype in {"float16", "bfloat16"}:
        return 2 * trainable_params
    raise ValueError(f"{dtype} is not a format for gradients")


def _gradients_by_width(trainable_params: int, dtype: str) -> float:
    _refuses_negative(trainable_params)
    if dtype not in WIDE:
        raise ValueError(dtype)
    return trainable_params / 8 * WIDE[dtype]


def _gradients_by_text(trainable_params: int, dtype: str) -> int:
    if dtype not in ("float32", "tfloat32", "float16", "bfloat16") or trainable_params < 0:
        raise ValueError("no gradients of this kind")
    return trainable_params * (4 if dtype.endswith("32") else 2)


def _gradients_of_two_bytes(known: Mapping[str, float] | None) -> Callable[[int, str], float]:
    """Two bytes for what is not 32 bits wide, if it is `known`."""

    def gradient_bytes(trainable_params: int, dtype: str) -> float:
        _refuses_negative(trainable_params)
        if known is not None and dtype not in known:
            raise ValueError(dtype)
        return trainable_params * (4 if dtype.endswith("32") else 2)

    return gradient_bytes


def _hidden_gradients(draw: Draw) -> list[Case]:
    cases = [case(draw.log_integer(10**4, 10**11), dtype) for dtype in draw.shuffled([*WIDE])]
    cases += [case(0, draw.one([*WIDE]))]
    narrow = [name for name in BITS if name not in (*WIDE, "int8")]
    bad = [case(draw.integer(10, 10**6), dtype) for dtype in draw.some(narrow, 2)]
    bad += [case(-draw.integer(2, 10**6), "bfloat16"), case(draw.integer(2, 99), "double")]
    return part(GRADIENTS, cases) + part(BAD_INPUT, bad)


gradient_bytes = Check(
    reference=memory.gradient_bytes,
    public=[
        *part(GRADIENTS, [case(GEMMA_4B, "bfloat16"), case(1000, "float32")]),
        *part(BAD_INPUT, [case(1000, "int8"), case(-5, "float32"), case(1000, "float12")]),
    ],
    hidden=_hidden_gradients,
    parts={GRADIENTS: 0.6, BAD_INPUT: 0.4},
    misconceptions=[
        Misconception(
            "checks nothing",
            _looked_up(BITS),
            "The bytes are right. Formats narrower than 16 bits, unknown names and a negative count raise ValueError.",
        ),
        Misconception(
            "gradients in narrow formats",
            memory.weight_bytes,
            "A frozen weight may be stored in 8 or 4 bits; a gradient is computed in 16 or 32. Refuse the others.",
        ),
        Misconception(
            "negative count accepted",
            lambda trainable_params, dtype: (
                trainable_params
                / abs(trainable_params or 1)
                * memory.gradient_bytes(abs(trainable_params), dtype)
            ),
            "A negative count makes no sense: raise ValueError.",
        ),
        Misconception(
            "KeyError for an unknown format",
            lambda trainable_params, dtype: (
                memory.gradient_bytes(trainable_params, dtype) if dtype in BITS else BITS[dtype]
            ),
            "A dictionary raises KeyError for a name that it lacks. Raise ValueError, and say which names there are.",
        ),
        Misconception(
            "two bytes for narrow formats",
            _gradients_of_two_bytes(BITS),
            "You give a format of 8 or 4 bits gradients of 16 bits. Refuse such a format: nothing can be trained in it.",
        ),
        Misconception(
            "two bytes for whatever is not 32 bits",
            _gradients_of_two_bytes(None),
            "You give every format that is not 32 bits wide two bytes, even one that does not exist. Refuse what is not 16 or 32 bits wide.",
        ),
        Misconception(
            "always float32",
            lambda trainable_params, dtype: trainable_params * 4,
            "A gradient is as wide as its parameter. Your answer is the same for every format.",
        ),
        Misconception(
            "always 16 bits",
            lambda trainable_params, dtype: trainable_params * 2,
            "A gradient is as wide as its parameter, and parameters in float32 are trained too.",
        ),
        Misconception(
            "weights and gradients",
            _times(memory.gradient_bytes, 2),
            "Only the gradients are asked for. The weights have an entry of their own.",
        ),
        Misconception(
            "a float32 copy beside each gradient",
            lambda trainable_params, dtype: (
                memory.gradient_bytes(trainable_params, dtype) + 4 * trainable_params
            ),
            "You add a float32 copy. Some trainers keep one; here a parameter has one gradient, in its own format.",
        ),
        Misconception(
            "bits for bytes",
            _times(memory.gradient_bytes, 8),
            "That is the number of bits. How many bits are in a byte?",
        ),
    ],
    also_right=[_gradients_by_cases, _gradients_by_width, _gradients_by_text],
)


# --- optimizer state ----------------------------------------------------------------------------

FULL_STATE = "states as wide as the parameters"
EIGHT_BIT = "8-bit states"
FACTORED = "Adafactor"
_EIGHT_BIT_NAMES = ("adamw8bit", "paged_adamw8bit")


def _state(
    *,
    sgd: Callable[[int, float], float] = lambda params, value: 0,
    momentum: Callable[[int, float], float] = lambda params, value: params * value,
    adamw: Callable[[int, float], float] = lambda params, value: 2 * params * value,
    eight_bit: Callable[[int, float], float] = lambda params, value: 2 * params + params / 32,
    paged: Callable[[int, float], float] | None = None,
    adafactor: Callable[[int, float], float] = lambda params, value: 8 * sqrt(params),
) -> Callable[[int, str, str], float]:
    """`optimizer_bytes`, with some entries misread: each from the count and the bytes of a value."""

    def optimizer_bytes(trainable_params: int, optimizer: str, dtype: str) -> float:
        rules = {
            "sgd": sgd,
            "momentum": momentum,
            "adamw": adamw,
            "adamw8bit": eight_bit,
            "paged_adamw8bit": paged or eight_bit,
            "adafactor": adafactor,
        }
        _refuses_negative(trainable_params)
        if optimizer not in rules or dtype not in WIDE:
            raise ValueError(f"{optimizer}, {dtype}")
        return rules[optimizer](trainable_params, bits(dtype) / 8)

    return optimizer_bytes


def _state_in_a_chain(trainable_params: int, optimizer: str, dtype: str) -> float:
    if trainable_params < 0 or optimizer not in OPTIMIZERS or dtype not in WIDE:
        raise ValueError("bad input")
    if "8bit" in optimizer:
        return 2 * (trainable_params + 4 * ceil(trainable_params / 256))
    if optimizer == "adafactor":
        side = sqrt(trainable_params)
        return 4 * side + 4 * side
    moments = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
    return moments * memory.weight_bytes(trainable_params, dtype)


def _state_by_blocks(trainable_params: int, optimizer: str, dtype: str) -> float:
    """A block of 256 codes and its scale take 260 bytes, for each moment."""
    right = trained_optimizer_bytes(trainable_params, optimizer, dtype)
    return 2 * trainable_params / 256 * 260 if optimizer in _EIGHT_BIT_NAMES else right


def trained_optimizer_bytes(trainable_params: int, optimizer: str, dtype: str) -> float:
    """`solutions.optimizers.optimizer_bytes` of parameters in a format that can be trained."""
    require_whole(at_least=0, trainable_params=trainable_params)
    require_known("optimizer", optimizer, OPTIMIZERS)
    value = bits(dtype) / 8
    if value < 2:
        raise ValueError(f"nothing is trained in {dtype!r}: at least 16 bits are needed")
    if optimizer == "adafactor":
        return 4 * 2 * sqrt(trainable_params)
    if optimizer in ("adamw8bit", "paged_adamw8bit"):
        return quantized_moments_bytes(trainable_params)
    values = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
    return values * trainable_params * value


def _hidden_states(draw: Draw) -> list[Case]:
    def count() -> int:
        return draw.log_integer(4 * 10**6, 10**11)

    wide = draw.shuffled(["float32", "bfloat16", "float16"])
    full = [case(count(), name, dtype) for name in OPTIMIZERS[:3] for dtype in wide[:2]]
    full += [case(count(), name, "float32") for name in ("momentum", "adamw")]
    quantized = [case(count(), name, dtype) for name in _EIGHT_BIT_NAMES for dtype in wide[1:]]
    quantized += [case(count(), "adamw8bit", "float32")]
    factored = [case(count(), "adafactor", dtype) for dtype in ("float32", "bfloat16")]
    bad = [case(count(), "adam8", wide[0]), case(-count(), "sgd", wide[0])]
    narrow = draw.some([name for name in BITS if name not in (*WIDE, "int8")], 2)
    bad += [case(count(), "adamw", "float128"), case(count(), "adamw", narrow[0])]
    bad += [case(count(), "adamw8bit", narrow[1])]
    return (
        part(FULL_STATE, full)
        + part(EIGHT_BIT, quantized)
        + part(FACTORED, factored)
        + part(BAD_INPUT, bad)
    )


optimizer_bytes = Check(
    reference=trained_optimizer_bytes,
    public=[
        *part(
            FULL_STATE,
            [
                case(GEMMA_4B, "adamw", "bfloat16"),
                case(GEMMA_4B, "adamw", "float32"),
                case(GEMMA_4B, "momentum", "float32"),
                case(GEMMA_4B, "momentum", "bfloat16"),
                case(GEMMA_4B, "sgd", "bfloat16"),
            ],
        ),
        *part(
            EIGHT_BIT,
            [
                case(25_600_000, "adamw8bit", "bfloat16"),
                case(25_600_000, "paged_adamw8bit", "float32"),
            ],
        ),
        *part(
            FACTORED,
            [
                case(16_000_000, "adafactor", "bfloat16"),
                case(9_000_000, "adafactor", "float32"),
            ],
        ),
        *part(
            BAD_INPUT,
            [
                case(1000, "banana", "float32"),
                case(-1, "adamw", "float32"),
                case(1000, "adamw", "float12"),
                case(1000, "adamw", "int8"),
            ],
        ),
    ],
    hidden=_hidden_states,
    tolerance=relative(1e-3),
    parts={FULL_STATE: 0.4, EIGHT_BIT: 0.25, FACTORED: 0.15, BAD_INPUT: 0.2},
    misconceptions=[
        Misconception(
            "checks nothing",
            lambda params, optimizer, dtype: (
                {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer] * params * BITS[dtype] / 8
                if optimizer not in (*_EIGHT_BIT_NAMES, "adafactor")
                else memory.optimizer_bytes(abs(params), optimizer, dtype)
            ),
            "The bytes are right. An unknown optimizer, a format of fewer than 16 bits or an unknown one, and a negative count raise "
            "ValueError.",
        ),
        Misconception(
            "state in narrow formats",
            memory.optimizer_bytes,
            "The bytes are right. But nothing is trained in a format of 8 or 4 bits, as in task 3: refuse it.",
        ),
        Misconception(
            "nothing for what is unknown",
            lambda params, optimizer, dtype: (
                memory.optimizer_bytes(max(0, params), optimizer, dtype)
                if optimizer in OPTIMIZERS and dtype in WIDE
                else None
            ),
            "An `if` chain that knows no answer returns None. Raise ValueError for what you do not know.",
        ),
        Misconception(
            "AdamW with one moment",
            _state(adamw=lambda params, value: params * value),
            "AdamW remembers two values of each parameter: the average of its gradient, and that of the square.",
        ),
        Misconception(
            "state always float32",
            _state(
                momentum=lambda params, value: params * 4, adamw=lambda params, value: params * 8
            ),
            "You keep the state in float32 whatever is trained. PyTorch keeps it in the parameters' own format.",
        ),
        Misconception(
            "state always 16 bits",
            _state(
                momentum=lambda params, value: params * 2, adamw=lambda params, value: params * 4
            ),
            "Your state does not grow when the parameters are float32. PyTorch keeps it in their own format.",
        ),
        Misconception(
            "master weights counted as state",
            _state(adamw=lambda params, value: 2 * params * value + 4 * params),
            "You add float32 master weights. They are weights, and plain PyTorch keeps none.",
        ),
        Misconception(
            "gradients counted as state",
            _state(
                sgd=lambda params, value: params * value,
                momentum=lambda params, value: 2 * params * value,
                adamw=lambda params, value: 3 * params * value,
            ),
            "You count the gradients too. They have an entry of their own: what is left between two steps?",
        ),
        Misconception(
            "SGD with state",
            _state(sgd=lambda params, value: params * value),
            "Plain SGD uses the gradient and forgets it. Which optimizer keeps its average?",
        ),
        Misconception(
            "momentum with two values",
            _state(momentum=lambda params, value: 2 * params * value),
            "Momentum keeps one running average. Two are AdamW's.",
        ),
        Misconception(
            "8-bit scales forgotten",
            _state(eight_bit=lambda params, value: 2 * params),
            "The codes take one byte each. Each block of codes has a scale as well.",
        ),
        Misconception(
            "one scale for both moments",
            _state(eight_bit=lambda params, value: 2 * params + params / 64),
            "The two moments are quantized apart: each has scales of its own.",
        ),
        Misconception(
            "8-bit scales for blocks of 64",
            _state(eight_bit=lambda params, value: 2 * params + params / 8),
            "The optimizer's blocks are larger than those of 4-bit weights. Look at the text again.",
        ),
        Misconception(
            "8-bit state with one moment",
            _state(eight_bit=lambda params, value: params + params / 64),
            "8-bit AdamW is still AdamW: it keeps two moments.",
        ),
        Misconception(
            "a quarter of AdamW",
            _state(eight_bit=lambda params, value: 2 * params * value / 4),
            "A quarter is right only if AdamW's state were float32, and without scales. The codes take one byte "
            "whatever the parameters' format is.",
        ),
        Misconception(
            "paged state left out",
            _state(paged=lambda params, value: 0),
            "Paged state may move to the computer's memory when the GPU is full. It is there all the same: count it.",
        ),
        Misconception(
            "Adafactor like AdamW",
            _state(adafactor=lambda params, value: 2 * params * value),
            "Adafactor keeps no value for each parameter: one for each row and one for each column.",
        ),
        Misconception(
            "Adafactor with one value a parameter",
            _state(adafactor=lambda params, value: 4 * params),
            "One value for each parameter is what Adafactor avoids. How many rows and columns are there?",
        ),
        Misconception(
            "Adafactor's rows alone",
            _state(adafactor=lambda params, value: 4 * sqrt(params)),
            "There is a value for each row, and one for each column.",
        ),
        Misconception(
            "Adafactor in the parameters' format",
            _state(adafactor=lambda params, value: 2 * sqrt(params) * value),
            "Adafactor keeps its rows and columns in float32, whatever the parameters' format is.",
        ),
        Misconception(
            "bits for bytes",
            lambda params, optimizer, dtype: 8 * trained_optimizer_bytes(params, optimizer, dtype),
            "That is the number of bits. How many bits are in a byte?",
        ),
    ],
    also_right=[_state(), _state_in_a_chain, _state_by_blocks],
)


# --- activations --------------------------------------------------------------------------------

FUSED = "fused attention"
MASKS = "masks of local layers"
EAGER = "eager attention"
CHECKPOINTED = "checkpointing"
ENDS = "outside the layers"


def gemma_activation_bytes(
    shape: Shape,
    batch: int,
    seq: int,
    dtype: str,
    checkpointing: bool = False,
    attention: str = "sdpa",
) -> int:
    """The exercise's table and what it leaves out, for Gemma's architecture.

    Short enough to read in the instructor's notebook; equal to `solutions.activations` (see the
    tests), which covers other architectures and methods.
    """
    value = {"float32": 4, "tfloat32": 4, "float16": 2, "bfloat16": 2}[dtype]
    eager = {"sdpa": False, "eager": True}[attention]
    tokens = batch * seq

    def norm(rows: int, width: int) -> int:
        return 4 * (2 * rows * width + rows + width)

    def layer(local: bool) -> int:
        masked = local and seq >= (shape.sliding_window or seq + 1)
        # Keys and values are copied for every query head where a kernel cannot group the heads.
        copied = (eager or masked) and (shape.kv_heads > 1 or (eager and batch > 1))
        queries = shape.heads * shape.head_dim
        keys = (shape.heads if copied else shape.kv_heads) * shape.head_dim
        saved = shape.norms_per_layer * norm(tokens, shape.hidden)
        saved += norm(tokens * shape.heads, shape.head_dim)
        saved += norm(tokens * shape.kv_heads, shape.head_dim)
        widths = 2 * shape.hidden + 2 * queries + 2 * keys + 4 * shape.intermediate
        saved += value * tokens * widths
        if eager:
            return saved + (6 if value == 2 else 4) * batch * shape.heads * seq**2
        return saved + 4 * tokens * shape.heads + (value * batch * seq**2 if masked else 0)

    # The ends of the network: the last norm, the head's input, token ids, and rotary tables.
    kinds = (shape.global_layers > 0) + (shape.local_layers > 0)
    ends = norm(tokens, shape.hidden) + value * tokens * shape.hidden
    ends += 8 * tokens + 2 * kinds * value * seq * shape.head_dim
    layers = [layer(not shape.is_global(index)) for index in range(shape.layers)]
    if checkpointing:
        return ends + shape.layers * value * tokens * shape.hidden + max(layers)
    return ends + sum(layers)


def layer_terms(
    shape: Shape, batch: int, seq: int, dtype: str, attention: str, local: bool
) -> dict[str, float]:
    """The exercise's table for one layer."""
    value, tokens = (4 if "32" in dtype else 2), batch * seq
    masked = local and shape.sliding_window is not None and seq >= shape.sliding_window
    pairs = batch * seq * seq
    eager = attention == "eager"
    return {
        "norms": 8 * shape.norms_per_layer * tokens * shape.hidden,
        "query norms": 8 * tokens * shape.heads * shape.head_dim,
        "key norms": 8 * tokens * shape.kv_heads * shape.head_dim,
        "inputs": 2 * value * tokens * shape.hidden,
        "queries": value * tokens * shape.heads * shape.head_dim,
        "keys": value * tokens * shape.kv_heads * shape.head_dim,
        "values": value * tokens * shape.kv_heads * shape.head_dim,
        "output": value * tokens * shape.heads * shape.head_dim,
        "wide scores": 4 * pairs * shape.heads if eager else 0,
        "narrow scores": 2 * pairs * shape.heads if eager and value == 2 else 0,
        "mask": value * pairs if masked and not eager else 0,
        "mlp": 4 * value * tokens * shape.intermediate,
    }


class _Layer(NamedTuple):
    """One layer and what it is given: what a misread row of the table depends on."""

    shape: Shape
    batch: int
    seq: int
    value: int
    eager: bool
    local: bool

    @property
    def window(self) -> int:
        return self.shape.sliding_window or 0

    @property
    def masked(self) -> bool:
        return self.local and not self.eager and self.seq >= self.window

    @property
    def mask(self) -> int:
        """Bytes of a mask of all pairs."""
        return self.value * self.batch * self.seq**2

    @property
    def scores(self) -> int:
        """Pairs of tokens in all heads, if they are stored."""
        return self.batch * self.shape.heads * self.seq**2 if self.eager else 0


def _activations(
    *,
    factors: Mapping[str, float] | None = None,
    extra: Callable[[_Layer], float] = lambda layer: 0,
    local: Callable[[Shape, int], bool] = lambda shape, index: not shape.is_global(index),
    ends: Callable[[int], int] = lambda value: 8 + value,
    checkpointing: Callable[[float, list[float]], float] = lambda inputs, layers: (
        inputs + max(layers)
    ),
    attention: Callable[[str], str] = lambda given: given,
    misread: Callable[[Shape], Shape] = lambda shape: shape,
) -> Callable[..., float]:
    """The exercise's table, some of it misread: `factors` by entry, `extra` bytes of a layer, which
    layers are `local`, the bytes of a hidden value at the `ends` of the network, what
    `checkpointing` makes of the layers."""
    kernel, rule = attention, checkpointing

    def activation_bytes(
        shape: Shape,
        batch: int,
        seq: int,
        dtype: str,
        checkpointing: bool = False,
        attention: str = "sdpa",
    ) -> float:
        shape = misread(shape)
        value = 4 if "32" in dtype else 2
        stream = batch * seq * shape.hidden
        layers = []
        for index in range(shape.layers):
            used, is_local = kernel(attention), local(shape, index)
            terms = layer_terms(shape, batch, seq, dtype, used, is_local)
            layer = _Layer(shape, batch, seq, value, used == "eager", is_local)
            saved = sum(size * (factors or {}).get(name, 1) for name, size in terms.items())
            layers.append(saved + extra(layer))
        inputs = shape.layers * value * stream
        return ends(value) * stream + (rule(inputs, layers) if checkpointing else sum(layers))

    return activation_bytes


def _comparing_with_none(shape: Shape) -> Shape:
    """What `seq >= None` does."""
    if shape.sliding_window is None:
        raise TypeError("'>=' not supported between instances of 'int' and 'NoneType'")
    return shape


def _activations_for_each_token(
    shape: Shape,
    batch: int,
    seq: int,
    dtype: str,
    checkpointing: bool = False,
    attention: str = "sdpa",
) -> float:
    """Bytes of one token in each kind of layer, times tokens and layers."""
    value = 4 if dtype in ("float32", "tfloat32") else 2
    h, a, k = shape.hidden, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    often = 8 * shape.norms_per_layer * h + 8 * (a + k)
    often += value * (2 * h + 2 * a + 4 * shape.intermediate)
    everywhere = local = often + 2 * value * k
    if attention == "eager":
        everywhere = local = local + shape.heads * seq * (4 if value == 4 else 6)
    elif shape.sliding_window is not None and seq >= shape.sliding_window:
        local += value * seq
    ends = (8 + value) * h
    if checkpointing:
        kinds = ([everywhere] if shape.global_layers else []) + (
            [local] if shape.local_layers else []
        )
        return batch * seq * (ends + shape.layers * value * h + max(kinds))
    return batch * seq * (ends + shape.global_layers * everywhere + shape.local_layers * local)


def _draw_gemma(draw: Draw, **fixed: Any) -> Shape:
    """A shape with Gemma's architecture that no model has."""
    gemma = {"tied": True, "gated": True, "norms_per_layer": 4, "qk_norm": True}
    return _draw_shape(draw, **{**gemma, "layers": draw.integer(8, 30), **fixed})


# Shapes with Gemma's architecture that nobody has built, in which one row of the table weighs much.
MANY_HEADS = Shape(
    vocab=5000,
    hidden=144,
    intermediate=64,
    layers=24,
    heads=12,
    kv_heads=4,
    head_dim=64,
    tied=True,
    gated=True,
    norms_per_layer=4,
    qk_norm=True,
)
WIDE_STREAM = replace(MANY_HEADS, hidden=1024, heads=2, kv_heads=1, head_dim=32)
ONE_LAYER = replace(WIDE_STREAM, layers=1)
NO_WINDOW = replace(MANY_HEADS, hidden=128, intermediate=256, heads=2, kv_heads=2)
LARGE_MASKS = replace(NO_WINDOW, sliding_window=1024, sliding_pattern=2)


def _hidden_activations(draw: Draw) -> list[Case]:
    window = draw.integer(1000, 1600)
    above = window + draw.integer(400, 900)
    narrow = {
        "hidden": 32 * draw.integer(3, 5),
        "intermediate": 8 * draw.integer(20, 40),
        "heads": 2,
        "kv_heads": 2,
        "head_dim": 16 * draw.integer(3, 4),
        "layers": 2 * draw.integer(9, 14),
    }
    no_window = _draw_gemma(draw, **narrow)
    masked = replace(no_window, sliding_window=window, sliding_pattern=2)
    all_local = replace(no_window, sliding_window=window)
    heads = draw.integer(6, 9)
    many_heads = _draw_gemma(
        draw,
        hidden=8 * draw.integer(14, 18),
        intermediate=8 * draw.integer(8, 12),
        heads=heads,
        kv_heads=heads,
        head_dim=64,
        layers=draw.integer(22, 30),
    )
    wide = _draw_gemma(
        draw,
        hidden=8 * draw.integer(120, 160),
        intermediate=8 * draw.integer(8, 12),
        heads=2,
        kv_heads=1,
        head_dim=32,
        layers=draw.integer(22, 30),
    )
    everywhere = _draw_gemma(draw)
    large, small = (model_shape(f"gemma3-{size}") for size in (draw.one(["12b", "27b"]), "270m"))
    long = draw.integer(2500, 4000)
    short = draw.integer(200, 450)
    fused = [
        case(large, draw.integer(2, 5), draw.integer(1100, 1900), "bfloat16"),
        case(large, draw.integer(2, 5), short, "float32"),
        case(everywhere, 2, long, "float32"),
        case(many_heads, draw.integer(2, 5), short, "float32"),
        case(wide, draw.integer(2, 5), short, "bfloat16"),
    ]
    masks = [
        case(small, draw.integer(2, 4), long, "bfloat16"),
        case(masked, draw.integer(2, 4), window, "bfloat16"),
        case(all_local, draw.integer(2, 4), window - draw.integer(1, 9), "float16"),
        case(masked, draw.integer(2, 4), above, "float32"),
        case(masked, draw.integer(2, 4), above + 1, "float16"),
    ]
    eager = [
        case(large, 1, draw.integer(1100, 1900), "bfloat16", attention="eager"),
        case(masked, draw.integer(2, 4), above, "float32", attention="eager"),
        case(all_local, draw.integer(2, 4), above, "bfloat16", attention="eager"),
        case(wide, draw.integer(2, 4), short, "float16", False, "eager"),
    ]
    kept = [
        case(large, draw.integer(2, 5), long, "bfloat16", checkpointing=True),
        case(masked, 2, above, "float16", True),
        case(no_window, draw.integer(2, 4), above, "bfloat16", True),
        case(wide, draw.integer(3, 6), long, "bfloat16", True, "eager"),
        case(everywhere, draw.integer(3, 6), short, "bfloat16", True),
        case(small, 2, draw.integer(1100, 1900), "bfloat16", True),
    ]
    one_layer = replace(wide, layers=1)
    ends = [
        case(one_layer, draw.integer(2, 5), short, "float32"),
        case(one_layer, draw.integer(2, 5), short + 1, "bfloat16"),
    ]
    return [
        *part(FUSED, fused),
        *part(MASKS, masks),
        *part(EAGER, eager),
        *part(CHECKPOINTED, kept),
        *part(ENDS, ends),
    ]


def _measured(
    kept: int, model: str | Shape, batch: int, seq: int, dtype: str = "bfloat16", **named: Any
) -> Case:
    """A case whose bytes PyTorch counted (the real models' are rows of
    `book/data/saved_bytes.csv`)."""
    shape = model if isinstance(model, Shape) else model_shape(f"gemma3-{model}")
    return replace(case(shape, batch, seq, dtype, **named), expected=kept)


activation_bytes = Check(
    reference=gemma_activation_bytes,
    public=[
        *part(
            FUSED,
            [
                _measured(3_689_422_860, "4b", 1, 512),
                _measured(15_116_081_156, "4b", 2, 1024),
                _measured(517_792_268, "270m", 1, 512),
                _measured(4_829_061_644, "1b", 1, 1024, "float32"),
                _measured(107_784_516, MANY_HEADS, 3, 64, "float32"),
                _measured(479_563_780, WIDE_STREAM, 2, 256),
            ],
        ),
        *part(
            MASKS,
            [
                _measured(2_164_869_644, "270m", 1, 2048),
                _measured(10_168_756_748, "270m", 1, 8192),
                _measured(533_697_028, LARGE_MASKS, 2, 1024),
                _measured(424_840_356, LARGE_MASKS, 2, 900),
                _measured(1_774_615_956, LARGE_MASKS, 3, 1500, "float32"),
            ],
        ),
        *part(
            EAGER,
            [
                _measured(9_230_141_452, "4b", 1, 1024, attention="eager"),
                _measured(1_472_322_060, "270m", 1, 1024, attention="eager"),
                _measured(2_003_449_956, LARGE_MASKS, 2, 1500, attention="eager"),
                _measured(1_831_033_956, LARGE_MASKS, 2, 1500, "float32", attention="eager"),
            ],
        ),
        *part(
            CHECKPOINTED,
            [
                _measured(854_880_260, "4b", 2, 1024, checkpointing=True),
                _measured(177_895_940, "270m", 2, 1024, checkpointing=True),
                _measured(61_023_076, LARGE_MASKS, 2, 1500, checkpointing=True),
                _measured(52_023_076, NO_WINDOW, 2, 1500, checkpointing=True),
            ],
        ),
        *part(
            ENDS,
            [
                _measured(7_187_716, ONE_LAYER, 2, 64, "float32"),
                _measured(18_785_540, ONE_LAYER, 3, 128),
            ],
        ),
    ],
    hidden=_hidden_activations,
    tolerance=relative(0.03),
    parts={FUSED: 0.45, MASKS: 0.1, EAGER: 0.15, CHECKPOINTED: 0.2, ENDS: 0.1},
    misconceptions=[
        Misconception(
            "one vector for each layer",
            lambda shape, batch, seq, dtype, checkpointing=False, attention="sdpa": (
                batch * seq * shape.hidden * shape.layers * bits(dtype) / 8
            ),
            "You keep one vector for each token and layer. Each operation in a layer keeps its own: go through "
            "the table row by row.",
        ),
        Misconception(
            "batch ignored",
            lambda shape, batch, seq, dtype, checkpointing=False, attention="sdpa": (
                memory.activation_bytes(shape, 1, seq, dtype, checkpointing, attention)
            ),
            "Each sequence of the batch has activations of its own.",
        ),
        Misconception(
            "a formula for GPT",
            lambda shape, batch, seq, dtype, checkpointing=False, attention="sdpa": (
                shape.layers * batch * seq * (34 * shape.hidden + 5 * shape.heads * seq)
            ),
            "34·h + 5·heads·seq holds for GPT blocks in 16 bits. Gemma's MLP, norms and heads are other ones.",
        ),
        Misconception(
            "norms in the model's format",
            lambda shape, batch, seq, dtype, checkpointing=False, attention="sdpa": _activations(
                factors={
                    "norms": bits(dtype) / 32,
                    "query norms": bits(dtype) / 32,
                    "key norms": bits(dtype) / 32,
                }
            )(shape, batch, seq, dtype, checkpointing, attention),
            "The norms compute in float32, whatever the model's format is. They keep float32 too.",
        ),
        Misconception(
            "norms keep one tensor",
            _activations(factors={"norms": 0.5, "query norms": 0.5, "key norms": 0.5}),
            "A norm keeps two tensors: its input, and the normalised input that its weights need for their gradient.",
        ),
        Misconception(
            "norms forgotten",
            _activations(factors={"norms": 0, "query norms": 0, "key norms": 0}),
            "The norms have few parameters, but they keep large tensors, in float32.",
        ),
        Misconception(
            "query and key norms forgotten",
            _activations(factors={"query norms": 0, "key norms": 0}),
            "Gemma 3 also normalises queries and keys. These norms keep tensors as the others do.",
        ),
        Misconception(
            "one MLP tensor",
            _activations(factors={"mlp": 0.25}),
            "The MLP keeps four tensors of its inner width, not one.",
        ),
        Misconception(
            "three MLP tensors",
            _activations(factors={"mlp": 0.75}),
            "One of the MLP's four tensors is missing: gate, activated gate, up, and the input of down.",
        ),
        Misconception(
            "last norm keeps one tensor",
            _activations(ends=lambda value: 4 + value),
            "The last norm keeps two tensors, as every norm does: its input, and the normalised input.",
        ),
        Misconception(
            "last norm forgotten",
            _activations(ends=lambda value: value),
            "After the last layer there is one more norm. It keeps two tensors, as every norm does.",
        ),
        Misconception(
            "head's input forgotten",
            _activations(ends=lambda value: 8),
            "The output head is a trained projection too: it keeps its input.",
        ),
        Misconception(
            "hidden norms keep one tensor",
            _activations(factors={"norms": 0.5}),
            "Each norm of the hidden state keeps two tensors: its input, and the normalised input.",
        ),
        Misconception(
            "norms of queries alone",
            _activations(factors={"key norms": 0}),
            "The queries are normalised, and so are the keys: `kv_heads` heads more in the second row of the table.",
        ),
        Misconception(
            "queries or attention's output forgotten",
            _activations(factors={"output": 0}),
            "A tensor as wide as all query heads is missing. Attention keeps the queries, and the output projection keeps its input: two rows of the table.",
        ),
        Misconception(
            "keys and values forgotten",
            _activations(factors={"keys": 0, "values": 0}),
            "Attention multiplies keys and values too, and keeps both.",
        ),
        Misconception(
            "keys without values",
            _activations(factors={"values": 0}),
            "Keys and values are two tensors, as wide as each other. You count one of them.",
        ),
        Misconception(
            "projections' inputs forgotten",
            _activations(factors={"inputs": 0}),
            "A trained projection keeps its input. Two tensors of the hidden width are missing.",
        ),
        Misconception(
            "one input of the projections",
            _activations(factors={"inputs": 0.5}),
            "Two tensors of the hidden width are kept for projections: one that q, k and v read, and one that gate and up read.",
        ),
        Misconception(
            "as many key heads as query heads",
            _activations(misread=lambda shape: replace(shape, kv_heads=shape.heads)),
            "Keys and values have fewer heads than queries: `shape.kv_heads`.",
        ),
        Misconception(
            "a mask in every layer",
            _activations(local=lambda shape, index: shape.sliding_window is not None),
            "Global layers need no mask. `shape.global_layers` says how many there are.",
        ),
        Misconception(
            "sliding_window of None",
            _activations(misread=_comparing_with_none),
            "Where every layer is global, `sliding_window` is None, and None is no number to compare with. Ask for that first.",
        ),
        Misconception(
            "mask of the window's width",
            _activations(
                extra=lambda layer: layer.masked * (layer.window / layer.seq - 1) * layer.mask
            ),
            "The mask has an entry for every pair of tokens. The window decides what it says, not how large it is.",
        ),
        Misconception(
            "mask whatever the length",
            _activations(
                extra=lambda layer: (
                    (layer.local and not layer.eager and not layer.masked) * layer.mask
                )
            ),
            "A sequence that is shorter than the window needs no mask: compare `seq` with `sliding_window`.",
        ),
        Misconception(
            "no mask at the window's length",
            _activations(
                extra=lambda layer: -(layer.seq == layer.window) * layer.masked * layer.mask
            ),
            "The table says at which length the mask begins. What if the sequence is exactly as long as the window?",
        ),
        Misconception(
            "mask across the batch",
            _activations(extra=lambda layer: layer.masked * (layer.batch - 1) * layer.mask),
            "Tokens of different sequences do not meet. The mask has pairs within each sequence, not within all tokens.",
        ),
        Misconception(
            "mask of one sequence",
            _activations(extra=lambda layer: layer.masked * (1 / layer.batch - 1) * layer.mask),
            "Each sequence of the batch has a mask of its own.",
        ),
        Misconception(
            "mask in float32",
            _activations(extra=lambda layer: layer.masked * (4 / layer.value - 1) * layer.mask),
            "The mask is in the model's format. What does a value of it take in 16 bits?",
        ),
        Misconception(
            "mask in eager attention",
            _activations(
                extra=lambda layer: (
                    (layer.local and layer.eager and layer.seq >= layer.window) * layer.mask
                )
            ),
            "Eager attention adds its mask to the scores and keeps the probabilities alone. The row of the mask is for `sdpa`.",
        ),
        Misconception(
            "scores across the batch",
            _activations(
                extra=lambda layer: (
                    (layer.batch - 1) * layer.scores * (6 if layer.value == 2 else 4)
                )
            ),
            "Tokens of different sequences do not attend to one another: there are pairs within each sequence alone.",
        ),
        Misconception(
            "scores within the window",
            _activations(
                extra=lambda layer: (
                    (layer.local and layer.seq > layer.window)
                    * (layer.window / layer.seq - 1)
                    * layer.scores
                    * (6 if layer.value == 2 else 4)
                )
            ),
            "Eager attention computes the scores of all pairs, in local layers too, and hides those outside the window afterwards.",
        ),
        Misconception(
            "scores twice in float32 too",
            _activations(extra=lambda layer: (layer.value == 4) * 2 * layer.scores),
            "In a 16-bit format the probabilities are kept twice. In float32 there is nothing to convert, and no second copy.",
        ),
        Misconception(
            "the smaller kind of layer recomputed",
            _activations(checkpointing=lambda inputs, layers: inputs + min(layers)),
            "Each layer is recomputed at some moment. Memory has to do for the kind of layer that keeps most.",
        ),
        Misconception(
            "one layer of each kind recomputed",
            _activations(checkpointing=lambda inputs, layers: inputs + max(layers) + min(layers)),
            "Layers are recomputed one at a time. Two of them are never there together.",
        ),
        Misconception(
            "mask forgotten",
            _activations(factors={"mask": 0}),
            "In a local layer the mask is kept as well, once the sequence is as long as the window.",
        ),
        Misconception(
            "scores under the fused kernel",
            _activations(attention=lambda given: "eager"),
            "A fused kernel never stores the scores of all pairs of tokens. Look at `attention`.",
        ),
        Misconception(
            "scores forgotten in eager attention",
            _activations(factors={"wide scores": 0, "narrow scores": 0}),
            "Eager attention keeps a probability for each head and each pair of tokens.",
        ),
        Misconception(
            "scores kept once",
            _activations(factors={"narrow scores": 0}),
            "The softmax gives float32, and the product with the values needs 16 bits: both are kept.",
        ),
        Misconception(
            "scores in the model's format alone",
            lambda shape, batch, seq, dtype, checkpointing=False, attention="sdpa": _activations(
                factors={"wide scores": 0 if bits(dtype) == 16 else 1}
            )(shape, batch, seq, dtype, checkpointing, attention),
            "Eager attention computes its softmax in float32 and keeps it, whatever the model's format is.",
        ),
        Misconception(
            "checkpointing ignored",
            lambda shape, batch, seq, dtype, checkpointing=False, attention="sdpa": (
                memory.activation_bytes(shape, batch, seq, dtype, False, attention)
            ),
            "Your answer is the same with and without checkpointing. What does a layer still keep?",
        ),
        Misconception(
            "recomputed layer forgotten",
            _activations(checkpointing=lambda inputs, layers: inputs),
            "To go back through a layer it is computed again. For that moment all that it keeps is there.",
        ),
        Misconception(
            "layers' inputs forgotten",
            _activations(checkpointing=lambda inputs, layers: max(layers)),
            "Checkpointing keeps the input of every layer, to start from it again.",
        ),
        Misconception(
            "checkpointing keeps nothing",
            _activations(checkpointing=lambda inputs, layers: 0),
            "Checkpointing does not remove all: it keeps each layer's input, and recomputes one layer at a time.",
        ),
        Misconception(
            "square root of the layers",
            _activations(checkpointing=lambda inputs, layers: sum(layers) / sqrt(len(layers))),
            "The square root belongs to checkpoints that are spread evenly. Here every layer is a segment of its own.",
        ),
        Misconception(
            "the ends of the network forgotten",
            _activations(ends=lambda value: 0),
            "The last norm and the output head keep their inputs too. Under checkpointing this is no trifle.",
        ),
        Misconception(
            "logits counted",
            lambda shape, batch, seq, dtype, checkpointing=False, attention="sdpa": (
                memory.activation_bytes(shape, batch, seq, dtype, checkpointing, attention)
                + memory.logits_bytes(shape, batch, seq, dtype)
            ),
            "The logits have an entry of their own. Count what comes before them.",
        ),
        Misconception(
            "head_dim taken as hidden / heads",
            _activations(
                misread=lambda shape: replace(shape, head_dim=max(1, shape.hidden // shape.heads))
            ),
            "The width of a head is `shape.head_dim`. In Gemma 3 it is not `hidden / heads`.",
        ),
        Misconception(
            "always two bytes",
            lambda shape, batch, seq, dtype, checkpointing=False, attention="sdpa": (
                memory.activation_bytes(shape, batch, seq, "bfloat16", checkpointing, attention)
            ),
            "What the model computes in float32 takes four bytes a value.",
        ),
        Misconception(
            "always four bytes",
            lambda shape, batch, seq, dtype, checkpointing=False, attention="sdpa": (
                memory.activation_bytes(shape, batch, seq, "float32", checkpointing, attention)
            ),
            "Only the norms and the softmax keep float32. The rest is in the model's format.",
        ),
        Misconception(
            "bits for bytes",
            lambda shape, batch, seq, dtype, checkpointing=False, attention="sdpa": (
                8 * memory.activation_bytes(shape, batch, seq, dtype, checkpointing, attention)
            ),
            "That is the number of bits. How many bits are in a byte?",
        ),
    ],
    also_right=[memory.activation_bytes, _activations(), _activations_for_each_token],
)


# --- logits -------------------------------------------------------------------------------------


def _logits(value: Callable[[float], float]) -> Callable[..., float]:
    """So many bytes a logit, from the bytes of a value of the model's format."""
    return lambda shape, batch, seq, dtype: batch * seq * shape.vocab * value(bits(dtype) / 8)


def _logits_tensor_by_tensor(shape: Shape, batch: int, seq: int, dtype: str) -> int:
    count = batch * seq * shape.vocab
    tensors = [4, 4, 4, 4 if dtype in ("float32", "tfloat32") else 2]
    return sum(count * width for width in tensors)


def _logits_by_format(shape: Shape, batch: int, seq: int, dtype: str) -> float:
    wide = "32" in dtype
    return (16.0 if wide else 14.0) * shape.vocab * seq * batch


def _hidden_logits(draw: Draw) -> list[Case]:
    models = [name for name in model_names() if name not in SHOWN]
    dtypes = draw.shuffled(["float32", "float16", "bfloat16", "bfloat16"])
    cases = [
        case(model_shape(name), draw.integer(2, 9), draw.integer(100, 5000), dtype)
        for name, dtype in zip(draw.some(models, 4), dtypes, strict=True)
    ]
    return [*cases, case(_draw_shape(draw, tied=False, gated=True), 3, 77, "tfloat32")]


logits_bytes = Check(
    reference=memory.logits_bytes,
    public=[
        case(TOY, 1, 3, "bfloat16"),
        case(model_shape("gemma3-4b"), 1, 1024, "bfloat16"),
        case(model_shape("gpt2"), 8, 1024, "float32"),
    ],
    hidden=_hidden_logits,
    misconceptions=[
        Misconception(
            "the logits alone",
            _logits(lambda value: value),
            "Those are the logits as the model returns them. The loss makes three tensors more, in float32.",
        ),
        Misconception(
            "one float32 copy",
            _logits(lambda value: value + 4),
            "One float32 tensor is not all. Which others are there when the loss goes backward?",
        ),
        Misconception(
            "two float32 tensors",
            _logits(lambda value: value + 8),
            "One of the loss's three float32 tensors is missing.",
        ),
        Misconception(
            "the loss in the model's format",
            _logits(lambda value: 4 * value),
            "The loss is computed in float32, whatever the model's format is.",
        ),
        Misconception(
            "the model's own logits forgotten",
            _logits(lambda value: 12),
            "The logits themselves stay, in the model's format, beside what the loss makes of them.",
        ),
        Misconception(
            "four float32 tensors",
            _logits(lambda value: 16),
            "The model returns its logits in its own format. Only the loss's three tensors are float32.",
        ),
        Misconception(
            "logits of one token",
            lambda shape, batch, seq, dtype: memory.logits_bytes(shape, batch, 1, dtype),
            "Training predicts the next token at every position: each token has logits.",
        ),
        Misconception(
            "batch ignored",
            lambda shape, batch, seq, dtype: memory.logits_bytes(shape, 1, seq, dtype),
            "Each sequence of the batch has logits of its own.",
        ),
        Misconception(
            "hidden width for the vocabulary",
            lambda shape, batch, seq, dtype: batch * seq * shape.hidden * (bits(dtype) / 8 + 12),
            "A token has one logit for each entry of the vocabulary.",
        ),
        Misconception(
            "bits for bytes",
            lambda shape, batch, seq, dtype: 8 * memory.logits_bytes(shape, batch, seq, dtype),
            "That is the number of bits. How many bits are in a byte?",
        ),
    ],
    also_right=[
        _logits_tensor_by_tensor,
        _logits_by_format,
        _logits(lambda value: value + 12),
    ],
)


# --- cache --------------------------------------------------------------------------------------

ALL_TOKENS = "every token kept"
WINDOWED = "sliding window"


def _cache(
    *,
    pairs: int = 2,
    heads: Callable[[Shape], float] = lambda shape: shape.kv_heads * shape.head_dim,
    windows: Callable[[Shape, int, bool], float] = lambda shape, seq, windowed: (
        shape.global_layers * seq
        + shape.local_layers * (min(seq, shape.sliding_window or seq) if windowed else seq)
    ),
) -> Callable[..., float]:
    """`kv_cache_bytes` with a part misread: values a token and layer, or tokens over all layers."""
    return lambda shape, batch, seq, dtype, windowed=True: (
        pairs * batch * windows(shape, seq, windowed) * heads(shape) * bits(dtype) / 8
    )


def _cache_layer_by_layer(
    shape: Shape, batch: int, seq: int, dtype: str, windowed: bool = True
) -> float:
    total = 0.0
    for layer in range(shape.layers):
        tokens = seq
        if windowed and not shape.is_global(layer) and shape.sliding_window is not None:
            tokens = min(tokens, shape.sliding_window)
        total += 2 * tokens * shape.kv_heads * shape.head_dim
    return total * batch * memory.weight_bytes(1, dtype)


def _cache_by_saving(
    shape: Shape, batch: int, seq: int, dtype: str, windowed: bool = True
) -> float:
    """All tokens everywhere, less what the window spares."""
    each = 2 * batch * shape.kv_heads * shape.head_dim * bits(dtype) / 8
    spared = max(0, seq - shape.sliding_window) if windowed and shape.sliding_window else 0
    return each * (shape.layers * seq - shape.local_layers * spared)


def _hidden_cache(draw: Draw) -> list[Case]:
    window, pattern = draw.integer(200, 900), draw.integer(2, 5)
    gemma = _draw_gemma(draw, sliding_window=window, sliding_pattern=pattern, layers=31)
    local = _draw_gemma(draw, sliding_window=window)
    wide = [model_shape(f"gemma3-{size}") for size in draw.some(["12b", "27b"], 2)]
    names = ["qwen2.5-0.5b", "qwen2.5-7b", "llama3-8b", "qwen3-4b", "llama3.2-3b", "qwen3-8b"]
    long = draw.integer(5000, 60_000)
    every = [
        case(model_shape(name), draw.integer(2, 9), draw.integer(100, 9000), dtype)
        for name, dtype in zip(draw.some(names, 3), ("float16", "float32", "int8"), strict=True)
    ]
    every += [case(wide[0], 2, long, "bfloat16", windowed=False)]
    every += [case(gemma, 3, draw.integer(1000, 4000), "float8_e4m3", False)]
    windowed = [case(wide[1], draw.integer(2, 5), long, "bfloat16")]
    windowed += [case(gemma, draw.integer(2, 5), draw.integer(1000, 4000), "float16", True)]
    windowed += [case(gemma, 2, draw.integer(50, 150), "float32")]
    windowed += [case(local, draw.integer(2, 5), draw.integer(1000, 4000), "bfloat16")]
    return part(ALL_TOKENS, every) + part(WINDOWED, windowed)


kv_cache_bytes = Check(
    reference=memory.kv_cache_bytes,
    public=[
        *part(
            ALL_TOKENS,
            [
                case(TOY, 1, 5, "float32"),
                case(model_shape("llama3.2-1b"), 4, 8192, "bfloat16"),
                case(model_shape("llama3.2-1b"), 1, 8192, "int8"),
                case(model_shape("gemma3-4b"), 1, 131_072, "bfloat16", windowed=False),
            ],
        ),
        *part(
            WINDOWED,
            [
                case(model_shape("gemma3-4b"), 1, 131_072, "bfloat16"),
                case(model_shape("gemma3-4b"), 3, 600, "bfloat16"),
                case(model_shape("gemma3-270m"), 2, 4096, "float32"),
            ],
        ),
    ],
    hidden=_hidden_cache,
    parts={ALL_TOKENS: 0.5, WINDOWED: 0.5},
    misconceptions=[
        Misconception(
            "keys without values",
            _cache(pairs=1),
            "The cache holds keys and values: two vectors for each token.",
        ),
        Misconception(
            "as many key heads as query heads",
            _cache(heads=lambda shape: shape.heads * shape.head_dim),
            "Several query heads share a key head. The cache holds `shape.kv_heads` of them.",
        ),
        Misconception(
            "heads divided the wrong way",
            _cache(heads=lambda shape: shape.heads / shape.kv_heads * shape.head_dim),
            "`heads / kv_heads` is how many query heads share a key head. How many key heads are there?",
        ),
        Misconception(
            "hidden width for keys",
            _cache(heads=lambda shape: shape.hidden),
            "Keys are not as wide as the hidden state: they have `kv_heads` heads of `head_dim`.",
        ),
        Misconception(
            "head_dim taken as hidden / heads",
            _cache(heads=lambda shape: shape.kv_heads * (shape.hidden // shape.heads)),
            "The width of a head is `shape.head_dim`. In Gemma 3 it is not `hidden / heads`.",
        ),
        Misconception(
            "batch ignored",
            lambda shape, batch, seq, dtype, windowed=True: memory.kv_cache_bytes(
                shape, 1, seq, dtype, windowed
            ),
            "Each sequence of the batch has a cache of its own.",
        ),
        Misconception(
            "one layer",
            lambda shape, batch, seq, dtype, windowed=True: (
                memory.kv_cache_bytes(shape, batch, seq, dtype, windowed) / shape.layers
            ),
            "Every layer has a cache of its own.",
        ),
        Misconception(
            "window ignored",
            _cache(windows=lambda shape, seq, windowed: shape.layers * seq),
            "With `windowed`, a local layer forgets what lies before its window.",
        ),
        Misconception(
            "sliding_window of None",
            lambda shape, batch, seq, dtype, windowed=True: memory.kv_cache_bytes(
                _comparing_with_none(shape) if windowed else shape, batch, seq, dtype, windowed
            ),
            "Where every layer is global, `sliding_window` is None, and None is no number to compare with. Ask for that first.",
        ),
        Misconception(
            "16 and 32 bits alone",
            lambda shape, batch, seq, dtype, windowed=True: memory.kv_cache_bytes(
                shape, batch, seq, dtype if dtype in WIDE else "bfloat16", windowed
            ),
            "A cache may be kept in 8 bits: nothing is trained in it. `BITS` has the formats.",
        ),
        Misconception(
            "every layer windowed",
            _cache(
                windows=lambda shape, seq, windowed: (
                    shape.layers * (min(seq, shape.sliding_window or seq) if windowed else seq)
                )
            ),
            "Not every layer is local: `shape.global_layers` of them keep all tokens.",
        ),
        Misconception(
            "global and local layers swapped",
            _cache(
                windows=lambda shape, seq, windowed: (
                    shape.local_layers * seq
                    + shape.global_layers
                    * (min(seq, shape.sliding_window or seq) if windowed else seq)
                    if shape.sliding_window
                    else shape.layers * seq
                )
            ),
            "The other way round: local layers keep their window, global layers keep all tokens.",
        ),
        Misconception(
            "windowed even if it is not asked for",
            lambda shape, batch, seq, dtype, windowed=True: memory.kv_cache_bytes(
                shape, batch, seq, dtype, True
            ),
            "With `windowed=False` every layer keeps all tokens: some caches do.",
        ),
        Misconception(
            "a whole window from the start",
            _cache(
                windows=lambda shape, seq, windowed: (
                    shape.global_layers * seq
                    + shape.local_layers * ((shape.sliding_window or seq) if windowed else seq)
                )
            ),
            "A sequence shorter than the window fills only a part of it.",
        ),
        Misconception(
            "the window less one token",
            _cache(
                windows=lambda shape, seq, windowed: (
                    shape.global_layers * seq
                    + shape.local_layers
                    * (min(seq, (shape.sliding_window or seq + 1) - 1) if windowed else seq)
                )
            ),
            "One token a layer is missing: here the window counts the current token too.",
        ),
        Misconception(
            "always two bytes",
            lambda shape, batch, seq, dtype, windowed=True: memory.kv_cache_bytes(
                shape, batch, seq, "bfloat16", windowed
            ),
            "Your answer does not change with the format of the cache.",
        ),
        Misconception(
            "bits for bytes",
            lambda shape, batch, seq, dtype, windowed=True: (
                8 * memory.kv_cache_bytes(shape, batch, seq, dtype, windowed)
            ),
            "That is the number of bits. How many bits are in a byte?",
        ),
    ],
    also_right=[_cache(), _cache_layer_by_layer, _cache_by_saving],
)


# --- peaks --------------------------------------------------------------------------------------

PEAKS = "peaks"
Parts = Mapping[str, Mapping[str, float]]


def _moments(parts: Parts) -> dict[str, Mapping[str, float]]:
    return {name: named for name, named in parts.items() if name != "always"}


def _refuses_bad_parts(parts: Parts) -> None:
    if "always" not in parts or len(parts) == 1:
        raise ValueError("always, and at least one moment")
    if any(size < 0 for named in parts.values() for size in named.values()):
        raise ValueError("a part is negative")


def _checked(wrong: Callable[[Parts], float]) -> Callable[[Parts], float]:
    """A wrong answer that refuses bad input as it should."""

    def peak_bytes(parts: Parts) -> float:
        _refuses_bad_parts(parts)
        return wrong(parts)

    return peak_bytes


def _total(named: Mapping[str, float]) -> float:
    return sum(named.values())


def _refusing_zero(parts: Parts) -> float:
    if any(size == 0 for named in parts.values() for size in named.values()):
        raise ValueError("an empty part")
    return memory.training_peak_bytes(parts)


def _largest_of_each_part(parts: Parts) -> float:
    largest: dict[str, float] = {}
    for named in _moments(parts).values():
        for name, size in named.items():
            largest[name] = max(size, largest.get(name, 0))
    return _total(parts["always"]) + _total(largest)


_WRONG_PEAKS = [
    Misconception(
        "checks nothing",
        lambda parts: _total(parts["always"]) + max(map(_total, _moments(parts).values())),
        "The peak is right. Without `always`, without a moment, or with a negative part, raise ValueError: "
        "a dictionary alone raises KeyError for a name that it lacks.",
    ),
    Misconception(
        "negative parts accepted",
        lambda parts: (
            _total(parts["always"])
            + (max(map(_total, _moments(parts).values())) if "always" in parts else 0)
            if "always" in parts
            else memory.training_peak_bytes(parts)
        ),
        "No part of memory is negative: raise ValueError.",
    ),
    Misconception(
        "negative sums alone refused",
        lambda parts: memory.training_peak_bytes(
            parts
            if min(map(_total, parts.values()), default=0) < 0
            else {name: {"all": _total(named)} for name, named in parts.items()}
        ),
        "You look at sums alone. A negative part can hide in a sum that is positive: look at each part.",
    ),
    Misconception(
        "empty parts refused",
        _refusing_zero,
        "A part of 0 bytes is none that is negative.",
    ),
    Misconception(
        "always taken for a moment, and added",
        _checked(lambda parts: _total(parts["always"]) + max(map(_total, parts.values()))),
        "You look for the largest moment among all entries. `always` is none, and it is added already.",
    ),
    Misconception(
        "sum of everything",
        _checked(lambda parts: sum(map(_total, parts.values()))),
        "The moments come one after the other. What is only there in one of them is gone in the next.",
    ),
    Misconception(
        "the moment alone",
        _checked(lambda parts: max(map(_total, _moments(parts).values()))),
        "What is always there is there in the largest moment too.",
    ),
    Misconception(
        "always taken for a moment",
        _checked(lambda parts: max(map(_total, parts.values()))),
        "`always` is not one more moment: it adds to each of them.",
    ),
    Misconception(
        "the largest part alone",
        _checked(lambda parts: max(size for named in parts.values() for size in named.values())),
        "You take the largest single part. Parts that are there at the same time add up.",
    ),
    Misconception(
        "largest part of each moment",
        _checked(
            lambda parts: (
                _total(parts["always"])
                + max(max(named.values(), default=0) for named in _moments(parts).values())
            )
        ),
        "Within one moment all parts are there at the same time: they add up.",
    ),
    Misconception(
        "largest of each part",
        _checked(_largest_of_each_part),
        "You add the largest size of each part, but they are not largest in the same moment. Add up each moment first.",
    ),
    Misconception(
        "the last moment",
        _checked(lambda parts: _total(parts["always"]) + _total([*_moments(parts).values()][-1])),
        "The peak need not come last. Which moment is the largest?",
    ),
    Misconception(
        "the first moment",
        _checked(
            lambda parts: _total(parts["always"]) + _total(next(iter(_moments(parts).values())))
        ),
        "The peak need not come first. Which moment is the largest?",
    ),
    Misconception(
        "average moment",
        _checked(
            lambda parts: (
                _total(parts["always"])
                + sum(map(_total, _moments(parts).values())) / len(_moments(parts))
            )
        ),
        "An average says nothing about whether it fits. One byte too many at one moment stops the run.",
    ),
    Misconception(
        "in GiB",
        _checked(lambda parts: memory.training_peak_bytes(parts) / GIB),
        "Return bytes. GiB are for printing.",
    ),
]


def _peak_by_loop(parts: Parts) -> float:
    _refuses_bad_parts(parts)
    peak = 0.0
    for moment in parts:
        if moment != "always":
            peak = max(peak, sum(parts["always"].values()) + sum(parts[moment].values()))
    return peak


def _peak_by_sorting(parts: Parts) -> float:
    _refuses_bad_parts(parts)
    totals = {name: sum(named.values()) for name, named in parts.items()}
    always = totals.pop("always")
    return always + sorted(totals.values())[-1]


def _peak_on_a_copy(parts: Parts) -> float:
    left = dict(parts)
    always = left.pop("always", None)
    if always is None or not left or min([0, *always.values()]) < 0:
        raise ValueError(f"cannot read {parts}")
    if any(size < 0 for named in left.values() for size in named.values()):
        raise ValueError(f"negative in {parts}")
    return sum(always.values()) + max(sum(named.values()) for named in left.values())


def _draw_parts(draw: Draw, always: Sequence[str], moments: Mapping[str, Sequence[str]]) -> Any:
    """Sizes in which the middle moment is the largest, and no part is the same twice."""

    def sizes(names: Sequence[str], scale: int) -> dict[str, int]:
        return {name: draw.integer(scale // 2, scale) * 1024 for name in names}

    scales = [10**6, 10**7, 2 * 10**6, 3 * 10**6]
    drawn = zip(moments.items(), scales, strict=False)
    return {
        "always": sizes(always, 4 * 10**6),
        **{name: sizes(parts, scale) for (name, parts), scale in drawn},
    }


_TRAINING = {
    "loss": ("activations", "logits_and_loss"),
    "backward": ("activations", "gradients", "block"),
    "optimizer_step": ("gradients", "step_temporary"),
}


def _bad_parts(draw: Draw, good: Any) -> list[Case]:
    moments = {name: named for name, named in good.items() if name != "always"}
    moment = draw.one([*moments])
    negative = {**good, moment: {**good[moment], "activations": -draw.integer(1, 10**6)}}
    always = {**good, "always": {**good["always"], "cache": -draw.integer(1, 10**6)}}
    return [case(moments), case({"always": good["always"]}), case(negative), case(always)]


def _hidden_training(draw: Draw) -> list[Case]:
    good = _draw_parts(draw, ("weights", "optimizer_state", "cuda_context"), _TRAINING)
    cases = [case(good)]
    # The largest moment is the first, then the last; the names are in another order.
    sizes = [good[name] for name in ("backward", "loss", "optimizer_step")]
    cases += [
        case(dict(zip(("loss", "middle", "end", "always"), [*sizes, good["always"]], strict=True)))
    ]
    cases += [case({"step": sizes[1], "always": {}, "late": sizes[2], "later": sizes[0]})]
    cases += [case({"always": good["always"], "one": {}, "two": {}})]
    # What is always there is more than any moment.
    heavy = {"weights": sum(sizes[0].values()) * draw.integer(2, 5), "cache": 0}
    cases += [case({**good, "always": heavy})]
    return part(PEAKS, cases) + part(BAD_INPUT, _bad_parts(draw, good))


_SHOWN_STEP = {
    "always": {"weights": 9, "optimizer_state": 17},
    "loss": {"activations": 5, "logits_and_loss": 6},
    "backward": {"activations": 4, "gradients": 5, "block": 3},
    "optimizer_step": {"gradients": 8, "step_temporary": 2},
}

training_peak_bytes = Check(
    reference=memory.training_peak_bytes,
    public=[
        *part(
            PEAKS,
            [
                case(_SHOWN_STEP),
                case(
                    {"always": {"weights": 3}, "loss": {"activations": 90, "logits": 0}, "step": {}}
                ),
                case({"always": {"weights": 30}, "step": {"gradients": 30}, "loss": {"logits": 0}}),
            ],
        ),
        *part(
            BAD_INPUT,
            [
                case({"loss": {"activations": 5}}),
                case({"always": {"weights": 8}}),
                case({"always": {"weights": -8}, "loss": {"activations": 5}}),
                case({"always": {"weights": 8, "cache": -3}, "loss": {"activations": 5}}),
                case({"always": {"weights": 8}, "loss": {"activations": 5, "logits": -3}}),
            ],
        ),
    ],
    hidden=_hidden_training,
    parts={PEAKS: 0.75, BAD_INPUT: 0.25},
    misconceptions=_WRONG_PEAKS,
    also_right=[_peak_by_loop, _peak_by_sorting, _peak_on_a_copy],
)


# What training alone keeps; naming it in a generation is a mistake.
_TRAINING_ONLY = ("gradients", "optimizer_state")
_GENERATION = {
    "prefill": ("kv_cache", "block"),
    "prefill_logits": ("kv_cache", "hidden_states", "logits"),
    "decode": ("kv_cache", "block", "logits"),
}


def _refusing_training(peak: Callable[[Parts], float]) -> Callable[[Parts], float]:
    """The same, which also refuses what only training keeps."""

    def peak_bytes(parts: Parts) -> float:
        for named in parts.values():
            if any(name in named for name in _TRAINING_ONLY):
                raise ValueError("inference keeps none of these")
        return peak(parts)

    return peak_bytes


def _refusing_in_always(parts: Parts) -> float:
    if any(name in parts.get("always", {}) for name in _TRAINING_ONLY):
        raise ValueError("inference keeps none of these")
    return memory.training_peak_bytes(parts)


def _refusing_in_moments(parts: Parts) -> float:
    if any(name in named for named in _moments(parts).values() for name in _TRAINING_ONLY):
        raise ValueError("inference keeps none of these")
    return memory.training_peak_bytes(parts)


def _refusing_moments(parts: Parts) -> float:
    if any(name in parts for name in _TRAINING_ONLY):
        raise ValueError("inference keeps none of these")
    return memory.inference_peak_bytes(parts)


def _hidden_inference(draw: Draw) -> list[Case]:
    good = _draw_parts(draw, ("weights", "cuda_context"), _GENERATION)
    other = {
        "decode": good["prefill_logits"],
        "always": good["always"],
        "a": good["decode"],
        "b": good["prefill"],
    }
    last = {"always": {}, "x": good["decode"], "y": good["prefill_logits"]}
    always = {**good["always"], "optimizer_state": draw.integer(1, 10**9)}
    decode = {**good["decode"], "gradients": draw.integer(1, 10**9)}
    bad = [case({**good, "always": always}), case({**good, "decode": decode})]
    # A moment may be called so; what is always there is more than any moment.
    named = {"always": {"weights": draw.integer(1, 9) * 10**12, "cuda_context": 0}}
    named[draw.one(_TRAINING_ONLY)] = good["decode"]
    return part(PEAKS, [case(good), case(other), case(last), case(named)]) + part(
        BAD_INPUT, [*bad, *_bad_parts(draw, good)]
    )


inference_peak_bytes = Check(
    reference=memory.inference_peak_bytes,
    public=[
        *part(
            PEAKS,
            [
                case(
                    {
                        "always": {"weights": 8, "cuda_context": 1},
                        "prefill": {"kv_cache": 2, "block": 7},
                        "prefill_logits": {"kv_cache": 2, "logits": 1},
                        "decode": {"kv_cache": 3, "block": 1, "logits": 2},
                    }
                ),
                case(
                    {
                        "always": {"weights": 4},
                        "prefill": {"kv_cache": 2, "block": 0},
                        "decode": {"kv_cache": 5},
                    }
                ),
                case({"always": {"weights": 30}, "gradients": {"kv_cache": 4}}),
            ],
        ),
        *part(
            BAD_INPUT,
            [
                case({"always": {"weights": 8, "gradients": 8}, "decode": {"kv_cache": 3}}),
                case({"always": {"weights": 8}, "decode": {"kv_cache": 3, "optimizer_state": 16}}),
                case({"always": {"weights": 8}, "decode": {"kv_cache": -3}}),
                case({"always": {"weights": 8}, "decode": {"kv_cache": 5, "logits": -3}}),
                case({"prefill": {"kv_cache": 3}, "decode": {"kv_cache": 3}}),
            ],
        ),
    ],
    hidden=_hidden_inference,
    parts={PEAKS: 0.6, BAD_INPUT: 0.4},
    misconceptions=[
        Misconception(
            "gradients and optimizer state accepted",
            memory.training_peak_bytes,
            "Generating keeps no gradients and no optimizer state. Whoever names them has mixed up two estimates: "
            "raise ValueError.",
        ),
        Misconception(
            "training's parts looked for in always alone",
            _refusing_in_always,
            'Look in every entry: a moment may name `"gradients"` or `"optimizer_state"` as well as `"always"` may.',
        ),
        Misconception(
            "training's parts looked for in moments alone",
            _refusing_in_moments,
            'Look in every entry: `"always"` may name `"gradients"` or `"optimizer_state"` as well as a moment may.',
        ),
        Misconception(
            "a moment refused for its name",
            _refusing_moments,
            "Only parts are refused for their names. A moment may be called what one likes.",
        ),
        Misconception(
            "training's parts left out in silence",
            lambda parts: memory.inference_peak_bytes(
                {
                    moment: {key: size for key, size in named.items() if key not in _TRAINING_ONLY}
                    for moment, named in parts.items()
                }
            ),
            "You drop the parts that do not belong there. The caller never learns of the mistake: raise ValueError.",
        ),
        *(
            replace(known, wrong=_refusing_training(known.wrong))
            if known.id not in ("checks nothing",)
            else known
            for known in _WRONG_PEAKS
        ),
    ],
    also_right=[
        _refusing_training(_peak_by_loop),
        _refusing_training(_peak_by_sorting),
        _refusing_training(_peak_on_a_copy),
    ],
)


# --- does it fit? -------------------------------------------------------------------------------

DECISIONS = "decisions"


def _refuses_bad_fit(peak_bytes: float, usable_bytes: float, headroom: float) -> None:
    if peak_bytes < 0 or usable_bytes < 0 or not 0 <= headroom < 1:
        raise ValueError("bad input")


def _decides(
    decide: Callable[[float, float, float], bool],
) -> Callable[[float, float, float], bool]:
    """A way to decide that refuses bad input as it should."""

    def fits(peak_bytes: float, usable_bytes: float, headroom: float) -> bool:
        _refuses_bad_fit(peak_bytes, usable_bytes, headroom)
        return decide(peak_bytes, usable_bytes, headroom)

    return fits


def _refusing_nothing(peak: float, usable: float, headroom: float) -> bool:
    if usable == 0:
        raise ValueError("nothing is usable")
    return peak <= usable * (1 - headroom)


def _hidden_fits(draw: Draw) -> list[Case]:
    cases = []
    for headroom in (0.125, 0.25, 0.5):
        usable = 1024 * draw.integer(10**6, 10**8)
        limit = int(usable * (1 - headroom))
        # On the limit, one byte above it, below usable / (1 + headroom) only, and far off.
        between = int(usable * (1 - headroom + 1 / (1 + headroom)) / 2)
        below = int(usable * (1 - headroom / 300))
        peaks = [limit, limit + 1, between, limit // 3, below, usable, usable + draw.integer(1, 99)]
        cases += [case(peak, usable, headroom) for peak in peaks]
    cases += [case(usable, usable, 0), case(usable + 1, usable, 0.0)]
    cases += [case(0, 0, 0.5), case(draw.integer(1, 99), 0, 0.25)]
    bad = [case(usable, usable, draw.integer(5, 25)), case(usable, usable, -0.25)]
    bad += [case(-draw.integer(1, 99), usable, 0.1), case(usable // 2, -usable, 0.1)]
    bad += [case(usable // 2, usable, 1.0), case(0, usable, 1)]
    return part(DECISIONS, cases) + part(BAD_INPUT, bad)


fits = Check(
    reference=memory.fits,
    public=[
        *part(
            DECISIONS,
            [
                case(12 * GIB, 16 * GIB, 0.125),
                case(15 * GIB, 16 * GIB, 0.125),
                case(14 * GIB, 16 * GIB, 0.125),
                case(14 * GIB + 2**27, 16 * GIB, 0.125),
                case(16 * GIB, 16 * GIB, 0.125),
                case(16 * GIB - 1024, 16 * GIB, 0.125),
                case(17 * GIB, 16 * GIB, 0.125),
                case(1 * GIB, 16 * GIB, 0.125),
                case(16 * GIB, 16 * GIB, 0.0),
                case(17 * GIB, 16 * GIB, 0.0),
                case(0, 0, 0.1),
                case(1 * GIB, 0, 0.1),
            ],
        ),
        *part(
            BAD_INPUT,
            [
                case(12 * GIB, 16 * GIB, 10),
                case(12 * GIB, 16 * GIB, -0.1),
                case(0, 16 * GIB, 1),
                case(-12 * GIB, 16 * GIB, 0.1),
                case(1 * GIB, -16 * GIB, 0.1),
            ],
        ),
    ],
    hidden=_hidden_fits,
    parts={DECISIONS: 0.75, BAD_INPUT: 0.25},
    misconceptions=[
        Misconception(
            "checks nothing",
            lambda peak_bytes, usable_bytes, headroom: peak_bytes <= usable_bytes * (1 - headroom),
            "The decision is right. Negative amounts, and a headroom that is no fraction from 0 to below 1, raise "
            "ValueError.",
        ),
        Misconception(
            "headroom unchecked",
            lambda peak_bytes, usable_bytes, headroom: (
                memory.fits(peak_bytes, usable_bytes, 0)
                and peak_bytes <= usable_bytes * (1 - headroom)
            ),
            "A headroom of 10 would mean ten times the card. Refuse what is no fraction from 0 to below 1.",
        ),
        Misconception(
            "headroom of 1 accepted",
            lambda peak_bytes, usable_bytes, headroom: (
                memory.fits(peak_bytes, usable_bytes, 0 if headroom == 1 else headroom)
                and peak_bytes <= usable_bytes * (1 - headroom)
            ),
            "A headroom of 1 would keep all of the card free. It has to be below 1.",
        ),
        Misconception(
            "negative card accepted",
            lambda peak_bytes, usable_bytes, headroom: memory.fits(
                peak_bytes, max(0, usable_bytes), headroom
            ),
            "No card has a negative number of bytes. Refuse a negative `usable_bytes` as well as a negative peak.",
        ),
        Misconception(
            "nothing usable refused",
            _decides(_refusing_nothing),
            "0 bytes that are usable are no negative number of bytes: only a peak of 0 fits.",
        ),
        Misconception(
            "headroom ignored",
            _decides(lambda peak, usable, headroom: peak <= usable),
            "You compare with all that is usable. A part of it, the headroom, is to stay free.",
        ),
        Misconception(
            "strictly less",
            _decides(lambda peak, usable, headroom: peak < usable * (1 - headroom)),
            "A peak that leaves exactly the headroom free still fits.",
        ),
        Misconception(
            "headroom of the peak",
            _decides(lambda peak, usable, headroom: peak * (1 + headroom) <= usable),
            "The headroom is a fraction of what is usable, not of the peak.",
        ),
        Misconception(
            "headroom in bytes",
            _decides(lambda peak, usable, headroom: peak + headroom <= usable),
            "The headroom is a fraction, not a number of bytes.",
        ),
        Misconception(
            "headroom in percent",
            _decides(lambda peak, usable, headroom: peak <= usable * (1 - headroom / 100)),
            "The headroom is a fraction: 0.1 is a tenth.",
        ),
        Misconception(
            "headroom used instead of kept",
            _decides(lambda peak, usable, headroom: peak <= usable * headroom),
            "The headroom is what stays free. The rest may be used.",
        ),
        Misconception(
            "headroom added",
            _decides(lambda peak, usable, headroom: peak <= usable * (1 + headroom)),
            "You let the peak go above what is there. The headroom makes the limit smaller.",
        ),
        Misconception(
            "the other way round",
            _decides(lambda peak, usable, headroom: peak > usable * (1 - headroom)),
            "You answer whether it is too large.",
        ),
        Misconception(
            "always fits",
            lambda peak_bytes, usable_bytes, headroom: True,
            "Your answer is yes, whatever the peak is.",
        ),
        Misconception(
            "never fits",
            lambda peak_bytes, usable_bytes, headroom: False,
            "Your answer is no, whatever the peak is.",
        ),
    ],
    also_right=[
        _decides(lambda peak, usable, headroom: usable - peak >= headroom * usable),
        _decides(lambda peak, usable, headroom: peak + headroom * usable <= usable),
        _decides(lambda peak, usable, headroom: not peak > usable - usable * headroom),
    ],
)
