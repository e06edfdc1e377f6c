"""PyTorch's caching allocator for GPUs, in its main rules: where a tensor is put, what stays reserved.

The rules are those of `c10/cuda/CUDACachingAllocator.cpp` and `c10/core/AllocatorConfig.h` of PyTorch
2.13 with default settings and one stream. Left out: several streams, CUDA graphs, garbage
collection thresholds, and unmapping pages of an expandable segment when memory runs out.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from solutions.validation import require_whole

MIB = 2**20
MIN_BLOCK_BYTES = 512  # every size is a multiple of this
SMALL_BYTES = MIB  # the largest tensor of the pool for small ones
SMALL_SEGMENT_BYTES = 2 * MIB  # what that pool asks the driver for
LARGE_SEGMENT_BYTES = 20 * MIB  # what a tensor below 10 MiB makes the other pool ask for
LARGE_TENSOR_BYTES = 10 * MIB  # from here on, a segment of its own, in steps of 2 MiB
LARGE_STEP_BYTES = 2 * MIB


class DoesNotFitError(Exception):
    """No piece is large enough, and the driver has no more to give."""


@dataclass(eq=False)
class Block:
    """A piece of a segment. Neighbours in the same segment are linked."""

    segment: int
    start: int
    size: int
    small: bool
    free: bool = True
    before: Block | None = field(default=None, repr=False)
    after: Block | None = field(default=None, repr=False)

    @property
    def key(self) -> tuple[int, int, int]:
        """The order in which a pool looks for a piece: the smallest first, then the lowest."""
        return self.size, self.segment, self.start


class CachingAllocator:
    """Hands out pieces of `capacity_bytes`, and keeps what comes back.

    `allocated_bytes` is what tensors hold (rounded up), `reserved_bytes` what was taken from the
    driver. With `expandable` segments each pool has one segment that grows at its end.
    """

    def __init__(self, capacity_bytes: int, expandable: bool = False) -> None:
        require_whole(capacity_bytes=capacity_bytes)
        self.capacity_bytes = capacity_bytes
        self.expandable = expandable
        self.allocated_bytes = 0
        self.reserved_bytes = 0
        self.peak_allocated_bytes = 0
        self.peak_reserved_bytes = 0
        self.releases = 0  # how often the driver had no more, and unused segments went back to it
        self.firsts: dict[int, Block] = {}  # the first block of each segment
        self._free: dict[bool, list[tuple[tuple[int, int, int], Block]]] = {True: [], False: []}
        self._segments = 0

    def malloc(self, size: int) -> Block:
        """The block for a tensor of `size` bytes. Raises `DoesNotFitError`."""
        require_whole(size=size)
        size = -(-size // MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES
        small = size <= SMALL_BYTES
        block = self._best_fit(size, small) or self._new_block(size, small)
        rest = block.size - size
        if rest and (small or self.expandable or rest > SMALL_BYTES):
            self._split(block, size)
        block.free = False
        self.allocated_bytes += block.size
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        return block

    def free(self, block: Block) -> None:
        """Take a block back, and join it with free neighbours in its segment."""
        block.free = True
        self.allocated_bytes -= block.size
        for other in (block.before, block.after):
            if other is not None and other.free:
                self._forget(other)
                block = self._join(block, other)
        self._keep(block)

    def release_cached(self) -> None:
        """Give every segment that no tensor uses back, as `torch.cuda.empty_cache()` does."""
        for pool in self._free.values():
            for _, block in list(pool):
                if block.before is None and block.after is None:
                    self._forget(block)
                    del self.firsts[block.segment]
                    self.reserved_bytes -= block.size

    def blocks(self) -> list[list[Block]]:
        """The blocks of every segment, in order of address."""
        found = []
        for first in self.firsts.values():
            chain, block = [], first
            while True:
                chain.append(block)
                if block.after is None:
                    break
                block = block.after
            found.append(chain)
        return found

    def _best_fit(self, size: int, small: bool) -> Block | None:
        pool = self._free[small]
        at = bisect_left(pool, (size, -1, -1), key=lambda entry: entry[0])
        return pool.pop(at)[1] if at < len(pool) else None

    def _new_block(self, size: int, small: bool) -> Block:
        if self.expandable:
            return self._grown(size, small)
        wanted = segment_bytes(size)
        if self.reserved_bytes + wanted > self.capacity_bytes:
            self.releases += 1
            self.release_cached()
        self._take(wanted)
        return self._new_segment(wanted, small)

    def _grown(self, size: int, small: bool) -> Block:
        """A block at the end of the pool's only segment, which grows by whole pages."""
        page = SMALL_SEGMENT_BYTES if small else LARGE_SEGMENT_BYTES
        last = next((c[-1] for c in self.blocks() if c[-1].small == small), None)
        spare = last.size if last is not None and last.free else 0
        grown = -(-(size - spare) // page) * page
        self._take(grown)
        if last is None:
            return self._new_segment(grown, small)
        if last.free:
            self._forget(last)
            last.size += grown
            return last
        block = Block(last.segment, last.start + last.size, grown, small, before=last)
        last.after = block
        return block

    def _take(self, size: int) -> None:
        if self.reserved_bytes + size > self.capacity_bytes:
            free = self.capacity_bytes - self.reserved_bytes
            raise DoesNotFitError(f"the driver has {free} bytes left, and {size} are needed")
        self.reserved_bytes += size

    def _new_segment(self, size: int, small: bool) -> Block:
        self._segments += 1
        block = Block(self._segments, 0, size, small)
        self.firsts[block.segment] = block
        return block

    def _split(self, block: Block, size: int) -> None:
        rest = Block(
            block.segment,
            block.start + size,
            block.size - size,
            block.small,
            before=block,
            after=block.after,
        )
        if block.after is not None:
            block.after.before = rest
        block.after, block.size = rest, size
        self._keep(rest)

    def _join(self, one: Block, other: Block) -> Block:
        low, high = (other, one) if other is one.before else (one, other)
        low.size += high.size
        low.after = high.after
        if high.after is not None:
            high.after.before = low
        low.free = True
        return low

    def _keep(self, block: Block) -> None:
        insort(self._free[block.small], (block.key, block), key=lambda entry: entry[0])

    def _forget(self, block: Block) -> None:
        pool = self._free[block.small]
        del pool[bisect_left(pool, block.key, key=lambda entry: entry[0])]


def segment_bytes(size: int) -> int:
    """What a tensor of `size` bytes makes the allocator ask the driver for, if no piece fits."""
    if size <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if size < LARGE_TENSOR_BYTES:
        return LARGE_SEGMENT_BYTES
    return -(-size // LARGE_STEP_BYTES) * LARGE_STEP_BYTES
