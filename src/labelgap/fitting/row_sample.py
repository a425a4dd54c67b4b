"""The coarse look: settings are compared by fits to a sample of the rows, judged on other rows.

A search makes many fits, and most of them are to penalties that are far from the best ones. Where there are
many entries, a sample of the rows tells those apart, and entries of other rows, which cost nothing to fit,
judge it more closely than a fold could. All rows then look at the best penalties of the sample alone.

The sample is fitted in the coordinates of all rows, so that its best fit is where the first fit to all of
them starts. It has no entry of the folds that the threshold is chosen on: what a start had seen of them would
show in scores of fits that are not exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap.fitting.cross_validation import CrossValidation
from labelgap.labels import ObservedLabels
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Objective

# Entries of the sample, and of the rarer class among them, at least; and the fraction of all at least.
_ENTRIES, _RARE, _FRACTION = 30_000, 600, 1 / 16
# A sample is drawn if it has at most this fraction of the entries.
_MOST = 0.34
# Entries that judge, in units of those that are fitted.
_JUDGED = 3.0


@dataclass(frozen=True)
class RowSample:
    """Rows that are fitted and rows that judge, and the entries that are fitted."""

    fitted: NDArray[np.int64]
    judged: NDArray[np.int64]
    is_open: NDArray[np.bool_]
    """For each entry of all rows, whether a fit to the sample may see it."""
    times: float
    """How many times as many entries a fold of all rows is fitted to."""
    may_start: bool
    """Whether fits to the sample have seen nothing of the entries that choose the threshold."""


def draw_rows(
    labels: ObservedLabels, plan: NDArray[Any], n_folds: int, rng: np.random.RandomState
) -> RowSample | None:
    """A sample of the rows without the entries of the first folds of a plan; None where all are needed.

    Examples
    --------
    >>> few = ObservedLabels.from_dense([[1, 0], [0, 1]])
    >>> draw_rows(few, np.array([0, 0, 1, 1]), 1, np.random.RandomState(0)) is None
    True
    """
    rare = min(int(np.sum(labels.values == 1)), int(np.sum(labels.values == 0)))
    if rare == 0:
        return None
    is_open = (plan < 0) | (plan >= n_folds)
    may_start = bool(is_open.any())
    if not may_start:
        is_open[:] = True
    fraction = max(_FRACTION, _ENTRIES / labels.n_observed, _RARE / rare)
    if fraction > _MOST:
        return None
    counts = np.bincount(labels.rows[is_open], minlength=labels.shape[0])
    drawn = rng.permutation(labels.shape[0])
    # Rows that are held out as a whole have nothing to fit, and judge.
    drawn = np.concatenate([drawn[counts[drawn] > 0], drawn[counts[drawn] == 0]])
    wanted = fraction * labels.n_observed
    n_fitted = int(np.searchsorted(np.cumsum(counts[drawn]), wanted)) + 1
    fitted, others = drawn[:n_fitted], drawn[n_fitted:]
    n_judged = int(np.searchsorted(np.cumsum(labels.row_counts()[others]), _JUDGED * wanted)) + 1
    if not len(others):
        return None
    times = int(np.sum(plan != 0)) / int(counts[fitted].sum())
    return RowSample(np.sort(fitted), np.sort(others[:n_judged]), is_open, times, may_start)


class SampleValidation(CrossValidation):
    """Fits choices of penalties to a sample of the rows, and judges their scores on other rows."""

    def __init__(self, problem: Problem, labels: ObservedLabels, sample: RowSample, *settings: Any) -> None:
        judged = labels.take_rows(sample.judged)
        super().__init__(
            problem.of_rows(sample.judged, judged), judged, np.zeros(judged.n_observed, np.int8), *settings
        )
        self._fitted = labels.select(sample.is_open).take_rows(sample.fitted)
        self._sampled = problem.of_rows(sample.fitted, self._fitted)

    def _objective(self, fold: int, train: ObservedLabels, *, free_intercept: bool) -> Objective:
        key = (0, free_intercept)
        if key not in self._objectives:
            self._objectives[key] = self._sampled.objective(self._fitted, free_intercept=free_intercept)
        return self._objectives[key]
