"""The positive-unlabelled data term: the unbiased loss over all n·L entries.

    f(Z) = 1/N [ Σ_all ℓ(z_ij, 0) + Σ_recorded ( ℓ̃(z_ij, 1) − ℓ(z_ij, 0) ) − Σ_held ℓ(z_ij, 0) ]

is a sum of a term over all entries and sparse ones; entries that are held out are subtracted again. Only the
dual does not come from the terms. The slope of ℓ̃(·, 1) stays below 0 for the logistic and the exponential
loss, which fall without limit there. So a gradient that is shrunk towards 0, as the duality gap needs it,
leaves the domain of the conjugate. The bound γ on the scores helps: with |XWFᵀ| ≤ γ the dual may be changed
by any amount, and each unit of change costs γ in the lower bound.

What is here works on the arrays of any machine, by the terms and losses of its folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from labelgap.objective.frame import Frame
from labelgap.objective.protocol import Factors, Point, ScoreBounds, ScoreGradient
from labelgap.objective.sum import SumGradient, SumObjective, SumPoint

# Sums over a label's entries agree to this fraction of what is summed.
_ROUNDING = 1e-12


class UnbiasedLosses(Protocol):
    """ℓ(z, 0) at entries that are not recorded, and ℓ̃(z, 1) at the recorded positives."""

    plain_range: tuple[float, float]
    """The slopes of ℓ(·, 0) at which its conjugate is finite."""
    recorded_range: tuple[Any, Any]
    """Those of ℓ̃(·, 1), for each recorded positive."""

    def size_change(self, z: Any) -> float:
        """``Σ |ℓ̃(z, 1)| − ℓ(z, 0)`` over the recorded positives."""
        ...

    def plain_conjugate(self, a: Any) -> Any:
        """That of ℓ(·, 0), at the nearest slopes of its domain."""
        ...

    def recorded_conjugate(self, a: Any, here: slice) -> Any:
        """That of ℓ̃(·, 1) at some of the recorded positives."""
        ...


class UnlabelledObjective(SumObjective):
    """The unbiased loss, with the bound γ that its conjugate may use (None: it must do without)."""

    def __init__(
        self,
        every: Any,
        recorded: Any,
        held: Any,
        losses: UnbiasedLosses,
        frame: Frame,
        bounds: ScoreBounds | None,
    ) -> None:
        super().__init__([every, recorded, held], bounds=bounds)
        self.every, self.recorded, self.held, self.losses = every, recorded, held, losses
        self.frame = frame
        self.score_bound = None if bounds is None else bounds.bound

    def starting_intercept(self) -> Any:
        return self.every.design.array(self.frame.starting_intercept)

    def at(self, factors: Factors, product: Any = None) -> Point:
        return UnlabelledPoint(self, [term.at(factors, product) for term in self.terms], factors)


class UnlabelledPoint(SumPoint):
    """An :class:`UnlabelledObjective` at one place; all but the dual is the sum of its terms."""

    parts: tuple[Any, ...]

    def __init__(self, objective: UnlabelledObjective, parts: Sequence[Any], factors: Factors) -> None:
        super().__init__(objective, parts, factors)
        self._objective = objective
        every, recorded, held = self.parts
        # The sum of the absolute losses: what the corrections take back does not count.
        change = objective.losses.size_change(recorded.scores)
        self.size = every.value + change / objective.every.total + held.value

    def score_gradient(self, sums: tuple[Any, Any] | None = None, *, balanced: bool = False) -> ScoreGradient:
        has_intercept = self._objective.has_intercept
        if sums is None and has_intercept:
            sums = self.signed_label_sums()
        if hasattr(self.parts[0], "low_rank"):
            taken_off = sums[0] + sums[1] if balanced and sums is not None else None
            return _squared_gradient(self._objective, self.parts, taken_off)
        demanded = None
        if has_intercept and sums is not None:
            up, down = sums
            demanded = (0.0 * up if balanced else up + down, up - down)
        return UnlabelledGradient(self._objective, self.parts, demanded)


class UnlabelledGradient(SumGradient):
    """G of the logistic or exponential loss, with the conjugate under the bound γ.

    ``conjugate(scale)`` looks for a G' near ``scale · G`` inside the domain of f*, with the label sums that
    the intercept demands, and answers ``f*(G') + γ ‖scale · G − G'‖₁``.
    """

    def __init__(
        self, objective: UnlabelledObjective, points: Sequence[Any], sums: tuple[Any, Any] | None
    ) -> None:
        super().__init__([part.score_gradient() for part in points])
        self._objective = objective
        self._every, self._recorded, _ = points
        # Per label, the sum that an intercept demands and what there was to cancel.
        self._sums = sums
        labels = self._every.term.labels
        self._at_recorded = _Places(objective.xp, objective.recorded.pattern, labels)
        self._at_held = _Places(objective.xp, objective.held.pattern, labels)
        self._low, self._high = objective.losses.plain_range
        self._boxed = np.isfinite(self._high)

    def label_capacity(self, scale: float) -> Any:
        """Per label: the sum of the nearest slopes in the domain, and how far they could go up and down."""
        if self._sums is None:
            return None

        def work(rows: slice) -> tuple[Any, ...]:
            xp, (_, nearest, up, down) = self._objective.xp, self._slopes(rows, scale)
            return tuple(xp.sum(part, axis=0) for part in (nearest, up, down))

        # For all labels, as other parts, which may keep all scores, answer.
        by_label = self._objective.xp.stack(self._every.sum_rows(work), axis=1)
        return self._every.term.spread(by_label).T

    def conjugate(self, scale: float, capacity: Any = None) -> float:
        term, bound, xp = self._every.term, self._objective.score_bound, self._objective.xp
        move_up = move_down = 0.0
        if self._sums is not None:
            known = self.label_capacity(scale) if capacity is None else capacity
            assert known is not None
            total, up, down = known[:, term.labels]
            wanted, gross = (scale * part[term.labels] * term.total for part in self._sums)
            missing = wanted - total
            # What is missing by rounding needs no correction.
            missing[xp.abs(missing) <= _ROUNDING * (gross + xp.abs(total))] = 0.0
            with np.errstate(divide="ignore", invalid="ignore"):
                move_up = xp.where(missing > 0, missing / up, 0.0)
                move_down = xp.where(missing < 0, -missing / down, 0.0)
            # Sums that no slopes in the domain have: this direction proves nothing.
            limit = 1.0 if self._boxed else np.finfo(float).max
            if not (bool(xp.all(move_up <= limit)) and bool(xp.all(move_down <= 1.0))):
                return float("inf")
        dual, changed = self._every.sum_rows(lambda rows: self._price(rows, scale, move_up, move_down))
        if float(changed) > 0 and bound is None:
            return float("inf")
        return float(dual + (bound or 0.0) * changed) / float(term.total)

    def _slopes(self, rows: slice, scale: float) -> tuple[Any, Any, Any, Any]:
        """The slopes wanted in a block, the nearest in the domain, and how far those are from its two edges.

        All are multiplied by N.
        """
        xp = self._objective.xp
        wanted = scale * self._every.slopes(rows)
        here, at = self._at_recorded.within(rows)
        wanted[at] += scale * self._every.term.total * self._recorded.entry_gradient[here]
        low, high = xp.full_like(wanted, self._low), xp.full_like(wanted, self._high)
        low[at], high[at] = (edge[here] for edge in self._objective.losses.recorded_range)
        # An entry that is held out has no loss and hence no slope.
        _, out = self._at_held.within(rows)
        wanted[out] = low[out] = high[out] = 0.0
        nearest = xp.minimum(xp.maximum(wanted, low), high)
        with np.errstate(invalid="ignore"):
            down = xp.where(xp.isfinite(low), nearest - low, 0.0)
            # Without an edge above, slopes may grow by multiples of their size and need no help.
            up = high - nearest if self._boxed else xp.where(xp.isfinite(high), 0.0, nearest)
        return wanted, nearest, up, down

    def _price(self, rows: slice, scale: float, move_up: Any, move_down: Any) -> tuple[Any, Any]:
        """The conjugate at the slopes with the right sums, and how much had to be changed for them."""
        xp, losses = self._objective.xp, self._objective.losses
        wanted, nearest, up, down = self._slopes(rows, scale)
        chosen = nearest + move_up * up - move_down * down
        here, at = self._at_recorded.within(rows)
        dual = losses.plain_conjugate(chosen)
        dual[at] = losses.recorded_conjugate(chosen[at], here)
        dual[self._at_held.within(rows)[1]] = 0.0
        return xp.sum(dual), xp.sum(xp.abs(wanted - chosen))


class _Places:
    """Where the entries of a pattern lie in blocks of rows over some of the labels, which are in order."""

    def __init__(self, xp: Any, pattern: Any, labels: Any) -> None:
        self._pattern = pattern
        self._columns = xp.searchsorted(labels, xp.astype(pattern.indices, labels.dtype))

    def within(self, rows: slice) -> tuple[slice, tuple[Any, Any]]:
        """Which entries lie in a block of rows, and where in the block."""
        here, row = self._pattern.within(rows)
        return here, (row, self._columns[here])


def _squared_gradient(
    objective: UnlabelledObjective, points: Sequence[Any], taken_off: Any
) -> SquaredGradient:
    """G of the squared loss, low-rank plus sparse.

    Label sums ``taken_off`` are subtracted from it, spread evenly over each label's entries.
    """
    every, recorded, _ = points
    right = 2.0 / every.term.total * every.Q1
    if taken_off is not None:
        assert objective.frame.n_counted is not None
        # G = 2/N P'Q'ᵀ − sparse: the last column of Q' belongs to the ones in P'.
        counted = objective.every.design.array(np.maximum(objective.frame.n_counted, 1))
        right[:, -1] -= taken_off / counted
    low_rank = every.low_rank(right)
    # Held-out entries have no slope.
    out = objective.held.gradient_of(-low_rank.sampled(objective.held.pattern))
    return SquaredGradient(objective, low_rank, recorded.score_gradient(), out)


class SquaredGradient(SumGradient):
    """G of the squared loss: a low-rank part over all entries and a sparse one on the recorded positives."""

    parts: tuple[Any, ...]

    def __init__(self, objective: UnlabelledObjective, low_rank: Any, recorded: Any, held: Any) -> None:
        super().__init__([low_rank, recorded, held])
        self._objective = objective

    def conjugate(self, scale: float, capacity: Any = None) -> float:
        """``1/N Σ a²/4 − a`` with a = N (scale · G + C), C = −G of the linear part on recorded positives."""
        low_rank, recorded, held = self.parts
        total, pattern = self._objective.every.total, self._objective.recorded.pattern
        # f is 1/N Σ (z + 1)² + ⟨recorded, Z⟩, so f*(A) is the first part's conjugate at A − recorded.
        sparse = (scale - 1.0) * recorded.entries
        at_recorded = low_rank.sampled(pattern)
        square = float(sparse @ (2 * scale * at_recorded + sparse))
        out = scale * held.entries
        of_held = 0.25 * total * float(out @ out) + float(out.sum())
        return float(low_rank.conjugate(scale) - of_held + 0.25 * total * square - float(sparse.sum()))
