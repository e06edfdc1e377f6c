"""The operations that rules are made of, and how targets are read."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.rules import OPERATIONS, Rule, targeted_modules
from tests.conftest import label
from tests.core.test_plain import PLAIN

MODULES = ["model.layers.0.q_proj", "model.layers.1.q_proj", "model.layers.1.up_proj", "head"]
MODEL = {
    "linear": [["model.layers.{}.q_proj", 2, 8, 4], ["model.layers.{}.up_proj", 2, 8, 16]],
    "other": [["model", 1], ["model.layers.{}", 2], ["head", 1]],
}


def holds(operation, value, **parameters):
    return OPERATIONS[operation](value, parameters)


@pytest.mark.parametrize(
    ("operation", "parameters", "right", "wrong"),
    [
        ("is-dictionary", {}, [{}, {"a": 1}], [[], None, "a", {1: 2}, 3]),
        ("keys-among", {"names": ["a", "b"]}, [{}, {"a": 1}], [{"c": 1}, {"a": 1, "A": 1}]),
        ("has-key", {"name": "a"}, [{"a": 0}, {"a": ""}], [{}, {"a": None}]),
        (
            "whole-number-between",
            {"name": "a", "low": 1, "high": 4},
            [{"a": 1}, {"a": 4}],
            [{}, {"a": 0}, {"a": 5}, {"a": 2.0}, {"a": True}, {"a": "2"}, {"a": 10**400}],
        ),
        (
            "whole-number-between",
            {"name": "a", "low": 1, "high": 4, "default": 2},
            [{}],
            [{"a": None}],
        ),
        (
            "number-between",
            {"name": "a", "low": 0, "high": 1},
            [{"a": 0}, {"a": 0.5}, {"a": 1}],
            [{}, {"a": -0.1}, {"a": float("nan")}, {"a": True}, {"a": "1"}, {"a": [1]}],
        ),
        (
            "one-of",
            {"name": "a", "values": ["x", 1, None]},
            [{"a": "x"}, {"a": 1}, {"a": 1.0}, {"a": None}, {}],
            [{"a": "y"}, {"a": True}, {"a": "1"}],
        ),
        (
            "others-at-default",
            {"free": ["r"], "defaults": {"dora": [False], "pattern": [{}], "names": [None, []]}},
            [{"r": 9}, {"dora": False}, {"pattern": {}}, {"names": None}, {"names": frozenset()}],
            [
                *({"dora": True}, {"dora": 0}, {"dora": None}, {"names": False}, {"names": ["a"]}),
                *({"pattern": {"a": 1}}, {"pattern": None}, {"unknown": None}, {"unknown": 3}),
            ],
        ),
        (
            "true-or-false",
            {"names": ["dora", "rslora"]},
            [{}, {"dora": True}, {"dora": False, "rslora": True}],
            [{"dora": 1}, {"dora": "yes"}, {"dora": True, "rslora": None}],
        ),
        (
            "lora-scaling-between",
            {"low": 0.5, "high": 2},
            [{"r": 8, "lora_alpha": 16}, {"r": 8, "lora_alpha": 4.0}, {}],
            [{"r": 8, "lora_alpha": 17}, {"r": 8, "lora_alpha": 10**400}, {"lora_alpha": "16"}],
        ),
        (
            "lora-scaling-between",
            {"low": 0.5, "high": 2},
            [{"r": 16, "lora_alpha": 8, "use_rslora": True}],
            [{"r": 16, "lora_alpha": 16, "use_rslora": True}, {"r": "8", "lora_alpha": 8}],
        ),
    ],
)
def test_an_operation_holds_where_it_should(operation, parameters, right, wrong):
    for value in right:
        assert OPERATIONS[operation](value, parameters), value
    for value in wrong:
        assert not OPERATIONS[operation](value, parameters), value


@pytest.mark.parametrize(
    ("targets", "hit"),
    [
        (["q_proj"], MODULES[:2]),
        (["layers.1.q_proj"], [MODULES[1]]),
        (["head"], ["head"]),
        (["proj"], []),
        ([], []),
        (frozenset({"q_proj", "up_proj"}), MODULES[:3]),
        (r".*q_proj", MODULES[:2]),
        (r".*1\..*", MODULES[1:3]),
        ("q_proj", []),
        ("all-linear", MODULES),
        ("All-Linear", MODULES),
    ],
    ids=label,
)
def test_targets_hit_the_layers_that_they_name(targets, hit):
    assert targeted_modules(targets, MODULES) == hit


@pytest.mark.parametrize("targets", [None, 3, {"q_proj": 1}, ["q_proj", 3], "(", "x" * 3_000])
def test_targets_that_name_nothing_are_refused(targets):
    with pytest.raises(ValueError, match=r"target_modules|regular expression|characters"):
        targeted_modules(targets, MODULES)


def test_hostile_targets_end_soon():
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        targeted_modules(r"(model|[a-z.0-9_]+)+!", [3 * name for name in MODULES])
    with pytest.raises(ValueError, match="more than 2000 targets"):
        targeted_modules([f"layer_{number}" for number in range(150_000)], MODULES)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize(
    ("targets", "exist", "avoid_head", "include_up", "parameters"),
    [
        (["q_proj"], True, True, False, 2 * 3 * (8 + 4)),
        (["q_proj", "up_proj"], True, True, True, 2 * 3 * (8 + 4 + 8 + 16)),
        ("all-linear", True, True, True, 2 * 3 * (8 + 4 + 8 + 16)),
        (["q_proj", "head"], False, False, False, 0),
        (["q_proj", "v_proj"], False, True, False, 0),
        (r"model.*", False, True, False, 0),
        (r".*\.0\.up_proj", True, True, True, 3 * (8 + 16)),
        (None, False, True, False, 0),
    ],
    ids=label,
)
def test_targets_are_judged_on_a_model(targets, exist, avoid_head, include_up, parameters):
    value = {"target_modules": targets, "r": 3}
    assert holds("targets-exist", value, models=[MODEL]) is exist
    assert holds("targets-avoid", value, names=["head"]) is avoid_head
    assert holds("targets-include", value, models=[MODEL], pattern=".*up_proj") is include_up
    assert holds("lora-parameters-at-most", value, models=[MODEL], limit=parameters)
    if parameters:
        assert not holds("lora-parameters-at-most", value, models=[MODEL], limit=parameters - 1)


@pytest.mark.parametrize(
    ("targets", "layers_hit", "within_q"),
    [
        (["q_proj"], 2, True),
        (["q_proj", "up_proj"], 2, False),
        (["0.q_proj", "0.up_proj"], 1, False),
        (r".*\.1\.q_proj", 1, True),
    ],
    ids=label,
)
def test_names_that_agree_in_the_patterns_groups_count_once(targets, layers_hit, within_q):
    value = {"target_modules": targets}
    layers = {"models": [MODEL], "pattern": r".*\.(\d+)\.\w+"}
    assert holds("targets-include", value, **layers, count=layers_hit)
    assert not holds("targets-include", value, **layers, count=layers_hit + 1)
    assert holds("targets-within", value, models=[MODEL], pattern=".*q_proj") is within_q


def test_targets_may_fit_any_one_of_the_models():
    other = {"linear": [["encoder.{}.q_proj", 3, 2, 2]], "other": []}
    value = {"target_modules": r"encoder\..*"}
    assert not holds("targets-exist", value, models=[MODEL])
    assert holds("targets-exist", value, models=[MODEL, other])


@given(value=st.dictionaries(st.sampled_from(["a", "r", "lora_alpha", "target_modules"]), PLAIN))
def test_no_dictionary_breaks_an_operation(value):
    parameters = {
        "name": "a",
        "names": ["a"],
        "values": [1],
        "low": 0,
        "high": 1,
        "limit": 9,
        "free": ["a"],
        "defaults": {"r": [8]},
        "models": [MODEL],
        "pattern": ".*",
    }
    for operation in OPERATIONS.values():
        assert operation(value, parameters) in (True, False)


def test_a_rule_survives_as_data():
    rule = Rule("no r", "Which rank?", "has-key", {"name": "r"})
    assert Rule.from_data(rule.to_data()) == rule
