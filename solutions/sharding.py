"""Model states that are split over devices: what ZeRO, DeepSpeed's estimators and Megatron-LM count
for mixed-precision Adam. Activations are left out, as in the sources.
"""

from __future__ import annotations

from solutions.validation import require_known, require_whole

# Bytes a parameter in mixed-precision training with Adam: 16-bit weights, 16-bit gradients, and
# float32 weights, momentum and variance.
WEIGHT_BYTES = 2
GRADIENT_BYTES = 2
ADAM_BYTES = 12
STAGES = ("none", "optimizer", "gradients", "weights")


def zero_bytes_per_device(params: int, devices: int, stage: str) -> float:
    """Bytes of model states on each of `devices` under ZeRO, split up to and including `stage`.

    `none` splits nothing (16 bytes a parameter), `optimizer` its states, `gradients` these too,
    `weights` all (ZeRO-3). Raises `ValueError` for a size below 1 or an unknown stage.
    Source: Rajbhandari et al., arXiv:1910.02054, section 3.1 and figure 1.
    """
    require_whole(params=params, devices=devices)
    require_known("stage", stage, STAGES)
    split = STAGES.index(stage)
    parts = (ADAM_BYTES, GRADIENT_BYTES, WEIGHT_BYTES)
    kept = sum(parts[split:])
    return params * (kept + sum(parts[:split]) / devices)


def deepspeed_zero2_bytes(params: int, devices: int, offload: bool = False) -> float:
    """Bytes on each GPU as DeepSpeed's ZeRO-2 estimator counts them.

    It adds float32 gradients to the states that are split. With `offload` the optimizer is on the
    CPU and the GPU keeps 16-bit weights. Source: DeepSpeed, "Memory Requirements".
    """
    require_whole(params=params, devices=devices)
    if offload:
        return WEIGHT_BYTES * params
    return params * (WEIGHT_BYTES + GRADIENT_BYTES + (ADAM_BYTES + 4) / devices)


def deepspeed_zero3_offload_bytes(params: int, devices: int, largest_layer: int) -> float:
    """Bytes on each GPU as DeepSpeed's ZeRO-3 estimator counts them, optimizer on the CPU.

    The 16-bit weights are split; the largest layer's weights and gradients are gathered.
    """
    require_whole(params=params, devices=devices, largest_layer=largest_layer)
    return (WEIGHT_BYTES + GRADIENT_BYTES) * largest_layer + WEIGHT_BYTES * params / devices


def megatron_bytes_per_parameter(devices: int = 1) -> float:
    """Bytes a parameter in Megatron-LM: 18, or 6 + 12 / devices with its distributed optimizer.

    Its gradients are float32, hence 18 and not 16. Source: NVIDIA/Megatron-LM,
    `theoretical_memory_usage.py`; issue 654.
    """
    require_whole(devices=devices)
    return WEIGHT_BYTES + 4 + ADAM_BYTES / devices
