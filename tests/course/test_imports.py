"""What a command loads and what it leaves out."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from gradelib.grading.imports import left_out, not_collecting

# Prints which of `names` are loaded after what a batch imports.
LOADED = """
import sys
from gradelib.grading import imports
with imports.left_out(*imports.UNUSED):
    import gradelib.grading.batch
print(*[name for name in {names!r} if name in sys.modules])
"""


def test_grading_loads_nothing_that_it_does_not_use() -> None:
    names = ("rfc3987_syntax", "jupytext", "torch", "numpy", "matplotlib", "IPython", "rich")
    command = [sys.executable, "-c", LOADED.format(names=names)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_what_is_left_out_can_be_imported_again() -> None:
    name = "plistlib"
    sys.modules.pop(name, None)
    with left_out(name), pytest.raises(ModuleNotFoundError):
        __import__(name)
    assert __import__(name) is sys.modules[name]
    with left_out(name):
        assert __import__(name) is sys.modules[name]  # it was there before


def test_garbage_is_looked_for_again_after_loading() -> None:
    with not_collecting():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.unfreeze()
