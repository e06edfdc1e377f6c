"""Communication: ring collectives and what local steps save."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.shapes import Shape
from solutions import communication
from solutions.parameters import parameter_count
from tests.estimators.facts import fact

COVERED = ["comm_ddp_ring", "comm_zero3"]


def ring_all_reduce(values: list[list[int]]) -> tuple[list[list[int]], int]:
    """All-reduce by passing chunks round a ring; the results, and chunks each device sent."""
    n = len(values)
    held = [list(row) for row in values]
    for step in range(n - 1):  # reduce-scatter: each device adds what its neighbour sends
        moved = [held[device][(device - step) % n] for device in range(n)]
        for device in range(n):
            held[(device + 1) % n][(device - step) % n] += moved[device]
    for step in range(n - 1):  # all-gather: each device passes a finished chunk on
        moved = [held[device][(device + 1 - step) % n] for device in range(n)]
        for device in range(n):
            held[(device + 1) % n][(device + 1 - step) % n] = moved[device]
    return held, 2 * (n - 1)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_a_ring_that_is_run_sends_what_the_formula_says(n: int) -> None:
    held, chunks = ring_all_reduce(
        [[10 * device + chunk for chunk in range(n)] for device in range(n)]
    )
    expected = [sum(10 * device + chunk for device in range(n)) for chunk in range(n)]
    assert all(row == expected for row in held)
    assert communication.allreduce_bytes(nbytes=n, n=n) == chunks


def test_gradients_of_gemma3_1b_on_eight_devices() -> None:
    of = fact("comm_ddp_ring")
    gradients = 2 * parameter_count(Shape.gemma3("1b"))
    sent = communication.allreduce_bytes(gradients, 8)
    assert sent / 1e9 == of["check"]["gemma3_1b_bf16_n8_GB"]


def test_sharded_weights_cost_half_as_much_again() -> None:
    of = fact("comm_zero3")
    for n in (2, 8, 64):
        ratio = communication.zero3_bytes(1e9, 1e9, n) / communication.allreduce_bytes(1e9, n)
        assert ratio == pytest.approx(of["expected"])


@given(st.floats(1, 1e15), st.integers(1, 4096))
def test_an_all_reduce_never_sends_twice_the_bytes(nbytes: float, n: int) -> None:
    sent = communication.allreduce_bytes(nbytes, n)
    assert 0 <= sent < 2 * nbytes
    assert sent <= communication.allreduce_bytes(nbytes, n + 1)
    assert communication.allreduce_seconds(nbytes, n, 1e9) == pytest.approx(sent / 1e9)


def test_syncing_every_500_steps_sends_one_500th() -> None:
    saved = communication.communication_saved(fact("comm_diloco")["inputs"]["H"])
    assert 1 / (1 - saved) == pytest.approx(fact("comm_diloco")["expected"])
    assert communication.communication_saved(1) == 0


@pytest.mark.parametrize("n", [0, -1, 1.5, True])
def test_a_number_of_devices_or_steps_below_one_is_an_error(n: int) -> None:
    with pytest.raises(ValueError, match="n must be"):
        communication.allreduce_bytes(1e9, n)
    with pytest.raises(ValueError, match="sync_every must be"):
        communication.communication_saved(n)


def test_no_bytes_are_an_error() -> None:
    with pytest.raises(ValueError, match="nbytes must be above 0"):
        communication.allreduce_bytes(0, 8)
    with pytest.raises(ValueError, match="bandwidth_bytes_per_s must be above 0"):
        communication.allreduce_seconds(1, 8, 0)
