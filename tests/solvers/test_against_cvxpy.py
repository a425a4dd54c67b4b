"""Both solvers reach the optimum that CVXPY finds, and never claim more than is true."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.losses import loss_names
from labelgap.solvers import SOLVERS, Penalties
from solver_problems import METHODS, Case

pytestmark = pytest.mark.pairwise

TOL = 5e-6
# CVXPY's own error, relative to the optimum.
ORACLE = 2e-8
BOUND = 0.3

# Kind of features, intercept, weights and ridge: half of all combinations. Any three of the four occur in all
# of theirs.
CROSS = [
    ("identity" if identity else "dense", not without, weighted, 0.05 * ridge)
    for identity, without, weighted, ridge in product([False, True], repeat=4)
    if (identity + without + weighted + ridge) % 2 == 0
]
# The solvers' own defaults, or less.
MAX_ITER = {"factored": 500, "proximal": 1000}


@cache
def largest_penalty(case):
    return largest_trace_penalty(case.objective())


def solved(case, penalties, solver):
    """Fit, and check everything that is claimed of it except ``converged``."""
    objective = case.objective(free_intercept=penalties.intercept == 0)
    settings = SolverSettings(SOLVERS[solver], tol=TOL, max_iter=MAX_ITER[solver])
    fit = settings.fit(objective, penalties)
    optimum = case.optimum(penalties)
    excess = fit.objective - optimum
    assert abs(excess) <= 1e-5 * optimum
    assert fit.gap >= excess - ORACLE * optimum
    assert fit.gap == pytest.approx(fit.relative_gap * fit.objective)
    # The reported objective is that of the returned model.
    at_model = objective.at(fit.factors).value + penalties.of(fit.singular_values, fit.factors.intercept)
    assert at_model == pytest.approx(fit.objective, rel=1e-9)
    W = fit.factors.left @ fit.factors.right.T
    values = np.linalg.svd(W, compute_uv=False)[: fit.rank]
    np.testing.assert_allclose(values, fit.singular_values, rtol=1e-8, atol=1e-12)
    if case.bound is not None:
        assert np.abs(case.scores(fit.factors)).max() <= case.bound * (1 + 1e-10)
    return fit


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize(
    ("kind", "intercept", "weighted", "ridge"),
    # What differs with CSR features is the products, so a few suffice.
    [*CROSS, ("csr", True, True, 0.05), ("csr", False, False, 0.0)],
)
def test_fits_reach_the_optimum(loss, solver, kind, intercept, weighted, ridge):
    case = Case(kind, loss, intercept, weighted)
    penalties = Penalties(0.15 * largest_penalty(case), ridge * largest_penalty(case))
    fit = solved(case, penalties, solver)
    assert fit.converged
    assert fit.relative_gap <= TOL
    assert 1 <= fit.rank <= 5


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize(
    ("kind", "intercept", "weighted", "ridge"),
    [*CROSS, ("csr", True, True, 0.05)],
)
@pytest.mark.slow
def test_fits_under_a_score_bound_reach_the_optimum(loss, solver, kind, intercept, weighted, ridge):
    case = Case(kind, loss, intercept, weighted, bound=BOUND)
    penalties = Penalties(0.15 * largest_penalty(case), ridge * largest_penalty(case))
    fit = solved(case, penalties, solver)
    # The bound binds: without it the fit would go beyond, here it is touched.
    assert np.abs(case.scores(fit.factors)).max() >= 0.999 * BOUND


@pytest.mark.parametrize("solver", METHODS)
def test_a_bound_that_does_not_bind_changes_nothing(solver):
    free, bounded = Case(intercept=False), Case(intercept=False, bound=100.0)
    penalties = Penalties(0.15 * largest_penalty(free))
    assert solved(bounded, penalties, solver).objective == pytest.approx(
        solved(free, penalties, solver).objective, rel=1e-5
    )


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize("kind", ["dense", "identity", "csr"])
@pytest.mark.parametrize("intercept_penalty", [0.01, 1.0])
def test_penalised_intercepts_reach_the_optimum(loss, solver, kind, intercept_penalty):
    # Uncentred: the penalty of the intercepts acts at the origin of X.
    case = Case(kind, loss, centre=False)
    largest = largest_penalty(case)
    fit = solved(
        case, Penalties(0.15 * largest, 0.05 * largest, intercept=intercept_penalty, centre=-0.4), solver
    )
    assert fit.converged


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize("bound", [None, BOUND])
def test_penalised_intercepts_reach_the_optimum_for_labels_of_one_class_too(loss, solver, bound):
    # The first label is all positive and the second has no entry: the penalty holds their intercepts.
    case = Case("dense", loss, centre=False, bound=bound, one_class=True)
    largest = largest_penalty(Case("dense", loss, centre=False))
    penalties = Penalties(0.15 * largest, intercept=0.05, centre=-0.4)
    fit = solved(case, penalties, solver)
    assert fit.factors.intercept[1] == pytest.approx(-0.4, abs=1e-3)


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize(("kind", "intercept"), list(product(["dense", "identity"], [True, False])))
def test_ridge_alone_reaches_the_optimum(loss, solver, kind, intercept):
    case = Case(kind, loss, intercept)
    fit = solved(case, Penalties(0.0, 0.2 * largest_penalty(case)), solver)
    assert fit.converged


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("loss", loss_names())
def test_ridge_alone_under_a_score_bound_reaches_the_optimum(loss, solver):
    case = Case("dense", loss, bound=BOUND)
    solved(case, Penalties(0.0, 0.2 * largest_penalty(case)), solver)


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("fraction", [0.9, 0.5, 0.02])
def test_any_strength_of_the_trace_penalty_reaches_the_optimum(solver, fraction):
    case = Case("dense", n=20, d=5, n_labels=7, seed=11)
    fit = solved(case, Penalties(fraction * largest_penalty(case)), solver)
    assert fit.converged


@pytest.mark.parametrize("solver", METHODS)
def test_more_features_than_rows_reach_the_optimum(solver):
    case = Case("dense", n=8, d=12, n_labels=4, seed=2)
    fit = solved(case, Penalties(0.2 * largest_penalty(case)), solver)
    assert fit.converged


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize(
    ("case", "trace", "ridge"),
    [
        (Case("csr", "exponential", intercept=False, n=14, d=6, n_labels=6, seed=11885), 1.2e-3, 0.0),
        (Case("dense", "logistic", centre=False, n=19, d=6, n_labels=6, seed=566161), 1.1e-3, 0.0),
        (Case("csr", "squared_hinge", weighted=True, n=21, d=7, n_labels=5, seed=29807), 0.0, 2e-4),
    ],
    ids=["exponential", "logistic", "ridge alone"],
)
def test_fits_with_small_penalties_do_not_stop_early(case, trace, ridge, solver):
    # Far from the optimum the gap stays near 1 for many steps while the objective falls: no sign of rounding.
    largest = largest_penalty(case)
    solved(case, Penalties(trace * largest, ridge * largest), solver)
