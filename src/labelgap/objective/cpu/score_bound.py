"""The constraint ``|XW| ≤ γ`` on chosen entries, as a smooth term (augmented Lagrangian).

For a multiplier u and stiffness μ an entry contributes

    ψ(z) = max_a  a z − γ|a| − (a − u)²/(2μ)
         = μ/2 dist²(z + u/μ, [−γ, γ]) − u²/(2μ),

whose derivative at z is the next multiplier. Its conjugate is ``γ|a| + (a − u)²/(2μ)``; that of the
constraint itself is ``γ|a|``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import distinct
from labelgap._types import Floats
from labelgap.kernels.entry_pattern import EntryPattern
from labelgap.objective.cpu.design import Design
from labelgap.objective.cpu.entries import EntryGradient, EntryPoint, EntryTerm
from labelgap.objective.protocol import Factors, Objective, Point, ScoreGradient
from labelgap.objective.sum import SumGradient, SumObjective, SumPoint

# Scores looked at in one go when all n·L of them are scanned.
_SCAN_BLOCK = 1 << 20
# The first stiffness for each entry that the losses are the mean of: twice the largest curvature of the
# logistic loss. With more, the first fits take longer; with less, there are more of them.
_STIFFNESS = 0.5


def stiffness_for(total: float) -> float:
    """The stiffness to begin with, where the sum of the losses is divided by ``total``."""
    return _STIFFNESS / max(total, 1.0)


class ScoreBoundPenalty:
    """An :class:`~labelgap.objective.cpu.entries.EntryFunction`: ψ with one multiplier per entry."""

    def __init__(self, bound: float, multipliers: Floats, stiffness: float) -> None:
        self._bound, self._u, self._mu = bound, multipliers, stiffness

    def _excess(self, z: Floats) -> Floats:
        shifted = z + self._u / self._mu
        return shifted - np.clip(shifted, -self._bound, self._bound)

    def value_and_gradient(self, z: Floats) -> tuple[float, Floats]:
        a = self._mu * self._excess(z)
        value = a * z - self._bound * np.abs(a) - (a - self._u) ** 2 / (2 * self._mu)
        return float(value.sum()), a

    def size(self, z: Floats) -> float:
        """Multipliers make values negative, so the sum of their absolute values is another."""
        a = self._mu * self._excess(z)
        value = a * z - self._bound * np.abs(a) - (a - self._u) ** 2 / (2 * self._mu)
        return float(np.abs(value).sum())

    def curvature(self, z: Floats) -> Floats:
        return np.where(self._excess(z) != 0, self._mu, 0.0)

    def conjugate(self, gradient: Floats, scale: float = 1.0) -> float:
        a = scale * gradient
        return float(np.sum(self._bound * np.abs(a) + (a - self._u) ** 2 / (2 * self._mu)))


@dataclass(frozen=True)
class BoundedEntries:
    """Entries held to the bound, in row order, with their multipliers."""

    keys: NDArray[np.int64]
    """Row times the number of labels plus label, ascending."""
    multipliers: Floats

    def updated(self, multipliers: Floats) -> BoundedEntries:
        """With new multipliers; entries that need none are let go (a scan finds them if they come back)."""
        needed = multipliers != 0
        return BoundedEntries(self.keys[needed], multipliers[needed])

    def including(self, keys: NDArray[np.int64]) -> BoundedEntries:
        """These and further entries, the new ones with multiplier 0."""
        merged = distinct(np.concatenate((self.keys, keys)))
        multipliers = np.zeros(len(merged))
        multipliers[np.searchsorted(merged, self.keys)] = self.multipliers
        return BoundedEntries(merged, multipliers)


class EntryBounds:
    """``|(XWFᵀ)_ij| ≤ γ`` for every row of X and every label, observed or not.

    All n·L scores are looked at in blocks of rows; only entries that once exceeded the bound are kept, and
    those with the keys in ``always``, for a data term that without the bound would fall without limit there.
    """

    def __init__(
        self, design: Design, bound: float, stiffness: float, always: NDArray[np.int64] | None = None
    ) -> None:
        self.bound, self.stiffness = bound, stiffness
        self._design, self._n_labels = design, design.n_labels
        self._always = np.zeros(0, dtype=np.int64) if always is None else always

    def start(self) -> BoundedEntries:
        """The entries that are held from the beginning."""
        return BoundedEntries(self._always, np.zeros(len(self._always)))

    def next(self, entries: BoundedEntries, point: Point, beyond: NDArray[np.int64]) -> BoundedEntries:
        """The entries to hold next: those that need it still, those newly beyond, and the constant ones."""
        assert isinstance(point, SumPoint)
        held = point.parts[1]
        assert isinstance(held, EntryPoint)
        # The next multiplier is the term's derivative at the entry.
        kept = entries.updated(held.entry_gradient)
        return kept.including(distinct(np.concatenate((beyond, self._always))))

    def scan(self, factors: Factors) -> tuple[float, NDArray[np.int64]]:
        """The largest |score|, and the keys of the entries beyond the bound."""
        P, Q = self._design.left(factors.left), self._design.right(factors.right)
        largest, found = 0.0, []
        step = max(1, _SCAN_BLOCK // max(self._n_labels, 1))
        for start in range(0, len(P), step):
            scores = np.abs(P[start : start + step] @ Q.T)
            largest = max(largest, float(scores.max(initial=0.0)))
            beyond = np.flatnonzero(scores > self.bound)
            found.append(beyond.astype(np.int64) + start * self._n_labels)
        return largest, np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    def term(self, entries: BoundedEntries, stiffness: float) -> EntryTerm:
        """The smooth stand-in for the constraint on these entries."""
        rows, columns = np.divmod(entries.keys, self._n_labels)
        indptr = np.searchsorted(rows, np.arange(self._design.rows.n_rows + 1))
        return EntryTerm(
            self._design,
            EntryPattern(indptr, columns, self._n_labels),
            ScoreBoundPenalty(self.bound, entries.multipliers, stiffness),
            has_intercept=False,
        )

    def with_term(self, objective: Objective, entries: BoundedEntries, stiffness: float) -> Objective:
        return SumObjective([objective, self.term(entries, stiffness)])

    def conjugate(self, gradient: ScoreGradient, scale: float, capacity: Floats | None = None) -> float:
        assert isinstance(gradient, SumGradient)
        data, held = gradient.parts
        assert isinstance(held, EntryGradient)
        return data.conjugate(scale, capacity) + float(self.bound * scale * np.abs(held.entries).sum())
