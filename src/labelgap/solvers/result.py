"""What every solver returns and reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from labelgap._types import Floats
from labelgap.objective.protocol import Factors
from labelgap.solvers.certificate import Certificate
from labelgap.solvers.spectral import balanced


@dataclass(frozen=True)
class Progress:
    """One report to a callback."""

    iteration: int
    objective: float
    gap: float
    """Relative duality gap."""
    rank: int
    seconds: float


Callback = Callable[[Progress], None]


@dataclass(frozen=True)
class Fit:
    """A fitted ``W = left @ right.T`` with intercept, and the proof of how good it is."""

    factors: Factors
    singular_values: Floats
    objective: float
    gap: float
    """Absolute duality gap."""
    relative_gap: float
    n_iter: int
    converged: bool
    """Whether the relative gap reached its target (or, with a binding rank cap, the steps died out)."""
    capped: bool = False
    """Whether the rank cap kept the fit from the optimum over all ranks."""
    history: tuple[Progress, ...] = field(default=(), repr=False)

    @property
    def rank(self) -> int:
        return len(self.singular_values)


class Recorder:
    """Keeps the history of a run and passes it on to a callback."""

    def __init__(self, callback: Callback | None) -> None:
        self._callback = callback
        self._began = time.perf_counter()
        self.history: list[Progress] = []

    def report(self, iteration: int, certificate: Certificate, rank: int) -> None:
        progress = Progress(
            iteration,
            certificate.objective,
            certificate.relative_gap,
            rank,
            time.perf_counter() - self._began,
        )
        self.history.append(progress)
        if self._callback is not None:
            self._callback(progress)


def finished(
    factors: Factors,
    certificate: Certificate,
    n_iter: int,
    recorder: Recorder,
    reached: bool,
    capped: bool,
    died_out: bool,
) -> Fit:
    """The fit at ``factors``, balanced. A capped fit has converged when its steps died out."""
    values, left, right = balanced(factors.left, factors.right)
    return Fit(
        factors=Factors(left, right, factors.intercept),
        singular_values=values,
        objective=certificate.objective,
        gap=certificate.gap,
        relative_gap=certificate.relative_gap,
        n_iter=n_iter,
        converged=reached or (capped and died_out),
        capped=capped,
        history=tuple(recorder.history),
    )
