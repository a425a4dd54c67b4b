"""``‖XW‖_*`` as a trace norm in whitened coordinates reaches the optimum that CVXPY finds for it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache, cached_property

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.labels import ObservedLabels
from labelgap.losses import get_loss
from labelgap.solvers import Penalties, solve_bounded, solve_factored, solve_proximal
from solver_problems import make_problem, random_features, random_labels

pytestmark = pytest.mark.pairwise

TOL = 5e-6
# CVXPY's own error, relative to the optimum.
ORACLE = 2e-8
BOUND = 0.3
LOSSES = ["logistic", "squared", "squared_hinge", "exponential"]
KINDS = ["dense", "csr", "wide", "dependent", "wide csr"]

SOLVERS = pytest.mark.parametrize("solve", [solve_factored, solve_proximal], ids=["factored", "proximal"])


@dataclass(frozen=True)
class ScoresCase:
    """A small problem with a penalty on its scores."""

    kind: str = "dense"
    loss: str = "logistic"
    intercept: bool = True
    bound: float | None = None

    @cached_property
    def data(self):
        """Features as handed in and labels with NaN."""
        rng = np.random.default_rng(7)
        n, d = (7, 10) if "wide" in self.kind else (14, 4)
        X = random_features(rng, "csr" if "csr" in self.kind else "dense", n, d)
        if self.kind == "dependent":
            X = X @ rng.standard_normal((d, 2)) @ rng.standard_normal((2, d + 1))
        return X, random_labels(rng, n, 4)

    @cached_property
    def labels(self):
        return ObservedLabels.from_dense(self.data[1])

    @cached_property
    def problem(self):
        return problem_of(
            self.data[0], self.labels, self.loss, fit_intercept=self.intercept, score_bound=self.bound
        )

    @cached_property
    def objective(self):
        return self.problem.objective(self.labels)

    def penalties(self, trace=0.15, ridge=0.0):
        largest = _largest(self)
        return Penalties(trace * largest, ridge * largest)


def problem_of(X, labels, loss="logistic", **settings):
    """A problem in which the trace norm and the ridge are of the scores."""
    return make_problem(X, labels, loss, features={"penalty": "scores"}, **settings)


@cache
def _largest(case):
    return largest_trace_penalty(case.objective)


@cache
def optimum(case, penalties):
    """Mean loss over Ω + λ‖XW‖_* + λ₂/2 ‖XW‖_F², b free, |XW| ≤ γ where there is a bound."""
    X, Y = case.data
    X = X.toarray() if sp.issparse(X) else X
    observed = ~np.isnan(Y)
    W, b = cp.Variable((X.shape[1], Y.shape[1])), cp.Variable((1, Y.shape[1]))
    XW = X @ W
    margin = cp.multiply(
        np.where(Y == 1, 1.0, -1.0), XW + (np.ones((len(X), 1)) @ b if case.intercept else 0)
    )
    losses = {
        "logistic": lambda: cp.logistic(-margin),
        "squared": lambda: cp.square(1 - margin),
        "squared_hinge": lambda: cp.square(cp.pos(1 - margin)),
        "exponential": lambda: cp.exp(-margin),
    }
    value = cp.sum(cp.multiply(observed / observed.sum(), losses[case.loss]()))
    value = value + penalties.trace * cp.normNuc(XW)
    if penalties.ridge:
        value = value + penalties.ridge / 2 * cp.sum_squares(XW)
    problem = cp.Problem(cp.Minimize(value), [] if case.bound is None else [cp.abs(XW) <= case.bound])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert problem.status in ("optimal", "optimal_inaccurate"), problem.status
    return float(problem.value)


def objective_of(case, W, b, penalties):
    """The objective in the user's terms, from X and W alone."""
    X, Y = case.data
    XW = X @ W
    observed = ~np.isnan(Y)
    loss = get_loss(case.loss).value((XW + b)[observed], Y[observed]).mean()
    values = np.linalg.svd(XW, compute_uv=False)
    return loss + penalties.trace * values.sum() + penalties.ridge / 2 * np.sum(values**2)


def solved(case, penalties, solve):
    """Fit, and check everything that is claimed of it."""
    options = {"tol": TOL, "max_iter": 1000}
    if case.bound is None:
        fit = solve(case.objective, penalties, **options)
    else:
        fit = solve_bounded(solve, case.objective, penalties, case.objective.bounds, **options)
    best = optimum(case, penalties)
    excess = fit.objective - best
    assert abs(excess) <= 1e-5 * best
    assert fit.gap >= excess - ORACLE * best
    left, right, b = case.problem.to_original(fit.factors)
    W = left @ right.T
    assert W.shape == (case.data[0].shape[1], 4)
    scores = case.problem.left(fit.factors.left) @ fit.factors.right.T
    assert_allclose(case.data[0] @ W, scores, atol=1e-10)
    assert objective_of(case, W, b, penalties) == pytest.approx(fit.objective, rel=1e-9)
    if case.bound is not None:
        assert np.abs(case.data[0] @ W).max() <= case.bound * (1 + 1e-10)
    return fit


@SOLVERS
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [True, False])
def test_fits_reach_the_optimum(kind, loss, intercept, solve):
    case = ScoresCase(kind, loss, intercept)
    fit = solved(case, case.penalties(), solve)
    assert fit.converged
    assert fit.relative_gap <= TOL
    assert fit.rank >= 1


@SOLVERS
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["dense", "wide csr"])
@pytest.mark.parametrize("trace", [0.15, 0.0])
def test_fits_with_a_ridge_on_the_scores_reach_the_optimum(kind, loss, trace, solve):
    case = ScoresCase(kind, loss)
    assert solved(case, case.penalties(trace, ridge=0.05), solve).converged


@SOLVERS
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("kind", "ridge"), [("dense", 0.0), ("csr", 0.05), ("dependent", 0.0)])
def test_fits_under_a_score_bound_reach_the_optimum(kind, ridge, loss, solve):
    case = ScoresCase(kind, loss, bound=BOUND)
    fit = solved(case, case.penalties(ridge=ridge), solve)
    left, right, _ = case.problem.to_original(fit.factors)
    # The bound binds: without it the fit would go beyond, here it is touched.
    assert np.abs(case.data[0] @ left @ right.T).max() >= 0.999 * BOUND


@SOLVERS
def test_above_the_largest_penalty_no_score_is_left_and_just_below_it_one_is(solve):
    case = ScoresCase()
    assert solve(case.objective, case.penalties(1.001)).rank == 0
    assert solve(case.objective, case.penalties(0.99), tol=1e-7).rank == 1


def test_features_that_are_mixed_by_an_invertible_matrix_give_the_same_scores():
    case = ScoresCase()
    X = case.data[0]
    mixed = X @ np.random.default_rng(0).standard_normal((4, 4)) @ np.diag([1.0, 100.0, 0.01, 1.0])
    scores = []
    for each in (X, mixed):
        problem = problem_of(each, case.labels)
        fit = solve_factored(problem.objective(case.labels), case.penalties(), tol=1e-9)
        left, right, b = problem.to_original(fit.factors)
        scores.append(each @ left @ right.T + b)
    assert_allclose(*scores, atol=1e-3)
