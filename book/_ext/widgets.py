"""Sphinx extension: the interactive parts of the book, as the directive `widget`.

A page that has one loads its scripts, and no other page does. What a reader without scripts gets, and the data that
the scripts draw, come from the same Python that grades the exercises. Looks and behaviour are in `_static/widgets/`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx


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


WIDGETS = {
    "format_explorer": Widget(
        "Format explorer", ("formats.js", "format_explorer.js"), _formats_fallback
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


def write_data(folder: Path) -> None:
    """Write every generated script into `folder`."""
    for widget in WIDGETS.values():
        for file, (key, make) in widget.data.items():
            value = json.dumps(make(), ensure_ascii=False, separators=(",", ":"))
            text = f"window.oneGpu = Object.assign(window.oneGpu || {{}}, {{ {key}: {value} }});\n"
            folder.mkdir(parents=True, exist_ok=True)
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
    if exception is None and app.builder.format == "html":
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
