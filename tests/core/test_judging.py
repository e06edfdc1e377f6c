"""The judge: cases, parts, statuses and what it recognises, on a small task."""

# ruff: noqa: ARG005, T201 - wrong answers ignore arguments and print

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import dataclass, field

import pytest

from gradelib.checks import Case, Check, Misconception, PreparedCheck, case, measured, part
from gradelib.compare import relative
from gradelib.judging import LocalAnswer, judge
from gradelib.outcomes import Kind, Outcome, call, load_driver
from gradelib.rules import Rule
from gradelib.verdicts import Reason, Status, Verdict


def area(width, height):
    if width < 0 or height < 0:
        raise ValueError("negative")
    return width * height


AREA = Check(
    reference=area,
    public=[
        *part("positive", [case(2, 3), case(4, 5)]),
        *part("zero", [case(0, 7)]),
        *part("bad input", [case(-1, 2)]),
    ],
    hidden=lambda draw: [
        *part("positive", [case(draw.integer(6, 9), draw.integer(11, 19)) for _ in range(3)]),
        *part("zero", [case(draw.integer(3, 9), 0)]),
        *part("bad input", [case(draw.integer(3, 9), -draw.integer(3, 9))]),
    ],
    parts={"positive": 0.6, "zero": 0.3, "bad input": 0.1},
    misconceptions=[
        Misconception("perimeter", lambda w, h: 2 * (w + h), "That is the length around it."),
        Misconception("accepts bad input", lambda w, h: w * h, "Can a side be negative?"),
        Misconception("sum", lambda w, h: w + h, "Sides are multiplied."),
    ],
)
PREPARED = AREA.prepare("area", "seed")


def verdict_on(answer, check=PREPARED):
    return judge(LocalAnswer(answer), check)


def wrong_where(condition, wrong=-1.5):
    """The right answer, but where the condition holds."""
    return lambda w, h: wrong if condition(w, h) else area(w, h)


def test_a_right_answer_is_correct():
    verdict = verdict_on(area)
    assert (verdict.status, verdict.score, verdict.passed) == (Status.CORRECT, 1.0, 9)
    assert verdict
    assert verdict.hidden


@pytest.mark.parametrize(
    ("condition", "score"),
    [
        (lambda w, h: w == 2, 0.0),  # the core, in a visible case
        (lambda w, h: min(w, h) > 5, 0.0),  # the core, in hidden cases alone
        (lambda w, h: w * h == 0, 0.7),
        (lambda w, h: h == 0, 0.7),
        (lambda w, h: w < 0 or h < 0, 0.9),
        (lambda w, h: min(w, h) <= 0, 0.6),
    ],
)
def test_the_score_is_the_weight_of_the_parts_passed_whole(condition, score):
    verdict = verdict_on(wrong_where(condition))
    assert verdict.score == pytest.approx(score)
    assert verdict.status is Status.WRONG


def test_the_score_of_a_failed_answer_is_never_full():
    check = Check(
        reference=area,
        public=[*part("core", [case(1, 2)]), *part("tiny", [case(0, 0)])],
        hidden=lambda _draw: [],
        parts={"core": 1 - 1e-9, "tiny": 1e-9},
    ).prepare("area", "seed")
    assert verdict_on(lambda w, h: w * h or 1, check).score == 0.99


def test_the_misconception_that_agrees_on_every_case_is_named():
    verdict = verdict_on(lambda w, h: 2 * (w + h))
    assert verdict.misconception == "perimeter"
    assert verdict.reason.hint == "That is the length around it."


def test_a_misconception_is_named_when_only_failing_cases_agree_with_it():
    def validates_but_adds(w, h):
        if w < 0 or h < 0:
            raise ValueError
        return w + h

    assert verdict_on(validates_but_adds).misconception == "sum"


def test_a_misconception_is_named_where_other_parts_fail_for_a_reason_of_their_own():
    def adds_and_accepts_anything(w, h):
        return w + h if w > 0 and h > 0 else 99.5

    assert verdict_on(adds_and_accepts_anything).misconception == "sum"


def test_of_two_misconceptions_that_fit_the_passed_cases_choose():
    def refuses(is_refused):
        def wrong(w, h):
            if is_refused(w, h):
                raise ValueError
            return w * h

        return wrong

    check = Check(
        reference=area,
        public=[
            *part("positive", [case(2, 3)]),
            *part("bad input", [case(-1, 2), case(3, -4)]),
            *part("zero", [case(0, 7)]),
        ],
        hidden=lambda _draw: [],
        parts={"positive": 0.6, "bad input": 0.2, "zero": 0.2},
        misconceptions=[
            Misconception("accepts all", lambda w, h: w * h, "Both."),
            Misconception("refuses a width of 0 too", refuses(lambda w, h: w <= 0), "0 is right."),
            Misconception("accepts a negative height", refuses(lambda w, h: w < 0), "Height."),
        ],
    ).prepare("area", "seed")

    def accepts_a_height(w, h):
        if w < 0:
            raise ValueError
        return w * h if w else 99.5  # wrong there for a reason of its own

    # "accepts all" would have failed (-1, 2), which passed. What the last part says is left out.
    assert verdict_on(accepts_a_height, check).misconception == "refuses a width of 0 too"
    assert (
        verdict_on(refuses(lambda w, h: w < 0), check).misconception == "accepts a negative height"
    )


def test_of_two_misconceptions_within_the_tolerance_the_nearer_one_is_named():
    check = Check(
        reference=area,
        public=[case(100, 10)],
        hidden=lambda _draw: [],
        tolerance=relative(0.03),
        misconceptions=[
            Misconception("one row short", lambda w, h: (w - 10) * h, "Rows."),
            Misconception("one column short", lambda w, h: (w - 8) * h, "Columns."),
        ],
    ).prepare("area", "seed")
    assert verdict_on(lambda w, h: 901, check).misconception == "one row short"
    assert verdict_on(lambda w, h: 919, check).misconception == "one column short"
    assert verdict_on(lambda w, h: 910, check).misconception == "one row short"


def test_an_answer_that_is_wrong_in_its_own_way_has_no_misconception():
    assert verdict_on(lambda w, h: w * h + 1).misconception is None


def test_a_recognised_answer_that_raises_is_wrong_rather_than_raised():
    check = Check(
        reference=area,
        public=[case(2, 3)],
        hidden=lambda _draw: [case(4, 5)],
        misconceptions=[Misconception("calls a number", lambda w, h: w(h), "`w(h)` is a call.")],
    ).prepare("area", "seed")
    verdict = verdict_on(lambda w, h: w(h), check)
    assert (verdict.status, verdict.misconception) == (Status.WRONG, "calls a number")


@pytest.mark.parametrize(
    ("error", "passes"),
    [(ValueError, True), (UnicodeError, True), (TypeError, False), (Exception, False)],
)
def test_bad_input_asks_for_that_exception_or_a_subclass(error, passes):
    def answer(w, h):
        if w < 0 or h < 0:
            raise error("no")
        return w * h

    verdict = verdict_on(answer)
    assert bool(verdict) is passes
    if not passes:
        assert verdict.reason.expected == "ValueError"


def test_visible_cases_are_explained_and_hidden_ones_are_not():
    visible = verdict_on(wrong_where(lambda w, h: w == 4))
    assert visible.reason == Reason("value", "area(4, 5)", "-1.5", "20", "", "positive")
    hidden = verdict_on(wrong_where(lambda w, h: w > 5))
    assert hidden.reason == Reason("hidden value", part="positive")


def test_a_visible_failure_is_told_before_an_earlier_hidden_one_exists():
    order = [one.visible for one in PREPARED.cases]
    assert order == sorted(order, reverse=True)


@dataclass
class Script:
    """An answer that gives prepared outcomes, as one whose process may die does."""

    outcomes: list[Outcome]
    failure: Outcome | None = None
    called: int = field(default=0)

    def call(self, _one, _check):
        self.called += 1
        return self.outcomes[min(self.called, len(self.outcomes)) - 1]

    def calls(self, cases, check):
        return (self.call(one, check) for one in cases)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (Kind.TIMED_OUT, Status.TIMED_OUT),
        (Kind.OUT_OF_MEMORY, Status.OUT_OF_MEMORY),
        (Kind.CRASHED, Status.CRASHED),
    ],
)
def test_a_lost_process_ends_the_trial_and_what_was_not_reached_failed(kind, status):
    script = Script([Outcome(Kind.VALUE, 6), Outcome(Kind.VALUE, 20), Outcome(kind)])
    verdict = judge(script, PREPARED)
    assert (verdict.status, verdict.score, script.called) == (status, 0.0, 3)
    assert verdict.passed == 2


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (Outcome(Kind.VALUE), Status.NOT_ATTEMPTED),
        (Outcome(Kind.RAISED, errors=("SyntaxError",), detail="line 3"), Status.RAISED),
        (Outcome(Kind.TIMED_OUT), Status.TIMED_OUT),
        (Outcome(Kind.OUT_OF_MEMORY), Status.OUT_OF_MEMORY),
        (Outcome(Kind.CRASHED), Status.CRASHED),
        (Outcome(Kind.BAD_VALUE, detail="a float value"), Status.BAD_VALUE),
    ],
)
def test_an_answer_that_cannot_be_called_scores_nothing_and_says_why(failure, status):
    verdict = judge(Script([], failure), PREPARED)
    assert (verdict.status, verdict.score, verdict.total) == (status, 0.0, 9)
    assert failure.detail in verdict.message


@pytest.mark.parametrize("broken", [Kind.VALUE, Kind.RAISED])
def test_a_second_answer_to_the_same_call_has_to_be_the_same(broken):
    right = [call(area, one.args, one.kwargs) for one in PREPARED.cases]
    verdict = judge(Script([*right, Outcome(broken, 7)]), PREPARED)
    assert (verdict.status, verdict.misconception) == (Status.WRONG, "stateful")


@pytest.mark.parametrize("returned", [ValueError("negative"), ValueError])
def test_an_exception_that_is_returned_and_not_raised_is_named(returned):
    verdict = verdict_on(lambda w, h: returned if min(w, h) < 0 else w * h)
    assert (verdict.status, verdict.misconception) == (Status.BAD_VALUE, "returns an exception")
    assert "`area(-1, 2)` returned the exception `ValueError` itself" in verdict.message
    assert "Use `raise`." in verdict.message


def test_a_measured_value_is_expected_in_place_of_the_references():
    check = Check(
        reference=lambda n: 2 * n,
        public=[measured(103, 50), *part("far", [measured(2090, 1000)])],
        hidden=lambda draw: [],
        tolerance=relative(0.05),
        parts={"": 0.5, "far": 0.5},
    ).prepare("double", "seed")
    assert [one.expected.value for one in check.cases] == [103, 2090]
    assert verdict_on(lambda n: 2 * n, check)
    assert not verdict_on(lambda n: 1.93 * n, check)


def test_printing_while_returning_is_fine():
    def chatty(w, h):
        print("computing")
        warnings.warn("slow", stacklevel=2)
        return area(w, h)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert verdict_on(chatty)


def test_none_is_a_placeholder_only_when_it_is_all_there_is():
    assert verdict_on(lambda w, h: None).status is Status.NOT_ATTEMPTED
    partly = verdict_on(lambda w, h: None if w == 2 else area(w, h))
    assert (partly.status, partly.score) == (Status.BAD_VALUE, 0.0)


def test_a_task_whose_right_answer_is_none_can_be_solved():
    check = Check(
        reference=lambda n: None if n else 1,
        public=[case(3)],
        hidden=lambda _draw: [case(0)],
    ).prepare("maybe", "seed")
    assert verdict_on(lambda n: None if n else 1, check)
    assert verdict_on(lambda n: None, check).status is Status.NOT_ATTEMPTED


def test_a_tolerance_holds_for_answers_and_for_misconceptions():
    check = Check(
        reference=lambda n: n / 3,
        public=[case(100.0)],
        hidden=lambda draw: [case(draw.real(200, 300))],
        tolerance=relative(0.01),
        misconceptions=[Misconception("half", lambda n: n / 2, "Three shares, not two.")],
    ).prepare("third", "seed")
    assert verdict_on(lambda n: round(n / 3, 1), check)
    assert verdict_on(lambda n: n / 2.001, check).misconception == "half"
    assert not verdict_on(lambda n: n / 3.1, check)


# --- authors' mistakes


def checked(**changes):
    made = {"reference": area, "public": [case(2, 3)], "hidden": lambda _draw: [case(4, 5)]}
    return Check(**(made | changes))


def nothing_tells_apart():
    return checked(misconceptions=[Misconception("same", area, "…")]).prepare("area", "s")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: checked(public=[]), "at least one public case"),
        (lambda: checked(parts={"": 0.5}), "add up to 1"),
        (lambda: checked(parts={"a": 1.5, "b": -0.5}), "positive"),
        (lambda: checked(misconceptions=[Misconception("x", area, "")] * 2), "same id"),
        (lambda: checked(rules=[Rule("r", "", "has-key", {"name": "r"})]), "is-dictionary"),
        (nothing_tells_apart, "no case tells the misconception 'same'"),
        (lambda: checked(public=part("a", [case(1, 2)])).prepare("area", "s"), "parts"),
        (lambda: checked(reference=lambda w, h: object()).prepare("area", "s"), "reference gave"),
        (
            lambda: checked(
                reference=lambda: {"r": 1},
                public=[case()],
                hidden=lambda _draw: [],
                rules=[Rule("d", "", "is-dictionary"), Rule("k", "", "has-key", {"name": "s"})],
            ).prepare("config", "s"),
            r"breaks the rules \['k'\]",
        ),
        (lambda: checked(public=[measured(7, 1, 2)]).prepare("area", "s"), "too far from 7"),
        (lambda: load_driver("os:system"), "gradelib.drivers"),
        (lambda: load_driver("gradelib.drivers"), "gradelib.drivers"),
    ],
)
def test_an_author_is_told_what_is_wrong_with_a_check(make, says):
    with pytest.raises(ValueError, match=says):
        make()


# --- rules


SETTINGS = Check(
    reference=lambda: {"rate": 0.1, "steps": 10},
    public=[case()],
    hidden=lambda _draw: [case()],
    rules=[
        Rule("not a dictionary", "Return a dictionary.", "is-dictionary"),
        Rule("no steps", "How many steps?", "has-key", {"name": "steps"}),
        Rule("rate", "Too fast.", "number-between", {"name": "rate", "low": 0, "high": 1}, False),
    ],
).prepare("settings", "seed")


@pytest.mark.parametrize(
    ("value", "status", "rule"),
    [
        ({"rate": 0.9, "steps": 1}, Status.CORRECT, None),
        ([1], Status.BAD_VALUE, "not a dictionary"),
        (3, Status.BAD_VALUE, "not a dictionary"),
        ({1: 2}, Status.WRONG, "not a dictionary"),
        ({"rate": 0.5}, Status.WRONG, "no steps"),
        ({"rate": 2, "steps": 1}, Status.WRONG, "rate"),
        ({"rate": True, "steps": 1}, Status.WRONG, "rate"),
        ({"rate": math.nan, "steps": 1}, Status.WRONG, "rate"),
    ],
)
def test_a_configuration_is_judged_by_the_first_rule_it_breaks(value, status, rule):
    verdict = verdict_on(lambda: value, SETTINGS)
    assert (verdict.status, verdict.misconception) == (status, rule)


def test_a_hidden_rule_is_not_released_and_its_sentence_is_told_when_it_is_broken():
    released = PreparedCheck.from_public_data("settings", SETTINGS.public_data())
    assert [rule.id for rule in released.rules] == ["not a dictionary", "no steps"]
    assert verdict_on(lambda: {"rate": 2, "steps": 1}, released)
    assert "Too fast." in verdict_on(lambda: {"rate": 2, "steps": 1}, SETTINGS).message


def test_a_configuration_that_raises_is_not_answered_with_the_references():
    def answer():
        raise KeyError("rate")

    verdict = verdict_on(answer, SETTINGS)
    assert verdict.status is Status.RAISED
    assert "0.1" not in verdict.message
    assert "It should" not in verdict.message


# --- outcomes and verdicts as data


def test_a_call_gets_copies_and_tells_of_changes():
    given = [[1, 2], {"a": [3]}]

    def changes(rows, table):
        rows.append(9)
        table["a"].clear()
        return 1

    outcome = call(changes, given, {})
    assert outcome.mutated
    assert given == [[1, 2], {"a": [3]}]
    assert not call(lambda rows, table: 1, given, {}).mutated
    assert not call(lambda x: 1, [math.nan], {}).mutated


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda: 1, Kind.VALUE),
        (object, Kind.BAD_VALUE),
        (lambda: 1 / 0, Kind.RAISED),
        (lambda: {}[1], Kind.RAISED),
        (lambda: (_ for _ in ()).throw(MemoryError), Kind.OUT_OF_MEMORY),
        (sys.exit, Kind.CRASHED),
        (lambda: (_ for _ in ()).throw(GeneratorExit), Kind.CRASHED),
        (lambda wrong: 1, Kind.RAISED),
    ],
)
def test_every_way_a_call_can_end_is_an_outcome(answer, kind):
    outcome = call(answer, [], {})
    assert outcome.kind is kind
    assert Outcome.from_data(outcome.to_data()) == outcome


def test_an_interrupt_from_the_keyboard_is_not_an_outcome():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call(interrupted, [], {})


def test_an_exception_whose_message_breaks_is_an_outcome_too():
    class BrokenError(Exception):
        def __str__(self):
            raise RuntimeError

    def answer():
        raise BrokenError

    outcome = call(answer, [], {})
    assert (outcome.kind, outcome.errors[0]) == (Kind.RAISED, "BrokenError")


def test_a_flood_of_output_is_cut():
    outcome = call(lambda: print("x" * 10**6), [], {})
    assert 0 < len(outcome.printed) <= 2_000


@pytest.mark.parametrize(
    "verdict",
    [
        verdict_on(area),
        verdict_on(lambda w, h: w + h),
        verdict_on(lambda w, h: None),
        verdict_on(wrong_where(lambda w, h: w * h == 0)),
    ],
    ids=lambda verdict: verdict.status,
)
def test_a_verdict_survives_as_data(verdict):
    assert Verdict.from_data(verdict.to_data()) == verdict
    assert verdict.to_data()["message"] == verdict.message


@pytest.mark.parametrize(
    ("status", "score"),
    [(Status.CORRECT, 0.5), (Status.WRONG, 1.0), (Status.WRONG, -0.1), (Status.WRONG, math.nan)],
)
def test_a_verdict_whose_score_does_not_go_with_its_status_is_refused(status, score):
    with pytest.raises(ValueError, match="score"):
        Verdict("task", status, score, Reason("value"))


def test_a_released_check_is_the_visible_part_and_judges_alike():
    released = PreparedCheck.from_public_data("area", PREPARED.public_data())
    assert len(released.cases) == len(AREA.public)
    assert released.tolerance == PREPARED.tolerance
    assert verdict_on(area, released).score == 1
    assert verdict_on(lambda w, h: w + h, released).misconception == "sum"


def test_the_same_seed_draws_the_same_cases_and_another_draws_others():
    assert AREA.prepare("area", "seed") == PREPARED
    assert AREA.prepare("area", "other").cases != PREPARED.cases
    assert AREA.prepare("other", "seed").cases != PREPARED.cases


def test_cases_can_have_keyword_arguments():
    assert case(1, height=2) == Case((1,), {"height": 2})
    check = checked(public=[case(2, h=3)], reference=lambda w, h: w * h).prepare("area", "s")
    assert verdict_on(lambda w, h: w * h, check)
    assert verdict_on(lambda w, h: 0, check).reason.call == "area(2, h=3)"


def written(body):
    namespace = {}
    exec(f"def area(w, h):\n    {body}", namespace)
    return namespace["area"]


@pytest.mark.parametrize(
    "body",
    [
        "...",
        "pass",
        "'Area.'",
        "'Area.'\n    ...",
        "raise NotImplementedError",
        "return ...",
        "return",
    ],
)
def test_a_body_in_which_nothing_was_written_is_not_attempted(body):
    verdict = verdict_on(written(body))
    assert verdict.status is Status.NOT_ATTEMPTED
    assert "Replace the `...`" in verdict.message


@pytest.mark.parametrize(
    "body", ["w * h", "size = w * h", "if w > 10**9: return 1", "for _ in []: pass", "len([w, h])"]
)
def test_a_body_that_returns_nothing_is_told_to_return(body):
    verdict = verdict_on(written(body))
    assert verdict.status is Status.BAD_VALUE
    assert verdict.misconception == "returns nothing"
    assert "Is a `return` missing?" in verdict.message
    assert "..." not in verdict.message


@pytest.mark.parametrize("weights", [[0.5, 0.3, 0.1, 0.1], [0.1] * 10, [0.7, 0.1, 0.1, 0.1]])
def test_a_score_has_no_trace_of_binary_sums(weights):
    names = [f"part {i}" for i in range(len(weights))]
    cases = [each for i, name in enumerate(names) for each in part(name, [case(i, 1)])]
    check = Check(
        reference=lambda w, h: w + h,
        public=cases,
        hidden=lambda _draw: [],
        parts=dict(zip(names, weights, strict=True)),
    ).prepare("sum", "seed")
    verdict = verdict_on(lambda w, h: w + h if w < len(names) - 1 else -1, check)
    assert repr(verdict.score) in ("0.9", "0.95")
