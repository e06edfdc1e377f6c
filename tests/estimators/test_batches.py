"""How examples share batches: every example once, each way as it says, and what an epoch costs."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib import Shape
from solutions.batching import WAYS, Batch, batches, epoch_flops, padding_waste
from solutions.flops import training_flops

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=40)
DATA = Path(__file__).resolve().parents[2] / "book" / "data"


@given(LENGTHS, st.integers(1, 9), st.integers(5, 70), st.sampled_from(WAYS))
def test_every_example_is_in_one_row_and_every_row_fits(
    lengths: list[int], size: int, most: int, way: str
) -> None:
    made = batches(lengths, size, most, way)
    placed = [i for batch in made for row in batch.rows for i in row]
    assert sorted(placed) == list(range(len(lengths)))
    assert all(len(batch.rows) == size for batch in made[:-1])
    assert 1 <= len(made[-1].rows) <= size
    for batch in made:
        fills = [sum(min(lengths[i], most) for i in row) for row in batch.rows]
        assert max(fills) <= batch.width <= most
        assert batch.width == (most if way == "fixed" else max(fills))
        assert batch.positions == batch.width * len(batch.rows)
        assert way == "packed" or all(len(row) == 1 for row in batch.rows)


@given(LENGTHS, st.integers(1, 9))
def test_the_waste_of_batches_is_that_of_the_task(lengths: list[int], size: int) -> None:
    for way, sort in (("padded", False), ("sorted", True)):
        positions = sum(batch.positions for batch in batches(lengths, size, 60, way))
        waste = 1 - sum(lengths) / positions
        assert waste == pytest.approx(padding_waste(lengths, size, sort), abs=1e-12)


@given(LENGTHS, st.integers(1, 9))
def test_no_way_computes_more_than_padding_to_the_maximum(lengths: list[int], size: int) -> None:
    counted = {
        way: sum(batch.positions for batch in batches(lengths, size, 60, way)) for way in WAYS
    }
    assert max(counted.values()) == counted["fixed"] == 60 * len(lengths)


def test_sorted_batches_go_from_short_to_long_and_keep_ties_in_order() -> None:
    assert batches([5, 2, 5, 2, 9], 2, 8, "sorted") == [
        Batch(((1,), (3,)), 2),
        Batch(((0,), (2,)), 5),
        Batch(((4,),), 8),
    ]


def test_an_epoch_costs_what_its_batches_cost() -> None:
    shape = Shape.gemma3("270m")
    made = batches([100, 20, 30, 40, 50], 2, 100, "padded")
    for method, again in (("full", False), ("lora", True)):
        steps = [(2, 100), (2, 40), (1, 50)]
        wanted = sum(training_flops(shape, rows, width, method, again) for rows, width in steps)
        assert epoch_flops(shape, made, method, again) == wanted


@pytest.mark.parametrize(
    ("lengths", "size", "most", "way"),
    [([], 2, 8, "padded"), ([0], 2, 8, "padded"), ([3], 0, 8, "padded"), ([3], 2, 0, "fixed")],
)
def test_sizes_that_make_no_sense_are_refused(
    lengths: list[int], size: int, most: int, way: str
) -> None:
    with pytest.raises(ValueError, match=r"length|token|size|at least"):
        batches(lengths, size, most, way)


def test_an_unknown_way_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="fixed, padded, sorted, packed"):
        batches([3], 2, 8, "random")


def test_the_published_lengths_are_as_many_as_their_source_says() -> None:
    """88,641 sequences: the number that BERT's preparation of SQuAD 1.1 makes, at 384 tokens."""
    with (DATA / "squad_lengths.csv").open(encoding="utf-8") as file:
        rows = [(int(row["tokens"]), int(row["examples"])) for row in csv.DictReader(file)]
    assert sum(examples for _, examples in rows) == 88_641
    assert rows == sorted(rows)
    assert rows[-1][0] == 384
