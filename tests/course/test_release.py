"""What learners get: the stubs, the public checks, and nothing else."""

from __future__ import annotations

import ast
import json
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.preprocessors import ClearSolutions
from traitlets.config import Config

from gradelib.checks import PreparedCheck
from gradelib.grading import inlining, layout, release
from gradelib.grading.course import Course, find_exercises, load_checks, prepared_checks
from gradelib.grading.errors import CourseError
from gradelib.grading.source import Role, read_exercise
from gradelib.judging import LocalAnswer, judge
from tests.course.tools import (
    CHECKS,
    RIGHT,
    SOURCES,
    TINY,
    answered,
    autograde,
    cell_of,
    generate_feedback,
    hand_in,
    released,
)

ROOT = Path(__file__).parents[2]
EXERCISES = [
    pytest.param(path, package, id=name)
    for folder, package in ((SOURCES, CHECKS), (ROOT / "exercises", "solutions.checks"))
    for name, path in find_exercises(folder).items()
]
NAMESPACE = "from gradelib import checks_for, Shape\nimport math\n"


def _prepared(package: str, name: str) -> dict[str, PreparedCheck]:
    return prepared_checks(package, name, "a seed for tests")


def _cleared(notebook: dict[str, Any]) -> Any:
    """The notebook after nbgrader's own ClearSolutions, with a course's configuration."""
    config = Config()
    config.ClearSolutions.code_stub = {"python": inlining.STUB}
    config.ClearSolutions.text_stub = layout.TEXT_STUB
    node = nbformat.from_dict(json.loads(json.dumps(notebook)))
    return ClearSolutions(config=config).preprocess(node, {})[0]


@pytest.mark.parametrize(("path", "package"), EXERCISES)
def test_clearing_the_solutions_gives_the_stubs_letter_for_letter(path: Path, package: str) -> None:
    exercise = read_exercise(path)
    notebook = release.source_notebook(exercise, load_checks(package, exercise.name))
    cleared = _cleared(notebook)
    answers = [cell for cell in exercise.cells if cell.role is Role.ANSWER]
    assert answers
    for cell, made in zip(exercise.cells, cleared.cells, strict=True):
        if cell.role is Role.ANSWER:
            assert made.source == cell.text
    plain = release.released_notebook(exercise)
    for made, wanted in zip(cleared.cells, plain["cells"], strict=True):
        if not wanted["id"].startswith(layout.CHECK_PREFIX):
            assert made.source == wanted["source"]


@pytest.mark.parametrize(("path", "package"), EXERCISES)
def test_the_filled_in_solutions_are_correct_on_their_own(path: Path, package: str) -> None:
    exercise = read_exercise(path)
    notebook = release.source_notebook(exercise, load_checks(package, exercise.name))
    for task, check in _prepared(package, exercise.name).items():
        # Each task alone: a solution must not lean on another answer or on the solutions' package.
        namespace: dict[str, Any] = {}
        for cell in notebook["cells"]:
            about = cell["metadata"].get("nbgrader", {})
            if about.get("solution") and about["grade_id"].partition("-")[0] == task:
                source = NAMESPACE + cell["source"]
                assert not _imports(source) & {"solutions", CHECKS}
                exec(compile(source, task, "exec"), namespace)
        verdict = judge(LocalAnswer(namespace[task]), check)
        assert verdict, f"{exercise.name}, {task}: {verdict.message}"


def test_a_rubric_is_in_the_instructors_notebook_and_nowhere_that_a_learner_looks(
    course: Course,
) -> None:
    mark = b"MARKING-GUIDE"
    source = json.loads((course.root / "source" / TINY / f"{TINY}.ipynb").read_text())
    written = cell_of(source, "what_did_you_observe")["source"]
    assert written.startswith("Which of the three surprised you, and why?")
    assert "### BEGIN SOLUTION\n- 1 point: names one" in written
    assert written.endswith("$n = 2$.\n### END SOLUTION")
    text = cell_of(released(course), "what_did_you_observe")["source"]
    assert text == f"Which of the three surprised you, and why?\n\n{layout.TEXT_STUB}"
    hand_in(course, "ann", answered(released(course), RIGHT))
    autograde(course)
    generate_feedback(course)
    files = [path for path in course.root.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".html", ".json", ".ipynb", ".db"}
    holding = {path.relative_to(course.root) for path in files if mark in path.read_bytes()}
    assert holding == {Path("source") / TINY / f"{TINY}.ipynb"}


def _imports(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize(("path", "package"), EXERCISES)
def test_the_same_input_gives_the_same_bytes(path: Path, package: str) -> None:
    exercise = read_exercise(path)
    checks = load_checks(package, exercise.name)
    prepared = _prepared(package, exercise.name)
    first = release.source_files(exercise, checks, prepared)
    second = release.source_files(read_exercise(path), checks, prepared)
    assert first == second


@pytest.mark.parametrize(("path", "package"), EXERCISES)
def test_the_notebooks_are_valid_for_jupyter_and_nbgrader(path: Path, package: str) -> None:
    exercise = read_exercise(path)
    notebook = nbformat.from_dict(
        release.source_notebook(exercise, load_checks(package, exercise.name))
    )
    nbformat.validate(notebook)
    MetadataValidator().validate_nb(notebook)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


@pytest.mark.parametrize(("path", "package"), EXERCISES)
def test_only_visible_cases_are_released(path: Path, package: str) -> None:
    exercise = read_exercise(path)
    prepared = _prepared(package, exercise.name)
    files = release.source_files(exercise, load_checks(package, exercise.name), prepared)
    data = json.loads(files[f"{exercise.name}.checks.json"])
    for task, check in prepared.items():
        visible = sum(one.visible for one in check.cases)
        assert len(data["tasks"][task]["cases"]) == visible


def test_the_release_has_no_solution_and_no_hidden_line(released_course: Course) -> None:
    folder = released_course.root / "release" / TINY
    assert {path.name for path in folder.iterdir()} == {f"{TINY}.ipynb", f"{TINY}.checks.json"}
    text = "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())
    for secret in (
        "math.ceil",
        "SOLUTION",
        "HIDDEN",
        "RuntimeError",
        released_course.settings.seed,
    ):
        assert secret not in text
    notebook = released(released_course)
    assert (
        cell_of(notebook, "check-packed_bytes")["source"] == 'check("packed_bytes", packed_bytes)'
    )
    written = cell_of(notebook, "what_did_you_observe")["source"]
    assert written.endswith(layout.TEXT_STUB)


def test_setup_and_check_cells_are_locked_and_answers_are_not(released_course: Course) -> None:
    notebook = released(released_course)
    assert cell_of(notebook, "setup")["metadata"]["editable"] is False
    assert cell_of(notebook, "check-spread")["metadata"]["editable"] is False
    assert "editable" not in cell_of(notebook, "spread")["metadata"]


# -- filling in


def _module(name: str, text: str, folder: Path) -> ModuleType:
    (folder / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    module = ModuleType(name)
    module.__file__ = str(folder / f"{name}.py")
    exec(compile(textwrap.dedent(text), module.__file__, "exec"), module.__dict__)
    sys.modules[name] = module
    return module


def test_a_helper_whose_name_is_a_parameter_gets_a_scope_of_its_own(tmp_path: Path) -> None:
    module = _module(
        "clashing",
        """
        def bits(dtype):
            return {"int8": 8}[dtype]

        def _bytes(dtype):
            return bits(dtype) // 8

        def weigh(bits, dtype="int8", *, times=1):
            return bits * _bytes(dtype) * times
        """,
        tmp_path,
    )
    stub = 'def weigh(bits, dtype="int8", *, times=1):\n    ...'
    text = inlining.fill(stub, "weigh", module.weigh)
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    assert namespace["weigh"](5, times=3) == module.weigh(5, times=3) == 15


def test_a_class_is_filled_in_method_by_method(tmp_path: Path) -> None:
    module = _module(
        "classy",
        '''
        STEP = 2

        class Counter:
            """Counts."""

            def __init__(self, start):
                """Begin."""
                self.value = start

            def more(self):
                """Count on."""
                self.value += STEP
                return self.value
        ''',
        tmp_path,
    )
    stub = (
        'class Counter:\n    """Counts."""\n\n    def __init__(self, start):\n        """Begin."""\n        ...\n\n'
        '    def more(self):\n        """Count on."""\n        ...'
    )
    text = inlining.fill(stub, "Counter", module.Counter)
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    assert namespace["Counter"](5).more() == 7


def test_a_text_over_several_lines_keeps_its_value(tmp_path: Path) -> None:
    module = _module(
        "texty", 'def poem():\n    lines = """one\n    two"""\n    return lines\n', tmp_path
    )
    namespace: dict[str, Any] = {}
    exec(inlining.fill("def poem():\n    ...", "poem", module.poem), namespace)
    assert namespace["poem"]() == "one\n    two"


def test_a_reference_with_other_parameters_is_refused(tmp_path: Path) -> None:
    module = _module("other", "def double(value, times=2):\n    return value * times\n", tmp_path)
    with pytest.raises(CourseError, match=r"the stub takes \(x\).*value, times=2"):
        inlining.fill("def double(x):\n    ...", "double", module.double)
    with pytest.raises(CourseError, match="value, times=2"):
        inlining.fill("def double(value, times=3):\n    ...", "double", module.double)


def test_a_reference_that_is_no_function_of_a_module_is_refused() -> None:
    with pytest.raises(CourseError, match="must be a function or class"):
        inlining.fill("def double(x):\n    ...", "double", print)
