"""From scores to calibrated probabilities: a monotone map that is fitted to held-out scores.

A map that is judged on the scores it was fitted to looks better than it is (the isotonic one, perfect). So
the error after calibration is that of maps that were each fitted without a fifth of the scores, on that
fifth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from labelgap._names import look_up
from labelgap._types import Floats
from labelgap.confidence.reliability import calibration_error
from labelgap.labels import ObservedLabels
from labelgap.persistence.registry import savable_record

_N_PARTS = 5
# Newton's method for two numbers is done after a few steps.
_MOST_STEPS, _TOLERANCE = 100, 1e-10
# The odds of a probability of 0 or 1 are not finite.
LEAST_PROBABILITY = 1e-12


@savable_record("calibration_error")
class CalibrationError(NamedTuple):
    """The expected calibration error of out-of-fold probabilities.

    ``before`` is None where the scores are no probabilities; ``after`` is cross-fitted.
    """

    before: float | None
    after: float


@savable_record("sigmoid_map")
@dataclass(frozen=True)
class SigmoidMap:
    """Platt's method: ``p = 1 / (1 + exp(−(slope · z + intercept)))``.

    Parameters
    ----------
    slope, intercept : float
    of_probabilities : bool
        Whether z is the log-odds of the score, which is a probability then, or the score itself.

    Examples
    --------
    >>> SigmoidMap(2.0, 0.0, of_probabilities=False)(np.array([0.0, 1.0])).round(3)
    array([0.5  , 0.881])
    """

    slope: float
    intercept: float
    of_probabilities: bool

    def __post_init__(self) -> None:
        if not (np.isfinite(self.slope) and np.isfinite(self.intercept)):
            raise ValueError("its calibration is not finite")

    def __call__(self, scores: Floats) -> Floats:
        z = log_odds(scores) if self.of_probabilities else np.asarray(scores)
        with np.errstate(invalid="ignore"):
            return np.asarray(expit(self.slope * z + self.intercept))


@savable_record("isotonic_map")
@dataclass(frozen=True)
class IsotonicMap:
    """Isotonic regression: rising steps, joined by straight lines, and constant beyond the ends.

    Parameters
    ----------
    scores, probabilities : arrays
        Where the lines meet.

    Examples
    --------
    >>> IsotonicMap(np.array([0.0, 1.0]), np.array([0.2, 0.6]))(np.array([-1.0, 0.5, 2.0]))
    array([0.2, 0.4, 0.6])
    """

    scores: Floats
    probabilities: Floats

    def __post_init__(self) -> None:
        x, y = self.scores, self.probabilities
        arrays = all(isinstance(a, np.ndarray) and a.dtype == np.float64 and a.ndim == 1 for a in (x, y))
        if not arrays or len(x) != len(y) or not len(x) or (np.diff(x) < 0).any() or (np.diff(y) < 0).any():
            raise ValueError("the steps of its calibration do not rise")

    def __call__(self, scores: Floats) -> Floats:
        return np.interp(scores, self.scores, self.probabilities)


CalibrationMap = SigmoidMap | IsotonicMap


def log_odds(probabilities: Floats) -> Floats:
    """``log(p / (1 − p))``, finite at 0 and 1."""
    return np.asarray(logit(np.clip(probabilities, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)))


def fit_sigmoid(scores: Floats, values: NDArray[Any], weights: Floats, of_probabilities: bool) -> SigmoidMap:
    """Platt's map, with his targets a little inside 0 and 1, by Newton's method with halved steps."""
    z = log_odds(scores) if of_probabilities else scores
    yes = values == 1
    positive, negative = float(weights[yes].sum()), float(weights[~yes].sum())
    target = np.where(yes, (positive + 1) / (positive + 2), 1 / (negative + 2))
    # In units of their spread, so that scores of any size do.
    centre, spread = float(np.average(z, weights=weights)), float(np.std(z)) or 1.0
    design = np.column_stack([(z - centre) / spread, np.ones(len(z))])
    total = float(weights.sum())

    def loss(theta: Floats) -> float:
        u = design @ theta
        return float(weights @ (np.logaddexp(0.0, u) - target * u)) / total

    theta = np.array([0.0, float(logit(np.average(target, weights=weights)))])
    value = loss(theta)
    for _ in range(_MOST_STEPS):
        p = expit(design @ theta)
        gradient = design.T @ (weights * (p - target)) / total
        curvature = (design * (weights * p * (1 - p) / total)[:, None]).T @ design
        step = np.linalg.solve(curvature + 1e-12 * np.eye(2), gradient)
        length = 1.0
        while loss(theta - length * step) > value and length > 1e-10:
            length /= 2
        theta = theta - length * step
        value, before = loss(theta), value
        if before - value <= _TOLERANCE * max(abs(value), 1e-300) and np.abs(gradient).max() < _TOLERANCE:
            break
    slope = theta[0] / spread
    return SigmoidMap(float(slope), float(theta[1] - slope * centre), of_probabilities)


def fit_isotonic(
    scores: Floats, values: NDArray[Any], weights: Floats, of_probabilities: bool
) -> IsotonicMap:
    """scikit-learn's isotonic regression; the map is the same for scores and for their log-odds."""
    # Imported where it is needed: it would take time from every start.
    from sklearn.isotonic import IsotonicRegression

    found = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    found.fit(scores, values.astype(np.float64), sample_weight=weights)
    x, y = (np.asarray(a, dtype=np.float64) for a in (found.X_thresholds_, found.y_thresholds_))
    return IsotonicMap(x, y)


FIT_MAP: dict[str, Callable[[Floats, NDArray[Any], Floats, bool], CalibrationMap]] = {
    "isotonic": fit_isotonic,
    "sigmoid": fit_sigmoid,
}
"""What ``calibration`` can be."""


def calibrate(
    scores: Floats, labels: ObservedLabels, how: str, probabilities: Floats | None, of_probabilities: bool
) -> tuple[CalibrationMap, CalibrationError]:
    """The map from scores to probabilities, and the error before and after it.

    ``probabilities`` are those before calibration, None where there are none; ``of_probabilities`` says
    whether the scores are probabilities themselves.
    """
    fit = look_up("calibration", how, FIT_MAP)
    values, n = labels.values, len(scores)
    weights = np.ones(n) if labels.weights is None else labels.weights
    part = np.empty(n, dtype=np.int64)
    # Entries of either class in turn, in a fixed random order, so that every part has both.
    order = np.lexsort((np.random.RandomState(0).permutation(n), values))
    part[order] = np.arange(n) % _N_PARTS
    after = np.empty(n)
    for number in range(_N_PARTS):
        here = part == number
        after[here] = fit(scores[~here], values[~here], weights[~here], of_probabilities)(scores[here])
    before = None if probabilities is None else calibration_error(probabilities, values, labels.weights)
    error = CalibrationError(before, calibration_error(after, values, labels.weights))
    return fit(scores, values, weights, of_probabilities), error
