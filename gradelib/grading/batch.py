"""Grade a class: many submissions side by side, on this machine or on a Dask cluster.

Each submission is one unit of work whose result is kept in a journal as soon as it is there, so a
batch that is killed goes on where it was. One writer saves to the gradebook and to `autograded/`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatch
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

import nbformat
from nbgrader import utils as nbgrader_utils

from gradelib.grading import collect, gradebook, unit
from gradelib.grading.course import Course
from gradelib.grading.errors import CourseError
from gradelib.grading.layout import Layout
from gradelib.grading.submission import NoteKind
from gradelib.grading.unit import Context, Graded
from gradelib.grading.work import IsolationError
from gradelib.verdicts import Status

JOURNAL = ".one-gpu"
SAVE_EVERY_SECONDS = 2.0
SAVE_AT_MOST = 50


def marks_of(text: str) -> gradebook.Marks:
    """Points and automatic comments of a graded notebook, decided by nbgrader's own functions."""
    scores: dict[str, float | None] = {}
    comments: dict[str, str | None] = {}
    for each in json.loads(text)["cells"]:
        if "nbgrader" not in each["metadata"]:
            continue
        each["source"] = "".join(each["source"])
        cell = nbformat.from_dict(each)  # type: ignore[no-untyped-call]
        about = cell.metadata.nbgrader
        if nbgrader_utils.is_grade(cell):
            scores[about["grade_id"]] = nbgrader_utils.determine_grade(cell)[0]
        task = nbgrader_utils.is_task(cell)
        if nbgrader_utils.is_solution(cell) or task:
            same = about.get("checksum") == nbgrader_utils.compute_checksum(cell)
            comments[about["grade_id"]] = "No response." if same and not task else None
    return gradebook.Marks(scores, comments)


# -- the class


@dataclass
class Report:
    """How a batch went. Lists name students."""

    graded: dict[str, Graded] = field(default_factory=dict)
    already: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    resumed: int = 0
    seconds: float = 0.0

    def having(self, status: Status) -> list[str]:
        """Students with this status on some task."""
        return [
            student
            for student, each in self.graded.items()
            if any(verdict.status is status for _, verdict in each.verdicts())
        ]

    @property
    def ungradable(self) -> list[str]:
        """Students whose file could not be read."""
        return self.having(Status.UNGRADABLE)

    @property
    def suspicious(self) -> list[str]:
        """Students whose file tries to steer the grader."""
        return [
            student
            for student, each in self.graded.items()
            if any(
                kind == NoteKind.SUSPICIOUS
                for notebook in each.notebooks.values()
                for kind, _ in notebook["notes"]
            )
        ]

    @property
    def needs_a_person(self) -> bool:
        """Whether something is left that only a person can settle."""
        return bool(self.ungradable or self.suspicious or self.missing or self.failed)


Progress = Callable[[int, int], None]


def _silent(_done: int, _total: int) -> None:
    """Report no progress."""


def grade_class(
    course: Course,
    assignment: str,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    force: bool = False,
    students: Sequence[str] = (),
    progress: Progress = _silent,
) -> Report:
    """Grade every submission of an assignment that has not been graded yet (with `force`, all).

    jobs: worker processes on this machine. scheduler: address of a Dask scheduler to use instead.
    progress: called with the units done and the units in all.
    Raises CourseError when the course is not ready, the isolation does not work, or results cannot
    be saved; what was saved until then stays, and the next run goes on.
    """
    started = time.monotonic()
    coursedir, config = gradebook.nbgrader_of(course)
    context = context_of(course, coursedir, assignment)
    found = collect.collect(
        course.root / coursedir.submitted_directory, assignment, list(context.layouts), students
    )
    journal = course.root / JOURNAL / assignment
    journal.mkdir(parents=True, exist_ok=True, mode=0o700)
    report = Report()
    with _lock(journal), gradebook.open_gradebook(coursedir) as book:
        for name, layout in context.layouts.items():
            gradebook.require_same_points(book, name, assignment, layout)
        saver = _Saver(coursedir, config, assignment, list(context.layouts), book, report)
        batch = _Batch(context, journal, saver, report, progress)
        units = saver.units(found, force)
        workers = _Dask(scheduler, context) if scheduler else _Pool(jobs, context)
        with contextlib.closing(workers):
            batch.run(units, workers)
        shutil.rmtree(journal)
    report.seconds = time.monotonic() - started
    return report


def context_of(course: Course, coursedir: Any, assignment: str) -> Context:
    """The assignment's releases and checks."""
    gradebook.require_known(coursedir, [assignment])
    folder = Path(coursedir.format_path(coursedir.release_directory, ".", assignment))
    paths = sorted(folder.glob("*.ipynb"))
    if not paths:
        raise CourseError(
            f"{folder} holds no notebook: run nbgrader generate_assignment {assignment} first"
        )
    layouts = {path.stem: Layout.load(path) for path in paths}
    checks = {
        name: course.checks(layout.exercise) if layout.exercise else {}
        for name, layout in layouts.items()
    }
    return Context(layouts, checks, course.settings.isolation, course.settings.checks)


@contextlib.contextmanager
def _lock(journal: Path) -> Iterator[None]:
    """Keep a second batch away from the same journal."""
    with (journal.parent / f"{journal.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CourseError(
                f"{journal.name} is being graded by another `one-gpu grade` right now"
            ) from error
        yield


class _Batch:
    """Hands units to workers and their results to the journal and the saver."""

    def __init__(
        self, context: Context, journal: Path, saver: _Saver, report: Report, progress: Progress
    ) -> None:
        self.key = context.key
        self.journal = journal
        self.saver = saver
        self.report = report
        self.progress = progress
        self.read: dict[str, str] = {}  # key of what was read of a student, by student

    def run(self, units: Sequence[collect.Found], workers: _Workers) -> None:
        """Every unit ends in the report: graded, or failed with the reason."""
        waiting = list(reversed(units))
        # Units whose worker died: each runs once more, alone, so that no other is blamed for it.
        alone: list[collect.Found] = []
        running: dict[Future[Graded], tuple[collect.Found, bool]] = {}
        self.progress(0, len(units))
        while waiting or alone or running:
            while waiting and not alone and len(running) < workers.slots:
                self._start(waiting.pop(), workers, running, solo=False)
            if alone and not running:
                self._start(alone.pop(), workers, running, solo=True)
            finished, _ = wait(running, timeout=SAVE_EVERY_SECONDS, return_when=FIRST_COMPLETED)
            for future in finished:
                found, solo = running.pop(future)
                try:
                    graded = future.result()
                except IsolationError as error:
                    raise CourseError(str(error)) from error
                except workers.lost:
                    workers.require_alive()
                    if solo:
                        self.report.failed[found.student] = "its worker ended, twice"
                    else:
                        alone.append(found)
                except Exception as error:  # noqa: BLE001 - one unit must not end the batch
                    self.report.failed[found.student] = f"{type(error).__name__}: {error}"
                else:
                    self._remember(found, graded)
                    self._finish(graded)
            self.progress(len(self.report.graded) + len(self.report.failed), len(units))
            self.saver.save_if_due()
        self.saver.save()

    def _start(
        self,
        found: collect.Found,
        workers: _Workers,
        running: dict[Future[Graded], tuple[collect.Found, bool]],
        *,
        solo: bool,
    ) -> None:
        try:
            files = {name: collect.read_plain(path) for name, path in found.files.items()}
        except OSError as error:
            self.report.failed[found.student] = f"its file cannot be read: {error}"
            return
        known = self._remembered(found.student, files)
        if known is None:
            self.read[found.student] = self._unit_key(files)
            running[workers.submit(found.student, files)] = (found, solo)
        else:
            self.report.resumed += 1
            self._finish(known)

    def _finish(self, graded: Graded) -> None:
        self.report.graded[graded.student] = graded
        self.saver.add(graded)

    # -- journal

    def _path(self, student: str) -> Path:
        return self.journal / f"{hashlib.sha256(student.encode()).hexdigest()[:32]}.json"

    def _unit_key(self, files: Mapping[str, bytes]) -> str:
        digest = hashlib.sha256(self.key.encode())
        for name, data in sorted(files.items()):
            digest.update(name.encode() + hashlib.sha256(data).digest())
        return digest.hexdigest()

    def _remembered(self, student: str, files: Mapping[str, bytes]) -> Graded | None:
        path = self._path(student)
        if not path.is_file():
            return None
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["key"] != self._unit_key(files):
            return None
        return Graded(student, kept["notebooks"], kept["isolation"], kept["warning"])

    def _remember(self, found: collect.Found, graded: Graded) -> None:
        kept = {
            "key": self.read[found.student],
            "student": found.student,
            "isolation": graded.isolation,
            "warning": graded.warning,
            "notebooks": graded.notebooks,
        }
        write_atomically(self._path(found.student), json.dumps(kept).encode())


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all. Raises CourseError when the disk is
    full."""
    half = path.with_name(f"{path.name}.{os.getpid()}.half")
    try:
        with half.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
    except OSError as error:
        half.unlink(missing_ok=True)
        raise CourseError(f"{path} cannot be written: {error.strerror}") from error


# -- workers


class _Workers(Protocol):
    @property
    def slots(self) -> int:
        """Units to have under way at a time."""

    @property
    def lost(self) -> tuple[type[BaseException], ...]:
        """What a unit's future raises when its worker died."""

    def require_alive(self) -> None:
        """Raise CourseError when no worker can take the place of a lost one."""

    def submit(self, student: str, files: Mapping[str, bytes]) -> Future[Graded]:
        """Start one unit."""

    def close(self) -> None:
        """End the workers."""


class _Pool:
    """Worker processes on this machine. A new pool takes the place of one whose worker died."""

    lost = (BrokenProcessPool,)

    def __init__(self, jobs: int, context: Context) -> None:
        self.jobs = jobs
        self.context = context
        self.pool = self._new()

    @property
    def slots(self) -> int:
        return 2 * self.jobs

    def require_alive(self) -> None:
        """`submit` makes a new pool."""

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self.jobs, get_context("spawn"), initializer=unit.begin, initargs=(self.context,)
        )

    def submit(self, student: str, files: Mapping[str, bytes]) -> Future[Graded]:
        try:
            return self.pool.submit(unit.grade_here, student, files)
        except BrokenProcessPool:
            self.pool.shutdown(wait=False, cancel_futures=True)
            self.pool = self._new()
            return self.pool.submit(unit.grade_here, student, files)

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)


class _Dask:
    """Workers of a Dask cluster, by its scheduler's address. Workers may come and go.

    Each unit carries all it needs: data scattered to the workers beforehand would be lost with
    the last worker that holds it, and its units with it.
    """

    def __init__(self, address: str, context: Context) -> None:
        try:
            import distributed
        except ImportError as error:
            raise CourseError("--scheduler needs Dask: pip install distributed") from error
        self.lost: tuple[type[BaseException], ...] = (
            distributed.KilledWorker,
            CancelledError,
        )
        try:
            self.client = distributed.Client(address, timeout="10s")  # type: ignore[no-untyped-call]
        except (OSError, TimeoutError, ValueError) as error:
            raise CourseError(f"no Dask scheduler answers at {address}: {error}") from error
        self.address = address
        self.context = unit.packed(context)
        self.executor = self.client.get_executor(pure=False)  # type: ignore[no-untyped-call]

    @property
    def slots(self) -> int:
        try:
            threads = self.client.nthreads()  # type: ignore[no-untyped-call]
        except (OSError, TimeoutError):
            self.require_alive()
            raise
        return max(2, 2 * sum(map(int, threads.values())))

    def require_alive(self) -> None:
        if self.client.status != "running":
            raise CourseError(
                f"the Dask scheduler at {self.address} is gone; what was graded is kept: "
                "give the same command again to go on"
            )

    def submit(self, student: str, files: Mapping[str, bytes]) -> Future[Graded]:
        made: Future[Graded] = self.executor.submit(unit.grade_packed, student, files, self.context)
        return made

    def close(self) -> None:
        self.executor.shutdown(wait=False)
        self.client.close(timeout=2)  # type: ignore[no-untyped-call]


# -- saving


class _Saver:
    """The one writer: gradebook and `autograded/`, several submissions at a time."""

    def __init__(
        self,
        coursedir: Any,
        config: Any,
        assignment: str,
        notebooks: Sequence[str],
        book: Any,
        report: Report,
    ) -> None:
        self.coursedir = coursedir
        self.config = config
        self.assignment = assignment
        self.notebooks = notebooks
        self.book = book
        self.report = report
        self.ready: list[Graded] = []
        self.saved = time.monotonic()
        self.source_files = self._files_of(
            Path(coursedir.format_path(coursedir.source_directory, ".", assignment))
        )

    def _folder(self, step: str, student: str) -> Path:
        return Path(self.coursedir.format_path(step, student, self.assignment))

    def units(self, found: Sequence[collect.Found], force: bool) -> list[collect.Found]:
        """Those that are to be graded now."""
        units = []
        for each in found:
            if each.note:
                self.report.notes.setdefault(each.student, []).append(each.note)
            if not each.files:
                self.report.missing.append(each.student)
            elif force or self._is_new(each):
                units.append(each)
            else:
                self.report.already.append(each.student)
        return units

    def _is_new(self, each: collect.Found) -> bool:
        done = self._folder(self.coursedir.autograded_directory, each.student)
        if not done.exists():
            return True
        new, old = map(self._timestamp, (each.folder, done))
        return new is not None and old is not None and new > old

    def _timestamp(self, folder: Path) -> datetime | None:
        """When it was handed in; None where that is not said in a plain file."""
        if not collect.is_plain_file(folder / "timestamp.txt"):
            return None
        return self.coursedir.get_existing_timestamp(str(folder))  # type: ignore[no-any-return]

    def add(self, graded: Graded) -> None:
        self.ready.append(graded)

    def save_if_due(self) -> None:
        late = time.monotonic() - self.saved > SAVE_EVERY_SECONDS
        if len(self.ready) >= SAVE_AT_MOST or (late and self.ready):
            self.save()

    def save(self) -> None:
        """Files first, beside their place; then the gradebook; then the files into their place."""
        if self.ready:
            made = [self._written(graded) for graded in self.ready]
            entries = [self._entry(graded) for graded in self.ready]
            gradebook.save(self.book, self.assignment, entries, self.config)
            for half, final in made:
                old = final.with_name(f".{final.name}.old")
                shutil.rmtree(old, ignore_errors=True)
                if final.exists():
                    final.rename(old)
                half.rename(final)
                shutil.rmtree(old, ignore_errors=True)
        self.ready = []
        self.saved = time.monotonic()

    def _entry(self, graded: Graded) -> gradebook.Entry:
        folder = self._folder(self.coursedir.submitted_directory, graded.student)
        return gradebook.Entry(
            graded.student,
            self._timestamp(folder),
            {
                name: marks_of(kept["text"])
                if (kept := graded.notebooks.get(name)) is not None
                else None
                for name in self.notebooks
            },
        )

    def _written(self, graded: Graded) -> tuple[Path, Path]:
        final = self._folder(self.coursedir.autograded_directory, graded.student)
        half = final.with_name(f".{final.name}.half")
        try:
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir(parents=True)
            submitted = self._folder(self.coursedir.submitted_directory, graded.student)
            files = {**self._files_of(submitted), **self.source_files}
            for name, path in files.items():
                target = half / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with collect.open_plain(path) as file, target.open("wb") as copy:
                    shutil.copyfileobj(file, copy)
                target.chmod(self._mode)
            for name, kept in graded.notebooks.items():
                target = half / f"{name}.ipynb"
                target.write_text(kept["text"], encoding="utf-8")
                target.chmod(self._mode)
        except OSError as error:
            raise CourseError(
                f"{half} cannot be written: {error.strerror}. Nothing of it was saved; make room and run again."
            ) from error
        return half, final

    @property
    def _mode(self) -> int:
        given = self.config.Autograde.get("permissions") if "Autograde" in self.config else None
        default = 664 if self.coursedir.groupshared else 444
        return int(str(given or default), 8)

    def _files_of(self, folder: Path) -> dict[str, Path]:
        """Files beside the notebooks; no links, which could lead anywhere."""
        ignored = [*self.coursedir.ignore, "*.ipynb"]
        found = {}
        for path, plain in collect.walk(folder):
            name = path.relative_to(folder)
            skip = any(fnmatch(part, pattern) for part in name.parts for pattern in ignored)
            if plain and not skip:
                found[name.as_posix()] = path
        return found
