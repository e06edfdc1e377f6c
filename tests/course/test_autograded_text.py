"""A marked notebook's text is what `json` writes, whichever way it is put together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gradelib.grading.grade import autograded_text
from gradelib.grading.layout import Layout
from gradelib.grading.submission import empty_submission

CODE = {"cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": []}
STREAM = {"output_type": "stream", "name": "stdout", "text": "one\ntwo"}
RESULT = {
    "output_type": "execute_result",
    "data": {"text/plain": "2.0", "text/html": "<p>\n</p>", "x+json": {"b": [], "a": {"c": 1}}},
    "metadata": {},
    "execution_count": None,
}


def expected(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with its texts as lists of lines."""

    def lines(text: str) -> list[str]:
        return text.splitlines(keepends=True)

    made = json.loads(json.dumps(notebook))
    for cell in made["cells"]:
        cell["source"] = lines(cell["source"])
        for output in cell.get("outputs", []):
            if "text" in output:
                output["text"] = lines(output["text"])
            for kind, value in output.get("data", {}).items():
                output["data"][kind] = lines(value) if isinstance(value, str) else value
    return made


@pytest.mark.parametrize(
    "cells",
    [
        [],
        [{**CODE, "source": ""}],
        [{**CODE, "source": "x = 1\n\ny = '\u2028\\n'\n", "outputs": [STREAM, RESULT]}],
        [{"cell_type": "markdown", "id": "b", "metadata": {}, "source": '"cells": []'}] * 2,
        [{**CODE, "source": "long = 1\n" * 10_000}, {**CODE, "source": "é\U0001f600"}],
    ],
    ids=["no cell", "empty", "outputs", "the same twice", "long"],
)
def test_it_is_what_json_writes(cells: list[dict[str, Any]]) -> None:
    about = {"metadata": {"z": {}, "a": '"cells": []'}, "nbformat": 4, "nbformat_minor": 5}
    notebook = {**about, "cells": cells}
    wanted = json.dumps(expected(notebook), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    assert autograded_text(notebook) == wanted
    assert autograded_text(notebook) == wanted  # from what was kept, too


def test_that_of_a_release_is_what_json_writes(layout: Layout) -> None:
    notebook = empty_submission(layout).notebook
    wanted = json.dumps(expected(notebook), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    assert autograded_text(notebook) == wanted
