"""Many curves ``c·σ(αt + β)`` through recorded fractions at once, one for each resample of the data.

The resamples share their start, the curve of the data itself. Each of them is a small problem, so all of them
move together, by damped scoring steps (Levenberg and Marquardt's, with the expected second derivatives), each
with a damping of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit, log_expit

from labelgap._types import Floats

# A curve is done when a step gains less than this fraction of its loss, or when none of any length gains.
_NOTHING, _MOST_DAMPING = 1e-9, 1e8
_MAX_STEPS = 100
# The first damping, as a fraction of the diagonal; what a failure multiplies it by, and a success.
_DAMPING, _MORE, _LESS = 1e-3, 4.0, 0.2


def fit_curves(
    entries: Floats,
    recorded: Floats,
    t: Floats,
    start: Floats,
    prior: float,
    bounds: Sequence[tuple[float, float]],
) -> Floats:
    """(logit c, log α, β) of the likeliest curve of each resample, in rows.

    ``entries`` and ``recorded`` have a row for each resample and a column for each of the places ``t``, which
    fall. So many certain positives as ``prior`` says are added at the first place.
    """
    low, high = np.array(bounds).T
    best = np.tile(np.clip(start, low, high), (len(entries), 1))
    loss = _losses(best, entries, recorded, t, prior)
    damping = np.full(len(best), _DAMPING)
    active = np.arange(len(best))
    for _ in range(_MAX_STEPS):
        if not len(active):
            break
        here = best[active]
        gradient, curvature = _derivatives(here, entries[active], recorded[active], t, prior)
        # A direction at its bound that wants to go on does not move.
        stuck = ((here <= low) & (gradient > 0)) | ((here >= high) & (gradient < 0))
        gradient[stuck] = 0.0
        diagonal = np.einsum("bii->bi", curvature)
        diagonal += damping[active, None] * diagonal + np.finfo(float).tiny
        curvature[stuck] = 0.0
        np.swapaxes(curvature, 1, 2)[stuck] = 0.0
        diagonal[stuck] = 1.0
        moved = np.clip(here - np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0], low, high)
        there = _losses(moved, entries[active], recorded[active], t, prior)
        gained = loss[active] - there
        better = gained > 0
        best[active[better]], loss[active[better]] = moved[better], there[better]
        damping[active] *= np.where(better, _LESS, _MORE)
        done = better & (gained <= _NOTHING * np.abs(there)) | (damping[active] > _MOST_DAMPING)
        active = active[~done]
    return best


def _losses(parameters: Floats, entries: Floats, recorded: Floats, t: Floats, prior: float) -> Floats:
    """Minus the log-likelihood of each resample."""
    level, slope, shift = parameters.T[:, :, None]
    z = np.exp(slope) * t + shift
    log_p = log_expit(level) + log_expit(z)
    p = np.minimum(np.exp(log_p), 1 - 1e-12)
    value = -np.sum(recorded * log_p + (entries - recorded) * np.log1p(-p), axis=1)
    return np.asarray(value - prior * log_expit(z[:, 0]))


def _derivatives(
    parameters: Floats, entries: Floats, recorded: Floats, t: Floats, prior: float
) -> tuple[Floats, Floats]:
    """The gradient of each loss, and its expected second derivatives."""
    level, slope, shift = parameters.T[:, :, None]
    alpha = np.exp(slope)
    z = alpha * t + shift
    p = np.minimum(expit(level) * expit(z), 1 - 1e-12)
    odds = p / (1 - p)
    by_z = expit(-z)
    # The derivatives of log p in the three parameters.
    parts = np.stack([np.broadcast_to(expit(-level), z.shape), by_z * alpha * t, by_z])
    first = (entries - recorded) * odds - recorded
    gradient = np.einsum("kbi,bi->bk", parts, first)
    curvature = np.einsum("kbi,lbi,bi->bkl", parts, parts, entries * odds, optimize=True)
    # The certain positives at the first place.
    top = np.stack([np.zeros(len(z)), (alpha * t[0])[:, 0], np.ones(len(z))], axis=1)
    gradient -= prior * by_z[:, :1] * top
    weight = prior * by_z[:, 0] * (1 - by_z[:, 0])
    return gradient, curvature + weight[:, None, None] * top[:, :, None] * top[:, None, :]
