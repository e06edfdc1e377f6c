"""How many parameters a model has, and where they are. What they weigh in bytes is left to
`solutions.memory`.
"""

from __future__ import annotations

from gradelib.shapes import Shape
from solutions.layers import attention_layers, head_layer, mlp_layers


def parameters_by_part(shape: Shape) -> dict[str, int]:
    """Parameters of each part of the model. The parts add up to `parameter_count(shape)`.

    A tied head is the embedding's own matrix, so it adds nothing. The vision tower of a
    multimodal checkpoint is not counted.
    """
    norm = shape.hidden * (2 if shape.norm_bias else 1)
    qk_norms = 2 * shape.head_dim if shape.qk_norm else 0
    return {
        "embedding": shape.vocab * shape.hidden,
        "positions": shape.learned_positions * shape.hidden,
        "attention": sum(layer.weights + layer.biases for layer in attention_layers(shape)),
        "mlp": sum(layer.weights + layer.biases for layer in mlp_layers(shape)),
        "norms": shape.layers * (shape.norms_per_layer * norm + qk_norms) + norm,
        "head": 0 if shape.tied else head_layer(shape).weights,
    }


def parameter_count(shape: Shape) -> int:
    """Parameters of the whole language model, each counted once."""
    return sum(parameters_by_part(shape).values())


def non_embedding_count(shape: Shape) -> int:
    """Parameters without the token embedding and the output head."""
    parts = parameters_by_part(shape)
    return sum(parts.values()) - parts["embedding"] - parts["head"]
