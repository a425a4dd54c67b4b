"""Arrays of features whose columns have names, as files give them: what a frame is, without pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp


class _Named:
    """What arrays and sparse matrices with ``feature_names`` share: parts and copies have names, too."""

    feature_names: tuple[str, ...] | None = None

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)  # type: ignore[misc]
        known = names_of_columns(self)
        names = None if known is None or getattr(part, "ndim", 0) != 2 else _names_of_part(known, key)
        return part if names is None or np.shape(names) != part.shape[1:] else with_names(part, names)

    def copy(self, *args: Any, **options: Any) -> Any:
        return self._named(super().copy(*args, **options))  # type: ignore[misc]

    def astype(self, *args: Any, **options: Any) -> Any:
        return self._named(super().astype(*args, **options))  # type: ignore[misc]

    def _named(self, made: Any) -> Any:
        return with_names(made, names_of_columns(self)) if isinstance(made, _Named) else made


class NamedArray(_Named, np.ndarray):
    """An array of two dimensions with ``feature_names``. Its rows, columns and copies have names, too."""

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        # What is computed from it are other numbers, without names.
        return array if array.ndim else array[()]

    def __reduce__(self) -> Any:
        return with_names, (np.asarray(self), self.feature_names)


class NamedSparse(_Named, sp.csr_array):  # type: ignore[misc, unused-ignore]
    """A CSR matrix with ``feature_names``. Its rows, columns and copies have names, too."""


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
    """The names that the columns of such an array have; None for anything else.

    After a change of its shape in place the names are no longer those of its columns.
    """
    names = X.feature_names if isinstance(X, _Named) else None
    return names if names is not None and np.shape(X)[1:] == (len(names),) else None


def without_names(X: Any) -> Any:
    """The array or the sparse matrix alone; anything else as it is."""
    if isinstance(X, NamedSparse):
        return sp.csr_array(X)
    return np.asarray(X) if isinstance(X, NamedArray) else X


def _names_of_part(names: Sequence[str], key: Any) -> Any:
    """The names that such a key of rows and columns selects; None where it adds dimensions."""
    keys = key if isinstance(key, tuple) else (key,)
    given = [one for one in keys if one is not Ellipsis]
    if len(given) > 2 or any(one is None or isinstance(one, bool | np.bool_) for one in given):
        return None
    if len(given) == 1 and keys[0] is Ellipsis:
        # The Ellipsis stands for the rows.
        given = [slice(None), *given]
    return np.array(names, dtype=object)[given[1] if len(given) == 2 else slice(None)]
