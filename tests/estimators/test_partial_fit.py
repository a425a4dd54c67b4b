"""Batches against one fit to all of them: objective, decisions, corrections, weights, and what is kept."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import labelgap
from labelgap import LowRankClassifier, LowRankRegressor
from labelgap.data import make_low_rank_labels
from labelgap.estimators.description import describe
from labelgap.exceptions import (
    DriftWarning,
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
)

# The penalties are given, and the threshold comes from training scores: one fit per batch.
QUICK = {
    "trace_penalty": 0.01,
    "ridge_penalty": 0.001,
    "intercept_penalty": 0,
    "threshold": "train",
    "features": "linear",
    "label_weighting": 0,
}
VALUES = {"trace_penalty": 0.05, "ridge_penalty": 0.001, "intercept_penalty": 0}
TIGHT = {**QUICK, "tol": 1e-6}


@pytest.fixture(scope="module")
def data():
    problem = make_low_rank_labels(n=160, n_labels=6, observed=0.5, noise=True, n_test=200, random_state=0)
    return problem


def assert_same_model(one, two):
    """Both are within their gaps of the same optimum, and score alike."""
    assert abs(one.objective_ - two.objective_) <= one.duality_gap_ + two.duality_gap_ + 1e-12
    np.testing.assert_allclose(one.coef_, two.coef_, atol=0.02)
    np.testing.assert_allclose(one.intercept_, two.intercept_, atol=0.02)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("settings", [{}, {"feature_scaling": "standard"}, {"intercept_penalty": 0.01}])
def test_batches_end_where_one_fit_to_all_of_them_does(data, sparse, settings):
    X = sp.csr_array(np.where(np.abs(data.X) < 0.5, 0.0, data.X)) if sparse else data.X
    whole = LowRankClassifier(**{**TIGHT, **settings}).fit(X, data.Y_observed)
    model = LowRankClassifier(**{**TIGHT, **settings})
    for rows in (slice(0, 90), slice(90, 95), slice(95, 160)):
        assert model.partial_fit(X[rows], data.Y_observed[rows]) is model
    assert_same_model(model, whole)
    assert model.relative_gap_ <= 1e-6
    assert [batch.new_rows for batch in model.batches_] == [90, 5, 65]
    assert sum(batch.added for batch in model.batches_) == np.isfinite(data.Y_observed).sum()
    assert model.threshold_ == pytest.approx(whole.threshold_, abs=0.02)


def test_order_of_disjoint_batches_does_not_matter(data):
    X, Y = data.X, data.Y_observed
    parts = [slice(0, 60), slice(60, 100), slice(100, 160)]
    models = []
    for order in ([0, 1, 2], [2, 0, 1]):
        model = LowRankClassifier(**TIGHT)
        for part in order:
            model.partial_fit(X[parts[part]], Y[parts[part]])
        models.append(model)
    assert_same_model(*models)


@pytest.mark.parametrize("weighting", [0.0, 1.0])
def test_more_entries_corrections_and_new_labels_join_by_ids_and_names(data, weighting):
    pandas = pytest.importorskip("pandas")
    names = list("abcdef")
    truth = pandas.DataFrame(data.Y_observed, columns=names, index=[f"r{i}" for i in range(160)])
    early = truth.iloc[:120, :4].copy()
    wrong = early.stack().dropna().index[:7]
    for row, name in wrong:
        early.loc[row, name] = 1 - early.loc[row, name]
    settings = {**TIGHT, "label_weighting": weighting}
    features = pandas.DataFrame(data.X, index=truth.index, columns=[f"x{j}" for j in range(data.X.shape[1])])
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
    np.testing.assert_allclose(scores, whole.decision_function(features), atol=0.02)


def test_features_of_a_row_that_comes_again_are_the_later_ones(data):
    X, Y = data.X, data.Y_observed
    ids = np.arange(160)
    old = X.copy()
    old[:30] += 1.0
    model = LowRankClassifier(**TIGHT).partial_fit(old, Y, row_ids=ids)
    model.partial_fit(X[:30], Y[:30], row_ids=ids[:30])
    assert_same_model(model, LowRankClassifier(**TIGHT).fit(X, Y))


def test_forgetting_equals_explicit_weights_of_entries(data):
    X, Y = data.X, data.Y_observed
    parts = [slice(0, 60), slice(60, 110), slice(110, 160)]
    model = LowRankClassifier(**TIGHT, forget=2.0)
    for part in parts:
        model.partial_fit(X[part], Y[part])
    ages = np.repeat([2, 1, 0], [60, 50, 50])
    whole = LowRankClassifier(**TIGHT).fit(X, Y, sample_weight=2.0 ** (-ages / 2.0))
    assert_same_model(model, whole)


def test_sample_weights_and_propensities_come_with_each_batch(data):
    X, Y = data.X, data.Y_observed
    rng = np.random.RandomState(0)
    weights = rng.choice([0.0, 1.0, 2.0], size=160)
    chances = rng.uniform(0.3, 0.9, size=Y.shape)
    settings = {**TIGHT, "weights": "inverse-propensity"}
    model = LowRankClassifier(**settings)
    for part in (slice(0, 100), slice(100, 160)):
        ids = np.arange(160)[part]
        model.partial_fit(
            X[part], Y[part], row_ids=ids, sample_weight=weights[part], propensities=chances[part]
        )
    whole = LowRankClassifier(**settings).fit(X, Y, sample_weight=weights, propensities=chances)
    assert_same_model(model, whole)
    with pytest.raises(InvalidParameterError, match="have propensities and this one has none"):
        model.partial_fit(X[:5], Y[:5])
    with pytest.raises(InvalidParameterError, match="from which propensities cannot be estimated"):
        LowRankClassifier(**settings, memory=50).fit(X, Y)


def test_absent_labels_that_are_a_no_join_too(data):
    Y = sp.csr_array(np.nan_to_num(data.Y_observed))
    settings = {**TIGHT, "unobserved": "negative"}
    model = LowRankClassifier(**settings)
    for part in (slice(0, 100), slice(100, 160)):
        model.partial_fit(data.X[part], Y[part])
    assert_same_model(model, LowRankClassifier(**settings).fit(data.X, Y))


def test_recorded_positives_join_too(data):
    Y = sp.csr_array(np.nan_to_num(data.Y_observed))
    settings = {**QUICK, "unobserved": "unlabelled", "flip_rate": 0.4, "loss": "squared", "tol": 1e-5}
    model = LowRankClassifier(**settings)
    for part in (slice(0, 100), slice(100, 160)):
        model.partial_fit(data.X[part], Y[part])
    assert_same_model(model, LowRankClassifier(**settings).fit(data.X, Y))
    with pytest.raises(InvalidParameterError, match="weighs entries"):
        model.set_params(forget=2.0).partial_fit(data.X[:5], Y[:5])


# -- choices -------------------------------------------------------------------------------------------------


def test_penalties_are_kept_until_the_data_have_grown_or_drifted():
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
    # The held-out scores of both are what the threshold is chosen on.
    kept = model._kept_data
    assert not np.isnan(kept.held_out).any()
    yes = kept.held_out >= model.threshold_
    assert model.held_out_metric_ == pytest.approx(model.metric_(kept.labels, yes))
    model.partial_fit(X[150:200], Y[150:200])
    assert model.batches_[-1].chosen_anew == "growth"
    assert len(model.candidates_) > 0
    assert model._kept_data.chosen_at == np.isfinite(Y[:200]).sum()
    # All labels of the next batch are turned round.
    with pytest.warns(DriftWarning, match="below the interval"):
        model.partial_fit(X[200:280], 1 - Y[200:280])
    assert (model.batches_[-1].drift, model.batches_[-1].chosen_anew) == ("worse", "drift")
    assert model.batches_[-1].drifted


def test_labels_that_judge_go_on_judging(data, tmp_path):
    X, Y, settings = data.X, data.Y_observed.copy(), {**TIGHT, "threshold": "cross-fit", "random_state": 0}
    fair = np.random.RandomState(0).uniform(size=Y.shape) < 0.5
    fair[60:] = True
    # Labels that are no fair sample: the model learns from them, and is not judged by them.
    Y[:60][~fair[:60]] = 1
    whole = LowRankClassifier(**settings).fit(X, Y, judged=fair)
    everything = LowRankClassifier(**settings).fit(X, Y)
    assert abs(whole.held_out_metric_ - everything.held_out_metric_) > 0.02
    model = LowRankClassifier(**settings).partial_fit(X[:60], Y[:60], judged=fair[:60])
    model.save(tmp_path / "model", with_data=True)
    model = labelgap.load(tmp_path / "model").partial_fit(X[60:], Y[60:])
    assert model.batches_[-1].chosen_anew == "growth"
    assert model.held_out_metric_ == pytest.approx(whole.held_out_metric_, abs=1e-6)
    assert model.threshold_ == pytest.approx(whole.threshold_, abs=1e-3)


def test_labels_of_a_batch_judge_if_they_are_new_or_said_to(data):
    X, Y, settings = data.X, data.Y_observed.copy(), {**TIGHT, "threshold": "cross-fit", "random_state": 0}
    ids, nobody = np.arange(len(X)), np.zeros(Y.shape, dtype=bool)
    asked = np.isnan(Y) & (np.random.RandomState(0).uniform(size=Y.shape) < 0.6)
    fair, Y_asked = ~np.isnan(Y), np.where(asked, 1.0, Y)
    first = LowRankClassifier(**settings).partial_fit(X, Y, row_ids=ids)
    whole = LowRankClassifier(**settings).fit(X, Y_asked, judged=fair)
    said = pickle.loads(pickle.dumps(first)).partial_fit(
        X, np.where(asked, 1.0, np.nan), row_ids=ids, judged=nobody
    )
    assert said.batches_[-1].chosen_anew == "growth"
    # None of it judges: neither the model before it nor the choice after it.
    assert said.batches_[-1].metric is None
    assert said.held_out_metric_ == pytest.approx(whole.held_out_metric_, abs=1e-6)
    # Handed in again, they stay what they were; new ones judge.
    again = pickle.loads(pickle.dumps(said)).partial_fit(X, Y_asked, row_ids=ids)
    assert again.batches_[-1].repeated == np.isfinite(Y_asked).sum()
    assert again.held_out_metric_ == pytest.approx(said.held_out_metric_, abs=1e-6)
    unsaid = pickle.loads(pickle.dumps(first))
    with pytest.warns(DriftWarning):
        unsaid.partial_fit(X, np.where(asked, 1.0, np.nan), row_ids=ids)
    everything = LowRankClassifier(**settings).fit(X, Y_asked)
    assert unsaid.held_out_metric_ == pytest.approx(everything.held_out_metric_, abs=1e-6)
    assert abs(everything.held_out_metric_ - whole.held_out_metric_) > 0.02
    with pytest.raises(InvalidInputError, match="True or False"):
        first.partial_fit(X, Y, row_ids=ids, judged=np.ones(Y.shape))


def test_labels_that_judge_join_where_absent_ones_are_a_no(data):
    X, Y, settings = data.X, np.nan_to_num(data.Y), {**TIGHT, "threshold": "cross-fit", "random_state": 0}
    fair = np.random.RandomState(0).uniform(size=Y.shape) < 0.5
    Y[:60][~fair[:60]] = 1
    settings["unobserved"] = "negative"
    fair[60:] = True
    model = LowRankClassifier(**settings).partial_fit(X[:60], Y[:60, :5], judged=fair[:60, :5])
    model.partial_fit(X[60:], Y[60:])
    wide = Y.copy()
    wide[:60, 5], fair[:60, 5] = 0, True
    whole = LowRankClassifier(**settings).fit(X, wide, judged=fair)
    assert model.held_out_metric_ == pytest.approx(whole.held_out_metric_, abs=1e-6)


def test_a_single_label_and_its_classes_join(data):
    y = np.array(["no", "yes"], dtype=object)[(data.X[:, 0] > 0).astype(int)]
    y[::7] = None
    model = LowRankClassifier(**TIGHT)
    for part in (slice(0, 100), slice(100, 160)):
        model.partial_fit(data.X[part], y[part])
    whole = LowRankClassifier(**TIGHT).fit(data.X, y)
    assert np.array_equal(model.predict(data.X), whole.predict(data.X))
    # Nothing was left to choose.
    assert model.batches_[1].chosen_anew is None
    with pytest.raises(InvalidLabelsError, match="fitted to the classes 'no' and 'yes'"):
        model.partial_fit(data.X[:2], np.array(["no", "maybe"], dtype=object))


@pytest.mark.parametrize("settings", [{"penalty": "scores"}, {"score_bound": 2.0, "tol": 1e-5}])
def test_other_penalties_and_bounds_hold_on_the_union(data, settings):
    model = LowRankClassifier(**{**TIGHT, **settings})
    for part in (slice(0, 120), slice(120, 160)):
        model.partial_fit(data.X[part], data.Y_observed[part])
    assert_same_model(model, LowRankClassifier(**{**TIGHT, **settings}).fit(data.X, data.Y_observed))


def test_landmarks_of_a_kernel_stay(data):
    model = LowRankClassifier(**{**QUICK, "features": "rbf"}, random_state=0)
    model.partial_fit(data.X[:120], data.Y_observed[:120])
    landmarks = model.feature_map_[-1].components_
    model.partial_fit(data.X[120:], data.Y_observed[120:])
    assert model.feature_map_[-1].components_ is landmarks
    assert model.relative_gap_ <= 1e-3


def test_batch_is_judged_by_the_model_before_it_on_entries_that_are_new(data):
    X, Y = data.X, data.Y_observed
    model = LowRankClassifier(**QUICK).partial_fit(X[:100], Y[:100], row_ids=np.arange(100))
    before = clone(model).fit(X[:100], Y[:100])
    expected = before.score(X[100:], Y[100:])
    seen = Y[90:].copy()
    model.partial_fit(X[90:], seen, row_ids=np.arange(90, 160))
    assert model.batches_[1].metric == pytest.approx(expected)
    assert model.batches_[1].standard_error > 0
    # A batch of what was seen already cannot be judged.
    model.partial_fit(X[:5], Y[:5], row_ids=np.arange(5))
    assert model.batches_[2].metric is None
    assert model.batches_[2].repeated == np.isfinite(Y[:5]).sum()


def test_the_metric_of_a_union_has_an_error_too(data, tmp_path):
    X, Y = data.X, data.Y_observed
    model = LowRankClassifier(**{**QUICK, "threshold": "cross-fit"}, random_state=0)
    first = model.partial_fit(X[:140], Y[:140]).held_out_error_
    model.partial_fit(X[140:], Y[140:])
    assert [batch.chosen_anew for batch in model.batches_] == ["first", None]
    assert 0.5 * first < model.held_out_error_ < 2 * first
    assert model.held_out_error_ != first
    low, high = describe(model)["held_out"]["interval"]
    assert low < model.held_out_metric_ < high
    model.save(tmp_path / "model.labelgap")
    assert labelgap.load(tmp_path / "model.labelgap").held_out_error_ == model.held_out_error_
    # It goes with what the next fit holds out, as the metric does.
    before = clone(model).fit(X[:140], Y[:140])
    assert model.fit(X[:140], Y[:140]).held_out_error_ == before.held_out_error_ == first


@pytest.mark.parametrize("thresholds", ["per-label", "shrunk"])
def test_thresholds_of_labels_follow_the_held_out_scores(data, thresholds):
    settings = {**QUICK, "threshold": "cross-fit", "thresholds": thresholds, "calibration": "sigmoid"}
    model = LowRankClassifier(**settings, random_state=0)
    for part in (slice(0, 120), slice(120, 160)):
        model.partial_fit(data.X[part], data.Y_observed[part])
    assert model.thresholds_kind_ == thresholds
    assert model.thresholds_.shape == (6,)
    assert model.calibration_error_ is not None
    assert model.score(data.X_test, data.Y_test) > 0.6


# -- memory --------------------------------------------------------------------------------------------------


def test_sample_of_entries_is_bounded_and_close_to_the_whole(data):
    X, Y = data.X, data.Y_observed
    model = LowRankClassifier(**QUICK, memory=200, random_state=0)
    for start in range(0, 160, 40):
        model.partial_fit(X[start : start + 40], Y[start : start + 40])
    kept = model._kept_data
    assert kept.labels.n_observed == 200
    assert kept.X.shape[0] == kept.labels.shape[0] == kept.rows.n_rows <= 160
    # The sample stands for all entries, and the moments for all rows.
    assert kept.labels.weights.sum() == pytest.approx(np.isfinite(Y).sum(), rel=1e-9)
    total = kept.gone.n_rows + kept.X.shape[0]
    assert total == 160
    whole = LowRankClassifier(**QUICK).fit(X, Y)
    assert model.relative_gap_ <= 1e-3
    assert abs(model.score(data.X_test, data.Y_test) - whole.score(data.X_test, data.Y_test)) < 0.1


def test_scales_of_the_features_are_those_of_all_rows_that_were_seen(data):
    settings = {**QUICK, "feature_scaling": "standard", "random_state": 0}
    X = data.X * np.linspace(0.2, 5, data.X.shape[1])
    model = LowRankClassifier(**settings, memory=60)
    for start in range(0, 160, 40):
        model.partial_fit(X[start : start + 40], data.Y_observed[start : start + 40])
    whole = LowRankClassifier(**settings).fit(X, data.Y_observed)
    np.testing.assert_allclose(model.feature_scales_, whole.feature_scales_, rtol=1e-8)


def test_data_of_a_fit_are_kept_by_reference_or_not_at_all(data, tmp_path):
    X, Y = data.X[:100], data.Y_observed[:100]
    nothing = LowRankClassifier(**QUICK, memory=None).fit(X, Y)
    assert nothing.kept_bytes_ == 0
    assert nothing.batches_ == ()
    with pytest.raises(InvalidInputError, match="memory was None"):
        nothing.partial_fit(X, Y)
    model = LowRankClassifier(**QUICK).fit(X, Y)
    assert np.shares_memory(model._kept_data.X, X)
    # Files and pickles of a plain fit do not hold the data, unless they are asked to.
    assert pickle.loads(pickle.dumps(model))._kept_data is None
    model.save(tmp_path / "without.labelgap")
    assert labelgap.load(tmp_path / "without.labelgap").kept_bytes_ == 0
    model.save(tmp_path / "with.labelgap", with_data=True)
    again = labelgap.load(tmp_path / "with.labelgap")
    assert pickle.loads(pickle.dumps(again)).kept_bytes_ == model.kept_bytes_
    for each in (model, again):
        each.partial_fit(data.X[100:], data.Y_observed[100:])
    assert len(model.batches_) == 2
    assert np.array_equal(model.coef_, again.coef_)
    # A later fit begins anew.
    assert len(model.fit(X, Y).batches_) == 1


# -- saving, stopping, refusing ------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["all", 150])
def test_saved_model_goes_on_as_the_one_in_memory_does(data, tmp_path, memory):
    X, Y = data.X, data.Y_observed
    model = LowRankClassifier(**QUICK, memory=memory, random_state=0, forget=3.0)
    model.partial_fit(X[:80], Y[:80], row_ids=np.arange(80))
    model.partial_fit(X[80:120], Y[80:120], row_ids=np.arange(80, 120), sample_weight=np.full(40, 2.0))
    model.save(tmp_path / "with.labelgap")
    model.save(tmp_path / "without.labelgap", with_data=False)
    assert (tmp_path / "with.labelgap").stat().st_size > (tmp_path / "without.labelgap").stat().st_size
    again = labelgap.load(tmp_path / "with.labelgap")
    assert again.batches_ == model.batches_
    rest = X[120:], Y[120:]
    for each in (model, again):
        each.partial_fit(*rest, row_ids=np.arange(120, 160))
    assert np.array_equal(again.coef_, model.coef_)
    assert again.threshold_ == model.threshold_
    without = labelgap.load(tmp_path / "without.labelgap")
    assert len(without.batches_) == 2
    with pytest.raises(InvalidInputError, match="saved without them"):
        without.partial_fit(*rest)


def test_batch_that_is_broken_off_leaves_the_model_as_it_was(data):
    X, Y = data.X, data.Y_observed
    model = LowRankClassifier(**QUICK).partial_fit(X[:100], Y[:100])
    before = dict(vars(model))

    def break_off(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[100:], Y[100:], callback=break_off)
    assert vars(model) == before
    bad = Y[100:].copy()
    bad[3, 2] = 7
    with pytest.raises(InvalidLabelsError, match="row 3, column 2"):
        model.partial_fit(X[100:], bad)
    assert vars(model) == before
    model.partial_fit(X[100:], Y[100:])
    assert len(model.batches_) == 2


def test_batches_that_do_not_fit_are_refused(data):
    X, Y = data.X, data.Y_observed
    model = LowRankClassifier(**QUICK).partial_fit(X[:100], Y[:100])
    with pytest.raises(InvalidLabelsError, match="X has 10 rows and the labels have 9"):
        model.partial_fit(X[:10], Y[:9])
    with pytest.raises(InvalidLabelsError, match="give all columns"):
        model.partial_fit(X[:10], Y[:10, :3])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:10, :2], Y[:10])
    with pytest.raises(InvalidInputError, match="There are 3 row_ids for 10 rows"):
        model.partial_fit(X[:10], Y[:10], row_ids=[1, 2, 3])
    with pytest.raises(InvalidParameterError, match="'index' where X is a pandas frame"):
        model.partial_fit(X[:10], Y[:10], row_ids="index")
    for name, bad in (("forget", 0), ("memory", 0), ("memory", "some"), ("warm_start", "yes")):
        with pytest.raises(InvalidParameterError, match=f"{name} must be"):
            LowRankClassifier(**QUICK, **{name: bad}).fit(X, Y)


def test_warm_start_begins_at_the_present_model(data):
    X, Y = data.X, data.Y_observed
    for model in (
        LowRankClassifier(**{**TIGHT, "warm_start": True}),
        LowRankRegressor(**VALUES, tol=1e-6, warm_start=True),
    ):
        first = model.fit(X, Y).n_iter_
        again = model.fit(X, Y).n_iter_
        assert again < first
        assert model.relative_gap_ <= 1e-6
        # Another number of features or labels is no reason to fail.
        model.fit(X[:, :3], Y)
        model.fit(X[:, :3], Y[:, :4])


# -- values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_batches_of_values_end_where_one_fit_does(family):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((150, 4))
    scores = X @ rng.standard_normal((4, 2)) @ rng.standard_normal((2, 5)) / 3
    hours = rng.uniform(1, 4, size=150)
    if family == "poisson":
        Y = rng.poisson(hours[:, None] * np.exp(scores)).astype(float)
    else:
        Y = 100 + 20 * (scores + 0.1 * rng.standard_normal(scores.shape))
    Y[rng.uniform(size=Y.shape) < 0.4] = np.nan
    settings = {**VALUES, "family": family, "tol": 1e-7}
    known = {"exposure": hours} if family == "poisson" else {}
    model = LowRankRegressor(**settings)
    for part in (slice(0, 90), slice(90, 150)):
        model.partial_fit(X[part], Y[part], **{name: value[part] for name, value in known.items()})
    whole = LowRankRegressor(**settings).fit(X, Y, **known)
    assert abs(model.objective_ - whole.objective_) <= model.duality_gap_ + whole.duality_gap_
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), rtol=1e-2, atol=1e-2)
    assert 0 < model.batches_[1].metric < 1
    assert model.batches_[1].standard_error > 0


def test_rows_with_parameters_of_their_own_join_by_ids():
    rng = np.random.RandomState(0)
    Y = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 8)) + 0.1 * rng.standard_normal((40, 8))
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    settings = {**VALUES, "tol": 1e-6}
    model = LowRankRegressor(**settings).partial_fit(None, Y[:30], row_ids=np.arange(30))
    model.partial_fit(None, Y[20:], row_ids=np.arange(20, 40))
    whole = LowRankRegressor(**settings).fit(None, Y)
    assert abs(model.objective_ - whole.objective_) <= model.duality_gap_ + whole.duality_gap_
    assert model.predict().shape == (40, 8)
    assert model.batches_[1].repeated == np.isfinite(Y[20:30]).sum()
    with pytest.raises(InvalidFeaturesError, match="fitted without features"):
        model.partial_fit(np.ones((2, 3)), Y[:2])
    with pytest.raises(InvalidParameterError, match="without features"):
        LowRankRegressor(**settings, memory=10).partial_fit(None, Y)


@pytest.mark.slow
def test_values_choose_anew_when_they_have_grown(tmp_path):
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
    assert model._kept_data.labels.n_observed == 300
    assert model.relative_gap_ <= 1e-3


# -- what is new to a model of many rows ---------------------------------------------------------------------


def _of_many_rows(n=400, n_labels=12):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 2)) @ rng.standard_normal((2, n_labels)) / 2


@pytest.mark.parametrize("corrected", [False, True])
def test_rows_with_parameters_of_their_own_are_placed_in_a_union_within_the_tolerance(corrected):
    Z = _of_many_rows(1000)
    settings = {"trace_penalty": 0.001, "ridge_penalty": 0, "intercept_penalty": 0, "random_state": 0}
    n = len(Z) - 1
    model = LowRankRegressor(**settings, tol=1e-6).partial_fit(None, Z[:n], row_ids=list(range(n)))
    row, values = (0, -Z[:1]) if corrected else (n, Z[n:])
    model.set_params(tol=1e-2).partial_fit(None, values, row_ids=[row])
    assert model.n_iter_ == 0
    assert model.relative_gap_ <= 1e-2
    union = np.vstack([values, Z[1:n]]) if corrected else Z
    whole = LowRankRegressor(**settings, tol=1e-6).fit(None, union)
    left, right, intercept = model.coef_left_, model.coef_right_, model.intercept_
    np.testing.assert_allclose(
        left[row] @ right.T + intercept,
        whole.coef_left_[row] @ whole.coef_right_.T + whole.intercept_,
        atol=0.1 * np.abs(values).max(),
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_an_identity_are_placed_in_a_union_within_the_tolerance(sparse):
    Y = (_of_many_rows() > 0).astype(float)
    X = sp.eye_array(len(Y), format="csr") if sparse else np.eye(len(Y))
    n = len(Y) - 1
    settings = {**QUICK, "trace_penalty": 0.0005, "ridge_penalty": 0, "random_state": 0}
    model = LowRankClassifier(**settings, tol=1e-5).partial_fit(X[:n], Y[:n])
    assert np.linalg.norm(model.coef_left_[n]) == 0
    model.set_params(tol=1e-2).partial_fit(X[n:], Y[n:])
    assert model.n_iter_ == 0
    whole = LowRankClassifier(**settings, tol=1e-5).fit(X, Y)
    wanted = whole.decision_function(X[n:])
    np.testing.assert_allclose(model.decision_function(X[n:]), wanted, atol=0.1 * np.ptp(wanted))


def test_a_new_label_is_placed_in_a_union_within_the_tolerance():
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
    whole = LowRankClassifier(**settings, tol=1e-5).fit(X, union)
    wanted = whole.coef_[:, n_labels]
    assert np.linalg.norm(model.coef_[:, n_labels] - wanted) <= 0.1 * np.linalg.norm(wanted)
