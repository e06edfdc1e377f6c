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
import signal
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gradelib.grading.sandbox import child
from gradelib.grading.sandbox.wire import ChildEnd, frame

LINUX = sys.platform == "linux"
if LINUX:
    from gradelib.grading.sandbox import linux

READY = b"ready"
# How an answer process ended, besides "exit N" and "signal N".
STOPPED, OUT_OF_TIME, OUT_OF_MEMORY = "stopped", "out of time", "out of memory"
# Static copies of these stand in for /proc, which libraries read to learn about the machine.
_PROC_FILES = ("cpuinfo", "meminfo", "stat", "version")
_WATCH_SECONDS = 0.05


@dataclass(frozen=True)
class Options:
    """How the server treats its answer processes. `apart`: in namespaces of their own."""

    apart: bool
    preload: tuple[str, ...]
    total_seconds: float
    memory_bytes: int
    scratch_bytes: int
    file_bytes: int
    processes: int
    open_files: int

    def to_json(self) -> str:
        """As an argument of the server's command line."""
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Read `to_json`'s form."""
        data = json.loads(text)
        return cls(**{**data, "preload": tuple(data["preload"])})


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
            linux.new_namespaces()
        process = os.fork()
        if process == 0:
            lifeline.close()
            _answer_process(wire_fd, options, proc_files)
        os.close(wire_fd)
        ended = _watch(process, lifeline, options)
        with contextlib.suppress(OSError):
            lifeline.sendall(ended.encode("ascii"))
    except OSError as error:
        _refuse(wire_fd, error)
    os._exit(0)


def _watch(process: int, lifeline: socket.socket, options: Options) -> str:
    """Wait for the answer process's end, and bring it about when the judge hangs up or memory runs
    out. How it ended, in two words."""
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
    if usage.ru_utime + usage.ru_stime >= options.total_seconds:
        return OUT_OF_TIME
    code = os.waitstatus_to_exitcode(status)
    return f"exit {code}" if code >= 0 else f"signal {-code}"


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


def _answer_process(wire_fd: int, options: Options, proc_files: dict[str, bytes]) -> NoReturn:
    """Become an answer process: give everything up but the wire, then serve it."""
    wire = _only_wire(wire_fd)
    try:
        os.setsid()
        if LINUX:
            linux.die_with_parent()
            linux.first_to_go()
        if options.apart:
            linux.private_mounts()
            linux.mount_tmpfs("/tmp", options.scratch_bytes)
            linux.mount_tmpfs("/dev/shm", options.scratch_bytes)
            linux.mount_tmpfs("/dev/pts", 0)
            linux.loopback_up()
        os.chdir(tempfile.gettempdir() if options.apart else tempfile.mkdtemp())
        if LINUX:
            linux.set_limits(
                memory_bytes=options.memory_bytes,
                cpu_seconds=int(options.total_seconds) + 1,
                file_bytes=options.file_bytes,
                processes=options.processes,
                open_files=options.open_files,
            )
        if options.apart:
            linux.mount_tmpfs("/proc", 2**20)
            for name, content in proc_files.items():
                Path("/proc", name).write_bytes(content)
            linux.make_read_only("/proc")
            linux.make_read_only("/dev/pts")
            linux.drop_capabilities()
    except OSError as error:
        _refuse(wire, error)
        os._exit(0)
    with contextlib.suppress(BrokenPipeError, ConnectionError):
        child.serve(ChildEnd(wire, wire))
    os._exit(0)


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
