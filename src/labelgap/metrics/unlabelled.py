"""Metrics where only some of the yes are recorded, and every other entry may be yes or no.

A fraction ρ of the yes, chosen at random, is not recorded. So each recorded yes stands for 1/(1 − ρ) of them,
and all entries can be judged, not only the recorded ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from labelgap._arrays import plain_array
from labelgap._types import Floats
from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.metrics.linear_fractional import (
    Counts,
    LinearFractional,
    balanced_counts,
    group_of_entries,
    truth_and_decisions,
)
from labelgap.metrics.named import get_metric

_SUM_OVER: dict[str, int | None] = {"micro": None, "instance": 1, "macro": 0}


def check_flip_rate(flip_rate: ArrayLike, n_labels: int) -> Floats:
    """The flip rate ρ of every label, from one number for all labels or one number per label.

    Parameters
    ----------
    flip_rate : float or array of length L
        At least 0 and below 1.
    n_labels : int
        L.

    Examples
    --------
    >>> check_flip_rate(0.3, n_labels=2)
    array([0.3, 0.3])
    """
    if flip_rate is None:
        raise InvalidParameterError(
            "flip_rate is not given: say which fraction of the positives is not recorded, 0 if none is "
            "missing."
        )
    try:
        given = np.asarray(flip_rate, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(
            f"flip_rate must be a number, or one number per label, not {flip_rate!r}."
        ) from error
    if given.shape not in ((), (n_labels,)):
        raise InvalidParameterError(
            f"flip_rate has shape {given.shape}; give one number, or one for each of the {n_labels} labels."
        )
    rates = np.array(np.broadcast_to(given, (n_labels,)))
    bad = ~((rates >= 0) & (rates < 1))
    if np.any(bad):
        label = int(np.argmax(bad))
        of_label = f" of label {label}" if given.ndim else ""
        raise InvalidParameterError(
            f"flip_rate{of_label} is {rates[label]}; the fraction of positives that is not recorded is at "
            "least 0 and below 1."
        )
    return rates


def recorded_labels(labels: Any) -> ObservedLabels:
    """The recorded yes of ``labels``, or an error that says why its absent entries are not unlabelled."""
    known = ObservedLabels.from_any(labels, unobserved="unlabelled")
    if known.unobserved == "negative":
        raise InvalidLabelsError(
            "These labels say that an absent entry is a no (unobserved='negative'), so no yes is missing; "
            "use the metric itself, or make them with unobserved='unlabelled'."
        )
    known.require_observed()
    if known.weights is not None:
        raise InvalidLabelsError(
            "Positive and unlabelled labels are judged without weights, because the yes that are not "
            "recorded have none; pass labels.with_weights(None)."
        )
    return known


def entries_per_group(shape: tuple[int, int], average: str) -> Floats:
    """The number of entries in each group: of all, of every row, or of every label.

    Examples
    --------
    >>> entries_per_group((2, 3), "macro")
    array([2., 2., 2.])
    """
    n, L = shape
    sizes = {"micro": [n * L], "instance": [L] * n, "macro": [n] * L}
    return np.array(sizes[average], dtype=np.float64)


def corrected_counts(decided: ArrayLike, found: ArrayLike, positive: ArrayLike, total: ArrayLike) -> Counts:
    """TP, FP, FN and TN of groups of entries, elementwise, each between 0 and what the group holds.

    ``TP = found``, ``FP = decided − TP``, ``FN = positive − TP``, ``TN = total − TP − FP − FN``, after
    ``positive`` is cut to ``total``, and TP to what leaves no other count below 0.

    Parameters
    ----------
    decided : array
        Entries that are decided yes, Σ ŷ.
    found : array
        Σ ŷ ỹ / (1 − ρ), the recorded yes among them, each counted for those it stands for.
    positive : array
        Σ ỹ / (1 − ρ), the same over the whole group; at least ``found``.
    total : array
        All entries of the group.

    Examples
    --------
    >>> counts = corrected_counts(decided=[4.0], found=[3.0], positive=[5.0], total=[10.0])
    >>> [count.item() for count in counts]
    [3.0, 1.0, 2.0, 4.0]
    """
    S, A, B, N = (np.asarray(x, dtype=np.float64) for x in (decided, found, positive, total))
    P = np.minimum(B, N)
    # The number of no. Through it a count that is 0 comes out as exactly 0, which 0/0 depends on.
    Q = N - P
    A = np.minimum(A, S)
    FP = np.minimum(S - A, Q)
    TP = np.minimum(np.maximum(A, S - Q), P)
    return Counts(TP, FP, P - TP, np.maximum(Q - FP, 0.0))


def unlabelled_counts(
    y_true: Any = None,
    y_pred: Any = None,
    flip_rate: Any = None,
    average: str = "micro",
    *,
    labels: Any = None,
    decisions: Any = None,
) -> Counts:
    """TP, FP, FN and TN of each group over all n·L entries, when a fraction ρ of the yes is not recorded.

    ``TP = Σ ŷ ỹ / (1 − ρ_j)``, ``FP = Σ ŷ − TP``, ``FN = Σ ỹ / (1 − ρ_j) − TP`` and TN is the rest, each sum
    over the entries of a group, and each count cut to what is possible: see :func:`corrected_counts`.

    Parameters
    ----------
    y_true : anything ``ObservedLabels.from_any(labels, unobserved="unlabelled")`` takes
        The labels, 1 where a yes is recorded.
    y_pred : array or sparse matrix of shape (n, L)
        The decisions, 0/1 or boolean; a sparse matrix says no where nothing is stored.
    flip_rate : float or array of length L
        ρ, the fraction of the yes that is not recorded, for all labels or for each.
    average : "micro", "instance" or "macro", default "micro"
        One group, one per row, or one per label.
    labels, decisions
        The truth and the decisions by name, in any order.

    Examples
    --------
    >>> counts = unlabelled_counts([[1, 0, 0, 0, 0, 0]], [[1, 1, 1, 0, 0, 0]], flip_rate=0.5)
    >>> [count.item() for count in counts]
    [2.0, 1.0, 0.0, 3.0]
    """
    labels, decisions = truth_and_decisions(y_true, y_pred, labels, decisions)
    known = recorded_labels(labels)
    group, n_groups = group_of_entries(known, average)
    decided, yes = _read_decisions(decisions, known, average)
    worth = 1 / (1 - check_flip_rate(flip_rate, known.shape[1])[known.cols])
    found = np.bincount(group, weights=worth * yes, minlength=n_groups)
    # Added to what is found, so that both are equal, to the last digit, when nothing is missed.
    missed = np.bincount(group, weights=worth * ~yes, minlength=n_groups)
    return corrected_counts(decided, found, found + missed, entries_per_group(known.shape, average))


def unlabelled_metric(
    metric: str | LinearFractional,
    y_true: Any = None,
    y_pred: Any = None,
    flip_rate: Any = None,
    *,
    labels: Any = None,
    decisions: Any = None,
) -> float:
    """Ψ of decisions over all n·L entries, when a fraction ρ of the yes is not recorded.

    Ψ of :func:`unlabelled_counts`. A balanced metric is balanced with these counts.

    Parameters
    ----------
    metric : str or LinearFractional
        The metric and its average.
    y_true, y_pred, flip_rate, labels, decisions
        As for :func:`unlabelled_counts`.

    Examples
    --------
    >>> decisions, recorded = [[1, 1, 1, 0, 0, 0]], [[1, 0, 0, 0, 0, 0]]
    >>> unlabelled_metric("micro-f1", recorded, decisions, flip_rate=0.5)
    0.8
    """
    psi = get_metric(metric)
    labels, decisions = truth_and_decisions(y_true, y_pred, labels, decisions)
    return psi.from_counts(*unlabelled_counts(labels, decisions, flip_rate, psi.average))


def trivial_values(metric: str | LinearFractional, labels: Any, flip_rate: ArrayLike) -> tuple[float, float]:
    """Ψ of saying no to every entry, and Ψ of saying yes to every entry.

    Decisions that are worth anything beat both.

    Parameters
    ----------
    metric, labels, flip_rate
        As for :func:`unlabelled_metric`.

    Examples
    --------
    >>> none, everything = trivial_values("micro-f1", [[1, 0, 0, 0, 0, 0]], flip_rate=0.5)
    >>> none, everything
    (0.0, 0.5)
    """
    psi = get_metric(metric)
    known = recorded_labels(labels)
    group, n_groups = group_of_entries(known, psi.average)
    worth = 1 / (1 - check_flip_rate(flip_rate, known.shape[1])[known.cols])
    positive = np.bincount(group, weights=worth, minlength=n_groups)
    total = entries_per_group(known.shape, psi.average)
    none = corrected_counts(np.zeros(n_groups), np.zeros(n_groups), positive, total)
    everything = corrected_counts(total, positive, positive, total)
    return psi.from_counts(*none), psi.from_counts(*everything)


def values_of_groups(metric: LinearFractional, counts: Counts) -> Floats:
    """Ψ of each group, elementwise, its counts balanced first if the metric is.

    Examples
    --------
    >>> values_of_groups(get_metric("micro-recall"), Counts(*np.array([[3.0], [0.0], [1.0], [6.0]])))
    array([0.75])
    """
    return metric.group_values(*(balanced_counts(counts) if metric.balanced else counts))


def punishes_false_positives(metric: LinearFractional) -> bool:
    """Whether a false positive in place of a true negative can lower the metric.

    Where Ψ = A/B, it changes Ψ by ``(a_fp − a_tn) − Ψ (b_fp − b_tn)``, times what is not negative.

    Examples
    --------
    >>> punishes_false_positives(get_metric("micro-f1")), punishes_false_positives(get_metric("micro-recall"))
    (True, False)
    """
    above, below = metric.vertex_numerator, metric.vertex_denominator
    reached = above[below > 0] / below[below > 0]
    changes = (above[1] - above[3]) - np.array([reached.min(), reached.max()]) * (below[1] - below[3])
    return bool(changes.min() < 0)


def _read_decisions(decisions: Any, labels: ObservedLabels, average: str) -> tuple[Floats, NDArray[np.bool_]]:
    """The number of yes of each group, and the decision at each recorded yes."""
    given = plain_array(decisions, "The decisions")
    if given.shape != labels.shape:
        raise InvalidInputError(
            f"The decisions have shape {given.shape}; expected {labels.shape} like the labels, because every "
            "entry is judged."
        )
    if sparse.issparse(given):
        given = sparse.csr_array(given)
        if not given.has_canonical_format:
            given = given.copy()
            given.sum_duplicates()
        _refuse_other_than_0_and_1(given.data, lambda k: (_row_of(given.indptr, k), int(given.indices[k])))
        decided = given.astype(np.int64).sum(axis=_SUM_OVER[average])
    else:
        _refuse_other_than_0_and_1(given, lambda k: divmod(k, labels.shape[1]))
        decided = np.count_nonzero(given, axis=_SUM_OVER[average])
    return np.atleast_1d(decided).astype(np.float64), labels.align(given, "decisions") != 0


def _row_of(indptr: NDArray[Any], entry: int) -> int:
    return int(np.searchsorted(indptr, entry, side="right")) - 1


def _refuse_other_than_0_and_1(values: NDArray[Any], place: Callable[[int], tuple[int, int]]) -> None:
    bad = (values != 0) & (values != 1)
    if np.any(bad):
        first = int(np.argmax(bad))
        row, column = place(first)
        raise InvalidInputError(
            f"The decision at row {row}, column {column} is {values.reshape(-1)[first]}; it must be 0 or 1. "
            "Scores become decisions by a threshold, see best_unlabelled_threshold."
        )
