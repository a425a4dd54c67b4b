"""How many thresholds: one for all labels, one per label, or something in between, by a held-out metric.

Thresholds that are judged on the entries that they were chosen on look better the more of them there are. So
the choices are compared by cross-fitting: the thresholds of each fold of rows come from the other folds, and
the metric is that of all decisions made so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from labelgap._arrays import to_host
from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.labels.splitting import used_rows
from labelgap.metrics import LinearFractional, get_metric
from labelgap.metrics.jackknife import leave_out_values, standard_error
from labelgap.metrics.linear_fractional import judged_labels
from labelgap.thresholds.per_label import LabelSearch
from labelgap.thresholds.shrunk import (
    STRENGTHS,
    USUAL_STRENGTH,
    mean_label_thresholds,
    rarer_counts,
    shrink,
)
from labelgap.thresholds.sweep import ScoreArray, as_float_scores, best_threshold, refuse_nan

THRESHOLD_KINDS = ("shared", "per-label", "shrunk", "auto")
N_FOLDS = 5

SharedThreshold: TypeAlias = Callable[[ScoreArray, ObservedLabels], float]
"""From scores and their labels to the shared threshold."""


@dataclass(frozen=True)
class ChosenThresholds:
    """The thresholds of all labels, and how they were chosen.

    Parameters
    ----------
    shared : float
        The threshold for all labels together.
    thresholds : float64 array of length L
        That of each label.
    kind : {"shared", "per-label", "shrunk"}
        What they are.
    strength : float or None
        κ of "shrunk"; None otherwise.
    held_out_value : float or None
        The cross-fitted metric of this choice; None where nothing could be compared.
    leave_out : float64 array or None
        The same with one part of the rows left out at a time, which says how sure it is.

    Examples
    --------
    >>> from labelgap.thresholds import choose_thresholds
    >>> choose_thresholds([[0.9, 0.2]], [[1, 0]], "micro-f1", kind="shared").kind
    'shared'
    """

    shared: float
    thresholds: Floats
    kind: str
    strength: float | None = None
    held_out_value: float | None = None
    leave_out: Floats | None = field(default=None, repr=False, compare=False)


def choose_thresholds(
    scores: Any,
    labels: Any,
    metric: str | LinearFractional = "macro-f1",
    kind: str = "auto",
    *,
    shared: SharedThreshold | None = None,
    random_state: Any = 0,
) -> ChosenThresholds:
    """One threshold for all labels, one per label, or thresholds shrunk towards the shared one.

    Parameters
    ----------
    scores : n x L array or sparse matrix, or 1-d array with one score per observed entry
        Scores of entries that their model was not fitted to.
    labels : ObservedLabels or whatever it can be made from
    metric : str or LinearFractional, default "macro-f1"
        The metric Ψ and its average.
    kind : {"auto", "shared", "per-label", "shrunk"}, default "auto"
        "per-label" is :func:`best_label_thresholds`. "shrunk" takes
        ``θ_j = θ + m_j / (m_j + κ) · (θ̄_j − θ)`` with m_j observed entries of the label's rarer class, and
        takes another κ than 30 if its cross-fitted metric is better by more than a standard error. "auto"
        takes the better of "shared" and "shrunk" by the cross-fitted metric, and "per-label" if that is
        ahead of it by more than a standard error.
    shared : function from scores and labels to a threshold, default None
        How the shared threshold is found; None is :func:`best_threshold`.
    random_state : int, RandomState or None, default 0
        Deals the rows to folds and draws the parts that thresholds are means over.

    Returns
    -------
    ChosenThresholds

    Examples
    --------
    >>> import numpy as np
    >>> from labelgap.thresholds import choose_thresholds
    >>> rng = np.random.RandomState(0)
    >>> labels = rng.uniform(size=(200, 2)) < 0.5
    >>> scores = rng.standard_normal((200, 2)) + 3 * labels + [0, 4]
    >>> chosen = choose_thresholds(scores, labels, "macro-f1")
    >>> chosen.kind != "shared", bool(chosen.thresholds[1] - chosen.thresholds[0] > 2)
    (True, True)
    """
    check_choice("kind", kind, THRESHOLD_KINDS)
    observed, psi = judged_labels(labels), get_metric(metric)
    entry_scores = as_float_scores(observed.align(to_host(scores), what="scores"))
    refuse_nan(entry_scores, observed)
    find = shared or (lambda some_scores, some: best_threshold(some_scores, some, psi).threshold)
    common = find(entry_scores, observed)
    alike = ChosenThresholds(common, np.full(observed.shape[1], common), "shared")
    if kind == "shared" or observed.shape[1] == 1:
        # One label has one threshold, whatever it is called.
        return alike
    rng = check_random_state(random_state)
    judged = _cross_fitted(entry_scores, observed, psi, kind, find, rng)
    best = _best_choice(judged, kind)
    of_others = (judged[best].value, judged[best].leave_out) if best in judged else (None, None)
    if best == "shared":
        return ChosenThresholds(common, alike.thresholds, "shared", None, *of_others)
    wanted = _candidates(entry_scores, observed, psi, [best], common, rng)[best]
    if best == "per-label":
        return ChosenThresholds(common, wanted, best, None, *of_others)
    return ChosenThresholds(common, wanted, "shrunk", float(best), *of_others)


Choice: TypeAlias = str | float
"""A kind of thresholds, or for "shrunk" its κ."""


def _choices(kind: str) -> list[Choice]:
    """What a kind chooses from."""
    if kind == "per-label":
        return ["per-label"]
    return [*STRENGTHS] if kind == "shrunk" else ["shared", *STRENGTHS, "per-label"]


def _candidates(
    scores: ScoreArray,
    labels: ObservedLabels,
    metric: LinearFractional,
    choices: list[Choice],
    shared: float,
    rng: np.random.RandomState,
) -> dict[Choice, Floats]:
    """The thresholds of each choice."""
    found: dict[Choice, Floats] = {"shared": np.full(labels.shape[1], shared)}
    search = LabelSearch(scores, labels, metric)
    if "per-label" in choices:
        exact = best_threshold(scores, labels, metric)
        found["per-label"] = search.best(exact.threshold, exact.value)
    strengths = [choice for choice in choices if isinstance(choice, float)]
    if strengths:
        own = mean_label_thresholds(search, scores, labels, metric, shared, rng)
        counts = rarer_counts(labels)
        found |= {strength: shrink(own, shared, counts, strength) for strength in strengths}
    return {choice: found[choice] for choice in choices}


@dataclass(frozen=True)
class _Judged:
    value: float
    leave_out: Floats | None


def _cross_fitted(
    scores: ScoreArray,
    labels: ObservedLabels,
    metric: LinearFractional,
    kind: str,
    find: SharedThreshold,
    rng: np.random.RandomState,
) -> dict[Choice, _Judged]:
    """The metric of each choice with thresholds from other rows; empty where there are too few rows."""
    choices = _choices(kind)
    used, row_of_entry = used_rows(labels.row_counts())
    if len(used) < 2 * N_FOLDS:
        return {}
    fold = (rng.permutation(len(used)) % N_FOLDS)[row_of_entry]
    decided = {choice: np.zeros(labels.n_observed, dtype=bool) for choice in choices}
    for number in range(N_FOLDS):
        held = fold == number
        train = labels.select(~held)
        seen = scores[~held]
        thresholds = _candidates(seen, train, metric, choices, find(seen, train), rng)
        where = labels.indices[held]
        for choice, found in thresholds.items():
            decided[choice][held] = scores[held] >= found.astype(scores.dtype)[where]
    return {
        choice: _Judged(metric(labels, yes), leave_out_values(metric, yes, labels))
        for choice, yes in decided.items()
    }


def _best_choice(judged: Mapping[Choice, _Judged], kind: str) -> Choice:
    """The best choice; another κ than the usual one, and a threshold of each label alone, must be well ahead.

    The differences between them are small beside their errors, and the mildest choice is rarely wrong.
    """
    if kind == "per-label":
        return "per-label"
    if not judged:
        return "shared" if kind == "auto" else USUAL_STRENGTH
    top = max(STRENGTHS, key=lambda strength: judged[strength].value)
    strength = next(one for one in STRENGTHS if not _is_well_ahead(judged[top], judged[one]))
    if kind == "shrunk":
        return strength
    best: Choice = strength if judged[strength].value > judged["shared"].value else "shared"
    return "per-label" if _is_well_ahead(judged["per-label"], judged[best]) else best


def _is_well_ahead(one: _Judged, other: _Judged) -> bool:
    """Whether it is better by more than a standard error of the difference."""
    known = one.leave_out is not None and other.leave_out is not None
    error = standard_error(one.leave_out, other.leave_out) if known else 0.0  # type: ignore[arg-type]
    return one.value - other.value > error
