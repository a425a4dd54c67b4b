"""Whether a batch is judged worse than the earlier ones lead to expect, and how old entries are forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.arriving.batches import Batch
from labelgap.exceptions import DriftWarning, InvalidParameterError
from labelgap.metrics.jackknife import N_PARTS

DRIFT_LEVEL = 0.99
"""The coverage of the interval in which the metric of a new batch is expected."""
DRIFT_WINDOW = 10
"""How many of the latest batches the interval comes from."""
# Beyond so many half-lives a weight does not get smaller: it must stay above 0.
_MOST_HALVES = 500.0


def expected_interval(
    metrics: Sequence[float], errors: Sequence[float], error: float, level: float = DRIFT_LEVEL
) -> tuple[float, float] | None:
    """Where the metric of a new batch is expected, from those of the earlier batches.

    The metrics ``m_k`` of the batches, with standard errors ``s_k``, scatter about a common mean μ with
    variance ``τ² + s_k²``. τ² is what they scatter beyond their errors (the estimate of DerSimonian and
    Laird, 0 where there is nothing beyond). With ``v_k = 1/(τ² + s_k²)`` the interval of a batch with
    standard error s is the prediction interval

        ``Σ v_k m_k / Σ v_k  ±  t √(τ² + 1/Σ v_k + s²)``,

    t the quantile of Student's distribution with 19 degrees of freedom, those of the jackknife over 20 parts
    of the rows that the errors come from.

    Parameters
    ----------
    metrics, errors : sequences of floats
        Of the earlier batches; the last ten are used.
    error : float
        Of the new batch.
    level : float, default 0.99
        How often a batch like the earlier ones is inside.

    Returns
    -------
    (low, high), or None without an earlier batch.

    Examples
    --------
    >>> low, high = expected_interval([0.80, 0.82], [0.01, 0.01], 0.02)
    >>> round(low, 2), round(high, 2)
    (0.74, 0.88)
    """
    values = np.asarray(metrics, dtype=np.float64)[-DRIFT_WINDOW:]
    if len(values) == 0:
        return None
    variances = np.maximum(np.square(np.asarray(errors, dtype=np.float64)[-DRIFT_WINDOW:]), 1e-18)
    between = _between_batches(values, variances)
    precision = 1.0 / (between + variances)
    mean = float(np.sum(precision * values) / np.sum(precision))
    spread = float(np.sqrt(between + 1.0 / np.sum(precision) + error**2))
    reach = float(student.ppf(0.5 + 0.5 * level, N_PARTS - 1)) * spread
    return mean - reach, mean + reach


def _between_batches(values: Floats, variances: Floats) -> float:
    """τ² by DerSimonian and Laird (1986): what is left of the weighted scatter beyond the errors."""
    if len(values) < 2:
        return 0.0
    weights = 1.0 / variances
    total = float(weights.sum())
    mean = float(np.sum(weights * values)) / total
    scatter = float(np.sum(weights * np.square(values - mean)))
    unit = total - float(np.sum(np.square(weights))) / total
    return max(0.0, (scatter - (len(values) - 1)) / unit) if unit > 0 else 0.0


def judge_drift(
    batches: Sequence[Batch], metric: float | None, error: float | None
) -> tuple[tuple[float, float] | None, str | None]:
    """The interval from the earlier batches, and where the metric of the new one is: "no", "worse", "better".

    Batches without a standard error are left out. (None, None) where nothing can be said.

    Examples
    --------
    >>> earlier = [Batch(1, metric=0.80, standard_error=0.01), Batch(2, metric=0.82, standard_error=0.01)]
    >>> judge_drift(earlier, 0.60, 0.02)[1], judge_drift(earlier, 0.80, 0.02)[1]
    ('worse', 'no')
    """
    known = [(b.metric, b.standard_error) for b in batches]
    usable = [(m, s) for m, s in known if m is not None and s is not None]
    if metric is None or error is None or not usable:
        return None, None
    interval = expected_interval([m for m, _ in usable], [s for _, s in usable], error)
    assert interval is not None
    if metric < interval[0]:
        return interval, "worse"
    return interval, "better" if metric > interval[1] else "no"


def warn_of_drift(batch: Batch) -> None:
    """Warn if the metric of a batch fell below its interval.

    A metric above it is recorded, and is no reason to warn: a model that learns gets better.
    """
    if not batch.drifted:
        return
    assert batch.interval is not None
    assert batch.metric is not None
    low, high = batch.interval
    warn(
        f"The metric of batch {batch.number}, judged before it was learned from, is {batch.metric:.4f}, "
        f"below the interval from {low:.4f} to {high:.4f} that the earlier batches lead to expect: the data "
        "may have drifted. Look at the batch; forget= lets old entries count less.",
        DriftWarning,
    )


# -- forgetting --------------------------------------------------------------------------------------------


def check_half_life(forget: Any) -> float | None:
    """``forget`` as a number of batches, or None for no forgetting; an error for anything else."""
    if forget is None:
        return None
    if isinstance(forget, bool) or not isinstance(forget, Real) or not 0 < float(forget) < np.inf:
        raise InvalidParameterError(
            f"forget must be a half-life in batches, a finite number above 0, or None to forget nothing; "
            f"got {forget!r}."
        )
    return float(forget)


def forget_weights(ages: NDArray[Any], half_life: float | None) -> Floats | None:
    """``2^(−age/half-life)`` for each entry; None where nothing is forgotten.

    Parameters
    ----------
    ages : array of whole numbers
        How many batches ago each entry arrived; 0 for the latest.
    half_life : float or None
        The batches after which an entry counts half.

    Examples
    --------
    >>> forget_weights(np.array([0, 1, 2, 4]), 2.0).round(3).tolist()
    [1.0, 0.707, 0.5, 0.25]
    """
    if half_life is None:
        return None
    return np.exp2(-np.minimum(np.asarray(ages, dtype=np.float64) / half_life, _MOST_HALVES))
