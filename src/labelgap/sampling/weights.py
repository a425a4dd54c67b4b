"""Inverse-propensity weights: an entry of a kind that is seldom observed stands for many."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.exceptions import InvalidInputError, InvalidParameterError, LabelgapWarning
from labelgap.labels import ObservedLabels
from labelgap.sampling.propensity import estimate_propensities


@runtime_checkable
class Propensities(Protocol):
    """Anything that knows the propensity of an entry, such as a ``PropensityEstimate``."""

    def at(self, rows: ArrayLike, cols: ArrayLike) -> Floats:
        """The propensity of each entry (rows[t], cols[t])."""


def inverse_propensity_weights(labels: Any, propensities: Any = None, clip: float | None = 20.0) -> Floats:
    """One weight per entry of Ω, ``w_ij ∝ 1 / p_ij`` with mean 1.

    With the true p, the weighted mean over Ω of any quantity estimates its mean over all n · L entries, not
    over those that happen to be observed (self-normalised, so it is consistent and unbiased up to O(1/|Ω|)).
    A few entries with a tiny p could outweigh all others; those above ``clip`` times the mean weight are cut
    back to that, with a warning, and the weights are brought to mean 1 again. The labels' own weights are
    not looked at.

    Parameters
    ----------
    labels : ObservedLabels, or labels in any form that says which are known
    propensities : optional, default None
        p: an n x L array, a sparse matrix (with a value at each entry of Ω), a vector over Ω in row-major
        order, or an object with ``at(rows, cols)``. None estimates them by ``estimate_propensities``.
    clip : float above 1, or None, default 20.0
        The largest weight, in multiples of the mean weight. None clips nothing.

    Returns
    -------
    float64 array of length |Ω|

    Examples
    --------
    >>> from labelgap.sampling import inverse_propensity_weights
    >>> inverse_propensity_weights([[1, 0], [None, 1]], propensities=[[0.5, 1.0], [0.5, 0.25]]).round(3)
    array([0.857, 0.429, 1.714])
    """
    if clip is not None and not 1 < clip < np.inf:
        raise InvalidParameterError(f"clip is a finite number above 1, or None, not {clip!r}.")
    observed = ObservedLabels.from_any(labels)
    observed.require_observed()
    weights = 1.0 / propensities_on(observed, propensities)
    # Divided by the largest first: the sum of reciprocals of tiny propensities could overflow.
    weights /= weights.max()
    weights /= weights.mean()
    if clip is None:
        return weights
    n_clipped = int(np.sum(weights > clip))
    if n_clipped:
        warn(
            f"{n_clipped} of {len(weights)} inverse-propensity weights "
            f"({100 * n_clipped / len(weights):.2g} %) are above {clip:g} times the mean, up to "
            f"{weights.max():.3g} times, and were clipped there: such rarely observed entries now count for "
            "less than they stand for. Check the smallest propensities; inverse_propensity_weights takes a "
            "higher clip, or None, and ObservedLabels.with_weights what it returns.",
            LabelgapWarning,
        )
        weights = np.minimum(weights, clip)
        weights /= weights.mean()
    return weights


def propensities_on(labels: ObservedLabels, propensities: Any) -> Floats:
    """The propensity of each entry of Ω, checked."""
    if propensities is None:
        propensities = estimate_propensities(labels)
    # A pandas frame has an ``at`` of its own, which is something else.
    if isinstance(propensities, Propensities) and not hasattr(propensities, "__array__"):
        _check_shape(labels, propensities)
        given: Any = propensities.at(labels.rows, labels.cols)
    else:
        given = propensities
    try:
        p = np.asarray(labels.align(given, "propensities"), dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"The propensities must be numbers: {error}.") from error
    # Written so that NaN is bad too.
    bad = ~((p > 0) & (p <= 1))
    if bad.any():
        first = int(np.argmax(bad))
        hint = " (what a sparse matrix does not store is 0)" if sparse.issparse(given) else ""
        raise InvalidInputError(
            f"The propensity of the observed entry at row {labels.rows[first]}, column {labels.cols[first]} "
            f"is {p[first]:g}{hint}, as one of {int(bad.sum())} outside (0, 1]; an entry that was observed "
            "has a probability above 0 and at most 1."
        )
    return p


def _check_shape(labels: ObservedLabels, propensities: Propensities) -> None:
    shape = getattr(propensities, "shape", labels.shape)
    if tuple(shape) != labels.shape:
        raise InvalidInputError(
            f"The propensities are of a {shape[0]} x {shape[1]} matrix, but the labels of a "
            f"{labels.shape[0]} x {labels.shape[1]} one; estimate them from labels of the same shape."
        )
