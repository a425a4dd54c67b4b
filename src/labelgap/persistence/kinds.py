"""The types that a saved model may be made of, beside plain values and arrays."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap.estimators.regression_values import Units
from labelgap.estimators.score_models import DirectModel, GivenScores, LabelModels, RowModel
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import UNOBSERVED
from labelgap.losses import FAMILIES, LOSSES, Loss, Unlabelled
from labelgap.metrics import LinearFractional
from labelgap.persistence.codec import CannotSaveError, Kind
from labelgap.recommending.side_features import SideFeatures
from labelgap.solvers import Penalties, Progress
from labelgap.solvers.result import Candidate

_SPARSE = {matrix.__name__: matrix for matrix in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix)}
_SCALARS = {np.dtype(code).name: np.dtype(code).type for code in "?bhilBHILefd"} | {"str": np.str_}
# Words in a state of MT19937.
_KEY_LENGTH = 624
# What a fit of scikit-learn's LogisticRegression leaves behind.
_FITTED = ("classes_", "coef_", "intercept_", "n_iter_", "n_features_in_", "feature_names_in_")


def _record(name: str, cls: Any) -> Kind:
    """A dataclass or a named tuple, by its fields."""
    fields = getattr(cls, "_fields", None) or [field.name for field in dataclasses.fields(cls) if field.init]
    return Kind(name, lambda value: {field: getattr(value, field) for field in fields}, _call(cls))


def _call(cls: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda parts: cls(**parts)


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
    matrix.check_format(full_check=True)
    return matrix


def _random_parts(value: np.random.RandomState) -> Mapping[str, Any]:
    state: Any = value.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        raise CannotSaveError("random_state", value)
    return dict(state)


def _random_state(parts: dict[str, Any]) -> np.random.RandomState:
    """A generator where it was. numpy takes any state, and reads beyond its key where ``pos`` is outside."""
    inner = parts["state"]
    key, pos = inner["key"], inner["pos"]
    whole = (
        parts["bit_generator"] == "MT19937"
        and isinstance(key, np.ndarray)
        and key.dtype == np.uint32
        and key.shape == (_KEY_LENGTH,)
        # From zeros (all but 31 bits, which are not used) it would draw zeros for ever.
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
    """Labels as they were, and such that no entry lies outside: kernels do not look again."""
    labels = ObservedLabels(**parts)
    if not (_rows_are_whole(labels) and _entries_are_whole(labels)):
        raise ValueError("the entries of its labels do not fit together")
    return labels


def _rows_are_whole(labels: ObservedLabels) -> bool:
    """Whether the entries are in rows, and the columns of each row within bounds and ascending."""
    (n, n_labels), indptr, indices = labels.shape, labels.indptr, labels.indices
    if type(n) is not int or type(n_labels) is not int or indptr.shape != (n + 1,) or indices.ndim != 1:
        return False
    if indptr.dtype.kind != "i" or indices.dtype.kind != "i":
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
    for per_entry, kinds in ((labels.values, "biuf"), (labels.weights, "f"), (labels.offsets, "f")):
        if per_entry is not None and (per_entry.shape != (count,) or per_entry.dtype.kind not in kinds):
            return False
    for names, length in zip((labels.row_names, labels.label_names), labels.shape, strict=True):
        if names is not None and (type(names) is not tuple or len(names) != length):
            return False
    return labels.values is not None and labels.unobserved in UNOBSERVED


# -- scikit-learn's ------------------------------------------------------------------------------------


def is_logistic_regression(value: Any) -> bool:
    """Whether it is scikit-learn's, and not a class derived from it."""
    kind = type(value)
    return kind.__name__ == "LogisticRegression" and kind.__module__.startswith("sklearn.linear_model.")


def without_requests(state: Mapping[str, Any]) -> dict[str, Any]:
    """Without what scikit-learn's routing of metadata was told, and settings of output that are not plain.

    Examples
    --------
    >>> without_requests({"C": 1.0, "_metadata_request": print, "_sklearn_output_config": print})
    {'C': 1.0}
    """
    output = state.get("_sklearn_output_config")
    is_plain = type(output) is dict and all(
        type(part) in (str, bool, type(None)) for pair in output.items() for part in pair
    )
    left_out = ("_metadata_request",) if is_plain else ("_metadata_request", "_sklearn_output_config")
    return {name: part for name, part in state.items() if name not in left_out}


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
    # Imported where it is needed: it would take a tenth of a second from every start.
    from sklearn.linear_model import LogisticRegression

    known = LogisticRegression().get_params()
    # A parameter on its way out has that value, and later versions do not have it.
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
    return model


# -- the list ------------------------------------------------------------------------------------------

_NUMPY = Kind("numpy", _scalar_parts, _scalar)
_MATRIX = Kind("sparse", _sparse_parts, _sparse)
_NAMED_LOSS = Kind("loss", lambda value: {"name": value.name}, _loss)
_LOGISTIC = Kind("LogisticRegression", _logistic_parts, _logistic_regression, shared=True)

_BY_TYPE: dict[type, Kind] = {
    **dict.fromkeys(_SCALARS.values(), _NUMPY),
    **dict.fromkeys(_SPARSE.values(), _MATRIX),
    **dict.fromkeys((LOSSES | FAMILIES).values(), _NAMED_LOSS),
    np.random.RandomState: Kind("random_state", _random_parts, _random_state, shared=True),
    Unlabelled: Kind(
        "unlabelled_loss", lambda value: {"base": value.base, "flip_rate": value.flip_rate}, _call(Unlabelled)
    ),
    ObservedLabels: Kind("labels", _record("labels", ObservedLabels).parts, _labels),
    LinearFractional: _record("metric", LinearFractional),
    Candidate: _record("candidate", Candidate),
    Penalties: _record("penalties", Penalties),
    Progress: _record("progress", Progress),
    Units: _record("units", Units),
    SideFeatures: _record("side_features", SideFeatures),
    LabelModels: _record("label_models", LabelModels),
    RowModel: _record("row_model", RowModel),
    DirectModel: _record("direct_model", DirectModel),
    GivenScores: _record("given_scores", GivenScores),
}

KINDS: dict[str, Kind] = {kind.name: kind for kind in (*_BY_TYPE.values(), _LOGISTIC)}
"""Every kind by the name that it has in a file."""


def kind_of(value: Any) -> Kind | None:
    """The kind of a value, None for a type that is not in the list.

    Examples
    --------
    >>> from labelgap.losses import Poisson
    >>> kind_of(Poisson()).name, kind_of(print)
    ('loss', None)
    """
    return _LOGISTIC if is_logistic_regression(value) else _BY_TYPE.get(type(value))
