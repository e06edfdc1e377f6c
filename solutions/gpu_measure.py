"""Measure real peaks and step times of Gemma 3 4B on a CUDA GPU:
`python -m solutions.gpu_measure gpu.csv`.

Weights are random, so nothing is downloaded; memory and time do not depend on their values. Twelve
configurations take less than 8 minutes. One that does not fit is recorded as out of memory: on a
16 GB card that is most of them.
"""

from __future__ import annotations

import argparse
import csv
import gc
import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers
from peft import LoraConfig, get_peft_model
from torch import nn

from gradelib.measure import CannotMeasureError, Setup, measure_gpu_peak, measure_step_time
from gradelib.measure.models import gemma_config, torch_dtype
from gradelib.shapes import Shape

MINUTES = 8.0
REPEATS = 3
ARCHITECTURE: Any = transformers.Gemma3ForCausalLM


def setups(shape: Shape) -> list[Setup]:
    """The configurations: from those that need least, so that a small card shows them first."""
    base = Setup(shape=shape, batch=1, seq=1024, method="qlora", checkpointing=True)
    lora = replace(base, method="lora")
    full = replace(base, method="full")
    return [
        base,
        replace(base, batch=4),
        replace(base, checkpointing=False),
        replace(base, attention="eager"),
        replace(base, seq=4096),
        lora,
        replace(lora, checkpointing=False),
        replace(lora, dtype="float32"),
        replace(full, optimizer="adamw8bit"),
        full,
        replace(full, checkpointing=False),
        replace(full, dtype="float32"),
    ]


def build(setup: Setup, device: str) -> Any:
    """The model of a setup with random weights, on a device, ready to train."""
    dtype = torch_dtype(setup.dtype)
    with torch.device(device):
        model = ARCHITECTURE._from_config(
            gemma_config(setup.shape), attn_implementation=setup.attention, dtype=dtype
        )
    if setup.method == "qlora":
        quantize_blocks(model, dtype, device)
    if setup.method != "full":
        targets = setup.targets if isinstance(setup.targets, str) else list(setup.targets)
        config = LoraConfig(
            r=setup.rank, lora_alpha=setup.rank, target_modules=targets, task_type="CAUSAL_LM"
        )
        model = get_peft_model(model, config)
    if setup.checkpointing:
        model.activation_checkpointing_enable({"use_reentrant": False})
    return model.train()


def quantize_blocks(model: Any, dtype: torch.dtype, device: str) -> None:
    """Replace the blocks' linear layers by 4-bit ones, one at a time, so that peak memory stays
    near that of the 16-bit model."""
    nn4bit: Any = importlib.import_module("bitsandbytes.nn")
    for module in list(model.model.layers.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                layer = nn4bit.Linear4bit(
                    child.in_features,
                    child.out_features,
                    bias=False,
                    compute_dtype=dtype,
                    compress_statistics=True,
                    quant_type="nf4",
                    device="meta",
                )
                layer.weight = nn4bit.Params4bit(
                    child.weight.data, requires_grad=False, quant_type="nf4"
                )
                setattr(module, name, layer.to(device))
    model.is_loaded_in_4bit = True


def optimizer_of(model: Any, name: str) -> torch.optim.Optimizer:
    """The real optimizer, with PyTorch's defaults."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if name == "adamw":
        return torch.optim.AdamW(parameters)
    if name == "adamw8bit":
        optim: Any = importlib.import_module("bitsandbytes.optim")
        made: torch.optim.Optimizer = optim.AdamW8bit(parameters)
        return made
    raise CannotMeasureError(f"this script measures adamw and adamw8bit, not {name!r}")


def training_step(setup: Setup, device: str) -> Callable[[], None]:
    """A function that takes one training step on random tokens."""
    model = build(setup, device)
    optimizer = optimizer_of(model, setup.optimizer)
    ids = torch.randint(0, setup.shape.vocab, (setup.batch, setup.seq), device=device)

    def step() -> None:
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def measure(setup: Setup, device: str) -> dict[str, Any]:
    """One row: peaks of the second step and the time of a step. On a CPU the peaks are empty."""
    row: dict[str, Any] = {
        "method": setup.method,
        "dtype": setup.dtype,
        "optimizer": setup.optimizer,
        "batch": setup.batch,
        "seq": setup.seq,
        "attention": setup.attention,
        "checkpointing": setup.checkpointing,
        "rank": "" if setup.method == "full" else setup.rank,
        "result": "measured",
        "allocated_bytes": "",
        "reserved_bytes": "",
        "step_seconds": "",
    }
    try:
        step = training_step(setup, device)
        step()
        if device != "cpu":
            peak = measure_gpu_peak(step)
            row["allocated_bytes"] = peak.allocated_bytes
            row["reserved_bytes"] = peak.reserved_bytes
        timed = measure_step_time(step, repeats=REPEATS, warmup=0)
        row["step_seconds"] = round(timed.seconds, 4)
    except torch.cuda.OutOfMemoryError:
        row["result"] = "out of memory"
    return row


def measure_all(
    wanted: list[Setup], device: str, minutes: float, report: Callable[[str], Any]
) -> list[dict[str, Any]]:
    """A row for each setup; those that the time does not allow are recorded as not measured."""
    began = time.monotonic()
    rows = []
    for index, setup in enumerate(wanted, start=1):
        if time.monotonic() - began > minutes * 60:
            report(f"{index}/{len(wanted)}  no time left: {setup}\n")
            rows.append({"method": setup.method, "result": "no time left"})
            continue
        row = measure(setup, device)
        # A step holds model, gradients and states; they go before the next model comes.
        gc.collect()
        if device != "cpu":
            torch.cuda.empty_cache()
        report(f"{index}/{len(wanted)}  {row['result']}, {row['step_seconds']} s: {setup}\n")
        rows.append(row)
    return rows


def write(path: Path, rows: list[dict[str, Any]], device: str) -> None:
    """The rows as CSV, each with the device and versions that it was measured with."""
    name = "cpu"
    total: int | str = ""
    if device != "cpu":
        name = torch.cuda.get_device_name()
        total = torch.cuda.get_device_properties(0).total_memory
    same = {
        "device": name,
        "device_bytes": total,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "bitsandbytes": version("bitsandbytes"),
    }
    fields = [*max(rows, key=len), *same]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(row | same for row in rows)


def main() -> None:
    """Measure on the GPU and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("csv", type=Path, help="the table to write")
    parser.add_argument("--size", default="4b", help="a Gemma 3 size")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="start nothing later")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(
            2,
            "no CUDA GPU is here, and this script measures one: run it on a machine with an NVIDIA "
            "GPU, or use `python -m solutions.record_measurements step`, which needs none\n",
        )
    rows = measure_all(setups(Shape.gemma3(given.size)), "cuda", given.minutes, sys.stderr.write)
    write(given.csv, rows, "cuda")


if __name__ == "__main__":
    main()
