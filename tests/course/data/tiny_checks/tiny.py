"""Checks of 01_tiny: a value, a structure in two parts, a configuration."""

from gradelib.checks import Check, Misconception, case, part
from gradelib.compare import relative
from gradelib.rules import Rule
from tiny_checks import references

packed_bytes = Check(
    reference=references.packed_bytes,
    public=[case(3, 4), case(16, 16)],
    hidden=lambda draw: [case(draw.integer(100, 900), draw.one([3, 5, 7])) for _ in range(4)],
    misconceptions=[
        Misconception(
            "bits for bytes",
            lambda count, bits: count * bits,
            "That is bits. How many are in a byte?",
        ),
        Misconception(
            "rounds down", lambda count, bits: count * bits // 8, "The last byte may be half full."
        ),
    ],
)
spread = Check(
    reference=references.spread,
    public=[case([1.0, 2.0, 3.0])],
    hidden=lambda draw: part("floats", [case([draw.real(0, 9) for _ in range(5)])]),
    tolerance=relative(1e-9),
    parts={"": 0.5, "floats": 0.5},
)
settings = Check(
    reference=references.settings,
    public=[case()],
    hidden=lambda _draw: [],
    rules=[
        Rule("not a dictionary", "Return a dictionary.", "is-dictionary"),
        Rule(
            "rank out of range",
            "The rank is a whole number from 1 to 64.",
            "whole-number-between",
            {"name": "rank", "low": 1, "high": 64},
        ),
    ],
)
