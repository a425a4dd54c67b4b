"""Scores ``XW + N + 1bᵀ``: a W for the features, and an N with parameters of the rows themselves.

The problem is convex in all of them together,

    min_{W,N,b}  f(XW + N + 1bᵀ) + λ‖W‖_* + λ₂/2‖W‖_F² + μ‖N‖_* (+ κ/2‖b − c‖²),

and its dual is that of :mod:`labelgap.solvers.certificate` with one more condition on G, ``σ₁(G) ≤ μ``. From
the gradient G at any point, shrunk by

    c = min(1, λ/σ₁(XᵀG + λ₂W), μ/σ₁(G)),

comes a bound on the optimum over all W, N and b at once, so the two parts need no certificates of their own.

As in :mod:`labelgap.solvers.factored`, ``W = A Bᵀ`` and ``N = C Dᵀ`` have ranks that find themselves: rounds
of trust-region Newton steps in (A, B, C, D, b), and between them the directions of ``XᵀG`` above λ and of G
above μ. The parts move together because each can say much of what the other says; steps in one of them with
the other held would crawl. N is never formed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from labelgap.objective.protocol import Factors
from labelgap.solvers.growth import GrowthMethod, fresh_directions, lengths_for, lowest_of
from labelgap.solvers.joint_state import (
    JointCertificate,
    JointFactors,
    JointProblem,
    JointState,
    certify_joint,
)
from labelgap.solvers.linalg import balanced, contiguous
from labelgap.solvers.loop import State, run
from labelgap.solvers.tuning import TUNED


@dataclass(frozen=True)
class JointFit:
    """W, N and b, and the proof of how good they are."""

    factors: JointFactors
    objective: float
    gap: float
    """Absolute duality gap; the objective is at most this far above its minimum over all W, N and b."""
    relative_gap: float
    n_iter: int
    converged: bool


def solve_joint(
    problem: JointProblem,
    start: JointFactors,
    *,
    rank: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 500,
) -> JointFit:
    """Minimise to a relative duality gap of ``tol``, from a fit without N or with another μ.

    ``rank`` caps the rank of W; N has none. ``max_iter`` bounds the Newton steps. Where the cap binds, the
    gap says how far the optimum without it can be.

    Examples
    --------
    >>> from labelgap.losses import Logistic
    >>> from labelgap.labels import ObservedLabels
    >>> from labelgap.objective.cpu.features import DenseFeatures
    >>> from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
    >>> from labelgap.objective.problem import Problem
    >>> from labelgap.objective.protocol import Factors
    >>> from labelgap.solvers import Penalties
    >>> rng = np.random.default_rng(0)
    >>> labels = ObservedLabels.from_dense(rng.integers(0, 2, (30, 6)).astype(float))
    >>> settings = ProblemSettings(Logistic(), FeatureSettings(own_rows=True))
    >>> objective = Problem([RowBlock(None, labels)], settings).objective(labels)
    >>> features = DenseFeatures(rng.standard_normal((30, 3)))
    >>> problem = JointProblem(objective, features, Penalties(0.05), row_penalty=0.02)
    >>> start = JointFactors.without_rows(Factors.zero((3, 6), objective.starting_intercept()), 30)
    >>> fit = solve_joint(problem, start)
    >>> fit.converged, fit.relative_gap <= 1e-3, fit.factors.row_rank > 0
    (True, True, True)
    """
    method = JointMethod(problem, start, rank=rank, tol=tol, max_iter=max_iter)
    fit = run(method, tol=tol, warm_start=None, callback=None, checkpoint=None)
    return JointFit(method.state.x, fit.objective, fit.gap, fit.relative_gap, fit.n_iter, fit.converged)


class JointMethod(GrowthMethod):
    """The rounds for W and N."""

    _certificate: JointCertificate
    state: JointState
    """Where it stands."""

    def __init__(self, problem: JointProblem, start: JointFactors, **options: Any) -> None:
        super().__init__(problem.objective, problem.penalties, **options)
        self._problem, self._start, self._row_cap = problem, start, self._full
        self._full = min(problem.features.n_features, problem.objective.shape[1])
        self._cap = self._full if options["rank"] is None else min(self._full, options["rank"])

    def begin(self, start: Factors | None, kept: State | None) -> None:
        self._settle(self._start)

    def _settle(self, x: JointFactors) -> None:
        _, left, right = balanced(x.left, x.right, TUNED.dead)
        _, row_left, row_right = balanced(x.row_left, x.row_right, TUNED.dead)
        W = left[:, : self._cap], right[:, : self._cap]
        arrays = (*W, row_left, row_right, x.intercept)
        self.state = JointState(self._problem, JointFactors(*(contiguous(array) for array in arrays)))

    def _certified(self) -> JointCertificate:
        return certify_joint(self._problem, self.state)

    @property
    def factors(self) -> Factors:
        return self.state.x.shared

    def at_zero(self) -> tuple[Factors, float, float]:
        # It starts at a fit, which is better than that.
        return self.factors, math.inf, 0.0

    def _grown(self) -> JointState:
        """With new directions of W and N, each as far as its curvature says."""
        problem, state, found = self._problem, self.state, self._certificate
        x, negligible, mu = state.x, 0.1 * self._tol, problem.row_penalty
        assert found.row_residual is not None
        U, V, surplus = fresh_directions(
            found.residual, problem.penalties.trace, x.left, self._cap, negligible
        )
        S, T, row_surplus = fresh_directions(found.row_residual, mu, x.row_left, self._row_cap, negligible)
        if not len(surplus) + len(row_surplus):
            return state
        curvature = state.point.curvature_along(problem.features.product(contiguous(U)), V)
        lengths = lengths_for(surplus, curvature + problem.penalties.ridge)
        row_lengths = lengths_for(row_surplus, state.point.curvature_along(S, T))

        def grown(shorter: float) -> JointState:
            left, right = shorter * lengths * U, shorter * lengths * V
            row_left, row_right = shorter * row_lengths * S, shorter * row_lengths * T
            x_grown = JointFactors(
                np.hstack([x.left, -left]),
                np.hstack([x.right, right]),
                np.hstack([x.row_left, -row_left]),
                np.hstack([x.row_right, row_right]),
                x.intercept,
            )
            return JointState(problem, x_grown)

        return lowest_of(grown, state.value)
