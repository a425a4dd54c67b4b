"""What the documents show of the command line is what it does.

In a ``console`` block a line that begins with ``$ `` is a command, and what follows, up to the next command,
is what it prints, with ``...`` for what may differ. A block is run if its first command is ``labelgap``. All
blocks of a document run one after the other in one folder, which has the example files in it.
"""

from __future__ import annotations

import doctest
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from labelgap.cli.app import app

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "data"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELL = re.compile(r"[|;<>&`]|\$\(")
_SHORTENED = re.compile(r"(labelgap [^|;<>&`$]*) \| (?:cat|head -n (\d+))")
_STAGE = re.compile(r"^\[ *\d+\.\d s\] .*\n", re.MULTILINE)
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Command(NamedTuple):
    """A command and what the document says that it prints."""

    line: int
    text: str
    output: str


def console_commands(text: str) -> Iterator[Command]:
    """The commands of the blocks that begin with labelgap."""
    for block in _BLOCK.finditer(text):
        if not block[1].startswith("$ labelgap"):
            continue
        first = text.count("\n", 0, block.start(1)) + 1
        lines = block[1].splitlines()
        starts = [at for at, line in enumerate(lines) if line.startswith("$ ")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            last = start
            while lines[last].endswith("\\"):
                last += 1
            command = " ".join(line.removesuffix("\\").strip() for line in lines[start : last + 1])
            output = "\n".join(lines[last + 1 : end])
            yield Command(first + start, command.removeprefix("$ "), output)


def printed(command: str, folder: Path) -> str:
    """What a command prints, both streams together.

    What is read from a pipe is printed as to a file, which is so in this process, too: that spares starting
    another one for the commands whose output is only shortened.
    """
    if (piped := _SHORTENED.fullmatch(command)) is not None:
        lines = printed(piped[1], folder).splitlines(keepends=True)
        return "".join(lines[: int(piped[2] or len(lines))])
    if _SHELL.search(re.sub(r"'[^']*'", "", command)) or not command.startswith("labelgap "):
        shim = folder.parent / "bin" / "labelgap"
        if not shim.exists():
            shim.parent.mkdir(exist_ok=True)
            shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m labelgap "$@"\n')
            shim.chmod(0o755)
        path = os.pathsep.join([str(shim.parent), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-c", command],
            env=os.environ | {"COLUMNS": "80", "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        return done.stdout
    arguments = shlex.split(command)[1:]
    result = CliRunner().invoke(app, arguments, prog_name="labelgap", env={"COLUMNS": "80"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def documents() -> list[Path]:
    """Those that show the command line."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if any(console_commands(path.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_console_blocks_print_what_they_show(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    monkeypatch.chdir(folder)
    for command in console_commands(path.read_text(encoding="utf-8")):
        # On a terminal, as the documents show it, these are a display that vanishes.
        found = _STAGE.sub("", printed(command.text, folder))
        same = doctest.OutputChecker().check_output(command.output + "\n", found, _OPTIONS)
        assert same, (
            f"{path.name}, line {command.line}: {command.text}\nprints\n{found}\nnot\n{command.output}"
        )


def test_the_documents_show_it() -> None:
    assert {ROOT / "README.md", ROOT / "docs" / "command-line.md"} <= set(documents())


def test_the_reader_of_blocks_reads() -> None:
    text = "a\n```console\n$ labelgap info \\\n  x.csv\none\n$ cat y\n```\n```console\n$ ls\n```\n"
    assert list(console_commands(text)) == [
        Command(3, "labelgap info x.csv", "one"),
        Command(6, "cat y", ""),
    ]


def test_the_example_files_are_what_their_script_makes(tmp_path: Path) -> None:
    for script in EXAMPLES.glob("*.py"):
        runpy.run_path(str(shutil.copy(script, tmp_path)), run_name="__main__")
    names = ["articles.csv", "new_articles.csv", "ratings.csv", "new_ratings.csv"]
    for name in (*names, "movielens/u.data", "movielens/u.item", "movielens/u.user"):
        assert (tmp_path / name).read_bytes() == (EXAMPLES / name).read_bytes()
