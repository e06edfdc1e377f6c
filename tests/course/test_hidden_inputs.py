"""What an answer says of visible cases is heard, and carries no hidden case's inputs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gradelib.grading import grade
from gradelib.grading.course import Course
from gradelib.grading.layout import Layout
from gradelib.grading.work import Isolation, isolation
from tests.course.tools import RIGHT, TINY, answered, released

KEEP = "import sys\nseen = sys.__dict__.setdefault('seen', [])\n"
PRINTS = {
    "packed_bytes": f"{KEEP}def packed_bytes(count, bits):\n    seen.append((count, bits))\n"
    "    print('saw', seen)\n    return -(-count * bits // 8)\n",
    "spread-2": f"{KEEP}def spread(values):\n    seen.append(list(values))\n    print('saw', seen)\n"
    "    mean = sum(values) / len(values)\n"
    "    return {'mean': mean, 'variance': sum((v - mean)**2 for v in values) / len(values)}\n",
    "settings": f"{KEEP}def settings():\n    print('saw', seen)\n    return {{'rank': 16}}\n",
}
RAISES = {
    **PRINTS,
    "spread-2": f"{KEEP}def spread(values):\n    raise ValueError(f'saw {{seen}}')\n",
    "settings": f"{KEEP}def settings():\n    raise ValueError(f'saw {{seen}}')\n",
}
LATE = {
    **PRINTS,
    "packed_bytes": f"{KEEP}def packed_bytes(count, bits):\n    seen.append((count, bits))\n"
    "    if len(seen) > 3: print('saw', seen)\n    return -(-count * bits // 8)\n",
}


@pytest.fixture(scope="module")
def place() -> Iterator[Isolation]:
    """Answers in a process of their own, without isolation."""
    made = isolation("none")
    yield made
    made.close()


@pytest.mark.parametrize("answers", [PRINTS, RAISES, LATE], ids=["prints", "raises", "late"])
def test_no_words_of_an_answer_carry_hidden_inputs(
    course: Course, place: Isolation, answers: dict[str, str]
) -> None:
    layout = Layout.load(course.root / "release" / TINY / f"{TINY}.ipynb")
    checks = course.checks(TINY)
    data = json.dumps(answered(released(course), {**RIGHT, **answers})).encode()
    result = grade.grade(data, layout, checks, place)
    shown = " ".join(result.printed.values())
    shown += " ".join(verdict.message for verdict in result.verdicts.values())
    assert "saw" in shown
    hidden = [one for check in checks.values() for one in check.cases if not one.visible]
    assert hidden
    for one in hidden:
        for text in (repr(list(one.args))[1:-1], repr(one.args)):
            assert text not in shown
