"""Fits under ``|XW| ≤ γ``, a constraint on every score, by the method of multipliers.

Either solver does the inner work on the data term plus a smooth term that holds the entries which have
exceeded the bound. The model that is returned obeys the bound exactly (it is scaled onto it), and its duality
gap is that of the constrained problem:

    −f*(G) − γ‖U‖₁ − ‖M₁‖²/(2λ₂)   bounds the optimum from below when  −Xᵀ(G + U) = M₁ + M₂,  σ₁(M₂) ≤ λ.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

import numpy as np

from labelgap.objective.protocol import Factors, Objective, Point, ScoreBounds, ScoreGradient
from labelgap.objective.sum import SumGradient, SumObjective, SumPoint
from labelgap.solvers.certificate import Certificate, certify
from labelgap.solvers.checkpoint import Checkpoint
from labelgap.solvers.intercept import with_best_intercept
from labelgap.solvers.linalg.spectral import balanced
from labelgap.solvers.penalties import Penalties
from labelgap.solvers.result import Callback, Fit, Recorder, finished

# How much stiffer than an entry's loss the constraint may become before rounding spoils the inner fits.
_STIFFEST = 1e4


class Solver(Protocol):
    """The call that both solvers share."""

    def __call__(
        self,
        objective: Objective,
        penalties: Penalties,
        *,
        rank: int | None = ...,
        tol: float = ...,
        max_iter: int = ...,
        warm_start: Factors | None = ...,
        callback: Callback | None = ...,
        checkpoint: Checkpoint | None = ...,
    ) -> Fit: ...


def solve_bounded(
    solver: Solver,
    objective: Objective,
    penalties: Penalties,
    bounds: ScoreBounds,
    *,
    rank: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 5000,
    warm_start: Factors | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
    max_rounds: int = 60,
) -> Fit:
    """Minimise subject to the bound, to a relative duality gap of ``tol``.

    ``max_iter`` bounds the inner iterations in all. A model that never reaches the bound costs one inner fit
    and one look at the scores.
    """
    checkpoint = checkpoint or Checkpoint()
    recorder = Recorder(callback)
    entries = bounds.start()
    stiffness = 1.0 / max(objective.n_stored, 1)
    stiffest = _STIFFEST * stiffness
    gap, used, last_excess = 1.0, 0, np.inf
    start = warm_start
    best: tuple[Certificate, Point] | None = None
    reached = done = False
    for number in range(max_rounds):
        term = bounds.term(entries, stiffness)
        total = SumObjective([objective, term])
        inner_tol = max(0.1 * tol, min(1e-2, 0.1 * gap))
        solve = partial(
            solver,
            total,
            penalties,
            rank=rank,
            tol=inner_tol,
            max_iter=max(max_iter - used, 1),
            warm_start=start,
        )
        # A run that goes on from an interrupted one gets its finished rounds back and need not mark any.
        fit = checkpoint.part(f"round {number}").fit(solve)
        used += fit.n_iter
        start = fit.factors
        point = total.at(fit.factors)
        assert isinstance(point, SumPoint)
        largest, beyond = bounds.scan(fit.factors)
        feasible = _onto_bound(objective, fit.factors, bounds.bound, largest, penalties)
        certificate = _certify(total, point, feasible, penalties, bounds)
        if best is not None:
            # A lower bound once proved stays proved, and so does the better of two models.
            known, model = best
            lower, kept = max(certificate.dual, known.dual), min(certificate.objective, known.objective)
            feasible = feasible if kept < known.objective else model
            certificate = Certificate(kept, lower, certificate.residual, certificate.size)
        best = (certificate, feasible)
        gap = best[0].relative_gap
        recorder.report(used, best[0], fit.rank)
        reached = gap <= tol
        # Under a rank cap the gap stays open; such a fit is done once it keeps the bound.
        done = fit.capped and fit.converged and largest <= bounds.bound * (1 + tol)
        if reached or done or used >= max_iter or checkpoint.stopping():
            break
        excess = largest - bounds.bound
        if excess > 0.25 * last_excess:
            stiffness = min(4.0 * stiffness, stiffest)
        last_excess = excess
        entries = bounds.next(entries, point.parts[1], beyond)
    assert best is not None
    certificate, feasible = best
    capped = fit.capped and not reached
    return finished(feasible.factors, certificate, used, recorder, reached, capped, died_out=done)


def _onto_bound(
    objective: Objective, factors: Factors, bound: float, largest: float, penalties: Penalties
) -> Point:
    """The model scaled so that its largest score is the bound, with its own best intercept."""
    # The last ulps of the scaled scores must not stick out.
    scale = 1.0 if largest <= bound else bound / largest * (1 - 1e-12)
    scaled = Factors(factors.left * scale, factors.right, factors.intercept)
    return with_best_intercept(objective, objective.at(scaled), penalties)


def _certify(
    total: SumObjective,
    point: SumPoint,
    feasible: Point,
    penalties: Penalties,
    bounds: ScoreBounds,
) -> Certificate:
    values = balanced(feasible.factors.left, feasible.factors.right, cutoff=0.0)[0]

    def conjugate(gradient: ScoreGradient, scale: float) -> float:
        assert isinstance(gradient, SumGradient)
        data, constraint = gradient.parts
        return data.conjugate(scale) + bounds.conjugate(constraint, scale)

    primal = feasible.value + penalties.of(values, feasible.factors.intercept)
    return certify(total, point, penalties, primal=primal, conjugate=conjugate)
