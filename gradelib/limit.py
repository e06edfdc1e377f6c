"""A time limit for a call in this very process, so that a notebook's check ends on an endless loop.

It needs a timer signal, which Windows and browsers lack and which reaches the main thread alone;
elsewhere there is no limit, and the learner interrupts the kernel.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType


class OutOfTimeError(BaseException):
    """Raised in code that runs past its limit. Not an Exception: an answer's own `except Exception`
    must not swallow it."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTimeError in the code inside once it has run for so long, where that can be done.

    An import is let finish, and the time starts anew after it: a package that is cut off halfway
    would be broken until the kernel starts again.
    """
    if not _possible():
        yield
        return

    def stop(_number: int, frame: FrameType | None) -> None:
        # Again and again, should the code catch everything.
        signal.setitimer(signal.ITIMER_REAL, seconds)
        if not _importing(frame):
            raise OutOfTimeError(f"after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _possible() -> bool:
    if not hasattr(signal, "setitimer") or sys.platform in ("emscripten", "wasi"):
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    return signal.getitimer(signal.ITIMER_REAL)[0] == 0  # nobody else uses it


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
