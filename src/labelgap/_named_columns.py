"""Arrays of features whose columns have names, as files give them: what a frame is, without pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp


class NamedArray(np.ndarray):
    """An array of two dimensions with ``feature_names``. Rows and columns of it have names, too."""

    feature_names: tuple[str, ...] | None = None

    def __getitem__(self, key: Any) -> Any:
        return _with_names_of(self, super().__getitem__(key), key)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        # What is computed from it are other numbers, without names.
        return array if array.ndim else array[()]

    def __reduce__(self) -> Any:
        return with_names, (np.asarray(self), self.feature_names)


class NamedSparse(sp.csr_array):  # type: ignore[misc, unused-ignore]
    """A sparse matrix in the form of rows with ``feature_names``. Rows and columns of it have names, too."""

    feature_names: tuple[str, ...] | None = None

    def __getitem__(self, key: Any) -> Any:
        return _with_names_of(self, super().__getitem__(key), key)


def with_names(X: Any, names: Sequence[str] | None) -> Any:
    """A view of the array, or of the CSR matrix, whose columns have these names.

    Examples
    --------
    >>> X = with_names(np.eye(3), ("a", "b", "c"))
    >>> X[:2].feature_names, X[:, [2, 0]].feature_names, X[0].tolist(), type(2 * X).__name__
    (('a', 'b', 'c'), ('c', 'a'), [1.0, 0.0, 0.0], 'ndarray')
    """
    named: Any = NamedSparse(X) if sp.issparse(X) else np.asarray(X).view(NamedArray)
    named.feature_names = None if names is None else tuple(names)
    return named


def names_of_columns(X: Any) -> tuple[str, ...] | None:
    """The names that the columns of such an array have; None for anything else."""
    return X.feature_names if isinstance(X, NamedArray | NamedSparse) else None


def without_names(X: Any) -> Any:
    """The array or the sparse matrix alone; anything else as it is."""
    if isinstance(X, NamedSparse):
        return sp.csr_array(X)
    return np.asarray(X) if isinstance(X, NamedArray) else X


def _with_names_of(X: Any, part: Any, key: Any) -> Any:
    """The part of X with the names that its columns have in X."""
    if X.feature_names is None or getattr(part, "ndim", 0) != 2:
        return part
    columns = key[1] if isinstance(key, tuple) and len(key) == 2 else slice(None)
    names = np.array(X.feature_names, dtype=object)[slice(None) if columns is Ellipsis else columns]
    return with_names(part, names.tolist()) if np.shape(names) == part.shape[1:] else part
