"""Every check against right and wrong answers: the catalogued ones, and the shapes that any task can
meet. A new exercise is covered as soon as `solutions.checks.EXERCISES` lists it."""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from collections.abc import Callable
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from gradelib.checks import PreparedCase, PreparedCheck
from gradelib.compare import kind_of
from gradelib.judging import LocalAnswer, judge
from gradelib.outcomes import Kind
from gradelib.plain import Array, dumps
from gradelib.verdicts import Status, Verdict
from gradelib.wording import value_text
from tests.checks.tasks import (
    SEEDS,
    TASKS,
    WRONG,
    each_seed,
    each_task,
    each_task_where,
    each_wrong_answer,
    expects_numbers,
    has_changeable_inputs,
    has_inputs,
    has_rules,
    is_called_directly,
    prepared,
    stub,
)

Answer = Callable[..., Any]


def verdict_on(answer: Answer, check: PreparedCheck) -> Verdict:
    return judge(LocalAnswer(answer), check)


# --- right answers


@each_seed
@each_task
def test_the_reference_scores_full_marks(exercise, task, seed):
    verdict = verdict_on(TASKS[exercise, task].reference, prepared(exercise, task, seed))
    assert verdict.status is Status.CORRECT, verdict.message
    assert verdict.passed == verdict.total
    assert verdict.hidden


@each_seed
@each_task
def test_right_answers_written_otherwise_score_full_marks(exercise, task, seed):
    also_right = TASKS[exercise, task].also_right
    assert len(also_right) >= 3
    for answer in also_right:
        verdict = verdict_on(answer, prepared(exercise, task, seed))
        assert verdict.status is Status.CORRECT, f"{answer}: {verdict.message}"


def _integer_where_whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() and value else value


def _fraction(value: Any) -> Any:
    finite = isinstance(value, (int, float)) and math.isfinite(value) and value
    return Fraction(value) if finite else value


def _numpy_number(value: Any) -> Any:
    return np.int64(value) if type(value) is int else np.float64(value)


NUMBERS_WRITTEN_OTHERWISE = {
    "float": float,
    "int where whole": _integer_where_whole,
    "Fraction": _fraction,
    "NumPy scalar": _numpy_number,
    "NumPy array of no dimension": np.array,
    "subclass of float": type("Grams", (float,), {}),
}
BOOLEANS_WRITTEN_OTHERWISE = {
    "NumPy bool": np.bool_,
    "NumPy array of no dimension": np.array,
}
TEXTS_WRITTEN_OTHERWISE = {
    "NumPy text": lambda value: np.str_(value) if isinstance(value, str) else value,
    "subclass of text": lambda value: (
        type("Name", (str,), {})(value) if isinstance(value, str) else value
    ),
}
LISTS_WRITTEN_OTHERWISE = {
    "tuple": tuple,
    "NumPy arrays for inner lists": lambda value: [
        np.array(item) if isinstance(item, list) else item for item in value
    ],
    "NumPy numbers": lambda value: [
        _numpy_number(item) if type(item) in (int, float) else item for item in value
    ],
}
DICTIONARIES_WRITTEN_OTHERWISE = {
    "OrderedDict": OrderedDict,
    "read-only view": MappingProxyType,
    "keys in reverse": lambda value: dict(reversed(value.items())),
    "tuples for lists": lambda value: {
        key: tuple(item) if isinstance(item, list) else item for key, item in value.items()
    },
    "NumPy numbers": lambda value: {
        key: _numpy_number(item) if type(item) in (int, float) else item
        for key, item in value.items()
    },
}


@each_task_where(is_called_directly)
def test_other_types_of_the_same_value_score_full_marks(exercise, task):
    check = prepared(exercise, task)
    reference = TASKS[exercise, task].reference
    example = reference(*check.cases[0].args, **check.cases[0].kwargs)
    written = NUMBERS_WRITTEN_OTHERWISE
    if isinstance(example, dict):
        written = DICTIONARIES_WRITTEN_OTHERWISE
    if isinstance(example, list):
        written = LISTS_WRITTEN_OTHERWISE
    if isinstance(example, bool):
        written = BOOLEANS_WRITTEN_OTHERWISE
    if isinstance(example, str):
        written = TEXTS_WRITTEN_OTHERWISE
    for name, write in written.items():

        def answer(*args: Any, write: Answer = write, **kwargs: Any) -> Any:
            value = reference(*args, **kwargs)
            return value if value is None else write(value)  # "there is none" has one spelling

        verdict = verdict_on(answer, check)
        assert verdict.status is Status.CORRECT, f"{name}: {verdict.message}"


# --- the stub and the catalogue


@each_seed
@each_task
def test_the_untouched_stub_scores_nothing(exercise, task, seed):
    namespace: dict[str, Any] = {}
    exec(compile(stub(exercise, task), "stub", "exec"), namespace)
    verdict = verdict_on(namespace[task], prepared(exercise, task, seed))
    assert (verdict.status, verdict.score) == (Status.NOT_ATTEMPTED, 0)


@each_wrong_answer
def test_a_known_wrong_answer_is_rejected_and_named(exercise, task, name):
    for seed in SEEDS:
        check = prepared(exercise, task, seed)
        verdict = verdict_on(WRONG[exercise, task, name], check)
        assert verdict.score < 1
        assert verdict.misconception == name, verdict.message
        sentences = check.sentences | {rule.id: rule.sentence for rule in check.rules}
        assert sentences[name] in verdict.message


@each_task
def test_each_task_knows_wrong_answers(exercise, task):
    assert len(TASKS[exercise, task].known_wrong()) >= 5


@each_task
def test_every_rule_has_an_answer_that_breaks_it(exercise, task):
    assert all(rule.wrong is not None for rule in TASKS[exercise, task].rules)


@each_task
def test_no_sentence_gives_a_value_away(exercise, task):
    check = prepared(exercise, task)
    given_away = {
        value_text(case.expected.value)
        for case in check.cases
        if case.expected.kind is Kind.VALUE and not check.rules
    }
    for name, text in check.sentences.items():
        told = {value for value in given_away if len(value) > 3 and value in text}
        assert not told, f"{name}: {text}"


@each_task
def test_many_seeds_can_be_drawn(exercise, task):
    # `prepare` raises where a misconception agrees with the reference on every case.
    check = TASKS[exercise, task]
    for number in range(25):
        drawn = check.prepare(task, f"seed {number}")
        for name, wrong in check.known_wrong():
            verdict = verdict_on(wrong, drawn)
            assert verdict.misconception == name, f"seed {number}: {verdict.message}"


# --- shapes that any task can meet


def wrong_shapes(check: PreparedCheck, reference: Answer) -> dict[str, tuple[Answer, Status, str]]:
    """Answers that are wrong whatever the task is: name → answer, status, and the misconception of a
    task whose answer is a number."""
    first = "a configuration" if check.rules else check.cases[0].expected.value

    def prints(*args: Any, **kwargs: Any) -> None:
        print(reference(*args, **kwargs))  # noqa: T201

    def recurses(*args: Any, **kwargs: Any) -> Any:
        return recurses(*args, **kwargs)

    def reads_a_global(*_args: Any, **_kwargs: Any) -> Any:
        return bytes_per_value * 2  # type: ignore[name-defined]  # noqa: F821

    def raises(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("lost")

    def not_implemented(*_args: Any, **_kwargs: Any) -> Any:
        raise NotImplementedError

    def always(value: Any) -> Answer:
        return lambda *_args, **_kwargs: value

    def of_value(change: Callable[[Any], Any]) -> Answer:
        return lambda *args, **kwargs: change(reference(*args, **kwargs))

    class Agreeable:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    return {
        "the stub": (lambda *_args, **_kwargs: None, Status.NOT_ATTEMPTED, "placeholder"),
        "returns nothing": (always(None), Status.BAD_VALUE, "returns nothing"),
        "returns the placeholder": (always(...), Status.NOT_ATTEMPTED, "placeholder"),
        "raises NotImplementedError": (not_implemented, Status.NOT_ATTEMPTED, "placeholder"),
        "prints": (prints, Status.BAD_VALUE, "prints instead of returns"),
        "text with a unit": (of_value(lambda v: f"{v} bytes"), Status.BAD_VALUE, "returns text"),
        "tuple": (of_value(lambda v: (v, "bytes")), Status.BAD_VALUE, "returns a tuple"),
        "NaN": (always(math.nan), Status.BAD_VALUE, "not a number"),
        "infinity": (always(math.inf), Status.BAD_VALUE, "infinity"),
        "the example's value": (always(first), Status.WRONG, "hard-codes the example"),
        "the same number": (always(-12_345.678), Status.WRONG, "ignores its arguments"),
        "True": (always(True), Status.BAD_VALUE, ""),
        "equal to everything": (always(Agreeable()), Status.BAD_VALUE, ""),
        "a function": (always(reference), Status.BAD_VALUE, ""),
        "raises": (raises, Status.RAISED, ""),
        "recursion without end": (recurses, Status.RAISED, "recursion without end"),
        "reads a global": (reads_a_global, Status.RAISED, "reads a name that is not there"),
        "stops Python": (lambda *_args, **_kw: sys.exit(0), Status.CRASHED, ""),
    }


# What is of the right kind all the same, by the kind of the right answer.
OF_RIGHT_KIND = {
    "text": ("text with a unit", "the example's value"),
    "a list": ("tuple", "the example's value"),
    "a dictionary": ("the example's value",),
}
SHAPES = list(wrong_shapes(prepared(*next(iter(TASKS))), next(iter(TASKS.values())).reference))


@pytest.mark.parametrize("shape", SHAPES)
@each_task_where(is_called_directly)
def test_a_wrong_shape_is_rejected_with_its_status(exercise, task, shape):
    check = prepared(exercise, task)
    answer, status, misconception = wrong_shapes(check, TASKS[exercise, task].reference)[shape]
    verdict = verdict_on(answer, check)
    assert verdict.score == 0, verdict.message
    if verdict.misconception in check.sentences:
        assert verdict.status in (status, Status.WRONG)  # the catalogue knows more of it
    elif expects_numbers(check):
        assert verdict.status is status, verdict.message
        assert misconception in ("", verdict.misconception), verdict.message
    elif not check.rules and shape in OF_RIGHT_KIND.get(kind_of(check.cases[0].expected.value), ()):
        assert verdict.status is Status.WRONG, verdict.message
    else:
        expected = Status.BAD_VALUE if status is Status.WRONG else status
        assert verdict.status is expected, verdict.message


@each_task_where(has_changeable_inputs)
def test_an_answer_that_changes_its_input_is_rejected(exercise, task):
    check = prepared(exercise, task)
    reference = TASKS[exercise, task].reference

    def mutates(*args: Any, **kwargs: Any) -> Any:
        result = reference(*args, **kwargs)
        for arg in args:
            if isinstance(arg, (list, dict)):
                arg.clear()
        return result

    verdict = verdict_on(mutates, check)
    assert (verdict.score, verdict.misconception) == (0, "mutates its input")


@each_task_where(is_called_directly)
def test_an_answer_that_remembers_calls_is_rejected(exercise, task):
    check = prepared(exercise, task)
    reference = TASKS[exercise, task].reference
    calls: list[int] = []

    def remembers(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) > len(check.cases):
            return "something else"
        return reference(*args, **kwargs)

    verdict = verdict_on(remembers, check)
    assert (verdict.score, verdict.misconception) == (0, "stateful")


# --- what is hidden stays hidden


def right_where_visible(check: PreparedCheck, reference: Answer, wrong: Answer) -> Answer:
    """The reference's answer on visible inputs, another elsewhere."""
    visible = {dumps([list(one.args), one.kwargs]) for one in check.cases if one.visible}

    def answer(*args: Any, **kwargs: Any) -> Any:
        known = dumps([list(args), kwargs]) in visible
        return (reference if known else wrong)(*args, **kwargs)

    return answer


def raises_with_its_input(*args: Any, **kwargs: Any) -> Any:
    raise ValueError(f"{args} {kwargs}")


def class_named_as_its_input(*args: Any, **kwargs: Any) -> Any:
    raise type(f"{args} {kwargs}", (Exception,), {})


HIDDEN_FAILURES: dict[str, Answer] = {
    "a number": lambda *_args, **_kwargs: -12_345.678,
    "NaN": lambda *_args, **_kwargs: math.nan,
    "text": lambda *args, **kwargs: f"{args} {kwargs}",
    "raises with its input": raises_with_its_input,
    "a class named as its input": class_named_as_its_input,
}


@pytest.mark.parametrize("failure", HIDDEN_FAILURES)
@each_task_where(lambda check: has_inputs(check) and is_called_directly(check))
def test_failing_hidden_cases_alone_tells_nothing_of_them(exercise, task, failure):
    messages = set()
    for seed in SEEDS:
        check = prepared(exercise, task, seed)
        reference = TASKS[exercise, task].reference
        answer = right_where_visible(check, reference, HIDDEN_FAILURES[failure])
        verdict = verdict_on(answer, check)
        assert not verdict
        shown = (verdict.reason.call, verdict.reason.expected, verdict.reason.where)
        assert shown == ("", "", "")
        messages.add(verdict.message)
        assert not shown_of_hidden(check, verdict)
    # Other hidden cases, the same words: nothing of a case can be in them.
    assert len(messages) == 1


def shown_of_hidden(check: PreparedCheck, verdict: Verdict) -> set[str]:
    """Inputs and expected values of hidden cases, long enough to be told apart, that the verdict
    shows."""
    public = dumps(check.public_data())
    shown = repr(verdict.to_data())
    return {text for text in hidden_texts(check) if text in shown and text not in public}


def hidden_texts(check: PreparedCheck) -> set[str]:
    def texts(one: PreparedCase) -> set[str]:
        values = [*one.args, *one.kwargs.values(), one.expected.value]
        return {str(value) for value in values if not isinstance(value, Array)}

    hidden = [one for one in check.cases if not one.visible]
    found = {text for one in hidden for text in texts(one)}
    return {text for text in found if len(text) > 4 and any(map(str.isdigit, text))}


@each_wrong_answer
def test_the_message_on_a_known_wrong_answer_shows_nothing_hidden(exercise, task, name):
    wrong = WRONG[exercise, task, name]
    verdicts = {seed: verdict_on(wrong, prepared(exercise, task, seed)) for seed in SEEDS}
    for seed, verdict in verdicts.items():
        assert not shown_of_hidden(prepared(exercise, task, seed), verdict)
    assert len({verdict.message for verdict in verdicts.values()}) == 1


@each_task
def test_what_is_released_does_not_depend_on_the_hidden_cases(exercise, task):
    released = {dumps(prepared(exercise, task, seed).public_data()) for seed in SEEDS}
    assert len(released) == 1
    again = PreparedCheck.from_public_data(task, prepared(exercise, task).public_data())
    assert len(again.cases) == len(TASKS[exercise, task].public)
    assert verdict_on(TASKS[exercise, task].reference, again).status is Status.CORRECT


@each_task_where(has_rules)
def test_a_configuration_is_not_released_with_an_answer(exercise, task):
    released = prepared(exercise, task).public_data()
    assert all(one["expected"]["value"] is None for one in released["cases"])


@each_seed
@each_task_where(has_inputs)
def test_hidden_inputs_are_not_among_the_visible_ones(exercise, task, seed):
    check = prepared(exercise, task, seed)
    inputs = [dumps([list(one.args), one.kwargs]) for one in check.cases]
    visible = {text for text, one in zip(inputs, check.cases, strict=True) if one.visible}
    hidden = [text for text, one in zip(inputs, check.cases, strict=True) if not one.visible]
    assert len(hidden) >= 5
    assert not visible & set(hidden)


@each_task_where(has_inputs)
def test_two_seeds_draw_different_cases(exercise, task):
    drawn = [
        [dumps([list(one.args), one.kwargs]) for one in prepared(exercise, task, seed).cases]
        for seed in SEEDS[:2]
    ]
    assert drawn[0] != drawn[1]
