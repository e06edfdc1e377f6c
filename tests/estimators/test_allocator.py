"""The allocator's rules, on sizes whose outcome follows from PyTorch's published constants."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solutions.allocator import CachingAllocator, DoesNotFitError, segment_bytes

MIB = 2**20


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB),
    ],
)
def test_a_segment_is_as_large_as_the_constants_say(size: int, segment: int) -> None:
    assert segment_bytes(size) == segment
    allocator = CachingAllocator(100 * MIB)
    allocator.malloc(size)
    assert allocator.reserved_bytes == segment


def test_sizes_are_rounded_up_to_512_bytes() -> None:
    allocator = CachingAllocator(100 * MIB)
    allocator.malloc(1)
    allocator.malloc(513)
    assert allocator.allocated_bytes == 512 + 1024
    assert allocator.reserved_bytes == 2 * MIB


def test_what_comes_back_is_handed_out_again() -> None:
    allocator = CachingAllocator(100 * MIB)
    block = allocator.malloc(30 * MIB)
    allocator.free(block)
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (0, 30 * MIB)
    allocator.malloc(20 * MIB)
    allocator.malloc(10 * MIB)
    assert allocator.reserved_bytes == 30 * MIB


def test_a_rest_of_a_mebibyte_or_less_stays_with_a_large_tensor() -> None:
    allocator = CachingAllocator(100 * MIB)
    allocator.free(allocator.malloc(30 * MIB))
    allocator.malloc(29 * MIB)
    assert allocator.allocated_bytes == 30 * MIB


def test_free_neighbours_become_one_piece() -> None:
    allocator = CachingAllocator(30 * MIB)
    allocator.free(allocator.malloc(30 * MIB))
    pieces = [allocator.malloc(10 * MIB) for _ in range(3)]
    for block in pieces[1], pieces[0], pieces[2]:
        allocator.free(block)
    assert len(allocator.blocks()) == len(allocator.blocks()[0]) == 1
    allocator.malloc(30 * MIB)


def test_unused_segments_go_back_before_memory_runs_out() -> None:
    allocator = CachingAllocator(40 * MIB)
    allocator.free(allocator.malloc(30 * MIB))
    allocator.malloc(40 * MIB)
    assert (allocator.releases, allocator.reserved_bytes) == (1, 40 * MIB)


def test_memory_in_pieces_does_not_fit_one_tensor() -> None:
    allocator = CachingAllocator(60 * MIB)
    for block in [allocator.malloc(30 * MIB) for _ in range(2)]:
        allocator.free(block)
    for _ in range(2):
        allocator.malloc(16 * MIB)
    assert allocator.capacity_bytes - allocator.allocated_bytes == 28 * MIB
    with pytest.raises(DoesNotFitError):
        allocator.malloc(20 * MIB)


def test_an_expandable_segment_grows_where_it_lies() -> None:
    allocator = CachingAllocator(200 * MIB, expandable=True)
    for size in (30, 50, 70):
        allocator.free(allocator.malloc(size * MIB))
    assert allocator.reserved_bytes == 80 * MIB  # pages of 20 MiB
    assert len(allocator.firsts) == 1


@settings(max_examples=60, deadline=None)
@given(
    st.booleans(),
    st.lists(st.tuples(st.integers(1, 40 * MIB), st.integers(0, 10)), min_size=1, max_size=60),
)
def test_blocks_tile_what_is_reserved(expandable: bool, requests: list[tuple[int, int]]) -> None:
    allocator = CachingAllocator(2**40, expandable)
    alive = []
    for size, victim in requests:
        alive.append(allocator.malloc(size))
        if victim < len(alive) and victim % 2:
            allocator.free(alive.pop(victim))
        chains = allocator.blocks()
        assert sum(block.size for chain in chains for block in chain) == allocator.reserved_bytes
        used = [block for chain in chains for block in chain if not block.free]
        assert sum(block.size for block in used) == allocator.allocated_bytes
        assert len(used) == len(alive)
        for chain in chains:
            assert chain[0].start == 0
            for low, high in pairwise(chain):
                assert low.start + low.size == high.start
                assert not (low.free and high.free)
