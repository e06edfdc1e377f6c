"""The recorded measurements: complete, repeatable, and what the estimators predict."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from typing import Any

import pytest

from solutions import record_measurements as record
from solutions.activations import (
    blocks_bytes,
    boundary_bytes,
    largest_layer_bytes,
    outer_bytes,
    rotary_bytes,
)
from solutions.parameters import parameter_count
from solutions.training_memory import Training, training_memory

SETUPS = {name: list(setups()) for name, (_, setups, _) in record.TABLES.items()}


def rows(table: str) -> list[dict[str, str]]:
    path = record.DATA / f"{record.TABLES[table][0]}.csv"
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def as_text(row: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in row.items()}


@pytest.mark.parametrize("table", record.TABLES)
def test_a_record_has_a_row_for_every_setup(table: str) -> None:
    recorded = rows(table)
    assert len(recorded) == len(SETUPS[table])
    for row, (size, setup) in zip(recorded, SETUPS[table], strict=True):
        assert as_text(record.described(size, setup)).items() <= row.items()


@pytest.mark.parametrize("table", record.TABLES)
def test_a_record_says_how_it_was_made(table: str) -> None:
    path = record.DATA / f"{record.TABLES[table][0]}.json"
    made = json.loads(path.read_text(encoding="utf-8"))
    assert made["command"] == f"python -m solutions.record_measurements {table}"
    assert made.keys() >= {"counts", "leaves_out", "date", "machine", "python", *record.PACKAGES}


def test_the_grid_covers_what_decides_the_bytes() -> None:
    recorded = rows("saved")
    assert len(recorded) >= 24
    for name, least in (
        ("size", {"270m", "1b", "4b"}),
        ("dtype", {"float32", "bfloat16"}),
        ("attention", {"sdpa", "eager"}),
        ("checkpointing", {"True", "False"}),
        ("method", {"full", "lora", "qlora"}),
    ):
        assert {row[name] for row in recorded} == least
    assert len({(row["batch"], row["seq"]) for row in recorded}) >= 5


def training(setup: Any) -> Training:
    return Training(
        shape=setup.shape,
        batch=setup.batch,
        seq=setup.seq,
        method=setup.method,
        precision=setup.dtype,
        optimizer=setup.optimizer,
        attention=setup.attention,
        checkpointing=setup.checkpointing,
        rank=setup.rank,
        # The measured base is as transformers loads it, not as PEFT's k-bit preparation leaves it.
        upcast_kept=False,
    )


@pytest.mark.parametrize("index", range(len(SETUPS["saved"])))
def test_saved_activation_bytes_are_predicted_within_3_percent(index: int) -> None:
    row, (_, setup) = rows("saved")[index], SETUPS["saved"][index]
    saving = training(setup).saving
    shape, batch, seq = setup.shape, setup.batch, setup.seq
    predicted = outer_bytes(shape, batch, seq, saving) + rotary_bytes(shape, seq, saving)
    if setup.checkpointing:
        predicted += shape.layers * boundary_bytes(shape, batch, seq, saving)
        predicted += largest_layer_bytes(shape, batch, seq, saving)
    else:
        predicted += blocks_bytes(shape, batch, seq, saving)
    measured = int(row["activation_bytes"]) + int(row["recomputed_bytes"])
    assert predicted == pytest.approx(measured, rel=0.03), setup


@pytest.mark.parametrize("index", range(len(SETUPS["step"])))
def test_peaks_are_predicted_within_5_percent(index: int) -> None:
    row, (_, setup) = rows("step")[index], SETUPS["step"][index]
    # Measured without a GPU: no CUDA context, no workspace, and the output is not kept.
    estimate = training_memory(replace(training(setup), context_bytes=0, keeps_logits=False))
    predicted = estimate.total_bytes - estimate.part_bytes("cublas_workspace")
    assert predicted == pytest.approx(int(row["peak_bytes"]), rel=0.05), setup
    if setup.method == "full" and estimate.peak.name == "loss":
        held = {name: int(value) for name, value in row.items() if name.endswith("_bytes")}
        weights = parameter_count(setup.shape) * 2
        assert weights == pytest.approx(held["weights_bytes"], rel=0.05)
        for part, measured in (
            ("optimizer_state", held["optimizer_bytes"]),
            ("activations", held["activations_bytes"]),
            ("logits_and_loss", held["logits_bytes"] + held["temporary_bytes"]),
        ):
            assert estimate.part_bytes(part) == pytest.approx(measured, rel=0.05), part


@pytest.mark.parametrize("index", range(len(SETUPS["step"])))
def test_a_recorded_peak_is_the_sum_of_its_parts(index: int) -> None:
    row = rows("step")[index]
    parts = {
        name: int(held)
        for name, held in row.items()
        if name.endswith("_bytes") and name != "peak_bytes"
    }
    assert sum(parts.values()) == int(row["peak_bytes"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "index"), [("saved", 0), ("saved", 15), ("saved", 26), ("step", 1), ("flops", 2)]
)
def test_measuring_again_gives_the_record(table: str, index: int) -> None:
    size, setup = SETUPS[table][index]
    again = as_text(record.TABLES[table][2](size, setup))
    recorded = rows(table)[index]
    for name, value in recorded.items():
        if name.endswith(("_bytes", "_flops")) and int(value) > 2**20:
            assert int(again[name]) == pytest.approx(int(value), rel=0.01), name
