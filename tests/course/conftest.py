"""A tiny released course, copied anew for every test that asks for one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gradelib.grading.course import Course
from gradelib.grading.layout import Layout
from tests.conftest import need_module

need_module("nbgrader")

from tests.course.tools import TINY, make_course  # noqa: E402


@pytest.fixture(scope="session")
def released_course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """The tiny course; tests copy it and leave it as it is."""
    return make_course(tmp_path_factory.mktemp("course") / "tiny")


@pytest.fixture
def course(released_course: Course, tmp_path: Path) -> Course:
    """A course of the test's own."""
    root = tmp_path / "tiny"
    shutil.copytree(released_course.root, root)
    return Course.open(root)


@pytest.fixture(scope="session")
def layout(released_course: Course) -> Layout:
    """The tiny exercise's release."""
    return Layout.load(released_course.root / "release" / TINY / f"{TINY}.ipynb")
