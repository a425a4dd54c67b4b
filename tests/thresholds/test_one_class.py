"""Labels with one class: which they are, and what they do to the metric and the threshold."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from labelgap import (
    LowRankClassifier,
    MetricThreshold,
    ObservedLabels,
    PlugInClassifier,
    best_threshold,
    get_metric,
)
from labelgap.exceptions import UninformativeLabelsWarning
from labelgap.thresholds.cross_fit import OneClassEffect, one_class_labels


def problem(n: int = 120, constant: float | None = None) -> tuple[Any, Any]:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n, 3))
    Y = (X @ rng.standard_normal((3, 4)) + rng.standard_normal((n, 4)) > 0.7).astype(float)
    if constant is not None:
        Y[:, 1] = constant
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    return X, ObservedLabels.from_dense(Y, label_names=["a", "b", "c", "d"])


MODELS = {
    "low-rank": lambda metric: LowRankClassifier(
        metric, trace_penalty=0.01, ridge_penalty=0.1, random_state=0
    ),
    "plug-in": lambda metric: PlugInClassifier(LogisticRegression(), metric, random_state=0),
    "threshold": lambda metric: MetricThreshold(LogisticRegression(), metric, random_state=0),
}
every_model = pytest.mark.parametrize("model", MODELS)


def test_the_figure_without_them_is_that_of_the_other_labels_alone() -> None:
    _, labels = problem(constant=1.0)
    scores = np.random.RandomState(1).uniform(size=labels.n_observed)
    f1 = get_metric("micro-f1")
    effect = OneClassEffect(labels, f1)
    effect.see(scores, labels)
    Y, Z = labels.to_dense(), np.zeros(labels.shape)
    Z[labels.rows, labels.cols] = scores
    columns = [0, 2, 3]
    alone = best_threshold(Z[:, columns], Y[:, columns], f1)
    assert effect.rest is not None
    assert (effect.rest.value, effect.rest.threshold) == (pytest.approx(alone.value), alone.threshold)
    assert effect.whole is not None
    assert effect.whole.value == pytest.approx(best_threshold(Z, Y, f1).value)


@every_model
def test_a_fit_names_a_constant_label_and_both_figures(model: str) -> None:
    with pytest.warns(UninformativeLabelsWarning) as caught:
        MODELS[model]("micro-f1").fit(*problem(constant=1.0))
    told = str(caught[0].message)
    assert told.startswith("1 of 4 labels has one class: 'b' (only yes).")
    assert "micro-f1 on the scores that chose the threshold is" in told
    assert "and would be" in told


@every_model
def test_labels_that_make_no_difference_are_not_told(model: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Nothing is decided yes of a label that is always no, so micro-F1 does not see it.
        MODELS[model]("micro-f1").fit(*problem(constant=0.0))
        MODELS[model]("micro-f1").fit(*problem())
    with pytest.warns(UninformativeLabelsWarning, match=r"'b' \(only no\).*macro-f1"):
        MODELS[model]("macro-f1").fit(*problem(constant=0.0))


def test_which_labels_have_one_class() -> None:
    labels = ObservedLabels.from_dense([[1, 0, 1, np.nan], [1, 0, 0, np.nan]])
    assert one_class_labels(labels, fewest=1).tolist() == [True, True, False, False]
    # Two entries of one class are chance.
    assert not one_class_labels(labels).any()
