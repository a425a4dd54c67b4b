"""The fraction of unrecorded positives: its estimate from data, and how decisions depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from labelgap._types import Floats
from labelgap.estimators.inputs import check_decision_parameters, solver_settings
from labelgap.estimators.low_rank import LowRankClassifier
from labelgap.estimators.recommender import Recommender
from labelgap.exceptions import InvalidParameterError
from labelgap.fitting.penalty_grid import PenaltyRequest
from labelgap.fitting.problem import feature_settings
from labelgap.fitting.run import FitRun
from labelgap.fitting.unlabelled import UnlabelledChoice
from labelgap.flip_rates.estimate import FlipRateEstimate
from labelgap.labels.constructors import meaning_of_silence
from labelgap.losses import get_loss
from labelgap.metrics.unlabelled import check_flip_rate


def estimate_flip_rate(
    X: Any,
    y: Any,
    *,
    loss: str = "logistic",
    random_state: Any = None,
    n_jobs: int | None = None,
    memory_limit_mb: float = 256.0,
) -> FlipRateEstimate:
    """The fraction ρ of true positives that were not recorded, with an interval.

    A low-rank model of what is recorded gives every entry a score from a fit that took it for unlabelled.
    Where yes is next to certain, the recorded fraction is ``1 − ρ``. That needs features from which some
    positives can be told with certainty; if yes is certain nowhere, ρ comes out too high.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
    y : label matrix of shape (n, L), or 1-d
        1 is a recorded positive; everything else may be yes or no.
    loss : {"logistic", "squared", "exponential"}, default "logistic"
        The loss of the model that orders the entries; "squared" is many times faster.
    random_state : int, RandomState or None, default None
    n_jobs : int or None, default None
        As in :class:`labelgap.LowRankClassifier`.
    memory_limit_mb : float, default 256

    Returns
    -------
    FlipRateEstimate
        ``value``, ``low`` and ``high``.

    Examples
    --------
    >>> import numpy as np
    >>> from labelgap import estimate_flip_rate
    >>> from labelgap.data import make_low_rank_labels
    >>> problem = make_low_rank_labels(n=400, n_labels=20, observed=1.0, random_state=0)
    >>> kept = np.random.default_rng(0).random(problem.Y.shape) < 0.6
    >>> estimate = estimate_flip_rate(problem.X, problem.Y * kept, loss="squared", random_state=0)
    >>> bool(estimate.low <= 0.4 <= estimate.high)
    True
    """
    model = LowRankClassifier(
        loss=loss,
        unobserved="unlabelled",
        random_state=random_state,
        n_jobs=n_jobs,
        memory_limit_mb=memory_limit_mb,
    )
    check_decision_parameters(model)
    X, targets = model._read_fit_input(X, y, "unlabelled")
    labels, request = targets.labels, PenaltyRequest(model.trace_penalty, model.ridge_penalty, 0.0)
    with threadpool_limits(limits=1, user_api="blas"):
        features = feature_settings(
            X,
            request,
            fit_intercept=True,
            bounded=True,
            penalty=model.penalty,
            scaling=model.feature_scaling,
        )
        return UnlabelledChoice(
            X,
            labels,
            features,
            get_loss(loss),
            request,
            solver_settings(model),
            FitRun(random_state=random_state, n_jobs=n_jobs, name="estimate_flip_rate"),
            memory_limit_mb=memory_limit_mb,
        ).estimated_flip_rate()


@dataclass(frozen=True)
class Sensitivity:
    """Fits at several flip rates, side by side; ``print`` shows the table."""

    flip_rates: Floats
    metric: Floats
    """The corrected metric on held-out entries at each rate, corrected with that same rate."""
    thresholds: Floats
    yes_share: Floats
    """The fraction of entries decided yes."""
    changed_share: Floats
    """The fraction of entries decided otherwise than at the reference rate."""
    reference: float
    estimators: tuple[Any, ...]

    def __str__(self) -> str:
        lines = ["flip rate   metric   threshold   decided yes   changed"]
        for rate, metric, threshold, yes, changed in zip(
            self.flip_rates, self.metric, self.thresholds, self.yes_share, self.changed_share, strict=True
        ):
            star = "*" if rate == self.reference else " "
            lines.append(f"{rate:8.2f}{star} {metric:9.3f} {threshold:11.3f} {yes:13.1%} {changed:9.1%}")
        return "\n".join(lines)


def sensitivity(
    estimator: LowRankClassifier | Recommender,
    *data: Any,
    flip_rates: Sequence[float] = (0.1, 0.3, 0.5, 0.7, 0.9),
    reference: float | None = None,
) -> Sensitivity:
    """How decisions and the corrected metric depend on the flip rate ρ that one believes in.

    Parameters
    ----------
    estimator : LowRankClassifier or Recommender
        With ``unobserved="unlabelled"``. It is cloned, once for each rate, and not changed.
    *data
        What its ``fit`` takes: ``X, y``, or ``answers``.
    flip_rates : sequence of floats, default (0.1, 0.3, 0.5, 0.7, 0.9)
    reference : float or None, default None
        The rate, out of ``flip_rates``, whose decisions the others are compared with. None: the middle one.

    Examples
    --------
    >>> import numpy as np
    >>> from labelgap import LowRankClassifier, sensitivity
    >>> from labelgap.data import make_low_rank_labels
    >>> problem = make_low_rank_labels(n=200, n_labels=10, observed=1.0, random_state=0)
    >>> recorded = problem.Y * (np.random.default_rng(0).random(problem.Y.shape) < 0.6)
    >>> fixed = {"loss": "squared", "trace_penalty": 0.05, "ridge_penalty": 0, "random_state": 0}
    >>> model = LowRankClassifier(unobserved="unlabelled", **fixed)
    >>> table = sensitivity(model, problem.X, recorded, flip_rates=(0.2, 0.4))
    >>> bool(table.yes_share[0] < table.yes_share[1])
    True
    """
    labels = data[0] if isinstance(estimator, Recommender) else data[1]
    meant = meaning_of_silence(labels, estimator.unobserved)
    if meant != "unlabelled":
        raise InvalidParameterError(
            "sensitivity is about unrecorded positives: give an estimator with unobserved='unlabelled', not "
            f"{meant!r}."
        )
    rates = check_flip_rate(np.asarray(flip_rates, dtype=np.float64), len(flip_rates))
    if len(rates) == 0:
        raise InvalidParameterError("flip_rates is empty; give at least one rate.")
    middle = float(rates[len(rates) // 2]) if reference is None else float(reference)
    if middle not in rates:
        raise InvalidParameterError(
            f"reference is {middle}, which is not one of the flip_rates {rates.tolist()}."
        )
    fitted = tuple(clone(estimator).set_params(flip_rate=float(rate)).fit(*data) for rate in rates)
    decided = [_decisions(model, data[0]) for model in fitted]
    standard = decided[list(rates).index(middle)]
    n_entries = standard.shape[0] * standard.shape[1]
    return Sensitivity(
        flip_rates=rates,
        metric=np.array([np.nan if m.held_out_metric_ is None else m.held_out_metric_ for m in fitted]),
        thresholds=np.array([model.threshold_ for model in fitted]),
        yes_share=np.array([one.nnz / n_entries for one in decided]),
        changed_share=np.array([abs(one - standard).nnz / n_entries for one in decided]),
        reference=middle,
        estimators=fitted,
    )


def _decisions(model: LowRankClassifier | Recommender, first: Any) -> sp.csr_array:
    if isinstance(model, Recommender):
        return model.decide_matrix()
    if model._single:
        return sp.csr_array(np.atleast_2d(model.predict(first) == model.classes_[1]), dtype=np.int8)
    return sp.csr_array(model.predict(first, output="sparse"))
