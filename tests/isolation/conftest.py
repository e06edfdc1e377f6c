"""A small course of two tasks, and `grade`, which sends a submission to it through bubblewrap."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from gradelib.checks import Check, PreparedCheck, case, part
from gradelib.compare import relative
from gradelib.grading.work import Isolation, Limits, Work, isolation
from gradelib.judging import judge
from gradelib.verdicts import Verdict
from tests.conftest import need_command

LIMITS = Limits(load_seconds=1.0, total_seconds=30.0, memory_bytes=128 * 2**20)
# What the cheats look for. It is drawn anew for every run, so that no source file holds it.
TOKEN = secrets.token_hex(16)

HONEST = {
    "double": "def double(x):\n    return 2 * x",
    "area": (
        "def area(width, height):\n    if width < 0: raise ValueError('negative')\n"
        "    return width * height"
    ),
}


def _double(x: float) -> float:
    return 2 * x


def _area(width: float, height: float) -> float:
    if width < 0:
        raise ValueError("a width is not negative")
    return width * height


def _treasure(x: int) -> str:
    return TOKEN if x != 1 else "public"


CHECKS = {
    "double": Check(
        _double,
        [case(3), case(0.5)],
        lambda draw: [case(draw.integer(4, 1000)) for _ in range(4)],
        tolerance=relative(1e-9),
    ),
    "area": Check(
        _area,
        part("sizes", [case(2, 3)]) + part("errors", [case(-1, 3)]),
        lambda draw: part("sizes", [case(draw.integer(4, 99), 5)]),
        parts={"sizes": 0.6, "errors": 0.4},
    ),
    "treasure": Check(_treasure, [case(1)], lambda draw: [case(draw.integer(2, 10**9))]),
}


@pytest.fixture(scope="session")
def checks() -> dict[str, PreparedCheck]:
    """The course's checks."""
    prepared = {name: check.prepare(name, TOKEN) for name, check in CHECKS.items()}
    return {name: replace(check, seconds=1.0) for name, check in prepared.items()}


@pytest.fixture(scope="session")
def bubblewrap() -> Iterator[Isolation]:
    """The isolation under test, its server warm."""
    need_command("bwrap", "apt-get install bubblewrap")
    place = isolation("bubblewrap", limits=LIMITS)
    yield place
    place.close()


Grade = Callable[..., dict[str, Verdict]]


@pytest.fixture
def grade(bubblewrap: Isolation, checks: dict[str, PreparedCheck]) -> Grade:
    """Grade a submission: task -> source of its cell (or of its parts). A call may take `seconds`,
    four times that when the machine is busy."""

    def graded(
        answers: Mapping[str, str | tuple[str, ...]],
        helpers: tuple[str, ...] = (),
        place: Isolation = bubblewrap,
        seconds: float = 1.0,
    ) -> dict[str, Verdict]:
        cells = {
            task: (parts,) if isinstance(parts, str) else parts for task, parts in answers.items()
        }
        with place.open(Work((), helpers, cells)) as loaded:
            return {
                task: judge(loaded[task], replace(checks[task], seconds=seconds)) for task in cells
            }

    return graded
