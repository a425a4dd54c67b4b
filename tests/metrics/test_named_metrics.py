"""Metrics by name."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, precision_score
from sklearn.model_selection import cross_val_score

from labelgap import PlugInClassifier
from labelgap.exceptions import InvalidInputError, InvalidParameterError, UnknownNameError
from labelgap.metrics import LinearFractional, confusion_counts, get_metric, metric_names


def test_every_name_makes_a_metric() -> None:
    names = metric_names()
    assert list(names) == sorted(set(names))
    assert len(names) >= 3 * 2 * 9
    # A perfect decision on labels of both classes has the value 1, its opposite 0.
    Y = np.array([[1, 0], [0, 1]])
    for name in names:
        metric = get_metric(name, beta=3) if name.endswith("fbeta") else get_metric(name)
        assert metric.average == name.partition("-")[0]
        assert metric.balanced == ("balanced" in name)
        assert metric.name == name.replace("fbeta", "f3")
        assert (metric(Y, Y), metric(Y, 1 - Y)) == (1.0, 0.0), name
        assert get_metric(metric) is metric


def test_spellings_and_parameters() -> None:
    for one, other, options in [
        ("samples-f1", "instance-f1", {}),
        ("Macro_Jaccard", "macro-jaccard", {}),
        ("micro-f0.5", "micro-fbeta", {"beta": 0.5}),
        ("micro-f1.0", "micro-f1", {}),
        ("macro-balanced-f2", "macro-balanced-fbeta", {"beta": 2}),
        ("micro-hamming", "micro-accuracy", {}),
    ]:
        assert get_metric(one) == get_metric(other, **options), one
    assert get_metric("samples-f1").name == "instance-f1"
    metric = get_metric("micro-cost-accuracy", false_positive_cost=1, false_negative_cost=4)
    assert metric.from_counts(tp=2, fp=1, fn=1, tn=6) == pytest.approx((4 * 2 + 6) / (4 * 3 + 7))
    assert get_metric("micro-cost-accuracy").from_counts(2, 1, 1, 6) == pytest.approx(0.8)
    # The name of any beta is read again, and those that are no likely slip are taken as they are.
    for beta in (1e20, 1e-7, 1 / 3, 5.5):
        metric = get_metric("micro-fbeta", beta=beta)
        assert get_metric(metric.name) == metric
    for beta in ("1", "5", "2", "0.5", "1.1", "7.5"):
        assert get_metric(f"micro-f{beta}").name == f"micro-f{beta}"


def test_unknown_names_have_near_suggestions() -> None:
    for name, message in [
        ("micro-f", "Unknown metric 'micro-f'"),
        ("mirco-f1", r"Did you mean 'micro-f1'\?"),
        ("macro-jacard", r"Did you mean 'macro-jaccard'\?"),
        ("f1", "does not say how to average; write one of micro-f1, instance-f1, macro-f1"),
        ("balanced-accuracy", "write one of micro-balanced-accuracy"),
        ("f2", "write one of micro-f2"),
        ("", "Unknown metric"),
        (None, "Unknown metric None"),
        ("micro-kappa", "^(?!.*Did you mean).*cost-accuracy"),
        *(
            (measure, "^(?!.*jaccard).*judges scores or their order")
            for measure in ("micro-auc", "macro-roc-auc", "micro-average-precision", "log-loss", "ndcg@5")
        ),
    ]:
        with pytest.raises(UnknownNameError, match=message):
            get_metric(name)


def test_parameters_are_checked() -> None:
    fbeta, f1 = "micro-fbeta", "micro-f1"
    for name, options, message in [
        *((fbeta, {"beta": beta}, "beta must be a finite number above 0") for beta in (0, -1, np.inf)),
        *((fbeta, {"beta": beta}, "beta must be a finite number above 0") for beta in (np.nan, True, "2")),
        ("micro-f0", {}, "beta must be a finite number above 0, not 0"),
        ("macro-fbeta", {}, r"needs beta=.*macro-f2"),
        ("micro-cost-accuracy", {"false_negative_cost": 0}, "false_negative_cost must be a finite number"),
        (f1, {"beta": 2}, "'micro-f1' has no parameter 'beta'; it takes zero_division"),
        ("micro-f2", {"beta": 2}, "'micro-f2' has no parameter 'beta'"),
        (fbeta, {"betta": 2}, "it takes beta, zero_division"),
        (LinearFractional({"tp": 1}, {"const": 1}), {"beta": 2}, "complete already"),
    ]:
        with pytest.raises(InvalidParameterError, match=message):
            get_metric(name, **options)
    # A beta that is probably a slip is asked for by its exact name.
    for name, meant, exactly in [
        ("micro-f11", "micro-f1", "micro-f11.0"),
        ("macro-balanced-f22", "macro-balanced-f2", "macro-balanced-f22.0"),
        ("samples-f05", "instance-f0.5", "instance-f5"),
        ("micro-f10", "micro-f1", "micro-f10.0"),
        ("micro-f6", "micro-f1", "micro-f6.0"),
    ]:
        with pytest.raises(InvalidParameterError, match=f"'{meant}'.*'{exactly}'"):
            get_metric(name)
        metric, (stem, _, beta) = get_metric(exactly), exactly.rpartition("f")
        assert metric == get_metric(f"{stem}fbeta", beta=float(beta))
        assert metric.name == exactly


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
    for arguments, named in [
        ((), {}),
        (([[1]],), {}),
        ((), {"labels": [[1]]}),
        (([[1]],) * 2, {"labels": 1}),
    ]:
        with pytest.raises(TypeError, match=r"metric\(y_true, y_pred\)"):
            precision(*arguments, **named)
    # The truth in second place is noticed where it has gaps.
    with pytest.raises(InvalidInputError, match="The truth, which may have NaN, comes first"):
        precision([[1, 0]], [[1, np.nan]])


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
