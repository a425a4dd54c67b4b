"""Slow and obvious versions of what labelgap.sampling computes, on dense matrices."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit


def dense_popular(shape, share, row_skew, label_skew):
    """min(1, c r^-a s^-b) with c found by bisection over the whole matrix."""
    weights = np.outer(
        np.arange(1, shape[0] + 1) ** -float(row_skew), np.arange(1, shape[1] + 1) ** -float(label_skew)
    )

    def excess(log_scale):
        return np.minimum(1, np.exp(log_scale) * weights).mean() - share

    return np.minimum(1, np.exp(brentq(excess, -20, 50, xtol=1e-14)) * weights)


def dense_mu_nu(P):
    """μ and ν of π = P / ΣP, from their definitions."""
    pi = P / P.sum()
    n, L = P.shape
    return 1 / (n * L * pi.min()), min(n, L) * max(pi.sum(axis=1).max(), pi.sum(axis=0).max())


def dense_margins(row_sums, col_sums):
    """The maximum-entropy probabilities with these margins, by BFGS over all n + L parameters."""
    n, L = len(row_sums), len(col_sums)

    def loss(parameters):
        z = parameters[:n, None] + parameters[n:]
        P = expit(z)
        value = np.logaddexp(0, z).sum() - row_sums @ parameters[:n] - col_sums @ parameters[n:]
        return value, np.concatenate((P.sum(axis=1) - row_sums, P.sum(axis=0) - col_sums))

    found = minimize(loss, np.zeros(n + L), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    return expit(found.x[:n, None] + found.x[n:])


def mask_of(rows, cols, shape):
    mask = np.zeros(shape, dtype=bool)
    mask[rows, cols] = True
    return mask
