"""Peaks that others measured on GPUs, beside what the estimators predict for the same configuration.

The measurements are in `measured_peaks.json`. No constant of the estimators comes from them. What
is told of a trainer there, and not of all trainers, is what its code or its authors state:

- LitGPT (torch 2.1, bitsandbytes 0.41.1): adapters in bfloat16, with dropout; logits and loss in
  chunks of 128 tokens (`finetune/lora.py`); 4-bit layers kept their input.
- torchtune: fused AdamW (`llama3_2/3B_full.yaml`), logits deleted before the backward pass, cross
  entropy in 8 chunks.
- fitcheck: PEFT's float32 adapters; `prepare_model_for_kbit_training` for QLoRA.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solutions.breakdown import GIB, Breakdown
from solutions.inference_memory import Inference, inference_memory
from solutions.shapes import model_shape
from solutions.training_memory import Training, training_memory

UNITS = {"GB": 10**9, "GiB": GIB, "MiB": 2**20}


@dataclass(frozen=True)
class Source:
    """Who measured, on what, and what in their setting the estimate does not describe."""

    title: str
    gpu: str
    metric: str
    differs: str


SOURCES = {
    "litgpt": Source(
        "Lightning-AI/litgpt, tutorials/resource-tables.md (October 2023)",
        "A100 40 GB",
        "torch.cuda.max_memory_allocated",
        "q, k and v stay one tensor; its own blocks",
    ),
    "torchtune": Source(
        "meta-pytorch/torchtune, README.md",
        "A100 80 GB",
        "peak active memory",
        "its own blocks; with torch.compile where the loss is chunked",
    ),
    "fitcheck": Source(
        "Anassbzdd/fitcheck, data/measurements (September 2026)",
        "T4",
        "torch.cuda.max_memory_allocated",
        "the allocator's rounding, and small tables of code values",
    ),
}


@dataclass(frozen=True)
class MeasuredPeak:
    """One measurement and its prediction, in bytes. `error` is a fraction of the measurement."""

    fact: str
    model: str
    configuration: Mapping[str, object]
    measured_bytes: float
    predicted: Breakdown
    source: Source

    @property
    def predicted_bytes(self) -> int:
        """Bytes at the predicted peak, inside PyTorch's allocator: without the CUDA context."""
        return self.predicted.total_bytes

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return self.predicted_bytes / self.measured_bytes - 1


def measured_peaks() -> list[MeasuredPeak]:
    """Every measurement beside its prediction."""
    path = Path(__file__).with_name("measured_peaks.json")
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return [
        MeasuredPeak(
            fact=row["fact"],
            model=row["model"],
            configuration=row.get("training") or row["inference"],
            measured_bytes=row["measured"] * UNITS[row["unit"]],
            predicted=_predicted(row),
            source=SOURCES[row["source"]],
        )
        for row in rows
    ]


def _predicted(row: Mapping[str, Any]) -> Breakdown:
    shape = model_shape(row["model"])
    if "training" in row:
        return training_memory(Training(shape=shape, context_bytes=0, **row["training"]))
    return inference_memory(Inference(shape=shape, context_bytes=0, **row["inference"]))
