"""Exercise 31 against what PyTorch measured on the real architecture."""

from __future__ import annotations

import ast
import csv
from pathlib import Path
from typing import Any

import pytest

from gradelib.shapes import Shape
from solutions import activations
from solutions.checks.gpu_memory import activation_bytes, gemma_activation_bytes
from tests.checks.tasks import SEEDS, prepared, source

EXERCISE = "31_gpu_memory"
DATA = Path(__file__).parents[2] / "book" / "data"
TOLERANCE = 0.03  # as the notebook says


def recorded(table: str) -> list[dict[str, str]]:
    with (DATA / table).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def literal(name: str) -> Any:
    """The value of a literal that an example cell assigns."""
    for cell in source(EXERCISE).cells:
        for node in ast.parse(cell.text).body if f"{name} = " in cell.text else ():
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                return ast.literal_eval(node.value)
    raise LookupError(name)


KEPT = {
    (
        row["size"],
        int(row["batch"]),
        int(row["seq"]),
        row["dtype"],
        row["checkpointing"] == "True",
        row["attention"],
    ): int(row["activation_bytes"]) + int(row["recomputed_bytes"])
    for row in recorded("saved_bytes.csv")
    if row["method"] == "full"
}


def test_the_notebook_shows_what_pytorch_kept():
    assert {tuple(row[:-1]): row[-1] for row in literal("KEPT")} == KEPT


@pytest.mark.parametrize("setting", KEPT, ids=str)
def test_the_reference_gives_what_pytorch_kept(setting):
    size, *given = setting
    assert gemma_activation_bytes(Shape.gemma3(size), *given) == pytest.approx(
        KEPT[setting], rel=0.006
    )


def test_the_table_in_the_text_stays_within_the_tolerance_it_promises():
    by_the_table = activation_bytes.also_right[1]
    for (size, *given), measured in KEPT.items():
        assert abs(by_the_table(Shape.gemma3(size), *given) / measured - 1) < TOLERANCE
    assert prepared(EXERCISE, "activation_bytes").tolerance.rel == TOLERANCE


@pytest.mark.parametrize("seed", SEEDS)
def test_the_exercise_and_the_book_estimate_the_same_activations(seed):
    for case in prepared(EXERCISE, "activation_bytes", seed).cases:
        given = case.args, case.kwargs
        assert gemma_activation_bytes(*given[0], **given[1]) == activations.activation_bytes(
            *given[0], **given[1]
        )


def test_the_visible_cases_of_activation_bytes_were_measured():
    names = {Shape.gemma3(size): size for size in ("270m", "1b", "4b")}
    for case in activation_bytes.public:
        shape, batch, seq, dtype = case.args
        checkpointing = case.kwargs.get("checkpointing", False)
        attention = case.kwargs.get("attention", "sdpa")
        assert (names[shape], batch, seq, dtype, checkpointing, attention) in KEPT


def test_the_notebook_shows_what_pytorch_held_at_the_peaks():
    peaks = {
        (row["size"], row["optimizer"], row["checkpointing"] == "True"): row
        for row in recorded("step_memory.csv")
        if row["method"] == "full" and row["batch"] == "1"
    }
    for size, optimizer, checkpointing, peak, held in literal("STEPS"):
        row = peaks[size, optimizer, checkpointing]
        assert (peak, row["seq"], row["dtype"]) == (int(row["peak_bytes"]), "1024", "bfloat16")
        assert held == {name: int(row[f"{name}_bytes"]) for name in held}
        assert sum(held.values()) == pytest.approx(peak, rel=1e-5)
