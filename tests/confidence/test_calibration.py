"""Calibration maps against scikit-learn's, and the calibration error against a loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression

from labelgap import ObservedLabels
from labelgap.confidence.calibration import (
    FIT_MAP,
    IsotonicMap,
    SigmoidMap,
    calibrate,
    fit_isotonic,
    fit_sigmoid,
    log_odds,
)
from labelgap.confidence.reliability import calibration_error
from labelgap.exceptions import UnknownNameError
from labelgap.report.calibration import reliability


def sample(n: int = 2000, scale: float = 1.0) -> tuple[Any, Any, Any]:
    rng = np.random.RandomState(0)
    scores = rng.standard_normal(n)
    values = (rng.uniform(size=n) < 1 / (1 + np.exp(-(0.7 * scores - 1)))).astype(np.int8)
    return scale * scores, values, rng.uniform(0.5, 2, size=n)


def test_maps_are_those_of_scikit_learn() -> None:
    for scale in (1.0, 1e3, 1e-4):
        scores, values, given = sample(scale=scale)
        for weights in (np.ones(len(scores)), given):
            found = fit_sigmoid(scores, values, weights, of_probabilities=False)
            theirs = _SigmoidCalibration().fit(scores, values, weights)
            assert_allclose(found(scores), theirs.predict(scores), atol=2e-4, err_msg=str(scale))
    scores, values, weights = sample()
    found = fit_isotonic(scores, values, weights, of_probabilities=False)
    theirs = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    theirs.fit(scores, values.astype(float), sample_weight=weights)
    everywhere = np.linspace(-5, 5, 1001)
    assert_allclose(found(everywhere), theirs.predict(everywhere), atol=1e-12)


def test_sigmoid_of_probabilities_is_about_their_odds() -> None:
    scores, values, weights = sample()
    p = 1 / (1 + np.exp(-scores))
    of_odds = fit_sigmoid(p, values, weights, of_probabilities=True)
    assert_allclose(
        of_odds(p), fit_sigmoid(scores, values, weights, of_probabilities=False)(scores), atol=1e-8
    )
    assert np.isfinite(of_odds(np.array([0.0, 1.0]))).all()
    assert np.isfinite(log_odds(np.array([0.0, 1.0]))).all()
    # Of classes that a score separates it stays within 0 and 1.
    for values in ([0, 0, 0], [1, 1, 1], [0, 1, 1]):
        found = fit_sigmoid(np.arange(3.0), np.array(values), np.ones(3), of_probabilities=False)
        p = found(np.arange(3.0))
        assert np.all((p > 0) & (p < 1))


@pytest.mark.parametrize("weighted", [False, True])
def test_calibration_error_is_that_of_the_report(weighted: bool) -> None:
    scores, values, weights = sample(400)
    p = np.round(1 / (1 + np.exp(-scores)), 2)
    error = calibration_error(p, values, weights if weighted else None)
    assert error == pytest.approx(reliability(p, values, weights if weighted else None)["error"], abs=1e-15)
    assert calibration_error(np.array([0.5, 0.5]), np.array([0, 1])) == 0.0


@pytest.mark.parametrize("how", FIT_MAP)
def test_the_error_after_calibration_is_not_that_of_the_training_scores(how: str) -> None:
    scores, values, _ = sample(300)
    labels = ObservedLabels.from_dense(values[:, None])
    p = 1 / (1 + np.exp(-scores))
    found, error = calibrate(scores, labels, how, p, of_probabilities=False)
    assert error.before == pytest.approx(calibration_error(p, values))
    assert error.after < error.before
    if how == "isotonic":
        assert calibration_error(found(scores), values) < 0.5 * error.after
    # Noise does not look calibrated by chance.
    rng = np.random.RandomState(1)
    labels = ObservedLabels.from_dense((rng.uniform(size=(60, 1)) < 0.5).astype(float))
    _, error = calibrate(rng.standard_normal(60), labels, how, None, of_probabilities=False)
    assert error.before is None
    assert error.after > 0.02


def test_unknown_and_forged_maps_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="calibration"):
        calibrate(np.zeros(2), ObservedLabels.from_dense([[0, 1]]), "beta", None, of_probabilities=False)
    with pytest.raises(ValueError, match="not finite"):
        SigmoidMap(np.inf, 0.0, of_probabilities=False)
    for x, y in (([0.0, 1.0], [1.0, 0.0]), ([1.0, 0.0], [0.0, 1.0]), ([0.0], [0.0, 1.0]), ([], [])):
        with pytest.raises(ValueError, match="do not rise"):
            IsotonicMap(np.array(x, dtype=float), np.array(y, dtype=float))
