"""The factors of a fitted recommender as the start of a fit to other ratings, matched by the ids.

A user or item that the model knows begins with the scores that it has; one that is new begins with what its
features say, or with nothing of its own. :mod:`labelgap.solvers.placing` then places it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.fitting.problem import shared_column_length
from labelgap.labels import ObservedLabels
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.recommending.ids import IdIndex, Ids
from labelgap.recommending.implicit_feedback import ImplicitFeedback
from labelgap.recommending.side_features import SideFeatures


def starting_model(
    model: Any,
    problem: Problem,
    intercept: Floats,
    users: SideFeatures,
    items: SideFeatures,
    *,
    columns: tuple[Any, Any],
    implicit: ImplicitFeedback | None,
    user_intercept: bool,
    settled: NDArray[np.bool_],
) -> Factors:
    """The model's scores in the coordinates of a problem over these users and items.

    Parameters
    ----------
    model : fitted Recommender
    problem : Problem
        What is to be fitted: ``Z = [I X] A Bᵀ [I s1 F]ᵀ + 1bᵀ``, where the parameters of a user's and an
        item's own are scaled by their counts.
    intercept : array with one number for each of the items
        The intercepts that the fit would start with.
    users, items : SideFeatures
        Those of the problem, in its order.
    columns : pair of matrices, or None
        All features of the problem, those of users and items and then those of the pattern of ratings.
    implicit : ImplicitFeedback or None
        Where the features of the pattern come from.
    user_intercept : bool
        Whether the problem has the column of ones, s1.
    settled : boolean array with one value for each of the items
        Where the intercept of the model may be kept, if it has one.
    """
    of_users, of_items = _moved_implicit(model, implicit)
    left = np.vstack([_moved(model._users, users, model.user_feature_factors_), of_users])
    own_users = _in_order(model.user_ids_, users.ids, model.user_factors_)
    known = _known(model.user_ids_, users.ids)
    if columns[0] is not None:
        own_users[known] -= (columns[0] @ left)[known]
    right = np.vstack([_moved(model._items, items, model.item_feature_factors_), of_items])
    own_items = _in_order(model.item_ids_, items.ids, model.item_factors_)
    known = _known(model.item_ids_, items.ids)
    if columns[1] is not None:
        own_items[known] -= (columns[1] @ right)[known]
    beyond = [right]
    if user_intercept:
        shared = model.shared_item_factor_
        own_items[known] -= shared
        beyond.insert(0, shared[None, :] / shared_column_length(len(items.ids)))
    scales = problem.features.label_scales
    if scales is not None:
        own_items /= scales[:, None]
    kept, intercept = known & settled, intercept.copy()
    intercept[kept] = _in_order(model.item_ids_, items.ids, model.item_intercept_[:, None])[kept, 0]
    given = Factors(np.vstack([own_users, left]), np.vstack([own_items, *beyond]), intercept)
    return problem.from_original(given)


def vectors_of(model: Any, items: Ids, R: Any) -> Floats:
    """Right vectors of a model of lists, where the decomposition of R for these items may begin."""
    known = _known(model.item_ids_, items)
    factors = _in_order(model.item_ids_, items, model.item_factors_ * model.item_weights_[:, None])
    found = np.zeros((R.shape[1], factors.shape[1]))
    found[np.flatnonzero(known)] = (factors / R.item_scale[:, None])[known]
    return found


def settled_intercepts(before: ObservedLabels, now: ObservedLabels, *, every_pair: bool) -> NDArray[np.bool_]:
    """The items of ``now`` whose intercept in the model may start the next fit.

    The free intercept of an item with ratings of one kind only is no number that a fit finds, but one that
    the data set; it must not be kept once the item has both kinds, nor the other way round. Where
    ``every_pair`` counts, any is a start.
    """
    if every_pair:
        return np.ones(now.shape[1], dtype=np.bool_)
    names, ids = before.label_names or (), now.label_names or ()
    both_before = _in_order(names, ids, _both_kinds(before).astype(np.float64)[:, None])[:, 0] > 0
    return np.asarray(both_before & _both_kinds(now))


def _both_kinds(labels: ObservedLabels) -> NDArray[np.bool_]:
    likes = np.asarray(labels.positive_counts())
    return np.asarray((likes > 0) & (likes < labels.label_counts()))


def _known(known: Ids, wanted: Ids) -> NDArray[np.bool_]:
    return IdIndex(known, "user").find_or(wanted) >= 0


def _in_order(known: Ids, wanted: Ids, rows: Floats) -> Floats:
    """A row for each wanted id, of zeros where it is not known."""
    at = IdIndex(known, "user").find_or(wanted)
    found = np.zeros((len(wanted), rows.shape[1]))
    found[at >= 0] = rows[at[at >= 0]]
    return found


def _moved(old: SideFeatures, new: SideFeatures, factors: Floats) -> Floats:
    """Factors of the old features for the new ones, whose means and scales may differ.

    Where the columns are not the same ones they are 0, and all of the model is in the factors of the ids.
    """
    moved = np.zeros((len(new.mean), factors.shape[1]))
    if len(old.mean) != len(new.mean) or old.names != new.names:
        return moved
    ratio = np.zeros(len(new.mean))
    usable = np.isfinite(old.scale) & np.isfinite(new.scale)
    ratio[usable] = new.scale[usable] / old.scale[usable]
    return np.asarray(ratio[:, None] * factors)


def _moved_implicit(model: Any, implicit: ImplicitFeedback | None) -> tuple[Floats, Floats]:
    """Factors of the features of the pattern for users and items: 0 where the model's were other ones."""
    if implicit is None or not implicit.is_same(model._implicit):
        nothing = np.zeros((0 if implicit is None else implicit.n_features, model.user_factors_.shape[1]))
        return nothing, nothing
    return model.user_implicit_factors_, model.item_implicit_factors_
