"""A batch of sequences as tensors: padded, with labels that leave padding and prompts out of the
loss. How much of a batch is padding, and what packing saves, is worked out in `solutions.batching`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from solutions.batching import require_lengths
from solutions.implementations.accumulate import IGNORED


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
    require_lengths(lengths)
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
