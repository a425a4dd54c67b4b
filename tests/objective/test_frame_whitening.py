"""A penalty on the scores: features in coordinates in which their columns are orthonormal."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.exceptions import InvalidFeaturesError
from labelgap.labels import ObservedLabels
from labelgap.losses import get_loss
from labelgap.objective.cpu import part as part_module
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from solver_problems import make_problem, random_factors

KINDS = ["tall", "wide", "square", "dependent", "dependent wide", "one row", "one feature"]
RANKS = {
    "tall": 5,
    "wide": 5,
    "square": 6,
    "dependent": 3,
    "dependent wide": 4,
    "one row": 1,
    "one feature": 1,
}


def random_X(kind, seed=0):
    """Uncentred features; "dependent" ones span fewer directions than they have columns or rows."""
    shapes = {"wide": (5, 9), "square": (6, 6), "dependent wide": (6, 9), "one row": (1, 3)}
    n, d = shapes.get(kind, (12, 1) if kind == "one feature" else (12, 5))
    rng = np.random.default_rng(seed)
    if kind.startswith("dependent"):
        return (rng.standard_normal((n, RANKS[kind])) + 1.0) @ rng.standard_normal((RANKS[kind], d))
    return rng.standard_normal((n, d)) + 2.0


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(params=[np.asarray, sp.csr_array, sp.csc_matrix], ids=["dense", "csr", "csc matrix"])
def form(request):
    return request.param


def labels_of(n):
    return ObservedLabels.from_dense(np.zeros((n, 4)))


def whitened(X):
    return make_problem(X, labels_of(X.shape[0]), features={"penalty": "scores"})


def basis_of(problem):
    """The features of all rows, in the coordinates of the problem."""
    return problem.left(np.eye(rank_of(problem)))


def rank_of(problem):
    return problem.features.coordinates.n_coordinates


def test_there_are_as_many_coordinates_as_X_has_independent_directions(kind, form):
    X = random_X(kind)
    problem = whitened(form(X))
    assert basis_of(problem).shape == (len(X), RANKS[kind])
    objective = problem.objective(labels_of(len(X)), free_intercept=False)
    assert objective.n_stored == len(X) * RANKS[kind] + len(X) * 4


def test_the_basis_is_orthonormal_and_spans_the_columns_of_X(kind, form):
    X = random_X(kind)
    U = basis_of(whitened(form(X)))
    assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-13)
    assert_allclose(U @ (U.T @ X), X, atol=1e-12)


def test_the_model_in_original_coordinates_has_the_same_scores(kind, form):
    X = random_X(kind)
    problem = whitened(form(X))
    mine = random_factors(np.random.default_rng(1), rank_of(problem), 4, 2)
    theirs = problem.to_original(mine)
    assert theirs.left.shape == (X.shape[1], 2)
    scores = problem.left(mine.left) @ mine.right.T
    assert_allclose(X @ theirs.left @ theirs.right.T, scores, atol=1e-12)
    # Nothing was centred, so the intercept stays.
    assert_array_equal(theirs.intercept, mine.intercept)


def test_norms_of_the_coordinates_are_norms_of_the_scores(kind):
    X = random_X(kind)
    problem = whitened(X)
    mine = random_factors(np.random.default_rng(1), rank_of(problem), 4, 3)
    left, right, _ = problem.to_original(mine)
    of_scores = np.linalg.svd(X @ left @ right.T, compute_uv=False)
    of_coordinates = np.linalg.svd(mine.left @ mine.right.T, compute_uv=False)
    count = min(len(of_scores), len(of_coordinates))
    assert_allclose(of_scores[:count], of_coordinates[:count], atol=1e-12)


def test_the_weights_are_the_smallest_that_give_the_scores(kind):
    X = random_X(kind)
    problem = whitened(X)
    mine = random_factors(np.random.default_rng(1), rank_of(problem), 4, 2)
    left, right, _ = problem.to_original(mine)
    scores = problem.left(mine.left) @ mine.right.T
    assert_allclose(left @ right.T, np.linalg.lstsq(X, scores, rcond=1e-10)[0], atol=1e-11)


def test_the_mean_square_length_of_a_row_is_that_of_an_orthonormal_basis(kind, form):
    problem = whitened(form(random_X(kind)))
    assert_allclose(problem.mean_square_length, rank_of(problem) / problem.features.n_rows)


def ill_conditioned(smallest, n=60, d=6, seed=0):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((size, d)))[0] for size in (n, d))
    return (U * np.geomspace(1.0, smallest, d)) @ V.T


@pytest.mark.parametrize("smallest", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("cuts", [[], [20, 40], [0, 1, 60]], ids=["one part", "three parts", "empty parts"])
def test_small_singular_values_cost_no_orthogonality(smallest, cuts):
    X = ill_conditioned(smallest)
    parts = [X[start:stop] for start, stop in zip([0, *cuts], [*cuts, 60], strict=True)]
    settings = ProblemSettings(get_loss("logistic"), FeatureSettings(penalty="scores"))
    problem = Problem([RowBlock(part, labels_of(len(part))) for part in parts], settings)
    U = basis_of(problem)
    assert U.shape == (60, 6)
    assert_allclose(U.T @ U, np.eye(6), atol=1e-13)
    # The scores come back with an error of the machine's precision over the smallest singular value.
    mine = random_factors(np.random.default_rng(1), 6, 4, 2)
    theirs = problem.to_original(mine)
    assert_allclose(X @ theirs.left, U @ mine.left, atol=1e-14 / smallest)
    for part, expected in zip(problem.from_original(theirs), mine, strict=True):
        assert_allclose(part, expected, atol=1e-14 / smallest)


def test_the_scale_of_a_feature_does_not_matter():
    X = random_X("tall")
    scaled = X * [1.0, 1e-4, 1.0, 1e4, 1.0]
    U, V = (basis_of(whitened(each)) for each in (X, scaled))
    assert_allclose(V @ V.T, U @ U.T, atol=1e-9)


def test_directions_within_rounding_are_dropped_and_larger_ones_kept():
    X = random_X("tall")
    X[:, 4] = X[:, 0] + 1e-12 * X[:, 4]
    assert rank_of(whitened(X)) == 4
    X = random_X("tall")
    X[:, 4] = X[:, 0] + 1e-7 * X[:, 4]
    kept = whitened(X)
    assert rank_of(kept) == 5
    mine = random_factors(np.random.default_rng(1), 5, 4, 2)
    left, right, _ = kept.to_original(mine)
    assert_allclose(X @ left @ right.T, kept.left(mine.left) @ mine.right.T, atol=1e-7)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_dependent_features_in_single_precision_are_dependent(form):
    X = random_X("dependent")
    assert rank_of(whitened(form(X.astype(np.float32)))) == RANKS["dependent"]


def test_integers_are_taken():
    X = np.arange(12).reshape(4, 3) ** 2
    U = basis_of(whitened(X))
    assert_allclose(U @ U.T @ X, X, atol=1e-10)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_features_of_zero_give_scores_of_zero(form):
    problem = whitened(form(np.zeros((4, 3))))
    assert_array_equal(basis_of(problem), np.zeros((4, 1)))
    mine = random_factors(np.random.default_rng(1), 1, 4, 1)
    assert_array_equal(problem.to_original(mine).left, np.zeros((3, 1)))


def test_the_matrix_of_the_caller_stays_as_it_is(form):
    # In Fortran order, which the decomposition could write to.
    X = form(np.asfortranarray(random_X("tall")))
    before = X.copy()
    basis_of(whitened(X))
    assert abs(X - before).max() == 0


def test_a_sparse_matrix_that_is_too_large_when_dense_is_refused(monkeypatch):
    monkeypatch.setattr(part_module, "_LARGEST_DENSE", 59)
    X = random_X("tall")
    with pytest.raises(InvalidFeaturesError, match=r"12 x 5 = 6\.0e\+01 entries.*TruncatedSVD"):
        whitened(sp.csr_array(X))
    # A dense one takes no more memory than it had.
    assert rank_of(whitened(X)) == 5


def test_the_documented_limit_is_the_one_that_holds():
    # Nothing of that size is made: the refusal comes first.
    with pytest.raises(InvalidFeaturesError, match="put the penalty on W"):
        whitened(sp.csr_array((1 << 14, (1 << 13) + 1)))
