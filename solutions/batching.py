"""How sequences of different lengths share batches: how much of it is padding, and packing sequences
into full rows. Lengths alone decide; the tensors are made in `solutions.implementations.batching`.
"""

from __future__ import annotations

from collections.abc import Sequence

from solutions.validation import require_whole


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
