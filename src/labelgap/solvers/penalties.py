"""What is added to the data term: the trace norm, a ridge, and a pull on the intercepts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError


@dataclass(frozen=True)
class Penalties:
    """``λ‖W‖_* + λ₂/2 ‖W‖_F² + κ/2 Σ_j (b_j − c)²``; with κ = 0 the intercepts are free."""

    trace: float
    ridge: float = 0.0
    intercept: float = 0.0
    """κ."""
    centre: float = 0.0
    """c, the score towards which intercepts are pulled."""

    def __post_init__(self) -> None:
        for name, value in (
            ("trace_penalty", self.trace),
            ("ridge_penalty", self.ridge),
            ("intercept_penalty", self.intercept),
        ):
            if not (np.isfinite(value) and value >= 0):
                raise InvalidParameterError(f"{name} must be a finite number, 0 or more; got {value!r}.")
        if self.trace == 0 and self.ridge == 0:
            raise InvalidParameterError(
                "trace_penalty and ridge_penalty are both 0: the fit would have no unique answer. "
                "Make one of them positive, or leave them at 'auto'."
            )

    def of(self, singular_values: Floats, intercept: Floats) -> float:
        """The penalty of a W with these singular values, and of b."""
        square = float(singular_values @ singular_values)
        return (
            float(self.trace * singular_values.sum())
            + 0.5 * self.ridge * square
            + self.of_intercept(intercept)
        )

    def of_intercept(self, intercept: Floats) -> float:
        """``κ/2 Σ_j (b_j − c)²``."""
        if self.intercept == 0:
            return 0.0
        return 0.5 * self.intercept * float(np.sum((intercept - self.centre) ** 2))

    def intercept_slope(self, intercept: Floats) -> Floats | float:
        """Its derivative in b."""
        return self.intercept * (intercept - self.centre) if self.intercept else 0.0
