"""Which format each tensor of a training step has, under a method and a precision: weights,
adapters, the residual stream, what the projections return and what they keep of their inputs. The
choices are those of PyTorch 2.13, transformers 5.24, PEFT 0.21 and bitsandbytes 0.50.
"""

from __future__ import annotations

from dataclasses import dataclass

from solutions.validation import require_known

METHODS = ("full", "lora", "qlora")
# "-mixed" is autocast: weights that are trained stay float32, products are computed in 16 bits.
PRECISIONS = ("float32", "float16", "bfloat16", "float16-mixed", "bfloat16-mixed")


@dataclass(frozen=True)
class Formats:
    """The format of each kind of tensor in a training step.

    - `weights`: the base model's weights that are not quantized.
    - `trained`: the weights that an optimizer updates, and their gradients.
    - `residual`: the residual stream, which the norms read.
    - `linear`: what the projections return.
    - `attention`: queries, keys and values as the attention kernel reads them.
    - `logits`: what the output head returns.
    - `kept`: in which format a trained projection keeps its input for the backward pass.
    - `recast`: each adapter casts its input for itself, even to the format it already has.
    - `autocast`: float32 weights are cast to 16 bits for the products, and the casts are kept.
    """

    weights: str
    trained: str
    residual: str
    linear: str
    attention: str
    logits: str
    kept: str
    recast: bool = False
    autocast: bool = False


def uniform(dtype: str) -> Formats:
    """Everything in one format: a model loaded as `dtype` and trained without autocast."""
    return Formats(dtype, dtype, dtype, dtype, dtype, dtype, dtype)


def formats(
    method: str,
    precision: str,
    adapter_dtype: str = "float32",
    upcast_kept: bool = True,
) -> Formats:
    """The formats of a training step.

    - full fine-tuning: the weights are in `precision`, or float32 when it is mixed.
    - LoRA: the frozen base is in `precision` (16 bits when mixed). PEFT makes the adapters
      float32 and casts each adapter's input to match; `adapter_dtype` describes other trainers.
    - QLoRA: the base is quantized. `upcast_kept` says that embeddings, head and norms were made
      float32, as `peft.prepare_model_for_kbit_training` does: then the residual stream and all
      that the projections return are float32 too, whatever they compute in.

    Raises `ValueError` for an unknown method or precision.
    """
    require_known("method", method, METHODS)
    require_known("precision", precision, PRECISIONS)
    low = precision.removesuffix("-mixed")
    mixed = precision != low
    if method == "full":
        if not mixed:
            return uniform(low)
        wide = "float32"
        return Formats(wide, wide, wide, low, low, low, low, autocast=True)
    base = "float32" if method == "qlora" and upcast_kept else low
    if mixed:
        # bitsandbytes layers return the format of their input; their adapters do not cast it.
        recast = method == "lora"
        return Formats(base, adapter_dtype, base, base, low, low, low, recast, autocast=True)
    return Formats(base, adapter_dtype, base, base, base, base, adapter_dtype)
