"""The table of accelerators against published figures."""

from __future__ import annotations

import pytest

from solutions.dtypes import BITS
from solutions.hardware import GIB, Gpu, gpu, gpu_names, matrix_peak_flops_per_s
from tests.estimators.facts import Fact, fact, parameters, tolerance

TABLE = {
    "hw_a100_sxm_80": "a100-80gb",
    "hw_h100_sxm": "h100-sxm",
    "hw_h200_sxm": "h200-sxm",
    "hw_h100_pcie": "h100-pcie",
    "hw_l40s": "l40s",
    "hw_b200_sxm": "b200-sxm",
    "hw_tpu_v5e": "tpu-v5e",
    "hw_tpu_v5p": "tpu-v5p",
    "hw_tpu_v6e": "tpu-v6e",
    "hw_tpu_v4": "tpu-v4",
    "hw_t4": "t4",
    "hw_l4": "l4",
}
CLOCKS = {"hw_formula_a100": "a100-80gb", "hw_formula_h100": "h100-sxm"}
COVERED = [*TABLE, *CLOCKS, "hw_usable"]
DTYPES = {
    "fp32": "float32",
    "tf32": "tfloat32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3",
    "int8": "int8",
    "fp4": "float4_e2m1",
}


def value(of: Gpu, quantity: str) -> float | str | None:
    """A figure of the table in the unit of the facts."""
    if quantity == "hbm_GB":
        return of.capacity_bytes / GIB  # what vendors print as GB is GiB
    if quantity == "bw_TBs":
        return of.bandwidth_bytes_per_s / 1e12
    if quantity == "tdp_W":
        return of.tdp_w
    dtype = DTYPES[quantity]
    return of.peak(dtype) / 1e12 if of.is_native(dtype) else "none"


@pytest.mark.parametrize("of", parameters(list(TABLE)))
def test_published_figures_come_out(of: Fact) -> None:
    for quantity, expected in of["expected"].items():
        found = value(gpu(TABLE[of["id"]]), quantity)
        if isinstance(expected, str):
            assert found == expected
            continue
        # An exact fact is exact to the last digit that it prints.
        decimals = len(str(expected).partition(".")[2].removesuffix("0"))
        last_digit = 0.5001 * 10**-decimals if quantity == "bw_TBs" else 0
        assert found == pytest.approx(expected, rel=of["test"]["rel"], abs=last_digit), quantity


@pytest.mark.parametrize("of", parameters(list(CLOCKS)))
def test_peaks_follow_from_units_and_clock(of: Fact) -> None:
    given = of["inputs"]
    peak = matrix_peak_flops_per_s(given["TC"], given["fma"], given["GHz"] * 1e9)
    assert peak / 1e12 == pytest.approx(of["expected"], **tolerance(of))
    assert peak == pytest.approx(gpu(CLOCKS[of["id"]]).peak("bfloat16"), rel=1e-3)


def test_the_small_geforce_follows_from_its_units_and_clock() -> None:
    # 28 SMs of 4 tensor cores at 1.777 GHz; 64 multiply-adds a cycle with float32 accumulation.
    peak = matrix_peak_flops_per_s(28 * 4, 64, 1.777e9)
    assert gpu("rtx3060").peak("bfloat16") == pytest.approx(peak, rel=2e-3)


def test_usable_memory_is_what_pytorch_reports() -> None:
    of = fact("hw_usable")
    for title, expected in of["expected"].items():
        low, _, high = expected.removesuffix(" GiB").partition("-")
        usable = gpu(title.lower()).usable_bytes
        assert usable is not None
        allowed = of["test"]["abs"]
        assert float(low) - allowed <= usable / GIB <= float(high or low) + allowed


def test_the_dense_peak_is_taken_not_the_sparse_one() -> None:
    assert gpu("a100-80gb").peak("bfloat16") == 312e12
    assert gpu("a100-40gb").peak("bfloat16") == 312e12


def test_a_t4_does_not_multiply_bfloat16() -> None:
    assert not gpu("t4").is_native("bfloat16")
    with pytest.raises(ValueError, match=r"T4 does not multiply 'bfloat16'.*float16"):
        gpu("t4").peak("bfloat16")


@pytest.mark.parametrize("name", gpu_names())
def test_every_row_is_sourced_and_possible(name: str) -> None:
    row = gpu(name)
    assert row.sources["specification"]
    assert set(row.peak_flops_per_s) <= {*BITS, "float4_e2m1"}
    assert row.bandwidth_bytes_per_s > 1e11
    if row.usable_bytes is not None:
        assert row.sources["usable_gib"]
        assert 0.9 * row.capacity_bytes < row.usable_bytes < row.capacity_bytes
    by_width = sorted(row.peak_flops_per_s, key=lambda dtype: -BITS.get(dtype, 4))
    peaks = [row.peak_flops_per_s[dtype] for dtype in by_width if dtype != "tfloat32"]
    assert peaks == sorted(peaks)


def test_an_unknown_gpu_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"v100.*t4, l4, a10g"):
        gpu("v100")
    for needed in [
        "t4",
        "l4",
        "a10g",
        "rtx3060",
        "rtx4090",
        "a100-40gb",
        "a100-80gb",
        "h100-sxm",
        "h200-sxm",
        "l40s",
        "tpu-v5e",
        "tpu-v6e",
        "mi300x",
    ]:
        assert needed in gpu_names()
