"""Runs and work drawn at random, and what the reference gives for each: operations, time, bytes that move, the roof."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from solutions import flops, roofline, traffic
from solutions.estimate import Device
from solutions.hardware import Gpu, gpu
from solutions.inference_memory import Inference, weight_parts
from solutions.memory import kv_cache_bytes
from solutions.precision import METHODS
from solutions.run_cost import Run, against_rule, run_flops, run_mfu, run_seconds
from solutions.shapes import model_shape
from solutions.training_memory import Training, training_memory

RANKS = (4, 8, 16, 64, 128)


def _sequence(draw: random.Random, model: str) -> int:
    window = model_shape(model).sliding_window or 1024
    return draw.choice(
        [1, 7, 512, 2048, 8192, window - 1, window, window + 1, draw.randrange(1, 40_000)]
    )


def runs(models: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Runs as the calculator holds them; every model turns up many times."""
    draw = random.Random(8)
    return [
        {
            "model": model,
            "method": draw.choice(METHODS),
            "rank": draw.choice(RANKS),
            "checkpointing": draw.random() < 0.5,
            "tokens": draw.choice([1, 1000, 10**6, draw.randrange(1, 10**13)]),
            "seq": _sequence(draw, model),
        }
        for model in (models[index % len(models)] for index in range(count))
    ]


def run_reference(setting: Mapping[str, Any], peak: float, utilization: float) -> dict[str, Any]:
    """What the calculator shows of one run."""
    fields = {name: value for name, value in setting.items() if name != "model"}
    shape = model_shape(setting["model"])
    run = Run(shape=shape, **fields)
    seq = setting["seq"]
    scores = flops.score_flops(shape, seq)
    return {
        "parts": run_flops(run),
        "way": against_rule(run),
        "seconds": run_seconds(run, peak, utilization),
        "mfu": run_mfu(run, peak, utilization),
        "forward": {
            "mlp": flops.mlp_flops(shape, seq),
            "projections": flops.attention_flops(shape, seq) - scores,
            "scores": scores,
            "head": flops.head_flops(shape, seq),
        },
    }


def energy_reference(card: Gpu, seconds: float) -> float | None:
    """Energy of the card at its power limit."""
    return Device(card).energy_kwh(seconds)


def work(
    models: Sequence[str], peaks: Mapping[str, Sequence[str]], count: int
) -> list[dict[str, Any]]:
    """Work as the roofline holds it; `peaks` names each card's formats."""
    draw = random.Random(9)
    found = []
    for index in range(count):
        model = models[index % len(models)]
        card = draw.choice(list(peaks))
        found.append(
            {
                "model": model,
                "gpu": card,
                "dtype": draw.choice(peaks[card]),
                "weights": draw.choice(["", "nf4-dq"]),
                "batch": draw.choice([1, 1, 2, 8, 64, 1000]),
                "prompt": _sequence(draw, model),
                "context": _sequence(draw, model),
                "method": draw.choice(METHODS),
                "sequences": draw.choice([1, 2, 3, 16]),
                "seq": _sequence(draw, model),
                "checkpointing": draw.random() < 0.5,
            }
        )
    return found


def _training(setting: Mapping[str, Any]) -> Training:
    return Training(
        shape=model_shape(setting["model"]),
        batch=setting["sequences"],
        seq=setting["seq"],
        method=setting["method"],
        precision={"tfloat32": "float32"}.get(setting["dtype"], setting["dtype"]),
        checkpointing=setting["checkpointing"],
        quantization="nf4-dq",
        rank=16,
    )


def work_reference(setting: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Each kind of work under the roof, and the memory that it needs."""
    s, shape, training = setting, model_shape(setting["model"]), _training(setting)
    dtype, scheme = s["dtype"], s["weights"] or None
    card = gpu(s["gpu"])
    roof = card.peak(dtype), card.bandwidth_bytes_per_s
    step = flops.training_flops(shape, s["sequences"], s["seq"], s["method"], s["checkpointing"])
    if s["method"] != "full":
        step += flops.adapter_flops(
            shape, s["sequences"], s["seq"], 16, "all-linear", s["checkpointing"]
        )
    amounts = {
        "prefill": (
            flops.prefill_flops(shape, s["batch"], s["prompt"]),
            traffic.prefill_bytes_moved(shape, s["batch"], s["prompt"], dtype, scheme),
        ),
        "decode": (
            flops.decode_flops(shape, s["batch"], s["context"]),
            traffic.decode_bytes_moved(shape, s["batch"], s["context"], dtype, scheme),
        ),
        "training": (step, traffic.training_bytes_moved(training)),
    }
    found = {}
    for kind, (operations, moved) in amounts.items():
        intensity = roofline.arithmetic_intensity(operations, moved)
        attainable = roofline.attainable_flops_per_s(intensity, *roof)
        found[kind] = {
            "flops": operations,
            "bytes": moved,
            "intensity": intensity,
            "attainable": attainable,
            "memoryBound": roofline.is_memory_bound(operations, moved, *roof),
            "seconds": roofline.training_seconds(operations, attainable, 1),
        }
    stored = {"tfloat32": "float32"}.get(dtype, dtype)
    weights = sum(
        part.bytes
        for part in weight_parts(
            Inference(
                shape=shape, batch=1, prompt=1, new_tokens=0, dtype=stored, quantization=scheme
            )
        )
    )
    found["needed"] = {
        "prefill": weights + kv_cache_bytes(shape, s["batch"], s["prompt"], dtype),
        "decode": weights + kv_cache_bytes(shape, s["batch"], s["context"], dtype),
        "training": training_memory(training).total_bytes,
    }
    return found
