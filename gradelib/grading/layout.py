"""The names that a release gives its cells, and a released notebook as grading reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradelib import cells
from gradelib.grading.errors import CourseError

CHECK_PREFIX = "check-"
HELPERS_TAG = "helpers"
# Markdown that stands where a learner writes; nbgrader puts it there (ClearSolutions.text_stub).
TEXT_STUB = "*Write your answer here.*"
METADATA_KEY = "one_gpu"


@dataclass(frozen=True)
class Layout:
    """A released notebook: its cells, and which of them are answers, checks and setup.

    parts: ids of each task's answer cells.
    points: points of each check cell, by task.
    written: ids of the written answers.
    setup: texts of the setup cells.
    names: what each released answer cell defines.
    files: what lies beside the notebook, by relative path.
    """

    exercise: str
    notebook: dict[str, Any]
    parts: dict[str, tuple[str, ...]]
    points: dict[str, float]
    written: frozenset[str]
    setup: tuple[str, ...]
    names: dict[str, frozenset[str]]
    files: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Layout:
        """Read a released notebook and the files beside it. Raises CourseError when it is not there."""
        if not path.is_file():
            raise CourseError(f"{path} is missing: run nbgrader generate_assignment first")
        files = {
            each.relative_to(path.parent).as_posix(): each.read_bytes()
            for each in sorted(path.parent.rglob("*"))
            if each.is_file() and each.suffix != ".ipynb" and ".ipynb_checkpoints" not in each.parts
        }
        notebook = json.loads(path.read_text(encoding="utf-8"))
        name = notebook["metadata"].get(METADATA_KEY, {}).get("exercise", "")
        return cls.of(name, notebook, files)

    @classmethod
    def of(
        cls, exercise: str, notebook: dict[str, Any], files: Mapping[str, bytes] | None = None
    ) -> Layout:
        """A released notebook's layout."""
        whole = [{**cell, "source": text_of(cell["source"])} for cell in notebook["cells"]]
        notebook = {**notebook, "cells": whole}
        parts: dict[str, list[str]] = {}
        points: dict[str, float] = {}
        written: set[str] = set()
        setup: list[str] = []
        names: dict[str, frozenset[str]] = {}
        for cell in notebook["cells"]:
            about = cell["metadata"].get("nbgrader", {})
            grade_id = about.get("grade_id", "")
            source = cell["source"]
            if about.get("grade") and not about.get("solution"):
                points[grade_id.removeprefix(CHECK_PREFIX)] = float(about["points"])
            elif about.get("grade"):
                written.add(grade_id)
            elif about.get("solution"):
                parts.setdefault(re.sub(r"-\d+$", "", grade_id), []).append(grade_id)
                names[grade_id] = frozenset(cells.defined_names([source]))
            elif about.get("locked") and cell["cell_type"] == "code":
                setup.append(source)
        return cls(
            exercise,
            notebook,
            {task: tuple(ids) for task, ids in parts.items()},
            points,
            frozenset(written),
            tuple(setup),
            names,
            files or {},
        )

    @property
    def requires(self) -> str:
        """`"pure"` or `"torch"`."""
        return str(self.notebook["metadata"].get(METADATA_KEY, {}).get("requires", "pure"))


def text_of(source: Any) -> str:
    """A cell's text, whichever way the file stores it."""
    if isinstance(source, list):
        source = "".join(piece for piece in source if isinstance(piece, str))
    if not isinstance(source, str):
        return ""
    # Half of a surrogate pair is no text; no file can store it.
    text: str = source.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")
