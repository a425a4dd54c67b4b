"""Scorers for scikit-learn from metrics that take incomplete labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labelgap._names import check_choice
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import UNOBSERVED
from labelgap.metrics.linear_fractional import LinearFractional, truth_and_decisions
from labelgap.metrics.named import get_metric


@dataclass(frozen=True)
class _MetricOfDecisions:
    """The metric as a function of truth, decisions and weights of rows."""

    metric: LinearFractional
    unobserved: str

    @property
    def __name__(self) -> str:
        return self.metric.__name__

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> float:
        y_true, y_pred = truth_and_decisions(y_true, y_pred, None, None)
        labels = ObservedLabels.from_any(y_true, unobserved=self.unobserved)
        if sample_weight is not None:
            rows = labels.with_row_weights(sample_weight)
            # The decisions keep their rows, so rows of weight 0 stay, without entries.
            return self.metric(rows, y_pred)
        return self.metric(labels, y_pred)


def make_scorer(metric: str | LinearFractional = "micro-f1", *, unobserved: str = "missing") -> Any:
    """A scorer of scikit-learn for a metric, over the known entries of y.

    It serves as ``scoring`` in ``cross_val_score`` and ``GridSearchCV``, for any estimator whose ``predict``
    gives decisions, and takes ``sample_weight``, also by metadata routing.

    Parameters
    ----------
    metric : str or LinearFractional, default "micro-f1"
        See :func:`labelgap.get_metric`.
    unobserved : {"missing", "negative"}, default "missing"
        What an absent entry of y means.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import KFold, cross_val_score
    >>> from labelgap import PlugInClassifier
    >>> from labelgap.metrics import make_scorer
    >>> X = np.arange(40.0).reshape(-1, 1)
    >>> Y = np.column_stack([X[:, 0] > 20, X[:, 0] % 4 > 1]).astype(float)
    >>> Y[::5] = np.nan
    >>> cv = KFold(2, shuffle=True, random_state=0)
    >>> cross_val_score(PlugInClassifier(random_state=0), X, Y, cv=cv, scoring=make_scorer("macro-f1")).shape
    (2,)
    """
    from sklearn.metrics import make_scorer as of_scikit_learn

    check_choice("unobserved", unobserved, [name for name in UNOBSERVED if name != "unlabelled"])
    return of_scikit_learn(_MetricOfDecisions(get_metric(metric), unobserved))
