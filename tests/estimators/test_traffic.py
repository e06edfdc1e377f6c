"""Bytes that move: counted by hand on small models, and against what storage and memory say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.shapes import Shape
from solutions import traffic
from solutions.flops import decode_flops, prefill_flops, training_flops
from solutions.hardware import gpu
from solutions.memory import kv_cache_bytes
from solutions.parameters import parameter_count
from solutions.roofline import is_memory_bound
from solutions.shapes import TOY, model_shape
from solutions.training_memory import Training, training_memory
from tests.estimators.strategies import shapes


def test_a_decoding_step_of_a_toy_moves_what_one_counts_by_hand() -> None:
    # 40 in the embedding that is the head, 72 + 72 in attention and MLP, 4 in each of 3 norms.
    assert traffic.read_weight_bytes(TOY, "bfloat16") == 2 * (40 + 72 + 72 + 12)
    # One layer, one key and one value of 3 numbers for each of 5 tokens, in 2 sequences.
    cache = 2 * 5 * 2 * 3 * 2
    assert traffic.decode_bytes_moved(TOY, 2, 5, "bfloat16") == 392 + cache
    assert traffic.prefill_bytes_moved(TOY, 2, 5, "float32") == 784 + 2 * cache


def test_a_table_that_is_looked_up_is_not_read() -> None:
    llama = model_shape("llama3.1-8b")
    assert traffic.looked_up_parameters(llama) == 128_256 * 4096
    assert traffic.looked_up_parameters(Shape.gemma3("4b")) == 0
    gpt2 = model_shape("gpt2")
    assert traffic.looked_up_parameters(gpt2) == 1024 * 768
    for scheme in (None, "nf4"):
        read = traffic.read_weight_bytes(llama, "bfloat16", scheme)
        assert read < 2 * (parameter_count(llama) - 128_256 * 4096) + 1


@given(shapes(), st.integers(1, 64), st.integers(1, 5000))
def test_batching_shares_the_weights_and_not_the_cache(
    shape: Shape, batch: int, context: int
) -> None:
    one = traffic.decode_bytes_moved(shape, 1, context, "bfloat16")
    many = traffic.decode_bytes_moved(shape, batch, context, "bfloat16")
    extra = (batch - 1) * kv_cache_bytes(shape, 1, context, "bfloat16")
    assert many - one == pytest.approx(extra)


@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
def test_a_training_step_moves_what_its_memory_holds(method: str) -> None:
    """Everything in the ledger but buffers of the moment, written and read once; weights twice."""
    training = Training(shape=Shape.gemma3("4b"), batch=2, seq=512, method=method)
    parts = training_memory(training).by_moment()
    weights = sum(
        parts["always"].get(name, 0)
        for name in ("weights", "quantized_weights", "kept_weights", "adapters")
    )
    trained = weights if method == "full" else parts["always"]["adapters"]
    held = sum(parts["loss"][name] for name in ("activations", "logits_and_loss"))
    held += parts["end of backward"]["gradients"] + parts["always"]["optimizer_state"]
    assert traffic.training_bytes_moved(training) == 2 * weights + 2 * (held + trained)


def test_checkpointing_moves_more_bytes_not_fewer() -> None:
    settings = {"shape": Shape.gemma3("1b"), "batch": 1, "seq": 1024, "method": "lora"}
    plain = traffic.training_bytes_moved(Training(**settings))
    again = traffic.training_bytes_moved(Training(**settings, checkpointing=True))
    assert again > plain


def test_autocast_is_refused() -> None:
    mixed = Training(shape=TOY, batch=1, seq=5, precision="bfloat16-mixed")
    with pytest.raises(ValueError, match="mixed"):
        traffic.training_bytes_moved(mixed)


def test_decoding_waits_for_memory_and_prefill_does_not() -> None:
    """One operation or so for each byte, against one or two thousand."""
    shape, card = Shape.gemma3("4b"), gpu("a100-40gb")
    roof = card.peak("bfloat16"), card.bandwidth_bytes_per_s
    decode = traffic.decode_bytes_moved(shape, 1, 1024, "bfloat16")
    assert is_memory_bound(decode_flops(shape, 1, 1024), decode, *roof)
    prefill = traffic.prefill_bytes_moved(shape, 1, 1024, "bfloat16")
    assert not is_memory_bound(prefill_flops(shape, 1, 1024), prefill, *roof)
    step = traffic.training_bytes_moved(Training(shape=shape, batch=4, seq=1024))
    assert not is_memory_bound(training_flops(shape, 4, 1024), step, *roof)
