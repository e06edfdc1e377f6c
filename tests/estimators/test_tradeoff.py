"""Speed, perplexity and the choice of a model, against PyTorch and against trying every model."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solutions.flops import forward_flops_2nd, training_flops_6nd
from solutions.tradeoff import perplexity, smallest_that_meets, tokens_per_second
from tests.conftest import need_module

# Few values, so that models tie and lie on the limits.
MODELS = st.lists(
    st.fixed_dictionaries(
        {
            "params": st.integers(1, 3),
            "quality": st.sampled_from([0.1, 0.2, 0.3]),
            "seconds": st.sampled_from([1.0, 2.0, 3.0]),
        }
    ),
    max_size=6,
)


def test_speed_is_tokens_over_seconds() -> None:
    assert tokens_per_second(45, 6) == 7.5
    assert tokens_per_second(0, 6) == 0


@pytest.mark.parametrize(("tokens", "seconds"), [(1, 0), (1, -1), (-1, 1)])
def test_a_stopwatch_that_measured_nothing_is_an_error(tokens: float, seconds: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        tokens_per_second(tokens, seconds)


def test_a_guess_among_k_tokens_has_perplexity_k() -> None:
    for k in (1, 2, 256, 262_144):
        assert perplexity(log(k)) == pytest.approx(k, rel=1e-12)
    with pytest.raises(ValueError, match="mean_nll"):
        perplexity(-0.1)


def test_perplexity_undoes_the_mean_of_pytorchs_cross_entropy() -> None:
    need_module("torch")
    import torch

    torch.manual_seed(0)
    logits, targets = torch.randn(50, 17, dtype=torch.float64), torch.randint(17, (50,))
    chosen = logits.softmax(1)[torch.arange(50), targets]
    inverse_geometric_mean = (1 / chosen).prod() ** (1 / 50)
    loss = torch.nn.functional.cross_entropy(logits, targets).item()
    assert perplexity(loss) == pytest.approx(inverse_geometric_mean.item(), rel=1e-12)


@given(MODELS, st.sampled_from([0.1, 0.2, 0.3]), st.sampled_from([1.0, 2.0, 3.0]))
def test_no_model_beats_the_chosen_one(rows, min_quality: float, max_seconds: float) -> None:
    models = [{"name": str(position), **row} for position, row in enumerate(rows)]
    name = smallest_that_meets(models, min_quality, max_seconds)
    suitable = [
        row for row in models if row["quality"] >= min_quality and row["seconds"] <= max_seconds
    ]
    assert (name is None) == (not suitable)
    if name is not None:
        chosen = models[int(name)]
        assert chosen in suitable
        for other in suitable:
            assert chosen["params"] <= other["params"]
            if chosen["params"] == other["params"]:
                assert chosen["quality"] >= other["quality"]
                if chosen["quality"] == other["quality"]:
                    assert chosen["seconds"] <= other["seconds"]


def test_reading_is_a_third_of_training() -> None:
    assert 3 * forward_flops_2nd(1000, 30) == training_flops_6nd(1000, 30) == 180_000
    with pytest.raises(ValueError, match="tokens"):
        forward_flops_2nd(1000, 0)
