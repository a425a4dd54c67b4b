"""What the documents say is so: their Python runs, what they print is printed, their links lead somewhere.

And the site builds without a warning.

A ``python`` block is run; all blocks of a file share one namespace, as a reader would type them. A ``text``
block right after it is what it prints, with ``...`` for what may differ. Other blocks are not run.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import inspect
import io
import itertools
import pkgutil
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import labelgap

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
DOCUMENTS = [*(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING")), *PAGES]
# Every module with public names.
API = [
    "labelgap",
    *(
        f"labelgap.{name}"
        for name in (
            "arriving",
            "asking",
            "completing",
            "confidence",
            "data",
            "decisions",
            "distributed",
            "exceptions",
            "losses",
            "metrics",
            "onnx_export",
            "persistence",
            "report",
            "sampling",
            "solvers",
            "theory",
            "thresholds",
        )
    ),
]
MODULES = [
    "labelgap",
    *sorted(module.name for module in pkgutil.walk_packages(labelgap.__path__, "labelgap.")),
]


def has_examples(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return ">>> " in Path(spec.origin).read_text(encoding="utf-8")


WITH_EXAMPLES = list(filter(has_examples, MODULES))

_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
# A page that is listed, as docs/conf.py reads it for the tables of contents.
_LISTED = re.compile(r"^- \[[^\]]*\]\(([^)#\s]+\.md)\)", re.MULTILINE)
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A block of Python and, where the document shows it, what it prints."""

    line: int
    code: str
    output: str | None


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def python_blocks(text: str) -> Iterator[Block]:
    fences = list(_FENCE.finditer(text))
    for fence, after in itertools.zip_longest(fences, fences[1:]):
        if fence[1] != "python":
            continue
        follows = after is not None and after[1] == "text" and not text[fence.end() : after.start()].strip()
        line = text.count("\n", 0, fence.start(2)) + 1
        yield Block(line, fence[2], after[2] if after is not None and follows else None)


WITH_PYTHON = [path for path in DOCUMENTS if any(python_blocks(path.read_text(encoding="utf-8")))]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("path", WITH_PYTHON, ids=name_of)
def test_python_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # As for the commands: a page may read the example folder.
    shutil.copytree(ROOT / "examples" / "data" / "movielens", tmp_path / "movielens")
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


def test_links_to_files_lead_somewhere() -> None:
    for path in DOCUMENTS:
        targets = [t for t in _LINK.findall(path.read_text(encoding="utf-8")) if "://" not in t]
        assert not [t for t in targets if not (path.parent / t).exists()], name_of(path)


def test_links_lead_from_the_index_to_every_page() -> None:
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        targets = _LISTED.findall(page.read_text(encoding="utf-8"))
        linked = {(page.parent / target).resolve() for target in targets}
        waiting += sorted((linked & set(PAGES)) - reached)
    missing = sorted(page.relative_to(DOCS).as_posix() for page in set(PAGES) - reached)
    assert not missing, f"list these in docs/reference.md, or where they belong: {missing}"


def test_every_public_module_has_its_reference() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "api").glob("*.md")))
    assert not [module for module in API if f".. automodule:: {module}\n" not in pages]


def test_the_index_of_the_api_lists_every_class_and_function() -> None:
    site = runpy.run_path(str(DOCS / "conf.py"))
    tables = site["api_tables"](API)
    for name in API:
        module = importlib.import_module(name)
        (listed,) = re.findall(rf"^## {re.escape(name)}$(.*?)(?=^## |\Z)", tables, re.MULTILINE | re.DOTALL)
        things = {one: getattr(module, one) for one in site["public_names"](module)}
        names = [one for one, thing in things.items() if inspect.isclass(thing) or inspect.isroutine(thing)]
        assert names, name
        assert not [one for one in names if f"   {one}\n" not in listed], name
        # The line that the table shows.
        assert all((things[one].__doc__ or "").strip() for one in names), name
    page = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    assert site["_MODULE"].findall(page) == sorted(API, key=page.index)


def test_every_example_has_its_picture_in_the_gallery() -> None:
    gallery = (DOCS / "examples.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "examples").glob("*.py")):
        assert (DOCS / "images" / "examples" / f"{path.stem}.png").exists(), (
            f"python -m experiments.example_pictures --names {path.stem} draws it"
        )
        # Once on its card, and once in its section.
        assert gallery.count(f"images/examples/{path.stem}.png") == 2, path.stem
        assert f"../examples/{path.stem}.py" in gallery


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="the site needs the extra docs: pip install -e '.[docs]'")
    # A copy: the source folder stays as it is, and what is built there does not matter.
    shutil.copytree(DOCS, tmp_path / "docs", ignore=shutil.ignore_patterns("_build"))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for name in ("README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "site"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    for page in ("index", "howto/half-annotated", "api/labelgap"):
        assert (tmp_path / "site" / f"{page}.html").exists()
    start = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    loaded = re.findall(r'(?:src|<link[^>]*href)="(https?://[^"]*)"', start)
    assert not loaded, "the site must work without a network"


def library_of(name: str) -> str | None:
    """The extra library that a module needs."""
    for part, library in (
        ("triton_", "triton"),
        (".gpu.", "torch"),
        (".objective.torch.", "torch"),
        (".device_judge", "torch"),
        (".closed_form.tensors", "torch"),
    ):
        if part in name:
            return library
    return None


def test_modules_without_examples_can_be_imported() -> None:
    for name in set(MODULES) - set(WITH_EXAMPLES):
        library = library_of(name)
        if library is None or importlib.util.find_spec(library) is not None:
            importlib.import_module(name)


FOLDERS = sorted({name.split(".")[1] for name in WITH_EXAMPLES if "." in name})


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstring_examples(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in WITH_EXAMPLES if f"{name}.".startswith(f"labelgap.{folder}.")]:
        library = library_of(name)
        if library is None or importlib.util.find_spec(library) is not None:
            with contextlib.redirect_stdout(io.StringIO()) as report:
                failed, _ = doctest.testmod(importlib.import_module(name))
            assert failed == 0, report.getvalue()


def test_the_reader_of_blocks_reads() -> None:
    text = "a\n```python\nx = 1\nprint(x)\n```\n\n```text\n1\n```\n```sh\nmake\n```\n```python\ny\n```\n"
    assert list(python_blocks(text)) == [Block(3, "x = 1\nprint(x)\n", "1\n"), Block(14, "y\n", None)]
