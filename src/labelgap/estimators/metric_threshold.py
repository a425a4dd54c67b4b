"""One exact threshold for anybody's scores."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import available_if

from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.estimators.base import DecisionEstimator
from labelgap.estimators.confidence import check_calibration
from labelgap.estimators.features_given import hand_on_features, named_unless_steps, safe_features, validated
from labelgap.estimators.inputs import THRESHOLDS, warn_of_unseen_labels
from labelgap.estimators.row_weights import groups_of_rows, weigh_rows
from labelgap.estimators.score_models import (
    DirectModel,
    GivenScores,
    LabelModels,
    RowModel,
    ScoreModel,
    check_takes_weights,
    choose_by_rule,
    clone_with_seed,
    draw_seeds,
    fit_and_choose,
    fit_label_models,
    fit_row_model,
    takes_label_matrix,
    takes_weights,
    warn_of_training_scores,
    weights_of_rows,
)
from labelgap.exceptions import (
    InvalidParameterError,
    InvalidScoresError,
    LabelgapWarning,
    TrivialDecisionsWarning,
    UninformativeLabelsWarning,
)
from labelgap.fitting.judges import DecisionRule, decision_rule
from labelgap.labels import ObservedLabels
from labelgap.labels.columns import named_columns, refuse_dates
from labelgap.labels.matching import in_label_order, same_names
from labelgap.metrics import LinearFractional
from labelgap.persistence.checks import METRIC_THRESHOLD
from labelgap.persistence.registry import savable_estimator
from labelgap.thresholds.choosing import ChosenThresholds
from labelgap.thresholds.cross_fit import NEVER, HeldOutScores, OneClassEffect, hold_out_plan


def _has_probabilities(self: MetricThreshold) -> bool:
    if self.calibration is not None or self._calibrator is not None:
        return True
    return self.estimator is not None and hasattr(self.estimator, "predict_proba")


# Rows of complete labels, of which some can be held out.
_FEWEST_ROWS = 4


@savable_estimator(METRIC_THRESHOLD)
class MetricThreshold(DecisionEstimator):
    """The threshold that maximises a metric, for any classifier or any matrix of scores.

    From scores ``z_ij`` at the observed entries Ω it takes

        ``θ = argmax_θ Ψ([z ≥ θ])``   and decides   ``ŷ_ij = [z_ij ≥ θ]``

    with one θ for all labels. The maximiser is exact: every cut between two scores is compared, not
    those of a grid.

    Parameters
    ----------
    estimator : scikit-learn classifier, labelgap estimator or None, default None
        Where the scores come from: ``predict_proba`` where there is one, else ``decision_function``.

        - None: X itself is the matrix of scores, n x L, or 1-d for a single label. Columns of a frame that
          have the names of the labels are matched by name.
        - A classifier that takes a 2-d label matrix (forests, neighbours, ``MultiOutputClassifier``, ...) is
          fitted to whole rows if the labels are complete, and have no weights or one for each row.
        - Otherwise any classifier is cloned for every label and fitted to that label's observed entries, as
          in :class:`~labelgap.estimators.plug_in.PlugInClassifier`. Without ``predict_proba`` the scores of
          different labels are each on their own scale, and one θ is compared with all of them.
        - An estimator of labelgap, or a pipeline that ends in one, is given the incomplete labels as they
          are; its ``decision_function`` gives the scores.

        Random states that it leaves open are set from ``random_state``.
    metric : str or LinearFractional, default "micro-f1"
        What the decisions are judged by; see :func:`labelgap.get_metric`.
    threshold : {"cross-fit", "holdout", "train"}, default "cross-fit"
        Which scores choose θ: out-of-fold scores (five folds), those of a fifth held out once, or training
        scores (optimistic). Folds are made of rows; see ``held_out``. The estimator is always fitted to
        everything in the end. Not used with a matrix of scores.
    unobserved : {"missing", "negative"}, default "missing"
        What an absent entry of y means.
    random_state : int, RandomState or None, default None
        Assigns rows to folds and seeds the estimator.
    n_jobs : int or None, default None
        Labels fitted side by side by joblib, or folds in threads where one estimator serves all labels.
    thresholds : {"shared", "per-label", "shrunk", "auto"}, default "shared"
        How many thresholds there are: one for all labels, the best one of each label, those drawn towards the
        shared one by how little is known about a label, or what is best on other rows of the same scores; see
        :func:`labelgap.thresholds.choose_thresholds`.
    subject_to : str, sequence of str, or None, default None
        Bounds on other metrics that the shared threshold must keep on the scores that it is chosen on, such
        as "recall >= 0.9"; see :func:`labelgap.best_threshold`. Bounds that no threshold keeps are an
        :class:`~labelgap.exceptions.InfeasibleConstraintError`.
    calibration : {None, "isotonic", "sigmoid"}, default None
        What makes calibrated probabilities of the scores, fitted to the out-of-fold scores: isotonic
        regression, Platt's sigmoid, or nothing. Scores and decisions stay the same. See
        ``calibration_error_``.
    held_out : {"rows", "entries"}, default "rows"
        What is held out to choose the threshold: all labels of some rows, as :meth:`predict` is about rows
        that the fit has not seen; or some entries of each row, for decisions about rows of the fit. With
        ``groups`` in :meth:`fit` all rows of a group are held out together. With fewer than ten rows that
        have labels it is entries.

    Attributes
    ----------
    threshold_ : float
        θ, in units of the scores; ±inf if the metric is best with no decision, or every one, a yes.
    thresholds_ : array of shape (L,)
        The threshold of each label; θ everywhere where they share it.
    thresholds_kind_ : {"shared", "per-label", "shrunk"}
        What ``thresholds_`` are.
    best_score_ : float
        The metric at the thresholds on the scores that chose them.
    estimator_ : fitted estimator or None
        Where one serves all labels, or there is one label. One fitted to rows is given only the labels of
        which both classes are observed.
    estimators_ : list of length L or None
        Where there is one per label: the fitted classifiers, None for a label with one class or nothing
        observed. Its score is the constant of ``PlugInClassifier``, or that constant's log-odds if the other
        scores come from ``decision_function``.
    classes_ : array of length 2
        ``[0, 1]``, or for a 1-d y its two values.
    calibration_error_ : CalibrationError or None
        With ``calibration``: the expected calibration error of out-of-fold probabilities, ``before`` it, and
        ``after`` it by maps that did not see the entry.
    n_labels_ : int
    label_names_ : array or None
    n_features_in_, feature_names_in_

    Notes
    -----
    ``decision_function`` returns the scores that are compared with ``threshold_``. X is passed to the
    estimator unchanged, so frames, text and NaN are fine where the estimator takes them.

    Examples
    --------
    A matrix of scores:

    >>> import numpy as np
    >>> from labelgap.estimators.metric_threshold import MetricThreshold
    >>> scores = np.array([[0.9, 0.6], [0.4, 0.1]])
    >>> cut = MetricThreshold(metric="micro-f1").fit(scores, np.array([[1.0, 1.0], [0.0, np.nan]]))
    >>> cut.threshold_, cut.best_score_
    (0.5, 1.0)
    >>> cut.predict([[0.2, 0.7]])
    array([[0, 1]], dtype=int8)

    Any classifier:

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(weights=[0.9], random_state=0)
    >>> cut = MetricThreshold(GaussianNB(), metric="micro-f1", random_state=0).fit(X, y)
    >>> cut.predict(X).shape
    (100,)
    """

    _model: ScoreModel

    # For scikit-learn's metadata routing: groups that are given are meant for the fit, too.
    __metadata_request__fit: ClassVar = {"groups": True}

    def __init__(
        self,
        estimator: Any = None,
        metric: str | LinearFractional = "micro-f1",
        threshold: str = "cross-fit",
        unobserved: str = "missing",
        random_state: Any = None,
        n_jobs: int | None = None,
        thresholds: str = "shared",
        subject_to: Any = None,
        calibration: str | None = None,
        held_out: str = "rows",
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.threshold = threshold
        self.unobserved = unobserved
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.thresholds = thresholds
        self.subject_to = subject_to
        self.calibration = calibration
        self.held_out = held_out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is None:
            tags.input_tags.sparse, tags.input_tags.one_d_array = False, True
        else:
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    # -- fitting ---------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> MetricThreshold:
        """Fit the estimator, if there is one, and θ.

        Parameters
        ----------
        X : whatever the estimator takes; without one, scores of shape (n, L), or (n,) for a single label
        y : label matrix of shape (n, L) in any form that ``ObservedLabels.from_any`` takes, NaN = not
            observed; or a 1-d array with two classes
        sample_weight : array of shape (n,), or None
            Weights of the rows, on top of those that ``y`` may hold: a row of weight 2 counts as the row
            twice, and one of weight 0 is left out.
        groups : sequence with the group of each row, or None
            Rows that are alike, such as those of one patient, site or scaffold. All rows of a group are held
            out together, so that the threshold is about rows of new groups.
        """
        check_choice("threshold", self.threshold, THRESHOLDS)
        if self.calibration is not None:
            check_calibration(self.calibration, "given" if self.estimator is None else self.threshold)
        held_out = HeldOutScores()
        metric = self._metric()
        rule = decision_rule(metric, self.thresholds, self.subject_to)
        if self.estimator is not None:
            _check_scores(self.estimator)
        X, targets = self._read_fit_input(X, y, self.unobserved)
        labels = targets.labels
        groups = groups_of_rows(groups, labels.shape[0], self.held_out, sample_weight)
        if sample_weight is not None:
            X, labels = weigh_rows(X, labels, sample_weight)
        if self.estimator is None:
            if groups is not None:
                warn(
                    "groups has no use for scores that are given: nothing is fitted, and nothing held out.",
                    LabelgapWarning,
                )
            _check_width(X, labels)
            labels = self._in_order_of_scores(labels)
            self._model = GivenScores()
            scores = self._model.score_entries(X, labels)
            chosen, value = choose_by_rule(rule, scores, labels)
            # Scores that are given did not see these labels, or should not have.
            held_out.see(scores, labels)
        else:
            warn_of_unseen_labels(labels)
            effect = OneClassEffect(labels, metric)
            with warnings.catch_warnings():
                # A labelgap estimator inside would say it again, and in every fold.
                for said_here in (UninformativeLabelsWarning, TrivialDecisionsWarning):
                    warnings.simplefilter("ignore", said_here)
                with named_unless_steps(self.estimator, X):
                    self._model, chosen, value = self._fit_estimator(
                        X, labels, rule, effect, held_out, groups
                    )
            effect.warn()
        self._set_thresholds(chosen.shared, chosen.thresholds, chosen.kind, held_out, chosen.held_out_value)
        self.best_score_ = value
        self._keep()
        self._keep_confidence(held_out, self.calibration)
        return self

    def _fit_estimator(
        self,
        X: Any,
        labels: ObservedLabels,
        rule: DecisionRule,
        effect: OneClassEffect,
        held_out: HeldOutScores,
        groups: NDArray[np.int64] | None,
    ) -> tuple[ScoreModel, ChosenThresholds, float]:
        estimator, rng = self.estimator, check_random_state(self.random_state)
        direct = isinstance(_last_step(estimator), DecisionEstimator)
        by_rows = not direct and _fits_rows(estimator, labels)
        method = "predict_proba" if hasattr(estimator, "predict_proba") else "decision_function"
        if not (direct or by_rows):
            _check_fits_one_label(estimator)
            check_takes_weights(estimator, labels)
        by_row = by_rows or self.held_out == "rows"
        if by_rows and groups is None and labels.shape[0] >= _FEWEST_ROWS:
            # Never by entries, however few rows there are.
            groups = np.arange(labels.shape[0])
        plan = hold_out_plan(labels, self.threshold, rng, by_row=by_row, groups=groups)
        if by_rows and groups is None:
            plan = np.full(labels.n_observed, NEVER)
        if direct and min(np.bincount(labels.values, minlength=2)) < 2:
            # Without its only yes (or no) the rest of Ω cannot be fitted at all.
            plan = np.full(labels.n_observed, NEVER)
        if self.threshold != "train" and not (plan >= 0).any():
            warn_of_training_scores(labels)
        seeds = draw_seeds(rng, labels.shape[1])

        def fit_part(part: ObservedLabels) -> ScoreModel:
            if direct:
                return DirectModel(clone_with_seed(estimator, int(seeds[0])).fit(X, part))
            model = fit_row_model(estimator, X, part, seeds, method) if by_rows else None
            if model is not None:
                return model
            return fit_label_models(estimator, X, part, seeds, method, 1 if by_rows else self.n_jobs)

        return fit_and_choose(
            fit_part,
            X,
            labels,
            rule,
            plan,
            effect,
            fold_jobs=self.n_jobs if direct or by_rows else 1,
            held_out=held_out,
        )

    def _in_order_of_scores(self, labels: ObservedLabels) -> ObservedLabels:
        """The labels in the order of the columns of scores, where these have the names of the labels."""
        names = getattr(self, "feature_names_in_", None)
        if names is None or not same_names(names.tolist(), labels.label_names):
            return labels
        labels = in_label_order(labels, names, wanted_in="the scores")
        self.label_names_ = np.asarray(labels.label_names)
        return labels

    def _keep(self) -> None:
        model = self._model
        self.estimator_ = model.estimator if isinstance(model, RowModel | DirectModel) else None
        self.estimators_ = model.estimators if isinstance(model, LabelModels) else None
        if self.estimators_ is not None and len(self.estimators_) == 1:
            self.estimator_ = self.estimators_[0]

    def _read_features(self, X: Any, *, reset: bool) -> Any:
        if self.estimator is not None:
            return hand_on_features(self, X, reset=reset)
        X = safe_features(X)
        refuse_dates(X)
        scores = np.asarray(X).reshape(-1, 1) if not sp.issparse(X) and np.ndim(X) == 1 else X
        with named_columns(scores):
            return validated(
                self, scores, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False
            )

    # -- scoring ---------------------------------------------------------------------------------------

    @property
    def threshold_probability_(self) -> float:
        """``threshold_`` as a probability, where the estimator has ``predict_proba``."""
        if not _has_probabilities(self):
            raise AttributeError("These scores are no probabilities; threshold_ is on their own scale.")
        return super().threshold_probability_

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator, unused-ignore]
    def predict_proba(self, X: Any) -> Any:
        """Probability of yes for every label (n x L, dense), where the estimator has ``predict_proba``.

        For an estimator fitted to a 1-d y: one column per class, as scikit-learn does.
        """
        return super().predict_proba(X)

    def _blocks(self, X: Any) -> Iterator[tuple[int, Floats]]:
        for start, block in super()._blocks(X):
            missing = np.isnan(block)
            if missing.any():
                row, label = np.argwhere(missing)[0]
                raise _score_is_nan(int(row) + start, int(label))
            yield start, block

    def _score_rows(self, X: Any) -> Floats:
        with named_unless_steps(self.estimator, X):
            return self._model.score_rows(X)

    def _score_entries(self, X: Any, labels: ObservedLabels) -> Floats:
        with named_unless_steps(self.estimator, X):
            scores = self._model.score_entries(X, labels)
        missing = np.isnan(scores)
        if missing.any():
            first = int(np.argmax(missing))
            raise _score_is_nan(int(labels.rows[first]), int(labels.indices[first]))
        return scores

    def _probabilities(self, scores: Floats) -> Floats:
        last = _last_step(self.estimator_)
        return last._final_probabilities(scores) if isinstance(last, DecisionEstimator) else scores

    def _scores_have_probabilities(self) -> bool:
        return self.estimator is not None and hasattr(self.estimator, "predict_proba")

    def _scores_are_probabilities(self) -> bool:
        last = _last_step(self.estimator_)
        if isinstance(last, DecisionEstimator):
            return last._scores_are_probabilities()
        return self._scores_have_probabilities()

    def _even_score(self) -> float:
        if self.estimator is not None:
            return super()._even_score()
        # What scores that are given mean is not known, but where a yes begins is.
        return self.threshold_ if np.isfinite(self.threshold_) else 0.0


def _last_step(estimator: Any) -> Any:
    # Imported where it is needed: it would take a tenth of a second from every start.
    from sklearn.pipeline import Pipeline

    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def _fits_rows(estimator: Any, labels: ObservedLabels) -> bool:
    """Whether one classifier can be fitted to whole rows of these labels."""
    several = labels.shape[1] > 1 and labels.is_complete
    if not (several and takes_label_matrix(estimator)):
        return False
    return labels.weights is None or (weights_of_rows(labels) is not None and takes_weights(estimator))


def _check_width(scores: Floats, labels: ObservedLabels) -> None:
    if scores.shape[1] == labels.shape[1]:
        return
    hint = "Pass an estimator if X holds features."
    if labels.shape[1] == 1 and scores.shape[1] == 2:
        hint += " Of a predict_proba with two columns pass the second, [:, 1]."
    raise InvalidScoresError(
        f"Without an estimator X is the matrix of scores, one column per label; it has {scores.shape[1]} "
        f"columns for {labels.shape[1]} labels. {hint}"
    )


def _check_scores(estimator: Any) -> None:
    if not (hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")):
        raise InvalidParameterError(
            f"{type(estimator).__name__} has neither predict_proba nor decision_function, so there are no "
            "scores to compare with a threshold. Choose a classifier that has one of them, or leave the "
            "estimator out and pass a matrix of scores as X."
        )


def _check_fits_one_label(estimator: Any) -> None:
    if not get_tags(estimator).target_tags.single_output:
        raise InvalidParameterError(
            f"{type(estimator).__name__} is fitted to whole rows of several labels, which must be "
            "complete and without weights of entries. Pass the classifier inside it instead: it is then "
            "fitted to each label's observed entries."
        )


def _score_is_nan(row: int, label: int) -> InvalidScoresError:
    return InvalidScoresError(
        f"The score at row {row}, label {label} is NaN, which is on neither side of the threshold. "
        "Give a number for every entry that is to be decided."
    )
