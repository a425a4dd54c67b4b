"""Products of sparse features against numpy."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.kernels import feature_products, threads
from labelgap.kernels.feature_products import (
    product,
    sampled_feature_product,
    scattered_matrix,
    transposed_matrix,
)


def parts(matrix):
    rows = sp.csr_array(matrix)
    rows.sort_indices()
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data


def features(n=40, d=17, seed=0):
    X = sp.random_array((n, d), density=0.3, format="csr", rng=np.random.default_rng(seed)).toarray()
    # A row and a column of nothing.
    X[3], X[:, d // 2] = 0.0, 0.0
    return X


def entries(n=40, n_labels=19, density=0.4, seed=1):
    S = sp.random_array(
        (n, n_labels), density=density, format="csr", rng=np.random.default_rng(seed)
    ).toarray()
    S[7], S[:, n_labels // 2] = 0.0, 0.0
    return S


# Narrower than a vector, whole and broken numbers of vectors, and of tiles of eight of them.
@pytest.mark.parametrize("width", [1, 7, 8, 9, 16, 25, 63, 64, 65, 71, 72, 130])
def test_products_of_every_width(width):
    X = features()
    M = np.random.default_rng(2).standard_normal((X.shape[1], width))
    assert_allclose(product(parts(X), M), X @ M, atol=1e-13)
    assert_allclose(product(parts(X), np.asfortranarray(M)), X @ M, atol=1e-13)


@pytest.mark.parametrize("n_labels", [8, 19, 64, 100, 209])
# The last two make blocks of 40 and 49 labels, before they are rounded to whole vectors.
@pytest.mark.parametrize("cache_bytes", [1 << 20, 1, 40 * 16 * 17, 49 * 16 * 17])
def test_scores_at_the_entries(n_labels, cache_bytes, monkeypatch):
    # In a small cache W takes several blocks of labels.
    monkeypatch.setattr(feature_products, "_CACHE_BYTES", cache_bytes)
    X, S = features(), entries(n_labels=n_labels)
    indptr, indices, _ = parts(S)
    W = np.random.default_rng(2).standard_normal((X.shape[1], n_labels))
    rows = np.repeat(np.arange(len(S)), np.diff(indptr))
    assert_allclose(sampled_feature_product(indptr, indices, parts(X), W), (X @ W)[rows, indices], atol=1e-13)


@pytest.mark.parametrize("n_labels", [1, 5, 8, 19, 32, 33, 40, 97])
@pytest.mark.parametrize("few_rows", [False, True])
def test_transposed_matrix_of_every_width(n_labels, few_rows, monkeypatch):
    if few_rows:
        # So that the rows take several parts.
        for name in ("_FEWEST_ROWS", "_MOST_ROWS"):
            monkeypatch.setattr(feature_products, name, 11)
    X, S = features(), entries(n_labels=n_labels)
    for way in (transposed_matrix, scattered_matrix):
        answer = way(parts(X.T), *parts(S), n_labels)
        assert_allclose(answer, X.T @ S, atol=1e-13)
        # In the precision of S, whatever that of X.
        indptr, indices, data = parts(S)
        rounded = way(parts(X.T), indptr, indices, data.astype(np.float32), n_labels)
        assert rounded.dtype == np.float32
        assert_allclose(rounded, X.T @ S, atol=1e-5)


def test_rows_at_a_time_and_threads_do_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(threads, "_MIN_WORK_PER_THREAD", 1)
    X, S = features(), entries()
    M = np.random.default_rng(2).standard_normal((17, 12))

    def answers():
        W = np.random.default_rng(3).standard_normal((17, 19))
        indptr, indices, data = parts(S)
        yield product(parts(X), M)
        yield sampled_feature_product(indptr, indices, parts(X), W)
        yield transposed_matrix(parts(X.T), indptr, indices, data, 19)
        yield scattered_matrix(parts(X.T), indptr, indices, data, 19)
        yield transposed_matrix(parts(X.T), indptr, indices, data.astype(np.float32), 19)
        yield scattered_matrix(parts(X.T), indptr, indices, data.astype(np.float32), 19)

    with threads.limit_threads(1):
        alone = list(answers())
    monkeypatch.setattr(feature_products, "_FEWEST_ROWS", 9)
    monkeypatch.setattr(feature_products, "_CACHE_BYTES", 1)
    for count in (1, 3):
        with threads.limit_threads(count):
            for one, other in zip(alone, answers(), strict=True):
                assert_array_equal(one, other)


def test_patterns_without_any_entry():
    X = parts(features(4, 3))
    none, indptr = np.zeros(0, dtype=np.int32), np.zeros(5, dtype=np.int64)
    for way in (transposed_matrix, scattered_matrix):
        assert_array_equal(way(X, np.zeros(4, dtype=np.int64), none, np.zeros(0), 5), np.zeros((4, 5)))
    assert sampled_feature_product(indptr, none, X, np.ones((3, 9))).shape == (0,)
