"""Checks of exercise 22: FLOPs from one product to a training step, and what they take in time.

Where a case is a step that PyTorch was asked to count, the expected value is PyTorch's own count:
`tests/checks/test_counting_flops.py` holds that against `book/data/counted_flops.csv`.
"""

# ruff: noqa: ARG005 - it is the mistake of many a wrong answer that it ignores an argument

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from gradelib.checks import Case, Check, Misconception, case, part
from gradelib.compare import relative
from gradelib.draw import Draw
from gradelib.shapes import Shape
from solutions import flops, roofline
from solutions.layers import attention_layers, mlp_layers
from solutions.parameters import parameter_count
from solutions.shapes import TOY, model_shape

# Whole numbers above 2⁵³ are not exact as floats, and a quotient depends on the order of its steps.
ROUNDING = relative(1e-9)

ALL_PAIRS = "all pairs"
USEFUL = "useful pairs"
FULL = "full training"
CHECKPOINTED = "checkpointing"
LORA = "LoRA and QLoRA"
NUMBERS = "numbers"
BAD_INPUT = "bad input"

UNKNOWN_COUNTS = ("causal", "all", "masked", "used")
UNKNOWN_METHODS = ("dora", "prefix", "frozen", "half")

# Models that PyTorch counted: the notebook shows the first two, hidden cases take the others.
SHOWN = (model_shape("gemma3-270m"), model_shape("gemma3-4b"))
COUNTED = (model_shape("gemma3-1b"), model_shape("gemma3-12b"))
# Their steps: batch, seq, method, checkpointing.
COUNTED_FORWARD = ((1, 512), (2, 1024), (1, 8192), (1, 2048))
COUNTED_STEPS = (
    (1, 512, "full", False),
    (2, 1024, "full", False),
    (1, 8192, "full", False),
    (1, 2048, "full", True),
)
# Neither Gemma nor shown in the notebook: untied or without a gate, with a window or without.
OTHERS = ("gpt2-medium", "pythia-70m", "mistral-7b-v0.1", "qwen2.5-0.5b", "llama3.1-8b")


def _draw_shape(draw: Draw, **fixed: Any) -> Shape:
    """A shape that no model has, in which no two sizes are the same."""
    kv_heads = draw.integer(2, 5)
    head_dim = 16 * draw.integer(3, 9)
    heads = kv_heads * draw.integer(2, 4)
    sizes = {
        "vocab": draw.integer(5_000, 90_000),
        "hidden": heads * head_dim + 32 * draw.integer(1, 9),
        "intermediate": 64 * draw.integer(90, 300) + 8,
        "layers": draw.integer(7, 40),
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "tied": True,
        "gated": True,
    }
    return Shape(**{**sizes, **fixed})


def _windowed(draw: Draw, **fixed: Any) -> Shape:
    """A shape of local layers, with every few a global one, as in Gemma 3."""
    window = {"sliding_window": draw.integer(100, 300), "sliding_pattern": draw.integer(2, 6)}
    return _draw_shape(draw, **window, **fixed)


def _shapes(draw: Draw) -> list[Shape]:
    """Shapes that differ in all that FLOPs depend on, two of them those of real models."""
    return [
        draw.one(COUNTED),
        model_shape(draw.one(OTHERS)),
        _windowed(draw),
        _draw_shape(draw, tied=False, gated=False),
        _windowed(draw, tied=False),
        _draw_shape(draw, sliding_window=draw.integer(100, 300)),
    ]


# --- one product ----------------------------------------------------------------------------------


def _matmul_by_dot_products(m: int, k: int, n: int) -> int:
    one_dot_product = k + k
    return one_dot_product * (m * n)


def _matmul_by_rows(m: int, k: int, n: int) -> int:
    return sum(2 * k * n for _ in range(m))


matmul_flops = Check(
    reference=flops.matmul_flops,
    public=[case(2, 3, 4), case(1, 2560, 10_240), case(1024, 640, 262_144)],
    hidden=lambda draw: [
        case(draw.log_integer(2, 5000), draw.log_integer(3, 9000), draw.log_integer(3, 90_000))
        for _ in range(6)
    ],
    tolerance=ROUNDING,
    misconceptions=[
        Misconception(
            "multiplications alone",
            lambda m, k, n: m * k * n,
            "You count the multiplications. Each product is also added to a sum: that is an operation too.",
        ),
        Misconception(
            "one addition fewer",
            lambda m, k, n: m * n * (2 * k - 1),
            "A sum of k numbers does need only k − 1 additions. But a matrix unit starts from 0 and does k, and "
            "so every counter counts them.",
        ),
        Misconception(
            "elements of the result",
            lambda m, k, n: 2 * m * n,
            "You count the elements of the result. Each of them is a dot product: how long is it?",
        ),
        Misconception(
            "elements of the factors",
            lambda m, k, n: m * k + k * n,
            "You count the numbers that are stored. Each row meets each column.",
        ),
        Misconception(
            "multiplied twice over",
            lambda m, k, n: 4 * m * k * n,
            "That is twice too much: one multiplication and one addition for each pair of numbers that meet.",
        ),
        Misconception(
            "in billions",
            lambda m, k, n: 2 * m * k * n / 1e9,
            "Return the number of operations itself, not billions of them.",
        ),
    ],
    also_right=[
        _matmul_by_dot_products,
        _matmul_by_rows,
        lambda m, k, n: 2.0 * m * k * n,
        lambda m, k, n: math.prod((2, m, k, n)),
    ],
)


# --- attention ------------------------------------------------------------------------------------


def _pairs_by_sum(seq: int, window: int | None = None) -> int:
    return sum(min(seen, window or seen) for seen in range(1, seq + 1))


def _pairs_as_a_triangle_less_a_triangle(seq: int, window: int | None = None) -> int:
    left = 0 if window is None else max(0, seq - window)
    return seq * (seq + 1) // 2 - left * (left + 1) // 2


def _pairs_as_float(seq: int, window: int | None = None) -> float:
    reach = min(seq, math.inf if window is None else window)
    return (seq - (reach - 1) / 2) * reach


def _pairs_with_none(seq: int, window: int | None = None) -> int:
    if window is None:
        raise TypeError("'<' not supported between instances of 'NoneType' and 'int'")
    return _pairs_by_sum(seq, window)


def _hidden_pairs(draw: Draw) -> list[Case]:
    cases = [case(draw.integer(100, 900)), case(draw.log_integer(2000, 90_000))]
    for _ in range(3):
        seq = draw.integer(200, 4000)
        cases += [case(seq, draw.integer(2, seq - 50)), case(seq, seq + draw.integer(1, 500))]
    return [*cases, case(draw.integer(30, 99), window=1)]


attended_pairs = Check(
    reference=flops.attended_pairs,
    public=[case(4), case(5, 2), case(1024), case(4096, 1024), case(3, 8)],
    hidden=_hidden_pairs,
    tolerance=ROUNDING,
    misconceptions=[
        Misconception(
            "all pairs",
            lambda seq, window=None: seq**2,
            "That is every pair of tokens. A token does not see those that come after it.",
        ),
        Misconception(
            "half of all pairs",
            lambda seq, window=None: seq**2 / 2 if window is None else _pairs_by_sum(seq, window),
            "Not quite half of all pairs: each token sees itself too. Count a text of one token.",
        ),
        Misconception(
            "token does not see itself",
            lambda seq, window=None: sum(min(seen, window or seen) for seen in range(0, seq)),
            "The first token sees one token: itself.",
        ),
        Misconception(
            "window ignored",
            lambda seq, window=None: _pairs_by_sum(seq),
            "Your answer does not change with the window. A token sees no more than `window` tokens.",
        ),
        Misconception(
            "window for every token",
            lambda seq, window=None: (
                _pairs_by_sum(seq) if window is None else seq * min(seq, window)
            ),
            "The first tokens cannot see a whole window: so many tokens do not stand before them.",
        ),
        Misconception(
            "window longer than the text",
            lambda seq, window=None: (
                _pairs_by_sum(seq)
                if window is None
                else window * (window + 1) // 2 + (seq - window) * window
            ),
            "A window that is longer than the text changes nothing. What does your formula give then?",
        ),
        Misconception(
            "window less one token",
            lambda seq, window=None: sum(
                min(seen, seen if window is None else window - 1) for seen in range(1, seq + 1)
            ),
            "The window holds the token itself and those before it, as many as `window` says: you are one short.",
        ),
        Misconception(
            "window of None",
            _pairs_with_none,
            "Without a window, `window` is None, and None is no number. Ask for that first.",
        ),
        Misconception(
            "window beside the token itself",
            lambda seq, window=None: _pairs_by_sum(seq, None if window is None else window + 1),
            "The window holds the token itself: with a window of 1 each token sees one.",
        ),
    ],
    also_right=[_pairs_by_sum, _pairs_as_a_triangle_less_a_triangle, _pairs_as_float],
)


Pairs = Callable[[Shape, int, str], float]
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")


def _right_pairs(shape: Shape, seq: int, count: str) -> float:
    if count != "useful":
        return shape.layers * seq**2
    whole, local = _pairs_by_sum(seq), _pairs_by_sum(seq, shape.sliding_window)
    return shape.global_layers * whole + shape.local_layers * local


def _useful_pairs(each: Callable[[Shape, int], float]) -> Pairs:
    """All pairs are counted right, and useful ones by `each`."""
    return lambda shape, seq, count: (
        each(shape, seq) if count == "useful" else shape.layers * seq**2
    )


def _wrong_attention(
    *,
    misread: Callable[[Shape], dict[str, Any]] = lambda shape: {},
    pairs: Pairs = _right_pairs,
    products: int = 2,
    score_heads: Callable[[Shape], int] = lambda shape: shape.heads,
    projections: Sequence[str] = _PROJECTIONS,
    through: Callable[[Shape, int, float], float] = lambda shape, seq, right: right,
    times: float = 1,
) -> Callable[..., float]:
    """`attention_flops` with one of its steps changed; `through` the projections."""

    def attention_flops(shape: Shape, seq: int, count: str = "executed") -> float:
        shape = replace(shape, **misread(shape))
        layers = [layer for layer in attention_layers(shape) if layer.name in projections]
        projected = through(shape, seq, 2 * seq * sum(layer.weights for layer in layers))
        width = score_heads(shape) * shape.head_dim
        return times * (projected + products * 2 * width * pairs(shape, seq, count))

    return attention_flops


def _executed_pairs(each: Callable[[Shape, int], float]) -> Pairs:
    """Useful pairs are counted right, and all pairs by `each`."""
    return lambda shape, seq, count: (
        _right_pairs(shape, seq, count) if count == "useful" else each(shape, seq)
    )


def _unclipped(shape: Shape, seq: int) -> float:
    """The useful pairs, by a formula for windows that are no longer than the text."""
    window = shape.sliding_window or seq
    local = window * (window + 1) / 2 + (seq - window) * window
    return shape.global_layers * _pairs_by_sum(seq) + shape.local_layers * local


_NO_WINDOW = {"sliding_window": None, "sliding_pattern": None}


def _checked(count: str) -> None:
    if count not in {"executed", "useful"}:
        raise ValueError(f"count is {count}")


def _attention_layer_by_layer(shape: Shape, seq: int, count: str = "executed") -> int:
    _checked(count)
    total = 0
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    for layer in range(shape.layers):
        for inputs, outputs in [
            (shape.hidden, queries),
            (shape.hidden, keys),
            (shape.hidden, keys),
            (queries, shape.hidden),
        ]:
            total += 2 * seq * inputs * outputs
        pairs = seq * seq
        if count == "useful":
            pairs = _pairs_by_sum(seq, None if shape.is_global(layer) else shape.sliding_window)
        for _ in range(shape.heads):
            total += 2 * pairs * shape.head_dim + 2 * pairs * shape.head_dim
    return total


def _attention_in_one_formula(shape: Shape, seq: int, count: str = "executed") -> float:
    _checked(count)
    per_token = 4.0 * shape.hidden * shape.head_dim * (shape.heads + shape.kv_heads)
    pairs = _right_pairs(shape, seq, count)
    return shape.layers * seq * per_token + 4.0 * shape.heads * shape.head_dim * pairs


def _attention_as_matmuls(shape: Shape, seq: int, count: str = "executed") -> float:
    _checked(count)
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    projections = _matmul_by_rows(1, shape.hidden, 2 * queries + 2 * keys) * seq
    scores = shape.heads * (2 * shape.head_dim + 2 * shape.head_dim)
    return shape.layers * projections + scores * _right_pairs(shape, seq, count)


def _hidden_attention(draw: Draw) -> list[Case]:
    cases: list[Case] = []
    for shape in _shapes(draw):
        seqs = (draw.integer(320, 900), draw.log_integer(1100, 9000))
        cases += part(ALL_PAIRS, [case(shape, seq) for seq in seqs])
        cases += part(USEFUL, [case(shape, seq + 1, "useful") for seq in seqs])
        cases += part(USEFUL, [case(shape, draw.integer(30, 90), count="useful")])
    cases += part(BAD_INPUT, [case(shape, 64, draw.one(UNKNOWN_COUNTS)) for shape in _shapes(draw)])
    return cases


attention_flops = Check(
    reference=flops.attention_flops,
    public=[
        *part(ALL_PAIRS, [case(TOY, 5), case(SHOWN[0], 1024), case(SHOWN[1], 2048)]),
        *part(
            USEFUL,
            [
                case(TOY, 5, "useful"),
                case(SHOWN[0], 1024, "useful"),
                case(SHOWN[1], 4096, "useful"),
                case(replace(TOY, layers=2, sliding_window=2, sliding_pattern=2), 5, "useful"),
                case(replace(TOY, layers=2, sliding_window=8, sliding_pattern=2), 5, "useful"),
            ],
        ),
        *part(BAD_INPUT, [case(TOY, 5, "half")]),
    ],
    hidden=_hidden_attention,
    tolerance=ROUNDING,
    parts={ALL_PAIRS: 0.5, USEFUL: 0.4, BAD_INPUT: 0.1},
    misconceptions=[
        Misconception(
            "accepts bad input",
            _wrong_attention(),
            "The numbers are right, but an unknown `count` is accepted. Raise ValueError for it.",
        ),
        Misconception(
            "count ignored",
            _wrong_attention(pairs=lambda shape, seq, count: shape.layers * seq**2),
            "Your answer does not change with `count`. Which pairs does the mask throw away?",
        ),
        Misconception(
            "causal halving assumed",
            _wrong_attention(pairs=lambda shape, seq, count: _right_pairs(shape, seq, "useful")),
            "You always leave out the pairs that the mask hides. A kernel without masking computes them too: that is "
            'what "executed" counts.',
        ),
        Misconception(
            "half of all pairs",
            _wrong_attention(pairs=_useful_pairs(lambda shape, seq: shape.layers * seq**2 / 2)),
            "Half of all pairs is not what the mask keeps: each token sees itself, and a local layer sees its window "
            "alone.",
        ),
        Misconception(
            "no layer windowed",
            _wrong_attention(
                pairs=_useful_pairs(lambda shape, seq: shape.layers * _pairs_by_sum(seq))
            ),
            "You let every layer see the whole text. `shape.local_layers` of them see a window only.",
        ),
        Misconception(
            "every layer windowed",
            _wrong_attention(
                pairs=_useful_pairs(
                    lambda shape, seq: shape.layers * _pairs_by_sum(seq, shape.sliding_window)
                )
            ),
            "You give every layer the window. `shape.global_layers` of them see the whole text.",
        ),
        Misconception(
            "local and global layers swapped",
            _wrong_attention(
                pairs=_useful_pairs(
                    lambda shape, seq: (
                        shape.local_layers * _pairs_by_sum(seq)
                        + shape.global_layers * _pairs_by_sum(seq, shape.sliding_window)
                    )
                )
            ),
            "You have local and global layers the other way round.",
        ),
        Misconception(
            "window for every token",
            _wrong_attention(
                pairs=_useful_pairs(
                    lambda shape, seq: (
                        shape.global_layers * _pairs_by_sum(seq)
                        + shape.local_layers * seq * min(seq, shape.sliding_window or seq)
                    )
                )
            ),
            "The first tokens cannot see a whole window: so many tokens do not stand before them.",
        ),
        Misconception(
            "multiplications alone",
            _wrong_attention(times=0.5),
            "You count the multiplications. Each product is also added to a sum: that is an operation too.",
        ),
        Misconception(
            "scores dropped",
            _wrong_attention(products=0),
            "You count the projections alone. The scores and the weighted sum of the values have no weights, but they "
            "are products of matrices too, and they grow with the square of `seq`.",
        ),
        Misconception(
            "scores without the values",
            _wrong_attention(products=1),
            "You count half of attention's work without weights. There are two products, queries with keys and scores with values; each "
            'multiplies and adds, and "executed" means all pairs of tokens.',
        ),
        Misconception(
            "executed within the window alone",
            _wrong_attention(
                pairs=_executed_pairs(
                    lambda shape, seq: (
                        shape.global_layers * seq**2
                        + shape.local_layers * seq * min(seq, shape.sliding_window or seq)
                    )
                )
            ),
            '"executed" means all pairs, in local layers too: the kernel computes them and hides those outside the window.',
        ),
        Misconception(
            "executed without what the mask hides",
            _wrong_attention(
                pairs=_executed_pairs(lambda shape, seq: shape.layers * _pairs_by_sum(seq))
            ),
            'You leave out the pairs after each token. "executed" means all of them: the kernel computes those that it hides as well.',
        ),
        Misconception(
            "window longer than the text",
            _wrong_attention(pairs=_useful_pairs(_unclipped)),
            "A window that is longer than the text changes nothing. What does your formula give then?",
        ),
        Misconception(
            "queries as wide as the hidden state",
            _wrong_attention(
                through=lambda shape, seq, right: (
                    right
                    + 4
                    * seq
                    * shape.layers
                    * shape.hidden
                    * (shape.hidden - shape.heads * shape.head_dim)
                )
            ),
            "The queries, and the input of the output projection, are `heads` · `head_dim` wide. In Gemma 3 that is not `hidden`.",
        ),
        Misconception(
            "values forgotten",
            _wrong_attention(projections=("q_proj", "k_proj", "o_proj")),
            "Keys have a matrix, and so have the values, of the same size.",
        ),
        Misconception(
            "projections' multiplications alone",
            _wrong_attention(through=lambda shape, seq, right: right / 2),
            "In the projections you count the multiplications. Each product is also added to a sum: that is an operation too.",
        ),
        Misconception(
            "projections of one layer",
            _wrong_attention(through=lambda shape, seq, right: right / shape.layers),
            "You count the projections of one layer. Each of the `shape.layers` layers has its own.",
        ),
        Misconception(
            "projections dropped",
            _wrong_attention(projections=()),
            "The four projections are missing: queries, keys, values and the output.",
        ),
        Misconception(
            "output projection forgotten",
            _wrong_attention(projections=_PROJECTIONS[:3]),
            "Attention has four projections. After q, k and v, one leads back to the hidden width.",
        ),
        Misconception(
            "head_dim taken as hidden / heads",
            _wrong_attention(
                misread=lambda shape: {"head_dim": max(1, shape.hidden // shape.heads)}
            ),
            "The width of a head is `shape.head_dim`. In Gemma 3 it is not `hidden / heads`.",
        ),
        Misconception(
            "as many key heads as query heads",
            _wrong_attention(misread=lambda shape: {"kv_heads": shape.heads}),
            "Keys and values have fewer heads than queries: their projections are narrower. See `shape.kv_heads`.",
        ),
        Misconception(
            "scores for the key heads alone",
            _wrong_attention(score_heads=lambda shape: shape.kv_heads),
            "Several query heads share one key head, but each of them has scores of its own.",
        ),
        Misconception(
            "scores of one head",
            _wrong_attention(score_heads=lambda shape: 1),
            "Each query head has scores of its own. Look at `shape.heads`.",
        ),
        Misconception(
            "one layer",
            _wrong_attention(misread=lambda shape: {"layers": 1, **_NO_WINDOW}),
            "That is one layer. The model has `shape.layers`.",
        ),
    ],
    also_right=[_attention_layer_by_layer, _attention_in_one_formula, _attention_as_matmuls],
)


# --- MLP ------------------------------------------------------------------------------------------


def _mlp_layer_by_layer(shape: Shape, seq: int) -> int:
    total = 0
    for _ in range(shape.layers):
        total += 2 * seq * shape.hidden * shape.intermediate
        if shape.gated:
            total += 2 * seq * shape.hidden * shape.intermediate
        total += 2 * seq * shape.intermediate * shape.hidden
    return total


def _mlp(matrices: Callable[[Shape], float], times: float = 2) -> Callable[[Shape, int], float]:
    """The MLPs' operations with so many matrices in each layer."""
    return lambda shape, seq: (
        times * matrices(shape) * seq * shape.layers * shape.hidden * shape.intermediate
    )


mlp_flops = Check(
    reference=flops.mlp_flops,
    public=[case(TOY, 5), case(SHOWN[0], 1024), case(SHOWN[1], 1), case(model_shape("gpt2"), 1024)],
    hidden=lambda draw: [
        case(shape, draw.log_integer(2, 9000)) for shape in (*_shapes(draw), _draw_shape(draw))
    ],
    tolerance=ROUNDING,
    misconceptions=[
        Misconception(
            "multiplications alone",
            _mlp(lambda shape: 2 + shape.gated, times=1),
            "You count the multiplications. Each product is also added to a sum: that is an operation too.",
        ),
        Misconception(
            "gate forgotten",
            _mlp(lambda shape: 2),
            "A gated MLP has three matrices: gate, up and down. Look at `shape.gated`.",
        ),
        Misconception(
            "gate always counted",
            _mlp(lambda shape: 3),
            "Not every MLP has a gate. Look at `shape.gated`.",
        ),
        Misconception(
            "down projection forgotten",
            _mlp(lambda shape: 1 + shape.gated),
            "After gate and up, one matrix leads back to the hidden width.",
        ),
        Misconception(
            "four times the hidden width",
            lambda shape, seq: 2 * (2 + shape.gated) * seq * shape.layers * 4 * shape.hidden**2,
            "The MLP is `shape.intermediate` wide. Four times the hidden width is GPT-2's choice.",
        ),
        Misconception(
            "one layer",
            lambda shape, seq: 2 * (2 + shape.gated) * seq * shape.hidden * shape.intermediate,
            "That is one layer. The model has `shape.layers`.",
        ),
        Misconception(
            "one token",
            lambda shape, seq: (
                2 * (2 + shape.gated) * shape.layers * shape.hidden * shape.intermediate
            ),
            "That is one token. Every token of the sequence passes through the MLP.",
        ),
    ],
    also_right=[
        _mlp_layer_by_layer,
        lambda shape, seq: (
            2.0 * seq * (3 if shape.gated else 2) * shape.hidden * shape.intermediate * shape.layers
        ),
        lambda shape, seq: 2 * seq * sum(layer.weights for layer in mlp_layers(shape)),
    ],
)


# --- forward --------------------------------------------------------------------------------------


def _head(shape: Shape, tokens: float) -> float:
    return 2 * tokens * shape.hidden * shape.vocab


def _wrong_forward(
    *,
    attention: Callable[..., float] = _attention_in_one_formula,
    mlp: Callable[[Shape, int], float] = _mlp_layer_by_layer,
    head: Callable[[Shape, int], float] = _head,
    sequences: Callable[[int], int] = lambda batch: batch,
    times: float = 1,
) -> Callable[..., float]:
    """`forward_flops` with one of its steps changed."""

    def forward_flops(shape: Shape, batch: int, seq: int, count: str = "executed") -> float:
        one = attention(shape, seq, count) + mlp(shape, seq) + head(shape, seq)
        return times * sequences(batch) * one

    return forward_flops


def _forward_as_one_long_sequence(
    shape: Shape, batch: int, seq: int, count: str = "executed"
) -> float:
    return _wrong_forward()(shape, 1, batch * seq, count)


def _forward_by_weights(shape: Shape, batch: int, seq: int, count: str = "executed") -> float:
    """Two operations for each weight that a token meets, and the scores."""
    weights = sum(layer.weights for layer in [*attention_layers(shape), *mlp_layers(shape)])
    tokens = batch * seq
    scores = 4 * shape.heads * shape.head_dim * _right_pairs(shape, seq, count)
    return 2 * tokens * (weights + shape.vocab * shape.hidden) + batch * scores


def _forward_token_by_token(shape: Shape, batch: int, seq: int, count: str = "executed") -> float:
    """What one sequence takes, as often as there are sequences, the head row by row."""
    total = 0.0
    for _ in range(batch):
        total += _attention_layer_by_layer(shape, seq, count) + _mlp_layer_by_layer(shape, seq)
        total += seq * _matmul_by_rows(1, shape.hidden, shape.vocab)
    return total


def _forward_of_parts(shape: Shape, batch: int, seq: int, count: str = "executed") -> float:
    return batch * sum(
        (
            _attention_as_matmuls(shape, seq, count),
            flops.mlp_flops(shape, seq),
            flops.head_flops(shape, seq),
        )
    )


def _hidden_forward(draw: Draw) -> list[Case]:
    counted = [
        case(shape, batch, seq) for shape in COUNTED for batch, seq in draw.some(COUNTED_FORWARD, 2)
    ]
    cases = part(ALL_PAIRS, counted)
    for shape in _shapes(draw):
        sizes = (draw.integer(2, 7), draw.integer(320, 4000))
        cases += part(ALL_PAIRS, [case(shape, *sizes)])
        cases += part(USEFUL, [case(shape, *sizes, "useful")])
    return cases


forward_flops = Check(
    reference=flops.forward_flops,
    public=[
        *part(
            ALL_PAIRS,
            [
                case(TOY, 1, 5),
                case(TOY, 3, 5),
                case(SHOWN[0], 1, 512),
                case(SHOWN[1], 2, 1024),
                case(replace(TOY, tied=False), 1, 5),
            ],
        ),
        *part(USEFUL, [case(TOY, 3, 5, "useful"), case(SHOWN[1], 1, 8192, "useful")]),
    ],
    hidden=_hidden_forward,
    tolerance=ROUNDING,
    parts={ALL_PAIRS: 0.7, USEFUL: 0.3},
    misconceptions=[
        Misconception(
            "tied head dropped",
            _wrong_forward(head=lambda shape, seq: 0 if shape.tied else _head(shape, seq)),
            "A tied head shares the embedding's weights, not its work: each token is still multiplied by them.",
        ),
        Misconception(
            "head forgotten",
            _wrong_forward(head=lambda shape, seq: 0),
            "The output head is missing: a product with a matrix of `hidden` × `vocab` for every token.",
        ),
        Misconception(
            "embedding lookup billed",
            _wrong_forward(head=lambda shape, seq: 2 * _head(shape, seq)),
            "The embedding is a lookup: it reads a row and multiplies nothing. It takes no FLOPs.",
        ),
        Misconception(
            "head for the last token alone",
            _wrong_forward(head=lambda shape, seq: _head(shape, 1)),
            "You compute the head for one token. That is what reading a prompt needs; in training each token has logits.",
        ),
        Misconception(
            "batch ignored",
            _wrong_forward(sequences=lambda batch: 1),
            "That is one sequence. Look at `batch`.",
        ),
        Misconception(
            "batch as one long sequence",
            _forward_as_one_long_sequence,
            "You treat the batch as one long sequence. Tokens of different sequences do not attend to one another.",
        ),
        Misconception(
            "scores dropped",
            _wrong_forward(attention=_wrong_attention(products=0)),
            "The part of attention that has no weights is missing. It grows with the square of `seq`.",
        ),
        Misconception(
            "2 · N · tokens",
            lambda shape, batch, seq, count="executed": 2 * parameter_count(shape) * batch * seq,
            "Two operations for each parameter and token is a rule of thumb. It has no attention scores, counts norms and "
            "biases, and an embedding that is not tied.",
        ),
        Misconception(
            "count ignored",
            _wrong_forward(
                attention=lambda shape, seq, count: _attention_in_one_formula(shape, seq)
            ),
            "Your answer does not change with `count`. Pass it on to attention.",
        ),
        Misconception(
            "causal halving assumed",
            _wrong_forward(
                attention=lambda shape, seq, count: _attention_in_one_formula(shape, seq, "useful")
            ),
            'You always leave out the pairs that the mask hides. By default, "executed", all of them count.',
        ),
        Misconception(
            "multiplications alone",
            _wrong_forward(times=0.5),
            "You count the multiplications. Each product is also added to a sum: that is an operation too.",
        ),
        Misconception(
            "head_dim taken as hidden / heads",
            _wrong_forward(
                attention=_wrong_attention(
                    misread=lambda shape: {"head_dim": max(1, shape.hidden // shape.heads)}
                )
            ),
            "The width of a head is `shape.head_dim`. In Gemma 3 it is not `hidden / heads`.",
        ),
        Misconception(
            "as many key heads as query heads",
            _wrong_forward(
                attention=_wrong_attention(misread=lambda shape: {"kv_heads": shape.heads})
            ),
            "Keys and values have fewer heads than queries: their projections are narrower. See `shape.kv_heads`.",
        ),
        Misconception(
            "MLP forgotten",
            _wrong_forward(mlp=lambda shape, seq: 0),
            "The MLPs are missing.",
        ),
    ],
    also_right=[_forward_by_weights, _forward_token_by_token, _forward_of_parts],
)


# --- training -------------------------------------------------------------------------------------


def _draw_run(draw: Draw) -> Case:
    # As floats: NumPy's whole numbers end before the operations of a large run do.
    return case(float(draw.log_integer(10**7, 10**12)), float(draw.log_integer(10**9, 10**13)))


training_flops_6nd = Check(
    reference=flops.training_flops_6nd,
    # GPT-3 (Brown et al., table D.1), PaLM (Epoch AI, from the paper), and the running example.
    public=[case(174.6e9, 300e9), case(540e9, 780e9), case(3_880_099_328, 1_000_000)],
    hidden=lambda draw: [_draw_run(draw) for _ in range(6)],
    tolerance=ROUNDING,
    misconceptions=[
        Misconception(
            "forward pass alone",
            lambda params, tokens: 2 * params * tokens,
            "That is the forward pass. The backward pass comes on top.",
        ),
        Misconception(
            "backward = forward",
            lambda params, tokens: 4 * params * tokens,
            "The backward pass makes two products for each one of the forward pass.",
        ),
        Misconception(
            "multiplications alone",
            lambda params, tokens: 3 * params * tokens,
            "You count the multiplications. Each product is also added to a sum: that is an operation too.",
        ),
        Misconception(
            "recomputation billed",
            lambda params, tokens: 8 * params * tokens,
            "You count a second forward pass. Only checkpointing makes one, and the rule of thumb leaves it out.",
        ),
        Misconception(
            "tokens forgotten",
            lambda params, tokens: 6 * params,
            "That is one token.",
        ),
        Misconception(
            "in petaflop/s-days",
            lambda params, tokens: 6 * params * tokens / 8.64e19,
            "Return the number of operations itself, not petaflop/s-days.",
        ),
    ],
    also_right=[
        lambda params, tokens: (2 + 4) * (params * tokens),
        lambda params, tokens: 2.0 * params * tokens + 4.0 * params * tokens,
        lambda params, tokens: 3 * flops.matmul_flops(tokens, params, 1),
    ],
)


def _scores(shape: Shape, seq: int) -> float:
    return 4 * shape.heads * shape.head_dim * _right_pairs(shape, seq, "executed")


def _wrong_training(
    *,
    forward: Callable[..., float] = _forward_by_weights,
    scores: Callable[[Shape, int], float] = _scores,
    full: Callable[[float, float], float] = lambda ahead, scores: 2 * ahead,
    frozen: Callable[[float, float], float] = lambda ahead, scores: ahead + scores,
    recomputed: Callable[[float, float, float], float] = lambda ahead, head, scores: ahead - head,
    head: Callable[[Shape, int], float] = _head,
) -> Callable[..., float]:
    """`training_flops` with one of its steps changed; `full` and `frozen` are backward passes."""

    def training_flops(
        shape: Shape, batch: int, seq: int, method: str = "full", checkpointing: bool = False
    ) -> float:
        ahead, pairs = forward(shape, batch, seq), batch * scores(shape, seq)
        back = full(ahead, pairs) if method == "full" else frozen(ahead, pairs)
        again = recomputed(ahead, batch * head(shape, seq), pairs) if checkpointing else 0
        return ahead + back + again

    return training_flops


class _Step(NamedTuple):
    """A step's batch, and what the parts of its forward pass take."""

    batch: int
    attention: float
    mlp: float
    head: float
    scores: float


def _wrong_parts(
    frozen: Callable[[_Step], float] = lambda step: (
        step.attention + step.mlp + step.head + step.scores
    ),
    recomputed: Callable[[_Step], float] = lambda step: step.attention + step.mlp,
) -> Callable[..., float]:
    """`training_flops` with the backward pass of LoRA or the recomputation changed."""

    def training_flops(
        shape: Shape, batch: int, seq: int, method: str = "full", checkpointing: bool = False
    ) -> float:
        _checked_method(method)
        parts = (
            _attention_in_one_formula(shape, seq),
            _mlp_layer_by_layer(shape, seq),
            _head(shape, seq),
            _scores(shape, seq),
        )
        step = _Step(batch, *(batch * each for each in parts))
        ahead = step.attention + step.mlp + step.head
        back = 2 * ahead if method == "full" else frozen(step)
        return ahead + back + (recomputed(step) if checkpointing else 0)

    return training_flops


def _checked_method(method: str) -> None:
    if method not in ("full", "lora", "qlora"):
        raise ValueError(f"method is {method}")


def _training_by_products(
    shape: Shape, batch: int, seq: int, method: str = "full", checkpointing: bool = False
) -> float:
    """How often each product is made, times what it takes."""
    _checked_method(method)
    with_weights = 3 if method == "full" else 2
    again = 1 if checkpointing else 0
    weights = sum(layer.weights for layer in [*attention_layers(shape), *mlp_layers(shape)])
    blocks = (with_weights + again) * 2 * seq * weights
    scores = (3 + again) * _scores(shape, seq)
    return batch * (blocks + scores + with_weights * _head(shape, seq))


def _training_as_float(
    shape: Shape, batch: int, seq: int, method: str = "full", checkpointing: bool = False
) -> float:
    _checked_method(method)
    return float(_wrong_training()(shape, batch, seq, method, checkpointing))


def _training_of_blocks(
    shape: Shape, batch: int, seq: int, method: str = "full", checkpointing: bool = False
) -> float:
    _checked_method(method)
    blocks = batch * (flops.attention_flops(shape, seq) + flops.mlp_flops(shape, seq))
    total = 2 * (blocks + batch * flops.head_flops(shape, seq))
    total += total / 2 if method == "full" else batch * flops.score_flops(shape, seq)
    return total + checkpointing * blocks


def _hidden_training(draw: Draw) -> list[Case]:
    cases: list[Case] = []
    for shape in COUNTED:
        batch, seq, method, checkpointing = draw.one(COUNTED_STEPS[:3])
        cases += part(FULL, [case(shape, batch, seq, method, checkpointing)])
        cases += part(CHECKPOINTED, [case(shape, *COUNTED_STEPS[3])])
    for shape in _shapes(draw):
        batch, seq = draw.integer(2, 7), draw.integer(320, 4000)
        cases += part(FULL, [case(shape, batch, seq)])
        cases += part(CHECKPOINTED, [case(shape, batch, seq, checkpointing=True)])
        method = draw.one(("lora", "qlora"))
        lora = [case(shape, batch, seq, method), case(shape, batch, seq + 1, method, True)]
        cases += part(LORA, lora)
        cases += part(BAD_INPUT, [case(shape, batch, seq, draw.one(UNKNOWN_METHODS))])
    return cases


training_flops = Check(
    reference=flops.training_flops,
    public=[
        *part(FULL, [case(TOY, 1, 5), case(SHOWN[0], 1, 512), case(SHOWN[1], 2, 1024)]),
        *part(
            CHECKPOINTED,
            [
                case(TOY, 1, 5, "full", True),
                case(TOY, 3, 5, "full", True),
                case(SHOWN[1], 1, 2048, "full", True),
            ],
        ),
        *part(
            LORA,
            [
                case(TOY, 1, 5, "lora"),
                case(TOY, 3, 5, "lora"),
                case(SHOWN[0], 1, 1024, "lora"),
                case(SHOWN[1], 2, 512, "qlora", True),
            ],
        ),
        *part(BAD_INPUT, [case(TOY, 1, 5, "adapter")]),
    ],
    hidden=_hidden_training,
    tolerance=ROUNDING,
    parts={FULL: 0.4, CHECKPOINTED: 0.2, LORA: 0.3, BAD_INPUT: 0.1},
    misconceptions=[
        Misconception(
            "accepts bad input",
            _wrong_training(),
            "The numbers are right, but an unknown `method` is accepted. Raise ValueError for it.",
        ),
        Misconception(
            "forward pass alone",
            _wrong_training(full=lambda ahead, scores: 0, frozen=lambda ahead, scores: 0),
            "That is the forward pass. The backward pass comes on top.",
        ),
        Misconception(
            "backward = forward",
            _wrong_training(full=lambda ahead, scores: ahead, frozen=lambda ahead, scores: ahead),
            "A product has two factors, and both need a gradient: two products backward for each one forward. Under LoRA "
            "that still holds for the scores, which have no frozen factor.",
        ),
        Misconception(
            "LoRA as full training",
            _wrong_training(frozen=lambda ahead, scores: 2 * ahead),
            "Under LoRA the weights are frozen, so no gradient of them is computed. One of the two products falls away.",
        ),
        Misconception(
            "scores treated as frozen",
            _wrong_training(frozen=lambda ahead, scores: ahead),
            "Attention's scores have no weights to freeze: queries, keys and values all need their gradients, under LoRA "
            "too.",
        ),
        Misconception(
            "scores of one sequence under LoRA",
            _wrong_parts(
                frozen=lambda step: step.attention + step.mlp + step.head + step.scores / step.batch
            ),
            "Under LoRA you add the scores of one sequence. Each sequence of the batch has its own.",
        ),
        Misconception(
            "all of attention doubled under LoRA",
            _wrong_parts(frozen=lambda step: 2 * step.attention + step.mlp + step.head),
            "Attention's four projections have frozen weights as well. Only the two products without weights need both gradients.",
        ),
        Misconception(
            "one sequence recomputed",
            _wrong_parts(recomputed=lambda step: (step.attention + step.mlp) / step.batch),
            "You recompute one sequence. The layers run again for the whole batch.",
        ),
        Misconception(
            "the MLP alone recomputed",
            _wrong_parts(recomputed=lambda step: step.mlp),
            "A layer is attention and MLP. Both run once more.",
        ),
        Misconception(
            "attention alone recomputed",
            _wrong_parts(recomputed=lambda step: step.attention),
            "A layer is attention and MLP. Both of them run once more.",
        ),
        Misconception(
            "LoRA without a backward pass",
            _wrong_training(frozen=lambda ahead, scores: 0),
            "Under LoRA the gradient still has to travel back through every frozen layer to reach the adapters below it.",
        ),
        Misconception(
            "checkpointing without recomputation",
            _wrong_training(recomputed=lambda ahead, head, scores: 0),
            "Checkpointing saves memory and costs work: the blocks run forward once more.",
        ),
        Misconception(
            "head recomputed",
            _wrong_training(recomputed=lambda ahead, head, scores: ahead),
            "Checkpointing recomputes the blocks. The output head is not one of them.",
        ),
        Misconception(
            "scores not recomputed",
            _wrong_training(recomputed=lambda ahead, head, scores: ahead - head - scores),
            "A recomputed block computes its attention scores again too.",
        ),
        Misconception(
            "checkpointing doubles the step",
            _wrong_training(recomputed=lambda ahead, head, scores: 3 * ahead),
            "Only the blocks' forward pass is made again, not the whole step.",
        ),
        Misconception(
            "tied head dropped",
            _wrong_training(
                forward=_wrong_forward(
                    head=lambda shape, seq: 0 if shape.tied else _head(shape, seq)
                ),
                head=lambda shape, seq: 0 if shape.tied else _head(shape, seq),
            ),
            "A tied head shares the embedding's weights, not its work.",
        ),
        Misconception(
            "embedding lookup billed",
            _wrong_training(forward=_wrong_forward(head=lambda shape, seq: 2 * _head(shape, seq))),
            "The embedding is a lookup: it reads a row and multiplies nothing. It takes no FLOPs.",
        ),
        Misconception(
            "scores dropped",
            _wrong_training(
                forward=_wrong_forward(attention=_wrong_attention(products=0)),
                scores=lambda shape, seq: 0,
            ),
            "The part of attention that has no weights is missing. It grows with the square of `seq`.",
        ),
        Misconception(
            "causal halving assumed",
            _wrong_training(
                forward=lambda shape, batch, seq: _forward_by_weights(shape, batch, seq, "useful"),
                scores=lambda shape, seq: (
                    4 * shape.heads * shape.head_dim * _right_pairs(shape, seq, "useful")
                ),
            ),
            "You leave out the pairs that the mask hides. Here all pairs count, as kernels without masking compute them.",
        ),
        Misconception(
            "6 · N · tokens",
            lambda shape, batch, seq, method="full", checkpointing=False: (
                6 * parameter_count(shape) * batch * seq
            ),
            "That is the rule of thumb. It knows no attention scores, no checkpointing and no LoRA.",
        ),
        Misconception(
            "batch ignored",
            lambda shape, batch, seq, method="full", checkpointing=False: _wrong_training()(
                shape, 1, seq, method, checkpointing
            ),
            "That is one sequence. Look at `batch`.",
        ),
    ],
    also_right=[_training_by_products, _training_as_float, _training_of_blocks],
)


# --- time -----------------------------------------------------------------------------------------


def _draw_peak(draw: Draw) -> float:
    return draw.real(20, 2000) * 1e12


def _seconds_in_two_steps(flops: float, peak_flops_per_s: float, mfu: float) -> float:
    if mfu <= 0 or mfu > 1:
        raise ValueError("mfu is no fraction")
    at_peak = flops / peak_flops_per_s
    return at_peak / mfu


def _seconds_by_fraction(flops: float, peak_flops_per_s: float, mfu: float) -> Fraction:
    if not 0 < mfu <= 1:
        raise ValueError(mfu)
    return Fraction(flops) / Fraction(peak_flops_per_s) / Fraction(mfu)


class _NoFractionError(ValueError):
    """An error of a learner's own, which is a ValueError too."""


def _seconds_with_own_error(flops: float, peak_flops_per_s: float, mfu: float) -> float:
    if not 0 < mfu <= 1:
        raise _NoFractionError(mfu)
    return flops * (1 / mfu) / peak_flops_per_s


def _hidden_seconds(draw: Draw) -> list[Case]:
    def run() -> tuple[float, float]:
        return float(draw.log_integer(10**12, 10**25)), _draw_peak(draw)

    cases = [case(*run(), draw.real(0.05, 0.9)) for _ in range(5)]
    bad = [draw.real(1.5, 99), -draw.real(0.1, 1), 0]
    return part(NUMBERS, [*cases, case(*run(), 1)]) + part(
        BAD_INPUT, [case(*run(), mfu) for mfu in bad]
    )


training_seconds = Check(
    reference=roofline.training_seconds,
    public=[
        *part(NUMBERS, [case(6e15, 60e12, 0.5), case(3.14e23, 312e12, 0.4), case(1e15, 65e12, 1)]),
        *part(BAD_INPUT, [case(6e15, 60e12, 40), case(6e15, 60e12, 0), case(6e15, 60e12, -0.5)]),
    ],
    hidden=_hidden_seconds,
    tolerance=ROUNDING,
    parts={NUMBERS: 0.8, BAD_INPUT: 0.2},
    misconceptions=[
        Misconception(
            "accepts bad input",
            lambda flops, peak_flops_per_s, mfu: flops / (peak_flops_per_s * mfu),
            "The seconds are right, but 0, a negative number or a percentage is accepted for `mfu`. Raise ValueError for "
            "all three.",
        ),
        Misconception(
            "negative utilization accepted",
            lambda flops, peak_flops_per_s, mfu: (
                roofline.training_seconds(flops, peak_flops_per_s, mfu if mfu >= 0 else -mfu)
                * (1 if mfu >= 0 else -1)
            ),
            "A negative `mfu` gives negative seconds. Refuse whatever is not above 0.",
        ),
        Misconception(
            "percentage",
            lambda flops, peak_flops_per_s, mfu: flops / (peak_flops_per_s * mfu / 100),
            "`mfu` is a fraction: half of the peak is 0.5. You treat it as a percentage.",
        ),
        Misconception(
            "utilization ignored",
            lambda flops, peak_flops_per_s, mfu: flops / peak_flops_per_s,
            "That is the time at the full peak. Nothing reaches it: look at `mfu`.",
        ),
        Misconception(
            "utilization multiplied",
            lambda flops, peak_flops_per_s, mfu: flops / peak_flops_per_s * mfu,
            "With a lower utilization the run should take longer. Yours gets shorter.",
        ),
        Misconception(
            "upside down",
            lambda flops, peak_flops_per_s, mfu: peak_flops_per_s * mfu / flops,
            "You divided the speed by the work. Twice the work takes twice as long.",
        ),
        Misconception(
            "sparse peak",
            lambda flops, peak_flops_per_s, mfu: flops / (2 * peak_flops_per_s * mfu),
            "You doubled the peak, as vendors do for sparse matrices. Take it as it is given.",
        ),
        Misconception(
            "in hours",
            lambda flops, peak_flops_per_s, mfu: flops / (peak_flops_per_s * mfu) / 3600,
            "Return seconds, not hours.",
        ),
        Misconception(
            "peak in TFLOP/s",
            lambda flops, peak_flops_per_s, mfu: flops / (peak_flops_per_s * 1e12 * mfu),
            "`peak_flops_per_s` is in FLOP/s already, not in TFLOP/s.",
        ),
    ],
    also_right=[_seconds_in_two_steps, _seconds_by_fraction, _seconds_with_own_error],
)

# PaLM on 6,144 chips of 275 TFLOP/s, one second: 238,300 tokens (Chowdhery et al., sections 4, 5.2
# and appendix B; 118 layers of 48 heads of 256, 2,048 tokens a sequence).
_PALM = (238_300 * (6 * 540.35e9 + 12 * 118 * 48 * 256 * 2048), 1, 6144 * 275e12)

model_flops_utilization = Check(
    reference=roofline.model_flops_utilization,
    public=[
        case(6e15, 200, 60e12),
        case(*_PALM),
        case(3.14e23, 2.5e9, 312e12),
        case(6e15, 80, 60e12),
    ],
    hidden=lambda draw: (
        [
            case(
                (seconds := draw.real(2, 90_000))
                * (peak := _draw_peak(draw))
                * draw.real(0.05, 0.7),
                seconds,
                peak,
            )
            for _ in range(5)
        ]
        + [case(draw.real(1.1, 3) * 1e15, 10.0, 1e14)]
    ),
    tolerance=ROUNDING,
    misconceptions=[
        Misconception(
            "percentage",
            lambda flops, seconds, peak_flops_per_s: 100 * flops / seconds / peak_flops_per_s,
            "Return a fraction, not a percentage: half of the peak is 0.5.",
        ),
        Misconception(
            "cut off at 1",
            lambda flops, seconds, peak_flops_per_s: min(1, flops / seconds / peak_flops_per_s),
            "You cut off what is above 1. Such a share is impossible, and tells that an argument was wrong: return it as it is.",
        ),
        Misconception(
            "upside down",
            lambda flops, seconds, peak_flops_per_s: peak_flops_per_s * seconds / flops,
            "You divided what was possible by what was reached. It is the other way round.",
        ),
        Misconception(
            "speed reached",
            lambda flops, seconds, peak_flops_per_s: flops / seconds,
            "That is the speed that was reached, in FLOP/s. What share of the peak is it?",
        ),
        Misconception(
            "seconds at the peak",
            lambda flops, seconds, peak_flops_per_s: flops / peak_flops_per_s,
            "That is the time the work would take at the peak. What share is it of the time it took?",
        ),
        Misconception(
            "sparse peak",
            lambda flops, seconds, peak_flops_per_s: flops / seconds / (2 * peak_flops_per_s),
            "You doubled the peak, as vendors do for sparse matrices. Take it as it is given.",
        ),
        Misconception(
            "speed in TFLOP/s",
            lambda flops, seconds, peak_flops_per_s: flops / 1e12 / seconds / peak_flops_per_s,
            "You divide TFLOP/s by FLOP/s. Bring both to one unit.",
        ),
    ],
    also_right=[
        lambda flops, seconds, peak_flops_per_s: (flops / peak_flops_per_s) / seconds,
        lambda flops, seconds, peak_flops_per_s: flops / (seconds * peak_flops_per_s),
        lambda flops, seconds, peak_flops_per_s: (
            (flops / 1e12) / (peak_flops_per_s / 1e12) / seconds
        ),
    ],
)


# --- roofline -------------------------------------------------------------------------------------

arithmetic_intensity = Check(
    reference=roofline.arithmetic_intensity,
    public=[case(48, 52), case(2 * 3.88e9, 2 * 3.88e9), case(1e12, 8e9)],
    hidden=lambda draw: [
        case(float(draw.log_integer(10**7, 10**16)), float(draw.log_integer(10**5, 10**12)))
        for _ in range(6)
    ],
    tolerance=ROUNDING,
    misconceptions=[
        Misconception(
            "upside down",
            lambda flops, bytes_moved: bytes_moved / flops,
            "That is bytes for each operation. Intensity is the other way round.",
        ),
        Misconception(
            "bits for bytes",
            lambda flops, bytes_moved: flops / (8 * bytes_moved),
            "Divide by the bytes that are given, not by their bits.",
        ),
        Misconception(
            "rounded down",
            lambda flops, bytes_moved: flops // bytes_moved,
            "You cut off what comes after the point. Below 1 nothing is left.",
        ),
        Misconception(
            "multiplied",
            lambda flops, bytes_moved: flops * bytes_moved,
            "Divide: intensity is operations for each byte.",
        ),
        Misconception(
            "operations alone",
            lambda flops, bytes_moved: flops,
            "Your answer does not change with the bytes that move.",
        ),
    ],
    also_right=[
        lambda flops, bytes_moved: Fraction(flops) / Fraction(bytes_moved),
        lambda flops, bytes_moved: 1 / (bytes_moved / flops),
        lambda flops, bytes_moved: float(flops) * bytes_moved**-1,
    ],
)

# How far from the ridge: far below and above, and within the factors that mistakes make.
_FROM_RIDGE = ((1e-4, 2e-4), (0.05, 0.1), (0.55, 0.9), (1.1, 1.8), (3, 7), (40, 90))


def _hidden_bound(draw: Draw) -> list[Case]:
    cases = []
    for low, high in draw.shuffled(_FROM_RIDGE):
        peak, bandwidth = _draw_peak(draw), draw.real(200, 4000) * 1e9
        bytes_moved = float(draw.log_integer(10**6, 10**11))
        at_ridge = bytes_moved * peak / bandwidth
        cases.append(case(draw.real(low, high) * at_ridge, bytes_moved, peak, bandwidth))
    # At the ridge itself, in whole numbers that floats hold exactly.
    ridge, bandwidth, bytes_moved = draw.integer(50, 400), draw.integer(2, 40) * 1e11, 10.0**9
    return [*cases, case(ridge * bytes_moved, bytes_moved, ridge * bandwidth, bandwidth)]


def _bound_by_ridge(
    flops: float, bytes_moved: float, peak_flops_per_s: float, bandwidth_bytes_per_s: float
) -> bool:
    return flops / bytes_moved < peak_flops_per_s / bandwidth_bytes_per_s


def _bound_by_products(
    flops: float, bytes_moved: float, peak_flops_per_s: float, bandwidth_bytes_per_s: float
) -> bool:
    return not flops * bandwidth_bytes_per_s >= bytes_moved * peak_flops_per_s


def _bound_by_the_slower(
    flops: float, bytes_moved: float, peak_flops_per_s: float, bandwidth_bytes_per_s: float
) -> bool:
    times = {"compute": flops / peak_flops_per_s, "memory": bytes_moved / bandwidth_bytes_per_s}
    return max(times, key=lambda name: times[name]) == "memory"


is_memory_bound = Check(
    reference=roofline.is_memory_bound,
    public=[
        case(3e9, 5e9, 60e12, 300e9),
        case(4000e9, 5e9, 60e12, 300e9),
        case(6e12, 30e9, 60e12, 300e9),
        case(3000e9, 1e9, 65e12, 320e9),
        case(1e9, 4e9, 65e12, 320e9),
        case(150e9, 1e9, 65e12, 320e9),
        case(250e9, 1e9, 65e12, 320e9),
        case(250e9, 1e9, 989e12, 3350e9),
    ],
    hidden=_hidden_bound,
    misconceptions=[
        Misconception(
            "always memory-bound",
            lambda flops, bytes_moved, peak_flops_per_s, bandwidth_bytes_per_s: True,
            "You call every case memory-bound. With enough operations for each byte, the arithmetic takes longer.",
        ),
        Misconception(
            "never memory-bound",
            lambda flops, bytes_moved, peak_flops_per_s, bandwidth_bytes_per_s: False,
            "You call no case memory-bound. With few operations for each byte, the memory takes longer.",
        ),
        Misconception(
            "memory-bound at the ridge",
            lambda flops, bytes_moved, peak_flops_per_s, bandwidth_bytes_per_s: (
                bytes_moved / bandwidth_bytes_per_s >= flops / peak_flops_per_s
            ),
            "Where both take the same time, moving the bytes does not take longer.",
        ),
        Misconception(
            "upside down",
            lambda flops, bytes_moved, peak_flops_per_s, bandwidth_bytes_per_s: (
                bytes_moved / bandwidth_bytes_per_s < flops / peak_flops_per_s
            ),
            "It is the other way round: memory-bound means that moving the bytes takes longer.",
        ),
        Misconception(
            "operations compared with bytes",
            lambda flops, bytes_moved, peak_flops_per_s, bandwidth_bytes_per_s: bytes_moved > flops,
            "You compare operations with bytes. Compare times: how long does each take on this device?",
        ),
        Misconception(
            "bits for bytes",
            lambda flops, bytes_moved, peak_flops_per_s, bandwidth_bytes_per_s: (
                8 * bytes_moved / bandwidth_bytes_per_s > flops / peak_flops_per_s
            ),
            "Bytes and bytes a second are given: nothing needs to be turned into bits.",
        ),
        Misconception(
            "sparse peak",
            lambda flops, bytes_moved, peak_flops_per_s, bandwidth_bytes_per_s: (
                bytes_moved / bandwidth_bytes_per_s > flops / (2 * peak_flops_per_s)
            ),
            "You doubled the peak, as vendors do for sparse matrices. Take it as it is given.",
        ),
    ],
    also_right=[_bound_by_ridge, _bound_by_products, _bound_by_the_slower],
)
