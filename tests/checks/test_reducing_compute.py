"""Exercise 23: its own data and numbers, and how narrow its packing cases are."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
import torch

from gradelib.criteria import fewest_rows
from gradelib.measure import Setup, count_flops
from gradelib.shapes import Shape
from gradelib.tiny_gemma import find_tiny_gemma
from solutions import batching
from solutions.autocast import IN_FLOAT32, PRODUCTS
from solutions.checks import reducing_compute as checks
from solutions.implementations.batching import collate
from solutions.implementations.loss_scaler import DynamicLossScaler
from tests.checks.tasks import EXERCISES_FOLDER, SEEDS, prepared, source

NAME = "23_reducing_compute"
FOLDER = EXERCISES_FOLDER / NAME
PROSE = " ".join(" ".join(cell.text.split()) for cell in source(NAME).cells)
# A byte is a token; `<bos>` before the prompt, `<eos>` after the answer.
TEXTS = [json.loads(line) for line in (FOLDER / "questions.jsonl").read_text().splitlines()]
LENGTHS = [2 + len((text["prompt"] + text["answer"]).encode()) for text in TEXTS]


def laid_out(rows):
    parts = [rows[start : start + 4] for start in range(0, len(rows), 4)]
    return [[len(part), max(sum(LENGTHS[i] for i in row) for row in part)] for part in parts]


def test_the_checks_batches_are_the_notebooks():
    assert laid_out([[i] for i in range(len(LENGTHS))]) == checks.PADDED
    assert laid_out(batching.pack(LENGTHS, 384)) == checks.PACKED


def test_the_tiny_gemma_of_the_checks_is_the_one_that_comes_with_the_notebook():
    shape = Shape.from_config(find_tiny_gemma("large", EXERCISES_FOLDER / "tiny_gemma"))
    assert checks._two_numbers(shape) == checks.TINY


@pytest.mark.slow
def test_the_checks_expect_what_pytorch_counts():
    tiny = Shape.from_config(find_tiny_gemma("large", EXERCISES_FOLDER / "tiny_gemma"))
    counted = {
        json.dumps([batches, [*numbers]]): sum(
            count_flops(Setup(shape=shape, batch=rows, seq=width)).training
            for rows, width in batches
        )
        for shape, numbers, batches in (
            (tiny, checks.TINY, checks.PADDED),
            (tiny, checks.TINY, checks.PACKED),
            (Shape.gemma3("4b"), checks.GEMMA_4B, checks.PACKED),
        )
    }
    expected = {
        json.dumps([one.args[0], list(one.args[1:])]): one.expected.value
        for one in prepared(NAME, "batches_flops").cases
    }
    assert {key: expected[key] for key in counted} == counted


@pytest.mark.parametrize("seed", SEEDS)
def test_the_fewest_rows_of_a_packing_case_can_be_reached(seed):
    # Full rows were cut, or the reference reaches the bound itself: nothing right is refused.
    for one in prepared(NAME, "pack", seed).cases:
        lengths, max_length = one.args
        if one.part == checks.PACKING:
            full = sum(lengths) % max_length == 0
            assert full or len(batching.pack(*one.args)) == fewest_rows(*one.args)


def test_the_texts_lists_are_the_references():
    table = PROSE[PROSE.index("| list |") : PROSE.index("Every other operation")]
    assert {name for name in PRODUCTS | IN_FLOAT32 if f"`{name}`" in table} == PRODUCTS | IN_FLOAT32
    products = table[: table.index("| in float32")]
    assert {name for name in PRODUCTS | IN_FLOAT32 if f"`{name}`" in products} == PRODUCTS


def test_the_worked_examples_are_right():
    scaler = DynamicLossScaler(4, 2, 0.5, 2)
    finite, infinite = [torch.ones(2)], [torch.ones(2), torch.tensor([1.0, float("inf")])]
    for n, gradients in enumerate([finite, finite, infinite, finite], 1):
        scaled = float(scaler.scale(torch.tensor(3.0)))
        ok = scaler.step_ok(gradients)
        row = PROSE[PROSE.index(f"| {n} | {scaled:g} |") :].split("|")
        assert row[4].strip() == str(ok)
        assert float(row[5].split()[0]) == scaler.factor
    lengths = [2, 6, 5, 3, 4]
    assert batching.padding_waste(lengths, 2) == pytest.approx(6 / 26)
    assert batching.padding_waste(lengths, 2, sort=True) == pytest.approx(2 / 22)
    assert "6 of 26 positions are padding, about 0.23." in PROSE
    assert "2 of 22, about 0.09." in PROSE
    assert sorted(map(sorted, batching.pack([6, 5, 4, 3, 2], 10))) == [[0, 2], [1, 3, 4]]
    batch = collate(
        [{"prompt": [21, 22], "answer": [23]}, {"prompt": [24], "answer": [25, 26, 27]}], 9
    )
    for name, rows in batch.items():
        first, second = (", ".join(map(str, row.tolist())) for row in rows)
        assert f"| `{name}` | {first} | {second} |" in PROSE
    assert f"three times as much: {batching.batches_flops([[3, 4]], 500, 10):,}." in PROSE


def test_rows_packed_for_the_learner_hold_every_text_once():
    code = next(cell.text for cell in source(NAME).cells if "packed = [" in cell.text)
    rows = json.loads(
        code[
            code.index("packed = [") + 9 : code.index("\n]", code.index("packed = [")) + 2
        ].replace(",\n]", "]")
    )
    assert sorted(i for row in rows for i in row) == list(range(len(LENGTHS)))
    assert max(sum(LENGTHS[i] for i in row) for row in rows) <= 384
    assert laid_out(rows) == checks.PACKED


def test_the_marking_guide_states_what_is_counted():
    guide = " ".join(" ".join(cell.rubric.split()) for cell in source(NAME).cells)
    by_length = [[i] for i in sorted(range(len(LENGTHS)), key=lambda i: LENGTHS[i])]
    layouts = [checks.PADDED, laid_out(by_length), checks.PACKED]
    tiny = [batching.batches_flops(batches, *checks.TINY) / 1e9 for batches in layouts]
    assert f"{tiny[0]:.1f}, {tiny[1]:.1f} and {tiny[2]:.1f} × 10⁹" in guide
    real = [batching.batches_flops(batches, *checks.GEMMA_4B) for batches in layouts]
    assert all(earlier > later for earlier, later in pairwise(real))
