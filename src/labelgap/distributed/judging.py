"""The metric of scores on a cluster, and its exact best threshold.

Few entries are gathered, and judged as on one machine. Of many, the workers count positives and negatives
in buckets of the scores; the sums bound the metric in every bucket, and only the entries of buckets that may
hold the best threshold travel (:mod:`labelgap.thresholds.narrowing`). The threshold is the same one, exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.distributed import scoring as tasks
from labelgap.distributed.scoring import ClusterScores
from labelgap.exceptions import InvalidParameterError
from labelgap.fitting.judges import Judge, MetricJudge, SteadyJudge, Verdict
from labelgap.losses import Loss
from labelgap.metrics import LinearFractional
from labelgap.thresholds.cross_fit import OneClassEffect
from labelgap.thresholds.narrowing import MOST_BUCKETS, narrowed_cut
from labelgap.thresholds.sweep import best_threshold, between

# Entries that are gathered: as many as a threshold is averaged over parts of (``steady_threshold``).
GATHERED = 200_000
# Entries that may be gathered where they cannot be counted: an average over rows, or a metric that is level.
_MOST_GATHERED = 1 << 24
# Scores that the edges of buckets are taken from.
_SAMPLE = 1 << 16


class ClusterEntries:
    """The entries of a cluster as the search for the best cut sees them; it counts, and looks at few."""

    most_buckets = MOST_BUCKETS

    def __init__(self, scores: ClusterScores, facts: list[tasks.ScoreFacts], by_label: bool) -> None:
        self._scores, self._by_label = scores, by_label
        self.size = sum(one.n_entries for one in facts)
        self._highest = max(one.highest for one in facts)
        self._sample = np.sort(np.concatenate([one.sample for one in facts]))
        self._edges: Floats = np.empty(0)

    def highest(self) -> float:
        return self._highest

    def counts(self, n_buckets: int) -> NDArray[Any]:
        places = np.arange(1, n_buckets) * len(self._sample) // n_buckets
        self._edges = np.unique(self._sample[places])
        counts: NDArray[Any] = self._scores.rounds.sum(
            tasks.bucket_counts, self._scores.scoring, self._edges, self._by_label
        )
        # Buckets between equal edges have nothing in them.
        empty = np.zeros((n_buckets - len(counts), *counts.shape[1:]), dtype=np.int64)
        return np.concatenate([counts, empty])

    def near(self, marked: NDArray[np.bool_]) -> tuple[Any, Any, Any, Any]:
        pieces = self._scores.rounds.each_of(
            tasks.marked_entries, self._scores.scoring, self._edges, marked, self._by_label
        )
        scores, values, groups, buckets = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        return scores, values, groups, buckets

    def highest_below(self, above: float) -> float:
        found = max(self._scores.rounds.each_of(tasks.highest_below, self._scores.scoring, above))
        return float("nan") if found == -np.inf else float(found)


def cluster_judge(
    metric: LinearFractional, loss: Loss, *, steady: bool, effect: OneClassEffect | None = None
) -> Judge:
    """The metric at its best threshold; with ``steady`` at the threshold that is to be used.

    ``effect`` sees the scores, where they are gathered.
    """
    local = SteadyJudge(metric, loss, effect) if steady else MetricJudge(metric, loss)

    def judge(scores: Any, held: Any) -> Verdict:
        assert isinstance(scores, ClusterScores)
        countable = metric.average != "instance" and not (metric.balanced and metric.average == "macro")
        if scores.about <= GATHERED or (not countable and scores.about <= _MOST_GATHERED):
            return local(*scores.on_client())
        if not countable:
            raise InvalidParameterError(
                f"{metric.name or 'This metric'} needs all scores of a row or a label in one place, and here "
                f"are about {scores.about:.2g} (at most {_MOST_GATHERED:.2g} are possible). Choose a micro "
                "or a macro metric."
            )
        return _counted(scores, metric, loss, steady)

    return judge


def cluster_threshold(scores: ClusterScores, metric: LinearFractional, loss: Loss) -> float:
    """The exact best threshold of the metric."""
    if scores.about <= GATHERED:
        found, labels = scores.on_client()
        return best_threshold(found, labels, metric).threshold
    return cluster_judge(metric, loss, steady=False)(scores, None).threshold  # type: ignore[arg-type]


def _counted(scores: ClusterScores, metric: LinearFractional, loss: Loss, steady: bool) -> Verdict:
    rounds, scoring = scores.rounds, scores.scoring
    n_sample = max(64, 2 * _SAMPLE // len(rounds))
    facts: list[tasks.ScoreFacts] = rounds.each_of(tasks.score_facts, scoring, loss, n_sample)
    by_label = metric.average == "macro"
    n_groups = scores.labels.shape[1] if by_label else 1
    entries = ClusterEntries(scores, facts, by_label)
    factors = np.ones(4)
    if metric.balanced:
        fraction = scores.labels.mean
        factors = np.array([0.5 / fraction, 0.5 / (1 - fraction)] * 2)
    coefficients = (
        metric.vertex_numerator * factors,
        metric.vertex_denominator * factors,
        float(metric.zero_division),
    )
    cut = narrowed_cut(entries, n_groups, coefficients, _MOST_GATHERED)
    if cut is None:
        if entries.size > _MOST_GATHERED:
            raise InvalidParameterError(
                f"{metric.name or 'The metric'} is level over most of the {entries.size} scores, or has too "
                "many labels to count each alone, so that its best threshold cannot be found by counts. "
                "Choose a micro metric, or a metric that depends more on the threshold."
            )
        judge = SteadyJudge(metric, loss) if steady else MetricJudge(metric, loss)
        return judge(*scores.on_client())
    above, below, value = cut
    threshold = float(between(np.array([above]), np.array([below]))[0])
    mean_loss = sum(one.loss for one in facts) / entries.size
    if steady:
        return Verdict(value, threshold, mean_loss)
    counts: NDArray[Any] = rounds.sum(tasks.confusion, scoring, threshold, by_label)
    return Verdict(value, threshold, mean_loss, leave_out_of_counts(metric, counts))


def leave_out_of_counts(metric: LinearFractional, counts: NDArray[Any]) -> NDArray[np.float64] | None:
    """The metric with one part of the rows left out at a time, from counts (parts x groups x 4)."""
    used = counts[counts.sum(axis=(1, 2)) > 0]
    if len(used) < 2:
        return None
    rest = (used.sum(axis=0) - used).astype(np.float64)
    return np.array([metric.from_counts(tp, fp, fn, tn) for tn, fp, fn, tp in np.moveaxis(rest, 2, 1)])
