"""Whole runs: their parts, the way from 6·N·D to the count, and the two kinds of utilization."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.shapes import Shape
from solutions.run_cost import (
    Run,
    against_rule,
    multiplied_weights,
    run_flops,
    run_mfu,
    run_seconds,
)
from solutions.shapes import TOY, model_shape
from tests.estimators.strategies import shapes

COUNTED = Path(__file__).parents[2] / "book/data/counted_flops.csv"


@given(
    shapes(),
    st.integers(1, 5000),
    st.integers(1, 10**9),
    st.sampled_from(["full", "lora", "qlora"]),
    st.booleans(),
)
def test_the_way_from_the_rule_ends_at_the_count(
    shape: Shape, seq: int, tokens: int, method: str, checkpointing: bool
) -> None:
    run = Run(
        shape=shape, tokens=tokens, seq=seq, method=method, checkpointing=checkpointing, rank=1
    )
    parts = against_rule(run)
    scale = max(map(abs, parts.values()))
    assert sum(parts.values()) == pytest.approx(
        sum(run_flops(run).values()), rel=1e-9, abs=1e-9 * scale
    )


def test_a_toy_run_is_what_one_counts_by_hand() -> None:
    """Exercise 22 counts this model by hand: 2440 operations forward, 600 of them in the scores."""
    run = Run(shape=TOY, tokens=15, seq=5, method="lora", checkpointing=True, rank=2)
    assert run_flops(run) == {
        "forward": 3 * 2440,
        "backward": 3 * (2440 + 600),
        "recomputed": 3 * 2040,
        # q 10, k 7, v 7, o 10 and gate, up, down 10 each: rank x (inputs + outputs) parameters
        "adapters": 3 * 4 * 2 * 5 * 2 * (10 + 7 + 7 + 10 + 3 * 10),
    }
    assert multiplied_weights(TOY) == 24 + 12 + 12 + 24 + 3 * 24 + 40


def test_runs_take_what_pytorch_counted() -> None:
    with COUNTED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        run = Run(
            shape=Shape.gemma3(row["size"]),
            tokens=int(row["batch"]) * int(row["seq"]),
            seq=int(row["seq"]),
            method=row["method"],
            checkpointing=row["checkpointing"] == "True",
        )
        exact = row["method"] == "full"
        assert sum(run_flops(run).values()) == pytest.approx(
            int(row["training_flops"]), rel=0 if exact else 0.005
        )


def test_an_untied_embedding_is_billed_by_the_rule_and_not_multiplied() -> None:
    shape = model_shape("llama3.1-8b")
    parts = against_rule(Run(shape=shape, tokens=1, seq=1))
    assert parts["not multiplied"] == pytest.approx(-6 * shape.vocab * shape.hidden, rel=1e-3)
    tied = against_rule(Run(shape=Shape.gemma3("4b"), tokens=1, seq=1))
    assert abs(tied["not multiplied"]) < 2e-4 * tied["rule"]


def test_recomputing_keeps_a_card_busy_and_is_no_part_of_its_mfu() -> None:
    """PaLM reports both (arXiv:2204.02311, section 4): the larger one counts what is recomputed."""
    run = Run(shape=Shape.gemma3("4b"), tokens=1e6, seq=1024, checkpointing=True)
    plain = replace(run, checkpointing=False)
    assert run_mfu(plain, 121e12, 0.3) == pytest.approx(0.3)
    assert run_seconds(run, 121e12, 0.3) > run_seconds(plain, 121e12, 0.3)
    share = sum(run_flops(plain).values()) / sum(run_flops(run).values())
    assert run_mfu(run, 121e12, 0.3) == pytest.approx(0.3 * share)


def test_bad_runs_raise() -> None:
    for wrong in ({"method": "banana"}, {"tokens": 0}, {"seq": 0}, {"rank": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Run(**{"shape": TOY, "tokens": 10, "seq": 5, **wrong})
