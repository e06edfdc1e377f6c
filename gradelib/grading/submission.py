"""Read any file that a learner hands in: repair what can be repaired, find the answers, and set them
into a fresh copy of the release.

Nothing here runs or trusts what the file says: of its cells only the text counts. What cannot be read
at all raises UnreadableError, whose message is the reason.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from gradelib import cells
from gradelib.grading.layout import CHECK_PREFIX, HELPERS_TAG, METADATA_KEY, Layout, text_of
from gradelib.grading.work import Work

FILE_LIMIT_BYTES = 256 * 2**20
TEXT_LIMIT = 500_000
# An honest notebook has some hundred cells. What is beyond is not read: parsing it would take long.
MAX_CELLS = 5_000
MAX_CODE_CHARACTERS = 300_000
CUT = "the file is damaged or cut off"
# Tags and metadata with which a submission tries to steer whoever runs it.
_STEERING_TAGS = frozenset({"skip-execution", "raises-exception", "nbval-skip"})


class UnreadableError(Exception):
    """No cell of the file can be read; the message says why."""


class NoteKind(StrEnum):
    """Why a submission is worth a look."""

    REPAIRED = "repaired"
    SUSPICIOUS = "suspicious"


@dataclass(frozen=True)
class Note:
    """Something about a submission that a person may want to know."""

    kind: NoteKind
    text: str
    task: str = ""


@dataclass(frozen=True)
class RawCell:
    """What is read of one cell."""

    code: bool
    source: str
    grade_id: str = ""
    cell_id: str = ""
    steering: str = ""


# -- bytes to cells


def read_cells(data: bytes) -> tuple[list[RawCell], list[Note]]:
    """The cells of a notebook file, and what had to be repaired. Raises UnreadableError."""
    notes: list[Note] = []

    def repaired(text: str) -> None:
        notes.append(Note(NoteKind.REPAIRED, text))

    if len(data) > FILE_LIMIT_BYTES:
        raise UnreadableError(
            f"the file has {len(data) >> 20} MiB, more than {FILE_LIMIT_BYTES >> 20}"
        )
    if not data.strip(b" \t\r\n\0"):
        raise UnreadableError("the file is empty")
    text = _decoded(data, repaired)
    raw = _raw_cells(text, repaired)
    found = [_cell(each) for each in raw[:MAX_CELLS] if isinstance(each, dict)]
    if len(raw) > MAX_CELLS:
        repaired(f"the file has {len(raw)} cells; the first {MAX_CELLS} were read")
    return _within_limit(found, repaired), notes


def _within_limit(found: list[RawCell], repaired: Callable[[str], None]) -> list[RawCell]:
    """The cells up to where their code is too much to parse."""
    characters = 0
    for i, each in enumerate(found):
        characters += len(each.source) if each.code else 0
        if characters > MAX_CODE_CHARACTERS:
            repaired(
                f"the file has more than {MAX_CODE_CHARACTERS} characters of code; {i} cells were read"
            )
            return found[:i]
    return found


def _decoded(data: bytes, repaired: Any) -> str:
    for mark, encoding in (
        (b"\xef\xbb\xbf", "utf-8-sig"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if data.startswith(mark):
            repaired("the file begins with a byte-order mark")
            return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        repaired("the file is not UTF-8 text; some characters may be wrong")
        return data.decode("latin-1")


def _raw_cells(text: str, repaired: Any) -> list[Any]:
    try:
        notebook = json.loads(text)
    except RecursionError as error:
        raise UnreadableError("the file is nested too deeply to be a notebook") from error
    except ValueError as error:
        return _salvaged(text, error, repaired)
    if not isinstance(notebook, dict):
        raise UnreadableError("the file holds JSON, but not a notebook")
    found = notebook.get("cells")
    if found is None and isinstance(notebook.get("worksheets"), list):
        repaired("the file is in an old notebook format")
        sheets = [sheet for sheet in notebook["worksheets"] if isinstance(sheet, dict)]
        found = [cell for sheet in sheets for cell in sheet.get("cells") or []]
    if not isinstance(found, list):
        raise UnreadableError("the file holds JSON, but not a notebook: it has no cells")
    return found


def _salvaged(text: str, error: ValueError, repaired: Any) -> list[Any]:
    """The whole cells at the beginning of a file that is not JSON as a whole."""
    start = text.lstrip()[:200].lower()
    if start.startswith(("<!doctype", "<html", "<?xml", "<head")):
        raise UnreadableError(
            "the file is a web page, not a notebook: download the notebook itself"
        )
    if found := re.search(r"^(<{7}|={7}|>{7})( |$)", text, re.M):
        line = text[: found.start()].count("\n") + 1
        raise UnreadableError(
            f"the file holds an unresolved merge conflict (line {line}): settle it and hand in again"
        )
    begin = re.search(r'"cells"\s*:\s*\[', text)
    decoder = json.JSONDecoder()
    whole: list[Any] = []
    position = begin.end() if begin else len(text)
    while len(whole) <= MAX_CELLS:
        position += len(re.match(r"[\s,]*", text[position : position + 10_000]).group())  # type: ignore[union-attr]
        try:
            cell, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        whole.append(cell)
    if not whole:
        raise UnreadableError(f"the file is not a notebook: {error}")
    repaired(f"{CUT}; its first {len(whole)} cells could be read")
    return whole


def _cell(raw: dict[str, Any]) -> RawCell:
    metadata = raw.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    about = metadata.get("nbgrader")
    about = about if isinstance(about, dict) else {}
    tags = metadata.get("tags")
    tags = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    source = text_of(raw.get("source", raw.get("input", "")))
    grade_id, cell_id = about.get("grade_id"), raw.get("id")
    return RawCell(
        raw.get("cell_type") == "code",
        source
        if len(source) <= TEXT_LIMIT
        else f"{source[:TEXT_LIMIT]}\n# cut: the cell is too long",
        grade_id if isinstance(grade_id, str) else "",
        cell_id if isinstance(cell_id, str) else "",
        ", ".join(sorted(_STEERING_TAGS.intersection(tags))),
    )


def exercise_of(data: bytes) -> str:
    """The exercise that a notebook file says it is from; empty when it does not say."""
    try:
        metadata = json.loads(data.decode("utf-8-sig"))["metadata"][METADATA_KEY]
        name = metadata["exercise"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return name if isinstance(name, str) else ""


# -- cells to answers


@dataclass(frozen=True)
class Submission:
    """A submission, read: the code to run, the fresh notebook with the learner's texts set in, and
    notes."""

    work: Work
    notebook: dict[str, Any]
    notes: tuple[Note, ...] = ()

    def notes_of(self, task: str) -> tuple[str, ...]:
        """What a learner should know about how an answer was found."""
        return tuple(note.text for note in self.notes if note.task == task)


def read_submission(data: bytes, layout: Layout) -> Submission:
    """Find the answers of a notebook file. Raises UnreadableError."""
    raw, notes = read_cells(data)
    return _Finder(layout, raw, notes).submission()


def empty_submission(layout: Layout) -> Submission:
    """What stands for a file that cannot be read: the release, untouched."""
    return _Finder(layout, [], []).submission()


# Cells after an answer's own that may go on with it.
MAX_PIECES = 8


class _Finder:
    def __init__(self, layout: Layout, raw: Sequence[RawCell], notes: list[Note]) -> None:
        self.layout = layout
        self.raw = raw
        self.notes = notes
        self.cut = any(note.text.startswith(CUT) for note in notes)
        self.released = {key: cell for cell in layout.notebook["cells"] if (key := _key_of(cell))}
        self.part_ids = {part for ids in layout.parts.values() for part in ids}
        # Position in the file → id of the released cell that it is.
        self.keys = {i: key for i, cell in enumerate(raw) if (key := self._key(cell))}
        self.taken: set[int] = set()  # cells that became part of an answer
        self.places: dict[
            str, int
        ] = {}  # task → position in the file of the last cell of its answer
        # Each text is parsed once.
        self.bound: Callable[[str], frozenset[str]] = cache(_bound)
        self.parses: Callable[[str], bool] = cache(cells.parses)
        self.definitions: Callable[[str], list[tuple[str, frozenset[str]]]] = cache(
            cells.definition_texts
        )

    def _key(self, cell: RawCell) -> str:
        for name in (cell.grade_id, cell.cell_id):
            if name in self.released:
                return name
        return ""

    def note(self, kind: NoteKind, text: str, task: str = "") -> None:
        self.notes.append(Note(kind, text, task))

    def submission(self) -> Submission:
        texts: dict[str, str] = {}
        answers: dict[str, tuple[str, ...]] = {}
        for task, ids in self.layout.parts.items():
            found = self._answer(task, ids)
            texts |= found
            answers[task] = tuple(_runnable(text) for text in found.values() if text.strip())
            if self.cut and not answers[task]:
                self.note(NoteKind.REPAIRED, "The file was cut off before this task.", task)
        for name in self.layout.written:
            texts[name] = self._written(name)
        self._note_steering()
        helpers = dict(self._helpers())
        places: dict[int, int | str] = {place: i for i, place in enumerate(helpers)}
        places |= {place: task for task, place in self.places.items() if answers[task]}
        order = tuple(places[place] for place in sorted(places))
        texts_run = [*self.layout.setup, *helpers.values(), *map("\n\n".join, answers.values())]
        work = Work(
            self.layout.setup,
            tuple(helpers.values()),
            answers,
            self.layout.files,
            order=order,
            apart=_collide(texts_run),
        )
        return Submission(work, self._notebook(texts), tuple(self.notes))

    # -- one answer

    def _answer(self, task: str, ids: Sequence[str]) -> dict[str, str]:
        """Text of each of the task's parts, by id."""
        found = {part: self._part(task, part) for part in ids}
        if any(task in self.bound(text) for text in found.values()) and not all(
            self._untouched(part, text) for part, text in found.items()
        ):
            return found
        elsewhere = [
            i
            for i, cell in enumerate(self.raw)
            if i not in self.taken
            and cell.code
            and task in self.bound(cell.source)
            and self.keys.get(i) not in self.part_ids
        ]
        # A function rather than a value that happens to have its name.
        elsewhere = [
            i for i in elsewhere if _defines_function(task, self.raw[i].source)
        ] or elsewhere
        if elsewhere:
            self.taken.add(elsewhere[-1])
            self.places[task] = elsewhere[-1]
            self.note(
                NoteKind.REPAIRED,
                f"`{task}` was found in a cell of your own, not in the answer cell.",
                task,
            )
            return {**dict.fromkeys(ids, ""), ids[0]: self.raw[elsewhere[-1]].source}
        return found

    def _part(self, task: str, part: str) -> str:
        """Text of one answer cell: pieces of a split cell joined; of copies, the last that defines."""
        group = [i for i in range(len(self.raw)) if self.keys.get(i) == part]
        wanted = self.layout.names[part]
        defining = [i for i in group if wanted & self.bound(self.raw[i].source)]
        if len(defining) > 1:
            self.note(
                NoteKind.REPAIRED,
                f"More than one cell holds an answer to `{task}`; the last one was graded.",
                task,
            )
        pieces = [i for i in group if i not in defining[:-1]]
        self.taken.update(group)
        if group and not any(self.raw[i].code for i in pieces):
            self.note(NoteKind.REPAIRED, f"The answer cell of `{task}` was not a code cell.", task)
        pieces += self._continuation(pieces)
        if pieces:
            self.places[task] = max(pieces[-1], self.places.get(task, 0))
        sources = [self.raw[i].source for i in pieces]
        if len(sources) > 1:
            self.note(
                NoteKind.REPAIRED,
                f"The answer cell of `{task}` was split; its parts were joined.",
                task,
            )
        return _joined(sources)

    def _continuation(self, pieces: Sequence[int]) -> list[int]:
        """The cells after an answer that go on with it: one alone is no Python, and together they
        are."""
        if not pieces:
            return []
        text = _joined([self.raw[i].source for i in pieces])
        complete = _is_python(text)
        longest: list[int] = []
        for after in range(pieces[-1] + 1, min(pieces[-1] + 1 + MAX_PIECES, len(self.raw))):
            cell = self.raw[after]
            if after in self.keys or not cell.code or _is_python(cell.source):
                break
            text = f"{text}\n{cell.source}"
            # What is indented as a whole may also be a cell of its own; what returns may not.
            if _is_python(text) and not (
                complete and self.parses(cell.source) and not _returns(cell.source)
            ):
                longest = list(range(pieces[-1] + 1, after + 1))
        self.taken.update(longest)
        return longest

    def _untouched(self, part: str, text: str) -> bool:
        return text.strip() == str(self.released[part]["source"]).strip()

    def _written(self, name: str) -> str:
        stub = self.released[name]["source"]
        texts = [cell.source for i, cell in enumerate(self.raw) if self.keys.get(i) == name]
        answered = [text for text in texts if text.strip() and text.strip() != stub.strip()]
        if len(answered) > 1:
            self.note(
                NoteKind.REPAIRED, f"`{name}` was answered in more than one cell; all were kept."
            )
        return "\n\n".join(answered) if answered else stub

    # -- what else counts

    def _helpers(self) -> Iterator[tuple[int, str]]:
        """What other cells give to the answers, by the cell's position: the helpers cell whole, of a
        learner's own cells the definitions."""
        tasks = set(self.layout.parts)
        for i, cell in enumerate(self.raw):
            if i in self.taken or not cell.code or self._is_released(i) or not cell.source.strip():
                continue
            if self._is_helpers(i):
                yield i, _runnable(cell.source)
                continue
            definitions = self.definitions(cell.source)
            if not definitions and (why := _too_much(cell.source)):
                self.note(NoteKind.REPAIRED, f"Nothing of cell {i + 1} was used: it is {why}.")
            texts = []
            for text, names in definitions:
                # An answer is what its own cell says, not what a trial elsewhere does.
                for task in sorted(names & tasks):
                    if i > self.places.get(task, i):
                        self.note(
                            NoteKind.REPAIRED,
                            f"`{task}` is defined again in a later cell of your own; the answer cell was graded.",
                            task,
                        )
                if not names & tasks:
                    texts.append(text)
            if texts:
                yield i, "\n".join(texts)

    def _is_helpers(self, i: int) -> bool:
        tags = self.released[self.keys[i]]["metadata"].get("tags", []) if i in self.keys else []
        return HELPERS_TAG in tags

    def _is_released(self, i: int) -> bool:
        key = self.keys.get(i)
        if key is None or key in self.part_ids:
            return False
        about = self.released[key]["metadata"].get("nbgrader", {})
        same = self.raw[i].source.strip() == self.released[key]["source"].strip()
        return same and bool(about.get("locked") or about.get("grade"))

    def _note_steering(self) -> None:
        for i, cell in enumerate(self.raw):
            key = self.keys.get(i, "")
            if cell.steering and key:
                self.note(NoteKind.SUSPICIOUS, f"cell {key} carries the tag {cell.steering}")
            if (
                key.startswith(CHECK_PREFIX)
                and cell.source.strip() != self.released[key]["source"].strip()
            ):
                self.note(NoteKind.SUSPICIOUS, f"check cell {key} was edited")
        present = set(self.keys.values())
        for task in self.layout.points:
            if self.raw and CHECK_PREFIX + task not in present:
                self.note(NoteKind.REPAIRED, f"check cell of {task} was missing and restored")

    # -- the notebook that stays

    def _notebook(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """The release with the learner's texts; a learner's own cells stand where they stood."""
        own: dict[str, list[dict[str, Any]]] = {}
        last = ""
        for i, cell in enumerate(self.raw):
            if i in self.keys:
                last = self.keys[i]
            elif i not in self.taken and cell.source.strip() and not self._same_as_released(cell):
                own.setdefault(last, []).append(_fresh(cell, f"own-{i}"))
        edited = {
            self.keys[i]: cell.source
            for i, cell in enumerate(self.raw)
            if i in self.keys and cell.code and self._editable(self.keys[i])
        }
        made = list(own.get("", []))
        for released in self.layout.notebook["cells"]:
            key = _key_of(released)
            cell = json.loads(json.dumps(released))
            cell["source"] = texts.get(key, edited.get(key, released["source"]))
            if cell["cell_type"] == "code":
                cell |= {"outputs": [], "execution_count": None}
            made += [cell, *own.get(key, [])]
        return {**self.layout.notebook, "cells": made}

    def _editable(self, key: str) -> bool:
        cell = self.released[key]
        return cell["cell_type"] == "code" and "nbgrader" not in cell["metadata"]

    def _same_as_released(self, cell: RawCell) -> bool:
        """Whether a cell without an id is one of the release's own."""
        return any(
            cell.source.strip() == each["source"].strip() for each in self.layout.notebook["cells"]
        )


def _key_of(cell: Mapping[str, Any]) -> str:
    """What a released cell is known by: its nbgrader id, else its cell id."""
    about = cell["metadata"].get("nbgrader", {})
    key = about.get("grade_id") or cell.get("id", "")
    return str(key)


def _fresh(cell: RawCell, name: str) -> dict[str, Any]:
    made: dict[str, Any] = {"id": name, "metadata": {}, "source": cell.source}
    if cell.code:
        return {**made, "cell_type": "code", "outputs": [], "execution_count": None}
    return {**made, "cell_type": "markdown"}


def _bound(source: str) -> frozenset[str]:
    """Functions, classes and names that a cell makes, even when it is not quite Python."""
    names = cells.bound_names(source)
    if not names and not cells.parses(source):
        names = set(re.findall(r"^(?:async\s+def|def|class)\s+(\w+)", source, re.M))
    return frozenset(names)


def _defines_function(name: str, source: str) -> bool:
    return name in cells.defined_names([source])


def _is_python(source: str) -> bool:
    """Whether a text is Python as it stands."""
    try:
        return cells.python_text(source) == source
    except cells.UNREADABLE:
        return False


def _returns(source: str) -> bool:
    """Whether a cell returns outside of any function."""
    waiting: list[ast.AST] = list(cells.parse_cell(source).body)
    while waiting:
        each = waiting.pop()
        if isinstance(each, (ast.Return, ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            waiting += ast.iter_child_nodes(each)
    return False


def _too_much(source: str) -> str:
    """Why Python could not read a cell that Jupyter may run; empty when it could, or is no Python."""
    try:
        cells.python_text(source)
    except (RecursionError, MemoryError):
        return "nested too deeply"
    except SyntaxError:
        return ""
    except ValueError:
        return "too long"
    return ""


def _collide(texts: Sequence[str]) -> bool:
    """Whether two of these cells give one name two meanings. The same definition twice is one."""
    meanings: dict[str, set[object]] = {}
    for i, text in enumerate(texts):
        found: dict[str, list[str]] = {}
        for definition, names in cells.definition_texts(text):
            for name in names:
                found.setdefault(name, []).append(definition)
        for name in cells.bound_names(text):
            meaning = tuple(found[name]) if name in found else i
            meanings.setdefault(name, set()).add(meaning)
    return any(len(each) > 1 for each in meanings.values())


def _joined(sources: Sequence[str]) -> str:
    if len(sources) > 1 and all(map(_is_python, sources)):
        return "\n\n".join(sources)
    return "\n".join(sources)


def _runnable(source: str) -> str:
    """Plain Python: lines of IPython magic do nothing when graded. What is no Python stays as it is
    and fails when it is loaded."""
    try:
        return cells.python_text(source)
    except cells.UNREADABLE:
        return source
