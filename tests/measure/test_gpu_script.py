"""The GPU script's logic, on a CPU with a Gemma 3 small enough to train in a second."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gradelib.measure import CannotMeasureError
from gradelib.shapes import Shape
from solutions import gpu_measure

TINY = replace(
    Shape.gemma3("270m"),
    vocab=300,
    hidden=64,
    intermediate=128,
    layers=2,
    heads=2,
    head_dim=32,
    sliding_window=16,
)


def test_there_are_twelve_setups_that_cover_what_the_book_compares() -> None:
    wanted = gpu_measure.setups(Shape.gemma3("4b"))
    assert len(wanted) == len(set(map(str, wanted))) == 12
    assert {setup.method for setup in wanted} == {"full", "lora", "qlora"}
    assert {setup.dtype for setup in wanted} == {"bfloat16", "float32"}
    assert {setup.attention for setup in wanted} == {"sdpa", "eager"}
    assert {setup.checkpointing for setup in wanted} == {True, False}


def test_every_setup_trains_and_is_written(tmp_path: Path) -> None:
    wanted = [replace(setup, seq=32) for setup in gpu_measure.setups(TINY)]
    said: list[str] = []
    rows = gpu_measure.measure_all(wanted, "cpu", minutes=5, report=said.append)
    assert [row["result"] for row in rows] == ["measured"] * 12
    assert len(said) == 12
    assert all(row["step_seconds"] > 0 for row in rows)
    gpu_measure.write(tmp_path / "table.csv", rows, "cpu")
    with (tmp_path / "table.csv").open(encoding="utf-8") as file:
        written = list(csv.DictReader(file))
    assert len(written) == 12
    assert written[0]["device"] == "cpu"
    assert written[0]["torch"] == torch.__version__
    assert written[0]["allocated_bytes"] == ""  # a CPU has no peak to read


def test_a_setup_that_does_not_fit_is_a_row_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = gpu_measure.training_step

    def full_does_not_fit(setup: Any, device: str) -> Any:
        if setup.method == "full":
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return real(setup, device)

    monkeypatch.setattr(gpu_measure, "training_step", full_does_not_fit)
    wanted = [replace(gpu_measure.setups(TINY)[index], seq=16) for index in (9, 5)]
    rows = gpu_measure.measure_all(wanted, "cpu", minutes=5, report=list)
    assert [row["result"] for row in rows] == ["out of memory", "measured"]
    gpu_measure.write(tmp_path / "table.csv", rows, "cpu")


def test_when_the_time_is_over_nothing_more_is_started(tmp_path: Path) -> None:
    rows = gpu_measure.measure_all(gpu_measure.setups(TINY)[:2], "cpu", minutes=-1, report=list)
    assert [row["result"] for row in rows] == ["no time left"] * 2
    gpu_measure.write(tmp_path / "table.csv", rows, "cpu")


def test_without_a_gpu_the_script_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu_measure", str(tmp_path / "table.csv")])
    with pytest.raises(SystemExit) as stop:
        gpu_measure.main()
    assert stop.value.code == 2
    assert "no CUDA GPU is here" in capsys.readouterr().err
    assert not (tmp_path / "table.csv").exists()


def test_an_optimizer_that_is_not_measured_is_refused() -> None:
    with pytest.raises(CannotMeasureError, match="not 'sgd'"):
        gpu_measure.optimizer_of(torch.nn.Linear(2, 2), "sgd")
