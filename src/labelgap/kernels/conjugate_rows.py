"""One guarded, inexact Newton step for every row of a factor: for factors of many columns.

The step is that of :mod:`labelgap.kernels.newton_rows`, and so are the arguments. There a row's k x k Hessian
is formed and factorised, which costs k² for each entry. Here the row's system is solved by a few conjugate
gradients, preconditioned by the Hessian's diagonal, each of which costs about 2k for each entry. Where the
factors are balanced their columns are orthogonal, and the diagonal is most of the Hessian.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap.kernels.losses import derivatives
from labelgap.kernels.newton_rows import SAFE, SAFE_RELAXED
from labelgap.kernels.options import INLINED, OPTIONS, compiled
from labelgap.kernels.vectors import add_multiple, gathered_dots, gathered_sum, inner

# Conjugate gradients in a step, at most, and the fraction of the gradient (in the preconditioner's norm) at
# which they are enough: alternation has more to lose from a half-sweep than from an inexact step.
_MOST_STEPS = 12
_ENOUGH = 0.05


class ConjugateWorkspace(NamedTuple):
    """What one thread works in."""

    vectors: NDArray[Any]
    entries: NDArray[Any]

    @classmethod
    def of(cls, width: int, longest: int, dtype: Any) -> ConjugateWorkspace:
        return cls(np.zeros((7, width), dtype), np.zeros((5, max(longest, 1)), dtype))


@compiled(**INLINED)
def _add_penalty(penalty, diagonal_only, size, direction, k, out):  # type: ignore[no-untyped-def]
    """``out += m M₀ direction``."""
    if diagonal_only:
        add_multiple(out, size * penalty[0, 0], direction, 0)
    else:
        for r in range(k):
            add_multiple(out, size * direction[r], penalty[r], 0)


@compiled(**OPTIONS)
def conjugate_rows(  # type: ignore[no-untyped-def]
    indptr, indices, binary, real, weights, table, squares, shifts, penalty, diagonal_only, sizes, priors, k,
    code, overshoots, relaxation, has_shift, shift_penalty, centre, factor, own_shifts, gains,
    vectors, entries, start, stop,
):  # fmt: skip
    """Rows ``start`` to ``stop`` of ``factor``, and of ``own_shifts`` where they have one, make one step.

    ``squares`` are those of ``table``. ``gains`` are what the second-order model says each row gains.
    """
    z, y, slopes, curvatures, curved = entries[0], entries[1], entries[2], entries[3], entries[4]
    residual, inverse, step = vectors[0], vectors[1], vectors[2]
    direction, product, conditioned, apart = vectors[3], vectors[4], vectors[5], vectors[6]
    width = factor.shape[1]
    kind = factor.dtype.type
    zero, one = kind(0), kind(1)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        own = factor[i]
        prior = priors[i if len(priors) > 1 else 0]
        if begin == end:
            for c in range(width):
                own[c] = prior[c]
            gains[i] = 0
            continue
        count = end - begin
        mine = indices[begin:end]
        shift = own_shifts[i] if has_shift else zero
        size = sizes[i if len(sizes) > 1 else 0]
        gathered_dots(own, table, mine, 0, count, z)
        for e in range(count):
            z[e] += shifts[mine[e]] + shift
            y[e] = binary[begin + e] if len(binary) else real[begin + e]
        derivatives(code, z, y, slopes, curvatures, count)
        if len(weights):
            for e in range(count):
                slopes[e] *= weights[begin + e]
                curvatures[e] *= weights[begin + e]
        slope_sum, curvature = zero, zero
        for e in range(count):
            slope_sum += slopes[e]
            curvature += curvatures[e]
        # The residual of the Newton system at no step at all is the negative gradient.
        gathered_sum(slopes, mine, 0, count, table, residual)
        gathered_sum(curvatures, mine, 0, count, squares, inverse)
        for c in range(width):
            apart[c] = own[c] - prior[c]
        _add_penalty(penalty, diagonal_only, size, apart, k, residual)
        largest = zero
        for c in range(k):
            inverse[c] += size * penalty[c, c]
            largest = max(largest, inverse[c])
        for c in range(width):
            inverse[c] = one / inverse[c] if inverse[c] > kind(1e-12) * largest and c < k else zero
            residual[c] = -residual[c]
            step[c] = zero
            conditioned[c] = inverse[c] * residual[c]
            direction[c] = conditioned[c]
        shift_residual = zero
        shift_inverse = zero
        if has_shift:
            curvature += shift_penalty
            shift_residual = -(slope_sum + shift_penalty * (shift - centre))
            shift_inverse = one / curvature if curvature > zero else zero
        shift_step, shift_direction = zero, shift_inverse * shift_residual
        square = inner(residual, conditioned, 0) + shift_residual * shift_direction
        first = square
        gain = 0.0
        for _ in range(_MOST_STEPS):
            if not square > kind(_ENOUGH * _ENOUGH) * first:
                break
            gathered_dots(direction, table, mine, 0, count, curved)
            along = zero
            for e in range(count):
                moved = curved[e] + shift_direction
                curved[e] = curvatures[e] * moved
                along += curved[e]
            gathered_sum(curved, mine, 0, count, table, product)
            _add_penalty(penalty, diagonal_only, size, direction, k, product)
            shift_product = along + shift_penalty * shift_direction if has_shift else zero
            bend = inner(direction, product, 0) + shift_direction * shift_product
            if not bend > zero:
                break
            length = square / bend
            gain += 0.5 * length * square
            add_multiple(step, length, direction, 0)
            add_multiple(residual, -length, product, 0)
            shift_step += length * shift_direction
            shift_residual -= length * shift_product
            for c in range(width):
                conditioned[c] = inverse[c] * residual[c]
            shift_conditioned = shift_inverse * shift_residual
            after = inner(residual, conditioned, 0) + shift_residual * shift_conditioned
            ratio = after / square
            square = after
            for c in range(width):
                direction[c] = conditioned[c] + ratio * direction[c]
            shift_direction = shift_conditioned + ratio * shift_direction
        gains[i] = gain
        length = relaxation
        if overshoots:
            gathered_dots(step, table, mine, 0, count, curved)
            most = zero
            for e in range(count):
                most = max(most, abs(curved[e] + shift_step))
            if most >= kind(SAFE):
                length = kind(math.log1p(most) / most)
            elif most >= kind(SAFE_RELAXED):
                length = min(one, relaxation)
        add_multiple(own, length, step, 0)
        if has_shift:
            own_shifts[i] = shift + length * shift_step
