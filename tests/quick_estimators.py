"""How a quick estimator of each class is made: the one place that knows which parameters make a fit quick."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

import labelgap
from labelgap import (
    LowRankClassifier,
    LowRankRegressor,
    MetricThreshold,
    ObservedLabels,
    PlugInClassifier,
    Recommender,
)

# Penalties that are given need no search, and an intercept that is free needs no penalty of its own.
GIVEN: dict[str, Any] = {"trace_penalty": 0.01, "ridge_penalty": 0.0, "intercept_penalty": 0.0}
# Whatever follows the folds is left out as well: one fit, and a threshold from its own scores.
ONE_FIT: dict[str, Any] = {"threshold": "train"}
# Besides, nothing that "auto" would choose from the data.
PLAIN: dict[str, Any] = {"features": "linear", "label_weighting": 0.0}


def low_rank(**settings: Any) -> LowRankClassifier:
    return LowRankClassifier(**({**GIVEN, "random_state": 0} | settings))


def regressor(family: Any = "gaussian", **settings: Any) -> LowRankRegressor:
    given = {**GIVEN, "trace_penalty": 0.02, "ridge_penalty": 0.01, "random_state": 0}
    return LowRankRegressor(family, **(given | settings))


def plug_in(estimator: Any = None, **settings: Any) -> PlugInClassifier:
    return PlugInClassifier(estimator, **({"random_state": 0} | settings))


def cut(estimator: Any = None, **settings: Any) -> MetricThreshold:
    inner = LogisticRegression() if estimator is None else estimator
    return MetricThreshold(inner, **({"random_state": 0} | settings))


def recommender(**settings: Any) -> Recommender:
    given = {"trace_penalty": 0.02, "intercept_penalty": 0.0, "user_intercept": True, "random_state": 0}
    return Recommender(**(given | settings))


def likes(**settings: Any) -> LowRankClassifier:
    """A classifier that learns from recorded positives alone."""
    given = {"unobserved": "unlabelled", "flip_rate": 0.4, "loss": "squared", "trace_penalty": 3e-3}
    return low_rank(**(given | settings))


# A new estimator enters the tests of tests/estimators/test_every_*.py by its line here, which
# test_every_public_estimator_is_made_here asks for; the groups at the top of those files may need it, too.
QUICK: dict[str, Callable[..., Any]] = {
    "LowRankClassifier": low_rank,
    "LowRankRegressor": regressor,
    "MetricThreshold": cut,
    "PlugInClassifier": plug_in,
    "Recommender": recommender,
}


def public_estimators() -> dict[str, type]:
    """Every estimator of the package by its name."""
    found = {name: getattr(labelgap, name) for name in labelgap.__all__}
    return {
        name: kind
        for name, kind in found.items()
        if isinstance(kind, type) and issubclass(kind, BaseEstimator)
    }


def problem(n: int = 90, d: int = 4, n_labels: int = 5, observed: float = 0.6) -> tuple[Any, Any]:
    """Features, and labels with gaps that the features decide but for some noise."""
    rng = np.random.RandomState(7)
    X = rng.standard_normal((n, d))
    noise = 0.3 * rng.standard_normal((n, n_labels))
    Y = (X @ rng.standard_normal((d, n_labels)) + noise > 0.4).astype(float)
    Y[rng.uniform(size=Y.shape) > observed] = np.nan
    return X, Y


def fit(model: Any, X: Any, Y: Any, **given: Any) -> Any:
    """Fit to labels of rows, which are ratings of users to a recommender."""
    if isinstance(model, Recommender):
        ratings = Y if isinstance(Y, ObservedLabels) else ObservedLabels.from_dense(Y)
        return model.fit(ratings, **given)
    return model.fit(X, Y, **given)


def answers(model: Any, X: Any) -> dict[str, Any]:
    """What a fitted model says of these rows, or of all pairs of its users and items."""
    if isinstance(model, Recommender):
        users, items = list(model.user_ids_), list(model.item_ids_)
        pairs = [user for user in users for _ in items], items * len(users)
        return {
            "decision_function": model.decision_function(*pairs),
            "predict_proba": model.predict_proba(*pairs),
            "predict": model.predict(*pairs),
            "best": model.recommend_batch(n=2).scores,
        }
    named = ("decision_function", "predict_proba", "predict")
    return {name: getattr(model, name)(X) for name in named if hasattr(model, name)}
