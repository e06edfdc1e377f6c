"""The fork server: it imports an exercise's modules once, then forks an answer process per
submission.

It is started by the judge, holds no secrets, runs no learner code, and answers to one socket: each
message on it carries two others, the wire of a new answer process and its lifeline. When the
lifeline closes, the answer process and everything it started are killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from gradelib.grading.sandbox import child
from gradelib.grading.sandbox.wire import ChildEnd, frame
from gradelib.grading.work import Limits

LINUX = sys.platform == "linux"
if LINUX:
    from gradelib.grading.sandbox import linux, system_calls

READY = b"ready"
# How an answer process ended, besides "exit N" and "signal N". `STOPPED` is followed by how long it
# had waited for a busy machine, in seconds.
STOPPED, OUT_OF_TIME, OUT_OF_MEMORY = "stopped", "out of time", "out of memory"
# Static copies of these stand in for /proc, which libraries read to learn about the machine.
_PROC_FILES = ("cpuinfo", "meminfo", "stat", "version")
_WATCH_SECONDS = 0.1
_MAX_DESCRIPTOR = 4096  # the server opens few, and the lowest numbers first
_EXIT_STATUS = {OUT_OF_TIME: 101, OUT_OF_MEMORY: 102} | {
    f"signal {number}": 128 + number for number in range(1, 65)
}


class Apart(StrEnum):
    """What keeps an answer process apart: namespaces of its own, something around its server, or
    nothing."""

    OWN = "own"
    AROUND = "around"
    NOT = "not"


@dataclass(frozen=True)
class Options:
    """What a server loads, and what each of its answer processes may use.

    preload: modules that are imported before the fork.
    hide: packages whose folders are covered, should they lie in view.
    """

    preload: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    hide: tuple[str, ...] = ("solutions",)

    def to_json(self) -> str:
        """As an argument of the server's command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Read `to_json`'s form."""
        data = json.loads(text)
        return cls(tuple(data["preload"]), Limits(**data["limits"]), tuple(data["hide"]))


def main(control_fd: int, options_json: str, apart: str) -> None:
    """Serve until the judge closes the control socket. `apart` is a value of `Apart`."""
    options, how = Options.from_json(options_json), Apart(apart)
    control = socket.socket(fileno=control_fd)
    _prepare(options, how)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control.sendall(READY)
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        if not request:
            return
        try:
            if os.fork() == 0:
                control.close()
                _supervise(descriptors[0], descriptors[1], options.limits, how)
        except OSError as error:  # no memory, too many processes: for now
            _refuse(descriptors[0], error)
        for descriptor in descriptors:
            os.close(descriptor)


def single(options_json: str) -> NoReturn:
    """Serve one answer process, its wire on standard input and output. Something else has put this
    one apart, and kills it: its own bubblewrap, a container. Its exit status says how it ended."""
    options = Options.from_json(options_json)
    _prepare(options, Apart.AROUND)
    watch = Watch(options.limits.memory_bytes)
    process = os.fork()
    if process == 0:
        _answer_process(0, 1, "/tmp", options.limits, Apart.AROUND)
    while True:
        pid, status, usage = os.wait4(process, os.WNOHANG)
        if pid == process:
            os._exit(_EXIT_STATUS.get(_ending(status, usage, options.limits), 1))
        if watch.exceeded(process):
            os._exit(_EXIT_STATUS[OUT_OF_MEMORY])
        time.sleep(_WATCH_SECONDS)


def ending_of(exit_status: int) -> str:
    """How an answer process ended, from the exit status of `single`."""
    named = {number: ended for ended, number in _EXIT_STATUS.items()}
    return named.get(exit_status, f"exit {exit_status}")


def _prepare(options: Options, how: Apart) -> None:
    """Become nobody, import the modules, and be ready to fork."""
    if how is not Apart.NOT:
        linux.set_dumpable(False)
        if linux.is_real_root():
            linux.become_nobody()
    for module in options.preload:
        importlib.import_module(module)
    tasks = Path("/proc/self/task")
    if tasks.is_dir() and (threads := len(list(tasks.iterdir())) - 1):
        # A fork copies one thread alone; a lock that another holds would stay locked.
        raise RuntimeError(
            f"the preloaded modules started {threads} threads; they cannot be forked"
        )
    # What is loaded stays: do not let the collector write to its pages in every child.
    gc.collect()
    gc.freeze()


def _supervise(wire_fd: int, lifeline_fd: int, limits: Limits, how: Apart) -> NoReturn:
    """Between the server and one answer process: start it, watch it, say how it ended."""
    lifeline = socket.socket(fileno=lifeline_fd)
    scratch = "/tmp"
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if how is Apart.OWN:
            linux.new_namespaces()
        else:
            scratch = tempfile.mkdtemp(prefix="one-gpu-")
        watch = Watch(limits.memory_bytes) if how is Apart.OWN else None
        process = os.fork()
        if process == 0:
            lifeline.close()
            _answer_process(wire_fd, wire_fd, scratch, limits, how)
        os.close(wire_fd)
        ended = _watch(process, lifeline, limits, how, watch)
        if how is Apart.NOT:
            shutil.rmtree(scratch, ignore_errors=True)
        with contextlib.suppress(OSError):
            lifeline.sendall(ended.encode("ascii"))
    except OSError as error:
        _refuse(wire_fd, error)
    os._exit(0)


def _watch(
    process: int, lifeline: socket.socket, limits: Limits, how: Apart, watch: Watch | None
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
            return _ending(status, usage, limits)
        if _hung_up(lifeline):
            waited = watch.waited_seconds(process) if watch is not None else 0.0
            return _killed(process, how, f"{STOPPED} {waited:.2f}")
        if watch is not None and watch.exceeded(process):
            return _killed(process, how, OUT_OF_MEMORY)


def _hung_up(lifeline: socket.socket) -> bool:
    try:
        return lifeline.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def _ending(status: int, usage: resource.struct_rusage, limits: Limits) -> str:
    if usage.ru_utime + usage.ru_stime >= limits.total_seconds:
        return OUT_OF_TIME
    code = os.waitstatus_to_exitcode(status)
    return f"exit {code}" if code >= 0 else f"signal {-code}"


def _killed(process: int, how: Apart, why: str) -> str:
    # The answer process is the first of its PID namespace: all others in it end with it.
    kill = os.kill if how is Apart.OWN else os.killpg
    with contextlib.suppress(ProcessLookupError):
        kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return why


class Watch:
    """What the kernel tells of an answer process: the memory of it and its descendants together,
    which no resource limit bounds, and how long it had to wait."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        # Held open: the answer process covers /proc, in the mount namespace that both are in.
        self._proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        # A fork starts with the pages that the server had loaded; they cost nothing.
        self._shared_bytes = self._look(os.getpid())[1]

    def exceeded(self, process: int) -> bool:
        """Whether the process and its descendants hold more than the limit."""
        names = os.listdir(self._proc)  # noqa: PTH208 - a descriptor has no path
        seen: dict[int, tuple[int, int]] = {}
        for pid in (int(name) for name in names if name.isdigit()):
            with contextlib.suppress(OSError, KeyError, ValueError):  # it may end meanwhile
                seen[pid] = self._look(pid)
        family, grown = {process}, True
        while grown:
            children = {pid for pid, (parent, _) in seen.items() if parent in family}
            grown = not children <= family
            family |= children
        used = (max(0, seen[pid][1] - self._shared_bytes) for pid in family if pid in seen)
        return sum(used) > self._limit_bytes

    def waited_seconds(self, process: int) -> float:
        """How long the process was ready to run while the machine was busy with others."""
        with contextlib.suppress(OSError, ValueError, IndexError):  # not every kernel keeps count
            return int(self._read(f"{process}/schedstat").split()[1]) / 1e9
        return 0.0

    def _look(self, pid: int) -> tuple[int, int]:
        """A process's parent, and its memory in bytes, without files that it has mapped."""
        lines = self._read(f"{pid}/status").splitlines()
        found = dict(line.split(":", 1) for line in lines if ":" in line)
        kibibytes = sum(int(found[name].split()[0]) for name in ("RssAnon", "RssShmem"))
        return int(found["PPid"]), kibibytes * 1024

    def _read(self, path: str) -> str:
        descriptor = os.open(path, os.O_RDONLY, dir_fd=self._proc)
        try:
            return os.read(descriptor, 8192).decode("ascii", "replace")
        finally:
            os.close(descriptor)


def _answer_process(
    read_fd: int, write_fd: int, scratch: str, limits: Limits, how: Apart
) -> NoReturn:
    """Become an answer process: give everything up but the wire, then serve it."""
    end = ChildEnd(*_only_wire(read_fd, write_fd))
    try:
        os.setsid()
        if LINUX:
            linux.die_with_parent()
            linux.first_to_go()
            linux.set_limits(limits)
        if how is Apart.OWN:
            linux.private_mounts()
            linux.mount_tmpfs("/tmp", limits.scratch_bytes)
            linux.mount_tmpfs("/dev/shm", limits.scratch_bytes)
            linux.loopback_up()
            # From here on the process sees nothing of others.
            _cover("/proc", {name: Path("/proc", name).read_bytes() for name in _PROC_FILES})
            _cover("/dev/pts", {})
        if how is not Apart.NOT:
            linux.drop_capabilities()
            system_calls.filter_system_calls()
        os.chdir(scratch)
    except OSError as error:
        end.send({"refused": str(error)})
        os._exit(0)
    try:
        child.serve(end)
    finally:
        os._exit(0)


def _cover(folder: str, files: dict[str, bytes]) -> None:
    linux.mount_tmpfs(folder, 2**20)
    for name, content in files.items():
        Path(folder, name).write_bytes(content)
    linux.make_read_only(folder)


def _only_wire(read_fd: int, write_fd: int) -> tuple[int, int]:
    """Close every descriptor but the wire; standard input is empty and output goes nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    # By way of high numbers, so that none is overwritten before it is copied.
    high = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (nowhere, read_fd, write_fd)]
    for number, each in ((0, 0), (1, 0), (2, 0), (3, 1), (4, 2)):
        os.dup2(high[each], number)
    os.closerange(5, _MAX_DESCRIPTOR)
    return 3, 4


def _refuse(wire_fd: int, error: OSError) -> None:
    with contextlib.suppress(OSError):
        os.write(wire_fd, frame({"refused": str(error)}))
