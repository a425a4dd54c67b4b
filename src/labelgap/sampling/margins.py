"""The probabilities of maximal entropy with given row and column sums, from the counts alone.

``p_ij = 1 / (1 + e^−(α_i + β_j))`` with Σ_j p_ij and Σ_i p_ij given: the maximum-likelihood fit of the
logit-additive model. Rows of equal sum share their α and columns theirs, so the fit runs over classes. There
are at most √(2|Ω|) + 1 different counts on either side, because that many different counts already add up to
|Ω|; a table of classes by classes thus has O(|Ω|) entries, however large n x L is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import expit, logit

from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.exceptions import LabelgapWarning

_MAX_STEPS = 100
# Largest relative error of a margin at which the fit stops.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Margin:
    """Classes of rows (or columns): the sum of each member's probabilities, and the number of members."""

    sums: Floats
    members: Floats

    @property
    def mean(self) -> float:
        """The mean sum over all members."""
        return float(self.sums @ self.members) / self.size

    @property
    def size(self) -> float:
        """How many members there are in all."""
        return float(self.members.sum())

    def shrunk(self, shrinkage: float) -> Margin:
        """The sums moved towards their mean by the fraction ``shrinkage`` of the distance."""
        return Margin((1 - shrinkage) * self.sums + shrinkage * self.mean, self.members)


def fit_margins(rows: Margin, cols: Margin) -> tuple[Floats, Floats]:
    """α and β of every class, by Newton's method on the concave likelihood.

    The sums must be those of some matrix with entries strictly between 0 and 1, or no finite fit exists.
    Steps are solved for by conjugate gradients on the Schur complement, which is close to the identity.
    """
    density = rows.mean / cols.size
    alpha = logit(rows.sums / cols.size)
    beta = logit(cols.sums / rows.size) - logit(density)
    value = _likelihood(rows, cols, alpha, beta)
    for _ in range(_MAX_STEPS):
        P = expit(alpha[:, None] + beta)
        row_error, col_error = rows.sums - P @ cols.members, cols.sums - rows.members @ P
        if np.all(np.abs(row_error) <= _TOLERANCE * rows.sums) and np.all(
            np.abs(col_error) <= _TOLERANCE * cols.sums
        ):
            return alpha, beta
        # p (1 − p) with 1 − p from the other tail, which keeps its digits where p is almost 1.
        P *= expit(-alpha[:, None] - beta)
        P *= np.outer(rows.members, cols.members)
        row_step, col_step = _newton_step(P, rows.members * row_error, cols.members * col_error)
        size = 1.0
        # Near the maximum a gain is lost in rounding; a full Newton step is right there.
        least = value - 1e-12 * abs(value)
        while (
            value := _likelihood(rows, cols, alpha + size * row_step, beta + size * col_step)
        ) < least and size > 1e-6:
            size /= 2
        alpha, beta = alpha + size * row_step, beta + size * col_step
    error = max(np.abs(row_error).max(), np.abs(col_error).max())
    warn(
        f"The propensities did not settle in {_MAX_STEPS} steps: expected counts are up to {error:.2g} from "
        "those to be matched. Give propensities, or leave the emptiest rows and labels out.",
        LabelgapWarning,
    )
    return alpha, beta


def _newton_step(V: Floats, row_slope: Floats, col_slope: Floats) -> tuple[Floats, Floats]:
    """Solve ``[[D_r, V], [Vᵀ, D_c]] (a, b) = (row_slope, col_slope)`` with D the row and column sums of V."""
    row_root, col_root = np.sqrt(V.sum(axis=1)), np.sqrt(V.sum(axis=0))
    K = V / row_root[:, None] / col_root
    right = row_slope / row_root, col_slope / col_root
    schur = LinearOperator((len(col_root),) * 2, matvec=lambda y: y - K.T @ (K @ y), dtype=np.float64)
    # What is added to α and taken from β changes nothing. Rounding must not make that direction a long one.
    level = col_root / np.linalg.norm(col_root)
    slope = right[1] - K.T @ right[0]
    b, _ = cg(schur, slope - level * (level @ slope), rtol=1e-4, atol=0.0, maxiter=200)
    b -= level * (level @ b)
    return (right[0] - K @ b) / row_root, b / col_root


def _likelihood(rows: Margin, cols: Margin, alpha: Floats, beta: Floats) -> float:
    """The log-likelihood of all entries, up to a constant."""
    gain = (rows.members * rows.sums) @ alpha + (cols.members * cols.sums) @ beta
    return float(gain - rows.members @ np.logaddexp(0.0, alpha[:, None] + beta) @ cols.members)
