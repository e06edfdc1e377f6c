"""What of a notebook cell counts as a definition: imports, functions, classes and constants.

Grading takes these, and nothing that runs, from cells that a learner added. The notebook's `check`
uses the same reading to warn about a name that would be missing when graded.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Iterable, Sequence
from functools import lru_cache

# Cell magics that run the rest of the cell as Python, in the notebook's own namespace.
_PYTHON_MAGICS = re.compile(r"\s*%%(?:time|capture|prun)\b")
_TARGETS = re.compile(r"[\w, ]+")
# What a cell pasted from a session begins its lines with: first line, every line.
_PROMPTS = (
    (re.compile(r">>>( |$)"), re.compile(r"(>>>|\.\.\.)( |$)")),
    (re.compile(r"In \[\d+\]: "), re.compile(r"(In \[\d+\]: |\s*\.{3,}: ?)")),
)
# A grader reads cells in its own process: what takes it long, or its parser down, has no meaning.
MAX_CELL_CHARACTERS = 100_000
_SHORT_CHARACTERS = 8_000
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
_NEVER_CONSTANT = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_INNER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BUILTINS = frozenset(dir(builtins))
# What makes a value of its arguments and does nothing else.
_PURE = frozenset((
    "abs", "bool", "bytes", "complex", "dict", "divmod", "enumerate", "float", "frozenset", "int",
    "len", "list", "max", "min", "pow", "range", "reversed", "round", "set", "slice", "sorted",
    "str", "sum", "tuple", "zip", "Decimal", "Fraction", "MappingProxyType", "NewType", "ParamSpec",
    "TypeVar", "namedtuple",
))  # fmt: skip


# -- a cell as Python


def python_text(source: str) -> str:
    """A cell as plain Python, line for line, as Jupyter would read it: without the indent that all of
    it has, prompts of a pasted session and lines of magic (`%`, `!`, `?`). Raises one of
    `UNREADABLE`, as a compiler does."""
    return _read(source)[0]


def parse_cell(source: str) -> ast.Module:
    """The syntax tree of `python_text`; raises what it raises. It is not to be changed."""
    return _read(source)[1]


def _read(source: str) -> tuple[str, ast.Module]:
    return _read_short(source) if len(source) <= _SHORT_CHARACTERS else _read_long(source)


# A reader asks several things of a cell, one after the other, and a class has many cells in common. A
# tree may take hundreds of bytes for each character: few long ones are kept.
@lru_cache(maxsize=64)
def _read_short(source: str) -> tuple[str, ast.Module]:
    return _parsed(source)


@lru_cache(maxsize=4)
def _read_long(source: str) -> tuple[str, ast.Module]:
    return _parsed(source)


def _parsed(source: str) -> tuple[str, ast.Module]:
    if len(source) > MAX_CELL_CHARACTERS:
        raise ValueError(f"a cell of {len(source)} characters (at most {MAX_CELL_CHARACTERS})")
    try:
        return source, ast.parse(source)
    except SyntaxError:
        text = _transformed(source)
        return text, ast.parse(text)


def parses(source: str) -> bool:
    """Whether a cell is Python, as Jupyter would read it."""
    try:
        python_text(source)
    except UNREADABLE:
        return False
    return True


def _transformed(source: str) -> str:
    lines = source.split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    indent = _indent(lines[first])
    if indent:
        lines = [line.removeprefix(indent) for line in lines]
    for begin, every in _PROMPTS:
        if begin.match(lines[first]) or any(map(every.match, lines[first + 1 : first + 2])):
            lines = [every.sub("", line, count=1) for line in lines]
    if lines[first].startswith("%%"):
        if not _PYTHON_MAGICS.match(lines[first]):
            return ""  # another language, or only measured
        lines[first] = ""
    plain = []
    continued = False
    for line in lines:
        magic = continued or _is_magic(line)
        plain.append("" if continued else f"{_indent(line)}pass" if magic else line)
        continued = magic and line.endswith("\\")
    return "\n".join(plain)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _is_magic(line: str) -> bool:
    text = line.strip()
    if text.startswith(("%", "!", "?")):
        return True
    if text.endswith("?") and not any(mark in text for mark in "#'\""):
        return True
    targets, equals, value = text.partition("=")
    is_assigned = equals and value.lstrip().startswith(("%", "!"))
    return bool(is_assigned and _TARGETS.fullmatch(targets))


# -- what it defines


def definitions(source: str) -> list[ast.stmt]:
    """The imports, functions, classes and constants of a cell, in order. A cell that does not parse
    has none."""
    try:
        body = parse_cell(source).body
    except UNREADABLE:
        return []
    return [statement for statement in body if _defines(statement)]


def definition_texts(source: str) -> list[tuple[str, frozenset[str]]]:
    """The text of each definition of a cell, and the names that it binds."""
    try:
        text, tree = _read(source)
    except UNREADABLE:
        return []
    lines = text.encode().split(b"\n")
    kept = []
    for statement in tree.body:
        if _defines(statement):
            kept.append((_text_of(statement, lines), frozenset(_bound([statement]))))
    return kept


def _text_of(statement: ast.stmt, lines: list[bytes]) -> str:
    decorators = getattr(statement, "decorator_list", [])
    begin = min([statement.lineno, *(each.lineno for each in decorators)])
    column = statement.col_offset if begin == statement.lineno else 0
    assert statement.end_lineno is not None
    part = lines[begin - 1 : statement.end_lineno]
    # The end first: both may lie on one line.
    part[-1] = part[-1][: statement.end_col_offset]
    part[0] = part[0][column:]
    return b"\n".join(part).decode()


def _defines(statement: ast.stmt) -> bool:
    # By a list and not by calls: a program may nest deeper than Python's own stack.
    waiting: list[ast.AST] = [statement]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (ast.Import, ast.ImportFrom, *_FUNCTIONS)):
            continue
        if isinstance(each, ast.Pass) and each is not statement:
            continue
        if isinstance(each, ast.Assign):
            if not (_are_names(each.targets) and _is_constant(each.value)):
                return False
        elif isinstance(each, ast.AnnAssign):
            if each.value is None or not (_are_names([each.target]) and _is_constant(each.value)):
                return False
        # `try: import x / except ImportError: x = None` and `if TYPE_CHECKING:` are imports too.
        elif isinstance(each, ast.Try):
            waiting += [inner for handler in each.handlers for inner in handler.body]
            waiting += each.body + each.orelse + each.finalbody
        elif isinstance(each, ast.If) and _is_constant(each.test):
            waiting += each.body + each.orelse
        else:
            return False
    return True


def _are_names(targets: Sequence[ast.expr]) -> bool:
    waiting = list(targets)
    while waiting:
        each = waiting.pop()
        if isinstance(each, (ast.Tuple, ast.List)):
            waiting += each.elts
        elif not isinstance(each, ast.Name):
            return False
    return True


def _is_constant(value: ast.expr) -> bool:
    """Whether evaluating the expression calls nothing but what makes a value. What a lambda would
    call, it calls later."""
    waiting: list[ast.AST] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, _NEVER_CONSTANT) or (
            isinstance(each, ast.Call) and not _is_pure(each.func)
        ):
            return False
        if not isinstance(each, ast.Lambda):
            waiting += ast.iter_child_nodes(each)
    return True


def _is_pure(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        # "q k v".split(), math.sqrt(2), collections.namedtuple(...)
        owner = function.value
        is_math = isinstance(owner, ast.Name) and owner.id == "math"
        return isinstance(owner, ast.Constant) or is_math or function.attr in _PURE - _BUILTINS
    return isinstance(function, ast.Name) and function.id in _PURE


def defined_names(sources: Iterable[str]) -> set[str]:
    """The names that the definitions of these cells bind at top level."""
    return _bound(statement for source in sources for statement in definitions(source))


def bound_names(source: str) -> set[str]:
    """Every name that a cell binds at top level, by a definition or by code that runs."""
    try:
        return _bound(parse_cell(source).body)
    except UNREADABLE:
        return set()


def _bound(statements: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    waiting = list(statements)
    while waiting:
        each = waiting.pop()
        if isinstance(each, _FUNCTIONS):
            names.add(each.name)
            continue
        if isinstance(each, _INNER):
            continue
        if isinstance(each, ast.alias) and each.name != "*":
            names.add(each.asname or each.name.partition(".")[0])
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            names.add(each.id)
        elif isinstance(each, (ast.MatchAs, ast.MatchStar)) and each.name:
            names.add(each.name)
        elif isinstance(each, ast.MatchMapping) and each.rest:
            names.add(each.rest)
        waiting += ast.iter_child_nodes(each)
    return names


def star_imports(sources: Iterable[str]) -> set[str]:
    """The modules from which these cells' definitions import every name."""
    return {
        each.module
        for source in sources
        for each in definitions(source)
        if isinstance(each, ast.ImportFrom) and each.module and each.names[0].name == "*"
    }


# -- what it needs


def reached(source: str, others: Iterable[str]) -> list[str]:
    """A cell's code, and the text of each definition of other cells that it uses, itself or by way of
    another."""
    defining = [each for other in others for each in definition_texts(other)]
    found: list[str] = []
    waiting = [source]
    while waiting:
        text = waiting.pop()
        found.append(text)
        needed = set(missing_names(text, ()))
        waiting += [other for other, names in defining if names & needed]
        defining = [(other, names) for other, names in defining if not names & needed]
    return found


def packages_used(source: str, others: Iterable[str]) -> set[str]:
    """The packages that a cell's code imports, itself or by way of what other cells define."""
    return {name for text in reached(source, others) for name in imported_packages(text)}


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
        table = symtable.symtable(python_text(source), "<cell>", "exec")
    except UNREADABLE:
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
