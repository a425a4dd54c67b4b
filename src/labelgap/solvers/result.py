"""What every solver returns and reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.objective.protocol import Factors
from labelgap.solvers.certificate import Certificate
from labelgap.solvers.linalg.spectral import balanced
from labelgap.solvers.states import (
    Progress,
    State,
    contiguous,
    factors_from,
    factors_state,
    history_from,
    history_state,
    scalars,
)

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
    """Keeps the history of a run and passes it on to a callback.

    ``state`` is that of an interrupted run, with its "history", which is gone on with.
    """

    def __init__(self, callback: Callback | None, state: State | None = None) -> None:
        self._callback = callback
        self.history = [] if state is None else history_from(state["history"])
        self._began = time.perf_counter() - (self.history[-1].seconds if self.history else 0.0)

    def as_state(self) -> Floats:
        """The history so far, for a state."""
        return history_state(self.history)

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
        factors=contiguous(Factors(left, right, factors.intercept)),
        singular_values=values,
        objective=certificate.objective,
        gap=certificate.gap,
        relative_gap=certificate.relative_gap,
        n_iter=n_iter,
        converged=reached or (capped and died_out),
        capped=capped,
        history=tuple(recorder.history),
    )


def fit_state(fit: Fit) -> dict[str, NDArray[Any]]:
    """A fit as arrays."""
    return {
        **factors_state(fit.factors),
        "singular_values": fit.singular_values,
        "history": history_state(fit.history),
        **scalars(
            objective=fit.objective,
            gap=fit.gap,
            relative_gap=fit.relative_gap,
            n_iter=fit.n_iter,
            converged=fit.converged,
            capped=fit.capped,
        ),
    }


def fit_from(state: State) -> Fit:
    """The fit that :func:`fit_state` wrote down."""
    return Fit(
        factors=factors_from(state),
        singular_values=np.asarray(state["singular_values"]),
        objective=float(state["objective"]),
        gap=float(state["gap"]),
        relative_gap=float(state["relative_gap"]),
        n_iter=int(state["n_iter"]),
        converged=bool(state["converged"]),
        capped=bool(state["capped"]),
        history=tuple(history_from(state["history"])),
    )
