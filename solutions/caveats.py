"""What a reader of an estimate must know beside its numbers: formats that a model does not bear, and attention that an older
card cannot fuse. The command line and the book's widget both take their words from here.
"""

from __future__ import annotations

from gradelib.shapes import Shape
from solutions.shapes import GEMMA3

FLOAT16_OVERFLOW = "Gemma 3's activations overflow in float16: use bfloat16 or float32"
UNFUSED_ON_T4 = "On a T4, {layers} of {all_layers} layers of this run have no fused attention: there, count with eager attention."
FUSED_ON_T4 = "On a T4, every layer of this run has fused attention."

# Compute capability below 8.0 leaves PyTorch's SDPA one fused kernel, the "memory-efficient" one.
# It takes no bfloat16 (`less_than_sm80_mem_efficient_dtypes` of PyTorch's `sdp_utils.cpp`) and no
# grouped queries (`enable_gqa`).
_OLD_KERNEL_DTYPES = ("float16", "float32")
# transformers asks for grouped queries where no mask is passed and heads are no larger than this
# (`use_gqa_in_sdpa`); with a mask it repeats keys and values instead.
_LARGEST_GROUPED_HEAD = 256


def overflows(model: str, dtype: str) -> bool:
    """Whether `model` computed in `dtype` gives infinities, as its authors and users report."""
    return dtype == "float16" and model in GEMMA3


def unfused_layers(shape: Shape, seq: int, attention_dtype: str) -> int:
    """Layers for which SDPA keeps all scores on a T4 or older, as eager attention does.

    Unpadded sequences get a mask in local layers alone, from the window's length on; Gemma 3's
    global layers get none (`_ignore_causal_mask_sdpa` of transformers 5.24).
    """
    if attention_dtype not in _OLD_KERNEL_DTYPES:
        return shape.layers
    if shape.kv_heads == shape.heads or shape.head_dim > _LARGEST_GROUPED_HEAD:
        return 0
    masked = shape.sliding_window is not None and seq >= shape.sliding_window
    return shape.global_layers if masked else shape.layers
