"""Lists on a cluster: the decomposition by products over partitions.

``RᵀR V`` is a sum over the partitions of ``R_pᵀ (R_p V)``. So only arrays with a row for each item travel,
one block of vectors in a round. The factors of a user follow from the user's own ratings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from labelgap._types import Floats
from labelgap.distributed.list_parts import (
    Weighing,
    item_counts,
    normal,
    some_users,
    squares,
    sum_of_likes,
)
from labelgap.distributed.partial_models import stacked, with_users
from labelgap.distributed.rounds import Rounds
from labelgap.estimators.recommender import Recommender
from labelgap.fitting.run import FitRun
from labelgap.recommending.closed_form.fit import (
    ENOUGH_RATINGS,
    ListFit,
    chosen_of,
    decomposed,
    with_threshold,
)
from labelgap.recommending.closed_form.machines import place_for
from labelgap.recommending.closed_form.matrix import count_scale
from labelgap.recommending.closed_form.settings import Ratings
from labelgap.solvers.linalg import leading_eigenvectors, wide_product
from labelgap.solvers.soft_threshold import ACCURACY, SoftThreshold, orthonormal, with_gap
from labelgap.solvers.spectral import largest_value

# Vectors that are sent in one round.
_TOGETHER = 128


class ClusterLikes:
    """R, whose rows are on the cluster: it is known by its products ``RᵀR V``."""

    def __init__(self, rounds: Rounds, weighing: Weighing, shape: tuple[int, int]) -> None:
        self._rounds, self._weighing = rounds, rounds.keep(weighing)
        # With rows of zeros, which change nothing, the side of the items is the shorter one.
        self.shape = (max(shape), shape[1])
        self.squares = float(rounds.sum(squares, self._weighing))
        self.example = np.zeros(0, dtype=np.float32)
        # Users are not here.
        self.user_scale = np.zeros(0)
        self.item_scale = count_scale(weighing.item_counts, weighing.settings.item_power)

    def normal(self, V: Floats) -> Floats:
        """``RᵀR V``, in the precision of V."""
        found = [np.zeros((len(V), 0), dtype=V.dtype)]
        for start in range(0, V.shape[1], _TOGETHER):
            block = np.ascontiguousarray(V[:, start : start + _TOGETHER])
            found.append(self._rounds.sum(normal, self._weighing, block))
        return np.hstack(found)


def certified_by_products(R: ClusterLikes, vectors: Floats, penalty: float, tol: float) -> SoftThreshold:
    """M from right vectors, of products ``RᵀR V`` alone; without its image.

    With ``P = I − V diag(1 − λ/σ) Vᵀ`` the norm of ``R − M = R P`` is the root of that of ``P RᵀR P``.
    """
    V = orthonormal(vectors.astype(np.float64))
    gram = wide_product(V.T, R.normal(V))
    found, rotation = leading_eigenvectors(0.5 * (gram + gram.T), V.shape[1])

    def norm(inside: Callable[[Floats], Floats]) -> float:
        def product(v: Floats) -> Floats:
            return inside(R.normal(inside(v)))

        return largest_value(product, len(V), ACCURACY * tol)

    values = np.sqrt(np.clip(found, 0.0, None))
    return with_gap(R.squares, V[:0], values, wide_product(V, rotation), penalty, norm)


def fit_lists_on_cluster(
    rounds: Rounds, shape: tuple[int, int], n_ratings: int, template: Recommender, run: FitRun
) -> ListFit:
    """Choose settings and λ by a sample of the users, and decompose the ratings of all; without users.

    ``template`` has the parameters, and ``rounds`` are over :class:`ListPart`.
    """
    rng = check_random_state(run.random_state)
    sample = _sample(rounds, shape[1], n_ratings, rng)
    request, place = template._list_request(sample), place_for(template.device, sample)
    if sample.labels.shape[0] < shape[0]:
        run.say(f"{sample.labels.shape[0]} of {shape[0]} users choose")
    choice, plan = chosen_of(sample, request, run, rng, place)
    run.stage("fitting all ratings")
    total, n_likes = rounds.sum(sum_of_likes)
    mean = total / n_likes
    weighing = Weighing(choice.settings, mean, rounds.sum(item_counts, choice.settings, mean))
    R = ClusterLikes(rounds, weighing, shape)
    fitted = decomposed(R, mean, choice, request, run, certify=certified_by_products)
    few = with_users(fitted, sample)
    decided = with_threshold(few, sample, request, template.metric_, run, rng, choice, plan, place).chosen
    chosen = replace(fitted.chosen, threshold=decided.threshold, held_out_metric=decided.held_out_metric)
    return replace(fitted, chosen=chosen)


def _sample(rounds: Rounds, n_items: int, n_ratings: int, rng: np.random.RandomState) -> Ratings:
    """The ratings of users drawn at random who have enough together, or of all where there are not many."""
    share = 1.0 if n_ratings <= 2 * ENOUGH_RATINGS else ENOUGH_RATINGS / n_ratings
    seed, pieces = int(rng.randint(2**31 - 1)), list[Any]()
    # Where a few users have most of the ratings, there may be none among those that were drawn.
    while not any(np.any(labels.values == 1) for _, labels in pieces):
        pieces = rounds.each_of(some_users, seed, share)
        share *= 2
    labels = stacked([labels for _, labels in pieces], n_items)
    # In an order that does not depend on the partitions.
    order = np.argsort(np.concatenate([row_ids for row_ids, _ in pieces]), kind="stable")
    return Ratings(labels.take_rows(order))
