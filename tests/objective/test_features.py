"""Features of the rows as linear maps, against numpy."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.kernels import feature_products
from labelgap.kernels.entry_pattern import EntryPattern
from labelgap.objective.cpu import features as features_module
from labelgap.objective.cpu.features import (
    DenseFeatures,
    IdentityFeatures,
    ScaledIdentityFeatures,
    SparseFeatures,
    StackedFeatures,
)
from labelgap.objective.cpu.part import features_in
from labelgap.objective.frame import Coordinates
from solver_problems import random_factors


def random_X(n=12, d=5):
    return np.random.default_rng(0).standard_normal((n, d)) + 2.0


def all_kinds():
    X = np.where(np.random.default_rng(2).random((7, 5)) < 0.5, random_X()[:7], 0.0)
    # A row and a feature that are all zero.
    X[3], X[:, 2] = 0, 0
    scales = np.linspace(0.5, 2.0, 7)
    stacked = StackedFeatures([ScaledIdentityFeatures(scales), SparseFeatures(X)])
    return {
        "sparse": (SparseFeatures(sp.csr_array(X)), X),
        "sparse matrix": (SparseFeatures(sp.csc_matrix(X)), X),
        "sparse with scales": (SparseFeatures(sp.csr_array(X), np.arange(1.0, 6.0)), X * np.arange(1, 6)),
        "dense": (DenseFeatures(X), X),
        "dense in Fortran order": (DenseFeatures(np.asfortranarray(X)), X),
        "identity": (IdentityFeatures(7), np.eye(7)),
        "scaled identity": (ScaledIdentityFeatures(scales), np.diag(scales)),
        "stacked": (stacked, np.hstack([np.diag(scales), X])),
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
    assert_allclose(features.square_length(), np.sum(X * X))


@pytest.mark.parametrize("kind", list(all_kinds()))
@pytest.mark.parametrize("rows_at_a_time", [4, 1 << 13])
def test_products_have_the_precision_of_what_is_multiplied(kind, rows_at_a_time, monkeypatch):
    monkeypatch.setattr(feature_products, "_ROUNDED_ROWS", rows_at_a_time)
    # Also of several blocks side by side: one in double precision would make all of the sum so.
    features, X = all_kinds()[kind]
    rng = np.random.default_rng(3)
    for k in (1, 9):
        right, left = (rng.standard_normal((size, k)).astype(np.float32) for size in X.T.shape)
        for found, expected in (
            (features.product(right), X @ right),
            (features.transposed_product(left), X.T @ left),
        ):
            assert found.dtype == np.float32
            assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", list(all_kinds()))
@pytest.mark.parametrize("block", [64, 2])
def test_transposed_matrix_is_dense_X_transposed_times_S(kind, block, monkeypatch):
    # A short block, so that the labels take several.
    monkeypatch.setattr(features_module, "_BLOCK", block)
    features, X = all_kinds()[kind]
    S = sp.random_array((7, 5), density=0.4, format="csr", rng=np.random.default_rng(4))
    answer = features.transposed_matrix(EntryPattern(S.indptr, S.indices, 5), S.data)
    assert_allclose(answer, X.T @ S.toarray(), atol=1e-13)


@pytest.mark.parametrize(
    ("spread", "shortest"), [(1e9, 1), (0, 1), (0, 1e9)], ids=["spread out", "by feature", "by label"]
)
@pytest.mark.parametrize("register", [16, 64])
@pytest.mark.parametrize("kind", list(all_kinds()))
def test_every_way_to_the_transposed_matrix_is_the_same_one(kind, register, spread, shortest, monkeypatch):
    for name in ("_SPREAD", "_SPREAD_SHORT", "_SPREAD_SINGLE"):
        monkeypatch.setattr(features_module, name, (spread, 1.0))
    monkeypatch.setattr(features_module, "_SHORTEST", shortest)
    monkeypatch.setattr(features_module, "register_bytes", lambda: register)
    features, X = all_kinds()[kind]
    S = sp.random_array((7, 5), density=0.4, format="csr", rng=np.random.default_rng(4))
    pattern = EntryPattern(S.indptr, S.indices, 5)
    assert_allclose(features.transposed_matrix(pattern, S.data), X.T @ S.toarray(), atol=1e-13)
    if isinstance(features, SparseFeatures):
        rounded = features.transposed_matrix(pattern, S.data.astype(np.float32))
        assert rounded.dtype == np.float32
        assert_allclose(rounded, X.T @ S.toarray(), atol=1e-5)


@pytest.mark.parametrize(
    ("way", "gather", "rank"),
    [("factors", 1e9, 0), ("gathered", 0, 4), ("streamed", 1e9, 4)],
)
@pytest.mark.parametrize("made", [False, True], ids=["factors only", "with their product"])
def test_every_way_to_the_scores_of_sparse_features_is_the_same_one(way, gather, rank, made, monkeypatch):
    calls = []
    for name, module, function in (
        ("gathered", features_module, "sparse_sampled_product"),
        ("streamed", features_module.feature_products, "sampled_feature_product"),
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
    assert_allclose(features.square_length(), np.sum(dense**2))


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
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    for coordinates in (Coordinates(3), Coordinates(3, basis=basis), Coordinates(3, centre=np.ones(3))):
        for given in (X, X.astype(np.float32), sp.csr_array(X), sp.csr_array(X.astype(np.float32))):
            features = features_in(coordinates, given)
            mine, theirs = features.product(np.eye(3)), X.astype(float)
            theirs = theirs if coordinates.centre is None else theirs - 1
            assert mine.dtype == np.float64
            assert_allclose(mine, theirs if coordinates.basis is None else theirs @ basis, atol=1e-12)


def test_features_stay_sparse_where_the_coordinates_say_so():
    X = random_X()
    for form in (sp.csr_array, sp.csc_matrix):
        assert isinstance(features_in(Coordinates(5, is_sparse=True), form(X)), SparseFeatures)
        assert isinstance(features_in(Coordinates(5, centre=np.ones(5)), form(X)), DenseFeatures)
    assert isinstance(features_in(Coordinates(5), X), DenseFeatures)
