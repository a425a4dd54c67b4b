"""The features X of some rows as a linear map: dense, sparse, the identity (collaborative filtering), or
several.

They are in the coordinates of the frame (:mod:`labelgap.objective.frame`), which alone knows the way back to
the features that were handed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from labelgap._types import Floats
from labelgap.kernels import feature_products
from labelgap.kernels.entries import sampled_product, sparse_sampled_product, sparse_sparse_product
from labelgap.kernels.entry_pattern import EntryPattern
from labelgap.kernels.vectors import register_bytes
from labelgap.labels.sources import index_type
from labelgap.objective.moments import row_blocks

# Labels that are worked on at a time where Xᵀ S is formed.
_BLOCK = 64
# A multiply-add that gathers its operand takes about as long as this many that stream theirs.
_GATHER = 14
# Cells of S for each of its entries up to which Xᵀ S is had sooner from rows of S that are spread out than
# entry by entry, if a row of X has many stored numbers; and how many it has where that is half of it, since a
# row is spread out once for all of them. The second pair is for registers that hold two numbers.
_SPREAD, _SPREAD_SHORT = (14.0, 44.0), (4.0, 9.0)
# Numbers for each entry up to which ``X left`` is kept beside the scores.
_KEPT_PRODUCT = 1
# Rows at least this long are worth a loop of their own.
_SHORTEST = 8
# Features beside the identity, at most, whose regression on the factors is next to nothing.
_MOST_SHARED = 1024


class Features(Protocol):
    """What an objective needs of X."""

    n_rows: int
    n_features: int
    n_stored: int
    has_own_rows: bool
    """Whether every row has parameters of its own, and few are shared, as steps row by row need it."""

    def product(self, M: Floats) -> Floats:
        """``X M``, in the precision of M."""
        ...

    def transposed_product(self, M: Floats) -> Floats:
        """``Xᵀ M``, likewise."""
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

    def square_length(self) -> float:
        """Sum of ``‖x_i‖²`` over the rows."""
        ...


class IdentityFeatures:
    """``X = I``: each row has parameters of its own. Never formed."""

    has_own_rows = True

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

    def square_length(self) -> float:
        return float(self.n_rows)


class ScaledIdentityFeatures:
    """``X = diag(s)``: each row has parameters of its own, in units of its own. Never formed."""

    has_own_rows = True

    def __init__(self, scales: Floats) -> None:
        self.scales = np.asarray(scales, dtype=np.float64)
        self.n_rows = self.n_features = len(self.scales)
        self.n_stored = 0

    def product(self, M: Floats) -> Floats:
        return np.asarray(self.scales[:, None].astype(M.dtype, copy=False) * M)

    def transposed_product(self, M: Floats) -> Floats:
        return self.product(M)

    def squared_transposed_product(self, M: Floats) -> Floats:
        return np.asarray(np.square(self.scales)[:, None] * M)

    def scores_at(
        self, pattern: EntryPattern, left: Floats, right: Floats, product: Floats | None = None
    ) -> tuple[Floats, Floats | None]:
        return through_factors(self, pattern, left, right)

    def transposed_matrix(self, pattern: EntryPattern, data: Floats) -> Floats:
        return blocks_of_labels(self, pattern, data)

    def square_length(self) -> float:
        return float(np.sum(np.square(self.scales)))


class SparseFeatures:
    """CSR features, with the transpose stored beside them so that both products run over rows.

    ``scales`` multiply the columns.
    """

    has_own_rows = False

    def __init__(self, X: Any, scales: Floats | None = None) -> None:
        rows = sp.csr_array(X, dtype=np.float64)
        if scales is not None:
            rows = sp.csr_array(rows @ sp.diags_array(scales))
        # Entries that are stored twice matter to squares alone, which are those of the columns. So the rows,
        # which may be the caller's own arrays, stay as they are.
        columns = sp.csr_array(rows.T)
        columns.sum_duplicates()
        self.n_rows, self.n_features = rows.shape
        self.n_stored = rows.nnz + columns.nnz
        of_features = rows.indices.astype(index_type(self.n_features), copy=False)
        self._rows = (rows.indptr.astype(np.int64), of_features, rows.data)
        numbers = columns.indices.astype(index_type(self.n_rows), copy=False)
        self._columns = (columns.indptr.astype(np.int64), numbers, columns.data)

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
        # of X, whatever the rank. W is made only where it is no larger than the data, if nobody has made it.
        stored, entries, rank = len(self._rows[2]), len(pattern), left.shape[1]
        gathered = _GATHER * entries * (1 + stored // max(self.n_rows, 1))
        streamed = stored * pattern.n_labels
        there = product is not None or self.n_features * pattern.n_labels <= entries + stored
        if not there or min(gathered, streamed) >= rank * (stored + entries):
            return through_factors(self, pattern, left, right)
        if streamed <= gathered and pattern.n_labels >= _SHORTEST:
            W = left @ right.T if product is None else product
            return feature_products.sampled_feature_product(
                pattern.indptr, pattern.indices, self._rows, W
            ), None
        W_by_label = np.ascontiguousarray(right @ left.T if product is None else product.T)
        return sparse_sampled_product(pattern.indptr, pattern.indices, self._rows, W_by_label), None

    def transposed_matrix(self, pattern: EntryPattern, data: Floats) -> Floats:
        entries = pattern.indptr, pattern.indices, data, pattern.n_labels
        most, half_at = _SPREAD_SHORT if register_bytes() == 16 else _SPREAD
        stored = len(self._rows[2]) / max(self.n_rows, 1)
        if self.n_rows * pattern.n_labels <= most * stored / (stored + half_at) * len(pattern):
            return feature_products.transposed_matrix(self._columns, *entries)
        if len(pattern) >= _SHORTEST * self.n_rows:
            return feature_products.scattered_matrix(self._columns, *entries)
        # By label: a label's row of SᵀX stays in the cache while the rows of X stream by.
        rows = (pattern.label_indptr, pattern.label_rows, pattern.in_label_order(data))
        return sparse_sparse_product(rows, self._rows, self.n_features).T

    def square_length(self) -> float:
        data = self._columns[2]
        return float(np.dot(data, data))


class DenseFeatures:
    """Dense features, in the coordinates of the frame."""

    has_own_rows = False

    def __init__(self, X: Floats) -> None:
        self._X = np.ascontiguousarray(X, dtype=np.float64)
        self.n_rows, self.n_features = self._X.shape
        self.n_stored = self._X.size

    def product(self, M: Floats) -> Floats:
        return (self._X @ M).astype(M.dtype, copy=False)

    def transposed_product(self, M: Floats) -> Floats:
        return (self._X.T @ M).astype(M.dtype, copy=False)

    def squared_transposed_product(self, M: Floats) -> Floats:
        # Some rows at a time: their squares are a copy.
        total = np.zeros((self.n_features, M.shape[1]))
        for rows in row_blocks(self.n_rows, self.n_features):
            total += np.square(self._X[rows]).T @ M[rows]
        return total

    def scores_at(
        self, pattern: EntryPattern, left: Floats, right: Floats, product: Floats | None = None
    ) -> tuple[Floats, Floats | None]:
        if self.n_rows * left.shape[1] <= _KEPT_PRODUCT * len(pattern):
            return through_factors(self, pattern, left, right)
        # ``X left`` would be the largest array of all, and not every caller needs it again.
        scores = np.empty(len(pattern))
        for rows in row_blocks(self.n_rows, self.n_features + left.shape[1]):
            indptr = pattern.indptr[rows.start : rows.stop + 1]
            some = slice(indptr[0], indptr[-1])
            P = np.ascontiguousarray(self._X[rows] @ left)
            sampled_product(indptr - indptr[0], pattern.indices[some], P, right, scores[some])
        return scores, None

    def transposed_matrix(self, pattern: EntryPattern, data: Floats) -> Floats:
        return pattern.transposed_times(data, self._X).T

    def square_length(self) -> float:
        return float(np.vdot(self._X, self._X))


class StackedFeatures:
    """Several blocks of features side by side, such as the identity and what is known of each row."""

    def __init__(self, parts: Sequence[Features]) -> None:
        self._parts = tuple(parts)
        self.n_rows = parts[0].n_rows
        self._ends = np.cumsum([part.n_features for part in parts])
        self.n_features = int(self._ends[-1])
        self.n_stored = sum(part.n_stored for part in parts)
        shared = self.n_features - self.first.n_features
        self.has_own_rows = self.first.has_own_rows and shared <= _MOST_SHARED

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
        first, *others = zip(self._parts, self.split(M), strict=True)
        total = first[0].product(first[1])
        for part, block in others:
            product = part.product(block)
            # Into an array that is there already, unless that is M itself, as it is for the identity.
            total = np.add(total, product, out=None if np.may_share_memory(product, block) else product)
        return total

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

    def square_length(self) -> float:
        return sum(part.square_length() for part in self._parts)


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
