"""What a batch tells the person who started it: a progress bar, a table at the end, or plain data."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from gradelib.grading import batch
from gradelib.grading.exports import ABOUT
from gradelib.grading.unit import Graded
from gradelib.verdicts import Status


@contextmanager
def progress_bar(*, hidden: bool) -> Iterator[batch.Progress]:
    """A bar with the time left, on standard error; none when that is not a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("grading"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, disable=hidden or not console.is_terminal) as bar:
        task = bar.add_task("grading", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield progress


def as_data(result: batch.Report) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "graded": sorted(result.graded),
        "resumed": result.resumed,
        "already_graded": result.already,
        "ungradable": {name: _why(result.graded[name]) for name in result.ungradable},
        "timed_out": result.having(Status.TIMED_OUT),
        "suspicious": result.suspicious,
        "no_submission": result.missing,
        "failed": result.failed,
        "notes": notes(result),
        "isolation": sorted({each.isolation for each in result.graded.values() if each.isolation}),
        "warnings": sorted({each.warning for each in result.graded.values() if each.warning}),
        "seconds": round(result.seconds, 3),
        "needs_a_person": result.needs_a_person,
    }


def notes(result: batch.Report) -> dict[str, list[str]]:
    """Everything noted about a student's files."""
    found = {name: list(texts) for name, texts in result.notes.items()}
    for student, each in result.graded.items():
        for kept in each.notebooks.values():
            if texts := [text for _, text in kept["notes"]]:
                found.setdefault(student, []).extend(texts)
    return dict(sorted(found.items()))


def _why(graded: Graded) -> str:
    return "; ".join(filter(None, (kept["unreadable"] for kept in graded.notebooks.values())))


def show(result: batch.Report) -> None:
    """Print the report as a table: how many of each kind, and who."""
    console = Console(file=sys.stdout)
    data = as_data(result)
    table = Table(
        "", "students", "who", title=f"Graded in {result.seconds:.1f} s", title_justify="left"
    )
    rows = [
        ("graded", data["graded"]),
        ("of these taken up from an interrupted run", result.resumed),
        ("already graded before", result.already),
        ("ungradable", [f"{name} ({why})" for name, why in data["ungradable"].items()]),
        ("timed out on some task", data["timed_out"]),
        ("suspicious", data["suspicious"]),
        ("no submission", data["no_submission"]),
        ("failed", [f"{name} ({why})" for name, why in result.failed.items()]),
    ]
    for label, who in rows:
        if isinstance(who, int):
            if who:
                table.add_row(label, str(who), "")
        elif who or label == "graded":
            names = "" if label in ("graded", "already graded before") else ", ".join(who)
            table.add_row(label, str(len(who)), names)
    console.print(table)
    if data["isolation"]:
        console.print(f"Answers ran in: {', '.join(data['isolation'])}.")
    for warning in data["warnings"]:
        console.print(warning)
    if result.needs_a_person:
        more = (
            ": one-gpu grade --json has all that was noted of their files" if data["notes"] else ""
        )
        console.print(f"Some of these need a look{more}.")


def show_grades(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print `exports.task_rows` as one table for each exercise; its tasks are numbered columns, so
    that it fits a terminal."""
    # A file or a pipe has no width: nothing is folded or cut there.
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 1000)
    for assignment in dict.fromkeys(row["assignment"] for row in rows):
        mine = [row for row in rows if row["assignment"] == assignment]
        tasks = [name for name in mine[0] if name not in ABOUT]
        table = Table(title=assignment, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("student")
        table.add_column("name")
        for i in range(len(tasks)):
            table.add_column(str(i + 1), justify="right", no_wrap=True)
        table.add_column("late", justify="right", no_wrap=True)
        table.add_column("score", justify="right", no_wrap=True)
        for row in mine:
            names = " ".join(filter(None, (row["first_name"], row["last_name"])))
            late = row["late_submission_penalty"]
            score = f"{_points(row['score'])} of {_points(row['max_score'])}"
            table.add_row(
                Text(row["student_id"]),
                Text(" ".join(names.split())),  # as text: a name is no markup
                *(_points(row.get(task)) for task in tasks),
                _points(-late) if late else "",
                score,
            )
        console.print(table)
        console.print("  ".join(f"{i} {task}" for i, task in enumerate(tasks, 1)), highlight=False)
        if any(row.get(task) is None for row in mine for task in tasks):
            console.print("–: not marked yet; not in the score.")


def _points(points: float | None) -> str:
    return "–" if points is None else f"{round(points, 2):g}"
