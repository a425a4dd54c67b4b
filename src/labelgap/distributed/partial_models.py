"""Recommenders with some of the users: those of a partition on its worker, or all of them on the client."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labelgap._types import Floats
from labelgap.distributed.answering import Term
from labelgap.distributed.item_problem import Users, users_of
from labelgap.distributed.partitions import Own, Prepared
from labelgap.distributed.users import ItemPlace
from labelgap.estimators.recommender import Recommender
from labelgap.fitting.chosen import ChosenFit
from labelgap.labels import ObservedLabels
from labelgap.objective.cpu.part import CpuBackend
from labelgap.objective.frame import FeatureFrame
from labelgap.objective.parts import FeatureSettings, RowBlock
from labelgap.recommending.side_features import SideFeatures


@dataclass(frozen=True, eq=False)
class GlobalFacts:
    """What all partitions of a fitted recommender have in common."""

    template: Recommender
    """With its parameters, loss and metric, and without users."""
    chosen: ChosenFit
    items: tuple[Any, ...]
    settings: FeatureSettings
    frame: FeatureFrame
    n_ratings: int
    mean_item_count: float
    """The mean number of ratings of an item, with 1 for none."""

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


def model_of(facts: GlobalFacts, pieces: Sequence[Users]) -> Recommender:
    """The recommender with the users of these pieces."""
    model, chosen = copy.copy(facts.template), facts.chosen
    factors = chosen.fit.factors
    rank = factors.right.shape[1]
    ids = tuple(user for piece in pieces for user in piece.ids)
    A = np.vstack([np.zeros((0, rank)), *(piece.parameters for piece in pieces)])
    P = np.vstack([np.zeros((0, rank)), *(piece.factors for piece in pieces)])
    labels = _together([piece.labels for piece in pieces], ids, facts.items)
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


def _together(
    labels: Sequence[ObservedLabels], ids: tuple[Any, ...], items: tuple[Any, ...]
) -> ObservedLabels:
    counts = np.concatenate([[0], *(one.row_counts() for one in labels)])
    return ObservedLabels(
        indptr=np.cumsum(counts).astype(np.int64),
        indices=np.concatenate([one.indices for one in labels]),
        values=np.concatenate([one.values for one in labels]),
        shape=(len(ids), len(items)),
        row_names=ids,
        label_names=items,
    )


def write_best(
    part: Prepared,
    own: Own,
    term: Term,
    place: ItemPlace,
    facts: GlobalFacts,
    folder: str,
    n: int,
    exclude_seen: bool,
) -> str | None:
    """Write the best items of a partition's users; the path of the file, None without users."""
    users = users_of(part, own, term, place)
    if not users.ids:
        return None
    path = Path(folder) / f"part-{own.number:06d}.parquet"
    # A task that runs twice, after a worker was lost, must not meet its own half of a file.
    unfinished = path.with_name(f".{path.stem}-{os.getpid()}.parquet")
    model_of(facts, [users]).recommend_to_file(unfinished, n=n, exclude_seen=exclude_seen)
    os.replace(unfinished, path)
    return str(path)
