"""The filter of system calls: right numbers, and an effect on learner code."""

from __future__ import annotations

import platform
import re
import struct
from pathlib import Path

import pytest

from gradelib.checks import PreparedCheck
from gradelib.grading.sandbox.system_calls import MACHINES, NEW_NAMESPACE, program
from gradelib.grading.work import Isolation, Work
from tests.conftest import need

# The kernel's own tables. Every architecture but x86-64 has the generic one.
HEADERS = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm/unistd_64.h")),
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"),),
}  # fmt: skip
ALLOW, EPERM, ENOSYS, EAFNOSUPPORT = 0x7FFF0000, 0x50001, 0x50026, 0x50061


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_the_kernels(machine: str) -> None:
    header = next((path for path in HEADERS[machine] if path.is_file()), None)
    need("the kernel's headers", header is not None, "apt-get install linux-libc-dev")
    assert header is not None
    found = re.findall(
        r"#define __NR3?_?(?:3264_)?_?(\w+)\s+(\d+)", header.read_text(encoding="ascii")
    )
    kernel = {name: int(number) for name, number in found}
    ours = MACHINES[machine]
    numbers = {**ours.refused, "clone": ours.clone, "clone3": ours.clone3, "socket": ours.socket}
    # Calls newer than the headers at hand cannot be looked up.
    known = {name: number for name, number in numbers.items() if name in kernel}
    assert len(known) > 30
    assert known == {name: kernel[name] for name in known}


def run(
    machine: str, number: int, argument: int = 0, audit: int | None = None, third: int = 0
) -> int:
    """What the filter decides, by an interpreter of classic BPF."""
    steps = list(struct.iter_unpack("HBBI", program(MACHINES[machine])))
    arch = MACHINES[machine].audit if audit is None else audit
    data = struct.pack("<IIQQQQ", number, arch, 0, argument, 0, third)
    at, loaded = 0, 0
    while True:
        code, if_true, if_false, operand = steps[at]
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", data, operand)
        elif code == 0x06:
            return int(operand)
        else:
            holds = {
                0x15: loaded == operand,
                0x45: bool(loaded & operand),
                0x35: loaded >= operand,
            }[code]
            at += if_true if holds else if_false
        at += 1


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_decides_as_described(machine: str) -> None:
    ours = MACHINES[machine]
    assert {run(machine, number) for number in ours.refused.values()} == {EPERM}
    assert run(machine, ours.clone3) == ENOSYS
    assert run(machine, ours.clone, 0x003D0F00) == ALLOW  # a thread, as glibc makes it
    assert run(machine, ours.clone, 17) == ALLOW  # a fork
    for bit in range(32):
        expected = EPERM if NEW_NAMESPACE & 1 << bit else ALLOW
        assert run(machine, ours.clone, 1 << bit) == expected
    for family in range(64):
        for protocol in (0, 4, 6, 9, 12):
            allowed = family in (1, 2, 10) or (family, protocol) == (16, 0)  # netlink's routes
            assert run(machine, ours.socket, family, third=protocol) == (
                ALLOW if allowed else EAFNOSUPPORT
            )
    named = {*ours.refused.values(), ours.clone, ours.clone3, ours.socket}
    assert {run(machine, number) for number in set(range(600)) - named} == {ALLOW}


def test_another_numbering_is_refused_whole() -> None:
    assert run("x86_64", 1, audit=0x40000003) == ENOSYS  # i386
    assert run("x86_64", 0x40000001) == ENOSYS  # x32


@pytest.mark.sandbox
def test_learner_code_is_under_the_filter(
    bubblewrap: Isolation, checks: dict[str, PreparedCheck]
) -> None:
    need("a known architecture", platform.machine() in MACHINES, f"use one of {list(MACHINES)}")
    machine = MACHINES[platform.machine()]
    # As many as return at once with harmless arguments; each must fail with EPERM.
    numbers = [
        machine.refused[name] for name in ("unshare", "ptrace", "bpf", "memfd_create", "keyctl")
    ]
    source = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def double(x):
    found = []
    for number in {numbers}:
        ctypes.set_errno(0)
        libc.syscall(number, 0, 0, 0, 0, 0)
        found.append(ctypes.get_errno())
    return found
"""
    with bubblewrap.open(Work((), (), {"double": (source,)})) as loaded:
        outcome = loaded["double"].call(checks["double"].cases[0], checks["double"])
    assert outcome.value == [1] * len(numbers)
