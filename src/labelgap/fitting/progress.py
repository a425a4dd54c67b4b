"""How a fit stands: its stage, the candidates so far, the gap, and the time that is left."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence

from labelgap.solvers import Progress
from labelgap.solvers.loop import Candidate, FitListener

# How many of the last rounds the prediction of the time left is based on.
_LAST_ROUNDS = 6
UNKNOWN = "—"

LOGGER = logging.getLogger("labelgap")
"""Gets what fits report, whatever their ``verbose`` is: stages and candidates as INFO, rounds as DEBUG."""
# Without a handler of the program's own, nothing is written.
LOGGER.addHandler(logging.NullHandler())


def report(name: str, message: str, *, level: int = logging.INFO, printed: bool) -> None:
    """Log what the estimator of this name reports, and print it too if ``verbose`` asks for that."""
    LOGGER.log(level, "%s: %s", name, message)
    if printed:
        print(f"[{name}] {message}", flush=True)


def seconds_left(rounds: Sequence[Progress], tol: float) -> float | None:
    """Seconds until the gap reaches ``tol``, if its logarithm falls as fast as in the last rounds.

    The slope is that of the least-squares line through the last rounds. None where it cannot be told: fewer
    than three rounds with a gap above 0, or a gap that does not fall.

    Examples
    --------
    >>> fell = [Progress(i, 1.0, 10.0**-i, 3, float(i)) for i in range(4)]
    >>> round(seconds_left(fell, 1e-5), 6)
    2.0
    """
    if rounds and rounds[-1].gap <= tol:
        return 0.0
    known = [(p.seconds, math.log(p.gap)) for p in rounds[-_LAST_ROUNDS:] if 0 < p.gap < math.inf]
    if len(known) < 3:
        return None
    times, gaps = zip(*known, strict=True)
    mean_time, mean_gap = sum(times) / len(times), sum(gaps) / len(gaps)
    spread = sum((t - mean_time) ** 2 for t in times)
    fall = -sum((t - mean_time) * (g - mean_gap) for t, g in known)
    if spread <= 0 or fall <= 0:
        return None
    return max(0.0, float((gaps[-1] - math.log(tol)) * spread / fall))


def fraction_done(first: float, gap: float, tol: float) -> float:
    """How far the gap has come from the first one to ``tol``, on a logarithmic scale, from 0 to 1.

    Examples
    --------
    >>> round(fraction_done(1.0, 1e-2, 1e-4), 6), fraction_done(1.0, 1e-5, 1e-4)
    (0.5, 1.0)
    """
    if gap <= tol:
        return 1.0
    if not first > gap or math.isinf(first):
        return 0.0
    return math.log(first / gap) / math.log(first / tol)


def duration(seconds: float | None) -> str:
    """A length of time for people.

    Examples
    --------
    >>> duration(3.2), duration(75), duration(3700), duration(None)
    ('3 s', '1 min 15 s', '1 h 1 min', '—')
    """
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class FitProgress(FitListener):
    """Hears of a fit and says how it stands.

    Parameters
    ----------
    metric : str
        The name of what candidates are compared by.
    tol : float
        The relative gap at which the fit stops.
    clock : function, default time.monotonic
    """

    def __init__(self, metric: str, tol: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.metric, self.tol, self._clock = metric, tol, clock
        self._began = clock()
        self.what = "reading"
        self.judged = 0
        self.best: float | None = None
        self.rounds: list[Progress] = []

    def stage(self, what: str) -> None:
        self.what = what

    def candidate(self, candidate: Candidate) -> None:
        self.judged += 1
        value = candidate.metric_value
        if not math.isnan(value) and (self.best is None or value > self.best):
            self.best = value

    def __call__(self, progress: Progress) -> None:
        # A solver that starts again counts from the beginning.
        if self.rounds and progress.iteration < self.rounds[-1].iteration:
            self.rounds.clear()
        self.rounds.append(progress)

    def lines(self) -> list[tuple[str, str]]:
        """Names and values of what is known so far."""
        said = [("elapsed", duration(self._clock() - self._began))]
        if self.judged:
            best = "" if self.best is None else f", best {self.metric} {self.best:.4f}"
            said.append(("candidates", f"{self.judged} judged{best}"))
        if self.rounds:
            last = self.rounds[-1]
            said += [
                ("objective", f"{last.objective:.6g}"),
                ("rank", str(last.rank)),
                ("duality gap", f"{last.gap:.1e} (asked for {self.tol:.1e})"),
                ("time left", _about(seconds_left(self.rounds, self.tol))),
            ]
        return said

    def fraction(self) -> float | None:
        """How far the last fit is, from 0 to 1; None before it begins."""
        if not self.rounds:
            return None
        finite = (p.gap for p in self.rounds if math.isfinite(p.gap))
        return fraction_done(next(finite, math.inf), self.rounds[-1].gap, self.tol)


def _about(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"about {duration(seconds)}"
