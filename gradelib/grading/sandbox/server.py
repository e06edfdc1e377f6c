"""The fork server: it imports an exercise's modules once, then forks an answer process per
submission.

It is started by the judge, holds no secrets, runs no learner code, and answers to one socket: each
message on it carries two others, the wire of a new answer process and its lifeline. When the
lifeline closes, the answer process and everything it started are killed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from gradelib.grading.sandbox import child
from gradelib.grading.sandbox.wire import ChildEnd, frame
from gradelib.grading.work import Limits

LINUX = sys.platform == "linux"
if LINUX:
    from gradelib.grading.sandbox import linux, system_calls

READY = b"ready"
# How an answer process ended, besides "exit N" and "signal N".
STOPPED, OUT_OF_TIME, OUT_OF_MEMORY = "stopped", "out of time", "out of memory"
# Static copies of these stand in for /proc, which libraries read to learn about the machine.
_PROC_FILES = ("cpuinfo", "meminfo", "stat", "version")
_WATCH_SECONDS = 0.1


@dataclass(frozen=True)
class Options:
    """How the server treats its answer processes. `apart`: in namespaces of their own."""

    apart: bool
    preload: tuple[str, ...]
    limits: Limits

    def to_json(self) -> str:
        """As an argument of the server's command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Read `to_json`'s form."""
        data = json.loads(text)
        return cls(data["apart"], tuple(data["preload"]), Limits(**data["limits"]))


def main(control_fd: int, options_json: str) -> None:
    """Serve until the judge closes the control socket."""
    options = Options.from_json(options_json)
    control = socket.socket(fileno=control_fd)
    if options.apart:
        linux.set_dumpable(False)
        if linux.is_real_root():
            linux.become_nobody()
    for module in options.preload:
        importlib.import_module(module)
    _refuse_threads()
    proc_files = {name: Path("/proc", name).read_bytes() for name in _PROC_FILES if options.apart}
    # What is loaded stays: do not let the collector write to its pages in every child.
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control.sendall(READY)
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        if not request:
            return
        if os.fork() == 0:
            control.close()
            _supervise(descriptors[0], descriptors[1], options, proc_files)
        for descriptor in descriptors:
            os.close(descriptor)


def _refuse_threads() -> None:
    """A fork copies one thread alone; locks that others hold would stay locked in the child."""
    tasks = Path("/proc/self/task")
    if tasks.is_dir() and (count := len(list(tasks.iterdir()))) > 1:
        raise RuntimeError(
            f"the preloaded modules started {count - 1} threads; they cannot be forked"
        )


def _supervise(
    wire_fd: int, lifeline_fd: int, options: Options, proc_files: dict[str, bytes]
) -> NoReturn:
    """Between the server and one answer process: start it, watch it, say how it ended."""
    lifeline = socket.socket(fileno=lifeline_fd)
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if options.apart:
            scratch = "/tmp"
            linux.new_namespaces()
        else:
            scratch = tempfile.mkdtemp(prefix="one-gpu-")
        memory = MemoryWatch(options.limits.memory_bytes) if options.apart else None
        process = os.fork()
        if process == 0:
            lifeline.close()
            _answer_process(wire_fd, scratch, options, proc_files)
        os.close(wire_fd)
        ended = _watch(process, lifeline, options, memory)
        if not options.apart:
            shutil.rmtree(scratch, ignore_errors=True)
        with contextlib.suppress(OSError):
            lifeline.sendall(ended.encode("ascii"))
    except OSError as error:
        _refuse(wire_fd, error)
    os._exit(0)


def _watch(
    process: int, lifeline: socket.socket, options: Options, memory: MemoryWatch | None
) -> str:
    """Wait for the answer process's end, and bring it about when the judge hangs up or memory runs
    out. How it ended, in words for the judge."""
    poll = select.poll()
    poll.register(lifeline, select.POLLIN | select.POLLHUP)
    if LINUX:
        poll.register(os.pidfd_open(process), select.POLLIN)
    while True:
        poll.poll(_WATCH_SECONDS * 1000)
        pid, status, usage = os.wait4(process, os.WNOHANG)
        if pid == process:
            break
        if _hung_up(lifeline):
            return _killed(process, options, STOPPED)
        if memory is not None and memory.exceeded(process):
            return _killed(process, options, OUT_OF_MEMORY)
    if usage.ru_utime + usage.ru_stime >= options.limits.total_seconds:
        return OUT_OF_TIME
    code = os.waitstatus_to_exitcode(status)
    return f"exit {code}" if code >= 0 else f"signal {-code}"


class MemoryWatch:
    """The memory of a process and its descendants together, which no resource limit bounds."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        # Held open: the answer process covers /proc, in the mount namespace that both are in.
        self._proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        # A fork starts with the pages that the server had loaded; they cost nothing.
        self._shared_bytes = self._status(os.getpid())["RssAnon"]

    def exceeded(self, process: int) -> bool:
        """Whether the process and its descendants hold more than the limit."""
        family, used = {process}, 0
        # By process id: a parent mostly comes before its children, and the next look gets the rest.
        names = os.listdir(self._proc)  # noqa: PTH208 - a descriptor has no path
        for pid in sorted(int(name) for name in names if name.isdigit()):
            with contextlib.suppress(OSError, KeyError):
                status = self._status(pid)
                if pid == process or status["PPid"] in family:
                    family.add(pid)
                    used += max(0, status["RssAnon"] - self._shared_bytes) + status["RssShmem"]
        return used > self._limit_bytes

    def _status(self, pid: int) -> dict[str, int]:
        descriptor = os.open(f"{pid}/status", os.O_RDONLY, dir_fd=self._proc)
        try:
            lines = os.read(descriptor, 8192).decode("ascii", "replace").splitlines()
        finally:
            os.close(descriptor)
        found = dict(line.split(":", 1) for line in lines if ":" in line)
        in_bytes = {name: int(found[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem")}
        return {"PPid": int(found["PPid"]), **in_bytes}


def _hung_up(lifeline: socket.socket) -> bool:
    try:
        return lifeline.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def _killed(process: int, options: Options, why: str) -> str:
    # The answer process is the first of its PID namespace: all others in it end with it.
    with contextlib.suppress(ProcessLookupError):
        if options.apart:
            os.kill(process, signal.SIGKILL)
        else:
            os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return why


def _answer_process(
    wire_fd: int, scratch: str, options: Options, proc_files: dict[str, bytes]
) -> NoReturn:
    """Become an answer process: give everything up but the wire, then serve it."""
    wire = _only_wire(wire_fd)
    try:
        os.setsid()
        if LINUX:
            linux.die_with_parent()
            linux.first_to_go()
        if options.apart:
            linux.private_mounts()
            linux.mount_tmpfs("/tmp", options.limits.scratch_bytes)
            linux.mount_tmpfs("/dev/shm", options.limits.scratch_bytes)
            linux.loopback_up()
        os.chdir(scratch)
        if LINUX:
            linux.set_limits(options.limits)
        if options.apart:
            # From here on the process sees nothing of others, and cannot ask for it back.
            _cover("/proc", proc_files)
            _cover("/dev/pts", {})
            linux.drop_capabilities()
            system_calls.filter_system_calls()
    except OSError as error:
        _refuse(wire, error)
        os._exit(0)
    try:
        child.serve(ChildEnd(wire, wire))
    finally:
        os._exit(0)


def _cover(folder: str, files: dict[str, bytes]) -> None:
    linux.mount_tmpfs(folder, 2**20)
    for name, content in files.items():
        Path(folder, name).write_bytes(content)
    linux.make_read_only(folder)


def _only_wire(wire_fd: int) -> int:
    """Close every descriptor but the wire; standard input is empty and output goes nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.dup2(wire_fd, 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    return 3


def _refuse(wire_fd: int, error: OSError) -> None:
    with contextlib.suppress(OSError):
        os.write(wire_fd, frame({"refused": str(error)}))
