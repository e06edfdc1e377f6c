"""One step of AdamW, Adafactor and 8-bit AdamW on one weight: given the weight, its gradient and a
state record, the new weight and the new state. Nothing is changed in place.

A state record is a dictionary of tensors and the number of steps taken. What the states take in
memory is left to `solutions.optimizers`.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from torch import Tensor

from solutions.implementations.quantize import (
    dequantize_from_table,
    dynamic_table,
    quantize_to_table,
)

State = dict[str, Any]

BLOCK_8BIT = 256  # values that share one scale in an 8-bit state


def adamw_state(weight: Tensor) -> State:
    """State before the first step: mean and mean square of the gradients, both zero."""
    return {"step": 0, "m": torch.zeros_like(weight), "v": torch.zeros_like(weight)}


def adamw_step(
    weight: Tensor,
    grad: Tensor,
    state: State,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
) -> tuple[Tensor, State]:
    """AdamW: each weight moves by its gradients' mean over the root of their mean square.

    m and v start at zero, so the first steps divide by 1 - beta^t to undo the pull towards it.
    Weight decay acts on the weight itself, not through the gradient. Source: arXiv:1711.05101,
    algorithm 2. Raises `ValueError` for a gradient of another shape.
    """
    _require_same_shape(weight, grad)
    t = state["step"] + 1
    m = beta1 * state["m"] + (1 - beta1) * grad
    v = beta2 * state["v"] + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    decayed = weight * (1 - lr * weight_decay)
    return decayed - lr * m_hat / (v_hat.sqrt() + eps), {"step": t, "m": m, "v": v}


def adafactor_state(weight: Tensor) -> State:
    """State before the first step: for a matrix, one number a row and one a column."""
    if weight.ndim < 2:
        return {"step": 0, "v": torch.zeros_like(weight)}
    return {
        "step": 0,
        "row": weight.new_zeros(weight.shape[:-1]),
        "column": weight.new_zeros(weight.shape[:-2] + weight.shape[-1:]),
    }


def adafactor_step(
    weight: Tensor,
    grad: Tensor,
    state: State,
    lr: float = 1e-3,
    decay_rate: float = -0.8,
    eps: float = 1e-30,
    clip_threshold: float = 1.0,
    weight_decay: float = 0.0,
) -> tuple[Tensor, State]:
    """Adafactor with a given learning rate and no momentum: the mean squares of a matrix of n x m
    gradients are rebuilt from n row means and m column means.

    v_ij = row_i column_j / mean(row). The update's root mean square is clipped to
    `clip_threshold`. Source: arXiv:1804.04235, algorithms 4 and 5, with `relative_step` and
    `scale_parameter` off. Raises `ValueError` for a gradient of another shape.
    """
    _require_same_shape(weight, grad)
    t = state["step"] + 1
    beta2 = 1 - t**decay_rate
    squared = grad**2 + eps
    new: State = {"step": t}
    if weight.ndim < 2:
        v = new["v"] = beta2 * state["v"] + (1 - beta2) * squared
    else:
        row = new["row"] = beta2 * state["row"] + (1 - beta2) * squared.mean(dim=-1)
        column = new["column"] = beta2 * state["column"] + (1 - beta2) * squared.mean(dim=-2)
        v = (row / row.mean(dim=-1, keepdim=True))[..., :, None] * column[..., None, :]
    update = grad / v.sqrt()
    update = update / max(1.0, _rms(update) / clip_threshold)
    return weight - lr * weight_decay * weight - lr * update, new


def adamw8bit_state(weight: Tensor) -> State:
    """State before the first step: codes of zeros, and one scale for each 256 weights."""
    blocks = -(-weight.numel() // BLOCK_8BIT)

    def zeros() -> tuple[Tensor, Tensor]:
        codes = torch.zeros(weight.shape, dtype=torch.uint8, device=weight.device)
        return codes, torch.zeros(blocks, device=weight.device)

    (m_codes, m_absmax), (v_codes, v_absmax) = zeros(), zeros()
    return {
        "step": 0,
        "m_codes": m_codes,
        "m_absmax": m_absmax,
        "v_codes": v_codes,
        "v_absmax": v_absmax,
    }


def adamw8bit_step(
    weight: Tensor,
    grad: Tensor,
    state: State,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
) -> tuple[Tensor, State]:
    """AdamW whose state rests in 8 bits: read it into float32, make the step, round it again.

    m uses the signed dynamic table and v, which is never negative, the unsigned one. A v that is
    far below the largest of its block rounds to 0, and that weight then takes a very large step.
    The order of operations is that of bitsandbytes, so results are equal bit for bit where it takes
    the nearest code (its compiled CPU kernel searches approximately). bitsandbytes keeps the states
    of tensors below 4,096 elements in float32; this function does not. Source: arXiv:2110.02861.
    Raises `ValueError` for a gradient of another shape.
    """
    _require_same_shape(weight, grad)
    t = state["step"] + 1
    signed, unsigned = dynamic_table(True), dynamic_table(False)
    grad = grad.float()
    m = dequantize_from_table(state["m_codes"], state["m_absmax"], signed, BLOCK_8BIT)
    v = dequantize_from_table(state["v_codes"], state["v_absmax"], unsigned, BLOCK_8BIT)
    m = torch.add(beta1 * m, grad, alpha=1 - beta1)
    v = torch.addcmul(beta2 * v, grad, grad, value=1 - beta2)
    root_v_hat = v.sqrt() / sqrt(1 - beta2**t)
    decayed = weight.float() * (1 - lr * weight_decay)
    moved = torch.addcdiv(decayed, m, root_v_hat + eps, value=-lr / (1 - beta1**t))
    m_codes, m_absmax = quantize_to_table(m, signed, BLOCK_8BIT)
    v_codes, v_absmax = quantize_to_table(v, unsigned, BLOCK_8BIT)
    return moved.to(weight.dtype), {
        "step": t,
        "m_codes": m_codes,
        "m_absmax": m_absmax,
        "v_codes": v_codes,
        "v_absmax": v_absmax,
    }


def _rms(values: Tensor) -> float:
    return float(values.norm() / sqrt(values.numel()))


def _require_same_shape(weight: Tensor, grad: Tensor) -> None:
    if weight.shape != grad.shape:
        raise ValueError(
            f"the gradient has shape {tuple(grad.shape)}, the weight {tuple(weight.shape)}: "
            "give the gradient of this weight"
        )
