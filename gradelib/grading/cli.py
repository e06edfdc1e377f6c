"""The command `one-gpu`: make courses, check sources, grade, list grades.

Exit status: 0 when all is well, 1 when a person should look at something (named in the output), 2
when nothing was done because of an error, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradelib.grading import imports
from gradelib.grading.errors import CourseError, SourceError

ATTENTION = 1
FAILED = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        with imports.left_out(*imports.UNUSED):
            status: int = options.run(options)
    except SourceError as error:
        _complain(str(error), options, problems=[_problem(each) for each in error.problems])
        return FAILED
    except CourseError as error:
        _complain(str(error), options)
        return FAILED
    except KeyboardInterrupt:
        _complain("Stopped. What was done is kept; the same command goes on from there.", options)
        return INTERRUPTED
    return status


def _problem(problem: Any) -> dict[str, Any]:
    return {"file": str(problem.path), "line": problem.line, "message": problem.message}


def _complain(message: str, options: argparse.Namespace, **data: Any) -> None:
    if options.json:
        _print_json({"error": message, **data})
    sys.stderr.write(f"{message}\n")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _print_json(data: Any) -> None:
    _print(json.dumps(data, indent=1, ensure_ascii=False))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="one-gpu", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(parent: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = parent.add_parser(name, help=text, description=text)
        made.add_argument("--json", action="store_true", help="print JSON, for scripts")
        made.set_defaults(run=run)
        return made

    def sources(made: argparse.ArgumentParser) -> None:
        made.add_argument(
            "--checks",
            default="solutions.checks",
            metavar="PACKAGE",
            help="import name of the package of checks (default: solutions.checks)",
        )
        made.add_argument(
            "--sources",
            type=Path,
            metavar="FOLDER",
            help="folder of the exercises (default: `exercises` beside the package of checks)",
        )

    course = commands.add_parser("course", help="make a course")
    of_course = course.add_subparsers(required=True, metavar="COMMAND")
    new = command(of_course, "new", _new, "Make an nbgrader course directory from the exercises.")
    new.add_argument("directory", type=Path, metavar="DIR", help="must not exist yet")
    new.add_argument("--exercises", nargs="+", metavar="NAME", help="default: all of them")
    new.add_argument("--seed", help="secret from which hidden cases are drawn (default: a new one)")
    sources(new)

    bundle = command(
        commands,
        "bundle",
        _bundle,
        "Write exercises for learners, each as a folder and a zip file.",
    )
    bundle.add_argument("exercises", nargs="*", metavar="EXERCISE", help="default: all of them")
    bundle.add_argument("--to", type=Path, required=True, metavar="DIR", help="where to write")
    sources(bundle)

    check = command(
        commands, "check-sources", _check_sources, "Check exercises and their checks, for authors."
    )
    check.add_argument("exercises", nargs="*", metavar="NAME", help="default: all of them")
    sources(check)

    collect = command(
        commands, "collect", _collect, "Find renamed files, and students without a submission."
    )
    collect.add_argument("exercise", metavar="EXERCISE")
    _add_course(collect)

    grade = command(
        commands,
        "grade",
        _grade,
        "Grade a class in parallel, with nbgrader autograde's marks. Run it again after an interruption: "
        "nothing is lost or graded twice.",
    )
    grade.add_argument("exercise", metavar="EXERCISE")
    grade.add_argument(
        "--jobs",
        type=_positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="default: all cores",
    )
    grade.add_argument("--scheduler", metavar="ADDRESS", help="use this Dask cluster instead")
    grade.add_argument("--force", action="store_true", help="grade again what was graded before")
    grade.add_argument("--student", nargs="+", default=[], metavar="ID", help="default: everyone")
    _add_course(grade)

    grades = command(commands, "grades", _grades, "Print a course's grades, task by task.")
    grades.add_argument("exercises", nargs="*", metavar="EXERCISE", help="default: all of them")
    grades.add_argument("--csv", type=Path, metavar="FILE", help="also write them to a file")
    _add_course(grades)
    return parser


def _add_course(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--course", type=Path, default=Path(), metavar="DIR", help="default: the current folder"
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _new(options: argparse.Namespace) -> int:
    from gradelib.grading import course

    if options.directory.exists():
        raise CourseError(
            f"{options.directory} exists already; nothing was written. Name a new folder."
        )
    folder = options.sources or course.sources_beside(options.checks)
    exercises = course.read_sources(folder, options.checks, options.exercises)
    settings = course.Settings(options.checks, options.seed or secrets.token_hex(16))
    made = course.new_course(options.directory, exercises, settings)
    names = [exercise.name for exercise, _ in exercises]
    if options.json:
        _print_json({"course": str(made.root), "exercises": names})
        return 0
    _print(f"Course in {made.root}: {', '.join(names)}")
    _print(
        f"Next: cd {options.directory} && nbgrader generate_assignment {names[0]}; see README.md there."
    )
    return 0


def _bundle(options: argparse.Namespace) -> int:
    from gradelib.grading import bundle, course

    folder = options.sources or course.sources_beside(options.checks)
    # All are read first, so that an error is met before anything is written.
    exercises = course.read_sources(folder, options.checks, options.exercises or None)
    rows: list[dict[str, Any]] = []
    for exercise, _ in exercises:
        kept = bundle.write(exercise.path.parent, options.checks, options.to)
        notebook = options.to / exercise.name / f"{exercise.name}.ipynb"
        rows.append(
            {
                "exercise": exercise.name,
                "notebook": str(notebook),
                "zip": str(options.to / f"{exercise.name}.zip"),
                "kept": [str(path) for path in kept],
            }
        )
    if options.json:
        _print_json(rows)
        return 0
    for row in rows:
        _print(row["notebook"])
        for path in row["kept"]:
            _print(f"  {path} was there already and is kept. To start afresh, remove it first.")
    return 0


def _check_sources(options: argparse.Namespace) -> int:
    from gradelib.grading import course

    folder = options.sources or course.sources_beside(options.checks)
    exercises = course.read_sources(folder, options.checks, options.exercises)
    rows: list[dict[str, Any]] = []
    for exercise, checks in exercises:
        course.prepared_checks(options.checks, exercise.name, "check-sources")
        rows.append(
            {
                "exercise": exercise.name,
                "minutes": exercise.minutes,
                "tasks": len(checks),
                "points": sum(exercise.points.values()),
                "written": len(exercise.written_points),
                "written_points": sum(exercise.written_points.values()),
            }
        )
    if options.json:
        _print_json(rows)
    else:
        for row in rows:
            written = " + {written_points:g} written".format(**row) if row["written"] else ""
            tasks = "{exercise}: {tasks} tasks, {points:g}".format(**row)
            _print(f"{tasks}{written} points, {row['minutes']} minutes")
    return 0


def _collect(options: argparse.Namespace) -> int:
    from gradelib.grading import batch, collect, course, gradebook

    opened = course.Course.open(options.course)
    coursedir, _ = gradebook.nbgrader_of(opened)
    notebooks = list(batch.context_of(opened, coursedir, options.exercise).layouts)
    found = collect.collect(
        opened.root / coursedir.submitted_directory, options.exercise, notebooks
    )
    if options.json:
        _print_json(
            [
                {"student": each.student, "files": sorted(each.files), "note": each.note}
                for each in found
            ]
        )
    else:
        for each in found:
            _print(f"{each.student}: {each.note or ('ok' if each.files else 'no submission')}")
    return 0 if all(each.files for each in found) else ATTENTION


def _grade(options: argparse.Namespace) -> int:
    with imports.not_collecting():
        from gradelib.grading import batch, course, report

    opened = course.Course.open(options.course)
    with report.progress_bar(hidden=options.json) as progress:
        result = batch.grade_class(
            opened,
            options.exercise,
            jobs=options.jobs,
            scheduler=options.scheduler,
            force=options.force,
            students=options.student,
            progress=progress,
        )
    if options.json:
        _print_json(report.as_data(result))
    else:
        report.show(result)
    return ATTENTION if result.needs_a_person else 0


def _grades(options: argparse.Namespace) -> int:
    from gradelib.grading import course, exports, gradebook, report

    coursedir, _ = gradebook.nbgrader_of(course.Course.open(options.course))
    gradebook.require_known(coursedir, options.exercises)
    with gradebook.open_gradebook(coursedir) as book:
        rows = list(exports.task_rows(book, set(options.exercises)))
    columns = list(dict.fromkeys(column for row in rows for column in row))
    if options.csv is not None:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            exports.write_csv(file, columns, ({**dict.fromkeys(columns), **row} for row in rows))
    if options.json:
        _print_json(rows)
        return 0
    if not rows:
        _print("No submission has been graded yet.")
    report.show_grades(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
