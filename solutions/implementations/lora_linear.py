"""A linear layer with a low-rank adapter: W x + (alpha / r) B A x, where A and B alone learn."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn

from solutions.validation import require_positive, require_whole


class LoRALinear(nn.Module):
    """`base`, frozen, plus a rank-`r` update. A is r x inputs, B is outputs x r.

    B starts at zero, so the layer starts as `base`; A starts random, or no gradient would reach B.
    Source: LoRA, arXiv:2106.09685, section 4.1; A's start as in PEFT. Raises `ValueError` for a
    rank below 1 or above the matrix's own, or an alpha that is not positive.
    """

    def __init__(self, base: nn.Linear, r: int, alpha: float) -> None:
        super().__init__()
        require_whole(r=r)
        require_positive(alpha=alpha)
        if r > min(base.in_features, base.out_features):
            raise ValueError(
                f"r must be at most {min(base.in_features, base.out_features)}, the rank of a "
                f"{base.out_features} x {base.in_features} matrix: got {r}"
            )
        self.base = base.requires_grad_(False)
        self.scaling = alpha / r
        weight = base.weight
        self.A = nn.Parameter(weight.new_empty(r, base.in_features))
        self.B = nn.Parameter(weight.new_zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.A, a=sqrt(5))
        self._before_merge: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Outputs of shape (..., outputs) for inputs of shape (..., inputs)."""
        y: Tensor = self.base(x)
        if self._before_merge is not None:
            return y
        return y + x @ self.A.T @ self.B.T * self.scaling

    @torch.no_grad()
    def merge(self) -> None:
        """Add the update to the base weight, so that the layer costs what `base` cost. Merging a
        merged layer changes nothing. The base weight is kept, to give it back exactly."""
        if self._before_merge is None:
            self._before_merge = self.base.weight.clone()
            self.base.weight += self.scaling * self.B @ self.A

    @torch.no_grad()
    def unmerge(self) -> None:
        """Give the base its own weight back, bit for bit: subtracting the update would round."""
        if self._before_merge is not None:
            self.base.weight.copy_(self._before_merge)
            self._before_merge = None
