"""Has an answer lay a batch out, and tells of each part whether a model could take it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

# In place of a part that no model takes.
NO_TENSOR = "not a tensor"
NOT_INT64 = "not torch.int64"
# The embedding and the loss look numbers up; a mask may have any type.
LOOKED_UP = ("input_ids", "labels")


def run(collate: Callable[..., Any], examples: Sequence[Mapping[str, Any]], pad_id: int) -> Any:
    """The batch, with a word in place of what is no tensor, or one of another type than int64."""
    batch = collate(examples, pad_id)
    if not isinstance(batch, Mapping):
        return batch
    return {name: _told(name, part) for name, part in batch.items()}


def _told(name: object, part: object) -> object:
    if part is None or part is ...:
        return part
    if not isinstance(part, torch.Tensor):
        return NO_TENSOR
    return NOT_INT64 if name in LOOKED_UP and part.dtype is not torch.int64 else part
