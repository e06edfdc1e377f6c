"""What a learner takes home: the released notebook, the visible checks, the package, and no more."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gradelib.checks import PreparedCheck
from gradelib.grading import bundle, cli
from gradelib.grading.course import Course, prepared_checks
from gradelib.grading.errors import CourseError
from tests.conftest import need_module
from tests.course.tools import CHECKS, SOURCES, TINY, released

ROOT = Path(__file__).parents[2]


def _comparable(notebook: dict[str, Any]) -> list[Any]:
    """Cells without what nbgrader adds to the release for its own use."""
    cells = []
    for cell in notebook["cells"]:
        about = dict(cell["metadata"].get("nbgrader", {}))
        about.pop("checksum", None)
        about.pop("cell_type", None)
        metadata = {**cell["metadata"], "nbgrader": about}
        cells.append([cell["id"], cell["cell_type"], "".join(cell["source"]), metadata])
    return cells


def test_the_notebook_is_the_one_that_nbgrader_releases(course: Course) -> None:
    files = bundle.bundle_files(SOURCES / TINY, CHECKS)
    mine = json.loads(files[f"{TINY}.ipynb"])
    assert _comparable(mine) == _comparable(released(course))
    public = (course.root / "release" / TINY / f"{TINY}.checks.json").read_bytes()
    assert files[f"{TINY}.checks.json"] == public


def test_a_bundle_holds_no_hidden_case_no_solution_and_no_marking_guide() -> None:
    files = bundle.bundle_files(SOURCES / TINY, CHECKS)
    text = b"".join(content for name, content in files.items() if not name.endswith(".whl"))
    assert b"MARKING-GUIDE" not in text
    assert b"BEGIN SOLUTION" not in text
    tasks = json.loads(files[f"{TINY}.checks.json"])["tasks"]
    prepared: dict[str, PreparedCheck] = prepared_checks(CHECKS, TINY, bundle.PUBLIC_SEED)
    assert any(not one.visible for check in prepared.values() for one in check.cases)
    for task, check in prepared.items():
        visible = [one for one in check.cases if one.visible]
        assert len(tasks[task]["cases"]) == len(visible)


@pytest.mark.parametrize(
    ("name", "together"),
    [
        (
            "11_model_size_tradeoff",
            "`11_model_size_tradeoff.ipynb`, `11_model_size_tradeoff.checks.json` and `tiny_gemma/`",
        ),
        ("22_counting_flops", "`22_counting_flops.ipynb` and `22_counting_flops.checks.json`"),
    ],
)
def test_the_readme_names_all_that_belongs_together(name: str, together: str) -> None:
    files = bundle.bundle_files(ROOT / "exercises" / name, "solutions.checks")
    assert f"Keep {together} in one folder." in files["README.md"].decode()


def test_what_a_learner_installs_lets_progress_bars_work_in_a_notebook() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [need.partition(">=")[0] for need in extras["optional-dependencies"]["notebook"]]
    assert "ipywidgets" in names
    # As in a notebook, where tqdm looks for the widgets when it is imported, and warns without them.
    need_module("ipywidgets")
    in_a_notebook = (
        "import IPython, ipykernel.zmqshell, warnings\n"
        "warnings.simplefilter('error')\n"
        "from tqdm.auto import tqdm\n"
        "assert any('notebook' in base.__module__ for base in tqdm.__mro__), tqdm.__mro__"
    )
    done = subprocess.run(
        [sys.executable, "-c", in_a_notebook], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_same_sources_give_the_same_zip() -> None:
    need_module("hatchling")
    first = bundle.zip_bytes(SOURCES / TINY, CHECKS)
    bundle.wheel.cache_clear()
    assert bundle.zip_bytes(SOURCES / TINY, CHECKS) == first
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        names = {name.removeprefix(f"{TINY}/") for name in archive.namelist()}
    assert {f"{TINY}.ipynb", f"{TINY}.checks.json", "README.md"} < names
    assert any(name.endswith(".whl") for name in names)


def test_the_wheel_in_a_bundle_is_all_that_an_exercise_needs(tmp_path: Path) -> None:
    need_module("hatchling")
    files = bundle.bundle_files(SOURCES / TINY, CHECKS)
    [(name, wheel)] = [each for each in files.items() if each[0].endswith(".whl")]
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        inside = archive.namelist()
        archive.extractall(tmp_path)
    assert not [each for each in inside if not each.startswith(("gradelib/", "one_gpu-"))]
    (tmp_path / f"{TINY}.checks.json").write_bytes(files[f"{TINY}.checks.json"])
    notebook = json.loads(files[f"{TINY}.ipynb"])
    code = [c["source"] for c in notebook["cells"] if c["cell_type"] == "code"]
    program = "import sys; sys.path.insert(0, '.')\n" + "\n".join(code) + "\nprint(check.exercise)"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == f"{TINY}\n", ran.stderr
    assert f'"./{name}[notebook]"' in files["README.md"].decode()


def test_without_a_build_tool_the_readme_says_where_the_package_comes_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bundle, "wheel", lambda: None)
    files = bundle.bundle_files(SOURCES / TINY, CHECKS)
    assert not [name for name in files if name.endswith(".whl")]
    assert 'pip install "PATH[notebook]"' in files["README.md"].decode()


def test_a_notebook_that_somebody_worked_in_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["bundle", TINY, "--to", str(tmp_path), "--checks", CHECKS]
    arguments += ["--sources", str(SOURCES)]
    assert cli.main(arguments) == 0
    notebook = tmp_path / TINY / f"{TINY}.ipynb"
    assert capsys.readouterr().out == f"{notebook}\n"
    notebook.write_text(notebook.read_text() + " ")
    mine = notebook.read_bytes()
    (tmp_path / TINY / f"{TINY}.checks.json").write_text("damaged")
    assert cli.main(arguments) == 0
    assert "is kept" in capsys.readouterr().out
    assert notebook.read_bytes() == mine
    assert json.loads((tmp_path / TINY / f"{TINY}.checks.json").read_text())
    with zipfile.ZipFile(tmp_path / f"{TINY}.zip") as archive:
        assert archive.read(f"{TINY}/{TINY}.ipynb") != mine


def test_an_unknown_exercise_is_an_error_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "to"
    arguments = ["--to", str(target), "--checks", CHECKS, "--sources", str(SOURCES)]
    assert cli.main(["bundle", "99_none", *arguments]) == cli.FAILED
    assert f"it has {TINY}" in capsys.readouterr().err
    assert not target.exists()
    with pytest.raises(CourseError, match="99_none"):
        bundle.zip_bytes(SOURCES / "99_none", CHECKS)


def test_the_setup_cell_says_what_to_do_without_the_package() -> None:
    files = bundle.bundle_files(SOURCES / TINY, CHECKS)
    setup = next(c for c in json.loads(files[f"{TINY}.ipynb"])["cells"] if c["id"] == "setup")
    assert "README.md" in setup["source"].partition("from gradelib")[0]
