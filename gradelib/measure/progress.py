"""A progress bar over the blocks of a model: a step of a large model takes some seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.auto import tqdm

SECONDS_BEFORE_SHOWN = 1.0


@contextmanager
def block_progress(model: Any, what: str, passes: int, shown: bool) -> Iterator[None]:
    """Show on stderr how many blocks have been run of `passes` forward passes through `model`."""
    blocks = [module for module in model.modules() if type(module).__name__ == "Gemma3DecoderLayer"]
    bar = tqdm(
        total=passes * len(blocks),
        desc=what,
        unit="block",
        disable=not shown,
        delay=SECONDS_BEFORE_SHOWN,
        leave=False,
    )

    def advance(*_: Any) -> None:
        bar.update(1)

    hooks = [block.register_forward_hook(advance) for block in blocks]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        bar.close()
