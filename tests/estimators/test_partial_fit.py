"""Batches against one fit to all of them: objective, decisions, corrections, weights, and what is kept."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import labelgap
from labelgap import LowRankClassifier, LowRankRegressor
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import (
    DriftWarning,
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
)
from refusals import assert_refused

# The penalties are given, and the threshold comes from training scores: one fit per batch.
QUICK: dict[str, Any] = {
    "trace_penalty": 0.01,
    "ridge_penalty": 0.001,
    "intercept_penalty": 0,
    "threshold": "train",
    "features": "linear",
    "label_weighting": 0,
}
VALUES: dict[str, Any] = {"trace_penalty": 0.05, "ridge_penalty": 0.001, "intercept_penalty": 0}
TIGHT = {**QUICK, "tol": 1e-6}
HELD_OUT = {**TIGHT, "threshold": "cross-fit", "random_state": 0}
PROBLEM = make_low_rank_labels(n=160, n_labels=6, observed=0.5, noise=True, n_test=200, random_state=0)
X, Y = PROBLEM.X, PROBLEM.Y_observed
IDS = np.arange(160)
RECORDED = sp.csr_array(np.nan_to_num(Y))


def in_batches(model: Any, features: Any, labels: Any, *cuts: int, **by_row: Any) -> Any:
    """The model of batches that are cut at these rows."""
    for start, stop in zip((0, *cuts), (*cuts, len(IDS)), strict=True):
        rows = slice(start, stop)
        model.partial_fit(features[rows], labels[rows], **{name: one[rows] for name, one in by_row.items()})
    return model


def assert_same_model(one: Any, two: Any, case: object = "") -> None:
    """Both are within their gaps of the same optimum, and score alike."""
    assert abs(one.objective_ - two.objective_) <= one.duality_gap_ + two.duality_gap_ + 1e-12, case
    assert_allclose(one.coef_, two.coef_, atol=0.02, err_msg=str(case))
    assert_allclose(one.intercept_, two.intercept_, atol=0.02, err_msg=str(case))


def test_batches_end_where_one_fit_to_all_of_them_does() -> None:
    thin = sp.csr_array(np.where(np.abs(X) < 0.5, 0.0, X))
    cases: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "sparse features": (thin, Y, {}),
        "scaled features": (X, Y, {"feature_scaling": "standard"}),
        "sparse scaled features": (thin, Y, {"feature_scaling": "standard"}),
        "a penalty of the intercept": (X, Y, {"intercept_penalty": 0.01}),
        "a penalty of the scores": (X, Y, {"penalty": "scores"}),
        "a bound": (X, Y, {"score_bound": 2.0, "tol": 1e-5}),
        "absent is no": (X, RECORDED, {"unobserved": "negative"}),
    }
    of_likes = {"unobserved": "unlabelled", "flip_rate": 0.4, "loss": "squared", "tol": 1e-5}
    cases["recorded positives"] = (X, RECORDED, of_likes)
    for case, (features, labels, changed) in cases.items():
        settings = TIGHT | changed
        whole = LowRankClassifier(**settings).fit(features, labels)
        model = in_batches(LowRankClassifier(**settings), features, labels, 100)
        assert_same_model(model, whole, case)
        assert model.relative_gap_ <= settings["tol"], case
    with pytest.raises(InvalidParameterError, match="weighs entries"):
        model.set_params(forget=2.0).partial_fit(X[:5], RECORDED[:5])


def test_what_is_said_of_batches_and_their_order() -> None:
    whole = LowRankClassifier(**TIGHT).fit(X, Y)
    model = in_batches(LowRankClassifier(**TIGHT), X, Y, 90, 95)
    assert_same_model(model, whole)
    assert model.partial_fit(X[:1], Y[:1]) is model
    assert [batch.new_rows for batch in model.batches_] == [90, 5, 65, 1]
    assert sum(batch.added for batch in model.batches_[:3]) == np.isfinite(Y).sum()
    assert model.threshold_ == pytest.approx(whole.threshold_, abs=0.02)
    turned = np.r_[100:160, 0:60, 60:100]
    assert_same_model(in_batches(LowRankClassifier(**TIGHT), X[turned], Y[turned], 60, 120), whole)


@pytest.mark.parametrize("weighting", [0.0, 1.0])
def test_more_entries_corrections_and_new_labels_join_by_ids_and_names(weighting: float) -> None:
    names = list("abcdef")
    truth = pd.DataFrame(Y, columns=names, index=[f"r{i}" for i in range(160)])
    early = truth.iloc[:120, :4].copy()
    wrong = early.stack().dropna().index[:7]
    for row, name in wrong:
        early.loc[row, name] = 1 - early.loc[row, name]
    settings = {**TIGHT, "label_weighting": weighting}
    features = pd.DataFrame(X, index=truth.index, columns=[f"x{j}" for j in range(X.shape[1])])
    model = LowRankClassifier(**settings).partial_fit(features[:120], early, row_ids="index")
    # The second batch has all rows once more, in another order, with all labels.
    again = truth.iloc[::-1][["f", "e", "d", "c", "b", "a"]]
    model.partial_fit(features.loc[again.index], again, row_ids="index")
    batch = model.batches_[1]
    known = int(early.notna().to_numpy().sum())
    assert (batch.new_rows, batch.new_labels) == (40, 2)
    assert (batch.corrected, batch.repeated) == (7, known - 7)
    assert batch.added == int(truth.notna().to_numpy().sum()) - known
    assert model.label_names_.tolist() == [*names[:4], "f", "e"]
    whole = LowRankClassifier(**settings).fit(features, truth)
    order = [model.label_names_.tolist().index(name) for name in names]
    assert abs(model.objective_ - whole.objective_) <= 2e-6 * whole.objective_
    scores = model.decision_function(features)[:, order]
    assert_allclose(scores, whole.decision_function(features), atol=0.02)


def test_features_of_a_row_that_comes_again_are_the_later_ones() -> None:
    old = X.copy()
    old[:30] += 1.0
    model = LowRankClassifier(**TIGHT).partial_fit(old, Y, row_ids=IDS)
    model.partial_fit(X[:30], Y[:30], row_ids=IDS[:30])
    assert_same_model(model, LowRankClassifier(**TIGHT).fit(X, Y))


def test_forgetting_weights_and_propensities_are_those_of_entries() -> None:
    model = in_batches(LowRankClassifier(**TIGHT, forget=2.0), X, Y, 60, 110)
    ages = np.repeat([2, 1, 0], [60, 50, 50])
    assert_same_model(model, LowRankClassifier(**TIGHT).fit(X, Y, sample_weight=2.0 ** (-ages / 2.0)))
    rng = np.random.RandomState(0)
    given = {
        "sample_weight": rng.choice([0.0, 1.0, 2.0], size=160),
        "propensities": rng.uniform(0.3, 0.9, size=Y.shape),
    }
    settings = {**TIGHT, "weights": "inverse-propensity"}
    model = in_batches(LowRankClassifier(**settings), X, Y, 100, row_ids=IDS, **given)
    assert_same_model(model, LowRankClassifier(**settings).fit(X, Y, **given))
    with pytest.raises(InvalidParameterError, match="have propensities and this one has none"):
        model.partial_fit(X[:5], Y[:5])
    with pytest.raises(InvalidParameterError, match="from which propensities cannot be estimated"):
        LowRankClassifier(**settings, memory=50).fit(X, Y)


def test_a_single_label_and_its_classes_join() -> None:
    y = np.array(["no", "yes"], dtype=object)[(X[:, 0] > 0).astype(int)]
    y[::7] = None
    model = in_batches(LowRankClassifier(**TIGHT), X, y, 100)
    assert_array_equal(model.predict(X), LowRankClassifier(**TIGHT).fit(X, y).predict(X))
    # Nothing was left to choose.
    assert model.batches_[1].chosen_anew is None
    with pytest.raises(InvalidLabelsError, match="fitted to the classes 'no' and 'yes'"):
        model.partial_fit(X[:2], np.array(["no", "maybe"], dtype=object))


# -- choices -------------------------------------------------------------------------------------------------


def test_penalties_are_kept_until_the_data_have_grown_or_drifted() -> None:
    problem = make_low_rank_labels(n=280, n_labels=5, observed=0.6, random_state=1)
    X, Y = problem.X, problem.Y_observed
    settings = {**QUICK, "trace_penalty": "auto", "threshold": "cross-fit", "random_state": 0}
    model = LowRankClassifier(**settings).partial_fit(X[:120], Y[:120])
    chosen, candidates = model.trace_penalty_, model.candidates_
    model.partial_fit(X[120:150], Y[120:150])
    batch = model.batches_[-1]
    assert (model.trace_penalty_, model.candidates_) == (chosen, candidates)
    assert (batch.chosen_anew, batch.drift) == (None, "no")
    low, high = batch.interval
    assert low < batch.metric < high
    model.partial_fit(X[150:200], Y[150:200])
    assert model.batches_[-1].chosen_anew == "growth"
    assert len(model.candidates_) > 0
    # All labels of the next batch are turned round.
    with pytest.warns(DriftWarning, match="below the interval"):
        model.partial_fit(X[200:280], 1 - Y[200:280])
    assert (model.batches_[-1].drift, model.batches_[-1].chosen_anew) == ("worse", "drift")
    assert model.batches_[-1].drifted


def test_labels_that_judge_go_on_judging(tmp_path: Any) -> None:
    some, fair = Y.copy(), np.random.RandomState(0).uniform(size=Y.shape) < 0.7
    fair[60:] = True
    # Labels that are no fair sample: the model learns from them, and is not judged by them.
    some[:60][~fair[:60]] = 1
    whole = LowRankClassifier(**HELD_OUT).fit(X, some, judged=fair)
    everything = LowRankClassifier(**HELD_OUT).fit(X, some)
    assert abs(whole.held_out_metric_ - everything.held_out_metric_) > 0.02
    model = LowRankClassifier(**HELD_OUT).partial_fit(X[:60], some[:60], judged=fair[:60])
    model.save(tmp_path / "model", with_data=True)
    model = labelgap.load(tmp_path / "model").partial_fit(X[60:], some[60:])
    assert model.batches_[-1].chosen_anew == "growth"
    assert model.held_out_metric_ == pytest.approx(whole.held_out_metric_, abs=1e-6)
    assert model.threshold_ == pytest.approx(whole.threshold_, abs=1e-3)
    # Where absent ones are a no, those of a label that comes later are a no that judges.
    complete, settings = np.nan_to_num(PROBLEM.Y), {**HELD_OUT, "unobserved": "negative"}
    complete[:60][~fair[:60]] = 1
    model = LowRankClassifier(**settings).partial_fit(X[:60], complete[:60, :5], judged=fair[:60, :5])
    model.partial_fit(X[60:], complete[60:])
    complete[:60, 5], fair[:60, 5] = 0, True
    whole = LowRankClassifier(**settings).fit(X, complete, judged=fair)
    assert model.held_out_metric_ == pytest.approx(whole.held_out_metric_, abs=1e-6)


def test_labels_of_a_batch_judge_if_they_are_new_or_said_to() -> None:
    nobody = np.zeros(Y.shape, dtype=bool)
    asked = np.isnan(Y) & (np.random.RandomState(0).uniform(size=Y.shape) < 0.6)
    fair, Y_asked = ~np.isnan(Y), np.where(asked, 1.0, Y)
    first = LowRankClassifier(**HELD_OUT).partial_fit(X, Y, row_ids=IDS)
    whole = LowRankClassifier(**HELD_OUT).fit(X, Y_asked, judged=fair)
    said = pickle.loads(pickle.dumps(first))
    said.partial_fit(X, np.where(asked, 1.0, np.nan), row_ids=IDS, judged=nobody)
    assert said.batches_[-1].chosen_anew == "growth"
    # None of it judges: neither the model before it nor the choice after it.
    assert said.batches_[-1].metric is None
    assert said.held_out_metric_ == pytest.approx(whole.held_out_metric_, abs=1e-6)
    # Handed in again, they stay what they were; new ones judge.
    again = pickle.loads(pickle.dumps(said)).partial_fit(X, Y_asked, row_ids=IDS)
    assert again.batches_[-1].repeated == np.isfinite(Y_asked).sum()
    assert again.held_out_metric_ == pytest.approx(said.held_out_metric_, abs=1e-6)
    unsaid = pickle.loads(pickle.dumps(first))
    with pytest.warns(DriftWarning):
        unsaid.partial_fit(X, np.where(asked, 1.0, np.nan), row_ids=IDS)
    everything = LowRankClassifier(**HELD_OUT).fit(X, Y_asked)
    assert unsaid.held_out_metric_ == pytest.approx(everything.held_out_metric_, abs=1e-6)
    assert abs(everything.held_out_metric_ - whole.held_out_metric_) > 0.02
    with pytest.raises(InvalidInputError, match="True or False"):
        first.partial_fit(X, Y, row_ids=IDS, judged=np.ones(Y.shape))


def test_a_batch_is_judged_by_the_model_before_it_on_entries_that_are_new() -> None:
    model = LowRankClassifier(**QUICK).partial_fit(X[:100], Y[:100], row_ids=IDS[:100])
    expected = clone(model).fit(X[:100], Y[:100]).score(X[100:], Y[100:])
    model.partial_fit(X[90:], Y[90:], row_ids=IDS[90:])
    assert model.batches_[1].metric == pytest.approx(expected)
    assert model.batches_[1].standard_error > 0
    # A batch of what was seen already cannot be judged.
    model.partial_fit(X[:5], Y[:5], row_ids=IDS[:5])
    assert model.batches_[2].metric is None
    assert model.batches_[2].repeated == np.isfinite(Y[:5]).sum()


def test_the_metric_of_a_union_has_an_error_too(tmp_path: Any) -> None:
    model = LowRankClassifier(**{**QUICK, "threshold": "cross-fit"}, random_state=0)
    first = model.partial_fit(X[:140], Y[:140]).held_out_error_
    model.partial_fit(X[140:], Y[140:])
    assert [batch.chosen_anew for batch in model.batches_] == ["first", None]
    assert 0.5 * first < model.held_out_error_ < 2 * first
    assert model.held_out_error_ != first
    model.save(tmp_path / "model.labelgap")
    assert labelgap.load(tmp_path / "model.labelgap").held_out_error_ == model.held_out_error_
    # It goes with what the next fit holds out, as the metric does.
    before = clone(model).fit(X[:140], Y[:140])
    assert model.fit(X[:140], Y[:140]).held_out_error_ == before.held_out_error_ == first


def test_thresholds_of_labels_and_landmarks_of_kernels_go_on() -> None:
    settings = {**QUICK, "threshold": "cross-fit", "calibration": "sigmoid", "random_state": 0}
    for thresholds in ("per-label", "shrunk"):
        model = in_batches(LowRankClassifier(**settings, thresholds=thresholds), X, Y, 120)
        assert model.thresholds_kind_ == thresholds
        assert model.thresholds_.shape == (6,)
        assert model.calibration_error_ is not None
        assert model.score(PROBLEM.X_test, PROBLEM.Y_test) > 0.6
    model = LowRankClassifier(**{**QUICK, "features": "rbf"}, random_state=0).partial_fit(X[:120], Y[:120])
    landmarks = model.feature_map_[-1].components_
    model.partial_fit(X[120:], Y[120:])
    assert model.feature_map_[-1].components_ is landmarks
    assert model.relative_gap_ <= 1e-3


# -- memory, saving, stopping --------------------------------------------------------------------------------


def test_a_sample_of_entries_is_bounded_and_close_to_the_whole() -> None:
    model = in_batches(LowRankClassifier(**QUICK, memory=200, random_state=0), X, Y, 40, 80, 120)
    whole = in_batches(LowRankClassifier(**QUICK), X, Y, 40, 80, 120)
    assert model.kept_bytes_ < whole.kept_bytes_
    assert model.relative_gap_ <= 1e-3
    test = PROBLEM.X_test, PROBLEM.Y_test
    assert abs(model.score(*test) - whole.score(*test)) < 0.1
    # The scales are those of all rows that were seen.
    settings = {**QUICK, "feature_scaling": "standard", "random_state": 0}
    uneven = X * np.linspace(0.2, 5, X.shape[1])
    model = in_batches(LowRankClassifier(**settings, memory=60), uneven, Y, 40, 80, 120)
    assert_allclose(
        model.feature_scales_, LowRankClassifier(**settings).fit(uneven, Y).feature_scales_, rtol=1e-8
    )


def test_data_of_a_fit_are_kept_where_they_are_asked_for(tmp_path: Any) -> None:
    nothing = LowRankClassifier(**QUICK, memory=None).fit(X[:100], Y[:100])
    assert (nothing.kept_bytes_, nothing.batches_) == (0, ())
    with pytest.raises(InvalidInputError, match="memory was None"):
        nothing.partial_fit(X, Y)
    model = LowRankClassifier(**QUICK).fit(X[:100], Y[:100])
    # Files and pickles of a plain fit do not hold the data, unless they are asked to.
    assert pickle.loads(pickle.dumps(model)).kept_bytes_ == 0
    model.save(tmp_path / "without.labelgap")
    assert labelgap.load(tmp_path / "without.labelgap").kept_bytes_ == 0
    model.save(tmp_path / "with.labelgap", with_data=True)
    again = labelgap.load(tmp_path / "with.labelgap")
    assert pickle.loads(pickle.dumps(again)).kept_bytes_ == model.kept_bytes_
    for each in (model, again):
        each.partial_fit(X[100:], Y[100:])
    assert len(model.batches_) == 2
    assert_array_equal(model.coef_, again.coef_)
    # A later fit begins anew.
    assert len(model.fit(X, Y).batches_) == 1


@pytest.mark.parametrize("memory", ["all", 150])
def test_a_saved_model_goes_on_as_the_one_in_memory_does(tmp_path: Any, memory: Any) -> None:
    model = LowRankClassifier(**QUICK, memory=memory, random_state=0, forget=3.0)
    model.partial_fit(X[:80], Y[:80], row_ids=IDS[:80])
    model.partial_fit(X[80:120], Y[80:120], row_ids=IDS[80:120], sample_weight=np.full(40, 2.0))
    model.save(tmp_path / "with.labelgap")
    model.save(tmp_path / "without.labelgap", with_data=False)
    assert (tmp_path / "with.labelgap").stat().st_size > (tmp_path / "without.labelgap").stat().st_size
    again = labelgap.load(tmp_path / "with.labelgap")
    assert again.batches_ == model.batches_
    for each in (model, again):
        each.partial_fit(X[120:], Y[120:], row_ids=IDS[120:])
    assert_array_equal(again.coef_, model.coef_)
    assert again.threshold_ == model.threshold_
    without = labelgap.load(tmp_path / "without.labelgap")
    assert len(without.batches_) == 2
    with pytest.raises(InvalidInputError, match="saved without them"):
        without.partial_fit(X[120:], Y[120:], row_ids=IDS[120:])


def test_batches_that_are_broken_off_or_refused_leave_the_model_as_it_was() -> None:
    model = LowRankClassifier(**QUICK).partial_fit(X[:100], Y[:100])
    before = dict(vars(model))

    def break_off(progress: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[100:], Y[100:], callback=break_off)
    assert vars(model) == before
    bad = Y[:10].copy()
    bad[3, 2] = 7
    table: dict[str, tuple[Any, str]] = {
        "a value": ((X[:10], bad), "row 3, column 2"),
        "fewer labels": ((X[:10], Y[:9]), "X has 10 rows and the labels have 9"),
        "fewer columns": ((X[:10], Y[:10, :3]), "give all columns"),
        "fewer features": ((X[:10, :2], Y[:10]), "features"),
        "ids": ((X[:10], Y[:10], [1, 2, 3]), "There are 3 row_ids for 10 rows"),
        "no index": ((X[:10], Y[:10], "index"), "'index' where X is a pandas frame"),
    }
    for case, ((features, labels, *ids), message) in table.items():
        given = {"row_ids": ids[0]} if ids else {}
        assert_refused(partial(model.partial_fit, features, labels, **given), message, case=case)
    assert vars(model) == before
    assert len(model.partial_fit(X[100:], Y[100:]).batches_) == 2
    for name, bad in (("forget", 0), ("memory", 0), ("memory", "some"), ("warm_start", "yes")):
        with pytest.raises(InvalidParameterError, match=f"{name} must be"):
            LowRankClassifier(**QUICK, **{name: bad}).fit(X, Y)


def test_warm_start_begins_at_the_present_model() -> None:
    for model in (
        LowRankClassifier(**TIGHT, warm_start=True),
        LowRankRegressor(**VALUES, tol=1e-6, warm_start=True),
    ):
        first = model.fit(X, Y).n_iter_
        assert model.fit(X, Y).n_iter_ < first
        assert model.relative_gap_ <= 1e-6
        # Another number of features or labels is no reason to fail.
        model.fit(X[:, :3], Y)
        model.fit(X[:, :3], Y[:, :4])


# -- values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_batches_of_values_end_where_one_fit_does(family: str) -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((160, 4))
    scores = X @ rng.standard_normal((4, 2)) @ rng.standard_normal((2, 5)) / 3
    hours = rng.uniform(1, 4, size=160)
    if family == "poisson":
        Y = rng.poisson(hours[:, None] * np.exp(scores)).astype(float)
    else:
        Y = 100 + 20 * (scores + 0.1 * rng.standard_normal(scores.shape))
    Y[rng.uniform(size=Y.shape) < 0.4] = np.nan
    settings = {**VALUES, "family": family, "tol": 1e-7}
    known = {"exposure": hours} if family == "poisson" else {}
    model = in_batches(LowRankRegressor(**settings), X, Y, 90, **known)
    whole = LowRankRegressor(**settings).fit(X, Y, **known)
    assert abs(model.objective_ - whole.objective_) <= model.duality_gap_ + whole.duality_gap_
    assert_allclose(model.decision_function(X), whole.decision_function(X), rtol=1e-2, atol=1e-2)
    assert 0 < model.batches_[1].metric < 1
    assert model.batches_[1].standard_error > 0


def test_rows_with_parameters_of_their_own_join_by_ids() -> None:
    rng = np.random.RandomState(0)
    Y = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 8)) + 0.1 * rng.standard_normal((40, 8))
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    settings = {**VALUES, "tol": 1e-6}
    model = LowRankRegressor(**settings).partial_fit(None, Y[:30], row_ids=IDS[:30])
    model.partial_fit(None, Y[20:], row_ids=IDS[20:40])
    whole = LowRankRegressor(**settings).fit(None, Y)
    assert abs(model.objective_ - whole.objective_) <= model.duality_gap_ + whole.duality_gap_
    assert model.predict().shape == (40, 8)
    assert model.batches_[1].repeated == np.isfinite(Y[20:30]).sum()
    with pytest.raises(InvalidFeaturesError, match="fitted without features"):
        model.partial_fit(np.ones((2, 3)), Y[:2])
    with pytest.raises(InvalidParameterError, match="without features"):
        LowRankRegressor(**settings, memory=10).partial_fit(None, Y)


@pytest.mark.slow
def test_values_choose_anew_when_they_have_grown(tmp_path: Any) -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((200, 4))
    Y = X @ rng.standard_normal((4, 3)) + rng.standard_normal((200, 3))
    model = LowRankRegressor(random_state=0, memory=300)
    model.partial_fit(X[:60], Y[:60])
    model.partial_fit(X[60:80], Y[60:80])
    model.save(tmp_path / "model.labelgap")
    model = labelgap.load(tmp_path / "model.labelgap")
    model.partial_fit(X[80:], Y[80:])
    assert [batch.chosen_anew for batch in model.batches_] == ["first", None, "growth"]
    assert model.relative_gap_ <= 1e-3


# -- what is new to a model of many rows ---------------------------------------------------------------------


def of_rank_two(n: int, n_labels: int = 12) -> Any:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 2)) @ rng.standard_normal((2, n_labels)) / 2


@pytest.mark.parametrize("corrected", [False, True])
def test_rows_with_parameters_of_their_own_are_placed_in_a_union_within_the_tolerance(
    corrected: bool,
) -> None:
    Z = of_rank_two(1000)
    settings: dict[str, Any] = {"trace_penalty": 0.001, "ridge_penalty": 0, "intercept_penalty": 0}
    n = len(Z) - 1
    model = LowRankRegressor(**settings, tol=1e-6).partial_fit(None, Z[:n], row_ids=list(range(n)))
    row, values = (0, -Z[:1]) if corrected else (n, Z[n:])
    model.set_params(tol=1e-2).partial_fit(None, values, row_ids=[row])
    assert model.n_iter_ == 0
    assert model.relative_gap_ <= 1e-2
    union = np.vstack([values, Z[1:n]]) if corrected else Z
    whole = LowRankRegressor(**settings, tol=1e-6).fit(None, union)
    assert_allclose(model.predict()[row], whole.predict()[row], atol=0.1 * np.abs(values).max())


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_an_identity_are_placed_in_a_union_within_the_tolerance(sparse: bool) -> None:
    Y = (of_rank_two(400) > 0).astype(float)
    X = sp.eye_array(len(Y), format="csr") if sparse else np.eye(len(Y))
    n = len(Y) - 1
    settings = {**QUICK, "trace_penalty": 0.0005, "ridge_penalty": 0, "random_state": 0}
    model = LowRankClassifier(**settings, tol=1e-5).partial_fit(X[:n], Y[:n])
    assert np.linalg.norm(model.coef_left_[n]) == 0
    model.set_params(tol=1e-2).partial_fit(X[n:], Y[n:])
    assert model.n_iter_ == 0
    wanted = LowRankClassifier(**settings, tol=1e-5).fit(X, Y).decision_function(X[n:])
    assert_allclose(model.decision_function(X[n:]), wanted, atol=0.1 * np.ptp(wanted))


def test_a_new_label_is_placed_in_a_union_within_the_tolerance() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 5))
    Y = (X @ rng.standard_normal((5, 2)) @ rng.standard_normal((2, 80)) > 0).astype(float)
    n, n_labels = 580, 79
    settings = {**QUICK, "trace_penalty": 0.002, "ridge_penalty": 0, "random_state": 0}
    model = LowRankClassifier(**settings, tol=1e-5).partial_fit(X[:n], Y[:n, :n_labels])
    model.set_params(tol=1e-2).partial_fit(X[n:], Y[n:])
    assert model.n_iter_ == 0
    union = Y.copy()
    union[:n, n_labels] = np.nan
    wanted = LowRankClassifier(**settings, tol=1e-5).fit(X, union).coef_[:, n_labels]
    assert np.linalg.norm(model.coef_[:, n_labels] - wanted) <= 0.1 * np.linalg.norm(wanted)
