"""Find each student's file for an exercise, whatever the download or the upload did to its name.

What a student hands in may be a trap: a link to the solutions, to another student's work or to a
file that grading writes, a pipe that never ends. Nothing below `submitted/STUDENT` that is not a
plain file in a real folder is opened or followed.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gradelib.grading.errors import CourseError
from gradelib.grading.submission import FILE_LIMIT_BYTES, exercise_of

# What a second download, a copy or an upload appends to a name: " (1)", "-1", "_2", " copy", "-Copy1".
_COPY = re.compile(r"(\s*\(\d+\)|[-_ ]\d+|[-_ ]*copy\s*\d*)+$", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
NO_LINKS = "links are not followed; hand in the file itself"


# -- plain files in real folders


def is_real_folder(path: Path) -> bool:
    """Whether it is a folder, and no link to one."""
    return _is(path, stat.S_ISDIR)


def is_plain_file(path: Path) -> bool:
    """Whether it is a file: no link, pipe, socket or device."""
    return _is(path, stat.S_ISREG)


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    try:
        mode = path.lstat().st_mode
    except (OSError, ValueError):
        return False
    return kind(mode)


def open_plain(path: Path) -> BinaryIO:
    """A plain file, opened for reading. Raises OSError for anything else, without opening what a link
    leads to or waiting for a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a plain file")
    return os.fdopen(descriptor, "rb")


def read_plain(path: Path) -> bytes:
    """The content of a plain file, one byte more than `FILE_LIMIT_BYTES` at most. Raises OSError."""
    with open_plain(path) as file:
        return file.read(FILE_LIMIT_BYTES + 1)


def walk(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Everything below a real folder that is not a real folder itself, sorted, and whether it is a
    plain file. Nothing below a folder that is a link."""
    if not is_real_folder(folder):
        return
    for where, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted({*files, *folders}):
            path = Path(where, name)
            if not is_real_folder(path):
                yield path, is_plain_file(path)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file whole; a link in its place is replaced, not followed. Raises OSError."""
    half = path.with_name(f".{path.name}.{os.getpid()}.half")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    half.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(half, flags, 0o600), "wb") as file:
            file.write(data)
        half.replace(path)
    except OSError:
        half.unlink(missing_ok=True)
        raise


# -- students


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
        path.name
        for path in submitted.iterdir()
        if not path.name.startswith(".") and (path.is_symlink() or path.is_dir())
    )
    return [_collect_one(submitted / name, assignment, notebooks) for name in names]


def _collect_one(home: Path, assignment: str, notebooks: Sequence[str]) -> Found:
    folder = home / assignment
    if _CONTROL.search(home.name):
        return Found(home.name, folder, {}, f"{home.name!r} is no name for a student's folder")
    if home.is_symlink():
        return Found(home.name, folder, {}, f"{home.name} is a link: {NO_LINKS}")
    folders = [path for path in _entries(home) if _same(path.name, assignment)]
    notes = [f"{path.name} is a link: {NO_LINKS}" for path in folders if path.is_symlink()]
    folders = [path for path in folders if is_real_folder(path)]
    folders.sort(key=lambda path: path != folder)
    candidates = []
    for where in folders:
        for path, plain in walk(where):
            if ".ipynb_checkpoints" in path.relative_to(home).parts:
                continue
            if plain and path.suffix.lower() == ".ipynb":
                candidates.append(path)
            elif not plain:
                notes.append(f"{path.relative_to(home)} was left out: {_why(path)}")
        notes += [
            f"{path.relative_to(home)} is a folder, not a notebook"
            for path in _entries(where)
            if path.suffix.lower() == ".ipynb" and is_real_folder(path)
        ]
    files = {}
    for name in notebooks:
        exact = folder / f"{name}.ipynb"
        if is_real_folder(folder) and is_plain_file(exact):
            files[name] = exact
            notes += _others(name, exact, candidates, home)
            continue
        best = _best(name, candidates, alone=len(notebooks) == 1)
        if best is None:
            continue
        shown = best.relative_to(home)
        try:
            if folder.is_symlink():
                raise OSError(f"{folder.name} is a link")
            folder.mkdir(exist_ok=True)
            replace_file(exact, read_plain(best))
        except OSError as error:
            notes.append(f"{shown} could not be taken for {name}.ipynb: {error}")
            continue
        files[name] = exact
        notes.append(f"{shown} was taken for {name}.ipynb")
    return Found(home.name, folder, files, "; ".join(notes))


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if is_real_folder(folder) else []


def _why(path: Path) -> str:
    return NO_LINKS if path.is_symlink() else "it is not a plain file"


def _others(name: str, exact: Path, candidates: Sequence[Path], home: Path) -> list[str]:
    """A note on each other file that could be meant, unless it holds the same."""
    notes = []
    for path in candidates:
        if path != exact and _same(path.stem, name):
            with contextlib.suppress(OSError):
                if read_plain(path) != read_plain(exact):
                    shown = path.relative_to(home)
                    notes.append(f"{shown} is there too; {exact.name} was taken")
    return notes


def _best(name: str, candidates: Sequence[Path], *, alone: bool) -> Path | None:
    """The newest file whose name is nearly right; else the newest that says it is this exercise; else
    the only one there is."""
    ranked = [path for path in candidates if _same(path.stem, name)]
    ranked = ranked or [path for path in candidates if _says(path) == name]
    if not ranked and alone and len(candidates) == 1:
        ranked = list(candidates)
    return max(ranked, key=lambda path: path.lstat().st_mtime, default=None)


def _says(path: Path) -> str:
    try:
        return exercise_of(read_plain(path))
    except OSError:
        return ""


def _same(given: str, wanted: str) -> bool:
    return _plain(given) == _plain(wanted)


def _plain(name: str) -> str:
    # An exercise's own name may end in what looks like a copy's number: cut, but not to nothing.
    name = name.strip()
    return re.sub(r"[\s_-]+", "_", _COPY.sub("", name) or name).casefold()
