"""The problem that an estimator fits, made from its parameters, features and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap._types import Floats
from labelgap.fitting.penalty_grid import PenaltyRequest
from labelgap.kernels.gpu.device import has_cuda, prediction_device, torch_device
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss, Squared
from labelgap.objective.frame import possible_flip_rates
from labelgap.objective.moments import ColumnMoments, FeatureMoments
from labelgap.objective.parts import Backend, FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors, Point, entries_kept_within, entries_within
from labelgap.solvers.certificate import Penalties, with_best_intercept

# The length of the column of ones that carries the users' intercepts, in units in which an item's own column
# has length 1. Longer is cheaper under the trace norm, but slower to fit; beyond this nothing is gained.
_SHARED_LENGTH = 3.0
# Entries from which on a GPU is faster than the cores beside it. A step on a GPU is dozens of small pieces of
# work, each of which takes some microseconds to start whatever its size.
_WORTH = 2_000_000


# -- features --------------------------------------------------------------------------------------------


def feature_settings(
    X: Any, request: PenaltyRequest, *, fit_intercept: bool, bounded: bool, penalty: str, scaling: str
) -> FeatureSettings:
    """How the features X are used; without any (None), every row has parameters of its own.

    ``penalty`` and ``scaling`` are the estimator's ``penalty`` and ``feature_scaling``; ``bounded`` says
    whether there is a bound on the scores.
    """
    if X is None:
        return FeatureSettings(own_rows=True)
    if penalty == "scores":
        return FeatureSettings(penalty="scores")
    # A penalty on the intercepts, and a bound on XW, refer to the origin of X as given.
    centre = bool(fit_intercept) and request.intercept == 0 and not bounded
    return FeatureSettings(scaling=_scaling(X, scaling, request), centre=centre)


def _scaling(X: Any, scaling: str, request: PenaltyRequest) -> str:
    if scaling != "auto":
        return scaling
    # A penalty given as a number refers to the features as given.
    if any(penalty not in ("auto", 0) for penalty in (request.trace, request.ridge)):
        return "none"
    if not sp.issparse(X):
        return "standard"
    # With fewer rows than features a rare feature is mostly noise.
    return "root" if X.shape[0] >= X.shape[1] else "none"


def intercept_request(X: Any, given: float | str, *, fit_intercept: bool) -> float | str:
    """The intercept penalty to use or to choose: "auto" only where X is centred, or None (X = I)."""
    if not fit_intercept:
        return 0.0
    elsewhere = X is not None and given == "auto" and not ColumnMoments.of(X).look_centred()
    return 0.0 if elsewhere else given


def recommender_features(
    n_items: int, item_features: Any, *, user_intercept: bool, count_weighting: float
) -> FeatureSettings:
    """Parameters of users and items of their own, beside what their features add to them.

    A column of ones among the features of the items carries the users' intercepts.
    """
    blocks = [] if item_features is None else [sp.csr_array(item_features)]
    if user_intercept:
        blocks.insert(0, sp.csr_array(np.full((n_items, 1), shared_column_length(n_items))))
    shared = sp.csr_array(sp.hstack(blocks)) if blocks else None
    return FeatureSettings(own_rows=True, label_features=shared, count_weighting=float(count_weighting))


def shared_column_length(n_items: int) -> float:
    """The value of each element of the column of ones that carries the users' intercepts."""
    return float(_SHARED_LENGTH / np.sqrt(n_items))


# -- problems --------------------------------------------------------------------------------------------


def observed_problem(
    X: Any,
    labels: ObservedLabels,
    features: FeatureSettings,
    loss: Loss,
    *,
    fit_intercept: bool,
    score_bound: float | str | None,
    backend: Backend | None = None,
    gone: FeatureMoments | None = None,
) -> Problem:
    """The problem over observed entries; a bound of "auto" is none here.

    ``gone`` are the moments of rows that are not kept any more, in the same features.
    """
    bound = None if isinstance(score_bound, str) else score_bound
    settings = ProblemSettings(loss, features, fit_intercept=bool(fit_intercept), score_bound=bound)
    return Problem([RowBlock(X, labels)], settings, backend, gone)


def unlabelled_problem(
    X: Any,
    positives: ObservedLabels,
    judged: ObservedLabels,
    features: FeatureSettings,
    loss: Loss,
    *,
    fit_intercept: bool,
    score_bound: float | None,
    memory_limit_mb: float,
    backend: Backend | None = None,
) -> Problem:
    """The positive-unlabelled problem over all n·L entries, judged on some of them, at flip rates of 0."""
    settings = ProblemSettings(
        loss,
        features,
        fit_intercept=bool(fit_intercept),
        score_bound=score_bound,
        flip_rate=np.zeros(positives.shape[1]),
        block_entries=entries_within(memory_limit_mb),
        kept_entries=entries_kept_within(memory_limit_mb),
    )
    return Problem([RowBlock(X, positives, judged)], settings, backend)


def highest_possible_rates(positives: ObservedLabels, flip_rate: Floats) -> Floats:
    """The flip rates, lowered where they would mean more positives of a label than there are rows."""
    n, n_labels = positives.shape
    return possible_flip_rates(positives.positive_counts(), np.full(n_labels, n), flip_rate)


# -- constant scores -------------------------------------------------------------------------------------


def best_constants(labels: ObservedLabels, loss: Loss) -> Point:
    """The objective at the best constant score of each label, given the offsets."""
    settings = ProblemSettings(loss, FeatureSettings(own_rows=True))
    objective = Problem([RowBlock(None, labels)], settings).objective(labels)
    start = Factors.zero(objective.shape, objective.starting_intercept())
    return with_best_intercept(objective, objective.at(start), Penalties(1.0))


# -- the device, from the estimator's parameter -----------------------------------------------------------


def backend_for(device: str, labels: ObservedLabels, loss: Loss) -> Backend | None:
    """The machine that a fit runs on; None is the CPU.

    "auto" is a GPU where there is one, the entries that have to be looked at are many, and the loss runs
    there.
    """
    if device == "cpu":
        return None
    if device == "auto":
        # The entries come first: to ask for a GPU imports torch, which takes longer than a small fit.
        if entries_at_work(labels, loss) < _WORTH or not has_cuda() or not _runs_there(loss):
            return None
        device = "cuda"
    place = torch_device(device)
    from labelgap.objective.torch.part import TorchBackend

    return TorchBackend(place)


def entries_at_work(labels: ObservedLabels, loss: Loss) -> int:
    """The entries that one pass of a fit looks at."""
    if labels.unobserved == "unlabelled" and not isinstance(loss, Squared):
        return labels.shape[0] * labels.shape[1]
    return labels.n_observed


def _runs_there(loss: Loss) -> bool:
    from labelgap.kernels.gpu.losses import torch_loss

    return torch_loss(loss) is not None


def device_scores(device: str, X: Any, left: Floats, right: Floats, intercept: Floats) -> Any:
    """The scores ``X left rightᵀ + intercept`` of whole rows on a device; None where the CPU makes them."""
    place = prediction_device(device, float(X.shape[0]) * len(right))
    if place is None:
        return None
    from labelgap.kernels.gpu.scoring import DeviceScores

    return DeviceScores(left, right, intercept, place)


def jobs_for(backend: Any, n_jobs: int | None) -> int | None:
    """Fits side by side: on a GPU one at a time, which has all of its memory."""
    return n_jobs if backend is None else 1
