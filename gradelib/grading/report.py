"""What a batch tells the person who started it: a progress bar, a table at the end, or plain data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from gradelib.grading import batch
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
        console.print("Some of these need a look: one-gpu grade --json says why.")
