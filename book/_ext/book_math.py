"""Sphinx extension: renders TeX maths to MathML while the book is built.

The page then needs no script, screen readers can walk the formula, and a formula that
cannot be converted is a warning at its place in the source, so it stops the build.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

_log = logging.getLogger(__name__)
_converter = LatexToMathML()
_PLAIN_ENVIRONMENT = {"align": "aligned", "gather": "gathered", "equation": "aligned"}
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def to_mathml(tex: str, *, display: bool) -> str:
    """Return the `<math>` element for `tex`; raises `LatexError` where it is not understood."""
    # Sphinx numbers a displayed formula as a whole, so the environments that number each line become plain ones.
    for numbered, plain in _PLAIN_ENVIRONMENT.items():
        tex = re.sub(rf"(\\(?:begin|end)){{{numbered}\*?}}", rf"\1{{{plain}}}", tex)
    if display and r"\\" in tex and r"\begin{" not in tex:
        tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"  # as Sphinx does for its other renderers
    return _converter.convert_with_local_state(tex, displaystyle=display)


def _convert(node: nodes.Element, *, display: bool) -> str:
    tex = node.astext()
    try:
        return to_mathml(tex, display=display)
    except LatexError as error:
        _log.warning("maths not understood: %s\n%s", tex, _ANSI.sub("", str(error)), location=node)
        return f"<code>{escape(tex)}</code>"


def _visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(_convert(node, display=False))
    raise nodes.SkipNode


def _visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    # A long formula scrolls by itself; its number stays in sight.
    translator.body.append(f'<div class="math-scroll">{_convert(node, display=True)}</div>')
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def _depart(translator: HTML5Translator, node: nodes.Element) -> None:
    """Never called: the visitors skip the node."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name `mathml` (`html_math_renderer`)."""
    app.add_html_math_renderer("mathml", (_visit_inline, _depart), (_visit_block, _depart))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
