"""Real values, counts and fractions with missing entries: the low-rank fit without a threshold."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _num_samples, check_is_fitted

from labelgap import kernels
from labelgap._arrays import like_input, to_host
from labelgap._types import Floats
from labelgap.estimators.arriving import start_from
from labelgap.estimators.arriving_values import ArrivingValues
from labelgap.estimators.base import CertifiedFit, keep_unless_default
from labelgap.estimators.feature_maps import MappedFeatures
from labelgap.estimators.features_given import read_features, refuse_extreme_values, refuse_misaligned
from labelgap.estimators.frames import FrameOutput
from labelgap.estimators.inputs import check_fit_parameters, solver_settings, warn_of_unseen_labels
from labelgap.estimators.regression_values import (
    Units,
    in_user_units,
    null_loss,
    read_values,
    require_something_to_learn,
    score_offsets,
    with_known_parts,
)
from labelgap.estimators.row_weights import groups_of_rows, without_zero_rows
from labelgap.exceptions import InvalidFeaturesError, InvalidLabelsError, InvalidParameterError
from labelgap.fitting.checkpoint import digest
from labelgap.fitting.choice import PenaltyChoice
from labelgap.fitting.feature_maps import FeatureMaps, first_map, mapped
from labelgap.fitting.judges import deviance_judge, mean_loss
from labelgap.fitting.penalty_grid import PenaltyGrid, PenaltyRequest, grid_for_observed
from labelgap.fitting.problem import (
    backend_for,
    device_scores,
    feature_settings,
    intercept_request,
    jobs_for,
    observed_problem,
)
from labelgap.fitting.run import fit_run
from labelgap.labels import ObservedLabels
from labelgap.labels.matching import in_label_order, match_labels
from labelgap.losses import Family, Poisson, get_family
from labelgap.objective.problem import Problem
from labelgap.persistence.checks import LOW_RANK_REGRESSOR
from labelgap.persistence.registry import savable_estimator
from labelgap.persistence.saving import Saved
from labelgap.solvers import Callback


@savable_estimator(LOW_RANK_REGRESSOR)
class LowRankRegressor(
    ArrivingValues,
    MappedFeatures,
    CertifiedFit,
    FrameOutput,
    Saved,
    RegressorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Real values, counts or fractions of many labels, from features and incomplete labels.

    Fits, over the observed values Ω,

        ``min_{W,b}  1/|Ω| Σ_Ω ℓ(x_i·w_j + b_j + o_ij, y_ij) + λ‖W‖_* + λ₂/2 ‖W‖_F² + κ/2 Σ_j (b_j − c)²``

    (``|XW| ≤ γ`` on request) to a proven duality gap. ℓ is half the unit deviance of the family, the score
    z = x·w + b + o its canonical parameter, and the prediction its mean G'(z). o is a known offset.

    Parameters
    ----------
    family : {"gaussian", "poisson", "bernoulli"} or Family, default "gaussian"
        Real values with mean z; counts with mean e^z; fractions or yes/no with mean 1/(1 + e^−z); or a
        :class:`labelgap.losses.CustomFamily`.
    trace_penalty : float or "auto", default "auto"
        λ. "auto" chooses it on held-out entries by the deviance.
    ridge_penalty : float or "auto", default "auto"
        λ₂. "auto" chooses it together with λ.
    rank : int or None, default None
        A cap on the rank of W. None lets the certificate decide.
    score_bound : float, None or "auto", default None
        γ, a bound that every ``|x_i·w_j|`` of the training rows obeys. None and "auto" are no bound.
    penalty : {"weights", "scores"}, default "weights"
        What the trace norm and the ridge are of: W, or the scores XW (Lafond's penalty).
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
        Assigns rows to folds, where these are alike.
    n_jobs : int or None, default None
        Fits of folds and candidates side by side, in threads; None is one for each thread that there is
        (``LABELGAP_NUM_THREADS``, or the cores).
    verbose : int, default 0
        1 reports the stages (in a notebook by a progress bar), 2 each round of the solver too.
    intercept_penalty : float or "auto", default "auto"
        κ, a penalty that draws the intercepts to c, the one score that fits all values best; 0 is none.
        "auto" chooses it together with λ and λ₂ where the columns of X are centred (as after
        standardising) or there is no X, and is 0 elsewhere, since b is the score at the origin.
    feature_scaling : {"auto", "none", "root", "standard"}, default "auto"
        What is done to the columns of X before W is penalised. "standard" makes their spreads equal, "root"
        goes half the way, on a logarithmic scale. "auto" is "standard" for a dense X, and "root" for a sparse
        one with no more features than rows. It is "none" for other sparse ones, and if λ or λ₂ is given as a
        number other than 0, which is then about X as it was given.
        ``coef_`` always belongs to X as it was given.
    device : {"auto", "cpu", "cuda", "cuda:0", ...}, default "auto"
        Where the work is done: on the CPU, or by torch on a GPU (the extra ``labelgap[gpu]``). "auto" is a
        GPU if there is one and the data are large enough to gain from it. The model and its certificate are
        the same; predictions run there too.
    features : {"linear", "auto", "rbf"} or a scikit-learn transformer, default "linear"
        What W is fitted in, as in :class:`labelgap.LowRankClassifier`: X itself, kernel features, or kernel
        features where they explain held-out rows clearly better ("auto").
    warm_start : bool, default False
        Whether :meth:`fit` starts its last fit at the present model, where the shapes are the same.
    memory : "all", int or None, default "all"
        What the model keeps of its data for :meth:`partial_fit`: all of them, by reference; a weighted sample
        of so many entries, and moments of the features; or nothing.
    forget : float or None, default None
        A half-life in batches: an entry that came m batches ago weighs ``2^(−m/forget)``. None: all alike.
    held_out : {"rows", "entries"}, default "rows"
        What is held out to choose penalties: all values of some rows, as :meth:`predict` is about rows
        that the fit has not seen; or some entries of each row, for values about rows of the fit. With
        ``groups`` in :meth:`fit` all rows of a group are held out together. With fewer than ten rows that
        have values it is entries.

    Attributes
    ----------
    coef_left_, coef_right_ : arrays of shape (d, k) and (L, k)
        ``W = coef_left_ @ coef_right_.T``. Without features d is the number of rows; with a feature map it is
        the number of features that it makes.
    coef_ : array of shape (d, L)
        W itself, made on request.
    feature_map_ : fitted transformer or None
        What makes the features of W from rows of X; None where they are X itself.
    features_ : str
        "linear", "rbf", or the class of the given transformer.
    intercept_ : array of shape (L,)
    rank_ : int
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
    n_iter_ : int
    history_ : tuple of Progress
        Objective, relative gap, rank and time during the last fit.
    candidates_ : tuple of Candidate
        What was compared on held-out entries; the last one is the winner, fitted more closely. Their ``loss``
        is the held-out deviance as a fraction of the null model's, to four digits, ``metric_value`` one minus
        that.
    batches_ : tuple of Batch
        The batches so far, where data are kept; see :class:`labelgap.arriving.Batch`.
    family_ : Family
    has_offsets_ : bool
        Whether the fit had an offset, an exposure, or labels that hold offsets.
    n_labels_, label_names_, n_features_in_, feature_names_in_

    Examples
    --------
    Counts of two kinds of events, observed for different lengths of time:

    >>> import numpy as np
    >>> from labelgap import LowRankRegressor
    >>> rng = np.random.RandomState(0)
    >>> X, hours = rng.standard_normal((200, 3)), rng.uniform(1, 9, size=200)
    >>> rate = np.exp(X @ [[0.5, 0.4], [-0.5, -0.4], [0.0, 0.0]])
    >>> Y = rng.poisson(rate * hours[:, None]).astype(float)
    >>> Y[rng.uniform(size=Y.shape) < 0.5] = np.nan
    >>> model = LowRankRegressor(family="poisson", random_state=0).fit(X, Y, exposure=hours)
    >>> model.predict([[1.0, -1.0, 0.0]], exposure=10.0).round(-1)
    array([[30., 20.]])
    >>> bool(model.score(X, Y, exposure=hours) > 0.5)
    True
    """

    n_labels_: int
    family_: Family

    # For scikit-learn's metadata routing: groups that are given are meant for the fit, too.
    __metadata_request__fit: ClassVar = {"groups": True}

    def __init__(
        self,
        family: str | Family = "gaussian",
        trace_penalty: float | str = "auto",
        ridge_penalty: float | str = "auto",
        rank: int | None = None,
        score_bound: float | str | None = None,
        penalty: str = "weights",
        solver: str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-3,
        max_iter: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        intercept_penalty: float | str = "auto",
        feature_scaling: str = "auto",
        device: str = "auto",
        features: Any = "linear",
        warm_start: bool = False,
        memory: int | str | None = "all",
        forget: float | None = None,
        held_out: str = "rows",
    ) -> None:
        self.family = family
        self.trace_penalty = trace_penalty
        self.ridge_penalty = ridge_penalty
        self.rank = rank
        self.score_bound = score_bound
        self.penalty = penalty
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.intercept_penalty = intercept_penalty
        self.feature_scaling = feature_scaling
        self.device = device
        self.features = features
        self.warm_start = warm_start
        self.memory = memory
        self.forget = forget
        self.held_out = held_out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.target_tags.positive_only = isinstance(self.family, Poisson) or self.family == "poisson"
        tags.input_tags.sparse = self._takes_sparse()
        return tags

    # -- fitting ---------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        offset: Any = None,
        exposure: Any = None,
        sample_weight: Any = None,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        groups: Any = None,
    ) -> Self:
        """Fit W and b.

        Ctrl-C ends the fit early with a usable model; see :meth:`labelgap.LowRankClassifier.fit`.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d), or None
            None is for no features: every row has parameters of its own (matrix completion).
        y : values of shape (n, L) in any form that ``ObservedLabels.from_any`` takes, NaN = not observed;
            or a 1-d array, for one label
        offset : number, vector of length n or |Ω|, array or sparse matrix of shape (n, L), or None
            A known part of each score, finite where there is a value.
        exposure : like ``offset``, or None
            For counts: how long, or how many, each was counted over; positive. The same as
            ``offset=log(exposure)``; both together add up.
        sample_weight : array of shape (n,), or None
            Weights of the rows, on top of those that ``y`` may hold; 0 leaves a row out.
        callback : callable, optional
            As in :meth:`labelgap.LowRankClassifier.fit`.
        checkpoint : path of a folder, or None
            Where the fit keeps its progress. The same fit, started again after it was killed or stopped,
            resumes from there and ends with the same model. Delete the folder once the model is saved.
        groups : sequence with the group of each row, or None
            Rows that are alike, such as those of one patient, site or scaffold. All rows of a group are held
            out together, so that the penalties and ``held_out_metric_`` are about rows of new groups.
        """
        check_fit_parameters(self)
        self._refuse_memory(X)
        self.family_ = get_family(self.family)
        refuse_misaligned(X, y)
        X = None if X is None else read_features(self, X, reset=True)
        labels, self._single = read_values(y, self.family_)
        n = labels.shape[0] if X is None else _num_samples(X)
        self.n_labels_, self._has_features = labels.shape[1], X is not None
        if X is None:
            self.n_features_in_ = n
            # A fit before this one may have left names.
            self.__dict__.pop("feature_names_in_", None)
        else:
            refuse_extreme_values(X)
        whole = X, self._with_known_parts(labels, n, offset, exposure, None)
        labels = self._with_known_parts(labels, n, offset, exposure, sample_weight)
        groups = groups_of_rows(groups, n, self.held_out, labels.row_weights)
        if X is not None:
            X, labels = without_zero_rows(X, labels)
        elif groups is not None:
            raise InvalidParameterError(
                "groups holds out whole rows, of which nothing is known without features. Give X, or leave "
                "groups out."
            )
        self.has_offsets_ = labels.offsets is not None
        self.label_names_ = None if labels.label_names is None else np.asarray(labels.label_names)
        require_something_to_learn(labels, self.family_)
        warn_of_unseen_labels(labels)
        present = self._warm_factors()
        with fit_run(
            self, callback, checkpoint, lambda: {"the features": digest(X), "the labels": digest(labels)}
        ) as run:
            self._units, labels = Units.of(labels, self.family_, shifted=self.fit_intercept)
            run.to_user_units = self._units.progress
            scale = self._units.scale
            if scale != 1:
                run.say(f"values, and trace penalties below, are in units of {scale:.3g}")
            # The map sees X alone, so that nothing of held-out values can leak through it.
            transformer = first_map(self.features, X, run.random_state)
            Z = X if X is None else mapped(transformer, X)
            backend = backend_for(self.device, labels, self.family_)
            run.n_jobs = jobs_for(backend, run.n_jobs)

            def made(
                Z: Any, labels: ObservedLabels, label_weighting: float = 0.0
            ) -> tuple[Problem, PenaltyGrid]:
                request = self._request(Z)
                bound = None if self.score_bound in (None, "auto") else float(self.score_bound) / scale
                features = feature_settings(
                    Z,
                    request,
                    fit_intercept=self.fit_intercept,
                    bounded=bound is not None,
                    penalty=self.penalty,
                    scaling=self.feature_scaling,
                )
                problem = observed_problem(
                    Z,
                    labels,
                    features,
                    self.family_,
                    fit_intercept=self.fit_intercept,
                    score_bound=bound,
                    backend=backend,
                )
                return problem, grid_for_observed(problem, labels, request)

            # Rows without features have parameters of their own: of new ones nothing is known.
            self._holds_out_rows = self.held_out == "rows" and X is not None
            keep_unless_default(self, _holds_out_groups=groups is not None)
            problem, grid = made(Z, labels)
            choice = PenaltyChoice(
                problem,
                labels,
                grid,
                deviance_judge(self.family_, null_loss(labels, self.family_)),
                solver_settings(self),
                run,
                by_row=self._holds_out_rows,
                groups=groups,
                criterion="loss",
                start=None if present is None else start_from(self._units.from_user(present)),
            )
            chosen = FeatureMaps.of(self, X, labels, self._request(Z), made, transformer).fit(choice)
            keep_unless_default(self, feature_map_=chosen.feature_map)
            assert chosen.problem is not None
            problem = chosen.problem
            self.feature_scales_ = problem.feature_scales
            factors = self._units.factors(problem.to_original(chosen.fit.factors))
            self.coef_left_, self.coef_right_, self.intercept_ = factors
            self._keep_fit(in_user_units(chosen, self._units))
            self._keep_first_batch(*whole, chosen, run, sample_weight=sample_weight)
        return self

    def _request(self, Z: Any) -> PenaltyRequest:
        """The penalties to choose, in units of the values."""
        scale = self._units.scale
        return PenaltyRequest(
            self.trace_penalty if isinstance(self.trace_penalty, str) else self.trace_penalty / scale,
            self.ridge_penalty,
            intercept_request(Z, self.intercept_penalty, fit_intercept=self.fit_intercept),
        )

    @property
    def coef_(self) -> Floats:
        """W (d x L), multiplied out."""
        return self.coef_left_ @ self.coef_right_.T

    # -- reading ---------------------------------------------------------------------------------------

    def _rows(self, X: Any) -> Floats:
        """``XA`` of the rows to be scored; without features, of the training rows."""
        check_is_fitted(self)
        if not self._has_features:
            if X is not None:
                raise InvalidFeaturesError(
                    "The model was fitted without features (X=None), so it knows its training rows only. "
                    "Leave X out, or pass None."
                )
            return self.coef_left_
        if X is None:
            raise InvalidFeaturesError("The model was fitted to features; pass those of the rows as X.")
        return self._left_product(read_features(self, X, reset=False))

    def _with_known_parts(
        self, labels: ObservedLabels, n: int, offset: Any, exposure: Any, sample_weight: Any
    ) -> ObservedLabels:
        if labels.shape != (n, self.n_labels_):
            raise InvalidLabelsError(
                f"The labels have shape {labels.shape}; {n} rows, as in X, and {self.n_labels_} labels were "
                "expected (inconsistent numbers of samples, or other labels than in the fit)."
            )
        return with_known_parts(labels, self.family_, offset, exposure, sample_weight)

    # -- predicting ------------------------------------------------------------------------------------

    def decision_function(self, X: Any = None, *, offset: Any = None, exposure: Any = None) -> Any:
        """Scores ``z = x·w + b + offset + log(exposure)`` (n x L, dense; 1-d after a fit to a 1-d y)."""
        return like_input(self._framed(self._scores(to_host(X), offset, exposure), X), X)

    def _scores(self, X: Any, offset: Any, exposure: Any) -> Floats:
        P = self._rows(X)
        identity = np.eye(P.shape[1])
        device = device_scores(self.device, P, identity, self.coef_right_, self.intercept_)
        scores = P @ self.coef_right_.T + self.intercept_ if device is None else device.scores(P)
        known = score_offsets(self.family_, offset, exposure, scores.shape)
        scores = scores if known is None else scores + known
        return scores[:, 0] if self._single else scores

    def predict(self, X: Any = None, *, offset: Any = None, exposure: Any = None) -> Any:
        """Means G'(z) of all labels (n x L, dense; 1-d after a fit to a 1-d y).

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            None (or left out) after a fit without features: the training rows.
        offset, exposure : number, vector of length n, array or sparse matrix of shape (n, L), or None
            As in :meth:`fit`. None is an offset of 0 and an exposure of 1, whatever the fit had.
        """
        scores = self._scores(to_host(X), offset, exposure)
        return like_input(self._framed(np.asarray(self.family_.inverse_link(scores)), X), X)

    def predict_entries(self, X: Any, entries: Any, *, offset: Any = None, exposure: Any = None) -> Floats:
        """Means at some entries only, one number for each; nothing of size n x L is made.

        Parameters
        ----------
        X : as in :meth:`predict`
        entries : ObservedLabels, or a form of y that ``ObservedLabels.from_any`` takes
            The entries that are observed here, row by row. Their values do not matter; offsets do.
        offset, exposure : as in :meth:`fit`
        """
        P = self._rows(X)
        wanted = ObservedLabels.from_any(entries, binary=False)
        labels = self._with_known_parts(wanted, len(P), offset, exposure, None)
        ordered, numbers = match_labels(labels, self.label_names_)
        scores = np.empty(labels.n_observed)
        scores[numbers] = self._score_entries(P, ordered)
        return np.asarray(self.family_.inverse_link(scores))

    def _score_entries(self, P: Floats, labels: ObservedLabels) -> Floats:
        low_rank = kernels.entries.sampled_product(
            labels.indptr, labels.indices, P, np.ascontiguousarray(self.coef_right_)
        )
        scores = low_rank + self.intercept_[labels.indices]
        return np.asarray(scores if labels.offsets is None else scores + labels.offsets)

    # -- judging ---------------------------------------------------------------------------------------

    def deviance(
        self, X: Any, y: Any, *, offset: Any = None, exposure: Any = None, sample_weight: Any = None
    ) -> float:
        """The mean unit deviance over the observed entries of y: the squared error for the Gaussian family.

        Parameters are those of :meth:`fit`.
        """
        labels, scores = self._judged(X, y, offset, exposure, sample_weight)
        return 2.0 * mean_loss(self.family_, scores, labels)

    def score(
        self, X: Any, y: Any, *, offset: Any = None, exposure: Any = None, sample_weight: Any = None
    ) -> float:
        """D², the fraction of the null deviance that the model explains, over the observed entries of y.

        The null model is scikit-learn's: it knows the mean of each label *in this y* (with offsets, the best
        constant score of each label beside them). So 0 is as good as those means, 1 is perfect, and below 0
        is worse. Deviances are summed over all labels before the ratio is taken. For the Gaussian family it
        is R² with ``multioutput="variance_weighted"``. If every label has one value throughout, D² is 1 for
        predictions that equal it and 0 for others. Parameters are those of :meth:`fit`.
        """
        return self._explained(*self._judged(X, y, offset, exposure, sample_weight))

    def _explained(self, labels: ObservedLabels, scores: Floats) -> float:
        """D² of the scores of observed entries."""
        null = null_loss(labels, self.family_)
        if null == 0:
            return float(np.allclose(self.family_.inverse_link(scores), labels.values))
        return 1.0 - mean_loss(self.family_, scores, labels) / null

    def _judged(
        self, X: Any, y: Any, offset: Any, exposure: Any, sample_weight: Any
    ) -> tuple[ObservedLabels, Floats]:
        P = self._rows(X)
        refuse_misaligned(X, y)
        values, _ = read_values(y, self.family_)
        labels = self._with_known_parts(values, len(P), offset, exposure, sample_weight)
        # After offsets and weights, which may come as vectors in the order of y.
        labels = in_label_order(labels, self.label_names_)
        return labels, self._score_entries(P, labels)
