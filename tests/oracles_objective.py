"""The data term with dense matrices and loops over entries: slow and obvious.

And the checks that every data term must pass against it, and the convex problem of a design for CVXPY.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from labelgap.objective.protocol import Factors, Objective, Point, ScoreGradient
from solver_problems import random_factors

CLOSE = {"rtol": 1e-10, "atol": 1e-13}


@dataclass
class DenseTerm:
    """``Σ ω_ij ℓ(z_ij + offset_ij, y_ij)`` with ``Z = X W Fᵀ + 1bᵀ``, over the entries not NaN in Y.

    ``loss`` may be a list of one loss per label. ``F`` None means the identity.
    """

    X: Any
    Y: Any
    weights: Any
    loss: Any
    intercept: bool
    F: Any = None
    offsets: Any = None

    def __post_init__(self):
        n_labels = self.Y.shape[1]
        self.F = np.eye(n_labels) if self.F is None else self.F
        self.offsets = np.zeros(self.Y.shape) if self.offsets is None else self.offsets
        self.losses = self.loss if isinstance(self.loss, list) else [self.loss] * n_labels

    @property
    def entries(self):
        return list(zip(*np.nonzero(~np.isnan(self.Y)), strict=True))

    def low_rank(self, factors):
        """``X W Fᵀ``."""
        return self.X @ factors.left @ factors.right.T @ self.F.T

    def scores(self, factors):
        return self.low_rank(factors) + (factors.intercept if self.intercept else 0.0)

    def value(self, factors):
        return float(self._on_entries("value", factors).sum())

    def score_gradient(self, factors):
        """G as a dense n x L matrix, zero where nothing is observed."""
        return self._on_entries("gradient", factors)

    def score_curvature(self, factors):
        return self._on_entries("curvature", factors)

    def _on_entries(self, name, factors):
        Z, dense = self.scores(factors) + self.offsets, np.zeros(self.Y.shape)
        for j, loss in enumerate(self.losses):
            e = ~np.isnan(self.Y[:, j]), j
            dense[e] = self.weights[e] * getattr(loss, name)(Z[e], self.Y[e])
        return dense

    def gradient(self, factors):
        """With respect to (A, B, b), one flat vector."""
        G = self.score_gradient(factors)
        A, B, _ = factors
        db = G.sum(axis=0) if self.intercept else np.zeros(len(self.F))
        XtGF = self.X.T @ G @ self.F
        return np.concatenate([(XtGF @ B).ravel(), (XtGF.T @ A).ravel(), db])

    def score_jacobian(self, factors):
        """∂z_e/∂(A, B, b), one row per entry."""
        A, B, _ = factors
        (d, k), (r, _) = A.shape, B.shape
        Q = self.F @ B
        J = np.zeros((len(self.entries), d * k + r * k + len(self.F)))
        for row, (i, j) in enumerate(self.entries):
            J[row, : d * k] = np.outer(self.X[i], Q[j]).ravel()
            J[row, d * k : d * k + r * k] = np.outer(self.F[j], self.X[i] @ A).ravel()
            J[row, d * k + r * k + j] = float(self.intercept)
        return J

    def gauss_newton_hessian(self, factors):
        J, D = self.score_jacobian(factors), self.score_curvature(factors)
        return J.T @ (np.array([D[e] for e in self.entries])[:, None] * J)

    def hessian(self, factors):
        """The Gauss–Newton part, and the cross term ``Σ_e G_e ∇²z_e`` between A and B."""
        A, B, b = factors
        (d, k), (r, _) = A.shape, B.shape
        cross = np.zeros((d * k + r * k + len(b),) * 2)
        XtGF = self.X.T @ self.score_gradient(factors) @ self.F
        for f in range(d):
            for j in range(r):
                for c in range(k):
                    cross[f * k + c, d * k + j * k + c] = XtGF[f, j]
        return self.gauss_newton_hessian(factors) + cross + cross.T

    def conjugate(self, G):
        """``f*(G)`` for a dense G."""
        total = 0.0
        for e in self.entries:
            weight = self.weights[e]
            total += weight * float(self.losses[e[1]].conjugate(G[e] / weight, self.Y[e]))
            total -= G[e] * self.offsets[e]
        return total


def flat(factors):
    return np.concatenate([part.ravel() for part in factors])


@dataclass
class Setup:
    """A data term and its oracle, in the same coordinates."""

    objective: Any
    oracle: DenseTerm

    def factors(self, rank=2, seed=0, size=0.5):
        d, r = self.objective.shape
        A, B, _ = random_factors(np.random.default_rng(seed), d, r, rank, size)
        return Factors(A, B, size * np.random.default_rng(seed + 100).standard_normal(len(self.oracle.F)))

    def XtGF(self, factors):
        return self.oracle.X.T @ self.oracle.score_gradient(factors) @ self.oracle.F


class AgainstDense:
    """Tests of a fixture ``setup``: every answer of a data term is that of the dense formulas."""

    def test_the_classes_keep_the_protocols(self, setup):
        objective = setup.objective
        point = objective.at(setup.factors())
        assert isinstance(objective, Objective)
        assert isinstance(point, Point)
        assert isinstance(point.score_gradient(), ScoreGradient)
        assert objective.shape == (setup.oracle.X.shape[1], setup.oracle.F.shape[1])
        assert objective.n_labels == len(setup.oracle.F)
        assert objective.has_intercept == setup.oracle.intercept
        assert objective.dtype == np.float64
        assert objective.may_form

    @pytest.mark.parametrize("rank", [0, 1, 3])
    def test_value_and_gradient(self, setup, rank):
        factors = setup.factors(rank)
        point = setup.objective.at(factors)
        assert_allclose(point.value, setup.oracle.value(factors), **CLOSE)
        assert_allclose(flat(point.gradient()), setup.oracle.gradient(factors), **CLOSE)

    @pytest.mark.parametrize("rank", [0, 1, 4])
    def test_a_product_that_the_caller_has_made_changes_nothing(self, setup, rank):
        factors = setup.factors(rank)
        same_point(setup.objective.at(factors, factors.left @ factors.right.T), setup.objective.at(factors))

    @pytest.mark.parametrize("rank", [0, 2])
    def test_hessian_product_and_diagonal(self, setup, rank):
        factors, direction = setup.factors(rank), setup.factors(rank, seed=1)
        point, hessian = setup.objective.at(factors), setup.oracle.hessian(factors)
        assert_allclose(flat(point.hessian_product(direction)), hessian @ flat(direction), **CLOSE)
        assert_allclose(flat(point.hessian_diagonal()), np.diag(hessian), **CLOSE)

    def test_curvature_along_rank_one_directions(self, setup):
        rng, factors, oracle = np.random.default_rng(7), setup.factors(), setup.oracle
        d, r = setup.objective.shape
        U, V = rng.standard_normal((d, 3)), rng.standard_normal((r, 3))
        pairs = zip((oracle.X @ U).T, (oracle.F @ V).T, strict=True)
        expected = [np.sum(oracle.score_curvature(factors) * np.outer(u, v) ** 2) for u, v in pairs]
        assert_allclose(setup.objective.at(factors).curvature_along(U, V), expected, **CLOSE)

    def test_label_curvature_and_signed_sums(self, setup):
        factors, oracle = setup.factors(), setup.oracle
        point = setup.objective.at(factors)
        # Without an intercept there is nothing to differentiate by.
        on = float(oracle.intercept)
        assert_allclose(point.label_curvature(), on * oracle.score_curvature(factors).sum(axis=0), **CLOSE)
        up, down = point.signed_label_sums()
        assert np.all(up >= 0)
        assert np.all(down <= 0)
        assert_allclose(up + down, on * oracle.score_gradient(factors).sum(axis=0), **CLOSE)

    def test_score_gradient_as_a_linear_map(self, setup):
        rng, factors = np.random.default_rng(8), setup.factors()
        gradient, expected = setup.objective.at(factors).score_gradient(), setup.XtGF(factors)
        d, r = setup.objective.shape
        U, V = rng.standard_normal((d, 3)), rng.standard_normal((r, 2))
        assert_allclose(gradient.matrix(), expected, **CLOSE)
        assert_allclose(gradient.left_product(V), expected @ V, **CLOSE)
        assert_allclose(gradient.right_product(U), expected.T @ U, **CLOSE)

    def test_with_intercept_equals_a_fresh_point(self, setup):
        factors, other = setup.factors(), setup.factors(seed=1)
        moved = setup.objective.at(factors).with_intercept(other.intercept)
        same_point(moved, setup.objective.at(factors._replace(intercept=other.intercept)))

    @pytest.mark.parametrize("ranks", [(2, 1), (1, 0)])
    def test_beyond_goes_on_in_a_straight_line(self, setup, ranks):
        here, before, step = setup.factors(ranks[0]), setup.factors(ranks[1], seed=1), 0.6
        ahead = setup.objective.at(here).beyond(setup.objective.at(before), step)
        W = (1 + step) * here.left @ here.right.T - step * before.left @ before.right.T
        b = (1 + step) * here.intercept - step * before.intercept
        assert_allclose(ahead.factors.left @ ahead.factors.right.T, W, **CLOSE)
        assert_allclose(ahead.factors.intercept, b, **CLOSE)
        same_point(ahead, setup.objective.at(ahead.factors))
        # A derived point can be derived from again.
        again = ahead.with_intercept(here.intercept)
        same_point(again, setup.objective.at(ahead.factors._replace(intercept=here.intercept)))

    def test_slope_towards_is_the_inner_product_with_the_gradient_in_W(self, setup):
        here, there = setup.factors(2), setup.factors(1, seed=1)
        difference = there.left @ there.right.T - here.left @ here.right.T
        slope = setup.objective.at(here).slope_towards(setup.objective.at(there))
        assert_allclose(slope, np.sum(setup.XtGF(here) * difference), **CLOSE)


def same_point(point, fresh):
    """Every answer of a derived point is that of one computed from scratch."""
    for mine, other in zip(answers(point), answers(fresh), strict=True):
        assert_allclose(mine, other, **CLOSE)


def answers(point):
    """What a point says that does not depend on how W was split into factors, and its gradients."""
    gradient = point.score_gradient()
    yield from (point.value, point.size)
    yield from (flat(point.gradient()), flat(point.hessian_diagonal()))
    yield point.label_curvature()
    yield np.add(*point.signed_label_sums())
    yield gradient.matrix()
    yield gradient.conjugate(1.0)


def cvxpy_design_optimum(
    X, F, Y, loss, trace, *, ridge=0.0, weights=None, offsets=None, intercept=True, bound=None
):
    """Optimal value of the mean loss of ``X W Fᵀ + 1bᵀ + offsets`` over the entries not NaN, plus penalties.

    ``loss`` is a function of the scores (one per entry) and the values, in CVXPY's terms.
    """
    n, n_labels = Y.shape
    rows, cols = np.nonzero(~np.isnan(Y))
    omega = np.ones(len(rows)) if weights is None else weights[rows, cols]
    W, b = cp.Variable((X.shape[1], F.shape[1])), cp.Variable((1, n_labels))
    low_rank = X @ W @ F.T
    Z = low_rank + np.ones((n, 1)) @ b if intercept else low_rank
    pick = np.zeros((len(rows), n * n_labels))
    pick[np.arange(len(rows)), rows * n_labels + cols] = 1
    z = pick @ cp.vec(Z, order="C") + (0.0 if offsets is None else offsets[rows, cols])
    objective = cp.sum(cp.multiply(omega / omega.sum(), loss(z, Y[rows, cols]))) + trace * cp.normNuc(W)
    if ridge:
        objective = objective + ridge / 2 * cp.sum_squares(W)
    problem = cp.Problem(cp.Minimize(objective), [] if bound is None else [cp.abs(low_rank) <= bound])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert problem.status in ("optimal", "optimal_inaccurate"), problem.status
    return float(problem.value)


CVXPY_LOSSES = {
    "logistic": lambda z, y: cp.logistic(-cp.multiply(2 * y - 1, z)),
    "squared": lambda z, y: cp.square(1 - cp.multiply(2 * y - 1, z)),
    "poisson": lambda z, y: cp.exp(z) - cp.multiply(y, z) + _entropy(y) - y,
    "gaussian": lambda z, y: cp.square(z - y) / 2,
}


def _entropy(y):
    return y * np.log(np.maximum(y, np.finfo(float).tiny))
