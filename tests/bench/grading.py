"""How fast a class is graded: nbgrader's own autograde, otter-grader on request, and `one-gpu grade`, in one run.

`python tests/bench/grading.py [--students 100] [--exercise 21_number_formats] [--with-otter]` makes a course, hands
in the reference with small changes for every student, grades the class each way, and prints seconds a submission,
how many times as long the others take, and the peak memory. The marks of the judged tasks must be equal: the others
run the visible checks alone, and in the learner's kernel, so only right and untouched answers are handed in.

nbgrader grades one submission after the other. Otter runs without its containers (`otter run`), as many at a time as
`--jobs` says, as its containers would.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from gradelib.grading.course import Course, Settings, new_course, read_sources, sources_beside
from gradelib.grading.gradebook import nbgrader_of, open_gradebook
from gradelib.grading.layout import CHECK_PREFIX, TEXT_STUB

ROOT = Path(__file__).parents[2]
CHECKS = "solutions.checks"
OTTER = "otter-grader==7.0.0"
OTTER_FOLDER = Path(tempfile.gettempdir()) / "one-gpu-bench-otter-7.0.0"
# nbgrader as it is: it executes the notebook in a kernel. Its check cells are let through, so that
# they cost what a visible test costs.
PLAIN_CONFIG = """
c = get_config()
c.CourseDirectory.root = {root!r}
c.ClearSolutions.code_stub = {{"python": "..."}}
c.ClearSolutions.text_stub = {stub!r}
"""
# The same visible check as a test of otter's.
OTTER_TEST = """
from otter.test_files import test_case

OK_FORMAT = False
name = {task!r}
points = {points!r}


@test_case(points={points!r})
def test_visible(check, {task}):
    assert check({task!r}, {task})
"""
Marks = dict[str, dict[str, float | None]]


@dataclass
class Way:
    """One way of grading, measured. `peak_mib`: the most memory that all its processes held
    together, None where the system does not tell. `ratio`: how many times as long it takes as
    `one-gpu grade`."""

    name: str
    submissions: int
    seconds: float
    peak_mib: float | None
    seconds_per_submission: float = 0.0
    ratio: float = 1.0
    equal_marks: bool = True


def main() -> int:
    """Run the comparison; returns the exit status: 1 when marks differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--exercise", default="21_number_formats")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--plain-students", type=int, help="fewer for the others, to save time")
    parser.add_argument(
        "--with-otter",
        nargs="?",
        type=Path,
        const=OTTER_FOLDER,
        metavar="FOLDER",
        help=f"measure {OTTER} too; installed there if it is not yet (default: {OTTER_FOLDER})",
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    exercise, students = options.exercise, options.students
    few = min(options.plain_students or students, students)
    otter = _otter(options.with_otter) if options.with_otter else None
    with tempfile.TemporaryDirectory(prefix="one-gpu-bench-") as folder:
        course = _course(Path(folder) / "course", exercise)
        _hand_in(course, exercise, students)
        plain = _plain_copy(course, exercise, few)
        nbgrader = [sys.executable, "-m", "nbgrader", "autograde", exercise]
        ways = [_measured("nbgrader autograde", few, plain, nbgrader)]
        marks = [_marks(Course.open(plain), exercise)]
        if otter is not None:
            way, found = _with_otter(otter, course, plain, exercise, few, options.jobs)
            ways.append(way)
            marks.append(found)
        command = [sys.executable, "-m", "gradelib.grading.cli", "grade", exercise, "--json"]
        jobs = ["--jobs", str(options.jobs)]
        ours = _measured("one-gpu grade", students, course.root, [*command, *jobs])
        own = _marks(course, exercise)
    for way, found in zip(ways, marks, strict=True):
        way.ratio = way.seconds_per_submission / ours.seconds_per_submission
        way.equal_marks = len(found) == few and all(
            own[student].get(name) == score
            for student, scores in found.items()
            for name, score in scores.items()
        )
    ways.append(ours)
    if options.json:
        about = {"exercise": exercise, "jobs": options.jobs, "ways": list(map(asdict, ways))}
        sys.stdout.write(json.dumps(about, indent=1) + "\n")
    else:
        _show(exercise, options.jobs, ways)
    return 0 if all(way.equal_marks for way in ways) else 1


def _show(exercise: str, jobs: int, ways: list[Way]) -> None:
    table = Table(title=f"{exercise}, --jobs {jobs}", title_justify="left")
    table.add_column("")
    for name in ("submissions", "seconds", "s / submission", "times as long", "peak MiB", "marks"):
        table.add_column(name, justify="right", no_wrap=True)
    for way in ways:
        table.add_row(
            way.name,
            str(way.submissions),
            f"{way.seconds:.1f}",
            f"{way.seconds_per_submission:.3f}",
            f"{way.ratio:.1f}",
            "?" if way.peak_mib is None else f"{way.peak_mib:.0f}",
            "equal" if way.equal_marks else "DIFFER",
        )
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 120).print(table)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }


# Runs a command and prints how long it took and how much memory it held, with everything that it
# started. Memory is the sum of the processes' proportional shares (or, where the system keeps those
# to itself, of what is in no file), twice a second.
MEASURE = """
import json, os, subprocess, sys, threading, time
from pathlib import Path

def fields(pid, name, separator=":"):
    lines = Path("/proc", pid, name).read_text().splitlines()
    return dict(line.split(separator, 1) for line in lines if separator in line)

def held(pid):
    try:
        return int(fields(pid, "smaps_rollup")["Pss"].split()[0])
    except OSError:
        known = fields(pid, "status")
        return sum(int(known[name].split()[0]) for name in ("RssAnon", "RssShmem"))

def look():
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[pid] = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            pass
    family = {str(done.pid)}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    total = 0
    for pid in family:
        try:
            total += held(pid)
        except (OSError, KeyError):
            pass  # it has ended
    return total

def watch():
    global peak
    while not over.wait(0.5):
        peak = max(peak, look())

peak, over = 0, threading.Event()
started = time.monotonic()
done = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
if sys.platform == "linux":
    threading.Thread(target=watch, daemon=True).start()
_, said = done.communicate()
seconds = time.monotonic() - started
over.set()
print(json.dumps({
    "status": done.returncode, "error": said[-3000:], "seconds": seconds, "peak_kib": peak
}))
"""


def _measured(name: str, submissions: int, folder: Path, command: list[str]) -> Way:
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE, *command],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(ran.stdout)
    if found["status"]:
        raise SystemExit(f"{command} failed:\n{found['error']}")
    peak = found["peak_kib"] / 1024 if found["peak_kib"] else None
    seconds = found["seconds"]
    return Way(name, submissions, seconds, peak, seconds / submissions)


# -- the class


def _course(root: Path, exercise: str) -> Course:
    sources = read_sources(sources_beside(CHECKS), CHECKS, [exercise])
    course = new_course(root, sources, Settings(CHECKS, "bench"))
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", exercise]
    subprocess.run(command, cwd=root, env=_environment(), check=True, capture_output=True)
    return course


def _hand_in(course: Course, exercise: str, count: int) -> None:
    """Everyone hands in the reference; every tenth leaves it as released."""
    source = json.loads((course.root / "source" / exercise / f"{exercise}.ipynb").read_text())
    released = json.loads((course.root / "release" / exercise / f"{exercise}.ipynb").read_text())
    solutions = {
        cell["id"]: cell["source"]
        for cell in source["cells"]
        if cell["metadata"].get("nbgrader", {}).get("solution")
    }
    for i in range(count):
        notebook: dict[str, Any] = json.loads(json.dumps(released))
        for cell in notebook["cells"]:
            if i % 10 and cell["id"] in solutions:
                cell["source"] = (
                    f"# student {i}\n" * (cell["cell_type"] == "code") + solutions[cell["id"]]
                )
        folder = course.root / "submitted" / f"student{i:04}" / exercise
        folder.mkdir(parents=True)
        (folder / f"{exercise}.ipynb").write_text(json.dumps(notebook))


def _marks(course: Course, exercise: str) -> Marks:
    coursedir, _ = nbgrader_of(course)
    with open_gradebook(coursedir) as book:
        return {
            submission.student_id: {
                grade.name: grade.auto_score
                for notebook in submission.notebooks
                for grade in notebook.grades
            }
            for submission in book.find_assignment(exercise).submissions
        }


# -- the others


def _plain_copy(course: Course, exercise: str, count: int) -> Path:
    """The same course for nbgrader alone, whose check cells fail where the visible check fails."""
    root = course.root.parent / "plain"
    shutil.copytree(course.root, root)
    for folder in sorted((root / "submitted").iterdir())[count:]:
        shutil.rmtree(folder)
    (root / "nbgrader_config.py").write_text(PLAIN_CONFIG.format(root=str(root), stub=TEXT_STUB))
    path = root / "source" / exercise / f"{exercise}.ipynb"
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        about = cell["metadata"].get("nbgrader", {})
        if about.get("grade") and not about.get("solution"):
            call = cell["source"].split("\n")[-1]
            cell["source"] = (
                'import os; os.environ["NBGRADER_EXECUTION"] = "validate"\n'
                f"if not {call}:\n    raise AssertionError"
            )
    path.write_text(json.dumps(notebook))
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", "--force", exercise]
    subprocess.run(command, cwd=root, env=_environment(), check=True, capture_output=True)
    return root


def _otter(folder: Path) -> Path:
    """The Python that has otter, in an environment of its own; what the exercises need comes from
    this one."""
    python = folder / "bin" / "python"
    paths = sysconfig.get_paths("venv", {"base": str(folder), "platbase": str(folder)})
    more = Path(paths["purelib"]) / "of-the-bench.pth"
    if not more.is_file():  # written last
        if folder.exists():
            raise SystemExit(f"{folder} is there already; remove it, or name another folder")
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", OTTER], check=True)
        more.write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python


def _with_otter(
    python: Path, course: Course, plain: Path, exercise: str, count: int, jobs: int
) -> tuple[Way, Marks]:
    folder = course.root.parent
    autograder, marks = folder / "autograder.zip", folder / "otter.json"
    release = course.root / "release" / exercise
    notebook = json.loads((release / f"{exercise}.ipynb").read_text())
    with zipfile.ZipFile(autograder, "w") as archive:
        archive.writestr("otter_config.json", json.dumps({"pdf": False}))
        for path in release.rglob("*"):
            if path.is_file() and path.suffix != ".ipynb":
                archive.write(path, Path("files", path.relative_to(release)))
        for cell in notebook["cells"]:
            about = cell["metadata"].get("nbgrader", {})
            if about.get("grade") and not about.get("solution"):
                task = about["grade_id"].removeprefix(CHECK_PREFIX)
                test = OTTER_TEST.format(task=task, points=float(about["points"]))
                archive.writestr(f"tests/{task}.py", test)
    script = Path(__file__).with_name("otter_class.py")
    given = [autograder, plain / "submitted", exercise, jobs, marks]
    way = _measured("otter run", count, folder, [str(python), str(script), *map(str, given)])
    found = json.loads(marks.read_text())
    return way, {
        student: {f"{CHECK_PREFIX}{task}": score for task, score in scores.items()}
        for student, scores in found.items()
    }


if __name__ == "__main__":
    sys.exit(main())
