"""Wrong answers that are right on most inputs: each must fail the hidden cases of every course.

They are kept apart from the misconceptions, which have a sentence of their own. A task's answers
are written as the whole function with one step changed.
"""

# ruff: noqa: ARG005 - most change one step, and look at few of the arguments

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gradelib.shapes import Shape
from solutions import batching, formats, precision_choice, tradeoff
from solutions.autocast import IN_FLOAT32, PRODUCTS, autocast_dtype
from solutions.checks.lora import lora_config_reference
from solutions.implementations.batching import collate
from solutions.implementations.loss_scaler import DynamicLossScaler
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

# --- decode


def decoded(change: Callable[[int, int, int, str], float | None]) -> Answer:
    """`decode`, but for the patterns of which `change` gives a value. It takes the pattern without
    its sign, and gives a value without one."""

    def decode(bits: int, exponent_bits: int, mantissa_bits: int, specials: str = "ieee") -> float:
        right = formats.decode(bits, exponent_bits, mantissa_bits, specials)
        sign, positive = divmod(bits, 1 << (exponent_bits + mantissa_bits))
        changed = change(positive, exponent_bits, mantissa_bits, specials)
        return right if changed is None else math.copysign(changed, -sign or 1)

    return decode


def when_negative(change: Callable[[float, float], float]) -> Answer:
    """`decode`, but for patterns with the sign bit set: of the value with its sign and without."""

    def decode(bits: int, exponent_bits: int, mantissa_bits: int, specials: str = "ieee") -> float:
        right = formats.decode(bits, exponent_bits, mantissa_bits, specials)
        sign_bit = 1 << (exponent_bits + mantissa_bits)
        if bits < sign_bit:
            return right
        return change(
            right, formats.decode(bits - sign_bit, exponent_bits, mantissa_bits, "finite")
        )

    return decode


def is_ieee_nan(positive: int, e: int, m: int, specials: str) -> bool:
    return specials == "ieee" and positive > ((1 << e) - 1) << m


def numeric(positive: int, e: int, m: int) -> float:
    return formats.decode(positive, e, m, "finite")


DECODE: dict[str, Answer] = {
    "NaN with the sign bit read as a number": when_negative(
        lambda right, number: -number if math.isnan(right) else right
    ),
    "minus infinity read as infinity": when_negative(
        lambda right, _number: abs(right) if math.isinf(right) else right
    ),
    "minus infinity read as NaN": when_negative(
        lambda right, _number: math.nan if math.isinf(right) else right
    ),
    "minus infinity read as a number": when_negative(
        lambda right, number: -number if math.isinf(right) else right
    ),
    "NaN only with the mantissa's highest bit": decoded(
        lambda n, e, m, s: (
            numeric(n, e, m) if is_ieee_nan(n, e, m, s) and not n >> (m - 1) & 1 else None
        )
    ),
    "infinity without the mantissa's highest bit": decoded(
        lambda n, e, m, s: math.inf if is_ieee_nan(n, e, m, s) and not n >> (m - 1) & 1 else None
    ),
    "NaN only with the mantissa's lowest bit": decoded(
        lambda n, e, m, s: math.inf if is_ieee_nan(n, e, m, s) and not n & 1 else None
    ),
    "NaN only with all ones": decoded(
        lambda n, e, m, s: (
            numeric(n, e, m) if is_ieee_nan(n, e, m, s) and n + 1 < 1 << (e + m) else None
        )
    ),
    "infinities wherever the exponent has 8 bits": decoded(
        lambda n, e, m, s: abs(formats.decode(n, e, m, "ieee")) if e == 8 else None
    ),
    "`fn` taken for `finite` with 8 exponent bits": decoded(
        lambda n, e, m, s: numeric(n, e, m) if (e, s) == (8, "fn") else None
    ),
    "`finite` taken for `fn` with 8 exponent bits": decoded(
        lambda n, e, m, s: abs(formats.decode(n, e, m, "fn")) if (e, s) == (8, "finite") else None
    ),
    "float32's subnormals flushed": decoded(
        lambda n, e, m, s: 0.0 if (e, m) == (8, 23) and n < 1 << m else None
    ),
    "subnormals below float32's flushed": decoded(
        lambda n, e, m, s: 0.0 if numeric(n, e, m) < 2.0**-126 else None
    ),
    "a mantissa of one bit without NaN": decoded(
        lambda n, e, m, s: math.inf if m == 1 and is_ieee_nan(n, e, m, s) else None
    ),
    "a mantissa of one bit with infinities": decoded(
        lambda n, e, m, s: abs(formats.decode(n, e, m, "ieee")) if m == 1 else None
    ),
    "a mantissa of one bit without subnormals": decoded(
        lambda n, e, m, s: 0.0 if m == 1 and n == 1 else None
    ),
    "equal widths taken for `ieee`": decoded(
        lambda n, e, m, s: abs(formats.decode(n, e, m, "ieee")) if e == m else None
    ),
    "equal widths taken for `finite`": decoded(
        lambda n, e, m, s: numeric(n, e, m) if e == m else None
    ),
    "smallest normal number taken for a subnormal": decoded(
        lambda n, e, m, s: numeric(n, e, m) / 2 if n == 1 << m else None
    ),
    "the first pattern that is too long accepted": lambda bits, e, m, s="ieee": formats.decode(
        bits % (2 << (e + m)) if bits == 2 << (e + m) else bits, e, m, s
    ),
}

# --- encode


def encoded(change: Callable[[float, int, int, str, str], int | float | None]) -> Answer:
    """`encode`, but where `change` gives a pattern (an int) or another value to encode (a float)."""

    def encode(
        value: float,
        exponent_bits: int,
        mantissa_bits: int,
        specials: str = "ieee",
        overflow: str = "infinity",
    ) -> int:
        changed = change(value, exponent_bits, mantissa_bits, specials, overflow)
        if isinstance(changed, int):
            return changed
        value = value if changed is None else changed
        return formats.encode(value, exponent_bits, mantissa_bits, specials, overflow)

    return encode


def is_small(value: float, e: int) -> bool:
    return abs(value) < 2.0 ** (2 - 2 ** (e - 1))


def rounded_first(to: Callable[[float], float], *, small: bool | None = None) -> Answer:
    """`encode` after another rounding: of every value, or of the small ones or the others alone."""
    return encoded(
        lambda value, e, m, s, o: (
            to(value) if math.isfinite(value) and small in (None, is_small(value, e)) else None
        )
    )


def to_float32(value: float) -> float:
    if abs(value) > 3.4e38:
        return value
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def to_nine_digits(value: float) -> float:
    return float(f"{value:.9g}")


def to_53_bits_less_2(value: float) -> float:
    """`value` with the last bits of a float64 rounded away: some ulps wide."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(mantissa, 51)), exponent - 51)


def accepting(is_accepted: Callable[[float], bool]) -> Answer:
    """`encode` that looks at names only once it needs them: not for these values."""

    def encode(
        value: float,
        exponent_bits: int,
        mantissa_bits: int,
        specials: str = "ieee",
        overflow: str = "infinity",
    ) -> int:
        legal = formats.OVERFLOWS.get(specials, ("saturate",))
        if is_accepted(value) and overflow not in legal:
            overflow = legal[0]
        return formats.encode(value, exponent_bits, mantissa_bits, specials, overflow)

    return encode


def overflowing(change: Callable[[int, int, float, str], int]) -> Answer:
    """`encode`, with the pattern of an overflow changed: of pattern, sign bit, value and rule."""

    def encode(
        value: float,
        exponent_bits: int,
        mantissa_bits: int,
        specials: str = "ieee",
        overflow: str = "infinity",
    ) -> int:
        key = (exponent_bits, mantissa_bits, specials)
        code = formats.encode(value, *key, overflow)
        if math.isnan(value) or abs(value) <= formats.largest_finite(*key):
            return code
        sign_bit = 1 << (exponent_bits + mantissa_bits)
        return change(code, sign_bit, value, overflow)

    return encode


ENCODE: dict[str, Answer] = {
    "largest subnormal never left": encoded(
        lambda value, e, m, s, o: (
            math.copysign(formats.decode((1 << m) - 1, e, m, "finite"), value)
            if is_small(value, e) and formats.encode(abs(value), e, m, s, o) == 1 << m
            else None
        )
    ),
    "subnormal that rounds up loses its carry": encoded(
        lambda value, e, m, s, o: (
            math.copysign(0.0, value)
            if is_small(value, e) and formats.encode(abs(value), e, m, s, o) == 1 << m
            else None
        )
    ),
    "float32 first": rounded_first(to_float32),
    "float32 first for normal numbers": rounded_first(to_float32, small=False),
    "float32 first for small numbers": rounded_first(to_float32, small=True),
    "nine digits first for normal numbers": rounded_first(to_nine_digits, small=False),
    "nine digits first for small numbers": rounded_first(to_nine_digits, small=True),
    "51 bits first for normal numbers": rounded_first(to_53_bits_less_2, small=False),
    "51 bits first for small numbers": rounded_first(to_53_bits_less_2, small=True),
    "NaN before the rule": accepting(math.isnan),
    "infinity before the rule": accepting(math.isinf),
    "plus infinity before the rule": accepting(lambda value: value == math.inf),
    "minus infinity before the rule": accepting(lambda value: value == -math.inf),
    "zero before the rule": accepting(lambda value: value == 0),
    "the rule read at an overflow alone": accepting(lambda value: abs(value) <= 1),
    "huge values taken for NaN": encoded(
        lambda value, e, m, s, o: math.nan if 1e300 < abs(value) < math.inf else None
    ),
    "minus huge values": encoded(
        lambda value, e, m, s, o: -value if -math.inf < value < -1e300 else None
    ),
    "tiny values without a sign": encoded(
        lambda value, e, m, s, o: 0.0 if -1e-300 < value < 0 else None
    ),
    "tiny values rounded away from 0": encoded(
        lambda value, e, m, s, o: 1 if 0 < value < 1e-300 else None
    ),
    "every overflow positive": overflowing(lambda code, sign_bit, value, rule: code % sign_bit),
    "finite overflows positive": overflowing(
        lambda code, sign_bit, value, rule: code % sign_bit if math.isfinite(value) else code
    ),
    "saturation positive": overflowing(
        lambda code, sign_bit, value, rule: code % sign_bit if rule == "saturate" else code
    ),
    "overflow to infinity positive": overflowing(
        lambda code, sign_bit, value, rule: code % sign_bit if rule == "infinity" else code
    ),
    "NaN of an overflow keeps the sign": overflowing(
        lambda code, sign_bit, value, rule: code | sign_bit * (value < 0) if rule == "nan" else code
    ),
    "NaN of a finite overflow keeps the sign": overflowing(
        lambda code, sign_bit, value, rule: (
            code | sign_bit * (-math.inf < value < 0) if rule == "nan" else code
        )
    ),
    "infinity never saturates": encoded(
        lambda value, e, m, s, o: (
            formats.encode(value, e, m, s, "infinity" if s == "ieee" else o)
            if math.isinf(value) and o in formats.OVERFLOWS.get(s, ())
            else None
        )
    ),
    "`finite` overflows half a step early": encoded(
        lambda value, e, m, s, o: (
            math.copysign(formats.decode((1 << (e + m)) - 2, e, m, s), value)
            if (s, o) == ("finite", "saturate") and abs(value) > formats.largest_finite(e, m, s)
            else None
        )
    ),
}

# --- sum_in_format


def summed(
    store_value: Callable[..., float], add: Callable[[float, float], float] = float.__add__
) -> Answer:
    """`sum_in_format` that stores its values, or adds, in another way."""

    def sum_in_format(
        values: Sequence[float],
        exponent_bits: int,
        mantissa_bits: int,
        specials: str = "ieee",
        overflow: str = "infinity",
    ) -> float:
        key = (exponent_bits, mantissa_bits, specials)

        def rounded(value: float, rule: str = overflow) -> float:
            return formats.decode(formats.encode(value, *key, rule), *key)

        total = rounded(0.0)
        for value in values:
            total = rounded(add(total, store_value(value, mantissa_bits, rounded)))
        return total

    return sum_in_format


def without_limit(value: float, mantissa_bits: int, _rounded: Any) -> float:
    """`value` with as many digits as the format, and no limit on the exponent."""
    power = mantissa_bits + 1 - math.frexp(value)[1]
    return math.ldexp(round(math.ldexp(value, power)), -power)


def where(negative: bool) -> Callable[..., float]:
    """Values stored as they should be, but of one sign without a limit."""
    return lambda value, m, rounded: (
        without_limit(value, m, rounded) if (value < 0) is negative else rounded(value)
    )


def without_nan(total: float, value: float) -> float:
    result = total + value
    both = math.isinf(total) and math.isinf(value)
    return 0.0 if math.isnan(result) and both else result


def keeps_infinity(total: float, value: float) -> float:
    return total if math.isinf(total) else total + value


SUM: dict[str, Answer] = {
    "overflow rule of the sum alone": summed(without_limit),
    "overflow rule of positive values alone": summed(where(negative=True)),
    "overflow rule of negative values alone": summed(where(negative=False)),
    "values always saturate": summed(lambda value, _m, rounded: rounded(value, "saturate")),
    "infinities that cancel": summed(lambda value, _m, rounded: rounded(value), without_nan),
    "infinity that stays": summed(lambda value, _m, rounded: rounded(value), keeps_infinity),
}

# --- lora_config: the rules' own wrong answers stand beside them


def configured(**changes: Any) -> Answer:
    return lambda: {**lora_config_reference(), **changes}


LORA_CONFIG: dict[str, Answer] = {
    f"{key}={value!r}": configured(**{key: value})
    for key, values in {
        "layers_to_transform": [0, False, "", {}, 0.0],
        "trainable_token_indices": [0, [], False],
        "kasa_config": [{}, 0],
        "rank_pattern": [None, 0, []],
        "use_bdlora": [{}, False],
        "arrow_config": [{}, ""],
        "target_parameters": [""],
        "runtime_config": [None, 0, {}, "junk", True],
        "use_dora": ["junk", 3, None],
        "use_rslora": [0, "no"],
        "target_modules": [
            ["0.self_attn.q_proj", "0.mlp.up_proj"],
            ["q_proj", "33.mlp.up_proj"],
            (
                r"model\.(language_model|vision_tower\.encoder)\.layers\.\d+\."
                r"(self_attn\.q_proj|mlp\.(up_proj|fc1))"
            ),
        ],
    }.items()
    for value in values
}

# --- updates that stick, overflow, formats and batches


def stuck(
    form: Callable[[str, bool], str],
    counts: Callable[[float, float, float], bool] = lambda kept, moved, update: moved != kept,
) -> Answer:
    """`updates_that_stick` with another format for the stored weight, or another thing counted."""

    def updates_that_stick(
        weight: float, updates: Sequence[float], dtype: str, master: bool = False
    ) -> int:
        if dtype not in precision_choice.FIELDS:
            raise ValueError(dtype)
        kept_as = form(dtype, master)
        kept, count = precision_choice.stored(weight, kept_as), 0
        for update in updates:
            moved = precision_choice.stored(kept + update, kept_as)
            count += counts(kept, moved, update)
            kept = moved
        return count

    return updates_that_stick


def usual_form(dtype: str, master: bool) -> str:
    return "float32" if master else dtype


UPDATES: dict[str, Answer] = {
    "a master copy for bfloat16 alone": stuck(
        lambda dtype, master: "float32" if master and dtype == "bfloat16" else dtype
    ),
    "float16 for every format of 16 bits": stuck(
        lambda dtype, master: usual_form(dtype, master).replace("bfloat16", "float16")
    ),
    "updates that arrive whole": stuck(
        usual_form, lambda kept, moved, update: update != 0 and moved - kept == update
    ),
    "updates that move as far as they say, or more": stuck(
        usual_form, lambda kept, moved, update: moved != kept and abs(moved - kept) >= abs(update)
    ),
    "updates that make the weight larger": stuck(
        usual_form, lambda kept, moved, update: moved > kept
    ),
}


def overflowing(over: Callable[[float], bool]) -> Answer:
    return lambda activations: next(
        (i for i, layer in enumerate(activations) if any(map(over, layer))), None
    )


OVERFLOW: dict[str, Answer] = {
    "limit at 65,519": overflowing(lambda value: abs(value) > 65_519),
    "limit above 65,520": overflowing(lambda value: abs(value) > 65_520),
    "limit of the negative values at 65,504": overflowing(
        lambda value: value >= 65_520 or value < -65_504
    ),
    "last value of a layer alone": lambda activations: next(
        (i for i, layer in enumerate(activations) if abs(layer[-1]) >= 65_520), None
    ),
}


def choosing(order: Callable[[dict[str, Any], dict[str, Any]], Sequence[str]]) -> Answer:
    """The first of these formats that fits and does not overflow."""

    def choose_dtype(gpu: dict[str, Any], model: dict[str, Any]) -> str | None:
        for dtype in order(gpu, model):
            overflows = dtype == "float16" and model["largest_activation"] >= 65_520
            if not overflows and model["peak_bytes"][dtype] <= gpu["usable_bytes"]:
                return dtype
        return None

    return choose_dtype


CHOICES: dict[str, Answer] = {
    "the first that fits of the card's list": choosing(
        lambda gpu, _: [d for d in gpu["native"] if d in precision_choice.FIELDS] + ["bfloat16"]
    ),
    "float16 emulated": choosing(
        lambda gpu, _: [
            *(d for d in precision_choice.BEST_FIRST if d in gpu["native"]),
            *("float16", "bfloat16"),
        ]
    ),
    "float32 for models that overflow": choosing(
        lambda gpu, model: (
            ["float32", "bfloat16"]
            if model["largest_activation"] >= 65_520
            else [*(d for d in precision_choice.BEST_FIRST if d in gpu["native"]), "bfloat16"]
        )
    ),
    "the smallest peak": choosing(
        lambda gpu, model: sorted(model["peak_bytes"], key=lambda d: model["peak_bytes"][d])
    ),
}

# --- exercise 23: padding, packing, loss scaling


def refusing(is_refused: Callable[[Sequence[int], int], bool]) -> Answer:
    """`pack` that raises for more than it should."""

    def pack(lengths: Sequence[int], max_length: int) -> list[list[int]]:
        if is_refused(lengths, max_length):
            raise ValueError
        return batching.pack(lengths, max_length)

    return pack


def pack_by_value(lengths: Sequence[int], max_length: int) -> list[list[int]]:
    rows = batching.pack(lengths, max_length)
    return [[list(lengths).index(lengths[i]) for i in row] for row in rows]


PACK: dict[str, Answer] = {
    "a sequence as long as a row refused": refusing(
        lambda lengths, max_length: max(lengths, default=0) >= max_length
    ),
    "more than a hundred tokens refused": refusing(lambda lengths, _max: sum(lengths) > 100),
    "equal lengths taken for one": pack_by_value,
    "no lengths give no rows": lambda lengths, max_length: (
        batching.pack(lengths, max_length) if lengths else []
    ),
    "a negative length taken for an empty one": lambda lengths, max_length: batching.pack(
        [abs(length) for length in lengths], max_length
    ),
    "the last row lost": lambda lengths, max_length: batching.pack(lengths, max_length)[:-1],
}

PADDING_WASTE: dict[str, Answer] = {
    "a batch that is not full left out, unless it is the only one": lambda lengths, batch_size, sort=False: (
        batching.padding_waste(
            (sorted(lengths) if sort else list(lengths))[
                : len(lengths) // batch_size * batch_size or None
            ],
            batch_size,
        )
    ),
    "batches no larger than the list": lambda lengths, batch_size, sort=False: (
        batching.padding_waste(lengths, batch_size if batch_size <= len(lengths) else 1, sort)
    ),
    "a negative size taken for a positive one": lambda lengths, batch_size, sort=False: (
        batching.padding_waste(lengths, abs(batch_size), sort)
    ),
    "rounded to four digits": lambda lengths, batch_size, sort=False: round(
        batching.padding_waste(lengths, batch_size, sort), 4
    ),
    "sorted as text": lambda lengths, batch_size, sort=False: batching.padding_waste(
        sorted(lengths, key=str) if sort else lengths, batch_size
    ),
}


class VectorsAlone(DynamicLossScaler):
    """Goes through a gradient's numbers, and finds rows in a matrix."""

    def step_ok(self, grads: Any) -> bool:
        vectors = [each for each in grads if each.ndim == 1]
        return super().step_ok(vectors)


class FirstNumberAlone(DynamicLossScaler):
    def step_ok(self, grads: Any) -> bool:
        return super().step_ok([each.flatten()[:1] for each in grads])


class AtLeastOne(DynamicLossScaler):
    """Keeps the factor from falling below where it began."""

    def __init__(
        self,
        initial: float = 65_536.0,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2_000,
    ) -> None:
        super().__init__(initial, growth, backoff, interval)
        self.least = initial

    def step_ok(self, grads: Any) -> bool:
        ok = super().step_ok(grads)
        self.factor = max(self.factor, self.least)
        return ok


class FactorOfWholeNumbers(DynamicLossScaler):
    def __init__(
        self,
        initial: float = 65_536.0,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2_000,
    ) -> None:
        super().__init__(initial, growth, backoff, interval)
        self.factor = int(initial)


class LimitedFactor(DynamicLossScaler):
    """Stays between 1 and 2 to the 16th."""

    def step_ok(self, grads: Any) -> bool:
        ok = super().step_ok(grads)
        self.factor = min(max(self.factor, 1.0), 65_536.0)
        return ok


class DividesGradients(DynamicLossScaler):
    def step_ok(self, grads: Any) -> bool:
        factor = self.factor
        ok = super().step_ok(grads)
        for each in grads if ok else ():
            each /= factor  # noqa: PLW2901
        return ok


class ScalesInPlace(DynamicLossScaler):
    def scale(self, loss: Any) -> Any:
        loss *= self.factor
        return loss


class TotalNorm(DynamicLossScaler):
    def step_ok(self, grads: Any) -> bool:
        return super().step_ok([sum(each.square().sum() for each in grads)])


class TakesNoBackoff(DynamicLossScaler):
    """Lets 0 pass for a backoff."""

    def __init__(
        self,
        initial: float = 65_536.0,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2_000,
    ) -> None:
        super().__init__(initial, growth, backoff or 0.5, interval)


AUTOCAST: dict[str, Answer] = {
    "a mean as a sum": lambda op, low="bfloat16": autocast_dtype(
        "sum" if op == "mean" else op, low
    ),
    "attention forgotten": lambda op, low="bfloat16": autocast_dtype(
        "relu" if op == "scaled_dot_product_attention" else op, low
    ),
    "convolutions forgotten": lambda op, low="bfloat16": autocast_dtype(
        "relu" if op in ("conv1d", "conv2d") else op, low
    ),
    "softplus with the other activations": lambda op, low="bfloat16": autocast_dtype(
        "relu" if op == "softplus" else op, low
    ),
    "low looked at for products alone": lambda op, low="bfloat16": autocast_dtype(
        op, low if autocast_dtype(op) == "bfloat16" else "bfloat16"
    ),
    "low looked at for listed operations alone": lambda op, low="bfloat16": autocast_dtype(
        op, low if autocast_dtype(op) != "input" else "bfloat16"
    ),
    "what ends like a listed operation": lambda op, low="bfloat16": next(
        (autocast_dtype(name, low) for name in sorted(PRODUCTS | IN_FLOAT32) if name.endswith(op)),
        autocast_dtype(op, low),
    ),
}


def collating(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Answer:
    """The right batch, changed."""
    return lambda examples, pad_id: change(collate(examples, pad_id))


def collate_needs(*names: str) -> Answer:
    """Refuses an example of which one of these is empty."""
    return lambda examples, pad_id: collate(
        [
            each if all(each[name] for name in names) else {"prompt": [], "answer": []}
            for each in examples
        ],
        pad_id,
    )


COLLATE: dict[str, Answer] = {
    "arrays": collating(lambda batch: {name: part.numpy() for name, part in batch.items()}),
    "rows in lists": collating(lambda batch: {name: list(part) for name, part in batch.items()}),
    "float ids": collating(lambda batch: {**batch, "input_ids": batch["input_ids"].double()}),
    "labels in 32 bits": collating(lambda batch: {**batch, "labels": batch["labels"].int()}),
    "a mask for labels": collating(
        lambda batch: {**batch, "attention_mask": batch["labels"] != -100}
    ),
    "one more entry": collating(lambda batch: {**batch, "lengths": batch["attention_mask"].sum(1)}),
    "an empty answer refused": collate_needs("answer"),
    "an empty prompt refused": collate_needs("prompt"),
}


LOSS_SCALER: dict[str, Answer] = {
    "the factor a whole number": FactorOfWholeNumbers,
    "the factor within limits": LimitedFactor,
    "gradients divided": DividesGradients,
    "loss scaled in place": ScalesInPlace,
    "norm of all": TotalNorm,
    "a backoff of 0 accepted": TakesNoBackoff,
    "vectors alone": VectorsAlone,
    "the first number of each gradient": FirstNumberAlone,
    "never below the beginning": AtLeastOne,
}

# --- exercise 11


def chosen(
    meets: Callable[[dict[str, Any], float, float], bool],
    order: Callable[[dict[str, Any]], Any] = lambda model: (
        model["params"],
        -model["quality"],
        model["seconds"],
    ),
) -> Answer:
    """The name of the first in this order that meets the limits in this sense."""

    def smallest_that_meets(models: Any, min_quality: float, max_seconds: float) -> Any:
        left = [model for model in models if meets(model, min_quality, max_seconds)]
        return min(left, key=order)["name"] if left else None

    return smallest_that_meets


def meets_both(model: dict[str, Any], quality: float, seconds: float) -> bool:
    return bool(model["quality"] >= quality and model["seconds"] <= seconds)


SMALLEST: dict[str, Answer] = {
    "a little too bad forgiven": chosen(lambda m, q, s: meets_both(m, 0.995 * q, s)),
    "a little too slow forgiven": chosen(lambda m, q, s: meets_both(m, q, 1.005 * s)),
    "quality to two digits": chosen(
        lambda m, q, s: round(m["quality"], 2) >= round(q, 2) and m["seconds"] <= s
    ),
    "time to one digit": chosen(
        lambda m, q, s: m["quality"] >= q and round(m["seconds"], 1) <= round(s, 1)
    ),
    "tie: the most quality for each second": chosen(
        meets_both, lambda model: (model["params"], -model["quality"] / model["seconds"])
    ),
    "near misses of either limit forgiven": chosen(
        lambda m, q, s: m["quality"] >= q - 0.01 and m["seconds"] <= s + 0.01
    ),
    "smallest by quality and size together": chosen(
        meets_both, lambda model: model["params"] / model["quality"] ** 20
    ),
}
PERPLEXITY: dict[str, Answer] = {
    "at most the number of bytes": lambda mean_nll: min(tradeoff.perplexity(mean_nll), 256),
    "small means taken as they are": lambda mean_nll: (
        tradeoff.perplexity(mean_nll) if mean_nll > 0.99 or mean_nll <= 0 else 1 + mean_nll
    ),
}

SUBTLY_WRONG: dict[tuple[str, str], dict[str, Answer]] = {
    ("11_model_size_tradeoff", "perplexity"): PERPLEXITY,
    ("11_model_size_tradeoff", "smallest_that_meets"): SMALLEST,
    ("21_number_formats", "decode"): DECODE,
    ("21_number_formats", "encode"): ENCODE,
    ("21_number_formats", "sum_in_format"): SUM,
    ("23_reducing_compute", "autocast_dtype"): AUTOCAST,
    ("23_reducing_compute", "collate"): COLLATE,
    ("23_reducing_compute", "DynamicLossScaler"): LOSS_SCALER,
    ("23_reducing_compute", "padding_waste"): PADDING_WASTE,
    ("23_reducing_compute", "pack"): PACK,
    ("31_gpu_memory", "parameter_count"): PARAMETER_COUNT,
    ("32_bfloat16", "updates_that_stick"): UPDATES,
    ("32_bfloat16", "first_overflow"): OVERFLOW,
    ("32_bfloat16", "choose_dtype"): CHOICES,
    ("43_lora", "lora_config"): LORA_CONFIG,
}
