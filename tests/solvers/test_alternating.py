import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.exceptions import InvalidParameterError
from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.labels import ObservedLabels
from labelgap.losses import loss_names
from labelgap.solvers import Penalties, solve_factored
from labelgap.solvers import alternating as alternating_module
from labelgap.solvers.alternating import FEATURES, LABELS, minimise_block, solve_alternating
from solver_problems import Case, dense_coordinates, make_problem, random_factors

pytestmark = pytest.mark.pairwise


def penalties_of(case, trace=0.15, ridge=0.0, **intercept):
    largest = largest_trace_penalty(case.objective())
    return Penalties(trace * largest, ridge * largest, **intercept)


@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize("kind", ["dense", "identity"])
def test_the_objective_never_rises(loss, kind, monkeypatch):
    monkeypatch.setattr(alternating_module, "_CERTIFY_EVERY", 1)
    monkeypatch.setattr(alternating_module, "_FAR", np.inf)
    case = Case(kind, loss, n=20, d=6, n_labels=7)
    seen = []
    fit = solve_alternating(
        case.objective(), penalties_of(case, ridge=0.01), rank=3, tol=1e-6, callback=seen.append
    )
    assert tuple(seen) == fit.history
    assert [report.iteration for report in seen] == list(range(1, fit.n_iter + 1))
    values = np.array([report.objective for report in seen])
    assert np.all(np.diff(values) <= 1e-12 * values[:-1])
    assert seen[-1].objective == fit.objective


@pytest.mark.parametrize("loss", loss_names())
def test_new_columns_do_not_raise_the_objective(loss, monkeypatch):
    monkeypatch.setattr(alternating_module, "_CERTIFY_EVERY", 1)
    monkeypatch.setattr(alternating_module, "_FAR", np.inf)
    case = Case("identity", loss, n=30, n_labels=25)
    fit = solve_alternating(case.objective(), penalties_of(case, trace=0.02), rank=16, tol=1e-6, max_iter=8)
    values = np.array([report.objective for report in fit.history])
    assert np.all(np.diff(values) <= 1e-12 * values[:-1])


def planted(kind, loss, seed, n=60, d=8, n_labels=30, rank=4):
    """Labels drawn from a logistic model of low rank, 60 % of them observed."""
    rng = np.random.default_rng(seed)
    X = np.eye(n) if kind == "identity" else rng.standard_normal((n, d)) / np.sqrt(d)
    Z = 2 * X @ rng.standard_normal((X.shape[1], rank)) @ rng.standard_normal((rank, n_labels))
    Y = (rng.random(Z.shape) < 1 / (1 + np.exp(-Z))).astype(float)
    Y[rng.random(Z.shape) > 0.6] = np.nan
    labels = ObservedLabels.from_dense(Y)
    X = None if kind == "identity" else X
    return make_problem(X, labels, loss, features={"centre": True}).objective(labels)


@pytest.mark.parametrize("kind", ["dense", "identity"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("seed", range(4))
def test_a_rank_smaller_than_needed_ends_near_the_joint_fit(kind, loss, seed):
    # Below the rank of the optimum there are local minima. On labels with a low-rank truth, as here, they lie
    # close together; on pure noise they need not.
    objective = planted(kind, loss, seed)
    penalties = Penalties(0.1 * largest_trace_penalty(objective))
    joint = solve_factored(objective, penalties, rank=2, tol=1e-4)
    assert joint.capped
    fit = solve_alternating(objective, penalties, rank=2, tol=1e-4)
    assert fit.objective <= 1.02 * joint.objective


def test_runs_are_repeatable_and_other_starts_lead_to_the_same_optimum():
    case = Case("identity", n=40, n_labels=30)
    objective, penalties = case.objective(), penalties_of(case, trace=0.3)
    one, again, other = (
        solve_alternating(objective, penalties, rank=20, tol=1e-7, random_state=seed) for seed in (0, 0, 1)
    )
    for part, same in zip(one.factors, again.factors, strict=True):
        assert_array_equal(part, same)
    assert not np.array_equal(one.factors.left, other.factors.left)
    assert one.objective == pytest.approx(other.objective, rel=1e-5)


def test_without_a_rank_it_says_that_it_needs_one():
    with pytest.raises(InvalidParameterError, match="needs a fixed rank: give rank="):
        solve_alternating(Case().objective(), Penalties(0.02))


def test_a_penalty_that_leaves_nothing_of_W_is_seen_at_once():
    case = Case()
    fit = solve_alternating(case.objective(), penalties_of(case, trace=1.01), rank=2)
    assert (fit.rank, fit.n_iter) == (0, 0)
    assert fit.converged
    assert not fit.capped


def test_a_warm_start_from_the_solution_is_done_at_once_and_left_as_it_was():
    objective = Case().objective()
    start = solve_factored(objective, Penalties(0.02), tol=1e-6).factors
    copies = [part.copy() for part in start]
    fit = solve_alternating(objective, Penalties(0.02), rank=4, tol=1e-5, warm_start=start)
    assert fit.n_iter == 0
    assert fit.converged
    for part, copy in zip(start, copies, strict=True):
        assert_array_equal(part, copy)


@pytest.mark.parametrize("start_rank", [0, 1, 2, 4])
def test_a_warm_start_of_any_rank_is_cut_or_filled_up(start_rank):
    case = Case(n=20, d=5, n_labels=6)
    objective, penalties = case.objective(), penalties_of(case, trace=0.05)
    start = random_factors(np.random.default_rng(0), 5, 6, start_rank)
    copies = [part.copy() for part in start]
    fit = solve_alternating(objective, penalties, rank=2, tol=1e-5, warm_start=start)
    assert fit.rank == 2
    # Where it ends, moving all variables together gains nothing either.
    joint = solve_factored(objective, penalties, rank=2, tol=1e-5, warm_start=fit.factors)
    assert fit.objective == pytest.approx(joint.objective, rel=1e-5)
    for part, copy in zip(start, copies, strict=True):
        assert_array_equal(part, copy)


def squared_problem(kind, intercept, seed=5):
    """A squared-loss objective with its explicit features, and factors of rank 2 to start from."""
    case = Case(kind, "squared", intercept, weighted=True, seed=seed)
    objective = case.objective()
    factors = random_factors(np.random.default_rng(seed), *objective.shape, 2)
    return case, objective, dense_coordinates(case.problem, objective), factors


def half_sweep(objective, penalties, factors, block):
    return minimise_block(objective, penalties, objective.at(factors), block, forcing=1e-13, left=1e-6).x


def least_squares(design, target, weights, ridge):
    """``argmin Σ ω (D θ − t)² / Σω + ½ θᵀ R θ``."""
    gram = 2 * design.T @ (weights[:, None] * design) + ridge
    return np.linalg.solve(gram, 2 * design.T @ (weights * target))


@pytest.mark.parametrize("kind", ["dense", "csr", "identity"])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_half_sweep_of_the_labels_is_one_ridge_regression_per_label(kind, intercept):
    case, objective, X, factors = squared_problem(kind, intercept)
    penalties = Penalties(0.03, 0.02)
    after = half_sweep(objective, penalties, factors, LABELS)
    assert_array_equal(after.left, factors.left)
    A, P = factors.left, X @ factors.left
    _, Y, weights = case.data
    fraction = np.where(np.isnan(Y), 0.0, weights) / weights[~np.isnan(Y)].sum()
    for j in range(case.n_labels):
        seen = ~np.isnan(Y[:, j])
        D, R = P[seen], 0.03 * np.eye(2) + 0.02 * A.T @ A
        if intercept:
            D, R = np.hstack([D, np.ones((seen.sum(), 1))]), np.pad(R, (0, 1))
        theta = least_squares(D, 2 * Y[seen, j] - 1, fraction[seen, j], R)
        assert_allclose(after.right[j], theta[:2], rtol=1e-8, atol=1e-10)
        if intercept:
            assert after.intercept[j] == pytest.approx(theta[2], rel=1e-8)


@pytest.mark.parametrize("kind", ["dense", "csr", "identity"])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_half_sweep_of_the_features_is_one_ridge_regression(kind, intercept):
    case, objective, X, factors = squared_problem(kind, intercept)
    after = half_sweep(objective, Penalties(0.03, 0.02), factors, FEATURES)
    assert_array_equal(after.right, factors.right)
    assert_array_equal(after.intercept, factors.intercept)
    _, Y, weights = case.data
    rows, columns = np.nonzero(~np.isnan(Y))
    omega = weights[rows, columns] / weights[rows, columns].sum()
    B = factors.right
    D = np.einsum("ed,ek->edk", X[rows], B[columns]).reshape(len(rows), -1)
    target = 2 * Y[rows, columns] - 1 - (factors.intercept[columns] if intercept else 0)
    R = np.kron(np.eye(X.shape[1]), 0.03 * np.eye(2) + 0.02 * B.T @ B)
    theta = least_squares(D, target, omega, R)
    assert_allclose(after.left.ravel(), theta, rtol=1e-8, atol=1e-10)
