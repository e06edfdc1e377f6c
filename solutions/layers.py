"""The linear layers of a transformer: the one list that parameters, FLOPs, LoRA, quantization and
memory all read. Layers are named as in Hugging Face Llama and Gemma; models that fuse or rename
them (GPT-2's `c_attn` is q, k and v side by side) have the same sizes under other names.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradelib.shapes import Shape


@dataclass(frozen=True)
class Linear:
    """A matrix of `inputs` x `outputs` weights, present `count` times in the model."""

    name: str
    inputs: int
    outputs: int
    bias: bool
    count: int

    @property
    def weights(self) -> int:
        """Weights of all `count` copies, biases left out."""
        return self.inputs * self.outputs * self.count

    @property
    def biases(self) -> int:
        """Bias elements of all `count` copies."""
        return self.outputs * self.count if self.bias else 0


def attention_layers(shape: Shape) -> list[Linear]:
    """The four projections of attention. Queries have `heads` heads, keys and values `kv_heads`."""
    query_width = shape.heads * shape.head_dim
    kv_width = shape.kv_heads * shape.head_dim
    bias = shape.attention_bias
    return [
        Linear("q_proj", shape.hidden, query_width, "q" in bias, shape.layers),
        Linear("k_proj", shape.hidden, kv_width, "k" in bias, shape.layers),
        Linear("v_proj", shape.hidden, kv_width, "v" in bias, shape.layers),
        Linear("o_proj", query_width, shape.hidden, "o" in bias, shape.layers),
    ]


def mlp_layers(shape: Shape) -> list[Linear]:
    """The projections of the MLP: gate (if gated), up and down."""
    names = ["gate_proj", "up_proj"] if shape.gated else ["up_proj"]
    widen = [
        Linear(name, shape.hidden, shape.intermediate, shape.mlp_bias, shape.layers)
        for name in names
    ]
    down = Linear("down_proj", shape.intermediate, shape.hidden, shape.mlp_bias, shape.layers)
    return [*widen, down]


def linear_layers(shape: Shape) -> list[Linear]:
    """Every linear layer inside the blocks. The output head stands apart: see `head_layer`."""
    return attention_layers(shape) + mlp_layers(shape)


def head_layer(shape: Shape) -> Linear:
    """The output head, from the hidden state to one logit a token. Tied or not, it is computed."""
    return Linear("lm_head", shape.hidden, shape.vocab, False, 1)
