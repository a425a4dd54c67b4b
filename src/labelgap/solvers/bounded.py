"""Fits under ``|XW| ≤ γ``, a constraint on every score, by the method of multipliers.

A solver does the inner work on the data term plus a smooth term that holds the entries which have
exceeded the bound. The model that is returned obeys the bound exactly (it is scaled onto it), and its duality
gap is that of the constrained problem:

    −f*(G) − γ‖U‖₁ − ‖M₁‖²/(2λ₂)   bounds the optimum from below when  −Xᵀ(G + U) = M₁ + M₂,  σ₁(M₂) ≤ λ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from labelgap.objective.protocol import Factors, Objective, Point, ScoreBounds
from labelgap.solvers.certificate import Certificate, Penalties, best_intercept_within, certify
from labelgap.solvers.linalg import like, rounding
from labelgap.solvers.loop import Callback, Checkpoint, Fit, Method, State, run, starting_factors

# How much stiffer than an entry's loss the constraint may become before rounding spoils the inner fits.
_STIFFEST = 1e4
# Relative gaps of the inner fits: of the first one, of later ones as a fraction of the gap so far, and of the
# closest one as a fraction of the gap that is asked for. Where that is loose, the first fit may be enough.
_FIRST_TOL, _FRACTION, _CLOSEST, _LOOSE = 0.1, 0.1, 0.3, 1e-2
# By how much closer at least every inner fit is than the one before.
_CLOSER = 0.3
# By how much less than the bound the largest score is made, as a fraction and in units of rounding.
_MARGIN, _MARGIN_ROUNDING = 1e-12, 16


class Solver(Protocol):
    """The call that all solvers of the problem without a bound share."""

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


class BoundedMethod(Method):
    """The method of multipliers: a step is a fit with the entries that are held, and new multipliers.

    Finished fits are kept by the checkpoint, so a run that resumes gets them back and needs no snapshots.
    """

    def __init__(
        self,
        solver: Solver,
        bounds: ScoreBounds,
        checkpoint: Checkpoint,
        max_rounds: int,
        *problem: Any,
        rank: int | None,
        **options: Any,
    ) -> None:
        super().__init__(*problem, rank=rank, **options)
        self._solver, self._bounds, self._checkpoint = solver, bounds, checkpoint
        self._rank, self._max_rounds = rank, max_rounds
        self._entries = bounds.start()
        self._stiffness = bounds.stiffness
        self._stiffest = _STIFFEST * self._stiffness
        self._rounds, self._gap, self._last_excess = 0, 1.0, math.inf
        self._best: tuple[Certificate, Point] | None = None

    def begin(self, start: Factors | None, kept: State | None) -> None:
        self._start = start
        self._fit_once()

    def step(self, stopping: Callable[[], bool]) -> None:
        excess = self._largest - self._bounds.bound
        if excess > 0.25 * self._last_excess:
            self._stiffness = min(4.0 * self._stiffness, self._stiffest)
        self._last_excess = excess
        self._entries = self._bounds.next(self._entries, self._point, self._beyond)
        self._fit_once()

    def _fit_once(self) -> None:
        """Fit with the entries that are held now, and see which scores are beyond the bound."""
        first = _FIRST_TOL if self._tol < _LOOSE else self._tol
        # Under a rank cap the gap stays open, and fits must become closer all the same.
        most = first * _CLOSER**self._rounds
        self._total = self._bounds.with_term(self._objective, self._entries, self._stiffness)
        solve = partial(
            self._solver,
            self._total,
            self._penalties,
            rank=self._rank,
            tol=max(_CLOSEST * self._tol, min(most, _FRACTION * self._gap)),
            max_iter=max(self._max_iter - self.iteration, 1),
            warm_start=self._start,
        )
        self._fit = self._checkpoint.part(f"round {self._rounds}").fit(solve)
        self._rounds += 1
        self.iteration += self._fit.n_iter
        self._start = starting_factors(self._objective, self._fit.factors)
        self._point = self._total.at(self._start)
        self._largest, self._beyond = self._bounds.scan(self._start)

    def certify(self) -> Certificate:
        feasible, scale = self._onto_bound()
        values = like(self._fit.singular_values, self._point.factors.intercept)
        certificate = certify(
            self._total,
            self._point,
            self._penalties,
            singular_values=values,
            primal=feasible.value + self._penalties.of(scale * values, feasible.factors.intercept),
            conjugate=self._bounds.conjugate,
        )
        if self._best is not None:
            # A lower bound once proved stays proved, and so does the better of two models.
            known, model = self._best
            feasible = feasible if certificate.objective < known.objective else model
            certificate = Certificate(
                min(certificate.objective, known.objective),
                max(certificate.dual, known.dual),
                certificate.residual,
                certificate.size,
            )
        self._best = certificate, feasible
        self._gap = certificate.relative_gap
        return certificate

    def _onto_bound(self) -> tuple[Point, float]:
        """The model scaled so that its largest score is the bound, with its own best intercept; the scale."""
        left, right, intercept = self._point.factors
        # The last digits of the scaled scores must not stick out.
        margin = max(_MARGIN, _MARGIN_ROUNDING * rounding(left))
        bound = self._bounds.bound
        scale = 1.0 if self._largest <= bound else bound / self._largest * (1 - margin)
        point = self._objective.at(Factors(left * scale, right, intercept))
        return best_intercept_within(self._objective, point, self._penalties, self._tol), scale

    @property
    def factors(self) -> Factors:
        assert self._best is not None
        return self._best[1].factors

    @property
    def exhausted(self) -> bool:
        return self.iteration >= self._max_iter or self._rounds >= self._max_rounds

    @property
    def stalled(self) -> bool:
        """Under a rank cap the gap stays open; such a fit is done once it keeps the bound."""
        within = self._largest <= self._bounds.bound * (1 + self._tol)
        return self._fit.capped and self._fit.converged and within

    @property
    def capped(self) -> bool:
        return self._fit.capped


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
    method = BoundedMethod(
        solver,
        bounds,
        checkpoint,
        max_rounds,
        objective,
        penalties,
        rank=rank,
        tol=tol,
        max_iter=max_iter,
    )
    return run(method, tol=tol, warm_start=warm_start, callback=callback, checkpoint=checkpoint)
