"""The answer process: it loads learner code cell by cell and calls answers as the judge asks.

Everything here shares its memory with learner code, so nothing here is trusted and nothing here
knows what a right answer is.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import contextlib
import linecache
import os
import re
import site
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from gradelib import outcomes, plain
from gradelib.cells import UNREADABLE, parse_cell
from gradelib.grading.sandbox.wire import ChildEnd
from gradelib.outcomes import Kind, Outcome

ANSWER = "answer"


def serve(end: ChildEnd) -> None:
    """Load the work that the judge sends, then answer calls until it hangs up."""
    process = os.getpid()
    end.send({"ready": True})
    request = end.receive()
    if request is None:
        return
    for driver in request["drivers"]:
        outcomes.load_driver(driver)
    for name, content in request["files"].items():
        Path(name).write_bytes(content.data)
    loaded = Loaded()
    for position, cell in enumerate(request["cells"]):
        end.send({"id": request["id"], "cell": position})
        loaded.run(cell["kind"], cell["name"], cell["parts"])
        if os.getpid() != process:
            os._exit(0)  # a copy that the code forked: it has no one to answer to
    failures = {task: loaded.failure(task) for task in loaded.tasks}
    data = {task: failure and failure.to_data() for task, failure in failures.items()}
    _reply(end, request["id"], "loaded", data)
    while (request := end.receive()) is not None:
        outcome = loaded.call(request)
        if os.getpid() != process:
            os._exit(0)
        _reply(end, request["id"], "outcome", outcome.to_data())


def _reply(end: ChildEnd, request_id: str, name: str, data: Any) -> None:
    try:
        end.send({"id": request_id, name: data})
    except plain.WireError as error:
        lost = Outcome(Kind.BAD_VALUE, detail=str(error))
        end.send({"id": request_id, "outcome": lost.to_data()})


class Loaded:
    """The names that learner code defines, and what went wrong on the way."""

    def __init__(self) -> None:
        # A real `__main__`, as in a notebook: dataclasses and pickles look their module up there.
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        self.names = module.__dict__
        # What a notebook offers without an import.
        self.names.update(display=print, get_ipython=lambda: None)
        builtins.input = _no_input
        site.setquit()  # `exit`, which Python started with -S lacks
        self.tasks: dict[str, object] = {}
        self.errors: dict[str, Outcome] = {}
        self.unimported: dict[str, Outcome] = {}
        self._flags = 0

    def run(self, kind: str, name: str, parts: Sequence[str]) -> None:
        """Execute one cell, statement by statement; an error ends its statement alone."""
        head = outcomes.Head()
        with contextlib.redirect_stdout(head), contextlib.redirect_stderr(head):
            errors = self._execute(f"<{kind} {name}>", parts)
        if kind != ANSWER:
            return
        if errors:
            self.errors[name] = errors[-1]
        self.tasks[name] = self.names.get(name, self)

    def _execute(self, label: str, parts: Sequence[str]) -> list[Outcome]:
        errors: list[Outcome] = []
        for statement in _statements(label, parts, errors):
            try:
                self._flags |= _future(statement)
                module = ast.Module(body=[statement], type_ignores=[])
                code = compile(module, label, "exec", flags=self._flags, dont_inherit=True)
                exec(code, self.names)
            except BaseException as error:  # noqa: BLE001 - whatever learner code raises is a result
                errors.append(outcomes.of_error(error))
                if isinstance(statement, (ast.Import, ast.ImportFrom)):
                    names = [each.asname or each.name.partition(".")[0] for each in statement.names]
                    self.unimported |= dict.fromkeys(names, errors[-1])
                if errors[-1].kind is Kind.CRASHED:
                    break  # the code asked Python to stop
        return errors

    def failure(self, task: str) -> Outcome | None:
        """Why a task cannot be called; None when it can. A value: nothing was written."""
        error = self.errors.get(task)
        if error is not None and error.kind is Kind.CRASHED:
            return error
        answer = self._answer(task)
        if answer is self:
            return error or Outcome(Kind.VALUE)
        return outcomes.unusable(answer)

    def _answer(self, task: str) -> object:
        # The value right after the task's own cell, as the notebook's check sees it; else a later
        # one, from a cell that the learner moved.
        answer = self.tasks[task]
        return self.names.get(task, self) if answer is self else answer

    def call(self, request: Mapping[str, Any]) -> Outcome:
        """Call an answer as the judge asks."""
        task = request["task"]
        answer: Callable[..., Any] = self._answer(task)  # type: ignore[assignment]
        try:
            outcome = outcomes.call(answer, request["args"], request["kwargs"], request["driver"])
        except BaseException as error:  # noqa: BLE001 - even a KeyboardInterrupt is the learner's own
            outcome = outcomes.of_error(error)
        if "NameError" not in outcome.errors:
            return outcome
        name = re.match(r"name '(\w+)' is not defined", outcome.detail)
        if name and (failed := self.unimported.get(name[1])) is not None:
            return replace(failed, printed=outcome.printed)  # where it went wrong first
        before = self.errors.get(task)
        if before is not None:
            why = f" (before that, the cell raised {before.errors[0]}: {before.detail})"
            outcome = replace(outcome, detail=outcome.detail + why)
        return outcome


def _statements(label: str, parts: Sequence[str], errors: list[Outcome]) -> list[ast.stmt]:
    """The statements of a cell: of all its parts joined, else of those parts that parse alone."""
    whole = "\n\n".join(parts)
    linecache.cache[label] = (len(whole), None, whole.splitlines(keepends=True), label)
    try:
        return parse_cell(whole).body
    except UNREADABLE as error:
        errors.append(outcomes.raised(error))
    body: list[ast.stmt] = []
    for part in parts:
        with contextlib.suppress(*UNREADABLE):
            body += parse_cell(part).body
    return body


def _future(statement: ast.stmt) -> int:
    """The compiler's flags that `from __future__ import …` asks for."""
    if not isinstance(statement, ast.ImportFrom) or statement.module != "__future__":
        return 0
    flags = 0
    for alias in statement.names:
        feature = getattr(__future__, alias.name, None)
        flags |= feature.compiler_flag if feature is not None else 0
    return flags


def _no_input(_prompt: object = "") -> NoReturn:
    raise EOFError("input() has nobody to ask when this is graded: take the value as an argument")
