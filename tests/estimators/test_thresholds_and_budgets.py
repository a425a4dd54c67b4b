"""Thresholds per label, bounds and budgets in the estimators, and in everything that is made of them."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import labelgap
from labelgap import (
    Budget,
    LowRankClassifier,
    MetricThreshold,
    ObservedLabels,
    PlugInClassifier,
    Recommender,
)
from labelgap.decisions import best_decisions
from labelgap.estimators.deciding import relative_scores
from labelgap.exceptions import (
    InfeasibleConstraintError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
    InvalidScoresError,
    TrivialDecisionsWarning,
    UnknownNameError,
)
from labelgap.metrics import get_metric, trivial_values
from labelgap.thresholds import best_label_thresholds, best_threshold
from labelgap.thresholds.cross_fit import HeldOutScores
from labelgap.thresholds.sweep import steady_threshold

KINDS = ("per-label", "shrunk", "auto")


def rates_apart(n=240, seed=0):
    """Features, complete labels of very different rates, and labels with gaps."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    Z = X @ rng.standard_normal((4, 5)) + rng.standard_normal((n, 5)) + np.array([1.5, 0, -1, -2, -2.5])
    Y = (Z > 0).astype(float)
    gaps = Y.copy()
    gaps[rng.random(Y.shape) < 0.4] = np.nan
    return X, Y, gaps


X, Y, GAPS = rates_apart()
MODELS = {
    "low-rank": lambda **given: LowRankClassifier(
        trace_penalty=0.002, ridge_penalty=0.001, intercept_penalty=0.0, random_state=0, **given
    ),
    "plug-in": lambda **given: PlugInClassifier(random_state=0, **given),
    "metric-threshold": lambda **given: MetricThreshold(
        __import__("sklearn.linear_model", fromlist=["x"]).LogisticRegression(), random_state=0, **given
    ),
}


@pytest.fixture(scope="module")
def fits():
    """Each model with thresholds shrunk, fitted once."""
    return {name: make(metric="macro-f1", thresholds="shrunk").fit(X, GAPS) for name, make in MODELS.items()}


@pytest.mark.parametrize("name", MODELS)
def test_thresholds_decide_everywhere(name, fits, tmp_path):
    model = fits[name]
    assert model.thresholds_kind_ == "shrunk"
    assert model.thresholds_.shape == (5,)
    assert len(set(model.thresholds_.tolist())) > 1
    expected = (model.decision_function(X) >= model.thresholds_).astype(np.int8)
    np.testing.assert_array_equal(model.predict(X), expected)
    np.testing.assert_array_equal(model.predict(X, output="sparse").toarray(), expected)
    assert model.score(X, GAPS) == get_metric("macro-f1")(GAPS, expected)
    model.save(tmp_path / "model.labelgap")
    again = labelgap.load(tmp_path / "model.labelgap")
    np.testing.assert_array_equal(again.thresholds_, model.thresholds_)
    np.testing.assert_array_equal(again.predict(X), expected)
    assert again.get_params()["thresholds"] == "shrunk"


@pytest.mark.parametrize("name", MODELS)
def test_shared_is_repeated_for_each_label(name):
    model = MODELS[name](metric="micro-f1").fit(X, GAPS)
    assert model.thresholds_kind_ == "shared"
    assert (model.thresholds_ == model.threshold_).all()
    # Who sets another threshold gets the decisions of that one.
    model.threshold_ = 0
    np.testing.assert_array_equal(model.predict(X), (model.decision_function(X) >= 0).astype(np.int8))


@pytest.mark.parametrize("kind", KINDS)
def test_given_scores(kind):
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((100, 3)) + 3 * Y[:100, :3] + [0, 3, 6]
    cut = MetricThreshold(metric="macro-f1", thresholds=kind).fit(scores, Y[:100, :3])
    assert cut.thresholds_kind_ == ("shrunk" if kind == "shrunk" else cut.thresholds_kind_) != "shared"
    assert cut.best_score_ == pytest.approx(cut.score(scores, Y[:100, :3]))
    shared = MetricThreshold(metric="macro-f1").fit(scores, Y[:100, :3])
    assert cut.best_score_ > shared.best_score_
    if kind == "per-label":
        exact = best_label_thresholds(scores, Y[:100, :3], "macro-f1")
        np.testing.assert_array_equal(cut.thresholds_, exact.thresholds)


def test_training_scores_have_thresholds_too():
    model = MODELS["low-rank"](metric="macro-f1", thresholds="per-label", threshold="train").fit(X, GAPS)
    exact = best_label_thresholds(model.decision_function(X), GAPS, "macro-f1")
    np.testing.assert_allclose(model.thresholds_, exact.thresholds, rtol=1e-12)


def test_a_second_fit_forgets_the_thresholds_of_the_first():
    model = MODELS["plug-in"](metric="macro-f1", thresholds="per-label").fit(X, GAPS)
    model.set_params(thresholds="shared").fit(X, GAPS)
    assert model.thresholds_kind_ == "shared"
    assert (model.thresholds_ == model.threshold_).all()


def test_damaged_thresholds_are_refused(fits, tmp_path):
    damaged = copy.copy(fits["plug-in"])
    damaged._label_thresholds = np.array([0.1, np.nan, 0.1, 0.1, 0.1])
    with pytest.raises(NotFittedError, match="thresholds of its labels are no numbers"):
        damaged.save(tmp_path / "model.labelgap")
    damaged._label_thresholds = np.array([0.1])
    with pytest.raises(NotFittedError, match="5 labels and thresholds for 1"):
        damaged.save(tmp_path / "model.labelgap")


def test_a_single_label_has_one_threshold():
    model = PlugInClassifier(thresholds="auto").fit(X, Y[:, 1])
    assert model.thresholds_kind_ == "shared"
    assert model.predict(X).shape == (len(X),)


def test_a_resumed_fit_has_the_same_thresholds(tmp_path):
    make = MODELS["low-rank"]
    first = make(metric="macro-f1", thresholds="shrunk").fit(X, GAPS, checkpoint=tmp_path / "kept")
    again = make(metric="macro-f1", thresholds="shrunk").fit(X, GAPS, checkpoint=tmp_path / "kept")
    np.testing.assert_array_equal(again.thresholds_, first.thresholds_)
    assert again.thresholds_kind_ == "shrunk"
    assert again.held_out_metric_ == first.held_out_metric_


def test_scores_relative_to_the_thresholds_decide_alike(fits):
    model = fits["low-rank"]
    labels = ObservedLabels.from_dense(GAPS)
    scores = model._score_entries(X, labels)
    moved, shared = relative_scores(model, scores, labels.indices)
    np.testing.assert_array_equal(moved >= shared, scores >= model.thresholds_[labels.indices])
    odd = copy.copy(model)
    odd._set_thresholds(np.inf, np.array([np.inf, -np.inf, 0.0, 0.1, 0.3]), "per-label", HeldOutScores())
    extreme = np.where(np.arange(len(scores)) % 7 == 0, np.inf, scores)
    moved, shared = relative_scores(odd, extreme, labels.indices)
    np.testing.assert_array_equal(moved >= shared, extreme >= odd.thresholds_[labels.indices])


def test_the_report_and_the_curve_are_about_these_decisions(fits):
    from labelgap.report.collect import collect
    from labelgap.report.displays.entries import scored_entries

    model = fits["plug-in"]
    figures = collect(model, X, GAPS)
    assert figures["models"][0]["value"] == pytest.approx(model.score(X, GAPS))
    assert figures["models"][0]["probabilities"] is None
    entries = scored_entries(model, X, GAPS)
    assert entries.metric(entries.labels, entries.scores >= entries.threshold) == model.score(X, GAPS)
    with pytest.raises(InvalidParameterError, match="thresholds of their own"):
        scored_entries(model, X, GAPS, response="predict_proba")


@pytest.mark.parametrize("name", MODELS)
def test_exported_models_decide_alike(name, fits):
    pytest.importorskip("onnx", reason="onnx is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from labelgap.onnx_export import to_onnx

    exported = to_onnx(fits[name])
    session = onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
    (decisions,) = session.run(["decisions"], {"features": X})
    np.testing.assert_array_equal(decisions, fits[name].predict(X))
    metadata = {one.key: one.value for one in exported.metadata_props}
    assert metadata["thresholds"].count(",") == 4


# -- bounds ------------------------------------------------------------------------------------------------


def test_bounds_are_kept_on_the_scores_that_choose():
    scores = np.random.default_rng(1).standard_normal(Y.shape) + Y
    cut = MetricThreshold(metric="micro-precision", subject_to="recall >= 0.9").fit(scores, GAPS)
    assert get_metric("micro-recall")(GAPS, cut.predict(scores)) >= 0.9
    best = best_threshold(scores, GAPS, "micro-precision", subject_to="recall >= 0.9")
    assert (cut.threshold_, cut.best_score_) == (best.threshold, best.value)


@pytest.mark.parametrize("name", ["low-rank", "plug-in"])
def test_bounds_change_the_threshold_of_a_fit(name, tmp_path):
    free = MODELS[name](metric="micro-f1").fit(X, GAPS)
    bounded = MODELS[name](metric="micro-f1", subject_to=["recall >= 0.95"]).fit(X, GAPS)
    assert bounded.threshold_ < free.threshold_
    bounded.save(tmp_path / "bounded.labelgap")
    assert labelgap.load(tmp_path / "bounded.labelgap").subject_to == ["recall >= 0.95"]


@pytest.mark.parametrize("how", ["cross-fit", "train"])
def test_bounds_out_of_reach_are_an_error(how):
    noise = np.random.default_rng(0).standard_normal(X.shape)
    with pytest.raises(InfeasibleConstraintError, match="each can be reached alone"):
        MODELS["low-rank"](subject_to="precision >= 0.99, recall >= 0.99", threshold=how).fit(noise, GAPS)


def test_penalties_with_which_bounds_cannot_be_kept_lose():
    from labelgap.fitting.judges import decision_rule
    from labelgap.losses import get_loss

    judge = decision_rule(get_metric("micro-f1"), "shared", "precision >= 0.9").search_judge(
        get_loss("logistic")
    )
    labels = ObservedLabels.from_dense([[1, 0], [0, 1], [1, 0]])
    good = judge(labels.values * 2.0 - 1.0, labels)
    bad = judge(1.0 - labels.values * 2.0, labels)
    assert good.value == 1.0
    assert bad.value == pytest.approx(-1.0 - 0.4)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"thresholds": "perlabel"}, UnknownNameError, "per-label"),
        (
            {"thresholds": "shrunk", "subject_to": "recall >= 0.5"},
            InvalidParameterError,
            "one shared threshold",
        ),
        ({"subject_to": "recall"}, InvalidParameterError, "no bound on a metric"),
    ],
)
@pytest.mark.parametrize("name", MODELS)
def test_what_makes_no_sense_is_refused(name, given, error, words):
    with pytest.raises(error, match=words):
        MODELS[name](**given).fit(X, GAPS)


@pytest.mark.parametrize("given", [{"thresholds": "per-label"}, {"subject_to": "recall >= 0.5"}])
def test_recorded_positives_alone_have_one_free_threshold(given):
    with pytest.raises(InvalidParameterError, match="only positives are recorded"):
        LowRankClassifier(unobserved="unlabelled", **given).fit(X, sp.csr_array(Y))
    recorded = ObservedLabels.from_any(sp.csr_array(Y), unobserved="unlabelled")
    with pytest.raises(InvalidParameterError, match="only positives are recorded"):
        LowRankClassifier(**given).fit(X, recorded)


# -- budgets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("budget", [2, Budget(per_row=1, exactly=True), Budget(total=100), Budget()])
def test_budgets_are_spent_by_the_probabilities(name, budget, fits):
    model = fits[name]
    found = model.predict(X, budget=budget)
    expected = best_decisions(model.predict_proba(X), budget, "macro-f1").toarray()
    np.testing.assert_array_equal(found, expected)
    in_rows = model.predict(X, output="sparse", budget=budget)
    assert isinstance(in_rows, sp.csr_array)
    np.testing.assert_array_equal(in_rows.toarray(), expected)


def test_a_budget_of_a_single_label():
    model = PlugInClassifier().fit(X, np.where(Y[:, 1] == 1, "yes", "no"))
    found = model.predict(X, budget=Budget(total=10, exactly=True))
    assert (found == "yes").sum() == 10
    with pytest.raises(InvalidParameterError, match="1-d y"):
        model.predict(X, output="sparse", budget=1)


def test_scores_must_be_probabilities_for_a_budget():
    probabilities = np.random.default_rng(0).random(Y.shape)
    cut = MetricThreshold().fit(probabilities, Y)
    assert (cut.predict(probabilities, budget=1).sum(axis=1) <= 1).all()
    with pytest.raises(InvalidScoresError, match=r"row 3, label 0 is 2, which is none"):
        cut.predict(np.where(np.arange(len(Y))[:, None] == 3, 2.0, probabilities), budget=1)


def test_budgets_need_a_fit_and_a_number(fits):
    with pytest.raises(NotFittedError):
        PlugInClassifier().predict(X, budget=1)
    with pytest.raises(InvalidParameterError, match="budget must be a whole number"):
        fits["plug-in"].predict(X, budget="few")


def test_labels_that_judge_choose_the_threshold_alone():
    labels = ObservedLabels.from_any(GAPS)
    fair = np.random.RandomState(0).uniform(size=labels.shape) < 0.6
    settings = {"trace_penalty": 0.01, "ridge_penalty": 0.0, "intercept_penalty": 0.0, "random_state": 0}
    settings |= {"features": "linear", "label_weighting": 0.0}
    model = LowRankClassifier(**settings)
    model._wants_held_out = True
    model.fit(X, GAPS, judged=fair)
    held_out, plain = model._held_out, LowRankClassifier(**settings).fit(X, GAPS)
    # W and b are those of all labels, and the threshold is that of the scores of some of them.
    assert_allclose(model.coef_, plain.coef_)
    assert held_out.labels.n_observed == np.sum(fair & ~np.isnan(GAPS))
    assert model.threshold_ == steady_threshold(held_out.scores, held_out.labels, model.metric_)
    everything = LowRankClassifier(**settings).fit(X, labels, judged=np.ones(labels.n_observed, bool))
    assert everything.threshold_ == plain.threshold_
    with pytest.raises(InvalidLabelsError, match="all have the same value"):
        model.fit(X, GAPS, judged=GAPS == 1)
    two = np.zeros(labels.shape, dtype=bool)
    two[tuple(np.argwhere(GAPS == 1)[0])] = two[tuple(np.argwhere(GAPS == 0)[0])] = True
    with pytest.raises(InvalidLabelsError, match="held out"):
        LowRankClassifier(**settings, threshold="holdout").fit(X, GAPS, judged=two)
    with pytest.raises(InvalidInputError, match="True or False"):
        model.fit(X, GAPS, judged=np.ones(labels.shape))
    with pytest.raises(InvalidParameterError, match="judged"):
        LowRankClassifier(unobserved="unlabelled").fit(X, Y, judged=fair)


def test_what_judges_a_vector_of_labels_may_be_such_a_vector():
    settings = {"trace_penalty": 0.01, "ridge_penalty": 0.0, "intercept_penalty": 0.0, "random_state": 0}
    y, fair = GAPS[:, 0], np.random.RandomState(0).uniform(size=len(X)) < 0.6
    known = ~np.isnan(y)
    by_entry = LowRankClassifier(**settings).fit(X, y, judged=fair[known])
    assert by_entry.threshold_ != LowRankClassifier(**settings).fit(X, y).threshold_
    for judged in (fair, fair[:, None], pd.Series(fair)):
        model = LowRankClassifier(**settings).fit(X, y, judged=judged)
        assert model.threshold_ == by_entry.threshold_
        model.partial_fit(X[:50] + 0.1, y[:50], judged=judged[:50])
        later = clone(by_entry).fit(X, y, judged=fair[known])
        later.partial_fit(X[:50] + 0.1, y[:50], judged=fair[:50][known[:50]])
        assert model.threshold_ == later.threshold_
    with pytest.raises(InvalidInputError, match="judged have shape"):
        LowRankClassifier(**settings).fit(X, y, judged=fair[:-1])


# -- decisions that say nothing ------------------------------------------------------------------------------

SAYS_NOTHING = "not clearly better than saying yes to everything"


def without_signal(n=400, n_labels=6):
    rng = np.random.RandomState(0)
    return rng.standard_normal((n, 4)), (rng.uniform(size=(n, n_labels)) < 0.35).astype(float)


def estimators(**settings):
    low_rank = {"trace_penalty": 0.02, "ridge_penalty": 0.0, "intercept_penalty": 0.0, "features": "linear"}
    yield LowRankClassifier(**low_rank, random_state=0, **settings)
    yield PlugInClassifier(random_state=0, **settings)
    yield MetricThreshold(LogisticRegression(), random_state=0, **settings)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("thresholds", ["shared", "per-label", "shrunk"])
def test_decisions_no_better_than_a_yes_to_everything_are_told(thresholds):
    features, labels = without_signal()
    labels[np.random.RandomState(1).uniform(size=labels.shape) < 0.3] = np.nan
    for model in estimators(metric="macro-f1", thresholds=thresholds):
        with pytest.warns(TrivialDecisionsWarning, match=SAYS_NOTHING) as told:
            model.fit(features, labels)
        assert len(told) == 1
        everything = get_metric("macro-f1")(labels, np.ones(labels.shape))
        assert f"that of a yes to everything is {everything:.4f}" in str(told[0].message)
        # What the features say is another matter, and no warning then (warnings are errors here).
        clone(model).fit(X, GAPS)


@pytest.mark.filterwarnings("error")
def test_decisions_no_better_than_a_no_to_everything_are_told_of_scores_too():
    rng = np.random.RandomState(0)
    scores, labels = rng.uniform(size=(300, 5)), (rng.uniform(size=(300, 5)) < 0.1).astype(float)
    with pytest.warns(TrivialDecisionsWarning, match="saying no to everything: micro-accuracy"):
        MetricThreshold(metric="micro-accuracy").fit(scores - 0.2 * labels, labels)
    # That no is not to be had within this bound, so that it is no standard.
    MetricThreshold(metric="micro-accuracy", subject_to="recall >= 0.5").fit(scores + labels, labels)


@pytest.mark.filterwarnings("error")
def test_decisions_that_say_nothing_are_told_where_only_a_yes_is_recorded_and_of_batches():
    features, labels = without_signal(n=150)
    likes = np.where(labels == 1, 1.0, 0.0)
    settings = {"trace_penalty": 0.5, "loss": "squared", "features": "linear", "random_state": 0}
    recorded = LowRankClassifier(unobserved="unlabelled", flip_rate=0.5, **settings)
    told = SAYS_NOTHING + r": micro-f1 of the decisions is 0\.\d+ .* rate of 0\.5"
    with pytest.warns(TrivialDecisionsWarning, match=told):
        recorded.fit(features, likes)
    # Where every yes was recorded, the others are a no.
    clone(recorded).set_params(flip_rate=0.0).fit(features, likes)
    model = LowRankClassifier(metric="macro-f1", **settings)
    with pytest.warns(TrivialDecisionsWarning, match=SAYS_NOTHING):
        model.partial_fit(features[:140], labels[:140])
    with pytest.warns(TrivialDecisionsWarning, match=SAYS_NOTHING):
        model.partial_fit(features[140:], labels[140:])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("metric", ["micro-f1", "macro-f1", "instance-f1"])
def test_decisions_from_recorded_positives_are_compared_with_trivial_ones(metric):
    settings = {"metric": metric, "unobserved": "unlabelled", "flip_rate": 0.5, "loss": "squared"}
    quick = {"trace_penalty": 0.01, "ridge_penalty": 0.0, "features": "linear", "random_state": 0}
    features, labels = without_signal()
    kept = np.random.RandomState(0).uniform(size=labels.shape) < 0.5
    labels = np.where(kept, labels, 0.0)
    model = LowRankClassifier(**settings, **quick)
    with pytest.warns(TrivialDecisionsWarning, match=SAYS_NOTHING) as told:
        model.fit(features, labels)
    assert len(told) == 1
    # The threshold is finite all the same.
    assert np.isfinite(model.threshold_)
    none, everything = trivial_values(metric, labels, 0.5)
    assert f"that of a yes to everything is {max(none, everything):.4f}" in str(told[0].message)
    # Half of the yes, of which the features say enough, and no warning (warnings are errors here).
    recorded = np.where(np.random.RandomState(0).uniform(size=Y.shape) < 0.5, Y, 0.0)
    clone(model).fit(X, recorded)


@pytest.mark.filterwarnings("error")
def test_decisions_from_likes_are_compared_on_pairs_without_one():
    settings = {"unobserved": "unlabelled", "flip_rate": 0.5, "trace_penalty": 0.02, "random_state": 0}
    rng = np.random.RandomState(0)
    noise = tuple(side.tolist() for side in np.nonzero(rng.uniform(size=(60, 20)) < 0.3))
    with pytest.warns(TrivialDecisionsWarning, match="(yes|no) to every pair without a like: micro-f1"):
        Recommender(**settings).fit(noise)
    liked = (np.arange(60)[:, None] % 2 == np.arange(20) % 2) & (rng.uniform(size=(60, 20)) < 0.5)
    Recommender(**settings).fit(tuple(side.tolist() for side in np.nonzero(liked)))


def test_decisions_of_a_recommender_that_say_nothing_are_told():
    rng = np.random.RandomState(0)
    users, items = np.nonzero(rng.uniform(size=(40, 15)) < 0.5)
    likes = (rng.uniform(size=len(users)) < 0.6).astype(int)
    with pytest.warns(TrivialDecisionsWarning, match=SAYS_NOTHING):
        Recommender(trace_penalty=0.1, random_state=0).fit((users.tolist(), items.tolist(), likes))
