"""The exact search for the threshold where only some of the yes are recorded: over all entries, in one sort.

A fraction ρ of the yes is not recorded, so the counts are those of :mod:`labelgap.metrics.unlabelled`. In
them a yes is a false positive unless recorded yes stand for it, so that saying yes to everything does not
win.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from labelgap._arrays import plain_array
from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.exceptions import (
    InvalidInputError,
    InvalidParameterError,
    InvalidScoresError,
    LabelgapWarning,
)
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional, get_metric
from labelgap.metrics.unlabelled import (
    check_flip_rate,
    corrected_counts,
    entries_per_group,
    punishes_false_positives,
    recorded_labels,
    values_of_groups,
)
from labelgap.thresholds.curves import ThresholdCurve
from labelgap.thresholds.sweep import ScoreArray, as_float_scores, between, make_curve

# Cuts whose values differ by less than the rounding of a mean of ratios are equally good.
_ROUNDING = 16 * float(np.finfo(np.float64).eps)
_FIXED_POINT_BITS = 61
_SMALLEST_VALUE = 1e-200


@dataclass(frozen=True)
class UnlabelledThreshold:
    """The best threshold, the metric it reaches, and what saying no or yes to every entry would reach.

    Parameters
    ----------
    threshold : float
        In units of the scores; +inf means no entry at all, −inf every entry.
    value : float
        The metric at the threshold, over all entries, with corrected counts.
    value_of_none, value_of_all : float
        The metric of saying no to every entry, and of saying yes to every entry.
    curve : ThresholdCurve or None
        The metric at every cut, where it was asked for.

    Examples
    --------
    >>> from labelgap.thresholds import best_unlabelled_threshold
    >>> scores, recorded = [[0.9, 0.8, 0.2, 0.1]], [[1, 0, 0, 0]]
    >>> best_unlabelled_threshold(scores, recorded, "micro-accuracy", flip_rate=0.5)
    UnlabelledThreshold(threshold=0.5, value=1.0, value_of_none=0.5, value_of_all=0.5, curve=None)
    """

    threshold: float
    value: float
    value_of_none: float
    value_of_all: float
    curve: ThresholdCurve | None = None


def best_unlabelled_threshold(
    scores: Any,
    labels: Any,
    metric: str | LinearFractional = "micro-f1",
    *,
    flip_rate: ArrayLike,
    return_curve: bool = False,
) -> UnlabelledThreshold:
    """The threshold that maximises a metric over all n·L entries, exactly, when a fraction ρ is not recorded.

    ``θ̂ = argmax_θ Ψ([score ≥ θ])`` over θ in [−inf, +inf], with Ψ of
    :func:`labelgap.metrics.unlabelled_counts`. Equal scores are decided alike, and among equally good
    thresholds the highest is taken. Warns where yes to every entry is as good, because the metric does not
    punish false positives.

    Parameters
    ----------
    scores : n x L array or sparse matrix
        Any real scores of all entries; NaN is refused. A sparse matrix holds 0 where nothing is stored.
    labels : anything ``ObservedLabels.from_any(labels, unobserved="unlabelled")`` takes
        1 where a yes is recorded.
    metric : str or LinearFractional, default "micro-f1"
        The metric Ψ and its average.
    flip_rate : float or array of length L
        ρ, the fraction of the yes that is not recorded, for all labels or for each.
    return_curve : bool, default False
        Whether the result holds the metric at every cut.

    Examples
    --------
    >>> from labelgap.thresholds import best_unlabelled_threshold
    >>> scores, recorded = [[0.9, 0.8, 0.2, 0.1]], [[1, 0, 0, 0]]
    >>> best_unlabelled_threshold(scores, recorded, "micro-f1", flip_rate=0.5).threshold
    0.5
    """
    psi = get_metric(metric)
    known = recorded_labels(labels)
    rates = check_flip_rate(flip_rate, known.shape[1])
    given = plain_array(scores, "The scores", InvalidScoresError)
    if given.shape != known.shape:
        raise InvalidScoresError(
            f"The scores have shape {given.shape}; expected {known.shape} like the labels, because every "
            "entry is judged."
        )
    entries = (_sparse_entries if sparse.issparse(given) else _dense_entries)(
        given, known, rates, psi.average
    )
    n_groups = len(entries_per_group(known.shape, psi.average))
    result = sweep_unlabelled(
        entries.scores,
        entries.recorded,
        entries.flip_rates,
        psi,
        groups=entries.groups,
        n_groups=n_groups,
        weights=entries.weights,
        return_curve=return_curve,
    )
    warn_if_everything_wins(result, psi)
    return result


def warn_if_everything_wins(result: UnlabelledThreshold, metric: str | LinearFractional) -> None:
    """Warn if yes to every entry is as good as the best threshold, the metric not punishing false positives.

    Examples
    --------
    >>> warn_if_everything_wins(UnlabelledThreshold(0.5, 0.8, 0.0, 0.4), "micro-f1")
    """
    psi = get_metric(metric)
    if result.value_of_all < result.value - _ROUNDING * abs(result.value) or punishes_false_positives(psi):
        return
    name = "This metric" if psi.name is None else f"The metric {psi.name!r}"
    warn(
        f"{name} does not punish false positives, so saying yes to every entry is as good as any threshold "
        f"({result.value_of_all:.6g}). Choose a metric that does, such as '{psi.average}-f1' or "
        f"'{psi.average}-jaccard'.",
        LabelgapWarning,
    )


def sweep_unlabelled(
    scores: ScoreArray,
    recorded: NDArray[np.bool_],
    flip_rates: ArrayLike,
    metric: str | LinearFractional,
    *,
    groups: NDArray[np.integer[Any]] | None = None,
    n_groups: int = 1,
    weights: NDArray[np.float64] | None = None,
    recorded_are_known: bool = False,
    return_curve: bool = False,
) -> UnlabelledThreshold:
    """:func:`best_unlabelled_threshold` on flat arrays, one element per entry, for callers that hold such.

    Parameters
    ----------
    scores : float array
        Without NaN; at least one.
    recorded : bool array
        Whether the entry is recorded as a yes.
    flip_rates : float, or float array with one ρ per entry
        At least 0 and below 1; only those of recorded entries matter.
    metric : str or LinearFractional
        The metric Ψ.
    groups : integer array or None
        The row or the label of each entry, as the metric's average says; None with the micro average.
    n_groups : int, default 1
        Groups are numbered below this; those without an entry do not count.
    weights : float64 array or None
        Positive: how many entries each stands for; None means 1 each.
    recorded_are_known : bool, default False
        Whether the decisions are for these very entries, with a yes to every recorded one whatever its score.
        The score of a recorded entry then only says how the unrecorded yes score, ρ/(1 − ρ) of them for each.
    return_curve : bool, default False
        Whether the result holds the metric at every cut.

    Examples
    --------
    >>> import numpy as np
    >>> from labelgap.thresholds import sweep_unlabelled
    >>> scores, recorded = np.array([0.9, 0.8, 0.2, 0.1]), np.array([True, False, False, False])
    >>> sweep_unlabelled(scores, recorded, 0.5, "micro-f1").threshold
    0.5
    """
    psi = get_metric(metric)
    entry_scores, recorded = as_float_scores(np.asarray(scores)), np.asarray(recorded, np.bool_)
    _check_entries(entry_scores, recorded, groups, weights, psi)
    worth = _worth(recorded, flip_rates, weights)
    size = np.ones(entry_scores.size) if weights is None else np.asarray(weights, np.float64)
    if recorded_are_known:
        entry_scores, size, worth, groups = _with_known(entry_scores, size, worth, groups, recorded)
    order = np.argsort(entry_scores)[::-1]
    ranked = entry_scores[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), ranked.size - 1)
    if groups is None:
        cuts, rounding = _values_of_one_group(size[order], worth[order], ends, psi), 0.0
    else:
        cuts, rounding = _mean_values(size[order], worth[order], groups[order], n_groups, ends, psi)
    lowest = np.append(entry_scores.dtype.type(np.nan), ranked[ends])
    # Where a score is +inf no threshold says no to everything.
    first = 1 if ranked[0] == np.inf else 0
    largest = float(cuts[first:].max())
    best = first + int(np.argmax(cuts[first:] >= largest - _ROUNDING * abs(largest) - rounding))
    below = np.append(lowest, entry_scores.dtype.type(np.nan))[best + 1]
    threshold = float(between(lowest[best : best + 1], np.array([below]))[0])
    # Counts made afresh owe nothing to the millions of steps of the walk.
    none, chosen, everything = (
        _value(decided, size, worth, groups, n_groups, psi)
        for decided in (np.zeros(1, bool), entry_scores >= threshold, np.ones(1, bool))
    )
    curve = make_curve(lowest, cuts, entry_scores) if return_curve else None
    return UnlabelledThreshold(threshold, chosen, none, everything, curve)


def unlabelled_values(
    thresholds: Iterable[float],
    scores: ScoreArray,
    recorded: NDArray[np.bool_],
    flip_rates: ArrayLike,
    metric: LinearFractional,
    *,
    groups: NDArray[np.integer[Any]] | None = None,
    n_groups: int = 1,
    weights: NDArray[np.float64] | None = None,
    recorded_are_known: bool = False,
) -> Floats:
    """Ψ of the decisions at each of some thresholds; the other parameters are as in :func:`sweep_unlabelled`.

    Examples
    --------
    >>> scores, recorded = np.array([0.9, 0.8, 0.2, 0.1]), np.array([True, False, False, False])
    >>> unlabelled_values([np.inf, 0.5], scores, recorded, 0.5, get_metric("micro-f1")).tolist()
    [0.0, 1.0]
    """
    worth = _worth(recorded, flip_rates, weights)
    size = np.ones(scores.size) if weights is None else weights
    if recorded_are_known:
        scores, size, worth, groups = _with_known(scores, size, worth, groups, recorded)
    values = (_value(scores >= threshold, size, worth, groups, n_groups, metric) for threshold in thresholds)
    return np.array(list(values))


def _worth(recorded: NDArray[np.bool_], flip_rates: ArrayLike, weights: Floats | None) -> Floats:
    """How many yes each entry stands for: weight / (1 − ρ) where one is recorded, 0 elsewhere."""
    rates = np.asarray(flip_rates, dtype=np.float64)
    if rates.shape not in ((), recorded.shape):
        raise InvalidParameterError(
            f"flip_rates has shape {rates.shape}; give one number, or one per entry, {recorded.size} in all."
        )
    if not ((rates >= 0) & (rates < 1)).all():
        raise InvalidParameterError("flip_rates must be at least 0 and below 1, in every entry.")
    worth = np.zeros(recorded.size)
    of_recorded = 1 / (1 - (rates if rates.ndim == 0 else rates[recorded]))
    worth[recorded] = of_recorded if weights is None else weights[recorded] * of_recorded
    return worth


def _with_known(
    scores: ScoreArray,
    size: Floats,
    worth: Floats,
    groups: NDArray[np.integer[Any]] | None,
    recorded: NDArray[np.bool_],
) -> tuple[ScoreArray, Floats, Floats, NDArray[np.integer[Any]] | None]:
    """Recorded entries split in two: a yes above all thresholds, and those it stands for at its score."""
    own = size[recorded]
    rest_size, rest_worth = size.copy(), worth.copy()
    rest_size[recorded] = 0.0
    rest_worth[recorded] -= own
    above = np.full(len(own), np.inf, dtype=scores.dtype)
    return (
        np.concatenate([above, scores]),
        np.concatenate([own, rest_size]),
        np.concatenate([own, rest_worth]),
        None if groups is None else np.concatenate([groups[recorded], groups]),
    )


def _values_of_one_group(
    size: Floats, worth: Floats, ends: NDArray[np.int64], psi: LinearFractional
) -> Floats:
    """Ψ of "none" and after each tie, for entries that stand from the highest score down."""
    decided, found = (np.append(0.0, np.cumsum(x)[ends]) for x in (size, worth))
    return values_of_groups(psi, corrected_counts(decided, found, found[-1], decided[-1]))


def _mean_values(
    size: Floats,
    worth: Floats,
    groups: NDArray[np.integer[Any]],
    n_groups: int,
    ends: NDArray[np.int64],
    psi: LinearFractional,
) -> tuple[Floats, float]:
    """The mean of Ψ over groups at "none" and after each tie, and how much of it may be rounding.

    An entry changes Ψ of its own group only, so the mean is a running sum of such changes.
    """
    n = size.size
    # Entries group by group, from the highest score down within each; a conversion is a counting sort.
    table = sparse.csr_array((np.arange(n), groups, np.arange(n + 1)), shape=(n, n_groups)).tocsc()
    by_group, starts = table.data, table.indptr[:-1][np.diff(table.indptr) > 0]
    lengths = np.diff(starts, append=n)
    decided, found = (_running_sums(x[by_group], starts, lengths) for x in (size, worth))
    total, positive = (x[starts + lengths - 1] for x in (decided, found))
    zeros = np.zeros(starts.size)
    at_first = values_of_groups(psi, corrected_counts(zeros, zeros, positive, total))
    counts = corrected_counts(decided, found, np.repeat(positive, lengths), np.repeat(total, lengths))
    values = values_of_groups(psi, counts)
    # Whole multiples of a small unit are added without rounding, however many there are.
    largest = max(float(np.abs(values).max()), float(np.abs(at_first).max()), _SMALLEST_VALUE)
    unit = 2.0 ** (np.ceil(np.log2(largest * starts.size)) - _FIXED_POINT_BITS)
    steps = np.rint(values / unit).astype(np.int64)
    base = np.rint(at_first / unit).astype(np.int64)
    changes = np.empty(n, np.int64)
    before = np.append(0, steps[:-1])
    before[starts] = base
    changes[by_group] = steps - before
    sums = base.sum() + np.append(0, np.cumsum(changes)[ends])
    return sums * (unit / starts.size), unit


def _running_sums(values: Floats, starts: NDArray[Any], lengths: NDArray[Any]) -> Floats:
    """Sums within each group up to each of its entries; entries stand group by group."""
    steps = values.copy()
    # Each group takes back the sum of the one before: the running sum, and so its rounding, stays small.
    steps[starts[1:]] -= np.add.reduceat(values, starts)[:-1]
    sums = np.cumsum(steps)
    left_over = sums[starts] - values[starts]
    return np.asarray(sums - np.repeat(left_over, lengths))


def _value(
    decided: NDArray[np.bool_],
    size: Floats,
    worth: Floats,
    groups: NDArray[np.integer[Any]] | None,
    n_groups: int,
    psi: LinearFractional,
) -> float:
    """Ψ of decisions, from counts made afresh."""

    def summed(x: Floats) -> Floats:
        if groups is None:
            return np.array([x.sum()])
        return np.bincount(groups, weights=x, minlength=n_groups).astype(np.float64)

    found, missed = summed(worth * decided), summed(worth * ~decided)
    total = summed(size)
    counts = corrected_counts(summed(size * decided), found, found + missed, total)
    return float(np.mean(values_of_groups(psi, counts)[total > 0]))


def _check_entries(
    scores: ScoreArray,
    recorded: NDArray[np.bool_],
    groups: NDArray[Any] | None,
    weights: Floats | None,
    psi: LinearFractional,
) -> None:
    lengths = {len(x) for x in (scores, recorded, groups, weights) if x is not None}
    if lengths != {scores.size} or scores.size == 0:
        raise InvalidInputError(
            f"scores, recorded, groups and weights need one element per entry, at least one; got {lengths}."
        )
    if np.isnan(scores).any():
        raise InvalidScoresError(f"The score of entry {int(np.argmax(np.isnan(scores)))} is NaN.")
    if (groups is None) != (psi.average == "micro"):
        raise InvalidParameterError(
            "groups go with an instance or macro average, and only with one: this one is "
            f"{psi.average!r} and groups is {'None' if groups is None else 'given'}."
        )


class _Entries(NamedTuple):
    scores: ScoreArray
    recorded: NDArray[np.bool_]
    flip_rates: Floats
    groups: NDArray[np.integer[Any]] | None
    weights: Floats | None


def _dense_entries(scores: NDArray[Any], labels: ObservedLabels, rates: Floats, average: str) -> _Entries:
    n, L = labels.shape
    flat = as_float_scores(scores.reshape(-1))
    _refuse_nan(flat, range(n * L), L)
    recorded = np.zeros(n * L, np.bool_)
    recorded[labels.rows * L + labels.cols] = True
    groups = None
    if average != "micro":
        rows, cols = np.arange(n, dtype=np.int32)[:, None], np.arange(L, dtype=np.int32)
        groups = np.broadcast_to(rows if average == "instance" else cols, (n, L)).reshape(-1)
    return _Entries(flat, recorded, np.broadcast_to(rates, (n, L)).reshape(-1), groups, None)


def _sparse_entries(scores: Any, labels: ObservedLabels, rates: Floats, average: str) -> _Entries:
    """Stored and recorded entries one by one; all others of a group, of score 0, are one heavy entry."""
    L = labels.shape[1]
    stored = sparse.coo_array(scores, copy=True)
    stored.sum_duplicates()
    keys, marked = stored.row.astype(np.int64) * L + stored.col, labels.rows * L + labels.cols
    values = as_float_scores(stored.data)
    _refuse_nan(values, keys, L)
    entries = np.union1d(keys, marked)
    rows, cols = np.divmod(entries, L)
    groups = {"micro": np.zeros_like(entries), "instance": rows, "macro": cols}[average]
    all_entries = entries_per_group(labels.shape, average)
    rest = all_entries - np.bincount(groups, minlength=all_entries.size)
    others = np.flatnonzero(rest)
    size = entries.size + others.size
    entry_scores, recorded, flip_rates = (
        np.zeros(size, values.dtype),
        np.zeros(size, np.bool_),
        np.zeros(size),
    )
    entry_scores[np.searchsorted(entries, keys)] = values
    recorded[np.searchsorted(entries, marked)] = True
    flip_rates[: entries.size] = rates[cols]
    weights = np.append(np.ones(entries.size), rest[others])
    return _Entries(
        entry_scores, recorded, flip_rates, None if average == "micro" else np.append(groups, others), weights
    )


def _refuse_nan(scores: ScoreArray, keys: Any, n_labels: int) -> None:
    missing = np.isnan(scores)
    if missing.any():
        row, label = divmod(int(keys[int(np.argmax(missing))]), n_labels)
        raise InvalidScoresError(
            f"The score at row {row}, label {label} is NaN. Give a number for every entry, because "
            "every entry is judged."
        )
