"""What a learner takes home: one exercise as a folder or a zip file, complete without a course.

It holds the released notebook, the visible part of its checks, its attachments, a README, and the
package itself where it can be built from a checkout. The same sources give the same bytes.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from string import Template

import gradelib
from gradelib.grading import course, release
from gradelib.grading.errors import CourseError
from gradelib.grading.source import Exercise
from gradelib.notebook import CHECKS_SUFFIX

# Visible cases do not depend on the seed, and hidden ones stay behind, so this one is no secret.
PUBLIC_SEED = "public"
TEMPLATE = Path(__file__).parent / "templates" / "bundle_README.md.in"
EXTRAS = {"pure": "notebook", "torch": "notebook,torch"}
NEEDS = {
    "pure": "Answers need Python's standard library alone.",
    "torch": (
        "This exercise uses PyTorch, some gigabytes. On a computer without a GPU its build for CPUs is smaller: "
        "install that first, as PyTorch's installation page says."
    ),
}
_OLDEST = (1980, 1, 1, 0, 0, 0)  # zip files know no earlier date


def bundle_files(exercise_folder: Path, checks_package: str) -> dict[str, bytes]:
    """Every file of the bundle of the exercise in this folder, by relative path. Raises CourseError
    or SourceError for sources that are not sound."""
    name = exercise_folder.name
    [(exercise, _)] = course.read_sources(exercise_folder.parent, checks_package, [name])
    prepared = course.prepared_checks(checks_package, name, PUBLIC_SEED)
    files = {
        f"{name}.ipynb": release.notebook_text(release.released_notebook(exercise)).encode(),
        f"{name}{CHECKS_SUFFIX}": release.public_checks(exercise, prepared).encode(),
    }
    files |= release.attached(exercise)
    together = list(files)
    built = wheel()
    if built is not None:
        files[built[0]] = built[1]
    files["README.md"] = _readme(exercise, together, built[0] if built else None).encode()
    return files


def zip_bytes(exercise_folder: Path, checks_package: str = course.DEFAULT_CHECKS) -> bytes:
    """`bundle_files` as a zip file with one folder, named as the exercise."""
    return _zipped(exercise_folder.name, bundle_files(exercise_folder, checks_package))


def write(exercise_folder: Path, checks_package: str, to: Path) -> list[Path]:
    """Write a bundle to the folder `to/<exercise>` and to `to/<exercise>.zip`.

    Gives the notebooks that were there already, with other content, and were kept: somebody may
    have worked in them.
    """
    name = exercise_folder.name
    files = bundle_files(exercise_folder, checks_package)
    kept = []
    for relative, content in files.items():
        path = to / name / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".ipynb" and path.is_file() and path.read_bytes() != content:
            kept.append(path)
        else:
            path.write_bytes(content)
    (to / f"{name}.zip").write_bytes(_zipped(name, files))
    return kept


def _zipped(folder: str, files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for relative, content in sorted(files.items()):
            about = zipfile.ZipInfo(f"{folder}/{relative}", _OLDEST)
            about.compress_type = zipfile.ZIP_DEFLATED
            about.create_system = 3  # the same on every system
            about.external_attr = 0o644 << 16
            archive.writestr(about, content)
    return data.getvalue()


@cache
def wheel() -> tuple[str, bytes] | None:
    """Name and content of gradelib's wheel, built without network; None where gradelib is no
    checkout or hatchling is not installed."""
    root = Path(gradelib.__file__).parents[1]
    if not (root / "pyproject.toml").is_file() or find_spec("hatchling") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        built = sorted(Path(folder).glob("*.whl"))
        if done.returncode or len(built) != 1:
            raise CourseError(f"gradelib's wheel could not be built: {done.stderr.strip()[-2000:]}")
        return built[0].name, built[0].read_bytes()


def _listed(files: list[str]) -> str:
    """What lies at the top of the bundle: files, and folders with a slash."""
    names = dict.fromkeys(
        f"`{name}/`" if rest else f"`{name}`"
        for name, _, rest in (file.partition("/") for file in files)
    )
    *first, last = names
    return f"{', '.join(first)} and {last}"


def _readme(exercise: Exercise, together: list[str], wheel_name: str | None) -> str:
    extras = EXTRAS[exercise.requires]
    get = (
        "The package `gradelib` is in this folder."
        if wheel_name
        else "You need the package `gradelib`: replace PATH with the folder of a checkout of *Bigger Models on One GPU*."
    )
    values = {
        "title": exercise.title,
        "name": exercise.name,
        "minutes": exercise.minutes,
        "get": get,
        "package": f"./{wheel_name}[{extras}]" if wheel_name else f"PATH[{extras}]",
        "needs": NEEDS[exercise.requires],
        "keep": _listed(together),
    }
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(values)
