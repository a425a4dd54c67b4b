"""The trace penalty that theory asks for: twice the size of the gradient's noise at the truth.

All are for the mean loss over Ω (over all entries for positive-unlabelled fits), as in labelgap's objective.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.losses import Loss, get_loss
from labelgap.metrics.linear_fractional import judged_labels
from labelgap.objective.moments import smoothed_rates
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.theory.assumptions import check_count, check_in_range


def feature_trace_penalty(
    *,
    n_features: int,
    n_labels: int,
    n_observed: int,
    noise_scale: float = 0.5,
    feature_scale: float = 1.0,
    nu: float = 1.0,
    constant: float | None = None,
) -> float:
    """``λ = 2 c τ/√|Ω|``, with features.

    By default ``c = a (1 + √(ν d/L))``, which makes cτ/√|Ω| the size of σ₁(XᵀG) at W*. There G is noise, and
    for normal features with covariance a² I Chevet's inequality gives ``σ₁(XᵀG) ≤ a (‖G‖_F + √d σ₁(G))`` on
    average, with ‖G‖_F ≈ τ/√|Ω| and, for n well above L, σ₁(G) ≈ τ √(ν/(L |Ω|)).

    Parameters
    ----------
    n_features, n_labels, n_observed : int
        d, L and |Ω|.
    noise_scale : float, default 0.5
        τ, the root of the mean variance of a value given its row. ½ is the most for yes/no labels; the
        paper takes 1. For other families take σ̄, ``√curvature_range(...).upper``.
    feature_scale : float, default 1.0
        a, the largest standard deviation of the features in any direction.
    nu : float, default 1.0
        How uneven sampling is.
    constant : float or None, default None
        c, in place of the above.

    Examples
    --------
    >>> from labelgap.theory import feature_trace_penalty
    >>> round(feature_trace_penalty(n_features=10, n_labels=40, n_observed=10_000), 6)
    0.015
    """
    d, n_labels = check_count("n_features", n_features), check_count("n_labels", n_labels)
    tau = check_in_range("noise_scale", noise_scale, above=0)
    if constant is None:
        spread = math.sqrt(check_in_range("nu", nu, least=1) * d / n_labels)
        c = check_in_range("feature_scale", feature_scale, above=0) * (1 + spread)
    else:
        c = check_in_range("constant", constant, above=0)
    return 2 * c * tau / math.sqrt(check_count("n_observed", n_observed))


def collaborative_trace_penalty(
    *,
    n: int,
    n_labels: int,
    n_observed: int,
    noise_scale: float = 0.5,
    nu: float = 1.0,
    constant: float = math.sqrt(2),
) -> float:
    """``λ = 2 c τ √(2 ν log(n + L) / (min(n, L) |Ω|))``, without features.

    c = √2 comes from Bernstein's inequality for matrices: the noise G of the gradient then has
    ``σ₁(G) ≤ λ/2`` but for a probability of about 1/(n + L), if every row and label has many more than
    log(n + L) observations. The same λ goes with the penalty λ‖XW‖_*.

    Parameters
    ----------
    n, n_labels, n_observed : int
        n, L and |Ω|.
    noise_scale : float, default 0.5
        τ, the root of the mean variance of a value. ½ is the most for yes/no labels.
    nu : float, default 1.0
        How uneven sampling is.
    constant : float, default √2
        c.

    Examples
    --------
    >>> from labelgap.theory import collaborative_trace_penalty
    >>> round(collaborative_trace_penalty(n=1000, n_labels=500, n_observed=100_000), 6)
    0.000765
    """
    n, n_labels = check_count("n", n), check_count("n_labels", n_labels)
    tau, c = (
        check_in_range("noise_scale", noise_scale, above=0),
        check_in_range("constant", constant, above=0),
    )
    nu = check_in_range("nu", nu, least=1)
    size = min(n, n_labels) * check_count("n_observed", n_observed)
    return 2 * c * tau * math.sqrt(2 * nu * math.log(n + n_labels) / size)


def unlabelled_trace_penalty(
    *,
    n: int,
    n_labels: int,
    flip_rate: float,
    positive_rate: float,
    n_features: int | None = None,
    feature_scale: float = 1.0,
) -> float:
    """``λ = 2 τ (√n + √L)/(nL)``, or ``2 τ a (1 + √(d/L))/√(nL)`` with features, from positives alone.

    τ² = η/(1 − ρ) − η², with η the fraction of true positives, is the variance of the slope of the unbiased
    logistic loss: a recorded yes counts 1/(1 − ρ) times, so that missing ones make for more noise. All n L
    entries take part, and (√n + √L) is the largest singular value of unit noise in all of them. The bound of
    the paper is for a constraint ‖W‖_* ≤ t and has no λ.

    Parameters
    ----------
    n, n_labels : int
        n and L.
    flip_rate : float
        ρ, the fraction of the true yes that was recorded as no.
    positive_rate : float
        η, the fraction of *true* yes among all entries, strictly between 0 and 1.
    n_features : int or None, default None
        d; None means no features.
    feature_scale : float, default 1.0
        a, the largest standard deviation of the features in any direction.

    Examples
    --------
    >>> from labelgap.theory import unlabelled_trace_penalty
    >>> sizes = dict(n=1000, n_labels=500, positive_rate=0.1)
    >>> [round(1e4 * unlabelled_trace_penalty(flip_rate=rho, **sizes), 3) for rho in (0.0, 0.8)]
    [0.648, 1.512]
    """
    n, n_labels = check_count("n", n), check_count("n_labels", n_labels)
    eta = check_in_range("positive_rate", positive_rate, above=0, below=1)
    kept = 1 - check_in_range("flip_rate", flip_rate, least=0, below=1)
    tau = math.sqrt(eta / kept - eta**2)
    if n_features is not None:
        return feature_trace_penalty(
            n_features=n_features,
            n_labels=n_labels,
            n_observed=n * n_labels,
            noise_scale=tau,
            feature_scale=feature_scale,
        )
    return 2 * tau * (math.sqrt(n) + math.sqrt(n_labels)) / (n * n_labels)


def noise_trace_penalty(
    X: Any,
    labels: Any,
    *,
    loss: str | Loss = "logistic",
    multiple: float = 2.0,
    quantile: float = 0.9,
    n_draws: int = 20,
    fit_intercept: bool = True,
    random_state: Any = None,
) -> float:
    """The penalty for the features and the observed pattern at hand, by drawing noise.

    Labels without any structure are drawn at each label's own rate on the observed entries, and
    ``λ = multiple · (a quantile of σ₁(XᵀG))`` for them, where G is the gradient at the best intercepts. At
    ``multiple=1`` a fit to mere noise is W = 0 with about that probability; the theory's λ is twice that.
    There are no constants in it, and no assumptions about the features.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d), or None
        The features as the fit sees them; None means no features (X = I).
    labels : ObservedLabels or whatever it can be made from
        Yes/no labels.
    loss : str or Loss, default "logistic"
    multiple : float, default 2.0
    quantile : float, default 0.9
        Of the draws.
    n_draws : int, default 20
    fit_intercept : bool, default True
        Whether the fit has a free intercept for each label. Without one all scores start from 0, and the
        labels are drawn at ½.
    random_state : int, RandomState or None

    Examples
    --------
    >>> from labelgap.data import make_low_rank_labels
    >>> from labelgap.theory import feature_trace_penalty, noise_trace_penalty
    >>> problem = make_low_rank_labels(n=400, n_labels=40, observed=0.3, noise=True, random_state=0)
    >>> drawn = noise_trace_penalty(problem.X, problem.Y_observed, random_state=0)
    >>> n_observed = int((problem.Y_observed >= 0).sum())
    >>> formula = feature_trace_penalty(n_features=10, n_labels=40, n_observed=n_observed)
    >>> 0.8 < drawn / formula < 1.2
    True
    """
    known = judged_labels(labels)
    multiple = check_in_range("multiple", multiple, above=0)
    level = check_in_range("quantile", quantile, least=0, most=1)
    rng = check_random_state(random_state)
    features = FeatureSettings(own_rows=X is None, centre=fit_intercept)
    settings = ProblemSettings(get_loss(loss), features, fit_intercept=fit_intercept)
    problem = Problem([RowBlock(X, known)], settings)
    rates = smoothed_rates(known).rate[known.indices] if fit_intercept else np.full(known.n_observed, 0.5)
    sizes = []
    for _ in range(check_count("n_draws", n_draws)):
        values = (rng.random_sample(known.n_observed) < rates).astype(np.int8)
        noise = replace(known, values=values, offsets=None)
        sizes.append(largest_trace_penalty(problem.objective(noise)))
    return float(multiple * np.quantile(sizes, level))
