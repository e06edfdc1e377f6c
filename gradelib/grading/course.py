"""A course: a folder in nbgrader's layout with settings of its own.

This module makes one from exercises, opens one, and loads the course's checks by the name that its
settings give.
"""

from __future__ import annotations

import importlib
import json
import secrets
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from string import Template
from types import ModuleType

from gradelib.checks import Check, PreparedCheck
from gradelib.grading import release
from gradelib.grading.errors import CourseError, Problem, SourceError
from gradelib.grading.sandbox import NAMES
from gradelib.grading.source import Exercise, find_exercises, read_exercise

SETTINGS = "course.toml"
TEMPLATES = Path(__file__).parent / "templates" / "course"
THREATS = Path(__file__).parent / "sandbox" / "THREATS.md"
DEFAULT_CHECKS = "solutions.checks"


@dataclass(frozen=True)
class Settings:
    """What a course keeps for itself.

    checks: import name of the package that holds its checks.
    seed: secret; hidden cases are drawn from it.
    isolation: name of the isolation that answers run in, or None for the best there is.
    """

    checks: str
    seed: str
    isolation: str | None = None


@dataclass(frozen=True)
class Course:
    """An open course."""

    root: Path
    settings: Settings

    @classmethod
    def open(cls, root: Path) -> Course:
        """The course in a folder, or in one of the folders above it. Raises CourseError when there
        is none or its settings are not usable."""
        root = root.resolve()
        for folder in (root, *root.parents):
            if (folder / SETTINGS).is_file():
                return cls(folder, _read_settings(folder / SETTINGS))
        raise CourseError(
            f"{root} is not a course: it has no {SETTINGS}. Make one: one-gpu course new DIR"
        )

    def checks(self, exercise: str) -> dict[str, PreparedCheck]:
        """The exercise's checks, drawn from the course's seed."""
        return prepared_checks(self.settings.checks, exercise, self.settings.seed)


def _read_settings(path: Path) -> Settings:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{path}: {error}") from error
    wanted = {"checks": True, "seed": True, "isolation": False}
    for name, needed in wanted.items():
        if needed and name not in data:
            raise CourseError(f"{path}: `{name}` is missing")
        if name in data and (not isinstance(data[name], str) or not data[name]):
            raise CourseError(f"{path}: `{name}` must be text, got {data[name]!r}")
    if data.get("isolation", NAMES[0]) not in NAMES:
        raise CourseError(f"{path}: `isolation` must be one of {', '.join(NAMES)}")
    if unknown := set(data) - set(wanted):
        raise CourseError(f"{path}: unknown {sorted(unknown)}; known: {', '.join(wanted)}")
    return Settings(**data)


# -- checks


def checks_package(name: str) -> ModuleType:
    """The package of checks that a course names; the only place where grading code meets it.

    It has `EXERCISES`, a mapping from exercises to modules, and `load(exercise)`, which gives a
    Check per task. Raises CourseError when it cannot be imported or lacks these.
    """
    try:
        package = importlib.import_module(name)
    except ImportError as error:
        raise CourseError(
            f"the checks {name!r} cannot be imported ({error}). Install the checkout that holds them into this "
            "environment: pip install -e ."
        ) from error
    if not hasattr(package, "EXERCISES") or not callable(getattr(package, "load", None)):
        raise CourseError(
            f"{name} is not a package of checks: it has no EXERCISES and load(exercise)"
        )
    return package


def load_checks(name: str, exercise: str) -> dict[str, Check]:
    """The checks of one exercise by task, from the package `name`."""
    package = checks_package(name)
    if exercise not in package.EXERCISES:
        raise CourseError(
            f"{name} has no checks for exercise {exercise!r}; it has {', '.join(sorted(package.EXERCISES))}"
        )
    checks: dict[str, Check] = package.load(exercise)
    return checks


@cache
def prepared_checks(name: str, exercise: str, seed: str) -> dict[str, PreparedCheck]:
    """`load_checks`, with the hidden cases drawn and every expected value worked out."""
    try:
        checks = {
            task: one.prepare(task, seed) for task, one in load_checks(name, exercise).items()
        }
    except ValueError as error:
        raise CourseError(f"{name}, exercise {exercise}: {error}") from error
    # A rule's example of breaking it is for tests; without it a check can go to another process.
    return {
        task: replace(one, rules=tuple(replace(rule, wrong=None) for rule in one.rules))
        for task, one in checks.items()
    }


def sources_beside(checks: str) -> Path:
    """Where exercises are looked for unless told: the folder `exercises` beside the checks'
    package."""
    top = checks_package(checks).__name__.split(".")[0]
    file = importlib.import_module(top).__file__
    return (Path(file).parent.parent if file else Path.cwd()) / "exercises"


# -- making


def read_sources(
    folder: Path, checks: str, names: Sequence[str] | None = None
) -> list[tuple[Exercise, dict[str, Check]]]:
    """The exercises of a folder with their checks, all of them or those named. Raises CourseError or
    SourceError with everything that is wrong."""
    found = find_exercises(folder)
    if unknown := set(names or ()) - set(found):
        raise CourseError(
            f"{folder} has no exercise {', '.join(sorted(unknown))}; it has {', '.join(found)}"
        )
    pairs = []
    problems: list[Problem] = []
    for name in names or found:
        try:
            exercise = read_exercise(found[name])
            tests = load_checks(checks, name)
            release.require_matching(exercise, tests)
            pairs.append((exercise, tests))
        except SourceError as error:
            problems += error.problems
    if problems:
        raise SourceError(problems)
    return pairs


def new_course(
    root: Path,
    exercises: Sequence[tuple[Exercise, Mapping[str, Check]]],
    settings: Settings | None = None,
) -> Course:
    """Make a course directory. Everything is made in memory first, so an error leaves nothing behind.

    Raises CourseError when `root` exists.
    """
    settings = settings or Settings(DEFAULT_CHECKS, secrets.token_hex(16))
    root = root.resolve()
    if root.exists():
        raise CourseError(f"{root} exists already; nothing was written. Name a new folder.")
    files = dict(_frame(root.name, settings, [exercise for exercise, _ in exercises]))
    for exercise, checks in exercises:
        prepared = {task: check.prepare(task, settings.seed) for task, check in checks.items()}
        for name, content in release.source_files(exercise, checks, prepared).items():
            files[f"source/{exercise.name}/{name}"] = content
    root.mkdir(parents=True, mode=0o700)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)
    (root / "submitted").mkdir()
    return Course(root, settings)


def _points(exercise: Exercise) -> str:
    written = sum(exercise.written_points.values())
    return f"{sum(exercise.points.values()):g}" + (f" + {written:g} written" if written else "")


def _frame(title: str, settings: Settings, exercises: Sequence[Exercise]) -> dict[str, bytes]:
    rows = "\n".join(
        f"| `{exercise.name}` | {exercise.title} | {len(exercise.points)} | {_points(exercise)} |"
        for exercise in exercises
    )
    values = {
        "title": title,
        "course_id": json.dumps(title),
        "first": exercises[0].name if exercises else "EXERCISE",
        "exercises": rows,
        "threats": str(THREATS),
        "checks": settings.checks,
        "seed": settings.seed,
        "isolation": f'isolation = "{settings.isolation}"'
        if settings.isolation
        else '# isolation = "bubblewrap"',
    }
    frame = {}
    for name in (SETTINGS, "nbgrader_config.py", "README.md"):
        template = Template((TEMPLATES / f"{name}.in").read_text(encoding="utf-8"))
        frame[name] = template.substitute(values).encode()
    return frame
