"""Every exercise runs from its first cell to its last: as released, and with the solutions filled in."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from gradelib.cells import defined_names
from gradelib.grading.inlining import fill
from gradelib.grading.release import attached
from gradelib.grading.source import Role
from gradelib.notebook import release_text
from gradelib.verdicts import Status, Verdict
from solutions.checks import EXERCISES, load
from tests.checks.tasks import TASKS, prepared, source
from tests.conftest import need_module

RUNNABLE = (Role.SETUP, Role.HELPERS, Role.ANSWER, Role.CHECK, Role.EXAMPLE)


def run(exercise: str, folder: Path, solved: bool) -> dict[str, Verdict]:
    """The verdict of each check cell, run in order in one namespace as a kernel does."""
    checks = {task: prepared(exercise, task) for task in load(exercise)}
    names = frozenset(defined_names(source(exercise).setup))
    path = folder / f"{exercise}.checks.json"
    path.write_text(release_text(exercise, checks, names), encoding="utf-8")
    for relative, content in attached(source(exercise)).items():
        (folder / relative).parent.mkdir(parents=True, exist_ok=True)
        (folder / relative).write_bytes(content)
    namespace: dict[str, Any] = {}
    verdicts = {}
    for cell in source(exercise).cells:
        if cell.role not in RUNNABLE:
            continue
        text = cell.text
        if cell.role is Role.ANSWER and solved:
            text = fill(text, cell.task, TASKS[exercise, cell.task].reference)
        tree = ast.parse(text)
        last = tree.body.pop() if cell.role is Role.CHECK else None
        exec(compile(tree, f"{exercise}, line {cell.line}", "exec"), namespace)
        if isinstance(last, ast.Expr):
            verdicts[cell.task] = eval(
                compile(ast.Expression(last.value), "check", "eval"), namespace
            )
    return verdicts


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.slow if source(name).requires == "torch" else ())
        for name in EXERCISES
    ]
)
def exercise(request, tmp_path, monkeypatch):
    name = request.param
    if source(name).requires == "torch":
        for module in ("torch", "transformers", "peft"):
            need_module(module)
    monkeypatch.chdir(tmp_path)
    return name


def test_an_exercise_with_its_solutions_runs_and_every_check_is_green(exercise, tmp_path):
    verdicts = run(exercise, tmp_path, solved=True)
    assert set(verdicts) == set(load(exercise))
    for verdict in verdicts.values():
        assert verdict.status is Status.CORRECT, verdict.message


def test_an_exercise_as_released_runs_and_says_that_nothing_was_attempted(exercise, tmp_path):
    verdicts = run(exercise, tmp_path, solved=False)
    assert set(verdicts) == set(load(exercise))
    assert {verdict.status for verdict in verdicts.values()} == {Status.NOT_ATTEMPTED}
