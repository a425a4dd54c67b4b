"""The estimator inside of pipelines and finished searches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Innermost(NamedTuple):
    """An estimator without what stands before and around it."""

    model: Any
    X: Any
    """The features as they get to the model."""
    feature_names: list[str] | None
    """What the steps before the model call those features; None where they do not say."""


def innermost(model: Any, X: Any = None) -> Innermost:
    """The estimator in a finished search or at the end of a pipeline, and X as it gets there.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from labelgap import PlugInClassifier
    >>> pipeline = make_pipeline(StandardScaler(), PlugInClassifier(threshold="train"))
    >>> found = innermost(pipeline.fit([[0.0], [2.0], [4.0]], [0, 1, 1]), [[2.0]])
    >>> type(found.model).__name__, found.X.tolist(), found.feature_names
    ('PlugInClassifier', [[0.0]], ['feature 0'])
    """
    # Imported where it is needed: it would take a tenth of a second from every start.
    from sklearn.pipeline import Pipeline

    names: list[str] | None = None
    while True:
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif isinstance(model, Pipeline):
            if X is not None and len(model.steps) > 1:
                names = _names_after(model[:-1], X, names)
                X = model[:-1].transform(X)
            model = model.steps[-1][1]
        else:
            return Innermost(model, X, names)


def _names_after(steps: Any, X: Any, names: list[str] | None) -> list[str] | None:
    """What the steps make of the features' names; None where one of them does not tell."""
    for given in (_names_before(X, names), None):
        try:
            return [str(name) for name in steps.get_feature_names_out(given)]
        # A step without names, or that takes no others than its own: a page can do without.
        except (AttributeError, NotImplementedError, TypeError, ValueError):
            continue
    return None


def _names_before(X: Any, names: list[str] | None) -> Any:
    if names is not None:
        return names
    if hasattr(X, "columns"):
        return np.asarray(X.columns, dtype=object)
    shape = getattr(X, "shape", None) or np.shape(X)
    return [f"feature {column}" for column in range(shape[1])] if len(shape) == 2 else None
