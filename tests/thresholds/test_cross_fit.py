"""Held-out folds, their threads, and what labels with one class do to the metric and the threshold."""

from __future__ import annotations

import threading
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.linear_model import LogisticRegression

from labelgap import LowRankClassifier, MetricThreshold, PlugInClassifier
from labelgap.exceptions import UninformativeLabelsWarning
from labelgap.kernels.threads import limit_threads, thread_count
from labelgap.labels import ObservedLabels
from labelgap.metrics import get_metric
from labelgap.thresholds import best_threshold
from labelgap.thresholds.cross_fit import (
    NEVER,
    OneClassEffect,
    describe_one_class,
    gather,
    hold_out_plan,
    map_folds,
    one_class_labels,
    side_by_side,
)


def random_observed(n=20, n_labels=6, seed=0):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, n_labels)) < 0.4).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    return ObservedLabels.from_dense(Y)


def test_the_plan_holds_entries_out_once_in_even_folds():
    labels = random_observed()
    counts = np.bincount(hold_out_plan(labels, "cross-fit", 0))
    assert (len(counts), counts.sum()) == (5, labels.n_observed)
    assert np.ptp(counts) <= 1
    held = hold_out_plan(labels, "holdout", 0)
    assert set(held.tolist()) == {0, NEVER}
    assert abs(np.sum(held == 0) - labels.n_observed / 5) <= 1
    assert_array_equal(hold_out_plan(labels, "train", 0), np.full(labels.n_observed, NEVER))
    for how in ("cross-fit", "holdout"):
        plans = [hold_out_plan(labels, how, seed) for seed in (3, 3, 4)]
        assert_array_equal(plans[0], plans[1])
        assert np.any(plans[0] != plans[2])
    # With few entries there are fewer folds, or none.
    for n, n_folds in [(1, 0), (2, 0), (3, 0), (4, 2), (6, 3), (9, 4), (10, 5), (50, 5)]:
        labels = ObservedLabels.from_dense(np.arange(n)[:, None] % 2)
        folds = set(range(n_folds)) or {NEVER}
        assert set(hold_out_plan(labels, "cross-fit", 0).tolist()) == folds, n
        for how in ("holdout", "train"):
            nothing = how == "train" or n_folds == 0
            assert set(hold_out_plan(labels, how, 0).tolist()) == ({NEVER} if nothing else {0, NEVER}), n


def test_folds_by_row_hold_a_row_out_as_a_whole():
    labels = random_observed(60, 5)
    plan = hold_out_plan(labels, "cross-fit", 0, by_row=True)
    folds = [set(plan[labels.rows == row]) for row in np.unique(labels.rows)]
    assert all(len(one) == 1 for one in folds)
    # What is kept in proportion is each label's yes and no, and with them the rows.
    assert np.ptp(np.bincount([fold for (fold,) in folds])) <= 2
    for value in (0, 1):
        parts = [labels.select((plan == fold) & (labels.values == value)).label_counts() for fold in range(5)]
        assert np.ptp(parts, axis=0).max() <= 2
    assert_array_equal(plan, hold_out_plan(labels, "cross-fit", 0, by_row=True))
    # Too few rows are held out entry by entry.
    few = ObservedLabels.from_dense([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]])
    assert_array_equal(hold_out_plan(few, "cross-fit", 0, by_row=True), hold_out_plan(few, "cross-fit", 0))


def sums(fold, train, held, *choice):
    return *choice, fold, train.n_observed, held.n_observed, train.values.sum(), held.indices.tolist()


def test_folds_are_what_the_plan_says_whatever_the_jobs():
    labels = random_observed()

    def check(fold, train, held):
        assert train == labels.select(plan != fold)
        assert held == labels.select(plan == fold)

    for how in ("cross-fit", "holdout", "train"):
        plan = hold_out_plan(labels, how, 0)
        map_folds(labels, plan, check)
        alone, *others = (map_folds(labels, plan, sums, n_jobs) for n_jobs in (1, 2, -1, None))
        assert all(other == alone for other in others)
        assert [answer[0] for answer in alone] == list(range(plan.max() + 1))
        # Choices and folds are worked on together.
        for n_jobs in (1, 2, None) if how != "train" else ():
            answers = map_folds(labels, plan, sums, n_jobs, choices=["a", "b", "c"])
            assert answers == [[(choice, *answer) for answer in alone] for choice in "abc"]
            assert map_folds(labels, plan, sums, n_jobs, choices=[]) == []
        # Gathered scores come in the order of the entries.
        parts = map_folds(labels, plan, lambda fold, train, held: held.rows * 100.0 + held.indices)
        held, scores = gather(plan, parts)
        assert_array_equal(scores, (labels.rows * 100.0 + labels.indices)[held])
        assert held.sum() == np.sum(plan >= 0)

    def fail(fold, train, held):
        raise FloatingPointError(f"in fold {fold}")

    for n_jobs in (1, 2):
        with pytest.raises(FloatingPointError, match="in fold"):
            map_folds(labels, hold_out_plan(labels, "cross-fit", 0), fail, n_jobs)


# -- threads ------------------------------------------------------------------------------------------------


def threads_of_each(n_together):
    """Work that says how many threads it has while so many folds are worked on; others would break it."""
    barrier = threading.Barrier(n_together)

    def work(*_):
        barrier.wait(timeout=20)
        count = thread_count()
        barrier.wait(timeout=20)
        return count

    return work


def test_folds_side_by_side_share_the_threads_of_the_caller(monkeypatch):
    monkeypatch.setenv("LABELGAP_NUM_THREADS", "8")
    few, many = random_observed(), random_observed(400)
    recorded = ObservedLabels.from_sparse(sp.eye_array(50, 40, format="csr"), unobserved="unlabelled")
    for labels, limit, n_jobs, together, expected in [
        (few, 4, 1, 1, 4),
        (few, 4, 2, 2, 2),
        (few, 1, 2, 2, 1),
        (few, 6, 2, 2, 3),
        # Few entries are worked on one fold after the other, each with all threads.
        (few, 4, None, 1, 4),
        (many, 4, None, 2, 2),
        (many, 1, None, 1, 1),
        # Where all pairs count, few recorded ones are no small problem.
        (recorded.select(np.arange(recorded.n_observed) < 4), 4, None, 2, 2),
    ]:
        plan = np.arange(labels.n_observed) % 2
        with limit_threads(limit):
            counts = map_folds(labels, plan, threads_of_each(together), n_jobs=n_jobs)
        assert counts == [expected, expected], (limit, n_jobs)
    # As many jobs as there are threads: each waits for two others.
    monkeypatch.setenv("LABELGAP_NUM_THREADS", "3")
    assert map_folds(many, np.arange(many.n_observed) % 3, threads_of_each(3)) == [1, 1, 1]
    # No more threads are started than there are tasks; joblib has a few of its own beside the workers.
    before = threading.active_count()
    assert max(side_by_side([threading.active_count] * 3, n_jobs=200)) - before < 20


def test_the_last_fold_takes_over_the_threads_of_the_others():
    ended, seen = threading.Event(), []

    def first():
        seen.append(thread_count())
        ended.wait(timeout=20)

    def last():
        seen.append(thread_count())
        ended.set()
        # A task has ended a moment after its last line.
        until = time.monotonic() + 20
        while thread_count() < 4 and time.monotonic() < until:
            time.sleep(0.001)
        return thread_count()

    with limit_threads(4):
        assert side_by_side([first, last], n_jobs=2) == [None, 4]
        assert thread_count() == 4
    assert seen == [2, 2]


# -- labels with one class ----------------------------------------------------------------------------------


def problem(n=120, constant=None):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n, 3))
    Y = (X @ rng.standard_normal((3, 4)) + rng.standard_normal((n, 4)) > 0.7).astype(float)
    if constant is not None:
        Y[:, 1] = constant
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    return X, ObservedLabels.from_dense(Y, label_names=["a", "b", "c", "d"])


def test_which_labels_have_one_class_and_how_they_are_named():
    labels = ObservedLabels.from_dense([[1, 0, 1, np.nan], [1, 0, 0, np.nan]])
    assert one_class_labels(labels, fewest=1).tolist() == [True, True, False, False]
    # Two entries of one class are chance; ten are not.
    assert not one_class_labels(labels).any()
    Y = np.tile([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0], (10, 1))
    Y[0, 6] = np.nan
    labels = ObservedLabels.from_dense(Y)
    assert one_class_labels(labels).tolist() == [True] * 6 + [False]
    told = describe_one_class(labels, one_class_labels(labels))
    assert told == (
        "6 of 7 labels have one class: 0 (only yes), 1 (only no), 2 (only yes), 3 (only no), 4 (only yes) "
        "and 1 more."
    )


def test_the_figure_without_them_is_that_of_the_other_labels_alone():
    _, labels = problem(constant=1.0)
    scores, f1 = np.random.RandomState(1).uniform(size=labels.n_observed), get_metric("micro-f1")
    effect = OneClassEffect(labels, f1)
    effect.see(scores, labels)
    Y, Z = labels.to_dense(), np.zeros(labels.shape)
    Z[labels.rows, labels.cols] = scores
    alone = best_threshold(Z[:, [0, 2, 3]], Y[:, [0, 2, 3]], f1)
    assert (effect.rest.value, effect.rest.threshold) == (pytest.approx(alone.value), alone.threshold)
    assert effect.whole.value == pytest.approx(best_threshold(Z, Y, f1).value)
    # At a threshold that is given; a score of that much is a yes.
    effect.see(scores, labels, threshold=float(scores[7]))
    assert effect.whole == (pytest.approx(f1(labels, scores >= scores[7])), scores[7])
    # Where all labels have one class, or none of these entries, there is nothing to compare.
    every, none = (ObservedLabels.from_dense(np.tile(row, (10, 1))) for row in ([1, 0], [[1, 0], [0, 1]]))
    for labels in (every, none):
        effect = OneClassEffect(labels, f1)
        effect.see(np.linspace(0, 1, labels.n_observed), labels)
        assert effect.whole is None
        effect.warn()


@pytest.mark.parametrize("model", ["low-rank", "plug-in", "threshold"])
def test_a_fit_names_constant_labels_that_make_a_difference(model):
    def fit(metric, constant=None):
        settings = {"metric": metric, "random_state": 0}
        found = {
            "low-rank": lambda: LowRankClassifier(trace_penalty=0.01, ridge_penalty=0.1, **settings),
            "plug-in": lambda: PlugInClassifier(LogisticRegression(), **settings),
            "threshold": lambda: MetricThreshold(LogisticRegression(), **settings),
        }[model]()
        found.fit(*problem(constant=constant))

    with pytest.warns(UninformativeLabelsWarning) as caught:
        fit("micro-f1", 1.0)
    told = str(caught[0].message)
    assert told.startswith("1 of 4 labels has one class: 'b' (only yes).")
    assert "micro-f1 on the scores that chose the threshold is" in told
    assert "and would be" in told
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Nothing is decided yes of a label that is always no, so micro-F1 does not see it.
        fit("micro-f1", 0.0)
        fit("micro-f1")
    with pytest.warns(UninformativeLabelsWarning, match=r"'b' \(only no\).*macro-f1"):
        fit("macro-f1", 0.0)
