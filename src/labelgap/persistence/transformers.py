"""Registers the pipelines and transformers of scikit-learn that a model file may hold.

Each is saved by its parameters and fitted attributes, as labelgap's estimators are. The classes are known by
their names in a closed list, and are imported only when a file or a model holds one: importing all of them
would take a second from every start.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin

from labelgap._warn import warn
from labelgap.exceptions import LabelgapWarning
from labelgap.persistence.agreement import check_agreement
from labelgap.persistence.codec import CannotSaveError, Kind
from labelgap.persistence.registry import (
    has_place,
    is_logistic_regression,
    register,
    register_finder,
    requirements_of,
    without_requests,
)
from labelgap.persistence.vectorizers import (
    VECTORIZERS,
    check_vectorizer,
    vectorizer_parts,
    vectorizer_state,
    width_of_texts,
)

PIPELINE = "Pipeline"
TRANSFORMERS = {
    PIPELINE: "sklearn.pipeline",
    "ColumnTransformer": "sklearn.compose",
    "CountVectorizer": "sklearn.feature_extraction.text",
    "FunctionTransformer": "sklearn.preprocessing",
    "HashingVectorizer": "sklearn.feature_extraction.text",
    "MaxAbsScaler": "sklearn.preprocessing",
    "MinMaxScaler": "sklearn.preprocessing",
    "MissingIndicator": "sklearn.impute",
    "Normalizer": "sklearn.preprocessing",
    "Nystroem": "sklearn.kernel_approximation",
    "OneHotEncoder": "sklearn.preprocessing",
    "PCA": "sklearn.decomposition",
    "RobustScaler": "sklearn.preprocessing",
    "SimpleImputer": "sklearn.impute",
    "StandardScaler": "sklearn.preprocessing",
    "TfidfTransformer": "sklearn.feature_extraction.text",
    "TfidfVectorizer": "sklearn.feature_extraction.text",
    "TruncatedSVD": "sklearn.decomposition",
    "VarianceThreshold": "sklearn.feature_selection",
}
"""The classes by name, with the module that each is imported from. A FunctionTransformer has no function."""
_VERSION = "scikit-learn"
_DTYPE_KINDS = "biufSUO"
_NO_STEP = ("passthrough", None)


def transformer_name(value: Any) -> str | None:
    """The name of a transformer of scikit-learn that can be saved; None for anything else.

    Examples
    --------
    >>> from sklearn.preprocessing import PolynomialFeatures, StandardScaler
    >>> transformer_name(StandardScaler()), transformer_name(PolynomialFeatures())
    ('StandardScaler', None)
    """
    cls = type(value)
    module = TRANSFORMERS.get(cls.__name__)
    # By the names, without an import; a class derived from one of them has another module.
    return cls.__name__ if module is not None and cls.__module__.startswith(module) else None


def is_pipeline(value: Any) -> bool:
    """Whether the value is scikit-learn's Pipeline itself."""
    return transformer_name(value) == PIPELINE


def last_step(estimator: Any) -> Any:
    """The estimator at the end of a pipeline, and of one in it; anything else is its own last step."""
    while is_pipeline(estimator) and estimator.steps:
        estimator = estimator.steps[-1][1]
    return estimator


def _parts(value: Any) -> Mapping[str, Any]:
    from sklearn import __version__

    state = without_requests(vars(value))
    if type(value).__name__ in VECTORIZERS:
        state = vectorizer_parts(state)
    for name, part in state.items():
        if not has_place(type(value), name):
            raise CannotSaveError(name, part)
    return {_VERSION: __version__, **state}


def _whole(name: str) -> Any:
    def rebuild(parts: dict[str, Any]) -> Any:
        from sklearn import __version__

        cls: Any = getattr(import_module(TRANSFORMERS[name]), name)
        saved_with, names = parts.pop(_VERSION), cls._get_param_names()
        state = without_requests(parts)
        for part in parts:
            if part not in state or not has_place(cls, part):
                raise ValueError(
                    f"{name} has no place for {part!r} in this scikit-learn, {__version__}; it was saved "
                    f"with scikit-learn {saved_with}"
                )
        check_agreement(name, {part: value for part, value in state.items() if part not in names}, state)
        if name in VECTORIZERS:
            state = vectorizer_state(state)
        model = cls(**{part: state[part] for part in names if part in state})
        for part, value in state.items():
            if part not in names:
                setattr(model, part, value)
        if name in VECTORIZERS:
            check_vectorizer(model)
        else:
            model._validate_params()
        if name == PIPELINE:
            _check_steps(model)
            _width_made(model, None, "")
        if name == "ColumnTransformer":
            _check_columns(model)
        if str(saved_with).split(".")[:2] != __version__.split(".")[:2]:
            warn(
                f"A {name} in the file was fitted with scikit-learn {saved_with}, and this is {__version__}. "
                "Compare some predictions, or fit and save the model again.",
                LabelgapWarning,
            )
        return model

    return rebuild


def _is_step(value: Any, instead: tuple[str | None, ...]) -> bool:
    """Whether the value is a transformer that can be saved, or one of the words that may stand there."""
    if value is None or isinstance(value, str):
        return value in instead
    last = last_step(value)
    # The steps of a pipeline have been checked before.
    return transformer_name(value) is not None and (last is value or _is_step(last, _NO_STEP))


def _check_steps(pipeline: Any) -> None:
    """Raise ValueError where a step is no transformer, or the last step neither that nor a model."""
    _require_named(pipeline.steps, 2, "a step of a Pipeline")
    for at, (name, step) in enumerate(pipeline.steps, 1):
        is_last = at == len(pipeline.steps)
        is_model = is_logistic_regression(last_step(step)) or requirements_of(last_step(step)) is not None
        if not (_is_step(step, _NO_STEP) or (is_last and is_model)):
            raise ValueError(f"the step {name!r} of a Pipeline is a {type(step).__name__}, no transformer")


def _check_columns(transformer: Any) -> None:
    """Raise ValueError where a part of a ColumnTransformer is no transformer."""
    for parts in (transformer.transformers, getattr(transformer, "transformers_", [])):
        _require_named(parts, 3, "a part of a ColumnTransformer")
        for name, part, _ in parts:
            if not _is_step(part, ("passthrough", "drop")):
                raise ValueError(
                    f"the part {name!r} of a ColumnTransformer is a {type(part).__name__}, no transformer"
                )


def _require_named(values: Any, length: int, what: str) -> None:
    for value in values:
        if type(value) is not tuple or len(value) != length or not isinstance(value[0], str):
            raise ValueError(f"{what} is no tuple of a name and {length - 1} more")


def _width_made(step: Any, given: int | None, what: str) -> int | None:
    """How many features a fitted step makes of those that it is given; None where nothing says it.

    Raises ValueError where it takes more or fewer than are given; ``what`` names what gives them.
    """
    name = transformer_name(step)
    if name == PIPELINE:
        for _, inner in step.steps:
            given, what = _width_made(inner, given, what), f"a {type(inner).__name__}"
        return given
    taken = getattr(step, "n_features_in_", given)
    if given is not None and taken != given:
        raise ValueError(f"{what} makes {given} features, and the step after it takes {taken}")
    if name in VECTORIZERS:
        return width_of_texts(step)
    if name is None or name == "FunctionTransformer" or isinstance(step, OneToOneFeatureMixin):
        # Also "passthrough"; a model is the last.
        return taken
    if not hasattr(step, "n_features_in_"):
        return None
    if name == "ColumnTransformer":
        made = [
            _width_made(part, _selected(columns), f"the selection {at!r} of columns")
            for at, part, columns in step.transformers_
            if _selected(columns) != 0 and part != "drop"
        ]
        return sum(width for width in made if width is not None) if None not in made else None
    # Names of scikit-learn for what it makes are as many as its features.
    return len(step.get_feature_names_out())


def _selected(columns: Any) -> int | None:
    """How many columns a ColumnTransformer selects; None for a slice, whose end the data decide."""
    if isinstance(columns, slice):
        return None
    values = np.asarray(columns)
    return int(values.sum()) if values.dtype == np.bool_ else values.size


# -- what transformers hold ----------------------------------------------------------------------------


def _dtype(parts: dict[str, Any]) -> np.dtype[Any]:
    dtype = np.dtype(str(parts["name"]))
    if dtype.kind not in _DTYPE_KINDS:
        raise ValueError(f"{parts['name']!r} is no type of numbers or text")
    return dtype


def _number_type(parts: dict[str, Any]) -> Any:
    return _dtype(parts).type


def _is_number_type(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, np.number | np.bool_)


def _find(value: Any) -> str | None:
    if isinstance(value, np.dtype):
        return "dtype"
    return "number_type" if _is_number_type(value) else transformer_name(value)


for _name in TRANSFORMERS:
    register(Kind(_name, _parts, _whole(_name), shared=True))
register(Kind("dtype", lambda dtype: {"name": dtype.str}, _dtype))
register(Kind("number_type", lambda cls: {"name": np.dtype(cls).str}, _number_type))
register(
    Kind(
        "slice",
        lambda part: {"start": part.start, "stop": part.stop, "step": part.step},
        lambda parts: slice(parts["start"], parts["stop"], parts["step"]),
    ),
    slice,
)
register_finder(_find)
