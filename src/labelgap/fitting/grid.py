"""What "auto" means: the penalties that are compared on held-out entries."""

from __future__ import annotations

from collections.abc import Callable

from labelgap.fitting.cross_validation import trace_penalty_grid
from labelgap.fitting.search import PenaltyGrid

# λ falls from λ_max, where W = 0, by factors of √2.
_TRACE_COUNT, _TRACE_END = 27, 2.0**-13
# λ₂ in units of mean ‖x‖²/|Ω|: a strength s is scikit-learn's C = 1/s on rows scaled to unit length.
_RIDGE_STRENGTHS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_FIRST_RIDGE = 5
# Steps of λ and λ₂: first factors of 4 and 10, then 2 and about 3, then √2.
_STRIDES = ((4, 2), (2, 1), (1, 1))
# κ in units of 1/|Ω|: a strength s is a normal prior of variance 1/s on a label's log-odds.
_INTERCEPT_STRENGTHS = (0.0, 1.0, 100.0)


def penalty_grid(
    largest: Callable[[], float],
    n_labels: int,
    *,
    n_terms: int,
    square_length: float,
    centre: float,
    trace: float | str,
    ridge: float | str,
    intercept: float | str,
) -> PenaltyGrid:
    """The penalties to compare: a list for each that is "auto", one value for each that is given.

    ``largest`` finds the λ that the path begins with, ``n_terms`` is the number of entries
    that the data term is the mean of, ``square_length`` the mean ‖x‖² of the rows, and ``centre`` the score
    that intercepts are pulled to.
    """

    def given_or(value: float | str, automatic: Callable[[], list[float]]) -> list[float]:
        return automatic() if value == "auto" else [float(value)]

    def traces() -> list[float]:
        first = largest()
        # Nothing to learn from the features at all: any positive penalty gives W = 0.
        return list(trace_penalty_grid(first if first > 0 else 1.0, _TRACE_COUNT, _TRACE_END))

    def ridges() -> list[float]:
        unit = square_length / n_terms
        # Features that are all zero have no unit, and need none.
        return [s * unit for s in _RIDGE_STRENGTHS] if unit > 0 else [1.0]

    def intercepts() -> list[float]:
        # A single label has no other to be pulled towards.
        if n_labels == 1:
            return [0.0]
        return [s / n_terms for s in _INTERCEPT_STRENGTHS]

    chosen = given_or(ridge, ridges)
    return PenaltyGrid(
        given_or(trace, traces),
        chosen,
        given_or(intercept, intercepts),
        centre=centre,
        first_ridge=min(_FIRST_RIDGE, len(chosen) - 1),
        strides=_STRIDES,
    )
