"""What is to be run for one submission, and the choice of where it runs.

`Work` is learner code as source texts. An `Isolation` runs it in an answer process and hands back
one `Answer` per task, which `gradelib.judging.judge` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Protocol

from gradelib.judging import Answer

NAMES = ("bubblewrap", "podman", "docker", "none")
IMAGE = "docker.io/library/python:3.12-slim"
# PyTorch imports `torch._dynamo` with the first optimizer, transformers a model's module with its
# first use: seconds each.
_PRELOAD = {
    "pure": (),
    "torch": ("torch", "torch._dynamo", "transformers.models.gemma3.modeling_gemma3", "peft"),
}


@dataclass(frozen=True)
class Work:
    """Learner code to load for one submission, in order. All are source texts.

    setup: the release's own setup cells.
    helpers: what the learner's other cells give to the answers; of all but the helpers cell, the
        definitions.
    answers: task -> the parts of its answer cell.
    files: files of the release that lie beside the notebook, by name.
    drivers: the drivers that the checks use; they are loaded before any learner code.
    order: the order in which the notebook has helpers (by position) and answers (by task); by
        default all helpers, then all answers.
    apart: a name has different meanings in different cells. Each task then sees the notebook as it
        is at its place, and of what comes below only the names that are new.
    """

    setup: tuple[str, ...]
    helpers: tuple[str, ...]
    answers: Mapping[str, tuple[str, ...]]
    files: Mapping[str, bytes] = field(default_factory=dict)
    drivers: tuple[str, ...] = ()
    order: tuple[int | str, ...] = ()
    apart: bool = False


@dataclass(frozen=True)
class Limits:
    """What one submission may use.

    load_seconds: wall time of each cell while it loads (a call's limit is its check's `seconds`).
    total_seconds: wall time, and CPU time of each process, for the whole submission.
    memory_bytes: memory beyond what the server had loaded, of all its processes together.
    scratch_bytes: files in the scratch folder; as much again in shared memory.
    file_bytes: one file.
    processes: processes and threads at a time.
    open_files: open files of each process.
    """

    load_seconds: float = 10.0
    total_seconds: float = 120.0
    memory_bytes: int = 2 * 2**30
    scratch_bytes: int = 128 * 2**20
    file_bytes: int = 64 * 2**20
    processes: int = 64
    open_files: int = 128


class IsolationError(RuntimeError):
    """Learner code cannot be run safely here; the message says what to do about it. Never caused by
    learner code."""


class Isolation(Protocol):
    """A place where learner code runs."""

    @property
    def name(self) -> str:
        """Which one it is, for reports: `"bubblewrap"`, `"podman"`, `"docker"`, `"none"`."""

    @property
    def warning(self) -> str | None:
        """What a report must say of it; None when learner code is kept apart."""

    def open(self, work: Work) -> AbstractContextManager[Mapping[str, Answer]]:
        """Load a submission; one answer per task of `work.answers`. Raises IsolationError when the
        answer process cannot be started."""

    def close(self) -> None:
        """End the server, if one runs. `open` starts a new one."""


def preload_for(requires: str) -> tuple[str, ...]:
    """What to import before the fork, of what is installed, for exercises that require `"pure"` or
    `"torch"`. Raises ValueError for anything else."""
    if requires not in _PRELOAD:
        raise ValueError(f"exercises require one of {', '.join(_PRELOAD)}, not {requires!r}")
    return tuple(name for name in _PRELOAD[requires] if find_spec(name.partition(".")[0]))


def isolation(
    name: str | None = None,
    *,
    preload: tuple[str, ...] = (),
    limits: Limits | None = None,
    hide: tuple[str, ...] = ("solutions",),
    image: str = IMAGE,
) -> Isolation:
    """Where learner code runs: by name, or the best that works here.

    name: "bubblewrap", "podman", "docker", "none", or None for the first of these that works;
        None never means "none".
    preload: modules that are imported once, before an answer process is forked per submission; see
        `preload_for`.
    hide: packages that learner code must not see, should they be installed beside the others.
    image: what a container runs.

    Raises ValueError for an unknown name, and IsolationError, with what to install, when it does
    not work.
    """
    from gradelib.grading.sandbox import choose

    return choose(name, preload, limits or Limits(), hide, image)
