"""What is to be measured: a model's shape and how a training step runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from gradelib.shapes import Shape

DTYPES = ("float32", "bfloat16", "float16")
ATTENTIONS = ("sdpa", "eager")
METHODS = ("full", "lora", "qlora")
OPTIMIZERS = ("sgd", "momentum", "adamw", "adamw8bit", "adafactor")
ALL_LINEAR = "all-linear"


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One training step.

    - `shape`: a Gemma 3 shape; other models cannot be built here.
    - `batch` sequences of `seq` tokens, all of them real: nothing is padded.
    - `dtype` of weights and activations; there is no autocast. Adapters are float32, as PEFT makes
      them.
    - `attention`: `sdpa` (a fused kernel) or `eager` (all scores in memory).
    - `checkpointing`: each block keeps its input alone.
    - `method`: `full`, `lora`, or `qlora` (the base in NF4, its scales quantized again).
    - `rank`, `targets`: of the adapters; layers by name, or `"all-linear"`.

    Raises `ValueError` for an unknown name, a size below 1 or a shape that is not Gemma 3's.
    """

    shape: Shape
    batch: int = 1
    seq: int = 1024
    dtype: str = "bfloat16"
    attention: str = "sdpa"
    checkpointing: bool = False
    method: str = "full"
    rank: int = 16
    targets: Sequence[str] | str = ALL_LINEAR
    optimizer: str = "adamw"

    def __post_init__(self) -> None:
        for name in ("batch", "seq", "rank"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1: got {value!r}")
        for name, known in (
            ("dtype", DTYPES),
            ("attention", ATTENTIONS),
            ("method", METHODS),
            ("optimizer", OPTIMIZERS),
        ):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"unknown {name} {getattr(self, name)!r}; known: {', '.join(known)}"
                )
        shape = self.shape
        if not (shape.norms_per_layer == 4 and shape.qk_norm and shape.gated and shape.tied):
            raise ValueError(
                "only Gemma 3's architecture can be built here: give Shape.gemma3(...), or one "
                "with its norms, gated MLP and tied head"
            )

    def __str__(self) -> str:
        adapters = "" if self.method == "full" else f" r={self.rank}"
        checkpointing = ", checkpointing" if self.checkpointing else ""
        return (
            f"{self.method}{adapters}, {self.dtype}, {self.optimizer}, batch {self.batch} x "
            f"{self.seq} tokens, {self.attention} attention{checkpointing}"
        )
