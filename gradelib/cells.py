"""What of a notebook cell counts as a definition: imports, functions, classes and constants.

Grading takes these, and nothing that runs, from cells that a learner added. The notebook's `check`
uses the same reading to warn about a name that would be missing when graded.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Iterable

_MAGIC = re.compile(r"^\s*(?:[%!]|\?)|^[^#'\"]*\?\s*$|^\s*[\w, ]+=\s*[%!]")
# Cell magics that run the rest of the cell as Python, in the notebook's own namespace.
_PYTHON_MAGICS = re.compile(r"\s*%%(?:time|capture|prun)\b")
# A grader reads cells in its own process: what takes it long, or its parser down, has no meaning.
MAX_CELL_CHARACTERS = 100_000
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
_CALLS = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def parse_cell(source: str) -> ast.Module:
    """The syntax tree of a cell; lines of IPython magic (`%`, `!`, `?`) are blanked. Raises one of
    `UNREADABLE`, as a compiler does."""
    if len(source) > MAX_CELL_CHARACTERS:
        raise ValueError(f"a cell of {len(source)} characters (at most {MAX_CELL_CHARACTERS})")
    try:
        return ast.parse(source)
    except SyntaxError:
        lines = source.split("\n")
        if lines[0].lstrip().startswith("%%"):
            if not _PYTHON_MAGICS.match(lines[0]):
                return ast.Module(body=[], type_ignores=[])  # another language, or only measured
            lines[0] = ""
        indents = (line[: len(line) - len(line.lstrip())] for line in lines)
        plain = [
            f"{indent}pass" if _MAGIC.match(line) else line
            for line, indent in zip(lines, indents, strict=True)
        ]
        return ast.parse("\n".join(plain))


def definitions(source: str) -> list[ast.stmt]:
    """The imports, functions, classes and constants of a cell, in order. A cell that does not parse
    has none."""
    try:
        body = parse_cell(source).body
    except UNREADABLE:
        return []
    return [statement for statement in body if _defines(statement)]


def _defines(statement: ast.stmt) -> bool:
    if isinstance(
        statement,
        (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    ):
        return True
    if isinstance(statement, ast.Assign):
        return all(map(_is_name, statement.targets)) and _is_constant(statement.value)
    if isinstance(statement, ast.AnnAssign):
        return (
            _is_name(statement.target)
            and statement.value is not None
            and _is_constant(statement.value)
        )
    # `try: import x / except ImportError: x = None` and `if TYPE_CHECKING:` are imports too.
    if isinstance(statement, ast.Try):
        handlers = [inner for handler in statement.handlers for inner in handler.body]
        inner = statement.body + handlers + statement.orelse + statement.finalbody
        return all(_defines(each) or isinstance(each, ast.Pass) for each in inner)
    if isinstance(statement, ast.If):
        return _is_constant(statement.test) and all(
            _defines(each) or isinstance(each, ast.Pass)
            for each in statement.body + statement.orelse
        )
    return False


def _is_name(target: ast.expr) -> bool:
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(map(_is_name, target.elts))
    return isinstance(target, ast.Name)


def _is_constant(value: ast.expr) -> bool:
    """Whether evaluating the expression calls nothing. What a lambda would call, it calls later."""
    if isinstance(value, ast.Lambda):
        return True
    if isinstance(value, _CALLS + _COMPREHENSIONS):
        return False
    return all(
        _is_constant(child) for child in ast.iter_child_nodes(value) if isinstance(child, ast.expr)
    )


def defined_names(sources: Iterable[str]) -> set[str]:
    """The names that the definitions of these cells bind at top level."""
    names: set[str] = set()
    for source in sources:
        statements = definitions(source)
        if statements and (table := _symbols(ast.Module(body=statements, type_ignores=[]))):
            names |= {
                symbol.get_name()
                for symbol in table.get_symbols()
                if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
            }
    return names


def packages_used(source: str, others: Iterable[str]) -> set[str]:
    """The packages that a cell's code imports, itself or by way of what other cells define."""
    statements = [ast.unparse(each) for other in others for each in definitions(other)]
    defining = [(text, defined_names([text])) for text in statements]
    packages: set[str] = set()
    waiting = [source]
    while waiting:
        text = waiting.pop()
        packages |= imported_packages(text)
        needed = set(missing_names(text, ()))
        waiting += [other for other, names in defining if names & needed]
        defining = [(other, names) for other, names in defining if not names & needed]
    return packages


def imported_packages(source: str) -> set[str]:
    """The packages that a cell's code imports, anywhere in it; without the modules inside them."""
    try:
        tree = parse_cell(source)
    except UNREADABLE:
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def missing_names(source: str, known: Iterable[str]) -> list[str]:
    """Global names that a cell's code reads, now or when its functions are called, and that neither
    the cell nor `known` defines."""
    try:
        table = _symbols(parse_cell(source))
    except UNREADABLE:
        return []
    if table is None:
        return []
    own = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }
    there = own | set(known) | set(dir(builtins))
    # At top level: what decorators, default values and annotations read when the cell is run.
    wanted = {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    tables = list(table.get_children())
    while tables:
        inner = tables.pop()
        shared = [symbol for symbol in inner.get_symbols() if symbol.is_global()]
        wanted |= {symbol.get_name() for symbol in shared if symbol.is_referenced()}
        there |= {symbol.get_name() for symbol in shared if symbol.is_assigned()}
        tables += inner.get_children()
    return sorted(wanted - there)


def _symbols(tree: ast.Module) -> symtable.SymbolTable | None:
    """The names of a tree, or None where the compiler does not accept it."""
    try:
        return symtable.symtable(ast.unparse(tree), "<cell>", "exec")
    except UNREADABLE:
        return None
