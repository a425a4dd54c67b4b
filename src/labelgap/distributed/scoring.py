"""Scores of entries on the workers that hold them, and what tasks count of them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.distributed.cluster_labels import ClusterLabels
from labelgap.distributed.folds import FoldPlan, dealt
from labelgap.distributed.partitions import Own, Prepared
from labelgap.distributed.rounds import Rounds
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.metrics.jackknife import N_PARTS
from labelgap.objective.protocol import Factors


@dataclass(frozen=True, eq=False)
class Scoring:
    """Which entries are scored, and by what: each fold by the model that did not see it."""

    name: str
    plan: FoldPlan | None
    """None: all entries by the one model."""
    models: tuple[Factors, ...]

    def of(self, part: Prepared, own: Own) -> tuple[Floats, ObservedLabels, NDArray[np.int64]]:
        """Scores, labels and row numbers (in the partition) of the entries that are scored here."""
        found: tuple[Floats, ObservedLabels, NDArray[np.int64]] = part.scores.get(
            self.name, lambda: self._made(part, own)
        )
        return found

    def _made(self, part: Prepared, own: Own) -> tuple[Floats, ObservedLabels, NDArray[np.int64]]:
        rows, labels = part.row_data(), part.labels
        if self.plan is None:
            folds = np.zeros(labels.n_observed, dtype=np.int8)
        else:
            folds = self.plan.folds(labels, part.ids(own))
        scores = np.empty(labels.n_observed)
        for fold, model in enumerate(self.models):
            held = folds == fold
            scores[held] = rows.scores(part.settings, part.features, *model, labels.select(held))
        kept = (folds >= 0) & (folds < len(self.models))
        return scores[kept], labels.select(kept), labels.rows[kept]


class Gathered(NamedTuple):
    """The entries of a partition as they travel to the client."""

    scores: Floats
    counts: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[np.int8]


def gathered(part: Prepared, own: Own, scoring: Scoring) -> Gathered:
    """All scored entries."""
    scores, labels, _ = scoring.of(part, own)
    return Gathered(scores, labels.row_counts(), labels.indices, labels.values)


class ScoreFacts(NamedTuple):
    """What the client must know of the scores before it counts them."""

    n_entries: int
    loss: float
    """The sum of the losses."""
    highest: float
    sample: Floats


def score_facts(part: Prepared, own: Own, scoring: Scoring, loss: Loss, n_sample: int) -> ScoreFacts:
    """Number, losses, highest score, and an even sample of the scores."""
    scores, labels, _ = scoring.of(part, own)
    total = float(np.sum(loss.value(scores, labels.values))) if len(scores) else 0.0
    step = max(1, len(scores) // max(n_sample, 1))
    return ScoreFacts(len(scores), total, float(scores.max(initial=-np.inf)), scores[::step].copy())


def bucket_counts(
    part: Prepared, own: Own, scoring: Scoring, edges: Floats, by_label: bool
) -> NDArray[np.int64]:
    """Positives and negatives of every bucket and group (buckets x groups x 2)."""
    scores, labels, _ = scoring.of(part, own)
    n_groups = labels.shape[1] if by_label else 1
    place = _buckets(scores, edges) * n_groups + (labels.indices if by_label else 0)
    place = 2 * place + (labels.values != 1)
    counts = np.bincount(place, minlength=2 * n_groups * (len(edges) + 1))
    return counts.astype(np.int64).reshape(len(edges) + 1, n_groups, 2)


def marked_entries(
    part: Prepared, own: Own, scoring: Scoring, edges: Floats, marked: NDArray[np.bool_], by_label: bool
) -> tuple[Floats, NDArray[np.int8], NDArray[Any], NDArray[np.uint16]]:
    """Scores, values, groups and buckets of the entries in marked buckets."""
    scores, labels, _ = scoring.of(part, own)
    buckets = _buckets(scores, edges)
    kept = marked[buckets]
    groups = labels.indices[kept] if by_label else np.empty(0, np.int32)
    return scores[kept], labels.values[kept], groups, buckets[kept].astype(np.uint16)


def highest_below(part: Prepared, own: Own, scoring: Scoring, above: float) -> float:
    """The highest score below another one, −inf where there is none."""
    scores, _, _ = scoring.of(part, own)
    return float(scores[scores < above].max(initial=-np.inf))


def confusion(
    part: Prepared, own: Own, scoring: Scoring, threshold: float, by_label: bool
) -> NDArray[np.int64]:
    """(tn, fp, fn, tp) by part of the rows and group, for the error of a metric; rows are dealt by a hash."""
    scores, labels, rows = scoring.of(part, own)
    n_groups = labels.shape[1] if by_label else 1
    place = dealt(part.ids(own), N_PARTS)[rows] * n_groups + (labels.indices if by_label else 0)
    place = 4 * place + 2 * labels.values.astype(np.int64) + (scores >= threshold)
    return np.bincount(place, minlength=4 * N_PARTS * n_groups).reshape(N_PARTS, n_groups, 4)


def _buckets(scores: Floats, edges: Floats) -> NDArray[np.int64]:
    return np.searchsorted(edges, scores, side="right")


# -- on the client -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClusterScores:
    """Scores that stay on the cluster, and about how many there are."""

    rounds: Rounds
    scoring: Scoring
    labels: ClusterLabels
    about: float

    def on_client(self) -> tuple[Floats, ObservedLabels]:
        """All of them, on the client."""
        pieces: list[Gathered] = self.rounds.each_of(gathered, self.scoring)
        counts = np.concatenate([piece.counts for piece in pieces])
        labels = ObservedLabels(
            indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            indices=np.concatenate([piece.indices for piece in pieces]),
            values=np.concatenate([piece.values for piece in pieces]),
            shape=(len(counts), self.labels.shape[1]),
            label_names=self.labels.label_names,
        )
        return np.concatenate([piece.scores for piece in pieces]), labels


def cluster_scores(
    rounds: Rounds, labels: ClusterLabels, models: tuple[Factors, ...], plan: FoldPlan | None = None
) -> ClusterScores:
    """The scores of all entries by one model, or of those of the first folds by a model for each."""
    about = labels.n_observed * (1.0 if plan is None else len(models) / plan.n_folds)
    return ClusterScores(rounds, Scoring(uuid.uuid4().hex, plan, models), labels, about)
