"""The one error of the measuring tools that is not about an argument."""

from __future__ import annotations


class CannotMeasureError(RuntimeError):
    """This machine, or this tool, cannot measure what was asked; the message says what would."""
