"""Making a course, and opening one."""

from __future__ import annotations

import ast
import json
import stat
from pathlib import Path

import pytest

from gradelib.grading import cli, grade
from gradelib.grading.course import (
    SETTINGS,
    Course,
    Settings,
    load_checks,
    new_course,
    read_sources,
)
from gradelib.grading.errors import CourseError
from tests.course.tools import CHECKS, SOURCES, TINY

NEW = ["--checks", CHECKS, "--sources", str(SOURCES)]


def test_a_course_is_complete_and_private(tmp_path: Path) -> None:
    root = tmp_path / "made"
    assert cli.main(["course", "new", str(root), *NEW, "--json"]) == 0
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert files == {
        SETTINGS,
        "README.md",
        "nbgrader_config.py",
        f"source/{TINY}/{TINY}.ipynb",
        f"source/{TINY}/{TINY}.checks.json",
    }
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    for name in files:
        assert stat.S_IMODE((root / name).stat().st_mode) == 0o600
    ast.parse((root / "nbgrader_config.py").read_text(encoding="utf-8"))
    assert "A tiny exercise" in (root / "README.md").read_text(encoding="utf-8")


def test_every_course_draws_its_own_seed_unless_one_is_given(tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert cli.main(["course", "new", str(tmp_path / name), *NEW]) == 0
    seeds = {Course.open(tmp_path / name).settings.seed for name in ("one", "two")}
    assert len(seeds) == 2
    assert all(len(seed) >= 32 for seed in seeds)
    cli.main(["course", "new", str(tmp_path / "three"), *NEW, "--seed", "mine"])
    assert Course.open(tmp_path / "three").settings.seed == "mine"


@pytest.mark.parametrize("kind", ["folder", "empty folder", "file"])
def test_a_directory_that_exists_is_left_as_it_is(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "there"
    if kind == "file":
        root.write_text("mine")
    else:
        root.mkdir()
    if kind == "folder":
        (root / SETTINGS).write_text("mine")
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    assert cli.main(["course", "new", str(root), *NEW, "--json"]) == cli.FAILED
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before
    answer = capsys.readouterr()
    assert "exists already" in answer.err
    assert "exists already" in json.loads(answer.out)["error"]


def test_a_course_is_found_from_a_folder_inside_it(tmp_path: Path) -> None:
    made = new_course(tmp_path / "c", read_sources(SOURCES, CHECKS), Settings(CHECKS, "s"))
    assert Course.open(made.root / "source" / TINY) == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("checks = ", "Invalid value"),
        ('checks = "a"', "`seed` is missing"),
        ('checks = "a"\nseed = 7', "`seed` must be text"),
        ('checks = "a"\nseed = ""', "`seed` must be text"),
        ('checks = "a"\nseed = "b"\ncolour = "red"', "unknown"),
        ('checks = "a"\nseed = "b"\nisolation = "jail"', "bubblewrap"),
    ],
)
def test_settings_that_make_no_sense_are_an_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / SETTINGS).write_text(text)
    with pytest.raises(CourseError, match=message):
        Course.open(tmp_path)


def test_a_folder_that_is_no_course_says_how_to_make_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["grades", "--course", str(tmp_path)]) == cli.FAILED
    assert "one-gpu course new" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--exercises", "99_none"], "has no exercise 99_none; it has 01_tiny"),
        (["--checks", "nowhere.checks"], "cannot be imported"),
        (["--checks", "json"], "not a package of checks"),
        (["--sources", "."], "holds no exercise"),
    ],
)
def test_unknown_names_are_errors_that_list_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert cli.main(["course", "new", str(tmp_path / "c"), *NEW, *arguments]) == cli.FAILED
    assert message in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_checks_of_an_unknown_exercise_are_an_error() -> None:
    with pytest.raises(CourseError, match="it has 01_tiny"):
        load_checks(CHECKS, "02_other")


@pytest.mark.parametrize(
    "command", [[], ["course"], ["grade"], ["nothing"], ["grade", "x", "--jobs", "0"]]
)
def test_a_command_that_is_not_complete_exits_with_2(command: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(command)
    assert caught.value.code == 2


def test_a_course_says_where_its_isolation_is_chosen(tmp_path: Path) -> None:
    exercises = read_sources(SOURCES, CHECKS, [TINY])
    course = new_course(tmp_path / "best", exercises, Settings(CHECKS, "seed"))
    path = course.root / "course.toml"
    text = path.read_text(encoding="utf-8")
    assert '# isolation = "bubblewrap"' in text
    path.write_text(text.replace("# isolation", "isolation"), encoding="utf-8")
    assert Course.open(course.root).settings == Settings(CHECKS, "seed", "bubblewrap")


@pytest.mark.parametrize("requires", ["pure", "torch"])
def test_answers_never_see_the_courses_own_checks(
    monkeypatch: pytest.MonkeyPatch, requires: str
) -> None:
    asked: dict[str, object] = {}
    monkeypatch.setattr(grade, "isolation", lambda name, **more: asked.update(more, name=name))
    grade.place_for(requires, "bubblewrap", "their_course.checks")
    assert asked["hide"] == ("their_course", "solutions")


@pytest.mark.parametrize(
    "command", ["bundle", "course new", "check-sources", "collect", "grade", "grades"]
)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([*command.split(), "--help"])
    assert caught.value.code == 0
    assert "usage: one-gpu" in capsys.readouterr().out
