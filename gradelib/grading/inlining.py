"""Fill an answer's stub in with its reference, so that one copy of each solution exists.

The reference's body, and every helper and constant of its module that it uses, go inside the
function between nbgrader's solution marks. Clearing the marks gives the stub back, letter for letter.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import symtable
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gradelib.grading.errors import CourseError
from gradelib.grading.source import placeholders

BEGIN = "### BEGIN SOLUTION"
END = "### END SOLUTION"
STUB = "..."


def fill(stub: str, task: str, reference: Callable[..., Any]) -> str:
    """The stub with each `...` body replaced by the reference's, between solution marks.

    Functions and methods of the stub other than the task itself are looked up by name beside the
    reference. Raises CourseError where the reference cannot stand in the stub's place.
    """
    target = inspect.unwrap(reference)
    if not isinstance(target, type) and not inspect.isfunction(target):
        raise CourseError(
            f"task {task!r}: the reference must be a function or class of a module, got {reference!r}"
        )
    module = _module(target.__module__)
    lines = stub.split("\n")
    for name, node in reversed(list(placeholders(ast.parse(stub)))):
        own_name = re.sub(rf"^{re.escape(task)}\b", target.__qualname__, name)
        region = _region(task, node, module, own_name)
        hole = node.body[-1]
        if lines[hole.lineno - 1].strip() != STUB:
            raise CourseError(f"task {task!r}: the stub's `...` must stand on a line of its own")
        lines[hole.lineno - 1 : hole.end_lineno] = textwrap.indent(
            "\n".join([BEGIN, *region, END]), " " * hole.col_offset
        ).split("\n")
    return "\n".join(line.rstrip() for line in lines)


def _region(task: str, stub: ast.FunctionDef, module: _Module, name: str) -> list[str]:
    node = module.find(task, name)
    if _parameters(node) != _parameters(stub):
        raise CourseError(
            f"task {task!r}: the stub takes ({_parameters(stub)}), the reference in {module.name} ({_parameters(node)})"
        )
    gathered = _Gathered(task)
    gathered.add_names_of(node, module, {name.split(".")[0]})
    local = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
    local |= {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    if clashing := local & set(gathered.origins):
        # The helpers need a scope of their own: a local of the answer has the same name.
        if "." in name or node.args.posonlyargs or node.args.vararg or node.args.kwarg:
            raise CourseError(f"task {task!r}: rename {sorted(clashing)} in {module.name}")
        inner = [*gathered.lines(), "", *module.text(node).split("\n"), "", f"return {node.name}"]
        call = ", ".join(argument.arg for argument in node.args.args)
        named = ", ".join(f"{each.arg}={each.arg}" for each in node.args.kwonlyargs)
        arguments = ", ".join(filter(None, [call, named]))
        body = ["def solution():", *_indented(inner), "", f"return solution()({arguments})"]
    else:
        helpers = gathered.lines()
        body = [*helpers, *([""] if helpers else []), *module.body(node).split("\n")]
    if any("BEGIN SOLUTION" in line or "END SOLUTION" in line for line in body):
        raise CourseError(f"task {task!r}: the reference's text holds a solution mark itself")
    return body


def _indented(lines: list[str]) -> list[str]:
    return textwrap.indent("\n".join(lines), "    ").split("\n")


def _parameters(node: ast.FunctionDef) -> str:
    """The parameters without their annotations."""
    arguments = ast.parse(f"def f({ast.unparse(node.args)}): ...").body[0]
    assert isinstance(arguments, ast.FunctionDef)
    for each in ast.walk(arguments.args):
        if isinstance(each, ast.arg):
            each.annotation = None
    return ast.unparse(arguments.args)


@dataclass
class _Gathered:
    """Statements that a reference needs from its own and other modules of its package, in an order
    in which each finds what it uses."""

    task: str
    imports: dict[str, None] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        result = sorted(self.imports)
        for statement in self.statements:
            if result and "\n" in statement:
                result.append("")
            result += statement.split("\n")
        return result

    def add_names_of(self, node: ast.stmt, module: _Module, own: set[str]) -> None:
        for name in module.names_used(node):
            if name not in own and name in module.bindings:
                self.add(name, module)

    def add(self, name: str, module: _Module) -> None:
        statement = module.bindings[name]
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            self._add_import(name, statement, module)
            return
        if not self._first(name, f"{module.name}.{name}"):
            return
        self.add_names_of(statement, module, {name})
        text = module.text(statement)
        if text not in self.statements:  # one statement may bind several names
            self.statements.append(text)

    def _first(self, name: str, origin: str) -> bool:
        """Whether the name is new; two things of one name cannot stand in one function."""
        known = self.origins.get(name)
        if known is not None and known != origin:
            raise CourseError(
                f"task {self.task!r}: the reference uses both {known} and {origin}; give one another name"
            )
        self.origins[name] = origin
        return known is None

    def _add_import(
        self, name: str, statement: ast.Import | ast.ImportFrom, module: _Module
    ) -> None:
        alias = next(
            each for each in statement.names if (each.asname or each.name.split(".")[0]) == name
        )
        inside = (isinstance(statement, ast.ImportFrom) and statement.module) or ""
        package = module.name.split(".")[0]
        if isinstance(statement, ast.ImportFrom) and statement.level:
            raise CourseError(f"task {self.task!r}: {module.name} imports {name} relatively")
        if (inside or alias.name).split(".")[0] != package:
            text = f"import {alias.name}" if not inside else f"from {inside} import {alias.name}"
            text += f" as {alias.asname}" if alias.asname else ""
            if self._first(name, text):
                self.imports[text] = None
            return
        other = _module(inside) if inside else None
        if other is None or alias.name not in other.bindings:
            raise CourseError(
                f"task {self.task!r}: {module.name} imports the module {alias.name}; import the names it uses"
            )
        self.add(alias.name, other)
        if alias.asname and alias.asname != alias.name and self._first(alias.asname, other.name):
            self.statements.append(f"{alias.asname} = {alias.name}")


class _Module:
    """A module's source: what its top level binds, and which of those names a statement uses."""

    def __init__(self, name: str) -> None:
        self.name = name
        file = importlib.import_module(name).__file__
        assert file is not None
        source = Path(file).read_text(encoding="utf-8")
        self.lines = source.split("\n")
        self.bindings: dict[str, ast.stmt] = {}
        for statement in _top_level(ast.parse(source).body):
            for bound in _bound(statement):
                self.bindings[bound] = statement

    def find(self, task: str, qualified: str) -> ast.FunctionDef:
        """The function, or the method of a class, of this name."""
        outer, _, inner = qualified.partition(".")
        node: ast.stmt | None = self.bindings.get(outer)
        if inner and isinstance(node, ast.ClassDef):
            node = next(
                (
                    each
                    for each in node.body
                    if isinstance(each, ast.FunctionDef) and each.name == inner
                ),
                None,
            )
        if not isinstance(node, ast.FunctionDef):
            raise CourseError(f"task {task!r}: {self.name} has no function {qualified}")
        return node

    def names_used(self, node: ast.stmt) -> list[str]:
        """Names of this module that the statement reads, in the order in which they stand in it."""
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
        free = _free_names(node)
        order = {
            each.id: None
            for each in ast.walk(node)
            if isinstance(each, ast.Name) and each.id in free
        }
        return list(order)

    def text(self, node: ast.stmt) -> str:
        """The statement's own text, with the comment lines just above it."""
        decorated = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(each.lineno for each in decorated)]) - 1
        while first > 0 and self.lines[first - 1].lstrip().startswith("#"):
            first -= 1
        return self._dedented(first, node.end_lineno or node.lineno, [node])

    def body(self, node: ast.FunctionDef) -> str:
        """The function's body without its docstring."""
        statements = node.body[1:] if ast.get_docstring(node) is not None else node.body
        if not statements:
            raise CourseError(f"{self.name}.{node.name} has an empty body")
        if statements[0].lineno == node.lineno:
            return ast.unparse(ast.Module(statements, []))
        first = statements[0].lineno - 1
        decorated = getattr(statements[0], "decorator_list", [])
        first = min([first, *(each.lineno - 1 for each in decorated)])
        while self.lines[first - 1].lstrip().startswith("#"):
            first -= 1
        return self._dedented(first, node.end_lineno or node.lineno, statements)

    def _dedented(self, first: int, end: int, nodes: list[Any]) -> str:
        text = textwrap.dedent("\n".join(self.lines[first:end]))
        meant = ast.Module(nodes, [])
        if ast.dump(ast.parse(text)) != ast.dump(meant):
            # A text over several lines would change its value with the indentation.
            return ast.unparse(meant)
        return text


@cache
def _module(name: str) -> _Module:
    return _Module(name)


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, (ast.If, ast.Try)):
            yield from _top_level(statement.body)
        else:
            yield statement


def _bound(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.split(".")[0] for alias in statement.names]
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return [
        each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
    ]


def _free_names(node: ast.FunctionDef | ast.ClassDef) -> set[str]:
    """Names that a definition reads from outside itself, its annotations, defaults and decorators
    included."""
    table = symtable.symtable(ast.unparse(node), node.name, "exec")
    free = {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    tables = list(table.get_children())
    while tables:
        inner = tables.pop()
        free |= {s.get_name() for s in inner.get_symbols() if s.is_global() and s.is_referenced()}
        tables += inner.get_children()
    return free
