"""For pages of the book: turns a matplotlib figure into an SVG that fits the page and follows its colours.

Lines and words take the reader's text colour and the page's palette (CSS variables), so that one figure serves
light and dark; words stay words, so they can be searched, read aloud and set in the reader's font.
"""

from __future__ import annotations

import hashlib
import io
import re
from html import escape
from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.pyplot as plt

if TYPE_CHECKING:
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
    buffer = io.StringIO()
    fig.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(fig)
    return PageFigure(theme_aware(buffer.getvalue(), alt))


def theme_aware(svg: str, alt: str) -> str:
    """Return matplotlib's SVG as an inline element with page colours, unique ids and a text alternative."""
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
        f'aria-label="{escape(alt, quote=True)}" viewBox="0 0 {width} {height}" width="{float(width):.0f}" '
        f'height="{float(height):.0f}">'
    )
    svg = re.sub(r"<svg\b[^>]*>", opening, svg, count=1)
    return re.sub(r"\n\s*", "\n", svg).strip()
