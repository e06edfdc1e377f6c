"""Shared by all tests: what this machine lacks is skipped with the reason, or fails under TESTS=all."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

# A busy machine makes a slow example, which is no defect: no deadline for a single one.
settings.register_profile("one-gpu", deadline=None)
settings.load_profile("one-gpu")

ALL = os.environ.get("ONE_GPU_TESTS") == "all"


def need(what: str, present: bool, how: str) -> None:
    """Skip the test when `what` is missing; with ONE_GPU_TESTS=all, fail instead.

    `how` tells the reader how to provide it, for example "apt-get install bubblewrap".
    """
    if present:
        return
    reason = f"{what} is not here: {how}"
    if ALL:
        pytest.fail(f"TESTS=all skips nothing, but {reason}")
    pytest.skip(reason)


def need_command(name: str, how: str) -> str:
    """Path of a command, or the test is skipped (failed under TESTS=all)."""
    path = shutil.which(name)
    need(name, path is not None, how)
    assert path is not None
    return path


def need_module(name: str) -> None:
    """Skip (fail under TESTS=all) when a Python package cannot be imported."""
    need(name, importlib.util.find_spec(name) is not None, f"pip install {name}")


def label(value: object) -> str:
    """A test's id from a parameter: the same in every process, whatever the order of a set."""
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(label, value)))}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {label(item)}' for key, item in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(label, value))}]"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


CHROMIUM_ARGUMENTS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--headless",
    "--no-first-run",
    "--no-sandbox",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, driven by Playwright.

    It ends with the module: while it runs, nothing else in the process can start an event loop.
    """
    need_module("playwright")
    chromium = need_command("chromium", "apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGUMENTS)
        yield started
        started.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse names with an address in them: the test workers would not agree on the tests there are."""
    moving = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if moving:
        raise pytest.UsageError(f"give these tests `ids` of their own: {moving[:3]}")
