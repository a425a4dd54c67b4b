"""The documentation site: ``make docs``, or ``sphinx-build -W --keep-going -b html docs docs/_build/html``.

The pages are plain Markdown, which a code host also shows. This file handles what is different on the site:
links that leave this folder, and the tables of contents, which are made from the lists of links on a page.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import labelgap

DOCS = Path(__file__).parent.resolve()
ROOT = DOCS.parent

project = "labelgap"
author = "The labelgap developers"
copyright = author
version = release = labelgap.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autosummary_generate = False
autodoc_member_order = "bysource"
# The docstrings name the types more briefly than the annotations do.
autodoc_typehints = "none"
numpydoc_show_class_members = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "labelgap"
html_static_path = ["_static"]
html_css_files = ["labelgap.css"]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_sidebars = {
    page: [] for page in ("index", "install", "tour", "extending", "examples", "alternatives", "changelog")
}
html_theme_options = {
    "logo": {"text": "labelgap"},
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}

CONTENTS = ("index", "howto/index", "reference", "api/index", "background")
"""Pages whose lists of links are tables of contents."""

OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "examples": "examples.md"}
"""Files and folders outside this folder, and the page of the site that replaces each."""

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_LISTED = re.compile(r"^- \[[^\]]*\]\(([^)#\s]+)\.md\)", re.MULTILINE)

_MODULE = re.compile(r"^- \[(labelgap[\w.]*)\]", re.MULTILINE)
_LITERAL = re.compile(r"(``.+?``)")


def link_inside(text: str, page: Path) -> str:
    """Point links that leave this folder to the page that replaces their target; drop other such links."""

    def replaced(match: re.Match[str]) -> str:
        words, target, _ = match.groups()
        where = (page.parent / target).resolve()
        if "://" in target or where.is_relative_to(DOCS) or not where.is_relative_to(ROOT):
            return match[0]
        replacement = OUTSIDE.get(where.relative_to(ROOT).parts[0])
        if replacement is None:
            return words
        return f"[{words}]({os.path.relpath(DOCS / replacement, page.parent)})"

    return _LINK.sub(replaced, text)


def contents_of(text: str) -> str:
    """A hidden table of contents with the pages that the text lists."""
    pages = "\n".join(dict.fromkeys(_LISTED.findall(text)))
    return f"\n\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"


def public_names(module: Any) -> list[str]:
    """The names of a module's ``__all__``, or else those of the classes and functions that it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    ]


def api_tables(modules: Iterable[str]) -> str:
    """One line about each class and function of the modules, which the page about the module has in full."""
    parts = []
    for name in modules:
        module = importlib.import_module(name)
        parts.append(f"## {name}")
        things = [(one, getattr(module, one)) for one in public_names(module)]
        for title, chosen in (
            ("Errors and warnings", lambda thing: inspect.isclass(thing) and issubclass(thing, Exception)),
            ("Classes", lambda thing: inspect.isclass(thing) and not issubclass(thing, Exception)),
            ("Functions", inspect.isroutine),
        ):
            listed = sorted(one for one, thing in things if chosen(thing))
            if listed:
                table = [f".. currentmodule:: {name}", "", ".. autosummary::", "   :nosignatures:", ""]
                body = "\n".join(table + [f"   {one}" for one in listed])
                parts.append(f"**{title}**\n\n```{{eval-rst}}\n{body}\n```")
    return "\n\n" + "\n\n".join(parts) + "\n"


def read_source(app: Any, docname: str, source: list[str]) -> None:
    page = DOCS / f"{docname}.md"
    if not page.exists():
        return
    text = link_inside(source[0], page)
    contents = contents_of(text) if docname in CONTENTS else ""
    tables = api_tables(_MODULE.findall(text)) if docname == "api/index" else ""
    source[0] = text + tables + contents


def skip_foreign(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the methods that scikit-learn adds to every estimator; its own documentation has them."""
    module = getattr(thing, "__module__", None) or ""
    return True if module.split(".")[0] == "sklearn" or name.endswith("_request") else None


def keep_bars(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escape the bars of |Ω| in docstrings, which reStructuredText would read as a substitution."""
    for at, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = _LITERAL.split(line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[at] = "".join(parts)


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", read_source)
    app.connect("autodoc-process-docstring", keep_bars)
    app.connect("autodoc-skip-member", skip_foreign)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
