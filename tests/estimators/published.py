"""Shapes of models that are known from papers and have no configuration on a hub."""

from __future__ import annotations

from gradelib.shapes import Shape

GPT3 = Shape(  # GPT-3 175B, arXiv:2005.14165, table 2.1
    vocab=50_257,
    hidden=12_288,
    intermediate=4 * 12_288,
    layers=96,
    heads=96,
    kv_heads=96,
    head_dim=128,
    tied=True,
    gated=False,
)
PALM = Shape(  # PaLM 540B, arXiv:2204.02311, table 1
    vocab=256_000,
    hidden=18_432,
    intermediate=4 * 18_432,
    layers=118,
    heads=48,
    kv_heads=1,
    head_dim=256,
    tied=True,
    gated=True,
)


def gpt(heads: int, hidden: int, layers: int) -> Shape:
    """A GPT as Megatron trains it, with its vocabulary of 51,200."""
    return Shape(
        vocab=51_200,
        hidden=hidden,
        intermediate=4 * hidden,
        layers=layers,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        tied=True,
        gated=False,
    )
