"""Checks of exercise 11: speed, perplexity, bytes and operations of models of different sizes.

The cases of `forward_flops_2nd` are real models reading short texts. Expected is PyTorch's own count
of what they take, which `solutions.flops.forward_flops` gives to the last operation; the rule of thumb lies within
`COUNT_GAP` of it. `tests/checks/test_model_size_tradeoff.py` proves both.
"""

# ruff: noqa: ARG005 - it is the mistake of many a wrong answer that it ignores an argument

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from statistics import geometric_mean
from typing import Any

from gradelib.checks import Case, Check, Misconception, case, measured, part
from gradelib.compare import relative
from gradelib.draw import Draw
from gradelib.shapes import Shape
from solutions import flops, memory, roofline, tradeoff
from solutions.dtypes import bits
from solutions.parameters import parameter_count

NUMBERS = "numbers"
BAD_INPUT = "bad input"
# A quotient depends on the order of its steps.
ROUNDING = relative(1e-9)
# `torch.exp` of a float32 number is right to about seven digits.
SINGLE_PRECISION = relative(1e-5)

# --- tokens per second --------------------------------------------------------------------------


def _speed_checked_by_hand(tokens: float, seconds: float) -> float:
    if seconds <= 0:
        raise ValueError("no time has passed")
    if tokens < 0:
        raise ValueError("fewer than no tokens")
    return tokens / seconds


def _speed_by_time_per_token(tokens: float, seconds: float) -> float:
    if min(tokens, seconds) < 0 or seconds == 0:
        raise ValueError((tokens, seconds))
    return 0 if tokens == 0 else 1 / (seconds / tokens)


def _speed_by_fraction(tokens: float, seconds: float) -> Fraction:
    if not (tokens >= 0 and seconds > 0):
        raise ValueError(tokens, seconds)
    return Fraction(tokens) / Fraction(seconds)


def _hidden_speeds(draw: Draw) -> list[Case]:
    runs = [case(draw.integer(3, 9000), draw.real(0.2, 700)) for _ in range(5)]
    slow = case(draw.integer(1, 9), draw.real(10, 90))
    bad = [
        case(draw.integer(1, 900), 0),
        case(draw.integer(1, 900), -draw.real(0.1, 9)),
        case(-draw.integer(1, 900), draw.real(0.1, 9)),
    ]
    return part(NUMBERS, [*runs, slow, case(0, draw.real(1, 9))]) + part(BAD_INPUT, bad)


def _speed_unless(refused: Callable[[float, float], bool]) -> Callable[[float, float], float]:
    """The right speed, which refuses some of the bad input."""

    def wrong(tokens: float, seconds: float) -> float:
        if refused(tokens, seconds):
            raise ValueError((tokens, seconds))
        return tokens / seconds

    return wrong


tokens_per_second = Check(
    reference=tradeoff.tokens_per_second,
    public=[
        *part(NUMBERS, [case(150, 12), case(60, 90), case(7, 0.35), case(0, 4)]),
        *part(BAD_INPUT, [case(10, 0), case(10, -2), case(-10, 2)]),
    ],
    hidden=_hidden_speeds,
    tolerance=ROUNDING,
    parts={NUMBERS: 0.8, BAD_INPUT: 0.2},
    misconceptions=[
        Misconception(
            "checks nothing",
            lambda tokens, seconds: tokens / seconds,
            "The speed is right, but no bad input raises ValueError. If you do test it: is each condition enough by "
            "itself (`or`, not `and`)?",
        ),
        Misconception(
            "no tokens refused",
            _speed_unless(lambda tokens, seconds: tokens <= 0 or seconds <= 0),
            "You refuse 0 tokens. A model may have written nothing in that time: its speed is 0.",
        ),
        Misconception(
            "zero seconds alone refused",
            _speed_unless(lambda tokens, seconds: seconds == 0),
            "You refuse zero seconds. Negative seconds and negative tokens make no sense either.",
        ),
        Misconception(
            "negative seconds alone refused",
            _speed_unless(lambda tokens, seconds: seconds < 0),
            "You refuse negative seconds. Zero seconds and negative tokens make no sense either: raise ValueError.",
        ),
        Misconception(
            "negative tokens alone refused",
            _speed_unless(lambda tokens, seconds: tokens < 0),
            "You refuse negative tokens. Seconds that are not above 0 make no sense either: raise ValueError.",
        ),
        Misconception(
            "negative seconds accepted",
            _speed_unless(lambda tokens, seconds: tokens < 0 or seconds == 0),
            "You refuse zero seconds and negative tokens. Negative seconds make no sense either: raise ValueError.",
        ),
        Misconception(
            "negative tokens accepted",
            _speed_unless(lambda tokens, seconds: seconds <= 0),
            "A negative number of tokens makes no sense: raise ValueError.",
        ),
        Misconception(
            "negative numbers alone refused",
            _speed_unless(lambda tokens, seconds: tokens < 0 or seconds < 0),
            "In zero seconds nothing is written: raise ValueError for that too.",
        ),
        Misconception(
            "zero for bad input",
            lambda tokens, seconds: tokens / seconds if tokens >= 0 and seconds > 0 else 0.0,
            "You return a number for input that makes no sense. Whoever reads it takes it for a measurement: raise "
            "ValueError.",
        ),
        Misconception(
            "zero for zero seconds",
            lambda tokens, seconds: tokens / seconds if seconds else 0.0,
            "You return 0 for zero seconds. Whoever reads it takes the model for a slow one: raise ValueError.",
        ),
        Misconception(
            "zero for seconds that are not above 0",
            lambda tokens, seconds: tokens / seconds if seconds > 0 else 0.0,
            "You return a number where no time has passed, and take negative tokens. Neither makes sense: raise "
            "ValueError.",
        ),
        Misconception(
            "zero for zero seconds, the rest refused",
            lambda tokens, seconds: (
                0.0 if seconds == 0 else tradeoff.tokens_per_second(tokens, seconds)
            ),
            "You return 0 for zero seconds. A stopwatch that shows 0 has not measured anything: raise ValueError.",
        ),
        Misconception(
            "upside down",
            lambda tokens, seconds: seconds / tokens,
            "Those are the seconds for each token. How many tokens are there in one second?",
        ),
        Misconception(
            "multiplied",
            lambda tokens, seconds: tokens * seconds,
            "The longer it takes, the slower it is. Yours gets faster.",
        ),
        Misconception(
            "whole tokens alone",
            lambda tokens, seconds: tokens // seconds,
            "A speed need not be a whole number: do not cut the fraction off.",
        ),
        Misconception(
            "rounded",
            lambda tokens, seconds: round(tokens / seconds),
            "Do not round: a slow model would come out as standing still.",
        ),
        Misconception(
            "a minute for a second",
            lambda tokens, seconds: 60 * tokens / seconds,
            "That is the speed in a minute.",
        ),
        Misconception(
            "seconds taken as milliseconds",
            lambda tokens, seconds: 1000 * tokens / seconds,
            "The time is in seconds already, not in milliseconds.",
        ),
    ],
    also_right=[_speed_checked_by_hand, _speed_by_time_per_token, _speed_by_fraction],
)

# --- perplexity ---------------------------------------------------------------------------------


def _perplexity_as_power(mean_nll: float) -> float:
    if mean_nll < 0:
        raise ValueError("a probability above 1")
    return math.pow(math.e, mean_nll)


def _perplexity_of_the_mean_probability(mean_nll: float) -> float:
    if mean_nll < 0:
        raise ValueError(mean_nll)
    return 1 / geometric_mean([math.exp(-mean_nll)])


def _perplexity_through_bits(mean_nll: float) -> float:
    if not mean_nll >= 0:
        raise ValueError(mean_nll)
    return math.exp2(mean_nll / math.log(2))


def _positive_only(function: Callable[[float], float]) -> Callable[[float], float]:
    """A wrong perplexity that refuses what it should."""

    def wrong(mean_nll: float) -> float:
        if mean_nll < 0:
            raise ValueError(mean_nll)
        return function(mean_nll)

    return wrong


perplexity = Check(
    reference=tradeoff.perplexity,
    public=[
        *part(NUMBERS, [case(1.2), case(2.5), case(0)]),
        *part(BAD_INPUT, [case(-1.2)]),
    ],
    hidden=lambda draw: [
        *part(NUMBERS, [case(draw.real(low, low + 1)) for low in (0.05, 1.05, 2.05, 3.5, 5)]),
        *part(NUMBERS, [case(draw.real(8, 12))]),
        *part(BAD_INPUT, [case(-draw.real(0.01, 0.05)), case(-draw.real(1, 9))]),
    ],
    tolerance=SINGLE_PRECISION,
    parts={NUMBERS: 0.8, BAD_INPUT: 0.2},
    misconceptions=[
        Misconception(
            "negative mean accepted",
            math.exp,
            "The perplexity is right. But a negative mean would need a probability above 1: raise ValueError.",
        ),
        Misconception(
            "absolute value",
            lambda mean_nll: math.exp(abs(mean_nll)),
            "You drop the sign. A negative mean is somebody's mistake: raise ValueError rather than hide it.",
        ),
        Misconception(
            "zero refused",
            lambda mean_nll: tradeoff.perplexity(mean_nll or -1),
            "You refuse a mean of 0. It is that of a model which was always sure and right.",
        ),
        Misconception(
            "sign lost",
            lambda mean_nll: math.exp(-mean_nll),
            "That is a probability: it shrinks as the model gets worse. The mean is of *negative* logarithms "
            "already.",
        ),
        Misconception(
            "base 2",
            _positive_only(lambda mean_nll: 2.0**mean_nll),
            "The logarithms were natural ones, so the base is e. With 2 you take nats for bits.",
        ),
        Misconception(
            "base 10",
            _positive_only(lambda mean_nll: 10.0**mean_nll),
            "The logarithms were natural ones, so the base is e and not 10.",
        ),
        Misconception(
            "nothing undone",
            _positive_only(lambda mean_nll: mean_nll),
            "That is the mean itself. Perplexity undoes the logarithm.",
        ),
        Misconception(
            "turned into bits",
            _positive_only(lambda mean_nll: mean_nll / math.log(2)),
            "That is the same mean in bits. Perplexity undoes the logarithm.",
        ),
        Misconception(
            "logarithm once more",
            math.log,
            "You take a logarithm of a logarithm. Undo it instead.",
        ),
        Misconception(
            "mean taken for a probability",
            lambda mean_nll: math.exp(-math.log(mean_nll)),
            "You take the mean for a probability. It is a mean of negative logarithms already: no logarithm is left "
            "to take.",
        ),
        Misconception(
            "mean turned over",
            lambda mean_nll: 1 / mean_nll,
            "That would be right for a probability. The mean is of negative logarithms: undo the logarithm.",
        ),
        Misconception(
            "one too few",
            _positive_only(math.expm1),
            "One too few. A model that is always sure has one choice, so its perplexity is not 0.",
        ),
        Misconception(
            "e cut short",
            _positive_only(lambda mean_nll: 2.718**mean_nll),
            "The digits of e that you typed are too few. Python knows it: `math.e`, or `math.exp`.",
        ),
        Misconception(
            "rounded",
            _positive_only(lambda mean_nll: round(math.exp(mean_nll))),
            "Do not round: good models differ in the digits after the point.",
        ),
    ],
    also_right=[
        _perplexity_as_power,
        _perplexity_of_the_mean_probability,
        _perplexity_through_bits,
    ],
)

# --- bytes and operations, predicted ------------------------------------------------------------

GEMMA_4B = parameter_count(Shape.gemma3("4b"))
# The hidden counts: sizes and vocabularies that the notebook does not show.
SHOWN_SHAPES = tuple(Shape.gemma3(size) for size in ("270m", "1b", "4b"))
SHOWN_COUNTS = tuple(map(parameter_count, SHOWN_SHAPES))
HIDDEN_SHAPES = tuple(
    Shape.gemma3(size, vocab=vocab)
    for size in ("270m", "1b", "4b", "12b", "27b")
    for vocab in (262_208, 262_144)
    if size in ("12b", "27b") or vocab != 262_144
)
FORMATS = ("float32", "float16", "bfloat16", "int8")
COUNT_GAP = 0.02  # how far PyTorch's count lies from the rule of thumb, at most
SHORT = (16, 128)  # tokens of a short text, from and to


def _times(function: Callable[..., float], factor: float) -> Callable[..., float]:
    """The right answer, but for a factor."""
    return lambda *args: function(*args) * factor


def _bytes_by_cases(params: int, dtype: str) -> int:
    if params < 0:
        raise ValueError("negative")
    if dtype == "float32":
        return 4 * params
    if dtype in ("float16", "bfloat16"):
        return 2 * params
    if dtype == "int8":
        return params
    raise ValueError(dtype)


def _bytes_by_digits_of_the_name(params: int, dtype: str) -> float:
    if params < 0 or dtype not in FORMATS:
        raise ValueError((params, dtype))
    return params * int("".join(filter(str.isdigit, dtype))) / 8


def _bytes_by_sizes(params: int, dtype: str) -> Fraction:
    sizes = dict(zip(FORMATS, (4, 2, 2, 1), strict=True))
    if dtype not in sizes or not params >= 0:
        raise ValueError(f"{params} {dtype}; known: {', '.join(sizes)}")
    return Fraction(params * sizes[dtype])


def _always(width: float) -> Callable[[int, str], float]:
    """One width for every format, bad input refused."""
    return lambda params, dtype: memory.weight_bytes(params, dtype) / bits(dtype) * 8 * width


SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
# Formats that are not in the exercise's table, though PyTorch has them.
OTHER_SIZES = {"float64": 8, "int16": 2, "uint16": 2, "int64": 8}


def _bytes_named_by_nothing_known(params: int, dtype: str) -> float:
    return params * SIZES[dtype]


def _unless_negative(function: Callable[[int, str], float]) -> Callable[[int, str], float]:
    """A wrong number of bytes that refuses a negative count."""

    def wrong(params: int, dtype: str) -> float:
        if params < 0:
            raise ValueError(params)
        return function(params, dtype)

    return wrong


def _known_or(width: int) -> Callable[[int, str], float]:
    """The right number of bytes, and this width for an unknown format."""
    return lambda params, dtype: params * SIZES.get(dtype, width)


def _bytes_as_pytorch_says(params: int, dtype: str) -> float:
    sizes = SIZES | OTHER_SIZES
    if dtype not in sizes:
        raise AttributeError(dtype)  # as `getattr(torch, dtype)` does
    return params * sizes[dtype]


def _bytes_by_lenient_digits(params: int, dtype: str) -> float:
    return params * int("".join(filter(str.isdigit, dtype))) / 8


def _also_taken(*others: str) -> Callable[[int, str], float]:
    """The right answer, which takes some formats more."""
    return lambda params, dtype: (
        params * OTHER_SIZES[dtype]
        if dtype in others and params >= 0
        else memory.weight_bytes(params, dtype)
    )


UNKNOWN_ACCEPTED = "You give an unknown format the width of a known one. A typing error would pass unseen: raise ValueError."
BOTH_ACCEPTED = (
    "The bytes are right. A negative count and an unknown format have to raise ValueError."
)
NOT_IN_THE_TABLE = "You take formats that are not in the table. The task asks for ValueError there."


def _hidden_bytes(draw: Draw) -> list[Case]:
    counts = [parameter_count(shape) for shape in draw.some(HIDDEN_SHAPES, len(FORMATS))]
    real = [case(count, dtype) for count, dtype in zip(counts, draw.shuffled(FORMATS), strict=True)]
    other = case(draw.log_integer(10**5, 10**8), draw.one(FORMATS))
    none = case(0, draw.one(["float16", "bfloat16", "int8"]))
    bad = [case(-draw.integer(2, 10**6), draw.one(FORMATS))]
    bad += [case(counts[0], dtype) for dtype in ("float99", "uint16", "int64")]
    return part(NUMBERS, [*real, other, none]) + part(BAD_INPUT, bad)


weight_bytes = Check(
    reference=memory.weight_bytes,
    public=[
        *part(
            NUMBERS,
            [
                case(GEMMA_4B, "bfloat16"),
                case(GEMMA_4B, "float32"),
                case(1000, "float16"),
                case(1000, "int8"),
                case(0, "float32"),
            ],
        ),
        *part(
            BAD_INPUT,
            [
                case(-1000, "float32"),
                *(case(1000, dtype) for dtype in ("float12", "float64", "int16")),
            ],
        ),
    ],
    hidden=_hidden_bytes,
    tolerance=ROUNDING,
    parts={NUMBERS: 0.8, BAD_INPUT: 0.2},
    misconceptions=[
        Misconception(
            "checks nothing",
            _bytes_named_by_nothing_known,
            "The bytes are right. A negative count and an unknown format raise ValueError; looking a name up in a "
            "dictionary raises KeyError.",
        ),
        Misconception(
            "negative count accepted",
            lambda params, dtype: params * bits(dtype) / 8,
            "A negative count makes no sense: raise ValueError.",
        ),
        Misconception(
            "no parameters refused",
            lambda params, dtype: memory.weight_bytes(params or -1, dtype),
            "You refuse 0 parameters. They take no bytes, and that is an answer.",
        ),
        Misconception(
            "unknown format as float32",
            _unless_negative(_known_or(4)),
            UNKNOWN_ACCEPTED,
        ),
        Misconception(
            "unknown format as 16 bits",
            _unless_negative(_known_or(2)),
            UNKNOWN_ACCEPTED,
        ),
        Misconception(
            "unknown format as int8",
            _unless_negative(_known_or(1)),
            UNKNOWN_ACCEPTED,
        ),
        Misconception("unknown format as float32, nothing refused", _known_or(4), BOTH_ACCEPTED),
        Misconception("unknown format as 16 bits, nothing refused", _known_or(2), BOTH_ACCEPTED),
        Misconception("unknown format as int8, nothing refused", _known_or(1), BOTH_ACCEPTED),
        Misconception(
            "width read from the name",
            _unless_negative(_bytes_by_lenient_digits),
            "You read the width from the name, whatever the name is. The task asks for ValueError for a format that "
            "is not in the table.",
        ),
        Misconception(
            "width read from the name, nothing refused", _bytes_by_lenient_digits, BOTH_ACCEPTED
        ),
        Misconception(
            "width asked of PyTorch",
            _unless_negative(_bytes_as_pytorch_says),
            "PyTorch has more formats than the table, and raises something else for a name that it does not have. "
            "The task asks for ValueError in both cases.",
        ),
        Misconception(
            "width asked of PyTorch, nothing refused",
            _bytes_as_pytorch_says,
            "The bytes are right. A negative count and a format that is not in the table have to raise ValueError, "
            "whatever PyTorch says of it.",
        ),
        Misconception("PyTorch's other formats taken", _also_taken(*OTHER_SIZES), NOT_IN_THE_TABLE),
        Misconception(
            "every name that ends in 16 taken",
            _also_taken("int16", "uint16"),
            "You take every format of 16 bits, and the table has two of them. The task asks for ValueError for others.",
        ),
        Misconception(
            "KeyError for an unknown format",
            lambda params, dtype: (
                memory.weight_bytes(params, dtype) if dtype in FORMATS else {}[dtype]
            ),
            "A dictionary raises KeyError for a name that it lacks. Raise ValueError, and say which names there are.",
        ),
        Misconception(
            "bits for bytes",
            _times(memory.weight_bytes, 8),
            "That is the number of bits. How many bits are in a byte?",
        ),
        Misconception(
            "multiplied by 8",
            _times(memory.weight_bytes, 64),
            "A byte has 8 bits, so there are fewer bytes than bits. Yours are more.",
        ),
        Misconception(
            "two bytes for all but float32",
            _unless_negative(lambda params, dtype: params * (4 if dtype == "float32" else 2)),
            "You give every format but float32 the same width. Do you test the name with `or`? `dtype == a or b` holds "
            "whatever `dtype` is, since a text counts as true: write `dtype in (a, b)`.",
        ),
        Misconception(
            "always two bytes",
            _always(2),
            "Your answer does not change with the format. How wide is a number in float32, and in int8?",
        ),
        Misconception(
            "always four bytes",
            _always(4),
            "Your answer does not change with the format. What does bfloat16 save?",
        ),
        Misconception(
            "one byte for each parameter",
            _always(1),
            "That is the number of parameters. Each takes more than one byte in most formats.",
        ),
        Misconception(
            "divided by the width",
            lambda params, dtype: memory.weight_bytes(params, dtype) and params / (bits(dtype) / 8),
            "A wider format needs more bytes, not fewer.",
        ),
        Misconception(
            "in GB",
            _times(memory.weight_bytes, 1e-9),
            "Return bytes. GB are for printing.",
        ),
        Misconception(
            "in GiB",
            _times(memory.weight_bytes, 2.0**-30),
            "Return bytes. GiB are for printing.",
        ),
    ],
    also_right=[_bytes_by_cases, _bytes_by_digits_of_the_name, _bytes_by_sizes],
)


def _read(shape: Shape, tokens: int) -> Case:
    """A text that a real model reads, and the operations that PyTorch counts."""
    return measured(flops.forward_flops(shape, 1, tokens), parameter_count(shape), tokens)


def _hidden_reads(draw: Draw) -> list[Case]:
    return [_read(shape, draw.integer(*SHORT)) for shape in draw.some(HIDDEN_SHAPES, 6)]


forward_flops_2nd = Check(
    reference=flops.forward_flops_2nd,
    public=[
        _read(shape, tokens) for shape, tokens in zip(SHOWN_SHAPES, (100, 20, 128), strict=True)
    ],
    hidden=_hidden_reads,
    tolerance=relative(0.03),
    misconceptions=[
        Misconception(
            "multiplications alone",
            lambda params, tokens: params * tokens,
            "You count the multiplications. Each product is also added to a sum: that is an operation too.",
        ),
        Misconception(
            "training",
            lambda params, tokens: 6 * params * tokens,
            "Three times too many: so much takes training, which does more than read.",
        ),
        Misconception(
            "counted twice",
            lambda params, tokens: 4 * params * tokens,
            "Twice too many. For each parameter and token there is one multiplication and one addition, and no more.",
        ),
        Misconception(
            "tokens forgotten",
            lambda params, tokens: 2 * params,
            "That is one token. The text has more of them, and each goes through all parameters.",
        ),
        Misconception(
            "each token with each other",
            lambda params, tokens: 2 * params * tokens**2,
            "The weights do not see pairs of tokens: twice the text takes twice the operations.",
        ),
        Misconception(
            "divided by the tokens",
            lambda params, tokens: 2 * params / tokens,
            "A longer text takes more operations. Yours takes fewer.",
        ),
        Misconception(
            "in TFLOP",
            lambda params, tokens: 2e-12 * params * tokens,
            "Return the number of operations itself, not millions of millions of them.",
        ),
        Misconception(
            "in GFLOP",
            lambda params, tokens: 2e-9 * params * tokens,
            "Return the number of operations itself, not billions of them.",
        ),
    ],
    also_right=[
        lambda params, tokens: params * tokens + params * tokens,
        lambda params, tokens: flops.matmul_flops(tokens, params, 1),
        lambda params, tokens: flops.training_flops_6nd(params, tokens) / 3.0,
    ],
)

# --- the least time for writing -----------------------------------------------------------------


def _bound(factor: float) -> Callable[[float, float, float], float]:
    """The right bound, but for a factor."""
    return lambda weight_bytes, bandwidth_bytes_per_s, tokens: (
        roofline.decode_seconds_lower_bound(weight_bytes, bandwidth_bytes_per_s, tokens) * factor
    )


def _bound_from_speed(weight_bytes: float, bandwidth_bytes_per_s: float, tokens: float) -> float:
    if weight_bytes <= 0 or bandwidth_bytes_per_s <= 0 or tokens <= 0:
        raise ValueError("all three are above 0")
    tokens_a_second = bandwidth_bytes_per_s / weight_bytes
    return tokens / tokens_a_second


def _bound_token_by_token(
    weight_bytes: float, bandwidth_bytes_per_s: float, tokens: float
) -> float:
    if min(weight_bytes, bandwidth_bytes_per_s, tokens) <= 0:
        raise ValueError(weight_bytes, bandwidth_bytes_per_s, tokens)
    return math.fsum(weight_bytes / bandwidth_bytes_per_s for _ in range(int(tokens)))


def _bound_by_fraction(
    weight_bytes: float, bandwidth_bytes_per_s: float, tokens: float
) -> Fraction:
    if not (weight_bytes > 0 < bandwidth_bytes_per_s and tokens > 0):
        raise ValueError
    return Fraction(weight_bytes) * Fraction(tokens) / Fraction(bandwidth_bytes_per_s)


def _refusing(
    function: Callable[[float, float, float], float],
) -> Callable[[float, float, float], float]:
    """A wrong bound that refuses bad input."""

    def wrong(weight_bytes: float, bandwidth_bytes_per_s: float, tokens: float) -> float:
        roofline.decode_seconds_lower_bound(weight_bytes, bandwidth_bytes_per_s, tokens)
        return function(weight_bytes, bandwidth_bytes_per_s, tokens)

    return wrong


def _unless(refused: Callable[[float, float, float], bool]) -> Callable[..., float]:
    """The right bound, which refuses some of the bad input."""

    def wrong(weight_bytes: float, bandwidth_bytes_per_s: float, tokens: float) -> float:
        if refused(weight_bytes, bandwidth_bytes_per_s, tokens):
            raise ValueError
        return tokens * weight_bytes / bandwidth_bytes_per_s

    return wrong


def _hidden_bounds(draw: Draw) -> list[Case]:
    def run() -> tuple[float, float, int]:
        size = parameter_count(draw.one(HIDDEN_SHAPES)) * draw.one([0.5, 1, 2, 4])
        return size, draw.real(5, 4000) * 1e9, draw.integer(3, 900)

    cases = [case(*run()) for _ in range(5)]
    size, speed, tokens = run()
    bad = [
        case(size, 0, tokens),
        case(size, -speed, tokens),
        case(-size, speed, tokens),
        case(size, speed, 0),
        case(0, speed, tokens),
        # Two wrong signs give a number that looks right.
        case(-size, -speed, tokens),
        case(-size, speed, -tokens),
    ]
    # Nothing says that a byte, a second or a token is the least.
    slow = case(draw.real(0.2, 0.9), draw.real(0.2, 0.9), draw.integer(2, 9))
    return part(NUMBERS, [*cases, case(size, speed, 1), slow]) + part(BAD_INPUT, bad)


decode_seconds_lower_bound = Check(
    reference=roofline.decode_seconds_lower_bound,
    public=[
        *part(
            NUMBERS,
            [
                case(6_000_000_000, 300e9, 50),
                case(2 * GEMMA_4B, 320e9, 100),
                case(4 * SHOWN_COUNTS[0], 40e9, 1),
                case(3, 0.5, 2),
            ],
        ),
        *part(
            BAD_INPUT,
            [
                case(1e9, 0, 10),
                case(1e9, 300e9, 0),
                case(-1e9, 300e9, 10),
                case(0, 300e9, 10),
            ],
        ),
    ],
    hidden=_hidden_bounds,
    tolerance=ROUNDING,
    parts={NUMBERS: 0.8, BAD_INPUT: 0.2},
    misconceptions=[
        Misconception(
            "checks nothing",
            lambda weight_bytes, bandwidth_bytes_per_s, tokens: (
                tokens * weight_bytes / bandwidth_bytes_per_s
            ),
            "The seconds are right, but what is not above 0 does not raise ValueError. If you do test it: is each "
            "condition enough by itself (`or`, not `and`)?",
        ),
        Misconception(
            "bandwidth alone checked",
            _unless(lambda size, speed, tokens: speed <= 0),
            "You refuse a bandwidth that is not above 0. Bytes and tokens must be above 0 too.",
        ),
        Misconception(
            "tokens alone checked",
            _unless(lambda size, speed, tokens: tokens <= 0),
            "You refuse tokens that are not above 0. Bytes and bandwidth must be above 0 too.",
        ),
        Misconception(
            "bytes alone checked",
            _unless(lambda size, speed, tokens: size <= 0),
            "You refuse bytes that are not above 0. Bandwidth and tokens must be above 0 too.",
        ),
        Misconception(
            "bytes not checked",
            _unless(lambda size, speed, tokens: speed <= 0 or tokens <= 0),
            "You refuse a bandwidth and tokens that are not above 0. The bytes must be above 0 too.",
        ),
        Misconception(
            "bandwidth not checked",
            _unless(lambda size, speed, tokens: size <= 0 or tokens <= 0),
            "You refuse bytes and tokens that are not above 0. The bandwidth must be above 0 too.",
        ),
        Misconception(
            "tokens not checked",
            _unless(lambda size, speed, tokens: size <= 0 or speed <= 0),
            "You refuse bytes and a bandwidth that are not above 0. The tokens must be above 0 too.",
        ),
        Misconception(
            "less than one refused",
            _unless(lambda size, speed, tokens: min(size, speed, tokens) < 1),
            "You refuse numbers between 0 and 1. A memory may be slow: above 0 is all that the task asks for.",
        ),
        Misconception(
            "negative numbers accepted",
            _unless(lambda size, speed, tokens: not (size and speed and tokens)),
            "You refuse 0. Negative numbers make no sense either: raise ValueError.",
        ),
        Misconception(
            "zero accepted",
            _unless(lambda size, speed, tokens: min(size, speed, tokens) < 0),
            "You refuse negative numbers. Zero makes no sense either: raise ValueError.",
        ),
        Misconception(
            "zero for bad input",
            lambda weight_bytes, bandwidth_bytes_per_s, tokens: (
                tokens * weight_bytes / bandwidth_bytes_per_s
                if min(weight_bytes, bandwidth_bytes_per_s, tokens) > 0
                else 0.0
            ),
            "You return a number for input that makes no sense. Raise ValueError instead.",
        ),
        Misconception(
            "tokens forgotten",
            _refusing(
                lambda weight_bytes, bandwidth_bytes_per_s, tokens: (
                    weight_bytes / bandwidth_bytes_per_s
                )
            ),
            "That is one token. The next one needs all weights again: nothing that was read stays on the chip.",
        ),
        Misconception(
            "divided by the tokens",
            _refusing(
                lambda weight_bytes, bandwidth_bytes_per_s, tokens: (
                    weight_bytes / bandwidth_bytes_per_s / tokens
                )
            ),
            "More tokens take more time. Yours take less.",
        ),
        Misconception(
            "upside down",
            _refusing(
                lambda weight_bytes, bandwidth_bytes_per_s, tokens: (
                    tokens * bandwidth_bytes_per_s / weight_bytes
                )
            ),
            "A faster memory takes less time, and a larger model takes more. Yours is the other way round.",
        ),
        Misconception(
            "tokens a second",
            _refusing(
                lambda weight_bytes, bandwidth_bytes_per_s, tokens: (
                    bandwidth_bytes_per_s / weight_bytes
                )
            ),
            "That is a speed, in tokens a second. How many seconds do the tokens take?",
        ),
        Misconception(
            "one token fewer",
            _refusing(
                lambda weight_bytes, bandwidth_bytes_per_s, tokens: (
                    (tokens - 1) * weight_bytes / bandwidth_bytes_per_s
                )
            ),
            "You count one token fewer. Each of the tokens reads the weights once, the first one too.",
        ),
        Misconception(
            "one token more",
            _refusing(
                lambda weight_bytes, bandwidth_bytes_per_s, tokens: (
                    (tokens + 1) * weight_bytes / bandwidth_bytes_per_s
                )
            ),
            "You count one token more. Each of the tokens reads the weights once, and nothing else does.",
        ),
        Misconception(
            "everything multiplied",
            _refusing(
                lambda weight_bytes, bandwidth_bytes_per_s, tokens: (
                    tokens * weight_bytes * bandwidth_bytes_per_s
                )
            ),
            "A faster memory takes less time. Yours takes more.",
        ),
        Misconception(
            "whole seconds alone",
            _refusing(
                lambda weight_bytes, bandwidth_bytes_per_s, tokens: (
                    tokens * weight_bytes // bandwidth_bytes_per_s
                )
            ),
            "Seconds need not be whole: do not cut the fraction off.",
        ),
        Misconception(
            "whole seconds for each token",
            _refusing(
                lambda weight_bytes, bandwidth_bytes_per_s, tokens: (
                    weight_bytes // bandwidth_bytes_per_s * tokens
                )
            ),
            "You cut the fraction off one token's time, which is mostly below a second.",
        ),
        Misconception(
            "bits for bytes",
            _bound(8),
            "Weights and bandwidth are both in bytes: nothing needs to be turned into bits.",
        ),
        Misconception(
            "read and written",
            _bound(2),
            "You count the weights twice. They are read, and stay as they are: nothing is written back.",
        ),
        Misconception(
            "in milliseconds",
            _bound(1000),
            "Return seconds, not milliseconds.",
        ),
        Misconception(
            "bandwidth in GB/s",
            _bound(1e-9),
            "The bandwidth is in bytes a second already, not in GB/s.",
        ),
        Misconception(
            "bandwidth in GiB/s",
            _bound(1e9 / 2**30),
            "You turned GB into GiB, or the other way round. Both numbers are in bytes: use them as they are.",
        ),
    ],
    also_right=[_bound_from_speed, _bound_token_by_token, _bound_by_fraction],
)

# --- the smallest that meets --------------------------------------------------------------------

Model = dict[str, Any]
SUITABLE = "who is suitable"
TIES = "ties"


def _model(name: str, params: float, quality: float, seconds: float) -> Model:
    return {"name": name, "params": params, "quality": quality, "seconds": seconds}


# In the order of no field: the smallest meets few limits, the best is not the largest.
SHELF = (
    _model("plover", 4_000_000, 0.62, 1.6),
    _model("wren", 200_000, 0.30, 2.4),
    _model("stork", 7_000_000, 0.70, 1.1),
    _model("finch", 1_000_000, 0.50, 0.8),
    _model("heron", 9_000_000, 0.66, 2.0),
    _model("robin", 400_000, 0.44, 0.3),
    _model("avocet", 300_000, 0.58, 2.8),
)
# With the third, a model misses each limit by little.
LIMITS = ((0.50, 2.0), (0.62, 1.8), (0.505, 1.595), (0.40, 1.6), (0.60, 1.6), (0.75, 3.0))
TWINS = (
    _model("ibis", 5_000_000, 0.60, 1.8),
    _model("swift", 2_000_000, 0.52, 0.9),
    _model("egret", 2_000_000, 0.58, 1.5),
    _model("gull", 2_000_000, 0.58, 1.2),
    _model("dove", 2_000_000, 0.55, 0.7),
)
# Again with other names, and the right one before the one that is as good.
OTHER_TWINS = (
    _model("swift", 3_000_000, 0.64, 0.8),
    _model("quail", 3_000_000, 0.69, 1.1),
    _model("rail", 3_000_000, 0.69, 1.9),
    _model("lark", 3_000_000, 0.61, 1.0),
    _model("heron", 8_000_000, 0.73, 1.3),
)


def _suitable(models: Sequence[Model], min_quality: float, max_seconds: float) -> list[Model]:
    return [
        model
        for model in models
        if model["quality"] >= min_quality and model["seconds"] <= max_seconds
    ]


def _order(model: Model) -> tuple[Any, ...]:
    return model["params"], -model["quality"], model["seconds"]


def _chosen(
    keep: Callable[[Model, float, float], bool] | None = None,
    order: Callable[[Model], Any] = _order,
    result: Callable[[Model], Any] = lambda model: model["name"],
) -> Callable[[Sequence[Model], float, float], Any]:
    """`smallest_that_meets` with one of its steps changed."""

    def wrong(models: Sequence[Model], min_quality: float, max_seconds: float) -> Any:
        if keep is None:
            left = _suitable(models, min_quality, max_seconds)
        else:
            left = [model for model in models if keep(model, min_quality, max_seconds)]
        return result(min(left, key=order)) if left else None

    return wrong


def _otherwise(none: Callable[[Sequence[Model]], Any]) -> Callable[..., Any]:
    """`smallest_that_meets`, with something else where no model is suitable."""

    def wrong(models: Sequence[Model], min_quality: float, max_seconds: float) -> Any:
        found = tradeoff.smallest_that_meets(models, min_quality, max_seconds)
        return none(models) if found is None else found

    return wrong


def _smallest_of_all(models: Sequence[Model]) -> Any:
    return min(models, key=_order)["name"] if models else None


def _smallest_then_tested(models: Sequence[Model], min_quality: float, max_seconds: float) -> Any:
    smallest = min(models, key=_order)
    return smallest["name"] if _suitable([smallest], min_quality, max_seconds) else None


def _first_alone(models: Sequence[Model], min_quality: float, max_seconds: float) -> Any:
    return _first_listed(models[:1], min_quality, max_seconds)


def _begun_with_the_first(models: Sequence[Model], min_quality: float, max_seconds: float) -> Any:
    best = models[0]
    for model in _suitable(models[1:], min_quality, max_seconds):
        best = min(best, model, key=_order)
    return best["name"]


def _name_of_none(_models: Sequence[Model]) -> Any:
    best: Any = None
    return best["name"]


def _first_listed(models: Sequence[Model], min_quality: float, max_seconds: float) -> Any:
    left = _suitable(models, min_quality, max_seconds)
    return left[0]["name"] if left else None


def _all_names(models: Sequence[Model], min_quality: float, max_seconds: float) -> list[Any]:
    return [model["name"] for model in _suitable(models, min_quality, max_seconds)]


def _position(models: Sequence[Model], min_quality: float, max_seconds: float) -> int | None:
    name = tradeoff.smallest_that_meets(models, min_quality, max_seconds)
    names = [model["name"] for model in models]
    return None if name is None else names.index(name)


def _by_sorting(models: Sequence[Model], min_quality: float, max_seconds: float) -> Any:
    ranked = sorted(models, key=lambda model: model["seconds"])
    ranked.sort(key=lambda model: model["quality"], reverse=True)
    ranked.sort(key=lambda model: model["params"])
    for model in ranked:
        if not (model["quality"] < min_quality or model["seconds"] > max_seconds):
            return model["name"]
    return None


def _by_comparing(models: Sequence[Model], min_quality: float, max_seconds: float) -> Any:
    best = None
    for model in models:
        if model["seconds"] > max_seconds or model["quality"] < min_quality:
            continue
        if best is None or _order(model) < _order(best):
            best = model
    return None if best is None else best["name"]


def _by_elimination(models: Sequence[Model], min_quality: float, max_seconds: float) -> Any:
    left = _suitable(models, min_quality, max_seconds)
    for pick, field in ((min, "params"), (max, "quality"), (min, "seconds")):
        best = pick((model[field] for model in left), default=None)
        left = [model for model in left if model[field] == best]
    return left[0]["name"] if left else None


def _draw_shelf(draw: Draw) -> tuple[list[Model], float, float]:
    """Models in mixed order, and limits that the right one meets exactly on both sides. Smaller ones
    miss a limit or both, some by very little; of the larger ones that meet both, one is the best, one the fastest and one
    the largest.
    """
    count = draw.log_integer(10**6, 10**9)
    quality, seconds = draw.real(0.4, 0.6), draw.real(1, 20)
    suitable = [
        (count, quality, seconds),
        (count * draw.integer(3, 9), quality * draw.real(1.2, 1.3), seconds * draw.real(0.7, 0.9)),
        (
            count * draw.integer(10, 15),
            quality * draw.real(1.02, 1.1),
            seconds * draw.real(0.1, 0.2),
        ),
        (
            count * draw.integer(20, 40),
            quality * draw.real(1.11, 1.19),
            seconds * draw.real(0.3, 0.6),
        ),
    ]
    others = [
        (count // 2, quality * draw.real(0.3, 0.9), seconds * draw.real(0.3, 0.9)),
        (count // 3, quality * draw.real(1.02, 1.1), seconds * draw.real(1.1, 4)),
        (count // 6, quality * 0.999, seconds * draw.real(0.3, 0.9)),
        (count // 7, quality * draw.real(1.02, 1.1), seconds * 1.001),
        (count // 9, quality * draw.real(0.1, 0.9), seconds * draw.real(1.1, 6)),
        (count * draw.integer(20, 40), quality * draw.real(1.4, 1.6), seconds * draw.real(1.5, 2)),
    ]
    names = draw.some(BIRDS, len(suitable) + len(others))
    first, *rest = draw.shuffled(suitable[1:])
    # Whoever takes the first suitable one, in the list or by name, is wrong.
    rows = [first, *draw.shuffled([suitable[0], *rest, *others])]
    names.remove(early := min(names))
    by_row = {row: early if row is first else names.pop() for row in rows}
    return [_model(by_row[row], *row) for row in rows], quality, seconds


def _draw_twins(
    draw: Draw, *, equally_good: bool, right_first: bool = False
) -> tuple[list[Model], float, float]:
    """Several models of the smallest suitable size. With `equally_good` two of them are the best,
    and the faster one is right."""
    count = draw.log_integer(10**6, 10**9)
    quality, seconds = draw.real(0.4, 0.6), draw.real(1, 20)
    best = quality * 1.3
    right = (count, best, seconds * draw.real(0.4, 0.6))
    slow = (count, best, seconds * draw.real(0.7, 0.9))
    fast = (count, quality * draw.real(1.05, 1.2), seconds * draw.real(0.1, 0.3))
    large = (count * draw.integer(2, 9), quality * 1.5, seconds * draw.real(0.3, 0.9))
    twins = [right, slow] if right_first else [slow, right]
    rows = [large, fast, *(twins if equally_good else [right])]
    names = draw.some(BIRDS, len(rows))
    names.remove(late := max(names))
    by_row = {row: late if row is right else names.pop() for row in rows}
    return [_model(by_row[row], *row) for row in rows], quality, seconds


BIRDS = (
    *("avocet", "bulbul", "coot", "dove", "eider", "flicker", "grebe", "hoopoe", "jay", "kite"),
    *("lark", "martin", "nutcracker", "oriole", "petrel", "quail", "rail", "siskin", "teal"),
)


def _hidden_choices(draw: Draw) -> list[Case]:
    shelves = [_draw_shelf(draw) for _ in range(4)]
    models, quality, _ = shelves[0]
    nobody = [
        case(models, quality * 3, 1e6),
        case(models, 0, min(model["seconds"] for model in models) / 2),
    ]
    ties = [
        _draw_twins(draw, equally_good=True),
        _draw_twins(draw, equally_good=True, right_first=True),
        _draw_twins(draw, equally_good=False),
    ]
    return part(SUITABLE, [*(case(*each) for each in shelves), *nobody]) + part(
        TIES, [case(*each) for each in ties]
    )


smallest_that_meets = Check(
    reference=tradeoff.smallest_that_meets,
    public=[
        *part(
            SUITABLE,
            [
                *(case([dict(model) for model in SHELF], *limits) for limits in LIMITS),
                case([], 0.5, 1.0),
            ],
        ),
        *part(
            TIES,
            [
                case([dict(model) for model in TWINS], 0.50, 2.0),
                case([dict(model) for model in OTHER_TWINS], 0.60, 2.0),
            ],
        ),
    ],
    hidden=_hidden_choices,
    parts={SUITABLE: 0.7, TIES: 0.3},
    misconceptions=[
        Misconception(
            "record instead of its name",
            _chosen(result=dict),
            "You return the whole record. Return its name.",
        ),
        Misconception(
            "number of parameters instead of the name",
            _chosen(result=lambda model: model["params"]),
            "You return how large the model is. Return its name.",
        ),
        Misconception(
            "position instead of the name",
            _position,
            "You return a position in the list. Return the model's name.",
        ),
        Misconception(
            "all that meet",
            _all_names,
            "You return a list of all suitable models. Return the name of the smallest alone.",
        ),
        Misconception(
            "all records that meet",
            _suitable,
            "You return a list of all suitable models. Return the name of the smallest alone.",
        ),
        Misconception(
            "smallest of all where one meets",
            lambda models, min_quality, max_seconds: (
                min(models, key=_order)["name"]
                if any(_suitable([model], min_quality, max_seconds) for model in models)
                or not models
                else None
            ),
            "You find out whether a model is suitable, and then choose among all of them. Choose among the suitable ones.",
        ),
        Misconception(
            "chosen before it is tested",
            _smallest_then_tested,
            "You choose the smallest of all models and then look whether it is suitable. Where it is not, a larger one "
            "may be. (A loop that returns under `if` and under `else` ends at its first model.)",
        ),
        Misconception(
            "first model alone",
            _first_alone,
            "You look at the first model alone. Where it is not suitable, another may be. (A loop that returns under `if` "
            "and under `else` ends at its first model.)",
        ),
        Misconception(
            "first model as the best so far",
            _begun_with_the_first,
            "You take the first model as the best so far without a test. It may not be suitable, or not be there.",
        ),
        Misconception(
            "raises when none meets",
            lambda models, min_quality, max_seconds: min(
                _suitable(models, min_quality, max_seconds), key=_order
            )["name"],
            "Sometimes no model is suitable, and then yours raises an exception. (So does `min` of an empty list.) What "
            "does the task ask for then?",
        ),
        Misconception(
            "name asked of None",
            _otherwise(_name_of_none),
            "Where no model is suitable, yours ends in an error: there is no record to ask for a name. Test that first.",
        ),
        Misconception(
            "list when none meets",
            _otherwise(lambda _models: []),
            "Where no model is suitable you return a list. What does the task ask for then?",
        ),
        Misconception(
            "smallest of all when none meets",
            _otherwise(_smallest_of_all),
            "Where no model is suitable you name one all the same. Read again what the task asks for then.",
        ),
        Misconception(
            "text when none meets",
            _otherwise(lambda _models: ""),
            "Where no model is suitable you return a text, and a text could be a name.",
        ),
        Misconception(
            "quality forgotten",
            _chosen(lambda model, quality, seconds: model["seconds"] <= seconds),
            "You choose a model whose quality is too low.",
        ),
        Misconception(
            "time forgotten",
            _chosen(lambda model, quality, seconds: model["quality"] >= quality),
            "You choose a model that takes too long.",
        ),
        Misconception(
            "limits forgotten",
            _chosen(lambda model, quality, seconds: True),
            "You choose the smallest of all models. Is it good enough, and fast enough?",
        ),
        Misconception(
            "one limit is enough",
            _chosen(
                lambda model, quality, seconds: (
                    model["quality"] >= quality or model["seconds"] <= seconds
                )
            ),
            "You take a model that meets one of the limits. It has to meet both.",
        ),
        Misconception(
            "quality upside down",
            _chosen(
                lambda model, quality, seconds: (
                    model["quality"] <= quality and model["seconds"] <= seconds
                )
            ),
            "More quality is better, and `min_quality` is the least that will do. (With perplexity it would be the "
            "other way round.)",
        ),
        Misconception(
            "time upside down",
            _chosen(
                lambda model, quality, seconds: (
                    model["quality"] >= quality and model["seconds"] >= seconds
                )
            ),
            "Less time is better: `max_seconds` is the most that will do.",
        ),
        Misconception(
            "near misses forgiven",
            _chosen(
                lambda model, quality, seconds: (
                    model["quality"] >= quality - 0.01 and model["seconds"] <= seconds + 0.01
                )
            ),
            "You forgive a model that misses a limit by little. It has to meet both.",
        ),
        Misconception(
            "limits excluded",
            _chosen(
                lambda model, quality, seconds: (
                    model["quality"] > quality and model["seconds"] < seconds
                )
            ),
            'A model that lies exactly on a limit meets it: "at least" and "at most".',
        ),
        Misconception(
            "least quality excluded",
            _chosen(
                lambda model, quality, seconds: (
                    model["quality"] > quality and model["seconds"] <= seconds
                )
            ),
            'A model that has exactly the least quality has enough: "at least".',
        ),
        Misconception(
            "most seconds excluded",
            _chosen(
                lambda model, quality, seconds: (
                    model["quality"] >= quality and model["seconds"] < seconds
                )
            ),
            'A model that takes exactly the most seconds is fast enough: "at most".',
        ),
        Misconception(
            "best that meets",
            _chosen(order=lambda model: -model["quality"]),
            "You choose the best of the suitable models. Asked is the smallest: it is good enough already.",
        ),
        Misconception(
            "fastest that meets",
            _chosen(order=lambda model: model["seconds"]),
            "You choose the fastest of the suitable models. Asked is the one with the fewest parameters.",
        ),
        Misconception(
            "largest that meets",
            _chosen(order=lambda model: -model["params"]),
            "You choose the largest of the suitable models. Asked is the smallest.",
        ),
        Misconception(
            "first that meets",
            _first_listed,
            "You choose the first suitable model of the list. The list is in no order.",
        ),
        Misconception(
            "first by name",
            _chosen(order=lambda model: model["name"]),
            "You order the suitable models by their names. Order them by their parameters.",
        ),
        Misconception(
            "tie: the first listed",
            _chosen(order=lambda model: model["params"]),
            "Several suitable models are equally small, and you take the one that is listed first. Which of them is "
            "the best?",
        ),
        Misconception(
            "tie: the worst",
            _chosen(order=lambda model: (model["params"], model["quality"], model["seconds"])),
            "Several suitable models are equally small, and you take the worst of them.",
        ),
        Misconception(
            "tie: the fastest",
            _chosen(order=lambda model: (model["params"], model["seconds"], -model["quality"])),
            "Several suitable models are equally small. Quality decides first, and time only after that.",
        ),
        Misconception(
            "tie: time forgotten",
            _chosen(order=lambda model: (model["params"], -model["quality"])),
            "Two suitable models are equally small and equally good. Which is the faster?",
        ),
        Misconception(
            "tie: the slowest",
            _chosen(order=lambda model: (model["params"], -model["quality"], -model["seconds"])),
            "Two suitable models are equally small and equally good, and you take the slower one.",
        ),
        Misconception(
            "tie: by name",
            _chosen(order=lambda model: (model["params"], model["name"])),
            "Several suitable models are equally small, and you take the first by name. Which of them is the best?",
        ),
    ],
    also_right=[_by_sorting, _by_comparing, _by_elimination],
)
