"""The whole way of a course, with the sample class: make it, release, grade, feedback, grades.

Run `python -m solutions.demo DIR`. It ends with a table of every student's score and verdicts, and
exits with 1 when one of them is not the intended one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from gradelib.grading import batch, report
from gradelib.grading.course import Course, Settings, new_course, read_sources, sources_beside
from gradelib.grading.errors import CourseError
from gradelib.grading.unit import Graded
from gradelib.grading.work import IsolationError, isolation
from gradelib.verdicts import Status, Verdict
from solutions.checks import EXERCISES
from solutions.sample_class import EXERCISE, Student
from solutions.sample_class.students import STUDENTS

CHECKS = "solutions.checks"
# Fixed, so that two demos show the same; a real course draws its own.
SEED = "demo"
MARKS = {
    Status.CORRECT: "✓",
    Status.NOT_ATTEMPTED: "○",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m solutions.demo", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR", help="where to make the course")
    parser.add_argument(
        "--replace", action="store_true", help="remove an earlier demo in DIR first"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")
    options = parser.parse_args(arguments)
    try:
        name, unsafe = _isolation()
        students = [student for student in STUDENTS if not (unsafe and student.hostile)]
        if unsafe:
            sys.stderr.write(f"{_warning(students)} {unsafe}\n")
        course = _make(options.directory, name, replace=options.replace)
        _hand_in(course, students)
        with report.progress_bar(hidden=options.json) as progress:
            result = batch.grade_class(course, EXERCISE, jobs=options.jobs, progress=progress)
        if result.failed:
            raise CourseError(f"grading failed: {result.failed}")
        _nbgrader(course, "generate_feedback", EXERCISE)
        _nbgrader(course, "export")
        _nbgrader(course, "export", "--exporter", "gradelib.grading.exports.TaskCsvExport")
    except CourseError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    rows = [_row(student, result.graded[student.id], course) for student in students]
    if options.json:
        sys.stdout.write(
            json.dumps(_data(course, rows, result), indent=1, ensure_ascii=False) + "\n"
        )
    else:
        _show(course, rows, result, f"{_warning(students)} {unsafe}" if unsafe else "")
    return 0 if all(row["as_intended"] for row in rows) else 1


def _isolation() -> tuple[str | None, str]:
    """The isolation to name in the course, and why answers cannot be kept apart on this machine."""
    try:
        isolation().close()
    except IsolationError as error:
        # The sample class is part of this checkout: what attacks nobody may run all the same.
        return "none", str(error)
    return None, ""


def _warning(students: Sequence[Student]) -> str:
    left_out = ", ".join(each.id for each in STUDENTS if each not in students)
    return (
        "The sample class runs without isolation here, in processes of this account. "
        f"Its students whose code attacks the grader are left out: {left_out}."
    )


def _make(root: Path, name: str | None, *, replace: bool) -> Course:
    """The course, released, with this isolation."""
    if replace and (root / "course.toml").is_file():
        shutil.rmtree(root)
    exercises = read_sources(sources_beside(CHECKS), CHECKS, list(EXERCISES))
    course = new_course(root, exercises, Settings(CHECKS, SEED, name))
    for exercise in EXERCISES:
        _nbgrader(course, "generate_assignment", exercise)
    return course


def _nbgrader(course: Course, *arguments: str) -> None:
    """Run nbgrader in the course, as an instructor would."""
    binaries = str(Path(sys.executable).parent)
    environment = os.environ | {
        "PATH": os.pathsep.join([binaries, os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        ).rstrip(os.pathsep),
    }
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=course.root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CourseError(f"nbgrader {' '.join(arguments)} failed:\n{done.stderr[-3000:]}")


def _hand_in(course: Course, students: Sequence[Student]) -> None:
    path = course.root / "release" / EXERCISE / f"{EXERCISE}.ipynb"
    released = json.loads(path.read_text(encoding="utf-8"))
    for student in students:
        folder = course.root / "submitted" / student.id / EXERCISE
        folder.mkdir(parents=True)
        (folder / f"{EXERCISE}.ipynb").write_bytes(student.submission(released))
    _enrol(course, students)


def _enrol(course: Course, students: Sequence[Student]) -> None:
    from gradelib.grading import gradebook

    coursedir, _ = gradebook.nbgrader_of(course)
    with gradebook.open_gradebook(coursedir) as book:
        for student in students:
            first, last = student.name
            book.update_or_create_student(student.id, first_name=first, last_name=last)


def _row(student: Student, graded: Graded, course: Course) -> dict[str, Any]:
    verdicts = dict(graded.verdicts())
    marks = batch.marks_of(graded.notebooks[EXERCISE]["text"])
    wanted = {task: student.expects(task) for task in verdicts}
    found = {
        task: (str(verdict.status), verdict.score, verdict.misconception)
        for task, verdict in verdicts.items()
    }
    return {
        "student": student.id,
        "about": student.about,
        "score": sum(score or 0.0 for score in marks.scores.values()),
        "verdicts": verdicts,
        "as_intended": all(
            found[task] == (each.status, each.score, each.misconception)
            for task, each in wanted.items()
        ),
        "feedback": course.root / "feedback" / student.id / EXERCISE / f"{EXERCISE}.html",
    }


def _data(
    course: Course, rows: Sequence[Mapping[str, Any]], result: batch.Report
) -> dict[str, Any]:
    return {
        "course": str(course.root),
        "isolation": report.as_data(result)["isolation"],
        "seconds": round(result.seconds, 3),
        "students": [
            {
                **row,
                "verdicts": {task: verdict.to_data() for task, verdict in row["verdicts"].items()},
                "feedback": str(row["feedback"]),
            }
            for row in rows
        ],
    }


def _show(
    course: Course, rows: Sequence[Mapping[str, Any]], result: batch.Report, unsafe: str
) -> None:
    console = Console()
    table = Table(title=f"{EXERCISE}: the sample class", title_justify="left", show_lines=True)
    table.add_column("student", no_wrap=True)
    table.add_column("what was handed in", ratio=2)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("verdicts", ratio=3)
    for row in rows:
        remark = "" if row["as_intended"] else "\n(not as intended)"
        table.add_row(
            row["student"], row["about"] + remark, f"{row['score']:g}", _summary(row["verdicts"])
        )
    console.print(table)
    ran_in = ", ".join(report.as_data(result)["isolation"])
    console.print(
        f"Graded {len(rows)} submissions in {result.seconds:.1f} s. Answers ran in: {ran_in}."
    )
    if unsafe:
        console.print(unsafe)
    example = next(row["feedback"] for row in rows if row["score"] % 1 != 0)
    console.print(f"Course:   {course.root}", soft_wrap=True)
    console.print(f"Feedback: {example} and beside it", soft_wrap=True)
    console.print(
        f"Grades:   {course.root / 'grades.csv'}, {course.root / 'grades_by_task.csv'}",
        soft_wrap=True,
    )


def _summary(verdicts: Mapping[str, Verdict]) -> str:
    """Tasks by verdict, the most frequent kind in short: `✓ 5`, `decode: wrong, 50%`."""
    right = sum(verdict.status is Status.CORRECT for verdict in verdicts.values())
    blank = sum(verdict.status is Status.NOT_ATTEMPTED for verdict in verdicts.values())
    if all(verdict.status is Status.UNGRADABLE for verdict in verdicts.values()):
        return f"✗ {len(verdicts)} ungradable"
    lines = [f"{MARKS[Status.CORRECT]} {right} correct"] if right else []
    lines += [f"{MARKS[Status.NOT_ATTEMPTED]} {blank} not attempted"] if blank else []
    for task, verdict in verdicts.items():
        if verdict.status in MARKS:
            continue
        text = f"✗ {task}: {verdict.status}"
        text += f", {verdict.score:.0%}" if verdict.score else ""
        text += f" ({verdict.misconception})" if verdict.misconception else ""
        lines.append(text)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
