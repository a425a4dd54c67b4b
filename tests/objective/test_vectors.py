"""Sums in registers, on processors that have few and narrow ones."""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.kernels import vectors
from labelgap.kernels.feature_products import _row_sum
from labelgap.kernels.losses import exp_of
from labelgap.kernels.options import OPTIONS
from labelgap.kernels.vectors import add_gram, eliminate, fetch_rows, gathered_dots, gathered_sum

# Not kept: the number of registers is no part of what numba knows a compiled function by.
FRESH = {**OPTIONS, "cache": False}


# Those of x86-64 without AVX, with AVX2 and with AVX-512, and of aarch64.
@pytest.mark.parametrize("registers", [(16, 16), (16, 32), (32, 64), (32, 16)])
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
def test_sums_are_the_same_whatever_the_registers(registers, dtype, monkeypatch):
    monkeypatch.setattr(vectors, "_registers", lambda codegen: registers)

    @njit(**FRESH)
    def all_sums(H, scaled, weights, indices, table, plain, out, dots):
        add_gram(H, table, scaled, 7)
        gathered_sum(weights, indices, 1, 20, table, plain)
        _row_sum(table, indices, weights, 1, 20, out)
        fetch_rows(table, indices, 1, 20)
        gathered_dots(table[0], table, indices, 1, 20, dots)

    rng = np.random.default_rng(0)
    # All numbers of vectors that leave strips of another width over.
    for n_vectors in range(1, 8):
        k = n_vectors * vectors.VECTOR_BYTES // np.dtype(dtype).itemsize
        table, scaled, H = (rng.standard_normal(shape).astype(dtype) for shape in ((9, k), (9, k), (k, k)))
        weights, indices = rng.standard_normal(21).astype(dtype), rng.integers(0, 9, 21).astype(np.int32)
        before, plain, out = H.copy(), np.empty(k, dtype), np.empty(k, dtype)
        dots = np.full(21, np.nan, dtype)
        all_sums(H, scaled, weights, indices, table, plain, out, dots)
        upper, close = (
            np.triu_indices(k),
            {"rtol": 1e3 * np.finfo(dtype).eps, "atol": 1e3 * np.finfo(dtype).eps},
        )
        assert_allclose(H[upper], (before + scaled[:7].T @ table[:7])[upper], **close)
        for found in (plain, out):
            assert_allclose(found, weights[1:20] @ table[indices[1:20]], **close)
        assert_allclose(dots[1:20], table[indices[1:20]] @ table[0], **close)
        assert np.isnan(dots[[0, 20]]).all()


@pytest.mark.parametrize("registers", [(16, 16), (16, 32), (32, 64), (32, 16)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_earlier_rows_are_eliminated_from_the_diagonal_on(registers, dtype, monkeypatch):
    monkeypatch.setattr(vectors, "_registers", lambda codegen: registers)

    @njit(**FRESH)
    def without_earlier(U, row):
        eliminate(U, row)

    lanes = vectors.VECTOR_BYTES // np.dtype(dtype).itemsize
    rng = np.random.default_rng(0)
    for n_vectors in range(1, 8):
        k = n_vectors * lanes
        U = rng.standard_normal((k, k)).astype(dtype)
        for row in (0, 1, k // 2, k - 1):
            found = U.copy()
            without_earlier(found, row)
            expected = U[row] - U[:row, row] @ U[:row]
            assert_allclose(found[row, row:], expected[row:], rtol=1e-3, atol=1e4 * np.finfo(dtype).eps)
            first = row - row % lanes
            assert_array_equal(found[row, :first], U[row, :first])
            assert_array_equal(np.delete(found, row, axis=0), np.delete(U, row, axis=0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_exponential_is_right_to_a_few_roundings(dtype):
    @njit(**FRESH)
    def fill(x, out):
        for i in range(len(x)):
            out[i] = exp_of(x[i])

    x = np.linspace(-80, 40, 2001).astype(dtype)
    out = np.empty_like(x)
    fill(x, out)
    # Of an argument of 80, a rounding is 80 roundings of the result.
    assert_allclose(out, np.exp(x.astype(np.float64)), rtol=80 * np.finfo(dtype).eps)
