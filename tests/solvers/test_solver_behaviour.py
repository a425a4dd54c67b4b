import threading
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.labels import ObservedLabels
from labelgap.losses import get_loss, loss_names
from labelgap.objective.moments import smoothed_rates
from labelgap.solvers import RIVALS, SOLVERS, Penalties
from labelgap.solvers.loop import Checkpoint
from solver_problems import (
    Case,
    make_problem,
    random_factors,
    random_features,
    random_labels,
)

pytestmark = pytest.mark.pairwise

EVERY = pytest.mark.parametrize("solver", SOLVERS)


def in_original(problem, fit):
    left, right, intercept = problem.to_original(fit.factors)
    return left @ right.T, intercept


def fit_data(X, labels, solver, penalties, loss="logistic", intercept=True, **options):
    """W and b in the coordinates of X (None = identity), and the fit."""
    problem = make_problem(X, labels, loss, features={"centre": intercept}, fit_intercept=intercept)
    fit = SOLVERS[solver](problem.objective(labels), penalties, **{"tol": 1e-8, **options})
    return *in_original(problem, fit), fit


@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize("kind", ["dense", "identity"])
def test_the_factored_solver_reaches_the_last_digits(loss, kind):
    # A gap of 1e-12 is far below what differences of the objective show.
    objective = Case(kind, loss, n=20, d=6, n_labels=7).objective()
    fit = SOLVERS["factored"](objective, Penalties(0.2 * largest_trace_penalty(objective)), tol=1e-12)
    assert fit.converged
    assert fit.n_iter < 300


@EVERY
def test_a_cap_that_does_not_bind_changes_nothing(solver):
    case = Case(n=20, d=5, n_labels=6)
    objective = case.objective()
    penalties = Penalties(0.3 * largest_trace_penalty(objective))
    free = SOLVERS[solver](objective, penalties, tol=1e-7)
    assert 1 <= free.rank < 5
    fit = SOLVERS[solver](objective, penalties, rank=free.rank, tol=1e-6)
    assert fit.converged
    assert not fit.capped
    assert fit.objective == pytest.approx(free.objective, rel=1e-6)


@EVERY
@pytest.mark.parametrize("kind", ["dense", "csr", "identity"])
def test_rows_and_labels_without_entries_change_nothing(solver, kind):
    rng = np.random.default_rng(2)
    X, Y = random_features(rng, kind, 18, 4), random_labels(rng, 18, 6)
    Y[[4, 9, 17]], Y[:, 3] = np.nan, np.nan
    rows, columns = np.setdiff1d(np.arange(18), [4, 9, 17]), np.setdiff1d(np.arange(6), [3])
    penalties = Penalties(0.03, 1e-3)
    W, b, fit = fit_data(X, ObservedLabels.from_dense(Y), solver, penalties)
    part = ObservedLabels.from_dense(Y[np.ix_(rows, columns)])
    W2, b2, fit2 = fit_data(None if X is None else X[rows], part, solver, penalties)
    assert fit2.objective == pytest.approx(fit.objective, rel=1e-7)
    assert_allclose(W[:, columns] if X is not None else W[np.ix_(rows, columns)], W2, atol=1e-3)
    assert_allclose(b[columns], b2, atol=1e-3)
    assert_allclose(W[:, 3], 0, atol=1e-12)
    if X is None:
        assert_allclose(W[[4, 9, 17]], 0, atol=1e-12)


@EVERY
@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize("kind", ["dense", "identity"])
def test_one_class_labels_get_the_smoothed_rate_and_a_zero_column(solver, loss, kind):
    rng = np.random.default_rng(4)
    X, Y = random_features(rng, kind, 16, 4), random_labels(rng, 16, 6)
    Y[Y[:, 0] == 0, 0] = np.nan
    Y[Y[:, 2] == 1, 2] = np.nan
    Y[:, 5] = np.nan
    labels = ObservedLabels.from_dense(Y).with_weights(rng.uniform(0.5, 2, Y.shape))
    penalties = Penalties(0.01, 1e-4)
    W, b, fit = fit_data(X, labels, solver, penalties, loss=loss, tol=1e-6)
    assert fit.rank > 0
    expected = get_loss(loss).link(smoothed_rates(labels).rate)
    silent = [0, 2, 5]
    assert_allclose(W[:, silent], 0, atol=1e-12)
    # In the coordinates of X, where a centred fit puts mean·W into the intercept: for W = 0 that is nothing.
    assert_allclose(b[silent], expected[silent], rtol=1e-9)


@EVERY
def test_one_class_labels_alone_give_zero_without_a_warning(solver):
    labels = ObservedLabels.from_dense([[1, 0, np.nan], [1, 0, np.nan], [np.nan, 0, np.nan]])
    W, b, fit = fit_data(np.arange(6.0).reshape(3, 2), labels, solver, Penalties(0.1))
    assert fit.converged
    assert fit.objective == fit.gap == 0
    assert_array_equal(W, np.zeros((2, 3)))
    assert_allclose(b, get_loss("logistic").link(smoothed_rates(labels).rate))


@EVERY
def test_one_label_and_one_feature_are_enough(solver):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((30, 1))
    Y = (X + 0.5 * rng.standard_normal((30, 1)) > 0.3).astype(float)
    W, b, fit = fit_data(X, ObservedLabels.from_dense(Y), solver, Penalties(0.01), tol=1e-8)
    assert fit.converged
    assert fit.rank == 1
    # One column: trace norm and absolute value are the same thing.
    z = X[:, 0] * W[0, 0] + b[0]
    slope = 1 / (1 + np.exp(-z)) - Y[:, 0]
    assert np.mean(slope) == pytest.approx(0, abs=1e-4)
    assert np.mean(slope * X[:, 0]) == pytest.approx(-0.01 * np.sign(W[0, 0]), abs=1e-4)


def sparse_labels(n, n_labels, n_entries, seed=0):
    """Entries of a rank-one pattern with noise, at random places."""
    rng = np.random.default_rng(seed)
    rows, columns = np.divmod(rng.choice(n * n_labels, n_entries, replace=False), n_labels)
    u, v = rng.standard_normal(n), rng.standard_normal(n_labels)
    values = (u[rows] * v[columns] + 0.3 * rng.standard_normal(n_entries) > 0).astype(int)
    return ObservedLabels.from_triplets(rows, columns, values, shape=(n, n_labels))


@EVERY
def test_collaborative_filtering_with_five_percent_observed(solver):
    labels = sparse_labels(300, 200, 3000)
    objective = make_problem(None, labels).objective(labels)
    fit = SOLVERS[solver](objective, Penalties(0.4 * largest_trace_penalty(objective)))
    assert fit.converged
    assert fit.relative_gap <= 1e-3
    assert fit.rank >= 1


@EVERY
def test_nothing_of_the_size_of_the_whole_matrix_is_made(solver):
    n, n_labels = 3000, 2000
    labels = sparse_labels(n, n_labels, 20_000)

    def fit():
        objective = make_problem(None, labels).objective(labels)
        penalties = Penalties(0.95 * largest_trace_penalty(objective), 1e-5)
        return SOLVERS[solver](objective, penalties)

    # The kernels are loaded before, so that what numba takes is not counted.
    small = Case("identity").objective()
    SOLVERS[solver](small, Penalties(0.5 * largest_trace_penalty(small)))
    tracemalloc.start()
    try:
        found = fit()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.converged
    assert found.rank >= 1
    assert peak < 0.25 * n * n_labels * 8


@pytest.mark.parametrize("solver", [*SOLVERS, *RIVALS])
@pytest.mark.parametrize("bound", [None, 0.5])
@pytest.mark.parametrize("intercept_penalty", [0.0, 0.1])
@pytest.mark.parametrize("size", [30.0, 1e80])
def test_a_fit_that_is_stopped_is_not_worse_than_w_at_zero(solver, bound, intercept_penalty, size):
    # From the larger start the objective is infinite.
    case = Case(n=18, d=4, n_labels=5, bound=bound)
    objective, penalties = case.objective(), Penalties(0.05, 1e-3, intercept_penalty, 0.2)
    nothing = SolverSettings(SOLVERS["factored"], tol=1e-9).fit(
        objective, Penalties(1e6, 1e-3, intercept_penalty, 0.2)
    )
    start = random_factors(np.random.default_rng(1), *objective.shape, 4, size=size)
    stop = threading.Event()
    stop.set()
    settings = SolverSettings({**SOLVERS, **RIVALS}[solver], rank=4, tol=1e-3)
    heard = []
    fit = settings.fit(
        objective, penalties, warm_start=start, callback=heard.append, checkpoint=Checkpoint(stop)
    )
    assert fit.objective <= nothing.objective * (1 + 1e-6)
    assert (heard[-1].objective, heard[-1].gap, heard[-1].rank) == (fit.objective, fit.relative_gap, fit.rank)
    value = objective.at(fit.factors).value + penalties.of(fit.singular_values, fit.factors.intercept)
    assert fit.objective == pytest.approx(value, rel=1e-9)
    assert fit.gap >= fit.objective - settings.fit(objective, penalties).objective - 1e-6


def test_features_mixed_by_an_invertible_matrix_change_no_score_under_a_penalty_on_scores():
    rng = np.random.default_rng(7)
    X, labels = random_features(rng, "dense", 14, 4), ObservedLabels.from_dense(random_labels(rng, 14, 4))
    mixed = X @ np.random.default_rng(0).standard_normal((4, 4)) @ np.diag([1.0, 100.0, 0.01, 1.0])
    scores = []
    for each in (X, mixed):
        problem = make_problem(each, labels, features={"penalty": "scores"})
        fit = SOLVERS["factored"](problem.objective(labels), Penalties(0.02), tol=1e-9)
        left, right, b = problem.to_original(fit.factors)
        scores.append(each @ left @ right.T + b)
    assert_allclose(*scores, atol=1e-3)
