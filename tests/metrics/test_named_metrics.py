"""Metrics by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, precision_score
from sklearn.model_selection import cross_val_score

from labelgap import PlugInClassifier
from labelgap.exceptions import InvalidInputError, InvalidParameterError, UnknownNameError
from labelgap.metrics import LinearFractional, confusion_counts, get_metric, metric_names


@pytest.mark.parametrize("name", metric_names())
def test_every_name_makes_a_metric(name: str) -> None:
    metric = get_metric(name, beta=3) if name.endswith("fbeta") else get_metric(name)
    assert metric.average == name.partition("-")[0]
    assert metric.balanced == ("balanced" in name)
    assert metric.name == name.replace("fbeta", "f3")
    # A perfect decision on labels of both classes has the value 1, its opposite 0.
    Y = np.array([[1, 0], [0, 1]])
    assert metric(Y, Y) == 1.0
    assert metric(Y, 1 - Y) == 0.0
    assert get_metric(metric) is metric


def test_names_are_sorted_and_cover_averages() -> None:
    names = metric_names()
    assert list(names) == sorted(names)
    assert len(names) == len(set(names)) == 3 * 2 * 9


def test_spellings() -> None:
    assert get_metric("samples-f1") == get_metric("instance-f1")
    assert get_metric("samples-f1").name == "instance-f1"
    assert get_metric("Macro_Jaccard") == get_metric("macro-jaccard")
    assert get_metric("micro-f0.5") == get_metric("micro-fbeta", beta=0.5)
    assert get_metric("micro-f1.0") == get_metric("micro-f1")
    assert get_metric("macro-balanced-f2") == get_metric("macro-balanced-fbeta", beta=2)
    assert get_metric("micro-hamming") == get_metric("micro-accuracy")


def test_cost_accuracy() -> None:
    metric = get_metric("micro-cost-accuracy", false_positive_cost=1, false_negative_cost=4)
    assert metric.from_counts(tp=2, fp=1, fn=1, tn=6) == pytest.approx((4 * 2 + 6) / (4 * 3 + 7))
    assert get_metric("micro-cost-accuracy").from_counts(2, 1, 1, 6) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("micro-f", "Unknown metric 'micro-f'"),
        ("mirco-f1", r"Did you mean 'micro-f1'\?"),
        ("macro-jacard", r"Did you mean 'macro-jaccard'\?"),
        ("f1", "does not say how to average; write one of micro-f1, instance-f1, macro-f1"),
        ("balanced-accuracy", "write one of micro-balanced-accuracy"),
        ("f2", "write one of micro-f2"),
        ("", "Unknown metric"),
        (None, "Unknown metric None"),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        get_metric(name)


def test_parameters_are_checked() -> None:
    for beta in (0, -1, np.inf, np.nan, True, "2"):
        with pytest.raises(InvalidParameterError, match="beta must be a finite number above 0"):
            get_metric("micro-fbeta", beta=beta)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="beta must be a finite number above 0, not 0"):
        get_metric("micro-f0")
    with pytest.raises(InvalidParameterError, match=r"needs beta=.*macro-f2"):
        get_metric("macro-fbeta")
    with pytest.raises(InvalidParameterError, match="false_negative_cost must be a finite number above 0"):
        get_metric("micro-cost-accuracy", false_negative_cost=0)
    with pytest.raises(
        InvalidParameterError, match="'micro-f1' has no parameter 'beta'; it takes zero_division"
    ):
        get_metric("micro-f1", beta=2)
    with pytest.raises(InvalidParameterError, match="'micro-f2' has no parameter 'beta'"):
        get_metric("micro-f2", beta=2)
    with pytest.raises(InvalidParameterError, match="it takes beta, zero_division"):
        get_metric("micro-fbeta", betta=2)
    with pytest.raises(InvalidParameterError, match="complete already"):
        get_metric(LinearFractional({"tp": 1}, {"const": 1}), beta=2)


def test_the_order_is_that_of_scikit_learn() -> None:
    truth = np.array([[1, 0, 0], [1, 1, 1], [0, 1, 0]])
    decided = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0]])
    precision = get_metric("micro-precision")
    assert precision(truth, decided) == precision_score(truth, decided, average="micro") == 1.0
    assert precision(decided, truth) == precision_score(decided, truth, average="micro") == 0.4
    assert precision(decisions=decided, labels=truth) == precision(labels=truth, decisions=decided) == 1.0
    assert precision(truth, decisions=decided) == 1.0
    counts = confusion_counts(truth, decided)
    assert (counts.fp.item(), counts.fn.item()) == (0, 3)
    # One label as vectors, which scorers of scikit-learn pass.
    assert precision(truth[:, 2], decided[:, 2]) == precision_score(truth[:, 2], decided[:, 2])
    assert precision([1, np.nan, 0], [1, 1, 1]) == 0.5


@pytest.mark.parametrize(
    "given",
    [((), {}), (([[1]],), {}), ((), {"labels": [[1]]}), (([[1]], [[1]]), {"labels": [[1]]})],
    ids=["nothing", "truth", "labels", "twice"],
)
def test_a_call_without_truth_and_decisions_says_what_it_takes(given: Any) -> None:
    arguments, named = given
    with pytest.raises(TypeError, match=r"metric\(y_true, y_pred\)"):
        get_metric("micro-f1")(*arguments, **named)


def test_the_truth_in_second_place_is_noticed_where_it_has_gaps() -> None:
    with pytest.raises(InvalidInputError, match="The truth, which may have NaN, comes first"):
        get_metric("micro-f1")([[1, 0]], [[1, np.nan]])


def test_metrics_are_scorers_in_scikit_learn() -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 3))
    Y = np.where(rng.uniform(size=(60, 3)) < 0.2, np.nan, X > 0.3)
    metric = get_metric("macro-recall")
    assert metric.__name__ == "macro-recall"
    assert LinearFractional.__name__ == "LinearFractional"
    scorer = make_scorer(metric)
    assert repr(scorer).startswith("make_scorer(macro-recall")
    model = PlugInClassifier(LogisticRegression(), threshold="train")
    scores = cross_val_score(model, X, Y, cv=2, scoring=scorer)
    halves = (slice(30, 60), slice(0, 30))
    slow = [
        metric(labels=Y[test], decisions=clone(model).fit(X[train], Y[train]).predict(X[test]))
        for train, test in (halves, halves[::-1])
    ]
    assert scores.tolist() == slow


@pytest.mark.parametrize(
    "name", ["micro-auc", "macro-roc-auc", "micro-average-precision", "log-loss", "ndcg@5"]
)
def test_measures_of_scores_are_told_apart_from_metrics_of_decisions(name: str) -> None:
    with pytest.raises(UnknownNameError, match="judges scores or their order") as caught:
        get_metric(name)
    assert "jaccard" not in str(caught.value)


def test_a_suggestion_is_near_to_what_was_written() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'micro-jaccard'"):
        get_metric("micro-jacard")
    with pytest.raises(UnknownNameError) as caught:
        get_metric("micro-kappa")
    assert "Did you mean" not in str(caught.value)
    assert "cost-accuracy" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "meant", "exactly"),
    [
        ("micro-f11", "micro-f1", "micro-f11.0"),
        ("macro-balanced-f22", "macro-balanced-f2", "macro-balanced-f22.0"),
        ("samples-f05", "instance-f0.5", "instance-f5"),
        ("micro-f10", "micro-f1", "micro-f10.0"),
        ("micro-f6", "micro-f1", "micro-f6.0"),
    ],
)
def test_a_beta_that_is_probably_a_slip_is_asked_for_by_its_exact_name(name, meant, exactly):
    with pytest.raises(InvalidParameterError, match=f"'{meant}'.*'{exactly}'"):
        get_metric(name)
    metric = get_metric(exactly)
    beta = float(exactly.rpartition("f")[2])
    assert metric == get_metric(exactly.rpartition("f")[0] + "fbeta", beta=beta)
    # The name by which it goes from now on is one that is read.
    assert get_metric(metric.name) == metric
    assert metric.name == exactly


@pytest.mark.parametrize("beta", [1e20, 1e-7, 1 / 3, 5.5])
def test_the_name_of_any_beta_is_read_again(beta):
    metric = get_metric("micro-fbeta", beta=beta)
    assert get_metric(metric.name) == metric


@pytest.mark.parametrize(
    "name", ["micro-f1", "micro-f5", "micro-f2", "micro-f0.5", "micro-f1.1", "micro-f7.5"]
)
def test_other_betas_are_taken_as_they_are(name):
    assert get_metric(name).name == name
