"""The data term with dense matrices: slow and obvious. And the convex problem of a design for CVXPY."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from labelgap.objective.protocol import Factors

CLOSE = {"rtol": 1e-10, "atol": 1e-13}


@dataclass
class DenseTerm:
    """``Σ ω_ij ℓ(z_ij + offset_ij, y_ij)`` with ``Z = X W Fᵀ + 1bᵀ``, over the entries not NaN in Y.

    ``loss`` may be a list of one loss per label. ``F`` None means the identity. With a ``hold`` of a bound γ,
    a stiffness μ and multipliers u of all entries, ``max_a a s − γ|a| − (a − u)²/2μ`` is added for every
    entry's score s without the intercept.
    """

    X: Any
    Y: Any
    weights: Any
    loss: Any
    intercept: bool
    F: Any = None
    offsets: Any = None
    hold: tuple[float, float, Any] | None = None

    def __post_init__(self):
        n_labels = self.Y.shape[1]
        self.F = np.eye(n_labels) if self.F is None else self.F
        self.offsets = np.zeros(self.Y.shape) if self.offsets is None else self.offsets
        self.losses = self.loss if isinstance(self.loss, list) else [self.loss] * n_labels

    def low_rank(self, factors):
        """``X W Fᵀ``."""
        return self.X @ factors.left @ factors.right.T @ self.F.T

    def scores(self, factors):
        return self.low_rank(factors) + (factors.intercept if self.intercept else 0.0)

    def on_entries(self, name, numbers, *, weighted=True):
        """A method of the losses, 0 where nothing is observed."""
        dense, seen = np.zeros(self.Y.shape), ~np.isnan(self.Y)
        if isinstance(self.loss, list):
            places = [(loss, (seen[:, j], j)) for j, loss in enumerate(self.loss)]
        else:
            places = [(self.loss, seen)]
        for loss, mine in places:
            weight = self.weights[mine] if weighted else 1.0
            dense[mine] = weight * getattr(loss, name)(numbers[mine], self.Y[mine])
        return dense

    def _held(self, factors):
        """The next multipliers, and the values of the term of the bound."""
        if self.hold is None:
            return np.zeros(self.Y.shape), np.zeros(self.Y.shape)
        (bound, stiffness, u), s = self.hold, self.low_rank(factors)
        shifted = s + u / stiffness
        a = stiffness * (shifted - np.clip(shifted, -bound, bound))
        return a, a * s - bound * np.abs(a) - (a - u) ** 2 / (2 * stiffness)

    def next_multipliers(self, factors):
        return self._held(factors)[0]

    def values(self, factors):
        return self.on_entries("value", self.scores(factors) + self.offsets)

    def value(self, factors):
        return float(self.values(factors).sum() + self._held(factors)[1].sum())

    def size(self, factors):
        """The sum of the absolute values of all terms."""
        return float(np.abs(self.values(factors)).sum() + np.abs(self._held(factors)[1]).sum())

    def loss_gradient(self, factors):
        return self.on_entries("gradient", self.scores(factors) + self.offsets)

    def score_gradient(self, factors):
        """G as a dense n x L matrix, zero where nothing is observed."""
        return self.loss_gradient(factors) + self._held(factors)[0]

    def loss_curvature(self, factors):
        return self.on_entries("curvature", self.scores(factors) + self.offsets)

    def score_curvature(self, factors):
        stiffness = 0.0 if self.hold is None else self.hold[1]
        return self.loss_curvature(factors) + stiffness * (self._held(factors)[0] != 0)

    def label_sums(self, entries):
        """Zeros without an intercept: there is nothing to differentiate by."""
        return entries.sum(axis=0) * float(self.intercept)

    def gradient(self, factors):
        X, F, G = self.X, self.F, self.score_gradient(factors)
        left, right = X.T @ G @ F @ factors.right, F.T @ G.T @ X @ factors.left
        return Factors(left, right, self.label_sums(self.loss_gradient(factors)))

    def hessian_product(self, factors, direction):
        """By the product rule; the bound's term knows nothing of the intercept."""
        X, F, G = self.X, self.F, self.score_gradient(factors)
        P, Q, dP, dQ = X @ factors.left, F @ factors.right, X @ direction.left, F @ direction.right
        moved = dP @ Q.T + P @ dQ.T
        shift = direction.intercept if self.intercept else 0.0
        own = self.loss_curvature(factors)
        D = self.score_curvature(factors) * moved + own * shift
        by_label = self.label_sums(own * (moved + shift))
        return Factors(X.T @ (D @ Q + G @ dQ), F.T @ (D.T @ P + G.T @ dP), by_label)

    def hessian_diagonal(self, factors):
        X, F, D = self.X, self.F, self.score_curvature(factors)
        left = (X**2).T @ D @ (F @ factors.right) ** 2
        right = (F**2).T @ D.T @ (X @ factors.left) ** 2
        return Factors(left, right, self.label_sums(self.loss_curvature(factors)))

    def curvature_along(self, factors, U, V):
        D = self.score_curvature(factors)
        pairs = zip((self.X @ U).T, (self.F @ V).T, strict=True)
        return np.array([np.sum(D * np.outer(u, v) ** 2) for u, v in pairs])

    def conjugate(self, G):
        """``f*(G)`` for a dense G, without the term of a bound."""
        weights = np.where(np.isnan(self.Y), 1.0, self.weights)
        duals = self.weights * self.on_entries("conjugate", G / weights, weighted=False)
        return float(np.sum(duals[~np.isnan(self.Y)]) - np.sum(G * self.offsets))


def balanced_by_shrinking(G, up, down):
    """G with the heavier sign of each label shrunk until it has the sum of the lighter one."""
    G = G.copy()
    for j in range(G.shape[1]):
        lighter = min(up[j], -down[j])
        for sign, total in ((1, up[j]), (-1, -down[j])):
            if total > 0:
                G[np.sign(G[:, j]) == sign, j] *= lighter / total
    return G


# -- what is decided for all parts together, label by label --------------------------------------------------


def slow_rates(Y, weights, edges):
    """The mean of each label, smoothed where it lies on an edge, and whether it lies on none."""
    seen = ~np.isnan(Y)
    total = np.sum(weights[seen] * Y[seen])
    prior = 0.5 if edges == (0.0, 1.0) else total / weights[seen].sum()
    rates, informative = [], []
    for j in range(Y.shape[1]):
        y, w = Y[seen[:, j], j], weights[seen[:, j], j]
        tells = len(y) > 0 and not any(np.all(y == edge) for edge in edges)
        informative.append(tells)
        if tells:
            rates.append(np.average(y, weights=w))
        elif len(y):
            rates.append((np.sum(w * y) + prior) / (w.sum() + 1))
        else:
            rates.append((total + prior) / (weights[seen].sum() + 1))
    return np.array(rates), np.array(informative)


def slow_flip_rates(recorded, rows, flip_rate):
    """The flip rates, lowered where more positives are recorded than they allow."""
    rates = []
    for count, n, rate in zip(recorded, rows, flip_rate, strict=True):
        most = max(n, 1) * (n + 0.5) / (n + 1)
        rates.append(min(rate, max(1 - max(count, 0.5) / most, 0.0)))
    return np.array(rates)


def flat(factors):
    return np.concatenate([part.ravel() for part in factors])
