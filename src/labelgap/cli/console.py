"""Where the command line prints: text for people on a console, one JSON object for programs."""

from __future__ import annotations

import io
import json
import math
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_INDENT, _GAP, _LEAST_TEXT = 2, 2, 8


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


def whole(count: float) -> str:
    """A count in the one way in which they are printed: all of its digits, and nothing between them.

    Examples
    --------
    >>> whole(14985), whole(2_000_000.0), whole(12.5)
    ('14985', '2000000', '12.5')
    """
    return str(int(count)) if float(count).is_integer() else f"{count:.6g}"


class KeyValues:
    """Names and values in two columns; a value that does not fit continues on the next line.

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
        width = max(options.max_width - wide - 4, 16)
        for name, value in self.pairs:
            first, *rest = textwrap.wrap(value, width, break_on_hyphens=False) or [""]
            yield Text.assemble("  ", (f"{name:<{wide}}", "bold"), f"  {first}")
            yield from (Text(" " * (wide + 4) + line) for line in rest)


class PlainTable:
    """Columns under their names, numbers to the right; ``left`` names those that hold text.

    Text is folded in a narrow terminal, numbers never: columns that do not fit come in a second table below,
    beside the first column again if that is text.

    Examples
    --------
    >>> table = PlainTable({"label": ["sports"], "known": ["12345"], "yes": ["123"]}, left=("label",))
    >>> Console(width=18).print(table)
      label   known
      sports  12345
    <BLANKLINE>
      label   yes
      sports  123
    """

    def __init__(self, columns: Mapping[str, Sequence[object]], left: Sequence[str] = ()) -> None:
        self.columns = {name: [str(value) for value in values] for name, values in columns.items()}
        self.left = left

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width - _INDENT
        for at, names in enumerate(self._groups(width)):
            if at:
                yield Text("")
            yield self._table(names, width)

    def _groups(self, width: int) -> list[list[str]]:
        """The columns that stand beside each other."""
        first = next(iter(self.columns), None)
        repeated = [first] if first is not None and first in self.left else []
        groups: list[list[str]] = [[]]
        free = width
        for name in self.columns:
            # A text takes what is left, but not less than a short word.
            wide = self._width(name) if name not in self.left else min(self._width(name), _LEAST_TEXT)
            if groups[-1] and wide > free and groups[-1] != repeated:
                groups.append([*repeated])
                free = width - sum(min(self._width(one), _LEAST_TEXT) + _GAP for one in repeated)
            groups[-1].append(name)
            free -= wide + _GAP
        return groups

    def _width(self, name: str) -> int:
        return max(cell_len(text) for text in (name, *self.columns[name]))

    def _table(self, names: Sequence[str], width: int) -> Padding:
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        for name in names:
            table.add_column(
                Text(name),
                justify="left" if name in self.left else "right",
                overflow="fold",
                no_wrap=name not in self.left and self._width(name) <= width,
            )
        for row in zip(*(self.columns[name] for name in names), strict=True):
            table.add_row(*map(Text, row))
        return Padding(table, (0, 0, 0, _INDENT), expand=False)


def json_text(value: Any, stream: Any) -> str:
    """One JSON object: numbers as exact as they are, null for what is no number."""
    return json.dumps(plain(value), ensure_ascii=not speaks_unicode(stream), allow_nan=False, indent=2)


def plain(value: Any) -> Any:
    """What JSON can say of a value.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"gap": float("nan"), "ids": np.array([1, 2]), 3: (True, None)})
    {'gap': None, 'ids': [1, 2], '3': [True, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    # numpy's arrays and scalars, which this module need not import.
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)
