"""What a learner reads: complete, escaped, and cut to a readable length."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradelib.judging
from gradelib import wording
from gradelib.compare import Differs
from gradelib.outcomes import Kind
from gradelib.plain import Array
from gradelib.shapes import Shape
from gradelib.verdicts import Reason, Status, Verdict

REASONS = sorted(wording._SENTENCES)
TEXT = st.text(max_size=300)


def verdict(what="value", score=0.0, status=Status.WRONG, misconception=None, **reason):
    return Verdict("area", status, score, Reason(what, **reason), misconception)


@pytest.mark.parametrize("what", REASONS)
@given(got=TEXT, expected=TEXT, hint=TEXT)
def test_any_text_fits_into_every_sentence(what, got, expected, hint):
    message = verdict(what, got=got, expected=expected, hint=hint, call="f(1)").message
    assert message.startswith("area: wrong.")
    assert hint in message


def test_every_reason_that_the_judge_gives_has_a_sentence():
    source = Path(gradelib.judging.__file__).read_text(encoding="utf-8")
    named = set(re.findall(r'(?:Reason|reason)\("([a-z ]+)"', source)) - {"correct", "rules met"}
    kinds = {str(kind) for kind in Kind} - {"value", "raised"}
    differs = {str(each) for each in Differs} | {"printed"}
    shown = {name for name in named if not name.startswith("hidden ")}
    assert len(named) >= 6
    once = {"placeholder", "missing", "state"}
    wanted = named | kinds | differs
    wanted |= {f"hidden {each}" for each in (shown - once - {"rule"}) | kinds | differs}
    wanted |= {f"load {kind}" for kind in kinds | {"raised"}}
    assert wanted <= set(REASONS)


@given(got=TEXT, call=TEXT)
def test_html_escapes_whatever_a_learner_wrote(got, call):
    page = verdict(got=f"<script>{got}", call=call, expected="<b>")._repr_html_()
    tags = set(re.findall(r"<(/?\w+)", page))
    assert tags <= {"div", "/div", "strong", "/strong", "code", "/code"}


def test_the_status_is_told_in_words_and_not_by_colour_alone():
    assert "✓ area: correct." in verdict("correct", 1.0, Status.CORRECT)._repr_html_()
    assert "✗ area: wrong." in verdict()._repr_html_()
    assert "○ area: not attempted." in verdict("placeholder", 0, Status.NOT_ATTEMPTED)._repr_html_()


def test_partial_credit_is_told_and_full_or_none_is_not():
    assert "60%" in verdict(score=0.6).message
    assert "%" not in verdict(score=0.0).message


def test_a_general_hint_stands_in_where_a_check_has_none():
    assert "without its unit" in verdict("type", misconception="returns text").message
    own = verdict("type", misconception="returns text", hint="A number, please.").message
    assert "A number, please." in own
    assert "without its unit" not in own


def test_warnings_are_told_even_when_all_is_right():
    right = Verdict("area", Status.CORRECT, 1.0, Reason("correct"), warnings=("`N` is missing.",))
    assert "Note: `N` is missing." in right.message


@pytest.mark.parametrize("hidden", [True, False])
def test_a_right_answer_is_told_whether_hidden_cases_were_among_them(hidden):
    right = Verdict("area", Status.CORRECT, 1.0, Reason("correct"), None, 5, 5, hidden)
    assert ("Grading adds hidden cases" in right.message) is not hidden


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "1.5"),
        (448.0, "448.0"),
        (7760198656.0, "7760198656"),
        (1e300, "1e+300"),
        ("a", "'a'"),
        ([1, None], "[1, None]"),
        (Array("int8", (2,), b"\x01\x02"), "[1, 2]"),
        (10**5000, "a whole number of 16610 bits"),
        (
            [10**5000, {"n": 10**5000}],
            "[a whole number of 16610 bits, {'n': a whole number of 16610 bits}]",
        ),
        ({"shape": Shape.gemma3("1b")}, "{'shape': Shape.gemma3('1b')}"),
        ([Array("int8", (1,), b"\x01")], "[[1]]"),
        (frozenset([2, 1]), "{1, 2}"),
        (frozenset(), "set()"),
    ],
    ids=[
        "float",
        "whole float",
        "large whole float",
        "huge float",
        "text",
        "list",
        "array",
        "huge",
        "huge inside",
        "shape",
        "array inside",
        "set",
        "empty set",
    ],
)
def test_a_value_is_written_as_python_writes_it(value, text):
    assert wording.value_text(value) == text


def test_a_long_value_is_cut():
    assert len(wording.value_text(list(range(1000)))) <= wording.VALUE_LIMIT + 2


def test_an_argument_that_fits_in_some_lines_is_shown_whole():
    models = [{"name": "egret", "params": 2_000_000, "quality": 0.58, "seconds": 1.5}] * 7
    assert wording.call_text("f", [models], {}) == f"f({models!r})"
    assert len(wording.call_text("f", [list(range(1000))], {})) <= wording.ARGUMENT_LIMIT + 5


def test_a_call_is_written_as_python_writes_it():
    assert wording.call_text("f", [1, "a"], {"n": [2]}) == "f(1, 'a', n=[2])"
    assert wording.call_text("f", [], {}) == "f()"


@pytest.mark.parametrize(
    "shape",
    [
        Shape.gemma3("270m"),
        Shape.gemma3("4b", vocab=262_208),
        Shape(
            vocab=10,
            hidden=4,
            intermediate=6,
            layers=2,
            heads=2,
            kv_heads=1,
            head_dim=3,
            tied=False,
            gated=True,
            attention_bias="qkv",
            sliding_window=2,
        ),
    ],
    ids=["named", "all fields", "few fields"],
)
def test_a_shape_in_a_call_can_be_pasted_into_a_notebook(shape):
    text = wording.call_text("f", [shape], {"n": 1})
    assert eval(text, {"f": lambda shape, **_: shape, "Shape": Shape}) == shape
    assert len(text) <= 250


def test_the_field_in_which_two_shapes_differ_is_in_sight():
    mine = Shape.gemma3("4b", vocab=262_208)
    assert wording.value_text(mine) == "Shape.gemma3('4b', vocab=262208)"
    other = replace(mine, sliding_window=512)
    assert "sliding_window=512" in wording.call_text("f", [other], {})


def test_a_shape_that_has_a_name_is_called_by_it():
    assert wording.call_text("f", [Shape.gemma3("4b")], {}) == "f(Shape.gemma3('4b'))"
