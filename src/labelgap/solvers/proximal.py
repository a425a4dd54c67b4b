"""The convex problem in W itself: accelerated proximal gradient with W kept in low-rank form.

Each step soft-thresholds the singular values of ``Y − τ XᵀG``, a low-rank matrix plus a product with sparse
factors, of which only the leading triplets are computed. The intercept is minimised out at every step, so the
method runs on ``F(W) = min_b f(XW + 1bᵀ)``. Momentum is restarted when the objective rises (O'Donoghue and
Candès), and the step size follows the local curvature both ways (Scheinberg, Goldfarb and Bai).

Slower than :mod:`labelgap.solvers.factored` but with no factorisation to argue about: each serves as the
other's check.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap.objective.protocol import Factors, Objective, Point, ScoreGradient
from labelgap.solvers.certificate import certify
from labelgap.solvers.intercept import with_best_intercept
from labelgap.solvers.penalties import Penalties
from labelgap.solvers.result import Callback, Fit, Recorder
from labelgap.solvers.spectral import LowRankShift, balanced, leading_triplets

Floats = NDArray[Any]

_CERTIFY_EVERY = 10


def solve_proximal(
    objective: Objective,
    penalties: Penalties,
    *,
    rank: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 5000,
    warm_start: Factors | None = None,
    callback: Callback | None = None,
) -> Fit:
    """Minimise to a relative duality gap of ``tol``.

    With a ``rank`` cap only that many singular values survive each step; the gap then still refers to the
    problem without the cap.
    """
    cap = min(objective.n_features, objective.n_labels, rank or objective.n_labels)
    recorder = Recorder(callback)
    start = warm_start or Factors.zero(
        objective.n_features, objective.n_labels, objective.starting_intercept()
    )
    current = with_best_intercept(objective, objective.at(start))
    value = _penalised(current, penalties)
    previous, momentum = current.factors, 1.0
    stiffness = _first_stiffness(objective, current)
    quiet = 0
    iteration = 0
    while True:
        if iteration % _CERTIFY_EVERY == 0 or iteration >= max_iter or quiet >= 3:
            certificate = certify(objective, current, penalties)
            recorder.report(iteration, certificate, current.factors.rank)
            reached = certificate.relative_gap <= tol
            if reached or iteration >= max_iter or quiet >= 3:
                break
        iteration += 1
        while True:
            ratio = stiffness / max(stiffness_before, 1e-300) if iteration > 1 else 1.0
            next_momentum = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2 * ratio))
            beta = (momentum - 1) / next_momentum
            ahead = with_best_intercept(objective, objective.at(_ahead(current.factors, previous, beta)))
            gradient = ahead.score_gradient()
            candidate = _proximal_step(objective, penalties, ahead, gradient, stiffness, cap)
            candidate = with_best_intercept(objective, candidate)
            if _majorised(ahead, gradient, candidate, stiffness):
                break
            stiffness *= 1.6
        stiffness_before = stiffness
        new_value = _penalised(candidate, penalties)
        if new_value > value and momentum > 1.0:
            # The momentum overshot: forget it and step from the last good point.
            previous, momentum = current.factors, 1.0
            continue
        gained = value - new_value
        quiet = quiet + 1 if gained <= 1e-15 * abs(value) else 0
        previous, current, value, momentum = current.factors, candidate, new_value, next_momentum
        stiffness *= 0.95
    factors = current.factors
    values, left, right = balanced(factors.left, factors.right)
    capped = rank is not None and not reached and len(values) >= cap
    return Fit(
        factors=Factors(left, right, factors.intercept),
        singular_values=values,
        objective=certificate.objective,
        gap=certificate.gap,
        relative_gap=certificate.relative_gap,
        n_iter=iteration,
        converged=reached or (capped and quiet >= 3),
        capped=capped,
        history=tuple(recorder.history),
    )


def _penalised(point: Point, penalties: Penalties) -> float:
    values = balanced(point.factors.left, point.factors.right, cutoff=0.0)[0]
    return point.value + penalties.of(values)


def _first_stiffness(objective: Objective, point: Point) -> float:
    """Curvature of f along the leading direction of its gradient."""
    shift = LowRankShift(
        point.score_gradient(), np.zeros((objective.n_features, 0)), np.zeros((objective.n_labels, 0))
    )
    top = leading_triplets(shift, (objective.n_features, objective.n_labels), 1, objective.n_stored)
    return max(float(point.curvature_along(top.left[:, :1], top.right[:, :1])[0]), 1e-12)


def _ahead(current: Factors, previous: Factors, beta: float) -> Factors:
    """``W_t + β (W_t − W_{t−1})``, of rank at most the sum of theirs."""
    if beta <= 0:
        return current
    return Factors(
        np.hstack([current.left, previous.left]),
        np.hstack([(1 + beta) * current.right, -beta * previous.right]),
        current.intercept,
    )


def _proximal_step(
    objective: Objective,
    penalties: Penalties,
    ahead: Point,
    gradient: ScoreGradient,
    stiffness: float,
    cap: int,
) -> Point:
    """``prox_{R/M}(Y − XᵀG/M)`` with R the penalties: shrink the singular values of ``M·Y − XᵀG``."""
    shape = (objective.n_features, objective.n_labels)
    factors = ahead.factors
    shift = LowRankShift(gradient, -stiffness * factors.left, factors.right)
    count = min(factors.rank + 4, *shape)
    while True:
        triplets = leading_triplets(shift, shape, count, objective.n_stored)
        if triplets.values[-1] <= penalties.trace or len(triplets.values) >= min(shape):
            break
        count = min(2 * count, *shape)
    shrunk = (triplets.values - penalties.trace) / (stiffness + penalties.ridge)
    keep = np.flatnonzero(shrunk > 0)[:cap]
    roots = np.sqrt(shrunk[keep])
    return objective.at(
        Factors(-triplets.left[:, keep] * roots, triplets.right[:, keep] * roots, factors.intercept)
    )


def _majorised(ahead: Point, gradient: ScoreGradient, candidate: Point, stiffness: float) -> bool:
    """Whether ``f(W) ≤ f(Y) + ⟨∇f(Y), W − Y⟩ + M/2 ‖W − Y‖²``."""
    a, c = ahead.factors, candidate.factors
    left = np.hstack([c.left, -a.left])
    right = np.hstack([c.right, a.right])
    slope = float(np.sum(left * gradient.left_product(right)))
    square = float(np.sum((left.T @ left) * (right.T @ right)))
    model = ahead.value + slope + 0.5 * stiffness * square
    # Rounding must not send the stiffness to infinity near the optimum.
    return candidate.value <= model + 1e-13 * abs(ahead.value)
