"""Command lines that start Python for learner code: what it sees of the machine, and what it imports
from.
"""

from __future__ import annotations

import os
import re
import shutil
import site
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import gradelib
from gradelib.grading.sandbox.server import Options
from gradelib.grading.work import IsolationError

# Importing torch, transformers and peft on a busy machine with cold disks.
PRELOAD_SECONDS = 180.0
GRADELIB = Path(gradelib.__file__).resolve().parent
INSIDE = "/opt/one-gpu/gradelib"
# Where packages are seen whose own place something else is mounted over.
_PACKAGES_INSIDE = Path("/opt/one-gpu/packages")
_COVERED = (Path("/tmp"), Path("/dev"), Path("/proc"))
_KERNEL = (5, 14)
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "USER": "learner",
    "LOGNAME": "learner",
    # One thread per submission: submissions run side by side, and threads do not survive a fork.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def boot_arguments(
    call: str, options: Options, library: str, packages: Sequence[Path | str]
) -> list[str]:
    """Arguments with which Python calls a function of `server`, with the standard library, the
    folder `library` as `gradelib`, and what lies in `packages`."""
    # Imported by its path: on `sys.path`, the checkout around it would come along.
    program = (
        "import importlib.util, sys; folder = sys.argv[2]; sys.path += sys.argv[3:]; "
        "spec = importlib.util.spec_from_file_location("
        "'gradelib', folder + '/__init__.py', submodule_search_locations=[folder]); "
        "sys.modules['gradelib'] = package = importlib.util.module_from_spec(spec); "
        "spec.loader.exec_module(package); "
        f"from gradelib.grading.sandbox import server; {call}"
    )
    arguments = [options.to_json(), library, *map(str, packages)]
    return ["-I", "-S", "-X", "utf8", "-c", program, *arguments]


def bubblewrap_command(options: Options, boot: list[str], *, each: bool) -> list[str]:
    """Python inside bubblewrap, with the system, Python and packages in view, read-only, and
    nothing else. Raises IsolationError where it cannot work.

    each: the answer process itself, which then gets its scratch folders and ends with its judge.
    """
    bubblewrap = shutil.which("bwrap")
    if sys.platform != "linux":
        raise IsolationError("bubblewrap is for Linux")
    if bubblewrap is None:
        raise IsolationError("bubblewrap is not installed")
    release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    if release < _KERNEL:
        # Before, the limit on processes counted those of the whole account.
        needed, here = (".".join(map(str, version)) for version in (_KERNEL, release))
        raise IsolationError(f"Linux {needed} or newer is needed, this is {here}")
    command = [bubblewrap, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--new-session", "--hostname", "sandbox"]
    if os.getuid() == 0:
        # Enough to become another user, which the server does first.
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    for folder in ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"):
        path = Path(folder)
        if path.is_symlink():
            command += ["--symlink", str(path.readlink()), folder]
        elif path.is_dir():
            command += ["--ro-bind", folder, folder]
    for linker_file in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"):
        if Path(linker_file).exists():
            command += _shown(Path(linker_file), Path(linker_file))
    # Not the whole prefix: `~/.local` can be one, and has more in it than Python.
    prefix = Path(sys.base_prefix).resolve()
    interpreter = [prefix / name for name in ("bin", "lib", "lib64") if (prefix / name).is_dir()]
    shown = {folder: folder for folder in (Path("/usr"), *interpreter)} | packages_inside()
    for place, at in shown.items():
        if not at.is_relative_to("/usr"):
            command += _shown(place, at)
    command += _shown(GRADELIB, Path(INSIDE))
    for hidden in _places_of(options.hide):
        seen = {at / hidden.relative_to(f) for f, at in shown.items() if hidden.is_relative_to(f)}
        for covered in sorted(seen):
            command += ["--tmpfs", str(covered)]
    command += ["--proc", "/proc", "--dev", "/dev"]
    size = ["--size", str(options.limits.scratch_bytes)] if each else []
    command += [*size, "--tmpfs", "/tmp", "--chdir", "/tmp"]
    command += ["--die-with-parent", *size, "--tmpfs", "/dev/shm"] if each else []
    command += ["--remount-ro", "/dev", "--remount-ro", "/"]
    # The interpreter itself, without the virtual environment around it.
    return [*command, str(Path(sys.executable).resolve()), *boot]


def _shown(folder: Path, at: Path) -> list[str]:
    # Bubblewrap makes missing parents for its own user alone, unless told to make them.
    parents = [str(parent) for parent in reversed(at.parents) if parent != Path("/")]
    made = [argument for parent in parents for argument in ("--dir", parent)]
    return [*made, "--ro-bind", str(folder), str(at)]


def package_folders() -> list[Path]:
    """The folders of installed packages that this Python imports from, without any checkout."""
    known = {Path(folder).resolve() for folder in site.getsitepackages()}
    if site.ENABLE_USER_SITE:
        known.add(Path(site.getusersitepackages()).resolve())
    folders: list[Path] = []
    for entry in sys.path:
        path = Path(entry).resolve()
        installed = path in known or path.name in ("site-packages", "dist-packages")
        if entry and installed and path.is_dir() and path not in folders:
            folders.append(path)
    return folders


def packages_inside() -> dict[Path, Path]:
    """Each of `package_folders`, and where it is seen inside bubblewrap: in its own place, unless
    that is in a folder like `/tmp`, which is another one there."""
    return {
        folder: _PACKAGES_INSIDE / str(i) if any(map(folder.is_relative_to, _COVERED)) else folder
        for i, folder in enumerate(package_folders())
    }


def _places_of(packages: Sequence[str]) -> list[Path]:
    """Where packages of these names lie."""
    specs = [find_spec(name) for name in packages]
    found = [place for spec in specs if spec for place in spec.submodule_search_locations or ()]
    return [Path(place).resolve() for place in found]
