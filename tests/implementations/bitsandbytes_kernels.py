"""Which of bitsandbytes' kernels the tests compare with.

Its CUDA and pure PyTorch kernels give a value the nearest entry of the 8-bit table. Its compiled
CPU kernel (0.50) searches approximately: about 1 value in 700 gets a neighbour of the nearest
entry. The book teaches the first, so that is the oracle; another test bounds how far the second is.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def nearest_kernel(values: Tensor, table: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """`bitsandbytes::quantize_blockwise` as every device without a kernel of its own runs it."""
    kernel: Any = torch.library.get_kernel("bitsandbytes::quantize_blockwise", "PrivateUse1")
    keys = torch._C._dispatch_keys(values)
    codes, absmax = kernel.call_boxed(keys, values, table, block)
    return codes, absmax
