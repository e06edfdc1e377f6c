"""Exercise 22 against what PyTorch counted on the real architecture, and against published runs."""

from __future__ import annotations

import ast
import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradelib.judging import LocalAnswer, judge
from gradelib.shapes import Shape
from solutions import flops
from solutions.checks.counting_flops import (
    TOY,
    arithmetic_intensity,
    attended_pairs,
    attention_flops,
    is_memory_bound,
    model_flops_utilization,
    training_flops,
    training_flops_6nd,
    training_seconds,
)
from solutions.lora import lora_parameters
from solutions.parameters import parameter_count
from tests.checks.tasks import SEEDS, prepared, source
from tests.conftest import need_module
from tests.estimators.facts import fact, tolerance

EXERCISE = "22_counting_flops"
RECORD = Path(__file__).parents[2] / "book" / "data" / "counted_flops.csv"
SMALL = {"270m", "1b"}
LORA_TOLERANCE = 0.03  # as the notebook says


def recorded() -> list[dict[str, Any]]:
    with RECORD.open(encoding="utf-8") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for row in rows:
        for name in ("batch", "seq", "forward_flops", "training_flops"):
            row[name] = int(row[name])
        row["checkpointing"] = row["checkpointing"] == "True"
    return rows


ROWS = recorded()
STEPS = {
    (Shape.gemma3(row["size"]), row["batch"], row["seq"], row["method"], row["checkpointing"]): row
    for row in ROWS
}
FORWARDS = {
    (Shape.gemma3(row["size"]), row["batch"], row["seq"]): row["forward_flops"]
    for row in ROWS
    if row["method"] == "full"
}


def cells() -> list[str]:
    return [cell.text for cell in source(EXERCISE).cells]


def literal(name: str) -> Any:
    """What the notebook's code assigns to a name."""
    text = next(text for text in cells() if f"{name} = " in text)
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
            return ast.literal_eval(statement.value)
    raise AssertionError(f"{name} is not assigned")


def test_the_notebook_shows_what_pytorch_counted() -> None:
    shown = literal("counted_by_pytorch")
    assert len(shown) == 12
    for size, *step, counted in shown:
        assert STEPS[(Shape.gemma3(size), *step)]["training_flops"] == counted
    assert literal("params") == {
        size: parameter_count(Shape.gemma3(size)) for size in ("270m", "4b")
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_a_prediction_is_graded_against_pytorchs_own_count(seed: str) -> None:
    hits = {True: 0, False: 0}
    for one in prepared(EXERCISE, "training_flops", seed).cases:
        args = (*one.args, "full", False) if len(one.args) == 3 else one.args
        row = None if one.kwargs or len(args) != 5 else STEPS.get(args)
        if row and row["method"] == "full":
            assert one.expected.value == row["training_flops"]
            hits[one.visible] += 1
    for one in prepared(EXERCISE, "forward_flops", seed).cases:
        if counted := FORWARDS.get(one.args):
            assert one.expected.value == counted
            hits[one.visible] += 1
    assert hits[True] >= 5
    assert hits[False] >= 8


@pytest.mark.parametrize("row", [row for row in ROWS if row["method"] == "lora"], ids=str)
def test_a_lora_step_lies_within_the_stated_tolerance_of_pytorchs_count(
    row: dict[str, Any],
) -> None:
    shape = Shape.gemma3(row["size"])
    sizes = (shape, row["batch"], row["seq"])
    predicted = flops.training_flops(*sizes, "lora", row["checkpointing"])
    assert predicted == pytest.approx(row["training_flops"], rel=LORA_TOLERANCE)
    # The adapters' products explain the difference.
    predicted += flops.adapter_flops(*sizes, 16, "all-linear", row["checkpointing"])
    assert predicted == pytest.approx(row["training_flops"], rel=0.002)


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if row["size"] in SMALL], ids=str)
def test_pytorch_counts_again_what_was_recorded(row: dict[str, Any]) -> None:
    need_module("torch")
    from gradelib.measure import Setup, count_flops

    setup = Setup(
        shape=Shape.gemma3(row["size"]),
        batch=row["batch"],
        seq=row["seq"],
        method=row["method"],
        checkpointing=row["checkpointing"],
        attention="eager",
    )
    counted = count_flops(setup)
    assert (counted.forward, counted.training) == (row["forward_flops"], row["training_flops"])


def test_gpt_3_and_palm_are_visible_cases_with_their_published_operations() -> None:
    gpt3, palm = training_flops_6nd.public[:2]
    of = fact("flops_palm_6nd")
    assert training_flops_6nd.reference(*palm.args) == of["expected"]
    # Brown et al., arXiv:2005.14165, table D.1.
    assert training_flops_6nd.reference(*gpt3.args) == pytest.approx(3.14e23, rel=5e-3)


def test_palms_utilization_is_a_visible_case_and_comes_out_as_published() -> None:
    of = fact("mfu_palm")
    percent = 100 * model_flops_utilization.reference(*model_flops_utilization.public[1].args)
    assert percent == pytest.approx(of["expected"], **tolerance(of))


PAIRS = flops.attended_pairs
BY_HAND = [
    (f"{flops.matmul_flops(2, 3, 4)} in all", "task 1"),
    (f"{PAIRS(5)} pairs in all (of 25)", "task 2"),
    (f"{PAIRS(5, 2)} pairs.", "task 2, a window"),
    (f"Together {flops.attention_flops(TOY, 5)}.", "task 3"),
    (f"Together {flops.attention_flops(TOY, 5, 'useful')}.", "task 3, useful"),
    (f"3 · 2 · 5 · 4 · 6 = {flops.mlp_flops(TOY, 5)}.", "task 4"),
    (f"2 · 5 · 4 · 10 = {flops.head_flops(TOY, 5)} ", "task 5, the head"),
    (f"1320 + 720 + 400 = {flops.forward_flops(TOY, 1, 5)},", "task 5"),
    (f"three times as much: {flops.forward_flops(TOY, 3, 5)}.", "task 5, a batch"),
    (f"6 · 1000 · 50 = {flops.training_flops_6nd(1000, 50):,} operations", "task 6"),
    (f"2 · 2440 = {flops.training_flops(TOY, 1, 5)};", "task 7"),
    (f"2040 once more, {flops.training_flops(TOY, 1, 5, checkpointing=True)};", "task 7, again"),
    (f"2440 + 2440 + 600 = {flops.training_flops(TOY, 1, 5, 'lora')}.", "task 7, LoRA"),
    (f"= {training_seconds.reference(6e15, 60e12, 0.5):.0f}$ seconds", "task 8"),
    (f"an MFU of {model_flops_utilization.reference(6e15, 200, 60e12)}.", "task 9"),
    (f"about {arithmetic_intensity.reference(48, 52):.2f}.", "task 10"),
    (
        f"{lora_parameters(Shape.gemma3('4b'), 16, 'all-linear'):,} parameters to the 4B model",
        "question 3",
    ),
]


@pytest.mark.parametrize(("words", "where"), BY_HAND, ids=[where for _, where in BY_HAND])
def test_a_worked_example_is_right(words: str, where: str) -> None:
    assert words in " ".join(" ".join(cells()).split()), where


def test_the_worked_roofline_example_is_right() -> None:
    bound = is_memory_bound.reference
    assert not bound(12e12, 30e9, 60e12, 300e9)
    assert bound(12e12, 90e9, 60e12, 300e9)


def test_the_marking_guide_states_the_right_numbers() -> None:
    guide = " ".join(next(cell.rubric for cell in source(EXERCISE).cells if cell.rubric).split())
    shape, adapters = Shape.gemma3("4b"), lora_parameters(Shape.gemma3("4b"), 16, "all-linear")
    gap = STEPS[shape, 1, 1024, "lora", False]["training_flops"]
    gap -= flops.training_flops(shape, 1, 1024, "lora")
    share = flops.training_flops(shape, 1, 1024, "lora") / flops.training_flops(shape, 1, 1024)
    assert f"about {share:.2f} of a full step" in guide
    assert f"times, {3 * 2 * 1024 * adapters / 1e12:.3f} × 10¹²" in guide
    assert f"a difference of {gap / 1e12:.3f} × 10¹²" in guide
    assert f"4 · 2 · 1,024 · {adapters:,} = {4 * 2 * 1024 * adapters / 1e12:.3f} × 10¹²" in guide
    assert literal("counted_by_pytorch")[-1][:-1] == ("4b", 2, 512, "lora", True)
    again = STEPS[shape, 2, 512, "lora", True]["training_flops"]
    again -= flops.training_flops(shape, 2, 512, "lora", True)
    assert again == 4 * 2 * 1024 * adapters
    assert f"≈ {65e12 / 320e9:.0f}" in guide
    short = {
        (size, seq)
        for size, batch, seq, method, _, counted in literal("counted_by_pytorch")
        if method == "full" and 6 * literal("params")[size] * batch * seq < 0.9 * counted
    }
    assert short == {("270m", 1024), ("270m", 8192), ("270m", 2048), ("4b", 8192), ("4b", 2048)}


def test_the_text_tells_how_palms_operations_come_about() -> None:
    a_token = 6 * 540.35e9 + 12 * 118 * 48 * 256 * 2048
    text = " ".join(" ".join(cells()).split())
    assert f"${a_token / 1e12:.3f} \\times 10^{{12}}$ a token" in text
    assert f"${238_300 * a_token / 1e17:.2f} \\times 10^{{17}}$ a second" in text
    work, seconds, peak = model_flops_utilization.public[1].args
    assert (work, seconds, peak) == (238_300 * a_token, 1, 6144 * 275e12)


def test_no_visible_case_answers_the_question_on_generating_text() -> None:
    assert all(
        one.args[2:] != (65e12, 320e9) or one.args[0] != one.args[1]
        for one in is_memory_bound.public
    )


CHECKS = {
    "attended_pairs": attended_pairs,
    "attention_flops": attention_flops,
    "training_flops": training_flops,
    "training_seconds": training_seconds,
    "model_flops_utilization": model_flops_utilization,
    "is_memory_bound": is_memory_bound,
}


@pytest.mark.parametrize("task", CHECKS)
def test_hidden_cases_alone_reject_every_known_wrong_answer(task: str) -> None:
    for number in range(3):
        check = CHECKS[task].prepare(task, f"course {number}")
        hidden = replace(check, cases=tuple(one for one in check.cases if not one.visible))
        for known in CHECKS[task].misconceptions:
            assert not judge(LocalAnswer(known.wrong), hidden), known.id
