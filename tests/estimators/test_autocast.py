"""The lists of automatic mixed precision against PyTorch's own for CUDA, which need no GPU: fake CUDA
tensors take the same way through autocast, and the installed header has the lists in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as nnf
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from solutions.autocast import AS_INPUT, IN_FLOAT32, LOW, PRODUCTS, autocast_dtype

SIZE = 4
# Called with square matrices of one dtype; what is not here takes one matrix.
CALLS: dict[str, Callable[[Any], Tensor]] = {
    **{name: lambda a, n=name: getattr(torch, n)(a, a) for name in ("matmul", "mm")},
    "linear": lambda a: nnf.linear(a, a),
    "bmm": lambda a: torch.bmm(a.unsqueeze(0), a.unsqueeze(0)),
    "mv": lambda a: torch.mv(a, a.select(0, 0)),
    "addmm": lambda a: torch.addmm(a, a, a),
    "baddbmm": lambda a: torch.baddbmm(a.unsqueeze(0), a.unsqueeze(0), a.unsqueeze(0)),
    "addbmm": lambda a: torch.addbmm(a, a.unsqueeze(0), a.unsqueeze(0)),
    "addmv": lambda a: torch.addmv(a.select(0, 0), a, a.select(0, 0)),
    "addr": lambda a: torch.addr(a, a.select(0, 0), a.select(0, 0)),
    "einsum": lambda a: torch.einsum("ij,jk->ik", a, a),
    "scaled_dot_product_attention": lambda a: nnf.scaled_dot_product_attention(
        *[a.unsqueeze(0).unsqueeze(0)] * 3
    ),
    "conv1d": lambda a: nnf.conv1d(a.unsqueeze(0), a.unsqueeze(-1)),
    "conv2d": lambda a: nnf.conv2d(a.unsqueeze(0).unsqueeze(-1), a.unsqueeze(-1).unsqueeze(-1)),
    "pow": lambda a: a.pow(2),
    **{
        name: lambda a, n=name: getattr(torch, n)(a, 0)
        for name in ("cumsum", "cumprod", "logsumexp", "softmax", "log_softmax")
    },
    "norm": torch.norm,
    "layer_norm": lambda a: nnf.layer_norm(a, (SIZE,)),
    "rms_norm": lambda a: nnf.rms_norm(a, (SIZE,)),
    "group_norm": lambda a: nnf.group_norm(a, 2),
    "cosine_similarity": lambda a: nnf.cosine_similarity(a, a),
    "softplus": nnf.softplus,
    "kl_div": lambda a: nnf.kl_div(a, a, reduction="batchmean"),
    "nll_loss": lambda a: nnf.nll_loss(a, _targets()),
    "cross_entropy": lambda a: nnf.cross_entropy(a, _targets()),
    **{
        name: lambda a, n=name: getattr(nnf, n)(a, a)
        for name in (
            *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"),
            "binary_cross_entropy_with_logits",
        )
    },
}
# In no list, or promoted to the widest input: each follows what it gets.
FOLLOWING: dict[str, Callable[[Any], Tensor]] = {
    **{name: getattr(torch, name) for name in ("relu", "tanh", "sigmoid", "abs", "mean", "sqrt")},
    **{name: getattr(nnf, name) for name in ("gelu", "silu", "dropout")},
    **{
        name: lambda a, n=name: getattr(torch, n)(a, a)
        for name in ("add", "sub", "mul", "div", "maximum")
    },
    "cat": lambda a: torch.cat([a, a]),
    "stack": lambda a: torch.stack([a, a]),
    "transpose": lambda a: a.transpose(0, 1),
    "amax": lambda a: a.amax(0),
    "dot": lambda a: torch.dot(a.select(0, 0), a.select(0, 0)),
    "addcmul": lambda a: torch.addcmul(a, a, a),
    "embedding": lambda a: nnf.embedding(_targets(), a),
}


def _targets() -> Tensor:
    return torch.zeros(SIZE, dtype=torch.long, device="cuda")


@pytest.fixture(params=LOW)
def low(request: pytest.FixtureRequest) -> Iterator[str]:
    """A 16-bit format under CUDA's autocast, with tensors that have no values."""
    before = torch.get_autocast_dtype("cuda")
    with FakeTensorMode(allow_non_fake_inputs=True):
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", getattr(torch, request.param))
        try:
            yield request.param
        finally:
            torch.set_autocast_enabled("cuda", False)
            torch.set_autocast_dtype("cuda", before)


def results(call: Callable[[Any], Tensor], low: str) -> list[str]:
    """The dtypes that come out for inputs of float32 and of `low`."""
    dtypes = (torch.float32, getattr(torch, low))
    matrices = [torch.empty(SIZE, SIZE, device="cuda", dtype=dtype) for dtype in dtypes]
    return [str(call(matrix).dtype).removeprefix("torch.") for matrix in matrices]


@pytest.mark.parametrize("op", sorted(PRODUCTS | IN_FLOAT32))
def test_a_listed_operation_runs_where_pytorch_runs_it(op: str, low: str) -> None:
    assert results(CALLS.get(op) or getattr(torch, op), low) == [autocast_dtype(op, low)] * 2


@pytest.mark.parametrize("op", sorted(FOLLOWING))
def test_an_operation_in_no_list_follows_its_input(op: str, low: str) -> None:
    assert results(FOLLOWING[op], low) == ["float32", low]
    assert autocast_dtype(op, low) == AS_INPUT


def header() -> dict[str, set[str]]:
    """PyTorch's lists by the name of their macro."""
    path = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    macros = re.findall(r"#define AT_FORALL_(\w+)\(_\)(.*)", text)
    return {
        name: set(re.findall(r"_\((?:ADD_NS\()?(\w+)", body))
        for name, body in macros
        if "KERNEL" not in name
    }


def test_every_name_stands_in_pytorchs_own_list() -> None:
    lists = header()
    assert lists["LOWER_PRECISION_FP"] >= PRODUCTS
    in_float32 = (
        lists["FP32"] | lists["FP32_SET_OPT_DTYPE"] | lists["DIFFERENT_REDISPATCH_SIGNATURE"]
    )
    # cross_entropy is log_softmax and then nll_loss.
    assert in_float32 >= IN_FLOAT32 - {"cross_entropy"}
    assert not set(FOLLOWING) & (lists["LOWER_PRECISION_FP"] | in_float32)


def test_other_widths_are_refused() -> None:
    for wrong in ("float32", "int8", "bf16"):
        with pytest.raises(ValueError, match="bfloat16, float16"):
            autocast_dtype("linear", wrong)
