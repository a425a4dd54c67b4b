"""Multi-label learning with features: the error of the d x L matrix W."""

from __future__ import annotations

import math

from labelgap.losses import Family
from labelgap.theory.assumptions import Assumption, at_least, check_count, check_in_range
from labelgap.theory.bound import (
    DRAWN,
    RECOVERED,
    SUB_GAUSSIAN,
    Bound,
    lafond_observations,
    log_factor,
    noise_factor,
    probability_of,
    with_warning,
)


def parameter_bound(
    *,
    n: int,
    n_features: int,
    n_labels: int,
    n_observed: int,
    rank: int,
    score_bound: float,
    curvature_floor: float,
    trace_penalty: float,
    gradient_norm: float,
    sign_norm: float,
    feature_floor: float,
    mu: float = 1.0,
) -> Bound:
    """The error of W from measurable things, with every constant known.

    ``‖Ŵ − W*‖²/(dL) ≤ max( 4 μ² L r/(s² d) · (72 λ²/σ̲⁴ + 8192 e γ² κ²), 8e μ γ²/(s d) √(log(n + L)/|Ω|) )``

    the paper's master theorem with the proof's constants worked out (docs/theory.md). It holds for given X,
    also for X = I, where d = n and s = 1/n. The terms are "penalty", "signs" (which are added) and
    "sampling" (the alternative).

    Parameters
    ----------
    n, n_features, n_labels, n_observed : int
        n, d, L and |Ω|.
    rank : int
        r, the rank of W*.
    score_bound : float
        γ ≥ |x_i · w*_j|; the fit obeys it too.
    curvature_floor : float
        σ̲², the least G'' on [−γ, γ]: ``curvature_range(...).lower``.
    trace_penalty : float
        λ of the fit, for the mean loss over Ω.
    gradient_norm : float
        σ₁(XᵀG) at W*, where G holds (mean − value)/|Ω| on Ω. The theorem asks for λ ≥ 2 σ₁.
    sign_norm : float
        κ, the mean of σ₁(XᵀE) where E holds random signs over |Ω| on Ω.
    feature_floor : float
        s = σ_min²(X)/n, above 0.
    mu : float, default 1.0
        How rare the rarest entry is.

    Examples
    --------
    >>> from labelgap.theory import parameter_bound
    >>> bound = parameter_bound(
    ...     n=1000, n_features=10, n_labels=100, n_observed=10_000, rank=2, score_bound=1.0,
    ...     curvature_floor=0.1966, trace_penalty=0.015, gradient_norm=0.006, sign_norm=0.013,
    ...     feature_floor=0.8,
    ... )
    >>> round(bound.value), bound.informative
    (523, False)
    """
    n, d, n_labels = (
        check_count("n", n),
        check_count("n_features", n_features),
        check_count("n_labels", n_labels),
    )
    n_observed, rank = check_count("n_observed", n_observed), check_count("rank", rank, min(d, n_labels))
    gamma = check_in_range("score_bound", score_bound, above=0)
    floor = check_in_range("curvature_floor", curvature_floor, above=0)
    s = check_in_range("feature_floor", feature_floor, above=0)
    mu = check_in_range("mu", mu, least=1)
    penalty = check_in_range("trace_penalty", trace_penalty, least=0)
    kappa = check_in_range("sign_norm", sign_norm, least=0)
    scale = 4 * mu**2 * n_labels * rank / (s**2 * d)
    terms = {
        "penalty": scale * 72 * (penalty / floor) ** 2,
        "signs": scale * 8192 * math.e * (gamma * kappa) ** 2,
        "sampling": 8 * math.e * mu * gamma**2 / (s * d) * math.sqrt(math.log(n + n_labels) / n_observed),
    }
    value = max(terms["penalty"] + terms["signs"], terms["sampling"])
    assumption = at_least(
        "λ ≥ 2 σ₁(XᵀG)", penalty, 2 * check_in_range("gradient_norm", gradient_norm, least=0)
    )
    return with_warning(
        Bound(
            setting="parameter",
            value=value,
            score_error=value * d * s / mu,
            terms=terms,
            assumptions=(assumption, DRAWN, RECOVERED),
            probability=probability_of(n, n_labels, 2, None),
            trivial=4 * gamma**2,
        )
    )


def feature_bound(
    *,
    n: int,
    n_features: int,
    n_labels: int,
    n_observed: int,
    rank: int,
    score_bound: float,
    family: str | Family = "bernoulli",
    noise_scale: float | None = None,
    mu: float = 1.0,
    nu: float = 1.0,
    constant: float = 1.0,
    rows_per_feature: float = 1.0,
    confidence: float | None = None,
) -> Bound:
    """The error of W for a random design, per entry of W: the paper's second main result.

    ``‖Ŵ − W*‖²/(dL) ≤ C₂ μ²/d · max( ν L r log(n + L)/|Ω| · (τ²/σ̲⁴ + γ²), γ²/μ √(log(n + L)/|Ω|) )``

    for the penalty of :func:`feature_trace_penalty`; for the logistic model and every other family. The terms
    are "low_rank" and "sampling", and the value is the larger. n enters by its logarithm only.

    Parameters
    ----------
    n, n_features, n_labels, n_observed : int
        n, d, L and |Ω|.
    rank : int
        r, the rank of W*.
    score_bound : float
        γ ≥ |x_i · w*_j|; the fit obeys it too.
    family : str or Family, default "bernoulli"
        The model of the values; "bernoulli" is the logistic one.
    noise_scale : float or None, default None
        τ, the size of a value's noise; None takes σ̄, its largest standard deviation on [−γ, γ].
    mu, nu : float, default 1.0
        How uneven sampling is (``labelgap.sampling.estimate_mu_nu``); 1 is uniform.
    constant : float, default 1.0
        C₂; it depends on the covariance and the tails of the features, and the theorem leaves it open.
    rows_per_feature : float, default 1.0
        C' in n ≥ C' d, left open too.
    confidence : float or None, default None
        1 − δ for the sampling of entries; None means 1 − 3/(n + L).

    Examples
    --------
    >>> from labelgap.theory import feature_bound
    >>> sizes = dict(n=2000, n_features=10, n_labels=40, rank=2, score_bound=1.0)
    >>> few, many = (feature_bound(n_observed=m, **sizes).value for m in (8_000, 64_000))
    >>> round(few, 3), round(few / many, 3)
    (0.057, 8.0)
    """
    return _feature_rate(
        "feature",
        (n, n_features, n_labels, n_observed, rank),
        score_bound=score_bound,
        noise=noise_factor(family, check_in_range("score_bound", score_bound, above=0), noise_scale),
        spread=(mu, nu),
        constant=constant,
        confidence=confidence,
        size=n_labels,
        extra=(
            at_least(
                "n ≥ C' d", n, check_in_range("rows_per_feature", rows_per_feature, above=0) * n_features
            ),
            at_least("L ≥ d", n_labels, n_features),
            at_least("|Ω| ≥ L + d", n_observed, n_labels + n_features),
        ),
        gradient_risk=2 / (n_features + n_labels),
    )


def score_penalty_bound(
    *,
    n: int,
    n_features: int,
    n_labels: int,
    n_observed: int,
    rank: int,
    score_bound: float,
    family: str | Family = "bernoulli",
    noise_scale: float | None = None,
    mu: float = 1.0,
    nu: float = 1.0,
    constant: float = 1.0,
    rows_per_feature: float = 1.0,
    log_scale: float = 1.0,
    log_argument: float = 1.0,
    confidence: float | None = None,
) -> Bound:
    """The same for the penalty λ‖XW‖_*: what Lafond's theorem gives with features, for comparison.

    ``‖Ŵ − W*‖²/(dL) ≤ C μ²/d · max( ν max(n, L) r log(n + L)/|Ω| · (τ²/σ̲⁴ + γ²), γ²/μ √(log(n + L)/|Ω|) )``

    with max(n, L) where :func:`feature_bound` has L: n/L times as large for many rows, and no use at all
    while |Ω| is of the order of n.

    Parameters
    ----------
    n, n_features, n_labels, n_observed, rank, score_bound, family, noise_scale, mu, nu
        As in :func:`feature_bound`.
    constant, rows_per_feature, confidence
        As in :func:`feature_bound`.
    log_scale, log_argument : float, default 1.0
        c' and c'' in the number of observations that the theorem asks for.

    Examples
    --------
    >>> from labelgap.theory import feature_bound, score_penalty_bound
    >>> sizes = dict(n=2000, n_features=10, n_labels=40, n_observed=8_000, rank=2, score_bound=1.0)
    >>> round(score_penalty_bound(**sizes).value / feature_bound(**sizes).value, 6)  # n / L
    50.0
    """
    return _feature_rate(
        "score penalty",
        (n, n_features, n_labels, n_observed, rank),
        score_bound=score_bound,
        noise=noise_factor(family, check_in_range("score_bound", score_bound, above=0), noise_scale),
        spread=(mu, nu),
        constant=constant,
        confidence=confidence,
        size=max(n, n_labels),
        extra=(
            at_least(
                "n ≥ C' d", n, check_in_range("rows_per_feature", rows_per_feature, above=0) * n_features
            ),
            lafond_observations(n, n_labels, n_observed, log_scale, log_argument),
        ),
        gradient_risk=0.0,
    )


def _feature_rate(
    setting: str,
    sizes: tuple[int, int, int, int, int],
    *,
    score_bound: float,
    noise: float,
    spread: tuple[float, float],
    constant: float,
    confidence: float | None,
    size: int,
    extra: tuple[Assumption, ...],
    gradient_risk: float,
) -> Bound:
    names = ("n", "n_features", "n_labels", "n_observed")
    n, d, n_labels, n_observed = (check_count(k, x) for k, x in zip(names, sizes[:4], strict=True))
    rank = check_count("rank", sizes[4], min(d, n_labels))
    mu, nu = (check_in_range(k, x, least=1) for k, x in zip(("mu", "nu"), spread, strict=True))
    C = check_in_range("constant", constant, above=0)
    log = log_factor(n, n_labels, 3, confidence)
    terms = {
        "low_rank": C * mu**2 / d * nu * size * rank * log / n_observed * noise,
        "sampling": C * mu / d * score_bound**2 * math.sqrt(log / n_observed),
    }
    value = max(terms.values())
    return with_warning(
        Bound(
            setting=setting,
            value=value,
            score_error=value * d / mu,
            terms=terms,
            assumptions=(*extra, SUB_GAUSSIAN, DRAWN, RECOVERED),
            # The design is well conditioned but for 2e^−d, which the paper's count leaves out.
            probability=probability_of(n, n_labels, 3, confidence, gradient_risk + 2 * math.exp(-d)),
            trivial=4 * score_bound**2,
        )
    )
