"""The arrays of objectives on the CPU: numpy's, in double precision."""

from __future__ import annotations

from typing import Any

import array_api_compat.numpy as xp
import numpy as np

from labelgap.objective.limits import may_form
from labelgap.objective.protocol import Rowwise, ScoreBounds


class NumpyTerm:
    """What the data terms of this folder have in common; a subclass sets ``shape`` and ``n_stored``."""

    shape: tuple[int, int]
    n_stored: int
    xp: Any = xp
    dtype: Any = np.float64
    bounds: ScoreBounds | None = None

    @property
    def may_form(self) -> bool:
        return may_form(self.shape, self.n_stored)

    def rowwise(self, dtype: Any) -> Rowwise | None:
        """None, unless a subclass has Newton steps row by row."""
        return None
