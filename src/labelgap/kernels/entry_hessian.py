"""The Hessian of a sum over entries times a direction, in one pass over the rows."""

from __future__ import annotations

import numpy as np
from numba import njit

from labelgap._types import Floats
from labelgap.kernels.arguments import read_only
from labelgap.kernels.entries import copy_row, filled_up, longest, sampled_row, sum_of_entries, table
from labelgap.kernels.entry_pattern import EntryPattern
from labelgap.kernels.options import OPTIONS
from labelgap.kernels.scattered import row_parts, scattered_add, strip_of, sum_of_parts
from labelgap.kernels.threads import run_over_rows
from labelgap.kernels.vectors import padded_width

_ZERO = np.int64(0)


@njit(**OPTIONS)
def _hessian_rows(  # type: ignore[no-untyped-def]
    indptr, indices, cuts, P, dP, B, dB, db, curvature, gradient, by_row, curved, by_label, sums, start, stop
):
    """Either ``curved`` or the sums by label are of length 0, for callers who want the other."""
    k, width = P.shape[1], B.shape[1]
    own, own_change = np.zeros(width, P.dtype), np.zeros(width, P.dtype)
    first, second = np.empty(width, P.dtype), np.empty(width, P.dtype)
    most = longest(indptr, cuts[start], cuts[stop])
    here, other = np.empty(most, P.dtype), np.empty(most, P.dtype)
    for p in range(start, stop):
        for i in range(cuts[p], cuts[p + 1]):
            begin, count = indptr[i], indptr[i + 1] - indptr[i]
            mine, slopes = indices[begin : begin + count], gradient[begin : begin + count]
            copy_row(P[i], own)
            copy_row(dP[i], own_change)
            sampled_row(own_change, B, mine, _ZERO, count, here)
            sampled_row(own, dB, mine, _ZERO, count, other)
            for e in range(count):
                here[e] = curvature[begin + e] * (here[e] + other[e] + db[mine[e]])
            sum_of_entries(here, mine, _ZERO, count, B, first)
            sum_of_entries(slopes, mine, _ZERO, count, dB, second)
            for c in range(k):
                by_row[i, c] = first[c] + second[c]
            if len(curved):
                copy_row(here[:count], curved[begin : begin + count])
            else:
                scattered_add(here, mine, _ZERO, count, own, _ZERO, width, by_label[p])
                scattered_add(slopes, mine, _ZERO, count, own_change, _ZERO, width, by_label[p])
                for e in range(count):
                    sums[p, mine[e]] += here[e]


def hessian_product(
    pattern: EntryPattern,
    P: Floats,
    dP: Floats,
    Q: Floats,
    dQ: Floats,
    db: Floats,
    curvature: Floats,
    gradient: Floats,
) -> tuple[Floats, Floats, Floats]:
    """The Hessian in (P, Q, b) times a direction.

    With ``dZ = dP Qᵀ + P dQᵀ + 1 dbᵀ`` on the pattern, D the curvature and G the gradient of the loss,
    returns ``(D∘dZ) Q + G dQ``, ``(D∘dZ)ᵀ P + Gᵀ dP`` and the label sums of ``D∘dZ``.
    """
    (n, k), n_labels, entries = P.shape, pattern.n_labels, len(pattern)
    width = padded_width(k, np.float64)
    cuts = row_parts(pattern.indptr, n_labels, width)
    parts = len(cuts) - 1
    at_once = strip_of(n_labels, k) == width
    by_row = np.empty((n, k))
    curved = np.empty(0 if at_once else entries)
    by_label = np.zeros((parts, n_labels if at_once else 0, width))
    sums = np.zeros((parts, n_labels if at_once else 0))
    tables = [filled_up(M) if at_once else table(M, entries) for M in (Q, dQ)]
    given = [read_only(part, np.float64) for part in (P, dP, *tables, db, curvature, gradient)]
    run_over_rows(
        _hessian_rows, pattern.indptr[cuts], 6 * k,
        read_only(pattern.indptr, np.int64), read_only(pattern.indices, np.int32), cuts,
        *given, by_row, curved, by_label, sums,
    )  # fmt: skip
    if at_once:
        return by_row, sum_of_parts(by_label, k), sums.sum(axis=0)
    return by_row, pattern.transposed_times_pair(curved, P, gradient, dP), pattern.label_sums(curved)
