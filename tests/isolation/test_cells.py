"""A grader parses learners' cells in its own process: no text takes it down or long."""

from __future__ import annotations

import ast
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradelib import cells

MANY = cells.MAX_CELL_CHARACTERS // 4
HOSTILE = {
    "a long sum": "x = 1" + "+1" * MANY,
    "minus signs": "x = " + "-" * MANY + "1",
    "nots": "x = " + "not " * (MANY - 5) + "1",
    "brackets": "x = " + "[" * MANY + "]" * MANY,
    "attributes": "x = a" + ".b" * MANY,
    "calls": "x = a" + "()" * MANY,
    "lambdas": "x = " + "lambda: " * (MANY // 3) + "1",
    "conditions": "x = " + "1 if 1 else " * (MANY // 4) + "1",
    "elif": "if 1:\n pass\n" + "elif 1:\n pass\n" * (MANY // 4),
    "indents": "\n".join(" " * i + "if 1:" for i in range(400)),
    "a number of 5,000 digits": "x = " + "9" * 5_000,
    "a hexadecimal number": "x = 0x" + "f" * MANY,
    "a power tower": "x = 9**9**9**9",
    "a null character": "x = '\0'",
    "a lone surrogate": "x = '\ud800'",
    "a name that is global and not": "def f():\n    x = 1\n    global x",
    "return at the top": "return 1",
    "magics": ("%" + "a" * 100 + "\n") * 900 + "x = (",
    "question marks": "a?" * MANY,
    "question marks and spaces": "x = (\n" + "a ? " * (MANY // 2) + "\n" + "?" + " " * MANY + "x",
    "spaces before nothing": "x = (\n" + " " * (3 * MANY) + "(",
    "names before no magic": "x = (\n" + "a, " * MANY + "(",
    "too long": "x = '" + "a" * cells.MAX_CELL_CHARACTERS + "'",
}


def read(source: str) -> None:
    """Everything that a grader asks of a cell."""
    for statement in cells.definitions(source):
        assert isinstance(statement, ast.stmt)
    cells.defined_names([source])
    cells.missing_names(source, [])
    cells.definition_texts(source)
    cells.bound_names(source)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_cell_is_read_or_left_in_time(name: str) -> None:
    begun = time.monotonic()
    read(HOSTILE[name])
    assert time.monotonic() - begun < 20


@settings(deadline=None)
@given(st.text(alphabet="()[]{}:=\"'\\#%!?. \n\tabf01,*@\0\r\ud800é", max_size=60))
def test_any_text_is_read_or_left(source: str) -> None:
    read(source)
