"""Command line: what one training step of a model takes, in memory, time and energy.

    python -m solutions.estimate gemma3-4b --method qlora --batch 1 --seq 1024 --gpu t4

Exit status: 0 when an estimate is printed, 2 for bad input; with `--check`, 1 when the peak does not
fit on the GPU. Each figure comes from the module that owns it; here they are put together and printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradelib.shapes import Shape
from solutions.breakdown import GIB, Breakdown
from solutions.flops import adapter_flops, training_flops
from solutions.hardware import Gpu, gpu, gpu_names
from solutions.lora import ALL_LINEAR
from solutions.memory import fits
from solutions.optimizers import OPTIMIZERS
from solutions.parameters import parameter_count
from solutions.precision import METHODS, PRECISIONS
from solutions.quantization import SCHEMES
from solutions.roofline import training_seconds
from solutions.shapes import GEMMA3, model_names, model_shape
from solutions.training_memory import Training, training_memory
from solutions.validation import require_whole

SHORT = {
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp16-mixed": "float16-mixed",
    "bf16-mixed": "bfloat16-mixed",
}
JOULES_PER_KWH = 3.6e6
ESTIMATED, DOES_NOT_FIT, BAD_INPUT = 0, 1, 2


@dataclass(frozen=True)
class Run:
    """Time and energy of a number of optimizer steps on one GPU."""

    steps: int
    seconds: float
    energy_kwh: float | None
    peak_flops_per_s: float


@dataclass(frozen=True)
class Estimate:
    """Everything that the command prints."""

    model: str
    training: Training
    memory: Breakdown
    step_flops: float
    gpu: Gpu | None
    headroom: float
    mfu: float
    run: Run | None
    warnings: tuple[str, ...]

    @property
    def usable_bytes(self) -> int | None:
        """Memory of the GPU: what PyTorch reports, or the capacity where no report is known."""
        if self.gpu is None:
            return None
        return self.gpu.usable_bytes or self.gpu.capacity_bytes

    @property
    def fits(self) -> bool | None:
        """Whether the peak and the headroom fit; `None` without a GPU."""
        if self.usable_bytes is None:
            return None
        return fits(self.memory.total_bytes, self.usable_bytes, self.headroom)


def estimate(
    model: str,
    training: Training,
    device: Gpu | None = None,
    headroom: float = 0.1,
    mfu: float = 0.3,
    steps: int = 1,
) -> Estimate:
    """Put the estimates for one configuration together.

    `mfu` is the share of the GPU's peak that training is assumed to reach, and `steps` the number
    of optimizer steps. Raises `ValueError` for a share or a number out of range.
    """
    require_whole(steps=steps)
    step_flops = _step_flops(training)
    return Estimate(
        model=model,
        training=training,
        memory=training_memory(training),
        step_flops=step_flops,
        gpu=device,
        headroom=headroom,
        mfu=mfu,
        run=_run(training, step_flops, device, mfu, steps),
        warnings=tuple(_warnings(model, training, device)),
    )


def _step_flops(t: Training) -> float:
    """FLOPs of one optimizer step: all its micro-batches, adapters included."""
    flops = training_flops(t.shape, t.batch, t.seq, t.method, t.checkpointing)
    if t.method != "full":
        flops += adapter_flops(t.shape, t.batch, t.seq, t.rank, t.targets, t.checkpointing)
    return t.accumulation * flops


def _run(
    training: Training, step_flops: float, device: Gpu | None, mfu: float, steps: int
) -> Run | None:
    if device is None:
        return None
    peak = device.peak_flops_per_s.get(
        training.compute_dtype, device.peak_flops_per_s.get("float32")
    )
    if peak is None:
        return None
    seconds = training_seconds(steps * step_flops, peak, mfu)
    energy = None if device.tdp_w is None else device.tdp_w * seconds / JOULES_PER_KWH
    return Run(steps, seconds, energy, peak)


def _warnings(model: str, training: Training, device: Gpu | None) -> list[str]:
    found = []
    dtype = training.compute_dtype
    if dtype == "float16" and model in GEMMA3:
        found.append("Gemma 3's activations overflow in float16: use bfloat16 or float32")
    if device is None:
        return found
    if not device.is_native(dtype):
        rate = (
            "time is estimated at its float32 peak"
            if device.is_native("float32")
            else "no time is estimated"
        )
        found.append(f"{device.title} has no matrix units for {dtype}: {rate}")
    if device.usable_bytes is None:
        found.append(
            f"no report of what PyTorch can use of {device.title} is known: its full capacity is "
            "taken"
        )
    if device.tdp_w is None:
        found.append(f"the power limit of {device.title} is not published: no energy is estimated")
    return found


def as_data(of: Estimate) -> dict[str, Any]:
    """The estimate as plain data, for `--json`. Sizes are bytes; the parts of a moment add up."""
    training, memory = of.training, of.memory
    return {
        "model": of.model,
        "vocabulary": training.shape.vocab,
        "parameters": parameter_count(training.shape),
        "trained_parameters": training.trained_parameters,
        "training": {
            "method": training.method,
            "precision": training.precision,
            "optimizer": training.optimizer,
            "batch": training.batch,
            "seq": training.seq,
            "accumulation": training.accumulation,
            "checkpointing": training.checkpointing,
            "attention": training.attention,
        },
        "memory": {
            "total_bytes": memory.total_bytes,
            "peak_moment": memory.peak.name,
            "moments": memory.by_moment(),
            "left_out": memory.left_out,
        },
        "step_flops": of.step_flops,
        "gpu": None if of.gpu is None else _gpu_data(of.gpu, of),
        "warnings": of.warnings,
    }


def _gpu_data(device: Gpu, of: Estimate) -> dict[str, Any]:
    run = of.run
    return {
        "name": device.name,
        "usable_bytes": of.usable_bytes,
        "headroom": of.headroom,
        "fits": of.fits,
        "mfu": of.mfu,
        "steps": None if run is None else run.steps,
        "seconds": None if run is None else run.seconds,
        "energy_kwh": None if run is None else run.energy_kwh,
    }


def as_text(of: Estimate) -> str:
    """The estimate in words."""
    training = of.training
    lines = [
        f"{of.model}: {parameter_count(training.shape):,} parameters (vocabulary "
        f"{training.shape.vocab:,}, no vision tower); {training.trained_parameters:,} are trained",
        f"batch {training.batch} x {training.seq:,} tokens; micro-batches a step: "
        f"{training.accumulation}; checkpointing {'on' if training.checkpointing else 'off'}, {training.attention} attention",
        "",
        of.memory.explain(),
        "",
        f"one step: {of.step_flops:.4g} FLOPs",
    ]
    if of.gpu is not None:
        lines += _gpu_text(of.gpu, of)
    lines += [f"warning: {warning}" for warning in of.warnings]
    return "\n".join(lines)


def _gpu_text(device: Gpu, of: Estimate) -> list[str]:
    assert of.usable_bytes is not None
    verdict = "fits" if of.fits else "does not fit"
    lines = [
        f"{device.title}: {of.usable_bytes / GIB:.2f} GiB to use, {of.headroom:.0%} kept free: {verdict}"
    ]
    if of.run is not None:
        steps = "one step" if of.run.steps == 1 else f"{of.run.steps:,} steps"
        lines.append(
            f"{steps} at {of.mfu:.0%} of {of.run.peak_flops_per_s / 1e12:.4g} TFLOP/s (an assumption: "
            f"measure yours): {of.run.seconds:,.2f} s"
        )
        if of.run.energy_kwh is not None:
            lines.append(
                f"energy at the power limit of {device.tdp_w:g} W, the GPU alone: "
                f"{of.run.energy_kwh:.3g} kWh"
            )
    return lines


def read_model(name: str) -> Shape:
    """The shape of a model by name, or from the path of a Hugging Face configuration.

    Raises `ValueError` for a name that is neither, or a file that cannot be read.
    """
    if name in model_names():
        return model_shape(name)
    path = Path(name)
    if path.exists():
        try:
            return Shape.from_config(path)
        except OSError as error:
            raise ValueError(f"cannot read {path}: {error.strerror}") from error
    try:
        return model_shape(name)
    except ValueError as error:
        raise ValueError(f"{error}; or give the path of a config.json that exists") from error


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    new = argparse.ArgumentParser(
        prog="python -m solutions.estimate",
        description="Memory, FLOPs, time and energy of one training step.",
        epilog="Exit status: 0 estimated, 1 does not fit (with --check), 2 bad input. "
        f"Models: {', '.join(model_names())}.",
    )
    new.add_argument("model", help="a model's name, or the path of a Hugging Face config.json")
    new.add_argument("--method", choices=METHODS, default="full")
    new.add_argument(
        "--precision",
        choices=(*SHORT, *PRECISIONS),
        default="bf16",
        metavar="NAME",
        help=f"one of {', '.join((*SHORT, *PRECISIONS))} (default: bf16)",
    )
    new.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw")
    new.add_argument("--batch", type=int, default=1, help="sequences at once (default: 1)")
    new.add_argument("--seq", type=int, default=1024, help="tokens a sequence (default: 1024)")
    new.add_argument(
        "--accumulation", type=int, default=1, help="micro-batches a step (default: 1)"
    )
    new.add_argument(
        "--checkpointing",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="recompute each block's activations in the backward pass",
    )
    new.add_argument("--attention", choices=("sdpa", "eager"), default="sdpa")
    new.add_argument("--rank", type=int, default=16, help="of the adapters (default: 16)")
    new.add_argument(
        "--targets", default=ALL_LINEAR, help=f"layers, by commas, or {ALL_LINEAR} (the default)"
    )
    new.add_argument("--quantization", choices=SCHEMES, default="nf4", help="for qlora")
    new.add_argument("--gpu", choices=gpu_names())
    new.add_argument(
        "--headroom", type=float, default=0.1, help="share of the memory kept free (default: 0.1)"
    )
    new.add_argument(
        "--mfu", type=float, default=0.3, help="share of the GPU's peak reached (default: 0.3)"
    )
    new.add_argument("--steps", type=int, default=1, help="optimizer steps to time (default: 1)")
    new.add_argument(
        "--check", action="store_true", help="exit with status 1 if it does not fit on the GPU"
    )
    new.add_argument("--json", action="store_true", help="print data instead of text")
    return new


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    given = parser().parse_args(arguments)
    if given.check and not given.gpu:
        parser().error("--check needs --gpu")
    targets = given.targets if given.targets == ALL_LINEAR else given.targets.split(",")
    try:
        result = estimate(
            given.model,
            Training(
                shape=read_model(given.model),
                batch=given.batch,
                seq=given.seq,
                method=given.method,
                precision=SHORT.get(given.precision, given.precision),
                optimizer=given.optimizer,
                attention=given.attention,
                checkpointing=given.checkpointing,
                rank=given.rank,
                targets=targets,
                quantization=given.quantization,
                accumulation=given.accumulation,
            ),
            gpu(given.gpu) if given.gpu else None,
            given.headroom,
            given.mfu,
            given.steps,
        )
        text = json.dumps(as_data(result), indent=2) if given.json else as_text(result)
    except ValueError as error:
        sys.stderr.write(f"estimate: {error}\n")
        return BAD_INPUT
    sys.stdout.write(text + "\n")
    return DOES_NOT_FIT if given.check and result.fits is False else ESTIMATED


if __name__ == "__main__":
    sys.exit(main())
