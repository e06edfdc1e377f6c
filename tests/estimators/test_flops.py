"""FLOPs: equal to what PyTorch counts on the real architecture, and to published totals."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.shapes import Shape
from solutions import flops
from solutions.shapes import model_shape
from tests.estimators import oracles
from tests.estimators.facts import Fact, fact, parameters, tolerance
from tests.estimators.published import PALM
from tests.estimators.strategies import shapes

ARCHITECTURES = ["gemma3-270m", "gpt2", "llama3.2-1b", "mistral-7b-v0.1", "qwen2.5-0.5b"]
MORE = ["gemma3-4b", "gemma2-2b", "qwen3-0.6b", "pythia-70m"]
FUSED = ["gpt2", "pythia-70m"]  # q, k and v are one layer, which the targets' names do not reach


def models(*, fused: bool = True, fast: Sequence[str] = ARCHITECTURES) -> list[Any]:
    """Every architecture as a parameter; those that are not `fast` are marked slow."""
    names = [name for name in ARCHITECTURES + MORE if fused or name not in FUSED]
    return [pytest.param(name, marks=[] if name in fast else pytest.mark.slow) for name in names]


SIX_ND = {
    "flops_gpt3_pfdays": (174.6e9, 300e9, 8.64e19),  # N, D (GPT-3, table D.1), unit
    "flops_gpt3_small": (125e6, 300e9, 1),
    "flops_palm_6nd": (540e9, 780e9, 1),
    "flops_llama31_405b": (405.85e9, 15.6e12, 1),
}
COVERED = [*SIX_ND, "flops_palm_attn", "flops_llama65b_gpuh", "flops_gemma3_270m_fwd_1024"]


def short(name: str) -> Any:
    """The configuration of a model cut to seven layers: with one global layer in Gemma 3."""
    return oracles.config(name, **{"n_layer" if name == "gpt2" else "num_hidden_layers": 7})


@pytest.mark.parametrize("name", models())
def test_a_forward_pass_takes_what_pytorch_counts(name: str) -> None:
    counted = oracles.forward_flops(oracles.meta_model(oracles.config(name)), batch=2, seq=192)
    assert flops.forward_flops(model_shape(name), 2, 192) == pytest.approx(counted, rel=1e-3)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", models(fast=["gemma3-270m", "gpt2", "llama3.2-1b"]))
def test_a_training_step_takes_what_pytorch_counts(name: str, checkpointing: bool) -> None:
    model, shape = oracles.meta_model(short(name)), Shape.from_config(short(name))
    if checkpointing:
        oracles.checkpointed(model)
    counted = oracles.training_flops(model, batch=2, seq=128)
    estimate = flops.training_flops(shape, 2, 128, checkpointing=checkpointing)
    assert estimate == pytest.approx(counted, rel=1e-3)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("targets", [["q_proj", "v_proj"], ["o_proj", "up_proj", "down_proj"]])
@pytest.mark.parametrize("name", models(fused=False, fast=["gemma3-270m", "llama3.2-1b"]))
def test_a_lora_step_takes_what_pytorch_counts(
    name: str, targets: list[str], checkpointing: bool
) -> None:
    shape = Shape.from_config(short(name))
    model = oracles.with_adapters(oracles.meta_model(short(name)), r=16, targets=targets)
    model.enable_input_require_grads()
    if checkpointing:
        oracles.checkpointed(model)
    counted = oracles.training_flops(model, batch=2, seq=128)
    estimate = flops.training_flops(shape, 2, 128, "lora", checkpointing)
    estimate += flops.adapter_flops(shape, 2, 128, 16, targets, checkpointing)
    assert estimate == pytest.approx(counted, rel=1e-3)


def test_input_gradients_that_pytorch_saves_under_lora_are_those_the_docstring_names() -> None:
    shape = Shape.from_config(short("llama3.2-1b"))
    targets = ["q_proj", "k_proj", "v_proj"]
    model = oracles.with_adapters(oracles.meta_model(short("llama3.2-1b")), r=16, targets=targets)
    saved = flops.training_flops(shape, 2, 128, "lora")
    saved += flops.adapter_flops(shape, 2, 128, 16, targets)
    saved -= oracles.training_flops(model, batch=2, seq=128)
    widths = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    # One product through the first block's q, k and v, and one through each adapter's A.
    assert saved == flops.matmul_flops(2 * 128, shape.hidden, widths + 3 * 16)


@pytest.mark.parametrize(
    ("name", "ends_with_norm"), [("gemma3-270m", True), ("llama3.2-1b", False)]
)
def test_early_stop_saves_the_last_product_of_a_block_without_a_closing_norm(
    name: str, ends_with_norm: bool
) -> None:
    shape = Shape.from_config(short(name))
    model = oracles.checkpointed(oracles.meta_model(short(name)))
    counted = oracles.training_flops(model, batch=2, seq=128, early_stop=True)
    saved = flops.training_flops(shape, 2, 128, checkpointing=True) - counted
    down = flops.matmul_flops(2 * 128, shape.intermediate, shape.hidden) * shape.layers
    assert saved == (0 if ends_with_norm else down)


def test_gemma3_270m_takes_the_published_operations() -> None:
    of = fact("flops_gemma3_270m_fwd_1024")
    shape = Shape.gemma3("270m")
    assert flops.forward_flops(shape, 1, 1024) == of["expected"]
    assert flops.score_flops(shape, 1024) == 77_309_411_328
    assert flops.head_flops(shape, 1024) == 343_597_383_680


@pytest.mark.parametrize("of", parameters(list(SIX_ND)))
def test_published_training_runs_come_out_of_6nd(of: Fact) -> None:
    params, tokens, unit = SIX_ND[of["id"]]
    value = flops.training_flops_6nd(params, tokens) / unit
    assert value == pytest.approx(of["expected"], **tolerance(of))


def test_palm_comes_out_with_its_attention_term() -> None:
    of = fact("flops_palm_attn")
    scores = 3 * flops.score_flops(PALM, 2048) / 2048  # PaLM's 12·L·H·Q·T a token
    value = flops.training_flops_6nd(540.35e9, 780e9) + scores * 780e9
    assert value == pytest.approx(of["expected"], **tolerance(of))
    assert value == pytest.approx(of["check"])


def test_gpu_hours_of_llama_65b_follow_from_its_tokens_a_second() -> None:
    of = fact("flops_llama65b_gpuh")
    hours = of["inputs"]["tokens"] / of["inputs"]["tok_s_gpu"] / 3600
    assert hours == pytest.approx(of["expected"], **tolerance(of))


def test_gpt3_takes_3_14e23_operations() -> None:
    # Brown et al., arXiv:2005.14165, table D.1.
    assert flops.training_flops_6nd(174.6e9, 300e9) == pytest.approx(3.14e23, rel=5e-3)


@pytest.mark.parametrize("seq", [1, 5, 6, 7, 40])
@pytest.mark.parametrize("window", [None, 1, 6, 100])
def test_attended_pairs_are_those_of_the_mask(seq: int, window: int | None) -> None:
    reach = seq if window is None else window
    mask = [(i, j) for i in range(seq) for j in range(seq) if i - reach < j <= i]
    assert flops.attended_pairs(seq, window) == len(mask)


@given(shapes(), st.integers(1, 4096))
def test_useful_scores_never_exceed_executed_ones(shape: Shape, seq: int) -> None:
    useful = flops.score_flops(shape, seq, "useful")
    assert 0 < useful <= flops.score_flops(shape, seq, "executed")
    no_window = dataclasses.replace(shape, sliding_window=None, sliding_pattern=None)
    assert useful <= flops.score_flops(no_window, seq, "useful")


@given(shapes(), st.integers(1, 8), st.integers(1, 2048))
def test_parts_add_up_and_sequences_are_independent(shape: Shape, batch: int, seq: int) -> None:
    parts = flops.attention_flops(shape, seq) + flops.mlp_flops(shape, seq)
    forward = flops.forward_flops(shape, batch, seq)
    assert forward == batch * (parts + flops.head_flops(shape, seq))


@given(shapes(), st.integers(1, 1024))
def test_a_tied_head_is_computed_as_an_untied_one_is(shape: Shape, seq: int) -> None:
    tied, untied = (dataclasses.replace(shape, tied=tied) for tied in (True, False))
    assert flops.forward_flops(tied, 1, seq) == flops.forward_flops(untied, 1, seq)


@given(shapes(), st.integers(1, 60))
def test_generating_token_by_token_costs_what_a_causal_pass_does(shape: Shape, seq: int) -> None:
    one_by_one = sum(flops.decode_flops(shape, 1, context) for context in range(1, seq + 1))
    assert one_by_one == flops.forward_flops(shape, 1, seq, count="useful")


@given(shapes(), st.integers(1, 3), st.integers(1, 200), st.integers(0, 40))
def test_a_generation_is_a_prefill_and_its_decoding_steps(
    shape: Shape, batch: int, prompt: int, new_tokens: int
) -> None:
    contexts = range(prompt + 1, prompt + new_tokens)
    steps = sum(flops.decode_flops(shape, batch, context) for context in contexts)
    expected = flops.prefill_flops(shape, batch, prompt) + steps
    assert flops.generation_flops(shape, batch, prompt, new_tokens) == expected


@given(shapes(), st.integers(1, 512))
def test_training_costs_more_with_weights_to_train_and_with_recomputation(
    shape: Shape, seq: int
) -> None:
    forward = flops.forward_flops(shape, 1, seq)
    lora = flops.training_flops(shape, 1, seq, "lora")
    full = flops.training_flops(shape, 1, seq)
    assert full == 3 * forward
    assert 2 * forward < lora < full < flops.training_flops(shape, 1, seq, checkpointing=True)
    assert flops.training_flops(shape, 1, seq, "qlora") == lora


def test_prefill_makes_the_logits_of_the_last_token_alone() -> None:
    shape = Shape.gemma3("4b")
    saved = flops.forward_flops(shape, 2, 512) - flops.prefill_flops(shape, 2, 512)
    assert saved == 2 * flops.head_flops(shape, 511)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (flops.forward_flops, (0, 8), "batch must be"),
        (flops.forward_flops, (1, -8), "seq must be"),
        (flops.forward_flops, (1, 8.5), "seq must be"),
        (flops.mlp_flops, (0,), "tokens must be above 0"),
        (flops.attention_flops, (8, "causal"), "known: executed, useful"),
        (flops.training_flops, (1, 8, "dora"), "known: full, lora, qlora"),
        (flops.adapter_flops, (1, 8, -8, ["q_proj"]), "r must be"),
        (flops.adapter_flops, (0, 8, 8, ["q_proj"]), "batch must be"),
        (flops.adapter_flops, (1, 8, 8, ["c_attn"]), "q_proj, k_proj"),
        (flops.decode_flops, (1, 0), "context must be"),
        (flops.prefill_flops, (0, 8), "batch must be"),
        (flops.generation_flops, (1, 0, 8), "prompt must be"),
        (flops.generation_flops, (1, 8, -1), "new_tokens must be"),
    ],
)
def test_sizes_below_one_and_unknown_names_are_errors(
    function: Any, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        function(Shape.gemma3("270m"), *arguments)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_amounts_that_are_not_above_zero_are_errors(value: float) -> None:
    for name in "mkn":
        with pytest.raises(ValueError, match=f"{name} must be above 0"):
            flops.matmul_flops(**{**dict.fromkeys("mkn", 1.0), name: value})
    with pytest.raises(ValueError, match="params must be above 0"):
        flops.training_flops_6nd(value, 1)
    with pytest.raises(ValueError, match="tokens must be above 0"):
        flops.training_flops_6nd(1, value)
