"""Registers what a model may hold of numpy, scipy, scikit-learn and labelgap's lower floors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap._arrays import check_pointers
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import UNOBSERVED
from labelgap.losses import FAMILIES, LOSSES, Loss, Unlabelled
from labelgap.metrics import LinearFractional
from labelgap.objective.moments import ColumnMoments, FeatureMoments, RootMoments, SecondMoments
from labelgap.objective.parts import FeatureSettings
from labelgap.persistence.agreement import check_agreement, is_float
from labelgap.persistence.codec import CannotSaveError, Kind
from labelgap.persistence.registry import record_kind, register, without_requests
from labelgap.solvers import Penalties, Progress
from labelgap.solvers.loop import Candidate
from labelgap.thresholds.constraints import Constraint

_SPARSE = {matrix.__name__: matrix for matrix in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix)}
_SCALARS = {np.dtype(code).name: np.dtype(code).type for code in "?bhilBHILefd"} | {"str": np.str_}
# The number of words in a state of MT19937.
_KEY_LENGTH = 624
# The attributes that a fit of scikit-learn's LogisticRegression sets.
_FITTED = ("classes_", "coef_", "intercept_", "n_iter_", "n_features_in_", "feature_names_in_")


# -- numbers -------------------------------------------------------------------------------------------


def _scalar_parts(value: Any) -> Mapping[str, Any]:
    return {"type": "str" if isinstance(value, np.str_) else value.dtype.name, "value": value.item()}


def _scalar(parts: dict[str, Any]) -> Any:
    return _SCALARS[parts["type"]](parts["value"])


def _sparse_parts(value: Any) -> Mapping[str, Any]:
    return {
        "type": type(value).__name__,
        "data": value.data,
        "indices": value.indices,
        "indptr": value.indptr,
        "shape": tuple(int(side) for side in value.shape),
    }


def _sparse(parts: dict[str, Any]) -> Any:
    matrix = _SPARSE[parts["type"]]((parts["data"], parts["indices"], parts["indptr"]), shape=parts["shape"])
    check_pointers(matrix)
    return matrix


def _random_parts(value: np.random.RandomState) -> Mapping[str, Any]:
    state: Any = value.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        raise CannotSaveError("random_state", value)
    return dict(state)


def _random_state(parts: dict[str, Any]) -> np.random.RandomState:
    """A generator in its saved state, which is checked: numpy reads beyond its key if ``pos`` is outside."""
    inner = parts["state"]
    key, pos = inner["key"], inner["pos"]
    whole = (
        parts["bit_generator"] == "MT19937"
        and isinstance(key, np.ndarray)
        and key.dtype == np.uint32
        and key.shape == (_KEY_LENGTH,)
        # From zeros (all but 31 bits, which are not used) it would only draw zeros.
        and bool(key[0] >> 31 or key[1:].any())
        and type(pos) is int
        and 0 <= pos <= _KEY_LENGTH
        and type(parts["has_gauss"]) is int
        and parts["has_gauss"] in (0, 1)
        and type(parts["gauss"]) is float
        and math.isfinite(parts["gauss"])
    )
    if not whole:
        raise ValueError("its random state is not one of MT19937's")
    random_state = np.random.RandomState()
    random_state.set_state(parts)
    return random_state


# -- labelgap's own ------------------------------------------------------------------------------------


def _loss(parts: dict[str, Any]) -> Loss:
    return (LOSSES | FAMILIES)[parts["name"]]()


def _labels(parts: dict[str, Any]) -> ObservedLabels:
    """The labels, checked so that no entry lies outside their shape, because kernels do not check that."""
    labels = ObservedLabels(**parts)
    if not (_rows_are_whole(labels) and _entries_are_whole(labels)):
        raise ValueError("the entries of its labels do not fit together")
    return labels


def _rows_are_whole(labels: ObservedLabels) -> bool:
    """Whether the row pointers are valid, and the columns of each row within bounds and ascending."""
    (n, n_labels), indptr, indices = labels.shape, labels.indptr, labels.indices
    if type(n) is not int or type(n_labels) is not int or indptr.shape != (n + 1,) or indices.ndim != 1:
        return False
    if indptr.dtype not in (np.int32, np.int64) or indices.dtype not in (np.int32, np.int64):
        return False
    count = len(indices)
    if indptr[0] != 0 or indptr[-1] != count or (np.diff(indptr) < 0).any():
        return False
    if count and (indices.min() < 0 or indices.max() >= n_labels):
        return False
    rising = np.diff(indices) > 0
    starts = indptr[(indptr > 0) & (indptr < count)]
    rising[starts - 1] = True
    return bool(rising.all())


def _entries_are_whole(labels: ObservedLabels) -> bool:
    """Whether each entry has a value and each row and column a name, where there are any."""
    count = len(labels.indices)
    for per_entry, kinds in ((labels.values, "biu"), (labels.weights, ""), (labels.offsets, "")):
        if per_entry is None:
            continue
        if per_entry.shape != (count,) or not (per_entry.dtype.kind in kinds or is_float(per_entry)):
            return False
    judging = labels.judging
    if judging is not None and not (judging.dtype == np.bool_ and judging.shape == (count,)):
        return False
    by_row = labels.row_weights
    if by_row is not None and not (is_float(by_row) and by_row.shape == labels.shape[:1]):
        return False
    for names, length in zip((labels.row_names, labels.label_names), labels.shape, strict=True):
        if names is not None and (type(names) is not tuple or len(names) != length):
            return False
    return labels.values is not None and labels.unobserved in UNOBSERVED


def _moments(cls: Any) -> Any:
    """Builds moments, which are finite, of what is in a file."""
    inner = {"columns": ColumnMoments, "second": SecondMoments, "root": RootMoments}

    def build(parts: dict[str, Any]) -> Any:
        for name, value in parts.items():
            if isinstance(value, float | np.ndarray) and not np.isfinite(value).all():
                raise ValueError(f"{name} of earlier data is not finite")
            if name in inner and not (value is None or type(value) is inner[name]):
                raise ValueError(f"{name} of earlier data are no moments")
        return cls(**parts)

    return build


# -- scikit-learn's ------------------------------------------------------------------------------------


def _logistic_parts(value: Any) -> Mapping[str, Any]:
    from sklearn import __version__

    whole = without_requests(vars(value))
    state = {name: part for name, part in whole.items() if name not in _FITTED}
    fitted = {name: part for name, part in whole.items() if name in _FITTED}
    for name, part in state.items():
        if name not in value.get_params(deep=False):
            raise CannotSaveError(name, part)
    return {"scikit-learn": __version__, "parameters": state, "fitted": fitted}


def _logistic_regression(parts: dict[str, Any]) -> Any:
    # Imported only where it is needed, because that takes a tenth of a second.
    from sklearn.linear_model import LogisticRegression

    known = LogisticRegression().get_params()
    # Deprecated parameters have this value, and later versions do not have them.
    parameters = {
        name: value for name, value in parts["parameters"].items() if name in known or value != "deprecated"
    }
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(
            f"LogisticRegression has no parameter {unknown[0]!r} in this scikit-learn; it was saved with "
            f"scikit-learn {parts['scikit-learn']}"
        )
    model = LogisticRegression(**parameters)
    for name, value in parts["fitted"].items():
        if name not in _FITTED:
            raise ValueError(f"{name!r} is not what a fit of LogisticRegression leaves behind")
        setattr(model, name, value)
    check_agreement("LogisticRegression", parts["fitted"], parts["parameters"])
    return model


# -- the list ------------------------------------------------------------------------------------------

register(Kind("numpy", _scalar_parts, _scalar), *_SCALARS.values())
register(Kind("sparse", _sparse_parts, _sparse), *_SPARSE.values())
register(Kind("random_state", _random_parts, _random_state, shared=True), np.random.RandomState)
register(Kind("LogisticRegression", _logistic_parts, _logistic_regression, shared=True))
register(Kind("loss", lambda loss: {"name": loss.name}, _loss), *(LOSSES | FAMILIES).values())
register(
    Kind(
        "unlabelled_loss",
        lambda loss: {"base": loss.base, "flip_rate": loss.flip_rate},
        lambda parts: Unlabelled(**parts),
    ),
    Unlabelled,
)
register(record_kind("labels", ObservedLabels, _labels), ObservedLabels)
register(record_kind("metric", LinearFractional), LinearFractional)
register(record_kind("candidate", Candidate), Candidate)
register(record_kind("constraint", Constraint), Constraint)
register(record_kind("penalties", Penalties), Penalties)
register(record_kind("progress", Progress), Progress)
register(record_kind("feature_settings", FeatureSettings), FeatureSettings)
register(record_kind("feature_moments", FeatureMoments, _moments(FeatureMoments)), FeatureMoments)
register(record_kind("column_moments", ColumnMoments, _moments(ColumnMoments)), ColumnMoments)
register(record_kind("second_moments", SecondMoments, _moments(SecondMoments)), SecondMoments)
register(record_kind("root_moments", RootMoments, _moments(RootMoments)), RootMoments)
