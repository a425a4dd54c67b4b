"""A recommender with more users, more items or more answers, without a new fit."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelgap.exceptions import InvalidFeaturesError, InvalidInputError
from labelgap.labels import ObservedLabels
from labelgap.labels.frames import frame_library
from labelgap.labels.sources import index_type, row_pointers
from labelgap.recommending.factor_model import FactorModel, complete
from labelgap.recommending.fold_in import fold_in, fold_in_columns
from labelgap.recommending.ids import IdIndex, Ids, number_ids

Model = TypeVar("Model", bound=FactorModel)

# Cells completed at one time, where the loss is taken of every cell.
_BLOCK_CELLS = 1 << 22


class Features(NamedTuple):
    """Features of new users or items with their ids."""

    ids: Ids
    rows: Any
    """An array with one row per id, or a frame without the ids."""


class _Side(NamedTuple):
    """Users or items, the known and after them the new."""

    ids: Ids
    n_known: int
    given: NDArray[np.int64]
    """Where each id of the answers stands."""
    described: NDArray[np.int64]
    """Where each id with features stands."""

    @property
    def n_new(self) -> int:
        return len(self.ids) - self.n_known


def extended(model: Model, answers: Any, user_features: Any, item_features: Any) -> Model:
    """A copy of the model with the answers and features folded in; see ``Recommending.fold_in``."""
    if answers is None and user_features is None and item_features is None:
        raise InvalidInputError(
            "There is nothing to fold in: give answers or features of new users or items."
        )
    absent = model.answers_.unobserved
    # What an absent answer means is settled below, once all answers of a user are together.
    lines = model._read_answers(
        ((), (), ()) if answers is None else answers, "unlabelled" if absent == "unlabelled" else "missing"
    )
    described_users = read_features(user_features, model._setting("user", "user"), "user")
    described_items = read_features(item_features, model._setting("item", "item"), "item")
    users = _side(model._index("user"), lines.row_names or (), described_users.ids)
    items = _side(model._index("item"), lines.label_names or (), described_items.ids)
    rows, cols = users.given[lines.rows], items.given[lines.indices]
    _refuse_strangers(users, items, rows, cols)

    result = copy.copy(model)
    result.user_ids_, result.item_ids_ = users.ids, items.ids
    result.answers_ = merged_answers(model.answers_, lines, rows, cols, users.ids, items.ids)
    if items.n_new:
        _add_items(result, items, described_items)
    if users.n_new:
        _add_users(result, users, described_users)
    # A known user moves with answers about known items; those about new items made the items.
    moved = np.union1d(rows[cols < items.n_known], np.arange(users.n_known, len(users.ids)))
    if len(moved):
        _solve_users(result, moved)
    return result


def read_features(features: Any, id_column: str, what: str) -> Features:
    """Features from a mapping id -> row, or from a frame with a column of ids or, in pandas, such an index.

    Examples
    --------
    >>> read_features({"ann": [1, 2], "bob": [3, 4]}, "user", "user").rows
    array([[1., 2.],
           [3., 4.]])
    """
    if features is None:
        return Features((), np.zeros((0, 0)))
    if isinstance(features, Mapping):
        ids: Ids = tuple(features)
        try:
            rows: Any = np.array([np.asarray(row, dtype=np.float64) for row in features.values()])
        except (TypeError, ValueError) as error:
            raise InvalidFeaturesError(
                f"The {what} features must be one row of numbers for each {what}, of one length ({error})."
            ) from error
        return Features(ids, rows)
    library = frame_library(features)
    if library is None:
        raise InvalidFeaturesError(
            f"Give {what} features as a mapping from id to row, or as a frame with the column "
            f"{id_column!r}; got {type(features).__name__}."
        )
    if id_column in list(features.columns):
        given = features[id_column]
        rows = features.drop(columns=[id_column]) if library == "pandas" else features.drop(id_column)
    elif library == "pandas":
        given, rows = features.index, features
    else:
        raise InvalidFeaturesError(
            f"The frame of {what} features has no column {id_column!r}, which would say whose they are."
        )
    numbers, ids = number_ids(given, what)
    if len(ids) < len(numbers):
        twice = ids[int(np.argmax(np.bincount(numbers) > 1))]
        raise InvalidFeaturesError(f"There are two rows of features of {what} {twice!r}; keep one of them.")
    return Features(ids, rows)


def _side(index: IdIndex, given: Ids, described: Ids) -> _Side:
    for name in described:
        if name in index.places:
            raise InvalidInputError(
                f"The {index.what} {name!r} is known already; features are taken of new {index.what}s only."
            )
    n_known = len(index.ids)
    new: dict[Hashable, int] = {}
    for name in (*given, *described):
        if name not in index.places:
            new.setdefault(name, n_known + len(new))
    where = index.find_or(given)
    where[where < 0] = [new[name] for name in given if name in new]
    return _Side(
        (*index.ids, *new), n_known, where, np.array([new[name] for name in described], dtype=np.int64)
    )


def _refuse_strangers(users: _Side, items: _Side, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> None:
    strange = (rows >= users.n_known) & (cols >= items.n_known)
    if strange.any():
        first = int(np.argmax(strange))
        raise InvalidInputError(
            f"Neither the user {users.ids[rows[first]]!r} nor the item {items.ids[cols[first]]!r} is known. "
            "A new item is placed by answers of known users, and a new user by answers about known items: "
            "leave this answer out, or fold the item in first."
        )


def merged_answers(
    old: ObservedLabels,
    new: ObservedLabels,
    rows: NDArray[np.int64],
    cols: NDArray[np.int64],
    user_ids: Ids,
    item_ids: Ids,
) -> ObservedLabels:
    """The old answers and the new ones, at the given rows and columns; a new one replaces an old one."""
    n, n_items = len(user_ids), len(item_ids)
    order = np.lexsort((cols, rows))
    at, known = _places(old, rows[order], cols[order])

    def merge(kept: NDArray[Any], added: NDArray[Any]) -> NDArray[Any]:
        changed = kept.copy()
        changed[at[known]] = added[order][known]
        return np.insert(changed, at[~known], added[order][~known])

    counts = np.bincount(rows[order][~known], minlength=n)
    counts[: old.shape[0]] += old.row_counts()
    weights = None
    if old.weights is not None or new.weights is not None:
        mine, yours = (
            np.ones(labels.n_observed) if labels.weights is None else labels.weights for labels in (old, new)
        )
        weights = merge(mine, yours)
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
    return complete(merged) if old.unobserved == "negative" else merged


def _places(
    old: ObservedLabels, rows: NDArray[np.int64], cols: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where each new entry belongs among the old ones, and whether there is one already.

    The new entries are sorted by row, then column. Only rows of the old ones that they touch are looked at.
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


def _add_items(model: FactorModel, items: _Side, features: Features) -> None:
    """Factors and intercepts of the new items, from the users as they are."""
    old, n_users = model.item_factors_, len(model.user_factors_)
    prior = np.tile(model._shared_item_factor(), (items.n_new, 1))
    if len(features.ids):
        prior[items.described - items.n_known] += model._item_prior_of_features(features.rows)
    answers = _corner(model.answers_, n_users, items.n_known)
    factors, intercept = prior.copy(), np.zeros(items.n_new)
    for start, stop in _ranges(items.n_new, n_users, answers):
        block = _columns(answers, start, stop)
        factors[start:stop], intercept[start:stop] = fold_in_columns(
            model.user_factors_,
            model._judged_rows(block),
            model._item_penalty(),
            entry_loss=model._entry_loss(of_new_items=True),
            answer_weight=model.answer_weight_,
            prior=prior[start:stop],
            sizes=model._penalty_sizes("item", block.label_counts()),
        )
    unanswered = answers.label_counts() == 0
    factors[unanswered] = prior[unanswered]
    intercept[unanswered] = model._intercept_without_answers()
    model.item_factors_ = np.vstack([old, factors])
    model.item_intercept_ = np.concatenate([model.item_intercept_, intercept])


def _add_users(model: FactorModel, users: _Side, features: Features) -> None:
    """Priors of the new users, which are their factors until their answers are read."""
    prior = np.zeros((users.n_new, model.user_factors_.shape[1]))
    if len(features.ids):
        prior[users.described - users.n_known] = model._prior_of_features(features.rows)
    model.user_prior_ = np.vstack([model.user_prior_, prior])
    model.user_factors_ = np.vstack([model.user_factors_, prior])


def _solve_users(model: FactorModel, users: NDArray[np.int64]) -> None:
    """Factors of these users from all their answers; the array of the original is not written to."""
    factors = model.user_factors_.copy()
    answers = replace(model.answers_, row_names=None)
    for start, stop in _ranges(len(users), answers.shape[1], answers):
        here = users[start:stop]
        theirs = answers.take_rows(here)
        factors[here] = fold_in(
            model.item_factors_,
            model.item_intercept_,
            model._judged_rows(theirs),
            model.factor_penalty_,
            entry_loss=model._entry_loss(),
            answer_weight=model.answer_weight_,
            prior=model.user_prior_[here],
            sizes=model._penalty_sizes("user", theirs.row_counts()),
        )
    model.user_factors_ = factors
    if hasattr(model, "user_intercept_"):
        model.user_intercept_ = factors @ model._shared_item_factor()


def _ranges(count: int, cells_each: int, answers: ObservedLabels) -> Iterator[tuple[int, int]]:
    """All at once, or blocks of what is to be completed."""
    step = count
    if answers.unobserved == "unlabelled":
        step = max(1, _BLOCK_CELLS // max(cells_each, 1))
    for start in range(0, count, step or 1):
        yield start, min(start + step, count)


def _corner(answers: ObservedLabels, n_rows: int, first_column: int) -> ObservedLabels:
    """The answers in the first rows and the last columns."""
    inside = answers.select((answers.rows < n_rows) & (answers.indices >= first_column))
    return replace(
        inside,
        indptr=inside.indptr[: n_rows + 1],
        indices=inside.indices - first_column,
        shape=(n_rows, answers.shape[1] - first_column),
        row_names=None,
        label_names=None,
    )


def _columns(answers: ObservedLabels, start: int, stop: int) -> ObservedLabels:
    inside = answers.select((answers.indices >= start) & (answers.indices < stop))
    return replace(inside, indices=inside.indices - start, shape=(answers.shape[0], stop - start))
