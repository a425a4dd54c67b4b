"""A recommender with more users, more items or more ratings, without a new fit."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import distinct
from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.exceptions import InvalidInputError
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import refuse_other_meaning
from labelgap.labels.sources import index_type, row_pointers
from labelgap.recommending.closed_form.serving import solve_items_of_lists, solve_users_of_lists
from labelgap.recommending.factor_model import FactorModel, complete, without_implied
from labelgap.recommending.fold_in import fold_in, fold_in_columns
from labelgap.recommending.ids import IdIndex, Ids
from labelgap.recommending.new_users import PRIORS, prior_of_users
from labelgap.recommending.side_features import FeatureRows, read_side_features

Model = TypeVar("Model", bound=FactorModel)

# So many entries are completed at one time, where the loss is taken of every entry.
_BLOCK_ENTRIES = 1 << 22
# New users and new items who rate each other are solved for in turn, until this little changes.
_MAX_SWEEPS, _SWEEP_TOL = 100, 1e-7


class _Side(NamedTuple):
    """Users or items: the known ones, then the new ones."""

    ids: Ids
    n_known: int
    rated: NDArray[np.int64]
    """The position of each id of the ratings."""
    described: NDArray[np.int64]
    """The position of each id with features."""

    @property
    def n_new(self) -> int:
        return len(self.ids) - self.n_known


def extended(model: Model, ratings: Any, user_features: Any, item_features: Any, prior: str) -> Model:
    """A copy of the model with the ratings and features folded in; see ``Recommending.fold_in``."""
    check_choice("prior", prior, PRIORS)
    if ratings is None and user_features is None and item_features is None:
        raise InvalidInputError(
            "There is nothing to fold in: give ratings or features of new users or items."
        )
    if ratings is not None:
        refuse_other_meaning(ratings, model._setting("unobserved", None), model._silence)
    ratings = ((), (), ()) if ratings is None else model._as_events(ratings)
    added = without_implied(model._read_more(ratings))
    described_users = read_side_features(user_features, model._setting("user", "user"), "user")
    described_items = read_side_features(item_features, model._setting("item", "item"), "item")
    users = _side(model._index("user"), added.row_names or (), described_users.ids)
    items = _side(model._index("item"), added.label_names or (), described_items.ids)
    rows, cols = users.rated[added.rows], items.rated[added.indices]
    between_new = (rows >= users.n_known) & (cols >= items.n_known)
    _refuse_strangers(users, items, rows, cols)

    result = copy.copy(model)
    result.user_ids_, result.item_ids_ = users.ids, items.ids
    result.answers_ = merged_ratings(model.answers_, added, rows, cols, users.ids, items.ids)
    result._fold_given(model, ratings, added, users.rated, items.rated)
    # Ratings of known items change a known user; ratings of new items only determined the items.
    moved = distinct(np.concatenate((rows[cols < items.n_known], np.arange(users.n_known, len(users.ids)))))
    if model.list_settings_ is not None:
        _fold_into_lists(result, users, items, described_users, described_items, moved)
        return result
    item_prior = _item_prior(result, items, described_items)
    if items.n_new:
        _add_items(result, items, item_prior)
    if users.n_new:
        # Where every pair counts, a user with few likes has as many entries as any other.
        by_users = prior == "users" and model._silence == "missing"
        _add_users(result, users, described_users, model if by_users else None)
    if len(moved):
        _solve_users(result, moved)
    if between_new.any():
        _alternate(result, items, item_prior, moved)
    return result


def _side(index: IdIndex, rated: Ids, described: Ids) -> _Side:
    for name in described:
        if name in index.places:
            raise InvalidInputError(
                f"The {index.what} {name!r} is known already; features are taken of new {index.what}s only."
            )
    n_known = len(index.ids)
    new: dict[Hashable, int] = {}
    for name in (*rated, *described):
        if name not in index.places:
            new.setdefault(name, n_known + len(new))
    where = index.find_or(rated)
    where[where < 0] = [new[name] for name in rated if name in new]
    return _Side(
        (*index.ids, *new), n_known, where, np.array([new[name] for name in described], dtype=np.int64)
    )


def _refuse_strangers(users: _Side, items: _Side, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> None:
    """Raise if a rating is linked to nothing that is known, by however many other ratings or by features."""
    placed_user, placed_item = _placed(users), _placed(items)
    placed = 0
    while placed < (placed := int(placed_user.sum() + placed_item.sum())):
        placed_item[cols[placed_user[rows]]] = True
        placed_user[rows[placed_item[cols]]] = True
    strange = ~placed_user[rows]
    if strange.any():
        first = int(np.argmax(strange))
        raise InvalidInputError(
            f"Neither the user {users.ids[rows[first]]!r} nor the item {items.ids[cols[first]]!r} is known, "
            "and no other rating or feature links them to what is known. A new item is placed by ratings of "
            "known users, and a new user by ratings of known items: give such ratings, too, or leave this "
            "rating out."
        )


def _placed(side: _Side) -> NDArray[np.bool_]:
    """Which users, or items, have factors already or get some from their features."""
    placed = np.arange(len(side.ids)) < side.n_known
    placed[side.described] = True
    return placed


def merged_ratings(
    old: ObservedLabels,
    new: ObservedLabels,
    rows: NDArray[np.int64],
    cols: NDArray[np.int64],
    user_ids: Ids,
    item_ids: Ids,
) -> ObservedLabels:
    """The old ratings and the new ones, at the given rows and columns; a new one replaces an old one."""
    n, n_items = len(user_ids), len(item_ids)
    order = np.lexsort((cols, rows))
    at, known = _insertion_points(old, rows[order], cols[order])

    def merge(kept: NDArray[Any], added: NDArray[Any]) -> NDArray[Any]:
        changed = kept.copy()
        changed[at[known]] = added[order][known]
        return np.insert(changed, at[~known], added[order][~known])

    counts = np.bincount(rows[order][~known], minlength=n)
    counts[: old.shape[0]] += old.row_counts()
    weights = None
    if old.weights is not None or new.weights is not None:
        old_weights, new_weights = (
            np.ones(labels.n_observed) if labels.weights is None else labels.weights for labels in (old, new)
        )
        weights = merge(old_weights, new_weights)
    merged = ObservedLabels(
        indptr=row_pointers(counts),
        indices=merge(old.indices.astype(index_type(n_items), copy=False), cols),
        values=merge(old.values, new.values),
        shape=(n, n_items),
        weights=weights,
        row_names=user_ids,
        label_names=item_ids,
        unobserved=old.unobserved,
    )
    # A model of an earlier version has an entry for every pair.
    return complete(merged) if old.unobserved == "negative" else merged


def _insertion_points(
    old: ObservedLabels, rows: NDArray[np.int64], cols: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The position of each new entry among the old ones, and whether it is there already.

    The new entries are sorted by row, then column. Only the old rows with new entries are searched.
    """
    at, known = np.full(len(rows), old.n_observed), np.zeros(len(rows), dtype=np.bool_)
    n_inside = int(np.searchsorted(rows, old.shape[0]))
    touched, local = np.unique(rows[:n_inside], return_inverse=True)
    held = replace(old, row_names=None).take_rows(touched)
    width = 1 + int(max(cols.max(initial=0), held.indices.max(initial=0)))
    keys, wanted = held.rows * width + held.indices, local * width + cols[:n_inside]
    found = np.searchsorted(keys, wanted)
    inside = found < len(keys)
    known[:n_inside][inside] = keys[found[inside]] == wanted[inside]
    at[:n_inside] = found + (old.indptr[touched] - held.indptr[:-1])[local]
    return at, known


def _item_prior(model: FactorModel, items: _Side, features: FeatureRows) -> Floats:
    """The factors that the new items have without ratings."""
    prior = np.tile(model._shared_item_factor(), (items.n_new, 1))
    if len(features.ids):
        prior[items.described - items.n_known] += model._item_prior_of_features(features.rows)
    if not items.n_new:
        return prior
    ratings = _corner(model.answers_, len(model.user_factors_), items.n_known)
    by_pattern = model._item_prior_of_ratings(ratings)
    return prior if by_pattern is None else prior + by_pattern


def _add_items(model: FactorModel, items: _Side, prior: Floats) -> None:
    """Add factors and intercepts of the new items, computed from the present user factors."""
    factors, intercept = _solved_items(model, items, prior)
    model.item_factors_ = np.vstack([model.item_factors_, factors])
    model.item_intercept_ = np.concatenate([model.item_intercept_, intercept])


def _solved_items(model: FactorModel, items: _Side, prior: Floats) -> tuple[Floats, Floats]:
    """Factors and intercepts of the new items from the ratings of all users who have factors."""
    n_users = len(model.user_factors_)
    ratings = _corner(model.answers_, n_users, items.n_known)
    factors, intercept = prior.copy(), np.zeros(items.n_new)
    for start, stop in _ranges(model, items.n_new, n_users):
        block = _column_range(ratings, start, stop)
        factors[start:stop], intercept[start:stop] = fold_in_columns(
            model.user_factors_,
            model._judged_rows(block),
            model._item_penalty(),
            entry_loss=model._entry_loss(of_new_items=True),
            rating_weight=model.answer_weight_,
            prior=prior[start:stop],
            sizes=model._penalty_sizes("item", block.label_counts()),
            intercept_penalty=model._intercept_penalty(),
        )
    unrated = ratings.label_counts() == 0
    factors[unrated] = prior[unrated]
    intercept[unrated] = model._intercept_without_ratings()
    return factors, intercept


def _alternate(model: FactorModel, items: _Side, item_prior: Floats, users: NDArray[np.int64]) -> None:
    """Solve for the new items and for these users in alternation, where new users have rated new items.

    Each half lowers the objective, as a function of their factors, as far as it can be lowered.
    """
    n_known = items.n_known
    for _ in range(_MAX_SWEEPS):
        before = np.column_stack([model.item_factors_[n_known:], model.item_intercept_[n_known:]])
        factors, intercept = _solved_items(model, items, item_prior)
        model.item_factors_ = np.vstack([model.item_factors_[:n_known], factors])
        model.item_intercept_ = np.concatenate([model.item_intercept_[:n_known], intercept])
        _solve_users(model, users)
        change = np.abs(np.column_stack([factors, intercept]) - before).max()
        if change <= _SWEEP_TOL * max(1.0, float(np.abs(before).max())):
            return


def _add_users(model: FactorModel, users: _Side, features: FeatureRows, before: FactorModel | None) -> None:
    """Add priors of the new users, which are their factors until their ratings are read.

    ``before`` is the model whose users are the prior, or None where the penalty of the fit is kept.
    """
    prior = np.zeros((users.n_new, model.user_factors_.shape[1]))
    if len(features.ids):
        prior[users.described - users.n_known] = model._prior_of_features(features.rows)
    new = replace(model.answers_, row_names=None).take_rows(np.arange(users.n_known, len(users.ids)))
    by_pattern = model._prior_of_ratings(new)
    if by_pattern is not None:
        prior += by_pattern
    if before is not None:
        if model.new_user_mean_ is None:
            # Made once, so that new users do not change the prior of those who follow.
            model.new_user_mean_, model.new_user_penalty_ = prior_of_users(before)
        prior += model.new_user_mean_
    model.folded_in_ = np.concatenate(
        [model._is_folded_in(np.arange(users.n_known)), np.full(users.n_new, before is not None)]
    )
    model.user_prior_ = np.vstack([model.user_prior_, prior])
    model.user_factors_ = np.vstack([model.user_factors_, prior])


def _solve_users(model: FactorModel, users: NDArray[np.int64]) -> None:
    """Compute the factors of these users from all their ratings, in a copy of the array."""
    factors = model.user_factors_.copy()
    ratings = replace(model.answers_, row_names=None)
    is_new = model._is_folded_in(users)
    for some in (users[~is_new], users[is_new]):
        for start, stop in _ranges(model, len(some), ratings.shape[1]):
            here = some[start:stop]
            theirs = ratings.take_rows(here)
            penalty, sizes = model._user_penalty(here, theirs.row_counts())
            factors[here] = fold_in(
                model.item_factors_,
                model.item_intercept_,
                model._judged_rows(theirs),
                penalty,
                entry_loss=model._entry_loss(),
                rating_weight=model.answer_weight_,
                prior=model.user_prior_[here],
                sizes=sizes,
            )
    model.user_factors_ = factors
    if hasattr(model, "user_intercept_"):
        model.user_intercept_ = factors @ model._shared_item_factor()


def _fold_into_lists(
    model: FactorModel,
    users: _Side,
    items: _Side,
    described_users: FeatureRows,
    described_items: FeatureRows,
    moved: NDArray[np.int64],
) -> None:
    """Add new users and items to lists, and compute the factors of the users that have ``moved``.

    New users are sums over their ratings of known items; then new items follow from all users, and the users
    from all of their ratings.
    """
    model.user_factors_ = np.pad(model.user_factors_, ((0, users.n_new), (0, 0)))
    model.user_intercept_ = np.zeros(len(users.ids))
    if items.n_new:
        solve_users_of_lists(model, moved, items.n_known, users.n_known, described_users)
        solve_items_of_lists(model, items.n_known, described_items)
    solve_users_of_lists(model, moved, len(items.ids), users.n_known, described_users)


def _ranges(model: FactorModel, count: int, entries_each: int) -> Iterator[tuple[int, int]]:
    """One range for all, or blocks where every entry takes part and rows are completed."""
    step = count
    if model._silence != "missing":
        step = max(1, _BLOCK_ENTRIES // max(entries_each, 1))
    for start in range(0, count, step or 1):
        yield start, min(start + step, count)


def _corner(ratings: ObservedLabels, n_rows: int, first_column: int) -> ObservedLabels:
    """The ratings in the first rows and the last columns."""
    inside = ratings.select((ratings.rows < n_rows) & (ratings.indices >= first_column))
    return replace(
        inside,
        indptr=inside.indptr[: n_rows + 1],
        indices=inside.indices - first_column,
        shape=(n_rows, ratings.shape[1] - first_column),
        row_names=None,
        label_names=None,
    )


def _column_range(ratings: ObservedLabels, start: int, stop: int) -> ObservedLabels:
    inside = ratings.select((ratings.indices >= start) & (ratings.indices < stop))
    return replace(inside, indices=inside.indices - start, shape=(ratings.shape[0], stop - start))
