"""How a fit comes to its penalties and threshold: on which folds, in which order, with what in the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from labelgap import LowRankClassifier, LowRankRegressor, ObservedLabels, Recommender
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import UninformativeLabelsWarning
from labelgap.solvers import RIVALS, SOLVERS
from labelgap.thresholds.cross_fit import hold_out_plan

PROBLEM = make_low_rank_labels(n=120, n_labels=8, n_features=5, rank=2, observed=0.5, random_state=1)
X, Y = PROBLEM.X, PROBLEM.Y_observed
FIXED: dict[str, Any] = {"trace_penalty": 0.01, "ridge_penalty": 1e-3, "intercept_penalty": 0.0}
# 60,000 entries: two folds of five tell good penalties from bad ones, and four give a threshold.
LARGE = make_low_rank_labels(n=1000, n_labels=60, n_features=5, rank=2, observed=1.0, random_state=1)


def n_folds_of(model: Any) -> list[int]:
    return [candidate.n_folds for candidate in model.candidates_]


def large(**settings: Any) -> LowRankClassifier:
    free = {"ridge_penalty": 0.0, "intercept_penalty": 0.0, "random_state": 0, "features": "linear"}
    return LowRankClassifier(**free | settings)


@pytest.mark.slow
def test_a_small_sample_is_judged_on_all_folds() -> None:
    model = LowRankClassifier(random_state=0).fit(X, Y)
    assert len(model.candidates_) > 3
    assert set(n_folds_of(model)) == {5}
    # The search does not judge twice, and ends with its choice.
    *search, last = [candidate.penalties for candidate in model.candidates_]
    assert len(set(search)) == len(search)
    assert last in search


def test_a_search_in_a_large_sample_is_judged_on_the_first_folds(capsys: Any) -> None:
    model = large(verbose=1).fit(LARGE.X, LARGE.Y)
    *search, last = model.candidates_
    assert len(search) > 3
    # Two folds are held out as one, by fits that have seen neither.
    assert {candidate.n_folds for candidate in search} == {2}
    # The best is judged once more on as many folds as a threshold needs, and that is what the answer is from.
    assert last.n_folds == 4
    # The last fit has a quarter more entries than a fold, and so a smaller λ.
    assert last.penalties.trace * 0.8**0.5 == pytest.approx(model.trace_penalty_, rel=1e-2)
    assert last.penalties.ridge == model.ridge_penalty_
    assert (last.threshold, last.metric_value) == (model.threshold_, model.held_out_metric_)
    assert last.penalties in [candidate.penalties for candidate in search]
    assert model.score(LARGE.X_test, LARGE.Y_test) > 0.8
    assert model.duality_gap_ <= model.tol * model.objective_
    judged = [line for line in capsys.readouterr().out.splitlines() if "held-out metric" in line]
    assert judged[0].endswith("folds 2")
    assert judged[-1].endswith("folds 4")
    # Penalties that are given are judged once, and a single holdout is one fold whatever the size.
    assert n_folds_of(large(**FIXED).fit(LARGE.X, LARGE.Y)) == [4]
    assert n_folds_of(large(**FIXED, threshold="holdout").fit(LARGE.X, LARGE.Y)) == [1]


@pytest.mark.slow
def test_a_regressor_begins_with_few_folds_too() -> None:
    values = LowRankRegressor("bernoulli", ridge_penalty=0.0, intercept_penalty=0.0, random_state=0)
    values.fit(LARGE.X, LARGE.Y)
    assert set(n_folds_of(values)[:-1]) == {2}
    assert n_folds_of(values)[-1] > 2
    expected = values.candidates_[-1].penalties.trace * 0.8**0.5
    assert expected == pytest.approx(values.trace_penalty_, rel=1e-2)


def test_rare_classes_need_more_folds() -> None:
    kept = np.random.RandomState(0).uniform(size=LARGE.Y.shape)
    for n_yes, n_folds in ((600, 3), (200, 5)):
        rare = np.where(kept < n_yes / LARGE.Y.sum(), LARGE.Y, 0.0)
        model = large().fit(LARGE.X, rare)
        assert set(n_folds_of(model)[:-1]) == {n_folds}, n_yes
        # Of so few, all give the threshold.
        assert n_folds_of(model)[-1] == 5


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.slow
def test_jobs_and_threads_change_no_bit(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    small = form(np.where(np.abs(X) > 0.3, X, 0.0)[:50]), Y[:50]
    for features, some in (small, (form(LARGE.X), LARGE.Y)):
        monkeypatch.setenv("LABELGAP_NUM_THREADS", "2")
        first = LowRankClassifier(random_state=0, n_jobs=1).fit(features, some)
        for n_jobs, threads in ((None, "1"), (None, "3"), (2, "2")):
            monkeypatch.setenv("LABELGAP_NUM_THREADS", threads)
            other = LowRankClassifier(random_state=0, n_jobs=n_jobs).fit(features, some)
            assert other.candidates_ == first.candidates_
            assert other.threshold_ == first.threshold_
            assert_array_equal(other.coef_, first.coef_)
            assert_array_equal(other.intercept_, first.intercept_)


# -- the last fit --------------------------------------------------------------------------------------------


def test_the_last_fit_is_to_all_entries_at_the_gap_asked_for() -> None:
    model = LowRankClassifier(**FIXED, random_state=0, tol=1e-7).fit(X, Y)
    alone = LowRankClassifier(**FIXED, threshold="train", tol=1e-7).fit(X, Y)
    assert model.relative_gap_ <= 1e-7
    assert model.objective_ == pytest.approx(alone.objective_, rel=1e-6)
    assert_allclose(model.decision_function(X), alone.decision_function(X), atol=1e-2)


def test_one_class_labels_get_the_rate_of_all_their_entries() -> None:
    # The fit begins with that of a fold, which has seen fewer of them.
    gaps = Y.copy()
    gaps[:, 2] = np.where(np.isnan(Y[:, 2]), np.nan, 0.0)
    gaps[:, 5] = np.nan
    labels = ObservedLabels.from_dense(gaps)
    plan = hold_out_plan(labels, "cross-fit", np.random.RandomState(0))
    assert np.any((plan == 0) & (labels.cols == 2))
    with pytest.warns(UninformativeLabelsWarning):
        model = LowRankClassifier(**FIXED, random_state=0).fit(X, gaps)
    with pytest.warns(UninformativeLabelsWarning):
        alone = LowRankClassifier(**FIXED, threshold="train").fit(X, gaps)
    n_seen = np.sum(~np.isnan(gaps[:, 2]))
    assert model.intercept_[2] == pytest.approx(np.log(0.5 / (n_seen + 0.5)))
    assert model.intercept_[5] == pytest.approx(alone.intercept_[5])


def sixty_rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    features, truth = rng.standard_normal((60, 12)), rng.standard_normal((12, 9))
    labels = (features @ truth + rng.standard_normal((60, 9)) > 0).astype(float)
    labels[rng.random(labels.shape) > 0.4] = np.nan
    return features, labels


@pytest.mark.parametrize(
    "model",
    [
        LowRankClassifier(trace_penalty=0.02, random_state=0),
        LowRankClassifier(trace_penalty=0.02, ridge_penalty=0.0, score_bound=1.0, tol=1e-2, random_state=0),
        LowRankClassifier(trace_penalty=0.02, ridge_penalty=0.0, random_state=1),
        LowRankClassifier(ridge_penalty=0.01, features="linear", threshold="holdout", random_state=0),
        LowRankClassifier(unobserved="unlabelled", loss="squared", trace_penalty=0.02, random_state=0),
        LowRankRegressor("bernoulli", trace_penalty=0.02, random_state=0),
        Recommender(trace_penalty=0.02, random_state=0),
        Recommender(unobserved="negative", loss="logistic", trace_penalty=0.02, rank=9, random_state=0),
    ],
    ids=str,
)
def test_what_auto_means_does_not_depend_on_the_solver(model: Any) -> None:
    features, labels = sixty_rows()
    unobserved = getattr(model, "unobserved", "missing")
    given = ObservedLabels.from_any(labels if unobserved == "missing" else np.nan_to_num(labels), unobserved)
    data = (given,) if isinstance(model, Recommender) else (features, given)
    fits = [
        clone(model).set_params(solver=solver, rank=9 if solver in RIVALS else model.rank).fit(*data)
        for solver in (*SOLVERS, *RIVALS)
    ]
    first = fits[0]
    for fit in fits[1:]:
        for name in ("trace_penalty_", "ridge_penalty_", "intercept_penalty_", "threshold_"):
            assert getattr(fit, name, None) == getattr(first, name, None), name
        assert fit.objective_ - fit.duality_gap_ <= first.objective_
        assert first.objective_ - first.duality_gap_ <= fit.objective_
