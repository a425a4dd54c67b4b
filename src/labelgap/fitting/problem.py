"""The problem that an estimator fits, made from its parameters, features and labels.

This is the one module above the objective that names the CPU's features. A *design* holds the features of the
rows and of the labels; a *problem* adds the loss, the intercept and a bound on the scores, and makes the
objective over any labels: all of them, or those of a fold.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp

from labelgap._types import Floats, Ints
from labelgap.fitting.search import PenaltyRequest
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.objective.cpu.all_entries import cells_within
from labelgap.objective.cpu.design import Design
from labelgap.objective.cpu.features import (
    Features,
    IdentityFeatures,
    SparseFeatures,
    StackedFeatures,
    looks_centred,
    make_features,
)
from labelgap.objective.cpu.scaled_identity import ScaledIdentityFeatures, scales_by_count
from labelgap.objective.cpu.score_bound import ScoreBounds
from labelgap.objective.cpu.unlabelled import possible_flip_rates
from labelgap.objective.cpu.whitened import WhitenedFeatures
from labelgap.objective.problem import ObservedProblem, UnlabelledProblem
from labelgap.objective.protocol import Factors, Objective, Point
from labelgap.objective.scaling import feature_scales
from labelgap.solvers.intercept import with_best_intercept
from labelgap.solvers.penalties import Penalties

__all__ = [
    "Design",
    "Problem",
    "UnlabelledProblem",
    "best_constants",
    "feature_design",
    "highest_possible_rates",
    "identity_design",
    "intercept_request",
    "observed_problem",
    "recommender_design",
    "row_feature_part",
    "shared_column_length",
    "unlabelled_problem",
]

# The length of the column of ones that carries the users' intercepts, in units in which an item's own column
# has length 1. Longer is cheaper under the trace norm, but slower to fit; beyond this nothing is gained.
_SHARED_LENGTH = 3.0


class Problem(Protocol):
    """What stays fixed while labels, penalties and folds change: features, loss, intercept."""

    design: Design
    loss: Loss

    def with_design(self, design: Design) -> Self:
        """The same problem with other features."""
        ...

    def objective(self, labels: ObservedLabels, *, free_intercept: bool = True) -> Objective:
        """The data term over these labels; ``free_intercept`` unless the intercepts are penalised."""
        ...

    def scores(self, factors: Factors, labels: ObservedLabels) -> Floats:
        """The model's scores at the entries of these labels."""
        ...

    def bounds(self, objective: Objective) -> ScoreBounds | None:
        """The constraint on the scores of one of its objectives, where there is one."""
        ...


# -- rows with features ----------------------------------------------------------------------------------


def feature_design(
    X: Any,
    n_labels: int,
    request: PenaltyRequest,
    *,
    fit_intercept: bool,
    bounded: bool,
    penalty: str,
    scaling: str,
) -> tuple[Design, Floats | None]:
    """The design of features X, and what their columns were multiplied with (None: nothing).

    ``penalty`` and ``scaling`` are the estimator's ``penalty`` and ``feature_scaling``; ``bounded`` says
    whether there is a bound on the scores.
    """
    if penalty == "scores":
        return Design.of(WhitenedFeatures(X), n_labels), None
    # A penalty on the intercepts, and a bound on XW, refer to the origin of X as given.
    centre = fit_intercept and request.intercept == 0 and not bounded
    scales = _scales(X, scaling, request)
    return Design.of(make_features(X, centre=centre, scales=scales), n_labels), scales


def _scales(X: Any, scaling: str, request: PenaltyRequest) -> Floats | None:
    if scaling == "auto":
        # A penalty given as a number refers to the features as given.
        if any(penalty not in ("auto", 0) for penalty in (request.trace, request.ridge)):
            return None
        # With fewer rows than features a rare feature is mostly noise.
        rare_counts = X.shape[0] >= X.shape[1]
        scaling = ("root" if rare_counts else "none") if sp.issparse(X) else "standard"
    return feature_scales(X, scaling)


def intercept_request(X: Any, given: float | str, *, fit_intercept: bool) -> float | str:
    """The intercept penalty to use or to choose: "auto" only where X is centred, or None (X = I)."""
    if not fit_intercept:
        return 0.0
    elsewhere = X is not None and given == "auto" and not looks_centred(X)
    return 0.0 if elsewhere else given


# -- rows without features, and recommenders -------------------------------------------------------------


def identity_design(n: int, n_labels: int) -> Design:
    """Every row has parameters of its own (X = I)."""
    return Design.of(IdentityFeatures(n), n_labels)


def recommender_design(
    labels: ObservedLabels,
    user_features: Any,
    item_features: Any,
    *,
    user_intercept: bool,
    count_weighting: float,
) -> Design:
    """Own parameters of users and items, beside what their features (None: no features) add to them.

    The labels say how many ratings each user and item has, which ``count_weighting`` refers to.
    """
    n_items = labels.shape[1]
    rows = [_own_features(labels.row_counts(), count_weighting)]
    if user_features is not None:
        rows.append(SparseFeatures(user_features))
    columns = [_own_features(labels.label_counts(), count_weighting)]
    if user_intercept:
        columns.append(SparseFeatures(np.full((n_items, 1), shared_column_length(n_items))))
    if item_features is not None:
        columns.append(SparseFeatures(item_features))
    return Design(_stacked(rows), _stacked(columns))


def _own_features(counts: Ints, count_weighting: float) -> Features:
    if count_weighting == 0:
        return IdentityFeatures(len(counts))
    return ScaledIdentityFeatures(scales_by_count(counts, count_weighting))


def _stacked(parts: list[Features]) -> Features:
    return parts[0] if len(parts) == 1 else StackedFeatures(parts)


def shared_column_length(n_items: int) -> float:
    """The value of each element of the column of ones that carries the users' intercepts."""
    return float(_SHARED_LENGTH / np.sqrt(n_items))


def row_feature_part(design: Design, left: Floats) -> Floats:
    """The part of the row factors ``XA`` that comes from features beside the rows' own parameters."""
    rows = design.rows
    if not isinstance(rows, StackedFeatures):
        return np.zeros((rows.n_rows, left.shape[1]))
    return rows.others.product(np.ascontiguousarray(left[rows.n_rows :]))


# -- problems ----------------------------------------------------------------------------------


def observed_problem(
    design: Design, loss: Loss, *, fit_intercept: bool, score_bound: float | str | None
) -> ObservedProblem:
    """The problem over observed entries; a bound of "auto" is none here."""
    bound = None if isinstance(score_bound, str) else score_bound
    return ObservedProblem(design, loss, fit_intercept=fit_intercept, score_bound=bound)


def unlabelled_problem(
    design: Design,
    loss: Loss,
    flip_rate: Floats,
    entries: ObservedLabels,
    *,
    fit_intercept: bool,
    score_bound: float | None,
    memory_limit_mb: float,
) -> UnlabelledProblem:
    """The positive-unlabelled problem over all n·L entries, judged on ``entries``."""
    return UnlabelledProblem(
        design,
        loss,
        flip_rate,
        entries,
        fit_intercept=fit_intercept,
        score_bound=score_bound,
        block_cells=cells_within(memory_limit_mb),
    )


def highest_possible_rates(positives: ObservedLabels, flip_rate: Floats) -> Floats:
    """The flip rates, lowered where they would mean more positives of a label than there are rows."""
    n, n_labels = positives.shape
    return possible_flip_rates(positives.positive_counts(), np.full(n_labels, n), flip_rate)


# -- constant scores -------------------------------------------------------------------------------------


def best_constants(labels: ObservedLabels, loss: Loss) -> Point:
    """The objective at the best constant score of each label, given the offsets."""
    problem = observed_problem(identity_design(*labels.shape), loss, fit_intercept=True, score_bound=None)
    objective = problem.objective(labels)
    start = Factors.zero(objective.shape, objective.starting_intercept())
    return with_best_intercept(objective, objective.at(start), Penalties(1.0))
