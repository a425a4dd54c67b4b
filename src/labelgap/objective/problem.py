"""One problem with everything fixed but the labels, from which the objectives of folds are made."""

from __future__ import annotations

import copy
from typing import Self

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.kernels.entries import sampled_product
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.objective.cpu.design import Design
from labelgap.objective.cpu.observed import observed_objective
from labelgap.objective.cpu.score_bound import ScoreBounds
from labelgap.objective.cpu.unlabelled import UnlabelledObjective, unlabelled_objective
from labelgap.objective.protocol import Factors, Objective


class _DesignProblem:
    """What both kinds of problem hold: features, loss, intercept, and a bound on the scores."""

    def __init__(
        self, design: Design, loss: Loss, *, fit_intercept: bool, score_bound: float | None = None
    ) -> None:
        self.design, self.loss = design, loss
        self._fit_intercept, self._score_bound = fit_intercept, score_bound

    def with_design(self, design: Design) -> Self:
        """The same problem with other features."""
        other = copy.copy(self)
        other.design = design
        return other

    def scores(self, factors: Factors, labels: ObservedLabels) -> Floats:
        return scores_at(self.design, factors, labels)


class ObservedProblem(_DesignProblem):
    """Features, loss and intercept, from which objectives over any labels are made."""

    def objective(self, labels: ObservedLabels, *, free_intercept: bool = True) -> Objective:
        return observed_objective(
            self.design,
            labels,
            self.loss,
            fit_intercept=self._fit_intercept,
            free_intercept=free_intercept,
        )

    def bounds(self, objective: Objective) -> ScoreBounds | None:
        return None if self._score_bound is None else ScoreBounds(self.design, self._score_bound)


class UnlabelledProblem(_DesignProblem):
    """The positive-unlabelled problem: labels 1 are recorded positives, all else may be yes or no.

    ``cells`` are recorded positives (1) and other cells (0) on which decisions are judged. An objective over
    some of them leaves the others out altogether, and takes all cells outside ``cells`` for unlabelled. Where
    that leaves a share s of the recorded positives and a share t of all n·L cells, as a fold of a sample of
    cells does, positives are rarer than in truth by s/t, and the flip rate is ``1 − (1 − ρ) s/t``.
    """

    def __init__(
        self,
        design: Design,
        loss: Loss,
        flip_rate: Floats,
        cells: ObservedLabels,
        *,
        fit_intercept: bool,
        score_bound: float | None = None,
        block_cells: int,
    ) -> None:
        super().__init__(design, loss, fit_intercept=fit_intercept, score_bound=score_bound)
        self.flip_rate, self._cells, self._block_cells = flip_rate, cells, block_cells

    def objective(self, labels: ObservedLabels, *, free_intercept: bool = True) -> UnlabelledObjective:
        held_out = self._cells.select(~_contained(self._cells, labels))
        return self._objective(labels, self._thinning(held_out), held_out, free_intercept)

    def thinned(self, labels: ObservedLabels, *, free_intercept: bool = True) -> UnlabelledObjective:
        """Over all cells, with the recorded positives that are not among the labels taken for unlabelled."""
        left = np.sum(labels.values == 1) / max(np.sum(self._cells.values == 1), 1)
        return self._objective(labels, float(left), None, free_intercept)

    def _objective(
        self, labels: ObservedLabels, thinning: float, held_out: ObservedLabels | None, free_intercept: bool
    ) -> UnlabelledObjective:
        return unlabelled_objective(
            self.design,
            labels.select(labels.values == 1),
            self.loss,
            np.maximum(1.0 - (1.0 - self.flip_rate) * thinning, 0.0),
            held_out=held_out,
            fit_intercept=self._fit_intercept,
            free_intercept=free_intercept,
            score_bound=self._score_bound,
            block_cells=self._block_cells,
        )

    def _thinning(self, held_out: ObservedLabels) -> float:
        """The share of the recorded positives that are left, relative to that of all cells."""
        n, n_labels = self._cells.shape
        recorded, gone = (int(np.sum(labels.values == 1)) for labels in (self._cells, held_out))
        left, cells_left = recorded - gone, n * n_labels - held_out.n_observed
        return left / max(recorded, 1) * (n * n_labels / max(cells_left, 1))

    def bounds(self, objective: Objective) -> ScoreBounds | None:
        if self._score_bound is None:
            return None
        assert isinstance(objective, UnlabelledObjective)
        # Only at recorded positives does the loss fall for ever.
        return ScoreBounds(self.design, self._score_bound, always=objective.recorded_keys())


def _contained(cells: ObservedLabels, some: ObservedLabels) -> NDArray[np.bool_]:
    """Which of the cells are among some of them."""
    if some.n_observed == cells.n_observed:
        return np.ones(cells.n_observed, dtype=np.bool_)
    n_labels = cells.shape[1]
    chosen = some.rows * n_labels + some.cols
    keys = cells.rows * n_labels + cells.cols
    at = np.minimum(np.searchsorted(chosen, keys), max(len(chosen) - 1, 0))
    return np.asarray(chosen[at] == keys if len(chosen) else np.zeros(len(keys), dtype=np.bool_))


def scores_at(design: Design, factors: Factors, labels: ObservedLabels) -> Floats:
    """``XABᵀFᵀ + 1bᵀ`` (plus offsets, where labels have them) at the entries of these labels."""
    P, Q = design.left(factors.left), design.right(factors.right)
    scores = sampled_product(labels.indptr, labels.indices, P, Q) + factors.intercept[labels.indices]
    return np.asarray(scores if labels.offsets is None else scores + labels.offsets)
