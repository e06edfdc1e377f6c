"""The recorded sizes of gradients: counted right, complete, and found again on this machine."""

from __future__ import annotations

import csv
import json
import math
import random

import pytest

from tests.conftest import need_module

need_module("torch")

from solutions.record_gradients import (  # noqa: E402
    DATA,
    KINDS,
    ZERO,
    exponents,
    gradient_exponents,
)


def test_an_exponent_is_that_of_the_leading_bit() -> None:
    import torch

    draw = random.Random(3)
    values = [0.0, -0.0, 1.0, 0.75, 2.0**-140, -(2.0**-25), 65504.0]
    values += [draw.uniform(-1, 1) * 2.0 ** draw.randint(-60, 20) for _ in range(200)]
    tensor = torch.tensor(values)
    counted = exponents(tensor)
    assert counted.pop(ZERO) == 2
    wanted: dict[int | str, int] = {}
    for value in tensor.tolist():
        if value:
            e = math.floor(math.log2(abs(value)))
            e -= 2.0**e > abs(value)  # where the logarithm was rounded up
            wanted[e] = wanted.get(e, 0) + 1
    assert dict(counted) == wanted


def test_the_recorded_gradients_are_found_again() -> None:
    with (DATA / "gradient_exponents.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    made = json.loads((DATA / "gradient_exponents.json").read_text(encoding="utf-8"))
    assert made["command"] == "python -m solutions.record_gradients"
    found = gradient_exponents()
    for kind in KINDS:
        recorded = {row["exponent"]: int(row[kind]) for row in rows}
        total = sum(found[kind].values())
        assert sum(recorded.values()) == total
        for limit in (
            -25,
            -14,
        ):  # float16 rounds to zero below the one, is subnormal below the other
            lost = sum(n for e, n in found[kind].items() if e != ZERO and int(e) < limit)
            kept = sum(n for e, n in recorded.items() if e != ZERO and int(e) < limit)
            assert kept / total == pytest.approx(lost / total, abs=0.005)
