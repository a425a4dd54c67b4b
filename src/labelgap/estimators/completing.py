"""``complete``: decisions for the gaps of training rows, by their observed labels beside their features."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted
from threadpoolctl import threadpool_limits

from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.arriving.kept import KeptData
from labelgap.completing.completion import Completion, RowCandidate
from labelgap.completing.row_choice import ChosenRows, RowChoice, RowModel, fit_rows
from labelgap.completing.soft_labels import with_soft_labels
from labelgap.confidence.calibration import CalibrationMap, calibrate
from labelgap.estimators.features_given import refuse_misaligned
from labelgap.estimators.inputs import (
    check_number,
    judging_labels,
    read_judged_labels,
    solver_settings,
    weighted_labels,
)
from labelgap.estimators.row_weights import weigh_rows
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError, LabelgapWarning
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.feature_maps import mapped, mapped_product
from labelgap.fitting.judges import DecisionRule, Verdict, decision_rule, mean_loss
from labelgap.fitting.problem import observed_problem
from labelgap.fitting.run import FitRun
from labelgap.labels import ObservedLabels
from labelgap.losses import Logistic, Loss
from labelgap.metrics import LinearFractional
from labelgap.objective.protocol import Factors
from labelgap.solvers import Penalties
from labelgap.solvers.joint_state import JointFactors
from labelgap.solvers.row_part import JointFit
from labelgap.thresholds.cross_fit import HeldOutScores, OneClassEffect, hold_out_plan

# How far the objective of the model over the given rows may be from that of the fit, as a fraction of it.
_SAME_OBJECTIVE = 1e-4


class Completing:
    """``complete`` of a fitted low-rank classifier."""

    if TYPE_CHECKING:
        coef_left_: Floats
        coef_right_: Floats
        intercept_: Floats
        feature_map_: Any
        label_weighting_: float
        trace_penalty_: float
        ridge_penalty_: float
        intercept_penalty_: float
        objective_: float
        duality_gap_: float
        relative_gap_: float
        threshold_: float
        thresholds_: Floats
        loss_: Loss
        metric_: LinearFractional
        fit_intercept: bool
        score_bound: Any
        soft_labels: float | str
        weights: str | None
        threshold: str
        thresholds: str
        subject_to: Any
        calibration: str | None
        random_state: Any
        n_jobs: int | None
        verbose: int
        _single: bool
        _kept_data: KeptData | None
        _sparse_labels: bool
        _unobserved: str
        _calibrated_by: str | None

        def _read_features(self, X: Any, *, reset: bool) -> Any: ...
        def _probabilities(self, scores: Floats) -> Floats: ...
        def _request(self, Z: Any) -> Any: ...

    # Of the class, as files of earlier versions have none.
    soft_label_weight_: float = 0.0

    # -- soft labels -----------------------------------------------------------------------------------

    def _refuse_soft_labels(self, unobserved: str) -> None:
        """Raise where soft labels are asked for and cannot be; ``unobserved`` says what absent ones mean."""
        value = self.soft_labels
        if not isinstance(self.loss_, Logistic):
            raise InvalidParameterError(
                f"soft_labels={value!r} needs loss='logistic', under which a label may be a probability. "
                "Choose it, or leave soft_labels at 0."
            )
        if unobserved == "unlabelled":
            raise InvalidParameterError(
                f"soft_labels={value!r} needs entries that are known to be a no, and under "
                "unobserved='unlabelled' there are none. Leave soft_labels at 0."
            )
        if not isinstance(self.score_bound, str) and self.score_bound is not None:
            raise InvalidParameterError(
                f"soft_labels={value!r} cannot be combined with score_bound={self.score_bound!r}: XW + N has "
                "no bound. Leave one of them out."
            )

    def _with_soft_labels(
        self,
        chosen: ChosenFit,
        X: Any,
        labels: ObservedLabels,
        rule: DecisionRule,
        solver: SolverSettings,
        run: FitRun,
        effect: OneClassEffect,
        held_out: HeldOutScores,
        groups: NDArray[np.int64] | None,
    ) -> tuple[ChosenFit, float]:
        """The fit with soft labels, where they pay, and their weight."""
        _refuse_offsets(labels)
        Z = mapped(chosen.feature_map, X)
        return with_soft_labels(
            chosen,
            Z,
            labels,
            self.soft_labels,
            self.loss_,
            rule,
            solver,
            run,
            how=self.threshold,
            groups=groups,
            effect=effect,
            held_out=held_out,
        )

    # -- gaps of the training rows -----------------------------------------------------------------------

    def complete(
        self,
        X: Any,
        y: Any,
        row_penalty: float | str = "auto",
        *,
        propensities: Any = None,
        sample_weight: Any = None,
        judged: Any = None,
    ) -> Completion:
        """Decide the unobserved entries of the rows of the fit, by their observed labels too.

        ``predict`` knows a row by its features alone. Here rows have parameters of their own beside them,
        and the fit is, with the λ, λ₂ and κ of :meth:`fit`,

            ``min_{W,N,b}  1/|Ω| Σ_Ω ℓ(x_i·w_j + n_ij + b_j, y_ij) + λ‖W‖_* + λ₂/2 ‖W‖_F² + μ‖N‖_* + ...``

        to one duality gap for W, N and b together. μ and the threshold are chosen on held-out entries of the
        same rows. N = 0 is always among the candidates, so where the other labels of a row say nothing, the
        decisions are those of XW. The estimator itself does not change.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            The rows of the fit, in their order.
        y : labels as given to ``fit``
        row_penalty : float or "auto", default "auto"
            μ. "auto" chooses it on held-out entries; infinity is N = 0.
        propensities, sample_weight
            As given to ``fit``. A row of weight 0 has no part in the fit, and is decided by XW.
        judged : as given to ``fit``, or None
            Which labels choose μ, the threshold and the calibration. None: as y says itself, and otherwise
            those that judged the fit. A model that does not hold its data has to be told.

        Returns
        -------
        Completion
            Decisions (``predict``), probabilities and scores of these rows, with the certificate.

        Notes
        -----
        The work is done on the CPU, whatever ``device`` is, and its threshold comes from held-out entries,
        whatever ``threshold`` is ("holdout" holds a fifth of them out once).

        Examples
        --------
        >>> from labelgap import LowRankClassifier
        >>> from labelgap.data import make_low_rank_labels
        >>> problem = make_low_rank_labels(n=200, n_labels=20, observed=0.4, random_state=0)
        >>> X = problem.X[:, :2]  # Most of what decides the labels is not among the features.
        >>> clf = LowRankClassifier(features="linear", random_state=0).fit(X, problem.Y_observed)
        >>> completed = clf.complete(X, problem.Y_observed)
        >>> completed.row_rank > 0, completed.relative_gap <= 1e-3
        (True, True)
        """
        check_is_fitted(self)
        self._refuse_uncompletable()
        _check_row_penalty(row_penalty)
        refuse_misaligned(X, y)
        X = self._read_features(X, reset=False)
        given = read_judged_labels(self, y, _num_samples(X), self._unobserved)
        given.require_both_classes()
        _refuse_offsets(given)
        labels = weighted_labels(judging_labels(given, judged), self.weights, propensities)
        everyone = X
        if sample_weight is not None:
            X, labels = weigh_rows(X, labels, sample_weight)
        labels = self._judged_as_in_fit(labels)
        run = FitRun(verbose=self.verbose, name=type(self).__name__)
        with threadpool_limits(limits=1, user_api="blas"):
            model, start = self._row_model(X, labels)
            self._refuse_other_rows(model, start)
            rule = decision_rule(self.metric_, self.thresholds, self.subject_to)
            chosen = self._chosen_rows(model, start, row_penalty, rule.search_judge(self.loss_), run)
            mu = math.inf if chosen is None else chosen.row_penalty
            if chosen is None and not isinstance(row_penalty, str):
                mu = float(row_penalty)
            if mu == math.inf:
                # The model of the fit, its certificate and its thresholds.
                chosen_rows = JointFactors.without_rows(start, labels.shape[0])
                own = (self.objective_, self.duality_gap_, self.relative_gap_)
                fit = JointFit(chosen_rows, *own, n_iter=0, converged=True)
            else:
                fit = fit_rows(model, start, mu)
        left, _, intercept = model.shared.to_original(fit.factors.shared)
        N_left = np.zeros((_num_samples(everyone), fit.factors.row_rank))
        weighted = np.ones(len(N_left)) if sample_weight is None else np.asarray(sample_weight)
        N_left[weighted > 0] = fit.factors.row_left
        threshold, thresholds = self.threshold_, self.thresholds_
        values: tuple[float | None, float | None] = (None, None)
        calibrator: CalibrationMap | None = None
        if chosen is not None:
            judge = rule.last_judge(self.loss_)
            verdict, without = (judge(z, chosen.held) for z in (chosen.scores, chosen.scores_without))
            values = verdict.value, without.value
            if mu < math.inf:
                shared = np.full(labels.shape[1], verdict.threshold)
                threshold = verdict.threshold
                thresholds = shared if verdict.thresholds is None else verdict.thresholds
            how = self._calibrated_by or self.calibration
            if how is not None:
                held = chosen.held
                scores = chosen.scores if held.judging is None else chosen.scores[held.judging]
                calibrator, _ = calibrate(scores, held.judged(), how, self._probabilities(scores), False)
        return Completion(
            np.hstack([mapped_product(self.feature_map_, everyone, left), N_left]),
            model.right(fit.factors),
            intercept,
            float(threshold),
            np.asarray(thresholds, dtype=np.float64),
            mu,
            fit.factors.rank,
            fit.factors.row_rank,
            fit.objective,
            fit.gap,
            fit.relative_gap,
            *values,
            () if chosen is None else _listed(chosen),
            given,
            self.metric_,
            self._probabilities if calibrator is None else calibrator,
            self._sparse_labels,
        )

    def _judged_as_in_fit(self, labels: ObservedLabels) -> ObservedLabels:
        """The labels, of which those judge that judged the fit, unless they say themselves which do."""
        kept = None if self._kept_data is None else self._kept_data.labels
        if labels.judging is not None or kept is None or kept.judging is None:
            return labels
        if labels.shape != kept.shape or not all(
            np.array_equal(getattr(labels, name), getattr(kept, name))
            for name in ("indptr", "indices", "values")
        ):
            raise InvalidLabelsError(
                "Some labels of the fit alone judged it, and these are not the labels that it holds, in "
                "their order. Give the X and y of the fit, or say with judged= which of these labels judge."
            )
        return labels.with_judging(kept.judging)

    def _row_model(self, X: Any, labels: ObservedLabels) -> tuple[RowModel, Factors]:
        """The problem of the fit made anew from its data, and W and b in its coordinates."""
        Z = mapped(self.feature_map_, X)
        _, features = self._request(Z)
        problem = observed_problem(
            Z,
            labels,
            replace(features, label_weighting=self.label_weighting_),
            self.loss_,
            fit_intercept=self.fit_intercept,
            score_bound=None,
        )
        mean = float(np.average(labels.values, weights=labels.weights))
        penalties = Penalties(
            self.trace_penalty_, self.ridge_penalty_, self.intercept_penalty_, float(self.loss_.link(mean))
        )
        model = RowModel(Z, labels, problem.settings, penalties, solver_settings(self))
        scales = model.shared.features.label_scales
        right = self.coef_right_ if scales is None else self.coef_right_ / scales[:, None]
        return model, model.shared.from_original(Factors(self.coef_left_, right, self.intercept_))

    def _chosen_rows(
        self, model: RowModel, start: Factors, row_penalty: float | str, judge: Any, run: FitRun
    ) -> ChosenRows | None:
        """μ chosen, or the given one judged, on held-out entries; None where nothing can be held out."""
        how = "holdout" if self.threshold == "holdout" else "cross-fit"
        plan = hold_out_plan(model.labels, how, check_random_state(self.random_state))
        if not (plan >= 0).any():
            warn(
                f"Only {model.labels.n_observed} labels are observed, too few to hold any out: the threshold "
                "is that of the fit"
                + (", and rows have no part of their own." if isinstance(row_penalty, str) else "."),
                LabelgapWarning,
            )
            return None
        choice = RowChoice(model, plan, judge, self.n_jobs, run.say)
        return choice.search(start) if isinstance(row_penalty, str) else choice.given(float(row_penalty))

    def _held_out_by_rows(self, X: Any, y: Any, sample_weight: Any) -> ChosenRows | None:
        """Held-out scores XW + N of every observed entry, with the μ of the least loss.

        X and y are those of the fit. None where rows have no part of their own: where every entry counts, for
        a single label, with a bound on the scores or offsets, or with labels too few to hold any out.
        """
        bounded = not isinstance(self.score_bound, str) and self.score_bound is not None
        if self._unobserved != "missing" or self._single or bounded:
            return None
        X = self._read_features(X, reset=False)
        given = read_judged_labels(self, y, _num_samples(X), self._unobserved)
        labels = weighted_labels(given, self.weights, None)
        if sample_weight is not None:
            X, labels = weigh_rows(X, labels, sample_weight)
        plan = hold_out_plan(labels, "cross-fit", check_random_state(self.random_state))
        if labels.offsets is not None or not (plan >= 0).any():
            return None

        def judge(scores: Floats, held: ObservedLabels) -> Verdict:
            loss = mean_loss(self.loss_, scores, held)
            return Verdict(-loss, math.nan, loss)

        run = FitRun(verbose=self.verbose, name=type(self).__name__)
        with threadpool_limits(limits=1, user_api="blas"):
            model, start = self._row_model(X, labels)
            return RowChoice(model, plan, judge, self.n_jobs, run.say, every_fold=True).search(start)

    # -- refusals --------------------------------------------------------------------------------------

    def _refuse_uncompletable(self) -> None:
        if self._unobserved == "unlabelled":
            raise InvalidParameterError(
                "complete needs entries that are known to be a no, and this model was fitted with "
                "unobserved='unlabelled', where only positives are recorded. Use predict, or give known "
                "negatives and fit with unobserved='missing'."
            )
        if self._unobserved == "negative":
            raise InvalidParameterError(
                "complete decides entries that were not observed, and this model was fitted with "
                "unobserved='negative', under which there are none. Fit with unobserved='missing'."
            )
        if self._single:
            raise InvalidParameterError(
                "complete decides labels by the other labels of a row, and this model was fitted to a single "
                "label (a 1-d y). Use predict."
            )
        if not isinstance(self.score_bound, str) and self.score_bound is not None:
            raise InvalidParameterError(
                f"complete has no bound on the scores, and this model was fitted with score_bound="
                f"{self.score_bound!r}. Fit without it."
            )

    def _refuse_other_rows(self, model: RowModel, start: Factors) -> None:
        """Raise if the objective of W and b is another here than in the fit."""
        here, there, labels = model.objective_at(start), self.objective_, model.labels
        # With soft labels the objective of the fit is another one.
        if self.soft_label_weight_ > 0 or abs(here - there) <= _SAME_OBJECTIVE * max(
            abs(there), _SAME_OBJECTIVE
        ):
            return
        raise InvalidLabelsError(
            f"complete is about the rows of the fit, and these are others: over these {labels.shape[0]} rows "
            f"with {labels.n_observed} observed entries the objective of the model is {here:.6g}, and in the "
            f"fit it was {there:.6g}. Give the X and y of the fit (with its sample_weight and propensities), "
            "or fit again with these."
        )


def _refuse_offsets(labels: ObservedLabels) -> None:
    if labels.offsets is not None:
        raise InvalidLabelsError(
            "These labels have offsets, which entries that were not observed do not have. Give labels "
            "without offsets."
        )


def _check_row_penalty(value: Any) -> None:
    if isinstance(value, str) and value == "auto":
        return
    if value == math.inf:
        return
    if isinstance(value, str):
        raise InvalidParameterError(f"row_penalty must be 'auto' or a number above 0; got {value!r}.")
    check_number("row_penalty", value, above=0.0)


def _listed(chosen: ChosenRows) -> tuple[RowCandidate, ...]:
    return tuple(
        RowCandidate(mu, candidate.metric_value, candidate.loss, candidate.rank)
        for mu, candidate in chosen.candidates
    )
