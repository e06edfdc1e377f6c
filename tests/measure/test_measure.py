"""The measuring tools against real tensors, real optimizers and PyTorch's own memory tracker."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from gradelib.measure import (
    CannotMeasureError,
    MemoryLedger,
    Setup,
    SimulatedGPU,
    count_flops,
    count_parameters,
    measure_gpu_peak,
    measure_saved_bytes,
    measure_step_memory,
    measure_step_time,
)
from gradelib.measure.models import meta_model
from gradelib.measure.optimizers import InPlaceAdamW8bit, make_optimizer
from gradelib.shapes import Shape
from solutions import flops, gpu_measure, quantization
from solutions.lora import lora_parameters
from solutions.parameters import parameter_count

TINY = replace(
    Shape.gemma3("270m"),
    vocab=300,
    hidden=64,
    intermediate=128,
    layers=3,
    heads=2,
    head_dim=32,
    sliding_window=16,
    sliding_pattern=3,
)
SETUP = Setup(shape=TINY, batch=2, seq=32, dtype="float32")


@pytest.mark.parametrize("size", ["270m", "4b"])
@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
def test_parameters_are_those_of_the_formula(size: str, method: str) -> None:
    shape = Shape.gemma3(size)
    count = count_parameters(Setup(shape=shape, method=method))
    adapters = 0 if method == "full" else lora_parameters(shape, 16, "all-linear")
    assert count.total == parameter_count(shape) + adapters
    assert count.trainable == (parameter_count(shape) if method == "full" else adapters)
    if method == "qlora":
        assert count.stored_elements == quantization.packed_elements(shape) + adapters


def test_a_given_adapter_target_is_counted_alone() -> None:
    count = count_parameters(replace(SETUP, method="lora", targets=["q_proj"], rank=4))
    assert count.by_module["adapters"] == count.trainable == 3 * 4 * (64 + 64)


def test_flops_are_those_of_the_formula() -> None:
    count = count_flops(SETUP)
    assert count.forward == flops.forward_flops(TINY, 2, 32)
    assert count.training == flops.training_flops(TINY, 2, 32)
    again = count_flops(replace(SETUP, checkpointing=True))
    assert again.training == flops.training_flops(TINY, 2, 32, checkpointing=True)


def real_step(setup: Setup) -> tuple[Any, Any, Any]:
    """The model, its optimizer and its tokens, with real values."""
    torch.manual_seed(0)
    model = gpu_measure.build(setup, "cpu")
    optimizer = make_optimizer(model, setup.optimizer)
    return model, optimizer, torch.zeros(setup.batch, setup.seq, dtype=torch.long)


SETUPS = [
    SETUP,
    replace(SETUP, dtype="bfloat16", attention="eager"),
    replace(SETUP, checkpointing=True),
    replace(SETUP, method="lora", rank=4),
    replace(SETUP, method="lora", rank=4, checkpointing=True, dtype="bfloat16"),
    # A vocabulary that is large beside the rest: the tied weight's two gradients make the peak.
    replace(SETUP, shape=replace(TINY, vocab=4000), batch=1, seq=8, optimizer="sgd"),
]


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_saved_bytes_are_those_of_a_real_forward_pass(setup: Setup) -> None:
    model, _, ids = real_step(setup)
    own = {p.untyped_storage().data_ptr() for p in [*model.parameters(), *model.buffers()]}
    saved: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(input_ids=ids, labels=ids).loss
    assert loss.isfinite()
    measured = measure_saved_bytes(setup, progress=False)
    real = sum(tensor.untyped_storage().nbytes() for tensor in saved.values())
    assert measured.activation_bytes + measured.logits_bytes == real
    assert (measured.recomputed_bytes > 0) == setup.checkpointing
    assert measured.alive_bytes == measured.activation_bytes + measured.recomputed_bytes


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_the_peak_is_that_of_a_real_step(setup: Setup) -> None:
    model, optimizer, ids = real_step(setup)
    # 4-bit layers apart, a real step makes the same tensors as one without values.
    ledger = MemoryLedger()
    with ledger, ledger.watching(model, setup.shape.vocab):
        for _ in range(2):
            start = ledger.event_count
            loss = model(input_ids=ids, labels=ids).loss
            with ledger.backward_pass(model.get_output_embeddings().weight):
                loss.backward()
            del loss
            optimizer.step()
            optimizer.zero_grad()
    real = max(sum(held.values()) for held in ledger.timeline()[start:])
    measured = measure_step_memory(setup, progress=False)
    assert measured.peak_bytes == pytest.approx(real, rel=0.002)
    assert sum(measured.parts.values()) == measured.peak_bytes


def test_the_ledger_agrees_with_pytorchs_memory_tracker() -> None:
    from torch.distributed._tools.mem_tracker import MemTracker

    model, optimizer, ids = real_step(replace(SETUP, seq=64))
    tracker: Any = MemTracker()
    tracker.track_external(model, optimizer)
    with tracker:
        for step in range(2):
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if step == 0:
                tracker.reset_mod_stats()
    snapshot = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
    theirs = {str(key).rsplit(".", 1)[-1]: held for key, held in snapshot.items()}
    measured = measure_step_memory(replace(SETUP, seq=64), progress=False)
    assert measured.peak_bytes == pytest.approx(snapshot["Total"], rel=0.05), theirs


def test_the_parts_of_the_peak_are_what_they_are_called() -> None:
    measured = measure_step_memory(SETUP, progress=False)
    params = parameter_count(TINY)
    model = meta_model(SETUP)
    buffers = sum(buffer.nbytes for buffer in model.buffers())
    steps = 4 * sum(1 for _ in model.parameters())  # AdamW counts steps in a float a tensor
    assert measured.parts["weights"] == 4 * params + buffers
    assert measured.parts["optimizer"] == 8 * params + steps
    assert measured.parts["inputs"] == 2 * 32 * 8


def test_the_8_bit_optimizer_keeps_what_bitsandbytes_keeps() -> None:
    bitsandbytes = importlib.import_module("bitsandbytes")
    weights = [nn.Parameter(torch.randn(size)) for size in ((64, 128), (4095,), (300, 100))]
    kept = []
    for make in (InPlaceAdamW8bit, bitsandbytes.optim.AdamW8bit):
        optimizer = make(weights)
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        optimizer.step()
        states = [
            value.nbytes
            for state in optimizer.state.values()
            for name, value in state.items()
            if isinstance(value, torch.Tensor) and not name.startswith("qmap")
        ]
        kept.append(sum(states))
    assert kept[0] == kept[1]


@pytest.mark.parametrize(
    "shape",
    [TINY, pytest.param(Shape.gemma3("270m"), marks=pytest.mark.slow)],
    ids=["tiny", "270m"],
)
def test_a_4_bit_base_takes_the_bytes_that_bitsandbytes_stores(shape: Shape) -> None:
    setup = replace(SETUP, shape=shape, method="qlora", dtype="bfloat16", rank=4)
    real = gpu_measure.build(setup, "cpu")
    stored = 0
    for weight in real.parameters():
        if weight.dtype == torch.uint8:
            state = weight.quant_state
            kept = (weight, state.absmax, state.state2.absmax, state.offset)
            stored += sum(part.nbytes for part in kept)
    assert stored == quantization.quantized_bytes(shape, "nf4-dq")
    measured = measure_step_memory(setup, progress=False)
    rest = 2 * quantization.kept_weights(shape) + 4 * lora_parameters(shape, 4, "all-linear")
    # A copy of the code tables a layer here, where bitsandbytes' layers share one.
    tables = shape.layers * 7 * (256 + 16) * 4
    buffers = sum(b.nbytes for n, b in real.named_buffers() if "inv_freq" in n or "scale" in n)
    assert measured.parts["weights"] == stored + rest + tables + buffers


@pytest.mark.slow
def test_8_bit_states_of_gemma_3_270m_take_the_bytes_that_bitsandbytes_keeps() -> None:
    setup = Setup(shape=Shape.gemma3("270m"), seq=8, optimizer="adamw8bit")
    model = gpu_measure.build(setup, "cpu")
    optimizer = gpu_measure.optimizer_of(model, "adamw8bit")
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    kept = sum(
        value.nbytes
        for state in optimizer.state.values()
        for name, value in state.items()
        if isinstance(value, torch.Tensor) and not name.startswith("qmap")
    )
    assert measure_step_memory(setup, progress=False).parts["optimizer"] == kept


def test_optimizers_rank_by_their_state() -> None:
    held = {
        name: measure_step_memory(replace(SETUP, optimizer=name), progress=False).parts["optimizer"]
        for name in ("sgd", "adafactor", "adamw8bit", "momentum", "adamw")
    }
    assert held["sgd"] == 0
    assert held["adafactor"] < held["adamw8bit"] < held["momentum"] < held["adamw"]


def test_checkpointing_and_adapters_lower_the_peak() -> None:
    long = replace(SETUP, seq=256)
    plain = measure_step_memory(long, progress=False).peak_bytes
    saving = measure_step_memory(replace(long, checkpointing=True), progress=False).peak_bytes
    lora = measure_step_memory(replace(long, method="lora"), progress=False).peak_bytes
    assert saving < plain
    assert lora < plain


def test_a_simulated_gpu_that_is_too_small_raises_the_error_of_a_real_one() -> None:
    need = measure_step_memory(SETUP, progress=False).peak_bytes
    assert measure_step_memory(SETUP, progress=False, capacity_bytes=need).peak_bytes == need
    with pytest.raises(torch.cuda.OutOfMemoryError) as error:
        measure_step_memory(SETUP, progress=False, capacity_bytes=need - 1)
    assert str(error.value).startswith("CUDA out of memory. Tried to allocate ")
    assert "GPU 0 has a total capacity of" in str(error.value)


def test_a_simulated_t4_holds_gemma_3_4b_and_cannot_train_it_in_full() -> None:
    t4 = SimulatedGPU(capacity_bytes=15_360 * 2**20)
    setup = Setup(shape=Shape.gemma3("4b"), seq=64)
    with t4:
        model = t4.load(setup)
        assert t4.allocated_bytes == pytest.approx(2 * 3_880_099_328, rel=1e-3)
        optimizer = t4.optimizer(model, setup)
        with pytest.raises(
            torch.cuda.OutOfMemoryError, match=r"14\.\d+ GiB is allocated by PyTorch"
        ):
            t4.train_step(model, optimizer, setup)
    assert t4.peak_bytes <= 15_360 * 2**20
    assert "weights" in t4.summary()


def test_a_learners_own_tensors_count_on_the_simulated_gpu() -> None:
    with SimulatedGPU(1000) as gpu:
        kept = torch.zeros(200)
        assert gpu.allocated_bytes == 800
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.ones(100)
        del kept
        assert gpu.allocated_bytes == 0
        torch.ones(100)
    assert gpu.peak_bytes == 800
    with pytest.raises(ValueError, match="capacity_bytes"):
        SimulatedGPU(0)
    with pytest.raises(RuntimeError, match="with statement"):
        SimulatedGPU(1000).load(SETUP)


def test_two_gradients_of_a_tied_weight_are_summed_in_place() -> None:
    made: list[int] = []

    class Use(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, weight: torch.Tensor) -> torch.Tensor:
            ctx.shape = weight.shape
            return weight.sum()

        @staticmethod
        def backward(ctx: Any, _: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            gradient = torch.ones(ctx.shape)
            made.append(gradient.data_ptr())
            return gradient

    weight = nn.Parameter(torch.randn(100, 100))
    use: Any = Use.apply
    (use(weight) + use(weight)).backward()
    # This is what PyTorch does when nobody watches: the sum has no memory of its own.
    assert weight.grad is not None
    assert weight.grad.data_ptr() in made

    weight.grad = None
    loss = use(weight) + use(weight)
    with MemoryLedger() as ledger, ledger.backward_pass(weight):
        loss.backward()
        assert ledger.current_bytes < 1.1 * weight.nbytes
    assert ledger.peak_bytes < 2.1 * weight.nbytes
    assert torch.equal(weight.grad, torch.full((100, 100), 2.0))


def test_a_view_is_counted_once_and_freed_memory_is_free() -> None:
    with MemoryLedger() as ledger:
        values = torch.zeros(1000)
        view = values.reshape(10, 100).t()
        assert ledger.current_bytes == 4000
        del values
        assert ledger.current_bytes == 4000
        del view
        assert ledger.current_bytes == 0
    assert ledger.peak_bytes == 4000
    assert ledger.at_peak()["temporary"] == 4000
    with pytest.raises(ValueError, match="unknown category"):
        ledger.label([torch.zeros(1)], "weight")


def test_results_say_what_they_count_and_what_they_leave_out() -> None:
    for result in (
        measure_saved_bytes(SETUP, progress=False),
        measure_step_memory(SETUP, progress=False),
    ):
        assert result.counts in str(result)
        assert result.leaves_out in str(result)
    assert "parameters" in str(count_parameters(SETUP))


def test_a_timeline_ends_where_it_began_and_peaks_at_the_peak() -> None:
    measured = measure_step_memory(SETUP, progress=False, timeline=True)
    assert max(measured.timeline) == measured.peak_bytes
    assert measured.timeline[-1] < measured.peak_bytes / 1.2
    assert measure_step_memory(SETUP, progress=False).timeline == ()


def test_without_a_gpu_its_peak_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(CannotMeasureError, match="measure_step_memory"):
        measure_gpu_peak(lambda: None)


def test_the_time_of_a_step_leaves_the_warm_up_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 10.0, 13.0, 20.0, 22.0])
    calls: list[int] = []
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    timed = measure_step_time(lambda: calls.append(1), repeats=3, warmup=2)
    assert len(calls) == 5
    assert timed.seconds == 2.0
    assert timed.quarter_seconds == (1.5, 2.5)
    with pytest.raises(ValueError, match="repeats must be at least 2"):
        measure_step_time(lambda: None, repeats=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "batch must be a whole number of at least 1: got 0"),
        ({"seq": 1.5}, "seq must be a whole number"),
        ({"dtype": "fp16"}, "unknown dtype 'fp16'; known: float32"),
        ({"attention": "flash"}, "known: sdpa, eager"),
        ({"method": "dora"}, "known: full, lora, qlora"),
        ({"optimizer": "adam"}, "known: sgd"),
        ({"shape": replace(TINY, qk_norm=False)}, "only Gemma 3"),
    ],
)
def test_what_cannot_be_measured_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SETUP, **changes)


def test_an_unknown_layer_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="down_proj, gate_proj"):
        count_parameters(replace(SETUP, method="lora", targets=["query"]))


def test_gradelib_itself_needs_no_torch_and_its_tools_say_what_they_need() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import gradelib\n"
        "try: import gradelib.measure\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'one-gpu[torch]'" in done.stdout
