"""Splitters that keep labels in proportion, and scorers that take NaN."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.multioutput import MultiOutputClassifier

from labelgap import (
    MetricThreshold,
    ObservedLabels,
    PlugInClassifier,
    Recommender,
    StratifiedEntrySplit,
    StratifiedRowSplit,
    get_metric,
)
from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError, UnknownNameError
from labelgap.metrics import make_scorer


def rare_labels(n: int = 300, n_labels: int = 12, observed: float = 0.4, seed: int = 0) -> Any:
    rng = np.random.RandomState(seed)
    rates = np.geomspace(0.03, 0.5, n_labels)
    Y = (rng.uniform(size=(n, n_labels)) < rates).astype(float)
    return np.where(rng.uniform(size=Y.shape) < observed, Y, np.nan)


def imbalance(Y: Any, folds: Any, k: int) -> tuple[float, float]:
    """Mean distance of the known yes, and of the known no, of each label and fold from a k-th of them."""
    found = []
    for value in (1, 0):
        counts = np.array([np.sum(Y[folds == fold] == value, axis=0) for fold in range(k)])
        found.append(float(np.abs(counts - counts.sum(axis=0) / k).mean()))
    return found[0], found[1]


@pytest.mark.parametrize("observed", [0.2, 1.0])
@pytest.mark.parametrize("k", [2, 5])
def test_rows_are_dealt_in_proportion(observed: float, k: int) -> None:
    Y = rare_labels(observed=observed)
    folds = StratifiedRowSplit(k, random_state=0).fold_numbers(None, Y)
    sizes = np.bincount(folds, minlength=k)
    assert np.ptp(sizes) <= 0.1 * len(Y) / k + 2
    ours = imbalance(Y, folds, k)
    at_random = [imbalance(Y, np.random.RandomState(s).permutation(len(Y)) % k, k) for s in range(20)]
    for mine, theirs in zip(ours, np.mean(at_random, axis=0), strict=True):
        assert mine < 0.6 * theirs
    # Every fold has a yes of each label that has k of them.
    enough = np.sum(Y == 1, axis=0) >= 2 * k
    for fold in range(k):
        assert np.all(np.sum(Y[folds == fold] == 1, axis=0)[enough] > 0)


def test_rare_and_missing_labels_are_dealt_exactly_and_every_form_is_read() -> None:
    def dealt(k: int, labels: Any) -> Any:
        return StratifiedRowSplit(k, random_state=0).fold_numbers(None, labels)

    rarest = np.full((40, 2), np.nan)
    rarest[:4, 0], rarest[4:, 1] = 1, np.arange(36) % 2
    folds = dealt(4, rarest)
    assert sorted(folds[:4]) == [0, 1, 2, 3]
    assert np.bincount(folds).tolist() == [10, 10, 10, 10]
    # Rows without labels even out the sizes.
    few = np.full((50, 1), np.nan)
    few[:5, 0] = [1, 1, 1, 0, 0]
    assert np.bincount(dealt(5, few)).tolist() == [10] * 5
    Y = rare_labels(observed=1.0)
    for form in (pd.DataFrame, ObservedLabels.from_dense, np.ndarray.tolist):
        assert_array_equal(dealt(3, form(Y)), dealt(3, Y))
    # Of a sparse matrix only the stored entries are known.
    assert_array_equal(dealt(3, sp.csr_array(Y)), dealt(3, np.where(Y == 1, 1.0, np.nan)))
    for classes in ([0, 1], ["no", "yes"]):
        folds = dealt(3, np.repeat(classes, [30, 6]))
        assert np.bincount(folds[30:]).tolist() == [2, 2, 2]
        assert np.bincount(folds).tolist() == [12, 12, 12]


@pytest.mark.parametrize("kind", [StratifiedRowSplit, StratifiedEntrySplit])
def test_folds_are_a_partition_and_repeat(kind: Any) -> None:
    Y = rare_labels()
    one, two = (list(kind(4, random_state=3).split(None, Y)) for _ in range(2))
    count = len(Y) if kind is StratifiedRowSplit else int(np.sum(~np.isnan(Y)))
    assert_array_equal(np.sort(np.concatenate([test for _, test in one])), np.arange(count))
    for (train, test), again in zip(one, two, strict=True):
        assert_array_equal(np.concatenate([train, test]), np.concatenate(again))
        assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(count))
    assert kind(4).get_n_splits() == 4
    assert repr(kind(4, random_state=3)).startswith(f"{kind.__name__}(")


def grouped(n: int = 600, n_groups: int = 80) -> Any:
    """Labels and a group for each row; few groups have most of the rows, and labels go with groups."""
    rng = np.random.RandomState(1)
    sizes = 1 / np.arange(1, n_groups + 1)
    groups = rng.choice(n_groups, size=n, p=sizes / sizes.sum())
    rates = rng.beta(0.5, 2, size=(n_groups, 8))
    Y = (rng.uniform(size=(n, 8)) < rates[groups]).astype(float)
    return np.where(rng.uniform(size=Y.shape) < 0.5, Y, np.nan), groups


@pytest.mark.parametrize("form", [np.asarray, pd.Series, lambda g: [f"scaffold {x}" for x in g]])
def test_a_group_is_held_out_as_a_whole(form: Any) -> None:
    Y, groups = grouped()
    splitter = StratifiedRowSplit(3, random_state=0)
    sizes = []
    for train, test in splitter.split(None, Y, groups=form(groups)):
        assert not set(groups[train]) & set(groups[test])
        assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(Y)))
        sizes.append(len(test))
    assert np.ptp(sizes) <= 0.1 * len(Y) / 3
    ours = imbalance(Y, splitter.fold_numbers(None, Y, groups), 3)
    by_group = [np.random.RandomState(s).permutation(80)[groups] % 3 for s in range(20)]
    theirs = np.mean([imbalance(Y, folds, 3) for folds in by_group], axis=0)
    assert np.all(np.array(ours) < 0.5 * theirs)


def test_groups_in_cross_validation() -> None:
    # Labels are decided by the group, which X names: rows of known groups are easy, new groups are not.
    Y, groups = grouped()
    X = np.eye(80)[groups]
    Y = np.random.RandomState(2).randint(0, 2, size=(80, 8)).astype(float)[groups]
    model, cv = MetricThreshold(MultiOutputClassifier(LogisticRegression())), StratifiedRowSplit(3)
    seen = cross_val_score(model, X, Y, cv=cv)
    new = cross_val_score(model, X, Y, cv=cv, groups=groups)
    assert seen.min() > 0.9
    assert new.max() < 0.75
    with sklearn.config_context(enable_metadata_routing=True):
        routed = cross_val_score(model, X, Y, cv=cv, params={"groups": groups})
    assert routed.max() < 0.75


def test_entries_differ_by_at_most_one_and_go_with_their_groups() -> None:
    labels = ObservedLabels.from_dense(rare_labels())
    counts = [
        [np.bincount(held.indices[held.values == value], minlength=12) for value in (0, 1)]
        for _, held in StratifiedEntrySplit(5, random_state=0).split_labels(labels)
    ]
    assert np.ptp(np.array(counts), axis=0).max() <= 1
    folds = StratifiedEntrySplit(4, random_state=0).fold_numbers(labels, groups=labels.rows)
    assert all(len(np.unique(folds[labels.rows == row])) == 1 for row in np.unique(labels.rows))
    for value in (0, 1):
        counts = np.bincount(folds[labels.values == value])
        assert np.ptp(counts) <= 0.05 * counts.mean() + 1


@pytest.mark.parametrize("library", [pd, pl])
def test_lines_of_ratings_in_cross_validation(library: Any) -> None:
    rng = np.random.RandomState(0)
    users, items = np.nonzero(rng.uniform(size=(30, 10)) < 0.7)
    values = ((users + items) % 2 == 0).astype(int)
    frame = library.DataFrame({"user": users, "item": items, "value": values})
    cv = StratifiedEntrySplit(2, random_state=0)
    folds = cv.fold_numbers(frame)
    for value in (0, 1):
        table = np.array([np.bincount(items[(folds == f) & (values == value)], minlength=10) for f in (0, 1)])
        assert np.ptp(table, axis=0).max() <= 1
    model = Recommender(trace_penalty=0.02, random_state=0, threshold="train")
    # Ids of a fold may be unknown to the others.
    scores = cross_val_score(
        model, frame, cv=cv, scoring=lambda fit, X, y=None: fit.score(X, unknown="average")
    )
    assert scores.shape == (2,)
    assert np.all(scores > 0.5)


def test_splitter_in_a_search_with_a_scorer() -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 3))
    Y = (X @ rng.standard_normal((3, 3)) > 0.3).astype(float)
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    search = GridSearchCV(
        PlugInClassifier(threshold="train", random_state=0),
        {"metric": ["micro-f1", "micro-accuracy"]},
        scoring=make_scorer("macro-f1"),
        cv=StratifiedRowSplit(3, random_state=0),
    ).fit(X, Y)
    by_hand = []
    for train, test in StratifiedRowSplit(3, random_state=0).split(X, Y):
        model = PlugInClassifier(metric=search.best_params_["metric"], threshold="train", random_state=0).fit(
            X[train], Y[train]
        )
        by_hand.append(get_metric("macro-f1")(Y[test], model.predict(X[test])))
    assert search.best_score_ == pytest.approx(np.mean(by_hand), abs=1e-12)


# -- errors ------------------------------------------------------------------------------------------------


def test_bad_folds_data_and_groups() -> None:
    Y, X = rare_labels(4), np.zeros((4, 2))
    for bad in (1, 0, 301, 2.5, True, None):
        with pytest.raises(InvalidParameterError, match="n_splits must be an integer from 2 to the 300 rows"):
            StratifiedRowSplit(bad).fold_numbers(None, rare_labels())
        with pytest.raises(InvalidParameterError, match="known entries"):
            StratifiedEntrySplit(bad).fold_numbers(None, rare_labels()[:2])
    for given, error, message in (
        ((X,), InvalidLabelsError, "takes labels: pass y"),
        ((X, rare_labels()), InvalidLabelsError, "must match row by row"),
        ((None, Y, ["a", "b"]), InvalidInputError, "the group of each of the 4 rows"),
        ((None, Y, "scaffold"), InvalidInputError, "the group of each of the 4 rows"),
        ((None, Y, [["a"], ["b", "c"], ["d"], ["e"]]), InvalidInputError, "the group of each of the 4 rows"),
        ((None, Y, ["a", None, "b", "b"]), InvalidInputError, "no value at place 1"),
        ((None, Y, [0, 1, np.nan, 1]), InvalidInputError, "no value at place 2"),
        ((None, Y, ["a", "a", "a", "a"]), InvalidParameterError, "from 2 to the 1 groups"),
    ):
        with pytest.raises(error, match=message):
            next(StratifiedRowSplit(2).split(*given))
    with pytest.raises(InvalidInputError, match="no column 'item'"):
        StratifiedEntrySplit().fold_numbers(pd.DataFrame({"film": [1], "value": [1]}))


# -- scorers -----------------------------------------------------------------------------------------------


def test_scorers_over_known_entries_weights_and_sparse_truth() -> None:
    rng = np.random.RandomState(0)
    X, Y = rng.standard_normal((60, 3)), rare_labels(60, 4, 0.5)
    model = MetricThreshold(LogisticRegression(), random_state=0).fit(X, Y)
    weights = rng.randint(0, 3, size=60)
    rows = np.repeat(np.arange(60), weights)
    for name in ("micro-f1", "macro-f1", "instance-f1"):
        scorer, metric = make_scorer(name), get_metric(name)
        assert scorer(model, X, Y) == metric(Y, model.predict(X))
        expected = metric(Y[rows], model.predict(X[rows]))
        assert scorer(model, X, Y, sample_weight=weights) == pytest.approx(expected, abs=1e-12)
    assert "micro-f1" in repr(make_scorer("micro-f1"))
    assert pickle.loads(pickle.dumps(make_scorer()))(model, X, Y) == make_scorer()(model, X, Y)
    # Other classifiers.
    truth = (X[:, :2] > 0).astype(int)
    other = MultiOutputClassifier(LogisticRegression()).fit(X, truth)
    scorer = make_scorer("micro-accuracy", unobserved="negative")
    assert scorer(other, X, sp.csr_array(truth)) == pytest.approx(np.mean(other.predict(X) == truth))
    with pytest.raises(UnknownNameError, match="unobserved"):
        make_scorer(unobserved="unlabelled")


def test_scorer_with_metadata_routing() -> None:
    X, Y = np.random.RandomState(0).standard_normal((60, 3)), rare_labels(60, 3, 0.8, seed=1)
    weights = 1.0 + np.arange(60) % 3
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer("micro-accuracy").set_score_request(sample_weight=True)
        model = PlugInClassifier(random_state=0, threshold="train").set_fit_request(sample_weight=True)
        found = cross_val_score(model, X, Y, cv=KFold(2), scoring=scorer, params={"sample_weight": weights})
    for value, (train, test) in zip(found, KFold(2).split(X), strict=True):
        fitted = PlugInClassifier(random_state=0, threshold="train").fit(X[train], Y[train], weights[train])
        labels = ObservedLabels.from_dense(Y[test]).with_row_weights(weights[test])
        assert value == pytest.approx(
            get_metric("micro-accuracy")(labels, fitted.predict(X[test])), abs=1e-12
        )
