"""Observed labels that are probably wrong, found by models that did not see them.

Where a yes is recorded as a no with probability ``e₁`` and a no as a yes with probability ``e₀``
(class-conditional noise), the probability of a recorded yes is ``p = e₀ + (1 − e₀ − e₁) η`` with η that of a
true yes, and

    ``P(wrong | recorded yes) = e₀ (1 − η) / p``,   ``P(wrong | recorded no) = e₁ η / (1 − p)``.

With ``e₀ = e₁`` the order of these is that of the self-confidence, the out-of-fold probability of the label
that was recorded. Since ``e₀ ≤ p ≤ 1 − e₁``, the entries with the lowest and the highest p bound the rates.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from labelgap._types import Floats
from labelgap.estimators.base import DecisionEstimator
from labelgap.estimators.inputs import is_vector
from labelgap.estimators.low_rank import LowRankClassifier
from labelgap.exceptions import InterruptedFitWarning, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import meaning_of_silence
from labelgap.solvers.loop import Callback

# The part of the entries, and their least number, that an end of the probabilities has.
_FRACTION, _FEWEST = 0.05, 50


class NoiseRates(NamedTuple):
    """How often a label is recorded wrongly."""

    no_to_yes: float
    """e₀, the fraction of the true no that are recorded as a yes."""
    yes_to_no: float
    """e₁, the fraction of the true yes that are recorded as a no."""


@dataclass(frozen=True)
class LabelErrors:
    """Observed entries, those that are most likely wrong first.

    Parameters
    ----------
    rows, labels : arrays of numbers
        Row and label of each entry.
    recorded : array of 0 and 1
        What was recorded.
    probability : array
        The out-of-fold probability of a recorded yes.
    wrong : array
        What the list is ordered by: the probability that the entry is wrong where rates were given, and else
        one minus the self-confidence.
    flip_rates : NoiseRates
        As given, or upper bounds that were estimated.
    expected : int
        How many of the entries are wrong by these rates; at most that many, where they are estimates.
    row_names, label_names : tuples or None
    """

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    recorded: NDArray[np.int8]
    probability: Floats
    wrong: Floats
    flip_rates: NoiseRates
    expected: int
    row_names: tuple[Hashable, ...] | None = None
    label_names: tuple[Hashable, ...] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def to_pandas(self, n: int | None = None) -> Any:
        """The first n entries (None: as many as are ``expected`` to be wrong) as a pandas frame."""
        import pandas

        here = slice(0, self.expected if n is None else n)
        rows, labels = self.rows[here].tolist(), self.labels[here].tolist()
        return pandas.DataFrame(
            {
                "row": rows if self.row_names is None else [self.row_names[row] for row in rows],
                "label": labels if self.label_names is None else [self.label_names[one] for one in labels],
                "recorded": self.recorded[here],
                "probability": self.probability[here],
                "wrong": self.wrong[here],
            }
        )


def find_label_errors(
    X: Any,
    y: Any,
    estimator: Any = None,
    *,
    flip_rates: Any = None,
    sample_weight: Any = None,
    callback: Callback | None = None,
    other_labels: bool = True,
) -> LabelErrors:
    """Order the observed labels by how likely they are to be wrong.

    Every observed entry is scored by a model that was fitted without it, in the folds that choose the
    threshold. Ctrl-C ends it without a list. A ``LowRankClassifier`` then scores it by the other observed
    labels of its row too, as :meth:`~labelgap.LowRankClassifier.complete` does: by XW + N, where rows have
    parameters N of their own. The penalty of N is the one with the least held-out loss; N = 0 is among them.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
    y : label matrix of shape (n, L) in any form that ``ObservedLabels.from_any`` takes, NaN = not observed
    estimator : LowRankClassifier, PlugInClassifier or MetricThreshold, default None
        None stands for ``LowRankClassifier(random_state=0)``. A clone of it is fitted, with all five folds.
        It must have ``predict_proba`` and ``threshold="cross-fit"``.
    flip_rates : pair (no_to_yes, yes_to_no), or None
        How often a no is recorded as a yes, and a yes as a no. None estimates bounds of both, and orders by
        the self-confidence.
    sample_weight : array of shape (n,), or None
    callback : callable, or None
        Told about the progress of the fit, as in ``LowRankClassifier.fit``; for that estimator only.
    other_labels : bool, default True
        False scores entries by the features of their row alone. Other estimators, and fits to which
        ``complete`` does not apply, always do.

    Examples
    --------
    >>> from labelgap.data import make_low_rank_labels
    >>> from labelgap.flip_rates.label_errors import find_label_errors
    >>> problem = make_low_rank_labels(n=200, n_labels=10, observed=0.5, random_state=0)
    >>> Y = problem.Y_observed.copy()
    >>> Y[3] = 1 - Y[3]
    >>> found = find_label_errors(problem.X, Y, LowRankClassifier(trace_penalty=0.01, random_state=0))
    >>> 3 in found.rows[:6]
    True
    """
    model = clone(LowRankClassifier(random_state=0) if estimator is None else estimator)
    if not isinstance(model, DecisionEstimator) or not hasattr(model, "predict_proba"):
        raise InvalidParameterError(
            "The estimator must be a LowRankClassifier, PlugInClassifier or MetricThreshold with "
            f"probabilities; got {type(model).__name__}. Put another classifier into "
            "MetricThreshold(classifier)."
        )
    if (
        getattr(model, "threshold", None) != "cross-fit"
        or meaning_of_silence(y, model.get_params().get("unobserved")) == "unlabelled"
    ):
        raise InvalidParameterError(
            "Wrong labels are found by models that did not see them: the estimator needs "
            "threshold='cross-fit', and labels of which both a yes and a no are recorded."
        )
    if callback is not None and not isinstance(model, LowRankClassifier):
        raise InvalidParameterError(
            f"callback is for a LowRankClassifier, and a {type(model).__name__} calls none. Leave it out."
        )
    if not isinstance(other_labels, bool):
        raise InvalidParameterError(f"other_labels must be True or False; got {other_labels!r}.")
    given = None if flip_rates is None else _checked(flip_rates)
    model._wants_held_out = True
    more = {} if callback is None else {"callback": callback}
    with warnings.catch_warnings():
        # It says that the model can be used, and there is no use for it here.
        warnings.simplefilter("ignore", InterruptedFitWarning)
        model.fit(X, y, sample_weight=sample_weight, **more)
    if getattr(model, "interrupted_", False):
        raise KeyboardInterrupt("The fit was stopped before all labels were judged.")
    held_out = model._held_out
    if held_out.scores is None or held_out.labels is None:
        raise InvalidParameterError("Too few labels are observed to hold any out, so none can be judged.")
    labels, scores = held_out.labels, held_out.scores
    if other_labels and isinstance(model, LowRankClassifier):
        by_rows = model._held_out_by_rows(X, y, sample_weight)
        if by_rows is not None:
            labels, scores = by_rows.held, by_rows.scores
    p = np.clip(model._final_probabilities(scores), 0.0, 1.0)
    yes = labels.values == 1
    rates = estimate_noise_rates(p, yes, labels.weights) if given is None else given
    posterior = wrong_probability(p, yes, rates)
    wrong = np.where(yes, 1 - p, p) if given is None else posterior
    order = np.argsort(-wrong, kind="stable")
    rows = labels.rows
    if sample_weight is not None:
        # Rows of weight 0 were left out.
        rows = np.flatnonzero(np.asarray(sample_weight, dtype=np.float64) > 0)[rows]
    return LabelErrors(
        rows[order],
        labels.indices[order].astype(np.int64),
        labels.values[order].astype(np.int8),
        p[order],
        wrong[order],
        rates,
        round(float(posterior.sum())),
        None if is_vector(y) else ObservedLabels.from_any(y).row_names,
        labels.label_names,
    )


def estimate_noise_rates(p: Floats, yes: NDArray[np.bool_], weights: Floats | None = None) -> NoiseRates:
    """Upper bounds of the two rates, from out-of-fold probabilities of a recorded yes and what was recorded.

    They are the fraction of recorded yes among the 5 % of the entries with the lowest p, and that of recorded
    no among the 5 % with the highest (50 entries at least). What is true there is known as well as the model
    can tell it, so what was recorded otherwise is an error, or an entry that the model cannot tell.

    Examples
    --------
    >>> p = np.repeat([0.1, 0.5, 0.9], 100)
    >>> estimate_noise_rates(p, np.arange(300) % 10 == 0)
    NoiseRates(no_to_yes=0.1, yes_to_no=0.9)
    """
    w = np.ones(len(p)) if weights is None else weights
    count = min(max(_FEWEST, round(_FRACTION * len(p))), len(p))
    order = np.argsort(p, kind="stable")
    # Entries with the same p go together.
    low, high = p <= p[order[count - 1]], p >= p[order[-count]]
    return NoiseRates(
        float(np.average(yes[low], weights=w[low])), float(np.average(~yes[high], weights=w[high]))
    )


def wrong_probability(p: Floats, yes: NDArray[np.bool_], rates: NoiseRates) -> Floats:
    """The probability that each label is wrong, from that of a recorded yes and the rates.

    Examples
    --------
    >>> wrong_probability(np.array([0.1, 0.9]), np.array([True, True]), NoiseRates(0.1, 0.1)).round(3)
    array([1., 0.])
    """
    e0, e1 = rates
    spread = 1 - e0 - e1
    if spread <= 0:
        # More is wrong than right: what was recorded says nothing.
        return np.full(len(p), 0.5)
    eta = np.clip((p - e0) / spread, 0.0, 1.0)
    recorded = np.where(yes, e0 + spread * eta, 1 - e0 - spread * eta)
    other = np.where(yes, e0 * (1 - eta), e1 * eta)
    return np.divide(other, recorded, out=np.zeros(len(p)), where=recorded > 0)


def _checked(flip_rates: Any) -> NoiseRates:
    try:
        rates = NoiseRates(*(float(rate) for rate in flip_rates))
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(
            f"flip_rates is a pair of numbers, (no_to_yes, yes_to_no), or None; got {flip_rates!r}."
        ) from error
    if not (min(rates) >= 0 and sum(rates) < 1):
        raise InvalidParameterError(
            f"flip_rates are at least 0, and their sum is below 1; got {tuple(rates)}. With more, the labels "
            "would say the opposite of the truth."
        )
    return rates
