"""Time: utilization of published training runs, and the roofline's identities."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.shapes import Shape
from solutions import roofline
from solutions.flops import score_flops, training_flops, training_flops_6nd
from tests.estimators.facts import Fact, fact, parameters, tolerance
from tests.estimators.published import PALM, gpt

A100 = 312e12
TPU_V4 = 275e12

# Korthikanti et al., arXiv:2205.05198, tables 3 and 5: heads, hidden, layers, batch, GPUs, seconds.
MEGATRON = {
    "22b": (64, 6144, 48, 4, 8, 1.10),
    "175b": (96, 12_288, 96, 64, 64, 13.75),
    "530b": (128, 20_480, 105, 280, 280, 37.83),
    "1t": (160, 25_600, 128, 512, 512, 71.49),
}
UTILIZATION = ["mfu_megatron_530b", "mfu_megatron_1t"]
HARDWARE_UTILIZATION = ["hfu_megatron_22b", "hfu_megatron_175b", "hfu_megatron_1t"]
COVERED = [*UTILIZATION, *HARDWARE_UTILIZATION, "mfu_palm", "mfu_palm_noattn", "mfu_mtnlg"]

amounts = st.floats(1e-6, 1e18)


def megatron(name: str) -> tuple[Shape, int, float]:
    """Shape, batch, and the GPUs' peak times the seconds of a step."""
    heads, hidden, layers, batch, gpus, seconds = MEGATRON[name]
    return gpt(heads, hidden, layers), batch, gpus * A100 * seconds


@pytest.mark.parametrize("of", parameters(UTILIZATION))
def test_utilization_of_megatron_comes_out(of: Fact) -> None:
    shape, batch, capacity = megatron(of["id"].rpartition("_")[2])
    mfu = roofline.model_flops_utilization(training_flops(shape, batch, 2048), 1, capacity)
    assert 100 * mfu == pytest.approx(of["expected"], **tolerance(of))


@pytest.mark.parametrize("of", parameters(HARDWARE_UTILIZATION))
def test_hardware_utilization_of_megatron_comes_out(of: Fact) -> None:
    shape, batch, capacity = megatron(of["id"].rpartition("_")[2])
    # The paper's count of recomputed attention: its own terms in s/h doubled (see the fact's note).
    done = training_flops(shape, batch, 2048) + 3 * batch * score_flops(shape, 2048)
    hfu = roofline.model_flops_utilization(done, 1, capacity)
    assert 100 * hfu == pytest.approx(of["expected"], **tolerance(of))


def test_utilization_of_palm_comes_out_with_and_without_attention() -> None:
    with_scores, without = fact("mfu_palm"), fact("mfu_palm_noattn")
    given_ = with_scores["inputs"]
    weights = training_flops_6nd(given_["N"], given_["tokens_per_s"])
    scores = 3 * score_flops(PALM, 2048) / 2048 * given_["tokens_per_s"]
    peak = given_["chips"] * TPU_V4
    mfu = roofline.model_flops_utilization(weights, 1, peak)
    assert 100 * mfu == pytest.approx(without["expected"], **tolerance(without))
    mfu = roofline.model_flops_utilization(weights + scores, 1, peak)
    assert 100 * mfu == pytest.approx(with_scores["expected"], **tolerance(with_scores))


def test_utilization_of_megatron_turing_comes_out() -> None:
    of = fact("mfu_mtnlg")
    given_ = of["inputs"]
    shape = gpt(given_["H"], given_["H"] * given_["Q"], given_["L"])
    scores = 3 * score_flops(shape, given_["T"]) / given_["T"]
    flops = 65_430 * (training_flops_6nd(given_["N"], 1) + scores)
    mfu = roofline.model_flops_utilization(flops, 1, 2240 * A100)
    assert 100 * mfu == pytest.approx(of["expected"], **tolerance(of))


@given(amounts, amounts, st.floats(0.01, 1))
def test_time_and_utilization_undo_each_other(flops: float, peak: float, mfu: float) -> None:
    seconds = roofline.training_seconds(flops, peak, mfu)
    assert roofline.model_flops_utilization(flops, seconds, peak) == pytest.approx(mfu)


@given(amounts, amounts, amounts, amounts)
def test_memory_binds_where_the_roofline_is_below_the_peak(
    flops: float, moved: float, peak: float, bandwidth: float
) -> None:
    intensity = roofline.arithmetic_intensity(flops, moved)
    attainable = roofline.attainable_flops_per_s(intensity, peak, bandwidth)
    assert attainable <= peak
    assert attainable == pytest.approx(peak) or roofline.is_memory_bound(
        flops, moved, peak, bandwidth
    )


def test_a_square_product_of_16_bit_matrices_has_a_third_of_its_width_as_intensity() -> None:
    n = 3000
    assert roofline.arithmetic_intensity(2 * n**3, 3 * n * n * 2) == n / 3


def test_decoding_on_a_t4_is_bound_by_reading_the_weights() -> None:
    # 8 GB of weights over 320 GB/s: 25 ms a token.
    assert roofline.decode_seconds_lower_bound(8e9, 320e9, 100) == pytest.approx(2.5)
    assert roofline.is_memory_bound(8e9, 8e9, 65e12, 320e9)
    assert not roofline.is_memory_bound(8e13, 8e9, 65e12, 320e9)


@pytest.mark.parametrize("mfu", [0, -0.1, 40, float("nan")])
def test_a_utilization_that_is_no_fraction_is_an_error(mfu: float) -> None:
    with pytest.raises(ValueError, match="fraction"):
        roofline.training_seconds(1e12, 1e12, mfu)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (roofline.training_seconds, {"flops": 1, "peak_flops_per_s": 1}),
        (roofline.model_flops_utilization, {"flops": 1, "seconds": 1, "peak_flops_per_s": 1}),
        (roofline.arithmetic_intensity, {"flops": 1, "bytes_moved": 1}),
        (
            roofline.attainable_flops_per_s,
            {"intensity": 1, "peak_flops_per_s": 1, "bandwidth_bytes_per_s": 1},
        ),
        (
            roofline.is_memory_bound,
            {"flops": 1, "bytes_moved": 1, "peak_flops_per_s": 1, "bandwidth_bytes_per_s": 1},
        ),
        (
            roofline.decode_seconds_lower_bound,
            {"weight_bytes": 1, "bandwidth_bytes_per_s": 1, "tokens": 1},
        ),
    ],
)
def test_amounts_that_are_not_above_zero_are_errors(
    function: Any, arguments: dict[str, float], bad: float
) -> None:
    rest = {"mfu": 0.5} if function is roofline.training_seconds else {}
    for name in arguments:
        with pytest.raises(ValueError, match=f"{name} must be above 0"):
            function(**{**arguments, **rest, name: bad})
