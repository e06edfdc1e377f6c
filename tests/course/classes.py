"""A class for the tiny exercise: honest students, and as many whose files break graders."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gradelib.grading.course import Course
from tests.course.tools import RIGHT, TASKS, answered, cell_of, code_cell, hand_in, released

PARTLY = {
    **RIGHT,
    "spread-2": "def spread(values):\n    return {'mean': sum(values) / len(values), 'variance': 2 / 3}\n",
}
WRONG = {**RIGHT, "packed_bytes": "def packed_bytes(count, bits):\n    return count * bits\n"}
HONEST: tuple[dict[str, str], ...] = (RIGHT, PARTLY, WRONG, {}, {"settings": RIGHT["settings"]})


def _duplicate(notebook: dict[str, Any]) -> None:
    cell = cell_of(notebook, "packed_bytes")
    notebook["cells"].append({**cell, "source": "def packed_bytes(count, bits):\n    return 1"})


def _no_checks(notebook: dict[str, Any]) -> None:
    for task in TASKS:
        notebook["cells"].remove(cell_of(notebook, f"check-{task}"))


def _no_metadata(notebook: dict[str, Any]) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {}


def _steer(notebook: dict[str, Any]) -> None:
    for task in TASKS:
        cell = cell_of(notebook, f"check-{task}")
        cell["metadata"]["tags"] = ["skip-execution"]
        cell["metadata"]["nbgrader"]["points"] = 1000


def _loud(notebook: dict[str, Any]) -> None:
    notebook["cells"].append(code_cell("print('x' * 10**6)"))
    notebook["cells"][-1]["outputs"] = [{"output_type": "stream", "text": "x" * 10**6}]


EDITS: tuple[Callable[[dict[str, Any]], None], ...] = (
    _duplicate,
    _no_checks,
    _no_metadata,
    _steer,
    _loud,
)
DAMAGES: tuple[Callable[[bytes], bytes], ...] = (
    lambda data: data[: len(data) // 2],
    lambda _data: b"",
    lambda data: b"<html>" + data,
    lambda data: b"\xef\xbb\xbf" + data,
    lambda data: data.replace(b'"nbformat": 4', b'"nbformat": 3'),
    lambda _data: b'{"cells": [' + b"[" * 50_000,
    lambda data: b"<<<<<<< HEAD\n" + data + b"\n=======\n>>>>>>> other\n",
)
TROUBLE = (
    "import os\nos._exit(3)\n",
    "raise SystemExit\n",
    "def packed_bytes(count, bits):\n    raise KeyboardInterrupt\n",
    "def packed_bytes(count, bits):\n    return packed_bytes(count, bits)\n",
    "name = input()\ndef packed_bytes(count, bits):\n    return 2\n",
)


def hand_in_honest(course: Course, count: int) -> list[str]:
    """Students whose submissions any grader can mark."""
    notebook = released(course)
    names = []
    for i in range(count):
        names.append(f"honest{i:03}")
        hand_in(course, names[-1], answered(notebook, HONEST[i % len(HONEST)]))
    return names


def hand_in_trouble(course: Course, count: int) -> list[str]:
    """Students whose submissions break graders, one kind after another."""
    notebook = released(course)
    files: list[bytes] = []
    files += [json.dumps(answered(notebook, RIGHT, edit)).encode() for edit in EDITS]
    files += [damage(json.dumps(answered(notebook, RIGHT)).encode()) for damage in DAMAGES]
    files += [
        json.dumps(answered(notebook, {**RIGHT, "packed_bytes": source})).encode()
        for source in TROUBLE
    ]
    names = []
    for i in range(count):
        names.append(f"trouble{i:03}")
        hand_in(course, names[-1], files[i % len(files)])
    return names
