"""Scores ``X W Fᵀ + 1bᵀ``: features of the rows and of the labels, alone and stacked."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.kernels.entry_pattern import EntryPattern
from labelgap.labels import ObservedLabels
from labelgap.losses import get_loss
from labelgap.objective.cpu.features import IdentityFeatures, SparseFeatures, StackedFeatures
from labelgap.objective.protocol import Factors
from labelgap.solvers import SOLVERS, Penalties
from labelgap.solvers.certificate import certify
from oracles_objective import (
    CLOSE,
    CVXPY_LOSSES,
    AgainstDense,
    DenseTerm,
    Setup,
    cvxpy_design_optimum,
)
from solver_problems import (
    METHODS,
    dense_coordinates,
    make_problem,
    random_factors,
    random_features,
    random_labels,
)

pytestmark = pytest.mark.pairwise

N, N_LABELS = 8, 5
TOL = 5e-6
# CVXPY's own error, relative to the optimum.
ORACLE = 2e-8


def csr(seed, n, d):
    return random_features(np.random.default_rng(seed), "csr", n, d)


def side(kind, n, seed):
    """Whether rows (or labels) have parameters of their own, their features, and both as a dense matrix."""
    if kind == "identity":
        return True, None, np.eye(n)
    if kind == "csr":
        X = csr(seed, n, 3)
        return False, X, X.toarray()
    if kind == "dense":
        X = random_features(np.random.default_rng(seed), "dense", n, 3)
        return False, X, X
    assert kind == "stacked"
    X = sp.csr_array(sp.hstack([np.ones((n, 1)), csr(seed, n, 2)]))
    return True, X, np.hstack([np.eye(n), X.toarray()])


def two_sided(rows, columns, labels, loss="logistic", *, centre=False, **settings):
    """A problem with features of rows and labels, and both sides as dense matrices."""
    own_rows, X, dense_X = side(rows, labels.shape[0], seed=2)
    own_labels, label_features, F = side(columns, labels.shape[1], seed=3)
    features = {
        "own_rows": own_rows,
        "label_features": label_features,
        "own_labels": own_labels,
        "centre": centre,
    }
    return make_problem(X, labels, loss, features=features, **settings), dense_X, F


# -- StackedFeatures -----------------------------------------------------------------------------------------


@pytest.fixture(params=["three blocks", "one block"])
def stacked(request):
    if request.param == "three blocks":
        ones, X = np.ones((N, 1)), csr(2, N, 2)
        parts = [IdentityFeatures(N), SparseFeatures(ones), SparseFeatures(X)]
        return StackedFeatures(parts), np.hstack([np.eye(N), ones, X.toarray()])
    X = csr(2, N, 4)
    return StackedFeatures([SparseFeatures(X)]), X.toarray()


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_products_of_stacked_features_are_those_of_the_blocks_side_by_side(stacked, rank):
    features, dense = stacked
    rng = np.random.default_rng(3)
    M, V = rng.standard_normal((dense.shape[1], rank)), rng.standard_normal((N, rank))
    assert (features.n_rows, features.n_features) == dense.shape
    assert_allclose(features.product(M), dense @ M, **CLOSE)
    assert_allclose(features.transposed_product(V), dense.T @ V, **CLOSE)
    assert_allclose(features.squared_transposed_product(V), (dense**2).T @ V, **CLOSE)


def test_products_of_stacked_features_leave_their_argument_alone(stacked):
    features, dense = stacked
    M, V = np.ones((dense.shape[1], 2)), np.ones((N, 2))
    features.product(M)[:] = 7
    features.transposed_product(V)[:] = 7
    assert_array_equal(M, 1)
    assert_array_equal(V, 1)


def test_stacked_features_at_the_entries_of_a_pattern(stacked):
    features, dense = stacked
    rng = np.random.default_rng(4)
    S = np.where(rng.random((N, N_LABELS)) < 0.5, rng.standard_normal((N, N_LABELS)), 0.0)
    rows, columns = np.nonzero(S)
    pattern = EntryPattern(np.searchsorted(rows, np.arange(N + 1)), columns, N_LABELS)
    A, Q = rng.standard_normal((dense.shape[1], 2)), rng.standard_normal((N_LABELS, 2))
    scores, P = features.scores_at(pattern, A, Q)
    assert_allclose(scores, (dense @ A @ Q.T)[rows, columns], **CLOSE)
    assert_allclose(P, dense @ A, **CLOSE)
    assert_allclose(features.transposed_matrix(pattern, S[rows, columns]), dense.T @ S, **CLOSE)


def test_sizes_of_stacked_features(stacked):
    features, dense = stacked
    assert features.square_length() == pytest.approx(np.sum(dense**2))
    # The identity takes no memory, sparse blocks their entries and those of their transpose.
    identity = N if dense.shape[1] > 4 else 0
    assert features.n_stored == 2 * (np.count_nonzero(dense) - identity)


# -- the data term -------------------------------------------------------------------------------------------

CASES = [
    ("stacked", "stacked", True, "logistic"),
    ("stacked", "stacked", False, "squared"),
    ("dense", "stacked", True, "exponential"),
    ("csr", "stacked", False, "logistic"),
    ("identity", "stacked", True, "squared_hinge"),
    ("stacked", "identity", True, "logistic"),
    ("csr", "csr", True, "squared"),
]


@cache
def make_setup(rows, columns, intercept, loss):
    rng = np.random.default_rng(6)
    Y = random_labels(rng, N, N_LABELS, observed=0.5)
    # A row and a label without entries; every other label has both classes.
    Y[3, :], Y[:, 2] = np.nan, np.nan
    weights = rng.uniform(0.2, 2.0, Y.shape)
    labels = ObservedLabels.from_dense(Y).with_weights(weights)
    problem, _, F = two_sided(rows, columns, labels, loss, fit_intercept=intercept)
    objective = problem.objective(labels)
    weights = weights / weights[~np.isnan(Y)].sum()
    X = dense_coordinates(problem, objective)
    return Setup(objective, DenseTerm(X, Y, weights, get_loss(loss), intercept, F=F))


@pytest.fixture(
    params=CASES, ids=[f"{x} and {f}, {loss}{', intercept' * icpt}" for x, f, icpt, loss in CASES]
)
def setup(request):
    return make_setup(*request.param)


class TestAgainstDense(AgainstDense):
    """The observed entries' term with features of the labels."""


@pytest.mark.parametrize("scale", [0.0, 0.4, 1.0])
def test_the_conjugate_knows_nothing_of_features(setup, scale):
    factors = setup.factors()
    G = setup.oracle.score_gradient(factors)
    gradient = setup.objective.at(factors).score_gradient()
    assert_allclose(gradient.conjugate(scale), setup.oracle.conjugate(scale * G), **CLOSE)


def test_balanced_gradients_sum_to_zero_before_they_meet_the_features(setup):
    factors = setup.factors()
    point = setup.objective.at(factors)
    up, down = point.signed_label_sums()
    lighter = np.minimum(up, -down)
    G = setup.oracle.score_gradient(factors)
    if setup.oracle.intercept:
        # The heavier sign of each label is shrunk.
        shrink_up = np.divide(lighter, up, where=up > 0, out=np.ones_like(up))
        shrink_down = np.divide(lighter, -down, where=down < 0, out=np.ones_like(up))
        G = np.where(G > 0, G * shrink_up, G * shrink_down)
        assert_allclose(G.sum(axis=0), 0, atol=1e-15)
    matrix = setup.oracle.X.T @ G @ setup.oracle.F
    assert_allclose(point.score_gradient(balanced=True).matrix(), matrix, **CLOSE)


def test_a_weak_dual_holds_with_label_features(setup):
    # The dual value at any point bounds the objective at any other.
    penalties = Penalties(0.05, 0.02)

    def certificate(seed):
        factors = setup.factors(2, seed=seed, size=0.8)
        return certify(setup.objective, setup.objective.at(factors), penalties)

    certificates = [certificate(seed) for seed in range(8)]
    assert max(c.dual for c in certificates) <= min(c.objective for c in certificates)


@pytest.mark.parametrize("kind", ["identity", "stacked", "csr"])
@pytest.mark.parametrize("centre", [False, True])
def test_the_original_coordinates_have_the_same_scores(kind, centre):
    labels = ObservedLabels.from_dense(random_labels(np.random.default_rng(5), N, N_LABELS))
    problem, X, F = two_sided("dense", kind, labels, centre=centre)
    objective = problem.objective(labels)
    assert objective.shape == (3, F.shape[1])
    assert objective.n_labels == N_LABELS
    A, B, _ = random_factors(np.random.default_rng(6), *objective.shape, 2)
    mine = Factors(A, B, np.linspace(-1, 1, N_LABELS))
    theirs = problem.to_original(mine)
    scores = problem.left(mine.left) @ problem.right(mine.right).T + mine.intercept
    assert_allclose(X @ theirs.left @ theirs.right.T @ F.T + theirs.intercept, scores, **CLOSE)
    for part, expected in zip(problem.from_original(theirs), mine, strict=True):
        assert_allclose(part, expected, **CLOSE)


# -- fits ----------------------------------------------------------------------------------------------------

FITS = [
    # Features of rows and labels, intercept, loss, ridge as a fraction of λ, bound.
    ("dense", "stacked", True, "logistic", 0.0, None),
    ("stacked", "stacked", False, "logistic", 0.2, None),
    ("stacked", "stacked", True, "squared", 0.0, None),
    ("csr", "csr", False, "squared", 0.2, None),
    ("dense", "stacked", True, "logistic", 0.0, 0.3),
    ("identity", "stacked", False, "squared", 0.2, 0.3),
]


@cache
def fit_problem(rows, columns, intercept, loss, bound):
    Y = random_labels(np.random.default_rng(8), 10, N_LABELS)
    labels = ObservedLabels.from_dense(Y)
    problem, X, F = two_sided(rows, columns, labels, loss, fit_intercept=intercept, score_bound=bound)
    return problem, X, F, Y


@cache
def optimum_and_penalties(rows, columns, intercept, loss, ridge, bound):
    problem, X, F, Y = fit_problem(rows, columns, intercept, loss, bound)
    trace = 0.2 * largest_trace_penalty(problem.objective(ObservedLabels.from_dense(Y)))
    optimum = cvxpy_design_optimum(
        X, F, Y, CVXPY_LOSSES[loss], trace, ridge=ridge * trace, intercept=intercept, bound=bound
    )
    return optimum, Penalties(trace, ridge * trace)


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize(("rows", "columns", "intercept", "loss", "ridge", "bound"), FITS)
def test_fits_with_label_features_reach_the_optimum(solver, rows, columns, intercept, loss, ridge, bound):
    problem, X, F, Y = fit_problem(rows, columns, intercept, loss, bound)
    optimum, penalties = optimum_and_penalties(rows, columns, intercept, loss, ridge, bound)
    objective = problem.objective(ObservedLabels.from_dense(Y))
    fit = SolverSettings(SOLVERS[solver], tol=TOL, max_iter=1000).fit(objective, penalties)
    excess = fit.objective - optimum
    assert fit.converged
    assert abs(excess) <= 1e-5 * optimum
    assert fit.gap >= excess - ORACLE * optimum
    # The reported objective is that of the returned model, in the coordinates of X.
    A, B, b = problem.to_original(fit.factors)
    W = A @ B.T
    weights = np.full(Y.shape, 1 / np.sum(~np.isnan(Y)))
    data = DenseTerm(X, Y, weights, get_loss(loss), intercept, F=F).value(Factors(A, B, b))
    values = np.linalg.svd(W, compute_uv=False)
    assert data + penalties.of(values, b) == pytest.approx(fit.objective, rel=1e-9)
    if bound is not None:
        # It binds, and it is obeyed.
        assert 0.999 * bound <= np.abs(X @ W @ F.T).max() <= bound * (1 + 1e-12)


def test_an_orthogonal_basis_of_the_labels_changes_nothing():
    # The trace norm of W does not know its coordinates.
    Y = random_labels(np.random.default_rng(8), 10, N_LABELS)
    labels = ObservedLabels.from_dense(Y)
    _, X, _ = side("dense", 10, seed=2)
    F = np.linalg.qr(np.random.default_rng(9).standard_normal((N_LABELS, N_LABELS)))[0]
    fits = []
    for columns in ({}, {"label_features": sp.csr_array(F), "own_labels": False}):
        problem = make_problem(X, labels, features=columns)
        objective = problem.objective(labels)
        penalties = Penalties(0.2 * largest_trace_penalty(objective))
        fits.append(SolverSettings(SOLVERS["factored"], tol=1e-9).fit(objective, penalties))
    plain, rotated = fits
    assert plain.rank == rotated.rank
    assert_allclose(rotated.objective, plain.objective, rtol=1e-8)
    assert_allclose(rotated.singular_values, plain.singular_values, rtol=1e-3)
    assert_allclose(F @ rotated.factors.right @ rotated.factors.left.T, W_transposed(plain), atol=1e-3)


def W_transposed(fit):
    return fit.factors.right @ fit.factors.left.T
