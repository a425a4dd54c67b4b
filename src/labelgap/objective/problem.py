"""One problem with everything fixed but the labels, from which the objectives of folds are made."""

from __future__ import annotations

import numpy as np

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.objective.features import Features
from labelgap.objective.kernels.entries import sampled_product
from labelgap.objective.observed import EntryTerm, observed_objective
from labelgap.objective.protocol import Factors
from labelgap.objective.score_bound import ScoreBounds


class ObservedProblem:
    """Features, loss and intercept, from which objectives over any labels are made."""

    def __init__(
        self,
        features: Features,
        n_labels: int,
        loss: Loss,
        *,
        fit_intercept: bool,
        score_bound: float | None = None,
    ) -> None:
        self.features, self.loss, self._n_labels = features, loss, n_labels
        self._fit_intercept, self._score_bound = fit_intercept, score_bound

    def objective(self, labels: ObservedLabels, *, free_intercept: bool = True) -> EntryTerm:
        return observed_objective(
            self.features,
            labels,
            self.loss,
            fit_intercept=self._fit_intercept,
            free_intercept=free_intercept,
        )

    def scores(self, factors: Factors, labels: ObservedLabels) -> Floats:
        P = np.ascontiguousarray(self.features.product(np.ascontiguousarray(factors.left)))
        low_rank = sampled_product(labels.indptr, labels.indices, P, np.ascontiguousarray(factors.right))
        return np.asarray(low_rank + factors.intercept[labels.indices])

    def bounds(self) -> ScoreBounds | None:
        if self._score_bound is None:
            return None
        return ScoreBounds(self.features, self._n_labels, self._score_bound)

    def loss_of(self, scores: Floats, labels: ObservedLabels) -> float:
        return float(np.average(self.loss.value(scores, labels.values), weights=labels.weights))
