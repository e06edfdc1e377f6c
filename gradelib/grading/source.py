"""Read an exercise as its author writes it: a MyST text notebook whose cells carry tags.

Everything malformed is reported at once, each problem with its file and line. What the cells become
in a course is decided in `release`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from gradelib.cells import parse_cell
from gradelib.grading.errors import CourseError, Problem, SourceError

REQUIREMENTS = ("pure", "torch")
# Tags of JupyterLab and Jupyter Book that change how a cell looks, and nothing else.
LOOKS = frozenset({"hide-cell", "hide-input", "hide-output", "raises-exception"})


class Role(StrEnum):
    """What a cell of an exercise is for."""

    PROSE = "prose"
    EXAMPLE = "example"
    SETUP = "setup"
    HELPERS = "helpers"
    ANSWER = "answer"
    CHECK = "check"
    WRITTEN = "written"
    RUBRIC = "rubric"


@dataclass(frozen=True)
class SourceCell:
    """One cell, with the line of the file where it begins. `task` and `points` are set for the roles
    that have them, `rubric` for a written answer: how to mark it, for instructors alone."""

    role: Role
    text: str
    line: int
    task: str = ""
    points: float = 0.0
    looks: tuple[str, ...] = ()
    rubric: str = ""


@dataclass(frozen=True)
class Exercise:
    """An exercise's source, checked: each task has an answer and a check after it."""

    name: str
    path: Path
    title: str
    minutes: int
    chapter: str
    requires: str
    cells: tuple[SourceCell, ...]

    @property
    def points(self) -> dict[str, float]:
        """Points of each judged task, in order."""
        return {cell.task: cell.points for cell in self.cells if cell.role is Role.CHECK}

    @property
    def written_points(self) -> dict[str, float]:
        """Points of each written answer, in order; a person gives them."""
        return {cell.task: cell.points for cell in self.cells if cell.role is Role.WRITTEN}

    @property
    def setup(self) -> tuple[str, ...]:
        """The setup cells' texts."""
        return tuple(cell.text for cell in self.cells if cell.role is Role.SETUP)

    @property
    def attachments(self) -> list[Path]:
        """Files beside the source that go out with the notebook."""
        return sorted(
            path
            for path in self.path.parent.rglob("*")
            if path.is_file()
            and path != self.path
            and not any(part.startswith((".", "__")) for part in path.parts)
        )


def find_exercises(folder: Path) -> dict[str, Path]:
    """The exercises under a folder: `<name>/<name>.md`, by name. Raises CourseError when there are
    none."""
    found = {
        path.parent.name: path
        for path in sorted(folder.glob("*/*.md"))
        if path.stem == path.parent.name
    }
    if not found:
        raise CourseError(f"{folder} holds no exercise: none of its folders NAME has a NAME.md")
    return found


def read_exercise(path: Path) -> Exercise:
    """Read and check one exercise. Raises SourceError with every problem found."""
    # Not before: a class is graded without them.
    import yaml
    from jupytext.myst import MystMetadataParsingError, myst_to_notebook
    from nbformat import ValidationError

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise SourceError([Problem(path, line, "is not UTF-8 text")]) from error
    try:
        notebook = myst_to_notebook(text, add_source_map=True)
    except (MystMetadataParsingError, yaml.YAMLError) as error:
        raise SourceError([Problem(path, _line_in(str(error)), _one_line(error))]) from error
    except ValidationError as error:
        # nbformat does not say which cell it was; the option that is no list shows.
        found = re.search(r"^:?tags:(?! *\[)", text, re.M)
        line = text[: found.start()].count("\n") + 1 if found else 1
        raise SourceError(
            [Problem(path, line, f"a cell's tags or metadata: {error.message}")]
        ) from error
    return _Reader(path, text, notebook).exercise()


def _line_in(message: str) -> int:
    found = re.search(r"at line (\d+)|line (\d+)", message)
    return int(found.group(1) or found.group(2)) if found else 1


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


class _Reader:
    """Turns a parsed notebook into an Exercise and gathers what is wrong on the way."""

    def __init__(self, path: Path, text: str, notebook: Any) -> None:
        self.path = path
        self.text = text
        self.notebook = notebook
        self.problems: list[Problem] = []

    def wrong(self, line: int, message: str) -> None:
        self.problems.append(Problem(self.path, line, message))

    def exercise(self) -> Exercise:
        cells = tuple(self._cells())
        if self.path.stem != self.path.parent.name:
            self.wrong(1, f"the file's name must be its folder's: {self.path.parent.name}.md")
        self._check_tasks(cells)
        self._check_frame(cells)
        about = self._front_matter()
        if self.problems:
            raise SourceError(sorted(self.problems, key=lambda problem: problem.line))
        return Exercise(name=self.path.stem, path=self.path, cells=cells, **about)

    # -- front matter

    def _front_matter(self) -> dict[str, Any]:
        metadata = self.notebook.metadata
        if not self.text.startswith("---"):
            self.wrong(1, "has no front matter: begin the file with a block between two `---`")
            return {}
        if metadata.get("kernelspec", {}).get("name") != "python3":
            self.wrong(1, "front matter: kernelspec.name must be python3")
        about = metadata.get("exercise")
        if not isinstance(about, Mapping):
            self.wrong(
                1, "front matter: `exercise:` with title, minutes, chapter and requires is missing"
            )
            return {}
        line = next(
            (i for i, row in enumerate(self.text.split("\n"), 1) if row.startswith("exercise:")), 1
        )
        wanted = {"title", "minutes", "chapter", "requires"}
        if set(about) != wanted:
            self.wrong(
                line,
                f"exercise: needs exactly the keys {sorted(wanted)}, got {sorted(map(str, about))}",
            )
            return {}
        for key in ("title", "chapter"):
            if not isinstance(about[key], str) or not about[key].strip():
                self.wrong(line, f"exercise.{key} must be text, got {about[key]!r}")
        minutes = about["minutes"]
        if isinstance(minutes, bool) or not isinstance(minutes, int) or minutes <= 0:
            self.wrong(line, f"exercise.minutes must be a whole number above 0, got {minutes!r}")
        if about["requires"] not in REQUIREMENTS:
            self.wrong(
                line,
                f"exercise.requires must be one of {', '.join(REQUIREMENTS)}, got {about['requires']!r}",
            )
        return dict(about)

    # -- cells

    def _cells(self) -> list[SourceCell]:
        lines = self.notebook.metadata.get("source_map", [])
        found: list[SourceCell] = []
        for cell, start in zip(self.notebook.cells, lines, strict=True):
            prose = cell.cell_type == "markdown"
            # jupytext counts a code cell's opening fence from 1 and a text's first line from 0.
            read = self._cell(cell, start + 1 if prose else start, prose)
            if read.role is Role.RUBRIC:
                self._add_rubric(found, read)
            else:
                found.append(read)
        return found

    def _add_rubric(self, found: list[SourceCell], rubric: SourceCell) -> None:
        """Keep a rubric with the written answer that it stands after: it is never a cell of its
        own, so nothing can release it."""
        before = found[-1] if found else None
        if before is None or (before.role, before.task) != (Role.WRITTEN, rubric.task):
            self.wrong(
                rubric.line,
                f"a rubric stands right after the written cell of its task {rubric.task!r}",
            )
        elif before.rubric:
            self.wrong(rubric.line, f"task {rubric.task!r} has a second rubric")
        elif not rubric.text.strip():
            self.wrong(rubric.line, "the rubric is empty")
        elif re.search(r"(BEGIN|END) SOLUTION", rubric.text):
            self.wrong(rubric.line, "a rubric's text holds no solution mark")
        else:
            found[-1] = replace(before, rubric=rubric.text.strip())

    def _cell(self, cell: Any, line: int, prose: bool) -> SourceCell:
        tags = cell.metadata.get("tags", [])
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            self.wrong(line, f"tags must be a list of words, got {tags!r}")
            tags = []
        roles = [tag for tag in tags if tag in set(Role)]
        looks = tuple(tag for tag in tags if tag in LOOKS)
        values = dict(tag.split(":", 1) for tag in tags if re.match(r"(task|points):", tag))
        for tag in tags:
            if tag not in roles and tag not in looks and not re.match(r"(task|points):", tag):
                self.wrong(line, f"unknown tag {tag!r}; known: {_known_tags()}")
        if len(roles) > 1:
            self.wrong(line, f"a cell has one role, got {' and '.join(roles)}")
        role = Role(roles[0]) if roles else (Role.PROSE if prose else Role.EXAMPLE)
        if prose != (role in (Role.PROSE, Role.WRITTEN)):
            self.wrong(line, f"{role} does not go with a {'text' if prose else 'code'} cell")
        if prose and (found := re.search(r"^(`{3,}|:{3,}) *\{code", cell.source, re.M)):
            inside = line + cell.source[: found.start()].count("\n")
            self.wrong(inside, "this code cell is not read as one: write ```{code-cell}")
        task = self._task(role, values, line)
        points = self._points(role, values, line)
        if cell.cell_type == "raw":
            self.wrong(line, "raw cells are not used in exercises")
        return SourceCell(role, cell.source, line, task, points, looks)

    def _task(self, role: Role, values: Mapping[str, str], line: int) -> str:
        task = values.get("task", "")
        needed = role in (Role.ANSWER, Role.CHECK, Role.WRITTEN, Role.RUBRIC)
        if needed and not task:
            self.wrong(line, f"{role} cell without a task: add the tag task:NAME")
        elif task and not needed:
            self.wrong(line, f"a {role} cell has no task, got task:{task}")
        elif task and not task.isidentifier():
            self.wrong(line, f"a task is named as a function is, got {task!r}")
        elif task in set(Role):
            self.wrong(line, f"{task!r} is the name of a role, so no task can have it")
        return task

    def _points(self, role: Role, values: Mapping[str, str], line: int) -> float:
        given = values.get("points")
        needed = role in (Role.CHECK, Role.WRITTEN)
        if given is None:
            if needed:
                self.wrong(line, f"{role} cell without points: add the tag points:NUMBER")
            return 0.0
        if not needed:
            self.wrong(line, f"points belong to the check cell, not to a {role} cell")
        try:
            points = float(given)
        except ValueError:
            points = 0.0
        if not 0 < points < 1000:
            self.wrong(line, f"points must be a number above 0 and below 1000, got {given!r}")
        return points

    # -- what belongs together

    def _check_tasks(self, cells: tuple[SourceCell, ...]) -> None:
        answers: dict[str, list[SourceCell]] = {}
        checks: dict[str, SourceCell] = {}
        written: dict[str, SourceCell] = {}
        for cell in cells:
            if cell.role is Role.ANSWER:
                if cell.task in checks:
                    self.wrong(
                        cell.line,
                        f"an answer cell of task {cell.task!r} stands after its check (line {checks[cell.task].line})",
                    )
                answers.setdefault(cell.task, []).append(cell)
            for role, seen in ((Role.CHECK, checks), (Role.WRITTEN, written)):
                if cell.role is role:
                    if cell.task in seen:
                        self.wrong(
                            cell.line,
                            f"task {cell.task!r} has a second {role} cell; the first is at line {seen[cell.task].line}",
                        )
                    seen.setdefault(cell.task, cell)
        for task, cell in checks.items():
            if task and task not in answers:
                self.wrong(cell.line, f"check of task {task!r} without an answer cell before it")
            if cell.text.strip() != f'check("{task}", {task})':
                self.wrong(
                    cell.line,
                    f'a check cell holds check("{task}", {task}) alone, got {_head(cell.text)}',
                )
        for task, parts in answers.items():
            if task and task not in checks:
                self.wrong(parts[0].line, f"answer of task {task!r} without a check cell after it")
            if task in written:
                self.wrong(parts[0].line, f"task {task!r} is both an answer and a written answer")
            self._check_stub(task, parts)

    def _check_stub(self, task: str, parts: list[SourceCell]) -> None:
        defined: set[str] = set()
        for part in parts:
            try:
                tree = ast.parse(part.text)
            except SyntaxError as error:
                self.wrong(part.line, f"the answer's stub is not Python: {error.msg}")
                return
            stubs = list(placeholders(tree))
            if not stubs:
                self.wrong(
                    part.line,
                    f"no function of this answer cell has `...` as its body (task {task!r})",
                )
            defined |= {
                node.name
                for node in tree.body
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            }
        if task and task not in defined:
            self.wrong(parts[0].line, f"the answer cell defines no function or class {task!r}")

    def _check_frame(self, cells: tuple[SourceCell, ...]) -> None:
        for cell in cells:
            if cell.role in (Role.EXAMPLE, Role.SETUP, Role.HELPERS):
                try:
                    parse_cell(cell.text)
                except SyntaxError as error:
                    self.wrong(cell.line, f"this {cell.role} cell is not Python: {error.msg}")
        setup = "\n".join(cell.text for cell in cells if cell.role is Role.SETUP)
        if not re.search(rf'^check = checks_for\("{re.escape(self.path.stem)}"\)$', setup, re.M):
            self.wrong(1, f'no setup cell holds the line check = checks_for("{self.path.stem}")')
        helpers = [cell for cell in cells if cell.role is Role.HELPERS]
        if len(helpers) != 1:
            where = helpers[1].line if helpers else 1
            self.wrong(where, f"an exercise has one helpers cell, got {len(helpers)}")
        if not any(cell.role in (Role.CHECK, Role.WRITTEN) for cell in cells):
            self.wrong(1, "an exercise has at least one task")


def placeholders(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions and methods of a stub that a learner fills in, by qualified name."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and is_placeholder(node):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and is_placeholder(inner):
                    yield f"{node.name}.{inner.name}", inner


def is_placeholder(function: ast.FunctionDef) -> bool:
    """Whether a function's body is `...` alone, after its docstring."""
    last = function.body[-1]
    others = function.body[:-1]
    return (
        isinstance(last, ast.Expr)
        and isinstance(last.value, ast.Constant)
        and last.value.value is Ellipsis
        and len(others) == (ast.get_docstring(function) is not None)
    )


def _head(text: str) -> str:
    first = text.strip().split("\n")[0]
    return repr(first if len(first) <= 60 else f"{first[:60]}…")


def _known_tags() -> str:
    roles = [str(role) for role in Role if role not in (Role.PROSE, Role.EXAMPLE)]
    return ", ".join([*roles, "task:NAME", "points:NUMBER", *sorted(LOOKS)])
