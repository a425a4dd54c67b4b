"""Leading singular triplets: of ``H = XᵀG + λ₂ A Bᵀ``, the gradient of the smooth part in W, and other maps.

There is one block Krylov space, :class:`Spectrum`. It serves σ₁ of a certificate, directions to grow along
(outside the span of those that are there), and the closed form of lists. Steps that follow each other, whose
operators are nearly the same, take one step of subspace iteration each (:func:`following_triplets`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from array_api_compat import device, is_numpy_array

from labelgap.objective.protocol import ScoreGradient
from labelgap.solvers.linalg import (
    Array,
    contiguous,
    eigenvectors_in_single,
    leading_eigenvectors,
    like,
    namespace,
    norm,
    rounding,
    small_svd,
    smallest,
    standard_normal,
    thin_qr,
    thin_r,
    wide_product,
)
from labelgap.solvers.tuning import TUNED

# Numbers in a matrix up to which it is decomposed as it is, and the shorter side up to which a triangle of it
# is, which costs little more than its Gram matrix and keeps the digits of small singular values.
_SMALL, _NARROW = 1 << 12, 32
# Steps of subspace iteration where random vectors have to come close at once.
_STEPS = 3
# What rounding may take from σ₁, as a fraction of it and in units of rounding; the larger one is added.
_MARGIN, _MARGIN_ROUNDING = 1e-12, 16


@dataclass
class LowRankShift:
    """``Xᵀ G + scale · left @ right.T`` as a linear map on L-vectors, never formed unless small."""

    gradient: ScoreGradient
    left: Array
    right: Array
    product: Array | None = None
    """``left @ right.T``, if that has been made."""
    scale: float = 1.0
    outside: tuple[Array, Array] | None = None
    """Orthonormal columns U and V: the map is ``(I − UUᵀ) H (I − VVᵀ)``."""
    _formed: Array | None = field(default=None, init=False, repr=False)

    @property
    def gradient_matrix(self) -> Array:
        """``Xᵀ G``, formed once."""
        # Before Python 3.12, cached_property holds one lock for all folds that are fitted side by side.
        if self._formed is None:
            self._formed = self.gradient.matrix()
        return self._formed

    def matrix(self) -> Array:
        H = self.gradient_matrix
        if self.scale != 0 and self.left.shape[1]:
            product = self.left @ (self.scale * self.right.T)
            H = H + product if self.product is None else H + self.scale * self.product
        if self.outside is not None:
            U, V = self.outside
            H = without(U, without(V, H.T).T)
        return H

    def times(self, V: Array) -> Array:
        if self.outside is not None:
            V = without(self.outside[1], V)
        image = self.gradient.left_product(V)
        if self.scale != 0:
            image = image + self.left @ (self.scale * (self.right.T @ V))
        return image if self.outside is None else without(self.outside[0], image)

    def transposed_times(self, U: Array) -> Array:
        if self.outside is not None:
            U = without(self.outside[0], U)
        image = self.gradient.right_product(U)
        if self.scale != 0:
            image = image + self.right @ (self.scale * (self.left.T @ U))
        return image if self.outside is None else without(self.outside[1], image)


def without(span: Array, M: Array) -> Array:
    """The columns of M without their parts in the span of orthonormal columns."""
    return M - span @ (span.T @ M)


@dataclass(frozen=True)
class SingularTriplets:
    """Descending singular values with vectors in columns; ``top`` is σ₁ rounded up (see below)."""

    left: Array
    values: Array
    right: Array
    top: float


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
    rounding. Otherwise they come from a Krylov space with a fixed random start, until the first triplet has a
    relative residual of ``accuracy``, which is added to ``top``. That would still be too low if the start
    were orthogonal to the leading vector, which has probability zero. ``start`` are triplets of the same
    operator that were found less accurately.
    """
    count = max(1, min(count, *shape))
    if may_form or count >= min(shape) - 1:
        return _decomposed(operator.matrix(), shape, count, above)
    known = None if start is None else (start.left, start.right)
    found = leading_by_blocks(
        operator.times, operator.transposed_times, shape, count, accuracy, operator.left, known
    )
    # The residual leaves out what its own computation rounds.
    top = _rounded_up(found.values) + found.residual
    return SingularTriplets(found.left, found.values, found.right, top)


def following_triplets(
    operator: LowRankShift,
    shape: tuple[int, int],
    start: Array,
    *,
    above: float,
    may_form: bool,
    most: int | None = None,
) -> SingularTriplets:
    """The singular triplets above a value, and a few more, of an operator that is nearly a known one.

    Of more than ``most`` that are above the value it returns about so many. ``start`` are right vectors of
    that operator. A step of subspace iteration, over all steps of a method, turns them after the operators;
    its values are lower bounds, and the errors of those that it has followed for a while are of second order.
    Of a matrix that may be formed they are exact where many are wanted, and where more have come above the
    value than random vectors can be close to at once.
    """
    xp, full = namespace(start), min(*shape, *(() if most is None else (most + TUNED.spare,)))
    H = operator.matrix() if may_form else None
    fresh, steps = TUNED.fresh, 1
    while True:
        count = min(start.shape[1] + fresh, full)
        if may_form and (count >= TUNED.many * min(shape) or steps > 1):
            return _decomposed(H, shape, min(shape), above)
        random = standard_normal(np.random.default_rng(0), (shape[1], fresh), start)
        V = xp.concat([start, random], axis=1)
        for _ in range(steps):
            U = thin_qr(operator.times(V) if H is None else H @ V)[0]
            V = operator.transposed_times(U) if H is None else H.T @ U
        Q, R = thin_qr(V)
        turned, values, rotation = xp.linalg.svd(R, full_matrices=False)
        kept = int(xp.count_nonzero(values > above)) + TUNED.spare
        if kept < values.shape[0] + TUNED.spare or count == full:
            left, right = (contiguous(part[:, :kept]) for part in (U @ rotation.T, Q @ turned))
            return SingularTriplets(left, values[:kept], right, float(values[0]))
        # All of them are above, and there may be more, of which nothing is known yet.
        start, fresh, steps = Q @ turned, count, _STEPS


def _decomposed(H: Array, shape: tuple[int, int], count: int, above: float | None) -> SingularTriplets:
    xp = namespace(H)
    if shape[0] * shape[1] <= _SMALL:
        left, values, right = small_svd(H)
        count = _wanted(values, count, above)
        return SingularTriplets(left[:, :count], values[:count], right[:count, :].T, _rounded_up(values))
    tall = shape[0] >= shape[1]
    if min(shape) <= _NARROW:
        _, values, rotation = small_svd(thin_r(H if tall else H.T))
        vectors = rotation.T
    else:
        # The Gram matrix of the smaller side: one GEMM instead of a bidiagonalisation. Squares of numbers in
        # single precision have few digits left, so they are taken in double precision.
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


# Vectors in a block, at least; with 8 doubles a row of a block is one cache line.
_BLOCK = 8
# Blocks until the bases are dropped and begun anew from the best vectors so far. A basis takes memory, so it
# has as many columns as the first number of the narrowest blocks, and at least the second number of blocks.
_MOST_BLOCKS, _LEAST_BLOCKS = 14, 4
_RESTARTS = 40
# Parts of a block that are shorter, in units of its rounding, are rounding themselves.
_ROUNDING = 64
# The least residual that can be asked for, in units of rounding.
_FINEST = 16


class Spectrum:
    """The leading singular values of a map R with the vectors of one side, as many as are asked for.

    ``normal`` is ``RᵀR``. The space is ``start, RᵀR start, (RᵀR)² start, ...``, and grows block by block.
    ``start`` are orthonormal columns to begin with: random ones, or vectors of a map that is nearly R.
    """

    def __init__(self, normal: Callable[[Array], Array], start: Array) -> None:
        self._normal, self._fresh = normal, start
        xp = namespace(start)
        self._basis, self._projected = start[:, :0], xp.zeros((0, 0), dtype=start.dtype, device=device(start))
        self._link = self._projected
        self._found: tuple[Array, Array] | None = None

    @property
    def columns(self) -> int:
        """The dimension of the Krylov space."""
        return int(self._basis.shape[1])

    @property
    def complete(self) -> bool:
        """Whether the space is the whole one."""
        return self.columns >= len(self._basis)

    def grow(self, columns: int) -> None:
        """Add blocks until the space has that many columns, or all."""
        if self.columns >= columns or self.complete:
            return
        xp = namespace(self._fresh)
        while self.columns < columns and not self.complete:
            width = min(self._fresh.shape[1], len(self._basis) - self.columns)
            added = self._fresh[:, :width]
            self._basis = xp.concat([self._basis, added], axis=1)
            image = self._normal(added)
            fresh, inside, self._link = beside(self._basis, image)
            fresh = self._led_to(fresh, self._link, _ROUNDING * rounding(image) * norm(image))
            above = inside[:-width, :]
            self._projected = xp.concat(
                [
                    xp.concat([self._projected, above], axis=1),
                    xp.concat([above.T, inside[-width:, :]], axis=1),
                ],
                axis=0,
            )
            self._fresh = fresh
        self._found = None

    def _led_to(self, fresh: Array, link: Array, least: float) -> Array:
        """The directions outside the space that R leads to by more than that much, and others at random.

        Where singular values are equal it leads to fewer of them than there are. What rounding has instead
        may lie in the space.
        """
        xp = namespace(link)
        turned, sizes, _ = xp.linalg.svd(link, full_matrices=False)
        count = int(xp.count_nonzero(sizes > least))
        if count == link.shape[1]:
            return fresh
        led = fresh @ turned[:, :count]
        others = (fresh.shape[0], link.shape[1] - count)
        noise = standard_normal(np.random.default_rng(self.columns), others, fresh)
        return xp.concat([led, beside(xp.concat([self._basis, led], axis=1), noise)[0]], axis=1)

    def _decomposed(self) -> tuple[Array, Array]:
        if self._found is None:
            xp = namespace(self._projected)
            squares, vectors = eigenvectors(0.5 * (self._projected + self._projected.T))
            self._found = xp.sqrt(xp.clip(squares, 0.0, None)), vectors
        return self._found

    @property
    def values(self) -> Array:
        """Singular values in descending order; the last ones are as good as the space is large."""
        return self._decomposed()[0]

    @property
    def residual(self) -> float:
        """``‖RᵀR v₁ − σ₁² v₁‖``, to which the largest singular value is known."""
        if self.complete:
            return 0.0
        return norm(self._link @ self._decomposed()[1][-self._link.shape[1] :, 0])

    def count_above(self, value: float) -> int:
        """How many singular values are larger."""
        return int(namespace(self.values).count_nonzero(self.values > value))

    def vectors(self, count: int) -> Array:
        """Those of the largest values, in columns."""
        return wide_product(self._basis, like(self._decomposed()[1][:, :count], self._basis))


class Leading(NamedTuple):
    """Triplets in columns, values descending, and how far the first right vector is from being one."""

    left: Array
    values: Array
    right: Array
    residual: float
    """``‖Aᵀu₁ − σ₁v₁‖`` or ``‖A v₁ − σ₁u₁‖``; one of the two vanishes by construction."""


def first_columns(size: int, count: int, known: Array | None = None, example: Array | None = None) -> Array:
    """Orthonormal columns for a space to begin with: those that are known, and random ones, a fixed seed."""
    example = np.zeros(0) if example is None else example
    V = standard_normal(np.random.default_rng(0), (size, min(size, count)), example)
    if known is not None:
        known = like(known[:, : V.shape[1]], V)
        V = namespace(V).concat([known, V[:, known.shape[1] :]], axis=1)
    return thin_qr(V)[0]


def leading_pairs(
    normal: Callable[[Array], Array], start: Array, count: int, accuracy: float
) -> tuple[Array, Array, float]:
    """The ``count`` largest singular values of R with their right vectors, from ``normal``, which is ``RᵀR``.

    The last number bounds how far σ₁ is from the largest; it is at most ``accuracy · σ₁``. The others are as
    good as they come with it. ``start`` are orthonormal columns.

    Examples
    --------
    >>> M = np.diag([9.0, 4.0, 1.0])
    >>> values, vectors, error = leading_pairs(lambda V: M @ V, np.eye(3, 2), 2, 1e-10)
    >>> values.round(6).tolist(), error <= 1e-9
    ([3.0, 2.0], True)
    """
    block = start.shape[1]
    most = max(_MOST_BLOCKS * _BLOCK, _LEAST_BLOCKS * block)
    for _ in range(_RESTARTS):
        spectrum = Spectrum(normal, start)
        while True:
            spectrum.grow(spectrum.columns + 1)
            first = max(float(spectrum.values[0]), smallest(start))
            done = spectrum.complete or spectrum.residual <= accuracy * first * first
            if done or spectrum.columns >= most:
                break
        if done:
            break
        start = spectrum.vectors(block)
    return spectrum.values[:count], spectrum.vectors(count), spectrum.residual / first


def largest_value(normal: Callable[[Array], Array], size: int, accuracy: float) -> float:
    """σ₁ of R from ``RᵀR`` alone, rounded up by the error that is left."""
    values, _, error = leading_pairs(normal, first_columns(size, _BLOCK), 1, accuracy)
    return float(values[0]) + error


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

    The start is random, with a fixed seed, in the namespace and precision of ``example`` (numpy's doubles
    without one), but for the left and right vectors in ``start``. The space is that of the shorter side: a
    basis of the longer one would often take more memory than the data.

    Examples
    --------
    >>> A = np.diag([3.0, 2.0, 1.0])
    >>> found = leading_by_blocks(lambda V: A @ V, lambda U: A.T @ U, (3, 3), 2, 1e-10)
    >>> found.values.round(6).tolist()
    [3.0, 2.0]
    """
    example = np.zeros(0) if example is None else example
    if shape[0] < shape[1]:
        turned = None if start is None else start[::-1]
        left, values, right, residual = leading_by_blocks(
            transposed_times, times, shape[::-1], count, accuracy, example, turned
        )
        return Leading(right, values, left, residual)
    V = first_columns(shape[1], max(_BLOCK, count), None if start is None else start[1], example)
    image = times(V)
    # In units of their size the squares neither overflow nor vanish.
    unit = _length(image)
    if unit == 0:
        xp = namespace(V)
        zeros = xp.zeros(count, dtype=V.dtype, device=device(V))
        return Leading(thin_qr(image[:, :count])[0], zeros, V[:, :count], 0.0)
    first = [image]
    # As long as the longer side: not kept beside the next one.
    del image

    def normal(V: Array) -> Array:
        return transposed_times((first.pop() if first else times(V)) / unit) / unit

    accuracy = max(accuracy, _FINEST * rounding(example))
    _, right, residual = leading_pairs(normal, V, count, accuracy)
    # Squares cost small singular values half their digits; in this span they are had once more.
    right = contiguous(right)
    image = times(right)
    unit_of_image = _length(image) or 1.0
    Q, R = thin_qr(image / unit_of_image)
    u, values, vt = namespace(R).linalg.svd(R, full_matrices=False)
    return Leading(Q @ u, unit_of_image * values, right @ vt.T, unit * residual)


def eigenvectors(symmetric: Array) -> tuple[Array, Array]:
    """All eigenvalues, descending, with their vectors in columns."""
    if is_numpy_array(symmetric) and symmetric.dtype == np.float32:
        return eigenvectors_in_single(symmetric)
    return leading_eigenvectors(symmetric, symmetric.shape[0])


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
