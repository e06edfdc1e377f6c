"""Words for verdicts: the sentence a learner reads, as text and as HTML.

All text that came from a learner's code is cut short here and escaped in HTML. Nothing here decides
anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from gradelib.plain import Array
from gradelib.shapes import Shape

if TYPE_CHECKING:
    from gradelib.verdicts import Verdict

VALUE_LIMIT = 160
# An argument is shown longer than a result: who sees it cut cannot try the call.
ARGUMENT_LIMIT = 600
# Whole floats between these are written without ".0".
SMALL, EXACT = 1e5, 1e16

# What a verdict says first, by the reason's `what`. {call}, {got}, {expected}, {where}, {part} are
# filled in.
_SENTENCES = {
    "placeholder": "Replace the `...` with your answer.",
    "missing": "No cell defines `{task}`. Keep the name that the task gives.",
    "state": "The same call gave two different results. An answer may depend on its arguments alone, "
    "not on what was called before.",
    "value": "{call} gave {got}; it should give {expected}.",
    "type": "{call} returned {got}{where}; it should return {expected}.",
    "printed": "{call} printed its result and returned None. Use `return`, so that other code can use the value.",
    "not finite": "{call} gave {got}{where}; the right answer is a finite number.",
    "length": "{call} gave the wrong number of items{where}: {got}, where {expected} are due.",
    "keys": "{call} gave the keys {got}{where}; it should have {expected}.",
    "no error": "{call} returned {got}; this input makes no sense, so it should raise {expected}.",
    "raised": "{call} raised {got}.",
    "mutated": "{call} changed its own input. Work on a copy.",
    "rule": "{call} gave {got}.",
    "flawed": "{call} gave {got}: {expected}.",
    "bad value": "{call} returned {got}, which is not a plain number, text, list or dictionary.",
    "timed out": "{call} did not finish in time.",
    "out of memory": "{call} used more memory than an answer may.",
    "crashed": "{call} ended Python itself ({got}).",
    "hidden value": "The visible cases are right, but a hidden one{part} gets a wrong value.",
    "hidden flawed": "The visible cases are right, but a hidden one{part} gets a wrong value.",
    "hidden type": "The visible cases are right, but a hidden one{part} gets a value of the wrong type.",
    "hidden printed": "A hidden case{part} printed its result and returned None.",
    "hidden not finite": "The visible cases are right, but a hidden one{part} gives infinity or NaN where a number is due.",
    "hidden length": "The visible cases are right, but a hidden one{part} gets the wrong number of items.",
    "hidden keys": "The visible cases are right, but a hidden one{part} gets the wrong keys.",
    "hidden no error": "The visible cases are right, but a hidden input{part} that makes no sense is accepted: raise an error.",
    "hidden raised": "The visible cases are right, but a hidden one{part} raised {got}.",
    "hidden mutated": "A hidden case{part} had its input changed. Work on a copy.",
    "hidden bad value": "A hidden case{part} returned something that is not plain data.",
    "hidden timed out": "The visible cases are right, but a hidden one{part} did not finish in time.",
    "hidden out of memory": "The visible cases are right, but a hidden one{part} used more memory than an answer may.",
    "hidden crashed": "The visible cases are right, but a hidden one{part} ended Python itself.",
    "load raised": "The answer's cell could not be run: {got}.",
    "load timed out": "The answer's cell did not finish in time. Only definitions belong in it.",
    "load out of memory": "The answer's cell used more memory than an answer may.",
    "load crashed": "The answer's cell ended Python itself ({got}).",
    "load bad value": "`{task}` is {got}.",
    "ungradable": "This answer could not be graded: {got}.",
}

# Sentences of the wrong shapes that any task can meet, by misconception id.
_GENERAL = {
    "recursion without end": "The function calls itself without ever reaching an end. Which input should stop it?",
    "imports a package that is not there": "Only the standard library, and what the exercise itself imports, is sure to "
    "be there.",
    "reads a name that is not there": "Is it spelt as where you defined it? When graded, only imports, functions, classes and constants of your notebook exist, "
    "not values that other cells computed. Define what you need in the answer, or in the helpers cell.",
    "returns nothing": "Is a `return` missing?",
    "returns an exception": "`return` hands an exception over like any other value. Use `raise`.",
    "returns text": "Return the number alone, without its unit.",
    "returns a tuple": "Return one number, not several.",
    "hard-codes the example": "Your answer is the same whatever the arguments are. It should compute from them.",
    "ignores its arguments": "Your answer is the same whatever the arguments are. Which of them should it depend on?",
    "not a number": "NaN comes from 0/0, ∞ − ∞ or a calculation with another NaN. Which step makes it?",
    "infinity": "Which step overflows, or divides by zero?",
}


def sentence(verdict: Verdict) -> str:
    """The whole message of a verdict, as plain text."""
    return " ".join(_paragraphs(verdict))


def html(verdict: Verdict) -> str:
    """The same as a small HTML block: status in words and a mark, never in colour alone."""
    mark = "✓" if verdict else "○" if str(verdict.status) == "not attempted" else "✗"
    lines = "".join(f"<div>{_marked_up(line)}</div>" for line in _paragraphs(verdict)[1:])
    head = escape(_paragraphs(verdict)[0])
    return (
        '<div role="status" style="border-left:4px solid currentColor;padding:.3em .8em;margin:.3em 0">'
        f"<strong>{mark} {head}</strong>{lines}</div>"
    )


def _marked_up(line: str) -> str:
    """A line as HTML: escaped, with code in backquotes set as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(line))


def _paragraphs(verdict: Verdict) -> list[str]:
    reason = verdict.reason
    lines = [f"{verdict.task}: {verdict.status}."]
    if verdict and reason.what == "rules met":
        lines.append("It meets every rule that is checked here.")
    elif verdict:
        lines.append(_passed(verdict))
        if not verdict.hidden:
            lines.append("Grading adds hidden cases with other inputs.")
    else:
        lines.append(_first_sentence(verdict))
        if reason.what == "raised" and reason.expected:
            verb = "raise" if reason.expected.endswith(("Error", "Exception")) else "give"
            lines.append(f"It should {verb} {reason.expected}.")
        if hint := reason.hint or _GENERAL.get(verdict.misconception or "", ""):
            lines.append(hint)
        if 0 < verdict.score < 1:
            lines.append(f"Part of the task is right: {verdict.score:.0%} of its points.")
    lines += [f"Note: {warning}" for warning in verdict.warnings]
    return lines


def _passed(verdict: Verdict) -> str:
    if verdict.total == 1:
        return "The one case passed."
    if verdict.hidden:
        return f"All {verdict.total} cases passed, hidden ones too."
    return f"All {verdict.total} visible cases passed."


def _first_sentence(verdict: Verdict) -> str:
    reason = verdict.reason
    return _SENTENCES[reason.what].format(
        task=verdict.task,
        call=f"`{reason.call}`" if reason.call else f"`{verdict.task}`",
        got=_ended(reason.got) or "nothing",
        expected=reason.expected,
        where=f" at {reason.where}" if reason.where else "",
        part=f" (part “{reason.part}”)" if reason.part else "",
    )


def _ended(text: str) -> str:
    """A learner's or Python's own text, ready to stand before a full stop."""
    return text.rstrip(" .")


def value_text(value: Any, limit: int = VALUE_LIMIT) -> str:
    """A plain value as Python would write it, cut to a readable length."""
    text = _written(value)
    return text if len(text) <= limit else f"{text[:limit]} …"


def _written(value: Any) -> str:
    if isinstance(value, Shape):
        return value.code()
    if isinstance(value, Array):
        if math.prod(value.shape) > VALUE_LIMIT:
            return f"an array of shape {value.shape}"
        return _written(value.tolist())
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        return (
            f"{{{', '.join(f'{_written(key)}: {_written(item)}' for key, item in value.items())}}}"
        )
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_written, value)))}}}" if value else "set()"
    if isinstance(value, float) and value.is_integer() and SMALL < abs(value) < EXACT:
        return f"{value:.0f}"  # a number of bytes, say, that was divided by 8
    try:
        return repr(value)
    except ValueError:  # a whole number of thousands of digits
        return f"a whole number of {value.bit_length()} bits"


def call_text(task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A call as Python would write it: `weight_bytes(4000, 'int8')`."""
    parts = [_argument(arg) for arg in args]
    parts += [f"{name}={_argument(arg)}" for name, arg in kwargs.items()]
    return f"{task}({', '.join(parts)})"


def _argument(value: Any) -> str:
    if isinstance(value, Shape):
        return value.code()
    label = getattr(value, "label", None)
    return label if isinstance(label, str) and label else value_text(value, ARGUMENT_LIMIT)
