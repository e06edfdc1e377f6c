"""Record how large the gradients of a real model are, for the chapter on doing less:
`python -m solutions.record_gradients` writes `book/data/gradient_exponents.csv`.

The model is the exercises' tiny Gemma, in float32, with its own held-out text; it takes seconds.
Which of the values float16 can hold is left to the chapter.
"""

from __future__ import annotations

import csv
import json
import platform
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gradelib.tiny_gemma import load_tiny_gemma

DATA = Path(__file__).parents[1] / "book" / "data"
TEXT = Path(__file__).with_name("tiny_gemma") / "text.md"
BATCH, SEQ = 8, 256
KINDS = ("logits", "activations", "weights")
ZERO = "zero"


def exponents(values: Any) -> Counter[int | str]:
    """How many values of a tensor have each exponent e, with 2^e <= |value| < 2^(e + 1); zeros
    are counted apart.
    """
    import torch

    flat = values.detach().flatten()
    counted: Counter[int | str] = Counter()
    kept = flat[flat != 0]
    counted[ZERO] = flat.numel() - kept.numel()
    found, times = torch.unique(torch.frexp(kept.abs()).exponent - 1, return_counts=True)
    counted.update(dict(zip(found.tolist(), times.tolist(), strict=True)))
    return counted


def gradient_exponents() -> dict[str, Counter[int | str]]:
    """The exponents of all gradients of one backward pass over `BATCH` sequences, by kind: those of
    the logits, of what every other linear layer returns, and of the weights.
    """
    import torch

    model, tokenizer = load_tiny_gemma("large", dtype="float32")
    ids = tokenizer(TEXT.read_text(encoding="utf-8"), return_tensors="pt").input_ids[0]
    ids = ids[: BATCH * SEQ].reshape(BATCH, SEQ)
    counted: dict[str, Counter[int | str]] = {kind: Counter() for kind in KINDS}

    def watch(name: str) -> Any:
        kind = "logits" if name == "lm_head" else "activations"

        def count(_module: Any, _inputs: Any, grads: Any) -> None:
            counted[kind].update(exponents(grads[0]))

        return count

    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            module.register_full_backward_hook(watch(name))
    model(input_ids=ids, labels=ids).loss.backward()
    for weight in model.parameters():
        counted["weights"].update(exponents(weight.grad))
    return counted


def main() -> None:
    """Write the table and how it was made."""
    counted = gradient_exponents()
    found = sorted({e for kind in counted.values() for e in kind if isinstance(e, int)})
    with (DATA / "gradient_exponents.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["exponent", *KINDS])
        exponents_found: list[int | str] = [ZERO, *found]
        for exponent in exponents_found:
            writer.writerow([exponent, *(counted[kind][exponent] for kind in KINDS)])
    made = {
        "counts": f"gradients of one backward pass of tiny Gemma (large) in float32, {BATCH} sequences of {SEQ} tokens, the mean loss of all, by exponent: 2^exponent <= |value| < 2^(exponent + 1)",
        "leaves_out": "gradients inside attention, norms and activation functions",
        "command": "python -m solutions.record_gradients",
        "machine": f"{platform.machine()}, no GPU",
        **{package: version(package) for package in ("torch", "transformers")},
    }
    text = json.dumps(made, indent=2) + "\n"
    (DATA / "gradient_exponents.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
