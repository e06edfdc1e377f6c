"""Memory that is neither weights nor activations: CUDA's context, library workspaces and the masks
that all blocks share.
"""

from __future__ import annotations

from gradelib.shapes import Shape

MIB = 2**20
# Device memory that CUDA and PyTorch's kernels take outside the allocator: 140.875 MiB on a T4, the
# same with torch 2.10 and 2.14 (Anassbzdd/fitcheck, data/measurements). Other cards and drivers
# differ, up to several hundred MiB: measure `nvidia-smi` against `torch.cuda.memory_reserved()`.
CUDA_CONTEXT_BYTES = int(140.875 * MIB)
# PyTorch's cuBLAS workspace, ":4096:2:16:8" in KiB (32 MiB on Hopper). Source: PyTorch
# documentation, CUDA semantics, "cuBLAS workspaces".
CUBLAS_WORKSPACE_BYTES = (4096 * 2 + 16 * 8) * 1024


def causal_mask_bytes(
    shape: Shape, batch: int, tokens: int, context: int, attention: str, value: int
) -> int:
    """Bytes of the causal masks of a forward pass: one for each kind of block that needs one.

    Eager attention adds a mask of `value` bytes for each pair of a token and one of its context.
    SDPA needs a boolean mask, and in local blocks only, when the context is at least as long as the
    window.
    """
    pairs = batch * tokens * context
    if attention == "eager":
        return value * pairs * ((shape.global_layers > 0) + (shape.local_layers > 0))
    window = shape.sliding_window
    return pairs if window is not None and shape.local_layers and context >= window else 0
