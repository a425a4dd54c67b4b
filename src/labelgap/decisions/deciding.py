"""The decisions that maximise an expected metric within a budget, from blocks of probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap._arrays import to_host
from labelgap._types import Floats
from labelgap.decisions.budget import Budget, read_budget
from labelgap.decisions.expected import require_agreement
from labelgap.decisions.instance import decide_instance
from labelgap.decisions.macro import decide_macro
from labelgap.decisions.micro import decide_micro
from labelgap.decisions.streams import Blocks, Stream
from labelgap.exceptions import InvalidInputError
from labelgap.metrics import LinearFractional, get_metric

# Probabilities of a block of an array.
_BLOCK_ENTRIES = 1 << 20


def best_decisions(
    probabilities: Any, budget: Any = None, metric: str | LinearFractional = "micro-f1"
) -> sp.csr_array:
    """The decisions that maximise an expected metric, with at most so many yes.

    For micro and macro metrics it is Ψ of the expected counts ``TP = Σ p ŷ``, ``FP = Σ (1 − p) ŷ``, and so
    on, over all rows together. For instance metrics it is ``Σ_i E Ψ(y_i, ŷ_i)`` with independent labels of
    probabilities p, the true expectation.

    ==========  ==========================================  ===============================================
    average     at most k yes in each row                   at most T yes in all
    ==========  ==========================================  ===============================================
    micro       exact                                       exact
    macro       Frank-Wolfe, then block coordinate ascent   exact for few entries, else up to one step along
                                                            the concave hulls of the labels
    instance    exact for each row                          as macro, with rows in place of labels
    ==========  ==========================================  ===============================================

    Parameters
    ----------
    probabilities : array of shape (n, L)
        The probability of yes of each entry.
    budget : int, Budget or None, default None
        A number is the most yes in each row; see :class:`labelgap.Budget`. None is no limit.
    metric : str or LinearFractional, default "micro-f1"
        The metric Ψ and its average. Under it a right decision must not be worth less than a wrong one.

    Returns
    -------
    csr_array of shape (n, L)
        1 for yes.

    Examples
    --------
    >>> import numpy as np
    >>> from labelgap.decisions import best_decisions
    >>> p = np.array([[0.9, 0.8, 0.1], [0.6, 0.2, 0.1]])
    >>> best_decisions(p, budget=1).toarray()
    array([[1, 0, 0],
           [1, 0, 0]], dtype=int8)
    >>> best_decisions(p, metric="instance-f1").toarray()
    array([[1, 1, 0],
           [1, 0, 0]], dtype=int8)
    """
    array = np.asarray(to_host(probabilities), dtype=np.float64)
    if array.ndim != 2:
        raise InvalidInputError(
            f"Probabilities are a matrix with a row for each row of labels; got {array.ndim} dimensions."
        )
    outside = ~((array >= 0) & (array <= 1))
    if outside.any():
        row, label = np.argwhere(outside)[0]
        raise InvalidInputError(
            f"The probability at row {row}, label {label} is {array[row, label]:g}; it must lie between 0 "
            "and 1."
        )
    step = max(1, _BLOCK_ENTRIES // max(array.shape[1], 1))

    def blocks() -> Iterator[Floats]:
        return (array[start : start + step] for start in range(0, len(array), step))

    asked = Budget() if budget is None else read_budget(budget)
    return decide_within(blocks, array.shape[1], asked, get_metric(metric))


def decide_within(blocks: Blocks, n_labels: int, budget: Budget, metric: LinearFractional) -> sp.csr_array:
    """As :func:`best_decisions`, from a function that gives the blocks of rows anew each time it is called.

    Nothing of the size of all entries is kept: only blocks, sums of labels, and the chosen entries.
    """
    require_agreement(metric)
    stream = Stream(blocks, n_labels)
    budget.require_possible(stream.n_rows, n_labels)
    decide = {"micro": decide_micro, "macro": decide_macro, "instance": decide_instance}[metric.average]
    return decide(stream, budget, metric)
