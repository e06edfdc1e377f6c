"""Padding, packing and collation, against brute force and transformers' own masks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradelib.shapes import Shape
from solutions.batching import batches_flops, pack, padding_waste
from solutions.flops import training_flops
from solutions.implementations.batching import collate
from solutions.layers import head_layer, linear_layers
from tests.core.test_criteria import fewest_of_all_orders

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=60)


@given(LENGTHS, st.integers(1, 8))
def test_waste_is_what_padding_a_batch_adds(lengths: list[int], batch_size: int) -> None:
    padded = []
    for start in range(0, len(lengths), batch_size):
        batch = [torch.ones(length) for length in lengths[start : start + batch_size]]
        padded.append(torch.nn.utils.rnn.pad_sequence(batch, batch_first=True))
    empty = sum(int((rows == 0).sum()) for rows in padded)
    expected = empty / sum(rows.numel() for rows in padded)
    assert padding_waste(lengths, batch_size) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=15), st.integers(1, 8))
def test_sorting_never_adds_waste_where_batches_are_full(
    lengths: list[int], batch_size: int
) -> None:
    full = lengths * batch_size
    assert padding_waste(full, batch_size, sort=True) <= padding_waste(full, batch_size) + 1e-12


def test_equal_lengths_and_batches_of_one_waste_nothing() -> None:
    assert padding_waste([5, 5, 5], 2) == 0
    assert padding_waste([1, 9, 3], 1) == 0


@given(LENGTHS, st.integers(40, 100))
def test_packing_keeps_every_sequence_whole(lengths: list[int], max_length: int) -> None:
    rows = pack(lengths, max_length)
    assert sorted(index for row in rows for index in row) == list(range(len(lengths)))
    assert all(sum(lengths[i] for i in row) <= max_length for row in rows)


@given(st.lists(st.integers(1, 10), min_size=1, max_size=6), st.integers(10, 20))
def test_packing_needs_few_rows(lengths: list[int], room: int) -> None:
    assert 9 * len(pack(lengths, room)) <= 11 * fewest_of_all_orders(lengths, room) + 6


def test_packing_beats_padding_on_uneven_sequences() -> None:
    lengths = [1024, 40, 60, 500, 30, 900, 100, 200]
    rows = pack(lengths, 1024)
    padded = len(lengths) * max(lengths)
    assert len(rows) * 1024 < padded / 2


def test_collation_pads_on_the_right_and_learns_the_answer_alone() -> None:
    batch = collate(
        [{"prompt": [5, 6], "answer": [7, 0, 1]}, {"prompt": [8], "answer": [9]}], pad_id=0
    )
    assert batch["input_ids"].tolist() == [[5, 6, 7, 0, 1], [8, 9, 0, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]
    assert batch["labels"].tolist() == [[-100, -100, 7, 0, 1], [-100, 9, -100, -100, -100]]
    assert all(part.dtype == torch.int64 for part in batch.values())


def test_bad_batches_are_refused() -> None:
    with pytest.raises(ValueError, match="batch_size must be a whole number"):
        padding_waste([3], 0)
    with pytest.raises(ValueError, match="no sequences"):
        padding_waste([], 2)
    with pytest.raises(ValueError, match="at least one token"):
        padding_waste([3, 0], 2)
    with pytest.raises(ValueError, match="does not fit"):
        pack([3, 11], 10)
    with pytest.raises(ValueError, match="at least one example"):
        collate([], 0)
    with pytest.raises(ValueError, match="at least one token"):
        collate([{"prompt": [], "answer": []}], 0)


@pytest.mark.parametrize("size", ["270m", "1b", "4b"])
@given(batches=st.lists(st.tuples(st.integers(1, 16), st.integers(1, 9000)), max_size=5))
def test_two_numbers_of_a_model_tell_the_operations_of_a_batch(
    size: str, batches: list[tuple[int, int]]
) -> None:
    shape = Shape.gemma3(size)
    weights = sum(layer.weights for layer in [*linear_layers(shape), head_layer(shape)])
    width = shape.layers * shape.heads * shape.head_dim
    expected = sum(training_flops(shape, rows, seq) for rows, seq in batches)
    assert batches_flops(batches, weights, width) == expected
