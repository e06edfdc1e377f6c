"""Shapes that hypothesis draws: any sizes a model can have."""

from __future__ import annotations

from hypothesis import strategies as st

from gradelib.shapes import ATTENTION_BIASES, Shape


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    kv_heads = draw(st.integers(1, 8))
    window = draw(st.none() | st.integers(1, 600))
    return Shape(
        vocab=draw(st.integers(1, 300_000)),
        hidden=draw(st.integers(1, 8192)),
        intermediate=draw(st.integers(1, 30_000)),
        layers=draw(st.integers(1, 100)),
        heads=kv_heads * draw(st.integers(1, 8)),
        kv_heads=kv_heads,
        head_dim=draw(st.integers(1, 256)),
        tied=draw(st.booleans()),
        gated=draw(st.booleans()),
        norms_per_layer=draw(st.sampled_from([2, 4])),
        qk_norm=draw(st.booleans()),
        attention_bias=draw(st.sampled_from(ATTENTION_BIASES)),
        mlp_bias=draw(st.booleans()),
        norm_bias=draw(st.booleans()),
        learned_positions=draw(st.sampled_from([0, 1024])),
        sliding_window=window,
        sliding_pattern=None if window is None else draw(st.none() | st.integers(1, 8)),
    )
