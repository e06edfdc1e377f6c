"""How long a verdict takes from a warm server: `python tests/bench/isolation.py [pure] [torch]`.

A verdict covers a fresh answer process, loading the cell, every call of the check, the comparison,
and the end of the process. Run it on an idle machine: the numbers are wall times.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import replace

from gradelib.checks import Check, case
from gradelib.grading.work import Isolation, Work, isolation, preload_for
from gradelib.judging import judge

ROUNDS = 40
TARGET_SECONDS = {"pure": 0.060, "torch": 0.250}

PURE = """
def answer(x):
    return 2 * x
"""
# One step of AdamW on a Gemma 3 of two layers, in the first call; the others compute.
TORCH = """
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

def answer(x):
    torch.manual_seed(0)
    config = Gemma3TextConfig(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=32, sliding_window=32,
    )
    model = Gemma3ForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, 256, (2, 32))
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    return 2 * x
"""
CELLS = {"pure": PURE, "torch": TORCH}


def seconds(place: Isolation, cell: str, cases: int) -> float:
    """Wall time of one verdict on a right answer."""
    check = Check(lambda x: 2 * x, [case(3)], lambda _: [case(n) for n in range(4, 3 + cases)])
    prepared = replace(check.prepare("answer", "bench"), seconds=30.0)
    begun = time.perf_counter()
    with place.open(Work((), (), {"answer": (cell,)})) as loaded:
        verdict = judge(loaded["answer"], prepared)
    if not verdict:
        raise SystemExit(f"the answer is right, the verdict is not: {verdict.message}")
    return time.perf_counter() - begun


def main(kinds: list[str]) -> None:
    """Print one line per kind of exercise."""
    for kind in kinds:
        begun = time.perf_counter()
        place = isolation(preload=preload_for(kind))
        ready = time.perf_counter() - begun
        seconds(place, CELLS[kind], 1)
        # A torch check trains twice: its one case, and the repetition that looks for state.
        times = [seconds(place, CELLS[kind], 5 if kind == "pure" else 1) for _ in range(ROUNDS)]
        place.close()
        middle, slow = statistics.median(times), statistics.quantiles(times, n=20)[-1]
        print(  # noqa: T201 - a bench prints
            f"{kind}: {place.name} ready in {ready:.2f} s; a verdict in {middle * 1e3:.0f} ms (median of "
            f"{ROUNDS}), {slow * 1e3:.0f} ms (95 %); wanted under {TARGET_SECONDS[kind] * 1e3:.0f} ms"
        )


if __name__ == "__main__":
    main(sys.argv[1:] or list(CELLS))
