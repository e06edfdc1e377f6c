"""What an optimizer keeps between steps, and what one step allocates for a moment. How an update
is computed is left to the implementations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, isqrt, prod

from solutions.dtypes import bits
from solutions.validation import require_known, require_whole

OPTIMIZERS = ("sgd", "momentum", "adamw", "adamw8bit", "paged_adamw8bit", "adafactor")
FLOAT32_BYTES = 4
# bitsandbytes 0.50: values that share a scale; tensors smaller than this keep float32 state; and
# the two tables, of 256 float32 values each, that translate the codes.
STATE_BLOCK = 256
MIN_8BIT_VALUES = 4096
CODE_TABLES_BYTES = 2 * 256 * FLOAT32_BYTES


def quantized_moments_bytes(params: int, state_bits: int = 8, block: int = STATE_BLOCK) -> int:
    """Bytes of Adam's two moments in `state_bits` bits, with one float32 scale a block.

    Source: 8-bit Optimizers via Block-wise Quantization, arXiv:2110.02861.
    """
    return 2 * (ceil(params * state_bits / 8) + FLOAT32_BYTES * ceil(params / block))


def optimizer_bytes(trainable_params: int, optimizer: str, dtype: str) -> int:
    """Bytes of optimizer state for `trainable_params` parameters that are trained in `dtype`.

    - `sgd`: none. `momentum`: one value a parameter. `adamw`: two. PyTorch keeps them in the
      parameters' own format.
    - `adamw8bit`, `paged_adamw8bit`: two bytes a parameter and two float32 scales for each 256, in
      whatever format the parameters are. Paged state may lie in the CPU's memory; it is counted.
    - `adafactor`: one float32 value for each row and column of each matrix. A count of parameters
      does not say how many there are; counted are those of one square matrix, the fewest possible.
      With the tensors' sizes, `state_bytes` is exact.

    Raises `ValueError` for a negative count, an unknown optimizer or an unknown dtype.
    """
    require_whole(at_least=0, trainable_params=trainable_params)
    require_known("optimizer", optimizer, OPTIMIZERS)
    moment = trainable_params * bits(dtype) / 8
    if optimizer == "sgd":
        return 0
    if optimizer == "momentum":
        return ceil(moment)
    if optimizer == "adamw":
        return ceil(2 * moment)
    if optimizer == "adafactor":
        side = isqrt(4 * trainable_params)  # rows + columns
        return FLOAT32_BYTES * side
    return quantized_moments_bytes(trainable_params)


def state_bytes(optimizer: str, shapes: Iterable[Sequence[int]], dtype: str = "float32") -> int:
    """Bytes of optimizer state for trained tensors of these `shapes`, exactly.

    bitsandbytes keeps tensors of fewer than 4,096 values in float32, and two code tables. Adafactor
    (transformers' defaults, without momentum) factors what has at least two dimensions. Step
    counters, a few bytes on the CPU, are left out. Raises `ValueError` for an unknown optimizer or
    dtype, or a size below 1.
    """
    return counted_state_bytes(optimizer, ((shape, 1) for shape in shapes), dtype)


def counted_state_bytes(
    optimizer: str, tensors: Iterable[tuple[Sequence[int], int]], dtype: str
) -> int:
    """As `state_bytes`, for pairs of a shape and how many trained tensors have it."""
    require_known("optimizer", optimizer, OPTIMIZERS)
    quantized = optimizer in ("adamw8bit", "paged_adamw8bit")
    total, tables = 0, 0
    for shape, count in tensors:
        for size in shape:
            require_whole(size=size)
        values = prod(shape)
        if optimizer == "adafactor":
            total += count * FLOAT32_BYTES * _factored_values(shape)
        elif quantized and values < MIN_8BIT_VALUES:
            total += count * 2 * FLOAT32_BYTES * values
        else:
            total += count * optimizer_bytes(values, optimizer, dtype)
            tables = CODE_TABLES_BYTES if quantized else 0
    return total + tables


def _factored_values(shape: Sequence[int]) -> int:
    if len(shape) < 2:
        return prod(shape)
    *leading, rows, columns = shape
    return prod(leading) * (rows + columns)


def step_temporary_bytes(
    optimizer: str, trainable_params: int, largest: int, dtype: str, fused: bool = False
) -> int:
    """Bytes that one optimizer step allocates for a moment.

    PyTorch's AdamW handles all tensors at once (`foreach`) and needs the square roots of all
    second moments, one value a parameter; its fused kernel needs nothing. Adafactor handles one
    tensor at a time: for the `largest`, two float32 updates, and float32 copies of the parameter
    and its gradient if they are narrower. SGD and bitsandbytes update in place.
    """
    require_known("optimizer", optimizer, OPTIMIZERS)
    require_whole(at_least=0, trainable_params=trainable_params, largest=largest)
    if optimizer == "adamw" and not fused:
        return ceil(trainable_params * bits(dtype) / 8)
    if optimizer == "adafactor":
        copies = 0 if bits(dtype) == 32 else 2
        return (2 + copies) * FLOAT32_BYTES * largest
    return 0
