"""Ways around large arrays give the same numbers as the large arrays would."""

import numpy as np
import pytest
import scipy.sparse as sp

from labelgap._memory import give_back_freed
from labelgap.kernels.entry_pattern import EntryPattern
from labelgap.kernels.threads import limit_threads
from labelgap.labels.sources import chosen_before
from labelgap.objective.cpu import features
from labelgap.objective.cpu.features import DenseFeatures, SparseFeatures
from labelgap.solvers import linalg
from labelgap.solvers.linalg import balanced, product_values, standard_normal
from solver_problems import Case, random_factors


def some_entries(n=30, n_labels=7, fraction=0.3, seed=0):
    rng = np.random.default_rng(seed)
    S = sp.csr_array(np.where(rng.random((n, n_labels)) < fraction, rng.standard_normal((n, n_labels)), 0.0))
    return EntryPattern(S.indptr, S.indices, n_labels), S


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_entries_in_label_order(monkeypatch, threads):
    monkeypatch.setattr("labelgap.kernels.entry_pattern._WORTH_THREADS", 1)
    monkeypatch.setenv("LABELGAP_NUM_THREADS", str(threads))
    _, S = some_entries()
    # Rows without entries at both ends and in between, and a label without any.
    S = S.toarray()
    S[[0, 12, 13, 29]] = 0.0
    S[:, 3] = 0.0
    S = sp.csr_array(S)
    pattern = EntryPattern(S.indptr, S.indices, S.shape[1])
    columns = S.tocsc()
    np.testing.assert_array_equal(pattern.in_label_order(S.data), columns.data)
    np.testing.assert_array_equal(S.data[pattern.by_label], columns.data)
    np.testing.assert_array_equal(pattern.label_rows, columns.indices)
    np.testing.assert_array_equal(pattern.label_indptr, columns.indptr)
    with limit_threads(1):
        np.testing.assert_array_equal(pattern.in_label_order(S.data), columns.data)


@pytest.mark.parametrize("block", [1, 5, 1 << 18])
def test_products_with_data_of_another_kind_than_the_factor(monkeypatch, block):
    monkeypatch.setattr("labelgap.kernels.entry_pattern._BLOCK", block)
    _, S = some_entries()
    # Rows without entries at both ends and in between.
    S = S.toarray()
    S[[0, 1, 12, 29]] = 0.0
    S = sp.csr_array(S)
    pattern = EntryPattern(S.indptr, S.indices, S.shape[1])
    M = np.random.default_rng(1).standard_normal((7, 3)).astype(np.float32)
    found = pattern.times(S.data, M)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, S @ M, atol=1e-5)
    one_number = np.broadcast_to(0.5, S.nnz)
    halves = sp.csr_array((np.full(S.nnz, 0.5), S.indices, S.indptr), shape=S.shape)
    np.testing.assert_allclose(pattern.times(one_number, M.astype(np.float64)), halves @ M, atol=1e-6)


def test_freed_memory_can_be_given_back_at_any_time():
    kept = np.arange(1000)
    give_back_freed()
    np.testing.assert_array_equal(kept, np.arange(1000))


@pytest.mark.parametrize("k", [1, 3, 8, 19])
def test_products_by_label(k):
    pattern, S = some_entries()
    rng = np.random.default_rng(1)
    M, M2, other = rng.standard_normal((30, k)), rng.standard_normal((30, k)), rng.standard_normal(S.nnz)
    T = sp.csr_array((other, S.indices, S.indptr), shape=S.shape)
    np.testing.assert_allclose(pattern.transposed_times(S.data, M), S.T @ M, atol=1e-12)
    found = pattern.transposed_times_pair(S.data, M, other, M2)
    np.testing.assert_allclose(found, S.T @ M + T.T @ M2, atol=1e-12)
    np.testing.assert_allclose(pattern.label_sums(S.data), S.sum(axis=0), atol=1e-12)


def test_scores_of_dense_features_in_blocks_of_rows(monkeypatch):
    pattern, S = some_entries(fraction=0.1)
    rng = np.random.default_rng(2)
    X, left, right = rng.standard_normal((30, 5)), rng.standard_normal((5, 4)), rng.standard_normal((7, 4))
    expected = (X @ left @ right.T)[S.nonzero()]
    kept, P = DenseFeatures(X).scores_at(pattern, left, right)
    assert P is None
    np.testing.assert_allclose(kept, expected, atol=1e-12)
    monkeypatch.setattr(features, "_KEPT_PRODUCT", 100)
    kept, P = DenseFeatures(X).scores_at(pattern, left, right)
    np.testing.assert_allclose(P, X @ left, atol=1e-12)
    np.testing.assert_allclose(kept, expected, atol=1e-12)


def test_features_that_are_stored_twice_count_once_with_their_sum():
    X = sp.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 3))
    dense, M = X.toarray(), np.array([[1.0, 2.0], [3.0, -1.0]])
    made = SparseFeatures(X)
    np.testing.assert_allclose(made.squared_transposed_product(M), (dense * dense).T @ M)
    np.testing.assert_allclose(made.transposed_product(M), dense.T @ M)
    np.testing.assert_allclose(made.product(np.eye(3)), dense)
    assert made.square_length() == pytest.approx(np.sum(dense**2))
    # The caller's matrix stays as it is.
    assert X.nnz == 3


def test_chosen_entries_are_counted_across_blocks(monkeypatch):
    monkeypatch.setattr("labelgap.labels.sources._BLOCK", 4)
    rng = np.random.default_rng(0)
    for length in range(14):
        chosen = rng.random(length) < 0.5
        places = np.sort(rng.integers(0, length + 1, 6))
        expected = np.concatenate(([0], np.cumsum(chosen)))[places]
        np.testing.assert_array_equal(chosen_before(chosen, places), expected)


def test_singular_values_of_a_product_without_its_factors():
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((40, 3)), rng.standard_normal((9, 3))
    np.testing.assert_allclose(product_values(left, right), balanced(left, right)[0], rtol=1e-12)
    np.testing.assert_allclose(product_values(left, right), np.linalg.svd(left @ right.T)[1][:3], rtol=1e-10)


@pytest.mark.parametrize("kind", ["identity", "dense"])
def test_curvatures_along_directions_in_blocks_of_rows(kind, monkeypatch):
    objective = Case(kind, n=40, n_labels=9).objective()
    rng = np.random.default_rng(1)
    factors = random_factors(rng, *objective.shape, 3)
    U, V, _ = random_factors(rng, *objective.shape, 2)
    whole = objective.at(factors).curvature_along(U, V)
    monkeypatch.setattr("labelgap.objective.cpu.entries._IN_ONE", 0)
    monkeypatch.setattr("labelgap.kernels.entry_pattern._BLOCK", 7)
    point = objective.at(factors)
    np.testing.assert_allclose(point.curvature_along(U, V), whole, rtol=1e-12)
    # Where the curvature at all entries is known already.
    point.hessian_diagonal()
    np.testing.assert_allclose(point.curvature_along(U, V), whole, rtol=1e-12)


def test_random_numbers_are_the_same_in_both_precisions(monkeypatch):
    monkeypatch.setattr(linalg, "_BLOCK", 4)
    for make in (np.random.RandomState, np.random.default_rng):
        double, single = (standard_normal(make(0), (11, 3), np.zeros(0, t)) for t in (np.float64, np.float32))
        assert single.dtype == np.float32
        np.testing.assert_array_equal(single, double.astype(np.float32))
