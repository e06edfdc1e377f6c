"""Places that start anew for each submission: slower than a fork server, and possible where one is
not.

The answer process talks over its standard input and output, so that it can live in a container, on
another kernel even.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gradelib.grading.sandbox.command import (
    ENVIRONMENT,
    GRADELIB,
    INSIDE,
    PRELOAD_SECONDS,
    boot_arguments,
    bubblewrap_command,
    packages_inside,
)
from gradelib.grading.sandbox.server import STOPPED, Options, ending_of
from gradelib.grading.sandbox.session import Session
from gradelib.grading.sandbox.wire import Wire
from gradelib.grading.work import IsolationError, Work
from gradelib.judging import Answer

# The container counts processes; a limit by user would count those of other containers too.
_UNCOUNTED = 2**20


class BubblewrapEach:
    """A bubblewrap around each submission, for kernels that refuse namespaces inside one."""

    name = "bubblewrap, started anew for each submission"
    warning: str | None = None

    def __init__(self, options: Options) -> None:
        self._options = options

    @contextlib.contextmanager
    def open(self, work: Work) -> Iterator[Mapping[str, Answer]]:
        """Load a submission in an answer process of its own."""
        session = Session(work, self._start, self._options.limits)
        try:
            yield session
        finally:
            session.close()

    def close(self) -> None:
        """Nothing is kept."""

    def _start(self) -> _SingleProcess:
        packages = list(packages_inside().values())
        boot = boot_arguments("server.single(sys.argv[1])", self._options, INSIDE, packages)
        return _SingleProcess(bubblewrap_command(self._options, boot, each=True), ENVIRONMENT)


class Container:
    """A podman or docker container for each submission: also where there is no bubblewrap. The
    image holds Python, and the modules that an exercise needs; `gradelib` is mounted."""

    warning: str | None = None

    def __init__(self, runtime: str, options: Options, image: str) -> None:
        self.name = runtime
        self._options = options
        self._image = image

    @contextlib.contextmanager
    def open(self, work: Work) -> Iterator[Mapping[str, Answer]]:
        """Load a submission in a container of its own."""
        session = Session(work, self._start, self._options.limits)
        try:
            yield session
        finally:
            session.close()

    def close(self) -> None:
        """Nothing is kept."""

    def _start(self) -> _SingleProcess:
        if shutil.which(self.name) is None:
            raise IsolationError(f"{self.name} is not installed")
        limits = self._options.limits
        label = f"one-gpu-{secrets.token_hex(8)}"
        memory = str(limits.memory_bytes + 2**30)  # Python and the preloaded modules on top
        command = [self.name, "run", "--rm", "--interactive", "--name", label]
        command += [
            "--network",
            "none",
            "--read-only",
            "--cap-drop",
            "ALL",
            "--user",
            "65534:65534",
        ]
        command += [
            "--security-opt",
            "no-new-privileges",
            "--pids-limit",
            str(limits.processes + 8),
        ]
        command += [
            "--memory",
            memory,
            "--memory-swap",
            memory,
            "--shm-size",
            str(limits.scratch_bytes),
        ]
        command += ["--ulimit", f"nofile={limits.open_files}:{limits.open_files}"]
        command += ["--tmpfs", f"/tmp:rw,nosuid,nodev,mode=1777,size={limits.scratch_bytes}"]
        command += ["--volume", f"{GRADELIB}:{INSIDE}:ro", "--workdir", "/tmp"]
        for name, value in ENVIRONMENT.items():
            if name != "PATH":
                command += ["--env", f"{name}={value}"]
        # The image's own packages: found by `site`, which -S would leave out.
        inside = replace(self._options, limits=replace(limits, processes=_UNCOUNTED))
        boot = boot_arguments("server.single(sys.argv[1])", inside, INSIDE, ())
        boot.remove("-S")
        kill = [self.name, "kill", label]
        return _SingleProcess([*command, self._image, "python3", *boot], None, kill)


class _SingleProcess:
    """An answer process that is a command of its own, its wire on standard input and output."""

    start_seconds = PRELOAD_SECONDS

    def __init__(
        self, command: list[str], environment: dict[str, str] | None, kill: Sequence[str] = ()
    ) -> None:
        ours, theirs = socket.socketpair()
        self._kill = kill
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        with theirs:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._log,
                start_new_session=True,
            )
        self.wire = Wire(ours)

    def end(self, patience_seconds: float = 0.0) -> str:
        """Kill it and all that it started; how it had ended."""
        with self._log:
            try:
                status = self._process.wait(patience_seconds)
            except subprocess.TimeoutExpired:
                self.wire.close()
                if self._kill:
                    subprocess.run(self._kill, capture_output=True, check=False)
                self._process.kill()
                self._process.wait()
                return f"{STOPPED} 0"
            self.wire.close()
            self._log.seek(0)
            said = self._log.read().decode(errors="replace").strip()[-2000:]
            return said if status and said else ending_of(status)
