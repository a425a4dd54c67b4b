"""The squared loss over all n·L entries, where an entry without a label is a no of less weight.

    f(Z) = 1/N [ Σ_Ω ω_ij (z_ij − t_ij)² + w Σ_others (z_ij + 1)² ],   t = 1 for a yes and −1 for a no

is the sum of ``w (z + 1)²`` over all entries, which needs no entries at all
(:mod:`labelgap.objective.cpu.gram`), and of a correction at the observed ones. So everything costs O(|Ω| k +
(n + L) k²). What is here works on the arrays of any machine, by the terms of its folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from labelgap.objective.frame import Frame
from labelgap.objective.protocol import Factors, Point, ScoreGradient
from labelgap.objective.sum import SumGradient, SumObjective, SumPoint

# Entries, and rows or labels, that a small problem has at most.
_SMALL, _SHORT_SIDE = 1 << 20, 512
# Observed entries that are looked at together.
_BLOCK = 1 << 18


def is_small(shape: tuple[int, int]) -> bool:
    """Whether the matrix of a problem may be formed, though few of its entries are observed."""
    return shape[0] * shape[1] <= _SMALL and min(shape) <= _SHORT_SIDE


def _blocks(entries: Any) -> Iterator[slice]:
    """Some entries at a time, so that what is made on the way is smaller than the data; all on a device."""
    step = _BLOCK if isinstance(entries, np.ndarray) else max(len(entries), 1)
    return (slice(start, start + step) for start in range(0, len(entries), step))


class ObservedCorrection:
    """``Σ (ω (z − t)² − w (z + 1)²) / N`` over the observed entries, an entry function."""

    def __init__(self, targets: Any, weights: Any, silence: float, total: float) -> None:
        self.targets, self.weights, self.silence, self.total = targets, weights, silence, total

    def value_and_gradient(self, z: Any) -> tuple[float, Any]:
        if not isinstance(z, np.ndarray):
            return self._of(z, self.targets, self.weights)
        gradient, value = np.empty(len(z), np.result_type(z, self.weights)), 0.0
        for some in _blocks(z):
            of_some, gradient[some] = self._of(z[some], self.targets[some], self.weights[some])
            value += of_some
        return value, gradient

    def turn_into_slopes(self, low_rank: Any, intercept: Any, indices: Any) -> float:
        """The value; the scores, which come without their intercepts, are overwritten with the slopes."""
        value = 0.0
        for some in _blocks(low_rank):
            z = low_rank[some] if intercept is None else low_rank[some] + intercept[indices[some]]
            of_some, low_rank[some] = self._of(z, self.targets[some], self.weights[some])
            value += of_some
        return value

    def _of(self, z: Any, targets: Any, weights: Any) -> tuple[float, Any]:
        missed, plain = weights * (z - targets), self.silence * (z + 1)
        value = float(missed @ (z - targets) - plain @ (z + 1)) / self.total
        return value, 2.0 / self.total * (missed - plain)

    def curvature(self, z: Any) -> Any:
        weights = self.weights
        if isinstance(weights, np.ndarray) and weights.strides == (0,) and len(weights):
            # One number stands for all.
            return np.broadcast_to(2.0 / self.total * (weights[:1] - self.silence), weights.shape)
        return 2.0 / self.total * (weights - self.silence)

    def conjugate(self, gradient: Any, scale: float = 1.0) -> float:
        """None: only together with the other entries is there one."""
        return float("inf")


class SilenceObjective(SumObjective):
    """The weighted squared loss over all entries of some rows."""

    def __init__(self, every: Any, observed: Any, correction: ObservedCorrection, frame: Frame) -> None:
        super().__init__([every, observed])
        self.may_form = self.may_form or is_small(self.shape)
        self.every, self.observed, self.correction, self.frame = every, observed, correction, frame

    def starting_intercept(self) -> Any:
        return self.every.design.array(self.frame.starting_intercept)

    def at(self, factors: Factors, product: Any = None) -> Point:
        observed = self.observed.at(factors, product)
        return SilencePoint(self, [self.every.beside(observed), observed], factors)


class SilencePoint(SumPoint):
    """A :class:`SilenceObjective` at one place; all but the dual is the sum of its terms."""

    parts: tuple[Any, ...]

    def __init__(self, objective: SilenceObjective, parts: Sequence[Any], factors: Factors) -> None:
        super().__init__(objective, parts, factors)
        self._objective = objective
        # No loss is negative, so nothing cancels in their sum.
        self.size = self.value

    def score_gradient(self, sums: tuple[Any, Any] | None = None, *, balanced: bool = False) -> ScoreGradient:
        every, observed = self.parts
        objective = self._objective
        right = 2.0 / every.term.total * every.Q1
        if balanced and objective.has_intercept:
            up, down = self.signed_label_sums() if sums is None else sums
            assert objective.frame.n_counted is not None
            counted = objective.every.design.array(np.maximum(objective.frame.n_counted, 1))
            # Spread evenly over each label's entries; the last column of Q' belongs to the ones in P'.
            right[:, -1] -= (up + down) / counted
        sparse = objective.observed.gradient_of(observed.entry_gradient)
        return SilenceGradient(objective, every.low_rank(right), sparse)


class SilenceGradient(SumGradient):
    """G: a low-rank part over all entries and a sparse one on the observed entries."""

    parts: tuple[Any, ...]

    def __init__(self, objective: SilenceObjective, low_rank: Any, observed: Any) -> None:
        super().__init__([low_rank, observed])
        self._objective = objective

    def conjugate(self, scale: float, capacity: Any = None) -> float:
        """``Σ N g²/(4ω) + g t`` with g = scale · G, over all entries less the low-rank part at the observed.

        An entry of weight ω and target t contributes ``ω (z − t)²/N``; the entries without a label have ω = w
        and t = −1.
        """
        low_rank, sparse = self.parts
        correction, pattern = self._objective.correction, self._objective.observed.pattern
        total, quarter = float(low_rank.conjugate(scale)), 0.25 * correction.total
        for some, sampled in low_rank.sampled_in_blocks(pattern):
            silent = scale * sampled
            g = silent + scale * sparse.entries[some]
            weights, targets = correction.weights[some], correction.targets[some]
            observed = quarter * float(g @ (g / weights)) + float(g @ targets)
            instead = quarter / correction.silence * float(silent @ silent) - float(silent.sum())
            total += observed - instead
        return total
