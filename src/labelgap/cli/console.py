"""Where the command line prints: people read one console, programs one JSON object."""

from __future__ import annotations

import io
import json
import math
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text


class PipeConsole(Console):
    """A console that leaves a broken pipe to whoever runs the command."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def new_console(*, stderr: bool = False) -> Console:
    """A console on the stream of this moment; what it cannot spell becomes a question mark."""
    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper) and not speaks_unicode(stream):
        stream.reconfigure(errors="replace")
    return PipeConsole(file=stream, stderr=stderr, highlight=False, soft_wrap=False)


def speaks_unicode(stream: Any) -> bool:
    """Whether the stream can hold any text."""
    encoding = str(getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").replace("_", "")
    return encoding.startswith("utf")


class KeyValues:
    """Names and what is to say about them, in two columns; what does not fit goes on below itself.

    Examples
    --------
    >>> Console(width=30).print(KeyValues([("rows", "300"), ("labels", "6, and none of them known")]))
      rows    300
      labels  6, and none of them
              known
    """

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = pairs

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = max((len(name) for name, _ in self.pairs), default=0)
        room = max(options.max_width - wide - 4, 16)
        for name, value in self.pairs:
            first, *rest = textwrap.wrap(value, room, break_on_hyphens=False) or [""]
            yield Text.assemble("  ", (f"{name:<{wide}}", "bold"), f"  {first}")
            yield from (Text(" " * (wide + 4) + line) for line in rest)


def plain_table(columns: Mapping[str, Sequence[object]], *, left: Sequence[str] = ()) -> Padding:
    """Columns under their names, numbers to the right; ``left`` names those that hold text."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(Text(name), justify="left" if name in left else "right", overflow="fold")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*(Text(str(cell)) for cell in row))
    return Padding(table, (0, 0, 0, 2), expand=False)


def json_text(value: Any, stream: Any) -> str:
    """One JSON object: numbers as exact as they are, null for what is no number."""
    return json.dumps(plain(value), ensure_ascii=not speaks_unicode(stream), allow_nan=False, indent=2)


def plain(value: Any) -> Any:
    """What JSON can say of a value.

    Examples
    --------
    >>> plain({"gap": float("nan"), "ids": np.array([1, 2]), 3: (True, None)})
    {'gap': None, 'ids': [1, 2], '3': [True, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def forget_stdout() -> None:
    """Nobody reads any more: what is left to write goes nowhere, without a complaint at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):  # a stream without a file has nothing to complain of
        pass
    finally:
        os.close(nowhere)
