"""The penalised objective in the factors, as Newton's method sees it."""

from __future__ import annotations

import numpy as np

from labelgap._types import Floats
from labelgap.objective.protocol import Factors, Objective, Point
from labelgap.solvers.penalties import Penalties


class FactoredState:
    """The penalised objective in (A, B, b) as a function of one flat vector."""

    def __init__(self, objective: Objective, penalties: Penalties, point: Point) -> None:
        self._objective, self._penalties, self.point = objective, penalties, point
        A, B, b = point.factors
        self._AA, self._BB = A.T @ A, B.T @ B
        self.x = flatten(point.factors)
        trace, ridge = penalties.trace, penalties.ridge
        self.value = float(
            point.value
            + 0.5 * trace * (np.trace(self._AA) + np.trace(self._BB))
            + 0.5 * ridge * np.sum(self._AA * self._BB)
            + penalties.of_intercept(b)
        )

    def gradient(self) -> Floats:
        A, B, b = self.point.factors
        dA, dB, db = self.point.gradient()
        db = db + self._penalties.intercept_slope(b)
        lam, ridge = self._penalties.trace, self._penalties.ridge
        return flatten(
            Factors(dA + lam * A + ridge * (A @ self._BB), dB + lam * B + ridge * (B @ self._AA), db)
        )

    def hessian_product(self, direction: Floats) -> Floats:
        A, B, _ = self.point.factors
        d = unflatten(direction, self.point.factors)
        hA, hB, hb = self.point.hessian_product(d)
        lam, ridge = self._penalties.trace, self._penalties.ridge
        hA = hA + lam * d.left
        hB = hB + lam * d.right
        if ridge:
            cross_A, cross_B = d.left.T @ A, d.right.T @ B
            hA = hA + ridge * (d.left @ self._BB + A @ (cross_B + cross_B.T))
            hB = hB + ridge * (d.right @ self._AA + B @ (cross_A + cross_A.T))
        return flatten(Factors(hA, hB, hb + self._penalties.intercept * d.intercept))

    def preconditioner(self) -> Floats:
        dA, dB, db = self.point.hessian_diagonal()
        lam, ridge = self._penalties.trace, self._penalties.ridge
        diagonal = flatten(
            Factors(
                dA + lam + ridge * np.diag(self._BB),
                dB + lam + ridge * np.diag(self._AA),
                db + self._penalties.intercept,
            )
        )
        # Intercepts without entries, and labels long decided, have next to no curvature.
        return np.asarray(np.maximum(diagonal, 1e-10 * diagonal.max()))

    def moved_to(self, x: Floats) -> FactoredState:
        return FactoredState(
            self._objective, self._penalties, self._objective.at(unflatten(x, self.point.factors))
        )


def flatten(factors: Factors) -> Floats:
    left, right, intercept = factors
    flat: Floats = np.concatenate([left.ravel(), right.ravel(), intercept])
    return flat


def unflatten(x: Floats, like: Factors) -> Factors:
    split = (like.left.size, like.left.size + like.right.size)
    return Factors(
        x[: split[0]].reshape(like.left.shape),
        x[split[0] : split[1]].reshape(like.right.shape),
        x[split[1] :],
    )
