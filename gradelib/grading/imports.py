"""Load nbgrader faster: leave out what grading never uses, and look for no garbage meanwhile."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# jsonschema loads it, where it is installed, to check `"format": "iri"`, which no notebook's schema
# asks for. It builds a grammar when it is imported: 2 s, half of what a command takes to start.
UNUSED = ("rfc3987_syntax",)


@contextmanager
def left_out(*names: str) -> Iterator[None]:
    """As if these modules were not installed. What was loaded before stays."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            if sys.modules.get(name, sys) is None:
                del sys.modules[name]


@contextmanager
def not_collecting() -> Iterator[None]:
    """While many modules are loaded, which all stay."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
