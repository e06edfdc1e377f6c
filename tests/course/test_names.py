"""A notebook that is right when run from top to bottom is right when graded, whatever its names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gradelib.grading import grade
from gradelib.grading.course import Course
from gradelib.grading.layout import Layout
from gradelib.grading.work import Isolation, isolation
from tests.course.tools import RIGHT, TINY, answered, cell_of, code_cell, released

BYTES = "def packed_bytes(count, bits):\n    return -(-count * bits // _v(8))\n"
SPREAD = (
    "def spread(values):\n    mean = sum(values) / len(values)\n"
    "    return {'mean': mean, 'variance': sum(_v(v - mean, 2) for v in values) / len(values)}\n"
)
NOTEBOOKS: dict[str, tuple[dict[str, str], dict[str, list[str]]]] = {
    "a helper of the same name in two answer cells": (
        {
            "packed_bytes": "def _v(m):\n    return m\n" + BYTES,
            "spread-2": "def _v(m, e):\n    return m ** e\n" + SPREAD,
        },
        {},
    ),
    "a helper of the same name in cells between": (
        {"packed_bytes": BYTES, "spread-2": SPREAD},
        {"setup": ["def _v(m):\n    return m"], "spread": ["def _v(m, e):\n    return m ** e"]},
    ),
    "a constant with two values": (
        {
            "packed_bytes": BYTES.replace("_v(8)", "K"),
            "spread-2": SPREAD.replace("_v(v - mean, 2)", "(v - mean) ** K"),
        },
        {"setup": ["K = 8"], "check-packed_bytes": ["K = 2"]},
    ),
    "a function that becomes a value": (
        {"packed_bytes": BYTES.replace("_v(8)", "size()"), "settings": "size = 16\n" + RIGHT["settings"]},
        {"setup": ["def size():\n    return 8"]},
    ),
    "an answer used by a later cell under another meaning": (
        RIGHT,
        {"check-settings": ["def _square(x):\n    return 0", "packed_bytes = 3"]},
    ),
    "a helper below": (
        {"packed_bytes": BYTES},
        {"check-settings": ["def _v(m):\n    return m", "import math", "K = 1", "K = 2"]},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def place() -> Iterator[Isolation]:
    """Answers in a process of their own, without isolation."""
    made = isolation("none")
    yield made
    made.close()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_names_may_mean_different_things_in_different_cells(
    course: Course, place: Isolation, name: str
) -> None:
    answers, added = NOTEBOOKS[name]

    def edit(notebook: dict[str, Any]) -> None:
        for after, sources in added.items():
            at = notebook["cells"].index(cell_of(notebook, after)) + 1
            notebook["cells"][at:at] = [code_cell(source) for source in sources]

    layout = Layout.load(course.root / "release" / TINY / f"{TINY}.ipynb")
    data = json.dumps(answered(released(course), {**RIGHT, **answers}, edit)).encode()
    result = grade.grade(data, layout, course.checks(TINY), place)
    for verdict in result.verdicts.values():
        assert verdict.score == 1, verdict.message
