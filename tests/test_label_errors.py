"""Observed labels that are probably wrong: the order, the rates, and what is refused."""

from __future__ import annotations

import signal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression

from labelgap import LowRankClassifier, MetricThreshold, ObservedLabels, PlugInClassifier, find_label_errors
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import InvalidParameterError
from labelgap.flip_rates.label_errors import NoiseRates, estimate_noise_rates, wrong_probability
from refusals import assert_refused

FIXED = {"trace_penalty": 0.01, "ridge_penalty": 0.0, "intercept_penalty": 0.0, "random_state": 0}
PROBLEM = make_low_rank_labels(n=250, n_labels=12, observed=0.5, random_state=0)
X = PROBLEM.X
RNG = np.random.RandomState(0)
FLIPPED = (RNG.uniform(size=PROBLEM.Y_observed.shape) < 0.1) & ~np.isnan(PROBLEM.Y_observed)
Y = np.where(FLIPPED, 1 - PROBLEM.Y_observed, PROBLEM.Y_observed)


@pytest.mark.parametrize(
    "estimator",
    [
        LowRankClassifier(**FIXED),
        PlugInClassifier(random_state=0),
        MetricThreshold(LogisticRegression(), random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_planted_errors_come_first(estimator: Any) -> None:
    found = find_label_errors(X, Y, estimator)
    # Every observed entry once, in order of the self-confidence.
    assert len(found) == np.sum(~np.isnan(Y))
    assert len(set(zip(found.rows.tolist(), found.labels.tolist(), strict=True))) == len(found)
    assert_array_equal(found.recorded, Y[found.rows, found.labels])
    assert_allclose(found.wrong, np.where(found.recorded == 1, 1 - found.probability, found.probability))
    assert np.all(np.diff(found.wrong) <= 0)
    first = FLIPPED[found.rows, found.labels][: FLIPPED.sum()]
    assert first.mean() > 0.6
    assert 0.02 < found.flip_rates.no_to_yes < 0.25
    assert 0.02 < found.flip_rates.yes_to_no < 0.25
    assert 0.3 * FLIPPED.sum() < found.expected < 2.5 * FLIPPED.sum()


def test_given_rates_order_by_the_probability_of_being_wrong() -> None:
    one_way = (PROBLEM.Y_observed == 1) & (RNG.uniform(size=Y.shape) < 0.2)
    noisy = np.where(one_way, 0.0, PROBLEM.Y_observed)
    found = find_label_errors(X, noisy, LowRankClassifier(**FIXED), flip_rates=(0.0, 0.2))
    assert found.flip_rates == NoiseRates(0.0, 0.2)
    # A recorded yes cannot be wrong.
    assert np.all(found.recorded[: one_way.sum()] == 0)
    assert np.all(found.wrong[found.recorded == 1] == 0)
    assert one_way[found.rows, found.labels][: one_way.sum()].mean() > 0.7


def test_wrong_probability_is_that_of_bayes() -> None:
    eta, rates = np.linspace(0.05, 0.95, 7), NoiseRates(0.1, 0.3)
    p = 0.1 * (1 - eta) + 0.7 * eta
    assert_allclose(wrong_probability(p, np.ones(7, dtype=bool), rates), 0.1 * (1 - eta) / p)
    assert_allclose(wrong_probability(p, np.zeros(7, dtype=bool), rates), 0.3 * eta / (1 - p))
    assert_array_equal(wrong_probability(p, np.ones(7, dtype=bool), NoiseRates(0.6, 0.4)), np.full(7, 0.5))
    # Equal rates keep the order of the self-confidence.
    p, yes = RNG.uniform(0.15, 0.85, size=200), RNG.uniform(size=200) < 0.5
    wrong = wrong_probability(p, yes, NoiseRates(0.1, 0.1))
    assert_array_equal(np.argsort(wrong), np.argsort(np.where(yes, 1 - p, p)))


def test_rates_of_probabilities_that_are_certain() -> None:
    truth = RNG.uniform(size=20_000) < 0.3
    flipped = RNG.uniform(size=20_000) < np.where(truth, 0.2, 0.05)
    p = np.where(truth, 0.8, 0.05)
    rates = estimate_noise_rates(p, truth ^ flipped)
    assert rates.no_to_yes == pytest.approx(0.05, abs=0.02)
    assert rates.yes_to_no == pytest.approx(0.2, abs=0.04)
    # An entry of weight 2 is the entry twice.
    weights = 1 + np.arange(20_000) % 2
    twice = np.repeat(np.arange(20_000), weights)
    assert_allclose(
        estimate_noise_rates(p, truth ^ flipped, weights.astype(float)),
        estimate_noise_rates(p[twice], (truth ^ flipped)[twice]),
    )
    assert estimate_noise_rates(p[:3], np.array([True, True, True])) == NoiseRates(1.0, 0.0)


def test_names_and_frames() -> None:
    frame = pd.DataFrame(Y, columns=[f"tag {j}" for j in range(12)], index=[f"row {i}" for i in range(250)])
    found = find_label_errors(X, frame, PlugInClassifier(random_state=0))
    table = found.to_pandas(5)
    assert list(table.columns) == ["row", "label", "recorded", "probability", "wrong"]
    assert table["row"][0] == f"row {found.rows[0]}"
    assert table["label"][0] == f"tag {found.labels[0]}"
    assert len(found.to_pandas()) == found.expected


def test_other_forms_of_labels_and_rows_of_weight_zero() -> None:
    complete, model = np.nan_to_num(Y), PlugInClassifier(random_state=0)
    for labels, n_entries in ((ObservedLabels.from_dense(complete), complete.size), (complete[:, 0], len(X))):
        found = find_label_errors(X, labels, model)
        assert found.row_names is None
        assert len(found) == n_entries
    weights = (np.arange(250) % 5 > 0).astype(float)
    found = find_label_errors(X, Y, model, sample_weight=weights)
    assert set(found.rows.tolist()) <= set(np.flatnonzero(weights).tolist())
    assert_array_equal(found.recorded, Y[found.rows, found.labels])


def test_every_fold_is_scored_however_many_entries_there_are() -> None:
    # For a threshold three folds of five would do.
    large = make_low_rank_labels(n=1300, n_labels=60, observed=1.0, random_state=0)
    model = LowRankClassifier(**FIXED, features="linear")
    assert len(find_label_errors(large.X, large.Y, model)) == large.Y.size


@pytest.mark.usefixtures("default_interrupts")
def test_an_interrupt_ends_without_a_list() -> None:
    told: list[Any] = []

    def interrupt(progress: Any) -> None:
        # A second one would end the fit at once.
        if not told:
            signal.raise_signal(signal.SIGINT)
        told.append(progress)

    with pytest.raises(KeyboardInterrupt, match="before all labels were judged"):
        find_label_errors(X, Y, LowRankClassifier(**FIXED), callback=interrupt)
    assert told


def test_what_is_refused() -> None:
    for arguments, message in (
        ({"estimator": LogisticRegression()}, "MetricThreshold\\(classifier\\)"),
        ({"estimator": LowRankClassifier(threshold="train")}, "threshold='cross-fit'"),
        ({"estimator": LowRankClassifier(unobserved="unlabelled")}, "threshold='cross-fit'"),
        ({"estimator": PlugInClassifier(), "callback": print}, "callback is for a LowRankClassifier"),
        ({"flip_rates": 0.1}, "pair of numbers"),
        ({"flip_rates": (0.1, "much")}, "pair of numbers"),
        ({"flip_rates": (0.6, 0.4)}, "their sum is below 1"),
        ({"flip_rates": (-0.1, 0.4)}, "at least 0"),
        ({"other_labels": "yes"}, "other_labels"),
    ):
        assert_refused(partial(find_label_errors, X, Y, **arguments), message, InvalidParameterError, message)


def test_other_labels_of_a_row_tell_errors_from_labels() -> None:
    # Most of what decides the labels is not among the features.
    few = X[:, :1]
    alone, joint = (
        find_label_errors(few, Y, LowRankClassifier(**FIXED, features="linear"), other_labels=other)
        for other in (False, True)
    )
    assert sorted(zip(joint.rows, joint.labels, strict=True)) == sorted(
        zip(alone.rows, alone.labels, strict=True)
    )
    found = [FLIPPED[one.rows, one.labels][: FLIPPED.sum()].mean() for one in (alone, joint)]
    assert found[1] > found[0] + 0.1
