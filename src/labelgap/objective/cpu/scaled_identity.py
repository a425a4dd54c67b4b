"""``X = diag(s)``: each row has parameters of its own, in units of its own.

Under the trace norm of W a row with a small s pays more for the same scores. With ``s_i = m_i^(−α/2)`` and
m_i the number of the row's answers, relative to the mean, the penalty of its factor grows with m_i^α: the
weighted trace norm of Srebro and Salakhutdinov (2010), which is to be preferred where a few rows and columns
have most of the answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.objective.cpu.features import blocks_of_labels, through_factors
from labelgap.objective.cpu.pattern import EntryPattern
from labelgap.objective.protocol import Factors


def scales_by_count(counts: NDArray[Any], power: float) -> Floats:
    """``(m/mean m)^(−power/2)`` for each count m; a count of 0 is taken as 1.

    Examples
    --------
    >>> scales_by_count(np.array([1, 4, 4]), 1.0).round(3).tolist()
    [1.732, 0.866, 0.866]
    """
    filled = np.maximum(np.asarray(counts, dtype=np.float64), 1.0)
    return np.asarray((filled / filled.mean()) ** (-0.5 * power))


class ScaledIdentityFeatures:
    """A diagonal X; never formed."""

    def __init__(self, scales: Floats) -> None:
        self.scales = np.asarray(scales, dtype=np.float64)
        self.n_rows = self.n_features = len(self.scales)
        self.n_stored = 0

    def product(self, M: Floats) -> Floats:
        # In the precision that M came in.
        return np.asarray(self.scales[:, None].astype(M.dtype, copy=False) * M)

    def transposed_product(self, M: Floats) -> Floats:
        return self.product(M)

    def squared_transposed_product(self, M: Floats) -> Floats:
        return np.asarray(np.square(self.scales)[:, None] * M)

    def scores_at(
        self, pattern: EntryPattern, left: Floats, right: Floats, product: Floats | None = None
    ) -> tuple[Floats, Floats | None]:
        return through_factors(self, pattern, left, right)

    def transposed_matrix(self, pattern: EntryPattern, data: Floats) -> Floats:
        return blocks_of_labels(self, pattern, data)

    def mean_square_length(self) -> float:
        return float(np.mean(np.square(self.scales)))

    def to_original(self, factors: Factors) -> Factors:
        return factors._replace(left=self.product(factors.left))
