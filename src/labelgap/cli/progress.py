"""What is shown during a fit (a display, or else a line for each stage) and other long work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from labelgap.cli.session import Session
from labelgap.fitting.progress import UNKNOWN, FitProgress
from labelgap.solvers.loop import Candidate

_UPDATES_PER_SECOND = 8

T = TypeVar("T")


class FitDisplay(FitProgress):
    """A fit on a terminal; the parameters are those of :class:`FitProgress`."""

    def __init__(self, metric: str, tol: float, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(metric, tol, clock)
        self._spinners: dict[bool, Spinner] = {}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        plain = options.ascii_only
        if plain not in self._spinners:
            self._spinners[plain] = Spinner("line" if plain else "dots")
        title = Table.grid(padding=(0, 1))
        title.add_row(self._spinners[plain], Text(f"{self.what[:1].upper()}{self.what[1:]}", style="bold"))
        yield title
        table = Table.grid(padding=(0, 2))
        # Folded rather than cut off: not every encoding has the sign for what was cut off.
        table.add_column(overflow="fold")
        table.add_column(overflow="fold")
        for name, words in self.lines():
            table.add_row(f"  {name}", Text(words if not plain else words.replace(UNKNOWN, "?")))
        yield table
        fraction = self.fraction()
        if fraction is not None:
            yield _bar(fraction, options)


class StageLines(FitDisplay):
    """Says each stage in a line of its own, where there is no terminal; with ``closely`` candidates, too.

    Parameters
    ----------
    say : function of a text
    metric, tol, closely
    """

    def __init__(self, say: Callable[[str], None], metric: str, tol: float, *, closely: bool) -> None:
        super().__init__(metric, tol)
        self._say, self._closely = say, closely

    def stage(self, what: str) -> None:
        if self.judged:
            self._say(f"{self.judged} candidates judged{self._best()}")
        super().stage(what)
        self._say(what)

    def candidate(self, candidate: Candidate) -> None:
        super().candidate(candidate)
        if self._closely:
            self._say(
                f"candidate {self.judged}: trace {candidate.penalties.trace:.3g}, ridge "
                f"{candidate.penalties.ridge:.3g}, {self.metric} {candidate.metric_value:.4f}"
            )

    def end(self) -> None:
        """Say how the last fit ended."""
        if self.rounds:
            last = self.rounds[-1]
            self._say(f"duality gap {last.gap:.1e} (asked for {self.tol:.1e}), rank {last.rank}")

    def _best(self) -> str:
        return "" if self.best is None else f", best {self.metric} {self.best:.4f}"


def _bar(fraction: float, options: ConsoleOptions) -> Any:
    width = max(10, min(50, options.max_width - 4))
    return Padding(ProgressBar(total=1.0, completed=fraction, width=width), (0, 0, 0, 2))


@contextmanager
def shown(display: FitDisplay, console: Console, wanted: bool) -> Iterator[None]:
    """Show the display during the block, if that is wanted; nothing of it stays."""
    if not wanted:
        yield
        return
    with Live(display, console=console, refresh_per_second=_UPDATES_PER_SECOND, transient=True):
        yield


@contextmanager
def watched(session: Session, metric: str, tol: float) -> Iterator[FitDisplay]:
    """What a fit in the block is to tell of its progress: on a terminal, in lines, or nowhere."""
    live = session.shows_progress and not session.verbose
    if live or not (session.talks or session.verbose):
        display = FitDisplay(metric, tol)
        with shown(display, session.err, live):
            yield display
        return
    lines = StageLines(session.stage, metric, tol, closely=session.verbose)
    yield lines
    lines.end()


def counted(blocks: Iterable[T], console: Console, wanted: bool, *, total: int, each: int) -> Iterator[T]:
    """The blocks, with a bar that grows by ``each`` of ``total`` users for every one, if that is wanted."""
    if not wanted:
        yield from blocks
        return
    columns = (TextColumn("users"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task("", total=total)
        for number, block in enumerate(blocks):
            bars.update(task, completed=min(total, (number + 1) * each))
            yield block
