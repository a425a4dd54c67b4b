"""Checks that a model is complete and that its parts fit together: before it is saved, and after loading.

What each estimator requires stands at the end; estimators register themselves with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import UNOBSERVED
from labelgap.losses import Family, Loss
from labelgap.metrics import LinearFractional
from labelgap.persistence.agreement import check_counts, is_float
from labelgap.persistence.parameters import check_parameters
from labelgap.persistence.registry import Requirements, kind_of, requirements_of
from labelgap.persistence.transformers import is_pipeline, last_step, transformer_name

# The names in files of the models of scores inside a PlugInClassifier or a MetricThreshold.
_PER_LABEL, _PER_ROW, _DIRECT, _GIVEN = "label_models", "row_model", "direct_model", "given_scores"


def _is_number(value: Any) -> bool:
    # An infinite threshold is a yes, or a no, to everything.
    return isinstance(value, float | np.floating) and not math.isnan(value)


def _is_penalty(value: Any) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return (whole or _is_number(value)) and 0 <= value < math.inf


def _is_two_classes(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.shape == (2,)


def _is_instance(cls: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, cls)


def _is_kind(*names: str) -> Callable[[Any], bool]:
    return lambda value: _kind_name(value) in names


def _kind_name(value: Any) -> str | None:
    kind = kind_of(value)
    return None if kind is None else kind.name


_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "threshold_": (_is_number, "a number"),
    "_thresholds_kind": (
        lambda value: type(value) is str and value in ("per-label", "shrunk"),
        "per-label or shrunk",
    ),
    "_held_out_error": (lambda v: v is None or (_is_number(v) and v >= 0), "a number of at least 0"),
    "answer_weight_": (_is_number, "a number"),
    "classes_": (_is_two_classes, "an array of two classes"),
    "_unobserved": (
        lambda value: type(value) is str and value in UNOBSERVED,
        "one of " + ", ".join(UNOBSERVED),
    ),
    "_single": (_is_instance(bool), "True or False"),
    "_sparse_labels": (_is_instance(bool), "True or False"),
    "_has_features": (_is_instance(bool), "True or False"),
    "metric_": (_is_instance(LinearFractional), "a metric"),
    "loss_": (_is_instance(Loss), "a loss"),
    "family_": (_is_instance(Family), "a family"),
    "feature_map_": (
        lambda value: value is None or transformer_name(value) is not None,
        "a transformer that files can hold",
    ),
    "label_weighting_": (_is_number, "a number"),
    **dict.fromkeys(
        ("trace_penalty_", "ridge_penalty_", "intercept_penalty_"),
        (_is_penalty, "a finite number of at least 0"),
    ),
    "_model": (_is_kind(_PER_LABEL, _PER_ROW, _DIRECT, _GIVEN), "a model of scores"),
    "_conformal": (lambda v: v is None or _is_kind("conformal_scores")(v), "scores of conformal sets"),
    "_calibrator": (
        lambda v: v is None or _is_kind("sigmoid_map", "isotonic_map")(v),
        "a map from scores to probabilities",
    ),
    "calibration_error_": (
        lambda v: v is None or _is_kind("calibration_error")(v),
        "the error of a calibration",
    ),
    "batches_": (
        lambda v: type(v) is tuple and all(map(_is_kind("batch"), v)),
        "a tuple of batches",
    ),
    "_kept_data": (lambda v: v is None or _is_kind("kept_data")(v), "data of earlier batches"),
    "answers_": (_is_instance(ObservedLabels), "ratings"),
    "user_ids_": (_is_instance(tuple), "a tuple of ids"),
    "item_ids_": (_is_instance(tuple), "a tuple of ids"),
    "_users": (_is_kind("side_features"), "features of users"),
    "_items": (_is_kind("side_features"), "features of items"),
    "_implicit": (lambda v: v is None or _is_kind("implicit_feedback")(v), "the pattern of ratings"),
    "_events": (lambda v: v is None or _is_kind("kept_events")(v), "events of ratings"),
    "_propensities_given": (_is_instance(bool), "True or False"),
}
"""What an attribute must be if it is not an array of numbers, and how an error names that."""


def require_fitted(model: Any) -> None:
    """Raise NotFittedError if the last fit of the model was not completed."""
    required = requirements_of(model)
    absent = [] if required is None else [name for name in required.attributes if not hasattr(model, name)]
    if absent:
        raise NotFittedError(
            f"This {type(model).__name__} has no {absent[0]}: its fit was not completed. Fit it first."
        )


def check_shapes(model: Any) -> None:
    """Raise ValueError where the parts of a fitted model are of a wrong type or do not fit together."""
    required = requirements_of(model)
    if required is not None:
        _check_types(model)
        _check_arrays(model)
        required.check(model)


def _check_arrays(model: Any) -> None:
    """Check that arrays are of types in which a fit computes. Classes and parameters are as users gave "
    "them."""
    given = {"classes_", "feature_names_in_", *model.get_params(deep=False)}
    for name, value in vars(model).items():
        if (
            isinstance(value, np.ndarray)
            and name not in given
            and value.dtype.kind in "fc"
            and not is_float(value)
        ):
            raise ValueError(f"{name} holds {value.dtype}; float64 was expected")


def _check_types(model: Any) -> None:
    given = model.get_params(deep=False)
    check_counts({name: value for name, value in vars(model).items() if name not in given})
    for name, (is_right, expected) in _TYPES.items():
        value = getattr(model, name, None)
        if hasattr(model, name) and not is_right(value):
            found = value if isinstance(value, bool | int | float) else type(value).__name__
            raise ValueError(f"{name} is {found}; {expected} was expected")
    _check_thresholds(model)
    if getattr(model, "_single", False) and model.n_labels_ != 1:
        raise ValueError(f"it predicts a single label and has {model.n_labels_}")


def _check_thresholds(model: Any) -> None:
    """Check the thresholds of labels, where they have their own."""
    if hasattr(model, "_thresholds_kind") != hasattr(model, "_label_thresholds"):
        raise ValueError("it has thresholds of labels and does not say what they are, or the other way round")
    thresholds = getattr(model, "_label_thresholds", None)
    if thresholds is None:
        return
    if not _is_vector(thresholds) or np.isnan(thresholds).any():
        raise ValueError("the thresholds of its labels are no numbers")
    if len(thresholds) != model.n_labels_:
        raise ValueError(f"it has {model.n_labels_} labels and thresholds for {len(thresholds)}")


def _check_names(model: Any) -> None:
    """Check that there are as many names as labels and features."""
    if not hasattr(model, "n_features_in_"):
        # Texts have no columns to be counted, and a pipeline may take them.
        inner = getattr(model, "_model", None)
        estimators = [getattr(inner, "estimator", None), *(getattr(inner, "estimators", None) or ())]
        if not any(map(is_pipeline, estimators)):
            raise ValueError("it has no n_features_in_")
    # After a fit without features, names of an earlier fit may still be there.
    with_names = (
        ("feature_names_in_", "label_names_") if getattr(model, "_has_features", True) else ("label_names_",)
    )
    for name in with_names:
        names = getattr(model, name, None)
        count = model.n_labels_ if name == "label_names_" else getattr(model, "n_features_in_", 0)
        if names is not None and (np.ndim(names) == 0 or len(names) != count):
            raise ValueError(f"{name} does not hold {count} names")


def _check_low_rank(model: Any) -> None:
    _check_names(model)
    rank = _columns(model, "coef_left_")
    shapes = {
        "coef_left_": (_width_of_map(model), rank),
        "coef_right_": (model.n_labels_, rank),
        "intercept_": (model.n_labels_,),
    }
    _expect(model, shapes)
    _check_rank(model, rank)
    _check_kept(model)


def _check_rank(model: Any, rank: int) -> None:
    """Check that the rank and the singular values are those of the factors."""
    if getattr(model, "rank_", rank) != rank or np.shape(getattr(model, "singular_values_", [0] * rank)) != (
        rank,
    ):
        raise ValueError(f"its factors are of rank {rank}, and rank_ or singular_values_ of another one")


def _check_kept(model: Any) -> None:
    """Check that the data of earlier batches are of the model's labels and features."""
    kept = getattr(model, "_kept_data", None)
    if kept is None:
        return
    if kept.labels.shape[1] != model.n_labels_:
        raise ValueError(f"it has {model.n_labels_} labels and keeps data of {kept.labels.shape[1]}")
    width = kept.labels.shape[0] if kept.X is None else kept.X.shape[1]
    if width != model.n_features_in_:
        raise ValueError(f"it has {model.n_features_in_} features and keeps data of {width}")
    values = kept.X.data if hasattr(kept.X, "indptr") else kept.X
    if values is not None and not (is_float(values) and np.isfinite(values).all()):
        raise ValueError("the features that it keeps are no finite numbers")


def _width_of_map(model: Any) -> int:
    """The number of features that W is about; of a map whose width is not known, that of W."""
    transformer = getattr(model, "feature_map_", None)
    if transformer is None:
        return int(model.n_features_in_)
    if getattr(transformer, "n_features_in_", model.n_features_in_) != model.n_features_in_:
        raise ValueError(f"it has {model.n_features_in_} features, and its feature_map_ takes others")
    kernel = last_step(transformer)
    if transformer_name(kernel) == "Nystroem":
        m = _columns(kernel, "normalization_")
        # Scalers before it keep the number of columns.
        d = model.n_features_in_ if is_pipeline(transformer) else kernel.n_features_in_
        _expect(kernel, {"components_": (m, d), "normalization_": (m, m)})
        rows = kernel.component_indices_
        if not isinstance(rows, np.ndarray) or rows.shape != (m,) or rows.dtype.kind not in "iu":
            raise ValueError(f"component_indices_ does not hold the numbers of {m} rows")
        return m
    return _columns(model, "coef_left_", 0)


def _check_recommender(model: Any) -> None:
    _expect(model, _recommender_shapes(model))
    n, n_items = len(model.user_ids_), len(model.item_ids_)
    if model.answers_.shape != (n, n_items):
        raise ValueError("its ratings are not those of its users and items")
    titles = getattr(model, "item_titles_", None)
    if not (_is_number(model.mean_like_) and model.mean_like_ >= 0):
        raise ValueError("mean_like_ is not a number of at least 0")
    for name, kinds in (("_given_weights", "f"), ("_decay", "f"), ("_batch_of_rating", "iu")):
        value = getattr(model, name, None)
        if value is not None and not (
            isinstance(value, np.ndarray)
            and value.shape == (model.answers_.n_observed,)
            and value.dtype.kind in kinds
        ):
            raise ValueError(f"{name} does not hold one number for each rating")
    events = getattr(model, "_events", None)
    if events is not None:
        n_ratings = (model.answers_.n_observed,)
        _expect(events, dict.fromkeys(("values", "amounts", "newest"), n_ratings))
        if events.clock not in ("none", "numbers", "dates") or type(events.only_likes) is not bool:
            raise ValueError("its events do not say what their times and values are")
    if model.list_settings_ is None:
        _check_count_units(model)
    elif type(model.list_settings_).__name__ != "ListSettings":
        raise ValueError("list_settings_ are no settings of lists")
    _check_rank(model, _columns(model, "user_factors_"))
    if not _is_number(getattr(model, "intercept_centre_", 0.0)):
        raise ValueError("intercept_centre_ is not a number")
    _check_folded_in(model)
    _check_implicit(model)
    if titles is not None and not (
        type(titles) is dict and all(isinstance(text, str) for text in titles.values())
    ):
        raise ValueError("the titles of its items are not texts")
    for ids, side in ((model.user_ids_, model._users), (model.item_ids_, model._items)):
        # Ids that were folded in come last and have no features there.
        if ids[: len(side.ids)] != side.ids:
            raise ValueError(f"its {side.what} ids are not those of its {side.what} features")
    if model.answers_.unobserved == "unlabelled":
        rates: Any = getattr(model, "_label_flip_rates", None)
        if not _is_vector(rates) or not 0 < len(rates) <= n_items:
            raise ValueError("its flip rates are not those of its items")


def _check_inner(model: Any) -> None:
    """Check the classifiers inside a PlugInClassifier or MetricThreshold."""
    _check_names(model)
    inner = model._model
    if _kind_name(inner) == _GIVEN:
        if model.n_features_in_ != model.n_labels_:
            raise ValueError(f"it has {model.n_labels_} labels and takes {model.n_features_in_} scores")
        return
    if _kind_name(inner) == _DIRECT:
        _check_direct(model, inner.estimator)
        return
    # The name of a method is looked up: no other is.
    if inner.method not in ("predict_proba", "decision_function"):
        raise ValueError(f"{inner.method!r} is no method that gives scores")
    if not _is_vector(inner.constants) or len(inner.constants) != model.n_labels_:
        raise ValueError(f"it has {model.n_labels_} labels and scores for {np.size(inner.constants)}")
    if _kind_name(inner) == _PER_LABEL:
        if type(inner.estimators) is not list or len(inner.estimators) != model.n_labels_:
            raise ValueError(f"it does not have one classifier for each of {model.n_labels_} labels")
        for estimator in inner.estimators:
            _check_classifier(model, estimator)


def _check_direct(model: Any, inner: Any) -> None:
    estimator = last_step(inner)
    if requirements_of(estimator) is None:
        raise ValueError(f"a {type(estimator).__name__} gives no scores for several labels")
    require_fitted(estimator)
    check_parameters(estimator)
    check_shapes(estimator)
    # The steps of a pipeline before it may make other features of those of the model.
    for name in ("n_features_in_", "n_labels_") if estimator is inner else ("n_labels_",):
        if getattr(estimator, name, None) != getattr(model, name):
            raise ValueError(f"{name} is not that of the {type(estimator).__name__} inside")


def _check_classifier(model: Any, estimator: Any) -> None:
    """Check the LogisticRegression of one label; it is None where the label has a constant score."""
    if estimator is None:
        return
    inner, estimator = estimator, last_step(estimator)
    is_direct = estimator is inner and getattr(model, "feature_map_", None) is None
    n_features = model.n_features_in_ if is_direct else getattr(estimator, "n_features_in_", None)
    shapes: dict[str, tuple[Any, ...]] = {"coef_": (1, n_features), "intercept_": (1,)}
    if type(estimator).__name__ != "LogisticRegression" or any(
        not hasattr(estimator, name) for name in shapes
    ):
        raise ValueError("a label has no fitted classifier")
    _expect(estimator, shapes)
    if not _is_two_classes(getattr(estimator, "classes_", None)):
        raise ValueError("a classifier does not have two classes")


def _is_vector(value: Any) -> bool:
    return is_float(value) and value.ndim == 1


def _check_folded_in(model: Any) -> None:
    """What new users are drawn to, and which users are new; neither where nobody was folded in."""
    rank, folded_in = _columns(model, "user_factors_"), model.folded_in_
    shapes = {"new_user_mean_": (rank,), "new_user_penalty_": (rank, rank)}
    _expect(model, {name: shape for name, shape in shapes.items() if getattr(model, name) is not None})
    if folded_in is None:
        return
    n = len(model.user_ids_)
    if not (isinstance(folded_in, np.ndarray) and folded_in.shape == (n,) and folded_in.dtype == np.bool_):
        raise ValueError("folded_in_ does not say of each user whether it was folded in")
    if folded_in.any() and (model.new_user_mean_ is None or model.new_user_penalty_ is None):
        raise ValueError("what its folded-in users are drawn to is missing")


def _check_implicit(model: Any) -> None:
    """What makes features of the pattern of ratings, where that is used."""
    implicit = getattr(model, "_implicit", None)
    if implicit is None:
        return
    for name in ("user_implicit_factors_", "item_implicit_factors_"):
        if not hasattr(model, name):
            raise ValueError(f"it uses the pattern of ratings, and {name} is missing")
    rank, count = _columns(model, "user_factors_"), _columns(implicit, "item_weights")
    _expect(model, dict.fromkeys(("user_implicit_factors_", "item_implicit_factors_"), (count, rank)))
    n_users, n_items = _columns(implicit, "user_weights", 0), _columns(implicit, "item_weights", 0)
    # Users and items that came later have no weights.
    if n_users > len(model.user_ids_) or n_items > len(model.item_ids_):
        raise ValueError("its pattern of ratings has more users or items than it knows")
    _expect(
        implicit,
        {
            "user_weights": (n_users, count),
            "item_weights": (n_items, count),
            "user_units": (2, count),
            "item_units": (2, count),
            "mean_counts": (2,),
        },
    )


def _recommender_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    n, n_items, rank = len(model.user_ids_), len(model.item_ids_), _columns(model, "user_factors_")
    for side in (model._users, model._items):
        if side.matrix is not None and not is_float(side.matrix.data):
            raise ValueError(f"its {side.what} features hold {side.matrix.dtype}; float64 was expected")
        if not _is_vector(side.mean) or not _is_vector(side.scale) or len(side.mean) != len(side.scale):
            raise ValueError(f"the units of its {side.what} features do not fit together")
    every = {
        "user_factors_": (n, rank),
        "user_intercept_": (n,),
        "item_factors_": (n_items, rank),
        "item_intercept_": (n_items,),
        "user_feature_factors_": (len(model._users.mean), rank),
        "item_feature_factors_": (len(model._items.mean), rank),
    }
    if model.list_settings_ is not None:
        return every | {"item_weights_": (n_items,)}
    return every | {
        "user_prior_": (n, rank),
        "shared_item_factor_": (rank,),
        "factor_penalty_": (rank, rank),
        "item_factor_penalty_": (rank, rank),
        "count_units_": (3,),
    }


def _check_count_units(model: Any) -> None:
    """Check the power of the penalties' weights, and the mean numbers of ratings of users and of items."""
    if not (model.answer_weight_ > 0 and math.isfinite(model.answer_weight_)):
        raise ValueError("answer_weight_ is not a positive number")
    # A part of a larger model has some of its users, and all ratings in its weight.
    most_users = max(len(model.user_ids_), 1 / model.answer_weight_)
    largest = (1, max(len(model.item_ids_), 1), max(most_users, 1))
    for value, low, high in zip(model.count_units_.tolist(), (0, 1, 1), largest, strict=True):
        if not low <= value <= high:
            raise ValueError(f"count_units_ holds {value}; a number from {low} to {high} was expected")


def _columns(model: Any, name: str, axis: int = 1) -> int:
    array = getattr(model, name)
    if not isinstance(array, np.ndarray) or array.ndim != 2:
        raise ValueError(f"{name} is no matrix")
    return int(array.shape[axis])


def _expect(model: Any, shapes: dict[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        array = getattr(model, name, None)
        if isinstance(array, np.ndarray) and not is_float(array):
            raise ValueError(f"{name} holds {array.dtype}; float64 was expected")
        if not isinstance(array, np.ndarray) or array.shape != shape:
            found = getattr(array, "shape", type(array).__name__)
            raise ValueError(f"{name} has the shape {found}; numbers of shape {shape} were expected")


# -- requirements --------------------------------------------------------------------------------------

_DECISIONS = ("metric_", "classes_", "threshold_", "n_labels_", "_single", "_sparse_labels", "_unobserved")
_LOW_RANK = ("coef_left_", "coef_right_", "intercept_")

LOW_RANK_CLASSIFIER = Requirements((*_DECISIONS, *_LOW_RANK, "loss_"), _check_low_rank)
LOW_RANK_REGRESSOR = Requirements(
    (*_LOW_RANK, "family_", "n_labels_", "_single", "_has_features", "n_features_in_"), _check_low_rank
)
METRIC_THRESHOLD = Requirements((*_DECISIONS, "_model"), _check_inner)
PLUG_IN_CLASSIFIER = Requirements((*_DECISIONS, "_model", "estimators_"), _check_inner)
RECOMMENDER = Requirements(
    (
        *("user_ids_", "item_ids_", "user_factors_", "item_factors_", "item_intercept_", "user_intercept_"),
        *("user_feature_factors_", "item_feature_factors_", "answers_"),
        *("loss_", "metric_", "threshold_", "_users", "_items"),
    ),
    _check_recommender,
)
