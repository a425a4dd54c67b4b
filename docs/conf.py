"""The documentation site: ``make docs``, or ``sphinx-build -W --keep-going -b html docs docs/_build/html``.

The pages are plain Markdown that a code host shows as well. What differs between the two is settled here:
links that leave this folder, and the tables of contents, which are made of the links that a page lists.
"""

from __future__ import annotations

import os
import re
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
# The docstrings say which types are meant, in fewer words than the annotations need.
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
html_sidebars = {"index": [], "install": [], "tour": [], "extending": [], "examples": [], "changelog": []}
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
"""Files and folders beside this one, and the page that stands for each."""

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_LISTED = re.compile(r"^- \[[^\]]*\]\(([^)#\s]+)\.md\)", re.MULTILINE)

_LITERAL = re.compile(r"(``.+?``)")


def link_inside(text: str, page: Path) -> str:
    """Lead links that leave this folder to the page that stands for their target; drop the others."""

    def replaced(match: re.Match[str]) -> str:
        words, target, _ = match.groups()
        where = (page.parent / target).resolve()
        if "://" in target or where.is_relative_to(DOCS) or not where.is_relative_to(ROOT):
            return match[0]
        stands_for = OUTSIDE.get(where.relative_to(ROOT).parts[0])
        if stands_for is None:
            return words
        return f"[{words}]({os.path.relpath(DOCS / stands_for, page.parent)})"

    return _LINK.sub(replaced, text)


def contents_of(text: str) -> str:
    """A hidden table of contents with the pages that are listed in the text."""
    pages = "\n".join(dict.fromkeys(_LISTED.findall(text)))
    return f"\n\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"


def read_source(app: Any, docname: str, source: list[str]) -> None:
    page = DOCS / f"{docname}.md"
    if not page.exists():
        return
    text = link_inside(source[0], page)
    source[0] = text + contents_of(text) if docname in CONTENTS else text


def skip_foreign(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator; its own pages describe that."""
    module = getattr(thing, "__module__", None) or ""
    return True if module.split(".")[0] == "sklearn" or name.endswith("_request") else None


def keep_bars(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """In the docstrings |Ω| is the size of Ω; reStructuredText would take it for a substitution."""
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
