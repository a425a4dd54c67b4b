"""The held-out scores that choose the threshold, kept for what else they are good for."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.labels.tensors import to_host


class HeldOutScores:
    """Scores of entries by models that did not see them; empty until :meth:`see` is called.

    Examples
    --------
    >>> held_out = HeldOutScores()
    >>> held_out.see(np.array([0.2, 0.9]), ObservedLabels.from_dense([[0, 1]]))
    >>> held_out.scores.tolist(), held_out.labels.values.tolist()
    ([0.2, 0.9], [0, 1])
    """

    def __init__(self) -> None:
        self.scores: Floats | None = None
        self.labels: ObservedLabels | None = None

    def see(self, scores: Any, labels: ObservedLabels) -> None:
        """Keep these scores, one for each entry, in place of earlier ones."""
        self.scores, self.labels = np.asarray(to_host(scores), dtype=np.float64), labels
