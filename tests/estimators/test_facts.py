"""Every published fact with a tolerance is held by a test, or listed with the reason it is not."""

from __future__ import annotations

import pytest

from tests.estimators import (
    test_communication,
    test_flops,
    test_hardware,
    test_lora,
    test_parameters,
    test_quantization,
    test_roofline,
    test_shapes,
)
from tests.estimators.facts import HELD_ELSEWHERE, NOT_REPRODUCED, all_facts, testable

MODULES = [
    test_communication,
    test_flops,
    test_hardware,
    test_lora,
    test_parameters,
    test_quantization,
    test_roofline,
    test_shapes,
]
TOPICS = ["comms", "config", "flops", "hardware", "lora", "mfu", "params", "quant", "wrong_answer"]


@pytest.mark.parametrize("topic", TOPICS)
def test_every_fact_is_tested_or_listed_with_a_reason(topic: str) -> None:
    covered = {name for module in MODULES for name in module.COVERED}
    listed = NOT_REPRODUCED.keys() | HELD_ELSEWHERE.keys()
    assert not covered & listed
    assert {fact["id"] for fact in testable(topic)} <= covered | listed


def test_only_facts_that_exist_are_listed() -> None:
    known = {fact["id"] for fact in all_facts()}
    assert NOT_REPRODUCED.keys() | HELD_ELSEWHERE.keys() <= known
