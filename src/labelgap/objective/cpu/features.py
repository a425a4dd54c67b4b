"""The features X as a linear map: dense, sparse, or the identity (collaborative filtering).

Dense features are rotated (and, with a free intercept, centred) once. Neither changes the problem: the trace
norm and the Frobenius norm of W are invariant under rotation, and a free intercept absorbs the centre. But in
rotated coordinates ``XᵀX`` is diagonal, so the solvers' diagonal preconditioner takes out the conditioning
of the features, and when d > n only n coordinates remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from labelgap._types import Floats
from labelgap.kernels import feature_products
from labelgap.kernels.entries import (
    sampled_product,
    sparse_sampled_product,
    sparse_sparse_product,
)
from labelgap.objective.cpu.pattern import EntryPattern
from labelgap.objective.protocol import Factors

# Multiply-adds beyond which a rotation is not worth its time.
_ROTATION_WORK = 2e10
# A sparse X with this many features for each row is taken to the span of its rows, if it is no larger dense.
_FEW_ROWS, _LARGEST_DENSE = 4, 1 << 24
_BLOCK = 64
# A multiply-add that gathers its operand takes about as long as this many that stream theirs.
_GATHER = 14
# Rows at least this long can be streamed.
_SHORTEST = 8


class Features(Protocol):
    """What an objective needs of X."""

    n_rows: int
    n_features: int
    n_stored: int

    def product(self, M: Floats) -> Floats:
        """``X M``."""
        ...

    def transposed_product(self, M: Floats) -> Floats:
        """``Xᵀ M``."""
        ...

    def squared_transposed_product(self, M: Floats) -> Floats:
        """``(X∘X)ᵀ M``."""
        ...

    def scores_at(
        self, pattern: EntryPattern, left: Floats, right: Floats, product: Floats | None = None
    ) -> tuple[Floats, Floats | None]:
        """``X left rightᵀ`` at the entries of the pattern, and ``X left`` if that was made on the way.

        ``product`` is ``left rightᵀ``, for a caller who has made it.
        """
        ...

    def transposed_matrix(self, pattern: EntryPattern, data: Floats) -> Floats:
        """``Xᵀ S`` as a dense d x L matrix, for the sparse S with ``data`` on the pattern."""
        ...

    def mean_square_length(self) -> float:
        """Mean of ``‖x_i‖²`` over the rows."""
        ...

    def to_original(self, factors: Factors) -> Factors:
        """The same model in the coordinates of the X that was handed in."""
        ...


class IdentityFeatures:
    """``X = I``: each row has parameters of its own. Never formed."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = self.n_features = n_rows
        self.n_stored = 0

    def product(self, M: Floats) -> Floats:
        return M

    def transposed_product(self, M: Floats) -> Floats:
        return M

    def squared_transposed_product(self, M: Floats) -> Floats:
        return M

    def scores_at(
        self, pattern: EntryPattern, left: Floats, right: Floats, product: Floats | None = None
    ) -> tuple[Floats, Floats | None]:
        return through_factors(self, pattern, left, right)

    def transposed_matrix(self, pattern: EntryPattern, data: Floats) -> Floats:
        return blocks_of_labels(self, pattern, data)

    def mean_square_length(self) -> float:
        return 1.0

    def to_original(self, factors: Factors) -> Factors:
        return factors


class SparseFeatures:
    """CSR features, with the transpose stored beside them so that both products run over rows.

    ``scales`` multiply the columns; :meth:`to_original` leads back to the X that was handed in.
    """

    def __init__(self, X: Any, scales: Floats | None = None) -> None:
        rows = sp.csr_array(X, dtype=np.float64)
        self._scales = scales
        if scales is not None:
            rows = sp.csr_array(rows @ sp.diags_array(scales))
        if not rows.has_canonical_format:
            # The caller's matrix stays as it is.
            rows = rows.copy()
            rows.sum_duplicates()
        columns = sp.csr_array(rows.T)
        self.n_rows, self.n_features = rows.shape
        self.n_stored = 2 * rows.nnz
        self._rows = (rows.indptr.astype(np.int64), rows.indices, rows.data)
        self._columns = (columns.indptr.astype(np.int64), columns.indices, columns.data)

    def product(self, M: Floats) -> Floats:
        return feature_products.product(self._rows, M)

    def transposed_product(self, M: Floats) -> Floats:
        return feature_products.product(self._columns, M)

    def squared_transposed_product(self, M: Floats) -> Floats:
        indptr, indices, data = self._columns
        return feature_products.product((indptr, indices, data * data), M)

    def scores_at(
        self, pattern: EntryPattern, left: Floats, right: Floats, product: Floats | None = None
    ) -> tuple[Floats, Floats | None]:
        # Through the factors an entry costs k, and so does a stored feature; through W an entry costs a row
        # of X, whatever the rank. W is made only where it is no larger than the data.
        stored, entries, rank = len(self._rows[2]), len(pattern), left.shape[1]
        gathered = _GATHER * entries * (1 + stored // max(self.n_rows, 1))
        streamed = stored * pattern.n_labels
        small = self.n_features * pattern.n_labels <= entries + stored
        if not small or min(gathered, streamed) >= rank * (stored + entries):
            return through_factors(self, pattern, left, right)
        if streamed <= gathered and pattern.n_labels >= _SHORTEST:
            W = left @ right.T if product is None else product
            return feature_products.sampled_product(pattern.indptr, pattern.indices, self._rows, W), None
        W_by_label = np.ascontiguousarray(right @ left.T)
        return sparse_sampled_product(pattern.indptr, pattern.indices, self._rows, W_by_label), None

    def transposed_matrix(self, pattern: EntryPattern, data: Floats) -> Floats:
        if self.n_rows * pattern.n_labels <= _GATHER * len(pattern):
            return feature_products.transposed_matrix(
                self._columns, pattern.indptr, pattern.indices, data, pattern.n_labels
            )
        # By label: a label's row of SᵀX stays in the cache while the rows of X stream by.
        rows = (pattern.label_indptr, pattern.label_rows, data[pattern.by_label])
        return sparse_sparse_product(rows, self._rows, self.n_features).T

    def mean_square_length(self) -> float:
        data = self._rows[2]
        return float(np.dot(data, data) / self.n_rows)

    def to_original(self, factors: Factors) -> Factors:
        return _unscaled(factors, self._scales)


class DenseFeatures:
    """Dense features in coordinates where ``XᵀX`` is diagonal, their columns multiplied by ``scales``."""

    def __init__(self, X: Floats, *, centre: bool, scales: Floats | None = None) -> None:
        X = np.asarray(X, dtype=np.float64)
        self._scales = scales
        if scales is not None:
            X = X * scales
        n, d = X.shape
        self._mean = X.mean(axis=0) if centre else np.zeros(d)
        centred = X - self._mean
        self._basis: Floats | None = None
        if n * d * min(n, d) <= _ROTATION_WORK:
            self._basis = _principal_axes(centred)
            centred = centred @ self._basis
        self._X = np.ascontiguousarray(centred)
        self.n_rows, self.n_features = self._X.shape
        self.n_stored = self._X.size

    def product(self, M: Floats) -> Floats:
        return self._X @ M

    def transposed_product(self, M: Floats) -> Floats:
        return self._X.T @ M

    def squared_transposed_product(self, M: Floats) -> Floats:
        product: Floats = (self._X * self._X).T @ M
        return product

    def scores_at(
        self, pattern: EntryPattern, left: Floats, right: Floats, product: Floats | None = None
    ) -> tuple[Floats, Floats | None]:
        return through_factors(self, pattern, left, right)

    def transposed_matrix(self, pattern: EntryPattern, data: Floats) -> Floats:
        return blocks_of_labels(self, pattern, data)

    def mean_square_length(self) -> float:
        return float(np.sum(self._X * self._X) / self.n_rows)

    def to_original(self, factors: Factors) -> Factors:
        left = factors.left if self._basis is None else self._basis @ factors.left
        centred = Factors(left, factors.right, factors.intercept - factors.right @ (left.T @ self._mean))
        return _unscaled(centred, self._scales)


class StackedFeatures:
    """Several blocks of features side by side, such as the identity and what is known of each row."""

    def __init__(self, parts: Sequence[Features]) -> None:
        self._parts = tuple(parts)
        self.n_rows = parts[0].n_rows
        self._ends = np.cumsum([part.n_features for part in parts])
        self.n_features = int(self._ends[-1])
        self.n_stored = sum(part.n_stored for part in parts)

    @property
    def first(self) -> Features:
        return self._parts[0]

    @property
    def others(self) -> Features:
        """All but the first block."""
        return self._parts[1] if len(self._parts) == 2 else StackedFeatures(self._parts[1:])

    def split(self, M: Floats) -> list[Floats]:
        """The rows of M that belong to each block."""
        return [np.ascontiguousarray(block) for block in np.split(M, self._ends[:-1])]

    def product(self, M: Floats) -> Floats:
        blocks = zip(self._parts, self.split(M), strict=True)
        return np.asarray(sum(part.product(block) for part, block in blocks))

    def transposed_product(self, M: Floats) -> Floats:
        return np.vstack([part.transposed_product(M) for part in self._parts])

    def squared_transposed_product(self, M: Floats) -> Floats:
        return np.vstack([part.squared_transposed_product(M) for part in self._parts])

    def scores_at(
        self, pattern: EntryPattern, left: Floats, right: Floats, product: Floats | None = None
    ) -> tuple[Floats, Floats | None]:
        return through_factors(self, pattern, left, right)

    def transposed_matrix(self, pattern: EntryPattern, data: Floats) -> Floats:
        return np.vstack([part.transposed_matrix(pattern, data) for part in self._parts])

    def mean_square_length(self) -> float:
        return sum(part.mean_square_length() for part in self._parts)

    def to_original(self, factors: Factors) -> Factors:
        """Blocks keep their coordinates: those that move the origin or rotate cannot be stacked."""
        return factors


def looks_centred(X: Any) -> bool:
    """Whether all column means could be 0 by chance (within five standard errors).

    Only then does the origin mean something to a pull on the intercepts, which act there.
    """
    n = X.shape[0]
    mean = np.asarray(X.mean(axis=0)).ravel()
    square = np.asarray((X.multiply(X) if sp.issparse(X) else X * X).mean(axis=0)).ravel()
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    # Means that are rounding of 0, as after standardising, count as 0 whatever the deviation.
    chance = np.maximum(5.0 * deviation / np.sqrt(n), 1e-12 * np.sqrt(square))
    return bool(np.all(np.abs(mean) <= chance))


def through_factors(
    features: Features, pattern: EntryPattern, left: Floats, right: Floats
) -> tuple[Floats, Floats]:
    """``X left rightᵀ`` at the entries, and ``X left``."""
    P = np.ascontiguousarray(features.product(left))
    return sampled_product(pattern.indptr, pattern.indices, P, right), P


def blocks_of_labels(features: Features, pattern: EntryPattern, data: Floats) -> Floats:
    """``Xᵀ S``, some labels at a time, so that nothing of size n x L appears."""
    matrix = np.empty((features.n_features, pattern.n_labels))
    for start in range(0, pattern.n_labels, _BLOCK):
        stop = min(start + _BLOCK, pattern.n_labels)
        matrix[:, start:stop] = features.transposed_product(pattern.columns(data, start, stop))
    return matrix


def _principal_axes(X: Floats) -> Floats:
    """Orthonormal columns that span the rows of X and make ``XᵀX`` diagonal."""
    n, d = X.shape
    if d <= n:
        return np.ascontiguousarray(scipy.linalg.eigh(X.T @ X)[1][:, ::-1])
    # More features than rows: W has no component outside the row space at the optimum.
    Q = scipy.linalg.qr(X.T, mode="economic")[0]
    reduced = X @ Q
    return np.ascontiguousarray(Q @ scipy.linalg.eigh(reduced.T @ reduced)[1][:, ::-1])


def _unscaled(factors: Factors, scales: Floats | None) -> Factors:
    """The weights of the features as they were before they were multiplied by ``scales``."""
    return factors if scales is None else factors._replace(left=scales[:, None] * factors.left)


def make_features(X: Any, *, centre: bool, scales: Floats | None = None) -> Features:
    """Wrap a dense array or sparse matrix.

    ``centre`` says whether a free intercept may absorb the mean; ``scales`` multiply the columns. A sparse X
    with far fewer rows than features is taken to the space that its rows span, where it is dense but small.
    """
    if sp.issparse(X):
        n, d = X.shape
        if _FEW_ROWS * n > d or n * d > _LARGEST_DENSE:
            return SparseFeatures(X, scales)
        X = X.toarray()
    return DenseFeatures(np.asarray(X), centre=centre, scales=scales)
