"""Choosing between models of different sizes: speed, perplexity, and the smallest that will do.

How large and how fast a model can be is left to `solutions.memory` and `solutions.roofline`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from typing import Any

from solutions.validation import require_amount, require_positive


def tokens_per_second(tokens: float, seconds: float) -> float:
    """Speed of writing: `tokens` tokens in `seconds`.

    Raises `ValueError` for a negative number of tokens, and for seconds that are not above 0.
    """
    require_amount(tokens=tokens)
    require_positive(seconds=seconds)
    return tokens / seconds


def perplexity(mean_nll: float) -> float:
    """e to the mean negative log-likelihood a token, in nats: the number of equally likely tokens
    among which a guess would be as uncertain.

    Raises `ValueError` for a negative mean: no probability is above 1. Source: Jelinek et al.,
    "Perplexity: a measure of the difficulty of speech recognition tasks", JASA 62, 1977.
    """
    require_amount(mean_nll=mean_nll)
    return exp(mean_nll)


def smallest_that_meets(
    models: Sequence[Mapping[str, Any]], min_quality: float, max_seconds: float
) -> str | None:
    """Name of the model with the fewest parameters that has at least `min_quality` and takes at most
    `max_seconds`; None where there is none.

    Of several with as few parameters it is the one with the highest quality, then the fastest.
    """
    suitable = [
        model
        for model in models
        if model["quality"] >= min_quality and model["seconds"] <= max_seconds
    ]
    if not suitable:
        return None
    best = min(suitable, key=lambda model: (model["params"], -model["quality"], model["seconds"]))
    name: str = best["name"]
    return name
