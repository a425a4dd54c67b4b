"""ρ, the fraction of positives that are not recorded: checking it, estimating it, and what depends on it.

:mod:`labelgap.flip_rates.estimate` works on scores alone, and metrics use it. The functions that fit models,
``estimate_flip_rate`` and ``sensitivity``, are in :mod:`labelgap.flip_rates.sensitivity`.
"""

from labelgap.flip_rates.estimate import FlipRateEstimate, flip_rate_from_scores

__all__ = ["FlipRateEstimate", "flip_rate_from_scores"]
