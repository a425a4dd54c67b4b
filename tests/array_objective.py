"""A small data term by dense formulas, over any array namespace: what the solvers ask of an objective."""

from __future__ import annotations

from functools import cached_property

import array_api_compat.numpy
import numpy as np

from labelgap.objective.protocol import Factors, zero_sum_factors


class Logistic:
    """``log(1 + exp(−s z))`` for s = ±1."""

    @staticmethod
    def value(z, s, xp):
        return xp.logaddexp(xp.zeros_like(z), -s * z)

    @staticmethod
    def slope(z, s, xp):
        return -0.5 * s * (1 - xp.tanh(0.5 * s * z))

    @staticmethod
    def curvature(z, s, xp):
        return 0.25 * (1 - xp.tanh(0.5 * z) ** 2)

    @staticmethod
    def conjugate(a, s, xp):
        t = xp.clip(-s * a, 0.0, 1.0)
        return sum(part * xp.log(xp.where(part > 0, part, 1.0)) for part in (t, 1 - t))

    @staticmethod
    def link(rate):
        return np.log(rate / (1 - rate))


class Squared:
    """``(1 − s z)²``."""

    @staticmethod
    def value(z, s, xp):
        return (z - s) ** 2

    @staticmethod
    def slope(z, s, xp):
        return 2 * (z - s)

    @staticmethod
    def curvature(z, s, xp):
        return 2 * xp.ones_like(z)

    @staticmethod
    def conjugate(a, s, xp):
        return a * a / 4 + s * a

    @staticmethod
    def link(rate):
        return 2 * rate - 1


LOSSES = {"logistic": Logistic, "squared": Squared}


class ArrayObjective:
    """``Σ ω_ij ℓ(z_ij, y_ij) / Σ ω_ij`` with ``Z = X W Fᵀ + 1bᵀ``; NaN in Y is not observed."""

    def __init__(
        self,
        X,
        Y,
        loss="logistic",
        weights=None,
        label_features=None,
        *,
        xp=array_api_compat.numpy,
        dtype=None,
        intercept=True,
        may_form=True,
    ):
        self.xp, self.dtype = xp, xp.float64 if dtype is None else dtype
        self.has_intercept, self.may_form, self.loss = intercept, may_form, LOSSES[loss]
        seen = ~np.isnan(Y)
        omega = np.where(seen, 1.0 if weights is None else weights, 0.0)
        F = np.eye(Y.shape[1]) if label_features is None else label_features
        self.X, self.F, self.signs, self.weights = (
            xp.asarray(array, dtype=self.dtype)
            for array in (X, F, np.where(seen, 2 * np.nan_to_num(Y) - 1, 1.0), omega / omega.sum())
        )
        self.shape, self.n_labels = (X.shape[1], F.shape[1]), Y.shape[1]
        self.n_stored = X.size + int(seen.sum())
        rate = (np.nansum(omega * np.nan_to_num(Y), axis=0) + 0.5) / (omega.sum(axis=0) + 1)
        self._start = xp.asarray(self.loss.link(rate) * intercept, dtype=self.dtype)

    def starting_intercept(self):
        return self.xp.asarray(self._start, copy=True)

    def at(self, factors, product=None):
        return ArrayPoint(self, factors)

    bounds = None

    def rowwise(self, dtype):
        return None

    def total(self, terms):
        """A sum over the entries, in double precision: one number, to which all of them contribute."""
        return float(self.xp.sum(terms, dtype=self.xp.float64))


class ArrayPoint:
    """The data term at one ``(A, B, b)``."""

    def __init__(self, objective, factors):
        self.objective, self.factors = objective, factors
        for array in factors:
            assert array.dtype == objective.dtype
        self._P, self._Q = objective.X @ factors.left, objective.F @ factors.right
        self._product = self._P @ self._Q.T
        self._Z = self._product + factors.intercept if objective.has_intercept else self._product
        loss, signs = objective.loss, objective.signs
        self.value = objective.total(objective.weights * loss.value(self._Z, signs, objective.xp))
        self.size = abs(self.value)

    @cached_property
    def _G(self):
        objective = self.objective
        return objective.weights * objective.loss.slope(self._Z, objective.signs, objective.xp)

    @cached_property
    def _H(self):
        objective = self.objective
        return objective.weights * objective.loss.curvature(self._Z, objective.signs, objective.xp)

    def _by_label(self, entries):
        """Sums of columns; 0 without an intercept."""
        sums = self.objective.xp.sum(entries, axis=0)
        return sums if self.objective.has_intercept else 0 * sums

    def gradient(self):
        X, F, G = self.objective.X, self.objective.F, self._G
        return Factors(X.T @ (G @ self._Q), F.T @ (G.T @ self._P), self._by_label(G))

    def hessian_product(self, direction):
        X, F, G = self.objective.X, self.objective.F, self._G
        dP, dQ = X @ direction.left, F @ direction.right
        dZ = dP @ self._Q.T + self._P @ dQ.T
        if self.objective.has_intercept:
            dZ = dZ + direction.intercept
        E = self._H * dZ
        return Factors(X.T @ (E @ self._Q + G @ dQ), F.T @ (E.T @ self._P + G.T @ dP), self._by_label(E))

    def hessian_diagonal(self):
        X, F, H = self.objective.X, self.objective.F, self._H
        return Factors((X**2).T @ (H @ self._Q**2), (F**2).T @ (H.T @ self._P**2), self._by_label(H))

    def curvature_along(self, U, V):
        P, Q = self.objective.X @ U, self.objective.F @ V
        return self.objective.xp.sum(P**2 * (self._H @ Q**2), axis=0)

    def label_curvature(self):
        return self.objective.xp.sum(self._H, axis=0)

    def signed_label_sums(self):
        xp = self.objective.xp
        return xp.sum(xp.clip(self._G, 0.0, None), axis=0), xp.sum(xp.clip(self._G, None, 0.0), axis=0)

    def score_gradient(self, sums=None, *, balanced=False):
        G, xp = self._G, self.objective.xp
        if balanced and self.objective.has_intercept:
            factors = zero_sum_factors(xp, *(self.signed_label_sums() if sums is None else sums))
            G = G * xp.where(G > 0, *factors)
        return ArrayGradient(self.objective, G)

    def with_intercept(self, intercept):
        return ArrayPoint(self.objective, self.factors._replace(intercept=intercept))

    def beyond(self, previous, step):
        xp, (A, B, b), (A0, B0, b0) = self.objective.xp, self.factors, previous.factors
        left = xp.concat([(1 + step) * A, -step * A0], axis=1)
        ahead = Factors(left, xp.concat([B, B0], axis=1), (1 + step) * b - step * b0)
        return ArrayPoint(self.objective, ahead)

    def slope_towards(self, other):
        return self.objective.total(self._G * (other._product - self._product))


class ArrayGradient:
    """G as a linear map."""

    def __init__(self, objective, G):
        self._objective, self._G = objective, G

    def left_product(self, V):
        return self._objective.X.T @ (self._G @ (self._objective.F @ V))

    def right_product(self, U):
        return self._objective.F.T @ (self._G.T @ (self._objective.X @ U))

    def matrix(self):
        return self._objective.X.T @ self._G @ self._objective.F

    def label_capacity(self, scale):
        return None

    def conjugate(self, scale, capacity=None):
        objective, xp = self._objective, self._objective.xp
        seen = objective.weights > 0
        slopes = scale * self._G / xp.where(seen, objective.weights, 1.0)
        terms = objective.weights * objective.loss.conjugate(slopes, objective.signs, xp)
        return objective.total(xp.where(seen, terms, 0.0))
