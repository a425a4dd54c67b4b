"""The convex problem handed to CVXPY: a slow and obvious oracle for the solvers."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np


def cvxpy_optimum(
    X,
    Y,
    loss,
    trace,
    ridge=0.0,
    weights=None,
    intercept=True,
    bound=None,
    intercept_penalty=0.0,
    centre=0.0,
    row_penalty=None,
):
    """Optimal value of the mean loss over observed entries (NaN = not observed) plus the penalties.

    ``X`` None means the identity. Weights are a matrix like Y. ``intercept_penalty`` is κ in
    ``κ/2 Σ(b_j − centre)²``. With a ``row_penalty`` μ the scores are XW + N, and ``μ‖N‖_*`` is added.
    """
    n, n_labels = Y.shape
    X = np.eye(n) if X is None else np.asarray(X.todense() if hasattr(X, "todense") else X)
    rows, cols = np.nonzero(~np.isnan(Y))
    s = 2 * Y[rows, cols] - 1
    omega = np.ones(len(rows)) if weights is None else weights[rows, cols]
    W = cp.Variable((X.shape[1], n_labels))
    XW = X @ W
    Z = XW
    b = cp.Variable((1, n_labels))
    if intercept:
        Z = Z + np.ones((n, 1)) @ b
    N = cp.Variable((n, n_labels))
    if row_penalty is not None:
        Z = Z + N
    pick = np.zeros((len(rows), n * n_labels))
    pick[np.arange(len(rows)), rows * n_labels + cols] = 1
    z = pick @ cp.vec(Z, order="C")
    margin = cp.multiply(s, z)
    per_entry = {
        "logistic": lambda: cp.logistic(-margin),
        "squared": lambda: cp.square(1 - margin),
        "squared_hinge": lambda: cp.square(cp.pos(1 - margin)),
        "exponential": lambda: cp.exp(-margin),
    }[loss]()
    objective = cp.sum(cp.multiply(omega / omega.sum(), per_entry)) + trace * cp.normNuc(W)
    if ridge:
        objective = objective + ridge / 2 * cp.sum_squares(W)
    if intercept_penalty:
        objective = objective + intercept_penalty / 2 * cp.sum_squares(b - centre)
    if row_penalty is not None:
        objective = objective + row_penalty * cp.normNuc(N)
    constraints = [] if bound is None else [cp.abs(XW) <= bound]
    problem = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert problem.status in ("optimal", "optimal_inaccurate"), problem.status
    return float(problem.value)
