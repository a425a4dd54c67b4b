"""New ratings judged by the model that has not seen them yet (progressive validation)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.metrics.jackknife import leave_out_means, leave_out_values, metric_error
from labelgap.recommending.factor_model import contains
from labelgap.recommending.ranks import ranks_alone, ranks_of_held_out

SHOWN = 10
"""The length of the lists that likes are looked for in."""


class Judged(NamedTuple):
    """The metric of new ratings, with its standard error; None where it cannot be had."""

    metric: float | None
    error: float | None
    n_judged: int
    """How many ratings it is over."""


def judge_ratings(
    model: Any, ratings: ObservedLabels, users: NDArray[np.int64], items: NDArray[np.int64]
) -> Judged:
    """How well a model decides, or ranks, ratings that it has not learned from.

    Judged are new ratings of known items by known users. Where likes and dislikes are learned from, it is the
    model's metric of the decisions. Where pairs without a rating count, it is the mean of

        ``1/log₂(1 + rank)  if rank ≤ 10, else 0``

    over the likes: the NDCG@10 of each like on its own, among the items that its user has not rated. Other
    likes of the batch do not count in the rank, so that it does not depend on the size of the batch.

    Parameters
    ----------
    model : fitted recommender
    ratings : ObservedLabels
    users, items : int64 arrays
        The number of each row and of each column of the ratings among those of the model; -1 for new ones.
    """
    rows, columns = users[ratings.rows], items[ratings.indices]
    fresh = (rows >= 0) & (columns >= 0)
    fresh[fresh] = ~contains(model._rated(), rows[fresh], columns[fresh])
    if model._silence != "missing":
        return _judge_lists(model, rows[fresh], columns[fresh], ratings.values[fresh] == 1)
    if not fresh.any():
        return Judged(None, None, 0)
    judged = ratings.select(fresh)
    scores = model._pair_scores(rows[fresh], columns[fresh])
    decisions = model._decided(rows[fresh], columns[fresh], scores).astype(np.bool_)
    value = float(model.metric_(judged, decisions))
    if not np.isfinite(value):
        return Judged(None, None, judged.n_observed)
    leave_out = leave_out_values(model.metric_, decisions, judged)
    return Judged(value, metric_error(leave_out), judged.n_observed)


def _judge_lists(
    model: Any, rows: NDArray[np.int64], columns: NDArray[np.int64], liked: NDArray[np.bool_]
) -> Judged:
    if not liked.any():
        return Judged(None, None, 0)
    known, local = np.unique(rows[liked], return_inverse=True)
    likes = ObservedLabels.from_triplets(
        local, columns[liked], np.ones(int(liked.sum())), shape=(len(known), len(model.item_ids_))
    )
    u, v, b = model._factors(known)
    ranks = ranks_of_held_out(u, v, b, model._rated_rows(known), likes)
    return judge_ranks(ranks_alone(ranks, likes.rows), likes)


def judge_ranks(alone: NDArray[Any], likes: ObservedLabels) -> Judged:
    """The mean gain of likes with these ranks, each on its own.

    Examples
    --------
    >>> likes = ObservedLabels.from_triplets([0, 1], [0, 0], [1, 1], shape=(2, 1))
    >>> judge_ranks(np.array([1, 11]), likes).metric
    0.5
    """
    gains: Floats = np.where(alone <= SHOWN, 1.0 / np.log2(1.0 + alone), 0.0)
    return Judged(float(gains.mean()), metric_error(leave_out_means(gains, likes)), likes.n_observed)
