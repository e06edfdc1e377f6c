"""Sphinx extension: the parts a chapter is made of, as MyST directives.

`objectives`, `worked`, `pitfall`, `summary`, `quiz`, `exercise` and `sources`, and the role `given`.
They decide structure and wording that is the same on every page; looks are in `theme/static/book.css`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, ClassVar, cast

import yaml
from docutils import nodes
from docutils.parsers.rst import directives
from pybtex.style.sorting.author_year_title import SortingStyle
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinxcontrib.bibtex.plugin import register_plugin
from sphinxcontrib.bibtex.style.referencing import BracketStyle
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle
from sphinxcontrib.bibtex.transforms import BibliographyTransform, node_text_transform

if TYPE_CHECKING:
    from pybtex.database import Entry
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.writers.html5 import HTML5Translator
    from sphinxcontrib.bibtex.domain import BibtexDomain

_log = logging.getLogger(__name__)
# Adults read non-fiction at about 238 words a minute (Brysbaert 2019, doi:10.1016/j.jml.2019.104047); a text to be
# worked through takes longer.
_WORDS_PER_MINUTE = 200
_MINUTES_PER_FORMULA = 0.5
_ZIP_FOLDER = "exercises"  # of the site
_ROOT = Path(__file__).resolve().parents[2]


class Box(nodes.General, nodes.Element):
    """A titled part of a chapter. Attribute: `kind`."""


class ReadingTime(nodes.General, nodes.Element):
    """Filled in with the page's reading time when the page is written."""


class QuizChoice(nodes.General, nodes.Element):
    """One answer of a quiz: its first child is the answer, the rest explains it. Attribute: `right`."""


class QuizAnswer(nodes.General, nodes.TextElement):
    """The words of one answer."""


class SourceList(nodes.General, nodes.Element):
    """Replaced by the works that the page cites."""


# ---------------------------------------------------------------- directives


class TitledPart(SphinxDirective):
    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Any]] = {"name": directives.unchanged}
    kind: ClassVar[str]
    heading: ClassVar[str]

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        node = Box(kind=self.kind)
        self.set_source_info(node)
        label = self.heading
        title = nodes.paragraph(classes=["box-title"])
        title += nodes.inline("", label, classes=["box-kind"])
        if self.arguments:
            words, _ = self.state.inline_text(self.arguments[0], self.lineno)
            title += nodes.Text(" ")
            title += nodes.inline("", "", *words, classes=["box-name"])
        node += title
        self.state.nested_parse(self.content, self.content_offset, node)
        self.add_name(node)
        return [node]


class Objectives(TitledPart):
    """What the reader can do after the chapter; its reading time is counted and shown."""

    kind, heading = "objectives", "After this chapter you can"

    def run(self) -> list[nodes.Node]:
        (node,) = super().run()
        cast("nodes.Element", node).append(ReadingTime())
        return [node]


class Worked(TitledPart):
    """A worked example; the argument names it."""

    kind, heading = "worked", "Worked example."


class Pitfall(TitledPart):
    """A mistake that people make, and how to see it; the argument names it."""

    kind, heading = "pitfall", "Pitfall."


class Summary(TitledPart):
    """The chapter in a few sentences."""

    kind, heading = "summary", "In short"


class Quiz(SphinxDirective):
    """A question and its answers as a task list; each answer is explained.

    The content is the question, then a list. An item starts with `[x]` (right) or `[ ]` (wrong); its further
    paragraphs explain. Rendered as disclosure widgets: works with a keyboard, offline and without scripts.
    """

    has_content = True
    _MARK = re.compile(r"^\[([ xX])\]\s+")

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        parsed = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, parsed)
        if not parsed.children or not isinstance(parsed.children[-1], nodes.bullet_list):
            raise self.error(
                "a quiz ends with a list of answers, each '- [x] right' or '- [ ] wrong'"
            )
        *question, answers = parsed.children
        if not question:
            raise self.error("a quiz starts with its question")
        choices = [self._choice(cast("nodes.list_item", item)) for item in answers.children]
        if len(choices) < 2 or not any(choice["right"] for choice in choices):
            raise self.error("a quiz has at least two answers, one of them right ('- [x]')")
        node = Box(kind="quiz")
        self.set_source_info(node)
        title = nodes.paragraph(classes=["box-title"])
        title += nodes.inline("", "Check yourself", classes=["box-kind"])
        node += title
        node += question
        node += choices
        return [node]

    def _choice(self, item: nodes.list_item) -> QuizChoice:
        first = item.children[0] if item.children else None
        text = first.children[0] if isinstance(first, nodes.paragraph) and first.children else None
        mark = self._MARK.match(text.astext()) if isinstance(text, nodes.Text) else None
        if first is None or mark is None:
            raise self.error(f"an answer starts with [x] or [ ], got: {item.astext()[:60]!r}")
        if len(item.children) < 2:
            raise self.error(
                f"an answer is explained in a paragraph below it: {item.astext()[:60]!r}"
            )
        words = cast("nodes.paragraph", first)
        words.replace(cast("nodes.Text", text), nodes.Text(text.astext()[mark.end() :]))
        choice = QuizChoice(right=mark.group(1) != " ")
        choice += QuizAnswer("", "", *words.children)
        choice += item.children[1:]
        return choice


class ExerciseLink(SphinxDirective):
    """Points to an exercise by its folder's name, and shows its title; the content says what it asks."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        title, minutes = _exercise_facts(name)
        if title is None:
            raise self.error(
                f"no exercise {name!r}; there are: {', '.join(_exercise_names()) or 'none'}"
            )
        node = Box(kind="exercise")
        self.set_source_info(node)
        heading = nodes.paragraph(classes=["box-title"])
        heading += nodes.inline("", "Exercise.", classes=["box-kind"])
        heading += nodes.Text(" ")
        heading += nodes.inline("", title, classes=["box-name"])
        node += heading
        self.state.nested_parse(self.content, self.content_offset, node)
        where = nodes.paragraph(classes=["box-meta"])
        where += nodes.Text("Notebook ")
        where += nodes.literal("", name)
        if minutes:
            where += nodes.Text(f", about {minutes} minutes")
        where += nodes.Text(". ")
        up = "../" * self.env.docname.count("/")
        size = -(-len(exercise_zip(name)) // 1000)
        where += nodes.reference(
            "",
            f"Download it with its checks (zip, {size} kB)",
            refuri=f"{up}{_ZIP_FOLDER}/{name}.zip",
            internal=True,
        )
        where += nodes.Text(".")
        node += where
        self.env.metadata[self.env.docname].setdefault("exercise_zips", []).append(name)
        return [node]


class Sources(SphinxDirective):
    """Lists the works that this page cites, in full, and makes the page's citations point here."""

    def run(self) -> list[nodes.Node]:
        node = SourceList()
        self.set_source_info(node)
        return [node]


class Given(SphinxRole):
    """A number that the text itself sets: a definition, or the premise of an example.

    Shown as plain text, kept on one line.
    """

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        return [nodes.Text(self.text.replace(" ", "\N{NO-BREAK SPACE}"))], []


# ---------------------------------------------------------------- exercises


def _exercise_names() -> list[str]:
    return sorted(path.parent.name for path in (_ROOT / "exercises").glob("*/*.md"))


def _exercise_facts(name: str) -> tuple[str | None, int | None]:
    """Title and minutes of an exercise from its source; (None, None) where there is none."""
    pages = sorted((_ROOT / "exercises" / name).glob("*.md"))
    if not pages:
        return None, None
    text = pages[0].read_text(encoding="utf-8")
    front: dict[str, Any] = {}
    if text.startswith("---"):
        _, header, text = text.split("---", 2)
        front = yaml.safe_load(header) or {}
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    own = front.get("exercise") if isinstance(front.get("exercise"), dict) else front
    title = (own or {}).get("title") or front.get("title") or (heading and heading.group(1)) or name
    return str(title).strip(), (own or {}).get("minutes") or front.get("minutes")


@cache
def exercise_zip(name: str) -> bytes:
    """What a learner downloads: the notebook as released, and its public checks."""
    from gradelib.grading.bundle import zip_bytes

    return zip_bytes(_ROOT / "exercises" / name)


def _write_zips(app: Sphinx, error: Exception | None) -> None:
    """Write every exercise that a page names, for readers of the site and of its offline copy alike."""
    if error is not None or app.builder.name != "html":
        return
    folder = Path(app.outdir) / _ZIP_FOLDER
    folder.mkdir(exist_ok=True)
    named = {n for page in app.env.metadata.values() for n in page.get("exercise_zips", [])}
    for name in sorted(named):
        (folder / f"{name}.zip").write_bytes(exercise_zip(name))


# ---------------------------------------------------------------- when a page is written


def reading_minutes(document: nodes.Node) -> int:
    """Minutes to read a page: its words at a study pace, and half a minute for each displayed formula."""
    skipped = (nodes.literal_block, nodes.raw, nodes.math_block)
    words = 0
    for text in document.findall(nodes.Text):
        if not any(isinstance(parent, skipped) for parent in _ancestors(text)):
            words += len(text.astext().split())
    formulas = sum(1 for _ in document.findall(nodes.math_block))
    return max(1, round(words / _WORDS_PER_MINUTE + formulas * _MINUTES_PER_FORMULA))


def _ancestors(node: nodes.Node) -> list[nodes.Node]:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


class FillReadingTime(SphinxPostTransform):
    """Writes the reading time once the whole page is known."""

    default_priority = 900

    def run(self, **_kwargs: Any) -> None:
        for node in list(self.document.findall(ReadingTime)):
            minutes = reading_minutes(self.document)
            text = f"About {minutes} minute{'s' if minutes > 1 else ''} to read."
            node.replace_self(nodes.paragraph("", text, classes=["box-meta"]))


class FillSources(SphinxPostTransform):
    """Replaces `sources` by the works cited on the page; must run after citations are resolved (10)."""

    default_priority = 20

    def run(self, **_kwargs: Any) -> None:
        holders = list(self.document.findall(SourceList))
        if not holders:
            return
        domain = cast("BibtexDomain", self.env.get_domain("cite"))
        docname = self.env.docname
        cited = {
            target.key
            for reference in domain.citation_refs
            if reference.docname == docname
            for target in reference.targets
        }
        if not cited:
            _log.warning("this page has a list of sources and cites nothing", location=holders[0])
        entries = {c.key: c for c in domain.citations if c.key in cited}
        items = nodes.bullet_list(classes=["sources"])
        anchors = {}
        in_order = SortingStyle().sorting_key  # as the list of all references has them
        for key in sorted(entries, key=lambda k: in_order(entries[k].entry)):
            citation = entries[key]
            anchors[citation.citation_id] = f"source-{nodes.make_id(key)}"
            item = nodes.list_item("", ids=[anchors[citation.citation_id]])
            item += BibliographyTransform.backend.paragraph(citation.formatted_entry)
            node_text_transform(item)
            items += item
        for holder in holders:
            holder.replace_self(items)
        for reference in self.document.findall(nodes.reference):
            fragment = reference.get("refuri", "").partition("#")[2] or reference.get("refid", "")
            if fragment in anchors:
                reference.attributes.pop("refuri", None)
                reference["refid"] = anchors[fragment]
                reference["internal"] = True


class ListReferences(SphinxPostTransform):
    """Turns the bibliography into a plain list: docutils' roles for citations are deprecated in ARIA."""

    default_priority = 30

    def run(self, **_kwargs: Any) -> None:
        holders = {id(c.parent): c.parent for c in self.document.findall(nodes.citation)}
        for holder in holders.values():
            items = nodes.bullet_list(classes=["references"])
            for citation in list(holder.children):
                item = nodes.list_item("", ids=citation["ids"])
                item += [child for child in citation.children if not isinstance(child, nodes.label)]
                items += item
            holder.replace_self(items)


# ---------------------------------------------------------------- HTML


def _visit_box(self: HTML5Translator, node: Box) -> None:
    self.body.append(self.starttag(node, "div", CLASS=f"box box-{node['kind']}"))


def _depart_box(self: HTML5Translator, _node: Box) -> None:
    self.body.append("</div>\n")


def _visit_choice(self: HTML5Translator, node: QuizChoice) -> None:
    self.body.append(
        self.starttag(node, "details", CLASS="choice right" if node["right"] else "choice wrong")
    )


def _depart_choice(self: HTML5Translator, _node: QuizChoice) -> None:
    self.body.append("</div></details>\n")


def _visit_answer(self: HTML5Translator, _node: QuizAnswer) -> None:
    self.body.append("<summary>")


def _depart_answer(self: HTML5Translator, node: QuizAnswer) -> None:
    choice = cast("QuizChoice", node.parent)
    verdict = "Right." if choice["right"] else "Not this one."
    self.body.append(f'</summary>\n<div class="why"><p class="verdict">{verdict}</p>\n')


def _pass(self: Any, node: nodes.Element) -> None:
    """Other writers show the content alone."""


@dataclass
class RoundAuthorYear(AuthorYearReferenceStyle):
    """Citations as (Author, year)."""

    bracket_parenthetical: BracketStyle = field(
        default_factory=lambda: BracketStyle("(", ")", sep="; ")
    )
    bracket_textual: BracketStyle = field(default_factory=lambda: BracketStyle("(", ")"))


def tell_years_apart(entries: dict[str, Entry]) -> None:
    """Add a letter to the year of works whose authors and year are the same: NVIDIA, 2023a and 2023b.

    Authors count as a citation names them: up to two by their last names, more by the first one.
    """
    alike: dict[tuple[Any, ...], list[Entry]] = {}
    for entry in entries.values():
        people = entry.persons.get("author") or entry.persons.get("editor") or []
        names = [" ".join(person.prelast_names + person.last_names) for person in people]
        shown = tuple(names) if len(names) <= 2 else (names[0], "et al.")
        year = re.sub(r"(\d{4})[a-z]$", r"\1", entry.fields.get("year", ""))
        alike.setdefault((shown, year), []).append(entry)
    for (_, year), works in alike.items():
        works.sort(key=lambda work: (work.fields.get("title", ""), work.key))
        for letter, work in zip(ascii_lowercase, works, strict=False):
            if year:
                work.fields["year"] = year + (letter if len(works) > 1 else "")


def _tell_years_apart(_app: Sphinx, env: BuildEnvironment, _docnames: list[str]) -> None:
    tell_years_apart(cast("BibtexDomain", env.get_domain("cite")).bibdata.data.entries)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives, the role and how they are written."""
    register_plugin("sphinxcontrib.bibtex.style.referencing", "round_author_year", RoundAuthorYear)
    others = dict.fromkeys(("latex", "text", "man", "texinfo"), (_pass, _pass))
    app.add_node(Box, html=(_visit_box, _depart_box), **others)
    app.add_node(QuizChoice, html=(_visit_choice, _depart_choice), **others)
    app.add_node(QuizAnswer, html=(_visit_answer, _depart_answer), **others)
    app.connect("env-before-read-docs", _tell_years_apart)
    app.add_node(ReadingTime)
    app.add_node(SourceList)
    app.add_directive("objectives", Objectives)
    app.add_directive("worked", Worked)
    app.add_directive("pitfall", Pitfall)
    app.add_directive("summary", Summary)
    app.add_directive("quiz", Quiz)
    app.add_directive("exercise", ExerciseLink)
    app.add_directive("sources", Sources)
    app.add_role("given", Given())
    app.connect("build-finished", _write_zips)
    app.add_post_transform(FillReadingTime)
    app.add_post_transform(FillSources)
    app.add_post_transform(ListReferences)
    return {
        "version": "1",
        "env_version": 1,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
