"""The exercises' tiny Gemma: a real Gemma 3 of half a million parameters that reads bytes.

Its two sizes lie in a folder `tiny_gemma` that comes with each exercise that needs them. Loading
needs the extra: pip install "one-gpu[torch]".
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

SIZES = ("small", "large")
FOLDER = "tiny_gemma"


def find_tiny_gemma(size: str = "large", folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder of one size's model.

    `folder` is the folder `tiny_gemma` itself. Without it, it is looked for in the working folder,
    in the folders around it, and in their `exercises`. Raises `ValueError` for an unknown size and
    `FileNotFoundError`, with the places, where there is none.
    """
    if size not in SIZES:
        raise ValueError(f"unknown size {size!r} of tiny Gemma; known: {', '.join(SIZES)}")
    if folder is not None:
        places = [Path(folder)]
    else:
        around = [Path.cwd(), *Path.cwd().parents]
        places = [base / FOLDER for base in around]
        places += [base / "exercises" / FOLDER for base in around]
    for place in places:
        if (place / size / "model.safetensors").is_file():
            return place / size
    looked = ", ".join(str(place / size) for place in places[:3])
    raise FileNotFoundError(
        f"no tiny Gemma in {looked}{' and further up' if len(places) > 3 else ''}: it comes with "
        "the exercise, in the folder tiny_gemma; open the notebook where you unpacked it, or give "
        "folder="
    )


def load_tiny_gemma(
    size: str = "large", folder: str | os.PathLike[str] | None = None, dtype: str = "float32"
) -> tuple[Any, Any]:
    """A tiny Gemma and its tokenizer: `model, tokenizer = load_tiny_gemma()`.

    The model is a `Gemma3ForCausalLM` on the CPU; it takes less than a second. `dtype` is that of
    its weights in memory (on disk they are bfloat16). Raises as `find_tiny_gemma`, and
    `ImportError` without PyTorch.
    """
    place = find_tiny_gemma(size, folder)
    try:
        import torch
        from transformers import AutoTokenizer, Gemma3ForCausalLM
    except ImportError as error:
        raise ImportError(
            f"tiny Gemma needs PyTorch and transformers ({error}): pip install 'one-gpu[torch]'"
        ) from error
    if dtype not in ("float32", "bfloat16", "float16"):
        raise ValueError(f"unknown dtype {dtype!r}; known: float32, bfloat16, float16")
    model = Gemma3ForCausalLM.from_pretrained(place, dtype=getattr(torch, dtype))
    tokenizer = AutoTokenizer.from_pretrained(place)
    return model, tokenizer
