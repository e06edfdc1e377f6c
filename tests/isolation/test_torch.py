"""PyTorch in answer processes: loaded once, forked, and under the same limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gradelib.checks import PreparedCheck
from gradelib.grading.work import Isolation, Limits, Work, isolation
from gradelib.judging import judge
from gradelib.outcomes import Kind
from gradelib.plain import Array
from gradelib.verdicts import Status
from tests.conftest import need_command, need_module

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]


@pytest.fixture(scope="module")
def place() -> Iterator[Isolation]:
    """A server that has PyTorch loaded."""
    need_command("bwrap", "apt-get install bubblewrap")
    need_module("torch")
    limits = Limits(load_seconds=10.0, memory_bytes=2**29)
    place = isolation("bubblewrap", preload=("torch", "torch._dynamo"), limits=limits)
    yield place
    place.close()


def test_an_answer_trains_and_returns_its_weights(
    place: Isolation, checks: dict[str, PreparedCheck]
) -> None:
    source = """
import torch
def double(x):
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 1, bias=False)
    torch.nn.init.ones_(layer.weight)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    layer(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    return layer.weight
"""
    with place.open(Work((), (), {"double": (source,)})) as loaded:
        check = replace(checks["double"], seconds=10.0)
        outcome = loaded["double"].call(check.cases[0], check)
    assert outcome.kind is Kind.VALUE, outcome.detail
    assert isinstance(outcome.value, Array)
    assert outcome.value.tolist() == [[0.5] * 4]  # 1 − 0.5 · 1


@pytest.mark.parametrize(
    "body",
    [
        "return torch.zeros(10**11).sum()",
        "kept = []\n    while True: kept.append(torch.ones(2**22))",
        "return torch.ones(2**14, 2**14) @ torch.ones(2**14, 2**14)",
    ],
)
def test_a_tensor_that_is_too_large_is_out_of_memory(
    place: Isolation, checks: dict[str, PreparedCheck], body: str
) -> None:
    source = f"import torch\ndef double(x):\n    {body}"
    with place.open(Work((), (), {"double": (source,)})) as loaded:
        verdict = judge(loaded["double"], replace(checks["double"], seconds=30.0))
    assert verdict.status is Status.OUT_OF_MEMORY, verdict.message


def test_processes_of_an_answer_talk_over_gloo(
    place: Isolation, checks: dict[str, PreparedCheck]
) -> None:
    source = """
import os, torch, torch.distributed as dist, torch.multiprocessing as mp
def worker(rank, x, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    value = torch.tensor([float(x)])
    dist.all_reduce(value)
    results.put(value.item())
    dist.destroy_process_group()
def double(x):
    context = mp.get_context("fork")
    results = context.SimpleQueue()
    workers = [context.Process(target=worker, args=(rank, x, results)) for rank in range(2)]
    for each in workers: each.start()
    for each in workers: each.join()
    return results.get()
"""
    with place.open(Work((), (), {"double": (source,)})) as loaded:
        verdict = judge(loaded["double"], replace(checks["double"], seconds=60.0))
    assert verdict.score == 1, verdict.message
