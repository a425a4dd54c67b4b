"""Positive-unlabelled learning: the error of the probabilities."""

from __future__ import annotations

import math

from labelgap.theory.assumptions import Assumption, at_least, check_count, check_in_range
from labelgap.theory.bound import Bound, log_factor, probability_of, with_warning


def unlabelled_bound(
    *,
    n: int,
    n_labels: int,
    flip_rate: float,
    trace_norm: float,
    constant: float = 1.0,
    confidence: float | None = None,
) -> Bound:
    """The error of probabilities fitted to recorded positives alone (Hsieh's theorem), per entry.

    ``‖P̂ − P*‖²/(nL) ≤ 6 √log(n + L) / (√(nL) (1 − ρ)) + 2 C t (√n + √L) / ((1 − ρ) n L)``

    read as a theorem about the unbiased *squared* loss with P̂ in [0, 1] and ‖P̂‖_* ≤ t. The terms
    are "deviation" and "complexity", and the value is their sum. Here a "score" is a probability; on
    labelgap's scale z = 2p − 1 errors are four times as large. Entries of a fixed size and rank r
    have t of about √(r n L), so that the second term falls no faster than 1/√min(n, L).

    Parameters
    ----------
    n, n_labels : int
        n and L.
    flip_rate : float
        ρ, the fraction of the true yes that was recorded as no, 0 ≤ ρ < 1.
    trace_norm : float
        t ≥ ‖P*‖_*, the bound that the fit is given.
    constant : float, default 1.0
        C, left open by the theorem.
    confidence : float or None, default None
        1 − δ; None means 1 − 2/(n + L).

    Examples
    --------
    >>> from labelgap.theory import unlabelled_bound
    >>> bound = unlabelled_bound(n=1000, n_labels=1000, flip_rate=0.5, trace_norm=500.0)
    >>> {name: round(term, 4) for name, term in bound.terms.items()}
    {'deviation': 0.0331, 'complexity': 0.1265}
    """
    n, n_labels = check_count("n", n), check_count("n_labels", n_labels)
    kept = 1 - check_in_range("flip_rate", flip_rate, least=0, below=1)
    t = check_in_range("trace_norm", trace_norm, above=0)
    C = check_in_range("constant", constant, above=0)
    entries = n * n_labels
    terms = {
        "deviation": 6 * math.sqrt(log_factor(n, n_labels, 2, confidence)) / (math.sqrt(entries) * kept),
        "complexity": 2 * C * t * (math.sqrt(n) + math.sqrt(n_labels)) / (kept * entries),
    }
    value = sum(terms.values())
    largest = math.sqrt(min(n, n_labels) * entries)
    assumptions = (
        at_least("√(nL min(n, L)) ≥ t, or t restrains nothing", largest, t),
        Assumption("‖P*‖_* ≤ t"),
        Assumption(
            "a true yes goes unrecorded with probability ρ, independently; a no is never recorded as yes"
        ),
    )
    return with_warning(
        Bound(
            setting="positive-unlabelled",
            value=value,
            score_error=value,
            terms=terms,
            assumptions=assumptions,
            probability=probability_of(n, n_labels, 2, confidence),
            trivial=1.0,
        )
    )
