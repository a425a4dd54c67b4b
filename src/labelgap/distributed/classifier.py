"""The low-rank classifier on a Dask cluster."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelgap.distributed.choice import cluster_choice
from labelgap.distributed.clients import the_client
from labelgap.distributed.cluster_labels import ClusterLabels
from labelgap.distributed.data_digest import digest_of
from labelgap.distributed.inputs import ClusterData, read_data
from labelgap.distributed.on_cluster import OnCluster
from labelgap.distributed.partitions import column_moments
from labelgap.distributed.predicting import lazily, score_of
from labelgap.distributed.problem import ClusterProblem
from labelgap.estimators.inputs import check_decision_parameters, solver_settings, warn_of_unseen_labels
from labelgap.estimators.low_rank import LowRankClassifier
from labelgap.exceptions import InvalidParameterError
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.penalty_grid import PenaltyRequest, grid_for, largest_penalty_of
from labelgap.fitting.problem import feature_settings
from labelgap.fitting.run import fit_run
from labelgap.losses import Loss, get_loss
from labelgap.metrics import LinearFractional, get_metric
from labelgap.objective.parts import ProblemSettings
from labelgap.solvers import Callback
from labelgap.thresholds.cross_fit import OneClassEffect
from labelgap.thresholds.sweep import steady_threshold

_UNOBSERVED = ("missing", "negative")


class DaskLowRankClassifier(OnCluster):
    """:class:`labelgap.LowRankClassifier` for rows that are spread over a Dask cluster.

    It minimises the same objective,

        ``min_{W,b}  1/|Ω| Σ_Ω ℓ(x_i·w_j + b_j, y_ij) + λ‖W‖_* + λ₂/2 ‖W‖_F² + κ/2 Σ_j (b_j − c)²``,

    to the same duality gap, and finds the same exact threshold. The solver runs in the client. Each of its
    steps is a round of one task for each partition and a sum in a fixed order, so that about (d + L)k numbers
    travel each way. The model depends on the partitions only by rounding, and not at all on the number of
    workers, or on which of them did what, died or came later.

    Parameters
    ----------
    metric, loss, trace_penalty, ridge_penalty, rank, threshold, solver, fit_intercept, tol, max_iter, \
random_state, intercept_penalty, penalty, feature_scaling
        As in :class:`labelgap.LowRankClassifier`. Folds are drawn by a hash of the row, the label and the
        seed, so that a search may choose a little differently there.
    unobserved : {"missing", "negative"}, default "missing"
        What an absent entry of y means. Learning from recorded positives alone is not offered here.
    verbose : int, default 0
    device : {"cpu", "auto", "cuda", ...}, default "cpu"
        Where a worker computes: "auto" is its GPU if it has one and a partition is large enough.
    client : distributed.Client or None, default None
        The cluster. None is the current client.

    Attributes
    ----------
    coef_left_, coef_right_, coef_, intercept_, threshold_, rank_, objective_, duality_gap_, relative_gap_, \
candidates_, ...
        As in :class:`labelgap.LowRankClassifier`.
    n_partitions_ : int
    data_facts_ : dict
        The numbers of rows, entries, observed entries and positives.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from labelgap.data import make_low_rank_labels
    >>> from labelgap.distributed import DaskLowRankClassifier
    >>> problem = make_low_rank_labels(n=80, n_labels=6, observed=0.5, random_state=0)
    >>> X, Y = (da.from_array(a, chunks=(40, -1)) for a in (problem.X, problem.Y_observed))
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     clf = DaskLowRankClassifier(trace_penalty=0.05, ridge_penalty=0.0, threshold="train").fit(X, Y)
    ...     decisions = clf.predict(X).compute()
    >>> decisions.shape, clf.relative_gap_ <= 1e-3
    ((80, 6), True)
    >>> type(clf.to_local()).__name__
    'LowRankClassifier'
    """

    stands_for = LowRankClassifier
    instead: ClassVar = {
        "n_jobs": "Leave it out: the cluster has as many tasks at work as its workers have threads.",
        "features": "Leave it out, and hand in features that are mapped already (map_blocks).",
        "thresholds": "Leave it out: one threshold is shared by all labels.",
    }

    def __init__(
        self,
        metric: str | LinearFractional = "micro-f1",
        loss: str | Loss = "logistic",
        trace_penalty: float | str = "auto",
        ridge_penalty: float | str = "auto",
        rank: int | None = None,
        unobserved: str = "missing",
        threshold: str = "cross-fit",
        solver: str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-3,
        max_iter: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        intercept_penalty: float | str = "auto",
        penalty: str = "weights",
        feature_scaling: str = "auto",
        device: str = "cpu",
        client: Any = None,
    ) -> None:
        self.metric = metric
        self.loss = loss
        self.trace_penalty = trace_penalty
        self.ridge_penalty = ridge_penalty
        self.rank = rank
        self.unobserved = unobserved
        self.threshold = threshold
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose
        self.intercept_penalty = intercept_penalty
        self.penalty = penalty
        self.feature_scaling = feature_scaling
        self.device = device
        self.client = client

    # -- fitting ---------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Fit W, b and θ.

        Ctrl-C ends the fit early with a usable model; a second Ctrl-C ends it at once. In both cases nothing
        is left on the cluster. A worker that dies is no reason to stop: what it held is made again.

        Parameters
        ----------
        X : dask array, dask DataFrame, path of a Parquet folder, or list of delayed pairs
            Partitioned by rows. Chunks of an array are dense, or scipy's sparse matrices. A pair is ``(X,
            labels)`` of some rows, with labels in any form that ``ObservedLabels.from_any`` takes.
        y : dask array or DataFrame; or names or patterns of columns of X, such as "tag_*"; or None
            Labels with NaN where nothing is observed; None for a list of pairs.
        callback : callable, optional
            As in :meth:`labelgap.LowRankClassifier.fit`.
        checkpoint : path of a folder, or None
            Where the client keeps its progress. The same fit, started again after the client was killed,
            resumes from there and ends with the same model.
        """
        local: LowRankClassifier = self._for_one_machine()
        check_decision_parameters(local)
        if self.unobserved not in _UNOBSERVED:
            raise InvalidParameterError(
                f"unobserved must be 'missing' or 'negative' on a cluster; got {self.unobserved!r}. Learning "
                "from recorded positives alone is offered by LowRankClassifier, on one machine."
            )
        client = the_client(self.client)
        data = read_data(client, X, y, self.unobserved)
        labels = _labels_of(data)
        local.loss_, local.metric_ = get_loss(self.loss), get_metric(self.metric)
        with fit_run(self, callback, checkpoint, lambda: {"the data": digest_of(data.rounds)}) as run:
            request = self._request(data)
            problem = self._problem(data, local.loss_, request)
            grid = grid_for(
                problem,
                labels,  # type: ignore[arg-type]
                request,
                n_terms=labels.n_observed,
                mean=labels.mean,
                largest=largest_penalty_of,
            )
            metric = local.metric_
            effect = OneClassEffect(
                labels,  # type: ignore[arg-type]
                metric,
                lambda z, some: steady_threshold(z, some, metric),
            )
            chosen = cluster_choice(
                problem,
                labels,
                grid,
                metric,
                solver_settings(local),
                run,
                how=self.threshold,
                by_row=True,
                effect=effect,
            ).fit()
            effect.warn()
            self._keep(local, data, problem, chosen)
        if self.interrupted_:
            local.interrupted_ = True
        return self

    def _request(self, data: ClusterData) -> PenaltyRequest:
        intercept = self.intercept_penalty if self.fit_intercept else 0.0
        if intercept == "auto" and not data.rounds.sum(column_moments).look_centred():
            # The intercepts act at the origin, which means something only where the features are centred.
            intercept = 0.0
        return PenaltyRequest(self.trace_penalty, self.ridge_penalty, intercept)

    def _problem(self, data: ClusterData, loss: Loss, request: PenaltyRequest) -> ClusterProblem:
        features = feature_settings(
            data.shape_like(),
            request,
            fit_intercept=self.fit_intercept,
            bounded=False,
            penalty=self.penalty,
            scaling=self.feature_scaling,
        )
        settings = ProblemSettings(loss, features, fit_intercept=bool(self.fit_intercept))
        return ClusterProblem(data.take_partitions(), settings, self.device)

    def _keep(
        self, local: LowRankClassifier, data: ClusterData, problem: ClusterProblem, chosen: ChosenFit
    ) -> None:
        """The fitted model as one of one machine, and its attributes here too."""
        local._keep_decisions(chosen)
        local.feature_scales_ = problem.feature_scales
        local.coef_left_, local.coef_right_, local.intercept_ = problem.to_original(chosen.fit.factors)
        local.classes_, local.n_labels_ = np.array([0, 1]), data.n_labels
        local.label_names_ = None if data.label_names is None else np.asarray(data.label_names)
        local.n_features_in_ = data.n_features
        if data.feature_names is not None:
            local.feature_names_in_ = np.array(data.feature_names, dtype=object)
        local._single, local._sparse_labels, local._unobserved = False, False, data.unobserved
        local._holds_out_rows = True
        self._take_attributes(local)
        self.n_partitions_ = data.n_partitions
        self.data_facts_ = data.facts()
        self._local = local

    # -- predictions -----------------------------------------------------------------------------------

    def to_local(self) -> LowRankClassifier:
        """The fitted model for one machine: to save, to report about, to export as ONNX.

        It is the same model, and no copy.
        """
        check_is_fitted(self)
        return self._local

    @property
    def coef_(self) -> Any:
        """W (d x L), multiplied out."""
        return self.to_local().coef_

    @property
    def threshold_probability_(self) -> float:
        """``threshold_`` on the scale of :meth:`predict_proba`."""
        return self.to_local().threshold_probability_

    def predict(self, X: Any) -> Any:
        """Decisions, 1 for yes: lazy, chunk by chunk, as a dask array or DataFrame like X."""
        return lazily(self.to_local(), "predict", X, np.int8)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of yes, lazily."""
        return lazily(self.to_local(), "predict_proba", X, np.float64)

    def decision_function(self, X: Any) -> Any:
        """Scores, lazily; the decision is ``score >= threshold_``."""
        return lazily(self.to_local(), "decision_function", X, np.float64)

    def score(self, X: Any, y: Any = None) -> float:
        """The metric of the decisions over the observed entries of y, which has any form that fit takes."""
        local = self.to_local()
        data = read_data(the_client(self.client), X, y, self.unobserved)
        if (data.n_features, data.n_labels) != (local.n_features_in_, local.n_labels_):
            raise InvalidParameterError(
                f"The data have {data.n_features} features and {data.n_labels} labels; the model was fitted "
                f"to {local.n_features_in_} and {local.n_labels_}."
            )
        return score_of(local, data.rounds)


def _labels_of(data: ClusterData) -> ClusterLabels:
    """The labels by their sums, checked as those of one machine are."""
    labels = ClusterLabels((data.n_rows, data.n_labels), data.sums, label_names=data.label_names)
    labels.require_both_classes()
    warn_of_unseen_labels(labels)  # type: ignore[arg-type]
    return labels
