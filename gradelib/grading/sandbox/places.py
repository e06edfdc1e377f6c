"""The places where answer processes run: inside bubblewrap, or, by name only, not apart at all.

Each keeps one fork server, started when it is first needed.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gradelib.grading.sandbox.command import (
    ENVIRONMENT,
    GRADELIB,
    INSIDE,
    PRELOAD_SECONDS,
    boot_arguments,
    bubblewrap_command,
    package_folders,
    packages_inside,
)
from gradelib.grading.sandbox.server import READY, Apart, Options
from gradelib.grading.sandbox.session import Session
from gradelib.grading.sandbox.wire import Wire
from gradelib.grading.work import IsolationError, Work
from gradelib.judging import Answer

_END_SECONDS = 5.0


class _ForkedProcess:
    """An answer process of a fork server."""

    start_seconds = 30.0

    def __init__(self, control: socket.socket) -> None:
        ours, theirs = socket.socketpair()
        self._lifeline, lifeline = socket.socketpair()
        with theirs, lifeline:
            socket.send_fds(control, [b"+"], [theirs.fileno(), lifeline.fileno()])
        self.wire = Wire(ours)

    def end(self, patience_seconds: float = 0.0) -> str:
        """Kill it and all that it started; how it had ended."""
        self.wire.close()
        with self._lifeline:
            try:
                if patience_seconds and (ended := self._ending(patience_seconds)):
                    return ended
                self._lifeline.shutdown(socket.SHUT_WR)
                return self._ending(_END_SECONDS)
            except OSError:
                return ""

    def _ending(self, seconds: float) -> str:
        self._lifeline.settimeout(seconds)
        try:
            return self._lifeline.recv(100).decode("ascii")
        except TimeoutError:
            return ""


class Forked(ABC):
    """A fork server of the judge's own, and the answer processes that it forks."""

    name: str
    warning: str | None = None
    _apart: Apart

    def __init__(self, options: Options) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _command(self, boot: list[str]) -> list[str]:
        """The command that runs Python with the arguments `boot`."""

    @abstractmethod
    def _library(self) -> str:
        """The folder of `gradelib`, as the server sees it."""

    @abstractmethod
    def _packages(self) -> list[Path]:
        """The folders of installed packages, as the server sees them."""

    @contextlib.contextmanager
    def open(self, work: Work) -> Iterator[Mapping[str, Answer]]:
        """Load a submission in an answer process of its own."""
        session = Session(work, self._start, self._options.limits)
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
        return {"options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["options"])  # type: ignore[misc]

    def _start(self) -> _ForkedProcess:
        if self._server is not None and self._server.poll() is not None:
            self.close()  # it was killed, for want of memory, say
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
        call = f"server.main({theirs.fileno()}, sys.argv[1], {str(self._apart)!r})"
        boot = boot_arguments(call, self._options, self._library(), self._packages())
        with theirs, tempfile.TemporaryFile() as log:
            server = subprocess.Popen(
                self._command(boot),
                env=ENVIRONMENT,
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
    _apart = Apart.NOT

    def _command(self, boot: list[str]) -> list[str]:
        return [sys.executable, *boot]

    def _library(self) -> str:
        return str(GRADELIB)

    def _packages(self) -> list[Path]:
        return package_folders()


class Bubblewrap(Forked):
    """Linux namespaces by bubblewrap around the server, and fresh ones around each submission."""

    name = "bubblewrap"
    _apart = Apart.OWN

    def _library(self) -> str:
        return INSIDE

    def _packages(self) -> list[Path]:
        return list(packages_inside().values())

    def _command(self, boot: list[str]) -> list[str]:
        return bubblewrap_command(self._options, boot, each=False)
