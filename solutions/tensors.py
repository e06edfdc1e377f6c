"""The tensors that training updates, with their sizes: what optimizers that treat matrices, vectors
and small tensors differently need to know.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradelib.shapes import Shape
from solutions.layers import head_layer, linear_layers
from solutions.lora import ALL_LINEAR, lora_parameters, target_layers

# A tensor's size, and how many tensors of the model have it.
Tensors = list[tuple[tuple[int, ...], int]]


def model_tensors(shape: Shape) -> Tensors:
    """Every tensor of the model, as full fine-tuning trains it. A tied head is the embedding."""
    tensors: Tensors = [((shape.vocab, shape.hidden), 1)]
    if shape.learned_positions:
        tensors.append(((shape.learned_positions, shape.hidden), 1))
    for layer in linear_layers(shape):
        tensors.append(((layer.outputs, layer.inputs), layer.count))
        if layer.bias:
            tensors.append(((layer.outputs,), layer.count))
    norms = shape.layers * shape.norms_per_layer + 1
    tensors.append(((shape.hidden,), norms * (2 if shape.norm_bias else 1)))
    if shape.qk_norm:
        tensors.append(((shape.head_dim,), 2 * shape.layers))
    if not shape.tied:
        head = head_layer(shape)
        tensors.append(((head.outputs, head.inputs), 1))
    return tensors


def adapter_tensors(shape: Shape, r: int, targets: Sequence[str] | str = ALL_LINEAR) -> Tensors:
    """The two matrices of each adapter: A is r x inputs, B is outputs x r.

    Raises `ValueError` as `lora_parameters` does.
    """
    lora_parameters(shape, r, targets)
    tensors: Tensors = []
    for layer in target_layers(shape, targets):
        tensors += [((r, layer.inputs), layer.count), ((layer.outputs, r), layer.count)]
    return tensors
