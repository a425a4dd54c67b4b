"""A learning problem whose rows are on a cluster, from which the objectives of all fits are made."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import replace
from functools import cached_property
from typing import Any

from labelgap.distributed.answering import Selection, Term, entry_moments
from labelgap.distributed.cluster_labels import ClusterLabels
from labelgap.distributed.folds import FoldPlan
from labelgap.distributed.objective import ClusterObjective
from labelgap.distributed.partitions import (
    design_facts,
    feature_gram,
    feature_moments,
    prepare,
    second_moments,
)
from labelgap.distributed.rounds import Rounds
from labelgap.distributed.scoring import ClusterScores, cluster_scores
from labelgap.objective.frame import FeatureFrame, Frame, orthonormal
from labelgap.objective.moments import ObservedMoments
from labelgap.objective.parts import ProblemSettings
from labelgap.objective.problem import Problem, frame_of
from labelgap.objective.protocol import Factors, Objective
from labelgap.solvers.certificate import Penalties


class ClusterProblem(Problem):
    """Features and settings on a cluster, with which objectives over all labels but a fold are made.

    Parameters
    ----------
    rounds : Rounds
        The partitions as they were read. They are given up once they are in the coordinates of the frame;
        Dask reads them again if a worker with prepared ones dies.
    settings : ProblemSettings
    device : str
        Where workers compute.
    """

    def __init__(self, rounds: Rounds, settings: ProblemSettings, device: str = "cpu") -> None:
        self._raw, self.settings = rounds, settings
        self.features = self._decide_features()
        prepared = rounds.map(prepare, settings.features, rounds.keep(self.features), device, settings.loss)
        self.rounds = rounds.of(prepared)
        del self._raw
        self._square_length, self._n_stored = self.rounds.sum(design_facts)
        self._names, self._token = itertools.count(), uuid.uuid4().hex

    def _decide_features(self) -> FeatureFrame:
        settings = self.settings.features
        frame = FeatureFrame.decide(
            self._raw.sum(feature_moments, settings),
            lambda: self._raw.sum(second_moments),
            scaling=settings.scaling,
            penalty=settings.penalty,
            centre=settings.centre,
        )
        if settings.penalty == "scores" and frame.coordinates is not None:
            gram = self._raw.sum(feature_gram, settings, frame)
            frame = replace(frame, coordinates=orthonormal(frame.coordinates, gram))
        return frame

    @cached_property
    def mean_square_length(self) -> float:
        return float(self._square_length) / max(self.features.n_rows, 1) - self.features.excess

    def objective(self, labels: Any, *, free_intercept: bool = True, thinned: bool = False) -> Objective:
        term = self.term(labels)
        total: ObservedMoments = self.rounds.sum(entry_moments, term)
        frame = frame_of(self.settings, self.features, total, free_intercept=free_intercept)
        # Partitions have the features, which are the largest part of a frame.
        term = replace(term, frame=without_features(frame))
        stored = self._n_stored + int(total.labels.count.sum())
        assert self.features.coordinates is not None
        shape = (self.features.coordinates.n_coordinates, labels.shape[1])
        return ClusterObjective(self.rounds, term, frame, shape, stored)

    def term(self, labels: ClusterLabels) -> Term:
        """What partitions build their objective over these labels from, once there is a frame."""
        settings = replace(self.settings, features=replace(self.settings.features))
        selection = Selection(labels.plan, labels.without)
        return Term(f"{self._token}-{next(self._names)}", settings, selection)

    def right(self, B: Any) -> Any:
        """Labels have no features here."""
        return B

    def held_scores(
        self, labels: ClusterLabels, models: tuple[Factors, ...], plan: FoldPlan | None, penalties: Penalties
    ) -> ClusterScores:
        """The scores of the first folds, each by its model; or of all entries by one."""
        return cluster_scores(self.rounds, labels, models, plan)


def without_features(frame: Frame) -> Frame:
    """The frame as it travels: partitions have the features themselves."""
    empty = FeatureFrame(None, frame.features.n_rows, 0.0, None)
    return replace(frame, features=empty)
