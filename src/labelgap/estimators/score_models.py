"""Scores for every label from scikit-learn classifiers, and the threshold from scores of entries not seen.

A score model is fitted to observed labels and scores whole rows or single entries. Four kinds: one classifier
per label on that label's observed entries, one classifier on rows of complete labels, one of labelgap's own
estimators, which read observed labels themselves, and scores that are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.utils import _safe_indexing as take_rows
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.exceptions import InvalidParameterError, LabelgapWarning
from labelgap.fitting.judges import DecisionRule
from labelgap.labels import ObservedLabels
from labelgap.objective.moments import smoothed_rates
from labelgap.persistence.registry import savable_record
from labelgap.thresholds.choosing import ChosenThresholds
from labelgap.thresholds.cross_fit import HeldOutScores, OneClassEffect, gather, map_folds
from labelgap.thresholds.sweep import best_threshold

# Scores held at one time when rows are scored for the sake of some entries.
_BLOCK_SCORES = 1 << 22


class ScoreModel(Protocol):
    """Something fitted that scores rows and entries."""

    def score_rows(self, X: Any) -> Floats:
        """Scores of all labels (n x L)."""
        ...

    def score_entries(self, X: Any, labels: ObservedLabels) -> Floats:
        """Scores at the entries of ``labels``, whose rows are those of X."""
        ...


AnyModel = TypeVar("AnyModel", bound=ScoreModel)


@savable_record("label_models")
@dataclass(frozen=True)
class LabelModels:
    """One classifier per label; a label without two observed classes has a constant score."""

    estimators: list[Any]
    """None for a label with a constant score."""
    constants: Floats
    """The constant score of each label, read only where there is no estimator."""
    method: str
    """"predict_proba" or "decision_function"."""

    def score_rows(self, X: Any) -> Floats:
        scores = np.empty((_n_rows(X), len(self.estimators)))
        scores[:] = self.constants
        for label, estimator in enumerate(self.estimators):
            if estimator is not None:
                scores[:, label] = yes_scores(estimator, X, self.method)
        return scores

    def score_entries(self, X: Any, labels: ObservedLabels) -> Floats:
        scores: Floats = self.constants[labels.indices]
        for label, entries in entries_by_label(labels):
            estimator = self.estimators[label]
            if len(entries) and estimator is not None:
                scores[entries] = yes_scores(estimator, _rows_of(X, labels.rows[entries]), self.method)
        return scores


@savable_record("row_model")
@dataclass(frozen=True)
class RowModel:
    """One classifier that takes a matrix of complete labels; labels with one class have a constant score."""

    estimator: Any
    columns: NDArray[np.int64]
    """The labels that the classifier was given, in order."""
    constants: Floats
    method: str

    def score_rows(self, X: Any) -> Floats:
        given = getattr(self.estimator, self.method)(X)
        if isinstance(given, list):
            given = np.column_stack([np.asarray(part)[:, 1] for part in given])
        scores = np.empty((len(given), len(self.constants)))
        scores[:] = self.constants
        scores[:, self.columns] = given
        return scores

    def score_entries(self, X: Any, labels: ObservedLabels) -> Floats:
        return entries_from_rows(self.score_rows, X, labels)


@savable_record("direct_model")
@dataclass(frozen=True)
class DirectModel:
    """An estimator that reads observed labels itself and scores by ``decision_function``."""

    estimator: Any

    def score_rows(self, X: Any) -> Floats:
        return np.asarray(self.estimator.decision_function(X))

    def score_entries(self, X: Any, labels: ObservedLabels) -> Floats:
        return entries_from_rows(self.score_rows, X, labels)


@savable_record("given_scores")
@dataclass(frozen=True)
class GivenScores:
    """X itself is the matrix of scores."""

    def score_rows(self, X: Any) -> Floats:
        return np.asarray(X)

    def score_entries(self, X: Any, labels: ObservedLabels) -> Floats:
        return labels.align(X)


# -- fitting -------------------------------------------------------------------------------------------


def fit_label_models(
    estimator: Any, X: Any, labels: ObservedLabels, seeds: NDArray[Any], method: str, n_jobs: int | None
) -> LabelModels:
    """A clone of ``estimator`` per label, fitted to that label's observed entries.

    ``seeds`` has one number per label, for the random states that the estimator leaves open.
    """
    check_takes_weights(estimator, labels)
    rates, informative = smoothed_rates(labels)

    def task(label: int, entries: NDArray[np.int64]) -> Any:
        weights = None if labels.weights is None else labels.weights[entries]
        values = labels.values[entries].astype(np.int64)
        return delayed(_fit_one)(
            estimator, X, labels.rows[entries], values, weights, int(seeds[label]), informative[label]
        )

    # One BLAS thread, here as in joblib's workers, so that sums do not depend on the number of jobs.
    with threadpool_limits(limits=1, user_api="blas"):
        fitted = Parallel(n_jobs=n_jobs)(task(label, entries) for label, entries in entries_by_label(labels))
    return LabelModels(list(fitted), _constants(rates, method), method)


def _fit_one(
    estimator: Any,
    X: Any,
    rows: NDArray[np.int64],
    values: NDArray[np.int64],
    weights: Floats | None,
    seed: int,
    informative: bool,
) -> Any:
    if not informative:
        return None
    settings = {} if weights is None else {"sample_weight": weights}
    return clone_with_seed(estimator, seed).fit(_rows_of(X, rows), values, **settings)


def fit_row_model(
    estimator: Any, X: Any, labels: ObservedLabels, seeds: NDArray[Any], method: str
) -> RowModel | None:
    """``estimator`` on the rows that are observed, each wholly; None if fewer than two labels vary there."""
    rates, informative = smoothed_rates(labels)
    columns = np.flatnonzero(informative)
    if len(columns) < 2:
        return None
    rows = np.flatnonzero(labels.row_counts())
    # scikit-learn's multi-label classifiers each have their own idea of a column with one class (an error, a
    # warning, a probability array of another shape), so they never see one.
    values = labels.values.reshape(len(rows), labels.shape[1])[:, columns].astype(np.int64)
    weights = weights_of_rows(labels)
    settings = {} if weights is None else {"sample_weight": weights}
    fitted = clone_with_seed(estimator, int(seeds[0])).fit(_rows_of(X, rows), values, **settings)
    return RowModel(fitted, columns, _constants(rates, method), method)


def takes_label_matrix(estimator: Any) -> bool:
    """Whether a scikit-learn classifier can be fitted to a 2-d indicator matrix."""
    tags = get_tags(estimator)
    multi_label = tags.classifier_tags is not None and tags.classifier_tags.multi_label
    return bool(multi_label or tags.target_tags.multi_output)


def weights_of_rows(labels: ObservedLabels) -> Floats | None:
    """The weight of each row that is observed, each wholly; None where they differ within it."""
    if labels.weights is None:
        return None
    weights = labels.weights.reshape(-1, labels.shape[1])
    return weights[:, 0].copy() if bool(np.all(weights == weights[:, :1])) else None


def takes_weights(estimator: Any) -> bool:
    """Whether ``fit`` takes a ``sample_weight``, by its signature or by scikit-learn's metadata routing."""
    if has_fit_parameter(estimator, "sample_weight"):
        return True
    if not get_config()["enable_metadata_routing"]:
        return False
    return bool(get_routing_for_object(estimator).consumes("fit", ["sample_weight"]))


def check_takes_weights(estimator: Any, labels: ObservedLabels) -> None:
    """Raise if the labels have weights that the estimator could not use."""
    if labels.weights is not None and not takes_weights(estimator):
        raise InvalidParameterError(
            f"The labels have weights, but {type(estimator).__name__}.fit takes no sample_weight. Choose an "
            "estimator that does (in place of a pipeline, its last step with transformed features, or enable "
            "scikit-learn's metadata routing and request it there), or drop the weights with "
            "labels.with_weights(None)."
        )


def clone_with_seed(estimator: Any, seed: int) -> Any:
    """A clone whose open random states (those that are None) are set from ``seed``."""
    copy = clone(estimator)
    random_states = {
        name: seed
        for name, value in copy.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    }
    return copy.set_params(**random_states) if random_states else copy


def draw_seeds(rng: np.random.RandomState, count: int) -> NDArray[Any]:
    """One seed per label, drawn before any work is distributed so that ``n_jobs`` changes nothing."""
    return rng.randint(np.iinfo(np.int32).max, size=max(count, 1))


def _constants(rates: Floats, method: str) -> Floats:
    # A decision function has its boundary at 0, where the odds are even.
    return rates if method == "predict_proba" else np.log(rates) - np.log1p(-rates)


# -- scoring -------------------------------------------------------------------------------------------


def yes_scores(estimator: Any, X: Any, method: str) -> Floats:
    """One score per row from a fitted binary classifier."""
    scores = np.asarray(getattr(estimator, method)(X))
    return scores[:, 1] if method == "predict_proba" else scores.reshape(-1)


def entries_from_rows(
    score_rows: Callable[[Any], Floats], X: Any, labels: ObservedLabels
) -> NDArray[np.float64]:
    """Scores at the entries, from whole rows in blocks, so that no n x L matrix is made."""
    scores = np.empty(labels.n_observed)
    rows = np.flatnonzero(labels.row_counts())
    step = max(1, _BLOCK_SCORES // max(labels.shape[1], 1))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        first, last = labels.indptr[block[0]], labels.indptr[block[-1] + 1]
        # Position within the block: rows without entries are not scored.
        places = np.repeat(np.arange(len(block)), np.diff(labels.indptr)[block])
        scores[first:last] = score_rows(_rows_of(X, block))[places, labels.indices[first:last]]
    return scores


def entries_by_label(labels: ObservedLabels) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """For each label the numbers of its entries, rows ascending."""
    order = np.argsort(labels.indices, kind="stable")
    ends = np.cumsum(labels.label_counts())
    for label, end in enumerate(ends.tolist()):
        yield label, order[(ends[label - 1] if label else 0) : end]


def _n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _rows_of(X: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of X (array, sparse matrix, frame or list); X itself, not a copy, when they are all."""
    return X if len(rows) == _n_rows(X) else take_rows(X, rows)


# -- choosing ------------------------------------------------------------------------------------------


def fit_and_choose(
    fit: Callable[[ObservedLabels], AnyModel],
    X: Any,
    labels: ObservedLabels,
    rule: DecisionRule,
    plan: NDArray[np.int64],
    effect: OneClassEffect,
    fold_jobs: int | None = 1,
    held_out: HeldOutScores | None = None,
) -> tuple[AnyModel, ChosenThresholds, float]:
    """The model fitted to all labels, and the thresholds from scores of held-out entries with their metric.

    Where nothing is held out they come from training scores.

    ``plan`` gives the fold in which each entry is held out, as ``hold_out_plan`` makes it. ``effect`` sees
    the scores that choose θ, and ``held_out`` keeps them if they are held-out ones. ``fold_jobs`` folds run
    side by side in threads; leave it at 1 where ``fit`` itself runs in parallel.
    """

    def score_held_out(_: int, train: ObservedLabels, held_out: ObservedLabels) -> Floats:
        return fit(train).score_entries(X, held_out)

    held, scores = gather(plan, map_folds(labels, plan, score_held_out, n_jobs=fold_jobs))
    model = fit(labels)
    seen = labels
    if held.any():
        seen = labels.select(held)
        if held_out is not None:
            held_out.see(scores, seen)
    else:
        scores = model.score_entries(X, labels)
    effect.see(scores, seen)
    return model, *choose_by_rule(rule, scores, seen)


def choose_by_rule(
    rule: DecisionRule, scores: Floats, labels: ObservedLabels
) -> tuple[ChosenThresholds, float]:
    """The thresholds for these scores, and the metric that they reach on them."""
    if rule.is_plain:
        best = best_threshold(scores, labels, rule.metric)
        return ChosenThresholds(
            best.threshold, np.full(labels.shape[1], best.threshold), "shared"
        ), best.value
    chosen = rule.choose(scores, labels)
    own = chosen.thresholds.astype(scores.dtype)[labels.indices]
    return chosen, rule.metric(labels, scores >= own)


def warn_of_training_scores(labels: ObservedLabels) -> None:
    """Say that the threshold is taken from training scores although held-out ones were asked for."""
    positives = int(np.count_nonzero(labels.values))
    warn(
        f"Only {labels.n_observed} labels are observed ({positives} positive), too few to hold any out: the "
        "threshold comes from training scores, which are optimistic. Observe more labels, or pass "
        "threshold='train' to say that this is meant.",
        LabelgapWarning,
    )
