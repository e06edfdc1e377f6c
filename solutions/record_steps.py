"""Record how memory goes up and down in a training step of Gemma 3 4B, and what PyTorch's allocator
makes of many such steps: `python -m solutions.record_steps timeline` (or `allocator`) writes a table
into `book/data`.

No GPU is needed: the real model runs on tensors without values (`gradelib.measure`), and its requests
for memory go to the allocator's rules (`solutions.allocator`). A run takes some minutes on one core.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

from gradelib.measure import Setup, SimulatedGPU
from gradelib.shapes import Shape
from solutions.allocator import Block, CachingAllocator
from solutions.hardware import gpu
from solutions.overhead import CUDA_CONTEXT_BYTES
from solutions.record_measurements import DATA, PACKAGES

SHAPE = Shape.gemma3("4b")
UNLIMITED = 2**60
HELD = ("weights", "optimizer", "gradients", "activations", "logits", "temporary")
POINTS = 120  # of a timeline, and in each phase at least 10; between two the highest total stands
FEWEST = 10
TIMELINES = {
    "full": Setup(shape=SHAPE, checkpointing=True),
    "qlora": Setup(shape=SHAPE, method="qlora", checkpointing=True),
}

Event = tuple[int, int, int]  # a tensor's number, its bytes, and +1 for made or -1 for freed


def timeline_rows() -> Iterator[dict[str, Any]]:
    """The second step of each setup: what memory held, phase by phase."""
    for name, setup in TIMELINES.items():
        card = SimulatedGPU(UNLIMITED)
        with card:
            model = card.load(setup)
            optimizer = card.optimizer(model, setup)
            card.train_step(model, optimizer, setup)
            marks = mark_phases(card, model, optimizer)
            card.train_step(model, optimizer, setup)
            held = card.ledger.timeline()
        start = marks["forward"]
        ends = [*list(marks.values())[1:], len(held)]
        every = (len(held) - start) / POINTS
        for (phase, first), last in zip(marks.items(), ends, strict=True):
            for low, high in pieces(first, last, every):
                at = max(range(low, high), key=lambda index: sum(held[index].values()))
                row = {f"{part}_bytes": held[at][part] for part in HELD}
                yield {"setup": name, "phase": phase, "event": at - start} | row
        sys.stderr.write(f"{name}: {len(held) - start} events\n")


def mark_phases(card: SimulatedGPU, model: Any, optimizer: Any) -> dict[str, int]:
    """Where the phases of the next step begin, as counts of events. Filled in while it runs."""
    marks = {"forward": card.ledger.event_count}

    def mark(phase: str) -> Callable[..., None]:
        return lambda *_: marks.update({phase: card.ledger.event_count})

    model.get_output_embeddings().register_forward_pre_hook(mark("loss"))
    model.register_forward_hook(mark("backward"))
    optimizer.register_step_pre_hook(mark("optimizer"))
    return marks


def pieces(first: int, last: int, every: float) -> Iterator[tuple[int, int]]:
    """Cut a range of events into about equal pieces of `every` events, or into a few shorter ones."""
    count = min(last - first, max(FEWEST, round((last - first) / every)))
    edges = [first + (last - first) * index // count for index in range(count + 1)]
    yield from pairwise(edges)


BATCH = 4
TRACED = (256, 512, 384)  # the third checks that sizes between the first two lie on a line
STEPS = 60
LENGTHS = (128, 680)
SEED = 31


def allocator_rows() -> Iterator[dict[str, Any]]:
    """Steps with batches of different lengths on a T4, in three ways to hand out its memory."""
    load, short, long = traced_steps()
    draw = random.Random(SEED)
    lengths = [draw.randint(*LENGTHS) for _ in range(STEPS)]
    capacity = (gpu("t4").usable_bytes or 0) - CUDA_CONTEXT_BYTES
    ways = {
        "as they come": (lengths, False),
        "longest first": ([max(lengths), *lengths], False),
        "expandable": (lengths, True),
    }
    for way, (wanted, expandable) in ways.items():
        allocator = CachingAllocator(capacity, expandable)
        alive: dict[int, Block] = {}
        replay(allocator, load, alive)
        for step, length in enumerate(wanted, start=1):
            allocator.peak_allocated_bytes = allocator.peak_reserved_bytes = 0
            replay(allocator, scaled(short, long, length), alive)
            yield {
                "way": way,
                "step": step,
                "seq": length,
                "allocated_bytes": allocator.peak_allocated_bytes,
                "reserved_bytes": allocator.peak_reserved_bytes,
                "releases": allocator.releases,
            }


def traced_steps() -> tuple[list[Event], list[Event], list[Event]]:
    """The requests of loading and a first step, and those of two later steps."""
    setup = Setup(shape=SHAPE, method="qlora", checkpointing=True, batch=BATCH)
    card = SimulatedGPU(UNLIMITED)
    traces = []
    with card:
        model = card.load(setup)
        optimizer = card.optimizer(model, setup)
        card.train_step(model, optimizer, replace(setup, seq=TRACED[0]))
        at = card.ledger.event_count
        load = requests(card, 0, at)
        for seq in TRACED:
            card.train_step(model, optimizer, replace(setup, seq=seq))
            traces.append(requests(card, at, card.ledger.event_count))
            at = card.ledger.event_count
            sys.stderr.write(f"traced a step of {seq} tokens: {len(traces[-1])} requests\n")
    short, long, between = traces
    if [size for _, size, _ in scaled(short, long, TRACED[2])] != [size for _, size, _ in between]:
        raise RuntimeError("sizes do not grow in proportion to the tokens: trace every length")
    return load, short, long


def requests(card: SimulatedGPU, first: int, last: int) -> list[Event]:
    """Requests for memory and releases, in order, between two counts of events."""
    ledger = card.ledger
    return [(serial, ledger._sizes[serial], sign) for serial, sign in ledger._events[first:last]]


def scaled(short: list[Event], long: list[Event], seq: int) -> list[Event]:
    """The requests of a step of `seq` tokens, on the line through two traced steps.

    Numbers of tensors start anew with each step, so that a step can be replayed any number of times.
    """
    share = (seq - TRACED[0]) / (TRACED[1] - TRACED[0])
    number: dict[int, int] = {}
    found = []
    for (one, low, sign), (_, high, _) in zip(short, long, strict=True):
        size = round(low + share * (high - low))
        found.append((number.setdefault(one, len(number) - 10**9), size, sign))
    return found


def replay(allocator: CachingAllocator, events: Iterable[Event], alive: dict[int, Block]) -> None:
    """Send requests to an allocator. Tensors of no size need none."""
    for number, size, sign in events:
        if size and sign > 0:
            alive[number] = allocator.malloc(size)
        elif size and number in alive:
            allocator.free(alive.pop(number))


def provenance(table: str) -> dict[str, Any]:
    """How a table was made."""
    return {
        "counts": {
            "timeline": "every tensor of the second training step, one sequence of 1,024 tokens; "
            "between two rows of a phase the highest total",
            "allocator": f"{STEPS} training steps (QLoRA, checkpointing, {BATCH} sequences), lengths "
            f"drawn evenly from {LENGTHS[0]} to {LENGTHS[1]} tokens with seed {SEED}, replayed in "
            "solutions.allocator with what a T4 has: peaks of each step",
        }[table],
        "leaves_out": "the CUDA context and workspaces inside kernels",
        "command": f"python -m solutions.record_steps {table}",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, no GPU",
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


TABLES = {
    "timeline": ("step_timeline", timeline_rows),
    "allocator": ("allocator_steps", allocator_rows),
}


def main() -> None:
    """Record a table and write it, with its provenance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=sorted(TABLES))
    parser.add_argument("--folder", type=Path, default=DATA)
    given = parser.parse_args()
    name, rows_of = TABLES[given.table]
    rows = list(rows_of())
    given.folder.mkdir(parents=True, exist_ok=True)
    with (given.folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    text = json.dumps(provenance(given.table), indent=2) + "\n"
    (given.folder / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
