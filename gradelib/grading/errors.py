"""What can go wrong for a person who makes or grades a course. The command line prints these without
a traceback and exits with status 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class CourseError(Exception):
    """A course, its settings or a command's arguments are not usable; the message says what to do."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong in an author's file, at a line counted from 1."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


class SourceError(CourseError):
    """An exercise's source is malformed; the message lists every problem with its file and line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)
