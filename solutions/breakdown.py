"""A memory estimate as parts that add up: what is always there, and what is there at each moment
of the work. The largest moment is the peak.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True)
class Part:
    """Bytes that one thing takes, and in one sentence where they come from."""

    name: str
    bytes: int
    why: str


@dataclass(frozen=True)
class Moment:
    """A moment of the work, with the parts that are alive then and not always."""

    name: str
    parts: tuple[Part, ...]

    @property
    def bytes(self) -> int:
        """Bytes of this moment's own parts."""
        return sum(part.bytes for part in self.parts)


@dataclass(frozen=True)
class Breakdown:
    """An estimate of peak memory: `always`, the moments, and what the estimate leaves out."""

    title: str
    always: tuple[Part, ...]
    moments: tuple[Moment, ...]
    left_out: tuple[str, ...]

    @property
    def peak(self) -> Moment:
        """The moment at which most is alive; of equals, the first."""
        return max(self.moments, key=lambda moment: moment.bytes)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What is alive at the peak. The parts add up to `total_bytes`."""
        return self.always + self.peak.parts

    @property
    def total_bytes(self) -> int:
        """Bytes alive at the peak."""
        return sum(part.bytes for part in self.parts)

    def part_bytes(self, name: str) -> int:
        """Bytes of the part called `name` at the peak; 0 if it is not alive then."""
        return sum(part.bytes for part in self.parts if part.name == name)

    def by_moment(self) -> Mapping[str, Mapping[str, int]]:
        """The same as plain data: what `training_peak_bytes` and `inference_peak_bytes` take."""
        always = {part.name: part.bytes for part in self.always}
        return {"always": always} | {
            moment.name: {part.name: part.bytes for part in moment.parts} for moment in self.moments
        }

    def explain(self) -> str:
        """The estimate in words: each part with its size and origin, then what is left out."""
        lines = [f"{self.title}: {_gib(self.total_bytes)} at the peak, in {self.peak.name!r}", ""]
        groups = [("always", self.always)]
        groups += [(moment.name, moment.parts) for moment in self.moments]
        for name, parts in groups:
            alive = [part for part in parts if part.bytes]
            lines.append(f"{name}: {_gib(sum(part.bytes for part in alive))}")
            lines += [f"  {_gib(part.bytes):>12}  {part.name}: {part.why}" for part in alive]
        lines += ["", "left out:", *(f"  - {item}" for item in self.left_out)]
        return "\n".join(lines)


def _gib(size: int) -> str:
    return f"{size / GIB:.3f} GiB"
