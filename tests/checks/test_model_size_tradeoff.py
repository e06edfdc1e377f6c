"""Exercise 11 against PyTorch: the rule of thumb that is graded, and what its text and its marking guide
state of the two tiny models."""

from __future__ import annotations

import ast
from math import exp
from typing import Any

import pytest

from gradelib.checks import Case, same_outcome
from gradelib.grading.source import Role
from gradelib.outcomes import Kind, Outcome
from gradelib.shapes import Shape
from gradelib.tiny_gemma import find_tiny_gemma
from solutions.checks.model_size_tradeoff import (
    COUNT_GAP,
    HIDDEN_SHAPES,
    SHELF,
    SHORT,
    forward_flops_2nd,
    smallest_that_meets,
)
from solutions.flops import forward_flops, score_flops
from solutions.hardware import gpu
from solutions.parameters import parameter_count
from tests.checks.tasks import EXERCISES_FOLDER, source
from tests.conftest import need_module

EXERCISE = "11_model_size_tradeoff"
TINY = {
    size: Shape.from_config(EXERCISES_FOLDER / "tiny_gemma" / size) for size in ("small", "large")
}
SHOWN = {Shape.gemma3(size): size for size in ("270m", "1b", "4b")}
READ = 128


def gap(shape: Shape, tokens: int) -> float:
    """How far the rule of thumb lies below the operations that the model takes."""
    rule = forward_flops_2nd.reference(parameter_count(shape), tokens)
    return 1 - rule / forward_flops(shape, 1, tokens)


def text_of(role: Role | None = None) -> str:
    cells = source(EXERCISE).cells
    texts = [cell.rubric if role is Role.RUBRIC else cell.text for cell in cells]
    return " ".join(" ".join(text.split()) for text in texts)


def code() -> list[str]:
    return [cell.text for cell in source(EXERCISE).cells if cell.role is Role.EXAMPLE]


def literal(name: str) -> Any:
    """The value that an example cell gives a name."""
    for text in code():
        for node in ast.parse(text).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                return ast.literal_eval(node.value)
    raise AssertionError(name)


@pytest.mark.parametrize("tokens", [*SHORT, 64])
@pytest.mark.parametrize("shape", [*HIDDEN_SHAPES, *SHOWN], ids=parameter_count)
def test_the_rule_lies_within_the_stated_gap_of_the_count(shape: Shape, tokens: int) -> None:
    assert 0 < gap(shape, tokens) < COUNT_GAP
    assert f"within {COUNT_GAP:.0%}".replace("%", " %") in text_of()
    assert f"within {forward_flops_2nd.tolerance.rel:.0%} of it".replace("%", " %") in text_of()


def test_what_is_expected_is_the_count_and_not_the_rule() -> None:
    check = forward_flops_2nd.prepare("forward_flops_2nd", "spring")
    shapes = {parameter_count(shape): shape for shape in (*HIDDEN_SHAPES, *SHOWN)}
    for one in check.cases:
        params, tokens = one.args
        assert one.expected.value == forward_flops(shapes[params], 1, tokens)
        # A factor that lies within the tolerance of the rule alone.
        factor = 1.941 * params * tokens
        assert not same_outcome(Outcome(Kind.VALUE, factor), one.expected, check.tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("one", forward_flops_2nd.public, ids=list(SHOWN.values()))
def test_the_visible_cases_expect_what_pytorch_counts(one: Case) -> None:
    need_module("torch")
    need_module("transformers")
    from gradelib.measure import Setup, count_flops, count_parameters

    params, tokens = one.args
    shape = next(shape for shape in SHOWN if parameter_count(shape) == params)
    setup = Setup(shape=shape, batch=1, seq=tokens)
    assert count_parameters(setup).total == params
    assert count_flops(setup).forward == one.expected


@pytest.mark.slow
@pytest.mark.parametrize("size", ["270m", "1b"])
def test_the_count_is_what_pytorch_counts_on_the_real_architecture(size: str) -> None:
    need_module("torch")
    need_module("transformers")
    from gradelib.measure import Setup, count_flops, count_parameters

    for shape, tokens in ((Shape.gemma3(size), READ), (Shape.gemma3(size, vocab=262_208), 17)):
        setup = Setup(shape=shape, batch=1, seq=tokens)
        assert count_parameters(setup).total == parameter_count(shape)
        assert count_flops(setup).forward == forward_flops(shape, 1, tokens)


def test_the_visible_cases_are_the_models_that_the_text_names() -> None:
    counts = [one.args[0] for one in forward_flops_2nd.public]
    assert counts == [parameter_count(shape) for shape in SHOWN]
    assert all(SHORT[0] <= one.args[1] <= SHORT[1] for one in forward_flops_2nd.public)
    stated = literal("COUNTS")
    assert stated == {size: parameter_count(Shape.gemma3(size)) for size in stated}


def test_the_cards_have_the_bandwidth_and_memory_of_their_data_sheets() -> None:
    for name, (bandwidth, memory) in literal("CARDS").items():
        card = gpu({"A100": "a100-40gb"}.get(name, name.lower()))
        assert (card.bandwidth_bytes_per_s, card.capacity_bytes) == (bandwidth, memory * 2**30)
    weights = 2 * literal("COUNTS")["12b"]
    assert 0.9 < weights / gpu("l4").capacity_bytes < 1


def test_the_text_states_the_tiny_models_counts() -> None:
    small, large = (parameter_count(shape) for shape in TINY.values())
    assert f"has {small:,} parameters" in text_of()
    assert f"{large:,}." in text_of()
    assert f"has {large / small:.1f} times the parameters" in text_of()


def test_the_marking_guide_states_where_the_rule_fails() -> None:
    guide = text_of(Role.RUBRIC)
    for shape in TINY.values():
        assert f"{gap(shape, READ):.0%}".replace("%", " %") in guide
    assert f"{gap(Shape.gemma3('270m'), READ):.1%} for 270M".replace("%", " %") in guide
    for shape in (TINY["small"], Shape.gemma3("4b")):
        scores = score_flops(shape, READ) // READ
        assert f"{scores:,} beside {2 * parameter_count(shape):,}" in guide


def test_the_marking_guide_states_the_untrained_models_bytes() -> None:
    size = 4 * parameter_count(Shape.gemma3("270m", vocab=259))
    assert f"reads {size / 1e6:.0f} MB for each token" in text_of(Role.RUBRIC)


@pytest.mark.slow
def test_the_marking_guide_states_the_measured_perplexities() -> None:
    need_module("torch")
    need_module("transformers")
    import torch

    from gradelib.tiny_gemma import load_tiny_gemma

    folder = find_tiny_gemma("small", EXERCISES_FOLDER / "tiny_gemma").parent
    passages = literal("HELD_OUT")
    found = {}
    for size in TINY:
        model, tokenizer = load_tiny_gemma(size, folder)
        nats = {}
        for topic, passage in passages.items():
            ids = tokenizer(passage, return_tensors="pt").input_ids
            with torch.inference_mode():
                logits = model(ids).logits[0, :-1]
            loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum")
            nats[topic] = loss.item()
        length = sum(len(passage.encode()) for passage in passages.values())
        found[size] = {name: exp(n / len(passages[name].encode())) for name, n in nats.items()}
        found[size]["all"] = exp(sum(nats.values()) / length)
    better = {name: 1 - found["large"][name] / found["small"][name] for name in found["small"]}
    guide = text_of(Role.RUBRIC)
    assert f"({found['small']['all']:.2f} and {found['large']['all']:.2f} over all" in guide
    assert min(better, key=lambda name: better[name]) == "meetings"
    assert better.pop("meetings") == pytest.approx(1 / 20, abs=0.01)
    assert all(value > 0.1 for value in better.values())


def test_the_notebook_shows_the_models_of_the_first_cases() -> None:
    assert literal("shelf") == list(SHELF)


def test_the_worked_example_of_the_choice_is_right() -> None:
    rows = {
        name: {"name": name, "params": params, "quality": quality, "seconds": seconds}
        for name, params, quality, seconds in [
            ("oak", 900, 0.80, 3.0),
            ("fern", 200, 0.55, 0.5),
            ("birch", 400, 0.70, 2.0),
            ("alder", 400, 0.75, 2.5),
        ]
    }
    for row in rows.values():
        cells = (row["name"], row["params"], f"{row['quality']:.2f}", row["seconds"])
        assert f"| {' | '.join(map(str, cells))} |" in text_of()
    choose = smallest_that_meets.reference
    assert choose(list(rows.values()), 0.60, 3) == "alder"
    assert choose(list(rows.values()), 0.60, 1) is None
