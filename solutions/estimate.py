"""Command line: what training or running a model takes, in memory, time and energy.

    python -m solutions.estimate gemma3-4b --method qlora --batch 1 --seq 1024 --gpu t4

Exit status: 0 when an estimate is printed, 2 for bad input; with `--check`, 1 when the peak does not
fit on the GPU. Each figure comes from the module that owns it; here they are put together and printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradelib.shapes import Shape
from solutions.breakdown import GIB, Breakdown
from solutions.caveats import FLOAT16_OVERFLOW, overflows
from solutions.flops import adapter_flops, generation_flops, prefill_flops, training_flops
from solutions.hardware import Gpu, gpu, gpu_names
from solutions.inference_memory import Inference, inference_memory
from solutions.lora import ALL_LINEAR
from solutions.memory import fits
from solutions.optimizers import OPTIMIZERS
from solutions.parameters import parameter_count
from solutions.precision import METHODS, PRECISIONS
from solutions.quantization import SCHEMES
from solutions.roofline import decode_seconds_lower_bound, training_seconds
from solutions.shapes import model_names, model_shape
from solutions.training_memory import Training, training_memory
from solutions.validation import require_whole

INFERENCE = "inference"
SHORT = {
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp16-mixed": "float16-mixed",
    "bf16-mixed": "bfloat16-mixed",
}
WEIGHTS = ("weights", "quantized_weights", "kept_weights")
JOULES_PER_KWH = 3.6e6
ESTIMATED, DOES_NOT_FIT, BAD_INPUT = 0, 1, 2


@dataclass(frozen=True)
class Device:
    """The GPU, and what is assumed of it: the memory kept free, and the share of its peak reached by
    all operations that run, recomputed ones too (where nothing is recomputed, this is the MFU)."""

    gpu: Gpu
    headroom: float = 0.1
    utilization: float = 0.3

    @property
    def usable_bytes(self) -> int:
        """What PyTorch reports as its memory, or the capacity where no report is known."""
        return self.gpu.usable_bytes or self.gpu.capacity_bytes

    def fits(self, memory: Breakdown) -> bool:
        """Whether a peak fits beside the headroom."""
        return fits(memory.total_bytes, self.usable_bytes, self.headroom)

    def peak_flops_per_s(self, dtype: str) -> float | None:
        """The peak for `dtype`; that of float32 where `dtype` is emulated; `None` without either."""
        peaks = self.gpu.peak_flops_per_s
        return peaks.get(dtype, peaks.get("float32"))

    def energy_kwh(self, seconds: float) -> float | None:
        """Energy at the power limit; `None` where that is not published."""
        return None if self.gpu.tdp_w is None else self.gpu.tdp_w * seconds / JOULES_PER_KWH


@dataclass(frozen=True)
class Estimate:
    """What is printed. `flops` and `seconds` are of one `unit`: an optimizer step, or a generation."""

    model: str
    shape: Shape
    settings: Mapping[str, object]
    memory: Breakdown
    unit: str
    count: int
    flops: float
    seconds: float | None
    device: Device | None
    warnings: tuple[str, ...]


def estimate_training(
    model: str, training: Training, device: Device | None = None, steps: int = 1
) -> Estimate:
    """Put the estimates for a training step together. Raises `ValueError` for bad assumptions."""
    require_whole(steps=steps)
    t = training
    flops = training_flops(t.shape, t.batch, t.seq, t.method, t.checkpointing)
    if t.method != "full":
        flops += adapter_flops(t.shape, t.batch, t.seq, t.rank, t.targets, t.checkpointing)
    flops *= t.accumulation
    peak = None if device is None else device.peak_flops_per_s(t.compute_dtype)
    return Estimate(
        model=model,
        shape=t.shape,
        settings={
            "method": t.method,
            "precision": t.precision,
            "optimizer": t.optimizer,
            "batch": t.batch,
            "seq": t.seq,
            "accumulation": t.accumulation,
            "checkpointing": t.checkpointing,
            "attention": t.attention,
            "trained_parameters": t.trained_parameters,
        },
        memory=training_memory(t),
        unit="step",
        count=steps,
        flops=flops,
        seconds=None
        if device is None or peak is None
        else training_seconds(flops, peak, device.utilization),
        device=device,
        warnings=_warnings(model, t.compute_dtype, device),
    )


def estimate_inference(
    model: str, inference: Inference, device: Device | None = None, generations: int = 1
) -> Estimate:
    """Put the estimates for a generation together. Raises `ValueError` for bad assumptions.

    The prompt is read at the assumed share of the peak; each new token takes at least the time to
    read the weights.
    """
    require_whole(generations=generations)
    i = inference
    memory = inference_memory(i)
    prefill = prefill_flops(i.shape, i.batch, i.prompt)
    peak = None if device is None else device.peak_flops_per_s(i.dtype)
    seconds = None
    if device is not None and peak is not None:
        seconds = training_seconds(prefill, peak, device.utilization)
        steps = i.new_tokens - 1  # the prefill gives the first token
        if steps > 0:
            weights = sum(memory.part_bytes(name) for name in WEIGHTS)
            bandwidth = device.gpu.bandwidth_bytes_per_s
            seconds += decode_seconds_lower_bound(weights, bandwidth, steps)
    return Estimate(
        model=model,
        shape=i.shape,
        settings={
            "method": INFERENCE,
            "precision": i.dtype,
            "quantization": i.quantization,
            "batch": i.batch,
            "prompt": i.prompt,
            "new_tokens": i.new_tokens,
            "attention": i.attention,
        },
        memory=memory,
        unit="generation",
        count=generations,
        flops=generation_flops(i.shape, i.batch, i.prompt, i.new_tokens),
        seconds=seconds,
        device=device,
        warnings=_warnings(model, i.dtype, device),
    )


def _warnings(model: str, dtype: str, device: Device | None) -> tuple[str, ...]:
    found = []
    if overflows(model, dtype):
        found.append(FLOAT16_OVERFLOW)
    if device is None:
        return tuple(found)
    title = device.gpu.title
    if not device.gpu.is_native(dtype):
        emulated = "time is estimated at its float32 peak"
        rate = emulated if device.gpu.is_native("float32") else "no time is estimated"
        found.append(f"{title} has no matrix units for {dtype}: {rate}")
    if device.gpu.usable_bytes is None:
        found.append(f"what PyTorch can use of {title} is not known: its full capacity is taken")
    if device.gpu.tdp_w is None:
        found.append(f"the power limit of {title} is not published: no energy is estimated")
    return tuple(found)


def as_data(of: Estimate) -> dict[str, Any]:
    """The estimate as plain data, for `--json`. Sizes are bytes; the parts of a moment add up."""
    return {
        "model": of.model,
        "vocabulary": of.shape.vocab,
        "parameters": parameter_count(of.shape),
        "settings": dict(of.settings),
        "memory": {
            "total_bytes": of.memory.total_bytes,
            "peak_moment": of.memory.peak.name,
            "moments": of.memory.by_moment(),
            "left_out": of.memory.left_out,
        },
        "unit": of.unit,
        "flops": of.flops,
        "gpu": None if of.device is None else _device_data(of, of.device),
        "warnings": of.warnings,
    }


def _device_data(of: Estimate, device: Device) -> dict[str, Any]:
    seconds = None if of.seconds is None else of.count * of.seconds
    return {
        "name": device.gpu.name,
        "usable_bytes": device.usable_bytes,
        "headroom": device.headroom,
        "fits": device.fits(of.memory),
        "utilization": device.utilization,
        "count": of.count,
        "seconds": seconds,
        "energy_kwh": None if seconds is None else device.energy_kwh(seconds),
    }


def as_text(of: Estimate) -> str:
    """The estimate in words."""
    lines = [
        f"{of.model}: {parameter_count(of.shape):,} parameters "
        f"(vocabulary {of.shape.vocab:,}, no vision tower)",
        ", ".join(f"{name.replace('_', ' ')} {_shown(of.settings[name])}" for name in of.settings),
        "",
        of.memory.explain(),
        "",
        f"one {of.unit}: {of.flops:.4g} FLOPs",
    ]
    if of.device is not None:
        lines += _device_text(of, of.device)
    lines += [f"warning: {warning}" for warning in of.warnings]
    return "\n".join(lines)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _device_text(of: Estimate, device: Device) -> list[str]:
    verdict = "fits" if device.fits(of.memory) else "does not fit"
    lines = [
        f"{device.gpu.title}: {device.usable_bytes / GIB:.2f} GiB to use, "
        f"{device.headroom:.0%} kept free: {verdict}"
    ]
    if of.seconds is None:
        return lines
    seconds = of.count * of.seconds
    least = "" if of.unit == "step" else ", tokens at the memory's full speed"
    lines.append(
        f"{of.count:,} {of.unit}{'s' if of.count > 1 else ''}: {seconds:,.2f} s "
        f"(assumed: {device.utilization:.0%} of the peak{least}; measure yours)"
    )
    energy = device.energy_kwh(seconds)
    if energy is not None:
        lines.append(
            f"energy: {energy:.3g} kWh (the GPU alone, at its limit of {device.gpu.tdp_w:g} W)"
        )
    return lines


def read_model(name: str) -> Shape:
    """The shape of a model by name, or from the path of a Hugging Face configuration.

    Raises `ValueError` for a name that is neither, or a file that cannot be read.
    """
    path = Path(name)
    if name in model_names() or not path.exists():
        try:
            return model_shape(name)
        except ValueError as error:
            raise ValueError(f"{error}; or give the path of a config.json that exists") from error
    try:
        return Shape.from_config(path)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    new = argparse.ArgumentParser(
        prog="python -m solutions.estimate",
        description="Memory, FLOPs, time and energy of a training step or of generating text.",
        epilog="Exit status: 0 estimated, 1 does not fit (with --check), 2 bad input. "
        f"Models: {', '.join(model_names())}.",
    )
    new.add_argument("model", help="a model's name, or the path of a Hugging Face config.json")
    new.add_argument("--method", choices=(*METHODS, INFERENCE), default="full")
    new.add_argument(
        "--precision",
        choices=(*SHORT, *PRECISIONS),
        default="bf16",
        metavar="NAME",
        help=f"one of {', '.join((*SHORT, *PRECISIONS))} (default: bf16)",
    )
    new.add_argument("--batch", type=int, default=1, help="sequences at once (default: 1)")
    new.add_argument(
        "--seq", type=int, default=1024, help="tokens a sequence, or a prompt (default: 1024)"
    )
    new.add_argument("--attention", choices=("sdpa", "eager"), default="sdpa")
    new.add_argument(
        "--quantization", choices=SCHEMES, help="of the weights (default: nf4 for qlora, else none)"
    )
    new.add_argument("--json", action="store_true", help="print data instead of text")

    train = new.add_argument_group("training")
    train.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw")
    train.add_argument(
        "--accumulation", type=int, default=1, help="micro-batches a step (default: 1)"
    )
    train.add_argument(
        "--checkpointing",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="recompute each block's activations in the backward pass",
    )
    train.add_argument("--rank", type=int, default=16, help="of the adapters (default: 16)")
    train.add_argument(
        "--targets", default=ALL_LINEAR, help=f"layers, by commas, or {ALL_LINEAR} (the default)"
    )

    generate = new.add_argument_group("inference")
    generate.add_argument("--new-tokens", type=int, default=128, help="to generate (default: 128)")

    device = new.add_argument_group("device")
    device.add_argument("--gpu", choices=gpu_names(), metavar="NAME", help=", ".join(gpu_names()))
    device.add_argument(
        "--headroom", type=float, default=0.1, help="share of its memory kept free (default: 0.1)"
    )
    device.add_argument(
        "--utilization",
        type=float,
        default=0.3,
        help="share of its peak reached, counting recomputed operations too (default: 0.3)",
    )
    device.add_argument(
        "--count", type=int, default=1, help="steps or generations to time (default: 1)"
    )
    device.add_argument(
        "--check", action="store_true", help="exit with status 1 if the peak does not fit"
    )
    return new


def estimate(given: argparse.Namespace) -> Estimate:
    """The estimate that the arguments ask for. Raises `ValueError` for bad input."""
    shape = read_model(given.model)
    precision = SHORT.get(given.precision, given.precision)
    device = Device(gpu(given.gpu), given.headroom, given.utilization) if given.gpu else None
    if given.method == INFERENCE:
        inference = Inference(
            shape=shape,
            batch=given.batch,
            prompt=given.seq,
            new_tokens=given.new_tokens,
            dtype=precision,
            quantization=given.quantization,
            attention=given.attention,
        )
        return estimate_inference(given.model, inference, device, given.count)
    if given.quantization and given.method != "qlora":
        raise ValueError(
            f"--quantization is for qlora and {INFERENCE}: {given.method} trains unquantized weights"
        )
    training = Training(
        shape=shape,
        batch=given.batch,
        seq=given.seq,
        method=given.method,
        precision=precision,
        optimizer=given.optimizer,
        attention=given.attention,
        checkpointing=given.checkpointing,
        rank=given.rank,
        targets=given.targets if given.targets == ALL_LINEAR else given.targets.split(","),
        quantization=given.quantization or "nf4",
        accumulation=given.accumulation,
    )
    return estimate_training(given.model, training, device, given.count)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    given = parser().parse_args(arguments)
    if given.check and not given.gpu:
        parser().error("--check needs --gpu")
    try:
        result = estimate(given)
        text = json.dumps(as_data(result), indent=2) if given.json else as_text(result)
    except ValueError as error:
        sys.stderr.write(f"estimate: {error}\n")
        return BAD_INPUT
    sys.stdout.write(text + "\n")
    if given.check and result.device is not None and not result.device.fits(result.memory):
        return DOES_NOT_FIT
    return ESTIMATED


if __name__ == "__main__":
    sys.exit(main())
