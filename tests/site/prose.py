"""The rule on numbers in prose: a number with a unit is computed, cited, or set by the text itself.

`bare_numbers` reads a page's MyST source and returns the numbers that break the rule. A number with a unit may stand

- in code, in a code cell, or in maths;
- as the result of a `glue` role;
- in a `given` role: a definition, or the premise of an example;
- in a sentence that cites (`cite:p`, `cite:t`, …); in a table, in a row that cites, or under a title that does;
- in a wrong answer of a quiz.

Numbers without a unit, names such as `16-bit` or `Gemma 3 4B`, and numbers spelled out are not looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token

_EXTENSIONS = {"amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath", "substitution"}
_NOT_PROSE = {
    "code",
    "code-block",
    "code-cell",
    "literalinclude",
    "math",
    "bibliography",
    "sources",
    "raw",
    "toctree",
}
_LABELS = {
    "figure",
    "glue:figure",
    "exercise",
    "widget",
    "image",
}  # their argument is a name, not text
_CITES = "\ue000"  # stands for a citation in the text that is searched
_TAKEN = "\ue001"  # stands for code, maths, a computed or a given number

_SCALE = r"(?:thousand|million|billion|trillion)"
_UNIT = r"""(?:
    (?:[kKMGTPE]i?)?(?:B|bytes?|bits?|bit/s|B/s|FLOPs?|FLOPS|FLOP/s|OPS)(?:/s|/FLOP|/parameter|/token)?
  | (?:kilo|mega|giga|tera|peta|exa)?(?:bytes?|bits?|flops?|watts?|joules?|grams?|watt-hours?|tonnes?|metres?|litres?|liters?)
  | (?:n|µ|μ|m)?s | seconds? | min | minutes? | h | hours? | days? | weeks? | months? | years?
  | [mkMGT]?Wh? | [mkMG]?J | [mkMG]?Hz | V | °C | K
  | (?:µ|m|k|M)?g | t | Mt | Gt | kgCO2e | gCO2e?
  | m?L | m³ | m2 | m² | km | mm² | nm
  | % | percent | per\ cent | percentage\ points?
  | (?:US\ )?dollars? | euros? | USD | EUR
  | tokens? | parameters? | params | weights | people | persons | households? | countries | GPUs? | cards?
)"""
_NUMBER = r"(?:\d[\d,\u202f]*(?:\.\d+)?(?:[eE][+-]?\d+)?)"
_QUANTITY = re.compile(
    rf"(?<![\w.,/-])[−+-]?{_NUMBER}(?:\s*(?:–|-|to|and)\s*{_NUMBER})?\s*(?:{_SCALE}\s+)?{_UNIT}(?![\w-])",
    re.VERBOSE,
)
_SPACED_B = re.compile(r"\d[BKMs]$")  # '4B', '128k': names of models and contexts, not quantities
_MONEY = re.compile(rf"(?:US)?[$€£]\s?{_NUMBER}")
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z\d\"“(\ue000\ue001])")


@dataclass(frozen=True)
class BareNumber:
    """A number with a unit that is neither computed nor cited. `line` counts from 1."""

    line: int
    number: str
    sentence: str

    def __str__(self) -> str:
        sentence = self.sentence.replace(_CITES, "[…]").replace(_TAKEN, "…").strip()
        return f"line {self.line}: {self.number!r} in {sentence[:120]!r}"


def bare_numbers(source: str) -> list[BareNumber]:
    """Numbers in `source` (a page's MyST text) that break the rule, in order."""
    return [
        BareNumber(line, found, sentence)
        for line, text in _texts(source, first_line=1)
        for sentence in _SENTENCE_END.split(text)
        if _CITES not in sentence
        for found in _quantities(sentence)
    ]


def _quantities(sentence: str) -> list[str]:
    found = [match.group(0).strip() for match in _QUANTITY.finditer(sentence)]
    found = [quantity for quantity in found if not _SPACED_B.search(quantity)]
    return found + [match.group(0) for match in _MONEY.finditer(sentence)]


def _texts(source: str, first_line: int) -> Iterator[tuple[int, str]]:
    """Pieces of prose with their lines: a paragraph, a heading, a table's row, a title."""
    config = MdParserConfig(enable_extensions=_EXTENSIONS)
    tokens = create_md_parser(config, RendererHTML).parse(source)
    row: list[str] | None = None
    row_line = first_line
    for token in tokens:
        line = first_line + (token.map[0] if token.map else 0)
        if token.type == "tr_open":
            row, row_line = [], line
        elif token.type == "tr_close" and row is not None:
            yield row_line, " | ".join(row)
            row = None
        elif token.type == "inline":
            text = _plain(token.children or [])
            if row is not None:
                row.append(text)
            else:
                yield line, text
        elif token.type in {"fence", "colon_fence"}:
            yield from _directive(token, line)


def _plain(children: list[Token]) -> str:
    """The words of a paragraph, with what the rule allows replaced by a mark."""
    words = []
    for child in children:
        if child.type == "text":
            words.append(child.content)
        elif child.type == "myst_role":
            name = child.meta["name"]
            if name.startswith(("cite", "footcite")):
                words.append(_CITES)
            elif name.startswith("glue") or name in {"given", "eq", "math", "numref", "code"}:
                words.append(_TAKEN)
            else:
                words.append(child.content.partition(" <")[0])
        elif child.type in {"softbreak", "hardbreak"}:
            words.append(" ")
        elif child.type in {"code_inline", "math_inline", "math_inline_double"}:
            words.append(_TAKEN)
    return "".join(words)


def _directive(token: Token, line: int) -> Iterator[tuple[int, str]]:
    match = re.match(r"\{([^}]+)\}\s*(.*)", token.info.strip())
    if not match or match.group(1) in _NOT_PROSE:
        return
    name, title = match.groups()
    lines = token.content.split("\n")
    skipped = 0
    while skipped < len(lines) and re.match(r":[\w-]+:", lines[skipped]):
        skipped += 1
    body = "\n".join(lines[skipped:])
    heading = "" if name in _LABELS else title
    if name in {"table", "list-table", "csv-table"} and re.search(r"\{cite", heading):
        return
    if heading:
        yield from _texts(heading, line)
    if name == "list-table":
        body = _rows_as_paragraphs(body)
    if name == "quiz":
        body = re.sub(r"^- \[ \] .*$", "", body, flags=re.MULTILINE)
    yield from _texts(body, line + 1 + skipped)


def _rows_as_paragraphs(body: str) -> str:
    """Each row of a list-table on the line where it starts, so that a row's citation covers the row."""
    lines: list[str] = []
    row = -1
    for text in body.split("\n"):
        if text.startswith("* - "):
            row = len(lines)
            lines.append(text[4:])
        elif row >= 0 and text.strip():
            lines[row] += " " + re.sub(r"^\s*- ", "| ", text)
            lines.append("")
        else:
            lines.append("")
    return re.sub(r"\n(?=\S)", "\n\n", "\n".join(lines))
