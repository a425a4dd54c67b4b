"""Sums in registers, on processors that have few and narrow ones."""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose

from labelgap.kernels.feature_products import _row_sum
from labelgap.kernels.losses import exp_of
from labelgap.kernels.options import OPTIONS
from labelgap.kernels.vectors import _Emitter, add_gram, gathered_sum

# Not kept: the number of registers is no part of what numba knows a compiled function by.
FRESH = {**OPTIONS, "cache": False}


# Vectors of sums on x86-64 without AVX, and on aarch64 or with AVX2.
@pytest.mark.parametrize("vectors", [3, 6])
def test_sums_are_the_same_whatever_the_registers(vectors, monkeypatch):
    monkeypatch.setattr(_Emitter, "sums_at_once", lambda self, most: min(most, vectors))

    @njit(**FRESH)
    def all_sums(H, scaled, weights, indices, table, plain, out):
        add_gram(H, table, scaled, 7)
        gathered_sum(weights, indices, 1, 6, table, plain)
        _row_sum(table, indices, weights, 1, 6, out)

    rng = np.random.default_rng(0)
    # Of seven vectors: no whole number of tiles.
    k = 56
    table, scaled, H = rng.standard_normal((9, k)), rng.standard_normal((9, k)), rng.standard_normal((k, k))
    weights, indices = rng.standard_normal(6), rng.integers(0, 9, 6).astype(np.int32)
    before, plain, out = H.copy(), np.empty(k), np.empty(k)
    all_sums(H, scaled, weights, indices, table, plain, out)
    upper = np.triu_indices(k)
    assert_allclose(H[upper], (before + scaled[:7].T @ table[:7])[upper], rtol=1e-12, atol=1e-12)
    for found in (plain, out):
        assert_allclose(found, weights[1:6] @ table[indices[1:6]], rtol=1e-12, atol=1e-12)


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
