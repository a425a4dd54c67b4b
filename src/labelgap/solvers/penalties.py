"""What is added to the data term: the trace norm and a ridge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap.exceptions import InvalidParameterError

Floats = NDArray[Any]


@dataclass(frozen=True)
class Penalties:
    """``λ‖W‖_* + λ₂/2 ‖W‖_F²``."""

    trace: float
    ridge: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("trace_penalty", self.trace), ("ridge_penalty", self.ridge)):
            if not (np.isfinite(value) and value >= 0):
                raise InvalidParameterError(f"{name} must be a finite number, 0 or more; got {value!r}.")
        if self.trace == 0 and self.ridge == 0:
            raise InvalidParameterError(
                "trace_penalty and ridge_penalty are both 0: the fit would have no unique answer. "
                "Make one of them positive, or leave them at 'auto'."
            )

    def of(self, singular_values: Floats) -> float:
        """The penalty of a matrix with these singular values."""
        return float(self.trace * singular_values.sum() + 0.5 * self.ridge * np.dot(singular_values, singular_values))
