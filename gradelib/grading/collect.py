"""Find each student's file for an exercise, whatever the download or the upload did to its name."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradelib.grading.errors import CourseError
from gradelib.grading.submission import exercise_of

# What a second download, a copy or an upload appends to a name: " (1)", "-1", "_2", " copy", "-Copy1".
_COPY = re.compile(r"(\s*\(\d+\)|[-_ ]\d+|[-_ ]*copy\s*\d*)+$", re.IGNORECASE)


@dataclass(frozen=True)
class Found:
    """What one student handed in.

    files: path of each notebook that was found, by notebook.
    note: how a file with another name was recognised; empty when all had their names.
    """

    student: str
    folder: Path
    files: dict[str, Path]
    note: str = ""


def collect(
    submitted: Path, assignment: str, notebooks: Sequence[str], students: Sequence[str] = ()
) -> list[Found]:
    """One entry per student folder under `submitted`, or per named student, sorted by name.

    A file that is recognised under another name is copied to the name that nbgrader expects; the
    original stays.
    """
    if not submitted.is_dir():
        raise CourseError(
            f"{submitted} is missing: put submissions at {submitted}/STUDENT/{assignment}/"
        )
    names = sorted(students) or sorted(
        path.name for path in submitted.iterdir() if path.is_dir() and not path.name.startswith(".")
    )
    return [_collect_one(submitted / name, assignment, notebooks) for name in names]


def _collect_one(home: Path, assignment: str, notebooks: Sequence[str]) -> Found:
    folder = home / assignment
    notes = []
    others = [
        path
        for path in (sorted(home.iterdir()) if home.is_dir() else [])
        if path.is_dir() and path != folder and _same(path.name, assignment)
    ]
    candidates = [path for where in (folder, *others) for path in _notebooks_in(where)]
    files = {}
    for name in notebooks:
        exact = folder / f"{name}.ipynb"
        if exact.is_file() and not exact.is_symlink():
            files[name] = exact
            continue
        path = _best(name, candidates, alone=len(notebooks) == 1)
        if path is None:
            continue
        folder.mkdir(exist_ok=True)
        shutil.copy2(path, exact)
        files[name] = exact
        notes.append(f"{path.relative_to(home)} was taken for {name}.ipynb")
    return Found(home.name, folder, files, "; ".join(notes))


def _notebooks_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() == ".ipynb"
        and path.is_file()
        and not path.is_symlink()
        and ".ipynb_checkpoints" not in path.parts
    )


def _best(name: str, candidates: Sequence[Path], *, alone: bool) -> Path | None:
    """The newest file whose name is nearly right; else the newest that says it is this exercise; else
    the only one there is."""
    ranked = [path for path in candidates if _same(path.stem, name)]
    ranked = ranked or [path for path in candidates if exercise_of(path.read_bytes()) == name]
    if not ranked and alone and len(candidates) == 1:
        ranked = list(candidates)
    return max(ranked, key=lambda path: path.stat().st_mtime, default=None)


def _same(given: str, wanted: str) -> bool:
    return _plain(given) == _plain(wanted)


def _plain(name: str) -> str:
    # An exercise's own name may end in what looks like a copy's number: cut, but not to nothing.
    name = name.strip()
    return re.sub(r"[\s_-]+", "_", _COPY.sub("", name) or name).casefold()
