"""Record what PyTorch says about memory and FLOPs, for the book, the exercises and the tests:
`python -m solutions.record_measurements saved` (or `step`, `flops`) writes a table into `book/data`.

No GPU is needed: the real Gemma 3 graphs run on tensors without values. A run takes some minutes
on one core. Beside each table, a file of the same name says with which versions it was made.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gradelib.measure import (
    FlopCount,
    SavedBytes,
    Setup,
    StepMemory,
    count_flops,
    measure_saved_bytes,
    measure_step_memory,
)
from gradelib.shapes import Shape

DATA = Path(__file__).parents[1] / "book" / "data"
SIZES = ("270m", "1b", "4b")
FIELDS = ("size", "batch", "seq", "dtype", "attention", "checkpointing", "method", "rank")
SAVED = ("activation_bytes", "logits_bytes", "largest_block_bytes", "recomputed_bytes")
PACKAGES = ("torch", "transformers", "peft", "bitsandbytes")


def saved_setups() -> Iterator[tuple[str, Setup]]:
    """Forward passes to measure: every size in ten ways that differ in what decides the bytes, and
    one so long that the masks of local layers weigh something."""
    for size in SIZES:
        plain = Setup(shape=Shape.gemma3(size), batch=1, seq=512)
        for changes in (
            {},
            {"batch": 2, "seq": 1024},
            {"seq": 2048},
            {"seq": 1024, "dtype": "float32"},
            {"seq": 1024, "attention": "eager"},
            {"batch": 2, "seq": 1024, "checkpointing": True},
            {"batch": 4, "seq": 256, "method": "lora"},
            {"seq": 1024, "method": "lora", "rank": 64},
            {"seq": 2048, "method": "lora", "attention": "eager", "checkpointing": True},
            {"batch": 2, "seq": 1024, "method": "qlora", "checkpointing": True},
        ):
            yield size, replace(plain, **changes)
    yield "270m", Setup(shape=Shape.gemma3("270m"), batch=1, seq=8192)


def step_setups() -> Iterator[tuple[str, Setup]]:
    """Whole steps to measure: the running example of the book, and two smaller models."""
    for size, changes in (
        ("270m", {}),
        ("270m", {"method": "lora"}),
        ("270m", {"batch": 4, "checkpointing": True, "optimizer": "adamw8bit"}),
        ("1b", {}),
        ("1b", {"method": "qlora", "checkpointing": True}),
        ("4b", {}),
        ("4b", {"checkpointing": True}),
        ("4b", {"checkpointing": True, "optimizer": "adamw8bit"}),
        ("4b", {"checkpointing": True, "optimizer": "adafactor"}),
        ("4b", {"method": "lora"}),
        ("4b", {"method": "lora", "checkpointing": True}),
        ("4b", {"method": "qlora", "checkpointing": True}),
        ("4b", {"method": "qlora", "checkpointing": True, "batch": 4}),
    ):
        yield size, replace(Setup(shape=Shape.gemma3(size)), **changes)


def flops_setups() -> Iterator[tuple[str, Setup]]:
    """Steps to count: every size with what decides the operations, up to long sequences."""
    for size in ("270m", "1b", "4b", "12b"):
        plain = Setup(shape=Shape.gemma3(size), batch=1, seq=512, attention="eager")
        for changes in (
            {},
            {"batch": 2, "seq": 1024},
            {"seq": 8192},
            {"seq": 2048, "checkpointing": True},
            {"seq": 1024, "method": "lora"},
            {"batch": 2, "method": "lora", "checkpointing": True},
        ):
            yield size, replace(plain, **changes)


def described(size: str, setup: Setup) -> dict[str, Any]:
    """The columns that name a setup."""
    row = {name: getattr(setup, name) for name in FIELDS if name != "size"}
    return {"size": size, **row, "rank": "" if setup.method == "full" else setup.rank}


def saved_row(size: str, setup: Setup) -> dict[str, Any]:
    """One row of `saved_bytes.csv`."""
    saved = measure_saved_bytes(setup, progress=False)
    return described(size, setup) | {name: getattr(saved, name) for name in SAVED}


def step_row(size: str, setup: Setup) -> dict[str, Any]:
    """One row of `step_memory.csv`: the peak of the second step, and what it held."""
    memory = measure_step_memory(setup, progress=False)
    parts = {f"{name}_bytes": held for name, held in memory.parts.items()}
    return (
        described(size, setup)
        | {"optimizer": setup.optimizer, "peak_bytes": memory.peak_bytes}
        | parts
    )


def flops_row(size: str, setup: Setup) -> dict[str, Any]:
    """One row of `counted_flops.csv`: `FlopCounterMode` on the real architecture."""
    counted = count_flops(setup)
    return described(size, setup) | {
        "forward_flops": counted.forward,
        "training_flops": counted.training,
    }


def provenance(name: str) -> dict[str, Any]:
    """How a table was made."""
    kinds: dict[str, Any] = {"saved": SavedBytes, "step": StepMemory, "flops": FlopCount}
    return {
        "counts": kinds[name].counts,
        "leaves_out": kinds[name].leaves_out,
        "command": f"python -m solutions.record_measurements {name}",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, no GPU",
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


TABLES = {
    "saved": ("saved_bytes", saved_setups, saved_row),
    "step": ("step_memory", step_setups, step_row),
    "flops": ("counted_flops", flops_setups, flops_row),
}


def main() -> None:
    """Measure every setup of a table and write it, with its provenance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=sorted(TABLES))
    parser.add_argument("--folder", type=Path, default=DATA)
    given = parser.parse_args()
    name, setups, row_of = TABLES[given.table]
    given.folder.mkdir(parents=True, exist_ok=True)
    wanted = list(setups())
    with (given.folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = None
        for done, (size, setup) in enumerate(wanted, start=1):
            row = row_of(size, setup)
            if writer is None:
                writer = csv.DictWriter(file, list(row), lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            sys.stderr.write(f"{done}/{len(wanted)}  {size}: {setup}\n")
    text = json.dumps(provenance(given.table), indent=2) + "\n"
    (given.folder / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
