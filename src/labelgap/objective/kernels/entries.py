"""Kernels over the observed entries: sampled products and sparse-times-factor products.

Rows of the factors are contiguous, so every inner loop runs over ``k`` neighbouring numbers. Nothing of
size n x L appears: each kernel touches the entries of Ω and the factors.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numba import njit

from labelgap._types import Floats, Ints
from labelgap.objective.kernels.threads import map_in_order, run_over_rows, thread_count

# Sums may be reassociated (that is what lets them vectorise); NaN and infinity keep their meaning.
_OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
}


@njit(**_OPTIONS)
def _sampled_product(indptr, indices, P, B, out, start, stop):  # type: ignore[no-untyped-def]
    k = P.shape[1]
    for i in range(start, stop):
        p = P[i]
        for e in range(indptr[i], indptr[i + 1]):
            q = B[indices[e]]
            total = p[0] * 0
            for c in range(k):
                total += p[c] * q[c]
            out[e] = total


@njit(**_OPTIONS)
def _csr_product(indptr, indices, data, M, out, start, stop):  # type: ignore[no-untyped-def]
    k = M.shape[1]
    for i in range(start, stop):
        row = out[i]
        for c in range(k):
            row[c] = 0
        for e in range(indptr[i], indptr[i + 1]):
            v = data[e]
            m = M[indices[e]]
            for c in range(k):
                row[c] += v * m[c]


@njit(**_OPTIONS)
def _csr_product_pair(indptr, indices, data, M, data2, M2, out, start, stop):  # type: ignore[no-untyped-def]
    k = M.shape[1]
    for i in range(start, stop):
        row = out[i]
        for c in range(k):
            row[c] = 0
        for e in range(indptr[i], indptr[i + 1]):
            v = data[e]
            v2 = data2[e]
            m = M[indices[e]]
            m2 = M2[indices[e]]
            for c in range(k):
                row[c] += v * m[c] + v2 * m2[c]


@njit(**_OPTIONS)
def _curvature_rows(  # type: ignore[no-untyped-def]
    indptr, indices, P, dP, B, dB, db, curvature, gradient, bent, out, start, stop
):
    k = P.shape[1]
    for i in range(start, stop):
        row = out[i]
        p = P[i]
        dp = dP[i]
        for c in range(k):
            row[c] = 0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            q = B[j]
            dq = dB[j]
            dz = db[j]
            for c in range(k):
                dz += dp[c] * q[c] + p[c] * dq[c]
            t = curvature[e] * dz
            g = gradient[e]
            bent[e] = t
            for c in range(k):
                row[c] += t * q[c] + g * dq[c]


@njit(**_OPTIONS)
def _sparse_sparse_product(  # type: ignore[no-untyped-def]
    indptr, indices, data, right_indptr, right_indices, right_data, out, start, stop
):
    for j in range(start, stop):
        row = out[j]
        for t in range(indptr[j], indptr[j + 1]):
            i = indices[t]
            g = data[t]
            for e in range(right_indptr[i], right_indptr[i + 1]):
                row[right_indices[e]] += g * right_data[e]


@njit(**_OPTIONS)
def _sparse_sampled_product(  # type: ignore[no-untyped-def]
    indptr, indices, x_indptr, x_indices, x_data, W_by_label, out, start, stop
):
    for i in range(start, stop):
        first = x_indptr[i]
        last = x_indptr[i + 1]
        for e in range(indptr[i], indptr[i + 1]):
            w = W_by_label[indices[e]]
            total = 0.0
            for t in range(first, last):
                total += x_data[t] * w[x_indices[t]]
            out[e] = total


@njit(**_OPTIONS)
def _streamed_sampled_product(  # type: ignore[no-untyped-def]
    indptr, indices, x_indptr, x_indices, x_data, W, out, start, stop
):
    n_labels = W.shape[1]
    scores = np.empty(n_labels)
    for i in range(start, stop):
        for c in range(n_labels):
            scores[c] = 0
        for t in range(x_indptr[i], x_indptr[i + 1]):
            v = x_data[t]
            w = W[x_indices[t]]
            for c in range(n_labels):
                scores[c] += v * w[c]
        for e in range(indptr[i], indptr[i + 1]):
            out[e] = scores[indices[e]]


@njit(**_OPTIONS)
def _transposed_product_part(  # type: ignore[no-untyped-def]
    indptr, indices, data, x_indptr, x_indices, x_data, first, out
):
    # One row of S at a time, its labels from ``first`` on spread out: a sum is over the rows in their order.
    width = out.shape[1]
    spread = np.zeros(width)
    for i in range(len(indptr) - 1):
        some = False
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e] - first
            if 0 <= j < width:
                spread[j] = data[e]
                some = True
        if not some:
            continue
        for t in range(x_indptr[i], x_indptr[i + 1]):
            v = x_data[t]
            row = out[x_indices[t]]
            for c in range(width):
                row[c] += v * spread[c]
        for c in range(width):
            spread[c] = 0


def sampled_product(indptr: Ints, indices: Ints, P: Floats, B: Floats) -> Floats:
    """``(P Bᵀ)`` at the entries of the pattern, in its order."""
    out = np.empty(len(indices), dtype=P.dtype)
    if P.shape[1] == 0:
        out[:] = 0
    else:
        run_over_rows(_sampled_product, indptr, P.shape[1], indptr, indices, P, B, out)
    return out


def sparse_sampled_product(
    indptr: Ints, indices: Ints, X: tuple[Ints, Ints, Floats], W_by_label: Floats
) -> Floats:
    """``(X W)`` at the entries of the pattern, for sparse X and W given by label (L x d)."""
    out = np.empty(len(indices))
    per_entry = 1 + len(X[1]) // max(len(X[0]) - 1, 1)
    run_over_rows(_sparse_sampled_product, indptr, per_entry, indptr, indices, *X, W_by_label, out)
    return out


def streamed_sampled_product(indptr: Ints, indices: Ints, X: tuple[Ints, Ints, Floats], W: Floats) -> Floats:
    """``(X W)`` at the entries of the pattern, by whole rows of XW; the faster one where they are dense."""
    out = np.empty(len(indices))
    per_entry = 1 + len(X[1]) // max(len(X[0]) - 1, 1)
    run_over_rows(_streamed_sampled_product, indptr, per_entry, indptr, indices, *X, W, out)
    return out


def streamed_transposed_product(
    indptr: Ints, indices: Ints, data: Floats, X: tuple[Ints, Ints, Floats], shape: tuple[int, int]
) -> Floats:
    """``Xᵀ S`` as a dense matrix of this shape, for the sparse S with these rows; fast where S is dense."""

    def part(bounds: tuple[int, int]) -> Floats:
        out = np.zeros((shape[0], bounds[1] - bounds[0]))
        _transposed_product_part(indptr, indices, data, *X, bounds[0], out)
        return out

    # Threads share the labels: each sees all rows, and no two of them write to the same place.
    parts = max(1, min(thread_count(), shape[1]))
    cuts = [shape[1] * t // parts for t in range(parts + 1)]
    found = map_in_order(part, list(itertools.pairwise(cuts)))
    return found[0] if parts == 1 else np.hstack(found)


def csr_product(indptr: Ints, indices: Ints, data: Floats, M: Floats) -> Floats:
    """``S M`` for the sparse matrix S with these rows, and M dense."""
    out = np.empty((len(indptr) - 1, M.shape[1]), dtype=M.dtype)
    run_over_rows(_csr_product, indptr, M.shape[1], indptr, indices, data, np.ascontiguousarray(M), out)
    return out


def csr_product_pair(
    indptr: Ints, indices: Ints, data: Floats, M: Floats, data2: Floats, M2: Floats
) -> Floats:
    """``S M + S₂ M₂`` for two sparse matrices of one pattern."""
    out = np.empty((len(indptr) - 1, M.shape[1]), dtype=M.dtype)
    run_over_rows(_csr_product_pair, indptr, 2 * M.shape[1], indptr, indices, data, M, data2, M2, out)
    return out


def sparse_sparse_product(
    left: tuple[Ints, Ints, Floats], right: tuple[Ints, Ints, Floats], n_columns: int
) -> Floats:
    """``S T`` as a dense matrix, for two sparse matrices given by rows."""
    out = np.zeros((len(left[0]) - 1, n_columns))
    per_entry = 1 + len(right[1]) // max(len(right[0]) - 1, 1)
    run_over_rows(_sparse_sparse_product, left[0], per_entry, *left, *right, out)
    return out


def curvature_rows(
    indptr: Ints,
    indices: Ints,
    P: Floats,
    dP: Floats,
    B: Floats,
    dB: Floats,
    db: Floats,
    curvature: Floats,
    gradient: Floats,
) -> tuple[Floats, Floats]:
    """One pass over the rows for a Hessian product.

    With ``dZ = dP Bᵀ + P dBᵀ + 1 dbᵀ`` on the pattern, D the curvature and G the gradient of the loss,
    returns the entries ``D∘dZ`` and the matrix ``(D∘dZ) B + G dB``.
    """
    bent = np.empty(len(indices), dtype=P.dtype)
    out = np.empty(P.shape, dtype=P.dtype)
    run_over_rows(
        _curvature_rows, indptr, 4 * P.shape[1],
        indptr, indices, P, dP, B, dB, db, curvature, gradient, bent, out,
    )  # fmt: skip
    return bent, out
