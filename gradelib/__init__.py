"""Checks, shapes and measuring tools for the exercises of "Bigger Models on One GPU".

Importing this package needs the standard library alone, so it runs in a browser too. Tools that
need PyTorch, and grading, live in subpackages behind extras: `pip install "one-gpu[torch]"`, `pip
install "one-gpu[grade]"`.
"""

from gradelib.notebook import checks_for
from gradelib.shapes import Shape
from gradelib.verdicts import Status, Verdict

__version__ = "0.1.0"
__all__ = ["Shape", "Status", "Verdict", "__version__", "checks_for"]
