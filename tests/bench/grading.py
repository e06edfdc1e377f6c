"""How fast a class is graded: nbgrader's own autograde against `one-gpu grade`, in one run.

`python tests/bench/grading.py [--students 100] [--exercise 21_number_formats]` makes a course, hands in
the reference with small changes for every student, grades the class both ways, and prints seconds a
submission, the ratio and the peak memory. The marks of the judged tasks must be equal: nbgrader runs
the visible checks in the learner's kernel, so only right and untouched answers are handed in.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gradelib.grading.course import Course, Settings, new_course, read_sources, sources_beside
from gradelib.grading.gradebook import nbgrader_of, open_gradebook
from gradelib.grading.layout import TEXT_STUB

ROOT = Path(__file__).parents[2]
CHECKS = "solutions.checks"
# nbgrader as it is: it executes the notebook in a kernel. Its check cells are let through, so that
# they cost what a visible test costs.
PLAIN_CONFIG = """
c = get_config()
c.CourseDirectory.root = {root!r}
c.ClearSolutions.code_stub = {{"python": "..."}}
c.ClearSolutions.text_stub = {stub!r}
"""


def main() -> int:
    """Run the comparison; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--exercise", default="21_number_formats")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--plain-students", type=int, help="fewer for nbgrader, to save time")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    plain_students = options.plain_students or options.students
    with tempfile.TemporaryDirectory(prefix="one-gpu-bench-") as folder:
        course = _course(Path(folder) / "course", options.exercise)
        _hand_in(course, options.exercise, options.students)
        plain = _plain_copy(course, options.exercise, plain_students)
        theirs = _timed(plain, [sys.executable, "-m", "nbgrader", "autograde", options.exercise])
        command = [sys.executable, "-m", "gradelib.grading.cli", "grade", options.exercise]
        ours = _timed(course.root, [*command, "--jobs", str(options.jobs), "--json"])
        same = _marks(Course.open(plain), options.exercise)
        found = _marks(course, options.exercise)
        equal = all(found[student] == marks for student, marks in same.items())
    result = {
        "exercise": options.exercise,
        "students": options.students,
        "jobs": options.jobs,
        "nbgrader_seconds_per_submission": theirs["seconds"] / plain_students,
        "one_gpu_seconds_per_submission": ours["seconds"] / options.students,
        "nbgrader_cpu_seconds_per_submission": theirs["cpu_seconds"] / plain_students,
        "one_gpu_cpu_seconds_per_submission": ours["cpu_seconds"] / options.students,
        "ratio": (theirs["seconds"] / plain_students) / (ours["seconds"] / options.students),
        "nbgrader_peak_mib": theirs["peak_mib"],
        "one_gpu_peak_mib": ours["peak_mib"],
        "equal_marks": equal,
    }
    for name, value in result.items():
        if not options.json:
            sys.stdout.write(
                f"{name}: {value:.3g}\n" if isinstance(value, float) else f"{name}: {value}\n"
            )
    if options.json:
        sys.stdout.write(json.dumps(result, indent=1) + "\n")
    return 0 if equal else 1


def _environment() -> dict[str, str]:
    return os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }


# Runs a command and prints what it and its children took; in a process of its own, since the peak of
# all children ever waited for is what a process can ask for.
MEASURE = """
import json, resource, subprocess, sys, time
started = time.monotonic()
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({
    "status": done.returncode,
    "error": done.stderr[-3000:],
    "seconds": time.monotonic() - started,
    "cpu_seconds": used.ru_utime + used.ru_stime,
    "peak_mib": used.ru_maxrss / 1024,
}))
"""


def _timed(folder: Path, command: list[str]) -> dict[str, Any]:
    """Wall time, CPU time of it and its children, and the memory of its largest process."""
    measured = subprocess.run(
        [sys.executable, "-c", MEASURE, *command],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(measured.stdout)
    if found["status"]:
        raise SystemExit(f"{command} failed:\n{found['error']}")
    return found


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


def _marks(course: Course, exercise: str) -> dict[str, dict[str, float | None]]:
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


if __name__ == "__main__":
    sys.exit(main())
