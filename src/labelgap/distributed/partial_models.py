"""Recommenders with some of the users: those of a partition on its worker, or all of them on the client."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from labelgap._types import Floats
from labelgap.distributed.answering import Term
from labelgap.distributed.item_problem import Users, users_of
from labelgap.distributed.list_parts import ListPart
from labelgap.distributed.partitions import Own, Prepared
from labelgap.distributed.users import ItemPlace
from labelgap.estimators.recommender import Recommender
from labelgap.fitting.chosen import ChosenFit
from labelgap.labels import ObservedLabels
from labelgap.objective.cpu.part import CpuBackend
from labelgap.objective.frame import FeatureFrame
from labelgap.objective.parts import FeatureSettings, RowBlock
from labelgap.recommending.closed_form.fit import ListFit, factors_of_users
from labelgap.recommending.closed_form.settings import Ratings
from labelgap.recommending.side_features import SideFeatures


class Facts(Protocol):
    """What all partitions of a fitted recommender have in common."""

    def users(self, part: Any, own: Own) -> Any:
        """The users of one partition."""

    def model(self, pieces: Sequence[Any]) -> Recommender:
        """The recommender with the users of these partitions."""


@dataclass(frozen=True, eq=False)
class DecisionFacts:
    """Those of a model of likes and dislikes."""

    template: Recommender
    """With its parameters, loss and metric, and without users."""
    chosen: ChosenFit
    items: tuple[Any, ...]
    settings: FeatureSettings
    frame: FeatureFrame
    n_ratings: int
    mean_item_count: float
    """The mean number of ratings of an item, with 1 for none."""
    term: Term
    place: ItemPlace

    def users(self, part: Prepared, own: Own) -> Users:
        return users_of(part, own, self.term, self.place)

    def model(self, pieces: Sequence[Users]) -> Recommender:
        return _of_decisions(self, pieces)

    def item_factors(self) -> Floats:
        """``Q = FB``."""
        n_items = len(self.items)
        nothing = ObservedLabels(
            np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8), (0, n_items)
        )
        rows = CpuBackend().row_data(RowBlock(None, nothing))
        return rows.right(self.settings, self.frame, self.chosen.fit.factors.right)


class _Given:
    """Factors that are known, in the place of the problem that they belong to."""

    def __init__(self, users: Floats, items: Floats) -> None:
        self._users, self._items = users, items

    def left(self, A: Any) -> Floats:
        return self._users

    def right(self, B: Any) -> Floats:
        return self._items


def _of_decisions(facts: DecisionFacts, pieces: Sequence[Users]) -> Recommender:
    model, chosen = copy.copy(facts.template), facts.chosen
    factors = chosen.fit.factors
    rank = factors.right.shape[1]
    labels = _together([piece.labels for piece in pieces], facts.items)
    ids = labels.row_names or ()
    A = np.vstack([np.zeros((0, rank)), *(piece.parameters for piece in pieces)])
    P = np.vstack([np.zeros((0, rank)), *(piece.factors for piece in pieces)])
    model._users = SideFeatures.read(None, model.user, "user", ids)
    model._items = SideFeatures.read(None, model.item, "item", facts.items)
    model._keep_decisions(chosen)
    given: Any = _Given(P, facts.item_factors())
    model._keep_factors(given, A, factors.right)
    model.item_intercept_ = factors.intercept
    model.user_ids_, model.item_ids_ = ids, facts.items
    model.answers_ = labels
    if chosen.penalties.intercept > 0:
        model.intercept_centre_ = chosen.penalties.centre
    # Those of all users, also where these are some of them.
    weighting = facts.settings.count_weighting
    model.answer_weight_ = 1.0 / facts.n_ratings
    model.count_units_ = np.array([weighting, facts.frame.mean_row_count, facts.mean_item_count])
    return model


@dataclass(frozen=True, eq=False)
class ListFacts:
    """Those of a model of lists."""

    template: Recommender
    """With its parameters, loss and metric, and without users."""
    fitted: ListFit
    """Without users."""
    items: tuple[Any, ...]

    def users(self, part: ListPart, own: Own) -> ObservedLabels:
        """Their ratings, which say everything about them."""
        return part.labels

    def model(self, pieces: Sequence[ObservedLabels]) -> Recommender:
        model, fitted = copy.copy(self.template), self.fitted
        labels = _together(pieces, self.items)
        model._users = SideFeatures.read(None, model.user, "user", labels.row_names or ())
        model._items = SideFeatures.read(None, model.item, "item", self.items)
        model._keep_decisions(fitted.chosen)
        model._keep_lists(with_users(fitted, Ratings(labels)), None)
        model.answers_, model.item_intercept_ = labels, fitted.chosen.fit.factors.intercept
        model.user_ids_, model.item_ids_ = model._users.ids, model._items.ids
        return model


def with_users(fitted: ListFit, ratings: Ratings) -> ListFit:
    """The fit with the users who have these ratings."""
    fit = fitted.chosen.fit
    kept = fit.singular_values / (fit.singular_values + fitted.chosen.penalties.trace)
    users = factors_of_users(ratings, fitted.settings, fitted.mean_value, kept, fitted.factors)
    chosen = replace(fitted.chosen, fit=replace(fit, factors=fit.factors._replace(left=users)))
    return replace(fitted, factors=fitted.factors._replace(users=users), chosen=chosen)


def _together(labels: Sequence[ObservedLabels], items: tuple[Any, ...]) -> ObservedLabels:
    """The ratings of the users of all pieces."""
    ids = tuple(user for one in labels for user in one.row_names or ())
    return replace(stacked(labels, len(items)), row_names=ids, label_names=items)


def stacked(labels: Sequence[ObservedLabels], n_items: int) -> ObservedLabels:
    """Rows below rows, without names. Where some have weights, the entries of others weigh 1."""
    counts = np.concatenate([[0], *(one.row_counts() for one in labels)])
    weights = None
    if any(one.weights is not None for one in labels):
        weights = [np.ones(one.n_observed) if one.weights is None else one.weights for one in labels]
    return ObservedLabels(
        indptr=np.cumsum(counts).astype(np.int64),
        indices=np.concatenate([one.indices for one in labels]),
        values=np.concatenate([one.values for one in labels]),
        shape=(len(counts) - 1, n_items),
        weights=None if weights is None else np.concatenate(weights),
    )


def users_there(part: Any, own: Own, facts: Facts) -> Any:
    """The users of one partition, on their way to the client."""
    return facts.users(part, own)


def write_best(part: Any, own: Own, facts: Facts, folder: str, n: int, exclude_seen: bool) -> str | None:
    """Write the best items of a partition's users; the path of the file, None without users."""
    if not part.labels.shape[0]:
        return None
    model = facts.model([facts.users(part, own)])
    path = Path(folder) / f"part-{own.number:06d}.parquet"
    # A task that runs twice, after a worker was lost, must not meet its own half of a file.
    unfinished = path.with_name(f".{path.stem}-{os.getpid()}.parquet")
    model.recommend_to_file(unfinished, n=n, exclude_seen=exclude_seen)
    os.replace(unfinished, path)
    return str(path)
