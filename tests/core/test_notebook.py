"""The `check` of a notebook: the released file, and what a learner may hand it."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from gradelib import checks_for
from gradelib.notebook import CheckFailedError, NotJudgedError, release_text
from gradelib.verdicts import Status
from tests.core.test_judging import PREPARED, area


@pytest.fixture
def folder(tmp_path):
    """A folder with a released exercise of one task."""
    text = release_text("11_area", {"area": PREPARED}, frozenset({"math"}))
    (tmp_path / "11_area.checks.json").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def check(folder, monkeypatch):
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    return checks_for("11_area", folder)


def test_a_right_answer_is_green_and_told_that_more_cases_come(check):
    verdict = check("area", area)
    assert verdict
    assert "hidden" in verdict.message


def test_the_released_file_is_strict_json_that_anybody_can_read(folder):
    text = (folder / "11_area.checks.json").read_text(encoding="utf-8")
    data = json.loads(text, parse_constant=pytest.fail)
    assert data["exercise"] == "11_area"
    assert len(data["tasks"]["area"]["cases"]) == 4


@pytest.mark.parametrize("answer", [None, ...])
def test_a_name_without_an_answer_is_not_attempted(check, answer):
    assert check("area", answer).status is Status.NOT_ATTEMPTED


def test_a_value_in_place_of_a_function_is_explained(check):
    verdict = check("area", area(2, 3))
    assert verdict.status is Status.BAD_VALUE
    assert "without calling it" in verdict.message


def test_a_misspelt_task_is_told_which_there_are(check):
    with pytest.raises(ValueError, match="no task 'aera'; its tasks are area"):
        check("aera", area)


def test_a_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"keep the two in one folder"):
        checks_for("11_area", tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:200],
        lambda _text: "",
        lambda text: text.replace('"format": 1', '"format": 99'),
        lambda text: text.replace('"tasks"', '"task"'),
        lambda text: text.replace('"kind": "value"', '"kind": "magic"'),
        lambda _text: "[]",
        lambda _text: "<html>",
    ],
)
def test_a_damaged_file_says_to_download_it_again(folder, damage):
    path = folder / "11_area.checks.json"
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ValueError, match="Download the exercise again"):
        checks_for("11_area", folder)


def test_a_kernel_that_autogrades_without_the_judge_gets_an_error(check, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(NotJudgedError):
        check("area", area)


def test_validation_fails_on_a_wrong_answer_and_passes_a_right_one(check, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    assert check("area", area)
    with pytest.raises(CheckFailedError, match="wrong"):
        check("area", lambda w, h: w + h)


def in_a_notebook(monkeypatch, cells):
    shell = SimpleNamespace(user_ns={"In": ["", *cells]})
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)


def test_a_name_that_will_be_missing_is_told_at_once(check, monkeypatch):
    in_a_notebook(monkeypatch, ["import math", "SIDE = compute()"])
    namespace = {"SIDE": 3, "__name__": "answers"}
    source = "def answer(w, h):\n    return w * h if SIDE else math.pi\n"
    exec(source, namespace)
    monkeypatch.setattr("inspect.getsource", lambda _answer: source)
    verdict = check("area", namespace["answer"])
    assert "`SIDE`" in verdict.message
    assert "math" not in verdict.message


def test_a_name_that_a_definition_makes_is_not_warned_about(check, monkeypatch):
    in_a_notebook(monkeypatch, ["SIDE = 3", "def helper(x):\n    return x"])
    source = "def answer(w, h):\n    return helper(w) * h * SIDE\n"
    monkeypatch.setattr("inspect.getsource", lambda _answer: source)
    assert not check("area", area).warnings


def test_the_package_needs_the_standard_library_alone_and_loads_fast():
    code = (
        "import sys, time; began = time.perf_counter(); import gradelib; took = time.perf_counter() - began;"
        "third = {m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names) - {'gradelib'};"
        "print(sorted(m for m in third if not m.startswith('_')), took < 1)"
    )
    ran = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, '.'); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == "[] True"
