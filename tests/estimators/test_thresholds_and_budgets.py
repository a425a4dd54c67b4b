"""Thresholds per label, bounds and budgets in the estimators, and in everything that is made of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import labelgap
from labelgap import Budget, LowRankClassifier, MetricThreshold, ObservedLabels, PlugInClassifier, Recommender
from labelgap.decisions import best_decisions
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
from quick_estimators import PLAIN, cut, low_rank, plug_in
from refusals import assert_refused


def rates_apart(n: int = 240) -> tuple[Any, Any, Any]:
    """Features, complete labels of very different rates, and labels with gaps."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    Z = X @ rng.standard_normal((4, 5)) + rng.standard_normal((n, 5)) + np.array([1.5, 0, -1, -2, -2.5])
    Y = (Z > 0).astype(float)
    gaps = Y.copy()
    gaps[rng.random(Y.shape) < 0.4] = np.nan
    return X, Y, gaps


X, Y, GAPS = rates_apart()
MODELS = {
    "low-rank": lambda **given: low_rank(**PLAIN | {"trace_penalty": 0.002, "ridge_penalty": 0.001} | given),
    "plug-in": plug_in,
    "metric-threshold": cut,
}
every_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def fits() -> dict[str, Any]:
    """Each model with thresholds shrunk, fitted once."""
    return {name: make(metric="macro-f1", thresholds="shrunk").fit(X, GAPS) for name, make in MODELS.items()}


# -- a threshold for each label ------------------------------------------------------------------------------


@every_model
def test_thresholds_decide_everywhere(name: str, fits: Any, tmp_path: Any) -> None:
    from labelgap.report.collect import collect

    model = fits[name]
    assert model.thresholds_kind_ == "shrunk"
    assert model.thresholds_.shape == (5,)
    assert len(set(model.thresholds_.tolist())) > 1
    expected = (model.decision_function(X) >= model.thresholds_).astype(np.int8)
    assert_array_equal(model.predict(X), expected)
    assert_array_equal(model.predict(X, output="sparse").toarray(), expected)
    assert model.score(X, GAPS) == get_metric("macro-f1")(GAPS, expected)
    model.save(tmp_path / "model.labelgap")
    again = labelgap.load(tmp_path / "model.labelgap")
    assert_array_equal(again.thresholds_, model.thresholds_)
    assert_array_equal(again.predict(X), expected)
    assert again.get_params()["thresholds"] == "shrunk"
    figures = collect(model, X, GAPS)["models"][0]
    assert figures["value"] == pytest.approx(model.score(X, GAPS))
    assert figures["probabilities"] is None
    # A second fit forgets the thresholds of the first; who sets another one gets the decisions of that one.
    shared = clone(model).fit(X, GAPS).set_params(thresholds="shared").fit(X, GAPS)
    assert shared.thresholds_kind_ == "shared"
    assert_array_equal(shared.thresholds_, np.full(5, shared.threshold_))
    shared.threshold_ = 0
    assert_array_equal(shared.predict(X), shared.decision_function(X) >= 0)


@every_model
def test_exported_models_decide_alike(name: str, fits: Any) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from labelgap.onnx_export import to_onnx

    exported = to_onnx(fits[name])
    session = onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
    (decisions,) = session.run(["decisions"], {"features": X})
    assert_array_equal(decisions, fits[name].predict(X))
    metadata = {one.key: one.value for one in exported.metadata_props}
    assert metadata["thresholds"].count(",") == 4


def test_thresholds_of_given_and_of_training_scores() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.standard_normal((100, 3)) + 3 * Y[:100, :3] + [0, 3, 6], Y[:100, :3]
    shared = MetricThreshold(metric="macro-f1").fit(scores, labels)
    exact = best_label_thresholds(scores, labels, "macro-f1")
    for kind in ("per-label", "shrunk", "auto"):
        own = MetricThreshold(metric="macro-f1", thresholds=kind).fit(scores, labels)
        assert own.thresholds_kind_ == kind or (kind == "auto" and own.thresholds_kind_ != "shared")
        assert own.best_score_ == pytest.approx(own.score(scores, labels))
        assert own.best_score_ > shared.best_score_, kind
        if kind == "per-label":
            assert_array_equal(own.thresholds_, exact.thresholds)
    model = MODELS["low-rank"](metric="macro-f1", thresholds="per-label", threshold="train").fit(X, GAPS)
    exact = best_label_thresholds(model.decision_function(X), GAPS, "macro-f1")
    assert_allclose(model.thresholds_, exact.thresholds, rtol=1e-12)
    # A single label has one.
    model = PlugInClassifier(thresholds="auto").fit(X, Y[:, 1])
    assert model.thresholds_kind_ == "shared"
    assert model.predict(X).shape == (len(X),)


def test_a_resumed_fit_has_the_same_thresholds(fits: Any, tmp_path: Any) -> None:
    first = fits["low-rank"]
    for _ in range(2):
        again = clone(first).fit(X, GAPS, checkpoint=tmp_path / "kept")
        assert_array_equal(again.thresholds_, first.thresholds_)
        assert (again.thresholds_kind_, again.held_out_metric_) == ("shrunk", first.held_out_metric_)


# -- bounds --------------------------------------------------------------------------------------------------


def test_bounds_are_kept_on_the_scores_that_choose(tmp_path: Any) -> None:
    scores = np.random.default_rng(1).standard_normal(Y.shape) + Y
    own = MetricThreshold(metric="micro-precision", subject_to="recall >= 0.9").fit(scores, GAPS)
    assert get_metric("micro-recall")(GAPS, own.predict(scores)) >= 0.9
    best = best_threshold(scores, GAPS, "micro-precision", subject_to="recall >= 0.9")
    assert (own.threshold_, own.best_score_) == (best.threshold, best.value)
    for name in ("low-rank", "plug-in"):
        free = MODELS[name](metric="micro-f1").fit(X, GAPS)
        bounded = MODELS[name](metric="micro-f1", subject_to=["recall >= 0.95"]).fit(X, GAPS)
        assert bounded.threshold_ < free.threshold_, name
        bounded.save(tmp_path / name)
        assert labelgap.load(tmp_path / name).subject_to == ["recall >= 0.95"]
    noise = np.random.default_rng(0).standard_normal(X.shape)
    for how in ("cross-fit", "train"):
        model = MODELS["low-rank"](subject_to="precision >= 0.99, recall >= 0.99", threshold=how)
        with pytest.raises(InfeasibleConstraintError, match="each can be reached alone"):
            model.fit(noise, GAPS)


def test_penalties_with_which_bounds_cannot_be_kept_lose() -> None:
    from labelgap.fitting.judges import decision_rule
    from labelgap.losses import get_loss

    rule = decision_rule(get_metric("micro-f1"), "shared", "precision >= 0.9")
    judge = rule.search_judge(get_loss("logistic"))
    labels = ObservedLabels.from_dense([[1, 0], [0, 1], [1, 0]])
    assert judge(labels.values * 2.0 - 1.0, labels).value == 1.0
    assert judge(1.0 - labels.values * 2.0, labels).value == pytest.approx(-1.0 - 0.4)


def test_what_makes_no_sense_is_refused() -> None:
    both = {"thresholds": "shrunk", "subject_to": "recall >= 0.5"}
    for make in MODELS.values():
        for given, error, words in (
            ({"thresholds": "perlabel"}, UnknownNameError, "per-label"),
            (both, InvalidParameterError, "one shared threshold"),
            ({"subject_to": "recall"}, InvalidParameterError, "no bound on a metric"),
        ):
            assert_refused(partial(make(**given).fit, X, GAPS), words, error, given)
    recorded = ObservedLabels.from_any(sp.csr_array(Y), unobserved="unlabelled")
    for given in ({"thresholds": "per-label"}, {"subject_to": "recall >= 0.5"}):
        told = LowRankClassifier(unobserved="unlabelled", **given)
        for use in (
            partial(told.fit, X, sp.csr_array(Y)),
            partial(LowRankClassifier(**given).fit, X, recorded),
        ):
            assert_refused(use, "only positives are recorded", InvalidParameterError, given)


# -- budgets -------------------------------------------------------------------------------------------------


@every_model
def test_budgets_are_spent_by_the_probabilities(name: str, fits: Any) -> None:
    model = fits[name]
    for budget in (2, Budget(per_row=1, exactly=True), Budget(total=100), Budget()):
        expected = best_decisions(model.predict_proba(X), budget, "macro-f1").toarray()
        assert_array_equal(model.predict(X, budget=budget), expected, err_msg=str(budget))
        in_rows = model.predict(X, output="sparse", budget=budget)
        assert isinstance(in_rows, sp.csr_array)
        assert_array_equal(in_rows.toarray(), expected, err_msg=str(budget))
    with pytest.raises(InvalidParameterError, match="budget must be a whole number"):
        model.predict(X, budget="few")
    with pytest.raises(NotFittedError):
        MODELS[name]().predict(X, budget=1)


def test_a_budget_of_a_single_label_and_of_given_scores() -> None:
    model = PlugInClassifier().fit(X, np.where(Y[:, 1] == 1, "yes", "no"))
    assert (model.predict(X, budget=Budget(total=10, exactly=True)) == "yes").sum() == 10
    with pytest.raises(InvalidParameterError, match="1-d y"):
        model.predict(X, output="sparse", budget=1)
    probabilities = np.random.default_rng(0).random(Y.shape)
    own = MetricThreshold().fit(probabilities, Y)
    assert (own.predict(probabilities, budget=1).sum(axis=1) <= 1).all()
    with pytest.raises(InvalidScoresError, match=r"row 3, label 0 is 2, which is none"):
        own.predict(np.where(np.arange(len(Y))[:, None] == 3, 2.0, probabilities), budget=1)


# -- labels that judge ---------------------------------------------------------------------------------------


def test_labels_that_judge_choose_the_threshold_alone() -> None:
    labels = ObservedLabels.from_any(GAPS)
    fair = np.random.RandomState(0).uniform(size=labels.shape) < 0.6
    model, plain = low_rank(**PLAIN).fit(X, GAPS, judged=fair), low_rank(**PLAIN).fit(X, GAPS)
    # W and b are those of all labels, and the threshold is that of the scores of some of them.
    assert_allclose(model.coef_, plain.coef_)
    assert model.threshold_ != plain.threshold_
    everything = low_rank(**PLAIN).fit(X, labels, judged=np.ones(labels.n_observed, bool))
    assert everything.threshold_ == plain.threshold_
    with pytest.raises(InvalidLabelsError, match="all have the same value"):
        model.fit(X, GAPS, judged=GAPS == 1)
    two = np.zeros(labels.shape, dtype=bool)
    two[tuple(np.argwhere(GAPS == 1)[0])] = two[tuple(np.argwhere(GAPS == 0)[0])] = True
    with pytest.raises(InvalidLabelsError, match="held out"):
        low_rank(**PLAIN, threshold="holdout").fit(X, GAPS, judged=two)
    with pytest.raises(InvalidInputError, match="True or False"):
        model.fit(X, GAPS, judged=np.ones(labels.shape))
    with pytest.raises(InvalidParameterError, match="judged"):
        LowRankClassifier(unobserved="unlabelled").fit(X, Y, judged=fair)


def test_what_judges_a_vector_of_labels_may_be_such_a_vector() -> None:
    y, fair = GAPS[:, 0], np.random.RandomState(0).uniform(size=len(X)) < 0.6
    known = ~np.isnan(y)
    by_entry = low_rank().fit(X, y, judged=fair[known])
    assert by_entry.threshold_ != low_rank().fit(X, y).threshold_
    later = low_rank().fit(X, y, judged=fair[known])
    later.partial_fit(X[:50] + 0.1, y[:50], judged=fair[:50][known[:50]])
    for judged in (fair, fair[:, None], pd.Series(fair)):
        model = low_rank().fit(X, y, judged=judged)
        assert model.threshold_ == by_entry.threshold_
        model.partial_fit(X[:50] + 0.1, y[:50], judged=judged[:50])
        assert model.threshold_ == later.threshold_
    with pytest.raises(InvalidInputError, match="judged have shape"):
        low_rank().fit(X, y, judged=fair[:-1])


# -- decisions that say nothing (a warning that is not expected is an error here) ----------------------------

SAYS_NOTHING = "not clearly better than saying yes to everything"
RNG = np.random.RandomState(0)
NOISE = RNG.standard_normal((400, 4)), (RNG.uniform(size=(400, 6)) < 0.35).astype(float)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("thresholds", ["shared", "per-label", "shrunk"])
def test_decisions_no_better_than_a_yes_to_everything_are_told(thresholds: str) -> None:
    features, labels = NOISE
    labels = np.where(np.random.RandomState(1).uniform(size=labels.shape) < 0.3, np.nan, labels)
    everything = get_metric("macro-f1")(labels, np.ones(labels.shape))
    for make in (partial(low_rank, trace_penalty=0.02, features="linear"), plug_in, cut):
        model = make(metric="macro-f1", thresholds=thresholds)
        with pytest.warns(TrivialDecisionsWarning, match=SAYS_NOTHING) as told:
            model.fit(features, labels)
        assert len(told) == 1
        assert f"that of a yes to everything is {everything:.4f}" in str(told[0].message)
        # What the features say is another matter, and no warning then.
        clone(model).fit(X, GAPS)


@pytest.mark.filterwarnings("error")
def test_decisions_that_say_nothing_are_told_of_scores_batches_and_ratings() -> None:
    rng = np.random.RandomState(0)
    scores, labels = rng.uniform(size=(300, 5)), (rng.uniform(size=(300, 5)) < 0.1).astype(float)
    with pytest.warns(TrivialDecisionsWarning, match="saying no to everything: micro-accuracy"):
        MetricThreshold(metric="micro-accuracy").fit(scores - 0.2 * labels, labels)
    # That no is not to be had within this bound, so that it is no standard.
    MetricThreshold(metric="micro-accuracy", subject_to="recall >= 0.5").fit(scores + labels, labels)
    features, labels = NOISE
    settings = {"trace_penalty": 0.5, "loss": "squared", "features": "linear", "random_state": 0}
    model = LowRankClassifier(metric="macro-f1", **settings)
    for rows in (slice(0, 140), slice(140, 150)):
        with pytest.warns(TrivialDecisionsWarning, match=SAYS_NOTHING):
            model.partial_fit(features[rows], labels[rows])
    users, items = np.nonzero(np.random.RandomState(0).uniform(size=(40, 15)) < 0.5)
    likes = (np.random.RandomState(1).uniform(size=len(users)) < 0.6).astype(int)
    with pytest.warns(TrivialDecisionsWarning, match=SAYS_NOTHING):
        Recommender(trace_penalty=0.1, random_state=0).fit((users.tolist(), items.tolist(), likes))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("metric", ["micro-f1", "macro-f1", "instance-f1"])
def test_decisions_from_recorded_positives_are_compared_with_trivial_ones(metric: str) -> None:
    settings = {"metric": metric, "unobserved": "unlabelled", "flip_rate": 0.5, "loss": "squared"}
    quick = {"trace_penalty": 0.01, "ridge_penalty": 0.0, "features": "linear", "random_state": 0}
    features, labels = NOISE
    labels = np.where(np.random.RandomState(0).uniform(size=labels.shape) < 0.5, labels, 0.0)
    model = LowRankClassifier(**settings, **quick)
    of_the_rate = r" of the decisions is 0\.\d+ .* rate of 0\.5"
    with pytest.warns(TrivialDecisionsWarning, match=f"{SAYS_NOTHING}: {metric}{of_the_rate}") as told:
        model.fit(features, labels)
    assert len(told) == 1
    # The threshold is finite all the same.
    assert np.isfinite(model.threshold_)
    best = max(trivial_values(metric, labels, 0.5))
    assert f"that of a yes to everything is {best:.4f}" in str(told[0].message)
    # Where every yes was recorded, the others are a no; and of half of the yes the features say enough.
    clone(model).set_params(flip_rate=0.0, trace_penalty=0.5).fit(features[:150], NOISE[1][:150])
    recorded = np.where(np.random.RandomState(0).uniform(size=Y.shape) < 0.5, Y, 0.0)
    clone(model).fit(X, recorded)


@pytest.mark.filterwarnings("error")
def test_decisions_from_likes_are_compared_on_pairs_without_one() -> None:
    settings = {"unobserved": "unlabelled", "flip_rate": 0.5, "trace_penalty": 0.02, "random_state": 0}
    rng = np.random.RandomState(0)
    noise = tuple(side.tolist() for side in np.nonzero(rng.uniform(size=(60, 20)) < 0.3))
    with pytest.warns(TrivialDecisionsWarning, match="(yes|no) to every pair without a like: micro-f1"):
        Recommender(**settings).fit(noise)
    liked = (np.arange(60)[:, None] % 2 == np.arange(20) % 2) & (rng.uniform(size=(60, 20)) < 0.5)
    Recommender(**settings).fit(tuple(side.tolist() for side in np.nonzero(liked)))
