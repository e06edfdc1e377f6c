"""Make an exercise's nbgrader source notebook, and the file of public checks that goes out with it.

`nbgrader generate_assignment` turns the notebook into the release; its answer cells are then exactly
the source's stubs. The same input gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gradelib import cells, tiny_gemma
from gradelib.checks import Check, PreparedCheck
from gradelib.grading import inlining
from gradelib.grading.errors import CourseError, Problem, SourceError
from gradelib.grading.layout import CHECK_PREFIX, HELPERS_TAG, METADATA_KEY, TEXT_STUB
from gradelib.grading.source import Exercise, Role, SourceCell
from gradelib.notebook import CHECKS_SUFFIX, release_text

# Stands in a course's own copy of a check cell, and in what nbgrader restores when it grades, but not
# in the release: whoever runs the cell in place of the judge is stopped.
UNJUDGED = """\
### BEGIN HIDDEN TESTS
if "NBGRADER_EXECUTION" in __import__("os").environ:
    raise RuntimeError("This cell is marked by the judge. Grade inside the course's own folder.")
### END HIDDEN TESTS
"""
# Above the first setup cell, where a learner without the package gets the error.
NEEDED = """\
# This needs the package gradelib. No module of that name? The README.md that came with this notebook
# says how to install it; in a course, ask your instructor.
"""


def source_files(
    exercise: Exercise, checks: Mapping[str, Check], prepared: Mapping[str, PreparedCheck]
) -> dict[str, bytes]:
    """Every file of `source/<exercise>/`, by relative path."""
    notebook = notebook_text(source_notebook(exercise, checks))
    files = {
        f"{exercise.name}.ipynb": notebook.encode(),
        f"{exercise.name}{CHECKS_SUFFIX}": public_checks(exercise, prepared).encode(),
    }
    return files | attached(exercise)


def public_checks(exercise: Exercise, prepared: Mapping[str, PreparedCheck]) -> str:
    """The text of the file of public checks."""
    names = frozenset(cells.defined_names(exercise.setup))
    return release_text(exercise.name, prepared, names, exercise.requires)


def attached(exercise: Exercise) -> dict[str, bytes]:
    """The exercise's attachments, by relative path. One that loads the tiny Gemma comes with it."""
    folder = exercise.path.parent
    files = {path.relative_to(folder).as_posix(): path for path in exercise.attachments}
    if any("gradelib.tiny_gemma" in cell.text for cell in exercise.cells):
        model = folder.parent / tiny_gemma.FOLDER
        files |= {
            path.relative_to(folder.parent).as_posix(): path
            for path in sorted(model.rglob("*"))
            if path.is_file()
        }
    return {relative: path.read_bytes() for relative, path in files.items()}


def require_matching(exercise: Exercise, checks: Mapping[str, Check]) -> None:
    """Raise SourceError unless tasks and checks go together, and every reference fits its stub."""
    problems = []
    first: dict[str, SourceCell] = {}
    for cell in exercise.cells:
        if cell.role is Role.ANSWER:
            first.setdefault(cell.task, cell)
    for task, cell in first.items():
        if task not in checks:
            problems.append(Problem(exercise.path, cell.line, f"task {task!r} has no Check"))
    for task in checks:
        if task not in first:
            problems.append(
                Problem(exercise.path, 1, f"there is a Check {task!r}, but no such task")
            )
    for cell in exercise.cells:
        if cell.role is Role.ANSWER and cell.task in checks:
            try:
                inlining.fill(cell.text, cell.task, checks[cell.task].reference)
            except CourseError as error:
                problems.append(Problem(exercise.path, cell.line, str(error)))
    if problems:
        raise SourceError(problems)


def source_notebook(exercise: Exercise, checks: Mapping[str, Check]) -> dict[str, Any]:
    """The notebook an instructor has: stubs filled in with the references."""

    def text(cell: SourceCell) -> str:
        if cell.role is Role.ANSWER:
            return inlining.fill(cell.text, cell.task, checks[cell.task].reference)
        if cell.role is Role.WRITTEN:
            rubric = [cell.rubric] if cell.rubric else []
            guide = "\n".join([inlining.BEGIN, *rubric, inlining.END])
            return "\n\n".join(filter(None, [_prompt(cell), guide]))
        return UNJUDGED + cell.text if cell.role is Role.CHECK else _as_released(cell)

    return _notebook(exercise, text)


def released_notebook(exercise: Exercise) -> dict[str, Any]:
    """The notebook a learner gets, but for nbgrader's checksums: what clearing the solutions and
    locking the cells gives."""

    def text(cell: SourceCell) -> str:
        if cell.role is Role.WRITTEN:
            return "\n\n".join(filter(None, [_prompt(cell), TEXT_STUB]))
        return _as_released(cell)

    notebook = _notebook(exercise, text)
    for cell in notebook["cells"]:
        if about := cell["metadata"].get("nbgrader"):
            cell["metadata"]["deletable"] = False
            if not about["solution"]:
                cell["metadata"]["editable"] = False
    return notebook


def _as_released(cell: SourceCell) -> str:
    imports = cell.role is Role.SETUP and "gradelib" in cell.text
    return NEEDED + cell.text if imports else cell.text


def _prompt(cell: SourceCell) -> str:
    """What stands above the place for a written answer; an author may write that place or not."""
    return cell.text.strip().removesuffix(TEXT_STUB).strip()


def notebook_text(notebook: Mapping[str, Any]) -> str:
    """A notebook as the text of its file."""
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _notebook(exercise: Exercise, text: Any) -> dict[str, Any]:
    return {
        "cells": list(_cells(exercise, text)),
        "metadata": {
            "kernelspec": {
                "display_name": "Python 3 (ipykernel)",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
            METADATA_KEY: {
                "exercise": exercise.name,
                "requires": exercise.requires,
                "title": exercise.title,
            },
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cells(exercise: Exercise, text: Any) -> Iterator[dict[str, Any]]:
    counts: dict[str, int] = {}
    for cell in exercise.cells:
        name = _cell_name(cell)
        counts[name] = counts.get(name, 0) + 1
        if counts[name] > 1 or cell.role in (Role.PROSE, Role.EXAMPLE):
            name = f"{name}-{counts[name]}"
        metadata: dict[str, Any] = {}
        tags = [HELPERS_TAG] if cell.role is Role.HELPERS else []
        if tags := [*tags, *cell.looks]:
            metadata["tags"] = tags
        if nbgrader := _nbgrader_metadata(cell, name):
            metadata["nbgrader"] = nbgrader
        made: dict[str, Any] = {
            "cell_type": "markdown" if cell.role in (Role.PROSE, Role.WRITTEN) else "code",
            "id": name,
            "metadata": metadata,
            "source": text(cell),
        }
        if made["cell_type"] == "code":
            made |= {"execution_count": None, "outputs": []}
        yield made


def _cell_name(cell: SourceCell) -> str:
    if cell.role is Role.CHECK:
        return CHECK_PREFIX + cell.task
    return cell.task or str(cell.role)


def _nbgrader_metadata(cell: SourceCell, name: str) -> dict[str, Any] | None:
    if cell.role in (Role.PROSE, Role.EXAMPLE, Role.HELPERS):
        return None
    graded = cell.role in (Role.CHECK, Role.WRITTEN)
    metadata: dict[str, Any] = {
        "grade": graded,
        "grade_id": name,
        "locked": cell.role in (Role.CHECK, Role.SETUP),
        "schema_version": 3,
        "solution": cell.role in (Role.ANSWER, Role.WRITTEN),
        "task": False,
    }
    if graded:
        metadata["points"] = cell.points
    return metadata
