"""The driver that has an answer lay a batch out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradelib.drivers import collate as driver
from gradelib.outcomes import Kind, call
from solutions.implementations.batching import collate

DRIVER = f"{driver.__name__}:run"
EXAMPLES = [{"prompt": [5], "answer": [6, 7]}]


def value(answer):
    return call(answer, [EXAMPLES, 0], {}, DRIVER).value


def changed(name, change):
    def answer(examples, pad_id):
        batch = collate(examples, pad_id)
        return {**batch, name: change(batch[name])}

    return answer


def test_a_batch_of_tensors_is_told_as_it_is():
    told = value(collate)
    assert {name: part.tolist() for name, part in told.items()} == {
        "input_ids": [[5, 6, 7]],
        "attention_mask": [[1, 1, 1]],
        "labels": [[-100, 6, 7]],
    }


@pytest.mark.parametrize("change", [torch.Tensor.tolist, np.asarray, list, str])
@pytest.mark.parametrize("name", ["input_ids", "attention_mask", "labels"])
def test_what_is_no_tensor_is_told_by_a_word(name, change):
    assert value(changed(name, change))[name] == driver.NO_TENSOR


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int8])
def test_ids_and_labels_have_one_type_and_a_mask_any(dtype):
    for name in driver.LOOKED_UP:
        assert value(changed(name, lambda part: part.to(dtype)))[name] == driver.NOT_INT64
    assert value(changed("attention_mask", lambda part: part.to(dtype)))["attention_mask"]


def test_what_is_no_batch_is_told_as_it_is():
    def stub(examples, pad_id):
        """Nothing yet."""
        ...

    assert call(stub, [EXAMPLES, 0], {}, DRIVER).kind is Kind.BAD_VALUE
    assert value(lambda *_: None) is None
    assert value(lambda *_: [1, 2]) == [1, 2]
    assert call(changed("labels", lambda _: ...), [EXAMPLES, 0], {}, DRIVER).kind is Kind.BAD_VALUE


def test_examples_that_are_changed_are_noticed():
    def answer(examples, pad_id):
        examples[0]["prompt"].append(1)
        return collate(EXAMPLES, pad_id)

    assert call(answer, [EXAMPLES, 0], {}, DRIVER).mutated
