"""``predict_set``, ``recalibrate`` and ``calibration`` of every classifier."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.svm import LinearSVC

from labelgap import LowRankClassifier, MetricThreshold, ObservedLabels, PlugInClassifier, load
from labelgap.confidence import calibration_error
from labelgap.confidence.calibration import IsotonicMap, SigmoidMap, fit_isotonic, fit_sigmoid
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import (
    InvalidParameterError,
    LabelgapWarning,
    UninformativeLabelsWarning,
    UnknownNameError,
)
from labelgap.sampling import Popular
from quick_estimators import cut, low_rank, plug_in
from refusals import assert_refused

PROBLEM = make_low_rank_labels(n=250, n_labels=12, observed=0.4, random_state=0)
X, Y, X_TEST, Y_TEST = PROBLEM.X, PROBLEM.Y_observed, PROBLEM.X_test, PROBLEM.Y_test
HALF = len(X_TEST) // 2
FIRST, REST = slice(None, HALF), slice(HALF, None)
LOW_RANK, PLUG_IN = low_rank(), plug_in()
CLASSIFIERS = [LOW_RANK, low_rank(threshold="holdout", loss="squared"), PLUG_IN, cut(), cut(LinearSVC())]
every_classifier = pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: str(model)[:60])
FITTED: dict[str, Any] = {}


def fitted(model: Any) -> Any:
    key = str(model)
    if key not in FITTED:
        FITTED[key] = clone(model).fit(X, Y)
    return FITTED[key]


def error_of(p: Any, Y: Any) -> float:
    return calibration_error(p.ravel(), Y.ravel())


def coverage_of(sets: Any, Y: Any) -> float:
    return float(np.mean(np.isnan(sets) | (sets == Y)))


@every_classifier
def test_sets_follow_from_scores_and_cuts_and_cover_the_truth(model: Any) -> None:
    model = fitted(model)
    scores, decided = model.decision_function(X_TEST), model.predict(X_TEST, output="dense")
    before = np.zeros(Y_TEST.shape, dtype=bool)
    for coverage in (0.5, 0.8, 0.9, 0.98):
        sets, cuts = model.predict_set(X_TEST, coverage), model.set_cuts(coverage)
        yes, no = scores >= cuts.yes_from, scores <= cuts.no_up_to
        assert_array_equal(np.isnan(sets), yes & no)
        neither = ~yes & ~no
        assert_array_equal(sets[neither], decided[neither])
        assert_array_equal(sets[yes ^ no], yes[yes ^ no])
        # More coverage decides less.
        assert not np.any(before & ~np.isnan(sets))
        before = np.isnan(sets)
    for guarantee, parts in (("entries", [Y_TEST >= 0]), ("class", [Y_TEST == 1, Y_TEST == 0])):
        sets = model.predict_set(X_TEST, coverage=0.9, guarantee=guarantee)
        for part in parts:
            # About 1,200 held-out entries: the coverage has a standard error of about 0.012.
            assert coverage_of(sets[part], Y_TEST[part]) > 0.86, guarantee


def test_forms_of_sets() -> None:
    model = fitted(LOW_RANK)
    dense = model.predict_set(X_TEST, 0.99)
    assert dense.dtype == np.float64
    assert np.isnan(dense).any()
    sparse = model.predict_set(X_TEST, 0.99, output="sparse")
    assert sp.issparse(sparse)
    assert sparse.nnz == np.sum(dense != 0)
    assert_array_equal(sparse.toarray(), dense)
    assert_array_equal(model.predict_set(sp.csr_array(X_TEST), 0.99), dense)
    # More rows than one block has.
    times = 6_000_000 // dense.size
    many = model.predict_set(np.tile(X_TEST, (times, 1)), 0.99).reshape(times, *dense.shape)
    assert_array_equal(many[[0, -1]], [dense, dense])
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


def test_given_scores_are_calibrated_on_their_labels() -> None:
    scores = fitted(LOW_RANK).decision_function(X_TEST)
    model = MetricThreshold().fit(scores[FIRST], Y_TEST[FIRST])
    for guarantee in ("class", "entries"):
        assert coverage_of(model.predict_set(scores[REST], 0.9, guarantee), Y_TEST[REST]) > 0.87
    assert not hasattr(model, "predict_proba")
    with_map = MetricThreshold(calibration="isotonic").fit(scores[FIRST], Y_TEST[FIRST])
    assert with_map.calibration_error_.before is None
    assert error_of(with_map.predict_proba(scores[REST]), Y_TEST[REST]) < 0.05
    assert 0 < with_map.threshold_probability_ < 1
    assert error_of(model.recalibrate(scores, Y_TEST).predict_proba(scores), Y_TEST) < 0.05


def test_recalibrated_sets_are_those_of_split_conformal_prediction() -> None:
    model = low_rank(threshold="train").fit(X, Y)
    with pytest.raises(InvalidParameterError, match="threshold='train' holds nothing out"):
        model.predict_set(X_TEST)
    weights = np.arange(HALF) % 3
    model.recalibrate(X_TEST[FIRST], Y_TEST[FIRST], sample_weight=weights)
    z, kept = model.decision_function(X_TEST[FIRST]), weights > 0
    entry_weights = np.repeat(weights[:, None], 12, axis=1)
    yes = (Y_TEST[FIRST] == 1) & kept[:, None]
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
    labels = ObservedLabels.from_dense(np.where(rng.uniform(size=(n, n_labels)) < p, truth, np.nan))
    plain, weighted = (
        coverage_of(MetricThreshold().fit(scores, given).predict_set(scores, 0.9, output="dense"), truth)
        for given in (labels, labels.with_weights(1 / p))
    )
    assert plain < 0.86
    assert weighted == pytest.approx(0.9, abs=0.015)


def test_too_few_entries_are_told() -> None:
    Y_few = np.where(np.arange(250)[:, None] < 12, Y, np.nan)
    model = plug_in().fit(X, Y_few)
    with pytest.warns(LabelgapWarning, match="that class is in every set"):
        sets = model.predict_set(X_TEST, 0.999)
    assert np.isnan(sets).all()
    few = np.full(Y.shape, np.nan)
    few[0, 0], few[1, 0] = 0, 1
    with (
        pytest.warns(LabelgapWarning, match="not calibrated"),
        pytest.warns(LabelgapWarning, match="too few to hold any out"),
        pytest.warns(UninformativeLabelsWarning),
    ):
        PlugInClassifier(calibration="sigmoid").fit(X, few)


def test_what_makes_no_sense_is_refused() -> None:
    model = fitted(PLUG_IN)
    for bad in (0.0, 1.0, 2, "much"):
        use = partial(model.predict_set, X_TEST, coverage=bad)
        assert_refused(use, "coverage must be", InvalidParameterError, bad)
    for use, word in (
        (partial(model.predict_set, X_TEST, guarantee="label"), "guarantee"),
        (partial(model.predict_set, X_TEST, output="list"), "output"),
        (partial(model.recalibrate, X_TEST, Y_TEST, unobserved="unknown"), "unobserved"),
        (partial(model.recalibrate, X_TEST, Y_TEST, calibration="platt"), "calibration"),
    ):
        assert_refused(use, word, UnknownNameError)
    with pytest.raises(InvalidParameterError, match="threshold='train' there are none"):
        LowRankClassifier(calibration="sigmoid", threshold="train").fit(X, Y)
    with pytest.raises(InvalidParameterError, match="known to be a no"):
        LowRankClassifier(calibration="sigmoid", unobserved="unlabelled").fit(X, np.nan_to_num(Y))


# -- calibration ---------------------------------------------------------------------------------------------


@every_classifier
def test_recalibrate_calibrates_whatever_the_model_was_made_with(model: Any) -> None:
    new, first = clone(model).fit(X, Y), (X_TEST[FIRST], Y_TEST[FIRST])
    scores, decisions = new.decision_function(X_TEST), new.predict(X_TEST, output="dense")
    for given, fit_map in ((None, fit_sigmoid), ("isotonic", fit_isotonic), ("sigmoid", fit_sigmoid)):
        new.recalibrate(*first, calibration=given)
        at = new.decision_function(X_TEST[FIRST]).ravel()
        of_probabilities = not hasattr(new, "coef_left_") and hasattr(model, "predict_proba")
        expected = fit_map(at, Y_TEST[FIRST].ravel(), np.ones(len(at)), of_probabilities)
        assert isinstance(expected, SigmoidMap if fit_map is fit_sigmoid else IsotonicMap)
        assert_allclose(new.predict_proba(X_TEST), expected(scores), atol=1e-9)
        assert error_of(new.predict_proba(X_TEST[REST]), Y_TEST[REST]) < 0.06
        assert_array_equal(new.predict(X_TEST, output="dense"), decisions)


@every_classifier
@pytest.mark.parametrize("how", ["isotonic", "sigmoid"])
def test_calibration_changes_probabilities_only(model: Any, how: str) -> None:
    plain, mapped = fitted(model), clone(model).set_params(calibration=how).fit(X, Y)
    assert mapped.threshold_ == plain.threshold_
    scores = mapped.decision_function(X_TEST)
    assert_array_equal(scores, plain.decision_function(X_TEST))
    assert_array_equal(mapped.predict(X_TEST), plain.predict(X_TEST))
    p = mapped.predict_proba(X_TEST)
    assert np.all((p >= 0) & (p <= 1))
    assert np.all(np.diff(p[:, 0][np.argsort(scores[:, 0])]) >= 0)
    before, after = mapped.calibration_error_
    error = error_of(p, Y_TEST)
    assert error == pytest.approx(after, abs=0.05)
    if before is not None:
        assert after < before + 0.005
        assert error < error_of(plain.predict_proba(X_TEST), Y_TEST) + 0.02
    # What the model was made with comes before the default of recalibrate.
    if how == "isotonic":
        expected = clone(model).fit(X, Y).recalibrate(X_TEST, Y_TEST, calibration="isotonic")
        p = mapped.recalibrate(X_TEST, Y_TEST).predict_proba(X_TEST)
        assert_array_equal(p, expected.predict_proba(X_TEST))


def test_fits_without_held_out_scores() -> None:
    likes = np.where(Y == 1, 1.0, 0.0)
    model = low_rank(unobserved="unlabelled", flip_rate=0.2).fit(X, likes)
    with pytest.raises(InvalidParameterError, match="recorded positives alone"):
        model.predict_set(X_TEST)
    before, decisions = model.predict_proba(X_TEST), model.predict(X_TEST, output="dense")
    # Recorded positives calibrate nothing.
    recorded = ObservedLabels.from_any(likes, "unlabelled")
    for fit in (model, fitted(LOW_RANK)):
        for labels, given in ((recorded, None), (recorded, "missing"), (likes, "unlabelled")):
            use = partial(fit.recalibrate, X, labels, unobserved=given)
            assert_refused(use, "known negatives", InvalidParameterError, given)
    assert_array_equal(model.predict_proba(X_TEST), before)
    # After such a fit, labels without a meaning of their own may have gaps.
    assert model.recalibrate(X_TEST, Y_TEST).predict_set(X_TEST).shape == Y_TEST.shape
    # Probabilities of a recorded yes, or of half of them, were too low or too high; checked labels tell.
    error = error_of(before, Y_TEST)
    assert error_of(model.predict_proba(X_TEST), Y_TEST) < error
    assert model.calibration_error_.before == pytest.approx(error)
    assert_array_equal(model.predict(X_TEST, output="dense"), decisions)


def test_calibration_is_saved_and_ends_with_the_next_fit(tmp_path: Path) -> None:
    model = low_rank().fit(X, Y)
    plain = model.predict_proba(X_TEST)
    model.recalibrate(X_TEST, Y_TEST).save(tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").predict_proba(X_TEST), model.predict_proba(X_TEST))
    assert_array_equal(model.fit(X, Y).predict_proba(X_TEST), plain)
    model = plug_in(calibration="isotonic").fit(X, Y)
    model.set_params(calibration=None, threshold="train").fit(X, Y)
    assert model.calibration_error_ is None
    assert_array_equal(model.predict_proba(X), model.decision_function(X))
    with pytest.raises(InvalidParameterError, match="no held-out scores"):
        model.predict_set(X)
    # A threshold on a calibrated classifier keeps its probabilities.
    model = MetricThreshold(low_rank(calibration="sigmoid"), random_state=0).fit(X, Y)
    assert_array_equal(model.predict_proba(X_TEST), model.estimator_.predict_proba(X_TEST))


def test_a_resumed_fit_has_the_same_sets(tmp_path: Path) -> None:
    model = low_rank(calibration="isotonic", n_jobs=1)
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
