"""The unit of work of a batch: one student's notebooks in, their verdicts out.

A worker process loads nothing but this, so it starts fast; nbgrader is left to the writer.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import os
import pickle
import signal
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gradelib import plain
from gradelib.checks import PreparedCheck
from gradelib.grading import grade
from gradelib.grading.layout import Layout
from gradelib.grading.work import Isolation
from gradelib.verdicts import Verdict


@dataclass(frozen=True)
class Context:
    """What every unit of a batch shares: releases and checks by notebook, where answers run, and
    the package that they must not see."""

    layouts: Mapping[str, Layout]
    checks: Mapping[str, Mapping[str, PreparedCheck]]
    isolation: str | None
    checks_package: str

    @property
    def key(self) -> str:
        """Changes whenever a result could."""
        parts = [
            [name, layout.notebook, {path: data.hex() for path, data in layout.files.items()}]
            for name, layout in sorted(self.layouts.items())
        ]
        checks = [
            [name, task, _check_text(check)]
            for name, tasks in sorted(self.checks.items())
            for task, check in sorted(tasks.items())
        ]
        text = json.dumps([parts, checks, self.isolation], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _check_text(check: PreparedCheck) -> str:
    return plain.dumps(
        {
            **check.public_data(),
            "cases": [{**one.to_data(), "visible": one.visible} for one in check.cases],
            "rules": [rule.to_data() for rule in check.rules],
        }
    )


@dataclass(frozen=True)
class Graded:
    """The result of one unit, as plain data: for each notebook its text with the verdicts, its marks,
    verdicts and notes. `isolation` names where the answers ran, `warning` is what must be said of it."""

    student: str
    notebooks: dict[str, dict[str, Any]]
    isolation: str
    warning: str = ""

    def verdicts(self) -> Iterator[tuple[str, Verdict]]:
        """Every verdict with its task's name."""
        for each in self.notebooks.values():
            for task, data in each["verdicts"].items():
                yield task, Verdict.from_data(data)


def grade_unit(student: str, files: Mapping[str, bytes], context: Context) -> Graded:
    """Grade one student's notebooks. Depends on its arguments alone, and can be done again."""
    notebooks = {}
    used = warning = ""
    for name, data in files.items():
        layout = context.layouts[name]
        place = _place(layout.requires, context.isolation, context.checks_package)
        used, warning = place.name, place.warning or ""
        result = grade.grade(data, layout, context.checks[name], place)
        grade.mark(result.notebook, result.verdicts, result.printed)
        notebooks[name] = {
            "text": grade.autograded_text(result.notebook),
            "verdicts": {task: verdict.to_data() for task, verdict in result.verdicts.items()},
            "notes": [[str(note.kind), note.text] for note in result.notes],
            "unreadable": result.unreadable,
        }
    return Graded(student, notebooks, used, warning)


_places: dict[tuple[str, str | None, str, int], Isolation] = {}


def _place(requires: str, name: str | None, checks_package: str) -> Isolation:
    """This process's isolation for this kind of exercise."""
    key = (requires, name, checks_package, os.getpid())
    if key not in _places:
        _places[key] = grade.place_for(requires, name, checks_package)
    return _places[key]


_context: Context | None = None


def begin(context: Context) -> None:
    """A worker's first act: keep what all units share, and end with the parent whatever ends it."""
    global _context  # noqa: PLW0603 - one per worker process
    _context = context
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    gc.freeze()  # what is there stays: nothing is gained by looking through it again and again


def grade_here(student: str, files: Mapping[str, bytes]) -> Graded:
    """`grade_unit` with what `begin` kept."""
    assert _context is not None
    return grade_unit(student, files, _context)


def packed(context: Context) -> bytes:
    """`context` small enough to travel with every unit (21_number_formats: 61 kB)."""
    return zlib.compress(pickle.dumps(context))


@lru_cache(maxsize=4)
def _unpacked(data: bytes) -> Context:
    context = pickle.loads(zlib.decompress(data))  # made by `packed`, by the batch itself
    assert isinstance(context, Context)
    return context


def grade_packed(student: str, files: Mapping[str, bytes], context: bytes) -> Graded:
    """`grade_unit` for a worker that has nothing but its arguments."""
    return grade_unit(student, files, _unpacked(context))
