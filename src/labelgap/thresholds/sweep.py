"""The exact search for the threshold: one sort, then one walk down the scores.

The best threshold of a small sample is noisy, since it is the place of a maximum among steps. The best
thresholds of many parts of the sample scatter around the place of the true maximum; their mean, which
:func:`steady_threshold` takes, is steadier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from labelgap import kernels
from labelgap._arrays import is_tensor, read_only, to_host
from labelgap.exceptions import InvalidScoresError
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional, get_metric
from labelgap.metrics.linear_fractional import judged_labels
from labelgap.thresholds import narrowing
from labelgap.thresholds.constraints import Constraints, best_within, read_constraints
from labelgap.thresholds.curves import ThresholdCurve, ThresholdResult

ScoreArray: TypeAlias = NDArray[np.floating[Any]]

_NO_WEIGHTS = np.empty(0, np.float64)
_NO_GROUPS = np.empty(0, np.int32)


def best_threshold(
    scores: Any,
    labels: Any,
    metric: str | LinearFractional = "micro-f1",
    return_curve: bool = False,
    *,
    subject_to: Constraints = None,
) -> ThresholdResult:
    """The threshold that maximises a metric over the observed entries, exactly.

    ``θ̂ = argmax_θ Ψ([score ≥ θ])`` over θ in [−inf, +inf]. Equal scores are decided alike, and among
    equally good thresholds the highest is taken (the fewest positives). Between two scores the threshold is
    halfway, rounded to the scores' own type so that comparing in that type changes nothing.

    Parameters
    ----------
    scores : n x L array or sparse matrix, or 1-d array with one score per observed entry
        Any real scores, infinite ones too; NaN is refused. Scores of entries that are not observed do not
        matter. A 1-d torch tensor stays on its device, where the counts are made.
    labels : ObservedLabels or whatever it can be made from
        For example an n x L array with NaN where nothing is observed.
    metric : str or LinearFractional, default "micro-f1"
        The metric Ψ and its average.
    return_curve : bool, default False
        Whether the result holds the metric at every cut.
    subject_to : str, Constraint, a sequence of these, or None, default None
        Bounds on other metrics, such as "recall >= 0.9" or "macro-precision >= 0.5, micro-recall >= 0.8";
        a name without an average is the micro average. Only thresholds at which all of them hold are
        compared; where there is none, an :class:`~labelgap.exceptions.InfeasibleConstraintError` says what
        can be reached.

    Returns
    -------
    ThresholdResult
        ``threshold``, ``value`` and ``curve``.

    Examples
    --------
    >>> import numpy as np
    >>> from labelgap.thresholds import best_threshold
    >>> scores = np.array([[0.9, 0.6], [0.4, 0.1]])
    >>> labels = np.array([[1.0, 1.0], [0.0, np.nan]])
    >>> result = best_threshold(scores, labels, metric="micro-f1")
    >>> result.threshold, result.value
    (0.5, 1.0)
    >>> best_threshold(scores, labels, "micro-precision", subject_to="recall >= 1").threshold
    0.5
    """
    observed = judged_labels(labels)
    psi = get_metric(metric)
    bounds = () if subject_to is None else read_constraints(subject_to)
    if is_tensor(scores) and scores.ndim == 1 and len(scores) == observed.n_observed:
        # They stay on their device.
        entry_scores: Any = scores
        if np.isnan(float(scores.max())):
            refuse_nan(as_float_scores(to_host(scores)), observed)
    else:
        entry_scores = as_float_scores(observed.align(to_host(scores), what="scores"))
        refuse_nan(entry_scores, observed)
    found = _sweep(entry_scores, observed, psi, return_curve or bool(bounds))
    if not bounds:
        return found
    assert found.curve is not None
    curves = [(bound, _sweep(entry_scores, observed, bound.metric, True).curve) for bound in bounds]
    best = best_within(found.curve, [(b, c) for b, c in curves if c is not None], psi.__name__)
    return replace(best, curve=found.curve) if return_curve else best


def _sweep(
    scores: Any, observed: ObservedLabels, psi: LinearFractional, return_curve: bool
) -> ThresholdResult:
    """The best cut of a metric, from scores of the observed entries without NaN."""
    return sweep_entries(scores, **sweep_settings(observed, psi), return_curve=return_curve)


def sweep_settings(observed: ObservedLabels, psi: LinearFractional) -> dict[str, Any]:
    """What :func:`sweep_entries` has to know of the labels and the metric."""
    values = observed.values.astype(np.int8, copy=False)
    weights, class_factors = observed.weights, np.ones(4)
    if psi.balanced and psi.average == "micro":
        # In one group balancing multiplies each count by its class's factor: the coefficients can carry that.
        total = float(values.size if weights is None else weights.sum())
        positive = float(np.count_nonzero(values) if weights is None else weights @ values)
        class_factors = _class_factors(positive, total)
    elif psi.balanced:
        weights = psi.entry_weights(observed)
    groups, n_groups = (None, 1) if psi.average == "micro" else psi.groups(observed)
    return {
        "values": values,
        "weights": weights,
        "groups": groups,
        "n_groups": n_groups,
        "group_weights": psi.group_weights(observed),
        "vertex_numerator": psi.vertex_numerator * class_factors,
        "vertex_denominator": psi.vertex_denominator * class_factors,
        "zero_division": psi.zero_division,
    }


def sweep_entries(
    scores: Any,
    values: Any,
    *,
    vertex_numerator: NDArray[np.float64],
    vertex_denominator: NDArray[np.float64],
    zero_division: float = 0.0,
    weights: NDArray[np.float64] | None = None,
    groups: Any = None,
    n_groups: int = 1,
    return_curve: bool = False,
    group_weights: NDArray[np.float64] | None = None,
) -> ThresholdResult:
    """:func:`best_threshold` on flat arrays, one element per entry, for callers that hold such.

    Parameters
    ----------
    scores : float32 or float64 array, or torch tensor
        Without NaN; at least one. Those of a tensor are counted on its device.
    values : int8 array, or torch tensor
        0 or 1.
    vertex_numerator, vertex_denominator : float64 arrays of length 4
        The metric of a group is the ratio of their products with its weighted (tp, fp, fn, tn), as in
        :class:`labelgap.metrics.LinearFractional`; the denominator's are not negative.
    zero_division : float, default 0.0
        The metric of a group whose denominator is 0.
    weights : float64 array or None
        Positive weights; None means 1 each.
    groups : integer array, torch tensor, or None
        The group of each entry; None means that all belong together.
    n_groups : int, default 1
        Groups are numbered below this; those without an entry do not count.
    return_curve : bool, default False
        Whether the result holds the metric at every cut.
    group_weights : float64 array of length ``n_groups`` or None
        What each group weighs in the mean over groups; None means 1 each.

    Examples
    --------
    >>> import numpy as np
    >>> from labelgap.thresholds import sweep_entries
    >>> scores, values = np.array([0.9, 0.6, 0.4]), np.array([1, 1, 0], np.int8)
    >>> sweep_entries(scores, values, vertex_numerator=np.array([2.0, 0, 0, 0]),
    ...               vertex_denominator=np.array([2.0, 1, 1, 0])).threshold
    0.5
    """
    coefficients = (
        np.array(vertex_numerator, np.float64),
        np.array(vertex_denominator, np.float64),
        float(zero_division),
    )
    is_plain = weights is None and group_weights is None and not return_curve
    if is_plain and len(scores) >= narrowing.MANY_ENTRIES:
        n_parts = 1 if groups is None else n_groups
        cut = narrowing.narrowed_cut(_entries(scores, values, groups, n_parts), n_parts, coefficients)
        if cut is not None:
            above, below, value = cut
            return ThresholdResult(float(between(_one(above, scores), _one(below, scores))[0]), value)
    scores, values, groups = as_float_scores(to_host(scores)), to_host(values), to_host(groups)
    n_curve = scores.size + 1 if return_curve else 0
    curve_scores, curve_values = np.empty(n_curve), np.empty(n_curve)
    if weights is None and groups is None:
        # Without weights and groups only the sorted scores of either class matter, and sorting numbers is
        # several times faster than finding their order.
        classes = scores[values == 1], scores[values != 1]
        for one_class in classes:
            one_class.sort()
        positives, negatives = (read_only(one_class, np.float64) for one_class in classes)
        above, below, value, n_cuts = kernels.sweep.sweep_two_classes(
            positives, negatives, *coefficients, curve_scores, curve_values
        )
        threshold = float(between(_one(above, scores), _one(below, scores))[0])
    else:
        entries = (
            read_only(values, np.int8),
            read_only(_NO_WEIGHTS if weights is None else weights, np.float64),
            read_only(_NO_GROUPS if groups is None else groups, np.int32),
        )
        in_mean = read_only(_NO_WEIGHTS if group_weights is None else group_weights, np.float64)
        walked = read_only(scores, np.float64)
        counts = np.zeros((n_groups, 4))
        left = np.zeros((0 if weights is None else n_groups, 2), np.int32)
        kernels.sweep.count_groups(*entries, counts, left)
        above, below, _, n_cuts = kernels.sweep.sweep_groups(
            np.argsort(scores),
            walked,
            *entries,
            counts,
            left,
            *coefficients,
            curve_scores,
            curve_values,
            in_mean,
        )
        threshold = float(between(_one(above, scores), _one(below, scores))[0])
        # Counts made afresh owe nothing to the ten million steps of the walk.
        value = kernels.sweep.value_at(threshold, walked, *entries, counts, *coefficients, in_mean)
    curve = make_curve(curve_scores[:n_cuts], curve_values[:n_cuts], scores) if return_curve else None
    return ThresholdResult(threshold, float(value), curve)


def make_curve(
    lowest: NDArray[np.float64], values: NDArray[np.float64], scores: ScoreArray
) -> ThresholdCurve:
    """The curve, from the lowest included score of each cut (NaN where nothing is included)."""
    included = lowest.astype(scores.dtype)
    excluded = np.append(included[1:], scores.dtype.type(np.nan))
    # "None" is out of reach of every threshold when a score is +inf.
    start = 1 if included.size > 1 and included[1] == np.inf else 0
    return ThresholdCurve(between(included, excluded)[start:].astype(np.float64), values[start:].copy())


def between(included: ScoreArray, excluded: ScoreArray) -> ScoreArray:
    """Thresholds t with excluded < t ≤ included, halfway where that is possible; NaN means no neighbour."""
    with np.errstate(over="ignore", invalid="ignore"):
        middle = (included + excluded) / 2
        # The sum of two huge scores overflows where the sum of their halves does not.
        middle = np.where(np.isinf(middle), included / 2 + excluded / 2, middle)
        # Neighbouring numbers have nothing between them, and −inf has no middle.
        usable = (middle > excluded) & (middle <= included)
    middle = np.where(usable, middle, included)
    middle[np.isnan(excluded)] = -np.inf
    middle[np.isnan(included)] = np.inf
    return middle


def _class_factors(positive: float, total: float) -> NDArray[np.float64]:
    """What balancing multiplies (tp, fp, fn, tn) by, up to a common factor; 1 where a class is absent."""
    fraction = positive / total
    if not 0 < fraction < 1:
        return np.ones(4)
    up, down = 0.5 / fraction, 0.5 / (1 - fraction)
    return np.array([up, down, up, down])


def _entries(scores: Any, values: Any, groups: Any, n_groups: int) -> narrowing.Entries:
    """The entries where their scores are."""
    if not is_tensor(scores):
        return narrowing.HostEntries(scores, values, _NO_GROUPS if groups is None else groups, n_groups)
    from labelgap.kernels.gpu.buckets import entries_on_device

    return entries_on_device(scores, values, groups, n_groups)


def _one(score: float, like: Any) -> ScoreArray:
    # The type of a tensor is no type of numpy's, but has its name.
    return np.array([score], like.dtype if isinstance(like, np.ndarray) else str(like.dtype).split(".")[-1])


def as_float_scores(scores: NDArray[Any]) -> ScoreArray:
    """Contiguous float32 or float64, without a copy where they are so already."""
    narrow = scores.dtype in (np.dtype(np.float16), np.dtype(np.float32))
    return np.ascontiguousarray(scores, np.float32 if narrow else np.float64)


def refuse_nan(scores: ScoreArray, labels: ObservedLabels) -> None:
    """Raise where the score of an observed entry is NaN, and say which."""
    # The maximum is NaN where one of them is, and it is found in less time.
    if np.isnan(scores.max()):
        entry = int(np.argmax(np.isnan(scores)))
        raise InvalidScoresError(
            f"The score at {_place(labels, entry)} is NaN, but its label is observed. "
            "Give a number for every observed entry, or leave the entry out of the labels."
        )


def _place(labels: ObservedLabels, entry: int) -> str:
    row = int(np.searchsorted(labels.indptr, entry, side="right")) - 1
    label = int(labels.indices[entry])
    row_name = "" if labels.row_names is None else f" ({labels.row_names[row]!r})"
    label_name = "" if labels.label_names is None else f" ({labels.label_names[label]!r})"
    return f"row {row}{row_name}, label {label}{label_name}"


N_RESAMPLES = 25
# The fraction of distinct rows in a bootstrap sample, 1 − 1/e.
FRACTION = 0.632
# Entries to be swept in all. A sample with more than a few parts of it needs no steadying.
_MOST_ENTRIES, _FEWEST_PARTS = 1_000_000, 5


def steady_threshold(
    scores: Any, labels: ObservedLabels, metric: str | LinearFractional, random_state: Any = 0
) -> float:
    """The mean of the exact best thresholds over random parts of the rows.

    Each part has about 63 % of the rows. Where most parts have an infinite best threshold, and beyond 200,000
    entries, it is the best threshold of the whole.

    Parameters
    ----------
    scores : array of the length of Ω, or torch tensor
        A score for each observed entry, in its order. Many scores of a tensor stay on its device.
    labels : ObservedLabels
    metric : str or LinearFractional
    random_state : int, RandomState or None, default 0
        Draws the parts.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 0], [1, 0], [1, 0], [1, 0], [0, 0]])
    >>> scores = np.array([2.0, -1.0, 3.0, -2.0, 2.5, -3.0, 2.0, -1.0, 0.0, -1.0])
    >>> 0.0 < steady_threshold(scores, labels, "micro-f1") <= 2.0
    True
    """
    psi = get_metric(metric)
    whole = best_threshold(scores, labels, psi).threshold
    n_parts = min(N_RESAMPLES, _MOST_ENTRIES // max(labels.n_observed, 1))
    rng = check_random_state(random_state)
    if n_parts < _FEWEST_PARTS or not np.isfinite(whole):
        return whole
    # So few are swept in no time, and each part would have to be sent to a device again.
    scores = to_host(scores)
    parts = (rng.random_sample(labels.shape[0]) < FRACTION for _ in range(n_parts))
    is_plain = psi.average == "micro" and labels.weights is None and labels.judging is None
    found = list((_of_sorted if is_plain else _one_by_one)(scores, labels, psi, parts))
    finite = [threshold for threshold in found if np.isfinite(threshold)]
    return float(np.mean(finite)) if 2 * len(finite) > len(found) else whole


def _one_by_one(
    scores: NDArray[Any], labels: ObservedLabels, psi: LinearFractional, parts: Iterable[NDArray[np.bool_]]
) -> Iterator[float]:
    """The best threshold of each part of the rows that has an entry."""
    for part in parts:
        kept = part[labels.rows]
        if kept.any():
            yield best_threshold(scores[kept], labels.select(kept), psi).threshold


def _of_sorted(
    scores: NDArray[Any], labels: ObservedLabels, psi: LinearFractional, parts: Iterable[NDArray[np.bool_]]
) -> Iterator[float]:
    """The same for a micro average of entries of weight 1, whose scores are sorted once for all parts."""
    scores, rows, positive = as_float_scores(scores), labels.rows, labels.values == 1
    orders = (entries[np.argsort(scores[entries])] for entries in map(np.flatnonzero, (positive, ~positive)))
    classes = [(read_only(scores[order], np.float64), rows[order]) for order in orders]
    for part in parts:
        positives, negatives = (ascending[part[rows_of]] for ascending, rows_of in classes)
        total = len(positives) + len(negatives)
        if not total:
            continue
        factors = _class_factors(len(positives), total) if psi.balanced else np.ones(4)
        above, below, _, _ = kernels.sweep.sweep_two_classes(
            read_only(positives, np.float64),
            read_only(negatives, np.float64),
            psi.vertex_numerator * factors,
            psi.vertex_denominator * factors,
            float(psi.zero_division),
            np.empty(0),
            np.empty(0),
        )
        yield float(between(_one(above, scores), _one(below, scores))[0])
