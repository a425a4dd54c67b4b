"""Leading singular triplets of ``H = XᵀG + λ₂ A Bᵀ``, the gradient of the smooth part in W."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse.linalg as spla
from array_api_compat import is_numpy_array

from labelgap._types import Floats
from labelgap.objective.protocol import ScoreGradient
from labelgap.solvers.linalg.dense import (
    Array,
    contiguous,
    leading_eigenvectors,
    like,
    namespace,
    norm,
    rounding,
)
from labelgap.solvers.linalg.krylov import leading_by_blocks

# The shorter side of a matrix up to which its singular value decomposition is as fast as its Gram matrix.
_SHORT = 32
# Triplets up to which blocks of vectors are the faster way.
_FEW_TRIPLETS = 8
# Lanczos approaches σ₁ from below; the last digits it may miss are added to what it reports.
_ARPACK_TOLERANCE = 1e-7
# What rounding may take from σ₁, as a fraction of it and in units of rounding; the larger one is added.
_MARGIN, _MARGIN_ROUNDING = 1e-12, 16


@dataclass(frozen=True)
class LowRankShift:
    """``Xᵀ G + scale · left @ right.T`` as a linear map on L-vectors, never formed unless small."""

    gradient: ScoreGradient
    left: Array
    right: Array
    product: Array | None = None
    """``left @ right.T``, if that has been made."""
    scale: float = 1.0

    @cached_property
    def gradient_matrix(self) -> Array:
        """``Xᵀ G``, formed."""
        return self.gradient.matrix()

    def matrix(self) -> Array:
        if self.scale == 0 or self.left.shape[1] == 0:
            return self.gradient_matrix
        product = self.left @ self.right.T if self.product is None else self.product
        total = self.scale * product
        total += self.gradient_matrix
        return total

    def times(self, V: Array) -> Array:
        return self.gradient.left_product(V) + self.left @ (self.scale * (self.right.T @ V))

    def transposed_times(self, U: Array) -> Array:
        return self.gradient.right_product(U) + self.right @ (self.scale * (self.left.T @ U))


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
) -> SingularTriplets:
    """The ``count`` largest singular triplets of a (d x L) operator, without those not ``above`` a value.

    The matrix is formed only where the objective says that it ``may_form`` one; there the values are exact to
    rounding. Otherwise Lanczos with a fixed random start, to a relative residual of ``accuracy``, which is
    added to ``top``. It would still be too low if the start were orthogonal to the leading vector, which has
    probability zero.
    """
    count = max(1, min(count, *shape))
    if may_form or count >= min(shape) - 1:
        return _dense(operator, shape, count, above)
    return _lanczos(operator, shape, count, accuracy)


def _dense(
    operator: LowRankShift, shape: tuple[int, int], count: int, above: float | None
) -> SingularTriplets:
    H = operator.matrix()
    xp = namespace(H)
    if min(shape) <= _SHORT:
        left, values, right = xp.linalg.svd(H, full_matrices=False)
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


def _lanczos(operator: LowRankShift, shape: tuple[int, int], count: int, accuracy: float) -> SingularTriplets:
    doubles = is_numpy_array(operator.left) and operator.left.dtype == np.float64
    if count > _FEW_TRIPLETS and doubles:
        return _arpack(operator, shape, count, min(accuracy, _ARPACK_TOLERANCE))
    found = leading_by_blocks(
        operator.times, operator.transposed_times, shape, count, accuracy, operator.left
    )
    # The residual leaves out what its own computation rounds.
    return SingularTriplets(found.left, found.values, found.right, _rounded_up(found.values) + found.residual)


def _arpack(operator: LowRankShift, shape: tuple[int, int], count: int, tol: float) -> SingularTriplets:
    """Many triplets: one vector at a time makes the better basis of the same size."""

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
    left, values, right = spla.svds(linear, k=count, tol=tol, v0=start, maxiter=50 * count + 1000)
    order = np.argsort(-values, kind="stable")
    left, values, right = left[:, order], values[order], right[order].T
    # One of the two vanishes by construction, depending on the side that ARPACK worked on.
    residual = max(
        norm(operator.times(right[:, :1]) - values[0] * left[:, :1]),
        norm(operator.transposed_times(left[:, :1]) - values[0] * right[:, :1]),
    )
    return SingularTriplets(left, values, right, float(values[0]) * (1 + tol) + residual)
