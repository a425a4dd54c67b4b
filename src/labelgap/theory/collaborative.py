"""Collaborative filtering: no features, W* is the n x L matrix of true scores."""

from __future__ import annotations

import math

from labelgap.losses import Family
from labelgap.theory.assumptions import check_count, check_in_range
from labelgap.theory.bound import (
    DRAWN,
    RECOVERED,
    Bound,
    lafond_observations,
    log_factor,
    noise_factor,
    probability_of,
    with_warning,
)


def collaborative_bound(
    *,
    n: int,
    n_labels: int,
    n_observed: int,
    rank: int,
    score_bound: float,
    family: str | Family = "bernoulli",
    noise_scale: float | None = None,
    mu: float = 1.0,
    nu: float = 1.0,
    constant: float = 1.0,
    log_scale: float = 1.0,
    log_argument: float = 1.0,
    confidence: float | None = None,
) -> Bound:
    """The error of a fit without features (Lafond's theorem), per entry of the n x L scores.

    ``‖Ŵ − W*‖²/(nL) ≤ C μ² max( ν max(n, L) r log(n + L)/|Ω| · (τ²/σ̲⁴ + γ²), γ²/μ √(log(n + L)/|Ω|) )``

    for the penalty of :func:`collaborative_trace_penalty`. The terms are "low_rank" and "sampling", and the
    value is the larger.

    Parameters
    ----------
    n, n_labels, n_observed : int
        n, L and |Ω|.
    rank : int
        r, the rank of W*.
    score_bound : float
        γ ≥ |w*_ij|; the fit obeys it too.
    family : str or Family, default "bernoulli"
        The model of the values; "bernoulli" is the logistic one.
    noise_scale : float or None, default None
        τ, the size of a value's noise; None takes σ̄, its largest standard deviation on [−γ, γ].
    mu, nu : float, default 1.0
        How uneven sampling is (``labelgap.sampling.estimate_mu_nu``); 1 is uniform.
    constant : float, default 1.0
        C, a number that the theorem leaves open.
    log_scale, log_argument : float, default 1.0
        c' and c'' in the number of observations that the theorem asks for, left open as well.
    confidence : float or None, default None
        1 − δ. None means 1 − 3/(n + L); a higher one puts log(3/δ) in place of log(n + L).

    Examples
    --------
    >>> from labelgap.theory import collaborative_bound
    >>> bound = collaborative_bound(n=1000, n_labels=500, n_observed=100_000, rank=2, score_bound=1.0)
    >>> round(bound.value, 3), bound.trivial, bound.informative
    (1.092, 4.0, True)
    """
    n, n_labels = check_count("n", n), check_count("n_labels", n_labels)
    n_observed = check_count("n_observed", n_observed)
    rank = check_count("rank", rank, min(n, n_labels))
    gamma = check_in_range("score_bound", score_bound, above=0)
    mu, nu = check_in_range("mu", mu, least=1), check_in_range("nu", nu, least=1)
    C = check_in_range("constant", constant, above=0)
    log = log_factor(n, n_labels, 3, confidence)
    noise = noise_factor(family, gamma, noise_scale)
    terms = {
        "low_rank": C * mu**2 * nu * max(n, n_labels) * rank * log / n_observed * noise,
        "sampling": C * mu * gamma**2 * math.sqrt(log / n_observed),
    }
    value = max(terms.values())
    return with_warning(
        Bound(
            setting="collaborative filtering",
            value=value,
            score_error=value / mu,
            terms=terms,
            assumptions=(
                lafond_observations(n, n_labels, n_observed, log_scale, log_argument),
                DRAWN,
                RECOVERED,
            ),
            probability=probability_of(n, n_labels, 3, confidence),
            trivial=4 * gamma**2,
        )
    )
