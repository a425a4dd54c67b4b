"""Leading singular triplets of ``H = XᵀG + λ₂ A Bᵀ``, the gradient of the smooth part in W."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.sparse.linalg as spla
from array_api_compat import device, is_numpy_array
from numpy.typing import NDArray

from labelgap._arrays import in_single
from labelgap._types import Floats
from labelgap.objective.protocol import ScoreGradient
from labelgap.solvers.linalg import (
    Array,
    column_squares,
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
    wide_product,
)

SHORT = 32
"""The shorter side of a matrix up to which its singular value decomposition is as fast as its Gram matrix."""
# What single precision loses of the square of a singular value, as a fraction of the square of the largest.
_LOST_IN_SINGLE = 1e-6
# Triplets up to which blocks of vectors find all of them.
_FEW_TRIPLETS = 8
# Lanczos approaches σ₁ from below; the last digits it may miss are added to what it reports.
_ARPACK_TOLERANCE = 1e-7
# ARPACK's restarts before it gives up: values that lie close together, as those of noise do, may take it
# thousands of them.
_ARPACK_RESTARTS = 1000
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

    def form(self) -> None:
        """Have ``Xᵀ G`` formed in its own precision, from which it is rounded then."""
        self._formed = self.gradient_matrix

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

    def matrix_in_single(self, unit: float) -> NDArray[np.float32]:
        """The matrix in single precision and in such units; numpy's alone."""
        # Some gradients have it without one in double precision.
        formed = getattr(self.gradient, "matrix_in_single", None)
        if formed is None or self._formed is not None:
            return in_single(self.matrix(), 1 / unit)
        total: NDArray[np.float32] = formed(unit)
        if self.scale != 0 and self.left.shape[1]:
            product = self.left @ self.right.T if self.product is None else self.product
            total += in_single(product, self.scale / unit)
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
    every: bool = False,
    start: SingularTriplets | None = None,
    single: float | None = None,
) -> SingularTriplets:
    """The ``count`` largest singular triplets of a (d x L) operator, without those not ``above`` a value.

    The matrix is formed only where the objective says that it ``may_form`` one; there the values are exact to
    rounding. Otherwise Lanczos with a fixed random start, to a relative residual of ``accuracy``, which is
    added to ``top``. That is the residual of the first triplet; with ``every``, all have it as far as they
    can be found. ``top`` would still be too low if the start were orthogonal to the leading vector, which has
    probability zero. ``start`` are triplets of the same operator that were found less accurately.

    With a unit ``single``, a matrix of numpy's that may be formed is made, squared and decomposed in single
    precision and in units of it, in half the time: see :func:`lost_in_single` for what that costs. ``top`` is
    no bound then. Other namespaces may be set to lose more than that.
    """
    count = max(1, min(count, *shape))
    if may_form or count >= min(shape) - 1:
        if single is not None and min(shape) > SHORT and is_numpy_array(operator.left):
            found = _dense_in_single(operator, shape, count, above, single)
            if found is not None:
                return found
        return _dense(operator, shape, count, above)
    return _lanczos(operator, shape, count, accuracy, every, start)


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


def _dense(
    operator: LowRankShift, shape: tuple[int, int], count: int, above: float | None
) -> SingularTriplets:
    H = operator.matrix()
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


def lost_in_single(top: float, value: float) -> float:
    """About which fraction of a singular value single precision loses, beside a largest one of ``top``."""
    ratio = top / value if value > 0 else math.inf
    # A power would raise where it overflows.
    return 0.5 * _LOST_IN_SINGLE * ratio * ratio


def _dense_in_single(
    operator: LowRankShift, shape: tuple[int, int], count: int, above: float | None, unit: float
) -> SingularTriplets | None:
    """Vectors of unit length to rounding, orthogonal to it on the shorter side and nearly on the other.

    None where the numbers are too large or too small for single precision, or are none.
    """
    tall = shape[0] >= shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        # In units of what is looked for no square overflows or vanishes.
        H = operator.matrix_in_single(unit)
        gram = H.T @ H if tall else H @ H.T
    if not 0 < float(np.trace(gram)) < math.inf:
        return None
    squares, vectors = eigenvectors_in_single(gram)
    values = unit * np.sqrt(np.clip(squares, 0.0, None).astype(np.float64))
    count = _wanted(values, count, above)
    values, known = values[:count], contiguous(vectors[:, :count].astype(np.float64))
    # What their products lack of I, squared, is what one step of Newton's method leaves of it.
    known = 1.5 * known - known @ (0.5 * (known.T @ known))
    rounded = known.astype(np.float32)
    other = (H @ rounded if tall else H.T @ rounded).astype(np.float64)
    lengths = np.sqrt(column_squares(other))
    other /= np.where(lengths > 0, lengths, math.inf)
    left, right = (like(part, operator.left) for part in ((other, known) if tall else (known, other)))
    return SingularTriplets(left, like(values, operator.left), right, float(values[0]))


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
    every: bool,
    start: SingularTriplets | None,
) -> SingularTriplets:
    doubles = is_numpy_array(operator.left) and operator.left.dtype == np.float64
    if every and count > _FEW_TRIPLETS and doubles:
        with contextlib.suppress(spla.ArpackError):
            return _arpack(operator, shape, count, min(accuracy, _ARPACK_TOLERANCE))
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


def _arpack(operator: LowRankShift, shape: tuple[int, int], count: int, tol: float) -> SingularTriplets:
    """Many triplets: one vector at a time makes the better basis of the same size.

    Raises ``ArpackError`` where they are not found to this tolerance.
    """

    def forward(v: Floats) -> Floats:
        return np.asarray(operator.times(v.reshape(-1, 1))).ravel()

    def backward(u: Floats) -> Floats:
        return np.asarray(operator.transposed_times(u.reshape(-1, 1))).ravel()

    linear = spla.LinearOperator(
        shape,
        matvec=forward,
        rmatvec=backward,
        matmat=operator.times,
        rmatmat=operator.transposed_times,
        dtype=np.float64,
    )
    start = np.random.default_rng(0).standard_normal(min(shape))
    probe = operator.times(np.random.default_rng(0).standard_normal((shape[1], 1)))
    if not probe.any():
        # ARPACK refuses the zero matrix.
        return SingularTriplets(np.eye(shape[0], count), np.zeros(count), np.eye(shape[1], count), 0.0)
    left, values, right = spla.svds(linear, k=count, tol=tol, v0=start, maxiter=_ARPACK_RESTARTS)
    order = np.argsort(-values, kind="stable")
    left, values, right = left[:, order], values[order], right[order].T
    # One of the two vanishes by construction, depending on the side that ARPACK worked on.
    residual = max(
        norm(operator.times(right[:, :1]) - values[0] * left[:, :1]),
        norm(operator.transposed_times(left[:, :1]) - values[0] * right[:, :1]),
    )
    return SingularTriplets(left, values, right, float(values[0]) * (1 + tol) + residual)


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
