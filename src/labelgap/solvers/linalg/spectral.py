"""Leading singular triplets of ``H = XᵀG + λ₂ A Bᵀ``, the gradient of the smooth part in W."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse.linalg as spla

from labelgap._types import Floats
from labelgap.objective.protocol import ScoreGradient
from labelgap.solvers.linalg.krylov import leading_by_blocks
from labelgap.solvers.linalg.orthogonal import thin_qr

# Rows of a Gram matrix from which on some of its eigenvectors cost less than all, and which share of them.
_LARGE, _FEW = 256, 8
# Squares in the Gram matrix cost half the digits.
_ROUNDING = 1e-8
# Triplets up to which blocks of vectors are the faster way.
_FEW_TRIPLETS = 8
# Lanczos approaches σ₁ from below; the last digits it may miss are added to what it reports.
_ARPACK_TOLERANCE = 1e-7


@dataclass(frozen=True)
class LowRankShift:
    """``Xᵀ G + scale · left @ right.T`` as a linear map on L-vectors, never formed unless small."""

    gradient: ScoreGradient
    left: Floats
    right: Floats
    product: Floats | None = None
    """``left @ right.T``, if that has been made."""
    scale: float = 1.0

    @cached_property
    def gradient_matrix(self) -> Floats:
        """``Xᵀ G``, formed."""
        return self.gradient.matrix()

    def matrix(self) -> Floats:
        if self.scale == 0 or self.left.shape[1] == 0:
            return self.gradient_matrix
        product = self.left @ self.right.T if self.product is None else self.product
        total = self.scale * product
        total += self.gradient_matrix
        return total

    def times(self, V: Floats) -> Floats:
        return self.gradient.left_product(V) + self.left @ (self.scale * (self.right.T @ V))

    def transposed_times(self, U: Floats) -> Floats:
        return self.gradient.right_product(U) + self.right @ (self.scale * (self.left.T @ U))


@dataclass(frozen=True)
class SingularTriplets:
    """Descending singular values with vectors in columns; ``top`` is σ₁ rounded up (see below)."""

    left: Floats
    values: Floats
    right: Floats
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
    d, n_labels = shape
    H = operator.matrix()
    if min(d, n_labels) <= 32:
        left, values, right = scipy.linalg.svd(H, full_matrices=False, check_finite=False)
        count = _wanted(values, count, above)
        return SingularTriplets(
            left[:, :count], values[:count], right[:count].T, float(values[0]) * (1 + 1e-13)
        )
    # The Gram matrix of the smaller side: one GEMM instead of a bidiagonalisation.
    tall = d >= n_labels
    gram = H.T @ H if tall else H @ H.T
    size = len(gram)
    if size < _LARGE or count > size // _FEW:
        squares, vectors = scipy.linalg.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    else:
        some = [size - count, size - 1]
        squares, vectors = scipy.linalg.eigh(gram, subset_by_index=some, overwrite_a=True, check_finite=False)
    values = np.sqrt(np.maximum(squares[::-1], 0))
    count = _wanted(values, count, above)
    values = values[:count]
    known = np.ascontiguousarray(vectors[:, ::-1][:, :count])
    # A singular value that is nothing but rounding has no vector on the other side.
    unit = np.where(values > _ROUNDING * values[0], values, np.inf)
    other = (H @ known if tall else H.T @ known) / unit
    left, right = (other, known) if tall else (known, other)
    return SingularTriplets(left, values, right, float(values[0]) * (1 + 1e-12))


def _wanted(values: Floats, count: int, above: float | None) -> int:
    """How many of the descending values are wanted, at least one."""
    return count if above is None else max(1, min(count, int(np.sum(values > above))))


def _lanczos(operator: LowRankShift, shape: tuple[int, int], count: int, accuracy: float) -> SingularTriplets:
    if count <= _FEW_TRIPLETS:
        found = leading_by_blocks(operator.times, operator.transposed_times, shape, count, accuracy)
        # The residual leaves out what its own computation rounds.
        top = float(found.values[0]) * (1 + 1e-12) + found.residual
        return SingularTriplets(found.left, found.values, found.right, top)
    return _arpack(operator, shape, count, min(accuracy, _ARPACK_TOLERANCE))


def _arpack(operator: LowRankShift, shape: tuple[int, int], count: int, tol: float) -> SingularTriplets:
    """Many triplets: one vector at a time makes the better basis of the same size."""

    def forward(v: Floats) -> Floats:
        return operator.times(v.reshape(-1, 1)).ravel()

    def backward(u: Floats) -> Floats:
        return operator.transposed_times(u.reshape(-1, 1)).ravel()

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
        float(np.linalg.norm(operator.times(right[:, :1]) - values[0] * left[:, :1])),
        float(np.linalg.norm(operator.transposed_times(left[:, :1]) - values[0] * right[:, :1])),
    )
    return SingularTriplets(left, values, right, float(values[0]) * (1 + tol) + residual)


def balanced(left: Floats, right: Floats, cutoff: float = 1e-10) -> tuple[Floats, Floats, Floats]:
    """The singular values of ``left @ right.T`` and factors ``U√Σ, V√Σ`` of it.

    At this split ``½(‖A‖² + ‖B‖²)`` equals the trace norm. Directions below ``cutoff`` times the largest
    singular value are dropped.
    """
    if left.shape[1] == 0:
        return np.zeros(0), left, right
    Ql, Rl = thin_qr(left)
    Qr, Rr = thin_qr(right)
    U, values, Vt = scipy.linalg.svd(Rl @ Rr.T)
    keep = int(np.sum(values > max(cutoff * values[0], np.finfo(float).tiny)))
    values, roots = values[:keep], np.sqrt(values[:keep])
    return values, (Ql @ U[:, :keep]) * roots, (Qr @ Vt[:keep].T) * roots
