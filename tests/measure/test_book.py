"""What the book's pages show of the measuring tools is what these say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import need_module

for module in ("torch", "transformers", "peft", "bitsandbytes"):
    need_module(module)

import torch  # noqa: E402

PAGE = Path(__file__).parents[2] / "book" / "memory" / "out_of_memory.md"


@pytest.mark.slow
def test_the_error_on_the_page_is_the_one_that_its_code_raises():
    blocks = re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (code,) = [text for kind, text in blocks if kind == "python"]
    (shown,) = [text for kind, text in blocks if kind == "text"]
    with pytest.raises(torch.cuda.OutOfMemoryError) as raised:
        exec(compile(code, "out_of_memory.md", "exec"), {})
    assert str(raised.value).startswith(" ".join(shown.split()))
