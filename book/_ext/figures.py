"""For pages of the book: turns a matplotlib figure into an SVG that fits the page and follows its colours.

Lines and words take the reader's text colour and the page's palette (CSS variables), so that one figure serves
light and dark; words stay words, so they can be searched, read aloud and set in the reader's font. Each figure is
drawn twice, for a desk and for a phone: the stylesheet shows one, and neither is ever scaled until it cannot be read.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import re
import textwrap
from html import escape
from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle
from matplotlib.text import Text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Stand-ins in the figure, replaced by the page's colours. Each also differs in lightness, and a figure
# must not rely on colour alone: use markers, dashes or labels as well.
INK = "#010101"
MUTED = "#020202"
GRID = "#030303"
SERIES = ["#0100f1", "#0200f2", "#0300f3", "#0400f4", "#0500f5", "#0600f6"]
_VARIABLES = {
    INK: "currentColor",
    MUTED: "var(--muted)",
    GRID: "var(--rule)",
    **{colour: f"var(--series-{i})" for i, colour in enumerate(SERIES, 1)},
}
WIDTH_INCHES = 7.2
NARROW_INCHES = 4.6  # 331 units: about the column of a phone, so that type keeps its size
_SMALLEST_TYPE = 10.0  # in the narrow one
_NAME_CHARACTERS = 13  # of a category beside a bar; longer names take a second line
_ENTRY_CHARACTERS = 16  # of a legend in two columns
_SMALLEST_IN_A_BOX = 8.0


def use_book_style() -> None:
    """Set sizes, fonts and colours for every figure of a page; call it once, before drawing."""
    mpl.use("svg")
    mpl.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "one-gpu",
            "figure.figsize": (WIDTH_INCHES, 4.0),
            "figure.constrained_layout.use": True,
            "savefig.transparent": True,
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
            "font.size": 11,
            "axes.prop_cycle": mpl.cycler(
                color=SERIES,
                marker=["o", "s", "^", "D", "v", "P"],
                linestyle=["-", "--", "-.", ":", "-", "--"],
            ),
            "axes.edgecolor": MUTED,
            "axes.labelcolor": INK,
            "axes.titlecolor": INK,
            "axes.titlesize": 11,
            "axes.titlelocation": "left",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": GRID,
            "grid.linewidth": 0.8,
            "text.color": INK,
            "xtick.color": MUTED,
            "ytick.color": MUTED,
            "xtick.labelcolor": INK,
            "ytick.labelcolor": INK,
            "legend.frameon": False,
            "lines.linewidth": 2,
            "lines.markersize": 5,
        }
    )


class PageFigure:
    """A figure as the page shows it; `glue` it, then place it with `glue:figure`."""

    def __init__(self, svg: str) -> None:
        self._svg = svg

    def _repr_html_(self) -> str:
        return f'<div class="figure-svg">{self._svg}</div>'


def figure(fig: Figure, alt: str) -> PageFigure:
    """Return `fig` for the page; `alt` tells a reader who cannot see it what it shows.

    Raises `ValueError` where `alt` is too short to say anything.
    """
    if len(alt.split()) < 8:
        raise ValueError(
            f"alt text must say what the figure shows, in a sentence or two; got {alt!r}"
        )
    wide = theme_aware(_saved(fig), alt, "wide")
    narrow_down(fig)
    narrow = theme_aware(_saved(fig), alt, "narrow")
    plt.close(fig)
    return PageFigure(wide + narrow)


def _saved(fig: Figure) -> str:
    buffer = io.StringIO()
    fig.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def narrow_down(fig: Figure) -> None:
    """Lay `fig` out for a phone: the same type, legends below, long names on two lines, fewer ticks."""
    _, height = fig.get_size_inches()
    rows = _legends_below(fig)
    for text in fig.findobj(Text):
        text.set_fontsize(max(text.get_fontsize(), _SMALLEST_TYPE))
    fig.set_size_inches(NARROW_INCHES, max(height, *map(_wrap_names, fig.axes)) + 0.21 * rows)
    fig.canvas.draw()
    for ax in fig.axes:
        _thin_ticks(ax)
        _fit_in_boxes(ax)


def _legends_below(fig: Figure) -> int:
    """Move every legend under the plot, each entry once; return the lines that takes."""
    entries = {}
    for ax in fig.axes:
        if legend := ax.get_legend():
            for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
                entries.setdefault(text.get_text(), handle)
            legend.remove()
    if not entries:
        return 0
    columns = 2 if max(map(len, entries)) <= _ENTRY_CHARACTERS else 1
    fig.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower left",
        ncols=columns,
        fontsize=_SMALLEST_TYPE,
    )
    return -(-len(entries) // columns)


def _wrap_names(ax: Axes) -> float:
    """Put long names of categories on two lines; return the height in inches that they need."""
    names = [label.get_text() for label in ax.get_yticklabels()]
    if any(len(name) > _NAME_CHARACTERS and "$" not in name for name in names):
        limits = ax.get_ylim()
        wrapped = [textwrap.fill(name, _NAME_CHARACTERS) for name in names]
        ax.set_yticks(ax.get_yticks(), wrapped)
        ax.set_ylim(limits)
        return 0.36 * len(names) + 0.9
    return 0.0


def _fit_in_boxes(ax: Axes) -> None:
    """Set words that stand in a box on two lines, then smaller, until they fit it."""
    boxes = [patch.get_window_extent() for patch in ax.patches if isinstance(patch, Rectangle)]
    for text in ax.texts:
        x, y = text.get_transform().transform(text.get_position())
        around = [box for box in boxes if box.contains(x, y)]
        room = min((box.width for box in around), default=float("inf"))
        if text.get_window_extent().width > room and " " in text.get_text():
            text.set_text(text.get_text().replace(" ", "\n"))
        while text.get_window_extent().width > room and text.get_fontsize() > _SMALLEST_IN_A_BOX:
            text.set_fontsize(text.get_fontsize() - 1)


def _thin_ticks(ax: Axes) -> None:
    """Keep every second tick of the x axis, or every third, …, until no two labels touch."""
    labels = [label for label in ax.get_xticklabels() if label.get_text()]
    if not labels:
        return
    limits = ax.get_xlim()
    ends = [label.get_window_extent() for label in labels]
    places = [label.get_position()[0] for label in labels]
    gap = 6 * ax.figure.dpi / 72
    for step in range(1, len(labels) + 1):
        kept = range(0, len(labels), step)
        if all(ends[i].x1 + gap <= ends[j].x0 for i, j in itertools.pairwise(kept)):
            break
    if step > 1:
        ax.set_xticks([places[i] for i in kept], [labels[i].get_text() for i in kept])
        ax.set_xlim(limits)


def theme_aware(svg: str, alt: str, layout: str) -> str:
    """Return matplotlib's SVG as an inline element with page colours, unique ids and a text alternative.

    `layout` is its class: "wide" or "narrow".
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    # An inline <style> would apply to the whole page; book.css has these rules for figures alone.
    svg = re.sub(r"<defs>\s*<style\b.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, variable)
    prefix = "f" + hashlib.sha256((alt + svg).encode()).hexdigest()[:6] + "-"
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}\1)", svg)
    svg = re.sub(r"'?DejaVu Sans'?,\s*", "", svg)  # the page's own sans-serif font
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'class="{layout}" aria-label="{escape(alt, quote=True)}" viewBox="0 0 {width} {height}" width="{float(width):.0f}" '
        f'height="{float(height):.0f}">'
    )
    svg = re.sub(r"<svg\b[^>]*>", opening, svg, count=1)
    return re.sub(r"\n\s*", "\n", svg).strip()
