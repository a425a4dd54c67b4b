"""Whether a model has all that it needs, in shapes that fit together: before it is saved, and once loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

_DECISIONS = ("metric_", "classes_", "threshold_", "n_labels_", "_single", "_sparse_labels", "_unobserved")
_LOW_RANK = ("coef_left_", "coef_right_", "intercept_")
_NEEDED = {
    "LowRankClassifier": (*_DECISIONS, *_LOW_RANK, "loss_"),
    "LowRankRegressor": (*_LOW_RANK, "family_", "n_labels_", "_single", "_has_features", "n_features_in_"),
    "MetricThreshold": (*_DECISIONS, "_model"),
    "PlugInClassifier": (*_DECISIONS, "_model", "estimators_"),
    "Recommender": (
        *("user_ids_", "item_ids_", "user_factors_", "item_factors_", "item_intercept_", "user_prior_"),
        *("user_feature_factors_", "item_feature_factors_", "shared_item_factor_", "user_intercept_"),
        *("factor_penalty_", "item_factor_penalty_", "answers_", "answer_weight_"),
        *("loss_", "metric_", "threshold_", "_users", "_items"),
    ),
}


def require_fitted(model: Any) -> None:
    """Raise NotFittedError if the last fit of the model did not come to its end."""
    absent = [name for name in _NEEDED.get(type(model).__name__, ()) if not hasattr(model, name)]
    if absent:
        raise NotFittedError(
            f"This {type(model).__name__} has no {absent[0]}: its fit did not come to an end. Fit it first."
        )


def check_shapes(model: Any) -> None:
    """Raise ValueError where the arrays of a fitted model do not fit together."""
    name = type(model).__name__
    if name in ("LowRankClassifier", "LowRankRegressor"):
        _expect(model, _low_rank_shapes(model))
    elif name == "Recommender":
        _expect(model, _recommender_shapes(model))
        if model.answers_.shape != (len(model.user_ids_), len(model.item_ids_)):
            raise ValueError("its answers are not about its users and items")
    elif name in _NEEDED:
        _check_inner(model)


def _check_inner(model: Any) -> None:
    """The classifiers inside a PlugInClassifier or MetricThreshold."""
    inner = model._model
    constants, estimator = getattr(inner, "constants", None), getattr(inner, "estimator", None)
    if constants is not None and len(constants) != model.n_labels_:
        raise ValueError(f"it has {model.n_labels_} labels and scores for {len(constants)}")
    if type(estimator).__name__ in _NEEDED:
        require_fitted(estimator)
        check_shapes(estimator)


def _low_rank_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    rank = model.coef_left_.shape[-1]
    return {
        "coef_left_": (model.n_features_in_, rank),
        "coef_right_": (model.n_labels_, rank),
        "intercept_": (model.n_labels_,),
    }


def _recommender_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    n, n_items, rank = len(model.user_ids_), len(model.item_ids_), model.user_factors_.shape[-1]
    return {
        "user_factors_": (n, rank),
        "user_prior_": (n, rank),
        "user_intercept_": (n,),
        "item_factors_": (n_items, rank),
        "item_intercept_": (n_items,),
        "shared_item_factor_": (rank,),
        "factor_penalty_": (rank, rank),
        "item_factor_penalty_": (rank, rank),
        "user_feature_factors_": (len(model._users.mean), rank),
        "item_feature_factors_": (len(model._items.mean), rank),
    }


def _expect(model: Any, shapes: dict[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        array = getattr(model, name)
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or array.shape != shape:
            found = getattr(array, "shape", type(array).__name__)
            raise ValueError(f"{name} has the shape {found}; numbers of shape {shape} were expected")
