"""Leading singular triplets of ``H = XᵀG + λ₂ A Bᵀ``, the gradient of the smooth part in W."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from array_api_compat import device

from labelgap.objective.protocol import ScoreGradient
from labelgap.solvers.linalg import (
    Array,
    contiguous,
    leading_eigenvectors,
    like,
    namespace,
    norm,
    rounding,
    small_svd,
    smallest,
    standard_normal,
    thin_qr,
    wide_product,
)

SHORT = 32
"""The shorter side of a matrix up to which its singular value decomposition is as fast as its Gram matrix."""
# Vectors that are carried from step to step beside those that are needed, and random ones that join them in
# each: a direction that begins to matter is found by these, and has come close when it does.
_SPARE, _FRESH = 8, 4
# Steps of subspace iteration where random vectors have to come close at once.
_STEPS = 3
# The fraction of all singular vectors from which on all of them are as cheap.
_MANY = 1 / 3
# What rounding may take from σ₁, as a fraction of it and in units of rounding; the larger one is added.
_MARGIN, _MARGIN_ROUNDING = 1e-12, 16
# The same for products in single precision, as a fraction of σ₁.
_SINGLE_ERROR = 1e-3


@dataclass
class LowRankShift:
    """``Xᵀ G + scale · left @ right.T`` as a linear map on L-vectors, never formed unless small."""

    gradient: ScoreGradient
    left: Array
    right: Array
    product: Array | None = None
    """``left @ right.T``, if that has been made."""
    scale: float = 1.0
    _formed: Array | None = field(default=None, init=False, repr=False)

    @property
    def gradient_matrix(self) -> Array:
        """``Xᵀ G``, formed once."""
        # Before Python 3.12, cached_property holds one lock for all folds that are fitted side by side.
        if self._formed is None:
            self._formed = self.gradient.matrix()
        return self._formed

    def matrix(self) -> Array:
        if self.scale == 0 or self.left.shape[1] == 0:
            return self.gradient_matrix
        right = self.scale * self.right
        total = self.left @ right.T if self.product is None else self.scale * self.product
        total += self.gradient_matrix
        return total

    def times(self, V: Array) -> Array:
        if self.scale == 0:
            return self.gradient.left_product(V)
        return self.gradient.left_product(V) + self.left @ (self.scale * (self.right.T @ V))

    def transposed_times(self, U: Array) -> Array:
        if self.scale == 0:
            return self.gradient.right_product(U)
        return self.gradient.right_product(U) + self.right @ (self.scale * (self.left.T @ U))

    def in_single(self) -> LowRankShift:
        """The same map, on vectors in single precision; numpy's alone, others do not mix precisions."""
        # Factors that nothing is multiplied with need no copies.
        columns = slice(None if self.scale else 0)
        left, right = (factor[:, columns].astype(np.float32) for factor in (self.left, self.right))
        return LowRankShift(self.gradient, left, right, None, self.scale)


@dataclass(frozen=True)
class SingularTriplets:
    """Descending singular values with vectors in columns; ``top`` is σ₁ rounded up (see below)."""

    left: Array
    values: Array
    right: Array
    top: float

    def from_single(self, example: Array) -> SingularTriplets:
        """Those of single precision in that of an array; σ₁ stays between the first value and ``top``.

        Products with many entries err by more than the last digit.
        """
        left, values, right = (like(part, example) for part in (self.left, self.values, self.right))
        return SingularTriplets(left, (1 - _SINGLE_ERROR) * values, right, (1 + _SINGLE_ERROR) * self.top)

    def first(self, count: int) -> SingularTriplets:
        """The largest ones, in arrays of their own."""
        left, right = (contiguous(part[:, :count]) for part in (self.left, self.right))
        return SingularTriplets(left, self.values[:count], right, self.top)


def leading_triplets(
    operator: LowRankShift,
    shape: tuple[int, int],
    count: int,
    may_form: bool,
    above: float | None = None,
    accuracy: float = 1e-7,
    start: SingularTriplets | None = None,
) -> SingularTriplets:
    """The ``count`` largest singular triplets of a (d x L) operator, without those not ``above`` a value.

    The matrix is formed only where the objective says that it ``may_form`` one; there the values are exact to
    rounding. Otherwise Lanczos with a fixed random start, until the first triplet has a relative residual of
    ``accuracy``, which is added to ``top``. That would still be too low if the start were orthogonal to the
    leading vector, which has probability zero. ``start`` are triplets of the same operator that were found
    less accurately.
    """
    count = max(1, min(count, *shape))
    if may_form or count >= min(shape) - 1:
        return _decomposed(operator.matrix(), shape, count, above)
    return _lanczos(operator, shape, count, accuracy, start)


def following_triplets(
    operator: LowRankShift, shape: tuple[int, int], start: Array, *, above: float, may_form: bool
) -> SingularTriplets:
    """The singular triplets above a value, and a few more, of an operator that is nearly a known one.

    ``start`` are right vectors of that one. A step of subspace iteration, over all steps of a method, turns
    them after the operators; its values are lower bounds, and the errors of those that it has followed for
    a while are of second order. Of a matrix that may be formed they are exact where many are wanted, and
    where more have come above the value than random vectors can be close to at once.
    """
    xp, full = namespace(start), min(shape)
    H = operator.matrix() if may_form else None
    fresh, steps = _FRESH, 1
    while True:
        count = min(start.shape[1] + fresh, full)
        if may_form and (count >= _MANY * full or steps > 1):
            return _decomposed(H, shape, full, above)
        random = standard_normal(np.random.default_rng(0), (shape[1], fresh), start)
        V = xp.concat([start, random], axis=1)
        for _ in range(steps):
            U = thin_qr(operator.times(V) if H is None else H @ V)[0]
            V = operator.transposed_times(U) if H is None else H.T @ U
        Q, R = thin_qr(V)
        turned, values, rotation = xp.linalg.svd(R, full_matrices=False)
        kept = int(xp.count_nonzero(values > above)) + _SPARE
        if kept < values.shape[0] + _SPARE or count == full:
            left, right = (contiguous(part[:, :kept]) for part in (U @ rotation.T, Q @ turned))
            return SingularTriplets(left, values[:kept], right, float(values[0]))
        # All of them are above, and there may be more, of which nothing is known yet.
        start, fresh, steps = Q @ turned, count, _STEPS


def roughly_leading(
    operator: LowRankShift, start: Array, outside: tuple[Array, Array], steps: int = 5
) -> SingularTriplets:
    """About the largest singular triplets of H outside two spans, as many as ``start`` has random columns.

    ``outside`` are orthonormal columns U and V, and the triplets are those of ``(I − UUᵀ) H (I − VVᵀ)``: the
    best in the span of ``(H Hᵀ)ⁱ H start`` for i below ``steps``. The values are lower bounds.
    """
    xp = namespace(start)
    span, V = outside
    n_outside = span.shape[1]
    right, images = start, []
    # No more columns than the left side has.
    for _ in range(max(1, min(steps, (span.shape[0] - n_outside) // start.shape[1]))):
        left = operator.times(right - V @ (V.T @ right))
        # Twice, since one pass leaves what rounding makes of it.
        for _ in range(2):
            left = left - span @ (span.T @ left)
        left, _ = thin_qr(left)
        span = xp.concat([span, left], axis=1)
        right = operator.transposed_times(left)
        right = right - V @ (V.T @ right)
        images.append(right)
    basis, triangle = thin_qr(xp.concat(images, axis=1))
    turned, values, rotation = xp.linalg.svd(triangle, full_matrices=False)
    count = start.shape[1]
    return SingularTriplets(
        contiguous(span[:, n_outside:] @ rotation[:count, :].T),
        values[:count],
        contiguous(basis @ turned[:, :count]),
        float(values[0]),
    )


def _decomposed(H: Array, shape: tuple[int, int], count: int, above: float | None) -> SingularTriplets:
    xp = namespace(H)
    if min(shape) <= SHORT:
        left, values, right = small_svd(H)
        count = _wanted(values, count, above)
        return SingularTriplets(left[:, :count], values[:count], right[:count, :].T, _rounded_up(values))
    # The Gram matrix of the smaller side: one GEMM instead of a bidiagonalisation. Squares of numbers in
    # single precision have few digits left, so they are taken in double precision.
    tall = shape[0] >= shape[1]
    exact = H if H.dtype == xp.float64 else xp.astype(H, xp.float64)
    squares, vectors = leading_eigenvectors(exact.T @ exact if tall else exact @ exact.T, count)
    values = xp.sqrt(xp.clip(squares, 0.0, None))
    count = _wanted(values, count, above)
    values, known = values[:count], contiguous(like(vectors[:, :count], H))
    # A singular value that is nothing but rounding has no vector on the other side.
    noise = math.sqrt(rounding(values)) * values[0]
    unit = xp.where(values > noise, values, xp.full_like(values, math.inf))
    values, unit = like(values, H), like(unit, H)
    other = (H @ known if tall else H.T @ known) / unit
    left, right = (other, known) if tall else (known, other)
    return SingularTriplets(left, values, right, _rounded_up(values))


def _rounded_up(values: Array) -> float:
    return float(values[0]) * (1 + max(_MARGIN, _MARGIN_ROUNDING * rounding(values)))


def _wanted(values: Array, count: int, above: float | None) -> int:
    """How many of the descending values are wanted, at least one."""
    if above is None:
        return count
    return max(1, min(count, int(namespace(values).count_nonzero(values > above))))


def _lanczos(
    operator: LowRankShift,
    shape: tuple[int, int],
    count: int,
    accuracy: float,
    start: SingularTriplets | None,
) -> SingularTriplets:
    found = leading_by_blocks(
        operator.times,
        operator.transposed_times,
        shape,
        count,
        accuracy,
        operator.left,
        None if start is None else (start.left, start.right),
    )
    # The residual leaves out what its own computation rounds.
    return SingularTriplets(found.left, found.values, found.right, _rounded_up(found.values) + found.residual)


# Vectors in a block, at least; with 8 doubles a row of a block is one cache line.
_BLOCK = 8
# Blocks until the bases are dropped and begun anew from the best vectors so far. A basis takes memory, so it
# has as many columns as the first number of the narrowest blocks, and at least the second number of blocks.
_MOST_BLOCKS, _LEAST_BLOCKS = 14, 4
_RESTARTS = 40
# The least residual that can be asked for, in units of rounding.
_FINEST = 16


class Leading(NamedTuple):
    """Triplets in columns, values descending, and how far the first right vector is from being one."""

    left: Array
    values: Array
    right: Array
    residual: float
    """``‖Aᵀu₁ − σ₁v₁‖`` or ``‖A v₁ − σ₁u₁‖``; one of the two vanishes by construction."""


def leading_by_blocks(
    times: Callable[[Array], Array],
    transposed_times: Callable[[Array], Array],
    shape: tuple[int, int],
    count: int,
    accuracy: float,
    example: Array | None = None,
    start: tuple[Array, Array] | None = None,
) -> Leading:
    """The ``count`` largest triplets of the (d x L) map; the first to a residual of ``accuracy · σ₁``.

    The others are as good as they come with it. The start is random, with a fixed seed, in the namespace and
    precision of ``example`` (numpy's doubles without one), but for the left and right vectors in ``start``.

    Examples
    --------
    >>> A = np.diag([3.0, 2.0, 1.0])
    >>> found = leading_by_blocks(lambda V: A @ V, lambda U: A.T @ U, (3, 3), 2, 1e-10)
    >>> found.values.round(6).tolist()
    [3.0, 2.0]
    """
    example = np.zeros(0) if example is None else example
    if shape[0] < shape[1]:
        # With the shorter side on the right the bases can run out only when they hold everything.
        left, values, right, residual = leading_by_blocks(
            transposed_times,
            times,
            (shape[1], shape[0]),
            count,
            accuracy,
            example,
            None if start is None else start[::-1],
        )
        return Leading(right, values, left, residual)
    accuracy = max(accuracy, _FINEST * rounding(example))
    block = min(max(_BLOCK, count), shape[1])
    V = standard_normal(np.random.default_rng(0), (shape[1], block), example)
    if start is not None:
        known = like(start[1][:, :block], V)
        V = namespace(V).concat([known, V[:, known.shape[1] :]], axis=1)
    V = thin_qr(V)[0]
    for _ in range(_RESTARTS):
        values, V, residual = _one_run(times, transposed_times, V, accuracy)
        if residual <= accuracy * max(float(values[0]), smallest(example)):
            break
    # Squares cost small singular values half their digits; in this span they are had once more.
    right = contiguous(V[:, :count])
    image = times(right)
    unit = _length(image) or 1.0
    Q, R = thin_qr(image / unit)
    u, values, vt = namespace(R).linalg.svd(R, full_matrices=False)
    return Leading(Q @ u, unit * values, right @ vt.T, residual)


def _one_run(
    times: Callable[[Array], Array],
    transposed_times: Callable[[Array], Array],
    V: Array,
    accuracy: float,
) -> tuple[Array, Array, float]:
    """Singular values, right vectors and the first one's residual; as many as V has columns.

    Blocks are added to the basis until the first triplet is good enough or they are too many.

    The basis is that of the shorter side alone, for ``AᵀA``: one of the longer side would often take more
    memory than the data.
    """
    xp = namespace(V)
    full, block = V.shape
    image = times(V)
    # In units of their size the squares neither overflow nor vanish.
    unit = _length(image)
    if unit == 0:
        return xp.zeros(block, dtype=V.dtype, device=device(V)), V, 0.0
    basis, last, most = V, block, max(_MOST_BLOCKS * _BLOCK, _LEAST_BLOCKS * block)
    projected = xp.zeros((0, 0), dtype=V.dtype, device=device(V))
    while True:
        image = image / unit
        fresh, inside, link = beside(basis, transposed_times(image) / unit)
        # As long as the longer side: not kept beside the next one.
        del image
        above = inside[: basis.shape[1] - last, :]
        projected = xp.concat(
            [xp.concat([projected, above], axis=1), xp.concat([above.T, inside[-last:, :]], axis=1)], axis=0
        )
        squares, vectors = leading_eigenvectors(0.5 * (projected + projected.T), block)
        values = xp.sqrt(xp.clip(squares[:block], 0.0, None))
        # With all of the right side in the basis nothing is left over.
        width = min(block, full - basis.shape[1])
        first = float(values[0])
        residual = norm(link @ vectors[-last:, 0]) / max(first, smallest(values)) if width else 0.0
        if residual <= accuracy * first or basis.shape[1] >= most:
            return unit * values, basis @ vectors[:, :block], unit * residual
        basis = xp.concat([basis, fresh[:, :width]], axis=1)
        image, last = times(basis[:, -width:]), width


def _length(M: Array) -> float:
    """``√Σ M_ij²``, also where the squares of numbers of this size overflow or vanish."""
    xp = namespace(M)
    largest = max(float(xp.max(M)), -float(xp.min(M)))
    return largest * norm(M / largest) if 0 < largest < math.inf else largest


def beside(basis: Array, M: Array) -> tuple[Array, Array, Array]:
    """Q, C and R with ``M = basis C + Q R``, and Q orthonormal beside the basis whatever M is."""
    inside = wide_product(basis.T, M)
    Q, R = thin_qr(M - wide_product(basis, inside))
    # Of a column that lay in the basis only rounding is left, and that may point anywhere: once more.
    again = wide_product(basis.T, Q)
    Q, rotation = thin_qr(Q - wide_product(basis, again))
    return Q, inside + again @ R, rotation @ R
