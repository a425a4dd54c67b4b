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
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from labelgap.solvers import newton
from labelgap.solvers.factored import fresh_directions
from labelgap.solvers.joint_state import (
    JointCertificate,
    JointFactors,
    JointProblem,
    JointState,
    certify_joint,
)
from labelgap.solvers.linalg import balanced, contiguous, smallest

# Directions below this fraction of the largest are dead.
_DEAD = 1e-6
# Lengths that are tried for new directions, each half of the one before.
_GROWTH_TRIALS = 6
# A round of Newton steps ends when a step gains less than this fraction of the gap that is to be closed.
_ROUND_FRACTION = 0.02
# Rounds in a row that neither halve the gap nor gain more than this fraction of it.
_PATIENCE, _NOTHING = 20, 1e-6
# The steps of a capped fit have died out when they gain less than this fraction of the tolerance.
_DIED_OUT_CAPPED = 0.01


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
    stopping: Callable[[], bool] = lambda: False,
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
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _Rounds(problem, rank, tol, max_iter, stopping).run(start)


class _Rounds:
    """Certificate, growth, Newton steps; again and again."""

    def __init__(
        self, problem: JointProblem, rank: int | None, tol: float, max_iter: int, stopping: Callable[[], bool]
    ) -> None:
        n, n_columns = problem.objective.shape
        full = min(problem.features.n_features, n_columns)
        self._problem, self._tol, self._stopping = problem, tol, stopping
        self._max_iter, self.n_iter = max_iter, 0
        self._cap = full if rank is None else min(full, rank)
        self._capped, self._row_cap = self._cap < full, min(n, n_columns)

    def run(self, start: JointFactors) -> JointFit:
        state = self._balanced(start)
        dual, best_gap, quiet, radius, died_out = -math.inf, math.inf, 0, None, False
        while True:
            found = certify_joint(self._problem, state, known=dual)
            dual = found.dual
            reached = found.relative_gap <= self._tol
            halved = found.gap < 0.5 * best_gap
            if reached or self.n_iter >= self._max_iter or self._stopping():
                break
            if (died_out and not halved) or quiet > _PATIENCE:
                break
            grown = self._grown(state, found)
            left = self._max_iter - self.n_iter
            if grown is not None:
                enough = _ROUND_FRACTION * found.gap
                report = newton.minimise(grown, enough=enough, max_steps=left, stopping=self._stopping)
            else:
                # Nothing to add: the gap is unfinished work at these ranks, one accurate step at a time.
                report = newton.minimise(
                    state,
                    enough=math.inf,
                    max_steps=left,
                    radius=radius,
                    forcing=0.1,
                    stopping=self._stopping,
                )
                nothing = _DIED_OUT_CAPPED * self._tol * found.scale if self._capped else 0.0
                died_out = report.decrease <= nothing
            quiet = 0 if halved or report.decrease > _NOTHING * found.gap else quiet + 1
            best_gap = min(best_gap, found.gap)
            self.n_iter, radius = self.n_iter + report.steps, report.radius
            state = self._balanced(report.state.x)
        settled = self._capped and state.x.rank >= self._cap and died_out
        return JointFit(
            state.x, found.objective, found.gap, found.relative_gap, self.n_iter, reached or settled
        )

    def _balanced(self, x: JointFactors) -> JointState:
        """The same W and N at the least penalty, without directions that died out."""
        _, left, right = balanced(x.left, x.right, _DEAD)
        _, row_left, row_right = balanced(x.row_left, x.row_right, _DEAD)
        W = left[:, : self._cap], right[:, : self._cap]
        arrays = (*W, row_left, row_right, x.intercept)
        return JointState(self._problem, JointFactors(*(contiguous(array) for array in arrays)))

    def _grown(self, state: JointState, found: JointCertificate) -> JointState | None:
        """The state with new directions of W and N, each as far as its curvature says; None without any."""
        problem, x = self._problem, state.x
        negligible, trace, mu = 0.1 * self._tol, problem.penalties.trace, problem.row_penalty
        U, V, surplus = fresh_directions(found.residual, trace, x.left, self._cap, negligible)
        S, T, row_surplus = fresh_directions(found.row_residual, mu, x.row_left, self._row_cap, negligible)
        if not len(surplus) + len(row_surplus):
            return None
        bent = state.point.curvature_along(problem.features.product(contiguous(U)), V)
        bent = bent + problem.penalties.ridge
        row_bent = state.point.curvature_along(S, T)
        lengths, row_lengths = (
            np.sqrt(most / np.maximum(curvature, smallest(x.intercept)))
            for most, curvature in ((surplus, bent), (row_surplus, row_bent))
        )
        grown = state
        for trial in range(_GROWTH_TRIALS):
            shorter = 0.5**trial
            grown = JointState(
                problem,
                JointFactors(
                    np.hstack([x.left, -shorter * lengths * U]),
                    np.hstack([x.right, shorter * lengths * V]),
                    np.hstack([x.row_left, -shorter * row_lengths * S]),
                    np.hstack([x.row_right, shorter * row_lengths * T]),
                    x.intercept,
                ),
            )
            if grown.value < state.value:
                break
        return grown
