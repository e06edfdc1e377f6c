"""The driver that takes a loss scaler through a run."""

from __future__ import annotations

from gradelib.drivers import loss_scaler
from gradelib.outcomes import Kind, call
from solutions.implementations.loss_scaler import DynamicLossScaler

DRIVER = f"{loss_scaler.__name__}:run"
STEPS = [[1.5, [[1.0, 2.0], [3.0]]], [0.5, [[float("inf")], [1.0]]], [0.5, [[1.0], [1.0]]]]


class Stub:
    def __init__(self, initial=1.0, growth=2.0, backoff=0.5, interval=2):
        """Begin."""
        ...

    def scale(self, loss):
        """Scale."""
        ...

    def step_ok(self, grads):
        """Step."""
        ...


class NothingYet(Stub):
    def __init__(self, *settings):
        self.factor = settings[0]


def outcome(scaler):
    return call(scaler, [8.0, 2.0, 0.5, 2, STEPS], {}, DRIVER)


def test_a_run_is_told_step_by_step():
    assert outcome(DynamicLossScaler).value == [[12.0, True], [4.0, False], [2.0, True]]


def test_a_stub_is_a_placeholder_and_a_beginning_is_not():
    assert outcome(Stub).kind is Kind.BAD_VALUE
    assert outcome(NothingYet).value is None
    assert outcome(lambda *_: None).value is None


def test_what_a_scaler_raises_is_the_outcome():
    assert call(DynamicLossScaler, [0.0, 2.0, 0.5, 2, STEPS], {}, DRIVER).errors[0] == "ValueError"
