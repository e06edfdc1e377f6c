"""Train the tiny Gemmas from `text.md`: `python -m solutions.tiny_gemma.train small FOLDER`.

The run is deterministic: one thread, float32, a fixed seed and order. It keeps the weights of the
step with the lowest loss on `heldout.md`, stores them in bfloat16, and takes some minutes on one
core. On another processor or PyTorch version the last digits of the weights can differ.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from dataclasses import dataclass
from math import cos, exp, pi
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, PreTrainedTokenizerFast

from solutions.tiny_gemma.tokenizer import SPECIAL, VOCAB, byte_tokenizer

HERE = Path(__file__).parent
WINDOW = 64
HEAD_DIM = 32


@dataclass(frozen=True)
class Size:
    """What the two models differ in."""

    hidden: int
    intermediate: int
    heads: int
    steps: int
    peak_lr: float


# Six layers, so that one of them is global, as in Gemma 3. A head is wider than hidden / heads.
SIZES = {
    "small": Size(hidden=32, intermediate=64, heads=2, steps=500, peak_lr=4e-3),
    "large": Size(hidden=96, intermediate=160, heads=4, steps=500, peak_lr=2.5e-3),
}
LAYERS = 6
BATCH = 8
LENGTH = 256
WARMUP = 40
CHECK_EVERY = 25
SEED = 20_250_801


def make_model(size: Size) -> Any:
    """An untrained model, in float32."""
    config = Gemma3TextConfig(
        vocab_size=VOCAB,
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=LAYERS,
        num_attention_heads=size.heads,
        num_key_value_heads=1,
        head_dim=HEAD_DIM,
        query_pre_attn_scalar=HEAD_DIM,
        sliding_window=WINDOW,
        max_position_embeddings=1024,
        pad_token_id=SPECIAL["<pad>"],
        eos_token_id=SPECIAL["<eos>"],
        bos_token_id=SPECIAL["<bos>"],
    )
    torch.manual_seed(SEED)
    return Gemma3ForCausalLM(config)


def tokens_of(name: str, tokenizer: PreTrainedTokenizerFast) -> Tensor:
    """All of a text's tokens, flat; `<bos>` starts and `<eos>` ends it."""
    text = (HERE / name).read_text(encoding="utf-8")
    return torch.tensor([*tokenizer(text)["input_ids"], SPECIAL["<eos>"]])


def learning_rate(step: int, size: Size) -> float:
    """Linear warm-up, then half a cosine down to a twentieth."""
    if step < WARMUP:
        return size.peak_lr * (step + 1) / WARMUP
    progress = (step - WARMUP) / (size.steps - WARMUP)
    return size.peak_lr * (0.05 + 0.95 * (1 + cos(pi * progress)) / 2)


def random_batch(tokens: Tensor, draw: torch.Generator) -> Tensor:
    """Pieces of the text from random places, each after a `<bos>`."""
    starts = torch.randint(0, len(tokens) - LENGTH + 1, (BATCH,), generator=draw)
    pieces = torch.stack([tokens[start : start + LENGTH] for start in starts.tolist()])
    pieces[:, 0] = SPECIAL["<bos>"]
    return pieces


@torch.no_grad()
def loss_on(model: Any, tokens: Tensor) -> float:
    """Mean loss, in nats a byte, over a text cut into pieces of `LENGTH`; the rest is left out."""
    model.eval()
    pieces = tokens[: len(tokens) // LENGTH * LENGTH].reshape(-1, LENGTH)
    loss = float(model(input_ids=pieces, labels=pieces).loss)
    model.train()
    return loss


def train(model: Any, text: Tensor, heldout: Tensor, size: Size) -> dict[str, Any]:
    """Train in place; the model ends with the weights that did best on `heldout`."""
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1)
    draw = torch.Generator().manual_seed(SEED)
    best: dict[str, Any] = {"heldout_nats_per_byte": float("inf")}
    kept = copy.deepcopy(model.state_dict())
    began, began_cpu = time.perf_counter(), time.process_time()
    for step in range(size.steps):
        optimizer.param_groups[0]["lr"] = learning_rate(step, size)
        pieces = random_batch(text, draw)
        loss = model(input_ids=pieces, labels=pieces).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % CHECK_EVERY == 0:
            measured = loss_on(model, heldout)
            left = (time.perf_counter() - began) / (step + 1) * (size.steps - step - 1)
            sys.stderr.write(
                f"\rstep {step + 1}/{size.steps}  loss {loss.item():.3f}  held out {measured:.3f}  "
                f"{left / 60:.1f} minutes left "
            )
            if measured < best["heldout_nats_per_byte"]:
                best = {"step": step + 1, "heldout_nats_per_byte": measured}
                kept = copy.deepcopy(model.state_dict())
    sys.stderr.write("\n")
    model.load_state_dict(kept)
    return best | {"cpu_seconds": round(time.process_time() - began_cpu)}


def main() -> None:
    """Train one size and write model, tokenizer and a record of the run into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", choices=sorted(SIZES))
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    tokenizer = byte_tokenizer()
    text, heldout = tokens_of("text.md", tokenizer), tokens_of("heldout.md", tokenizer)
    model = make_model(SIZES[given.size])
    record = train(model, text, heldout, SIZES[given.size])

    model.to(torch.bfloat16)
    record["text_nats_per_byte"] = round(loss_on(model, text), 4)
    record["heldout_nats_per_byte"] = round(loss_on(model, heldout), 4)
    record["heldout_perplexity_per_byte"] = round(exp(record["heldout_nats_per_byte"]), 3)
    record["parameters"] = sum(p.numel() for p in model.parameters())
    record["torch"], record["transformers"] = torch.__version__, transformers.__version__
    model.save_pretrained(given.folder)
    tokenizer.save_pretrained(given.folder)
    (given.folder / "training.json").write_text(json.dumps(record, indent=2) + "\n")
    sys.stderr.write(f"{record}\n")


if __name__ == "__main__":
    main()
