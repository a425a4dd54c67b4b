"""Sums in registers, on processors that have few and narrow ones."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.kernels import vectors
from labelgap.kernels.options import OPTIONS
from labelgap.kernels.vectors import add_gram, eliminate, fetch_rows, gathered_dots, gathered_sum

# Not kept: the number of registers is no part of what numba knows a compiled function by.
FRESH = {**OPTIONS, "cache": False}
# Those of x86-64 without AVX, with AVX2 and with AVX-512, and of aarch64.
REGISTERS = [(16, 16), (16, 32), (32, 64), (32, 16)]


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("registers", REGISTERS)
def test_sums_are_the_same_whatever_the_registers(registers, dtype, monkeypatch):
    # What code is made for is the processor's to say; another one is not to be had in any other way.
    monkeypatch.setattr(vectors, "_registers", lambda codegen: registers)

    @njit(**FRESH)
    def all_sums(H, scaled, weights, indices, table, plain, dots):
        add_gram(H, table, scaled, 7)
        gathered_sum(weights, indices, 1, 20, table, plain)
        fetch_rows(table, indices, 1, 20)
        gathered_dots(table[0], table, indices, 1, 20, dots)

    @njit(**FRESH)
    def without_earlier(U, row):
        eliminate(U, row)

    rng = np.random.default_rng(0)
    lanes, eps = vectors.VECTOR_BYTES // np.dtype(dtype).itemsize, np.finfo(dtype).eps
    # All numbers of vectors that leave strips of another width over.
    for n_vectors in range(1, 8):
        k = n_vectors * lanes
        table, scaled, H = (rng.standard_normal(shape).astype(dtype) for shape in ((9, k), (9, k), (k, k)))
        weights, indices = rng.standard_normal(21).astype(dtype), rng.integers(0, 9, 21).astype(np.int32)
        before, plain, dots = H.copy(), np.empty(k, dtype), np.full(21, np.nan, dtype)
        all_sums(H, scaled, weights, indices, table, plain, dots)
        upper, close = np.triu_indices(k), {"rtol": 1e3 * eps, "atol": 1e3 * eps}
        assert_allclose(H[upper], (before + scaled[:7].T @ table[:7])[upper], **close)
        assert_allclose(plain, weights[1:20] @ table[indices[1:20]], **close)
        assert_allclose(dots[1:20], table[indices[1:20]] @ table[0], **close)
        assert np.isnan(dots[[0, 20]]).all()
        U = rng.standard_normal((k, k)).astype(dtype)
        for row in (0, 1, k // 2, k - 1):
            found, expected = U.copy(), U[row] - U[:row, row] @ U[:row]
            without_earlier(found, row)
            assert_allclose(found[row, row:], expected[row:], rtol=1e-3, atol=1e4 * eps)
            first = row - row % lanes
            assert_array_equal(found[row, :first], U[row, :first])
            assert_array_equal(np.delete(found, row, axis=0), np.delete(U, row, axis=0))
