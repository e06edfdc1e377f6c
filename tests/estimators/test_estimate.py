"""The command line: it puts the estimates together and adds nothing of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gradelib.shapes import Shape
from solutions.estimate import main
from solutions.flops import adapter_flops, decode_flops, prefill_flops, training_flops
from solutions.hardware import gpu
from solutions.inference_memory import Inference, inference_memory
from solutions.shapes import model_shape
from solutions.training_memory import Training, training_memory

QLORA = ["gemma3-4b", "--method", "qlora", "--optimizer", "adamw8bit", "--checkpointing"]


def data(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """What the command prints as JSON."""
    assert main([*arguments, "--json"]) == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def test_the_parts_are_those_of_the_estimators(capsys: pytest.CaptureFixture[str]) -> None:
    printed = data(
        capsys, *QLORA, "--rank", "8", "--gpu", "l4", "--count", "100", "--utilization", "0.25"
    )
    shape = Shape.gemma3("4b")
    memory = training_memory(
        Training(
            shape=shape,
            batch=1,
            seq=1024,
            method="qlora",
            optimizer="adamw8bit",
            checkpointing=True,
            rank=8,
        )
    )
    flops = training_flops(shape, 1, 1024, "qlora", checkpointing=True)
    flops += adapter_flops(shape, 1, 1024, 8, "all-linear", checkpointing=True)
    assert printed["parameters"] == 3_880_099_328
    assert printed["settings"]["trained_parameters"] == 14_901_248
    assert printed["memory"]["total_bytes"] == memory.total_bytes
    assert printed["memory"]["moments"] == memory.by_moment()
    assert printed["flops"] == flops
    assert printed["gpu"]["seconds"] == pytest.approx(100 * flops / (0.25 * 121e12))
    assert printed["gpu"]["energy_kwh"] == pytest.approx(printed["gpu"]["seconds"] * 72 / 3.6e6)
    assert printed["gpu"]["usable_bytes"] == gpu("l4").usable_bytes
    assert printed["gpu"]["fits"] is True


def test_generating_takes_a_prefill_and_one_read_of_the_weights_a_token(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["gpt2", "--method", "inference", "--precision", "fp16", "--seq", "64"]
    printed = data(capsys, *arguments, "--new-tokens", "33", "--gpu", "l4", "--utilization", "0.5")
    shape = model_shape("gpt2")
    memory = inference_memory(
        Inference(shape=shape, batch=1, prompt=64, new_tokens=33, dtype="float16")
    )
    prefill = prefill_flops(shape, 1, 64)
    decode = sum(decode_flops(shape, 1, context) for context in range(65, 97))
    assert printed["flops"] == prefill + decode
    assert printed["memory"]["total_bytes"] == memory.total_bytes
    # 124,439,808 parameters of 2 bytes over 300 GB/s, for each token but the first.
    reading = 32 * 124_439_808 * 2 / 300e9
    assert printed["gpu"]["seconds"] == pytest.approx(prefill / (0.5 * 121e12) + reading)
    alone = data(capsys, *arguments, "--new-tokens", "1", "--gpu", "l4", "--utilization", "0.5")
    assert alone["gpu"]["seconds"] == pytest.approx(prefill / (0.5 * 121e12))


def test_the_moments_of_the_printed_memory_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    memory = data(capsys, *QLORA)["memory"]
    moments = memory["moments"]
    peak = sum(moments["always"].values()) + sum(moments[memory["peak_moment"]].values())
    assert peak == memory["total_bytes"]


def test_accumulation_multiplies_the_work_of_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    once = data(capsys, *QLORA)["flops"]
    assert data(capsys, *QLORA, "--accumulation", "8")["flops"] == 8 * once


@pytest.mark.parametrize(("short", "long"), [("bf16", "bfloat16"), ("fp16-mixed", "float16-mixed")])
def test_short_and_long_names_of_a_precision_are_the_same(
    capsys: pytest.CaptureFixture[str], short: str, long: str
) -> None:
    assert data(capsys, "gpt2", "--precision", short) == data(capsys, "gpt2", "--precision", long)


def test_a_configuration_file_is_read_as_its_name_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    published = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12}
    file.write_text(json.dumps({**published, "n_positions": 1024, "vocab_size": 50257}))
    from_file, by_name = data(capsys, str(file)), data(capsys, "gpt2")
    assert from_file["memory"] == by_name["memory"]
    assert from_file["parameters"] == 124_439_808


def test_text_says_what_fits_and_what_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QLORA, "--gpu", "t4", "--check"]) == 0
    printed = capsys.readouterr().out
    assert "14.74 GiB to use, 10% kept free: fits" in printed
    assert "NVIDIA T4 has no matrix units for bfloat16" in printed
    assert "vocabulary 262,144, no vision tower" in printed
    assert "left out:" in printed


def test_a_check_fails_where_the_peak_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["gemma3-4b", "--gpu", "t4"]
    assert main(arguments) == 0
    assert "does not fit" in capsys.readouterr().out
    assert main([*arguments, "--check"]) == 1


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        (["--precision", "fp16"], "overflow in float16"),
        (["--gpu", "h100-pcie"], "full capacity"),
        (["--gpu", "tpu-v5e"], "no energy is estimated"),
        (["--gpu", "tpu-v5e", "--precision", "fp32"], "no time is estimated"),
    ],
)
def test_what_cannot_be_known_is_warned_of(
    capsys: pytest.CaptureFixture[str], arguments: list[str], warning: str
) -> None:
    assert any(warning in each for each in data(capsys, "gemma3-1b", *arguments)["warnings"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gemma-4b"], "did you mean 'gemma3-4b'"),
        (["absent/config.json"], "path of a config.json that exists"),
        (["gpt2", "--batch", "0"], "batch must be"),
        (["gpt2", "--seq", "-5"], "seq must be"),
        (["gpt2", "--method", "lora", "--targets", "c_attn"], "q_proj, k_proj"),
        (["gpt2", "--method", "lora", "--rank", "10000"], "r must be at most"),
        (["gpt2", "--gpu", "t4", "--utilization", "30"], "fraction"),
        (["gpt2", "--gpu", "t4", "--headroom", "1"], "headroom"),
        (["gpt2", "--count", "0"], "steps must be"),
        (["gpt2", "--quantization", "nf4"], "--quantization is for qlora"),
        (["gpt2", "--method", "inference", "--precision", "bf16-mixed"], "unknown dtype"),
        (["gpt2", "--method", "inference", "--count", "0"], "generations must be"),
        (["gpt2", "--method", "inference", "--new-tokens", "-1"], "new_tokens must be"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_a_folder_without_a_configuration_is_bad_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([str(tmp_path)]) == 2
    assert "cannot read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [[], ["gpt2", "--gpu", "v100"], ["gpt2", "--optimizer", "banana"], ["gpt2", "--check"]],
)
def test_arguments_that_do_not_parse_are_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_it_runs_as_a_module_without_heavy_packages() -> None:
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "solutions.estimate", "gemma3-270m"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "268,098,176 parameters" in run.stdout
    imported = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert "solutions.training_memory" in imported
    assert not imported & {"torch", "numpy", "transformers", "yaml", "rich"}
