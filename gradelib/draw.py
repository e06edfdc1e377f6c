"""Random inputs for hidden cases, from a seed: the same course draws the same cases, two courses
draw different ones."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A seeded source of inputs. The name of the task is part of the seed, so tasks do not share a
    stream."""

    def __init__(self, seed: str, *names: str) -> None:
        # A text seed is hashed with SHA-512 by `random`, so it is stable across processes and
        # versions of Python 3.
        self._random = random.Random("/".join((seed, *names)))

    def integer(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return self._random.randint(low, high)

    def real(self, low: float, high: float) -> float:
        """A number in [low, high], uniform."""
        return self._random.uniform(low, high)

    def normal(self, deviation: float = 1.0) -> float:
        """A normal number with mean 0."""
        return self._random.gauss(0.0, deviation)

    def log_integer(self, low: int, high: int) -> int:
        """A whole number in [low, high], uniform in its logarithm: every order of magnitude is as
        likely."""
        return min(high, max(low, round(math.exp(self.real(math.log(low), math.log(high))))))

    def one(self, options: Sequence[T]) -> T:
        """One of the options."""
        return self._random.choice(options)

    def some(self, options: Sequence[T], count: int) -> list[T]:
        """`count` different options in random order (all of them when there are fewer)."""
        return self._random.sample(options, min(count, len(options)))

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """All options in random order."""
        return self._random.sample(options, len(options))

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability
