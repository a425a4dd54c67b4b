"""One threshold per label, each where the metric is best.

A macro metric is a mean over labels, so the best threshold of each label is found on its own entries. A micro
metric is one ratio N/D of sums over labels. By Dinkelbach's theorem its largest value ρ is where
``max_θ N(θ) − ρ D(θ)`` is 0, and for a given ρ that maximum is a sum over labels: each label has its own
best threshold, and the ratio reached is the next ρ. Both are exact. An instance metric couples the labels of
a row; for it thresholds are improved one label at a time, exactly for that label, until none improves
(coordinate ascent).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap import kernels
from labelgap._arrays import to_host
from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional, get_metric
from labelgap.metrics.linear_fractional import judged_labels
from labelgap.thresholds.sweep import ScoreArray, as_float_scores, best_threshold, between, refuse_nan

# Dinkelbach's ratios rise faster and faster; a handful is enough.
_MOST_RATIOS = 50
# Sweeps over all labels of the coordinate ascent.
_MOST_SWEEPS = 20
_NO_WEIGHTS, _ALL_ENTRIES = np.empty(0, np.float64), np.empty(0, np.bool_)


@dataclass(frozen=True)
class LabelThresholds:
    """A threshold for each label, the best shared one, and the metric that the former reach.

    ``value = Ψ([score_ij ≥ thresholds_j])`` over the observed entries.

    Parameters
    ----------
    thresholds : float64 array of length L
        In units of the scores; +inf means a no to every entry of the label, −inf a yes. A label without an
        observed entry has the shared threshold.
    value : float
        The metric at these thresholds.
    shared : float
        The best threshold for all labels together.

    Examples
    --------
    >>> from labelgap.thresholds import best_label_thresholds
    >>> found = best_label_thresholds([[0.9, 0.2], [0.7, 0.1]], [[1, 1], [0, 0]], "macro-f1")
    >>> found.thresholds.round(3).tolist(), found.value, round(found.shared, 3)
    ([0.8, 0.15], 1.0, 0.15)
    """

    thresholds: Floats
    value: float
    shared: float


def best_label_thresholds(
    scores: Any, labels: Any, metric: str | LinearFractional = "macro-f1"
) -> LabelThresholds:
    """The best threshold of each label over the observed entries.

    ``argmax_{θ_1..θ_L} Ψ([score_ij ≥ θ_j])``: exactly for macro metrics (label by label) and for micro
    metrics (Dinkelbach's iteration), by coordinate ascent from the best shared threshold for instance
    metrics. Labels with few observed entries are fitted to noise so; see :func:`choose_thresholds`.

    Parameters
    ----------
    scores : n x L array or sparse matrix, or 1-d array with one score per observed entry
        As for :func:`best_threshold`.
    labels : ObservedLabels or whatever it can be made from
    metric : str or LinearFractional, default "macro-f1"
        The metric Ψ and its average.

    Returns
    -------
    LabelThresholds
        ``thresholds``, ``value`` and ``shared``.

    Examples
    --------
    >>> import numpy as np
    >>> from labelgap.thresholds import best_label_thresholds
    >>> scores = np.array([[0.9, 0.3], [0.6, 0.2], [0.5, 0.1]])
    >>> labels = np.array([[1, 1], [0, 1], [0, 0]])
    >>> best_label_thresholds(scores, labels, "micro-f1").thresholds.round(3)
    array([0.75, 0.15])
    """
    observed = judged_labels(labels)
    psi = get_metric(metric)
    entry_scores = as_float_scores(observed.align(to_host(scores), what="scores"))
    refuse_nan(entry_scores, observed)
    shared = best_threshold(entry_scores, observed, psi)
    search = LabelSearch(entry_scores, observed, psi)
    thresholds = search.best(shared.threshold, shared.value)
    return LabelThresholds(thresholds, psi(observed, search.decisions(thresholds)), shared.threshold)


class LabelSearch:
    """The entries sorted by label and score, and the searches that walk through them.

    ``scores`` are one per observed entry, float32 or float64 without NaN.
    """

    def __init__(self, scores: ScoreArray, labels: ObservedLabels, metric: LinearFractional) -> None:
        self._entry_scores, self._labels, self._metric = scores, labels, metric
        falling = np.argsort(-scores, kind="stable")
        self._order = falling[np.argsort(labels.indices[falling], kind="stable")]
        self._starts = np.concatenate([[0], np.cumsum(labels.label_counts())]).astype(np.int64)
        self._scores = scores[self._order].astype(np.float64, copy=False)
        self._values = labels.values[self._order].astype(np.int8, copy=False)
        weighted = metric.balanced or labels.weights is not None
        self._weights = metric.entry_weights(labels)[self._order] if weighted else _NO_WEIGHTS
        self._rows = np.asarray(labels.rows[self._order], dtype=np.int64)
        self._coefficients = (metric.vertex_numerator, metric.vertex_denominator, metric.zero_division)

    def decisions(self, thresholds: Floats) -> NDArray[np.bool_]:
        """The decisions in the order of the labels' entries."""
        cut = np.asarray(thresholds, self._entry_scores.dtype)
        return np.asarray(self._entry_scores >= cut[self._labels.indices])

    def best(self, shared: float, shared_value: float) -> Floats:
        """The best threshold of each label, given the best shared one and what it reaches."""
        if self._metric.average == "macro":
            return self._filled(self.ratio_thresholds(), shared)
        if self._metric.average == "micro":
            return self._by_ratios(shared, shared_value)
        return self._by_coordinates(shared)

    # -- one walk down the scores of each label --------------------------------------------------------

    def ratio_thresholds(self, rows: NDArray[np.bool_] | None = None) -> Floats:
        """Where each label's own ratio is largest, over some of the rows; NaN for a label without entries."""
        above, below = self._nothing(), self._nothing()
        kernels.label_cuts.ratio_cuts(
            self._starts,
            self._scores,
            self._values,
            self._weights,
            self._kept(rows),
            *self._coefficients,
            above,
            below,
        )
        return self._between(above, below)

    def gain_thresholds(self, gains: Floats, rows: NDArray[np.bool_] | None = None) -> tuple[Floats, float]:
        """Where the gains above a label's threshold sum to the most, and the sum of these sums."""
        above, below = self._nothing(), self._nothing()
        total = kernels.label_cuts.gain_cuts(
            self._starts, self._scores, gains, self._kept(rows), above, below
        )
        return self._between(above, below), total

    def ratio_gains(self, ratio: float) -> Floats:
        """What a yes at each entry adds to ``N − ratio · D`` of a micro metric, in the sorted order."""
        return self._gains(self._metric.vertex_numerator - ratio * self._metric.vertex_denominator)

    def _gains(self, worth: Floats) -> Floats:
        """What a yes adds at each entry, if these are the worths of a tp, fp, fn and tn."""
        of_positive, of_negative = worth[0] - worth[2], worth[1] - worth[3]
        gains = np.where(self._values == 1, of_positive, of_negative)
        return np.asarray(gains if self._weights.size == 0 else gains * self._weights)

    def row_gains(self, thresholds: Floats) -> Floats:
        """What a yes at each entry adds to its row's ratio, if the other entries are decided so."""
        decided = self.decisions(thresholds)[self._order]
        gains = np.empty(len(self._scores))
        kernels.label_cuts.row_gains(
            self._rows,
            self._values,
            self._weights,
            decided,
            self._row_counts(decided),
            *self._coefficients,
            gains,
        )
        return gains

    # -- the searches ----------------------------------------------------------------------------------

    def _by_ratios(self, shared: float, shared_value: float) -> Floats:
        """Dinkelbach's iteration, from the ratio of the best shared threshold."""
        metric, labels = self._metric, self._labels
        best, ratio = np.full(labels.shape[1], shared), shared_value
        for _ in range(_MOST_RATIOS):
            found, _ = self.gain_thresholds(self.ratio_gains(ratio))
            found = self._filled(found, shared)
            value = metric(labels, self.decisions(found))
            if not value > ratio + 1e-14 * abs(ratio):
                break
            best, ratio = found, value
        if metric.zero_division > ratio:
            # A 0/0 is worth more than any ratio: the least denominator may be 0.
            found, _ = self.gain_thresholds(self._gains(-metric.vertex_denominator))
            found = self._filled(found, shared)
            best = found if metric(labels, self.decisions(found)) > ratio else best
        return best

    def _by_coordinates(self, shared: float) -> Floats:
        """One label at a time; each entry of a label is in another row, so gains of a label add up."""
        thresholds = np.full(self._labels.shape[1], shared)
        decided = self.decisions(thresholds)[self._order]
        counts = self._row_counts(decided)
        for _ in range(_MOST_SWEEPS):
            improved = [self._improve(j, thresholds, decided, counts) for j in range(len(thresholds))]
            if not any(improved):
                break
        return thresholds

    def _improve(
        self, label: int, thresholds: Floats, decided: NDArray[np.bool_], counts: NDArray[np.float64]
    ) -> bool:
        """Put the threshold of a label where it is best, others as they are; whether that is better."""
        part = slice(self._starts[label], self._starts[label + 1])
        size = part.stop - part.start
        if size == 0:
            return False
        rows, values = self._rows[part], self._values[part]
        weights = self._weights[part] if self._weights.size else _NO_WEIGHTS
        gains = np.empty(size)
        kernels.label_cuts.row_gains(rows, values, weights, decided[part], counts, *self._coefficients, gains)
        above, below = np.empty(1), np.empty(1)
        starts = np.array([0, size], dtype=np.int64)
        total = kernels.label_cuts.gain_cuts(starts, self._scores[part], gains, _ALL_ENTRIES, above, below)
        if not total > float(gains[decided[part]].sum()) + 1e-12 * float(np.abs(gains).sum()):
            return False
        thresholds[label] = self._between(above, below, empty=False)[0]
        now = np.asarray(self._scores[part] >= self._entry_scores.dtype.type(thresholds[label]))
        changed = now != decided[part]
        each = weights if weights.size else np.ones(size)
        # Of a positive entry tp and fn change, of a negative one fp and tn.
        yes = np.where(values == 1, 0, 1)
        step = np.where(now, 1.0, -1.0) * changed * each
        counts[rows, yes] += step
        counts[rows, yes + 2] -= step
        decided[part] = now
        return True

    # -- parts -----------------------------------------------------------------------------------------

    def _row_counts(self, decided: NDArray[np.bool_]) -> NDArray[np.float64]:
        """(tp, fp, fn, tn) of each row, for decisions in the sorted order."""
        column = np.where(self._values == 1, 0, 1) + 2 * ~decided
        weights = self._weights if self._weights.size else None
        n = self._labels.shape[0]
        table = np.bincount(self._rows * 4 + column, weights=weights, minlength=4 * n)
        return table.astype(np.float64).reshape(n, 4)

    def _kept(self, rows: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        return _ALL_ENTRIES if rows is None else rows[self._rows]

    def _nothing(self) -> Floats:
        return np.full(len(self._starts) - 1, np.nan)

    def _between(self, above: Floats, below: Floats, empty: bool = True) -> Floats:
        kind = self._entry_scores.dtype
        found = between(above.astype(kind), below.astype(kind)).astype(np.float64)
        if empty:
            # Neither neighbour: no entry of the label was there.
            found[np.isnan(above) & np.isnan(below)] = np.nan
        return found

    def _filled(self, thresholds: Floats, shared: float) -> Floats:
        return np.where(np.isnan(thresholds), shared, thresholds)
