"""Exercise 32 against PyTorch: its rounding, its float16, and the memory it counts on the real models."""

from __future__ import annotations

import ast
import math
import textwrap
from dataclasses import replace
from typing import Any

import pytest

from gradelib.checks import PreparedCheck, same_outcome
from gradelib.draw import Draw
from gradelib.judging import LocalAnswer, judge
from gradelib.outcomes import call
from gradelib.shapes import Shape
from solutions.checks import bfloat16
from solutions.checks.bfloat16 import MEASURED, SHOWN
from solutions.hardware import gpu, gpu_names
from solutions.parameters import parameter_count
from solutions.precision_choice import (
    FIELDS,
    STATE_BYTES,
    first_overflow,
    largest_batch,
    predicted_peak_bytes,
    stored,
    training_state_bytes,
    updates_that_stick,
)
from tests.checks.tasks import EXERCISES_FOLDER, SEEDS, prepared, source
from tests.conftest import need_module

EXERCISE = "32_bfloat16"


def tensor_of(value: float, dtype: str) -> Any:
    need_module("torch")
    import torch

    return torch.tensor(value, dtype=getattr(torch, dtype))


def prose() -> str:
    return " ".join(" ".join(cell.text.split()) for cell in source(EXERCISE).cells)


def literal(name: str) -> Any:
    """The value that the notebook gives a name."""
    for cell in source(EXERCISE).cells:
        if f"{name} = " not in cell.text:
            continue
        for statement in ast.parse(cell.text).body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
                return ast.literal_eval(statement.value)
    raise AssertionError(f"the notebook does not define {name}")


def cases(task: str) -> list[Any]:
    return [one for seed in SEEDS for one in prepared(EXERCISE, task, seed).cases]


# --- rounding


@pytest.mark.parametrize("dtype", FIELDS)
def test_rounding_is_that_of_a_tensor(dtype):
    draw = Draw("rounding", dtype)
    values = [draw.one([-1, 1]) * 2 ** draw.real(-40, 17) for _ in range(500)]
    step = bfloat16.gap(1.0, dtype)
    values += [1 + k * step / 2 for k in range(9)] + [65_519.9, 65_520.0, -65_536.0, 0.0]
    assert [stored(value, dtype) for value in values] == [
        tensor_of(value, dtype).item() for value in values
    ]


def in_tensors(weight: float, updates: list[float], dtype: str, master: bool = False) -> int:
    """The count of an answer that keeps a tensor and adds tensors to it."""
    kept_as = "float32" if master else dtype
    kept, changes = tensor_of(weight, kept_as), 0
    for update in updates:
        moved = kept + tensor_of(update, dtype).to(kept.dtype)
        changes += int((moved != kept).item())
        kept = moved
    return changes


def with_numbers(weight: float, updates: list[float], dtype: str, master: bool = False) -> int:
    """The same, adding Python's numbers to the tensor."""
    kept, changes = tensor_of(weight, "float32" if master else dtype), 0
    for update in updates:
        moved = kept + update
        changes += int(bool(moved != kept))
        kept = moved
    return changes


@pytest.mark.parametrize("count", [in_tensors, with_numbers])
def test_the_updates_that_stick_are_those_that_stick_in_a_tensor(count):
    for one in cases("updates_that_stick"):
        if one.part != bfloat16.BAD_INPUT:
            assert count(*one.args) == one.expected.value, one.args


def test_most_cases_have_updates_of_both_fates():
    fates = [
        (one.expected.value, len(one.args[1]))
        for one in cases("updates_that_stick")
        if one.part != bfloat16.BAD_INPUT and not one.visible
    ]
    assert all(0 < stuck < count for stuck, count in fates), fates


def test_the_first_overflow_is_that_of_a_float16_tensor():
    for one in cases("first_overflow"):
        infinite = [
            i for i, layer in enumerate(one.args[0]) if tensor_of(layer, "float16").isinf().any()
        ]
        assert one.expected.value == min(infinite, default=None)


# --- cards and models


def test_a_t4_has_float16_and_no_bfloat16_and_an_l4_has_both():
    assert "float16" in bfloat16.real_card("t4")["native"]
    assert "bfloat16" not in bfloat16.real_card("t4")["native"]
    assert {"float16", "bfloat16"} <= set(bfloat16.real_card("l4")["native"])


def test_every_visible_choice_is_explained_by_the_text():
    chosen = {
        (one.args[0]["name"], one.args[1]["name"]): one.expected.value
        for one in prepared(EXERCISE, "choose_dtype").cases
        if one.visible
    }
    assert chosen["NVIDIA T4", "Gemma 3 4B"] == "bfloat16"
    assert chosen["NVIDIA T4", "Gemma 3 270M"] == "float32"
    assert chosen["NVIDIA T4", "a model with small activations"] == "float16"
    assert chosen["NVIDIA L4", "Gemma 3 4B"] == "bfloat16"


def test_a_card_without_bfloat16_has_float32():
    # The rule that float32 comes before emulation presumes it.
    cards = [gpu(name) for name in gpu_names()]
    without = [card for card in cards if not card.is_native("bfloat16")]
    assert without
    assert all(card.is_native("float32") for card in without)


def test_the_hidden_state_of_the_notebook_overflows_in_its_eighth_layer():
    measured = literal("HIDDEN_STATE_270M")
    assert len(measured) == Shape.gemma3("270m").layers + 1
    assert first_overflow(measured) == 8
    assert max(max(values) for values in measured) == bfloat16.GEMMA_270M["largest_activation"]


# --- memory


def test_zero_counts_sixteen_bytes_for_each_parameter():
    # Rajbhandari et al., "ZeRO" (2020), section 3.1: 2 + 2 + K with K = 12 for AdamW.
    assert sum(STATE_BYTES["bfloat16-master"]) == 2 + 2 + 12
    assert training_state_bytes(1, "bfloat16-master") == 16


def test_a_line_through_two_peaks_meets_what_pytorch_counted():
    for steps in MEASURED.values():
        low, high, *others = sorted(steps)
        for batch in others:
            predicted = predicted_peak_bytes([[low, steps[low]], [high, steps[high]]], batch)
            assert predicted == pytest.approx(steps[batch], rel=1e-6)


def test_the_predicted_batch_is_the_largest_that_pytorch_runs():
    steps = MEASURED[SHOWN[0]]
    each = steps[2] - steps[1]
    t4 = gpu("t4").usable_bytes
    assert t4 is not None
    most = largest_batch(t4, steps[1] - each, each)
    assert steps[most] <= t4 < steps[most + 1]


def measured_peaks(setup: Any, batches: list[int]) -> dict[int, int]:
    """Peaks of steps after the first, batch by batch from the smallest on."""
    from gradelib.measure import SimulatedGPU

    device = SimulatedGPU(2**50)
    peaks = {}
    with device:
        model = device.load(setup)
        optimizer = device.optimizer(model, setup)
        for batch in [batches[0], *batches]:
            device.train_step(model, optimizer, replace(setup, batch=batch))
            peaks[batch] = device.peak_bytes
    return peaks


@pytest.mark.slow
@pytest.mark.parametrize("row", MEASURED, ids=lambda row: "-".join(map(str, row)))
def test_the_peaks_of_the_cases_are_those_that_pytorch_counts(row):
    need_module("torch")
    from gradelib.measure import Setup

    size, method, dtype, seq, checkpointing = row
    shape = Shape.gemma3(size)
    setup = Setup(shape=shape, method=method, dtype=dtype, seq=seq, checkpointing=checkpointing)
    assert measured_peaks(setup, sorted(MEASURED[row])) == MEASURED[row]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "run"), [("270m", bfloat16.GEMMA_270M), ("4b", bfloat16.GEMMA_4B)]
)
def test_the_peaks_of_the_runs_to_choose_for_are_those_that_pytorch_counts(size, run):
    need_module("torch")
    from gradelib.measure import Setup

    for dtype in ("float32", "bfloat16"):
        setup = Setup(shape=Shape.gemma3(size), method="lora", dtype=dtype, seq=128)
        assert measured_peaks(setup, [1])[1] == run["peak_bytes"][dtype]
    assert run["peak_bytes"]["float16"] == run["peak_bytes"]["bfloat16"]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "bfloat16-mixed"])
def test_the_state_of_a_recipe_is_what_pytorch_holds(precision):
    need_module("torch")
    import torch

    from gradelib.measure import Setup, SimulatedGPU

    shape = replace(Shape.gemma3("270m"), layers=6)
    setup = Setup(shape=shape, dtype=precision.removesuffix("-mixed"), seq=64)
    if precision == "bfloat16-mixed":
        setup = replace(setup, dtype="float32")
    device = SimulatedGPU(2**50)
    with device:
        model = device.load(setup)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision.endswith("-mixed")):
            device.train_step(model, device.optimizer(model, setup), setup)
    state = max(
        held["weights"] + held["gradients"] + held["optimizer"] for held in device.ledger.timeline()
    )
    assert state == pytest.approx(training_state_bytes(parameter_count(shape), precision), rel=1e-4)


@pytest.mark.slow
def test_mixed_precision_has_the_higher_peak_with_4_sequences_and_the_lower_with_16():
    need_module("torch")
    import torch

    from gradelib.measure import Setup, SimulatedGPU

    def peak(batch: int, mixed: bool) -> str:
        setup = Setup(shape=Shape.gemma3("270m"), batch=batch, dtype="float32", seq=256)
        device = SimulatedGPU(2**50)
        with device:
            model = device.load(setup)
            optimizer = device.optimizer(model, setup)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
                device.train_step(model, optimizer, setup)
        return f"{device.peak_bytes / 2**30:.2f}"

    few, many = [[peak(batch, mixed) for mixed in (True, False)] for batch in (4, 16)]
    path = EXERCISES_FOLDER / EXERCISE / f"{EXERCISE}.md"  # the rubric is no cell of its own
    text = " ".join(path.read_text(encoding="utf-8").split())
    assert f"({few[0]} GiB against {few[1]}), with 16 more ({many[0]} against {many[1]})" in text


# --- answers that learners wrote, each with one mistake


def sticking(body: str) -> str:
    return f"""
def answer(weight, updates, dtype, master=False):
    if dtype not in BITS:
        raise ValueError(dtype)
    form = "float32" if master else dtype
    w = start = stored(weight, form)
    n = 0
    for u in updates:
{textwrap.indent(textwrap.dedent(body).strip(), " " * 8)}
    return n
"""


def overflowing(body: str) -> str:
    return "def answer(activations):\n" + textwrap.indent(textwrap.dedent(body).strip(), " " * 4)


def choosing(limit: str, none: str = "None") -> str:
    return f"""
def answer(gpu, model):
    ok = []
    for d in ("bfloat16", "float16", "float32"):
        if d == "float16" and model["largest_activation"] {limit}:
            continue
        if model["peak_bytes"][d] <= gpu["usable_bytes"]:
            ok.append(d)
    own = [d for d in ok if d in gpu["native"]]
    return (own or ok)[0] if ok else {none}
"""


def batching(body: str, usable: str = "u < 0") -> str:
    return f"""
def answer(u, f, b):
    if {usable} or f < 0 or b <= 0:
        raise ValueError
{textwrap.indent(textwrap.dedent(body).strip(), " " * 4)}
"""


def keeping(**changed: int) -> str:
    table = {"float32": 16, "bfloat16": 8, "bfloat16-mixed": 16, "bfloat16-master": 16}
    table |= {name.replace("_", "-"): size for name, size in changed.items()}
    return f"""
def answer(params, precision):
    if params < 0 or precision not in {list(table)}:
        raise ValueError
    return params * {table}[precision]
"""


def peaking(formula: str) -> str:
    return f"""
def answer(measured, batch):
    (b1, p1), (b2, p2) = measured
    if b1 == b2:
        raise ValueError
    each = (p2 - p1) / (b2 - b1)
    return {formula}
"""


GAP = "gap = 2.0 ** (math.floor(math.log2(abs(w))) - BITS[form])\n"
# Task, the mistake that is named, and the answer.
LEARNERS = [
    (
        "updates_that_stick",
        "sign of updates lost",
        sticking("new = stored(w + abs(u), form)\nn += new != w\nw = new"),
    ),
    (
        "updates_that_stick",
        "master copy of a rounded weight",
        sticking("new = stored(w + u, form)\nn += new != w\nw = new").replace(
            "stored(weight, form)", "stored(stored(weight, dtype), form)"
        ),
    ),
    (
        "updates_that_stick",
        "any format with a master copy",
        sticking("new = stored(w + u, form)\nn += new != w\nw = new").replace(
            "if dtype", "if not master and dtype"
        ),
    ),
    (
        "updates_that_stick",
        "more than half a gap",
        sticking(GAP + "if abs(u) > gap / 2: n += 1; w = stored(w + u, form)"),
    ),
    (
        "updates_that_stick",
        "more than half a gap",
        sticking(GAP + "if abs(u) > gap / 2: n += 1\nw = stored(w + u, form)"),
    ),
    (
        "updates_that_stick",
        "half a gap or more",
        sticking(GAP + "if abs(u) >= gap / 2: n += 1; w = stored(w + u, form)"),
    ),
    (
        "updates_that_stick",
        "half a gap or more",
        sticking(GAP + "if abs(u) >= gap / 2: n += 1\nw = stored(w + u, form)"),
    ),
    (
        "updates_that_stick",
        "compared with the start",
        sticking("w = stored(w + u, form)\nn += w != start"),
    ),
    (
        "updates_that_stick",
        "first update alone",
        sticking("new = stored(w + u, form)\nn += new != w\nw = new\nreturn n"),
    ),
    (
        "training_state_bytes",
        "mixed with 16-bit weights and gradients",
        keeping(bfloat16_mixed=12),
    ),
    (
        "training_state_bytes",
        "mixed with 16-bit weights or gradients",
        keeping(bfloat16_mixed=14),
    ),
    ("training_state_bytes", "master with float32 gradients", keeping(bfloat16_master=18)),
    ("training_state_bytes", "master copy forgotten", keeping(bfloat16_master=12)),
    ("training_state_bytes", "float32 averages in bfloat16", keeping(bfloat16=12)),
    (
        "first_overflow",
        "position 0 passed over",
        overflowing("""
            found = None
            for i, layer in enumerate(activations):
                for v in layer:
                    if abs(v) >= 65520 and not found:
                        found = i
            return found
        """),
    ),
    (
        "first_overflow",
        "position 0 taken for none",
        overflowing("""
            hits = [i for i, layer in enumerate(activations) if any(abs(v) >= 65520 for v in layer)]
            return (hits and hits[0]) or None
        """),
    ),
    (
        "first_overflow",
        "0 for none",
        overflowing("""
            hits = (i for i, layer in enumerate(activations) if any(abs(v) >= 65520 for v in layer))
            return min(hits, default=0)
        """),
    ),
    (
        "first_overflow",
        "first value alone",
        overflowing("""
            for i, layer in enumerate(activations):
                if abs(layer[0]) >= 65520:
                    return i
        """),
    ),
    (
        "first_overflow",
        "number of layers for none",
        overflowing("""
            for i, layer in enumerate(activations):
                if any(abs(v) >= 65520 for v in layer):
                    return i
            return len(activations)
        """),
    ),
    ("choose_dtype", "limit at 65,504", choosing(">= 65504")),
    ("choose_dtype", "limit at 65,504", choosing("> 65504")),
    ("choose_dtype", "limit at 65,536", choosing("> 65520")),
    ("choose_dtype", "limit at 65,536", choosing(">= 65536")),
    ("choose_dtype", "float32 for none", choosing(">= 65520", "'float32'")),
    ("choose_dtype", "bfloat16 for none", choosing(">= 65520", "'bfloat16'")),
    ("predicted_peak_bytes", "in proportion to the second batch", peaking("p2 / b2 * batch")),
    ("predicted_peak_bytes", "second peak taken as fixed", peaking("p2 + batch * each")),
    ("largest_batch", "distance in place of the rest", batching("return abs(u - f) // b")),
    ("largest_batch", "nothing refused", batching("return max(0, (u - f) // b)", "u <= 0")),
    (
        "largest_batch",
        "one more",
        batching("n = 0\nwhile f + n * b <= u:\n    n += 1\nreturn n"),
    ),
    (
        "largest_batch",
        "one less than the first that fails",
        batching("n = 0\nwhile f + n * b <= u:\n    n += 1\nreturn n - 1"),
    ),
]


@pytest.mark.parametrize(("task", "mistake", "text"), LEARNERS)
def test_a_learners_mistake_is_named_by_the_visible_cases(task, mistake, text):
    names: dict[str, Any] = {"math": math, "stored": stored}
    names["BITS"] = {dtype: mantissa for dtype, (_, mantissa) in FIELDS.items()}
    exec(text, names)
    answer = LocalAnswer(names["answer"])
    check = prepared(EXERCISE, task)
    visible = PreparedCheck.from_public_data(task, check.public_data())
    assert judge(answer, visible).misconception == mistake
    assert judge(answer, check).misconception == mistake


@pytest.mark.parametrize(
    ("task", "text"),
    [
        (task, text)
        for task, _, text in LEARNERS
        if text != choosing("> 65520")  # 65,520 itself is a visible case
    ],
)
def test_a_learners_mistake_costs_points_by_the_hidden_cases_alone(task, text):
    names: dict[str, Any] = {"math": math, "stored": stored}
    names["BITS"] = {dtype: mantissa for dtype, (_, mantissa) in FIELDS.items()}
    exec(text, names)
    for seed in SEEDS:
        hidden = [one for one in prepared(EXERCISE, task, seed).cases if not one.visible]
        outcomes = [call(names["answer"], one.args, one.kwargs) for one in hidden]
        assert not all(
            same_outcome(outcome, one.expected, bfloat16.largest_batch.tolerance)
            for one, outcome in zip(hidden, outcomes, strict=True)
        )


# --- what the text states


@pytest.mark.parametrize(
    "words",
    [
        f"{2 * 10} bytes of weights, 20 of gradients, and 2 · 20 of averages. "
        f"Together {training_state_bytes(10, 'bfloat16')} bytes.",
        f"A batch of 7 has 30 + 7 · 10 = {predicted_peak_bytes([[2, 50], [6, 90]], 7):.0f}.",
        f"its position is {first_overflow([[10.0, -5.0], [65519.0, 3.0], [-66000.0, 1.0]])},",
        "has 7 bits of mantissa: from one power of two to the next there are 128 numbers",
        "they are 65,536 times narrower than bfloat16's",
    ],
)
def test_a_stated_number_is_right(words):
    assert words in prose()


def test_the_gaps_are_as_stated():
    assert bfloat16.gap(0.05, "bfloat16") == 1 / 32 / 128
    assert bfloat16.gap(1.0, "bfloat16") / bfloat16.gap(1.0, "float32") == 65_536
    assert largest_batch(20, 6, 4) == 3


def test_the_worked_choice_comes_out_as_stated():
    card, run = literal("card"), literal("run")
    assert bfloat16.choose_dtype.reference(card, run) == "float32"
    peaks = {**run["peak_bytes"], "float32": 9_000_000_000}
    assert bfloat16.choose_dtype.reference(card, {**run, "peak_bytes": peaks}) == "bfloat16"


def test_the_notebooks_models_have_as_many_parameters_as_their_shapes():
    assert literal("PARAMS_270M") == parameter_count(Shape.gemma3("270m"))
    assert literal("PARAMS_4B") == parameter_count(Shape.gemma3("4b"))


def test_the_notebooks_t4_is_the_one_of_the_table():
    assert f"T4 = round({14.741} * 2**30)" in prose()
    assert gpu("t4").usable_bytes == round(14.741 * 2**30)


def test_updates_near_the_learning_rate_stick_in_small_weights_alone():
    # The marking guide: below 1/128, for an update of 0.00002.
    assert updates_that_stick(0.99 / 128, [2e-5], "bfloat16") == 1
    assert updates_that_stick(1.01 / 128, [2e-5], "bfloat16") == 0
