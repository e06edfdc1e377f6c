"""The `check` of a notebook: the released file, and what a learner may hand it."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
from dataclasses import replace
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


def unnamed(w, h):
    return w * h


@pytest.mark.parametrize(
    "given",
    [("area",), (area,), (unnamed,), (area, "area"), (None, area), (["area"], area), (6, 7)],
)
def test_a_check_called_otherwise_says_how_it_is_called(check, given):
    with pytest.raises(TypeError, match=r'in quotes, and then your answer: check\("area", area\)$'):
        check(*given)


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


def endless(w, h):
    while True:
        with contextlib.suppress(Exception):
            w + h


@pytest.fixture
def quick(check):
    """The same check with a limit that a test can wait for."""
    check.tasks["area"] = replace(check.tasks["area"], seconds=0.2)
    return check


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals here")
def test_an_endless_loop_ends_with_the_checks_limit(quick):
    before = signal.getsignal(signal.SIGALRM)
    assert quick("area", endless).status is Status.TIMED_OUT
    assert "did not finish in time" in quick("area", endless).message
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before
    assert quick("area", area)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals here")
def test_an_import_that_takes_longer_than_the_limit_is_let_finish(quick, tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import time; time.sleep(0.5); READY = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def importing(w, h):
        import slow_to_import

        return slow_to_import.READY * area(w, h)

    assert quick("area", importing)


def test_in_another_thread_there_is_no_limit_and_no_error(quick):
    found = []
    thread = threading.Thread(target=lambda: found.append(quick("area", area)))
    thread.start()
    thread.join()
    assert found[0]


MESSAGES = {
    "return w * h + hieght": (
        "NameError",
        "Is it spelt as where you defined it?",
    ),
    "return w * h if w < 10**9 else hieght": ("`hieght` is defined nowhere in this notebook",),
}


@pytest.mark.parametrize(("body", "said"), MESSAGES.items(), ids=["reached", "not reached"])
def test_a_name_that_never_was_is_told_once_and_not_as_one_that_code_made(
    check, monkeypatch, body, said
):
    in_a_notebook(monkeypatch, ["import math"])
    source = f"def answer(w, h):\n    if w < 0: raise ValueError\n    {body}\n"
    namespace = {}
    exec(source, namespace)
    monkeypatch.setattr("inspect.getsource", lambda _answer: source)
    message = check("area", namespace["answer"]).message
    for each in said:
        assert each in message
    assert "made by code that runs" not in message
    assert message.count("hieght") == 1
    assert (
        message.count("efine") == 1 + ("NameError" in message) * 2
    )  # NameError's own, and the hint's


@pytest.mark.parametrize(
    ("cells", "source"),
    [
        ([], "def answer(w, h):\n    import numpy as np\n    return np.prod([w, h])\n"),
        (["import numpy as np"], "def answer(w, h):\n    return np.prod([w, h])\n"),
        (["from numpy import prod"], "def answer(w, h):\n    return prod([w, h])\n"),
        (
            ["import numpy as np", "def times(w, h):\n    return np.prod([w, h])"],
            "def answer(w, h):\n    return times(w, h)\n",
        ),
    ],
    ids=["in the answer", "beside it", "a name of it", "in a helper"],
)
def test_a_package_that_grading_does_not_promise_is_told_at_once(check, monkeypatch, cells, source):
    in_a_notebook(monkeypatch, ["import math, json", "import torch", *cells])
    monkeypatch.setattr("inspect.getsource", lambda _answer: source)
    [warning] = check("area", area).warnings
    assert warning.startswith("`numpy` may not be there when this is graded")


def test_a_package_that_the_exercise_requires_is_not_warned_about(tmp_path, monkeypatch):
    text = release_text("11_area", {"area": PREPARED}, frozenset(), "torch")
    (tmp_path / "11_area.checks.json").write_text(text, encoding="utf-8")
    source = "def answer(w, h):\n    import torch, math\n    return w * h\n"
    in_a_notebook(monkeypatch, ["import gradelib"])
    monkeypatch.setattr("inspect.getsource", lambda _answer: source)
    assert not checks_for("11_area", tmp_path)("area", area).warnings


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


def warned(check, monkeypatch, ran, source):
    """The message on an answer with this source in a notebook that ran these cells."""
    in_a_notebook(monkeypatch, ran)
    namespace = {"__name__": "answers", "side": None, "SIDE": 1}
    exec(source, namespace)
    monkeypatch.setattr("inspect.getsource", lambda _answer: source)
    return check("area", namespace["answer"]).message


@pytest.mark.parametrize(
    ("ran", "body"),
    [
        (["from math import *"], "return w * h if pi else sqrt(w)"),
        (["SIDE = compute()\ndef answer(w, h):\n    ..."], "return w * h if SIDE else 0"),
        (["def unused(x):\n    return NOWHERE"], "return w * h"),
        (["X = " + "+".join(["1"] * 700)], "return w * h if X else 0"),
        (["X = a" + ".b" * 20_000, "(" * 90_000], "return w * h"),
    ],
    ids=["star import", "the answer's own cell", "not used", "deep", "too deep"],
)
def test_what_grading_will_have_is_not_warned_of(check, monkeypatch, ran, body):
    source = f"def answer(w, h):\n    if w < 0: raise ValueError\n    {body}\n"
    message = warned(check, monkeypatch, ran, source)
    assert "missing" not in message
    assert "nowhere" not in message


def test_a_name_that_a_helper_of_the_answer_will_miss_is_told(check, monkeypatch):
    source = (
        "def answer(w, h):\n    if w < 0: raise ValueError\n    return w * h if 1 else side(w)\n"
    )
    message = warned(
        check, monkeypatch, ["def side(x):\n    return SIDE", "SIDE = compute()"], source
    )
    assert "`SIDE` will be missing" in message
