"""``partial_fit`` of :class:`labelgap.LowRankClassifier`."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from labelgap.arriving.drift import check_half_life
from labelgap.arriving.kept import KeptData
from labelgap.arriving.union import JoinedLabels
from labelgap.estimators.arriving import (
    ArrivingBatches,
    Judged,
    incoming,
    places_of,
    read_row_ids,
    refuse_other_weights,
    start_from,
)
from labelgap.estimators.confidence import check_calibration
from labelgap.estimators.features_given import refuse_extreme_values, refuse_misaligned
from labelgap.estimators.inputs import (
    check_decision_parameters,
    judging_labels,
    read_batch_like,
    solver_settings,
    weighted_labels,
)
from labelgap.exceptions import InvalidLabelsError
from labelgap.fitting.choice import PenaltyChoice, StartOf
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.feature_maps import mapped
from labelgap.fitting.judges import DecisionRule, decision_rule
from labelgap.fitting.penalty_grid import PenaltyRequest, grid_for_observed
from labelgap.fitting.problem import backend_for, jobs_for, observed_problem
from labelgap.fitting.run import FitRun, fit_run
from labelgap.fitting.unlabelled import UnlabelledChoice
from labelgap.labels import ObservedLabels
from labelgap.losses import get_loss
from labelgap.metrics.jackknife import leave_out_values, metric_error
from labelgap.objective.parts import Backend, FeatureSettings
from labelgap.objective.protocol import Factors
from labelgap.sampling.weights import propensities_on
from labelgap.solvers import Callback
from labelgap.thresholds.cross_fit import HeldOutScores


class ArrivingDecisions(ArrivingBatches):
    """Decisions that are learned from batches."""

    def partial_fit(
        self: Any,
        X: Any,
        y: Any,
        *,
        row_ids: Any = None,
        propensities: Any = None,
        sample_weight: Any = None,
        callback: Callback | None = None,
        judged: Any = None,
    ) -> Any:
        """Learn from a batch of data, together with all batches before it.

        The batch is first judged by the model as it is (progressive validation). It is then joined to the
        data that were seen before, and the fit goes on from the fitted model, at the same penalties, to a
        duality gap of ``tol`` on the union. Penalties are chosen anew if the metric of the batch falls below
        the interval of the earlier ones, or if the entries have become more than 1.5 times as many since the
        last choice. The threshold follows from the held-out scores of the last choice and the scores of the
        later batches before they were learned from. The feature map and the label weighting stay. What
        happened is in ``batches_``.

        The first call is :meth:`fit`. The data are kept as ``memory`` says. A call that fails, or is broken
        off by a second Ctrl-C, leaves the model as it was.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : labels of shape (n, L) in any form that :meth:`fit` takes
            Labels are matched by name where the model and y name them, and new names are new labels. Without
            names further columns are new labels, and none may be missing.
        row_ids : sequence of n ids, "index", or None, default None
            Which rows these are: one that came before, with the same id, gets more entries, and the later
            value counts where both have one, as do the later features. "index" takes the index of the frame
            X. None: all are new rows.
        propensities, sample_weight, callback : as in :meth:`fit`
            Propensities are given with every batch or with none.
        judged : bool array of the shape of y, vector over Ω, or None
            Which labels of this batch choose penalties and thresholds beside those of the earlier batches, as
            in :meth:`fit`; there may be none. None: all that are new, while those that were known before
            judge as they did.

        Examples
        --------
        >>> from labelgap import LowRankClassifier
        >>> from labelgap.data import make_low_rank_labels
        >>> problem = make_low_rank_labels(n=300, n_labels=10, observed=0.5, random_state=0)
        >>> X, Y = problem.X, problem.Y_observed
        >>> clf = LowRankClassifier(trace_penalty=0.004, random_state=0).partial_fit(X[:280], Y[:280])
        >>> clf = clf.partial_fit(X[280:], Y[280:])
        >>> [batch.new_rows for batch in clf.batches_], bool(clf.relative_gap_ <= 1e-3)
        ([280, 20], True)
        """
        if not self._is_fitted():
            kwargs = {"propensities": propensities, "sample_weight": sample_weight, "callback": callback}
            return self._fit_first(X, y, row_ids, lambda: self.fit(X, y, judged=judged, **kwargs))
        later = self._next()
        later._learn(X, y, row_ids, propensities, sample_weight, callback, judged)
        return self._become(later)

    # -- the next batch --------------------------------------------------------------------------------

    def _learn(
        self: Any,
        X: Any,
        y: Any,
        row_ids: Any,
        propensities: Any,
        sample_weight: Any,
        callback: Callback | None,
        judged: Any,
    ) -> None:
        began = time.perf_counter()
        check_decision_parameters(self)
        if self.calibration is not None:
            check_calibration(self.calibration, self.threshold)
        self.loss_ = get_loss(self.loss)
        self._metric()
        ids = read_row_ids(row_ids, X, y)
        refuse_misaligned(X, y)
        X = self._read_features(X, reset=False)
        labels = judging_labels(read_batch_like(self, y), judged, of_batch=True)
        if labels.shape[0] != _num_samples(X):
            raise InvalidLabelsError(
                f"X has {_num_samples(X)} rows and the labels have {labels.shape[0]}; they must match row by "
                "row (inconsistent numbers of samples)."
            )
        labels.require_observed()
        refuse_other_weights(self, labels, propensities)
        known = None
        if propensities is not None:
            # Refuses those that would not be used.
            weighted_labels(labels, self.weights, propensities)
            known = propensities_on(labels, propensities)
        self._learn_batch(incoming(X, labels, ids, sample_weight, known), callback, began)

    def _weighed(self: Any, kept: KeptData, *, forget: float | None = None) -> ObservedLabels:
        """The labels as a fit weighs them, entry for entry those that are kept."""
        labels = weighted_labels(kept.forgotten(forget), self.weights, kept.propensities)
        return labels if kept.row_weights is None else labels.with_row_weights(kept.row_weights)

    def _judge(self: Any, kept: KeptData, joined: JoinedLabels) -> Judged:
        """The entries that the batch has added, of labels that are known, by the model before it.

        All of them are scored, and those that judge make the metric.
        """
        fresh = joined.is_added & (kept.labels.indices < self.n_labels_)
        held_out = kept.held_out.copy()
        if kept.labels.unobserved == "unlabelled" or not fresh.any():
            return Judged(None, None, held_out)
        added = self._weighed(kept).select(fresh)
        rows = np.flatnonzero(added.row_counts() > 0)
        added = replace(
            added.take_rows(rows), shape=(len(rows), self.n_labels_), label_names=None, row_names=None
        )
        scores = self._score_entries(kept.X[rows], added)
        held_out[fresh] = scores
        fair = added.judged()
        if fair.n_observed == 0:
            return Judged(None, None, held_out)
        scores = scores if added.judging is None else scores[added.judging]
        yes = scores >= self._entry_cut(fair.indices)
        error = metric_error(leave_out_values(self.metric_, yes, fair))
        return Judged(float(self.metric_(fair, yes)), error, held_out)

    # -- the fit to the union --------------------------------------------------------------------------

    def _fit_union(self: Any, kept: KeptData, why: str | None, callback: Callback | None) -> float | None:
        """Fit to all data from the present model, and set the attributes; the held-out metric."""
        half_life = check_half_life(self.forget)
        labels = self._weighed(kept, forget=half_life)
        labels.require_both_classes()
        rule = decision_rule(self.metric_, self.thresholds, self.subject_to, labels.unobserved)
        start = start_from(Factors(self.coef_left_, self.coef_right_, self.intercept_))
        refuse_extreme_values(kept.X)
        with fit_run(self, callback, None, dict) as run:
            Z = mapped(self.feature_map_, kept.X)
            unlabelled = labels.unobserved == "unlabelled"
            request, features = self._request(Z, unlabelled=unlabelled)
            features = replace(features, label_weighting=self.label_weighting_)
            self._holds_out_rows = self.held_out == "rows"
            if why is not None:
                self._forget_groups()
            if why is None:
                request = self._present_penalties()
                features = kept.features
            settings, backend = solver_settings(self), backend_for(self.device, labels, self.loss_)
            run.n_jobs = jobs_for(backend, run.n_jobs)
            held_out = HeldOutScores()
            if unlabelled:
                of_recorded = self._unlabelled_choice(
                    Z, labels, features, request, settings, run, backend, start
                )
                chosen: ChosenFit = self._fit_unlabelled(of_recorded, why)
            else:
                problem = observed_problem(
                    Z,
                    labels,
                    features,
                    self.loss_,
                    fit_intercept=self.fit_intercept,
                    score_bound=self.score_bound,
                    backend=backend,
                    gone=kept.gone,
                )
                grid = grid_for_observed(problem, labels, request)
                judge = rule.search_judge(self.loss_)
                choice = PenaltyChoice(problem, labels, grid, judge, settings, run, start=start)
                if why is not None:
                    choice = replace(
                        choice,
                        how=self.threshold,
                        by_row=self._holds_out_rows,
                        last_judge=rule.last_judge(self.loss_, None, held_out),
                        rule=rule,
                        every_fold=self._wants_held_out,
                    )
                chosen = choice.fit()
                if why is None:
                    chosen = self._with_present_thresholds(chosen, kept, labels, rule, held_out)
            if why is None and not unlabelled:
                # Those of the last choice.
                chosen = replace(chosen, candidates=self.candidates_)
            self._keep_chosen(kept, chosen, why, held_out)
        return chosen.held_out_metric

    def _keep_chosen(
        self: Any, kept: KeptData, chosen: ChosenFit, why: str | None, held_out: HeldOutScores
    ) -> None:
        """Set the attributes of the fit, and keep the data."""
        assert chosen.problem is not None
        if why is not None:
            scores = np.full(kept.labels.n_observed, np.nan)
            if held_out.scores is not None:
                scores[places_of(kept.labels, held_out.labels)] = held_out.scores
            features = chosen.problem.settings.features
            kept = replace(kept, held_out=scores, features=features, chosen_at=kept.total_weight)
        self._keep_decisions(chosen)
        self._keep_weights(chosen.problem, chosen.fit.factors)
        self._keep_union(kept)
        self._set_thresholds(
            chosen.threshold,
            chosen.thresholds,
            chosen.threshold_kind,
            held_out,
            chosen.held_out_metric,
            chosen.trivial,
        )
        self._keep_confidence(held_out, self.calibration)

    def _with_present_thresholds(
        self: Any,
        chosen: ChosenFit,
        kept: KeptData,
        labels: ObservedLabels,
        rule: DecisionRule,
        held_out: HeldOutScores,
    ) -> ChosenFit:
        """The fit with thresholds for the held-out scores of all batches, which ``held_out`` sees.

        Under threshold="train" they are those of the training scores. Where there are no held-out scores of
        both classes, the thresholds stay.
        """
        known = ~np.isnan(kept.held_out)
        if self.threshold == "train":
            assert chosen.problem is not None
            found = rule.choose(chosen.problem.scores(chosen.fit.factors, labels), labels)
            several = None if found.kind == "shared" else found.thresholds
            return replace(chosen, threshold=found.shared, thresholds=several, threshold_kind=found.kind)
        judged = labels.select(known)
        if len(np.unique(judged.judged().values)) < 2:
            several = self.thresholds_ if self.thresholds_kind_ != "shared" else None
            if several is not None:
                # New labels take the shared one.
                more = labels.shape[1] - len(several)
                several = np.pad(several, (0, more), constant_values=self.threshold_)
            return replace(
                chosen,
                threshold=self.threshold_,
                thresholds=several,
                threshold_kind=self.thresholds_kind_,
                held_out_metric=self.held_out_metric_,
                held_out_error=self.held_out_error_,
            )
        verdict = rule.last_judge(self.loss_, None, held_out)(kept.held_out[known], judged)
        return replace(
            chosen,
            threshold=verdict.threshold,
            thresholds=verdict.thresholds,
            threshold_kind=verdict.kind,
            held_out_metric=verdict.value,
            held_out_error=metric_error(verdict.leave_out),
        )

    def _unlabelled_choice(
        self: Any,
        Z: Any,
        labels: ObservedLabels,
        features: FeatureSettings,
        request: PenaltyRequest,
        settings: SolverSettings,
        run: FitRun,
        backend: Backend | None,
        start: StartOf | None,
    ) -> UnlabelledChoice:
        """The choice of penalties for recorded positives."""
        return UnlabelledChoice(
            Z,
            labels,
            features,
            self.loss_,
            request,
            settings,
            run,
            fit_intercept=self.fit_intercept,
            score_bound=self.score_bound,
            memory_limit_mb=self.memory_limit_mb,
            backend=backend,
            start=start,
        )

    def _fit_unlabelled(self: Any, choice: UnlabelledChoice, why: str | None) -> ChosenFit:
        """The fit to recorded positives; the flip rate is estimated again where penalties are chosen anew."""
        estimated = isinstance(self.flip_rate, str)
        rate = self.flip_rate_ if estimated and why is None else self.flip_rate
        chosen = choice.fit(self.metric_, rate, how=self.threshold, by_row=self._holds_out_rows)
        if estimated and why is None and chosen.flip_rates is not None:
            rates = replace(chosen.flip_rates, interval=self.flip_rate_interval_)
            chosen = replace(chosen, flip_rates=rates)
        return chosen
