"""What the output head and the loss hold: logits, their float32 copies and gradients. In a model
with a large vocabulary this is often the peak of a training step.
"""

from __future__ import annotations

from gradelib.shapes import Shape
from solutions.activations import FLOAT32_BYTES, value_bytes
from solutions.validation import require_whole

# float32 tensors of the logits' size that are alive at once in the loss's backward pass: the
# log-softmax kept for it, the gradient of the mean over tokens, and the gradient of the logits.
LOSS_TENSORS = 3


def logits_tensor_bytes(shape: Shape, batch: int, seq: int, dtype: str) -> int:
    """Bytes of one tensor of logits, batch x seq x vocab values of `dtype`."""
    require_whole(batch=batch, seq=seq)
    return value_bytes(dtype) * batch * seq * shape.vocab


def logits_bytes(shape: Shape, batch: int, seq: int, dtype: str) -> int:
    """Peak bytes of logits and loss in a training step: (bytes of `dtype` + 12) a logit.

    The logits themselves stay as part of the model's output. The loss makes them float32; in its
    backward pass three float32 tensors of their size are alive. Source: `ForCausalLMLoss` in
    transformers 5.24, with the cross entropy of PyTorch. Raises `ValueError` for a size below 1 or
    a dtype that activations cannot have.
    """
    logits = logits_tensor_bytes(shape, batch, seq, dtype)
    return logits + LOSS_TENSORS * logits_tensor_bytes(shape, batch, seq, "float32")


def chunked_logits_bytes(shape: Shape, batch: int, seq: int, dtype: str, chunks: int) -> int:
    """Peak bytes of logits and loss when the loss handles the tokens in `chunks` pieces.

    The logits and their gradient exist in `dtype` for all tokens, the float32 tensors for one
    chunk. One chunk is the ordinary loss.
    """
    require_whole(chunks=chunks)
    if chunks == 1:
        return logits_bytes(shape, batch, seq, dtype)
    tokens = -(-batch * seq // chunks)
    one_chunk = LOSS_TENSORS * FLOAT32_BYTES * tokens * shape.vocab
    return 2 * logits_tensor_bytes(shape, batch, seq, dtype) + one_chunk
