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
from gradelib.outcomes import FINAL, Kind, Outcome

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
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content.data)
    loaded = Loaded()
    waiting = list(range(len(request["steps"])))
    while waiting:
        for position in waiting:
            step = request["steps"][position]
            end.send({"id": request["id"], "step": position})
            loaded.run(position, request["cells"][step["cell"]], step["space"], step["below"])
            if os.getpid() != process:
                os._exit(0)  # a copy that the code forked: it has no one to answer to
        waiting = loaded.to_run_again()
    failures = {task: loaded.failure(task) for task in loaded.tasks}
    data = {task: failure and failure.to_data() for task, failure in failures.items()}
    end.send({"id": request["id"], "loaded": data})
    while (request := end.receive()) is not None:
        for position, inputs in enumerate(request["calls"]):
            outcome = loaded.call(request["task"], inputs, request["driver"])
            if os.getpid() != process:
                os._exit(0)
            _reply(end, {"id": request["id"], "call": position}, outcome)
            if outcome.kind in FINAL:
                break


def _reply(end: ChildEnd, about: dict[str, Any], outcome: Outcome) -> None:
    try:
        end.send({**about, "outcome": outcome.to_data()})
    except plain.WireError as error:
        lost = Outcome(Kind.BAD_VALUE, detail=str(error))
        end.send({**about, "outcome": lost.to_data()})


class _Space:
    """One namespace in which cells are run, and what went wrong on the way."""

    def __init__(self) -> None:
        # A real `__main__`, as in a notebook: dataclasses and pickles look their module up there.
        self.module = types.ModuleType("__main__")
        self.names = self.module.__dict__
        # What a notebook offers without an import.
        self.names.update(display=print, get_ipython=lambda: None)
        self.tasks: dict[str, object] = {}
        self.errors: dict[str, list[Outcome]] = {}
        self.unimported: dict[str, Outcome] = {}
        self.flags = 0

    def enter(self) -> None:
        """Make this the namespace that `__main__` is."""
        sys.modules["__main__"] = self.module


class Loaded:
    """The names that learner code defines, and what went wrong on the way.

    Each cell is run in a space: one that all share, or a task's own. `unfinished` holds, by step,
    the statements that read a name which was not there yet.
    """

    def __init__(self) -> None:
        builtins.input = _no_input
        site.setquit()  # `exit`, which Python started with -S lacks
        self.spaces: dict[str, _Space] = {}
        self.unfinished: dict[int, list[ast.stmt]] = {}
        self._left: int | None = None

    @property
    def tasks(self) -> list[str]:
        """The tasks whose cells were run."""
        return [task for space in self.spaces.values() for task in space.tasks]

    def run(self, position: int, cell: Mapping[str, Any], space_name: str, below: bool) -> None:
        """Execute one cell, statement by statement; an error ends its statement alone. Of a cell
        below the task, only the names that are new are kept. The second time, what was left
        unfinished is executed."""
        space = self.spaces.setdefault(space_name, _Space())
        errors: list[Outcome] = []
        statements = self.unfinished.pop(position, None)
        if statements is None:
            statements = _statements(_label(cell), cell["parts"], errors)
        elif cell["kind"] == ANSWER:
            before = space.errors.get(cell["name"], [])
            errors = [each for each in before if "NameError" not in each.errors]
        self._execute(position, cell, space_name, statements, errors, below)

    def to_run_again(self) -> list[int]:
        """The steps with something unfinished; none when running them again changed nothing."""
        left = sum(map(len, self.unfinished.values()))
        progress = self._left is None or left < self._left
        self._left = left
        return sorted(self.unfinished) if progress else []

    def _execute(
        self,
        position: int,
        cell: Mapping[str, Any],
        space_name: str,
        statements: Sequence[ast.stmt],
        errors: list[Outcome],
        below: bool,
    ) -> None:
        space = self.spaces[space_name]
        space.enter()
        before = dict(space.names) if below else {}
        head = outcomes.Head()
        with contextlib.redirect_stdout(head), contextlib.redirect_stderr(head):
            for statement in statements:
                try:
                    space.flags |= _future(statement)
                    module = ast.Module(body=[statement], type_ignores=[])
                    code = compile(
                        module, _label(cell), "exec", flags=space.flags, dont_inherit=True
                    )
                    exec(code, space.names)
                except BaseException as error:  # noqa: BLE001 - whatever learner code raises is a result
                    errors.append(outcomes.of_error(error))
                    if isinstance(statement, (ast.Import, ast.ImportFrom)):
                        names = [
                            each.asname or each.name.partition(".")[0] for each in statement.names
                        ]
                        space.unimported |= dict.fromkeys(names, errors[-1])
                    if errors[-1].kind is Kind.CRASHED:
                        break  # the code asked Python to stop
                    if "NameError" in errors[-1].errors:
                        self.unfinished.setdefault(position, []).append(statement)
        space.names.update(before)
        # Of another task's cell in a task's own space nothing is asked.
        if cell["kind"] == ANSWER and space_name in ("", cell["name"]):
            space.errors[cell["name"]] = errors
            if space.tasks.get(cell["name"], self) is self:
                space.tasks[cell["name"]] = space.names.get(cell["name"], self)

    def _space(self, task: str) -> _Space:
        return self.spaces[task] if task in self.spaces else self.spaces[""]

    def failure(self, task: str) -> Outcome | None:
        """Why a task cannot be called; None when it can. A value: nothing was written."""
        error = self._error(task)
        if error is not None and error.kind is Kind.CRASHED:
            return error
        answer = self._answer(task)
        if answer is self:
            return error or Outcome(Kind.VALUE)
        return outcomes.unusable(answer)

    def _error(self, task: str) -> Outcome | None:
        errors = self._space(task).errors.get(task)
        return errors[-1] if errors else None

    def _answer(self, task: str) -> object:
        # The value right after the task's own cell, as the notebook's check sees it; else a later
        # one, from a cell that the learner moved.
        space = self._space(task)
        answer = space.tasks[task]
        return space.names.get(task, self) if answer is self else answer

    def call(self, task: str, inputs: Mapping[str, Any], driver: str | None) -> Outcome:
        """Call an answer as the judge asks."""
        self._space(task).enter()
        answer: Callable[..., Any] = self._answer(task)  # type: ignore[assignment]
        try:
            outcome = outcomes.call(answer, inputs["args"], inputs["kwargs"], driver)
        except BaseException as error:  # noqa: BLE001 - even a KeyboardInterrupt is the learner's own
            outcome = outcomes.of_error(error)
        if "NameError" not in outcome.errors:
            return outcome
        name = re.match(r"name '(\w+)' is not defined", outcome.detail)
        if name and (failed := self._space(task).unimported.get(name[1])) is not None:
            return replace(failed, printed=outcome.printed)  # where it went wrong first
        before = self._error(task)
        if before is not None:
            why = f" (before that, the cell raised {before.errors[0]}: {before.detail})"
            outcome = replace(outcome, detail=outcome.detail + why)
        return outcome


def _label(cell: Mapping[str, Any]) -> str:
    return f"<{cell['kind']} {cell['name']}>"


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
