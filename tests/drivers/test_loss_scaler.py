"""The driver that takes a loss scaler through a run."""

from __future__ import annotations

import pytest

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


def changing(what):
    """A scaler that is right, and then does something with the loss and the gradients."""

    class Scaler(DynamicLossScaler):
        def scale(self, loss):
            scaled = super().scale(loss)
            what([loss])
            return scaled

        def step_ok(self, grads):
            ok = super().step_ok(grads)
            what(grads)
            return ok

    return Scaler


CHANGES = {
    "in place": lambda tensors: [each.mul_(2) for each in tensors],
    "one number": lambda tensors: [each.view(-1)[-1:].zero_() for each in tensors],
    "NaN replaced": lambda tensors: [each.fill_(1.25) for each in tensors],
    "shape": lambda tensors: [each.unsqueeze_(0) for each in tensors],
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_scaler_does_to_the_loss_and_the_gradients_is_told(change):
    for said in outcome(changing(CHANGES[change])).value:
        assert said[2:] == [loss_scaler.LOSS_CHANGED, loss_scaler.GRADIENTS_CHANGED]


def test_a_loss_scaled_in_place_counts_as_it_came_back():
    class InPlace(DynamicLossScaler):
        def scale(self, loss):
            loss *= self.factor
            return loss

    said = outcome(InPlace).value
    assert said == [
        [each, ok, loss_scaler.LOSS_CHANGED] for each, ok in outcome(DynamicLossScaler).value
    ]


def test_a_list_of_gradients_may_be_changed_and_a_copy_too():
    assert (
        outcome(changing(lambda tensors: tensors.clear())).value == outcome(DynamicLossScaler).value
    )
    assert (
        outcome(changing(lambda tensors: [each * 2 for each in tensors])).value
        == outcome(DynamicLossScaler).value
    )
