"""New users and items of a fitted recommender of lists, and why a score is what it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.recommending.closed_form.fit import ListFactors, factors_of_items, factors_of_users
from labelgap.recommending.closed_form.settings import Ratings, entries_of
from labelgap.recommending.side_features import FeatureRows


def kept_of(model: Any) -> Floats:
    """``1 − λ/σ``, from what is left of each singular value: ``σ − λ``."""
    return np.asarray(model.singular_values_ / (model.singular_values_ + model.trace_penalty_))


def solve_users_of_lists(
    model: Any, users: NDArray[np.int64], n_items: int, n_known: int, described: FeatureRows
) -> None:
    """Give these users the factors of their ratings of the first ``n_items`` items, in a copy of the array.

    Users from ``n_known`` on are new, and some of these are ``described`` by features.
    """
    if not len(users):
        return
    ratings = model._ratings_of_lists(users)
    ratings = _of_items(ratings, slice(0, n_items))
    features = None
    if model._users.matrix is not None:
        features = np.zeros((len(users), len(model._users.mean)))
        known = users < len(model._users.ids)
        features[known] = model._users.matrix[users[known]].toarray()
        if len(described.ids):
            place = {name: row for row, name in enumerate(model.user_ids_[n_known:], n_known)}
            at = np.searchsorted(users, [place[name] for name in described.ids])
            features[at] = model._users.scaled(described.rows)
    factors = model.user_factors_.copy()
    factors[users] = factors_of_users(
        ratings._replace(user_features=features),
        model.list_settings_,
        model.mean_like_,
        kept_of(model),
        _factors(model),
    )
    model.user_factors_ = factors


def solve_items_of_lists(model: Any, n_known: int, described: FeatureRows) -> None:
    """Add factors and weights of the items from ``n_known`` on, by the ratings of all users."""
    every = model._ratings_of_lists()
    ratings = _of_items(every, slice(n_known, len(model.item_ids_)))
    entries = np.abs(entries_of(every, model.list_settings_, model.mean_like_))
    counts = np.bincount(every.labels.rows, entries, every.labels.shape[0]).astype(np.float64)
    features = None
    if model._items.matrix is not None and len(described.ids):
        features = np.zeros((ratings.labels.shape[1], len(model._items.mean)))
        place = {name: row for row, name in enumerate(model.item_ids_[n_known:])}
        features[[place[name] for name in described.ids]] = model._items.scaled(described.rows)
    settings, penalty = model.list_settings_, model.trace_penalty_
    factors, weights = factors_of_items(
        ratings._replace(item_features=features),
        counts,
        settings,
        model.mean_like_,
        model.singular_values_ + penalty,
        penalty,
        _factors(model),
    )
    model.item_factors_ = np.vstack([model.item_factors_, factors])
    model.item_weights_ = np.concatenate([model.item_weights_, weights])
    model.item_intercept_ = np.full(len(model.item_ids_), -1.0)


def parts_of_score(model: Any, row: int, target: int) -> tuple[ObservedLabels, Floats]:
    """The ratings of a user, and what each of them adds to the score of an item."""
    ratings = model._ratings_of_lists(np.array([row]))
    entries = entries_of(ratings, model.list_settings_, model.mean_like_)
    items = ratings.labels.indices
    products = model.item_factors_[items] @ (kept_of(model) * model.item_factors_[target])
    return ratings.labels, 2.0 * entries * model.item_weights_[items] * products


def _factors(model: Any) -> ListFactors:
    return ListFactors(
        model.user_factors_,
        model.item_factors_,
        model.item_weights_,
        model.user_feature_factors_,
        model.item_feature_factors_,
    )


def _of_items(ratings: Ratings, items: slice) -> Ratings:
    """The ratings of a range of items, which are numbered anew."""
    inside = (ratings.labels.indices >= items.start) & (ratings.labels.indices < items.stop)
    chosen = ratings.select(inside)
    labels = replace(
        chosen.labels,
        indices=chosen.labels.indices - items.start,
        shape=(chosen.labels.shape[0], items.stop - items.start),
        label_names=None,
    )
    return chosen._replace(labels=labels)
