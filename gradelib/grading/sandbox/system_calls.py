"""A filter of system calls for learner code: what no answer needs is refused by the kernel.

Namespaces already hide everything worth reaching; the filter keeps learner code away from the parts
of the kernel where ways out are found, and from memory that no limit counts.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct
from dataclasses import dataclass

# <linux/audit.h>, <linux/seccomp.h>, <linux/bpf_common.h>
_LOAD_WORD, _JUMP_EQUAL, _JUMP_ANY_BIT, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF_0000, 0x0005_0000
# Offsets in struct seccomp_data.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 32
# x86-64 has a second numbering of system calls from here on.
_X32 = 0x4000_0000
# CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
NEW_NAMESPACE = 0x7E02_0080
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
# Of netlink, which lists network interfaces and also talks to the firewall and the audit log, the first.
_NETLINK, _ROUTE = 16, 0


@dataclass(frozen=True)
class Machine:
    """The numbers of one architecture. `refused` fail with EPERM."""

    audit: int
    refused: dict[str, int]
    clone: int
    clone3: int
    socket: int


# Same numbers on every architecture.
_SHARED = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "memfd_secret": 447,
}
MACHINES = {
    "x86_64": Machine(
        audit=0xC000_003E,
        refused=_SHARED
        | {
            "shmget": 29,
            "semget": 64,
            "msgget": 68,
            "ptrace": 101,
            "syslog": 103,
            "pivot_root": 155,
            "chroot": 161,
            "mount": 165,
            "umount2": 166,
            "mq_open": 240,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "unshare": 272,
            "perf_event_open": 298,
            "name_to_handle_at": 303,
            "open_by_handle_at": 304,
            "setns": 308,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "kcmp": 312,
            "memfd_create": 319,
            "bpf": 321,
            "userfaultfd": 323,
        },
        clone=56,
        clone3=435,
        socket=41,
    ),
    "aarch64": Machine(
        audit=0xC000_00B7,
        refused=_SHARED
        | {
            "umount2": 39,
            "mount": 40,
            "pivot_root": 41,
            "chroot": 51,
            "unshare": 97,
            "syslog": 116,
            "ptrace": 117,
            "mq_open": 180,
            "msgget": 186,
            "semget": 190,
            "shmget": 194,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "perf_event_open": 241,
            "name_to_handle_at": 264,
            "open_by_handle_at": 265,
            "setns": 268,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "kcmp": 272,
            "memfd_create": 279,
            "bpf": 280,
            "userfaultfd": 282,
        },
        clone=220,
        clone3=435,
        socket=198,
    ),
}


def program(machine: Machine) -> bytes:
    """The filter in classic BPF. Jumps go forward only, so it is written back to front."""
    allow, refuse = [_do(_RETURN, _ALLOW)], [_fail(errno.EPERM)]
    unknown, no_family = [_fail(errno.ENOSYS)], [_fail(errno.EAFNOSUPPORT)]
    families = [_do(_LOAD_WORD, _FIRST_ARGUMENT)]
    to_allow = len(_FAMILIES) + len(no_family) + 2
    for passed, family in enumerate(_FAMILIES):
        families.append(_jump(_JUMP_EQUAL, family, to_allow - passed, 0))
    families += [_jump(_JUMP_EQUAL, _NETLINK, 0, 2), _do(_LOAD_WORD, _THIRD_ARGUMENT)]
    families += [_jump(_JUMP_EQUAL, _ROUTE, 1, 0), *no_family, *allow]
    # A new thread or process is fine, a new namespace is not.
    clones = [_do(_LOAD_WORD, _FIRST_ARGUMENT), _jump(_JUMP_ANY_BIT, NEW_NAMESPACE, 0, 1)]
    clones += refuse + allow

    steps = [_do(_LOAD_WORD, _ARCHITECTURE), _jump(_JUMP_EQUAL, machine.audit, 1, 0), *unknown]
    steps += [_do(_LOAD_WORD, _NUMBER), _jump(_JUMP_AT_LEAST, _X32, 0, 1), *unknown]
    # glibc falls back to clone, whose flags can be looked at; those of clone3 are in memory.
    steps += [_jump(_JUMP_EQUAL, machine.clone3, 0, 1), *unknown]
    steps += [_jump(_JUMP_EQUAL, machine.socket, 0, len(families)), *families]
    steps += [_jump(_JUMP_EQUAL, machine.clone, 0, len(clones)), *clones]
    for number in sorted(machine.refused.values()):
        steps += [_jump(_JUMP_EQUAL, number, 0, 1), *refuse]
    return b"".join(steps + allow)


def _do(code: int, operand: int) -> bytes:
    return _jump(code, operand, 0, 0)


def _jump(code: int, operand: int, if_true: int, if_false: int) -> bytes:
    """One instruction; the jumps count the instructions that are skipped."""
    return struct.pack("HBBI", code, if_true, if_false, operand)


def _fail(code: int) -> bytes:
    return _do(_RETURN, _ERRNO | code)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def filter_system_calls() -> None:
    """Put the filter in force, for good. Raises OSError where the kernel refuses it, or when this
    architecture's numbers are not known."""
    name = platform.machine()
    if name not in MACHINES:
        raise OSError(
            errno.ENOSYS,
            f"no filter of system calls for {name}; there is one for {', '.join(MACHINES)}",
        )
    instructions = program(MACHINES[name])
    filter_program = _Program(len(instructions) // 8, instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    # PR_SET_SECCOMP, SECCOMP_MODE_FILTER; `drop_capabilities` has set PR_SET_NO_NEW_PRIVS.
    if libc.prctl(22, ctypes.c_ulong(2), ctypes.byref(filter_program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refused the filter of system calls")
