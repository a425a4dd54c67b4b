"""What is known of a new user before the first rating: a normal prior, made from the users of the fit.

A fit penalises the factors of a user around 0. For a user with many ratings that hardly matters. One with a
few is described better by the other users: with a_i the factors of user i beyond its features, H_i the
curvature of the loss of its ratings and P the penalty of a user with an average number of ratings, all in
units of one rating,

    ``μ = mean a_i``,   ``Σ = mean [(a_i − μ)(a_i − μ)ᵀ + (H_i + P)⁻¹]``

are the mean and the covariance of one step of the EM algorithm, in which the second term is for the factors
being estimates, which are closer together than the users are. Users count by their numbers of ratings, since
little is known of the others. The factors of a new user then cost ``½ (a − μ)ᵀ Σ⁻¹ (a − μ)``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.recommending.factor_model import FactorModel
from labelgap.recommending.top_items import score_pairs

PRIORS = ("users", "fit")
"""What the factors of a new user can be drawn to: the other users, or 0 as in a fit."""

# The curvature is averaged over so many users at most, and fewer where the matrices are large.
_MOST_USERS, _FEWEST_USERS, _MOST_WORK = 1000, 32, 2e9


def prior_of_users(model: FactorModel) -> tuple[Floats, Floats]:
    """μ, and ``Σ⁻¹`` as a penalty in the units of the model's objective."""
    own = model.user_factors_ - model.user_prior_
    counts = model.answers_.row_counts().astype(np.float64)
    weights = counts / counts.sum()
    mean = weights @ own
    centred = own - mean
    # The objective is the mean loss of the ratings: one of average weight counts this little in it.
    rated = model.answers_.weights
    unit = model.answer_weight_ * (1.0 if rated is None else float(rated.mean()))
    spread = (centred * weights[:, None]).T @ centred + _mean_uncertainty(model, counts, unit)
    return mean, np.linalg.inv(spread) * unit


def _mean_uncertainty(model: FactorModel, counts: Floats, unit: float) -> Floats:
    """The mean of ``(H_i + P)⁻¹`` over users, weighted by their numbers of ratings."""
    k = model.user_factors_.shape[1]
    P = model.factor_penalty_ / unit
    users = _evenly(np.flatnonzero(counts), k)
    theirs = replace(model.answers_, row_names=None).take_rows(users)
    scores = score_pairs(model._factors(users), theirs.rows, theirs.indices)
    curvature = np.asarray(model._entry_loss().curvature(scores, theirs.values), dtype=np.float64)
    if theirs.weights is not None:
        curvature = curvature * theirs.weights * (model.answer_weight_ / unit)
    total = np.zeros((k, k))
    for number, user in enumerate(users):
        here = slice(theirs.indptr[number], theirs.indptr[number + 1])
        V = model.item_factors_[theirs.indices[here]]
        total += counts[user] * np.linalg.inv((V * curvature[here, None]).T @ V + P)
    return np.asarray(total / counts[users].sum())


def _evenly(users: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Users in equal steps, as many as there is work for."""
    most = int(np.clip(_MOST_WORK / max(k, 1) ** 3, _FEWEST_USERS, _MOST_USERS))
    if len(users) <= most:
        return users
    return users[np.linspace(0, len(users) - 1, most).round().astype(np.int64)]
