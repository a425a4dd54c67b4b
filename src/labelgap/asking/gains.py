"""What the metric is expected to gain where one entry is asked about and then decided rightly.

The counts of a group are expected ones: an entry of probability p that is decided yes adds p to TP and 1 − p
to FP, and one that is decided no adds p to FN and 1 − p to TN. With C_e the counts without the entry e,

    ``gain(e) = P(y_e ≠ ŷ_e) · [Ψ(C_e + right) − Ψ(C_e + wrong)] / groups``,

where the truth is a no for a yes that is wrong (``right`` adds 1 to TN, ``wrong`` to FP) and a yes for a no
that is wrong (TP, FN). Where ŷ_e is right, asking changes nothing. To first order it is the derivative of Ψ
in the direction of the other decision, times the probability that asking shows that one to be right.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.metrics import LinearFractional
from labelgap.metrics.linear_fractional import Counts, balanced_counts

# Along which axis of a block the groups of an average are summed.
_AXIS = {"micro": None, "macro": 0, "instance": 1}


def expected_counts(p: Floats, yes: NDArray[np.bool_], average: str) -> Counts:
    """The expected counts of each group of a block, in a shape that goes with the block.

    Examples
    --------
    >>> expected_counts(np.array([[0.75, 0.25]]), np.array([[True, False]]), "micro").tp
    array([[0.75]])
    """
    no, q = ~yes, 1.0 - p
    parts = (p * yes, q * yes, p * no, q * no)
    return Counts(*(part.sum(axis=_AXIS[average], keepdims=True) for part in parts))


def add_counts(one: Counts | None, other: Counts) -> Counts:
    """The sum of the counts of two blocks of rows."""
    return other if one is None else Counts(*(a + b for a, b in zip(one, other, strict=True)))


def entry_gains(
    p: Floats, yes: NDArray[np.bool_], metric: LinearFractional, counts: Counts | None = None
) -> Floats:
    """The expected gain of Ψ of each group by asking about each entry, not divided by the number of groups.

    Parameters
    ----------
    p : array of shape (rows, L)
        Probabilities of yes.
    yes : bool array of shape (rows, L)
        The decisions.
    metric : LinearFractional
    counts : Counts or None, default None
        The expected counts of the groups, of which these rows may be a part; None: these rows are all.

    Examples
    --------
    >>> from labelgap import get_metric
    >>> p = np.array([[0.9, 0.4, 0.1]])
    >>> entry_gains(p, p >= 0.3, get_metric("micro-f1")).round(3)
    array([[0.021, 0.18 , 0.026]])
    """
    C = expected_counts(p, yes, metric.average) if counts is None else counts
    no, q = ~yes, 1.0 - p
    # Without the entry itself; rounding may leave less than nothing.
    parts = (C.tp - p * yes, C.fp - q * yes, C.fn - p * no, C.tn - q * no)
    tp, fp, fn, tn = (np.maximum(part, 0.0) for part in parts)
    right = _values(metric, Counts(tp + no, fp, fn, tn + yes))
    wrong = _values(metric, Counts(tp, fp + yes, fn + no, tn))
    found: Floats = np.where(yes, q, p) * (right - wrong)
    return found


def _values(metric: LinearFractional, counts: Counts) -> Floats:
    return metric.group_values(*(balanced_counts(counts) if metric.balanced else counts))
