"""What ratings and silence weigh where every pair of a user and an item counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from labelgap._types import Floats
from labelgap.fitting.penalty_grid import Variant, Variants
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.objective.parts import Backend, FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem

# The weight of a pair without a rating, where a like has the weight 1; that of a dislike as a multiple of it.
# A dislike was at least chosen to be rated, so that it may say less against an item than its value does.
_SILENCE_WEIGHTS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_FIRST_SILENCE = 0.1
_DISLIKES = (1.0, 3.0, 10.0)
# Confidences in units of one over the mean value of a like. Values whose standard deviation is less than this
# fraction of their mean are taken for equal.
_CONFIDENCES = (0.0, 1.0, 4.0)
_VARIED = 0.3


def mean_like(labels: ObservedLabels) -> float:
    """The mean value of the likes; values are the weights of the labels."""
    values = _values_of_likes(labels)
    return float(values.mean()) if len(values) else 1.0


def weighted_by_value(
    labels: ObservedLabels, confidence: float, dislike_weight: float, mean: float | None = None
) -> ObservedLabels:
    """Labels whose weights are values, with weights ``(1 + α v)/(1 + α v̄)`` of likes, and one for dislikes.

    ``mean`` is v̄, by default that of these likes. An infinite α makes the weight proportional to the value.
    Likes alone that all have weight 1 have no weights, which would be the larger part of the data.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 1, 0]]).with_weights([1.0, 3.0, 1.0])
    >>> weighted_by_value(labels, 1.0, 0.1).weights.round(3).tolist()
    [0.667, 1.333, 0.1]
    """
    liked = labels.values == 1
    values = labels.weights if confidence > 0 else None
    if values is None and liked.all():
        return replace(labels, weights=None)
    weights: Floats = np.ones(labels.n_observed)
    if values is not None:
        mean = mean_like(labels) if mean is None else mean
        weights = values / mean
        if np.isfinite(confidence):
            weights = (1.0 + confidence * values) / (1.0 + confidence * mean)
    return labels.with_weights(np.where(liked, weights, dislike_weight))


def values_of_likes(labels: ObservedLabels, confidence: float, mean: float) -> ObservedLabels:
    """Labels whose weights are the values that :func:`weighted_by_value` made those of ``labels`` of.

    Where the confidence is 0 the weights do not tell the values, which are then taken for 1.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 1, 0]]).with_weights([1.0, 3.0, 1.0])
    >>> values_of_likes(weighted_by_value(labels, 1.0, 0.1), 1.0, 2.0).weights.round(6).tolist()
    [1.0, 3.0, 1.0]
    """
    values: Floats = np.ones(labels.n_observed)
    if labels.weights is not None and confidence > 0:
        values = labels.weights * mean
        if np.isfinite(confidence):
            values = (labels.weights * (1.0 + confidence * mean) - 1.0) / confidence
    return labels.with_weights(np.where((labels.values == 1) & (values > 0), values, 1.0))


def decayed(labels: ObservedLabels, decay: Floats | None) -> ObservedLabels:
    """The labels with weights that are multiplied by ``decay``, one factor per entry; None is 1 for all."""
    if decay is None:
        return labels
    return labels.with_weights(decay if labels.weights is None else labels.weights * decay)


def silence_variants(
    labels: ObservedLabels,
    X: Any,
    features: FeatureSettings,
    loss: Loss,
    *,
    count_weightings: tuple[float, ...],
    silence_weight: float | str,
    dislike_weight: float | str,
    confidence: float | str,
    fixed: bool,
    backend: Backend | None = None,
    decay: Floats | None = None,
) -> Variants:
    """The problems to choose from; settings that are given as a number do not change.

    The weights of the labels are the values of the likes. ``count_weightings`` are the one to begin with and
    those to choose from, ``fixed`` says that nothing is chosen, ``backend`` is the machine that fits run on.
    ``decay`` has a factor on the weight of each label, however that follows from its value.
    """
    values: dict[str, tuple[float, ...]] = {}
    first_silence, first_confidence = _FIRST_SILENCE, 0.0
    if silence_weight != "auto":
        first_silence = float(silence_weight)
    elif not fixed:
        values["silence_weight"] = _SILENCE_WEIGHTS
    if dislike_weight == "auto" and not fixed and np.any(labels.values == 0):
        values["dislikes"] = _DISLIKES
    if len(count_weightings) > 1:
        values["count_weighting"] = count_weightings[1:]
    if confidence != "auto":
        first_confidence = float(confidence)
    elif not fixed and _varied(labels):
        mean = mean_like(labels)
        values["confidence"] = tuple(step / mean for step in _CONFIDENCES)
    plain = replace(labels, weights=None)
    settings = ProblemSettings(loss, features, silence_weight=first_silence)
    problem = Problem([RowBlock(X, plain)], settings, backend)

    def variant(chosen: Variant) -> tuple[Problem, ObservedLabels]:
        changed = problem.with_settings(
            features=replace(features, count_weighting=chosen.count_weighting),
            silence_weight=chosen.silence_weight,
        )
        weighted = weighted_by_value(labels, chosen.confidence or 0.0, chosen.dislike_weight or 1.0)
        return changed, decayed(weighted, decay)

    given = None if dislike_weight == "auto" else float(dislike_weight)
    first = Variant(count_weightings[0], first_silence, _DISLIKES[0], first_confidence, given)
    return Variants(first, values, variant)


def _values_of_likes(labels: ObservedLabels) -> Floats:
    if labels.weights is None:
        return np.ones(int(np.sum(labels.values == 1)))
    return np.asarray(labels.weights[labels.values == 1], dtype=np.float64)


def _varied(labels: ObservedLabels) -> bool:
    values = _values_of_likes(labels)
    return len(values) > 0 and float(values.std()) > _VARIED * float(values.mean())
