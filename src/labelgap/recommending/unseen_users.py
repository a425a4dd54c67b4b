"""Users that a fit did not see: which of their ratings are folded in, and which likes judge the lists.

It is the protocol of Liang et al. (2018), "Variational autoencoders for collaborative filtering", which is
also called strong generalisation: of each user a random fifth is judged and the rest is known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from labelgap._names import listed
from labelgap.exceptions import InvalidLabelsError
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import refuse_other_meaning
from labelgap.recommending.events import RatingEvents
from labelgap.recommending.factor_model import FactorModel, without_implied


class UnseenUsers(NamedTuple):
    """Users with at least two likes of known items, in two parts."""

    ratings: RatingEvents | ObservedLabels
    """What is folded in."""
    likes: ObservedLabels
    """What the lists are judged by, without names; its rows are the users of ``ratings`` in their order."""
    n_few_likes: int
    """Other users, who have fewer likes."""
    n_unknown_items: int
    """Likes of items that the recommender does not know."""


def deal_unseen_users(model: FactorModel, held_out: Any, unknown: str, random_state: Any) -> UnseenUsers:
    """Deal all ratings of users that the model does not know into the two parts."""
    refuse_other_meaning(held_out, model._setting("unobserved", None), model._silence)
    ratings = model._as_events(held_out)
    labels = without_implied(model._read_more(ratings))
    _refuse_known(model, labels)
    find = model._index("item").find_all if unknown == "raise" else model._index("item").find_or
    columns = find(labels.label_names or ())[labels.indices]
    is_like, is_known = labels.values == 1, columns >= 0
    n_likes = np.bincount(labels.rows[is_like & is_known], minlength=labels.shape[0])
    judged = n_likes >= 2
    if not judged.any():
        raise InvalidLabelsError(
            "None of the held-out users has two likes of items that the recommender knows, so there is "
            "nothing to rank: one like is folded in, and another one is judged."
        )
    theirs = np.flatnonzero(is_known & judged[labels.rows])
    users, columns, is_like = (np.cumsum(judged) - 1)[labels.rows[theirs]], columns[theirs], is_like[theirs]
    held = _fifth_of_each(2 * users + is_like, random_state)
    folded, liked = ~held, held & is_like
    names = [(labels.row_names or ())[row] for row in np.flatnonzero(judged).tolist()]
    shape = (len(names), len(model.item_ids_))
    return UnseenUsers(
        _some(model, ratings, labels, theirs[folded], users[folded], columns[folded], tuple(names)),
        ObservedLabels.from_triplets(users[liked], columns[liked], np.ones(int(liked.sum())), shape),
        int(np.sum(labels.row_counts() > 0)) - len(names),
        int(np.sum((labels.values == 1) & ~is_known)),
    )


def _refuse_known(model: FactorModel, labels: ObservedLabels) -> None:
    rated = np.flatnonzero(labels.row_counts())
    users = [(labels.row_names or ())[row] for row in rated.tolist()]
    known = [user for user in users if user in model._index("user").places]
    if known:
        raise InvalidLabelsError(
            "unseen_users=True is about users that the fit did not see, and the recommender knows "
            f"{len(known)} of these {len(users)}: {listed(known)}. Leave their ratings out here, or all of "
            "them out of the fit."
        )


def _fifth_of_each(groups: NDArray[np.int64], random_state: Any) -> NDArray[np.bool_]:
    """A random fifth of each group, rounded down; of odd groups, which are likes, at least one."""
    count = np.bincount(groups)
    wanted = count // 5
    wanted[1::2] = np.maximum(wanted[1::2], 1)
    order = np.lexsort((check_random_state(random_state).permutation(len(groups)), groups))
    place = np.empty_like(order)
    place[order] = np.arange(len(order)) - (np.cumsum(count) - count)[groups[order]]
    return np.asarray(place < wanted[groups])


def _some(
    model: FactorModel,
    ratings: Any,
    labels: ObservedLabels,
    entries: NDArray[np.int64],
    users: NDArray[np.int64],
    columns: NDArray[np.int64],
    names: tuple[Any, ...],
) -> RatingEvents | ObservedLabels:
    """Some of the ratings, with the items of the model; ``labels`` are what was read of them."""
    if isinstance(ratings, RatingEvents):
        return replace(
            ratings,
            rows=users,
            columns=columns,
            user_ids=names,
            item_ids=model.item_ids_,
            **{name: getattr(ratings, name)[entries] for name in ("values", "amounts", "newest")},
        )
    return ObservedLabels.from_triplets(
        users,
        columns,
        labels.values[entries],
        weights=None if labels.weights is None else labels.weights[entries],
        row_names=names,
        label_names=model.item_ids_,
    )
