"""The plug-in method of Koyejo et al.: one probabilistic classifier per label and one shared threshold."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.utils import check_random_state, get_tags

from labelgap._arrays import frame_library
from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.estimators.base import DecisionEstimator, keep_unless_default
from labelgap.estimators.confidence import check_calibration
from labelgap.estimators.feature_maps import (
    FeatureMapped,
    Outcome,
    WatchedScores,
    best_map,
    mapped_rows,
)
from labelgap.estimators.features_given import hand_on_features, is_of_numbers, named_unless_steps
from labelgap.estimators.inputs import THRESHOLDS, check_verbose, warn_of_unseen_labels
from labelgap.estimators.row_weights import groups_of_rows, weigh_rows
from labelgap.estimators.score_models import (
    LabelModels,
    draw_seeds,
    fit_and_choose,
    fit_label_models,
    warn_of_training_scores,
)
from labelgap.exceptions import InvalidParameterError
from labelgap.fitting.feature_maps import check_features, maps_to_compare
from labelgap.fitting.judges import decision_rule
from labelgap.fitting.notebook import NotebookBar, bar_for
from labelgap.fitting.progress import report
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional
from labelgap.persistence.checks import PLUG_IN_CLASSIFIER
from labelgap.persistence.registry import savable_estimator
from labelgap.thresholds.cross_fit import HeldOutScores, hold_out_plan


@savable_estimator(PLUG_IN_CLASSIFIER)
class PlugInClassifier(FeatureMapped, DecisionEstimator):
    """One probabilistic classifier per label, and the one threshold that maximises the metric.

    For each label j a classifier estimates ``η_j(x) = P(y_j = 1 | x)`` from the entries of Ω in column j, and

        ``ŷ_j(x) = [η_j(x) ≥ θ]``,   ``θ = argmax_θ Ψ([η ≥ θ])`` over observed entries,

    with one θ for all labels, found exactly. A label with one class observed has the constant probability
    ``(positives + ½) / (observed + 1)``, a label without any observation the same taken over all labels.

    Parameters
    ----------
    estimator : scikit-learn classifier with ``predict_proba``, default None
        Cloned for every label. None stands for ``LogisticRegression(C=1.0, max_iter=1000)``, that is an ℓ2
        penalty of ½‖w‖² beside the sum of the losses, an unpenalised intercept, and the lbfgs solver. Random
        states that it leaves open are set from ``random_state``.
    metric : str or LinearFractional, default "micro-f1"
        What the decisions are judged by; see :func:`labelgap.get_metric`.
    unobserved : {"missing", "negative"}, default "missing"
        What an absent entry of y means.
    threshold : {"cross-fit", "holdout", "train"}, default "cross-fit"
        Where θ comes from: out-of-fold probabilities over all of Ω (five folds over rows), a fifth of Ω
        held out once, or the training entries (as Koyejo et al. do; optimistic). The classifiers are always
        fitted to all of Ω in the end.
    random_state : int, RandomState or None, default None
        Assigns rows to folds and seeds the classifiers.
    n_jobs : int or None, default None
        Labels fitted side by side, by joblib. Each is fitted with one BLAS thread, so the result does not
        depend on the number of jobs.
    verbose : int, default 0
        1 reports the stages, in a notebook by a progress bar.
    features : {"linear", "auto", "rbf"} or a scikit-learn transformer, default "linear"
        What the classifiers are fitted in: X itself ("linear"), Nyström features of an RBF kernel of
        standardised rows, with a width of ¼, 1 or 4 over d ("rbf"; dense X only), whichever of both is better
        on held-out rows ("auto"), or what a clone of a transformer makes of X. Kernel features are compared
        by the metric; "auto" takes them if they are better by more than a standard error.
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
    feature_map_ : fitted transformer or None
        What makes the features of the classifiers from rows of X; None where they are X itself.
    features_ : str
        "linear", "rbf", or the class of the given transformer.
    estimators_ : list of length L
        The fitted classifiers; None for a label with a constant probability.
    threshold_ : float
        θ, a probability; ±inf if the metric is best with no decision, or every one, a yes.
    thresholds_ : array of shape (L,)
        The threshold of each label; θ everywhere where they share it.
    thresholds_kind_ : {"shared", "per-label", "shrunk"}
        What ``thresholds_`` are.
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
    ``decision_function`` returns probabilities, so that ``threshold_`` is one; it equals ``predict_proba``
    except for a 1-d y, where the latter has a column per class, and with ``calibration``. Weights of the
    labels are given to the classifiers as ``sample_weight``. A frame is given to ``estimator`` as it is, with
    categories, texts and NaN if ``estimator`` takes them, as a pipeline with a ``ColumnTransformer`` does;
    without an ``estimator``, and with other ``features``, X is read as numbers.

    References
    ----------
    Koyejo, Natarajan, Ravikumar, Dhillon: Consistent Multilabel Classification. NIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from labelgap.estimators.plug_in import PlugInClassifier
    >>> rng = np.random.RandomState(0)
    >>> X = rng.standard_normal((200, 3))
    >>> Y = (X @ rng.standard_normal((3, 4)) > 0.5).astype(float)
    >>> Y[rng.uniform(size=Y.shape) < 0.7] = np.nan
    >>> clf = PlugInClassifier(metric="micro-f1", random_state=0).fit(X, Y)
    >>> clf.predict(X).shape, bool(clf.score(X, Y) > 0.9)
    ((200, 4), True)
    """

    _model: LabelModels

    # For scikit-learn's metadata routing: groups that are given are meant for the fit, too.
    __metadata_request__fit: ClassVar = {"groups": True}

    def __init__(
        self,
        estimator: Any = None,
        metric: str | LinearFractional = "micro-f1",
        unobserved: str = "missing",
        threshold: str = "cross-fit",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        features: Any = "linear",
        thresholds: str = "shared",
        subject_to: Any = None,
        calibration: str | None = None,
        held_out: str = "rows",
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.unobserved = unobserved
        self.threshold = threshold
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.features = features
        self.thresholds = thresholds
        self.subject_to = subject_to
        self.calibration = calibration
        self.held_out = held_out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._inner())
        tags.input_tags.sparse = inner.input_tags.sparse and self._takes_sparse()
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags

    # -- fitting ---------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> PlugInClassifier:
        """Fit a classifier per label, and θ.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d), whatever ``estimator`` takes
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
        check_features(self.features)
        if self.calibration is not None:
            check_calibration(self.calibration, self.threshold)
        metric, estimator = self._metric(), self._inner()
        rule = decision_rule(metric, self.thresholds, self.subject_to)
        _check_probabilistic(estimator)
        check_verbose(self.verbose)
        X, targets = self._read_fit_input(X, y, self.unobserved)
        labels = targets.labels
        groups = groups_of_rows(groups, labels.shape[0], self.held_out, sample_weight)
        if sample_weight is not None:
            X, labels = weigh_rows(X, labels, sample_weight)
        warn_of_unseen_labels(labels)
        rng = check_random_state(self.random_state)
        maps = maps_to_compare(self.features, X, labels.n_observed, rng)
        by_row = self.held_out == "rows" or any(m is not None for m in maps)
        plan = hold_out_plan(labels, self.threshold, rng, by_row=by_row, groups=groups)
        if self.threshold != "train" and not (plan >= 0).any():
            warn_of_training_scores(labels)
        seeds = draw_seeds(rng, labels.shape[1])

        bar = bar_for(self) if self.verbose == 1 else None

        def fit_in(Z: Any) -> Outcome:
            def fit_part(part: ObservedLabels) -> LabelModels:
                self._say(f"fitting {part.shape[1]} labels to {part.n_observed} observed entries", bar)
                return fit_label_models(estimator, Z, part, seeds, "predict_proba", self.n_jobs)

            effect, held_out = WatchedScores(labels, metric), HeldOutScores()
            model, chosen, value = fit_and_choose(fit_part, Z, labels, rule, plan, effect, held_out=held_out)
            return Outcome(model, chosen, value, effect, held_out)

        with named_unless_steps(estimator, X):
            transformer, best = best_map(maps, X, fit_in)
        keep_unless_default(self, feature_map_=transformer)
        best.effect.warn()
        self._model, chosen = best.model, best.chosen
        self.estimators_ = self._model.estimators
        self._set_thresholds(
            chosen.shared, chosen.thresholds, chosen.kind, best.held_out, chosen.held_out_value
        )
        self._keep_confidence(best.held_out, self.calibration)
        self._say(f"threshold {chosen.shared:.4g} ({chosen.kind}), where the metric is {best.value:.4f}", bar)
        if bar is not None:
            bar.end()
        return self

    def _inner(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        # Imported where it is needed: it would take a tenth of a second from every start.
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)

    def _nan_allowed(self) -> bool:
        inner = self._inner()
        if get_tags(inner).input_tags.allow_nan:
            return True
        # What steps before a classifier make of NaN, they know themselves.
        parts = [inner, *inner.get_params(deep=True).values()]
        return any(hasattr(part, "steps") or hasattr(part, "transformers") for part in parts)

    def _read_features(self, X: Any, *, reset: bool) -> Any:
        handed_on = (
            self.estimator is not None and isinstance(self.features, str) and self.features == "linear"
        )
        if not handed_on or is_of_numbers(X):
            read = super()._read_features(X, reset=reset)
            # The estimator may know the columns of a frame by their names.
            return X if handed_on and frame_library(X) else read
        return hand_on_features(self, X, reset=reset)

    def _say(self, message: str, bar: NotebookBar | None) -> None:
        if bar is not None:
            bar.stage(message)
        report(type(self).__name__, message, printed=bool(self.verbose) and bar is None)

    # -- scoring ---------------------------------------------------------------------------------------

    def _score_rows(self, X: Any) -> Floats:
        with named_unless_steps(self.estimator, X):
            return self._model.score_rows(mapped_rows(self, X))

    def _score_entries(self, X: Any, labels: ObservedLabels) -> Floats:
        with named_unless_steps(self.estimator, X):
            return self._model.score_entries(mapped_rows(self, X), labels)

    def _probabilities(self, scores: Floats) -> Floats:
        return scores

    def _scores_are_probabilities(self) -> bool:
        return True


def _check_probabilistic(estimator: Any) -> None:
    if hasattr(estimator, "predict_proba"):
        return
    name = type(estimator).__name__
    if hasattr(estimator, "decision_function"):
        raise InvalidParameterError(
            f"{name} has a decision_function but no predict_proba: its scores for different labels are on "
            "different scales, and one threshold for all labels needs probabilities. Wrap it in "
            "sklearn.calibration.CalibratedClassifierCV, or use MetricThreshold, which takes such scores."
        )
    raise InvalidParameterError(
        f"{name} has neither predict_proba nor decision_function; PlugInClassifier needs a scikit-learn "
        "classifier with predict_proba, such as LogisticRegression()."
    )
