"""Sharding, averaging and local SGD: two real processes with gloo, against DDP and one process."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from solutions.implementations import parallel

WORLD = 2


@given(st.integers(1, 50), st.integers(1, 8))
def test_shards_equal_torchs_sampler(count: int, world: int) -> None:
    data = list(range(100, 100 + count))
    for rank in range(world):
        sampler = DistributedSampler(data, num_replicas=world, rank=rank, shuffle=False)  # type: ignore[arg-type]
        assert parallel.shard(data, rank, world) == [data[i] for i in sampler]


def test_shards_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="rank must be from 0 to 1: got 2"):
        parallel.shard([1, 2], 2, 2)
    with pytest.raises(ValueError, match="no indices"):
        parallel.shard([], 0, 2)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.lists(st.integers(1, 20), min_size=1, max_size=5),
)
def test_devices_are_filled_in_order(layers: list[int], capacities: list[int]) -> None:
    try:
        devices = parallel.device_map(layers, capacities)
    except ValueError:
        # Later layers go on later devices, so what does not fit greedily fits in no order-keeping way.
        assert not fits_in_order(layers, capacities)
        return
    assert devices == sorted(devices)
    for device, capacity in enumerate(capacities):
        assert sum(n for n, on in zip(layers, devices, strict=True) if on == device) <= capacity


def fits_in_order(layers: list[int], capacities: list[int]) -> bool:
    if not layers:
        return True
    if not capacities:
        return False
    return any(
        sum(layers[:here]) <= capacities[0] and fits_in_order(layers[here:], capacities[1:])
        for here in range(len(layers) + 1)
    )


def test_a_device_map_says_what_does_not_fit() -> None:
    assert parallel.device_map([3, 3, 3, 3], [6, 0, 7]) == [0, 0, 2, 2]
    with pytest.raises(ValueError, match="layer 1 and later do not fit"):
        parallel.device_map([3, 8, 1], [6, 7])


def test_communication_saved() -> None:
    assert parallel.communication_saved(1) == 0
    assert parallel.communication_saved(8) == 0.875
    with pytest.raises(ValueError, match="sync_every"):
        parallel.communication_saved(0)


@dataclass
class Output:
    """What a forward pass returns; DDP looks for tensors in dataclasses."""

    loss: torch.Tensor


class Loss(nn.Module):
    """A small model that returns its loss as transformers' models do."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()
        self.unused = nn.Parameter(torch.zeros(2).double())

    def forward(self, x: torch.Tensor) -> Output:
        return Output(self.layers(x).square().mean())


def batches() -> list[dict[str, torch.Tensor]]:
    draw = torch.Generator().manual_seed(8)
    return [{"x": torch.randn(3, 4, generator=draw).double()} for _ in range(12)]


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = f"file://{folder}/rendezvous"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=WORLD)
    try:
        results: dict[str, Any] = {}
        mine = parallel.shard(range(12), rank, WORLD)
        model = Loss()
        model(**batches()[rank]).loss.backward()
        parallel.average_gradients(model, WORLD)
        results["averaged"] = [p.grad for p in model.parameters()]

        # The unused parameter has no gradient; DDP is told to look for such.
        wrapped = DistributedDataParallel(Loss(), find_unused_parameters=True)
        wrapped(**batches()[rank]).loss.backward()
        results["ddp"] = [p.grad for p in wrapped.module.layers.parameters()]

        for every in (1, 4, 5):
            model = Loss()
            losses = parallel.local_sgd(model, [batches()[i] for i in mine], every, lr=0.1)
            results[f"sgd{every}"] = [p.detach() for p in model.parameters()]
            results[f"losses{every}"] = losses
        torch.save(results, f"{folder}/{rank}.pt")
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def results() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, args=(folder,), nprocs=WORLD)
        return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(WORLD)]


def test_averaged_gradients_equal_ddp_and_the_whole_batch(results: list[dict[str, Any]]) -> None:
    one = Loss()
    whole = torch.cat([batches()[0]["x"], batches()[1]["x"]])
    one(whole).loss.backward()
    expected = [p.grad for p in one.layers.parameters()]
    for each in results:
        unused, *used = each["averaged"]
        assert torch.equal(unused, torch.zeros(2).double())
        torch.testing.assert_close(used, expected)
        torch.testing.assert_close(used, each["ddp"])


def test_local_sgd_that_always_synchronises_is_synchronous_sgd(
    results: list[dict[str, Any]],
) -> None:
    one = Loss()
    optimizer = torch.optim.SGD(one.parameters(), lr=0.1)
    for step in range(0, 12, WORLD):
        optimizer.zero_grad()
        one(torch.cat([batches()[step + rank]["x"] for rank in range(WORLD)])).loss.backward()
        optimizer.step()
    expected = [p.detach() for p in one.parameters()]
    for each in results:
        torch.testing.assert_close(each["sgd1"], expected)


@pytest.mark.parametrize("every", [1, 4, 5])
def test_after_local_sgd_every_process_has_the_same_model(
    results: list[dict[str, Any]], every: int
) -> None:
    torch.testing.assert_close(results[0][f"sgd{every}"], results[1][f"sgd{every}"], rtol=0, atol=0)
    assert len(results[0][f"losses{every}"]) == 6
    assert results[0][f"losses{every}"] != results[1][f"losses{every}"]


def test_synchronising_less_often_takes_another_path(results: list[dict[str, Any]]) -> None:
    assert not torch.equal(results[0]["sgd1"][1], results[0]["sgd4"][1])
