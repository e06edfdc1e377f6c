"""The system calls that put an answer process apart: namespaces, mounts, capabilities, limits.

Python 3.11 has no names for most of them, so they go through ctypes. Every function raises OSError
when the kernel refuses.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import secrets
import socket
import struct
from pathlib import Path

from gradelib.grading.work import Limits

# <linux/sched.h>
NAMESPACES = {
    "user": 0x1000_0000,
    "pid": 0x2000_0000,
    "mount": 0x0002_0000,
    "network": 0x4000_0000,
    "ipc": 0x0800_0000,
    "uts": 0x0400_0000,
}
# <linux/prctl.h>
_SET_PDEATHSIG, _SET_DUMPABLE, _CAPBSET_DROP, _SET_NO_NEW_PRIVS = 1, 4, 24, 38
# <linux/mount.h>
_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
# <linux/capability.h>: version 3 of the header has two data blocks.
_CAPABILITY_VERSION_3 = 0x2008_0522
# <linux/sockios.h>, <linux/if.h>
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

# None names the running program's own C library.
_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *args: object) -> None:
    if getattr(_libc, name)(*args) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def _prctl(option: int, value: int) -> None:
    _call("prctl", option, ctypes.c_ulong(value), 0, 0, 0)


def set_dumpable(dumpable: bool) -> None:
    """Whether other processes of the same user may trace this one and read its memory."""
    _prctl(_SET_DUMPABLE, int(dumpable))


def die_with_parent() -> None:
    """Be killed when the parent ends."""
    _prctl(_SET_PDEATHSIG, 9)


def new_namespaces() -> None:
    """Enter fresh user, PID (for children), mount, network, IPC and UTS namespaces under the same
    user id."""
    user, group = os.getuid(), os.getgid()
    _call("unshare", sum(NAMESPACES.values()))
    # A process that is not dumpable cannot open its own map files. Nothing untrusted runs yet.
    set_dumpable(True)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    set_dumpable(False)


def private_mounts() -> None:
    """Keep later mounts out of every other mount namespace."""
    _call("mount", None, b"/", None, ctypes.c_ulong(_REC | _PRIVATE), None)


def mount_tmpfs(path: str, size_bytes: int, inodes: int = 4096) -> None:
    """An empty file system in memory over `path`."""
    options = f"size={size_bytes},nr_inodes={inodes},mode=700".encode()
    flags = ctypes.c_ulong(_NOSUID | _NODEV)
    _call("mount", b"tmpfs", path.encode(), b"tmpfs", flags, options)


def make_read_only(path: str) -> None:
    """Refuse writes to the file system mounted at `path`."""
    flags = ctypes.c_ulong(_REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
    _call("mount", None, path.encode(), None, flags, None)


def loopback_up() -> None:
    """Let processes of this network namespace talk among themselves."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request)
        flags = struct.unpack("16sh14x", answer)[1] | _IFF_UP
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))


def drop_capabilities() -> None:
    """Give up every capability, for good, here and in whatever is executed later."""
    _prctl(_SET_NO_NEW_PRIVS, 1)
    for capability in range(64):
        try:
            _prctl(_CAPBSET_DROP, capability)
        except OSError:
            break  # past the last one that this kernel knows
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _call("capset", header, bytes(24))


def is_real_root() -> bool:
    """Whether this process is root of the whole machine (or of a container that maps no users)."""
    if os.getuid() != 0:
        return False
    first = Path("/proc/self/uid_map").read_text(encoding="ascii").split()
    return first[:3] == ["0", "0", "4294967295"]


def become_nobody() -> None:
    """From root to a user that owns nothing and has no other process: the limit on processes counts
    by user, and root escapes it."""
    nobody = 2**30 + secrets.randbelow(2**29)
    Path("/tmp").chmod(0o1777)  # libraries want a temporary folder while they are imported
    os.setgroups([])
    os.setresgid(nobody, nobody, nobody)
    os.setresuid(nobody, nobody, nobody)
    set_dumpable(False)


def set_limits(limits: Limits) -> None:
    """Resource limits of this process and of those it starts."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    mapped_bytes = pages * resource.getpagesize()
    for limit, value in (
        (resource.RLIMIT_AS, mapped_bytes + limits.memory_bytes),
        (resource.RLIMIT_CPU, int(limits.total_seconds) + 1),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        _, hard = resource.getrlimit(limit)
        lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (lowest, lowest))


def first_to_go() -> None:
    """When the machine runs out of memory, let the kernel end this process before any other."""
    with contextlib.suppress(OSError):  # not every kernel has it, and nothing depends on it
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
