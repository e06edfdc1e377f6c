"""Gradient accumulation: the gradient of one large batch, from micro-batches that fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from solutions.validation import require_whole

IGNORED = -100  # the label of a token that has no loss


def effective_batch(micro: int, steps: int, devices: int) -> int:
    """Sequences behind one optimizer step: micro-batch x accumulation steps x devices.

    Raises `ValueError` for a size that is not a whole number of at least 1.
    """
    require_whole(micro=micro, steps=steps, devices=devices)
    return micro * steps * devices


def counted_tokens(labels: Tensor) -> int:
    """Tokens that a causal language model's loss averages over: each label but a sequence's first,
    which nothing predicts, and those that are ignored."""
    return int((labels[:, 1:] != IGNORED).sum())


def accumulated_step(
    model: nn.Module,
    micro_batches: Sequence[Mapping[str, Tensor]],
    optimizer: torch.optim.Optimizer,
) -> float:
    """One optimizer step on all of `micro_batches`; returns the mean loss over their tokens.

    A micro-batch holds `input_ids` and `labels`, and the model returns the mean loss over its own
    tokens. So each mean weighs as many tokens as it averages: a mean of means would give a short
    sequence's tokens more weight than a long one's. Raises `ValueError` without a token to learn.
    """
    tokens = [counted_tokens(batch["labels"]) for batch in micro_batches]
    if sum(tokens) == 0:
        raise ValueError("no micro-batch has a token with a label, so there is nothing to learn")
    optimizer.zero_grad()
    total = 0.0
    for batch, count in zip(micro_batches, tokens, strict=True):
        if count == 0:
            continue  # its mean would be 0 / 0
        loss = model(**batch).loss * (count / sum(tokens))
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    return total
