"""The scores of a fitted model at the entries that it is judged on; nothing of size n x L is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted

from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.confidence.calibration import IsotonicMap
from labelgap.estimators.base import DecisionEstimator
from labelgap.estimators.deciding import relative_scores
from labelgap.estimators.inputs import read_judged_labels, read_targets
from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError
from labelgap.fitting.unlabelled import judged_entries
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import UNOBSERVED
from labelgap.metrics import LinearFractional
from labelgap.metrics.linear_fractional import judged_labels
from labelgap.recommending.serving import Recommending
from labelgap.report.innermost import innermost

RESPONSES = ("auto", "predict_proba", "decision_function")
# The largest number of entries on which a model of recorded positives is judged; beyond it a sample of the
# others stands for all.
_MOST_ENTRIES = 1_000_000


Record = TypeVar("Record")


@dataclass(frozen=True)
class ScoredEntries:
    """Labels, the score of each observed entry, and what the model would do with them."""

    labels: ObservedLabels
    scores: Floats
    threshold: float
    """θ, on the scale of the scores."""
    metric: LinearFractional
    are_probabilities: bool
    flip_rates: Floats | None = None
    """Under "unlabelled" one ρ per entry; the labels are then recorded (1) and other entries (0)."""


def is_model(thing: Any) -> bool:
    """Whether it is an estimator, rather than numbers."""
    return hasattr(thing, "fit") and hasattr(thing, "get_params")


def records_of(kind: type[Record], given: Any, from_model: str) -> tuple[Record, ...]:
    """Records of this kind as a tuple, or an error that says where a model has them."""
    try:
        records = tuple(given)
    except TypeError:
        records = (given,)
    others = [type(one).__name__ for one in records if not isinstance(one, kind)]
    if others:
        raise InvalidParameterError(
            f"This draws a fitted model, or {kind.__name__} objects, and was given {others[0]}. Pass the "
            f"model itself, or its {from_model}."
        )
    return records


def scored_entries(
    model: Any, X: Any, y: Any, *, unobserved: str | None = None, response: str = "auto"
) -> ScoredEntries:
    """Scores of a fitted labelgap estimator, alone, at the end of a pipeline or in a finished search.

    Parameters
    ----------
    model : LowRankClassifier, PlugInClassifier, MetricThreshold or Recommender
    X : features; ratings for a Recommender
    y : labels; None for a Recommender
    unobserved : str or None, default None
        What an absent entry means; None: as in the fit.
    response : {"auto", "predict_proba", "decision_function"}, default "auto"
        The scale of the scores; "auto" is probabilities where the model has them, and they can tell θ from
        its neighbours.
    """
    check_choice("response_method", response, RESPONSES)
    model, found = _entries(model, X, y, unobserved)
    if response == "predict_proba":
        _require_probabilities(model, "; choose response_method='decision_function'")
        if _has_several(model):
            raise InvalidParameterError(
                "The labels have thresholds of their own, so scores are shown relative to these and not as "
                "probabilities; leave response_method at 'auto'."
            )
        return _as_probabilities(model, found)
    if response == "auto" and hasattr(model, "predict_proba") and _probabilities_tell_apart(model):
        return _as_probabilities(model, found)
    scores, threshold = relative_scores(model, found.scores, found.labels.indices)
    return replace(found, scores=scores, threshold=threshold)


def entry_probabilities(model: Any, X: Any, y: Any, *, unobserved: str | None = None) -> ScoredEntries:
    """As :func:`scored_entries`, with the probabilities of ``predict_proba``, whatever the thresholds are."""
    model, found = _entries(model, X, y, unobserved)
    _require_probabilities(model, ". Fit it with calibration='sigmoid', which makes some of its scores")
    return _as_probabilities(model, found)


def _entries(model: Any, X: Any, y: Any, unobserved: str | None) -> tuple[Any, ScoredEntries]:
    """The estimator inside, and its scores."""
    if unobserved is not None:
        check_choice("unobserved", unobserved, UNOBSERVED)
    model, X, _ = innermost(model, X)
    if isinstance(model, Recommending):
        return model, _of_ratings(model, X, y, unobserved)
    if isinstance(model, DecisionEstimator):
        return model, _of_rows(model, X, y, unobserved)
    raise InvalidInputError(
        f"{type(model).__name__} is not an estimator of labelgap that decides yes or no. Give its scores "
        "and the labels instead, or put it into a MetricThreshold."
    )


def _require_probabilities(model: Any, advice: str) -> None:
    if not hasattr(model, "predict_proba"):
        raise InvalidParameterError(f"This {type(model).__name__} has no probabilities{advice}.")


def _as_probabilities(model: Any, found: ScoredEntries) -> ScoredEntries:
    inverse = model._final_probabilities if isinstance(model, DecisionEstimator) else model._probability
    return replace(
        found,
        scores=np.asarray(inverse(found.scores)),
        threshold=model.threshold_probability_,
        are_probabilities=True,
    )


def _probabilities_tell_apart(model: Any) -> bool:
    """Whether probabilities tell θ from its neighbours, and one of them is the threshold of all labels."""
    by_steps = isinstance(getattr(model, "_calibrator", None), IsotonicMap)
    return not (_has_several(model) or by_steps or _is_clipped(model))


def _has_several(model: Any) -> bool:
    """Whether labels have thresholds of their own."""
    return isinstance(model, DecisionEstimator) and not isinstance(model._cut(), float)


def _is_clipped(model: Any) -> bool:
    """Whether θ, a number, lies where every score has the probability 0 or 1, as with the squared losses."""
    return bool(np.isfinite(model.threshold_)) and model.threshold_probability_ in (0.0, 1.0)


def labels_and_scores(y: Any, scores: Any) -> tuple[ObservedLabels, Any]:
    """Labels to judge by, and scores that go with them; a 1-d y is one label, with a score for each row."""
    labels = judged_labels(read_targets(y, "missing").labels)
    if not sp.issparse(scores) and np.ndim(scores) == 1 and labels.shape == (len(scores), 1):
        scores = np.asarray(scores).reshape(-1, 1)
    return labels, scores


def require_both_classes(labels: ObservedLabels, what: str) -> None:
    """Raise unless a yes and a no are observed."""
    positive = int(np.count_nonzero(labels.values))
    if 0 < positive < labels.n_observed:
        return
    value = "yes" if positive else "no"
    raise InvalidLabelsError(
        f"Every one of the {labels.n_observed} observed labels is a {value}, and {what} needs both a yes "
        "and a no. Judge by labels with both."
    )


def _of_rows(model: DecisionEstimator, X: Any, y: Any, unobserved: str | None) -> ScoredEntries:
    check_is_fitted(model)
    if y is None:
        raise InvalidLabelsError(
            f"A {type(model).__name__} is judged on rows X and their labels y; y is None."
        )
    X = model._read_features(X, reset=False)
    labels = read_judged_labels(model, y, _num_samples(X), unobserved or model._unobserved)
    labels.require_observed()
    rates = None
    if labels.unobserved == "unlabelled":
        if not hasattr(model, "flip_rate_"):
            raise InvalidParameterError(
                "Labels with unobserved='unlabelled' say nothing about no, and this estimator was not fitted "
                "to such. Judge by labels with known negatives."
            )
        # A sample that is the same every time: a picture that is drawn again should not change.
        labels = judged_entries(labels, _MOST_ENTRIES, check_random_state(0))
        rates = np.broadcast_to(model.flip_rate_, (model.n_labels_,))[labels.indices]
    scores = model._score_entries(X, labels)
    return ScoredEntries(labels, scores, model.threshold_, model.metric_, False, rates)


def _of_ratings(model: Recommending, ratings: Any, y: Any, unobserved: str | None) -> ScoredEntries:
    model._require_fit()
    if y is not None:
        raise InvalidInputError("A Recommender is judged on ratings alone; leave y out.")
    how = unobserved or model._silence
    if how != "missing":
        raise InvalidParameterError(
            f"With unobserved={how!r} a Recommender is judged on every pair of a user and an item, which is "
            "not drawn. Give likes and dislikes, and unobserved='missing'."
        )
    labels = model._read_ratings(ratings, how)
    users, items = labels.row_names or (), labels.label_names or ()
    scores = model.decision_function(
        [users[row] for row in labels.rows.tolist()], [items[column] for column in labels.cols.tolist()]
    )
    return ScoredEntries(labels, np.asarray(scores), model.threshold_, model.metric_, False)
