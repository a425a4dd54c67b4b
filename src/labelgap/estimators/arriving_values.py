"""``partial_fit`` of :class:`labelgap.LowRankRegressor`."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from labelgap.arriving.drift import check_half_life
from labelgap.arriving.kept import KeptData
from labelgap.arriving.union import JoinedLabels
from labelgap.estimators.arriving import ArrivingBatches, Judged, incoming, read_row_ids, start_from
from labelgap.estimators.features_given import read_features, refuse_extreme_values, refuse_misaligned
from labelgap.estimators.inputs import check_fit_parameters, solver_settings
from labelgap.estimators.regression_values import (
    Units,
    in_user_units,
    null_loss,
    read_values,
    require_something_to_learn,
    with_known_parts,
)
from labelgap.exceptions import InvalidFeaturesError, InvalidLabelsError, InvalidParameterError
from labelgap.fitting.choice import PenaltyChoice
from labelgap.fitting.feature_maps import mapped
from labelgap.fitting.judges import deviance_judge
from labelgap.fitting.penalty_grid import grid_for_observed
from labelgap.fitting.problem import backend_for, feature_settings, jobs_for, observed_problem
from labelgap.fitting.run import fit_run
from labelgap.labels import ObservedLabels
from labelgap.losses import get_family
from labelgap.metrics.jackknife import metric_error
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.solvers import Callback


class ArrivingValues(ArrivingBatches):
    """Values that are learned from batches."""

    def partial_fit(
        self: Any,
        X: Any,
        y: Any,
        *,
        row_ids: Any = None,
        offset: Any = None,
        exposure: Any = None,
        sample_weight: Any = None,
        callback: Callback | None = None,
    ) -> Any:
        """Learn from a batch of data, together with all batches before it.

        As :meth:`labelgap.LowRankClassifier.partial_fit`, without a threshold. The metric of a batch is the
        fraction of the deviance that the model before it explains, of that of the best constants of the data
        before it.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d), or None
            None after a fit without features; rows with new ids then get parameters of their own.
        y : values of shape (n, L) in any form that :meth:`fit` takes
            Labels are matched by name where the model and y name them, and new names are new labels. Without
            names further columns are new labels, and none may be missing.
        row_ids : sequence of n ids, "index", or None, default None
            Which rows these are: one that came before, with the same id, gets more entries, and the later
            value counts where both have one, as do the later features. "index" takes the index of the frame
            X. None: all are new rows.
        offset, exposure, sample_weight, callback : as in :meth:`fit`

        Examples
        --------
        >>> import numpy as np
        >>> from labelgap import LowRankRegressor
        >>> X = np.random.RandomState(0).standard_normal((60, 3))
        >>> Y = X @ [[1.0, 2.0], [0.0, 1.0], [1.0, 0.0]]
        >>> model = LowRankRegressor(random_state=0).partial_fit(X[:50], Y[:50])
        >>> model = model.partial_fit(X[50:], Y[50:])
        >>> [batch.new_rows for batch in model.batches_], bool(model.batches_[1].metric > 0.9)
        ([50, 10], True)
        """
        if not self._is_fitted():
            kwargs = {"offset": offset, "exposure": exposure, "sample_weight": sample_weight}
            return self._fit_first(X, y, row_ids, lambda: self.fit(X, y, callback=callback, **kwargs))
        later = self._next()
        later._learn(X, y, row_ids, offset, exposure, sample_weight, callback)
        return self._become(later)

    def _refuse_memory(self: Any, X: Any) -> None:
        """Raise where rows would be left out that have parameters."""
        if X is None and not (self.memory is None or isinstance(self.memory, str)):
            raise InvalidParameterError(
                f"memory={self.memory!r} leaves out rows, and without features (X=None) each row has "
                "parameters of its own. Set memory to 'all' or None."
            )

    # -- the next batch --------------------------------------------------------------------------------

    def _learn(
        self: Any,
        X: Any,
        y: Any,
        row_ids: Any,
        offset: Any,
        exposure: Any,
        sample_weight: Any,
        callback: Callback | None,
    ) -> None:
        began = time.perf_counter()
        check_fit_parameters(self)
        self._refuse_memory(X)
        self.family_ = get_family(self.family)
        ids = read_row_ids(row_ids, X, y)
        refuse_misaligned(X, y)
        if (X is None) == self._has_features:
            raise InvalidFeaturesError(
                "The model was fitted to features; pass those of the rows as X."
                if X is None
                else "The model was fitted without features (X=None); pass None as X, and row_ids."
            )
        X = None if X is None else read_features(self, X, reset=False)
        labels, _ = read_values(y, self.family_)
        n = labels.shape[0] if X is None else _num_samples(X)
        if labels.shape[0] != n:
            raise InvalidLabelsError(
                f"X has {n} rows and the labels have {labels.shape[0]}; they must match row by row "
                "(inconsistent numbers of samples)."
            )
        labels = with_known_parts(labels, self.family_, offset, exposure, None)
        self._learn_batch(incoming(X, labels, ids, sample_weight), callback, began)

    def _weighed(self: Any, kept: KeptData, *, forget: float | None = None) -> ObservedLabels:
        """The values as a fit weighs them, entry for entry those that are kept."""
        labels = kept.forgotten(forget)
        return labels if kept.row_weights is None else labels.with_row_weights(kept.row_weights)

    def _judge(self: Any, kept: KeptData, joined: JoinedLabels) -> Judged:
        """The entries that the batch has added, of labels that are known, by the model before it."""
        fresh = joined.is_added & (kept.labels.indices < self.n_labels_)
        held_out = kept.held_out.copy()
        if not fresh.any():
            return Judged(None, None, held_out)
        added = self._weighed(kept).select(fresh)
        rows = np.flatnonzero(added.row_counts() > 0)
        added = replace(added.take_rows(rows), shape=(len(rows), self.n_labels_), label_names=None)
        if kept.X is None:
            # A row that is not known yet has no more than the intercepts.
            more = max(0, kept.labels.shape[0] - len(self.coef_left_))
            P = np.pad(self.coef_left_, ((0, more), (0, 0)))[rows]
        else:
            P = self._left_product(kept.X[rows])
        scores = self._score_entries(P, added)
        held_out[fresh] = scores
        null = null_loss(self._weighed(self._kept_data), self.family_)
        verdict = deviance_judge(self.family_, null)(scores, added)
        return Judged(float(verdict.value), metric_error(verdict.leave_out), held_out)

    # -- the fit to the union --------------------------------------------------------------------------

    def _fit_union(self: Any, kept: KeptData, why: str | None, callback: Callback | None) -> float | None:
        """Fit to all data from the present model, and set the attributes; the held-out metric."""
        labels = self._weighed(kept, forget=check_half_life(self.forget))
        require_something_to_learn(labels, self.family_)
        self.has_offsets_ = labels.offsets is not None
        model = Factors(self.coef_left_, self.coef_right_, self.intercept_)
        earlier = self.candidates_, self.held_out_metric_
        if kept.X is not None:
            refuse_extreme_values(kept.X)
        with fit_run(self, callback, None, dict) as run:
            self._units, labels = Units.of(labels, self.family_, shifted=self.fit_intercept)
            run.to_user_units = self._units.progress
            Z = None if kept.X is None else mapped(self.feature_map_, kept.X)
            backend = backend_for(self.device, labels, self.family_)
            run.n_jobs = jobs_for(backend, run.n_jobs)
            self._holds_out_rows = self.held_out == "rows" and Z is not None
            if why is not None:
                self._forget_groups()
            problem = self._problem(Z, labels, kept, why, backend)
            request = self._request(Z)
            if why is None:
                present = self._present_penalties()
                request = replace(present, trace=float(present.trace) / self._units.scale)
            chosen = PenaltyChoice(
                problem,
                labels,
                grid_for_observed(problem, labels, request),
                deviance_judge(self.family_, null_loss(labels, self.family_)),
                solver_settings(self),
                run,
                by_row=self._holds_out_rows,
                criterion="loss",
                start=start_from(self._units.from_user(model)),
            ).fit()
            assert chosen.problem is not None
            self.feature_scales_ = chosen.problem.feature_scales
            factors = self._units.factors(chosen.problem.to_original(chosen.fit.factors))
            self.coef_left_, self.coef_right_, self.intercept_ = factors
            self._keep_fit(in_user_units(chosen, self._units))
            if why is None:
                # Those of the last choice.
                self.candidates_, self.held_out_metric_ = earlier
            else:
                features = chosen.problem.settings.features
                kept = replace(kept, features=features, chosen_at=kept.total_weight)
            if kept.X is None:
                self.n_features_in_ = kept.labels.shape[0]
            self._keep_union(kept)
        return chosen.held_out_metric

    def _problem(
        self: Any, Z: Any, labels: ObservedLabels, kept: KeptData, why: str | None, backend: Any
    ) -> Problem:
        bound = None if self.score_bound in (None, "auto") else float(self.score_bound) / self._units.scale
        features = kept.features
        if why is not None:
            features = feature_settings(
                Z,
                self._request(Z),
                fit_intercept=self.fit_intercept,
                bounded=bound is not None,
                penalty=self.penalty,
                scaling=self.feature_scaling,
            )
        return observed_problem(
            Z,
            labels,
            features,
            self.family_,
            fit_intercept=self.fit_intercept,
            score_bound=bound,
            backend=backend,
            gone=kept.gone,
        )
