"""Every published fact with a tolerance is held by a test, or listed with the reason it is not.

A test module names the facts it holds in `COVERED`.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.estimators.facts import HELD_ELSEWHERE, NOT_REPRODUCED, all_facts, with_a_tolerance

TOPICS = [
    "activations",
    "comms",
    "config",
    "delta",
    "flops",
    "hardware",
    "kv_cache",
    "lora",
    "mfu",
    "params",
    "quant",
    "states",
    "wrong_answer",
]


def covered() -> set[str]:
    """The facts that the test modules of this folder name."""
    names = {path.stem for path in Path(__file__).parent.glob("test_*.py")} - {"test_facts"}
    modules = [importlib.import_module(f"tests.estimators.{name}") for name in sorted(names)]
    return {fact for module in modules for fact in getattr(module, "COVERED", [])}


@pytest.mark.parametrize("topic", TOPICS)
def test_every_fact_is_tested_or_listed_with_a_reason(topic: str) -> None:
    listed = NOT_REPRODUCED.keys() | HELD_ELSEWHERE.keys()
    assert not covered() & listed
    assert {fact["id"] for fact in with_a_tolerance(topic)} <= covered() | listed


def test_only_facts_that_exist_are_named() -> None:
    known = {fact["id"] for fact in all_facts()}
    assert covered() | NOT_REPRODUCED.keys() | HELD_ELSEWHERE.keys() <= known
