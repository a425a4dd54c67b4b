"""The linear-fractional family: ratios of linear functions of the confusion counts over observed entries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from labelgap._names import check_choice, unknown_name
from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidMetricError
from labelgap.labels import ObservedLabels

KEYS = ("const", "tp", "fp", "fn", "tn")
_SITUATIONS = ("a true positive", "a false positive", "a false negative", "a true negative")
# Sums of coefficients below this fraction of the largest are rounding errors of an exact zero.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class LinearFractional:
    """A metric Ψ = mean over groups of (a₀ + a·(TP, FP, FN, TN)) / (b₀ + b·(TP, FP, FN, TN)).

    TP, FP, FN and TN are fractions of the observed weight of a group, so they sum to 1 and ``const`` means
    the same for few entries as for many. Groups without observed entries do not count.

    Parameters
    ----------
    numerator, denominator : mappings from "const", "tp", "fp", "fn", "tn" to numbers
        The coefficients; what is left out is 0. The denominator must keep one sign over all decisions. It may
        be 0 only where the numerator is.
    average : "micro", "instance" or "macro", default "micro"
        One group of all entries, one group per row, or one per label.
    zero_division : float, default 0.0
        The value of a group in which numerator and denominator are both 0.
    balanced : bool, default False
        Rescale the weights so that positives and negatives each hold half of a group's weight; a group with
        one class only keeps its weights.
    name : str, default None
        What to call the metric in reports.

    Attributes
    ----------
    numerator_coefficients, denominator_coefficients : float64 arrays of length 5
        (const, tp, fp, fn, tn), signs turned so that the denominator is not negative.
    vertex_numerator, vertex_denominator : float64 arrays of length 4
        a₀ + a_v and b₀ + b_v for v in (tp, fp, fn, tn): Ψ_g is the ratio of their products with the counts,
        all terms of the denominator being at least 0.

    Examples
    --------
    >>> f1 = LinearFractional({"tp": 2}, {"tp": 2, "fp": 1, "fn": 1}, average="macro")
    >>> f1([[1, 0], [0, 1]], [[1, 1], [0, 1]])
    0.8333333333333333
    >>> f1.from_counts(tp=3, fp=1, fn=1, tn=10)
    0.75
    """

    numerator: Mapping[str, float]
    denominator: Mapping[str, float]
    average: str = "micro"
    zero_division: float = 0.0
    balanced: bool = False
    name: str | None = None
    numerator_coefficients: NDArray[np.float64] = field(init=False)
    denominator_coefficients: NDArray[np.float64] = field(init=False)
    vertex_numerator: NDArray[np.float64] = field(init=False)
    vertex_denominator: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        check_choice("average", self.average, AVERAGES)
        if not math.isfinite(self.zero_division):
            raise InvalidMetricError(f"zero_division must be a finite number, not {self.zero_division!r}.")
        above = _coefficients(self.numerator, "numerator")
        below = _coefficients(self.denominator, "denominator")
        top, bottom = _at_vertices(above), _at_vertices(below)
        _check_sign(bottom)
        if bottom.min() < 0:
            above, below, top, bottom = -above, -below, -top, -bottom
        _check_poles(top, bottom)
        set_field = object.__setattr__
        set_field(self, "numerator", _mapping(above))
        set_field(self, "denominator", _mapping(below))
        set_field(self, "zero_division", float(self.zero_division))
        set_field(self, "balanced", bool(self.balanced))
        set_field(self, "numerator_coefficients", above)
        set_field(self, "denominator_coefficients", below)
        set_field(self, "vertex_numerator", top)
        set_field(self, "vertex_denominator", bottom)

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest value that Ψ can have.

        Examples
        --------
        >>> LinearFractional({"tp": 2}, {"tp": 2, "fp": 1, "fn": 1}).limits
        (0.0, 1.0)
        """
        there = self.vertex_denominator > 0
        ratios = [*(self.vertex_numerator[there] / self.vertex_denominator[there]), self.zero_division]
        return float(min(ratios)), float(max(ratios))

    @property
    def __name__(self) -> str:
        """The name, or how the metric is written; scikit-learn shows it of a scorer."""
        return self.name or repr(self)

    def __call__(
        self, y_true: Any = None, y_pred: Any = None, *, labels: Any = None, decisions: Any = None
    ) -> float:
        """Ψ of the decisions over the observed entries; the truth comes first, as in scikit-learn.

        Parameters
        ----------
        y_true : anything ``ObservedLabels.from_any`` takes, or a vector for a single label
            The labels, NaN where nothing is observed.
        y_pred : array, sparse matrix or frame of shape (n, L), or vector over the observed entries
            The decisions, 0/1 or boolean; a sparse matrix says no where nothing is stored.
        labels, decisions
            The same two by name, in any order.

        Examples
        --------
        >>> precision = LinearFractional({"tp": 1}, {"tp": 1, "fp": 1})
        >>> precision([[1, 0], [float("nan"), 1]], [[1, 1], [0, 1]])
        0.6666666666666666
        >>> precision(decisions=[[1, 1], [0, 1]], labels=[[1, 0], [float("nan"), 1]])
        0.6666666666666666
        """
        y_true, y_pred = truth_and_decisions(y_true, y_pred, labels, decisions)
        known = judged_labels(y_true)
        return self.from_counts(
            *confusion_counts(known, y_pred, self.average), group_weights=self.group_weights(known)
        )

    def group_weights(self, labels: ObservedLabels) -> NDArray[np.float64] | None:
        """What each group weighs in the mean over groups; None where each counts once.

        Under the instance average it is the weight of the row, so that a row of weight 2 counts as two rows.
        """
        return labels.row_weights if self.average == "instance" else None

    def from_counts(
        self,
        tp: ArrayLike,
        fp: ArrayLike,
        fn: ArrayLike,
        tn: ArrayLike,
        group_weights: ArrayLike | None = None,
    ) -> float:
        """Ψ from (weighted) counts: numbers for one group, or arrays with one count per group.

        With ``balanced`` the counts are rescaled here. Under the micro average arrays are summed first.
        ``group_weights`` weigh the groups in their mean (None: 1 each).

        Examples
        --------
        >>> recall = LinearFractional({"tp": 1}, {"tp": 1, "fn": 1}, average="macro")
        >>> recall.from_counts(tp=[1, 3], fp=[0, 0], fn=[1, 0], tn=[5, 5])
        0.75
        """
        counts = Counts(*np.broadcast_arrays(*(np.asarray(c, dtype=np.float64) for c in (tp, fp, fn, tn))))
        if not all(np.all(np.isfinite(c) & (c >= 0)) for c in counts):
            raise InvalidInputError("Counts must be finite and not negative.")
        if group_weights is None:
            return float(self.from_many_counts(*(np.reshape(c, (1, -1)) for c in counts))[0])
        values, seen = self._values_of_groups(counts)
        return float(np.average(values[seen], weights=np.asarray(group_weights)[seen]))

    def from_many_counts(
        self,
        tp: NDArray[np.float64],
        fp: NDArray[np.float64],
        fn: NDArray[np.float64],
        tn: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """:meth:`from_counts` of every row of these arrays, which have a column for each group.

        Examples
        --------
        >>> recall = LinearFractional({"tp": 1}, {"tp": 1, "fn": 1}, average="macro")
        >>> tp, fn, none = np.array([[1.0, 3.0], [1.0, 0.0]]), np.array([[1.0, 0.0]] * 2), np.zeros((2, 2))
        >>> recall.from_many_counts(tp, none, fn, none)
        array([0.75, 0.5 ])
        """
        values, seen = self._values_of_groups(Counts(tp, fp, fn, tn))
        return np.asarray(np.where(seen, values, 0.0).sum(axis=-1) / seen.sum(axis=-1))

    def _values_of_groups(self, counts: Counts) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Ψ_g along the last axis, and which groups have anything to judge; a micro average has one group."""
        if self.average == "micro":
            counts = Counts(*(np.sum(c, axis=-1, keepdims=True) for c in counts))
        if self.balanced:
            counts = balanced_counts(counts)
        seen = counts.total > 0
        if not np.all(np.any(seen, axis=-1)):
            raise InvalidInputError("All counts are 0, so there is nothing to judge; give counts of a group.")
        return self.group_values(*counts), seen

    def group_values(self, tp: ArrayLike, fp: ArrayLike, fn: ArrayLike, tn: ArrayLike) -> NDArray[np.float64]:
        """Ψ_g of each group from counts or fractions, elementwise; ``zero_division`` where the ratio is 0/0.

        The counts are taken as they are: for a balanced metric count with ``entry_weights``.

        Examples
        --------
        >>> precision = LinearFractional({"tp": 1}, {"tp": 1, "fp": 1})
        >>> precision.group_values([1, 0], [3, 0], [0, 0], [0, 4])
        array([0.25, 0.  ])
        """
        counts = [np.asarray(c, dtype=np.float64) for c in (tp, fp, fn, tn)]
        # With const folded into the vertices no term below is negative: nothing cancels, an exact 0 is a 0/0.
        above = sum(a * c for a, c in zip(self.vertex_numerator, counts, strict=True))
        below = np.asarray(sum(b * c for b, c in zip(self.vertex_denominator, counts, strict=True)))
        values = np.full(below.shape, self.zero_division)
        np.divide(above, below, out=values, where=below != 0)
        return values

    def groups(self, labels: ObservedLabels) -> tuple[NDArray[Any], int]:
        """The group number of each observed entry, and the number of groups (empty ones included).

        Examples
        --------
        >>> labels = ObservedLabels.from_dense([[1, 0], [None, 1]])
        >>> LinearFractional({"tp": 1}, {"const": 1}, average="instance").groups(labels)
        (array([0, 0, 1]), 2)
        """
        return group_of_entries(labels, self.average)

    def entry_weights(self, labels: ObservedLabels) -> NDArray[np.float64]:
        """The weight of each observed entry (1 where none was given), balanced within its group if need be.

        Examples
        --------
        >>> labels = ObservedLabels.from_dense([[1, 0, 0, 0]])
        >>> LinearFractional({"tp": 1, "tn": 1}, {"const": 1}, balanced=True).entry_weights(labels)
        array([2.        , 0.66666667, 0.66666667, 0.66666667])
        """
        weights = np.ones(labels.n_observed) if labels.weights is None else labels.weights.copy()
        if self.balanced:
            group, n_groups = self.groups(labels)
            positive = labels.values > 0
            held = np.bincount(group, weights=weights * positive, minlength=n_groups)
            rest = np.bincount(group, weights=weights * ~positive, minlength=n_groups)
            up, down = _balancing(held.astype(np.float64), rest.astype(np.float64))
            weights *= np.where(positive, up[group], down[group])
        return weights

    def denominator_bound(self, labels: Any) -> float:
        """γ, the smallest value the denominator of any group can take over all decisions for these labels.

        With the fractions p of positives and q of negatives in a group it is
        ``p * min(b_tp, b_fn) + q * min(b_fp, b_tn)`` in terms of ``vertex_denominator``. Zero means that some
        decisions leave a group at 0/0.

        Examples
        --------
        >>> jaccard = LinearFractional({"tp": 1}, {"tp": 1, "fp": 1, "fn": 1})
        >>> jaccard.denominator_bound([[1, 0, 0, 0]])
        0.25
        """
        known = judged_labels(labels)
        weights = self.entry_weights(known)
        group, n_groups = self.groups(known)
        total = np.bincount(group, weights=weights, minlength=n_groups)
        positive = np.bincount(group, weights=weights * known.values, minlength=n_groups)
        fraction = np.minimum(positive[total > 0] / total[total > 0], 1.0)
        b_tp, b_fp, b_fn, b_tn = self.vertex_denominator
        return float(np.min(fraction * min(b_tp, b_fn) + (1 - fraction) * min(b_fp, b_tn)))

    def _key(self) -> tuple[object, ...]:
        """What makes two metrics the same; the name is only for reports."""
        coefficients = (*self.numerator_coefficients.tolist(), *self.denominator_coefficients.tolist())
        return (*coefficients, self.average, self.zero_division, self.balanced)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, LinearFractional) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        text = f"{dict(self.numerator)}, {dict(self.denominator)}, average={self.average!r}"
        if self.zero_division != 0:
            text += f", zero_division={self.zero_division:g}"
        if self.balanced:
            text += ", balanced=True"
        if self.name is not None:
            text += f", name={self.name!r}"
        return f"LinearFractional({text})"


def _coefficients(given: Mapping[str, float], what: str) -> NDArray[np.float64]:
    if not isinstance(given, Mapping):
        raise InvalidMetricError(f"The {what} must be a mapping such as {{'tp': 1}}, not {given!r}.")
    for key in given:
        if key not in KEYS:
            raise unknown_name(f"key in the {what}", key, KEYS)
    try:
        values = np.array([float(given.get(key, 0.0)) for key in KEYS])
    except (TypeError, ValueError) as error:
        raise InvalidMetricError(f"The coefficients of the {what} must be numbers: {error}.") from error
    for key, value in zip(KEYS, values, strict=True):
        if not math.isfinite(value):
            raise InvalidMetricError(f"The coefficient {key!r} of the {what} is {value}; it must be finite.")
    return values


def _mapping(coefficients: NDArray[np.float64]) -> dict[str, float]:
    return {key: float(c) for key, c in zip(KEYS, coefficients, strict=True) if c != 0}


def _at_vertices(coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """The linear function where all weight lies on one of tp, fp, fn, tn."""
    values = coefficients[0] + coefficients[1:]
    values[np.abs(values) <= _ROUNDING * np.abs(coefficients).max()] = 0.0
    return np.asarray(values)


def _check_sign(bottom: NDArray[np.float64]) -> None:
    """A linear function on the simplex keeps its sign exactly if it does so at the vertices."""
    low, high = int(np.argmin(bottom)), int(np.argmax(bottom))
    if bottom[low] < 0 < bottom[high]:
        raise InvalidMetricError(
            f"The denominator can vanish: it is {bottom[high]:g} when every observed entry is "
            f"{_SITUATIONS[high]} and {bottom[low]:g} when every one is {_SITUATIONS[low]}, so it is 0 in "
            "between. Change its coefficients so that it keeps one sign."
        )
    if not np.any(bottom):
        raise InvalidMetricError(
            "The denominator is 0 for all decisions; give it a coefficient that is not 0."
        )


def _check_poles(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> None:
    for above, below, situation in zip(top, bottom, _SITUATIONS, strict=True):
        if below == 0 and above != 0:
            raise InvalidMetricError(
                f"The denominator is 0 when every observed entry is {situation}, but the numerator is "
                f"{above:g} there, so the metric has no bound. Give the denominator a positive 'const' or "
                "change the numerator."
            )


def _balancing(
    positive: NDArray[np.float64], negative: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Factors for the weights of positives and negatives after which each class holds half of its group."""
    half = (positive + negative) / 2
    both = (positive > 0) & (negative > 0)
    up = np.divide(half, positive, out=np.ones_like(half), where=both)
    down = np.divide(half, negative, out=np.ones_like(half), where=both)
    return up, down


def balanced_counts(counts: Counts) -> Counts:
    up, down = _balancing(np.asarray(counts.tp + counts.fn), np.asarray(counts.fp + counts.tn))
    return Counts(counts.tp * up, counts.fp * down, counts.fn * up, counts.tn * down)


AVERAGES = ("micro", "instance", "macro")


class Counts(NamedTuple):
    """Weighted numbers of true and false positives and negatives, one float64 per group.

    Examples
    --------
    >>> confusion_counts([[1, 0], [0, 1]], [[1, 1], [0, 1]], "macro").total
    array([2., 2.])
    """

    tp: NDArray[np.float64]
    fp: NDArray[np.float64]
    fn: NDArray[np.float64]
    tn: NDArray[np.float64]

    @property
    def total(self) -> NDArray[np.float64]:
        """The observed weight of each group."""
        return self.tp + self.fp + self.fn + self.tn


def judged_labels(labels: Any) -> ObservedLabels:
    """``labels`` as ObservedLabels against which decisions can be judged, or an error that says why not."""
    known = ObservedLabels.from_any(labels)
    if known.unobserved == "unlabelled":
        raise InvalidLabelsError(
            "These labels are positive or unlabelled (unobserved='unlabelled'), and a metric needs known "
            "negatives; judge on labels that have some, or pass unobserved='negative' if absent means no."
        )
    known.require_observed()
    if known.values.dtype != np.int8 and not np.isin(known.values, (0, 1)).all():
        raise InvalidLabelsError("A yes/no metric needs labels 0 and 1; these were built with binary=False.")
    return known


def aligned_decisions(decisions: Any, labels: ObservedLabels) -> NDArray[np.bool_]:
    """The decision for each observed entry; what stands at other entries is not read."""
    given = labels.align(decisions, "decisions")
    if given.dtype == np.bool_:
        return given
    bad = (given != 0) & (given != 1)
    if np.any(bad):
        first = int(np.argmax(bad))
        advice = (
            "The truth, which may have NaN, comes first: metric(y_true, y_pred)."
            if np.isnan(given[first])
            else "Scores become decisions by a threshold, see best_threshold."
        )
        raise InvalidInputError(
            f"The decision at row {labels.rows[first]}, column {labels.cols[first]} is {given[first]}; "
            f"decisions are 0 or 1. {advice}"
        )
    return np.asarray(given != 0)


def group_of_entries(labels: ObservedLabels, average: str) -> tuple[NDArray[Any], int]:
    """The group of each entry and how many groups there are: one, one per row, or one per label."""
    check_choice("average", average, AVERAGES)
    if average == "instance":
        return labels.rows, labels.shape[0]
    if average == "macro":
        return labels.cols, labels.shape[1]
    return np.zeros(labels.n_observed, dtype=np.int32), 1


def truth_and_decisions(y_true: Any, y_pred: Any, labels: Any, decisions: Any) -> tuple[Any, Any]:
    """The truth and the decisions, given in this order or by their names."""
    by_place, by_name = (y_true, y_pred), (labels, decisions)
    both = tuple(a if b is None else b for a, b in zip(by_place, by_name, strict=True))
    if any(part is None for part in both) or all(part is not None for part in (y_true, labels)):
        raise TypeError(
            "A metric takes the truth and the decisions: metric(y_true, y_pred), or "
            "metric(labels=..., decisions=...)."
        )
    if all(_is_vector(part) for part in both):
        # One label: the scorers of scikit-learn pass vectors then.
        return np.asarray(both[0]).reshape(-1, 1), np.asarray(both[1]).reshape(-1, 1)
    return both


def _is_vector(values: Any) -> bool:
    if isinstance(values, ObservedLabels) or issparse(values):
        return False
    try:
        return np.ndim(values) == 1
    except ValueError:  # Rows of several lengths: the reader of matrices says so.
        return False


def confusion_counts(
    y_true: Any = None,
    y_pred: Any = None,
    average: str = "micro",
    *,
    labels: Any = None,
    decisions: Any = None,
) -> Counts:
    """Weighted TP, FP, FN and TN of each group of observed entries.

    ``TP_g = Σ w_ij [decided yes, y_ij = 1]`` over the entries of Ω in group g, and so on.

    Parameters
    ----------
    y_true, y_pred, labels, decisions
        The truth and the decisions, as for a metric.
    average : "micro", "instance" or "macro", default "micro"
        One group, one per row, or one per label. A group without observed entries counts 0 everywhere.

    Examples
    --------
    >>> counts = confusion_counts([[1, 0], [float("nan"), 1]], [[1, 1], [0, 1]], "instance")
    >>> counts.tp, counts.fp
    (array([1., 1.]), array([1., 0.]))
    """
    labels, decisions = truth_and_decisions(y_true, y_pred, labels, decisions)
    known = judged_labels(labels)
    group, n_groups = group_of_entries(known, average)
    # One bin per (group, label, decision); bincount keeps this to a pass over Ω.
    cell = group.astype(np.int64) * 4
    cell += known.values.astype(np.int64) * 2
    cell += aligned_decisions(decisions, known)
    table = np.bincount(cell, weights=known.weights, minlength=4 * n_groups).astype(np.float64)
    tn, fp, fn, tp = table.reshape(n_groups, 4).T
    return Counts(tp, fp, fn, tn)
