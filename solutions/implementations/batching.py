"""Putting sequences into batches without computing on padding: how much is padding, packing
sequences into full rows, and labels that leave padding and prompts out of the loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from solutions.implementations.accumulate import IGNORED
from solutions.validation import require_whole


def padding_waste(lengths: Sequence[int], batch_size: int, sort: bool = False) -> float:
    """Share of the positions that are padding, from 0 up to 1, when each batch is padded to its
    longest sequence.

    Sequences are batched in the order given, or by length with `sort`; the last batch may be
    smaller. Raises `ValueError` for no lengths, a length or a batch size below 1.
    """
    _require_lengths(lengths)
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
    _require_lengths(lengths)
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


def collate(examples: Sequence[Mapping[str, Any]], pad_id: int) -> dict[str, Tensor]:
    """A batch, padded on the right to its longest sequence: `input_ids`, `attention_mask` and
    `labels` (int64, batch x longest).

    An example has the token ids of its `prompt` and of its `answer`. The loss is over the answer:
    labels are -100 on the prompt and on padding. A pad id that is also a real token does no harm,
    since lengths decide, not ids. Raises `ValueError` for no examples, or one without tokens.
    """
    if not examples:
        raise ValueError("a batch needs at least one example")
    lengths = [len(example["prompt"]) + len(example["answer"]) for example in examples]
    _require_lengths(lengths)
    size = (len(examples), max(lengths))
    input_ids = torch.full(size, pad_id)
    attention_mask = torch.zeros(size, dtype=torch.int64)
    labels = torch.full(size, IGNORED)
    for row, (example, length) in enumerate(zip(examples, lengths, strict=True)):
        tokens = torch.tensor([*example["prompt"], *example["answer"]])
        start = len(example["prompt"])
        input_ids[row, :length] = tokens
        attention_mask[row, :length] = 1
        labels[row, start:length] = tokens[start:]
    return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}


def _require_lengths(lengths: Sequence[int]) -> None:
    if not lengths:
        raise ValueError("there are no sequences: give at least one length")
    if min(lengths) < 1:
        raise ValueError(f"every sequence has at least one token: got a length of {min(lengths)}")
