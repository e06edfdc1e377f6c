"""Peaks that others measured on GPUs: predicted, not fitted."""

from __future__ import annotations

from statistics import median

import pytest

from solutions.measured_peaks import UNITS, MeasuredPeak, measured_peaks
from tests.estimators.facts import all_facts, fact

PEAKS = measured_peaks()


def test_every_applicable_measurement_is_predicted() -> None:
    applicable = {
        each["id"]
        for each in all_facts()
        if each["topic"] == "measured_peak" and each.get("applicable")
    }
    assert {peak.fact for peak in PEAKS} == applicable


@pytest.mark.parametrize("peak", PEAKS, ids=lambda peak: peak.fact)
def test_a_measurement_is_the_published_one(peak: MeasuredPeak) -> None:
    of = fact(peak.fact)
    expected = of["expected"]
    published = list(expected.values()) if isinstance(expected, dict) else [expected]
    unit = UNITS[of["unit"].split()[0]]
    assert peak.measured_bytes in [pytest.approx(value * unit) for value in published]


@pytest.mark.parametrize("peak", PEAKS, ids=lambda peak: peak.fact)
def test_the_configuration_is_the_published_one(peak: MeasuredPeak) -> None:
    published = fact(peak.fact)["config"]
    configured = peak.configuration
    assert (
        published["model"]
        .replace("llama-2", "llama2")
        .replace("llama-3", "llama3")
        .replace("qwen-2.5", "qwen2.5")
        == peak.model
    )
    for theirs, ours in (
        ("method", "method"),
        ("batch", "batch"),
        ("seq", "seq"),
        ("lora_r", "rank"),
    ):
        if ours in configured and theirs in published:
            assert configured[ours] == published[theirs]
    assert configured.get("checkpointing", False) == published.get("checkpointing", False)
    if "targets" in published:
        targets = configured["targets"]
        assert isinstance(targets, list)
        assert [name[0] for name in targets] == published["targets"].split(",")


def test_every_value_of_an_inference_measurement_is_predicted() -> None:
    of = fact("meas_litgpt_infer_llama2_7b")
    rows = [peak for peak in PEAKS if peak.fact == of["id"]]
    quantizations = [row.configuration.get("quantization", "bf16") for row in rows]
    assert quantizations == list(of["expected"])
    for row, published in zip(rows, of["expected"].values(), strict=True):
        assert row.measured_bytes == pytest.approx(published * 10**9)


def test_half_of_the_predictions_are_within_a_tenth() -> None:
    assert median(abs(peak.error) for peak in PEAKS) <= 0.10


@pytest.mark.parametrize("peak", PEAKS, ids=lambda peak: peak.fact)
def test_no_prediction_is_off_by_a_quarter(peak: MeasuredPeak) -> None:
    assert abs(peak.error) <= 0.25


# This source measured what is estimated: transformers and PEFT, bytes allocated for tensors.
SAME_STACK = [peak for peak in PEAKS if "fitcheck" in peak.source.title]


@pytest.mark.parametrize("peak", SAME_STACK, ids=lambda peak: peak.fact)
def test_the_peaks_of_the_same_stack_are_predicted_within_two_per_cent(peak: MeasuredPeak) -> None:
    assert abs(peak.error) <= 0.02


def test_the_same_stack_was_measured_eight_times() -> None:
    assert len(SAME_STACK) == 8
