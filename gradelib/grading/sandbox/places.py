"""The places where answer processes run: inside bubblewrap, or, by name only, not apart at all.

Each keeps one fork server, started when it is first needed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import site
import socket
import subprocess
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gradelib
from gradelib.grading.sandbox.server import READY, Options
from gradelib.grading.sandbox.session import Session
from gradelib.grading.sandbox.wire import Wire
from gradelib.grading.work import IsolationError, Limits, Work
from gradelib.judging import Answer

# Importing torch, transformers and peft on a busy machine with cold disks.
PRELOAD_SECONDS = 180.0
_END_SECONDS = 5.0
_GRADELIB = Path(gradelib.__file__).resolve().parent
_INSIDE = "/opt/one-gpu"
_BOOT = (
    "import sys; sys.path[:0] = [sys.argv[3]]; sys.path += sys.argv[4:]; "
    "from gradelib.grading.sandbox import server; server.main(int(sys.argv[1]), sys.argv[2])"
)
_ENVIRONMENT = {
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


class _ForkedProcess:
    """An answer process of a fork server."""

    def __init__(self, control: socket.socket) -> None:
        ours, theirs = socket.socketpair()
        self._lifeline, lifeline = socket.socketpair()
        with theirs, lifeline:
            socket.send_fds(control, [b"+"], [theirs.fileno(), lifeline.fileno()])
        self.wire = Wire(ours)

    def end(self) -> str:
        """Kill it and all that it started; how it had ended."""
        self.wire.close()
        try:
            self._lifeline.shutdown(socket.SHUT_WR)
            self._lifeline.settimeout(_END_SECONDS)
            return self._lifeline.recv(100).decode("ascii")
        except OSError:
            return ""
        finally:
            self._lifeline.close()


class Forked(ABC):
    """A fork server of the judge's own, and the answer processes that it forks."""

    name: str
    warning: str | None = None
    _apart: bool

    def __init__(self, preload: tuple[str, ...], limits: Limits) -> None:
        self._preload = preload
        self._limits = limits
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _command(self, boot: list[str]) -> list[str]:
        """The command that runs Python with the arguments `boot`."""

    @abstractmethod
    def _library(self) -> str:
        """The folder, as the server sees it, that holds `gradelib` and nothing else."""

    @contextlib.contextmanager
    def open(self, work: Work) -> Iterator[Mapping[str, Answer]]:
        """Load a submission in an answer process of its own."""
        session = Session(work, self._start, self._limits)
        try:
            yield session
        finally:
            session.close()

    def close(self) -> None:
        """End the server, and with it every answer process."""
        with self._lock:
            if self._control is not None:
                self._control.close()
                self._control = None
            if self._server is not None:
                _ended(self._server)
                self._server = None

    def __getstate__(self) -> dict[str, Any]:
        # A copy in another process starts a server of its own.
        return {"_preload": self._preload, "_limits": self._limits}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_preload"], state["_limits"])  # type: ignore[misc]

    def _start(self) -> _ForkedProcess:
        with self._lock:
            if self._control is None:
                self._control = self._serve()
            control = self._control
        try:
            return _ForkedProcess(control)
        except OSError as error:
            self.close()
            raise IsolationError(f"the {self.name} server is gone ({error})") from error

    def _serve(self) -> socket.socket:
        """Start the server, and wait until it has loaded the modules."""
        ours, theirs = socket.socketpair()
        options = Options(self._apart, self._preload, self._limits)
        arguments = [str(theirs.fileno()), options.to_json(), self._library()]
        boot = ["-I", "-S", "-X", "utf8", "-c", _BOOT, *arguments, *map(str, package_folders())]
        with theirs, tempfile.TemporaryFile() as log:
            server = subprocess.Popen(
                self._command(boot),
                env=_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
            theirs.close()
            ours.settimeout(PRELOAD_SECONDS)
            try:
                ready = ours.recv(len(READY)) == READY
            except OSError:
                ready = False
            if not ready:
                ours.close()
                _ended(server)
                log.seek(0)
                said = log.read().decode(errors="replace").strip()[-2000:]
                raise IsolationError(
                    f"the {self.name} server did not start: {said or 'it said nothing'}"
                )
        ours.settimeout(None)
        self._server = server
        return ours


def _ended(server: subprocess.Popen[bytes]) -> None:
    try:
        server.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


class Unisolated(Forked):
    """Not apart at all: limits on time and memory, nothing more. For code that you trust."""

    name = "none"
    warning = (
        "Learner code ran without isolation: it could read and change this account's files, other submissions and "
        "the gradebook, and use the network."
    )
    _apart = False

    def __init__(self, preload: tuple[str, ...], limits: Limits) -> None:
        super().__init__(preload, limits)
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def _command(self, boot: list[str]) -> list[str]:
        return [sys.executable, *boot]

    def _library(self) -> str:
        # `gradelib` alone, not the checkout around it.
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="one-gpu-")
            Path(self._folder.name, "gradelib").symlink_to(_GRADELIB)
        return self._folder.name


class Bubblewrap(Forked):
    """Linux namespaces by bubblewrap around the server, and fresh ones around each submission."""

    name = "bubblewrap"
    _apart = True

    def _library(self) -> str:
        return _INSIDE

    def _command(self, boot: list[str]) -> list[str]:
        bubblewrap = shutil.which("bwrap")
        if sys.platform != "linux":
            raise IsolationError("bubblewrap is for Linux")
        if bubblewrap is None:
            raise IsolationError(
                "bubblewrap is not installed (Debian, Ubuntu: `apt install bubblewrap`)"
            )
        command = [bubblewrap, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
        command += ["--unshare-cgroup-try", "--new-session", "--hostname", "sandbox"]
        if os.getuid() == 0:
            # Enough to become another user, which the server does first.
            command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        python = Path(sys.executable).resolve()
        for folder in ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"):
            path = Path(folder)
            if path.is_symlink():
                command += ["--symlink", str(path.readlink()), folder]
            elif path.is_dir():
                command += ["--ro-bind", folder, folder]
        for linker_file in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"):
            if Path(linker_file).exists():
                command += ["--ro-bind", linker_file, linker_file]
        for needed in (Path(sys.base_prefix).resolve(), *package_folders()):
            if not needed.is_relative_to("/usr"):
                command += _shown(needed, needed)
        command += _shown(_GRADELIB, Path(_INSIDE, "gradelib"))
        for hidden in _references():
            command += ["--tmpfs", str(hidden)]
        command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp"]
        command += ["--remount-ro", "/dev", "--remount-ro", "/"]
        return [*command, str(python), *boot]


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


def _references() -> list[Path]:
    """Where reference solutions lie among the installed packages: to be covered."""
    spec = find_spec("solutions")
    places = spec.submodule_search_locations if spec is not None else None
    shown = [Path("/usr"), Path(sys.base_prefix).resolve(), *package_folders()]
    found = [Path(place).resolve() for place in places or ()]
    return [place for place in found if any(place.is_relative_to(root) for root in shown)]
