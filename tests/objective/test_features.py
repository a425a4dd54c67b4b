import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.objective.cpu import features as features_module
from labelgap.objective.cpu.features import (
    DenseFeatures,
    IdentityFeatures,
    SparseFeatures,
    looks_centred,
    make_features,
)
from labelgap.objective.cpu.pattern import EntryPattern
from solver_problems import random_factors

# More rows than features, more features than rows, and dependent features.
SHAPES = {"tall": (12, 5), "wide": (5, 9), "square": (6, 6), "one row": (1, 3), "one feature": (7, 1)}


def random_X(shape, seed=0, shift=2.0):
    n, d = SHAPES.get(shape, (12, 5))
    X = np.random.default_rng(seed).standard_normal((n, d)) + shift
    if shape == "dependent":
        X[:, 1] = X[:, 0]
    return X


@pytest.fixture(params=[*SHAPES, "dependent"])
def X(request):
    return random_X(request.param)


@pytest.mark.parametrize("centre", [False, True])
def test_rotation_and_centring_leave_the_model_as_it_is(X, centre):
    features = DenseFeatures(X, centre=centre)
    mine = random_factors(np.random.default_rng(1), features.n_features, 4, 2)
    theirs = features.to_original(mine)
    W, W_original = mine.left @ mine.right.T, theirs.left @ theirs.right.T
    assert W_original.shape == (X.shape[1], 4)
    scores = features.product(mine.left) @ mine.right.T + mine.intercept
    assert_allclose(X @ W_original + theirs.intercept, scores, atol=1e-12)
    # Trace norm and Frobenius norm at once.
    values = np.linalg.svd(W, compute_uv=False)
    assert_allclose(np.linalg.svd(W_original, compute_uv=False)[: len(values)], values, atol=1e-12)


@pytest.mark.parametrize("centre", [False, True])
def test_rotated_features_have_a_diagonal_gram_matrix_in_falling_order(X, centre):
    features = DenseFeatures(X, centre=centre)
    rotated = features.product(np.eye(features.n_features))
    gram = rotated.T @ rotated
    assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-10 * np.trace(gram))
    assert np.all(np.diff(np.diag(gram)) <= 1e-10 * np.trace(gram))


def test_without_time_for_a_rotation_features_stay_as_given(X, monkeypatch):
    monkeypatch.setattr(features_module, "_ROTATION_WORK", 0)
    features = DenseFeatures(X, centre=False)
    assert_array_equal(features.product(np.eye(X.shape[1])), X)
    factors = random_factors(np.random.default_rng(1), X.shape[1], 4, 2)
    for part, other in zip(features.to_original(factors), factors, strict=True):
        assert_allclose(part, other)


def test_without_a_rotation_centring_still_moves_the_intercept(monkeypatch):
    monkeypatch.setattr(features_module, "_ROTATION_WORK", 0)
    X = random_X("tall")
    features = DenseFeatures(X, centre=True)
    mine = random_factors(np.random.default_rng(1), 5, 4, 2)
    theirs = features.to_original(mine)
    scores = features.product(mine.left) @ mine.right.T + mine.intercept
    assert_allclose(X @ theirs.left @ theirs.right.T + theirs.intercept, scores, atol=1e-12)


def all_kinds():
    X = np.where(np.random.default_rng(2).random((7, 5)) < 0.5, random_X("tall")[:7], 0.0)
    # A row and a feature that are all zero.
    X[3], X[:, 2] = 0, 0
    dense = DenseFeatures(X, centre=True)
    return {
        "sparse": (SparseFeatures(sp.csr_array(X)), X),
        "sparse matrix": (SparseFeatures(sp.csc_matrix(X)), X),
        "dense": (dense, dense.product(np.eye(dense.n_features))),
        "identity": (IdentityFeatures(7), np.eye(7)),
    }


@pytest.mark.parametrize("kind", list(all_kinds()))
def test_products_equal_those_of_numpy(kind):
    features, X = all_kinds()[kind]
    assert (features.n_rows, features.n_features) == X.shape
    rng = np.random.default_rng(3)
    for k in (0, 1, 3):
        right, left = rng.standard_normal((X.shape[1], k)), rng.standard_normal((X.shape[0], k))
        assert_allclose(features.product(right), X @ right, atol=1e-13)
        assert_allclose(features.transposed_product(left), X.T @ left, atol=1e-13)
        assert_allclose(features.squared_transposed_product(left), (X * X).T @ left, atol=1e-13)
    assert_allclose(features.mean_square_length(), np.mean(np.sum(X * X, axis=1)))


@pytest.mark.parametrize("kind", list(all_kinds()))
@pytest.mark.parametrize("block", [64, 2])
def test_transposed_matrix_is_dense_X_transposed_times_S(kind, block, monkeypatch):
    # A short block, so that the labels take several.
    monkeypatch.setattr(features_module, "_BLOCK", block)
    features, X = all_kinds()[kind]
    S = sp.random_array((7, 5), density=0.4, format="csr", rng=np.random.default_rng(4))
    answer = features.transposed_matrix(EntryPattern(S.indptr, S.indices, 5), S.data)
    assert_allclose(answer, X.T @ S.toarray(), atol=1e-13)


@pytest.mark.parametrize("gather", [0, 1e9])
@pytest.mark.parametrize("kind", list(all_kinds()))
def test_every_way_to_the_transposed_matrix_is_the_same_one(kind, gather, monkeypatch):
    monkeypatch.setattr(features_module, "_GATHER", gather)
    features, X = all_kinds()[kind]
    S = sp.random_array((7, 5), density=0.4, format="csr", rng=np.random.default_rng(4))
    answer = features.transposed_matrix(EntryPattern(S.indptr, S.indices, 5), S.data)
    assert_allclose(answer, X.T @ S.toarray(), atol=1e-13)


@pytest.mark.parametrize(
    ("way", "gather", "rank"),
    [("factors", 1e9, 0), ("gathered", 0, 4), ("streamed", 1e9, 4)],
)
@pytest.mark.parametrize("made", [False, True], ids=["factors only", "with their product"])
def test_every_way_to_the_scores_of_sparse_features_is_the_same_one(way, gather, rank, made, monkeypatch):
    calls = []
    for name, module, function in (
        ("gathered", features_module, "sparse_sampled_product"),
        ("streamed", features_module.feature_products, "sampled_product"),
    ):
        kernel = getattr(module, function)

        def noted(*args, name=name, kernel=kernel):
            calls.append(name)
            return kernel(*args)

        monkeypatch.setattr(module, function, noted)
    monkeypatch.setattr(features_module, "_GATHER", gather)
    features, X = all_kinds()["sparse"]
    S = sp.random_array((7, 9), density=0.8, format="csr", rng=np.random.default_rng(4))
    pattern = EntryPattern(S.indptr, S.indices, 9)
    left, right, _ = random_factors(np.random.default_rng(5), 5, 9, rank)
    product = left @ right.T if made else None
    scores, projected = features.scores_at(pattern, left, right, product)
    assert_allclose(scores, (X @ left @ right.T)[S.tocoo().coords], atol=1e-13)
    assert calls == ([] if way == "factors" else [way])
    # X left is handed out only where it was made.
    if way == "factors":
        assert_allclose(projected, X @ left, atol=1e-13)
    else:
        assert projected is None


@pytest.mark.parametrize("kind", list(all_kinds()))
@pytest.mark.parametrize("rank", [0, 1, 6])
def test_scores_are_those_of_the_dense_product(kind, rank):
    features, X = all_kinds()[kind]
    S = sp.random_array((7, 4), density=0.5, format="csr", rng=np.random.default_rng(4))
    pattern = EntryPattern(S.indptr, S.indices, 4)
    left, right, _ = random_factors(np.random.default_rng(5), X.shape[1], 4, rank)
    expected = (X @ left @ right.T)[S.tocoo().coords]
    for product in (None, left @ right.T):
        scores, projected = features.scores_at(pattern, left, right, product)
        assert_allclose(scores, expected, atol=1e-13)
        if projected is not None:
            assert_allclose(projected, X @ left, atol=1e-13)


def test_columns_of_a_pattern_are_those_of_the_dense_matrix():
    S = sp.random_array((6, 9), density=0.4, format="csr", rng=np.random.default_rng(6)).toarray()
    S[:, 4], S[2] = 0, 0
    entries = sp.csr_array(S)
    pattern = EntryPattern(entries.indptr, entries.indices, 9)
    for start, stop in ((0, 9), (0, 4), (3, 6), (4, 5), (8, 9), (5, 5)):
        assert_array_equal(pattern.columns(entries.data, start, stop), S[:, start:stop])


def test_sparse_features_add_up_duplicates_and_take_any_order():
    rows, columns, data = [0, 0, 1, 0], [2, 0, 1, 2], [1.0, 2.0, 3.0, 4.0]
    indptr, order = [0, 3, 4], [0, 1, 3, 2]
    X = sp.csr_array((np.array(data)[order], np.array(columns)[order], indptr), shape=(2, 3))
    dense = sp.coo_array((data, (rows, columns)), shape=(2, 3)).toarray()
    features = SparseFeatures(X)
    assert_allclose(features.product(np.eye(3)), dense)
    assert_allclose(features.mean_square_length(), np.sum(dense**2) / 2)


def unsorted_csr():
    """[[2, 0, 1]] twice over: column 2 before column 0, and split in two."""
    return sp.csr_array((np.array([0.5, 2.0, 0.5]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))


def test_sparse_features_leave_the_matrix_of_the_caller_alone():
    X, before = unsorted_csr(), unsorted_csr()
    SparseFeatures(X)
    for name in ("data", "indices", "indptr"):
        assert_array_equal(getattr(X, name), getattr(before, name))


def test_sparse_features_take_read_only_arrays():
    # joblib hands large arrays to its workers as read-only memory maps.
    X = unsorted_csr()
    for name in ("data", "indices", "indptr"):
        getattr(X, name).flags.writeable = False
    assert_allclose(SparseFeatures(X).product(np.eye(3)), [[2.0, 0.0, 1.0]])


def test_integer_and_float32_features_are_computed_in_float64():
    X = np.arange(12).reshape(4, 3)
    for given in (X, X.astype(np.float32), sp.csr_array(X), sp.csr_array(X.astype(np.float32))):
        features = make_features(given, centre=False)
        factors = random_factors(np.random.default_rng(0), features.n_features, 2, 1)
        scores = features.product(factors.left)
        assert scores.dtype == np.float64
        assert_allclose(scores, X @ features.to_original(factors).left, atol=1e-12)


def test_make_features_picks_by_type():
    X = random_X("tall")
    assert isinstance(make_features(X, centre=True), DenseFeatures)
    assert isinstance(make_features(sp.csr_array(X), centre=True), SparseFeatures)
    assert isinstance(make_features(sp.csc_matrix(X), centre=True), SparseFeatures)


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("scales", [None, np.linspace(0.5, 3.0, 40)])
def test_sparse_features_of_few_rows_are_taken_to_the_span_of_the_rows(centre, scales):
    X = sp.random_array((4, 40), density=0.3, format="csr", rng=np.random.default_rng(1))
    features = make_features(X, centre=centre, scales=scales)
    assert features.n_features <= 4
    mine = random_factors(np.random.default_rng(2), features.n_features, 3, 2)
    theirs = features.to_original(mine)
    scores = features.product(mine.left) @ mine.right.T + mine.intercept
    assert_allclose(X @ theirs.left @ theirs.right.T + theirs.intercept, scores, atol=1e-12)
    # As many columns as would not fit stay sparse.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features_module, "_LARGEST_DENSE", 100)
        assert isinstance(make_features(X, centre=centre, scales=scales), SparseFeatures)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_means_within_five_standard_errors_look_centred(form):
    # 100 values ±1 have standard deviation 1 about their mean and standard error 0.1.
    X = np.tile([1.0, -1.0], 50)[:, None]
    assert looks_centred(form(X + 0.49))
    assert not looks_centred(form(X + 0.51))
    # One column off is enough.
    assert not looks_centred(form(np.hstack([X, X + 1.0])))


def test_standardised_and_empty_columns_look_centred_and_a_constant_does_not():
    X = np.random.default_rng(0).standard_normal((50, 3)) * 1e-3 + 7.0
    assert looks_centred((X - X.mean(axis=0)) / X.std(axis=0))
    assert looks_centred(np.zeros((5, 1)))
    assert not looks_centred(np.ones((5, 1)))
