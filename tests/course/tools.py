"""What the course tests share: a tiny course, submissions to it, and nbgrader's own commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from nbgrader.converters import Autograde, BaseConverter, GenerateAssignment, GenerateFeedback

from gradelib.grading.course import Course, Settings, new_course, read_sources
from gradelib.grading.gradebook import alembic_on_path, nbgrader_of, open_gradebook

DATA = Path(__file__).parent / "data"
SOURCES = DATA / "exercises"
CHECKS = "tiny_checks"
TINY = "01_tiny"
SETTINGS = Settings(CHECKS, "a seed for tests", "none")
if str(DATA) not in sys.path:
    sys.path.append(str(DATA))

RIGHT = {
    "packed_bytes": "def packed_bytes(count, bits):\n    return -(-count * bits // 8)\n",
    "spread": "def _square(value):\n    return value**2\n",
    "spread-2": (
        "def spread(values):\n    mean = sum(values) / len(values)\n"
        "    return {'mean': mean, 'variance': sum(_square(v - mean) for v in values) / len(values)}\n"
    ),
    "settings": "def settings():\n    return {'rank': 16}\n",
    "what_did_you_observe": "The half-empty byte.",
}
POINTS = {"packed_bytes": 2.0, "spread": 3.0, "settings": 1.5}
TASKS = tuple(POINTS)


def make_course(root: Path, settings: Settings = SETTINGS) -> Course:
    """A course with the tiny exercise, released."""
    course = new_course(root, read_sources(SOURCES, settings.checks, [TINY]), settings)
    generate_assignment(course)
    return course


def generate_assignment(course: Course, assignment: str = TINY, *, force: bool = False) -> None:
    """nbgrader generate_assignment."""
    _run(GenerateAssignment, course, assignment, force)


def autograde(course: Course, assignment: str = TINY, *, force: bool = False) -> None:
    """nbgrader autograde."""
    _run(Autograde, course, assignment, force)


def generate_feedback(course: Course, assignment: str = TINY) -> None:
    """nbgrader generate_feedback."""
    _run(GenerateFeedback, course, assignment, True)


def _run(kind: type[BaseConverter], course: Course, assignment: str, force: bool) -> None:
    coursedir, config = nbgrader_of(course)
    coursedir.assignment_id = assignment
    converter = kind(coursedir=coursedir, config=config)
    converter.force = force
    with alembic_on_path():
        converter.start()


def released(course: Course, assignment: str = TINY) -> dict[str, Any]:
    """The notebook that learners get."""
    path = course.root / "release" / assignment / f"{assignment}.ipynb"
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


def answered(
    notebook: Mapping[str, Any],
    answers: Mapping[str, str],
    edit: Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]:
    """The notebook with these texts in its answer cells."""
    made = deepcopy(dict(notebook))
    for cell in made["cells"]:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if grade_id in answers:
            cell["source"] = answers[grade_id]
    if edit is not None:
        edit(made)
    return made


def code_cell(source: str, **metadata: Any) -> dict[str, Any]:
    """A code cell as an editor without cell ids writes it."""
    return {
        "cell_type": "code",
        "source": source,
        "metadata": metadata,
        "outputs": [],
        "execution_count": None,
    }


def cell_of(notebook: Mapping[str, Any], grade_id: str) -> dict[str, Any]:
    """The cell with this nbgrader id."""
    cell: dict[str, Any] = next(
        cell
        for cell in notebook["cells"]
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id
    )
    return cell


def hand_in(
    course: Course, student: str, file: Mapping[str, Any] | bytes, name: str = f"{TINY}.ipynb"
) -> Path:
    """Put a student's file where an instructor collects it."""
    path = course.root / "submitted" / student / TINY / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file if isinstance(file, bytes) else json.dumps(file).encode())
    return path


def autograded(course: Course, student: str) -> dict[str, Any]:
    """A student's graded notebook."""
    path = course.root / "autograded" / student / TINY / f"{TINY}.ipynb"
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def scores(course: Course, assignment: str = TINY) -> dict[str, dict[str, float | None]]:
    """Automatic points in the gradebook, by student and task."""
    coursedir, _ = nbgrader_of(course)
    with open_gradebook(coursedir) as book:
        return {
            submission.student_id: {
                grade.name.removeprefix("check-"): grade.auto_score
                for notebook in submission.notebooks
                for grade in notebook.grades
            }
            for submission in book.find_assignment(assignment).submissions
        }


def gradebook_rows(course: Course, assignment: str = TINY) -> list[tuple[Any, ...]]:
    """Everything that grading writes into a gradebook but for its random ids, sorted."""
    coursedir, _ = nbgrader_of(course)
    rows: list[tuple[Any, ...]] = []
    with open_gradebook(coursedir) as book:
        rows += [("student", each.id, each.first_name) for each in book.students]
        for submission in book.find_assignment(assignment).submissions:
            who = submission.student_id
            rows.append(("submission", who, str(submission.timestamp), submission.score))
            for notebook in submission.notebooks:
                penalty = notebook.late_submission_penalty
                rows.append(("notebook", who, notebook.name, penalty, notebook.needs_manual_grade))
                rows += [
                    (
                        "grade",
                        who,
                        each.name,
                        each.auto_score,
                        each.manual_score,
                        each.needs_manual_grade,
                    )
                    for each in notebook.grades
                ]
                rows += [
                    ("comment", who, each.name, each.auto_comment, each.manual_comment)
                    for each in notebook.comments
                ]
    return sorted(rows, key=repr)
