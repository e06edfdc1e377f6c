"""A malformed exercise is refused with file and line, and nothing is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradelib.grading import cli
from gradelib.grading.errors import SourceError
from gradelib.grading.source import Role, read_exercise
from tests.course.tools import CHECKS, SOURCES, TINY

TEXT = (SOURCES / TINY / f"{TINY}.md").read_text(encoding="utf-8")


def _write(folder: Path, text: str) -> Path:
    path = folder / TINY / f"{TINY}.md"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def _line_of(text: str, part: str, nth: int = 1) -> int:
    position = -1
    for _ in range(nth):
        position = text.index(part, position + 1)
    return text[:position].count("\n") + 1


def test_an_exercise_is_read_with_its_tasks_points_and_lines() -> None:
    exercise = read_exercise(SOURCES / TINY / f"{TINY}.md")
    assert (exercise.title, exercise.minutes, exercise.requires) == ("A tiny exercise", 5, "pure")
    assert exercise.points == {"packed_bytes": 2.0, "spread": 3.0, "settings": 1.5}
    lines = TEXT.split("\n")
    for cell in exercise.cells:
        first = lines[cell.line - 1]
        if cell.role in (Role.PROSE, Role.WRITTEN):
            # jupytext starts a text at the line after the last block; the text itself may be lower.
            assert first.strip() in (cell.text.split("\n")[0], "")
        else:
            assert first.startswith("```{code-cell}")


ANSWER = ":tags: [answer, task:packed_bytes]"
CHECK = ":tags: [check, task:packed_bytes, points:2]"

# name, what is replaced by what, text that marks the line to be named (after the change), message
MALFORMED = [
    ("no task on an answer", ANSWER, ":tags: [answer]", ":tags: [answer]", "without a task"),
    ("no task on a check", CHECK, ":tags: [check, points:2]", ":tags: [check, points:2]", "without a task"),
    ("no points", CHECK, ":tags: [check, task:packed_bytes]", ":tags: [check, task:packed_bytes]", "without points"),
    ("points in words", "points:2]", "points:two]", "points:two]", "points must be a number"),
    ("zero points", "points:2]", "points:0]", "points:0]", "points must be a number"),
    ("negative points", "points:2]", "points:-2]", "points:-2]", "points must be a number"),
    ("points of NaN", "points:2]", "points:nan]", "points:nan]", "points must be a number"),
    ("points on an answer", ANSWER, ":tags: [answer, task:packed_bytes, points:1]", "[answer, task:packed_bytes, points:1]", "points belong to the check"),
    ("unknown tag", ANSWER, ":tags: [answer, task:packed_bytes, solution]", "task:packed_bytes, solution", "unknown tag 'solution'"),
    ("two roles", ANSWER, ":tags: [answer, check, task:packed_bytes]", "[answer, check,", "one role"),
    ("a task that is no name", "[answer, task:packed_bytes]", "[answer, task:packed-bytes]", "task:packed-bytes", "named as a function"),
    ("a task on an example", "```{code-cell}\n3 * 4 / 8", "```{code-cell}\n:tags: [task:packed_bytes]\n3 * 4 / 8", ":tags: [task:packed_bytes]", "has no task"),
    ("check of another task", 'check("packed_bytes", packed_bytes)', 'check("spread", packed_bytes)', CHECK, "alone"),
    ("check that does more", 'check("packed_bytes", packed_bytes)', 'check("packed_bytes", packed_bytes)\nprint()', CHECK, "alone"),
    ("no such setup", 'checks_for("01_tiny")', 'checks_for("02_tiny")', "---", "no setup cell"),
    ("no helpers", ":tags: [helpers]\n", "", "---", "one helpers cell"),
    ("stub without a placeholder", '    """A configuration with the keys `rank` and `targets`."""\n    ...', '    return {}', "task:settings]", "`...` as its body"),
    ("stub that does not parse", "def settings():", "def settings(:", "task:settings]", "not Python"),
    ("stub of another name", "def settings():", "def setting():", "task:settings]", "defines no function or class 'settings'"),
    ("a misspelt code cell", "```{code-cell}\n3 * 4 / 8", "```{code-cel}\n3 * 4 / 8", "```{code-cel}", "write ```{code-cell}"),
    ("front matter key missing", "  minutes: 5\n", "", "exercise:", "needs exactly the keys"),
    ("minutes in words", "minutes: 5", "minutes: five", "exercise:", "minutes must be a whole number"),
    ("unknown requirement", "requires: pure", "requires: numpy", "exercise:", "must be one of pure, torch"),
    ("front matter that is no YAML", "  title: A tiny", "  title: [A tiny", "---", ""),
    ("another kernel", "  name: python3", "  name: julia", "---", "kernelspec"),
    ("tags that are no list", ANSWER, ":tags: {answer: 1}", ":tags: {answer: 1}", "tags"),
    ("tags that are no YAML", ANSWER, ":tags: [answer, task:packed_bytes", ":tags: [answer, task:packed_bytes\n", ""),
    ("a rubric of another task", "[rubric, task:what_did_you_observe]", "[rubric, task:settings]", "[rubric,", "right after the written cell of its task 'settings'"),
    ("a rubric without a task", "[rubric, task:what_did_you_observe]", "[rubric]", "[rubric]", "without a task"),
    ("a rubric with points", "[rubric, task:what_did_you_observe]", "[rubric, task:what_did_you_observe, points:2]", "[rubric,", "points belong to the check"),
    ("a rubric that ends the solution", "- 1 point: names", "### END SOLUTION\n- 1 point: names", "[rubric,", "solution mark"),
    ("written metadata that is no JSON", '{"tags": ["written"', '{"tags": ["written"]', '+++ {"tags"', ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "where", "message"),
    [row[1:] for row in MALFORMED],
    ids=[row[0] for row in MALFORMED],
)
def test_a_malformed_source_is_an_error_that_names_file_and_line(
    tmp_path: Path, old: str, new: str, where: str, message: str
) -> None:
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    path = _write(tmp_path, text)
    with pytest.raises(SourceError) as caught:
        read_exercise(path)
    named = _line_of(text, where)
    problem = next(each for each in caught.value.problems if message in each.message)
    assert problem.path == path
    # A cell is named by its fence, the line above its options.
    assert abs(problem.line - named) <= 1, f"{problem} should name line {named}"


def test_a_second_check_of_a_task_names_both_lines(tmp_path: Path) -> None:
    check = '```{code-cell}\n:tags: [check, task:packed_bytes, points:2]\ncheck("packed_bytes", packed_bytes)\n```\n'
    text = TEXT.replace(check, check + "\n" + check)
    path = _write(tmp_path, text)
    with pytest.raises(SourceError) as caught:
        read_exercise(path)
    [problem] = caught.value.problems
    first, second = (_line_of(text, check, nth) for nth in (1, 2))
    assert problem.line == second
    assert f"line {first}" in problem.message


def test_an_answer_without_a_check_and_a_check_without_an_answer_are_named(tmp_path: Path) -> None:
    text = TEXT.replace("[check, task:settings", "[check, task:setting", 1)
    text = text.replace('check("settings", settings)', 'check("setting", setting)')
    with pytest.raises(SourceError) as caught:
        read_exercise(_write(tmp_path, text))
    messages = [each.message for each in caught.value.problems]
    assert any("check of task 'setting' without an answer" in each for each in messages)
    assert any("answer of task 'settings' without a check" in each for each in messages)


def test_every_problem_of_a_source_is_reported_at_once(tmp_path: Path) -> None:
    text = TEXT.replace("points:2]", "points:x]").replace("minutes: 5", "minutes: 0")
    with pytest.raises(SourceError) as caught:
        read_exercise(_write(tmp_path, text))
    # Two cells have the points, and the front matter its minutes.
    assert len(caught.value.problems) == 2


def test_bytes_that_are_no_text_are_named_by_their_line(tmp_path: Path) -> None:
    path = _write(tmp_path, TEXT)
    lines = TEXT.encode().split(b"\n")
    lines[9] = b"\xff"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(SourceError) as caught:
        read_exercise(path)
    assert caught.value.problems[0].line == 10


@pytest.mark.parametrize("row", MALFORMED[:6], ids=[row[0] for row in MALFORMED[:6]])
def test_the_command_refuses_a_malformed_source_and_writes_nothing(
    tmp_path: Path, row: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    path = _write(tmp_path / "exercises", TEXT.replace(row[1], row[2], 1))
    target = tmp_path / "course"
    arguments = ["--checks", CHECKS, "--sources", str(tmp_path / "exercises")]
    assert cli.main(["course", "new", str(target), *arguments]) == cli.FAILED
    assert str(path) in capsys.readouterr().err
    assert not target.exists()
    assert cli.main(["check-sources", *arguments, "--json"]) == cli.FAILED
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert {each["file"] for each in problems} == {str(path)}


def test_a_task_without_a_check_in_the_package_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TEXT.replace("settings", "options")
    path = _write(tmp_path / "exercises", text)
    arguments = ["--checks", CHECKS, "--sources", str(tmp_path / "exercises")]
    assert cli.main(["check-sources", *arguments]) == cli.FAILED
    complaint = capsys.readouterr().err
    assert f"{path}:{_line_of(text, 'task:options') - 1}: task 'options' has no Check" in complaint
    assert "there is a Check 'settings', but no such task" in complaint
