"""What a whole training run takes: its operations by part, where they differ from the rule of thumb
6·N·D, and how long they keep a card busy. A step's operations are left to `solutions.flops`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gradelib.shapes import Shape
from solutions.flops import (
    adapter_flops,
    forward_flops,
    score_flops,
    training_flops,
    training_flops_6nd,
)
from solutions.layers import head_layer, linear_layers
from solutions.lora import ALL_LINEAR
from solutions.parameters import parameter_count
from solutions.precision import METHODS
from solutions.roofline import model_flops_utilization, training_seconds
from solutions.validation import require_known, require_positive, require_whole


@dataclass(frozen=True, kw_only=True)
class Run:
    """`tokens` tokens read in sequences of `seq`. Under `lora` and `qlora`, adapters of rank `rank`
    are on every linear layer but the head. How sequences are batched changes no operation.

    Raises `ValueError` for an unknown method or a size that is not above 0.
    """

    shape: Shape
    tokens: float
    seq: int
    method: str = "full"
    checkpointing: bool = False
    rank: int = 16

    def __post_init__(self) -> None:
        require_known("method", self.method, METHODS)
        require_positive(tokens=self.tokens)
        require_whole(seq=self.seq, rank=self.rank)

    @property
    def sequences(self) -> float:
        """How many sequences the tokens make; not a whole number where the last one is short."""
        return self.tokens / self.seq


def run_flops(run: Run) -> dict[str, float]:
    """Operations of the run by part: `forward`, `backward`, `recomputed`, `adapters`."""
    forward = forward_flops(run.shape, 1, run.seq)
    step = training_flops(run.shape, 1, run.seq, run.method)
    again = training_flops(run.shape, 1, run.seq, run.method, run.checkpointing)
    return {
        "forward": run.sequences * forward,
        "backward": run.sequences * (step - forward),
        "recomputed": run.sequences * (again - step),
        "adapters": run.sequences * _adapter_flops(run),
    }


def _adapter_flops(run: Run) -> float:
    if run.method == "full":
        return 0
    return adapter_flops(run.shape, 1, run.seq, run.rank, ALL_LINEAR, run.checkpointing)


def multiplied_weights(shape: Shape) -> int:
    """Weights that every token is multiplied with: those of the blocks' linear layers and of the head.

    Norms, biases, position embeddings and an embedding that is not also the head are parameters too,
    and no matrix product uses them.
    """
    return sum(layer.weights for layer in linear_layers(shape)) + head_layer(shape).weights


def against_rule(run: Run) -> dict[str, float]:
    """What leads from 6·N·D, N being all parameters, to the run's operations. The parts add up.

    - `rule`: 6·N·D.
    - `scores`: the products of attention without weights, forward and backward, which it leaves out.
    - `not multiplied`: parameters that it bills although no matrix product uses them. Negative.
    - `frozen`: gradients of frozen weights, which LoRA and QLoRA do not compute. Negative.
    - `recomputed`, `adapters`: as in `run_flops`.
    """
    weights = multiplied_weights(run.shape)
    idle = parameter_count(run.shape) - weights
    parts = run_flops(run)
    return {
        "rule": training_flops_6nd(parameter_count(run.shape), run.tokens),
        "scores": 3 * run.sequences * score_flops(run.shape, run.seq),
        "not multiplied": -6 * idle * run.tokens,
        "frozen": 0 if run.method == "full" else -2 * weights * run.tokens,
        "recomputed": parts["recomputed"],
        "adapters": parts["adapters"],
    }


def run_seconds(run: Run, peak_flops_per_s: float, utilization: float) -> float:
    """Seconds on a card that does `utilization` of its peak, recomputed operations counted as done."""
    return training_seconds(sum(run_flops(run).values()), peak_flops_per_s, utilization)


def run_mfu(run: Run, peak_flops_per_s: float, utilization: float) -> float:
    """The model FLOPs utilization of such a run: what checkpointing recomputes does not count in it."""
    model = sum(run_flops(replace(run, checkpointing=False)).values())
    seconds = run_seconds(run, peak_flops_per_s, utilization)
    return model_flops_utilization(model, seconds, peak_flops_per_s)
