"""Scores XW + N: the solver reaches the optimum that CVXPY finds, and never claims more than is true."""

from functools import cache

import numpy as np
import pytest

from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.labels import ObservedLabels
from labelgap.losses import loss_names
from labelgap.objective.protocol import Factors
from labelgap.solvers import SOLVERS, Penalties
from labelgap.solvers.joint_state import (
    JointFactors,
    JointProblem,
    JointState,
    certify_joint,
    smallest_useless_penalty,
)
from labelgap.solvers.row_part import solve_joint
from oracles_solver import cvxpy_optimum
from solver_problems import Case, make_problem

TOL = 5e-6
# CVXPY's own error, relative to the optimum.
ORACLE = 1e-7


@cache
def largest_penalties(case):
    """λ_max without N, and the largest singular value of the gradient at W = 0 as a scale of μ."""
    own = make_problem(None, case.labels, case.loss, fit_intercept=case.intercept)
    return largest_trace_penalty(case.objective()), largest_trace_penalty(own.objective(case.labels))


def joint_problem(case, penalties, row_penalty):
    own = make_problem(None, case.labels, case.loss, fit_intercept=case.intercept)
    objective = own.objective(case.labels, free_intercept=penalties.intercept == 0)
    return JointProblem(objective, case.problem.row_features, penalties, row_penalty)


def nothing(problem):
    shape = problem.features.n_features, problem.objective.shape[1]
    start = Factors.zero(shape, problem.objective.starting_intercept())
    return JointFactors.without_rows(start, problem.objective.shape[0])


def optimum(case, penalties, row_penalty):
    X, Y, weights = case.data
    return cvxpy_optimum(
        X,
        Y,
        case.loss,
        penalties.trace,
        ridge=penalties.ridge,
        weights=weights,
        intercept=case.intercept,
        intercept_penalty=penalties.intercept,
        centre=penalties.centre,
        row_penalty=row_penalty,
    )


def solved(case, penalties, row_penalty):
    """Fit, and check everything that is claimed of it."""
    problem = joint_problem(case, penalties, row_penalty)
    fit = solve_joint(problem, nothing(problem), tol=TOL)
    best = optimum(case, penalties, row_penalty)
    excess = fit.objective - best
    assert abs(excess) <= 1e-5 * best
    assert fit.gap >= excess - ORACLE * best
    assert fit.converged
    assert fit.relative_gap <= TOL
    # The reported objective is that of the returned model.
    x = fit.factors
    W, N = x.left @ x.right.T, x.row_left @ x.row_right.T
    norms = [np.linalg.norm(M, "nuc") for M in (W, N)]
    value = problem.at(x).value + penalties.trace * norms[0] + row_penalty * norms[1]
    value += 0.5 * penalties.ridge * np.sum(W**2) + penalties.of_intercept(x.intercept)
    assert value == pytest.approx(fit.objective, rel=1e-9)
    return fit


@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize(
    ("kind", "intercept", "weighted", "ridge"),
    [("dense", True, False, 0.05), ("csr", True, True, 0.0), ("dense", False, True, 0.05)],
)
def test_fits_reach_the_optimum(loss, kind, intercept, weighted, ridge):
    case = Case(kind, loss, intercept, weighted)
    largest, row_largest = largest_penalties(case)
    fit = solved(case, Penalties(0.2 * largest, ridge * largest), 0.3 * row_largest)
    assert fit.factors.rank >= 1
    assert fit.factors.row_rank >= 1


@pytest.mark.parametrize("loss", loss_names())
def test_penalised_intercepts_reach_the_optimum(loss):
    case = Case("dense", loss, centre=False)
    largest, row_largest = largest_penalties(case)
    penalties = Penalties(0.2 * largest, 0.05 * largest, intercept=0.1, centre=-0.4)
    solved(case, penalties, 0.3 * row_largest)


def test_a_ridge_alone_on_W_reaches_the_optimum():
    case = Case()
    largest, row_largest = largest_penalties(case)
    solved(case, Penalties(0.0, 0.2 * largest), 0.3 * row_largest)


@pytest.mark.parametrize(("fraction", "row_fraction"), [(0.05, 0.6), (0.9, 0.1), (0.1, 0.1)])
@pytest.mark.slow
def test_any_strengths_of_the_two_reach_the_optimum(fraction, row_fraction):
    case = Case("dense", n=20, d=5, n_labels=7, seed=11)
    largest, row_largest = largest_penalties(case)
    solved(case, Penalties(fraction * largest), row_fraction * row_largest)


@pytest.mark.parametrize("intercept_penalty", [0.0, 0.1])
def test_from_the_smallest_useless_penalty_on_the_fit_is_that_without_rows(intercept_penalty):
    case = Case("dense", centre=intercept_penalty == 0, n=30, d=3, n_labels=6, seed=5)
    penalties = Penalties(0.2 * largest_penalties(case)[0], 0.01, intercept_penalty, -0.3)
    alone = SolverSettings(SOLVERS["factored"], tol=1e-9).fit(
        case.objective(free_intercept=intercept_penalty == 0), penalties
    )
    useless = smallest_useless_penalty(joint_problem(case, penalties, 1.0), alone.factors)
    start = JointFactors.without_rows(alone.factors, case.n)
    above = joint_problem(case, penalties, 1.001 * useless)
    # Nothing has to be done: the fit without N is certified as it stands.
    assert certify_joint(above, JointState(above, start)).relative_gap <= 1e-7
    fit = solve_joint(above, start, tol=1e-6)
    assert fit.n_iter == 0
    assert fit.factors.row_rank == 0
    assert fit.objective == pytest.approx(alone.objective, rel=1e-8)
    below = joint_problem(case, penalties, 0.9 * useless)
    fit = solve_joint(below, start, tol=1e-6)
    assert fit.factors.row_rank >= 1
    assert fit.objective < alone.objective


def test_without_features_worth_having_N_is_the_fit_of_rows_alone():
    case = Case(n=18, n_labels=6, seed=8)
    largest, row_largest = largest_penalties(case)
    mu = 0.3 * row_largest
    problem = joint_problem(case, Penalties(50 * largest), mu)
    fit = solve_joint(problem, nothing(problem), tol=1e-7)
    own = SolverSettings(SOLVERS["factored"], tol=1e-7).fit(problem.objective, Penalties(mu))
    assert fit.factors.rank == 0
    assert fit.objective == pytest.approx(own.objective, rel=1e-6)


def test_permuted_rows_and_labels_permute_the_result():
    case = Case(n=16, n_labels=6, seed=4)
    largest, row_largest = largest_penalties(case)
    penalties, mu = Penalties(0.2 * largest, 0.02 * largest), 0.3 * row_largest
    X, Y, _ = case.data
    rng = np.random.default_rng(0)
    rows, labels = rng.permutation(len(Y)), rng.permutation(Y.shape[1])
    found = []
    for features, values in ((X, Y), (X[rows], Y[rows][:, labels])):
        given = ObservedLabels.from_dense(values)
        shared = make_problem(features, given, features={"centre": True})
        own = make_problem(None, given)
        problem = JointProblem(own.objective(given), shared.row_features, penalties, mu)
        x = solve_joint(problem, nothing(problem), tol=1e-9).factors
        found.append(shared.left(x.left) @ x.right.T + x.row_left @ x.row_right.T + x.intercept)
    np.testing.assert_allclose(found[0][rows][:, labels], found[1], atol=1e-3)


def test_a_bound_is_true_at_any_place():
    case = Case(n=12, n_labels=5, seed=9)
    largest, row_largest = largest_penalties(case)
    penalties, mu = Penalties(0.2 * largest, 0.02), 0.3 * row_largest
    problem = joint_problem(case, penalties, mu)
    best = optimum(case, penalties, mu)
    rng = np.random.default_rng(1)
    for size in (0.01, 0.3, 3.0):
        start = nothing(problem)
        shapes = (start.left.shape[0], start.right.shape[0], case.n, start.right.shape[0])
        blocks = [size * rng.standard_normal((length, 2)) for length in shapes]
        state = JointState(problem, JointFactors(*blocks, start.intercept))
        assert certify_joint(problem, state).dual <= best * (1 + 1e-8)


def test_a_cap_holds_the_rank_of_W():
    case = Case(n=20, d=5, n_labels=7, seed=11)
    largest, row_largest = largest_penalties(case)
    problem = joint_problem(case, Penalties(0.05 * largest), 0.5 * row_largest)
    fit = solve_joint(problem, nothing(problem), rank=1, tol=1e-4)
    free = solve_joint(problem, nothing(problem), tol=1e-6)
    assert fit.factors.rank == 1 < free.factors.rank
    assert fit.converged
    # The gap is about the optimum without the cap.
    assert fit.gap >= fit.objective - free.objective - 1e-9
