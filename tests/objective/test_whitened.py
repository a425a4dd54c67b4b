import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.exceptions import InvalidFeaturesError
from labelgap.objective.cpu import whitened as whitened_module
from labelgap.objective.cpu.pattern import EntryPattern
from labelgap.objective.cpu.whitened import WhitenedFeatures
from solver_problems import random_factors

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


def basis_of(features):
    return features.product(np.eye(features.n_features))


def test_there_are_as_many_coordinates_as_X_has_independent_directions(kind, form):
    X = random_X(kind)
    features = WhitenedFeatures(form(X))
    assert (features.n_rows, features.n_features) == (len(X), RANKS[kind])
    assert features.n_stored == features.n_rows * features.n_features


def test_the_basis_is_orthonormal_and_spans_the_columns_of_X(kind, form):
    X = random_X(kind)
    U = basis_of(WhitenedFeatures(form(X)))
    assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-13)
    assert_allclose(U @ (U.T @ X), X, atol=1e-12)


def test_the_model_in_original_coordinates_has_the_same_scores(kind, form):
    X = random_X(kind)
    features = WhitenedFeatures(form(X))
    mine = random_factors(np.random.default_rng(1), features.n_features, 4, 2)
    theirs = features.to_original(mine)
    assert theirs.left.shape == (X.shape[1], 2)
    scores = features.product(mine.left) @ mine.right.T
    assert_allclose(X @ theirs.left @ theirs.right.T, scores, atol=1e-12)
    # Nothing was centred, so the intercept stays.
    assert_array_equal(theirs.intercept, mine.intercept)


def test_norms_of_the_coordinates_are_norms_of_the_scores(kind):
    X = random_X(kind)
    features = WhitenedFeatures(X)
    mine = random_factors(np.random.default_rng(1), features.n_features, 4, 3)
    left, right, _ = features.to_original(mine)
    of_scores = np.linalg.svd(X @ left @ right.T, compute_uv=False)
    of_coordinates = np.linalg.svd(mine.left @ mine.right.T, compute_uv=False)
    count = min(len(of_scores), len(of_coordinates))
    assert_allclose(of_scores[:count], of_coordinates[:count], atol=1e-12)


def test_the_weights_are_the_smallest_that_give_the_scores(kind):
    X = random_X(kind)
    features = WhitenedFeatures(X)
    mine = random_factors(np.random.default_rng(1), features.n_features, 4, 2)
    left, right, _ = features.to_original(mine)
    scores = features.product(mine.left) @ mine.right.T
    assert_allclose(left @ right.T, np.linalg.lstsq(X, scores, rcond=1e-10)[0], atol=1e-11)


def test_products_equal_those_of_numpy(kind, form):
    features = WhitenedFeatures(form(random_X(kind)))
    U = basis_of(features)
    rng = np.random.default_rng(3)
    for k in (0, 1, 3):
        left = rng.standard_normal((features.n_rows, k))
        assert_allclose(features.transposed_product(left), U.T @ left, atol=1e-13)
        assert_allclose(features.squared_transposed_product(left), (U * U).T @ left, atol=1e-13)
    assert_allclose(features.mean_square_length(), features.n_features / features.n_rows)


def test_entries_and_the_transposed_matrix_equal_those_of_numpy(kind):
    features = WhitenedFeatures(random_X(kind))
    U = basis_of(features)
    rng = np.random.default_rng(4)
    S = sp.random_array((features.n_rows, 6), density=0.5, format="csr", rng=rng)
    pattern = EntryPattern(S.indptr, S.indices, 6)
    assert_allclose(features.transposed_matrix(pattern, S.data), U.T @ S.toarray(), atol=1e-13)
    left, right = rng.standard_normal((features.n_features, 2)), rng.standard_normal((6, 2))
    rows, columns = S.nonzero()
    scores, P = features.scores_at(pattern, left, right)
    assert_allclose(scores, (U @ left @ right.T)[rows, columns], atol=1e-13)
    assert P is None or np.allclose(P, U @ left)


def test_the_scale_of_a_feature_does_not_matter():
    X = random_X("tall")
    scaled = X * [1.0, 1e-4, 1.0, 1e4, 1.0]
    U, V = (basis_of(WhitenedFeatures(each)) for each in (X, scaled))
    assert_allclose(V @ V.T, U @ U.T, atol=1e-9)


def test_directions_within_rounding_are_dropped_and_larger_ones_kept():
    X = random_X("tall")
    X[:, 4] = X[:, 0] + 1e-12 * X[:, 4]
    assert WhitenedFeatures(X).n_features == 4
    X = random_X("tall")
    X[:, 4] = X[:, 0] + 1e-7 * X[:, 4]
    kept = WhitenedFeatures(X)
    assert kept.n_features == 5
    mine = random_factors(np.random.default_rng(1), 5, 4, 2)
    left, right, _ = kept.to_original(mine)
    assert_allclose(X @ left @ right.T, kept.product(mine.left) @ mine.right.T, atol=1e-7)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_dependent_features_in_single_precision_are_dependent(form):
    X = random_X("dependent")
    assert WhitenedFeatures(form(X.astype(np.float32))).n_features == RANKS["dependent"]


def test_integers_are_taken():
    X = np.arange(12).reshape(4, 3) ** 2
    features = WhitenedFeatures(X)
    assert_allclose(basis_of(features) @ basis_of(features).T @ X, X, atol=1e-10)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_features_of_zero_give_scores_of_zero(form):
    features = WhitenedFeatures(form(np.zeros((4, 3))))
    assert_array_equal(basis_of(features), np.zeros((4, 1)))
    mine = random_factors(np.random.default_rng(1), 1, 2, 1)
    assert_array_equal(features.to_original(mine).left, np.zeros((3, 1)))


def test_the_matrix_of_the_caller_stays_as_it_is(form):
    # In Fortran order, which the decomposition could write to.
    X = form(np.asfortranarray(random_X("tall")))
    before = X.copy()
    WhitenedFeatures(X)
    assert abs(X - before).max() == 0


def test_a_sparse_matrix_that_is_too_large_when_dense_is_refused(monkeypatch):
    monkeypatch.setattr(whitened_module, "_LARGEST_DENSE", 59)
    X = random_X("tall")
    with pytest.raises(InvalidFeaturesError, match=r"12 x 5 = 6\.0e\+01 cells.*TruncatedSVD"):
        WhitenedFeatures(sp.csr_array(X))
    # A dense one takes no more room than it had.
    assert WhitenedFeatures(X).n_features == 5


def test_the_documented_limit_is_the_one_that_holds():
    # Nothing of that size is made: the refusal comes first.
    with pytest.raises(InvalidFeaturesError, match="put the penalty on W"):
        WhitenedFeatures(sp.csr_array((1 << 14, (1 << 13) + 1)))
