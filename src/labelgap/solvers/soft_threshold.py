"""The closed form of ``min_M ½‖R − M‖_F² + λ‖M‖_*``: singular values lowered by λ, with a proof.

With the singular value decomposition ``R = U diag(σ) Vᵀ`` the optimum is ``M = U diag(max(σ − λ, 0)) Vᵀ``, so
one decomposition serves every λ. Only values above λ are needed. They come from a block Krylov space of
``RᵀR``, or of ``R Rᵀ`` where that is smaller, which grows as λ falls.

With any orthonormal V, ``R V = U diag(σ)`` after a rotation of V, and ``M = R V diag(1 − λ/σ) Vᵀ`` has the
singular values σ − λ. So its objective is known exactly, whatever V misses of the optimal one. The dual is
``max ⟨Y, R⟩ − ½‖Y‖_F²`` over ``‖Y‖₂ ≤ λ``, and ``Y = R − M``, scaled down by what its norm exceeds λ,
gives the duality gap. That norm is the one number which needs products with all of R once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from array_api_compat import device

from labelgap.solvers.linalg import (
    Array,
    column_squares,
    like,
    namespace,
    norm,
    standard_normal,
    thin_qr,
    wide_product,
)
from labelgap.solvers.spectral import Spectrum, eigenvectors, leading_by_blocks

SPARE = 1.6
"""The largest singular vectors are good in a space of so many times as many columns."""
ACCURACY = 0.1
"""How accurately the norm of R − M is computed, as a fraction of the tolerance."""
# Vectors that are added to a Krylov space at one time.
_BLOCK = 64
# How much larger the space is made where it was too small, at least.
_MORE = 1.4
# Rows and columns of R, times the square of the rank, that are worked on in double precision; with more, only
# sums are.
_IN_DOUBLE = 1 << 33
# Columns whose Gram matrix is this close to I are far from dependent.
_NEARLY = 0.5


class Matrix(Protocol):
    """R, which is never dense."""

    shape: tuple[int, int]
    squares: float
    """``‖R‖_F²``."""

    def times(self, V: Array) -> Array:
        """``R V``, in the precision of V."""

    def transposed_times(self, U: Array) -> Array:
        """``Rᵀ U``."""

    def normal(self, V: Array) -> Array:
        """``RᵀR V``, or ``R Rᵀ V`` where R has fewer rows than columns."""


def first_vectors(size: int, example: Array, start: Array | None = None) -> Array:
    """Where a Krylov space begins: at random, with a fixed seed, or beside vectors that are nearly right."""
    rng = np.random.default_rng(0)
    columns = standard_normal(rng, (size, min(_BLOCK, size)), example)
    if start is not None:
        # Random ones beside them find what is new.
        columns = namespace(start).concat([start, columns], axis=1)[:, :size]
    return thin_qr(columns)[0]


class SoftThreshold(NamedTuple):
    """``M = U diag(σ − λ) Vᵀ`` with ``U diag(σ) = R V``, and its certificate."""

    image: Array
    """``R V``, one row for each row of R."""
    values: Array
    """σ, descending; all of them are above λ."""
    right: Array
    """V."""
    penalty: float
    """λ."""
    objective: float
    gap: float
    """The duality gap, an upper bound on what the objective exceeds its minimum by."""

    @property
    def kept(self) -> Array:
        """``1 − λ/σ``, which is left of each singular value."""
        return 1.0 - self.penalty / self.values

    @property
    def relative_gap(self) -> float:
        """The gap as a fraction of the objective."""
        return self.gap / max(self.objective, math.ulp(0.0))


def certified(R: Matrix, vectors: Array, penalty: float, tol: float) -> SoftThreshold:
    """M from vectors of the shorter side of R."""
    xp = namespace(vectors)
    few = sum(R.shape) * vectors.shape[1] ** 2 <= _IN_DOUBLE
    V = xp.astype(vectors, xp.float64, copy=False) if few else vectors
    if R.shape[0] < R.shape[1]:
        V = R.transposed_times(V)
        lengths = xp.sqrt(column_squares(V))
        V = V / xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    V = orthonormal(V)
    image = R.times(V)
    _, rotation = eigenvectors(wide_product(image.T, image))
    V, image = wide_product(V, rotation), wide_product(image, rotation)
    values = xp.sqrt(column_squares(xp.astype(image, xp.float64, copy=False)))

    def largest(inside: Callable[[Array], Array]) -> float:
        return _norm(lambda v: R.times(inside(v)), lambda u: inside(R.transposed_times(u)), R.shape, V, tol)

    return with_gap(R.squares, image, values, V, penalty, largest)


def orthonormal(V: Array) -> Array:
    """The same space; of columns that are orthonormal but for rounding it makes the same ones."""
    xp = namespace(V)
    gram = wide_product(V.T, V)
    if norm(gram - xp.eye(gram.shape[0], dtype=gram.dtype, device=device(gram))) > _NEARLY:
        # Images of vectors whose singular values are nothing but rounding.
        return thin_qr(V)[0]
    return wide_product(V, xp.linalg.inv(xp.linalg.cholesky(gram)).T)


def with_gap(
    squares: float,
    image: Array,
    values: Array,
    right: Array,
    penalty: float,
    norm: Callable[[Callable[[Array], Array]], float],
) -> SoftThreshold:
    """M from an orthonormal V for which the columns of ``R V`` are orthogonal, σ long, and its gap.

    ``squares`` is ``‖R‖_F²``, and ``norm`` gives that of ``R P`` for a map P of columns.
    """
    xp = namespace(right)
    V, above = right, values > penalty
    if not bool(xp.all(above)):
        # The image may be as large as the data, and a copy of it, too.
        V, image, values = V[:, above], image[:, above], values[above]
    kept, lowered = 1.0 - penalty / values, values - penalty
    product = squares - float(xp.sum(lowered * values))
    residual = product - float(xp.sum(lowered * values)) + float(xp.sum(lowered * lowered))
    objective = 0.5 * residual + penalty * float(xp.sum(lowered))
    kept = like(kept, V)[:, None]

    def inside(columns: Array) -> Array:
        return columns - wide_product(V, kept * wide_product(V.T, columns))

    largest = norm(inside)
    scale = min(1.0, penalty / largest) if largest > 0 else 1.0
    gap = objective - scale * product + 0.5 * scale * scale * residual
    return SoftThreshold(image, values, V, penalty, objective, max(gap, 0.0))


def soft_threshold(
    R: Any,
    spectrum: Spectrum,
    penalty: float,
    *,
    rank: int,
    tol: float,
    certify: Callable[[Any, Array, float, float], SoftThreshold] = certified,
) -> SoftThreshold:
    """M at λ, of at most that rank, to a relative gap of ``tol`` if the rank allows it.

    ``certify`` makes M of R, vectors, λ and ``tol``.
    """
    columns = 1
    while True:
        spectrum.grow(columns)
        count = min(spectrum.count_above(penalty), rank)
        columns = math.ceil(max(SPARE * count, _MORE * spectrum.columns))
        if spectrum.columns < SPARE * count and not spectrum.complete:
            columns = min(columns, math.ceil(SPARE * rank))
            continue
        found = certify(R, spectrum.vectors(count), penalty, tol)
        if found.relative_gap <= tol or spectrum.complete or len(found.values) >= rank:
            return found


def _norm(
    times: Callable[[Array], Array],
    transposed_times: Callable[[Array], Array],
    shape: tuple[int, int],
    example: Array,
    tol: float,
) -> float:
    """The largest singular value of a map, rounded up by the residual of its vector."""
    if not min(shape):
        return 0.0
    found = leading_by_blocks(times, transposed_times, shape, 1, ACCURACY * tol, example)
    return float(found.values[0]) + found.residual
