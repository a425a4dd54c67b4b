"""The coarse look: settings are compared by fits to a sample of the rows, judged on other rows.

A search makes many fits, and most of them are to penalties that are far from the best ones. Where there are
many entries, a sample of the rows tells those apart, and entries of other rows, which cost nothing to fit,
judge it more closely than a fold could. All rows then look at the best penalties of the sample, and at weaker
ones (:func:`labelgap.fitting.trace_search.weaken`). They start from the fit of the sample, which is not
fitted to the entries that the first fold holds out.

λ₂ and κ mean the same for any number of entries in units of one entry. The best λ falls with the square root
of their number, like the noise in the gradient that it must keep out
(:meth:`labelgap.fitting.penalty_grid.PenaltyGrid.for_sample`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from labelgap.fitting.cross_validation import CrossValidation
from labelgap.fitting.search import select_roughly
from labelgap.labels import ObservedLabels
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Objective
from labelgap.solvers.loop import Candidate

if TYPE_CHECKING:
    from labelgap.fitting.choice import PenaltyChoice

# Entries of the sample, and of the rarer class among them, at least; and the fraction of all at least.
_ENTRIES, _RARE, _FRACTION = 24_000, 480, 0.125
# A sample is drawn if it has at most this fraction of the entries. Above it there is nothing to gain: much of
# the time of a fit goes into the d x L matrix, whatever the number of entries.
_MOST = 0.125
# Entries that judge, in units of those that are fitted.
_JUDGED = 3.0


class RowSample(NamedTuple):
    """Rows that are fitted, and rows that judge."""

    fitted: NDArray[np.int64]
    judged: NDArray[np.int64]
    times: float
    """How many times as many entries a fold of all rows is fitted to."""


def draw_rows(labels: ObservedLabels, rng: np.random.RandomState) -> RowSample | None:
    """A sample of the rows; None where all are needed. ``labels`` are those that a fold is fitted to.

    Examples
    --------
    >>> few = ObservedLabels.from_dense([[1, 0], [0, 1]])
    >>> draw_rows(few, np.random.RandomState(0)) is None
    True
    """
    judging = labels.judged().values
    rare = min(int(np.sum(judging == 1)), int(np.sum(judging == 0)))
    fraction = max(_FRACTION, _ENTRIES / labels.n_observed, _RARE / max(rare, 1))
    if fraction > _MOST:
        return None
    drawn = rng.permutation(labels.shape[0])
    until = np.cumsum(labels.row_counts()[drawn])
    wanted = fraction * labels.n_observed
    n_fitted, n_used = (int(np.searchsorted(until, count)) + 1 for count in (wanted, (1 + _JUDGED) * wanted))
    fitted, judged = drawn[:n_fitted], drawn[n_fitted:n_used]
    if until[min(n_used, len(until)) - 1] - until[n_fitted - 1] < wanted:
        # A few rows have most of the entries.
        return None
    return RowSample(np.sort(fitted), np.sort(judged), labels.n_observed / int(until[n_fitted - 1]))


class SampleValidation(CrossValidation):
    """Fits choices of penalties to a sample of the rows, and judges their scores on other rows.

    ``seen`` are the labels that may be fitted to.
    """

    def __init__(
        self,
        problem: Problem,
        labels: ObservedLabels,
        seen: ObservedLabels,
        sample: RowSample,
        *settings: Any,
    ) -> None:
        judged = labels.take_rows(sample.judged)
        plan = np.zeros(judged.n_observed, dtype=np.int64)
        super().__init__(problem.of_rows(sample.judged, judged), judged, plan, *settings)
        self._fitted = seen.take_rows(sample.fitted)
        self._sampled = problem.of_rows(sample.fitted, self._fitted)

    def objective(self, fold: int, *, free_intercept: bool) -> Objective:
        key = (fold, free_intercept)
        if key not in self._objectives:
            self._objectives[key] = self._sampled.objective(self._fitted, free_intercept=free_intercept)
        return self._objectives[key]


def sample_for(choice: PenaltyChoice, plan: Any) -> RowSample | None:
    """Rows for the coarse look of a choice; None where there is none.

    Dense features have none: as many directions as there are features speak for each label, and a sample
    wants far more ridge than all rows do.
    """
    settings = choice.problem.settings
    if (
        not choice.samples_rows
        or choice.held_out is not None
        # The rows that judge would be of the groups that are fitted.
        or choice.groups is not None
        or len(choice.grid.traces) == 1
        or settings.features.own_rows
        or not choice.problem.has_sparse_features
        or settings.features.penalty == "scores"
        or settings.flip_rate is not None
    ):
        return None
    rng = check_random_state(choice.run.random_state)
    return draw_rows(choice.labels.select(plan != 0), rng)


def look_at_sample(choice: PenaltyChoice, sample: RowSample, plan: Any, tol: float) -> Candidate:
    """The best candidate of a sample of the rows, with the penalties that it stands for.

    The choice is left standing at all rows, in the settings of that candidate.
    """

    def search() -> Candidate:
        best = select_roughly(
            lambda choices: choice.compare_at(choice.standing, choices, tol, 1),
            choice.grid,
            criterion=choice.criterion,
        )
        return choice.select_settings(best, plan, tol, 1, coarse=True)

    best, fitted = choice.on_fewer_entries(sample.times, plan, search, sample=sample)
    folds = choice.cross_validation("search", plan)
    choice.stand_at(choice.standing._replace(folds=folds))
    if fitted is not None:
        folds.start_all_from(fitted, [0])
    return best
