"""Features that need work: words as one feature each, blanks filled in, by scikit-learn's transformers.

The transformer is fitted together with the model and saved with it, as a pipeline, so that ``predict`` does
the same to new rows.
"""

from __future__ import annotations

import warnings
from enum import StrEnum
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap._warn import warn
from labelgap.data.files.feature_plan import FeaturePlan
from labelgap.exceptions import LabelgapWarning, MissingExtraError
from labelgap.persistence.transformers import is_pipeline
from labelgap.persistence.vectorizers import VECTORIZERS

_NUMBERS, _CATEGORIES = "numbers", "categories"
# Of fewer rows, that all texts differ says little about the column.
_FEW_ROWS = 10
# A column in which more of the rows than this have a text of their own holds no categories.
_MOST_DIFFERENT = 0.9
PREPARE, DECIDE = "prepare", "decide"


class Impute(StrEnum):
    """What a blank among the features is filled with."""

    mean = "mean"
    median = "median"
    most_frequent = "most-frequent"


def make_preparation(
    X: Any, names: tuple[str, ...] | None, plan: FeaturePlan | None, impute: Impute | None
) -> Any:
    """A transformer that is fitted to these features; None where they are features as they are."""
    categories = {} if plan is None else plan.categories
    if not categories and impute is None:
        return None
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    all_names = [f"feature {column}" for column in range(X.shape[1])] if names is None else list(names)
    words = [column for column, name in enumerate(all_names) if name in categories]
    numbers = [column for column in range(len(all_names)) if column not in set(words)]
    for column in words:
        if plan is not None and all_names[column] in plan.unasked:
            _warn_of_different_texts(all_names[column], X[:, column])
    fill: Any = "passthrough"
    if impute is not None:
        fill = SimpleImputer(strategy=impute.value.replace("-", "_"), keep_empty_features=True)
    parts = [(_NUMBERS, fill, numbers)] if numbers else []
    if words:
        # A word that the fit has not seen is none of those that it has.
        parts.append((_CATEGORIES, OneHotEncoder(handle_unknown="ignore"), words))
    prepare = ColumnTransformer(parts, verbose_feature_names_out=False).fit(X)
    if names is not None:
        prepare.feature_names_in_ = np.array(names, dtype=object)
    return prepare


def _warn_of_different_texts(name: str, texts: Any) -> None:
    """Warn if nearly every row has a text of its own, as amounts with a unit and times of day have."""
    known = [text for text in texts if text]
    if len(known) < _FEW_ROWS or len(set(known)) <= _MOST_DIFFERENT * len(known):
        return
    warn(
        f"The column {name!r} is text, and nearly every row has a value of its own ({len(set(known))} "
        f"different ones in {len(known)} rows, such as {known[0]!r} and {known[1]!r}). Each became a "
        "feature, which says nothing about new rows. If the values are amounts, write them as numbers; else "
        f"leave the column out with --drop {name}, or say --categorical {name} if they are categories all "
        "the same.",
        LabelgapWarning,
    )


def _warn_of_unseen_texts(prepare: Any, X: Any) -> None:
    """Warn of columns of texts none of which the fit has seen."""
    names = names_before(prepare)
    if names is None or len(X) < _FEW_ROWS:
        return
    for kind, encoder, columns in _parts(prepare, names):
        if kind != "OneHotEncoder" or getattr(encoder, "handle_unknown", "error") == "error":
            continue
        for name, seen in zip(columns, encoder.categories_, strict=True):
            texts = X[:, names.index(name)]
            if set(seen.tolist()).isdisjoint(texts.tolist()):
                warn(
                    f"The column {name!r} has no value that the fit has seen (the first here: {texts[0]!r}, "
                    f"in the fit: {seen.tolist()[0]!r}), so it says nothing about these rows. Write the "
                    "values as in the fit, or fit again without the column.",
                    LabelgapWarning,
                )


def prepared(prepare: Any, X: Any) -> Any:
    """The features that the model sees."""
    if prepare is None:
        return X
    _warn_of_unseen_texts(prepare, X)
    names = names_before(prepare)
    if names is not None and _wants_names(prepare):
        X = _frame(X, names)
    with warnings.catch_warnings():
        # The columns are in the order of the fit, though the matrix does not say so.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        Z = prepare.transform(X)
    return Z.astype(np.float64) if Z.dtype == object else np.asarray(Z) if not sp.issparse(Z) else Z


def _wants_names(prepare: Any) -> bool:
    """Whether it was fitted in Python to a frame, whose columns it knows by their names."""
    return any(
        isinstance(column, str)
        for step in _steps(prepare)
        if type(step).__name__ == "ColumnTransformer"
        for _, _, columns in step.transformers
        for column in ([columns] if isinstance(columns, str) else columns)
    )


def _frame(X: Any, names: tuple[str, ...]) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError(
            "The steps before this model know their columns by name, as in a frame, which needs the package "
            "pandas: run pip install 'labelgap[frames]'."
        ) from error
    return pandas.DataFrame(X, columns=list(names)).infer_objects()


def around(prepare: Any, model: Any) -> Any:
    """The model with what comes before it, to be saved."""
    if prepare is None:
        return model
    from sklearn.pipeline import Pipeline

    return Pipeline([(PREPARE, prepare), (DECIDE, model)])


def taken_apart(model: Any) -> tuple[Any, Any]:
    """What comes before the estimator, or None, and the estimator itself."""
    if not is_pipeline(model):
        return None, model
    return (model[:-1] if len(model.steps) > 1 else None), model.steps[-1][1]


def names_before(prepare: Any) -> tuple[str, ...] | None:
    """What the columns are called that the transformer takes."""
    names = getattr(prepare, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def names_after(prepare: Any) -> tuple[str, ...] | None:
    """What the features are called that it makes; None where it does not say."""
    try:
        return tuple(map(str, prepare.get_feature_names_out()))
    except (AttributeError, ValueError):
        return None


def plan_of(prepare: Any) -> FeaturePlan:
    """How columns are read for a model: categories and texts of its transformer as texts, blanks as NaN if it
    fills them.
    """
    if prepare is None:
        return FeaturePlan(texts=())
    names = names_before(prepare) or ()
    parts = _parts(prepare, names)
    of_texts = ("OneHotEncoder", *VECTORIZERS)
    texts = [name for kind, _, columns in parts for name in columns if kind in of_texts]
    return FeaturePlan(texts=texts, keep_missing=any(kind == "SimpleImputer" for kind, *_ in parts))


def describe_preparation(prepare: Any) -> str | None:
    """What is done to the features, in words."""
    if prepare is None:
        return None
    names = names_before(prepare) or ()
    said = []
    for kind, encoder, columns in _parts(prepare, names):
        if kind == "OneHotEncoder":
            counts = zip(columns, encoder.categories_, strict=True)
            said.append("one-hot " + ", ".join(f"{name} ({len(words)})" for name, words in counts))
        elif kind == "SimpleImputer":
            said.append(f"blanks filled with the {encoder.strategy.replace('_', ' ')}")
    return "; ".join(said) or "by " + ", ".join(type(step).__name__ for step in _steps(prepare))


def _steps(prepare: Any) -> list[Any]:
    return [step for _, step in prepare.steps] if is_pipeline(prepare) else [prepare]


def _parts(prepare: Any, names: tuple[str, ...]) -> list[tuple[str, Any, list[str]]]:
    """Class, transformer and columns of each part, also of pipelines within a ColumnTransformer."""
    found: list[tuple[str, Any, list[str]]] = []
    for step in _steps(prepare):
        if type(step).__name__ != "ColumnTransformer":
            found.append((type(step).__name__, step, list(names)))
            continue
        for _, part, chosen in step.transformers_:
            columns = [chosen] if isinstance(chosen, str) else list(chosen)
            named = [
                names[column] if isinstance(column, int | np.integer) else str(column) for column in columns
            ]
            inner = [inside for _, inside in part.steps] if is_pipeline(part) else [part]
            found += [(type(one).__name__, one, named) for one in inner]
    return found
