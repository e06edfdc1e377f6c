"""How sequences of different lengths share batches: how much of it is padding, and packing sequences
into full rows. Lengths alone decide; the tensors are made in `solutions.implementations.batching`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradelib.shapes import Shape
from solutions.flops import training_flops
from solutions.validation import require_known, require_whole

# Each example padded to the greatest length; to the longest of its batch; that, after sorting by
# length; several examples to a row.
WAYS = ("fixed", "padded", "sorted", "packed")


def padding_waste(lengths: Sequence[int], batch_size: int, sort: bool = False) -> float:
    """Share of the positions that are padding, from 0 up to 1, when each batch is padded to its
    longest sequence.

    Sequences are batched in the order given, or by length with `sort`; the last batch may be
    smaller. Raises `ValueError` for no lengths, a length or a batch size below 1.
    """
    require_lengths(lengths)
    require_whole(batch_size=batch_size)
    ordered = sorted(lengths) if sort else list(lengths)
    batches = [ordered[i : i + batch_size] for i in range(0, len(ordered), batch_size)]
    positions = sum(len(batch) * max(batch) for batch in batches)
    return 1 - sum(lengths) / positions


def pack(lengths: Sequence[int], max_length: int) -> list[list[int]]:
    """Rows of at most `max_length` tokens that hold every sequence whole: the indices in each row.

    First fit, longest first: it needs at most 11/9 of the fewest possible rows, plus 6/9. Source:
    Dósa, The tight bound of first fit decreasing bin-packing, 2007. Raises `ValueError` for no
    lengths, or a sequence longer than `max_length`.
    """
    require_lengths(lengths)
    if max(lengths) > max_length:
        raise ValueError(
            f"a sequence of {max(lengths)} tokens does not fit into {max_length}: cut it first"
        )
    rows: list[list[int]] = []
    free: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True):
        row = next((row for row, room in enumerate(free) if lengths[index] <= room), len(rows))
        if row == len(rows):
            rows.append([])
            free.append(max_length)
        rows[row].append(index)
        free[row] -= lengths[index]
    return rows


def require_lengths(lengths: Sequence[int]) -> None:
    """Raise `ValueError` unless there are lengths, all of at least one token."""
    if not lengths:
        raise ValueError("there are no sequences: give at least one length")
    if min(lengths) < 1:
        raise ValueError(f"every sequence has at least one token: got a length of {min(lengths)}")


@dataclass(frozen=True)
class Batch:
    """Rows of one batch, each the indices of the examples in it, and the positions that a row has."""

    rows: tuple[tuple[int, ...], ...]
    width: int

    @property
    def positions(self) -> int:
        return len(self.rows) * self.width


def batches(lengths: Sequence[int], batch_size: int, max_length: int, way: str) -> list[Batch]:
    """How examples of these lengths come to lie in batches of `batch_size` rows, in one of `WAYS`.

    Lengths above `max_length` are cut to it. Packed rows are of at most `max_length`; they are
    padded to the fullest of their batch. Raises `ValueError` as `pack` does, and for an unknown way
    or a size below 1.
    """
    require_lengths(lengths)
    require_whole(batch_size=batch_size, max_length=max_length)
    require_known("way", way, WAYS)
    kept = [min(length, max_length) for length in lengths]
    if way == "packed":
        rows = pack(kept, max_length)
    else:
        order = range(len(kept))
        rows = [[i] for i in (sorted(order, key=lambda i: kept[i]) if way == "sorted" else order)]
    made = []
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        longest = max(sum(kept[i] for i in row) for row in batch)
        made.append(Batch(tuple(map(tuple, batch)), max_length if way == "fixed" else longest))
    return made


def epoch_flops(
    shape: Shape, made: Sequence[Batch], method: str = "full", checkpointing: bool = False
) -> float:
    """Operations of training on every batch once. Padding is computed like text, and attention is
    over all pairs of a row, also where a mask keeps its examples apart.
    """
    return sum(
        training_flops(shape, len(batch.rows), batch.width, method, checkpointing) for batch in made
    )


def batches_flops(
    batches: Sequence[Sequence[int]], weights: float, attention_width: float
) -> float:
    """Operations of training on batches of (rows, width), from two numbers of the model.

    `weights` are those of the matrices that each position passes: 2 operations forward, 4 backward.
    `attention_width` is layers · query heads · head_dim: 4 operations for each pair of positions of
    a row forward, 8 backward. As `training_flops` counts them, so does PyTorch.
    """
    return sum(
        rows * width * (6 * weights + 12 * attention_width * width) for rows, width in batches
    )
