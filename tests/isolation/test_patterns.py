"""A learner's regular expression runs in the judge: it ends in time, whatever it is."""

from __future__ import annotations

import threading
import time

import pytest

from gradelib.rules import PATTERN_SECONDS, Rule, targeted_modules

MODULES = ["model.layers.0.self_attn.q_proj", "model.layers.0.mlp.up_proj", "a" * 40]
HOSTILE = ["(a+)+b", "(a|a)*b", "(" * 1500, "a{99999999999999}", "(", "[", "(?P<a>x)(?P<a>x)"]


def _hit(pattern: object) -> list[str] | Exception:
    try:
        return targeted_modules(pattern, MODULES)
    except (ValueError, TimeoutError) as error:
        return error


@pytest.mark.parametrize("elsewhere", [False, True], ids=["main thread", "another thread"])
@pytest.mark.parametrize("pattern", [*HOSTILE, r".*\.q_proj", r".*_proj"])
def test_a_pattern_ends_in_every_thread(pattern: str, elsewhere: bool) -> None:
    found: list[list[str] | Exception] = []
    begun = time.monotonic()
    if elsewhere:
        thread = threading.Thread(target=lambda: found.append(_hit(pattern)), daemon=True)
        thread.start()
        thread.join(60)
    else:
        found.append(_hit(pattern))
    assert time.monotonic() - begun < 20 * PATTERN_SECONDS
    if pattern in HOSTILE:
        assert isinstance(found[0], ValueError | TimeoutError)
    else:
        assert found == [MODULES[:1] if "q_proj" in pattern else MODULES[:2]]


@pytest.mark.parametrize("value", [None, 3, [1], "text", float("nan"), frozenset({1})])
def test_a_value_of_another_shape_breaks_a_rule(value: object) -> None:
    rule = Rule("id", "sentence", "has-key", {"name": "r"})
    assert not rule.holds(value)
