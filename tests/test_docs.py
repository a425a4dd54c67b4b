"""What the documents say is so: their Python runs, what they print is printed, their links lead somewhere.

A ``python`` block is run; all blocks of a file share one namespace, as a reader would type them. A ``text``
block right after it is what it prints, with ``...`` for what may differ. Other blocks are not run.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import itertools
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import labelgap

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = [
    "labelgap",
    *sorted(module.name for module in pkgutil.walk_packages(labelgap.__path__, "labelgap.")),
]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A block of Python and, where the document shows it, what it prints."""

    line: int
    code: str
    output: str | None


def python_blocks(text: str) -> Iterator[Block]:
    fences = list(_FENCE.finditer(text))
    for fence, after in itertools.zip_longest(fences, fences[1:]):
        if fence[1] != "python":
            continue
        follows = after is not None and after[1] == "text" and not text[fence.end() : after.start()].strip()
        line = text.count("\n", 0, fence.start(2)) + 1
        yield Block(line, fence[2], after[2] if after is not None and follows else None)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_python_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABELGAP_DATA", str(tmp_path))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in python_blocks(path.read_text(encoding="utf-8")):
        # Empty lines in front, so that a traceback names the line of the document.
        code = compile("\n" * (block.line - 1) + block.code, str(path), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, namespace)
        if block.output is not None:
            same = doctest.OutputChecker().check_output(block.output, printed.getvalue(), _OPTIONS)
            assert same, f"{path.name}, line {block.line}, prints\n{printed.getvalue()}not\n{block.output}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_to_files_lead_somewhere(path: Path) -> None:
    targets = [t for t in _LINK.findall(path.read_text(encoding="utf-8")) if "://" not in t]
    assert not [target for target in targets if not (path.parent / target).exists()]


def test_the_index_links_every_page() -> None:
    linked = set(_LINK.findall((ROOT / "docs" / "index.md").read_text(encoding="utf-8")))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages <= linked


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = io.StringIO()
    with contextlib.redirect_stdout(report):
        failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0, report.getvalue()


def test_the_reader_of_blocks_reads() -> None:
    text = "a\n```python\nx = 1\nprint(x)\n```\n\n```text\n1\n```\n```sh\nmake\n```\n```python\ny\n```\n"
    assert list(python_blocks(text)) == [Block(3, "x = 1\nprint(x)\n", "1\n"), Block(14, "y\n", None)]
