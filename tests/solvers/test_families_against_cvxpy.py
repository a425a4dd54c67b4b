"""Real values, counts and fractions: both solvers reach CVXPY's optimum and claim no more than is true."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import xlogy

from labelgap.estimators.regressor import LowRankRegressor
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.labels import ObservedLabels
from labelgap.losses import family_names, get_family
from labelgap.objective.problem import Problem
from labelgap.solvers import SOLVERS, Penalties
from solver_problems import METHODS, make_problem, random_features

pytestmark = pytest.mark.pairwise

TOL = 5e-6
# CVXPY's own error, relative to the optimum.
ORACLE = 5e-8

every_family = pytest.mark.parametrize("family", family_names())
every_solver = pytest.mark.parametrize("solver", METHODS)


def values_of_family(rng, family, shape, observed=0.7):
    """NaN = not observed. Every label has a value inside the family's range, so the optimum is attained."""
    draw = {
        "gaussian": lambda: 2.0 + 3.0 * rng.standard_normal(shape),
        "poisson": lambda: rng.poisson(rng.gamma(1.0, 2.0, shape)).astype(float),
        # Fractions, with a good part of them at 0 and 1.
        "bernoulli": lambda: np.clip(rng.uniform(-0.4, 1.4, shape), 0.0, 1.0),
    }
    Y = draw[family]()
    Y[rng.random(shape) > observed] = np.nan
    Y[0], Y[1] = 0.5, 0.8
    return Y


def cvxpy_optimum(X, Y, family, penalties, offsets, weights, intercept, bound):
    """Optimal value of the mean half-deviance over the observed entries plus the penalties."""
    n, n_labels = Y.shape
    X = np.eye(n) if X is None else np.asarray(X.todense() if hasattr(X, "todense") else X)
    rows, cols = np.nonzero(~np.isnan(Y))
    y, o = Y[rows, cols], np.zeros(len(rows)) if offsets is None else offsets[rows, cols]
    omega = np.ones(len(rows)) if weights is None else weights[rows, cols]
    omega = omega / omega.sum()
    W, b = cp.Variable((X.shape[1], n_labels)), cp.Variable((1, n_labels))
    XW = X @ W
    Z = XW + np.ones((n, 1)) @ b if intercept else XW
    pick = np.zeros((len(rows), n * n_labels))
    pick[np.arange(len(rows)), rows * n_labels + cols] = 1
    z = pick @ cp.vec(Z, order="C") + o
    loss, constant = {
        "gaussian": lambda: (cp.square(z - y) / 2, 0.0),
        "poisson": lambda: (cp.exp(z) - cp.multiply(y, z), xlogy(y, y) - y),
        "bernoulli": lambda: (cp.logistic(z) - cp.multiply(y, z), xlogy(y, y) + xlogy(1 - y, 1 - y)),
    }[family]()
    objective = cp.sum(cp.multiply(omega, loss)) + penalties.trace * cp.normNuc(W)
    if penalties.ridge:
        objective = objective + penalties.ridge / 2 * cp.sum_squares(W)
    if penalties.intercept:
        objective = objective + penalties.intercept / 2 * cp.sum_squares(b - penalties.centre)
    problem = cp.Problem(cp.Minimize(objective), [] if bound is None else [cp.abs(XW) <= bound])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert problem.status in ("optimal", "optimal_inaccurate"), problem.status
    return float(problem.value) + float(np.sum(omega * constant))


@dataclass(frozen=True)
class Case:
    """One problem, as data and as labelgap sees it."""

    family: str
    kind: str = "dense"
    intercept: bool = True
    weighted: bool = False
    offset: bool = False
    bound: float | None = None
    centre: bool = True
    n: int = 14
    d: int = 4
    n_labels: int = 5
    seed: int = 3
    on_edge: bool = False
    """Whether the first label's values are all 0."""

    @cached_property
    def data(self) -> tuple[Any, Any, Any, Any]:
        """Features (None = identity), values with NaN, offsets and weights like the values or None."""
        rng = np.random.default_rng(self.seed)
        shape = (self.n, self.n_labels)
        X = random_features(rng, self.kind, self.n, self.d)
        Y = values_of_family(rng, self.family, shape)
        if self.on_edge:
            Y[:, 0] *= 0
        # Exposures from 0.2 to 20.
        offsets = np.log(20.0) * rng.uniform(-0.5, 1.0, shape) if self.offset else None
        weights = rng.uniform(0.3, 3.0, shape) if self.weighted else None
        return X, Y, offsets, weights

    @cached_property
    def labels(self) -> ObservedLabels:
        _, Y, offsets, weights = self.data
        return ObservedLabels.from_dense(Y, binary=False).with_offsets(offsets).with_weights(weights)

    @cached_property
    def problem(self) -> Problem:
        X = self.data[0]
        centre = self.centre and self.intercept and self.bound is None
        return make_problem(
            X,
            self.labels,
            get_family(self.family),
            features={"centre": centre},
            fit_intercept=self.intercept,
            score_bound=self.bound,
        )


@cache
def largest_penalty(case):
    return largest_trace_penalty(case.problem.objective(case.labels))


@cache
def optimum_of(case, penalties):
    X, Y, offsets, weights = case.data
    return cvxpy_optimum(X, Y, case.family, penalties, offsets, weights, case.intercept, case.bound)


def solved(case, penalties, solver):
    """Fit, and check everything that is claimed of it except ``converged``."""
    objective = case.problem.objective(case.labels, free_intercept=penalties.intercept == 0)
    settings = SolverSettings(SOLVERS[solver], tol=TOL, max_iter=1000)
    fit = settings.fit(objective, penalties)
    optimum = optimum_of(case, penalties)
    excess = fit.objective - optimum
    assert abs(excess) <= 1e-5 * optimum
    assert fit.gap >= excess - ORACLE * optimum
    at_model = objective.at(fit.factors).value + penalties.of(fit.singular_values, fit.factors.intercept)
    assert at_model == pytest.approx(fit.objective, rel=1e-9)
    # Not only at the end: every bound that was reported on the way is one.
    for report in fit.history:
        assert report.objective * (1 - report.gap) <= optimum * (1 + ORACLE)
    return fit


@every_solver
@every_family
@pytest.mark.parametrize(
    ("kind", "intercept", "known", "ridge"),
    [
        ("dense", True, False, 0.0),
        ("dense", True, True, 0.05),
        ("dense", False, True, 0.0),
        ("dense", False, False, 0.05),
        ("identity", True, True, 0.0),
        ("identity", False, True, 0.05),
        ("csr", True, True, 0.05),
        ("csr", False, False, 0.0),
    ],
)
def test_fits_reach_the_optimum(family, solver, kind, intercept, known, ridge):
    """``known``: with weights and offsets."""
    case = Case(family, kind, intercept, weighted=known, offset=known)
    penalties = Penalties(0.15 * largest_penalty(case), ridge * largest_penalty(case))
    fit = solved(case, penalties, solver)
    assert fit.converged
    assert 1 <= fit.rank <= 5


@every_solver
@every_family
@pytest.mark.parametrize("intercept_penalty", [0.01, 1.0])
def test_penalised_intercepts_reach_the_optimum(family, solver, intercept_penalty):
    case = Case(family, "dense", offset=True, centre=False)
    penalties = Penalties(0.15 * largest_penalty(case), 0.01, intercept=intercept_penalty, centre=-0.4)
    assert solved(case, penalties, solver).converged


@every_solver
@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
def test_a_penalty_holds_the_intercept_of_a_label_on_an_edge(family, solver):
    case = Case(family, "dense", offset=True, centre=False, on_edge=True)
    solved(case, Penalties(0.15 * largest_penalty(case), intercept=0.05, centre=-0.4), solver)


@every_solver
@every_family
def test_ridge_alone_reaches_the_optimum(family, solver):
    case = Case(family, "dense", weighted=True, offset=True)
    assert solved(case, Penalties(0.0, 0.2 * largest_penalty(case)), solver).converged


@every_solver
@every_family
def test_fits_under_a_score_bound_reach_the_optimum(family, solver):
    case = Case(family, "dense", offset=True, bound=0.3)
    fit = solved(case, Penalties(0.1 * largest_penalty(case), 0.01), solver)
    left, right, _ = case.problem.to_original(fit.factors)
    assert np.abs(case.data[0] @ left @ right.T).max() == pytest.approx(0.3, rel=1e-3)


@every_solver
@every_family
@pytest.mark.parametrize("fraction", [0.9, 0.02])
def test_any_strength_of_the_trace_penalty_reaches_the_optimum(family, solver, fraction):
    case = Case(family, "dense", offset=True, n=20, d=5, n_labels=7, seed=11)
    assert solved(case, Penalties(fraction * largest_penalty(case)), solver).converged


@every_solver
@pytest.mark.parametrize(
    ("family", "scale", "shift"),
    [
        ("gaussian", 1.0, 0.0),
        ("gaussian", 1e-7, 0.0),
        ("gaussian", 3e5, 4e7),
        ("poisson", 1.0, 0.0),
        ("bernoulli", 1.0, 0.0),
    ],
)
@pytest.mark.parametrize(("intercept_penalty", "bound"), [(0.0, None), (0.02, None), (0.0, 0.3)])
@pytest.mark.slow
def test_the_regressor_reports_in_the_units_of_the_values(
    family, scale, shift, solver, intercept_penalty, bound
):
    case = Case(family, "dense", weighted=True, offset=True)
    X, Y, offsets, weights = case.data
    Y, offsets = scale * Y + shift, scale * offsets
    given = {"trace_penalty": 0.03 * scale, "ridge_penalty": 0.02, "intercept_penalty": intercept_penalty}
    bound = None if bound is None else bound * scale
    model = LowRankRegressor(family, **given, score_bound=bound, solver=solver, tol=TOL)
    model.fit(X, ObservedLabels.from_dense(Y, weights=weights, binary=False), offset=offsets)
    assert model.trace_penalty_ == given["trace_penalty"]
    common = _common_score(family, Y, offsets, weights)
    penalties = Penalties(given["trace_penalty"], 0.02, intercept_penalty, common)
    optimum = cvxpy_in_units(X, Y, family, penalties, offsets, weights, bound, scale, shift)
    excess = model.objective_ - optimum
    assert abs(excess) <= 1e-5 * optimum
    assert model.duality_gap_ >= excess - ORACLE * optimum
    # The objective is that of the attributes.
    z = model.decision_function(X, offset=offsets)
    loss = get_family(family).value(z, np.nan_to_num(Y, nan=0.5))
    mean = np.average(loss[~np.isnan(Y)], weights=weights[~np.isnan(Y)])
    values = np.linalg.svd(model.coef_, compute_uv=False)
    assert mean + penalties.of(values, model.intercept_) == pytest.approx(model.objective_, rel=1e-7)


def cvxpy_in_units(X, Y, family, penalties, offsets, weights, bound, scale, shift):
    """The optimum by way of values of size 1, which is what CVXPY can cope with."""
    inner = Penalties(
        penalties.trace / scale, penalties.ridge, penalties.intercept, (penalties.centre - shift) / scale
    )
    bound = None if bound is None else bound / scale
    value = cvxpy_optimum(X, (Y - shift) / scale, family, inner, offsets / scale, weights, True, bound)
    return value * scale**2


def _common_score(family, Y, offsets, weights):
    """The score c with ``Σ ω (G'(c + o) − y) = 0``, by bisection."""
    seen = ~np.isnan(Y)
    y, o, omega = Y[seen], offsets[seen], weights[seen]
    reach = np.abs(y).max() + np.abs(o).max() + 1
    low, high = -reach, reach
    for _ in range(200):
        middle = (low + high) / 2
        if np.sum(omega * (get_family(family).inverse_link(middle + o) - y)) > 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2
