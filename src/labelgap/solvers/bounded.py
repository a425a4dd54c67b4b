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

from labelgap.objective.protocol import Factors, Objective, Point, ScoreBounds, ScoreGradient
from labelgap.objective.sum import SumGradient, SumObjective, SumPoint
from labelgap.solvers.certificate import Certificate, certify
from labelgap.solvers.linalg import balanced, rounding
from labelgap.solvers.loop import Callback, Checkpoint, Fit, Method, State, run, starting_factors
from labelgap.solvers.penalties import Penalties, with_best_intercept

# How much stiffer than an entry's loss the constraint may become before rounding spoils the inner fits.
_STIFFEST = 1e4
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
        self._stiffness = 1.0 / max(self._objective.n_stored, 1)
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
        self._entries = self._bounds.next(self._entries, self._point.parts[1], self._beyond)
        self._fit_once()

    def _fit_once(self) -> None:
        """Fit with the entries that are held now, and see which scores are beyond the bound."""
        term = self._bounds.term(self._entries, self._stiffness)
        self._total = SumObjective([self._objective, term])
        solve = partial(
            self._solver,
            self._total,
            self._penalties,
            rank=self._rank,
            tol=max(0.1 * self._tol, min(1e-2, 0.1 * self._gap)),
            max_iter=max(self._max_iter - self.iteration, 1),
            warm_start=self._start,
        )
        self._fit = self._checkpoint.part(f"round {self._rounds}").fit(solve)
        self._rounds += 1
        self.iteration += self._fit.n_iter
        self._start = starting_factors(self._objective, self._fit.factors)
        point = self._total.at(self._start)
        assert isinstance(point, SumPoint)
        self._point = point
        self._largest, self._beyond = self._bounds.scan(self._start)

    def certify(self) -> Certificate:
        factors, bounds = self._start, self._bounds
        assert factors is not None
        feasible = _onto_bound(self._objective, factors, bounds.bound, self._largest, self._penalties)
        certificate = _certify(self._total, self._point, feasible, self._penalties, bounds)
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

    @property
    def factors(self) -> Factors:
        assert self._best is not None
        return self._best[1].factors

    @property
    def rank(self) -> int:
        return self._fit.rank

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


def _onto_bound(
    objective: Objective, factors: Factors, bound: float, largest: float, penalties: Penalties
) -> Point:
    """The model scaled so that its largest score is the bound, with its own best intercept."""
    # The last digits of the scaled scores must not stick out.
    margin = max(_MARGIN, _MARGIN_ROUNDING * rounding(factors.left))
    scale = 1.0 if largest <= bound else bound / largest * (1 - margin)
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
