"""One guarded Newton step for every row of a factor, the other factor held: many small systems.

Row i has the scores ``z_e = a_i · q_e + s_e + t_i`` at its entries e, with q_e and s_e a row of the other
factor and its shift, and t_i a shift of its own where it has one (a label's intercept). It minimises

    ``Σ_e ω_e ℓ(z_e, y_e) + ½ (a_i − p_i)ᵀ M (a_i − p_i) + κ/2 (t_i − c)²``

with ``M = m_i M₀`` of a size of its own for each row, and p_i what is known of the row without its entries
(or 0). Its entries are met once, a few at a time: rows of the other factor are gathered into a buffer in the
first cache, scored, and added to the gradient and the Hessian from there. The Hessian is factorised in place.
Nothing is allocated.

**Why a step cannot overshoot.** Where ``|ℓ'''| ≤ ℓ''`` (logistic, exponential, Poisson), a Newton step that
changes no score by more than R lowers the objective if it is shortened to ``log(1 + R)/R``, and at full
length if R < 1.79 (Bach, 2010). Only if a bound on R from the norms says it may be larger, R is computed.
Steps may be over-relaxed by up to 1.4, which speeds alternation up as over-relaxation does; that is safe for
R < 0.7.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap.kernels.losses import derivatives
from labelgap.kernels.options import INLINED, OPTIONS, compiled
from labelgap.kernels.vectors import (
    add_gram,
    add_multiple,
    eliminate,
    fetch_rows,
    gather_and_dot,
    inner,
    multiply,
    scale_and_sum,
)

# Entries whose rows are in the buffer at one time.
CHUNK = 64
# A full step is safe below this change of any score.
SAFE = 1.79
# So is one that is over-relaxed, up to so much, below this one.
MOST_RELAXATION, SAFE_RELAXED = 1.4, 0.7
# A pivot below this fraction of the largest diagonal element is rounding.
_LEAST_PIVOT = 1e-7
# Places that the widest vector may reach back.
_LANES = 16


class Workspace(NamedTuple):
    """What one thread works in."""

    gathered: NDArray[Any]
    scaled: NDArray[Any]
    hessian: NDArray[Any]
    vectors: NDArray[Any]
    entries: NDArray[Any]

    @classmethod
    def of(cls, width: int, dtype: Any) -> Workspace:
        return cls(
            np.zeros((CHUNK, width), dtype),
            np.zeros((CHUNK, width), dtype),
            np.zeros((width, width), dtype),
            np.zeros((4, width), dtype),
            np.zeros((4, CHUNK), dtype),
        )


@compiled(**INLINED)
def _factorise(H, k, x):  # type: ignore[no-untyped-def]
    """H = UᵀU in place, U above the diagonal, and ``U⁻ᵀx`` on the way."""
    largest = H[0, 0]
    for j in range(1, k):
        largest = max(largest, H[j, j])
    least = largest * H.dtype.type(_LEAST_PIVOT)
    for j in range(k):
        eliminate(H, j)
        row = H[j]
        pivot = row[j]
        if not pivot > least:
            # No curvature to speak of: the direction hardly moves.
            pivot = largest if largest > 0 else H.dtype.type(1)
        inverse = H.dtype.type(1) / np.sqrt(pivot)
        # A vector reaches places before the diagonal too. They must not count in what follows.
        for t in range(j - j % _LANES, j):
            row[t] = 0
        row[j] = pivot
        multiply(row, inverse, j)
        value = x[j] * inverse
        add_multiple(x, -value, row, j)
        x[j] = value


@compiled(**INLINED)
def _solve_forward(U, k, x):  # type: ignore[no-untyped-def]
    """x becomes ``U⁻ᵀx``."""
    for j in range(k):
        value = x[j] / U[j, j]
        add_multiple(x, -value, U[j], j)
        x[j] = value


@compiled(**INLINED)
def _solve_back(U, k, x):  # type: ignore[no-untyped-def]
    """x becomes ``U⁻¹x``."""
    for j in range(k - 1, -1, -1):
        value = x[j]
        x[j] = 0
        # Places before j hold what is still to be solved, and meet zeros in the row.
        x[j] = (value - inner(U[j], x, j)) / U[j, j]


@compiled(**INLINED)
def _add_entries(  # type: ignore[no-untyped-def]
    indices, binary, real, weights, table, shifts, own, own_shift, code, begin, end, next_end,
    gathered, scaled, H, slope, curved, z, y, slopes, curvatures,
):  # fmt: skip
    """The entries' parts of gradient and Hessian; returns the sums of slopes and curvatures.

    Those of the next row are from ``end`` to ``next_end``.
    """
    total_slope = z.dtype.type(0)
    total_curvature = z.dtype.type(0)
    for s in range(begin, end, CHUNK):
        count = min(CHUNK, end - s)
        gather_and_dot(table, indices, s, count, own, gathered, z)
        # The next ones, of this row or of the next, come in while these are worked on.
        fetch_rows(table, indices, s + count, min(s + count + CHUNK, end if s + count < end else next_end))
        for e in range(count):
            z[e] += shifts[indices[s + e]] + own_shift
        if len(binary):
            for e in range(count):
                y[e] = binary[s + e]
        else:
            for e in range(count):
                y[e] = real[s + e]
        derivatives(code, z, y, slopes, curvatures, count)
        if len(weights):
            for e in range(count):
                slopes[e] *= weights[s + e]
                curvatures[e] *= weights[s + e]
        for e in range(count):
            total_slope += slopes[e]
            total_curvature += curvatures[e]
        scale_and_sum(gathered, count, slopes, curvatures, scaled, slope, curved)
        add_gram(H, gathered, scaled, count)
    return total_slope, total_curvature


@compiled(**INLINED)
def _largest_change(indices, table, step, shift, begin, end, gathered, z):  # type: ignore[no-untyped-def]
    """max |Δz| over the entries."""
    largest = z.dtype.type(0)
    for s in range(begin, end, CHUNK):
        count = min(CHUNK, end - s)
        gather_and_dot(table, indices, s, count, step, gathered, z)
        fetch_rows(table, indices, s + count, min(s + count + CHUNK, end))
        for e in range(count):
            largest = max(largest, abs(z[e] + shift))
    return largest


@compiled(**OPTIONS)
def newton_rows(  # type: ignore[no-untyped-def]
    indptr, indices, binary, real, weights, table, shifts, reach, penalty, sizes, priors, k, code, overshoots,
    relaxation, has_shift, shift_penalty, centre, factor, own_shifts, gains,
    gathered, scaled, H, vectors, entries, start, stop,
):  # fmt: skip
    """Rows ``start`` to ``stop`` of ``factor``, and of ``own_shifts`` where they have one, make one step.

    The targets are in ``binary`` or in ``real``, and the other one is empty. ``gains`` are what the
    second-order model says each of them gains by it.
    """
    z, y, slopes, curvatures = entries[0], entries[1], entries[2], entries[3]
    slope, curved, held = vectors[0], vectors[1], vectors[2]
    width = factor.shape[1]
    zero, one = factor.dtype.type(0), factor.dtype.type(1)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        own = factor[i]
        prior = priors[i if len(priors) > 1 else 0]
        if begin == end:
            for c in range(width):
                own[c] = prior[c]
            gains[i] = 0
            continue
        shift = own_shifts[i] if has_shift else zero
        for c in range(width):
            curved[c] = zero
            slope[c] = zero
        size = sizes[i if len(sizes) > 1 else 0]
        for r in range(k):
            for c in range(width):
                H[r, c] = size * penalty[r, c]
            add_multiple(slope, size * (own[r] - prior[r]), penalty[r], 0)
        slope_sum, curvature = _add_entries(
            indices, binary, real, weights, table, shifts, own, shift, code, begin, end,
            indptr[min(i + 2, len(indptr) - 1)], gathered, scaled, H, slope, curved, z, y, slopes, curvatures,
        )  # fmt: skip
        for c in range(width):
            held[c] = slope[c]
        _factorise(H, k, held)
        _solve_back(H, k, held)
        change = zero
        if has_shift:
            # The shift by its Schur complement: H⁻¹ of the cross terms is the second solution.
            slope_sum += shift_penalty * (shift - centre)
            curvature += shift_penalty
            cross = vectors[3]
            for c in range(width):
                cross[c] = curved[c]
            _solve_forward(H, k, cross)
            _solve_back(H, k, cross)
            left = curvature - inner(curved, cross, 0)
            if left > factor.dtype.type(_LEAST_PIVOT) * curvature:
                change = (inner(curved, held, 0) - slope_sum) / left
                add_multiple(held, change, cross, 0)
        gains[i] = 0.5 * (inner(slope, held, 0) - slope_sum * change)
        length = relaxation
        if overshoots:
            most = np.sqrt(inner(held, held, 0)) * reach + abs(change)
            if most >= (SAFE_RELAXED if relaxation > one else SAFE):
                for c in range(width):
                    slope[c] = -held[c]
                most = _largest_change(indices, table, slope, change, begin, end, gathered, z)
                if most >= SAFE:
                    length = factor.dtype.type(math.log1p(most) / most)
                elif most >= SAFE_RELAXED:
                    length = one
        add_multiple(own, -length, held, 0)
        if has_shift:
            own_shifts[i] = shift + length * change
