"""Labels that come with names are matched by them, wherever a fitted estimator is judged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from labelgap import (
    LowRankClassifier,
    LowRankRegressor,
    MetricThreshold,
    ObservedLabels,
    PlugInClassifier,
    best_threshold,
    get_metric,
)
from labelgap.exceptions import InvalidLabelsError
from labelgap.report.collect import collect

NAMES = ["buys", "calls", "churns"]
OTHER_ORDER = ["calls", "buys", "churns"]


def problem(seed: int = 0) -> tuple[Any, pd.DataFrame]:
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((80, 3))
    Y = (X @ np.array([[2.0, -1.0, 0.0], [0.0, 2.0, -1.0], [1.0, 0.0, 2.0]]) > [0.5, -0.5, 0.8]).astype(float)
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    return X, pd.DataFrame(Y, columns=NAMES)


def low_rank() -> LowRankClassifier:
    return LowRankClassifier(trace_penalty=0.01, ridge_penalty=0.0, threshold="train", random_state=0)


MODELS = {
    "low-rank": low_rank,
    "plug-in": lambda: PlugInClassifier(LogisticRegression(), random_state=0),
    "threshold": lambda: MetricThreshold(LogisticRegression(), random_state=0),
    "regressor": lambda: LowRankRegressor(trace_penalty=0.01, ridge_penalty=0.0),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param]().fit(*problem())


def as_polars(frame: pd.DataFrame) -> Any:
    return pl.DataFrame({name: frame[name].to_numpy() for name in frame.columns})


@pytest.mark.parametrize(
    "form", [lambda Y: Y, as_polars, ObservedLabels.from_frame], ids=["pandas", "polars", "labels"]
)
def test_columns_in_another_order_score_the_same(fitted: Any, form: Any) -> None:
    X, Y = problem(1)
    expected = fitted.score(X, Y.to_numpy())
    assert fitted.score(X, form(Y[OTHER_ORDER])) == expected
    # By place the answer would be another one.
    assert fitted.score(X, Y[OTHER_ORDER].to_numpy()) != expected


def test_a_renamed_column_is_refused_by_name(fitted: Any) -> None:
    X, Y = problem(1)
    with pytest.raises(InvalidLabelsError, match=r"Missing from y: 'calls'\. Missing from the fit: 'Calls'"):
        fitted.score(X, Y.rename(columns={"calls": "Calls"}))
    with pytest.raises(InvalidLabelsError, match=r"Missing from y: 'churns'|labels have shape"):
        fitted.score(X, Y[["buys", "calls"]])


def test_frames_that_only_number_their_columns_go_by_order(fitted: Any) -> None:
    X, Y = problem(1)
    assert fitted.score(X, pd.DataFrame(Y.to_numpy())) == fitted.score(X, Y)


def test_entries_of_a_regressor_come_back_in_the_order_in_which_they_were_asked_for() -> None:
    X, Y = problem()
    model = MODELS["regressor"]().fit(X, Y)
    wanted = ObservedLabels.from_frame(Y[OTHER_ORDER])
    means = pd.DataFrame(model.predict(X), columns=NAMES)[OTHER_ORDER].to_numpy()
    assert_allclose(model.predict_entries(X, wanted), wanted.align(means))


def test_given_scores_are_matched_with_the_labels_by_name() -> None:
    _, Y = problem()
    scores = pd.DataFrame(np.random.RandomState(2).uniform(size=Y.shape), columns=NAMES)
    model = MetricThreshold().fit(scores, Y[OTHER_ORDER])
    best = best_threshold(scores.to_numpy(), Y.to_numpy())
    assert (model.threshold_, model.best_score_) == (best.threshold, best.value)
    assert model.label_names_.tolist() == NAMES
    assert model.score(scores, Y[OTHER_ORDER]) == best.value
    # Names of their own say nothing about the labels.
    by_place = MetricThreshold().fit(scores.add_prefix("p_"), Y)
    assert by_place.threshold_ == best.threshold
    message = r"Missing from y: 'cals'\. Missing from the scores: 'calls'"
    with pytest.raises(InvalidLabelsError, match=message):
        MetricThreshold().fit(scores.rename(columns={"calls": "cals"}), Y)


def test_frames_given_to_metrics_and_thresholds_are_matched_by_name() -> None:
    _, Y = problem()
    scores = pd.DataFrame(np.random.RandomState(2).uniform(size=Y.shape), columns=NAMES)
    assert best_threshold(scores[OTHER_ORDER], Y) == best_threshold(scores.to_numpy(), Y)
    decided = scores > 0.5
    metric = get_metric("macro-f1")
    assert metric(decisions=decided[OTHER_ORDER], labels=Y) == metric(decisions=decided.to_numpy(), labels=Y)
    with pytest.raises(InvalidLabelsError, match="Missing from the decisions: 'calls'"):
        metric(decisions=decided.rename(columns={"calls": "x"}), labels=Y)


def test_a_report_matches_labels_by_name_also_of_the_models_it_compares() -> None:
    X, Y = problem()
    first = low_rank().fit(X, Y)
    second = low_rank().fit(X, Y[OTHER_ORDER])
    figures = collect(first, X, Y[OTHER_ORDER], compare={"other": second})
    assert [model["value"] for model in figures["models"]] == [first.score(X, Y), second.score(X, Y)]
    assert figures["labels"]["names"] == NAMES
