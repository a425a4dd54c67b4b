"""Running the command line in tests: in this process where that will do, since starting one takes seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from labelgap.cli.app import app

EXAMPLES = Path(__file__).parents[2] / "examples" / "data"
# A fit without a search, for where the search is not the point.
QUICK = ("--trace-penalty", "0.05", "--ridge-penalty", "0.01", "--threshold", "train", "--quiet")


def run(*arguments: object, code: int = 0, width: int = 80, encoding: str = "utf-8") -> Result:
    """The result of a command that ends with this exit code, for a terminal of that width and encoding."""
    result = CliRunner(charset=encoding).invoke(
        app, [str(argument) for argument in arguments], prog_name="labelgap", env={"COLUMNS": str(width)}
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


@contextmanager
def standard_input(path: str | Path) -> Iterator[None]:
    """This file as the standard input of the process, as a shell redirects it with ``<``."""
    before = os.dup(0)
    try:
        with open(path, "rb") as file:
            os.dup2(file.fileno(), 0)
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def run_json(*arguments: object, code: int = 0) -> dict[str, Any]:
    """The one JSON object that a command prints."""
    result = run(*arguments, "--json", code=code)
    answer = json.loads(result.stdout)
    assert isinstance(answer, dict)
    return answer


def error_of(*arguments: object, code: int = 1) -> str:
    """What a failing command says on stderr, in one line."""
    result = run(*arguments, code=code)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.replace("│", " ").split())


def process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    environment = os.environ | {"COLUMNS": "80", "OPENBLAS_NUM_THREADS": "1"} | options.pop("env", {})
    return subprocess.run(
        [sys.executable, "-m", "labelgap", *map(str, arguments)],
        env=environment,
        text=True,
        capture_output=True,
        timeout=120,
        **options,
    )
