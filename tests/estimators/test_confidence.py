"""``predict_set``, ``recalibrate`` and ``calibration`` of every classifier."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import labelgap
from labelgap import LowRankClassifier, MetricThreshold, ObservedLabels, PlugInClassifier, load
from labelgap.confidence import calibration_error
from labelgap.confidence.calibration import IsotonicMap, SigmoidMap, fit_isotonic, fit_sigmoid
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import InvalidParameterError, LabelgapWarning, UnknownNameError
from labelgap.sampling import Popular

FIXED = {"trace_penalty": 0.01, "ridge_penalty": 0.0, "intercept_penalty": 0.0}
PROBLEM = make_low_rank_labels(n=250, n_labels=12, observed=0.4, random_state=0)
X, Y, X_TEST, Y_TEST = PROBLEM.X, PROBLEM.Y_observed, PROBLEM.X_test, PROBLEM.Y_test
CLASSIFIERS = [
    LowRankClassifier(**FIXED, random_state=0),
    LowRankClassifier(**FIXED, threshold="holdout", loss="squared", random_state=0),
    PlugInClassifier(random_state=0),
    MetricThreshold(LogisticRegression(), random_state=0),
    MetricThreshold(LinearSVC(), random_state=0),
]
every_classifier = pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: str(model)[:60])
FITTED: dict[str, Any] = {}


def fitted(model: Any) -> Any:
    key = str(model)
    if key not in FITTED:
        FITTED[key] = clone(model).fit(X, Y)
    return FITTED[key]


@every_classifier
@pytest.mark.parametrize("guarantee", ["class", "entries"])
def test_sets_cover_the_truth(model: Any, guarantee: str) -> None:
    sets = fitted(model).predict_set(X_TEST, coverage=0.9, guarantee=guarantee)
    covered = np.isnan(sets) | (sets == Y_TEST)
    parts = [Y_TEST >= 0] if guarantee == "entries" else [Y_TEST == 1, Y_TEST == 0]
    for part in parts:
        # About 1,200 held-out entries: the coverage has a standard error of about 0.012.
        assert covered[part].mean() > 0.86


@every_classifier
def test_sets_follow_from_scores_and_cuts(model: Any) -> None:
    model = fitted(model)
    scores = model.decision_function(X_TEST)
    for coverage in (0.5, 0.9, 0.99):
        sets, cuts = model.predict_set(X_TEST, coverage), model.set_cuts(coverage)
        yes, no = scores >= cuts.yes_from, scores <= cuts.no_up_to
        assert_array_equal(np.isnan(sets), yes & no)
        neither = ~yes & ~no
        assert_array_equal(sets[neither], model.predict(X_TEST, output="dense")[neither])
        assert_array_equal(sets[yes ^ no], yes[yes ^ no])


@every_classifier
def test_more_coverage_decides_less(model: Any) -> None:
    unsure = [np.isnan(fitted(model).predict_set(X_TEST, coverage)) for coverage in (0.5, 0.8, 0.9, 0.98)]
    for less, more in pairwise(unsure):
        assert not np.any(less & ~more)


def test_forms_of_sets() -> None:
    model = fitted(CLASSIFIERS[0])
    dense = model.predict_set(X_TEST, 0.99)
    assert dense.dtype == np.float64
    assert np.isnan(dense).any()
    sparse = model.predict_set(X_TEST, 0.99, output="sparse")
    assert sp.issparse(sparse)
    assert sparse.nnz == np.sum(dense != 0)
    assert_array_equal(sparse.toarray(), dense)
    assert_array_equal(model.predict_set(sp.csr_array(X_TEST), 0.99), dense)
    frame = clone(model).fit(X, pd.DataFrame(Y).rename(columns=lambda j: f"tag {j}"))
    frame.set_output(transform="pandas")
    found = frame.predict_set(pd.DataFrame(X_TEST, index=[f"row {i}" for i in range(len(X_TEST))]), 0.99)
    assert list(found.columns) == [f"tag {j}" for j in range(12)]
    assert found.index[0] == "row 0"
    assert_array_equal(found.to_numpy(), dense)


@pytest.mark.parametrize("classes", [[0, 1], [-1, 7], ["no", "yes"]])
def test_sets_of_one_label(classes: list[Any]) -> None:
    flipped = np.random.RandomState(0).uniform(size=len(Y_TEST)) < 0.3
    y = np.where((Y_TEST[:, 0] > 0) ^ flipped, classes[1], classes[0])
    model = PlugInClassifier(random_state=0).fit(X_TEST, y)
    sets = model.predict_set(X, 0.95)
    assert sets.shape == (len(X),)
    unsure = pd.isna(sets)
    assert unsure.any()
    assert set(sets[~unsure]) <= set(classes)
    with pytest.raises(InvalidParameterError, match="1-d y"):
        model.predict_set(X, output="sparse")


def test_blocks_of_rows_give_the_same_sets(monkeypatch: Any) -> None:
    model = fitted(CLASSIFIERS[0])
    whole = model.predict_set(X_TEST)
    monkeypatch.setattr("labelgap.estimators.base._BLOCK_SCORES", 100)
    assert_array_equal(model.predict_set(X_TEST), whole)
    assert_array_equal(model.predict_set(X_TEST, output="sparse").toarray(), whole)


def test_given_scores_are_calibrated_on_their_labels() -> None:
    scores = fitted(CLASSIFIERS[0]).decision_function(X_TEST)
    half = len(scores) // 2
    model = MetricThreshold().fit(scores[:half], Y_TEST[:half])
    for guarantee in ("class", "entries"):
        sets = model.predict_set(scores[half:], 0.9, guarantee)
        assert np.mean(np.isnan(sets) | (sets == Y_TEST[half:])) > 0.87
    assert not hasattr(model, "predict_proba")
    with_map = MetricThreshold(calibration="isotonic").fit(scores[:half], Y_TEST[:half])
    assert with_map.calibration_error_.before is None
    assert calibration_error(with_map.predict_proba(scores[half:]).ravel(), Y_TEST[half:].ravel()) < 0.05
    assert 0 < with_map.threshold_probability_ < 1


def test_recalibrated_sets_are_those_of_split_conformal_prediction() -> None:
    model = LowRankClassifier(**FIXED, threshold="train").fit(X, Y)
    with pytest.raises(InvalidParameterError, match="threshold='train' holds nothing out"):
        model.predict_set(X_TEST)
    half = len(X_TEST) // 2
    weights = np.arange(half) % 3
    model.recalibrate(X_TEST[:half], Y_TEST[:half], sample_weight=weights)
    z, kept = model.decision_function(X_TEST[:half]), weights > 0
    entry_weights = np.repeat(weights[:, None], 12, axis=1)
    yes = (Y_TEST[:half] == 1) & kept[:, None]
    total, target = 0.0, 0.9 * (entry_weights[yes].sum() + 2)
    for score, weight in sorted(zip(z[yes], entry_weights[yes], strict=True), reverse=True):
        total += weight
        if total >= target:
            assert model.set_cuts(0.9).yes_from == pytest.approx(score, abs=1e-9)
            break
    threshold = model.threshold_
    assert model.recalibrate(X_TEST, Y_TEST).threshold_ == threshold


def test_weights_of_entries_make_the_coverage_that_of_all_entries() -> None:
    # Entries of busy labels are observed often, and those labels are the ones that are easy to predict.
    rng = np.random.RandomState(0)
    n, n_labels = 4000, 10
    truth = rng.uniform(size=(n, n_labels)) < 0.5
    noise = np.linspace(0.2, 3.0, n_labels)
    scores = np.where(truth, 1.0, -1.0) + noise * rng.standard_normal((n, n_labels))
    p = Popular(0.3, row_skew=0.0, label_skew=1.0).probabilities((n, n_labels))
    seen = rng.uniform(size=(n, n_labels)) < p
    Y_seen = np.where(seen, truth, np.nan)
    labels = ObservedLabels.from_dense(Y_seen)
    plain = MetricThreshold().fit(scores, labels)
    weighted = MetricThreshold().fit(scores, labels.with_weights(1 / p))
    found = []
    for model in (plain, weighted):
        sets = model.predict_set(scores, 0.9, output="dense")
        found.append(np.mean(np.isnan(sets) | (sets == truth)))
    assert found[0] < 0.86
    assert found[1] == pytest.approx(0.9, abs=0.015)


def test_too_few_entries_are_told() -> None:
    Y_few = np.where(np.arange(250)[:, None] < 12, Y, np.nan)
    model = PlugInClassifier(random_state=0).fit(X, Y_few)
    with pytest.warns(LabelgapWarning, match="that class is in every set"):
        sets = model.predict_set(X_TEST, 0.999)
    assert np.isnan(sets).all()


def test_fits_without_held_out_scores() -> None:
    likes = np.where(Y == 1, 1.0, 0.0)
    model = LowRankClassifier(**FIXED, unobserved="unlabelled", flip_rate=0.2, random_state=0).fit(X, likes)
    with pytest.raises(InvalidParameterError, match="recorded positives alone"):
        model.predict_set(X_TEST)
    before, decisions = model.predict_proba(X_TEST), model.predict(X_TEST, output="dense")
    assert model.recalibrate(X_TEST, Y_TEST).predict_set(X_TEST).shape == Y_TEST.shape
    # Probabilities of a recorded yes, or of half of them, were too low or too high; checked labels tell.
    errors = [calibration_error(p.ravel(), Y_TEST.ravel()) for p in (before, model.predict_proba(X_TEST))]
    assert errors[1] < errors[0]
    assert model.calibration_error_.before == pytest.approx(errors[0])
    assert_array_equal(model.predict(X_TEST, output="dense"), decisions)


@every_classifier
def test_recalibrate_calibrates_whatever_the_model_was_made_with(model: Any) -> None:
    half = len(X_TEST) // 2
    first, rest = slice(None, half), slice(half, None)
    new = clone(model).fit(X, Y)
    scores, decisions = new.decision_function(X_TEST), new.predict(X_TEST, output="dense")
    for given, kind in ((None, SigmoidMap), ("isotonic", IsotonicMap), ("sigmoid", SigmoidMap)):
        new.recalibrate(X_TEST[first], Y_TEST[first], calibration=given)
        at = new.decision_function(X_TEST[first]).ravel()
        of_probabilities = not hasattr(new, "coef_left_") and hasattr(model, "predict_proba")
        expected = {SigmoidMap: fit_sigmoid, IsotonicMap: fit_isotonic}[kind](
            at, Y_TEST[first].ravel(), np.ones(len(at)), of_probabilities
        )
        assert_allclose(new.predict_proba(X_TEST), expected(scores), atol=1e-9)
        after = calibration_error(new.predict_proba(X_TEST[rest]).ravel(), Y_TEST[rest].ravel())
        assert after < 0.06
        assert_array_equal(new.predict(X_TEST, output="dense"), decisions)
    # What the model was made with comes before the default.
    own = clone(model).set_params(calibration="isotonic").fit(X, Y)
    own.recalibrate(X_TEST[first], Y_TEST[first])
    new.recalibrate(X_TEST[first], Y_TEST[first], calibration="isotonic")
    assert_array_equal(own.predict_proba(X_TEST), new.predict_proba(X_TEST))
    with pytest.raises(UnknownNameError, match="calibration"):
        new.recalibrate(X_TEST, Y_TEST, calibration="platt")


def test_recalibrated_probabilities_are_saved_and_end_with_the_next_fit(tmp_path: Path) -> None:
    model = LowRankClassifier(**FIXED, random_state=0).fit(X, Y)
    plain = model.predict_proba(X_TEST)
    model.recalibrate(X_TEST, Y_TEST).save(tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").predict_proba(X_TEST), model.predict_proba(X_TEST))
    assert_array_equal(model.fit(X, Y).predict_proba(X_TEST), plain)
    scores = MetricThreshold().fit(model.decision_function(X), Y)
    assert not hasattr(scores, "predict_proba")
    z = model.decision_function(X_TEST)
    found = scores.recalibrate(z, Y_TEST).predict_proba(z)
    assert calibration_error(found.ravel(), Y_TEST.ravel()) < 0.05


@pytest.mark.parametrize("bad", [0.0, 1.0, 2, "much"])
def test_bad_coverage(bad: Any) -> None:
    with pytest.raises(InvalidParameterError, match="coverage must be"):
        fitted(CLASSIFIERS[2]).predict_set(X_TEST, coverage=bad)


def test_bad_words() -> None:
    model = fitted(CLASSIFIERS[2])
    with pytest.raises(UnknownNameError, match="guarantee"):
        model.predict_set(X_TEST, guarantee="label")
    with pytest.raises(UnknownNameError, match="output"):
        model.predict_set(X_TEST, output="list")
    with pytest.raises(UnknownNameError, match="unobserved"):
        model.recalibrate(X_TEST, Y_TEST, unobserved="unknown")


@pytest.mark.parametrize("meaning", ["missing", "unlabelled"])
def test_recorded_positives_calibrate_nothing(meaning: str) -> None:
    recorded = ObservedLabels.from_any((Y == 1) * 1.0, "unlabelled")
    known = recorded if meaning == "unlabelled" else Y
    model = LowRankClassifier(trace_penalty=0.02, unobserved=meaning, random_state=0).fit(X, known)
    before = model.predict_proba(X)
    for labels, given in ((recorded, None), (recorded, "missing"), ((Y == 1) * 1.0, "unlabelled")):
        with pytest.raises(InvalidParameterError, match="known negatives"):
            model.recalibrate(X, labels, unobserved=given)
    assert_array_equal(model.predict_proba(X), before)
    # After either fit, labels without a meaning of their own may have gaps.
    assert model.recalibrate(X_TEST, Y_TEST).calibration_error_ is not None


# -- calibration -------------------------------------------------------------------------------------------


@every_classifier
@pytest.mark.parametrize("how", ["isotonic", "sigmoid"])
def test_calibration_changes_probabilities_only(model: Any, how: str) -> None:
    plain, mapped = fitted(model), clone(model).set_params(calibration=how).fit(X, Y)
    assert mapped.threshold_ == plain.threshold_
    assert_array_equal(mapped.decision_function(X_TEST), plain.decision_function(X_TEST))
    assert_array_equal(mapped.predict(X_TEST), plain.predict(X_TEST))
    p = mapped.predict_proba(X_TEST)
    assert np.all((p >= 0) & (p <= 1))
    assert np.all(np.diff(p[:, 0][np.argsort(mapped.decision_function(X_TEST)[:, 0])]) >= 0)
    before, after = mapped.calibration_error_
    error = calibration_error(p.ravel(), Y_TEST.ravel())
    assert error == pytest.approx(after, abs=0.05)
    if before is not None:
        assert after < before + 0.005
        assert error < calibration_error(plain.predict_proba(X_TEST).ravel(), Y_TEST.ravel()) + 0.02


def test_calibration_of_a_threshold_on_a_calibrated_classifier() -> None:
    inner = LowRankClassifier(**FIXED, calibration="sigmoid", random_state=0)
    model = MetricThreshold(inner, random_state=0).fit(X, Y)
    assert_array_equal(model.predict_proba(X_TEST), model.estimator_.predict_proba(X_TEST))


def test_calibration_needs_scores_that_were_held_out() -> None:
    with pytest.raises(InvalidParameterError, match="threshold='train' there are none"):
        LowRankClassifier(calibration="sigmoid", threshold="train").fit(X, Y)
    with pytest.raises(InvalidParameterError, match="known to be a no"):
        LowRankClassifier(calibration="sigmoid", unobserved="unlabelled").fit(X, np.nan_to_num(Y))
    with pytest.raises(UnknownNameError, match="calibration"):
        PlugInClassifier(calibration="beta").fit(X, Y)
    few = np.full(Y.shape, np.nan)
    few[0, 0], few[1, 0] = 0, 1
    with (
        pytest.warns(LabelgapWarning, match="not calibrated"),
        pytest.warns(LabelgapWarning, match="too few to hold any out"),
        pytest.warns(labelgap.exceptions.UninformativeLabelsWarning),
    ):
        PlugInClassifier(calibration="sigmoid").fit(X, few)


def test_a_second_fit_forgets_the_first() -> None:
    model = clone(CLASSIFIERS[2]).set_params(calibration="isotonic").fit(X, Y)
    model.set_params(calibration=None, threshold="train").fit(X, Y)
    assert model.calibration_error_ is None
    assert_array_equal(model.predict_proba(X), model.decision_function(X))
    with pytest.raises(InvalidParameterError, match="no held-out scores"):
        model.predict_set(X)


def test_what_is_told_of_a_calibrated_model() -> None:
    from labelgap.estimators.description import describe, in_lines

    model = clone(CLASSIFIERS[0]).set_params(calibration="sigmoid").fit(X, Y)
    facts = describe(model)
    assert facts["calibration"]["after"] == model.calibration_error_.after
    told = dict(in_lines(facts))["calibration"]
    assert told.startswith("sigmoid: expected error 0.0")
    assert "without" in told


# -- a fit that goes on from a checkpoint -------------------------------------------------------------------


def test_a_resumed_fit_has_the_same_sets(tmp_path: Path) -> None:
    model = LowRankClassifier(**FIXED, random_state=0, calibration="isotonic", n_jobs=1)
    whole = clone(model).fit(X, Y)

    class Stop(Exception):
        pass

    def stop(progress: Any) -> None:
        raise Stop

    with pytest.raises(Stop):
        clone(model).fit(X, Y, callback=stop, checkpoint=tmp_path / "progress")
    resumed = clone(model).fit(X, Y, checkpoint=tmp_path / "progress")
    assert resumed.set_cuts(0.9) == whole.set_cuts(0.9)
    assert resumed.calibration_error_ == whole.calibration_error_
    assert_allclose(resumed.coef_, whole.coef_, atol=1e-10)
