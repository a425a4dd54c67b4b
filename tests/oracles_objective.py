"""The data term with dense matrices and loops over entries: slow and obvious."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class DenseTerm:
    """``Σ share_ij ℓ(x_i · w_j + b_j, y_ij)`` over the entries of Y that are not NaN."""

    X: Any
    Y: Any
    share: Any
    loss: Any
    intercept: bool

    @property
    def entries(self):
        return list(zip(*np.nonzero(~np.isnan(self.Y)), strict=True))

    def scores(self, factors):
        A, B, b = factors
        return self.X @ A @ B.T + (b if self.intercept else 0.0)

    def value(self, factors):
        Z = self.scores(factors)
        return sum(self.share[e] * float(self.loss.value(Z[e], self.Y[e])) for e in self.entries)

    def score_gradient(self, factors):
        """G as a dense n x L matrix, zero where nothing is observed."""
        return self._on_entries(self.loss.gradient, factors)

    def score_curvature(self, factors):
        return self._on_entries(self.loss.curvature, factors)

    def _on_entries(self, derivative, factors):
        Z, dense = self.scores(factors), np.zeros(self.Y.shape)
        for e in self.entries:
            dense[e] = self.share[e] * float(derivative(Z[e], self.Y[e]))
        return dense

    def gradient(self, factors):
        """With respect to (A, B, b), one flat vector."""
        G = self.score_gradient(factors)
        A, B, _ = factors
        db = G.sum(axis=0) if self.intercept else np.zeros(len(B))
        return np.concatenate([(self.X.T @ G @ B).ravel(), (G.T @ self.X @ A).ravel(), db])

    def score_jacobian(self, factors):
        """∂z_e/∂(A, B, b), one row per entry."""
        A, B, _ = factors
        (d, k), n_labels = A.shape, len(B)
        J = np.zeros((len(self.entries), d * k + n_labels * k + n_labels))
        for row, (i, j) in enumerate(self.entries):
            J[row, : d * k] = np.outer(self.X[i], B[j]).ravel()
            J[row, d * k + j * k : d * k + (j + 1) * k] = self.X[i] @ A
            J[row, d * k + n_labels * k + j] = float(self.intercept)
        return J

    def gauss_newton_hessian(self, factors):
        J, D = self.score_jacobian(factors), self.score_curvature(factors)
        return J.T @ (np.array([D[e] for e in self.entries])[:, None] * J)

    def hessian(self, factors):
        """The Gauss–Newton part, and the cross term ``Σ_e G_e ∇²z_e`` between A and B."""
        A, B, _ = factors
        (d, k), n_labels = A.shape, len(B)
        cross = np.zeros((d * k + n_labels * k + n_labels,) * 2)
        XtG = self.X.T @ self.score_gradient(factors)
        for f in range(d):
            for j in range(n_labels):
                for c in range(k):
                    cross[f * k + c, d * k + j * k + c] = XtG[f, j]
        return self.gauss_newton_hessian(factors) + cross + cross.T

    def conjugate(self, G):
        """``f*(G)`` for a dense G."""
        total = 0.0
        for e in self.entries:
            total += self.share[e] * float(self.loss.conjugate(G[e] / self.share[e], self.Y[e]))
        return total
