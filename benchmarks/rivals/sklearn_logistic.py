"""scikit-learn: one LogisticRegression per label, on the rows in which the label is observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from benchmarks.rivals import why_missing
from labelgap.labels import ObservedLabels

NAME = "scikit-learn (one-vs-rest logistic)"
SOLVERS = ("liblinear", "lbfgs")


@dataclass(frozen=True)
class LinearModel:
    """The scores are ``X @ weights + intercepts``."""

    weights: NDArray[np.float64]
    intercepts: NDArray[np.float64]


def unavailable() -> str | None:
    """Why it cannot run here."""
    return why_missing(NAME, "sklearn.linear_model")


def prepare(X: Any, labels: ObservedLabels) -> list[tuple[Any, NDArray[Any]]]:
    """For each label the features and values of its rows."""
    columns = labels.to_sparse().tocsc()
    parts = [slice(*columns.indptr[j : j + 2]) for j in range(labels.shape[1])]
    return [(X[columns.indices[part]], columns.data[part]) for part in parts]


def fit(
    data: list[tuple[Any, NDArray[Any]]], *, solver: str, C: float = 1.0, tol: float = 1e-4, threads: int = 1
) -> LinearModel:
    """All labels; a one-class label gets the weights 0 and an intercept from its rate."""
    fitted = Parallel(n_jobs=threads)(delayed(_fit_label)(X, y, solver, C, tol) for X, y in data)
    weights, intercepts = zip(*fitted, strict=True)
    return LinearModel(np.column_stack(weights), np.array(intercepts))


def scores(model: LinearModel, X: Any) -> NDArray[np.float64]:
    """Log-odds of each label."""
    return np.asarray(X @ model.weights) + model.intercepts


def _fit_label(
    X: Any, y: NDArray[Any], solver: str, C: float, tol: float
) -> tuple[NDArray[np.float64], float]:
    from sklearn.linear_model import LogisticRegression

    if len(y) == 0 or y.min() == y.max():
        # The log-odds with half an entry of each class added.
        yes = float(np.sum(y))
        return np.zeros(X.shape[1]), float(np.log((yes + 0.5) / (len(y) - yes + 0.5)))
    model = LogisticRegression(solver=solver, C=C, tol=tol, max_iter=1000).fit(X, y)
    return model.coef_[0], float(model.intercept_[0])
