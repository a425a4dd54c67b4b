"""Learning from recorded positives alone, as a user meets it."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap import (
    LowRankClassifier,
    ObservedLabels,
    Recommender,
    estimate_flip_rate,
    get_metric,
    sensitivity,
)
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import InvalidInputError, InvalidParameterError, LabelgapWarning
from refusals import assert_refused

FLIP_RATE = 0.4
PROBLEM = make_low_rank_labels(n=120, n_labels=6, n_features=4, rank=2, observed=1.0, random_state=0)
X, Y = PROBLEM.X, PROBLEM.Y


def recorded_of(Y: Any, flip_rate: Any, seed: int) -> Any:
    return Y * (np.random.RandomState(seed).random_sample(Y.shape) >= flip_rate)


RECORDED = recorded_of(Y, FLIP_RATE, 0)
SAID = ObservedLabels.from_any(RECORDED, unobserved="unlabelled")
# The squared loss with its penalties given: a fit takes a tenth of a second.
FIXED: dict[str, Any] = {
    "unobserved": "unlabelled",
    "flip_rate": FLIP_RATE,
    "loss": "squared",
    "trace_penalty": 3e-3,
    "ridge_penalty": 0,
    "intercept_penalty": 0,
    "random_state": 0,
}


def fit(y: Any = RECORDED, **changes: Any) -> LowRankClassifier:
    return LowRankClassifier(**(FIXED | changes)).fit(X, y)


@pytest.fixture(scope="module")
def fitted() -> LowRankClassifier:
    return fit()


# -- what it is for ------------------------------------------------------------------------------------------


def test_beats_taking_silence_for_no() -> None:
    problem = make_low_rank_labels(n=200, n_labels=15, noise=True, observed=1.0, n_test=500, random_state=1)
    recorded = recorded_of(problem.Y, 0.7, 1)
    judge = get_metric("micro-f1")
    settings: dict[str, Any] = {
        "loss": "squared",
        "features": "linear",
        "ridge_penalty": 0,
        "random_state": 0,
    }
    known = LowRankClassifier(unobserved="unlabelled", flip_rate=0.7, **settings)
    silence = LowRankClassifier(unobserved="negative", **settings)
    ours, theirs = (
        judge(model.fit(problem.X, recorded).predict(problem.X_test), problem.Y_test)
        for model in (known, silence)
    )
    assert ours > theirs + 0.01
    assert ours > judge(np.ones_like(problem.Y_test), problem.Y_test) + 0.05


def test_one_rate_per_label(fitted: LowRankClassifier) -> None:
    rates = np.array([0.1, 0.1, 0.1, 0.7, 0.7, 0.7])
    recorded = recorded_of(Y, rates, 1)
    each, alike = fit(recorded, flip_rate=rates), fit(recorded, flip_rate=0.4)
    assert_array_equal(each.flip_rate_, rates)
    assert each.flip_rate_interval_ is None
    test = PROBLEM.X_test, PROBLEM.Y_test
    assert each.score(*test, unobserved="missing") > alike.score(*test, unobserved="missing")
    equal = fit(flip_rate=np.full(6, FLIP_RATE))
    assert_array_equal(equal.decision_function(X), fitted.decision_function(X))


def test_a_squared_fit_is_a_rescaled_fit_to_silence_as_no() -> None:
    # (z + 1)² less a linear term at the recorded entries: z + 1 and λ scale with 1/(1 − ρ), and the ranking
    # stays.
    trace = FIXED["trace_penalty"] * (1 - FLIP_RATE)
    plain = fit(unobserved="negative", flip_rate="estimate", trace_penalty=trace, tol=1e-7)
    rescaled = (plain.decision_function(X) + 1) / (1 - FLIP_RATE) - 1
    assert_allclose(fit(tol=1e-7).decision_function(X), rescaled, atol=2e-3)


def test_logistic_scores_obey_the_bound() -> None:
    # From a probability of 1 % to one of 99 %; so weak a penalty leaves it to the bound to hold the scores.
    bound = 2 * np.log(99)
    model = fit(loss="logistic", trace_penalty=1e-5, threshold="train")
    assert 0.99 * bound < np.abs(X @ model.coef_).max() <= bound * (1 + 1e-6)


# -- forms of the labels -------------------------------------------------------------------------------------


def test_every_form_of_labels_is_the_same_fit(fitted: LowRankClassifier) -> None:
    expected = fitted.decision_function(X)
    for form in (SAID, sp.csr_array(RECORDED), np.where(RECORDED == 1, 1, np.nan)):
        assert_array_equal(fit(form).decision_function(X), expected)
    # Labels that say so themselves need not be told again.
    assert_array_equal(fit(SAID, unobserved="missing").decision_function(X), expected)
    single, column = fit(np.where(RECORDED[:, 0] == 1, "yes", "?")), fit(RECORDED[:, :1])
    assert single.predict(X).shape == (len(X),)
    assert set(single.predict(X)) == {"yes", "?"}
    assert single.flip_rate_ == FLIP_RATE
    assert_array_equal(single.predict(X) == "yes", column.predict(X)[:, 0] == 1)
    # The yes alone, with nothing at all elsewhere, say the same.
    gaps = fit(np.where(RECORDED[:, 0] == 1, 1.0, np.nan))
    assert_array_equal(gaps.predict(X), column.predict(X)[:, 0])


def test_a_fit_to_known_negatives_forgets_the_rate() -> None:
    model = fit()
    assert model.score(X, RECORDED) < 1
    model.set_params(unobserved="missing", flip_rate="estimate").fit(X, Y)
    assert not hasattr(model, "flip_rate_")
    with pytest.raises(InvalidParameterError, match="was not fitted to"):
        model.score(X, RECORDED, unobserved="unlabelled")


def test_known_negatives_that_are_not_used_are_counted_once(fitted: LowRankClassifier) -> None:
    partly = np.where(np.arange(Y.size).reshape(Y.shape) % 5 == 0, np.nan, RECORDED)
    negatives = int(np.sum(partly == 0))
    stored = sp.csr_array(([1, 0, 1, 1], ([0, 1, 2, 3], [0, 0, 0, 0])), shape=(len(X), 1))
    vector = np.where(np.arange(len(X)) % 3 == 0, np.nan, RECORDED[:, 0])
    of_vector = int(np.sum(vector == 0))
    for given, count in (
        (partly, negatives),
        (ObservedLabels.from_dense(partly), negatives),
        (stored, 1),
        (vector, of_vector),
    ):
        with pytest.warns(LabelgapWarning, match=f"^{count} known negatives were not used") as told:
            fit(given)
        # Three positives make a model that says yes to everything, which is told too.
        assert len([one for one in told if one.category is LabelgapWarning]) == 1
    with pytest.warns(LabelgapWarning, match=f"^{negatives} known negatives were not used"):
        fit().partial_fit(X, partly, row_ids=range(1000, 1000 + len(X)))


# -- what is refused -----------------------------------------------------------------------------------------


def test_wrong_parameters() -> None:
    for changes, message in (
        ({"flip_rate": -0.1}, "flip_rate is -0.1; .*at least 0 and below 1"),
        ({"flip_rate": [0.1, 0.1, 0.1, 2.0, 0.1, 0.1]}, "flip_rate of label 3 is 2.0"),
        ({"flip_rate": [0.1, 0.2]}, r"shape \(2,\); give one number, or one for each of the 6 labels"),
        ({"flip_rate": "guess"}, "flip_rate 'guess'.*estimate"),
        ({"loss": "logistic", "score_bound": None}, "leave score_bound at 'auto', or give a number"),
        ({"weights": "inverse-propensity"}, "under unobserved='unlabelled' every entry counts"),
        ({"memory_limit_mb": 0}, "memory_limit_mb"),
    ):
        assert_refused(partial(fit, **changes), message, InvalidInputError, changes)
    weighted = SAID.with_weights(np.full(SAID.n_observed, 2.0))
    with pytest.raises(InvalidParameterError, match="Weights of recorded positives cannot be combined"):
        fit(weighted)


def test_an_impossible_rate_is_lowered_with_a_warning() -> None:
    recorded = RECORDED.copy()
    recorded[:100, 2] = 1  # at ρ = 0.4 this label would have 167 yes in 120 rows
    with pytest.warns(LabelgapWarning, match=r"not possible for 1 of 6 labels \(the first: 2, with 8.*%"):
        model = fit(recorded)
    assert np.isfinite(model.decision_function(X)).all()


# -- the same answer however it is computed ------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_blocks_do_not_change_the_fit(loss: str) -> None:
    # Little memory also means fewer entries from which the threshold is taken; W and b are from all of them.
    # With much memory the logistic loss keeps all scores, another way to the same optimum.
    one, many = (
        fit(loss=loss, trace_penalty=1e-2, memory_limit_mb=limit, threshold="train", tol=1e-5)
        for limit in (256, 0.02)
    )
    assert_allclose(many.decision_function(X), one.decision_function(X), atol=1e-2)
    assert np.mean(many.predict(X) != one.predict(X)) < 0.05


@pytest.mark.slow
def test_repeatable_with_any_number_of_jobs() -> None:
    first, *others = (
        fit(flip_rate="estimate", trace_penalty="auto", memory_limit_mb=0.03, n_jobs=jobs)
        for jobs in (1, None, 2)
    )
    for again in others:
        assert again.threshold_ == first.threshold_
        assert again.flip_rate_ == first.flip_rate_
        assert_array_equal(again.decision_function(X), first.decision_function(X))


def test_nothing_of_the_size_of_all_entries_is_kept() -> None:
    rng = np.random.RandomState(0)
    n, n_labels = 5000, 1000
    recorded = sp.random_array((n, n_labels), density=0.005, rng=rng, format="csr")
    recorded.data[:] = 1
    features = rng.standard_normal((n, 5))
    model = LowRankClassifier(**(FIXED | {"memory_limit_mb": 1, "trace_penalty": 1e-3}))
    model.fit(features, recorded)  # compiles the kernels, which takes memory of its own
    tracemalloc.start()
    try:
        model.fit(features, recorded)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # One byte for each entry would be 5 MB, a score for each 40 MB.
    assert kept < n * n_labels
    assert peak < 8 * n * n_labels / 2


# -- the flip rate -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.slow
def test_estimates_the_rate(loss: str) -> None:
    model = fit(flip_rate="estimate", loss=loss, trace_penalty=1e-2)
    assert isinstance(model.flip_rate_, float)
    low, high = model.flip_rate_interval_
    assert low <= model.flip_rate_ <= high
    assert abs(model.flip_rate_ - FLIP_RATE) < 0.1


@pytest.mark.parametrize(
    ("flip_rate", "noise", "loss"),
    [*((rate, False, "squared") for rate in (0.1, 0.3, 0.5, 0.7, 0.9)), (0.7, True, "squared"),
     (0.5, False, "logistic")],
)  # fmt: skip
@pytest.mark.slow
def test_estimate_flip_rate(flip_rate: float, noise: bool, loss: str) -> None:
    n, n_labels = (800, 50) if loss == "squared" else (300, 20)
    problem = make_low_rank_labels(
        n=n, n_labels=n_labels, observed=1.0, n_test=1, noise=noise, random_state=0
    )
    recorded = recorded_of(problem.Y, flip_rate, 1)
    estimate = estimate_flip_rate(problem.X, recorded, loss=loss, random_state=0)
    assert estimate.low <= estimate.value <= estimate.high
    assert abs(estimate.value - flip_rate) <= 0.1


def test_sensitivity_of_a_classifier(fitted: LowRankClassifier) -> None:
    model = LowRankClassifier(**(FIXED | {"flip_rate": "estimate"}))
    table = sensitivity(model, X, RECORDED, flip_rates=(0.1, 0.4), reference=0.1)
    assert model.flip_rate == "estimate"
    assert not hasattr(model, "threshold_")
    assert table.changed_share[0] == 0
    assert table.yes_share[0] < table.yes_share[1]
    title, first, second = str(table).splitlines()
    assert title.split() == ["flip", "rate", "metric", "threshold", "decided", "yes", "changed"]
    assert first.split()[0] == "0.10*"
    assert second.split()[0] == "0.40"
    assert_array_equal(table.estimators[1].predict(X), fitted.predict(X))
    # Labels may say themselves that they are recorded positives.
    told = model.set_params(unobserved="missing")
    own = sensitivity(told, X, SAID, flip_rates=(0.1, 0.4), reference=0.1)
    assert own.yes_share.tolist() == table.yes_share.tolist()
    model = LowRankClassifier(**FIXED)
    for use, message in (
        (
            partial(sensitivity, LowRankClassifier(), X, RECORDED),
            "with unobserved='unlabelled', not 'missing'",
        ),
        (partial(sensitivity, model, X, RECORDED, flip_rates=()), "flip_rates is empty"),
        (
            partial(sensitivity, model, X, RECORDED, flip_rates=(0.2, 0.4), reference=0.3),
            "not one of the flip",
        ),
        (partial(sensitivity, model, X, RECORDED, flip_rates=(0.2, 1.0)), "at least 0 and below 1"),
    ):
        assert_refused(use, message, InvalidParameterError)


@pytest.mark.slow
def test_sensitivity_of_a_recommender_and_of_one_label() -> None:
    likes = Recommender(unobserved="unlabelled", trace_penalty=1e-2, random_state=0)
    single = LowRankClassifier(**FIXED)
    for table in (
        sensitivity(likes, SAID, flip_rates=(0.2, 0.4)),
        sensitivity(single, X, RECORDED[:, 0], flip_rates=(0.2, 0.4)),
    ):
        assert np.all((table.yes_share > 0) & (table.yes_share < 1))
        assert table.changed_share[1] == 0
