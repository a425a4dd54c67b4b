"""What is added to the data term: the trace norm, a ridge, and a penalty on the intercepts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from labelgap.exceptions import InvalidParameterError
from labelgap.solvers.linalg.arrays import Array, dot, namespace


@dataclass(frozen=True)
class Penalties:
    """``λ‖W‖_* + λ₂/2 ‖W‖_F² + κ/2 Σ_j (b_j − c)²``; with κ = 0 the intercepts are free."""

    trace: float
    ridge: float = 0.0
    intercept: float = 0.0
    """κ."""
    centre: float = 0.0
    """c, the score at which an intercept costs nothing."""

    def __post_init__(self) -> None:
        for name, value in (
            ("trace_penalty", self.trace),
            ("ridge_penalty", self.ridge),
            ("intercept_penalty", self.intercept),
        ):
            if not (math.isfinite(value) and value >= 0):
                raise InvalidParameterError(f"{name} must be a finite number, 0 or more; got {value!r}.")
        if self.trace == 0 and self.ridge == 0:
            raise InvalidParameterError(
                "trace_penalty and ridge_penalty are both 0: the fit would have no unique answer. "
                "Make one of them positive, or leave them at 'auto'."
            )

    def of(self, singular_values: Array, intercept: Array) -> float:
        """The penalty of a W with these singular values, and of b."""
        total = float(namespace(singular_values).sum(singular_values))
        square = dot(singular_values, singular_values)
        return self.trace * total + 0.5 * self.ridge * square + self.of_intercept(intercept)

    def of_intercept(self, intercept: Array) -> float:
        """``κ/2 Σ_j (b_j − c)²``."""
        if self.intercept == 0:
            return 0.0
        distance = intercept - self.centre
        return 0.5 * self.intercept * dot(distance, distance)

    def intercept_slope(self, intercept: Array) -> Array | float:
        """Its derivative in b."""
        return self.intercept * (intercept - self.centre) if self.intercept else 0.0
