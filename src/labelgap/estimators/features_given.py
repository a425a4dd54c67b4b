"""What an estimator is given as X: numbers, or whatever an estimator inside takes, matched to the fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import _num_samples, validate_data

from labelgap._arrays import (
    frame_library,
    plain_array,
    refuse_unmatched_rows,
    row_names_of,
    to_host,
)
from labelgap._named_columns import names_of_columns, without_names
from labelgap._names import listed
from labelgap._types import Floats
from labelgap.exceptions import (
    InvalidFeaturesError,
    InvalidLabelsError,
)
from labelgap.labels.columns import named_columns, refuse_dates

_LARGEST_FEATURE = 1e100
_SMALLEST_FEATURE = 1e-100


def read_features(estimator: Any, X: Any, *, reset: bool, nan_allowed: bool = False) -> Any:
    """X as float64, dense or CSR; ``reset`` at fit, else it must have the features of the fit."""
    X = to_host(safe_features(X))
    refuse_dates(X)
    with named_columns(X):
        X = validated(
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


def hand_on_features(estimator: Any, X: Any, *, reset: bool) -> Any:
    """X as it came, for an estimator inside; only its width and its names are held against those of the fit.

    A frame stays a frame, with its categories, texts and NaN, and a sparse matrix becomes CSR.
    """
    X = safe_features(X)
    if not has_steps(estimator.estimator):
        refuse_dates(X)
    if not reset and hasattr(estimator, "n_features_in_") and not sp.issparse(X) and np.ndim(X) < 2:
        raise InvalidFeaturesError(
            f"X is {np.ndim(X)}-d; rows of {estimator.n_features_in_} features were expected. Reshape your "
            "data: X.reshape(1, -1) for a single row."
        )
    if not hasattr(X, "shape") and not hasattr(X, "__len__"):
        # Some rows of it are wanted in every fold.
        X = np.asarray(X)
    X = validated(estimator, X, reset=reset, skip_check_array=True)
    if _num_samples(X) == 0:
        raise InvalidFeaturesError("X has 0 sample(s) while a minimum of 1 is required; pass some rows.")
    return X.tocsr() if sp.issparse(X) else X


def has_steps(estimator: Any) -> bool:
    """Whether there are steps before the last estimator, which may make numbers of whatever is in X."""
    return hasattr(estimator, "steps")


def named_unless_steps(estimator: Any, X: Any) -> AbstractContextManager[None]:
    """Names the column of X that an estimator without steps before it cannot read."""
    return nullcontext() if has_steps(estimator) else named_columns(X)


def is_of_numbers(X: Any) -> bool:
    """Whether the types of X say numbers: not those of texts, categories, times or objects.

    Examples
    --------
    >>> is_of_numbers(np.eye(2)), is_of_numbers(np.array([["red"], ["blue"]])), is_of_numbers(["a text"])
    (True, False, False)
    """
    library = frame_library(X)
    if library is not None:
        types = [X.dtype] if hasattr(X, "dtype") else list(X.dtypes)
        if library == "polars":
            return all(one.is_numeric() or str(one) == "Boolean" for one in types)
        return all(one.kind in "biuf" for one in types)
    if isinstance(X, list | tuple):
        first = np.asarray(X[0]) if len(X) else np.zeros(1)
        return first.dtype.kind in ("biufO" if first.ndim else "biuf")
    return not (isinstance(X, np.ndarray) and X.dtype.kind in "OUS")


def validated(estimator: Any, X: Any, *, reset: bool, **checks: Any) -> Any:
    """X as scikit-learn's ``validate_data`` checks it; columns with names are matched to the fit by these."""
    names, X = names_of_columns(X), without_names(X)
    if reset or names is None:
        X = validate_data(estimator, X, reset=reset, **checks)
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        return X
    known = getattr(estimator, "feature_names_in_", None)
    if known is None:
        return validate_data(estimator, X, reset=False, **checks)
    X = _in_order_of_fit(X, names, known.tolist())
    # Not validate_data, which would miss the names that have just been used.
    return X if checks.pop("skip_check_array", False) else check_array(X, input_name="X", **checks)


def _in_order_of_fit(X: Any, names: Sequence[str], known: Sequence[str]) -> Any:
    """The features of the fit, in its order; others are left out."""
    if list(names) == list(known):
        return X
    place = {name: at for at, name in enumerate(names)}
    missing = [name for name in known if name not in place]
    if missing:
        raise InvalidFeaturesError(
            f"X lacks {len(missing)} of the {len(known)} features of the fit: {listed(missing)}. It has "
            f"{listed(names)}. Rename its columns, or add what is missing."
        )
    columns = [place[name] for name in known]
    # Laid out as the columns of the fit were, so that sums round alike.
    return X[:, columns].sorted_indices() if sp.issparse(X) else np.take(X, columns, axis=1)


def safe_features(X: Any) -> Any:
    """X itself, if it may be handed on: NaN for what is masked, and no sparse entry outside its shape."""
    if sp.issparse(X) or np.ma.isMaskedArray(X):
        return plain_array(X, "X", InvalidFeaturesError)
    return X


def refuse_misaligned(X: Any, y: Any) -> None:
    """Raise if the names of rows contradict their order, because rows of X and y are matched by it."""
    refuse_unmatched_rows(
        row_names_of(X),
        row_names_of(y),
        ("X", "y"),
        "Rows are matched by their order: pass X.loc[rows] and y.loc[rows] with "
        "rows = X.index.intersection(y.index); or, if the rows are in the same order already, reset both "
        "indices with reset_index(drop=True), or pass y.to_numpy().",
        InvalidLabelsError,
    )


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


def refuse_extreme_values(X: Any) -> None:
    """Raise unless squares and sums of the features stay within the range of floating point."""
    values = X.data if sp.issparse(X) else X
    # Without a copy of X, which its absolute values would be.
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if largest > _LARGEST_FEATURE:
        raise InvalidFeaturesError(
            f"X holds values as large as {largest:.1e}, whose squares overflow. Scale the features first, "
            "for instance with sklearn.preprocessing.StandardScaler."
        )
    # Zeros alone say nothing about a unit; they are constant features.
    if 0 < largest < _SMALLEST_FEATURE:
        raise InvalidFeaturesError(
            f"The largest value of X is as small as {largest:.1e}, and the squares of its values vanish. "
            "Scale the features first, for instance with sklearn.preprocessing.StandardScaler."
        )
