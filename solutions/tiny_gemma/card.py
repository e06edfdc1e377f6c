"""Write the tiny Gemmas' card from their files: `python -m solutions.tiny_gemma.card FOLDER`.

Every number in it is read or computed, and what the models say is what they say.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from gradelib.shapes import Shape
from gradelib.tiny_gemma import SIZES, load_tiny_gemma
from solutions.parameters import parameter_count

PROMPTS = ("Gradient checkpointing", "A gigabyte is", "Water")
NEW_TOKENS = 120
TEMPERATURE = 0.5

INTRODUCTION = """# Tiny Gemma

Two models to learn with: real `Gemma3ForCausalLM`s, with Gemma 3's grouped queries, sliding windows,
norms and tied head, small enough to train on a laptop in seconds. They read and write bytes.

```python
from gradelib.tiny_gemma import load_tiny_gemma

model, tokenizer = load_tiny_gemma("large")
```
"""

MAKING = """## How they were made

`python -m solutions.tiny_gemma.train small FOLDER` (or `large`) trains one from random weights, on one
core, with a fixed seed. The text is `solutions/tiny_gemma/text.md`, written for this project; a
second text, `heldout.md`, decides which step's weights are kept. `questions.jsonl` is for
fine-tuning and was not trained on. The architecture is Gemma 3's as transformers implements it; the
weights owe nothing to Google's, and Gemma's terms do not apply to them. Their licence is that of the
exercises, CC BY 4.0.
"""

LIMITS = """## What they cannot do

They have read a few pages. They do not answer questions, they know no facts to rely on, and what they
write is close to their text or is nonsense. Use them to see how training behaves, not what a
language model can say. Numbers that depend on scale, such as speed or the share of the embedding,
are not those of a large model.
"""


def table(folder: Path) -> str:
    """The two models beside each other, as Markdown."""
    rows: dict[str, list[str]] = {}
    for size in SIZES:
        shape = Shape.from_config(folder / size)
        record = json.loads((folder / size / "training.json").read_text(encoding="utf-8"))
        weights = (folder / size / "model.safetensors").stat().st_size
        for name, value in (
            ("parameters", f"{parameter_count(shape):,}"),
            ("layers (global)", f"{shape.layers} ({shape.global_layers})"),
            ("hidden, intermediate", f"{shape.hidden}, {shape.intermediate}"),
            (
                "heads (key/value), head size",
                f"{shape.heads} ({shape.kv_heads}), {shape.head_dim}",
            ),
            ("vocabulary", f"{shape.vocab}"),
            ("window, tokens", f"{shape.sliding_window}"),
            ("weights on disk (bfloat16), bytes", f"{weights:,}"),
            ("steps trained", f"{record['step']}"),
            ("training, seconds of one core", f"{record['cpu_seconds']}"),
            ("loss on the text, nats a byte", f"{record['text_nats_per_byte']:.2f}"),
            ("loss on held-out text, nats a byte", f"{record['heldout_nats_per_byte']:.2f}"),
        ):
            rows.setdefault(name, []).append(value)
    head = f"| | {' | '.join(SIZES)} |\n|---|{'---|' * len(SIZES)}\n"
    return head + "".join(f"| {name} | {' | '.join(cells)} |\n" for name, cells in rows.items())


def says(folder: Path) -> str:
    """What each model writes after each prompt, drawn with a fixed seed at a low temperature."""
    parts = []
    for size in SIZES:
        model, tokenizer = load_tiny_gemma(size, folder)
        for prompt in PROMPTS:
            ids = tokenizer(prompt, return_tensors="pt")
            torch.manual_seed(0)
            out = model.generate(
                **ids, max_new_tokens=NEW_TOKENS, do_sample=True, temperature=TEMPERATURE
            )
            text = tokenizer.decode(out[0], skip_special_tokens=True).replace("\n", " ")
            parts.append(f"- {size}: **{prompt}**{text.removeprefix(prompt)} …\n")
    return "".join(parts)


def card(folder: Path) -> str:
    """The whole card."""
    return "\n".join(
        [INTRODUCTION, table(folder), MAKING, "## What they say\n", says(folder), LIMITS]
    )


def main() -> None:
    """Write `README.md` into the folder that holds both models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    (folder / "README.md").write_text(card(folder), encoding="utf-8")


if __name__ == "__main__":
    main()
