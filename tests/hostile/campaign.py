"""Runs cases and counts which survive."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import arrays, binary_files, text_files  # noqa: F401  (they put their cases on the list)
from .cases import KINDS, Failure, try_case


@dataclass
class Report:
    """What came of a campaign."""

    tried: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def survived(self) -> int:
        return self.tried.total() - len(self.failures)

    def lines(self) -> list[str]:
        """The report in words: the counts of each kind, and every failure with the seed that repeats it."""
        fallen = Counter(failure.kind for failure in self.failures)
        told = [
            f"{kind}: {count - fallen[kind]} of {count} survived"
            for kind, count in sorted(self.tried.items())
        ]
        told += [f"FAILED {failure.kind}, seed {failure.seed}: {failure.why}" for failure in self.failures]
        tried = self.tried.total()
        return [*told, f"{tried} cases tried, {self.survived} survived, in {self.seconds:.0f} s."]


def run_campaign(
    cases: int,
    seed: int = 0,
    kinds: tuple[str, ...] = (),
    seconds: float | None = None,
    tell: Callable[[Failure], None] | None = None,
) -> Report:
    """Try so many cases, the kinds in turn, until the time is over if there is a limit.

    Parameters
    ----------
    cases : int
    seed : int, default 0
        Case number i is drawn from the seed plus i.
    kinds : tuple of str, default ()
        The kinds to try; none means all.
    seconds : float or None, default None
    tell : callable, default None
        Told of each failure at once.
    """
    chosen = kinds or tuple(KINDS)
    report, began = Report(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(cases):
            if seconds is not None and time.monotonic() - began > seconds:
                break
            kind = chosen[number % len(chosen)]
            # A folder of its own: what one case leaves is not there for the next.
            place = Path(folder) / str(number)
            place.mkdir()
            failure = try_case(kind, seed + number, place)
            for left in place.iterdir():
                left.unlink()
            place.rmdir()
            report.tried[kind] += 1
            if failure is not None:
                report.failures.append(failure)
                if tell is not None:
                    tell(failure)
    report.seconds = time.monotonic() - began
    return report
