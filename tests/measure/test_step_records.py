"""The recorded timeline, allocator replays and activations: complete, and in step with other records."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import need_module

for module in ("torch", "transformers", "peft", "bitsandbytes"):
    need_module(module)

import torch  # noqa: E402
import transformers  # noqa: E402

from gradelib.measure.models import gemma_config  # noqa: E402
from gradelib.shapes import Shape  # noqa: E402
from solutions import record_steps as record  # noqa: E402
from solutions.record_activations import rows_and_losses  # noqa: E402
from solutions.record_measurements import DATA  # noqa: E402


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("table", record.TABLES)
def test_a_record_says_how_it_was_made(table: str) -> None:
    path = DATA / f"{record.TABLES[table][0]}.json"
    made = json.loads(path.read_text(encoding="utf-8"))
    assert made["command"] == f"python -m solutions.record_steps {table}"
    assert made.keys() >= record.provenance(table).keys()
    assert made["counts"] == record.provenance(table)["counts"]


@pytest.mark.parametrize("name", record.TIMELINES)
def test_a_timeline_has_every_phase_in_order_and_the_recorded_peak(name: str) -> None:
    steps = [row for row in rows("step_timeline") if row["setup"] == name]
    assert list(dict.fromkeys(row["phase"] for row in steps)) == [
        "forward",
        "loss",
        "backward",
        "optimizer",
    ]
    events = [int(row["event"]) for row in steps]
    assert events == sorted(events)
    highest = max(sum(int(row[f"{part}_bytes"]) for part in record.HELD) for row in steps)
    setup = record.TIMELINES[name]
    (peak,) = [
        int(row["peak_bytes"])
        for row in rows("step_memory")
        if (row["size"], row["method"], row["optimizer"], row["checkpointing"])
        == ("4b", setup.method, setup.optimizer, str(setup.checkpointing))
        and (int(row["batch"]), int(row["seq"])) == (setup.batch, setup.seq)
    ]
    assert highest == pytest.approx(peak, rel=1e-4)


def test_replayed_steps_are_complete_and_reserve_at_least_what_tensors_take() -> None:
    ways = defaultdict(list)
    for row in rows("allocator_steps"):
        ways[row["way"]].append(row)
    assert list(ways) == ["as they come", "longest first", "expandable"]
    for way, steps in ways.items():
        assert len(steps) == record.STEPS + (way == "longest first")
        assert all(int(row["reserved_bytes"]) >= int(row["allocated_bytes"]) for row in steps)
        assert all(record.LENGTHS[0] <= int(row["seq"]) <= record.LENGTHS[1] for row in steps)


def test_sizes_between_two_traced_steps_lie_on_a_line() -> None:
    low, high = record.TRACED[:2]
    short = [(1, 8 * low, 1), (2, 100, 1), (1, 8 * low, -1), (2, 100, -1)]
    long = [(1, 8 * high, 1), (2, 100, 1), (1, 8 * high, -1), (2, 100, -1)]
    middle = (low + high) // 2
    assert [(size, sign) for _, size, sign in record.scaled(short, long, middle)] == [
        (8 * middle, 1),
        (100, 1),
        (8 * middle, -1),
        (100, -1),
    ]


def test_recorded_activations_overflow_in_float16_where_they_exceed_its_largest_number() -> None:
    blocks = rows("largest_activations")
    assert [int(row["block"]) for row in blocks] == list(range(1, 19))
    over = next(int(row["block"]) for row in blocks if float(row["first_token"]) > 65_504)
    infinite = next(int(row["block"]) for row in blocks if row["float16_finite"] == "False")
    assert over == infinite
    assert all(row["bfloat16_finite"] == "True" for row in blocks)
    made = json.loads((DATA / "largest_activations.json").read_text(encoding="utf-8"))
    assert made["loss"]["float16"] is None
    assert made["loss"]["bfloat16"] == pytest.approx(made["loss"]["float32"], abs=0.01)


def small_gemma() -> Any:
    shape = replace(Shape.gemma3("270m"), vocab=97, hidden=32, intermediate=64, layers=2)
    torch.manual_seed(0)
    kind: Any = transformers.Gemma3ForCausalLM
    return kind(gemma_config(shape)).eval()


def test_blocks_and_losses_are_recorded_in_each_format() -> None:
    rows, losses = rows_and_losses(small_gemma(), torch.arange(1, 13)[None])
    assert [row["block"] for row in rows] == [1, 2]
    assert all(row["float16_finite"] and row["bfloat16_finite"] for row in rows)
    assert all(row["first_token"] > 0 and row["median"] <= row["other_tokens"] for row in rows)
    assert losses["float16"] == pytest.approx(losses["float32"], abs=0.05)


def test_a_value_beyond_float16_is_recorded_as_an_overflow() -> None:
    model = small_gemma()
    with torch.no_grad():
        model.model.embed_tokens.weight[1] = 20_000.0  # the embedding is scaled by sqrt(32)
    rows, losses = rows_and_losses(model, torch.arange(1, 13)[None])
    assert not any(row["float16_finite"] for row in rows)
    assert all(row["bfloat16_finite"] for row in rows)
    assert rows[0]["first_token"] > 65_504 > rows[0]["other_tokens"]
    assert losses["float16"] is None
    assert losses["bfloat16"] is not None
