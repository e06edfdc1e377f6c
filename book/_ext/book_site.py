"""Sphinx extension: the theme, what each page loads, and when a page's numbers are out of date.

A page gets one stylesheet and one deferred script; only a page with a widget gets that widget's files, only the
search page what searches. Nothing else that Sphinx or an extension would add is let through.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import imagesize
from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
_IMAGE = re.compile(r"<img\b[^>]*>")
_TITLED_TABLE = re.compile(
    r'<div class="table-scroll[^"]*">\s*(<table\b[^>]*>)\s*<caption>(.*?)</caption>', re.DOTALL
)
_SHORT_CELL = 14  # characters
_SOURCE = re.compile(r'\bsrc="([^"]+)"')
_UNUSED = ["basic.css", "pygments.css", "mystnb*.css", "minus.png", "plus.png", "file.png"]
_UNUSED += ["documentation_options.js", "doctools.js", "sphinx_highlight.js"]
_UNUSED += ["language_data.js", "searchtools.js"]
# Changing any of the first may change a number in the book; changing any of the second, how a page is written.
COMPUTED_FROM = [
    "gradelib/**/*.py",
    "gradelib/**/*.json",
    "solutions/**/*.py",
    "solutions/**/*.json",
    "book/data/**/*",
    "book/_ext/figures.py",
    ".constraints.txt",
]
WRITTEN_BY = ["book/_ext/*.py", "book/_ext/theme/*.html", "exercises/**/*.md"]


def digest_of(patterns: list[str], root: Path = _ROOT) -> str:
    """Digest of the names and contents of all files that match."""
    digest = hashlib.sha256()
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            if path.is_file():
                digest.update(path.relative_to(root).as_posix().encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _prepare(app: Sphinx, config: Config) -> None:
    """Name the execution cache after its inputs, and let page code import the references and the helper for figures."""
    config.computed_from = digest_of(COMPUTED_FROM)
    config.written_by = digest_of(WRITTEN_BY)
    cache = Path(config.nb_execution_cache_path or Path(app.outdir).parent / ".jupyter_cache")
    config.nb_execution_cache_path = str(cache / config.computed_from)
    sys.path.append(str(_ROOT))
    paths = [
        str(_HERE),
        str(_ROOT),
        *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)),
    ]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))


class WrapTables(SphinxPostTransform):
    """Fits tables to narrow screens: a box that scrolls sideways, and short cells that do not break."""

    default_priority = 950
    formats = ("html",)

    def run(self, **_kwargs: Any) -> None:
        for table in list(self.document.findall(nodes.table)):
            for cell in table.findall(nodes.entry):
                if len(cell.astext()) <= _SHORT_CELL:
                    cell["classes"].append("short")
            holder = nodes.container(classes=["table-scroll"])
            table.parent.replace(table, holder)  # replace_self would give the box the table's id
            holder += table


def with_titles_above_tables(body: str) -> str:
    """Take each table's caption out of the box that scrolls, so that it can always be read, and keep it as the name."""

    def complete(match: re.Match[str]) -> str:
        table, caption = match.groups()
        identity = re.search(r'\bid="([^"]+)"', table)
        title = f"{identity.group(1) if identity else f'table-{match.start()}'}-title"
        table = table.replace("<table", f'<table aria-labelledby="{title}"', 1)
        return (
            f'<div class="table-title" id="{title}">{caption}</div>'
            f'<div class="table-scroll">{table}'
        )

    return _TITLED_TABLE.sub(complete, body)


def with_image_attributes(app: Sphinx, body: str) -> str:
    """Give each image its size, so that the text does not jump, and load it when it comes near."""
    files = {name: path for path, name in app.builder.images.items()}

    def complete(match: re.Match[str]) -> str:
        tag = match.group(0)
        source = _SOURCE.search(tag)
        path = files.get(Path(source.group(1)).name) if source else None
        extra = ' loading="lazy" decoding="async"'
        if path and "width=" not in tag:
            width, height = imagesize.get(Path(app.srcdir) / path)
            if width > 0:
                extra += f' width="{width:.0f}" height="{height:.0f}"'
        return tag.rstrip("/>").rstrip() + extra + ">"

    return _IMAGE.sub(complete, body)


def _description(doctree: nodes.document | None) -> str:
    """The page's first paragraph, for search engines and link previews."""
    if doctree is None:
        return ""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if isinstance(paragraph.parent, nodes.section) and len(text) > 40:
            return text if len(text) <= 160 else text[:157].rsplit(" ", 1)[0] + " …"
    return ""


def _page(
    app: Sphinx,
    pagename: str,
    _templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Choose what this page loads and what its margins show."""
    widgets = app.env.metadata.get(pagename, {}).get("widget_scripts", [])
    context["page_styles"] = ["_static/book.css"]
    context["page_scripts"] = ["_static/book.js"]
    if widgets:
        context["page_styles"].append("_static/widgets/kit.css")
        context["page_scripts"] += [f"_static/widgets/{name}" for name in ["kit.js", *widgets]]
    if pagename == "search":
        context["page_scripts"].append("_static/search.js")
    if context.get("body"):
        context["body"] = with_titles_above_tables(with_image_attributes(app, context["body"]))
    context["page_description"] = _description(doctree)
    toc = context.get("toc", "") if context.get("display_toc") else ""
    context["page_toc"] = _sections_only(toc)
    contents = context["toctree"](maxdepth=2, collapse=False, includehidden=True, titles_only=True)
    context["book_contents"] = _accessible_contents(contents or "")


def _accessible_contents(contents: str) -> str:
    """Say which page is the current one, and drop Sphinx's heading role, which lacks its level."""
    contents = contents.replace('<p class="caption" role="heading">', '<p class="caption">')
    link = 'class="current reference internal"'
    return contents.replace(link, f'{link} aria-current="page"')


def _sections_only(toc: str) -> str:
    """Drop the page's own title from its list of sections: keep what is nested in the first item."""
    inner = re.search(r"</a>\s*(<ul>.*</ul>)\s*</li>\s*</ul>\s*$", toc, re.DOTALL)
    return inner.group(1) if inner else ""


def _write_index(app: Sphinx, error: Exception | None) -> None:
    """Serve the start page at the site's address itself: the redirect written otherwise costs a slow reader a trip."""
    if error is None and app.builder.name == "html":
        start = Path(app.outdir) / f"{app.config.root_doc}.html"
        (start.parent / "index.html").write_bytes(start.read_bytes())


def _write_not_found(app: Sphinx, error: Exception | None) -> None:
    """Write the page that GitHub Pages and others answer with where there is none."""
    if error is None and app.builder.name == "html":
        folders = {name.split("/")[0] for name in app.env.found_docs if "/" in name}
        words = {
            "title": app.config.html_title,
            "folders": json.dumps(sorted(folders | {"_static", "_images", "exercises"})),
            "start": app.config.root_doc,
        }
        page = Template((_HERE / "theme" / "404.html").read_text(encoding="utf-8"))
        (Path(app.outdir) / "404.html").write_text(page.substitute(words), encoding="utf-8")


def _remove_unused(app: Sphinx, error: Exception | None) -> None:
    """Delete what Sphinx and myst-nb copy and no page loads: it would be in every offline copy."""
    if error is None and app.builder.name == "html":
        for pattern in _UNUSED:
            for path in (Path(app.outdir) / "_static").glob(pattern):
                path.unlink()


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the theme and the steps above."""
    app.add_html_theme("one_gpu", str(_HERE / "theme"))
    app.add_config_value("computed_from", "", "env")  # "env": a new value has every page read again
    app.add_config_value("written_by", "", "env")
    app.add_config_value(
        "comments_config", {}, ""
    )  # jupyter-book passes it on whether or not comments are used
    app.connect("config-inited", _prepare, priority=900)
    app.connect("html-page-context", _page, priority=900)
    app.connect(
        "build-finished", _write_index, priority=100
    )  # before sphinx-external-toc's redirect
    app.connect("build-finished", _write_not_found)
    app.connect("build-finished", _remove_unused, priority=900)
    app.add_post_transform(WrapTables)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
