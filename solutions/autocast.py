"""Which operations PyTorch's automatic mixed precision runs in 16 bits, and which in float32.

The lists are those for CUDA, of PyTorch 2.13 (`aten/src/ATen/autocast_mode.h`), without operations
that language models hardly use (`acos`, `linalg.vector_norm`, recurrent cells). Other devices have
lists of their own: on a CPU, softmax and norms follow their input.
"""

from __future__ import annotations

from solutions.validation import require_known

LOW = ("bfloat16", "float16")
PRODUCTS = frozenset(
    [
        *("linear", "matmul", "mm", "bmm", "mv", "addmm", "baddbmm", "addbmm", "addmv", "addr"),
        *("einsum", "conv1d", "conv2d", "scaled_dot_product_attention"),
    ]
)
IN_FLOAT32 = frozenset(
    [
        # They leave the range of float16 quickly, or lose much by rounding.
        *(
            "exp",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "pow",
            "rsqrt",
            "reciprocal",
            "softplus",
        ),
        # They add many numbers up.
        *("sum", "prod", "cumsum", "cumprod", "logsumexp", "softmax", "log_softmax"),
        *("layer_norm", "rms_norm", "group_norm", "norm", "cosine_similarity"),
        # They give the loss.
        *("nll_loss", "kl_div", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"),
        *("cross_entropy", "binary_cross_entropy_with_logits"),
    ]
)
AS_INPUT = "input"


def autocast_dtype(op: str, low: str = "bfloat16") -> str:
    """The dtype in which `op` runs under `torch.autocast("cuda", dtype=low)`.

    `low` for products of matrices, `"float32"` for what needs range or sums much up, and `"input"`
    for every name outside the two lists: it runs in the dtype of its input (the widest, if there are several).
    Raises `ValueError` for a `low` that is no 16-bit format.
    """
    require_known("16-bit format", low, LOW)
    if op in PRODUCTS:
        return low
    return "float32" if op in IN_FLOAT32 else AS_INPUT
