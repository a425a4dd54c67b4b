"""What estimators share once they are fitted: the attributes of a certified fit, and decisions in blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from labelgap._arrays import like_input
from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.confidence.calibration import calibrate
from labelgap.confidence.conformal import ConformalScores
from labelgap.estimators.confidence import ConfidentDecisions
from labelgap.estimators.deciding import Deciding
from labelgap.estimators.features_given import read_features, refuse_misaligned
from labelgap.estimators.frames import FrameOutput
from labelgap.estimators.inputs import (
    OUTPUTS,
    Targets,
    check_between,
    rank_limit_of,
    read_judged_labels,
    read_targets,
    tolerance_of,
)
from labelgap.estimators.notebook import NotebookView
from labelgap.estimators.row_weights import weigh_rows
from labelgap.estimators.suggesting import Suggesting
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError, LabelgapWarning
from labelgap.fitting.chosen import ChosenFit
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import meaning_of_silence
from labelgap.metrics import LinearFractional, get_metric
from labelgap.metrics.jackknife import metric_error
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.persistence.saving import Saved
from labelgap.recommending.top_items import top_columns
from labelgap.thresholds.constraints import read_constraints
from labelgap.thresholds.cross_fit import HeldOutScores
from labelgap.thresholds.trivial import Trivial, warn_of_trivial_decisions

# Scores held at one time when all labels of many rows are scored.
_BLOCK_SCORES = 1 << 22


def keep_unless_default(model: Any, **attributes: Any) -> None:
    """Set fitted attributes; those that equal the class's own are left to it, and are not saved."""
    for name, value in attributes.items():
        # An earlier fit may have left one.
        model.__dict__.pop(name, None)
        if value != getattr(type(model), name):
            setattr(model, name, value)


class CertifiedFit(NotebookView):
    """Sets the attributes of a low-rank fit: its penalties, its duality gap, and what was compared."""

    _held_out_error: float | None

    def _keep_fit(self, chosen: ChosenFit) -> None:
        """Set the attributes that every low-rank fit has."""
        fit, penalties = chosen.fit, chosen.penalties
        self.trace_penalty_, self.ridge_penalty_ = penalties.trace, penalties.ridge
        self.intercept_penalty_ = penalties.intercept
        self.singular_values_, self.rank_ = fit.singular_values, fit.rank
        self.objective_, self.duality_gap_ = fit.objective, fit.gap
        self.relative_gap_ = fit.relative_gap
        self.n_iter_, self.history_ = fit.n_iter, fit.history
        self.candidates_ = chosen.candidates
        self.held_out_metric_ = chosen.held_out_metric
        # An earlier fit may have left one.
        self.__dict__.pop("_held_out_error", None)
        if chosen.held_out_error != self.held_out_error_:
            self._held_out_error = chosen.held_out_error

    @property
    def held_out_error_(self) -> float | None:
        """The standard error of ``held_out_metric_``, by a jackknife over the rows; None where not known.

        It is not known of a metric that no candidate was judged by, such as a corrected one.
        """
        # Only one that is not that of the last candidate is kept, so that models are saved as they were.
        if "_held_out_error" in self.__dict__:
            return self._held_out_error
        last = self.candidates_[-1] if self.candidates_ else None
        if last is None or last.metric_value != self.held_out_metric_:
            return None
        return metric_error(last.leave_out)

    @property
    def rank_limited_(self) -> bool:
        """Whether a limit of the rank kept the fit from the gap that ``tol`` asks for."""
        limit = rank_limit_of(self)
        return limit is not None and self.rank_ >= limit and self.relative_gap_ > tolerance_of(self)

    def _keep_decisions(self, chosen: ChosenFit) -> None:
        """Set those attributes, the threshold, and the flip rate of a positive-unlabelled fit."""
        self._keep_fit(chosen)
        self.threshold_ = chosen.threshold
        if chosen.flip_rates is None:
            # An earlier fit may have left a rate, which does not belong to these labels.
            for name in ("flip_rate_", "flip_rate_interval_"):
                self.__dict__.pop(name, None)
        else:
            self.flip_rate_ = chosen.flip_rates.value
            self.flip_rate_interval_ = chosen.flip_rates.interval
            self._label_flip_rates = chosen.flip_rates.by_label

    def _keep_weights(self, problem: Problem, factors: Factors) -> None:
        """Set W and b in the features that the map makes."""
        self.feature_scales_ = problem.feature_scales
        self.coef_left_, _, self.intercept_ = problem.to_original(factors)
        # With the scales that a label weighting gives the labels.
        self.coef_right_ = np.asarray(problem.right(factors.right))


class DecisionEstimator(
    Deciding,
    ConfidentDecisions,
    Suggesting,
    FrameOutput,
    NotebookView,
    Saved,
    BaseEstimator,  # type: ignore[misc]
):
    """Scores, decisions, and the metric over observed entries.

    A subclass fits, sets ``threshold_``, and says how rows are scored. scikit-learn's ``is_classifier`` is
    false for it on purpose: for a classifier, ``GridSearchCV`` and ``cross_val_score`` stratify by y and
    refuse NaN in it, which is exactly what must work here.
    """

    _takes_unlabelled = False
    """Whether it can learn from recorded positives alone."""

    metric: str | LinearFractional
    subject_to: Any
    threshold_: float
    classes_: NDArray[Any]
    label_names_: NDArray[Any] | None

    @abstractmethod
    def _score_rows(self, X: Any) -> Floats:
        """Scores of all labels for a block of validated rows."""

    @abstractmethod
    def _score_entries(self, X: Any, labels: ObservedLabels) -> Floats:
        """Scores at the entries of ``labels`` for validated rows."""

    def _on_device(self, X: Any) -> Any:
        """The scores of validated rows on a device (``DeviceScores``); None where the CPU makes them."""
        return None

    @abstractmethod
    def _probabilities(self, scores: Floats) -> Floats:
        """From scores to probabilities of yes."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags(multi_class=False, multi_label=True)
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.input_tags.sparse = True
        return tags

    # -- fitting ---------------------------------------------------------------------------------------

    def _read_fit_input(self, X: Any, y: Any, unobserved: str) -> tuple[Any, Targets]:
        """Validate X and y together and remember their form."""
        unobserved = meaning_of_silence(y, unobserved)
        refuse_misaligned(X, y)
        X = self._read_features(X, reset=True)
        targets = read_targets(y, unobserved)
        labels = targets.labels
        n = _num_samples(X)
        if labels.shape[0] != n:
            raise InvalidLabelsError(
                f"X has {n} rows and the labels have {labels.shape[0]}; they must match row by row "
                "(inconsistent numbers of samples)."
            )
        if labels.unobserved == "unlabelled" and not self._takes_unlabelled:
            raise InvalidParameterError(
                "Labels with unobserved='unlabelled' need positive-unlabelled learning, which this estimator "
                "does not offer. Choose 'negative' if most absent labels are truly no, or give some known "
                "negatives and choose 'missing'."
            )
        labels.require_observed()
        labels.require_both_classes()
        self.classes_ = targets.classes
        self.n_labels_ = labels.shape[1]
        self.label_names_ = None if labels.label_names is None else np.asarray(labels.label_names)
        self._single, self._sparse_labels = targets.single, targets.sparse
        self._unobserved = unobserved
        return X, targets

    def _read_features(self, X: Any, *, reset: bool) -> Any:
        return read_features(self, X, reset=reset, nan_allowed=self._nan_allowed())

    def _nan_allowed(self) -> bool:
        """Whether the features may hold NaN."""
        return False

    def _metric(self) -> LinearFractional:
        """The metric by name or as given, kept for :meth:`score`."""
        self.metric_ = get_metric(self.metric)
        return self.metric_

    # -- thresholds and confidence ---------------------------------------------------------------------

    def _keep_confidence(self, held_out: HeldOutScores, calibration: str | None) -> None:
        """Keep what the held-out scores say, and calibrate by them; nothing where there are none."""
        if self._wants_held_out:
            self._held_out = held_out
        self._conformal = self._calibrator = self.calibration_error_ = None
        scores, labels = held_out.scores, held_out.labels
        if scores is None or labels is None or labels.n_observed == 0:
            if calibration is not None:
                warn(
                    f"calibration={calibration!r} needs held-out scores, and this fit has none: the "
                    "probabilities are not calibrated. Observe more labels, or call recalibrate.",
                    LabelgapWarning,
                )
            return
        self._conformal = ConformalScores.of(scores, labels)
        if calibration is not None:
            known = self._probabilities(scores) if self._scores_have_probabilities() else None
            of_probabilities = self._scores_are_probabilities()
            self._calibrator, self.calibration_error_ = calibrate(
                scores, labels, calibration, known, of_probabilities
            )

    def _set_thresholds(
        self,
        threshold: float,
        thresholds: Floats | None,
        kind: str,
        held_out: HeldOutScores,
        value: float | None = None,
        trivial: Trivial | None = None,
    ) -> None:
        """Set the shared threshold, that of each label, and what they are; warn if they decide nothing.

        ``held_out`` are the scores that chose them, and ``value`` is their held-out metric, if known.
        ``trivial`` is what decisions from recorded positives alone are compared with.
        """
        self.threshold_ = float(threshold)
        # An earlier fit may have left thresholds, which do not belong to these labels.
        for name in ("_label_thresholds", "_thresholds_kind"):
            self.__dict__.pop(name, None)
        if kind != "shared":
            self._label_thresholds = np.array(thresholds, dtype=np.float64)
            self._thresholds_kind = kind
        bounds = () if self.subject_to is None else read_constraints(self.subject_to)
        rate = getattr(self, "flip_rate_", None)
        warn_of_trivial_decisions(
            self.metric_,
            self._cut(),
            held_out,
            value=value,
            bounds=bounds,
            flip_rate=rate,
            trivial=trivial,
        )

    @property
    def thresholds_(self) -> Floats:
        """The threshold of each label; ``threshold_`` everywhere where they share it."""
        if self.thresholds_kind_ == "shared":
            return np.full(self.n_labels_, float(self.threshold_))
        return self._label_thresholds

    @property
    def thresholds_kind_(self) -> str:
        """What ``thresholds_`` are: "shared", "per-label" or "shrunk"."""
        # Only thresholds of their own are kept, so that models with one are saved as they always were.
        return str(self.__dict__.get("_thresholds_kind", "shared"))

    def _cut(self) -> float | Floats:
        """What scores are compared with: the shared threshold, or a row with one for each label."""
        return float(self.threshold_) if self.thresholds_kind_ == "shared" else self._label_thresholds

    def _entry_cut(self, labels: NDArray[Any]) -> float | Floats:
        """What the scores of entries of these labels are compared with."""
        cut = self._cut()
        return cut if isinstance(cut, float) else cut[labels]

    # -- deciding --------------------------------------------------------------------------------------

    def _blocks(self, X: Any) -> Iterator[tuple[int, Floats]]:
        step = max(1, _BLOCK_SCORES // max(self.n_labels_, 1))
        n = _num_samples(X)
        if n <= step:
            yield 0, self._score_rows(X)
            return
        for start in range(0, n, step):
            yield start, self._score_rows(_safe_indexing(X, slice(start, start + step)))

    @property
    def threshold_probability_(self) -> float:
        """``threshold_`` on the scale of :meth:`predict_proba`."""
        check_is_fitted(self)
        return float(self._final_probabilities(np.array([self.threshold_]))[0])

    def decision_function(self, X: Any) -> Any:
        """Scores ``Z`` (n x L, dense); the decision is ``Z >= thresholds_``.

        For an estimator fitted to a 1-d y: one score per row.
        """
        scores = self._scores(X)
        return like_input(self._framed(scores[:, 0] if self._single else scores, X), X)

    def _scores(self, X: Any) -> Floats:
        """All scores, n x L."""
        check_is_fitted(self)
        X = self._read_features(X, reset=False)
        device = self._on_device(X)
        if device is not None:
            found: Floats = device.scores(X)
            return found
        scores = np.empty((_num_samples(X), self.n_labels_))
        for start, block in self._blocks(X):
            scores[start : start + len(block)] = block
        return scores

    def predict_proba(self, X: Any) -> Any:
        """Probability of yes for every label (n x L, dense).

        For an estimator fitted to a 1-d y: one column per class, as scikit-learn does.
        """
        probabilities = self._final_probabilities(self._scores(X))
        if not self._single:
            return like_input(self._framed(probabilities, X), X)
        both = np.column_stack([1 - probabilities[:, 0], probabilities[:, 0]])
        return like_input(self._framed(both, X, self.classes_.tolist()), X)

    def predict(self, X: Any, output: str = "auto", budget: Any = None) -> Any:
        """Decisions, 1 for yes, one row of X at a time; within a budget, all rows of X together.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        output : "auto", "dense" or "sparse"
            "auto" is dense, except after a ``fit`` to a scipy sparse matrix of labels, or where the array
            would have more than a gigabyte: then it is CSR. It is a frame after
            ``set_output(transform="pandas")``.
        budget : int, Budget or None, default None
            How many yes there may be: a number is the most in each row, and a :class:`labelgap.Budget` says
            other limits. Decisions are then those that maximise the expected ``metric_`` of the rows of X by
            their probabilities, and not those of the thresholds; see
            :func:`labelgap.decisions.best_decisions`. None is no budget.
        """
        check_is_fitted(self)
        check_choice("output", output, OUTPUTS)
        given, X = X, self._read_features(X, reset=False)
        if budget is not None:
            return like_input(self._budget_output(X, given, output, budget), given)
        return like_input(self._decisions(X, given, output), given)

    def predict_topk(self, X: Any, k: int = 5, return_scores: bool = False) -> Any:
        """The k labels with the highest scores of each row, best first.

        Returns an (n, k) array of column indices, and with ``return_scores`` their scores too. Equal scores
        are ordered by column. After ``set_output(transform="pandas")`` it is a frame of the names of labels.
        """
        check_is_fitted(self)
        check_between("k", k, 1, self.n_labels_, "the number of labels")
        given, X = X, self._read_features(X, reset=False)
        device = self._on_device(X)
        if device is not None:
            top, scores = device.top(X, k)
        else:
            top = np.empty((_num_samples(X), k), dtype=np.int64)
            scores = np.empty((_num_samples(X), k))
            for start, block in self._blocks(X):
                here = slice(start, start + len(block))
                top[here], scores[here] = top_columns(block, k)
        named = self._framed_names(top, given)
        if not return_scores:
            return like_input(named, given)
        framed = self._framed(scores, given, [f"score_{place + 1}" for place in range(k)])
        return like_input((named, framed), given)

    def score(self, X: Any, y: Any, unobserved: str | None = None, sample_weight: Any = None) -> float:
        """The metric of the decisions over the observed entries of y.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : labels in any form that ``fit`` takes
            Where both the fit and y name the labels, they are matched by name.
        unobserved : {"missing", "negative", "unlabelled"} or None, default None
            What an absent entry of y means; None: as in the fit. After a fit to recorded positives alone the
            metric is corrected for those that were not recorded, with the flip rate of the fit; say "missing"
            where y holds the truth.
        sample_weight : array of shape (n,), or None
            Weights of the rows, as in :meth:`fit`.
        """
        check_is_fitted(self)
        unobserved = meaning_of_silence(y, unobserved, self._unobserved)
        refuse_misaligned(X, y)
        X = self._read_features(X, reset=False)
        labels = read_judged_labels(self, y, _num_samples(X), unobserved)
        if sample_weight is not None:
            X, labels = weigh_rows(X, labels, sample_weight, both_classes=False)
        if labels.unobserved == "unlabelled":
            return self._unlabelled_score(X, labels)
        return self.metric_(labels, self._score_entries(X, labels) >= self._entry_cut(labels.indices))

    def _unlabelled_score(self, X: Any, labels: ObservedLabels) -> float:
        raise InvalidParameterError(
            "Labels with unobserved='unlabelled' say nothing about no, and this estimator was not fitted to "
            "such. Judge by labels with known negatives."
        )
