"""The numbers that the exercises' texts state, worked out anew."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest

from gradelib.shapes import Shape
from solutions.checks.gpu_memory import layer_terms
from solutions.flops import forward_flops_2nd
from solutions.formats import FORMATS, bytes_for, decode, encode, largest_finite, smallest_subnormal
from solutions.lora import lora_parameters
from solutions.memory import (
    cached_tokens,
    gradient_bytes,
    kv_cache_bytes,
    logits_bytes,
    optimizer_bytes,
    weight_bytes,
)
from solutions.parameters import parameter_count, parameters_by_part
from solutions.roofline import decode_seconds_lower_bound
from solutions.tradeoff import perplexity, tokens_per_second
from tests.checks.tasks import source

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
LAYER_OF_4B = replace(Shape.gemma3("4b"), layers=1)
SHAPE_4B, SHAPE_270M = Shape.gemma3("4b"), Shape.gemma3("270m")
TOKEN_OF_270M = sum(layer_terms(SHAPE_270M, 1, 1, "bfloat16", "sdpa", local=False).values())
TOKENS_CACHED = SHAPE_4B.local_layers * cached_tokens(2048, SHAPE_4B.sliding_window)
TOKENS_CACHED += SHAPE_4B.global_layers * cached_tokens(2048)


def prose(exercise):
    return " ".join(" ".join(cell.text.split()) for cell in source(exercise).cells)


STATED = [
    (
        "11_model_size_tradeoff",
        f"Allow about {source('11_model_size_tradeoff').minutes} minutes.",
    ),
    (
        "11_model_size_tradeoff",
        f"45 tokens in 6 seconds: {tokens_per_second(45, 6):g} tokens a second.",
    ),
    (
        "11_model_size_tradeoff",
        f"The perplexity is $e^{{1.040}} = {perplexity(1.5 * log(2)):.2f}$.",
    ),
    ("11_model_size_tradeoff", f"16 / 8 = {weight_bytes(500, 'bfloat16'):,g} bytes."),
    ("11_model_size_tradeoff", f"as many additions, {forward_flops_2nd(1000, 30):,} operations."),
    (
        "11_model_size_tradeoff",
        f"so 200 tokens take {decode_seconds_lower_bound(3e9, 300e9, 200):g} s at the least.",
    ),
    ("21_number_formats", f"Allow about {source('21_number_formats').minutes} minutes."),
    ("43_lora", f"Allow about {source('43_lora').minutes} minutes."),
    (
        "23_reducing_compute",
        f"Allow about {source('23_reducing_compute').minutes} minutes.",
    ),
    (
        "21_number_formats",
        f"The number is $-4 \\cdot 1.25 = {decode(0b1_10001_0100000000, 5, 10):g}$",
    ),
    ("21_number_formats", f"The pattern is $11 \\cdot 2^{{10}} + 614 = {encode(0.1, 5, 10)}$"),
    ("21_number_formats", f"= {decode(11878, 5, 10):.13f}$"),
    ("21_number_formats", f"The pattern is {encode(0.00001, 5, 10)}."),
    ("21_number_formats", f"FP16's largest number is {largest_finite(5, 10):,.0f}."),
    ("21_number_formats", f"\\cdot 1.75 = {largest_finite(3, 2):g}$"),
    ("21_number_formats", f"\\cdot 1.75 = {largest_finite(3, 2, 'finite'):g}$"),
    ("21_number_formats", f"\\cdot 1.5 = {largest_finite(3, 2, 'fn'):g}$"),
    ("21_number_formats", f"\\cdot 1/4 = {smallest_subnormal(3, 2):g}$"),
    ("21_number_formats", f"so they take {bytes_for(5, 4)} bytes"),
    ("31_gpu_memory", f"embedding: 10 · 4 = {parameters_by_part(TOY)['embedding']};"),
    ("31_gpu_memory", f"together {parameters_by_part(TOY)['attention']};"),
    ("31_gpu_memory", f"3 · 4 · 6 = {parameters_by_part(TOY)['mlp']};"),
    ("31_gpu_memory", f"3 · 4 = {parameters_by_part(TOY)['norms']};"),
    ("31_gpu_memory", f"The sum is 40 + 72 + 72 + 12 = {parameter_count(TOY)}."),
    ("31_gpu_memory", f"Together {weight_bytes(128, 'nf4'):g} bytes."),
    ("31_gpu_memory", f"Together {weight_bytes(16_384, 'nf4-dq'):,g} bytes."),
    ("31_gpu_memory", f"of 2 bytes: {gradient_bytes(500, 'bfloat16'):,g} bytes."),
    ("31_gpu_memory", f"of 2 bytes, {optimizer_bytes(25_600, 'adamw', 'bfloat16'):,} bytes."),
    ("31_gpu_memory", f"51,200 + 800 = {optimizer_bytes(25_600, 'adamw8bit', 'float16'):,} bytes"),
    ("31_gpu_memory", f"· 4 = {optimizer_bytes(25_600, 'adafactor', 'float16'):,} bytes."),
    ("31_gpu_memory", f"The sum is {TOKEN_OF_270M:,} bytes."),
    ("31_gpu_memory", f"Together {logits_bytes(TOY, 1, 3, 'bfloat16')} bytes."),
    ("31_gpu_memory", f"5 tokens that is {kv_cache_bytes(TOY, 1, 5, 'float32'):g} bytes."),
    ("31_gpu_memory", f"= {TOKENS_CACHED:,} tokens together."),
    ("43_lora", f"which has {parameter_count(Shape.gemma3('4b')):,}."),
    (
        "43_lora",
        f"(2560 + 2048) = {lora_parameters(LAYER_OF_4B, 4, ['q_proj'])}$".replace(
            "18432", "18{,}432"
        ),
    ),
]


@pytest.mark.parametrize(("exercise", "words"), STATED, ids=[words for _, words in STATED])
def test_a_stated_number_is_right(exercise, words):
    assert words in prose(exercise)


def test_the_edge_of_fp16_lies_where_the_text_says():
    assert decode(encode(65519.0, 5, 10), 5, 10) == 65504
    assert decode(encode(65520.0, 5, 10), 5, 10) == float("inf")


def guide(exercise):
    return " ".join(" ".join(cell.rubric.split()) for cell in source(exercise).cells)


def test_the_marking_guide_of_the_sums_states_what_the_cell_prints():
    stops = {name: FORMATS[name].sum([1.0] * 2560) for name in ("FP16", "TF32", "BF16", "FP32")}
    assert f"FP16 and TF32 stop at {stops['FP16']:,.0f}, BF16 at {stops['BF16']:.0f};" in guide(
        "21_number_formats"
    )
    assert (stops["TF32"], stops["FP32"]) == (stops["FP16"], 2560)


def test_the_marking_guide_of_the_products_states_what_the_changed_cell_prints():
    products = [FORMATS["BF16"].round(0.3 * 0.7)] * 2560
    sums = {name: FORMATS[name].sum(products) for name in ("FP32", "BF16")}
    words = f"The sum in FP32 is about {int(sums['FP32'])}; in BF16 it stops at {sums['BF16']:.0f},"
    assert words in guide("21_number_formats")
    assert "[round_to_bits(0.3 * 0.7, 7)] * 2560" in prose("21_number_formats")
