"""A class graded in parallel: the marks of nbgrader's own autograde, and nothing lost on the way."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nbgrader.converters.base import NbGraderException

from gradelib.grading import batch, cli, unit
from gradelib.grading.collect import collect
from gradelib.grading.course import Course
from gradelib.grading.errors import CourseError
from gradelib.grading.gradebook import nbgrader_of, open_gradebook
from tests.conftest import need, need_command, need_module
from tests.course.classes import hand_in_honest, hand_in_trouble
from tests.course.tools import (
    DATA,
    POINTS,
    RIGHT,
    TASKS,
    TINY,
    answered,
    autograde,
    generate_assignment,
    gradebook_rows,
    hand_in,
    released,
    scores,
)

ROOT = Path(__file__).parents[2]


def _copy(course: Course, name: str) -> Course:
    root = course.root.parent / name
    shutil.copytree(course.root, root, symlinks=True)
    return Course.open(root)


def _files(course: Course) -> dict[str, bytes]:
    folder = course.root / "autograded"
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _command(course: Course, *arguments: str) -> list[str]:
    where = ["--course", str(course.root)]
    return [sys.executable, "-m", "gradelib.grading.cli", "grade", TINY, *where, *arguments]


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(DATA)])}


# -- the same marks


def test_gradebook_and_notebooks_equal_those_of_nbgraders_autograde(course: Course) -> None:
    hand_in_honest(course, 6)
    hand_in_trouble(course, 17)
    late = course.root / "submitted" / "honest000" / TINY / "timestamp.txt"
    late.write_text("2026-01-02 00:00:00 UTC")
    (late.parent / "notes.txt").write_text("beside the notebook")
    with (course.root / "nbgrader_config.py").open("a") as file:
        file.write("c.LateSubmissionPlugin.penalty_method = 'zero'\n")
    coursedir, _ = nbgrader_of(course)
    with open_gradebook(coursedir) as book:
        book.update_or_create_assignment(TINY, duedate="2026-01-01 00:00:00 UTC")
        book.update_or_create_student("honest001", first_name="Known")
    theirs = _copy(course, "theirs")
    with contextlib.suppress(NbGraderException):
        autograde(theirs)
    report = batch.grade_class(course, TINY, jobs=2)
    assert not report.failed
    assert gradebook_rows(course) == gradebook_rows(theirs)
    assert _files(course) == _files(theirs)


def test_a_second_run_grades_only_what_is_new_or_newer(course: Course) -> None:
    hand_in_honest(course, 3)
    right = answered(released(course), RIGHT)
    stamp = course.root / "submitted" / "honest001" / TINY / "timestamp.txt"
    stamp.write_text("2026-01-01 00:00:00 UTC")
    assert len(batch.grade_class(course, TINY).graded) == 3
    hand_in(course, "new", right)
    hand_in(course, "honest001", right)
    stamp.write_text("2026-01-02 00:00:00 UTC")
    again = batch.grade_class(course, TINY)
    assert set(again.graded) == {"new", "honest001"}
    assert again.already == ["honest000", "honest002"]
    assert {task: scores(course)["honest001"][task] for task in TASKS} == POINTS
    assert set(batch.grade_class(course, TINY, force=True).graded) == set(scores(course))


def test_a_regrade_with_another_check_takes_new_marks_and_keeps_a_persons(course: Course) -> None:
    [student] = hand_in_honest(course, 1)
    batch.grade_class(course, TINY)
    coursedir, _ = nbgrader_of(course)
    with open_gradebook(coursedir) as book:
        grade = book.find_grade("what_did_you_observe", TINY, TINY, student)
        grade.manual_score, grade.needs_manual_grade = 2.0, False
        book.db.commit()
    source = course.root / "source" / TINY / f"{TINY}.ipynb"
    source.write_text(source.read_text().replace('"points": 3.0', '"points": 4.0'))
    # The gradebook still has the old points: nothing is graded until the release is made anew.
    release = course.root / "release" / TINY / f"{TINY}.ipynb"
    before = release.read_text()
    release.write_text(before.replace('"points": 3.0', '"points": 4.0'))
    with pytest.raises(CourseError, match="generate_assignment --force"):
        batch.grade_class(course, TINY, force=True)
    release.write_text(before)
    generate_assignment(course, force=True)
    batch.grade_class(course, TINY, force=True)
    assert scores(course)[student]["spread"] == 4.0
    with open_gradebook(coursedir) as book:
        grade = book.find_grade("what_did_you_observe", TINY, TINY, student)
        assert (grade.manual_score, grade.needs_manual_grade) == (2.0, True)


@pytest.mark.slow
@pytest.mark.sandbox
def test_half_a_class_of_trouble_leaves_the_honest_half_as_it_is(course: Course) -> None:
    need_command("bwrap", "apt-get install bubblewrap")
    settings = course.root / "course.toml"
    settings.write_text(settings.read_text().replace('"none"', '"bubblewrap"'))
    course = Course.open(course.root)
    honest = hand_in_honest(course, 30)
    alone = _copy(course, "alone")
    hand_in_trouble(course, 30)
    batch.grade_class(alone, TINY, jobs=2)
    report = batch.grade_class(course, TINY, jobs=2)
    assert len(report.graded) == 60
    assert not report.failed
    found = scores(course)
    assert {name: found[name] for name in honest} == scores(alone)


# -- the report


def test_the_report_says_who_needs_a_look(
    course: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    hand_in_honest(course, 1)
    hand_in(course, "page", b"<html></html>")
    hand_in(
        course,
        "slow",
        answered(
            released(course),
            {"packed_bytes": "def packed_bytes(count, bits):\n    while True: pass"},
        ),
    )
    (course.root / "submitted" / "nothing" / TINY).mkdir(parents=True)
    arguments = ["grade", TINY, "--course", str(course.root), "--jobs", "1"]
    assert cli.main([*arguments, "--json"]) == cli.ATTENTION
    data = json.loads(capsys.readouterr().out)
    assert data["ungradable"] == {
        "page": "the file is a web page, not a notebook: download the notebook itself"
    }
    assert data["timed_out"] == ["slow"]
    assert data["no_submission"] == ["nothing"]
    assert data["isolation"] == ["none"]
    assert data["warnings"]  # answers were not kept apart, and the report says so
    assert cli.main([*arguments, "--student", "honest000", "--force"]) == 0
    assert "graded" in capsys.readouterr().out


def test_an_exercise_that_is_not_released_is_an_error(course: Course) -> None:
    (course.root / "source" / "02_other").mkdir()
    with pytest.raises(CourseError, match="generate_assignment 02_other"):
        batch.grade_class(course, "02_other")
    (course.root / "gradebook.db").unlink()
    hand_in_honest(course, 1)
    with pytest.raises(CourseError, match="not in the gradebook"):
        batch.grade_class(course, TINY)


# -- files by other names


@pytest.mark.parametrize(
    "name",
    [
        f"{TINY} (1).ipynb", f"{TINY}-1.ipynb", f"{TINY}_2.ipynb", f"{TINY}-Copy1.ipynb",
        f"{TINY.upper()}.ipynb", f"{TINY}.IPYNB", f"Copy/{TINY}.ipynb", "Untitled.ipynb",
        "01 tiny.ipynb", "my homework, final (really).ipynb",
    ],
)  # fmt: skip
def test_a_renamed_file_is_found_and_noted(course: Course, name: str) -> None:
    hand_in(course, "ann", answered(released(course), RIGHT), name)
    (course.root / "submitted" / "ann" / TINY / "data.csv").write_text("1,2")
    [found] = collect(course.root / "submitted", TINY, [TINY])
    assert found.files[TINY].name == f"{TINY}.ipynb"
    assert "was taken for" in found.note
    autograde(course)
    assert scores(course)["ann"]["spread"] == POINTS["spread"]


def test_the_right_file_wins_over_others_beside_it(course: Course) -> None:
    right = answered(released(course), RIGHT)
    hand_in(course, "ann", right, f"{TINY}.ipynb")
    hand_in(course, "ann", b"{}", f"{TINY} (1).ipynb")
    hand_in(course, "ben", b'{"cells": []}', "scratch.ipynb")
    hand_in(course, "ben", right, "homework.ipynb")
    found = {each.student: each for each in collect(course.root / "submitted", TINY, [TINY])}
    assert found["ann"].files[TINY].name == f"{TINY}.ipynb"
    assert "is there too" in found["ann"].note
    assert "homework.ipynb" in found["ben"].note


def test_a_folder_by_another_name_is_found(course: Course) -> None:
    path = hand_in(course, "ann", answered(released(course), RIGHT))
    path.parent.rename(path.parent.with_name("01_Tiny"))
    [found] = collect(course.root / "submitted", TINY, [TINY])
    assert set(found.files) == {TINY}


def test_several_files_of_which_none_fits_are_not_guessed_at(
    course: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    hand_in(course, "ann", b'{"cells": []}', "one.ipynb")
    hand_in(course, "ann", b'{"cells": []}', "two.ipynb")
    assert cli.main(["collect", TINY, "--course", str(course.root), "--json"]) == cli.ATTENTION
    assert json.loads(capsys.readouterr().out) == [{"student": "ann", "files": [], "note": ""}]


def test_a_link_is_not_followed(course: Course, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    path = hand_in(course, "ann", answered(released(course), RIGHT))
    (path.parent / "link.txt").symlink_to(secret)
    other = course.root / "submitted" / "thief" / TINY / f"{TINY}.ipynb"
    other.parent.mkdir(parents=True)
    other.symlink_to(path)
    report = batch.grade_class(course, TINY)
    assert report.missing == ["thief"]
    assert not (course.root / "autograded" / "ann" / TINY / "link.txt").exists()


# -- interruptions


def _progress_of(course: Course) -> int:
    journal = course.root / batch.JOURNAL / TINY
    return len(list(journal.glob("*.json"))) if journal.is_dir() else 0


@pytest.mark.slow
def test_a_batch_killed_ten_times_ends_as_an_undisturbed_one(course: Course) -> None:
    hand_in_honest(course, 25)
    hand_in_trouble(course, 12)
    undisturbed = _copy(course, "undisturbed")
    batch.grade_class(undisturbed, TINY, jobs=2)
    draw = random.Random(7)
    kills = 0
    while kills < 10:
        already = _progress_of(course)
        process = subprocess.Popen(
            _command(course, "--jobs", "2"),
            env=_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # At a random number of further results, or in the middle of starting up.
        further = draw.choice([0, 1, 2, 3, 4])
        deadline = time.monotonic() + 120
        while (
            process.poll() is None
            and _progress_of(course) < already + further
            and time.monotonic() < deadline
        ):
            time.sleep(0.002)
        time.sleep(draw.choice([0, 0.01, 0.1, 0.5]))
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    again = batch.grade_class(course, TINY, jobs=2)
    assert len(again.graded) + len(again.already) == 37
    assert gradebook_rows(course) == gradebook_rows(undisturbed)
    assert _files(course) == _files(undisturbed)


def test_a_result_that_is_kept_is_not_graded_again_unless_something_changed(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_in_honest(course, 3)

    def full(*_: Any) -> None:
        raise CourseError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(batch.gradebook, "save", full)
        patch.setattr(batch, "SAVE_EVERY_SECONDS", 3600)
        with pytest.raises(CourseError, match="no space left"):
            batch.grade_class(course, TINY)
    assert _progress_of(course) == 3
    assert scores(course) == {}
    hand_in(course, "honest001", answered(released(course), RIGHT))
    report = batch.grade_class(course, TINY)
    assert report.resumed == 2
    assert len(report.graded) == 3
    assert scores(course)["honest001"]["spread"] == POINTS["spread"]
    assert not (course.root / batch.JOURNAL / TINY).exists()


KEY = """
import sys
from pathlib import Path
from gradelib.grading import batch, gradebook
from gradelib.grading.course import Course
course = Course.open(Path(sys.argv[1]))
print(batch.context_of(course, gradebook.nbgrader_of(course)[0], "01_tiny").key)
"""


def test_kept_results_are_known_again_by_another_process_and_not_after_a_change(
    course: Course,
) -> None:
    def key(hash_seed: str) -> str:
        environment = _environment() | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", KEY, str(course.root)]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    first = key("1")
    assert key("2") == first
    settings = course.root / "course.toml"
    settings.write_text(settings.read_text().replace("a seed for tests", "another seed"))
    assert key("1") != first


def test_a_second_batch_of_the_same_exercise_is_kept_away(course: Course) -> None:
    hand_in_honest(course, 1)
    journal = course.root / batch.JOURNAL / TINY
    journal.mkdir(parents=True)
    with batch._lock(journal), pytest.raises(CourseError, match="right now"):
        batch.grade_class(course, TINY)


def test_a_worker_that_dies_takes_no_other_unit_with_it(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = hand_in_honest(course, 5)
    hand_in(course, "killer", b"kill the worker")
    monkeypatch.setattr(unit, "grade_here", _unit_that_dies)
    report = batch.grade_class(course, TINY, jobs=2)
    assert sorted(report.graded) == names
    assert report.failed == {"killer": "its worker ended, twice"}
    assert report.needs_a_person
    assert "killer" not in scores(course)


def _unit_that_dies(student: str, files: dict[str, bytes]) -> unit.Graded:
    if files[TINY] == b"kill the worker":
        os.kill(os.getpid(), signal.SIGKILL)
    assert unit._context is not None
    return unit.grade_unit(student, files, unit._context)


DISK = """
import shutil, sqlite3, sys
from pathlib import Path
from gradelib.grading import cli
shutil.copytree(sys.argv[1], "/small/course")
filler = Path("/small/filler")
free = shutil.disk_usage("/small").free
filler.write_bytes(b"x" * (free - int(sys.argv[2])))
command = ["grade", "01_tiny", "--course", "/small/course", "--jobs", "1"]
print("full:", cli.main(command))
[state] = sqlite3.connect("/small/course/gradebook.db").execute("pragma integrity_check").fetchone()
print("database:", state)
filler.unlink()
print("roomy:", cli.main(command))
shutil.copytree("/small/course", sys.argv[3])
"""


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize("left_bytes", [0, 20_000, 60_000])
def test_a_full_disk_is_a_clear_error_and_nothing_is_corrupted(
    course: Course, tmp_path: Path, left_bytes: int
) -> None:
    bwrap = need_command("bwrap", "apt-get install bubblewrap")
    hand_in_honest(course, 10)
    undisturbed = _copy(course, "undisturbed")
    batch.grade_class(undisturbed, TINY)
    out = tmp_path / "out"
    command = [bwrap, "--dev-bind", "/", "/", "--size", "4000000", "--tmpfs", "/small"]
    command += [sys.executable, "-c", DISK, str(course.root), str(left_bytes), str(out)]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
    if "Can't mkdir" in done.stderr or "Operation not permitted" in done.stderr:
        need("a file system of a test's own", False, "allow bubblewrap to mount one")
    assert "full: 2" in done.stdout, done.stdout + done.stderr
    assert "space" in done.stderr or "full" in done.stderr
    assert "Traceback" not in done.stderr
    assert "database: ok" in done.stdout
    assert "roomy: 0" in done.stdout
    assert gradebook_rows(Course.open(out)) == gradebook_rows(undisturbed)


# -- several machines, several graders


@contextlib.contextmanager
def _processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    running: list[subprocess.Popen[bytes]] = []
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


class _Cluster:
    """A Dask scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path, running: list[subprocess.Popen[bytes]]) -> None:
        self.folder = folder
        self.running = running
        self.where = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0", "--no-dashboard")
        deadline = time.monotonic() + 60
        while not self.where.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.address = json.loads(self.where.read_text())["address"]

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *arguments, "--scheduler-file", str(self.where)]
        process = subprocess.Popen(
            command, env=_environment(), cwd=self.folder, stderr=subprocess.DEVNULL
        )
        self.running.append(process)
        return process

    def worker(self) -> subprocess.Popen[bytes]:
        return self._start("worker", "--nthreads", "1", "--no-nanny", "--no-dashboard")


@pytest.mark.slow
@pytest.mark.parametrize("others", ["at work", "not yet there"])
def test_a_cluster_gives_the_same_and_survives_the_loss_of_a_worker(
    course: Course, tmp_path: Path, others: str
) -> None:
    need_module("distributed")
    hand_in_honest(course, 30)
    hand_in_trouble(course, 10)
    alone = _copy(course, "alone")
    batch.grade_class(alone, TINY, jobs=2)
    with _processes() as running:
        cluster = _Cluster(tmp_path, running)
        first = cluster.worker()
        if others == "at work":
            cluster.worker()
        killed = []

        def progress(done: int, _total: int) -> None:
            if done >= 5 and not killed:
                killed.append(first)
                first.kill()
                if others == "not yet there":
                    cluster.worker()

        report = batch.grade_class(course, TINY, scheduler=cluster.address, progress=progress)
    assert killed
    assert len(report.graded) == 40
    assert not report.failed
    assert gradebook_rows(course) == gradebook_rows(alone)
    assert _files(course) == _files(alone)


@pytest.mark.slow
def test_a_scheduler_that_ends_in_the_middle_is_a_clear_error_and_nothing_is_lost(
    course: Course, tmp_path: Path
) -> None:
    need_module("distributed")
    hand_in_honest(course, 20)
    alone = _copy(course, "alone")
    batch.grade_class(alone, TINY)
    with _processes() as running:
        cluster = _Cluster(tmp_path, running)
        cluster.worker()

        def progress(done: int, _total: int) -> None:
            if done >= 5:
                cluster.scheduler.kill()

        with pytest.raises(CourseError, match=r"scheduler at .* is gone"):
            batch.grade_class(course, TINY, scheduler=cluster.address, progress=progress)
    report = batch.grade_class(course, TINY)
    assert report.resumed + len(report.already) >= 5
    assert gradebook_rows(course) == gradebook_rows(alone)
    assert _files(course) == _files(alone)


def test_a_scheduler_that_does_not_answer_is_a_clear_error(course: Course) -> None:
    need_module("distributed")
    hand_in_honest(course, 1)
    with pytest.raises(CourseError, match="no Dask scheduler answers"):
        batch.grade_class(course, TINY, scheduler="tcp://127.0.0.1:9")


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """URL of an empty PostgreSQL database in a server of the tests' own."""
    need_module("psycopg")
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = homes[-1] / "initdb" if homes else Path(shutil.which("initdb") or "")
    need("PostgreSQL", found.is_file(), "apt-get install postgresql")
    binaries = found.resolve().parent
    folder = Path("/tmp") / f"one-gpu-postgres-{os.getpid()}"
    folder.mkdir(mode=0o700)
    root = os.geteuid() == 0
    who: dict[str, Any] = {"user": "postgres"} if root else {}
    if root:
        shutil.chown(folder, "postgres")
    data = folder / "data"

    def run(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, cwd=folder, **who)

    run(str(binaries / "initdb"), "-D", str(data), "-U", "grader", "--auth", "trust")
    options = f"-k {folder} -c listen_addresses='' -c fsync=off"
    run(
        str(binaries / "pg_ctl"),
        "-D",
        str(data),
        "-w",
        "-o",
        options,
        "-l",
        str(folder / "log"),
        "start",
    )
    try:
        run(str(binaries / "createdb"), "-h", str(folder), "-U", "grader", "grades")
        yield f"postgresql+psycopg://grader@/grades?host={folder}"
    finally:
        run(str(binaries / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.mark.postgres
@pytest.mark.slow
def test_two_graders_at_once_on_postgresql_lose_and_double_nothing(
    course: Course, postgres: str
) -> None:
    alone = _copy(course, "alone")
    hand_in_honest(alone, 40)
    batch.grade_class(alone, TINY, jobs=2)
    with (course.root / "nbgrader_config.py").open("a") as file:
        file.write(f"c.CourseDirectory.db_url = {postgres!r}\n")
    (course.root / "gradebook.db").unlink()
    generate_assignment(course, force=True)
    hand_in_honest(course, 40)
    second = _copy(course, "second")
    running = [
        subprocess.Popen(
            _command(each, "--jobs", "1", "--json"), env=_environment(), stdout=subprocess.PIPE
        )
        for each in (course, second)
    ]
    for process in running:
        output, _ = process.communicate()
        assert process.returncode == 0
        assert len(json.loads(output)["graded"]) == 40
    assert gradebook_rows(course) == gradebook_rows(alone)
