"""Running the command line in tests: in this process where that will do, since starting one takes seconds."""

from __future__ import annotations

import csv
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner, Result

from labelgap.cli.app import app

EXAMPLES = Path(__file__).parents[2] / "examples" / "data"
TABLE = "articles.csv --labels tag_* --id id"
TAGS = [f"tag_{name}" for name in ("business", "politics", "sport", "travel", "culture", "data")]
# Fits without a search, for where the search is not the point.
FIXED = "--trace-penalty 0.05 --ridge-penalty 0.01 --threshold train"
QUICK = (*FIXED.split(), "--quiet")
FILMS = "--positive 4 --trace-penalty 0.02 --threshold train"


def run(command: str = "", *more: object, code: int = 0, width: int = 80, encoding: str = "utf-8") -> Result:
    """The result of a command that ends with this exit code, for a terminal of that width and encoding.

    The command is split as by a shell, and ``more`` are further arguments as they are.
    """
    arguments = [*shlex.split(command), *map(str, more)]
    result = CliRunner(charset=encoding).invoke(
        app, arguments, prog_name="labelgap", env={"COLUMNS": str(width)}
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, f"{command}: {result.output}"
    return result


def run_json(command: str, *more: object, code: int = 0) -> dict[str, Any]:
    """The one JSON object that a command prints."""
    answer = json.loads(run(command, *more, "--json", code=code).stdout)
    assert isinstance(answer, dict)
    return answer


def words(text: str) -> str:
    """A text in one line, without the frame that Typer draws."""
    return " ".join(text.replace("│", " ").split())


def error_of(command: str, *more: object, code: int = 1) -> str:
    """What a failing command says on stderr, in one line."""
    result = run(command, *more, code=code)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return words(result.stderr)


def told(command: str, *more: object, code: int = 0) -> str:
    """What a command says on stdout, in one line."""
    return words(run(command, *more, code=code).stdout)


def lines(path: str | Path) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def rows_of(path: str | Path, delimiter: str = ",") -> list[dict[str, str]]:
    """The rows of a CSV file."""
    return list(csv.DictReader(lines(path), delimiter=delimiter))


def write_ratings(path: Path) -> None:
    """Stars of 12 users about 8 films, two tastes, with gaps."""
    rng = np.random.RandomState(0)
    lines = ["user,item,value"]
    for user in range(12):
        for item in range(8):
            if rng.uniform() < 0.7:
                liked = (user + item) % 2 == 0
                lines.append(f"u{user},film {item},{rng.randint(4, 6) if liked else rng.randint(1, 4)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


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


def process(command: str, *more: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    environment = os.environ | {"COLUMNS": "80", "OPENBLAS_NUM_THREADS": "1"} | options.pop("env", {})
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 120} | options
    return subprocess.run(
        [sys.executable, "-m", "labelgap", *shlex.split(command), *map(str, more)], env=environment, **given
    )


def shell(script: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which ``labelgap`` is the command."""
    here = f'labelgap() {{ exec {shlex.quote(sys.executable)} -m labelgap "$@"; }}; {script}'
    return subprocess.run(["bash", "-c", here], capture_output=True, text=True, timeout=120)
