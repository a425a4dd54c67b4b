"""CVXPY with SCS: the trace-norm problem as it is written down, solved by a general method for cones."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.rivals import why_missing
from labelgap.labels import ObservedLabels

NAME = "CVXPY (SCS)"


@dataclass(frozen=True)
class Solution:
    """The minimiser and the status that SCS reports."""

    W: NDArray[np.float64]
    intercept: NDArray[np.float64]
    objective: float
    status: str


def unavailable() -> str | None:
    """Why it cannot run here."""
    return why_missing(NAME, "cvxpy", "scs")


def prepare(
    X: NDArray[np.float64] | None,
    labels: ObservedLabels,
    *,
    trace_penalty: float,
    loss: str = "logistic",
    fit_intercept: bool = True,
) -> Any:
    """The problem ``min 1/|Ω| Σ_Ω ℓ(z, y) + λ‖W‖_*`` with ``Z = XW + 1bᵀ`` (X = I when None)."""
    import cvxpy as cp

    n, n_labels = labels.shape
    W = cp.Variable((n if X is None else X.shape[1], n_labels), name="W")
    Z = W if X is None else X @ W
    if fit_intercept:
        Z = Z + np.ones((n, 1)) @ cp.Variable((1, n_labels), name="b")
    entries = labels.rows * n_labels + labels.cols
    ones, count = np.ones(len(entries)), len(entries)
    pick = sp.csr_array((ones, (np.arange(count), entries)), shape=(count, n * n_labels))
    margin = cp.multiply(2.0 * labels.values - 1, pick @ cp.vec(Z, order="C"))
    per_entry = {"logistic": lambda: cp.logistic(-margin), "squared": lambda: cp.square(1 - margin)}[loss]()
    return cp.Problem(cp.Minimize(cp.sum(per_entry) / count + trace_penalty * cp.normNuc(W)))


def fit(problem: Any, *, tol: float = 1e-4, time_limit: float = 0.0) -> Solution:
    """Solve to SCS's own tolerance, for at most ``time_limit`` seconds (0: no limit)."""
    import cvxpy as cp

    with warnings.catch_warnings():
        # That it stopped early is in the status.
        warnings.simplefilter("ignore", UserWarning)
        problem.solve(
            solver=cp.SCS, eps_abs=tol, eps_rel=tol, max_iters=1_000_000, time_limit_secs=time_limit
        )
    found = {variable.name(): variable.value for variable in problem.variables()}
    W = found["W"]
    b = found.get("b", np.zeros((1, W.shape[1])))
    return Solution(W, b[0], float(problem.value), str(problem.status))
