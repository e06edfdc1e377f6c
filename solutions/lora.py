"""How many parameters low-rank adapters add, and what they weigh on disk.

Source: LoRA, arXiv:2106.09685, section 4.1; targets are named as in PEFT.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradelib.shapes import Shape
from solutions.dtypes import bits
from solutions.layers import Linear, head_layer, linear_layers
from solutions.validation import require_whole

ALL_LINEAR = "all-linear"


def target_layers(shape: Shape, targets: Sequence[str] | str) -> list[Linear]:
    """The linear layers that `targets` names: a list of names, or `"all-linear"` (not the head).

    Raises `ValueError` for no target, a name that the model lacks or a name given twice.
    """
    if targets == ALL_LINEAR:
        return linear_layers(shape)
    known = {layer.name: layer for layer in [*linear_layers(shape), head_layer(shape)]}
    if isinstance(targets, str) or not targets or not set(targets) <= known.keys():
        raise ValueError(
            f"targets must be {ALL_LINEAR!r} or a list of layers of this model, "
            f"from {', '.join(known)}: got {targets!r}"
        )
    if len(set(targets)) < len(targets):
        raise ValueError(f"a target is named twice: {targets!r}")
    return [known[name] for name in targets]


def lora_parameters(shape: Shape, r: int, targets: Sequence[str] | str) -> int:
    """Trainable parameters of rank-`r` adapters: A is r x inputs, B is outputs x r.

    Raises `ValueError` for an unknown target, or a rank below 1 or above a target matrix's rank.
    """
    require_whole(r=r)
    layers = target_layers(shape, targets)
    full_rank = min(min(layer.inputs, layer.outputs) for layer in layers)
    if r > full_rank:
        raise ValueError(f"r must be at most {full_rank}, the rank of the matrices: got {r}")
    return sum(r * (layer.inputs + layer.outputs) * layer.count for layer in layers)


def adapter_bytes(params: int, dtype: str) -> float:
    """Bytes that an adapter file of `params` parameters takes when stored as `dtype`."""
    require_whole(at_least=0, params=params)
    return params * bits(dtype) / 8
