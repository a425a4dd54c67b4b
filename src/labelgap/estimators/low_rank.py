"""The paper's method: a certified low-rank fit and one exact threshold."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from labelgap import kernels
from labelgap._types import Floats
from labelgap.estimators.arriving import refuse_other_weights, start_from
from labelgap.estimators.arriving_decisions import ArrivingDecisions
from labelgap.estimators.base import CertifiedFit, DecisionEstimator, keep_unless_default
from labelgap.estimators.completing import Completing
from labelgap.estimators.confidence import check_calibration, refuse_calibration
from labelgap.estimators.feature_maps import MappedFeatures
from labelgap.estimators.features_given import refuse_extreme_values
from labelgap.estimators.inputs import (
    check_decision_parameters,
    check_soft_labels,
    judging_labels,
    refuse_flip_rate,
    solver_settings,
    warn_of_unseen_labels,
    weighted_labels,
)
from labelgap.estimators.row_weights import groups_of_rows, weigh_rows
from labelgap.fitting.checkpoint import digest
from labelgap.fitting.choice import PenaltyChoice
from labelgap.fitting.feature_maps import FeatureMaps, first_map, mapped, tells_rows_apart
from labelgap.fitting.judges import decision_rule
from labelgap.fitting.penalty_grid import (
    PenaltyGrid,
    PenaltyRequest,
    first_weighting,
    grid_for_observed,
    label_variants,
)
from labelgap.fitting.problem import (
    backend_for,
    feature_settings,
    intercept_request,
    jobs_for,
    observed_problem,
)
from labelgap.fitting.run import fit_run
from labelgap.fitting.unlabelled import check_unlabelled
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import meaning_of_silence
from labelgap.losses import Loss, get_loss
from labelgap.metrics import LinearFractional, unlabelled_metric
from labelgap.objective.parts import FeatureSettings
from labelgap.objective.problem import Problem
from labelgap.persistence.checks import LOW_RANK_CLASSIFIER
from labelgap.persistence.registry import savable_estimator
from labelgap.solvers import Callback
from labelgap.thresholds.cross_fit import HeldOutScores, OneClassEffect
from labelgap.thresholds.sweep import steady_threshold


@savable_estimator(LOW_RANK_CLASSIFIER)
class LowRankClassifier(ArrivingDecisions, Completing, MappedFeatures, CertifiedFit, DecisionEstimator):
    """Yes/no decisions for many labels from features and incomplete labels.

    Fits, over the observed entries Ω,

        ``min_{W,b}  1/|Ω| Σ_Ω ℓ(x_i·w_j + b_j, y_ij) + λ‖W‖_* + λ₂/2 ‖W‖_F² + κ/2 Σ_j (b_j − c)²``

    (``|XW| ≤ γ`` on request) to a proven duality gap, and decides ``x·w_j + b_j ≥ θ`` with one θ for all
    labels, or one for each label (see ``thresholds``), chosen for the metric over observed entries.

    Parameters
    ----------
    metric : str or LinearFractional, default "micro-f1"
        What the decisions are judged by; see :func:`labelgap.get_metric`.
    loss : {"logistic", "squared", "squared_hinge", "exponential"} or Loss, default "logistic"
    trace_penalty : float or "auto", default "auto"
        λ. "auto" chooses it on held-out entries by the metric, and by the loss among choices that the metric
        cannot tell apart.
    ridge_penalty : float or "auto", default "auto"
        λ₂. "auto" chooses it together with λ.
    rank : int or None, default None
        A cap on the rank of W. None lets the certificate decide.
    score_bound : float, None or "auto", default "auto"
        γ, a bound that every ``|x_i·w_j|`` of the training rows obeys. "auto" is no bound, except under
        ``unobserved="unlabelled"`` with the logistic or exponential loss, which fall without end there: then
        it is the way from a probability of 1 % to one of 99 %.
    unobserved : {"missing", "negative", "unlabelled"}, default "missing"
        What an absent entry of y means. "unlabelled": only positives are recorded, and everything else may
        be yes or no (positive-unlabelled learning); see ``flip_rate``.
    threshold : {"cross-fit", "holdout", "train"}, default "cross-fit"
        Where θ comes from: out-of-fold scores over all of Ω, a fifth of Ω held out once, or the training
        scores (the paper's choice, optimistic on real data). On held-out scores it is the mean of the exact
        best thresholds over parts of the rows (:func:`labelgap.thresholds.steady_threshold`), which is
        steadier than that of the whole; on training scores, and under ``unobserved="unlabelled"``, it is the
        exact best one. Folds are over rows; see ``held_out``. The model itself is always fitted to all of Ω.
    solver : {"auto", "factored", "proximal", "alternating"}, default "auto"
        What makes the last fit; penalties and thresholds are chosen by fits of "auto".
        "alternating" is LEML's method, a rival to compare with; it needs a ``rank``.
    fit_intercept : bool, default True
        One intercept per label.
    tol : float, default 1e-3
        Relative duality gap at which the fit stops.
    max_iter : int or None, default None
        Iterations of the solver for one fit. None: 500 for "auto" and "factored", 5000 for "proximal".
    random_state : int, RandomState or None, default None
        Assigns rows to folds.
    n_jobs : int or None, default None
        Fits of folds and candidates side by side, in threads; None is one for each thread that there is
        (``LABELGAP_NUM_THREADS``, or the cores).
    verbose : int, default 0
        1 reports the stages (in a notebook by a progress bar), 2 each round of the solver too.
    intercept_penalty : float or "auto", default "auto"
        κ, a penalty that draws the intercepts to the score c of the overall rate of positives; 0 is none.
        "auto" chooses it together with λ and λ₂ where the columns of X are centred (as after
        standardising), and is 0 where they are not, since b is the score at the origin.
    penalty : {"weights", "scores"}, default "weights"
        What the trace norm and the ridge are of: W, or the scores XW (Lafond's penalty).
    weights : {None, "inverse-propensity"}, default None
        "inverse-propensity" weights each observed entry by one over its probability of being observed, in
        the loss and in the metric; see ``propensities`` in :meth:`fit`.
    flip_rate : float, array of length L, or "estimate", default "estimate"
        ρ, the fraction of true positives that were not recorded, under ``unobserved="unlabelled"`` only.
    memory_limit_mb : float, default 256
        About what the work over all n·L entries may take under ``unobserved="unlabelled"``, in megabytes.
    feature_scaling : {"auto", "none", "root", "standard"}, default "auto"
        What is done to the columns of X before W is penalised. "standard" makes their spreads equal, "root"
        goes half the way, on a logarithmic scale. "auto" is "standard" for a dense X, and "root" for a sparse
        one with no more features than rows. It is "none" for other sparse ones, and if λ or λ₂ is given as a
        number other than 0, which is then about X as it was given.
        ``coef_`` always belongs to X as it was given.
    features : {"auto", "linear", "rbf"} or a scikit-learn transformer, default "auto"
        What W is fitted in: X itself ("linear"), or Nyström features of an RBF kernel of standardised rows
        ("rbf"; dense X only), whose landmarks are drawn from all rows of X, those without labels too. "auto"
        takes kernel features where they are clearly better on held-out rows: by more than a standard error of
        the metric, or by 1 % of the loss where the metric is no worse. It looks at them if X is dense and has
        at least 200 rows with 300 observed entries, and λ is chosen, but not under
        ``unobserved="unlabelled"``. The width γ (of ¼, 1 and 4 over d) and the number of landmarks
        (300, or 900 from 1800 rows on) are chosen with λ. A transformer is cloned and fitted to X, without
        any label.
    label_weighting : float from 0 to 1, or "auto", default "auto"
        α: the penalties are those of ``W diag(1/s)``, s_j a power −α/2 of the label's observed positives, so
        that a label with few of them pays less for the same scores, as in a weighted trace norm. 0 treats all
        labels alike. "auto" chooses from 0, ½ and 1 on held-out entries if λ is chosen and labels differ much
        in their positives.
    device : {"auto", "cpu", "cuda", "cuda:0", ...}, default "auto"
        Where the work is done: on the CPU, or by torch on a GPU (the extra ``labelgap[gpu]``). "auto" is a
        GPU if there is one and the data are large enough to gain from it. The model and its certificate are
        the same; predictions run there too.
    thresholds : {"shared", "per-label", "shrunk", "auto"}, default "shared"
        How many thresholds there are: one for all labels, the best one of each label, those drawn towards the
        shared one by how little is known about a label, or what is best on other rows of the same scores; see
        :func:`labelgap.thresholds.choose_thresholds`. Under ``unobserved="unlabelled"`` there is one.
    subject_to : str, sequence of str, or None, default None
        Bounds on other metrics that the shared threshold must keep on the scores that it is chosen on, such
        as "recall >= 0.9"; see :func:`labelgap.best_threshold`. Bounds that no threshold keeps are an
        :class:`~labelgap.exceptions.InfeasibleConstraintError`.
    calibration : {None, "isotonic", "sigmoid"}, default None
        What makes calibrated probabilities of the scores, fitted to the out-of-fold scores: isotonic
        regression, Platt's sigmoid, or nothing. Scores and decisions stay the same. See
        ``calibration_error_``.
    warm_start : bool, default False
        Whether :meth:`fit` starts its last fit at the present model, where the shapes are the same.
    memory : "all", int or None, default "all"
        What the model keeps of its data for :meth:`partial_fit`: all of them, by reference; a weighted sample
        of so many entries, and moments of the features; or nothing.
    forget : float or None, default None
        A half-life in batches: an entry that came m batches ago weighs ``2^(−m/forget)``. None: all alike.
    soft_labels : float or "auto", default 0
        ω, the weight of soft labels, which :meth:`complete` makes for a sample of the unobserved entries of
        the training rows, all together in units of the observed ones. W is fitted again to both. 0 is none.
        "auto" chooses among 0, 1, 3 and 10 on held-out rows. For the logistic loss only; see
        ``docs/completing.md``.
    held_out : {"rows", "entries"}, default "rows"
        What is held out to choose settings and thresholds: all labels of some rows, as :meth:`predict` is
        about rows that the fit has not seen; or some entries of each row, for decisions about rows of the
        fit. With ``groups`` in :meth:`fit` all rows of a group are held out together. With fewer than ten
        rows that have labels it is entries.

    Attributes
    ----------
    coef_left_, coef_right_ : arrays of shape (d, k) and (L, k)
        ``W = coef_left_ @ coef_right_.T``. d is the number of features that the map makes, where there is
        one.
    coef_ : array of shape (d, L)
        W itself, made on request.
    feature_map_ : fitted transformer or None
        What makes the features of W from rows of X; None where they are X itself.
    features_ : str
        "linear", "rbf", or the class of the given transformer.
    label_weighting_ : float
        α as used. The penalties, ``singular_values_`` and ``objective_`` are about ``W diag(1/s)``.
    intercept_ : array of shape (L,)
    threshold_ : float
        θ, the threshold for all labels, in units of the scores.
    thresholds_ : array of shape (L,)
        The threshold of each label; θ everywhere where they share it.
    thresholds_kind_ : {"shared", "per-label", "shrunk"}
        What ``thresholds_`` are.
    rank_ : int
    soft_label_weight_ : float
        ω as used; 0 where there are no soft labels. Where there are, ``objective_`` and ``duality_gap_`` are
        about the objective with them.
    singular_values_ : array of shape (k,)
    trace_penalty_, ridge_penalty_, intercept_penalty_ : float
        The penalties used.
    feature_scales_ : array of shape (d,) or None
        What the columns of X were multiplied with; None where they were left alone. The penalties,
        ``singular_values_`` and ``objective_`` are about ``diag(1 / feature_scales_) W``.
    objective_ : float
        The penalised objective reached. With a free intercept (``intercept_penalty_`` is 0), labels of which
        one class alone is observed are left out of the sum over entries, though not out of their number: the
        loss of such a label has no minimum, it only tends to 0. ``duality_gap_`` is about the same sum.
    duality_gap_ : float
        Absolute; the objective is at most this far above its minimum over all W and b.
    relative_gap_ : float
        The same as a fraction of the objective or, where losses of both signs cancel (recorded positives),
        of the sum of their sizes. The fit stops when it is at most ``tol``.
    rank_limited_ : bool
        Whether ``rank`` kept the fit from that: a higher one could lower the objective by the gap at most.
    n_iter_ : int
    history_ : tuple of Progress
        Objective, relative gap, rank and time during the last fit.
    candidates_ : tuple of Candidate
        What was compared on held-out entries (empty when nothing was held out). The last one is the winner,
        judged again at ``threshold_`` by closer fits, and on all folds where the others were on fewer.
    held_out_metric_ : float or None
        Its metric. It was chosen for being good, so this is a little too good.
    held_out_error_ : float or None
        The standard error of that metric, by a jackknife over the rows; None where that is not known, such as
        for a metric corrected for unrecorded positives.
    flip_rate_, flip_rate_interval_ : float or array, and pair of floats or None
        Under ``unobserved="unlabelled"``: ρ as used, and its 95 % interval if it was estimated.
    calibration_error_ : CalibrationError or None
        With ``calibration``: the expected calibration error of out-of-fold probabilities, ``before`` it, and
        ``after`` it by maps that did not see the entry.
    batches_ : tuple of Batch
        The batches so far, where data are kept; see :class:`labelgap.arriving.Batch`.
    loss_ : Loss
    metric_ : LinearFractional
    classes_, n_labels_, label_names_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> from labelgap import LowRankClassifier
    >>> from labelgap.data import make_low_rank_labels
    >>> problem = make_low_rank_labels(n=60, n_labels=6, observed=0.6, random_state=0)
    >>> clf = LowRankClassifier(metric="micro-f1", random_state=0).fit(problem.X, problem.Y_observed)
    >>> bool(clf.score(problem.X_test, problem.Y_test) > 0.8)
    True
    """

    # For scikit-learn's metadata routing: groups that are given are meant for the fit, too.
    __metadata_request__fit: ClassVar = {"groups": True}

    _takes_unlabelled = True
    # Of the class, as files of earlier versions have none.
    label_weighting_: float = 0.0

    def __init__(
        self,
        metric: str | LinearFractional = "micro-f1",
        loss: str | Loss = "logistic",
        trace_penalty: float | str = "auto",
        ridge_penalty: float | str = "auto",
        rank: int | None = None,
        score_bound: float | str | None = "auto",
        unobserved: str = "missing",
        threshold: str = "cross-fit",
        solver: str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-3,
        max_iter: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        intercept_penalty: float | str = "auto",
        penalty: str = "weights",
        weights: str | None = None,
        flip_rate: Any = "estimate",
        memory_limit_mb: float = 256.0,
        feature_scaling: str = "auto",
        device: str = "auto",
        features: Any = "auto",
        label_weighting: float | str = "auto",
        thresholds: str = "shared",
        subject_to: Any = None,
        calibration: str | None = None,
        warm_start: bool = False,
        memory: int | str | None = "all",
        forget: float | None = None,
        soft_labels: float | str = 0.0,
        held_out: str = "rows",
    ) -> None:
        self.metric = metric
        self.loss = loss
        self.trace_penalty = trace_penalty
        self.ridge_penalty = ridge_penalty
        self.intercept_penalty = intercept_penalty
        self.rank = rank
        self.score_bound = score_bound
        self.unobserved = unobserved
        self.threshold = threshold
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.penalty = penalty
        self.weights = weights
        self.flip_rate = flip_rate
        self.memory_limit_mb = memory_limit_mb
        self.feature_scaling = feature_scaling
        self.device = device
        self.features = features
        self.label_weighting = label_weighting
        self.thresholds = thresholds
        self.subject_to = subject_to
        self.calibration = calibration
        self.warm_start = warm_start
        self.memory = memory
        self.forget = forget
        self.soft_labels = soft_labels
        self.held_out = held_out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not tells_rows_apart(self.features)
        return tags

    # -- fitting ---------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        callback: Callback | None = None,
        propensities: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        sample_weight: Any = None,
        judged: Any = None,
        groups: Any = None,
    ) -> LowRankClassifier:
        """Fit W, b and θ.

        Ctrl-C ends the fit early with a usable model, and a warning that says how good it is.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : label matrix of shape (n, L) in any form that ``ObservedLabels.from_any`` takes, NaN = not
            observed; or a 1-d array with two classes
        callback : callable, optional
            Called with a :class:`labelgap.solvers.Progress` after each round of the last fit. A
            :class:`labelgap.solvers.FitListener` is told about the search before it too.
        propensities : array of shape (n, L), sparse matrix, vector over Ω, or None
            For ``weights="inverse-propensity"``: how likely each entry was to be observed. None estimates it
            from how often rows and labels are.
        checkpoint : path of a folder, or None
            Where the fit keeps its progress. The same fit, started again after it was killed or stopped,
            resumes from there and ends with the same model. Delete the folder once the model is saved.
        sample_weight : array of shape (n,), or None
            Weights of the rows, on top of those that ``y`` may hold: a row of weight 2 counts as the row
            twice, and one of weight 0 is left out.
        judged : bool array of the shape of y, vector over Ω, or None
            Which of the observed labels choose the penalties, the threshold and the calibration; None: all.
            W and b are fitted to all of them. It is for labels that are no fair sample, such as those that
            :meth:`suggest` asked for: let those judge that were drawn uniformly. :meth:`partial_fit` and
            :meth:`complete` keep to it.
        groups : sequence with the group of each row, or None
            Rows that are alike, such as those of one patient, site or scaffold. All rows of a group are held
            out together, so that the threshold and ``held_out_metric_`` are about rows of new groups.
        """
        check_decision_parameters(self)
        if self.calibration is not None:
            check_calibration(self.calibration, self.threshold)
        self.loss_, metric = get_loss(self.loss), self._metric()
        check_soft_labels(self.soft_labels)
        if self.soft_labels != 0:
            self._refuse_soft_labels(meaning_of_silence(y, self.unobserved))
        X, targets = self._read_fit_input(X, y, self.unobserved)
        refuse_other_weights(self, targets.labels, propensities)
        given = judging_labels(targets.labels, judged)
        labels = weighted_labels(given, self.weights, propensities)
        rule = decision_rule(metric, self.thresholds, self.subject_to, labels.unobserved)
        whole = X
        groups = groups_of_rows(groups, labels.shape[0], self.held_out, sample_weight)
        if sample_weight is not None:
            X, labels = weigh_rows(X, labels, sample_weight)
        refuse_extreme_values(X)
        warn_of_unseen_labels(labels)
        unlabelled = labels.unobserved == "unlabelled"
        held_out, soft_weight = HeldOutScores(), 0.0
        present = self._warm_factors()
        start = None if present is None else start_from(present)
        with fit_run(
            self, callback, checkpoint, lambda: {"the features": digest(X), "the labels": digest(labels)}
        ) as run:
            # The map sees X alone, so that nothing of held-out labels can leak through it.
            transformer = first_map(self.features, X, run.random_state)
            Z = mapped(transformer, X)
            first, of_first = Z, self._request(Z, unlabelled=unlabelled)
            request, features = of_first
            # A model that can tell the rows apart, or rows of a group, learns from other labels of a row what
            # the held-out one is, and from none of a new row.
            self._holds_out_rows = self.held_out == "rows"
            keep_unless_default(self, _holds_out_groups=groups is not None)
            settings = solver_settings(self)
            backend = backend_for(self.device, labels, self.loss_)
            run.n_jobs = jobs_for(backend, run.n_jobs)
            if unlabelled:
                check_unlabelled(labels, self.loss_, metric)
                refuse_calibration(self.calibration)
                choice = self._unlabelled_choice(Z, labels, features, request, settings, run, backend, start)
                by_row = {"by_row": self._holds_out_rows, "groups": groups}
                chosen = choice.fit(metric, self.flip_rate, how=self.threshold, **by_row)
            else:
                refuse_flip_rate(self.flip_rate, labels.unobserved)

                def made(
                    Z: Any, labels: ObservedLabels, label_weighting: float
                ) -> tuple[Problem, PenaltyGrid]:
                    request, features = of_first if Z is first else self._request(Z)
                    problem = observed_problem(
                        Z,
                        labels,
                        replace(features, label_weighting=label_weighting),
                        self.loss_,
                        fit_intercept=self.fit_intercept,
                        score_bound=self.score_bound,
                        backend=backend,
                    )
                    return problem, grid_for_observed(problem, labels, request)

                problem, grid = made(Z, labels, features.label_weighting)
                effect = OneClassEffect(labels, metric, lambda z, some: steady_threshold(z, some, metric))
                competition = PenaltyChoice(
                    problem,
                    labels,
                    grid,
                    rule.search_judge(self.loss_),
                    settings,
                    run,
                    how=self.threshold,
                    by_row=self._holds_out_rows,
                    groups=groups,
                    last_judge=rule.last_judge(self.loss_, effect, held_out),
                    rule=rule,
                    variants=label_variants(problem, labels, self.label_weighting, request),
                    every_fold=self._wants_held_out,
                    start=start,
                )
                maps = FeatureMaps.of(self, X, labels, request, made, transformer)
                chosen = maps.fit(competition)
                transformer = chosen.feature_map
                if self.soft_labels != 0:
                    rest = labels, rule, settings, run, effect, held_out, groups
                    chosen, soft_weight = self._with_soft_labels(chosen, X, *rest)
                effect.warn()
            self._keep_decisions(chosen)
            self._set_thresholds(
                chosen.threshold,
                chosen.thresholds,
                chosen.threshold_kind,
                held_out,
                chosen.held_out_metric,
                chosen.trivial,
            )
            assert chosen.problem is not None
            self._keep_weights(chosen.problem, chosen.fit.factors)
            weighting = chosen.problem.settings.features.label_weighting
            keep_unless_default(
                self, feature_map_=transformer, label_weighting_=weighting, soft_label_weight_=soft_weight
            )
            self._keep_confidence(held_out, self.calibration)
            weights = {"sample_weight": sample_weight, "propensities": propensities}
            self._keep_first_batch(whole, given, chosen, run, **weights, held_out=held_out)
        return self

    def _request(self, Z: Any, *, unlabelled: bool = False) -> tuple[PenaltyRequest, FeatureSettings]:
        """The penalties to choose, and how the features Z are used."""
        request = PenaltyRequest(
            self.trace_penalty,
            self.ridge_penalty,
            intercept_request(Z, self.intercept_penalty, fit_intercept=self.fit_intercept),
        )
        features = feature_settings(
            Z,
            request,
            fit_intercept=self.fit_intercept,
            bounded=self.score_bound is not None and (self.score_bound != "auto" or unlabelled),
            penalty=self.penalty,
            scaling=self.feature_scaling,
        )
        return request, replace(features, label_weighting=first_weighting(self.label_weighting))

    @property
    def coef_(self) -> Floats:
        """W (d x L), multiplied out."""
        return self.coef_left_ @ self.coef_right_.T

    # -- scoring ---------------------------------------------------------------------------------------

    def _score_rows(self, X: Any) -> Floats:
        return np.asarray(self._left_product(X) @ self.coef_right_.T + self.intercept_)

    def _on_device(self, X: Any) -> Any:
        return self._scores_on_device(X)

    def _row_factors(self, X: Any) -> Floats | None:
        return self._left_product(X)

    def _score_entries(self, X: Any, labels: ObservedLabels) -> Floats:
        P = self._left_product(X)
        low_rank = kernels.entries.sampled_product(
            labels.indptr, labels.indices, P, np.ascontiguousarray(self.coef_right_)
        )
        return np.asarray(low_rank + self.intercept_[labels.indices])

    def _unlabelled_score(self, X: Any, labels: ObservedLabels) -> float:
        if not hasattr(self, "flip_rate_"):
            return super()._unlabelled_score(X, labels)
        return unlabelled_metric(self.metric_, labels, self._sparse_decisions(X), self.flip_rate_)

    def _probabilities(self, scores: Floats) -> Floats:
        return np.asarray(self.loss_.inverse_link(scores))
