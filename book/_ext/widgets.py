"""Sphinx extension: the interactive parts of the book, as the directive `widget`.

A page that has one loads its scripts, and no other page does. What a reader without scripts gets, and the data that
the scripts draw, come from the same Python that grades the exercises. Looks and behaviour are in `_static/widgets/`.
"""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from gradelib.shapes import Shape


@dataclass(frozen=True)
class Widget:
    """One interactive part.

    - `label`: what a screen reader calls it.
    - `scripts`: files of `_static/widgets/`, in the order in which they need each other; `kit.js` comes before them.
    - `fallback`: HTML for readers without scripts.
    - `data`: generated scripts by name; each sets a key of `window.oneGpu` to plain data.
    """

    label: str
    scripts: Sequence[str]
    fallback: Callable[[], str]
    data: dict[str, tuple[str, Callable[[], Any]]] = field(default_factory=dict)


def html_table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column names the rows."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="w-table"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def scientific(value: float, digits: int = 6) -> str:
    """`value` as the book prints numbers: 65,504 or 5.96046 × 10⁻⁸."""
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    if 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits}g}"
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa} × 10{raised}"


def _formats_fallback() -> str:
    from solutions.formats import FORMATS, largest_finite, machine_epsilon, smallest_subnormal

    rows = [
        (
            fmt.name,
            f"1 + {fmt.exponent_bits} + {fmt.mantissa_bits}",
            scientific(largest_finite(*fmt.key)),
            scientific(smallest_subnormal(*fmt.key)),
            scientific(machine_epsilon(*fmt.key)),
            scientific(fmt.round(0.1), digits=9),
        )
        for fmt in FORMATS.values()
    ]
    header = (
        "Format",
        "Bits: sign, exponent, mantissa",
        "Largest",
        "Smallest above 0",
        "Epsilon",
        "Stores 0.1 as",
    )
    return html_table("Floating-point formats", header, rows)


# Architectures whose activations the estimators follow operation by operation: Gemma 3, Llama and its like, GPT-2.
LEDGER_MODELS = (
    *("gemma3-270m", "gemma3-1b", "gemma3-4b", "gemma3-12b", "gemma3-27b"),
    *("llama3.2-1b", "llama3.2-3b", "llama3.1-8b", "llama3.1-70b"),
    *(
        "qwen3-0.6b",
        "qwen3-4b",
        "qwen3-8b",
        "mistral-7b-v0.3",
        "smollm2-135m",
        "smollm2-1.7b",
        "gpt2",
    ),
)

# QLoRA's. (INT8 layers work in another way, and the ledger leaves them out.)
LEDGER_SCHEMES = ("nf4-dq", "nf4")

# One card for each size of memory that people rent or own.
LEDGER_GPUS = ("rtx3060", "t4", "l4", "a100-40gb", "a100-80gb", "h200-sxm")


def memory_data() -> dict[str, Any]:
    """Shapes, sizes, formats and constants from which the ledger works out a training step."""
    from dataclasses import asdict

    from solutions import caveats, optimizers, training_memory
    from solutions.hardware import gpu
    from solutions.logits import LOSS_TENSORS
    from solutions.precision import METHODS, PRECISIONS, formats

    cards = [gpu(name) for name in LEDGER_GPUS]
    return {
        "models": {name: _model_data(name) for name in LEDGER_MODELS},
        "formats": {m: {p: asdict(formats(m, p)) for p in PRECISIONS} for m in METHODS},
        "optimizers": optimizers.OPTIMIZERS,
        "gpus": [
            {
                "title": _short_title(card.title),
                "bytes": card.usable_bytes or card.capacity_bytes,
                "native": list(card.peak_flops_per_s),
            }
            for card in sorted(cards, key=lambda card: card.capacity_bytes)
        ],
        "left_out": training_memory.LEFT_OUT,
        "caveats": {
            "overflow": caveats.FLOAT16_OVERFLOW,
            "unfused": caveats.UNFUSED_ON_T4,
            "fused": caveats.FUSED_ON_T4,
        },
        "constants": {
            "value_bytes": {"float32": 4, "float16": 2, "bfloat16": 2},
            "loss_tensors": LOSS_TENSORS,
            "state_block": optimizers.STATE_BLOCK,
            "min_8bit_values": optimizers.MIN_8BIT_VALUES,
            "code_tables_bytes": optimizers.CODE_TABLES_BYTES,
            "cublas_workspace_bytes": training_memory.CUBLAS_WORKSPACE_BYTES,
            "cuda_context_bytes": training_memory.CUDA_CONTEXT_BYTES,
        },
    }


def _short_title(title: str) -> str:
    """`NVIDIA GeForce RTX 3060 12 GB` as `RTX 3060 12 GB`."""
    return re.sub(r"^NVIDIA (GeForce )?| SXM\b", "", title)


_KERNEL_DTYPES = ("float32", "float16", "bfloat16")


def _either_side(shape: Shape) -> tuple[int, int]:
    """A length of sequence shorter than the sliding window, and one that reaches it."""
    window = shape.sliding_window or 2
    return window - 1, window


def _model_data(name: str) -> dict[str, Any]:
    from solutions.caveats import overflows, unfused_layers
    from solutions.layers import linear_layers
    from solutions.parameters import parameter_count
    from solutions.quantization import kept_weights, quantized_bytes
    from solutions.shapes import GEMMA3, model_shape, published_configs
    from solutions.tensors import model_tensors

    shape = model_shape(name)
    layers = linear_layers(shape)
    hub = published_configs()[name]["hub"].split("/")[1] if name not in GEMMA3 else ""
    fields = (
        "vocab",
        "hidden",
        "intermediate",
        "layers",
        "heads",
        "kv_heads",
        "head_dim",
        "tied",
        "gated",
    )
    fields += ("norms_per_layer", "qk_norm", "norm_bias", "learned_positions", "sliding_window")
    return {
        "title": hub or f"Gemma 3 {GEMMA3[name].upper()}",
        **{field: getattr(shape, field) for field in (*fields, "global_layers", "local_layers")},
        "overflows_in": [dtype for dtype in _KERNEL_DTYPES if overflows(name, dtype)],
        # Without fused attention on a T4: in sequences shorter than the window, and in others.
        "unfused": {
            dtype: [unfused_layers(shape, length, dtype) for length in _either_side(shape)]
            for dtype in _KERNEL_DTYPES
        },
        "parameters": parameter_count(shape),
        "kept_weights": kept_weights(shape),
        "quantized_bytes": {scheme: quantized_bytes(shape, scheme) for scheme in LEDGER_SCHEMES},
        "linear": [(layer.inputs, layer.outputs, layer.count) for layer in layers],
        "linear_weights": sum(layer.weights for layer in layers),
        "largest_linear": max(layer.inputs * layer.outputs for layer in layers),
        "tensors": model_tensors(shape),
    }


def _ledger_fallback() -> str:
    from solutions.shapes import model_shape
    from solutions.training_memory import Training, training_memory

    settings: dict[str, dict[str, Any]] = {
        "Full fine-tuning": {},
        "LoRA": {"method": "lora"},
        "QLoRA": {"method": "qlora", "quantization": "nf4-dq"},
        "QLoRA, checkpointing": {
            "method": "qlora",
            "quantization": "nf4-dq",
            "checkpointing": True,
        },
    }
    rows = []
    for title, fields in settings.items():
        memory = training_memory(
            Training(shape=model_shape("gemma3-4b"), batch=1, seq=1024, **fields)
        )
        always = sum(part.bytes for part in memory.always)
        rows.append(
            (
                title,
                _gib(always),
                memory.peak.name,
                _gib(memory.peak.bytes),
                _gib(memory.total_bytes),
            )
        )
    header = ("Method", "Alive throughout", "Moment of the peak", "Alive then", "Peak")
    return html_table(
        "Gemma 3 4B in bfloat16 with AdamW, one sequence of 1,024 tokens", header, rows
    )


def _gib(amount: int) -> str:
    return f"{amount / 2**30:.2f} GiB"


# The lengths that the batch packing widget starts with, and from how many it draws others.
PACKING_EXAMPLES = 24
PACKING_QUANTILES = 100


def squad_lengths(count: int) -> list[int]:
    """`count` lengths that stand for those of SQuAD: the middle of each of as many equal parts."""
    with (Path(__file__).parents[1] / "data/squad_lengths.csv").open(encoding="utf-8") as file:
        rows = [(int(row["tokens"]), int(row["examples"])) for row in csv.DictReader(file)]
    everything = [tokens for tokens, examples in rows for _ in range(examples)]
    return [everything[(2 * i + 1) * len(everything) // (2 * count)] for i in range(count)]


def packing_data() -> dict[str, Any]:
    """Lengths to start with and to draw from, and what a position and a pair of them cost."""
    from gradelib import Shape
    from solutions.flops import training_flops

    start = squad_lengths(PACKING_EXAMPLES)
    random.Random(1).shuffle(start)
    one, two = (training_flops(Shape.gemma3("4b"), 1, seq, "lora") for seq in (1, 2))
    pair = (
        two - 2 * one
    ) / 2  # a step's operations are a multiple of the length and one of its square
    return {
        "title": "Gemma 3 4B",
        "start": start,
        "squad": squad_lengths(PACKING_QUANTILES),
        "flops": {"position": one - pair, "pair": pair},
    }


def _packing_fallback() -> str:
    from gradelib import Shape
    from solutions.batching import WAYS, batches, epoch_flops

    lengths = packing_data()["start"]
    titles = (
        "Fixed: to the maximum length",
        "Padded: to its batch’s longest",
        "Sorted: by length, then padded",
        "Packed: several to a row",
    )
    rows = []
    for title, way in zip(titles, WAYS, strict=True):
        made = batches(lengths, 4, 384, way)
        positions = sum(batch.positions for batch in made)
        flops = epoch_flops(Shape.gemma3("4b"), made, "lora")
        rows.append(
            (
                title,
                str(len(made)),
                f"{positions:,}",
                f"{100 * (1 - sum(lengths) / positions):.1f} %",
                f"{flops / 1e12:,.1f}",
            )
        )
    header = ("Way", "Batches", "Positions", "Padding", "10¹² FLOPs")
    return html_table(
        f"{len(lengths)} examples of {sum(lengths):,} tokens, batches of four rows, at most 384 tokens",
        header,
        rows,
    )


# The formats in which a model is multiplied in training; each card has a peak for some of them.
COMPUTE_DTYPES = ("float32", "tfloat32", "float16", "bfloat16")


def flops_data() -> dict[str, Any]:
    """Cards with their dense peaks, for the widgets that turn operations into time."""
    from solutions.hardware import gpu, gpu_names

    cards = [gpu(name) for name in gpu_names() if not name.startswith("tpu")]
    return {
        "dtypes": COMPUTE_DTYPES,
        "gpus": {
            card.name: {
                "title": re.sub(r"^NVIDIA (GeForce )?", "", card.title),
                "peaks": {
                    dtype: card.peak(dtype) for dtype in COMPUTE_DTYPES if card.is_native(dtype)
                },
                "bandwidth": card.bandwidth_bytes_per_s,
                "bytes": card.usable_bytes or card.capacity_bytes,
                "tdp_w": card.tdp_w,
                "note": card.note,
            }
            for card in cards
        },
    }


# The chapter's run, and the cards of its table with the format in which each multiplies it.
_FALLBACK_RUN = {"tokens": 1_000_000, "seq": 1024, "rank": 16}
_FALLBACK_CARDS = (
    ("t4", "float32"),
    ("l4", "bfloat16"),
    ("rtx3090", "bfloat16"),
    ("a100-40gb", "bfloat16"),
    ("h100-sxm", "bfloat16"),
)
_FALLBACK_UTILIZATION = 0.3


def _hours_fallback() -> str:
    from solutions.hardware import gpu
    from solutions.run_cost import Run, run_flops, run_seconds
    from solutions.shapes import model_shape

    runs = {
        title: Run(shape=model_shape("gemma3-4b"), **_FALLBACK_RUN, **fields)
        for title, fields in {
            "Full": {},
            "LoRA": {"method": "lora"},
            "LoRA, checkpointing": {"method": "lora", "checkpointing": True},
        }.items()
    }
    operations = [scientific(sum(run_flops(run).values()), digits=3) for run in runs.values()]
    rows: list[tuple[str, ...]] = [("Operations", *operations)]
    for name, dtype in _FALLBACK_CARDS:
        peak = gpu(name).peak(dtype)
        minutes = [
            f"{run_seconds(run, peak, _FALLBACK_UTILIZATION) / 60:,.0f} min"
            for run in runs.values()
        ]
        rows.append((f"{gpu(name).title}, {dtype}", *minutes))
    caption = (
        "Gemma 3 4B, a million tokens in sequences of 1,024, at 30 % of each card's dense peak"
    )
    return html_table(caption, ("Card", *runs), rows)


def _roofline_fallback() -> str:
    from solutions import flops, traffic
    from solutions.hardware import gpu
    from solutions.roofline import (
        arithmetic_intensity,
        attainable_flops_per_s,
        is_memory_bound,
    )
    from solutions.shapes import model_shape

    shape, card, dtype = model_shape("gemma3-4b"), gpu("l4"), "bfloat16"
    roof = card.peak(dtype), card.bandwidth_bytes_per_s
    work = {
        "Prefill, 1,024 tokens": (
            flops.prefill_flops(shape, 1, 1024),
            traffic.prefill_bytes_moved(shape, 1, 1024, dtype),
        )
    }
    for batch in (1, 8, 64):
        work[f"Decoding, {batch} at once"] = (
            flops.decode_flops(shape, batch, 1024),
            traffic.decode_bytes_moved(shape, batch, 1024, dtype),
        )
    rows = []
    for title, (operations, moved) in work.items():
        intensity = arithmetic_intensity(operations, moved)
        bound = "memory" if is_memory_bound(operations, moved, *roof) else "arithmetic"
        attainable = attainable_flops_per_s(intensity, *roof)
        rows.append((title, f"{intensity:,.1f}", bound, f"{attainable / 1e12:,.1f} TFLOP/s"))
    header = ("Work", "Operations for each byte", "Waits for", "Speed at best")
    return html_table("Gemma 3 4B on an L4, in bfloat16", header, rows)


# Models, formats and sizes are those of the memory ledger.
_FLOPS_DATA = {
    "memory_ledger_data.js": ("memoryData", memory_data),
    "flops_data.js": ("flopsData", flops_data),
}

WIDGETS = {
    "format_explorer": Widget(
        "Format explorer", ("formats.js", "format_explorer.js"), _formats_fallback
    ),
    "memory_ledger": Widget(
        "Memory ledger",
        ("memory_model.js", "memory_ledger.js"),
        _ledger_fallback,
        {"memory_ledger_data.js": ("memoryData", memory_data)},
    ),
    "batch_packing": Widget(
        "Batch packing",
        ("batch_packing_model.js", "batch_packing.js"),
        _packing_fallback,
        {"packing_data.js": ("packingData", packing_data)},
    ),
    "flops_to_hours": Widget(
        "From FLOPs to hours",
        ("memory_model.js", "flops_model.js", "flops_to_hours.js"),
        _hours_fallback,
        _FLOPS_DATA,
    ),
    "roofline": Widget(
        "Roofline",
        ("memory_model.js", "flops_model.js", "roofline.js"),
        _roofline_fallback,
        _FLOPS_DATA,
    ),
}


def widget_start(name: str) -> str:
    """How the place of a widget begins: what is added before `WIDGET_END` shows until its scripts run."""
    widget = WIDGETS[name]
    return (
        f'<div class="widget" id="{name}" data-widget="{name}" role="group" aria-label="{escape(widget.label)}">'
        f'<div class="widget-fallback">{widget.fallback()}'
    )


WIDGET_END = "</div></div>"


def widget_scripts(name: str) -> list[str]:
    """Files of `_static/widgets/` that a page with this widget loads after `kit.js`."""
    widget = WIDGETS[name]
    return [*widget.data, *widget.scripts]


SCRIPTS = Path(__file__).parents[1] / "_static" / "widgets"


def served(script: str) -> str:
    """`script` as readers get it: without indentation and without comments that have lines of their own."""
    without = re.sub(r"^[ ]*/\*\*.*?\*/[ ]*\n", "", script, flags=re.MULTILINE | re.DOTALL)
    lines = (line.strip() for line in without.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


def write_data(folder: Path) -> None:
    """Write every script into `folder`: the generated ones, and the others as they are served."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in SCRIPTS.glob("*.js"):
        text = served(path.read_text(encoding="utf-8"))
        (folder / path.name).write_text(text, encoding="utf-8")
    for widget in WIDGETS.values():
        for file, (key, make) in widget.data.items():
            value = json.dumps(make(), ensure_ascii=False, separators=(",", ":"))
            text = f"window.oneGpu = Object.assign(window.oneGpu || {{}}, {{ {key}: {value} }});\n"
            (folder / file).write_text(text, encoding="utf-8")


class WidgetDirective(SphinxDirective):
    """An interactive part, by name: ```` ```{widget} format_explorer ````.

    Readers without scripts get its table, and below it the directive's content, if any.
    """

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in WIDGETS:
            raise self.error(f"no widget {name!r}; there are: {', '.join(WIDGETS)}")
        used = self.env.metadata[self.env.docname].setdefault("widget_scripts", [])
        used.extend(script for script in widget_scripts(name) if script not in used)
        words = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, words)
        return [
            nodes.raw("", widget_start(name), format="html"),
            *words.children,
            nodes.raw("", WIDGET_END, format="html"),
        ]


def _write_data(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.name in {"html", "dirhtml"}:
        write_data(Path(app.outdir) / "_static" / "widgets")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive, and write the data once the pages are written."""
    app.add_directive("widget", WidgetDirective, override=True)
    app.connect("build-finished", _write_data)
    return {
        "version": "1",
        "env_version": 1,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
