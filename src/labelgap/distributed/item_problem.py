"""The learning problem of a recommender whose ratings are on a cluster."""

from __future__ import annotations

import copy
import itertools
import uuid
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.distributed.answering import Term, entry_moments
from labelgap.distributed.cluster_labels import ClusterLabels
from labelgap.distributed.folds import FoldPlan
from labelgap.distributed.item_objective import ItemObjective, ItemState
from labelgap.distributed.partitions import Own, Prepared, feature_moments, prepare
from labelgap.distributed.problem import ClusterProblem, without_features
from labelgap.distributed.rounds import Rounds
from labelgap.distributed.scoring import ClusterScores, Scoring
from labelgap.distributed.users import ItemPlace, at_best_users
from labelgap.labels import ObservedLabels
from labelgap.objective.frame import FeatureFrame
from labelgap.objective.moments import FeatureMoments, ObservedMoments
from labelgap.objective.parts import FeatureSettings, ProblemSettings
from labelgap.objective.problem import frame_of
from labelgap.objective.protocol import Factors
from labelgap.solvers.certificate import Penalties
from labelgap.solvers.spectral import largest_value

# The accuracy of the largest penalty, which begins a search.
_ACCURACY = 1e-3


class ItemProblem(ClusterProblem):
    """Ratings in partitions of users, with which objectives in the items alone are made."""

    def __init__(self, rounds: Rounds, settings: ProblemSettings, n_users: int, n_items: int) -> None:
        self._n_users, self._n_items = n_users, n_items
        self._names, self._token = itertools.count(), uuid.uuid4().hex
        self._moments: FeatureMoments = rounds.sum(feature_moments, settings.features)
        self._prepare(settings, rounds)

    def _prepare(self, settings: ProblemSettings, given: Rounds) -> None:
        self.settings = settings
        self.features = FeatureFrame.decide(self._moments, count_weighting=settings.features.count_weighting)
        shared = given.keep(self.features)
        prepared = given.map(prepare, settings.features, shared, "cpu", settings.loss)
        self.rounds = given.of(prepared)
        self.terms: dict[Any, Term] = {}

    def weighted(self, features: FeatureSettings) -> ItemProblem:
        """The same ratings under another count weighting."""
        other = copy.copy(self)
        # Without features, partitions that were prepared have all that they were prepared from.
        other._prepare(replace(self.settings, features=features), self.rounds)
        return other

    @property
    def mean_square_length(self) -> float:
        return 1.0

    @property
    def n_columns(self) -> int:
        """The columns of W: the items, and what they share."""
        shared = self.settings.features.label_features
        return self._n_items + (0 if shared is None else int(shared.shape[1]))

    def objective(self, labels: Any, *, free_intercept: bool = True, thinned: bool = False) -> Any:
        term = self.term(labels)
        total: ObservedMoments = self.rounds.sum(entry_moments, term)
        frame = frame_of(self.settings, self.features, total, free_intercept=free_intercept)
        term = replace(term, frame=without_features(frame))
        self.terms[labels.without, free_intercept] = term
        return ItemObjective(self.rounds, term, frame, (self._n_users, self.n_columns))

    def held_scores(
        self, labels: ClusterLabels, models: tuple[Factors, ...], plan: FoldPlan | None, penalties: Penalties
    ) -> ClusterScores:
        free = penalties.intercept == 0
        terms = tuple(self.terms[None if plan is None else fold, free] for fold in range(len(models)))
        about = labels.n_observed * (1.0 if plan is None else len(models) / plan.n_folds)
        scoring = ItemScoring(uuid.uuid4().hex, plan, models, terms, penalties.trace)
        return ClusterScores(self.rounds, scoring, labels, about)

    def largest_penalty(self, labels: Any) -> float:
        """The smallest λ at which W = 0 but for the users' intercepts, which cost next to nothing."""
        objective = self.objective(labels)
        start = np.zeros((self.n_columns, 0))
        state = ItemState(objective, Penalties(1.0), start, objective.starting_intercept())
        own = self._n_items

        def product(V: Floats) -> Floats:
            padded = np.vstack([V, np.zeros((self.n_columns - own, V.shape[1]))])
            return state.normal_product(padded, balanced=False)[:own]

        return largest_value(product, own, _ACCURACY)


@dataclass(frozen=True, eq=False)
class ItemScoring(Scoring):
    """Ratings scored by models of the items, each with the users that the entries it saw give."""

    terms: tuple[Term, ...]
    trace: float

    def _made(self, part: Prepared, own: Own) -> tuple[Floats, ObservedLabels, NDArray[np.int64]]:
        rows, labels = part.row_data(), part.labels
        folds = np.zeros(labels.n_observed, dtype=np.int8)
        if self.plan is not None:
            folds = self.plan.folds(labels, part.ids(own))
        scores = np.empty(labels.n_observed)
        for fold, (model, term) in enumerate(zip(self.models, self.terms, strict=True)):
            held = folds == fold
            place = ItemPlace(f"{self.name}-{fold}", model.right, model.intercept, self.trace)
            users = at_best_users(part, own, term, place).factors.left
            scores[held] = rows.scores(
                part.settings, part.features, users, model.right, model.intercept, labels.select(held)
            )
        kept = (folds >= 0) & (folds < len(self.models))
        return scores[kept], labels.select(kept), labels.rows[kept]


class Users(NamedTuple):
    """The users of a partition: ids, parameters A, factors ``P = SA``, and their ratings."""

    ids: tuple[Any, ...]
    parameters: Floats
    factors: Floats
    labels: ObservedLabels


def users_of(part: Prepared, own: Own, term: Term, place: ItemPlace) -> Users:
    """The users of one partition, at their best for these items."""
    A = at_best_users(part, own, term, place).factors.left
    factors = part.row_data().left(part.settings, part.features, A)
    return Users(part.labels.row_names or (), A, factors, part.labels)
