"""The positive-unlabelled problem handed to CVXPY, or to scipy where CVXPY cannot be told the loss."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
from scipy import optimize


def cvxpy_unlabelled_optimum(
    X,
    Y,
    loss,
    rho,
    trace,
    ridge=0.0,
    intercept=True,
    bound=None,
    intercept_penalty=0.0,
    centre=0.0,
    F=None,
):
    """Optimal value of the mean unbiased loss over all entries plus the penalties.

    Y is 1 where recorded, 0 elsewhere, and NaN where an entry is held out. ``X`` and ``F`` None mean the
    identity; ``rho`` has one rate per label.
    """
    n, n_labels = Y.shape
    seen = (~np.isnan(Y)).astype(float)
    X = np.eye(n) if X is None else np.asarray(X.todense() if hasattr(X, "todense") else X)
    F = np.eye(n_labels) if F is None else F
    W = cp.Variable((X.shape[1], F.shape[1]))
    b = cp.Variable((1, n_labels))
    low_rank = X @ W @ F.T
    Z = low_rank + np.ones((n, 1)) @ b if intercept else low_rank
    # At a recorded positive the unbiased loss is the loss of "no" less t z/(1 − ρ).
    plain, t = {"logistic": (cp.logistic, 1.0), "squared": (lambda z: cp.square(z + 1), 4.0)}[loss]
    slopes = np.where(Y == 1, t / (1 - rho), 0.0)
    data = cp.sum(cp.multiply(seen, plain(Z))) - cp.sum(cp.multiply(slopes, Z))
    objective = data / seen.sum() + trace * cp.normNuc(W)
    if ridge:
        objective = objective + ridge / 2 * cp.sum_squares(W)
    if intercept_penalty:
        objective = objective + intercept_penalty / 2 * cp.sum_squares(b - centre)
    constraints = [] if bound is None else [cp.abs(low_rank) <= bound]
    problem = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert problem.status in ("optimal", "optimal_inaccurate"), problem.status
    return float(problem.value)


def scipy_exponential_optimum(X, Y, rho, trace, ridge=0.0, intercept=True, intercept_penalty=0.0, centre=0.0):
    """The same for the unbiased exponential loss, without a bound; and the largest |XW| at the optimum.

    Over ``W = ABᵀ`` of full rank with ``trace/2 (‖A‖² + ‖B‖²)``, which has the same minimum.
    """
    n, n_labels = Y.shape
    X = np.eye(n) if X is None else X
    d, k = X.shape[1], min(X.shape[1], n_labels)
    linear_from = 0.5 * np.log(1 / rho)
    seen = ~np.isnan(Y)
    sizes = np.cumsum([d * k, n_labels * k])

    def parts(x):
        return x[: sizes[0]].reshape(d, k), x[sizes[0] : sizes[1]].reshape(n_labels, k), x[sizes[1] :]

    def objective(x):
        A, B, b = parts(x)
        Z = X @ A @ B.T + (b if intercept else 0)
        z = np.minimum(Z, linear_from)
        recorded = (np.exp(-z) - rho * np.exp(z) - 2 * np.sqrt(rho) * (Z - z)) / (1 - rho)
        recorded_slope = -(np.exp(-z) + rho * np.exp(z)) / (1 - rho)
        W = A @ B.T
        value = np.where(Y == 1, recorded, np.exp(Z))[seen].mean() + ridge / 2 * np.sum(W * W)
        value += trace / 2 * (np.sum(A * A) + np.sum(B * B)) + intercept_penalty / 2 * np.sum(
            (b - centre) ** 2
        )
        G = np.where(Y == 1, recorded_slope, np.exp(Z)) * seen / seen.sum()
        H = X.T @ G + ridge * W
        slope_b = (G.sum(axis=0) if intercept else 0) + intercept_penalty * (b - centre)
        return value, np.concatenate([(H @ B + trace * A).ravel(), (H.T @ A + trace * B).ravel(), slope_b])

    start = np.random.default_rng(0).standard_normal(sizes[1] + n_labels) * 0.5
    options = {"maxiter": 20000, "maxfun": 100000, "ftol": 1e-15, "gtol": 1e-10}
    best = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    A, B, _ = parts(best.x)
    return float(best.fun), float(np.abs(X @ A @ B.T).max())
