"""Features as scikit-learn validates them, with errors that say where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from labelgap._types import Floats
from labelgap.exceptions import InvalidFeaturesError


def read_features(estimator: Any, X: Any, *, reset: bool, nan_allowed: bool = False) -> Any:
    """X as float64, dense or CSR; ``reset`` at fit, else it must have the features of the fit."""
    X = validate_data(
        estimator, X, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False
    )
    values = X.data if sp.issparse(X) else X
    # A sum is finite only if all its terms are (or they cancel, or it overflows: then look closer).
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    if not np.isfinite(total):
        is_bad = np.isinf if nan_allowed else _not_finite
        if is_bad(values).any():
            names = getattr(estimator, "feature_names_in_", None)
            raise InvalidFeaturesError(_where_bad(X, is_bad, names))
    return X


def _not_finite(values: Floats) -> NDArray[np.bool_]:
    return np.asarray(~np.isfinite(values))


def _where_bad(X: Any, is_bad: Callable[[Floats], NDArray[np.bool_]], names: NDArray[Any] | None) -> str:
    if sp.issparse(X):
        stored = X.tocoo()
        first = int(np.argmax(is_bad(stored.data)))
        row, column, value = stored.row[first], stored.col[first], stored.data[first]
    else:
        row, column = np.argwhere(is_bad(X))[0]
        value = X[row, column]
    what = "NaN" if np.isnan(value) else "infinity"
    name = f" ({names[column]!r})" if names is not None else ""
    return (
        f"Input X contains {what} at row {row}, column {column}{name}. Missing labels may be NaN, missing "
        "features may not: impute them first (for instance with sklearn.impute.SimpleImputer), or drop the "
        "row."
    )
