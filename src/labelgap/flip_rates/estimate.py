"""ρ, the fraction of positives that are not recorded: checking it, and estimating it from scores.

With c = 1 − ρ, P(recorded | score) = c · P(yes | score). Where yes is certain, the recorded fraction is c.
Two ways to c are taken: the recorded fraction of the entries with the highest scores, and the height at which
a curve c·σ(αt + β) levels off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression, minimize
from scipy.special import betaincinv, expit, log_expit, ndtri
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from labelgap._types import Floats
from labelgap.exceptions import (
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
    InvalidScoresError,
)
from labelgap.flip_rates.curves import fit_curves

# Top parts are compared by what their recorded fraction is at least, but for an event of this probability:
# with less caution a lucky handful of entries wins.
_LUCK = 1e-6
# The curve is fitted where entries are recorded at least this often, relative to the top: the bottom says
# nothing about where the curve levels off, and would distort it.
_UPPER_PART = 0.1
# So many entries that are known to be yes are added at the highest score: they keep a curve that has not
# levelled off from c = 1.
_PRIOR_YES = 10.0
# Scores are binned from the top down: so many entries first, then growing by this factor.
_FIRST_BIN = 10.0
_BIN_GROWTH = 1.03
_MAX_CLUSTERS = 1000
_N_RESAMPLES = 200
# (logit c, log α, β): the curve's likelihood can have more than one peak.
_STARTS = tuple(
    np.array(start) for start in ((0.0, 0.0, 0.0), (0.0, 1.5, 0.0), (2.0, 0.0, 0.0), (-2.0, 0.0, 0.0))
)
_BOUNDS = ((-15.0, 15.0), (-6.0, 6.0), (-60.0, 60.0))


@dataclass(frozen=True)
class FlipRateEstimate:
    """An estimate of ρ with an interval.

    Parameters
    ----------
    value : float
        ρ̂, the mean of ``plateau`` and ``curve``.
    low, high : float
        The ends of the interval: both ways to ρ, resampled.
    level : float
        The fraction of such intervals that should hold ρ, if yes is certain for some of the entries.
    plateau : float
        One minus the recorded fraction of the entries at the top. Too high if yes is not certain there.
    curve : float
        One minus the height at which a curve through the upper part of the scores levels off.

    Examples
    --------
    >>> FlipRateEstimate(value=0.3, low=0.25, high=0.35, level=0.95, plateau=0.31, curve=0.29).value
    0.3
    """

    value: float
    low: float
    high: float
    level: float
    plateau: float
    curve: float


def flip_rate_from_scores(
    scores: ArrayLike,
    recorded: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    level: float = 0.95,
    random_state: Any = None,
) -> FlipRateEstimate:
    """ρ, the fraction of positives that are not recorded, from scores of entries.

    ``P(recorded | score) = (1 − ρ) P(yes | score)`` is ``1 − ρ`` where yes is certain. Whether it is certain
    anywhere cannot be seen in such data: if it is not, the estimate is too high.

    Parameters
    ----------
    scores : vector
        One score per entry, higher where yes is likelier, on any scale. Each entry must be scored by a model
        that was fitted without knowing whether this entry is recorded: otherwise recorded entries score high
        because they are recorded.
    recorded : vector of 0/1 or bool
        Whether the entry is recorded as a yes.
    groups : vector or None, default None
        The row of each entry. Entries of one row are resampled together for the interval.
    weights : vector or None, default None
        Positive: how many entries each stands for, where unrecorded entries are a sample. Proportions matter.
    level : float, default 0.95
        The level of the interval.
    random_state : int, RandomState or None, default None
        For the resampling; the estimate itself does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=20_000)
    >>> yes = rng.random(20_000) < 1 / (1 + np.exp(-3 * scores))
    >>> recorded = yes & (rng.random(20_000) < 0.6)
    >>> estimate = flip_rate_from_scores(scores, recorded, random_state=0)
    >>> round(estimate.value, 1), estimate.low < 0.4 < estimate.high
    (0.4, True)
    """
    if not 0 < level < 1:
        raise InvalidParameterError(f"level must lie strictly between 0 and 1, not {level!r}.")
    entry_scores, is_recorded, entry_weights = _read_entries(scores, recorded, weights)
    rows, n_rows = _number_rows(groups, entry_scores.size)
    bins = _make_bins(entry_scores, entry_weights)
    rng = check_random_state(random_state)
    # A thousand clusters of rows give as good an interval as a million rows, and tables that stay small.
    n_clusters = min(n_rows, _MAX_CLUSTERS)
    cluster = (rng.permutation(n_rows) % n_clusters)[rows]
    # The first row is the data. The others are the Bayesian bootstrap: each cluster gets a positive factor,
    # so that no bin is ever empty.
    factors = np.vstack([np.ones(n_clusters), rng.standard_exponential((_N_RESAMPLES, n_clusters))])
    # One thread: the arrays are small, and the last digit must not depend on the number of threads.
    with threadpool_limits(1, user_api="blas"):
        entries = factors @ _sums(cluster, bins, entry_weights, n_clusters)
        found = factors @ _sums(cluster, bins, entry_weights * is_recorded, n_clusters)
        residuals = entry_weights * (is_recorded - (found[0] / entries[0])[bins])
        excess = 1.0 if groups is None else _excess(residuals, rows)
        plateaus = _plateaus(entries, found, *(excess * s for s in _spreads(is_recorded, entry_weights)))
        curves = _curves(entries, found, plateaus)
    value = 1 - (plateaus[0] + curves[0]) / 2
    outside = (1 - level) / 2
    high, low = 1 - np.quantile([plateaus[1:], curves[1:]], [outside, 1 - outside], axis=1)
    return FlipRateEstimate(
        value=float(value),
        low=float(min(low.min(), value)),
        high=float(max(high.max(), value)),
        level=float(level),
        plateau=float(1 - plateaus[0]),
        curve=float(1 - curves[0]),
    )


def _read_entries(
    scores: ArrayLike, recorded: ArrayLike, weights: ArrayLike | None
) -> tuple[Floats, NDArray[np.bool_], Floats]:
    entry_scores = np.asarray(scores, dtype=np.float64)
    given = np.asarray(recorded)
    if entry_scores.ndim != 1 or given.shape != entry_scores.shape:
        raise InvalidInputError(
            "scores and recorded must be vectors with one element per entry; they have shapes "
            f"{entry_scores.shape} and {given.shape}."
        )
    if np.isnan(entry_scores).any():
        raise InvalidScoresError(
            f"The score of entry {int(np.argmax(np.isnan(entry_scores)))} is NaN; leave such entries out."
        )
    if not np.isin(given, (0, 1)).all():
        raise InvalidLabelsError("recorded must be 1 (a yes is recorded) or 0 (nothing is) for each entry.")
    is_recorded = given == 1
    if not is_recorded.any():
        raise InvalidLabelsError("No entry is recorded as a yes, so there is no flip rate to estimate.")
    if entry_scores.min() == entry_scores.max():
        raise InvalidScoresError(
            "All scores are equal, so they do not say where yes is certain; score the entries by a model."
        )
    entry_weights = _read_weights(weights, entry_scores.size)
    # In units of a recorded entry, so that only the proportions of the weights matter.
    return entry_scores, is_recorded, entry_weights / entry_weights[is_recorded].mean()


def _read_weights(weights: ArrayLike | None, n_entries: int) -> Floats:
    if weights is None:
        return np.ones(n_entries)
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (n_entries,) or not (np.isfinite(given) & (given > 0)).all():
        raise InvalidInputError(
            f"weights must be a vector of {n_entries} finite numbers above 0, one per entry."
        )
    return given


def _number_rows(groups: ArrayLike | None, n_entries: int) -> tuple[NDArray[np.int64], int]:
    """The row of each entry, numbered from 0, and their number; without groups each entry is a row."""
    if groups is None:
        return np.arange(n_entries), n_entries
    given = np.asarray(groups)
    if given.shape != (n_entries,):
        raise InvalidInputError(
            f"groups has shape {given.shape}; give the row of each of the {n_entries} entries."
        )
    names, numbers = np.unique(given, return_inverse=True)
    if names.size < 2:
        raise InvalidInputError("groups names one row only; an interval needs entries of several rows.")
    return numbers, names.size


def _make_bins(scores: Floats, weights: Floats) -> NDArray[np.int64]:
    """The bin of each entry: narrow at the top, ever wider below, equal scores together."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    running = np.cumsum(weights[order])
    n_ticks = max(math.ceil(math.log(max(running[-1] / _FIRST_BIN, 1.0), _BIN_GROWTH)), 1)
    ticks = np.searchsorted(running, _FIRST_BIN * _BIN_GROWTH ** np.arange(n_ticks))
    last_of_ties = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), scores.size - 1)
    ends = last_of_ties[np.searchsorted(last_of_ties, np.minimum(ticks, scores.size - 1))]
    bins = np.empty(scores.size, np.int64)
    bins[order] = np.searchsorted(np.unique(ends), np.arange(scores.size))
    return bins


def _sums(cluster: NDArray[np.int64], bins: NDArray[np.int64], weights: Floats, n_clusters: int) -> Floats:
    """Sums of weights, clusters x bins."""
    n_bins = int(bins.max()) + 1
    sums = np.bincount(cluster * n_bins + bins, weights=weights, minlength=n_clusters * n_bins)
    return np.asarray(sums.reshape(n_clusters, n_bins), np.float64)


def _spreads(recorded: NDArray[np.bool_], weights: Floats) -> tuple[float, float]:
    """How many times the sum of weights of recorded, and of unrecorded, entries varies as a count would."""
    kinds = [weights[recorded], weights[~recorded] if not recorded.all() else np.ones(1)]
    of_recorded, of_unrecorded = (float(w @ w / w.sum()) for w in kinds)
    return of_recorded, of_unrecorded


def _excess(residuals: Floats, rows: NDArray[np.int64]) -> float:
    """How many times sums vary as they would if the entries of a row had nothing to do with each other."""
    alone, together = float(residuals @ residuals), float(np.sum(np.bincount(rows, weights=residuals) ** 2))
    return max(together / alone, 1.0) if alone > 0 else 1.0


def _plateaus(entries: Floats, recorded: Floats, of_recorded: float, of_unrecorded: float) -> Floats:
    """c as the recorded fraction of a top part: the one for which its lower confidence limit is highest.

    The limit is that of Clopper and Pearson: a high fraction of few entries may be luck.
    """
    total = np.cumsum(entries, axis=1)
    fractions = np.minimum(np.cumsum(recorded, axis=1) / total, 1.0)
    fraction = fractions[0]
    # So many entries of weight 1 would have a fraction that varies as much.
    size = total[0] / ((1 - fraction) * of_recorded + fraction * of_unrecorded)
    lower = np.where(fraction > 0, betaincinv(fraction * size, (1 - fraction) * size + 1, _LUCK), 0.0)
    return np.asarray(fractions[:, int(np.argmax(lower))])


def _curves(entries: Floats, recorded: Floats, plateaus: Floats) -> Floats:
    """c as the height at which a curve through the upper part levels off."""
    above = np.cumsum(entries[0]) - entries[0] / 2
    # Normal quantiles of the ranks: the estimate does not depend on the scale of the scores.
    t = -ndtri(above / entries[0].sum())
    fractions = isotonic_regression(recorded[0] / entries[0], weights=entries[0], increasing=False).x
    upper = fractions >= _UPPER_PART * plateaus[0]
    if upper.sum() < len(_BOUNDS):
        return plateaus
    entries, recorded, t = entries[:, upper], recorded[:, upper], t[upper]
    fit = _fit_curve(entries[0], recorded[0], t, _STARTS)
    again = fit_curves(entries[1:], recorded[1:], t, fit, _PRIOR_YES, _BOUNDS)
    return np.asarray(expit(np.vstack([fit, again])[:, 0]))


def _fit_curve(entries: Floats, recorded: Floats, t: Floats, starts: Sequence[Floats]) -> Floats:
    """(logit c, log α, β) of the likeliest curve ``c·σ(αt + β)``, from the best of the starts."""

    def loss(parameters: Floats) -> tuple[float, Floats]:
        alpha = math.exp(parameters[1])
        z, z_top = alpha * t + parameters[2], alpha * t[0] + parameters[2]
        log_p = log_expit(parameters[0]) + log_expit(z)
        p = np.minimum(np.exp(log_p), 1 - 1e-12)
        value = -recorded @ log_p - (entries - recorded) @ np.log1p(-p) - _PRIOR_YES * log_expit(z_top)
        slope = (entries - recorded) * p / (1 - p) - recorded
        by_z, by_top = slope * expit(-z), -_PRIOR_YES * expit(-z_top)
        gradient = [
            slope.sum() * expit(-parameters[0]),
            alpha * (by_z @ t + by_top * t[0]),
            by_z.sum() + by_top,
        ]
        return value / entries.sum(), np.array(gradient) / entries.sum()

    fits = [minimize(loss, start, jac=True, method="L-BFGS-B", bounds=_BOUNDS) for start in starts]
    return np.asarray(min(fits, key=lambda fit: float(fit.fun)).x)
