"""Published facts (tests/facts/estimators.yaml) as test parameters, and how a value is held to one.

A fact names its source and its own tolerance. `NOT_REPRODUCED` lists, with the reason, the facts
that the estimators do not meet: none is fitted. `HELD_ELSEWHERE` says which other tests hold one.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

Fact = dict[str, Any]

NOT_REPRODUCED = {
    "siglip_config": "the vision tower is not part of a Shape, and is never counted",
    "gemma3_4b_params_mm": "includes the vision tower; its text part is a test of its own",
    "params_mixtral_8x7b": "a Shape has one MLP a block, not a mixture of experts",
    "params_bert_base": "BERT is an encoder, with segment embeddings and a pooler",
    "bnb_fp4_codes": "bitsandbytes' own FP4 is not implemented: the book's is the OCP's E2M1",
    "delta_bert_gc": "BERT is an encoder with dropout, and its process memory was measured",
    "delta_litgpt_dq_34b_infer": "1.549 GB of scales, 0.001 outside 1.57 ± 0.02: peaks of reserved memory",
    "params_bloom_176b": "BLOOM normalises its embeddings, which a Shape cannot say",
}
HELD_ELSEWHERE = {
    "qlora_guanaco_mem": "test_memory_training: a total",
}


@cache
def all_facts() -> list[Fact]:
    path = Path(__file__).parents[1] / "facts" / "estimators.yaml"
    facts: list[Fact] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return facts


def fact(name: str) -> Fact:
    """The fact with the id `name`."""
    found = [each for each in all_facts() if each["id"] == name]
    assert len(found) == 1, f"{len(found)} facts have the id {name!r}"
    return found[0]


def with_a_tolerance(*topics: str) -> list[Fact]:
    """The facts of these topics that carry a tolerance to be held to."""
    return [each for each in all_facts() if each["topic"] in topics and each["test"] is not None]


def parameters(names: list[str]) -> list[Any]:
    """Facts by id, as the parameters of a test."""
    return [pytest.param(fact(name), id=name) for name in names]


def tolerance(of: Fact) -> dict[str, float]:
    """The fact's tolerance as keyword arguments of `pytest.approx`, exact where it is 0."""
    return {"rel": of["test"].get("rel", 0), "abs": of["test"].get("abs", 0)}
