"""The positive-unlabelled data term: the unbiased loss over all n·L entries.

    f(Z) = 1/N [ Σ_all ℓ(z_ij, 0) + Σ_recorded ( ℓ̃(z_ij, 1) − ℓ(z_ij, 0) ) − Σ_held ℓ(z_ij, 0) ]

is a sum of a term over all entries and sparse ones; entries that are held out are subtracted again. Only the
dual does not come from the terms. The slope of ℓ̃(·, 1) stays below 0 for the logistic and the exponential
loss, which fall without limit there. So a gradient that is shrunk towards 0, as the duality gap needs it,
leaves the domain of the conjugate. The bound γ on the scores helps: with |XWFᵀ| ≤ γ the dual may be changed
by any amount, and each unit of change costs γ in the lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.kernels.entries import EntryPattern, sampled_product
from labelgap.losses import Loss
from labelgap.losses.unlabelled import Unlabelled
from labelgap.objective.cpu.all_entries import AllEntriesPoint, AllEntriesTerm
from labelgap.objective.cpu.entries import EntryGradient, EntryPoint, EntryTerm
from labelgap.objective.cpu.gram import GramPoint, GramTerm, LowRankGradient
from labelgap.objective.cpu.rowwise_gram import GramRowwise
from labelgap.objective.cpu.working_factors import SideModel
from labelgap.objective.frame import Frame
from labelgap.objective.protocol import Factors, Point, ScoreBounds, ScoreGradient
from labelgap.objective.sum import SumGradient, SumObjective, SumPoint

# Sums over a label's entries agree to this fraction of what is summed.
_ROUNDING = 1e-12


class RecordedCorrection:
    """``Σ (ℓ̃(z, 1) − ℓ(z, 0)) / N`` over the recorded positives, an entry function."""

    def __init__(self, loss: Unlabelled, total: float) -> None:
        self.loss, self._total = loss, total

    def value_and_gradient(self, z: Floats) -> tuple[float, Floats]:
        recorded, recorded_slope = self.loss.value_and_gradient(z, 1)
        plain, plain_slope = self.loss.base.value_and_gradient(z, 0)
        value = float(np.sum(recorded - plain)) / self._total
        return value, np.asarray((recorded_slope - plain_slope) / self._total)

    def curvature(self, z: Floats) -> Floats:
        return np.asarray((self.loss.curvature(z, 1) - self.loss.base.curvature(z, 0)) / self._total)

    def conjugate(self, gradient: Floats, scale: float = 1.0) -> float:
        """Infinite but at one slope: only together with the other entries is there a useful one."""
        return float("inf")


class HeldCorrection:
    """``−Σ ℓ(z, 0) / N`` over entries that are held out, an entry function (concave; the sum is convex)."""

    def __init__(self, loss: Loss, total: float) -> None:
        self._loss, self._total = loss, total

    def value_and_gradient(self, z: Floats) -> tuple[float, Floats]:
        value, slope = self._loss.value_and_gradient(z, 0)
        return -float(np.sum(value)) / self._total, np.asarray(slope / -self._total)

    def curvature(self, z: Floats) -> Floats:
        return np.asarray(self._loss.curvature(z, 0) / -self._total)

    def conjugate(self, gradient: Floats, scale: float = 1.0) -> float:
        """None: only together with the other entries is there one."""
        return float("inf")


class UnlabelledObjective(SumObjective):
    """The unbiased loss, with the bound γ that its conjugate may use (None: it must do without)."""

    def __init__(
        self,
        every: AllEntriesTerm | GramTerm,
        recorded: EntryTerm,
        held: EntryTerm,
        loss: Unlabelled,
        frame: Frame,
        bounds: ScoreBounds | None,
    ) -> None:
        super().__init__([every, recorded, held], bounds=bounds)
        self.every, self.recorded, self.held, self.loss = every, recorded, held, loss
        self.frame = frame
        self.score_bound = None if bounds is None else bounds.bound

    def starting_intercept(self) -> Floats:
        return self.frame.starting_intercept.copy()

    def at(self, factors: Factors, product: Floats | None = None) -> Point:
        parts = [term.at(factors, product) for term in self.terms]
        return UnlabelledPoint(self, parts, factors)

    def rowwise(self, dtype: Any) -> GramRowwise | None:
        """Exact steps under the squared loss, where all entries count."""
        every, pattern = self.every, self.recorded.pattern
        sides = (every.design.rows, every.design.columns)
        if not isinstance(every, GramTerm) or len(self.held.pattern) or not all(map(SideModel.fits, sides)):
            return None
        slopes = np.zeros(self.n_labels)
        # ((z − 1)² − (z + 1)²) / (1 − ρ)
        slopes[pattern.indices] = -4.0 / (1.0 - np.asarray(self.loss.flip_rate))
        return GramRowwise(
            every.design,
            pattern,
            every.labels,
            slopes,
            every.total,
            dtype,
            has_intercept=self.has_intercept,
        )


class UnlabelledPoint(SumPoint):
    """An :class:`UnlabelledObjective` at one place; all but the dual is the sum of its terms."""

    def __init__(self, objective: UnlabelledObjective, parts: Sequence[Point], factors: Factors) -> None:
        super().__init__(objective, parts, factors)
        self._objective = objective
        every, recorded, held = self.parts
        assert isinstance(recorded, EntryPoint)
        # The sum of the absolute losses: what the corrections take back does not count.
        loss, z = objective.loss, recorded.scores
        change = float(np.sum(np.abs(loss.value(z, 1)) - loss.base.value(z, 0)))
        self.size = every.value + change / objective.every.total + held.value

    def score_gradient(
        self, sums: tuple[Floats, Floats] | None = None, *, balanced: bool = False
    ) -> ScoreGradient:
        every, recorded, held = self.parts
        assert isinstance(recorded, EntryPoint)
        has_intercept = self._objective.has_intercept
        if sums is None and has_intercept:
            sums = self.signed_label_sums()
        if isinstance(every, GramPoint):
            taken_off = sums[0] + sums[1] if balanced and sums is not None else None
            return _squared_gradient(self._objective, every, recorded, taken_off)
        assert isinstance(every, AllEntriesPoint)
        demanded = None
        if has_intercept and sums is not None:
            up, down = sums
            demanded = (np.zeros_like(up) if balanced else up + down, up - down)
        return UnlabelledGradient(self._objective, every, recorded, held, demanded)

    def with_intercept(self, intercept: Floats) -> Point:
        parts = [part.with_intercept(intercept) for part in self.parts]
        return UnlabelledPoint(self._objective, parts, self.factors._replace(intercept=intercept))

    def beyond(self, previous: Point, step: float) -> Point:
        moved = super().beyond(previous, step)
        assert isinstance(moved, SumPoint)
        return UnlabelledPoint(self._objective, moved.parts, moved.factors)


class UnlabelledGradient(SumGradient):
    """G of the logistic or exponential loss, with the conjugate under the bound γ.

    ``conjugate(scale)`` looks for a G' near ``scale · G`` inside the domain of f*, with the label sums that
    the intercept demands, and answers ``f*(G') + γ ‖scale · G − G'‖₁``.
    """

    def __init__(
        self,
        objective: UnlabelledObjective,
        every: AllEntriesPoint,
        recorded: EntryPoint,
        held: Point,
        sums: tuple[Floats, Floats] | None,
    ) -> None:
        super().__init__([part.score_gradient() for part in (every, recorded, held)])
        self._objective, self._every, self._recorded = objective, every, recorded
        # Per label, the sum that an intercept demands and what there was to cancel.
        self._sums = sums
        self._at_recorded = _Places(objective.recorded.pattern, every.term.labels)
        self._at_held = _Places(objective.held.pattern, every.term.labels)
        base = objective.loss.base
        self._low, self._high = (float(edge) for edge in Unlabelled(base, 0.0).slope_range(0))
        self._boxed = np.isfinite(self._high)
        n_recorded = len(objective.recorded.pattern)
        self._recorded_range = [np.broadcast_to(e, n_recorded) for e in objective.loss.slope_range(1)]

    def label_capacity(self, scale: float) -> Floats | None:
        """Per label: the sum of the nearest slopes in the domain, and how far they could go up and down."""
        if self._sums is None:
            return None
        return np.array(self._every.sum_rows(lambda rows: self._capacity(rows, scale)))

    def conjugate(self, scale: float, capacity: Floats | None = None) -> float:
        term, bound = self._every.term, self._objective.score_bound
        move_up, move_down = np.zeros(len(term.labels)), np.zeros(len(term.labels))
        if self._sums is not None:
            known = self.label_capacity(scale) if capacity is None else capacity
            assert known is not None
            total, up, down = known
            wanted, gross = (scale * part[term.labels] * term.total for part in self._sums)
            missing = wanted - total
            # What is missing by rounding needs no correction.
            missing[np.abs(missing) <= _ROUNDING * (gross + np.abs(total))] = 0.0
            with np.errstate(divide="ignore", invalid="ignore"):
                move_up = np.where(missing > 0, missing / up, 0.0)
                move_down = np.where(missing < 0, -missing / down, 0.0)
            # Sums that no slopes in the domain have: this direction proves nothing.
            limit = 1.0 if self._boxed else np.finfo(float).max
            if not (np.all(move_up <= limit) and np.all(move_down <= 1.0)):
                return float("inf")
        dual, changed = self._every.sum_rows(lambda rows: self._price(rows, scale, move_up, move_down))
        if changed > 0 and bound is None:
            return float("inf")
        return float(dual + (bound or 0.0) * changed) / term.total

    def _slopes(self, rows: slice, scale: float) -> tuple[Floats, Floats, Floats, Floats]:
        """The slopes wanted in a block, the nearest in the domain, and how far those are from its two edges.

        All are multiplied by N.
        """
        wanted = scale * self._every.slopes(rows)
        here, at = self._at_recorded.within(rows)
        wanted[at] += scale * self._every.term.total * self._recorded.entry_gradient[here]
        low, high = np.full_like(wanted, self._low), np.full_like(wanted, self._high)
        low[at], high[at] = (edge[here] for edge in self._recorded_range)
        # An entry that is held out has no loss and hence no slope.
        _, out = self._at_held.within(rows)
        wanted[out] = low[out] = high[out] = 0.0
        nearest = np.clip(wanted, low, high)
        with np.errstate(invalid="ignore"):
            down = np.where(np.isfinite(low), nearest - low, 0.0)
            # Without an edge above, slopes may grow by multiples of their size and need no help.
            up = high - nearest if self._boxed else np.where(np.isfinite(high), 0.0, nearest)
        return wanted, nearest, up, down

    def _capacity(self, rows: slice, scale: float) -> tuple[Floats, Floats, Floats]:
        """Per label: the sum of the nearest slopes, and how far they could go up and down."""
        _, nearest, up, down = self._slopes(rows, scale)
        return nearest.sum(axis=0), up.sum(axis=0), down.sum(axis=0)

    def _price(self, rows: slice, scale: float, move_up: Floats, move_down: Floats) -> tuple[float, float]:
        """The conjugate at the slopes with the right sums, and how much had to be changed for them."""
        wanted, nearest, up, down = self._slopes(rows, scale)
        chosen = nearest + move_up * up - move_down * down
        here, at = self._at_recorded.within(rows)
        loss = self._objective.loss
        dual = np.asarray(loss.base.conjugate(np.clip(chosen, self._low, self._high), 0))
        rates = np.broadcast_to(loss.flip_rate, len(self._objective.recorded.pattern))[here]
        dual[at] = Unlabelled(loss.base, rates).conjugate(chosen[at], 1)
        dual[self._at_held.within(rows)[1]] = 0.0
        return float(np.sum(dual)), float(np.sum(np.abs(wanted - chosen)))


class _Places:
    """Where the entries of a pattern lie in blocks of rows over some of the labels."""

    def __init__(self, pattern: EntryPattern, labels: NDArray[np.int64]) -> None:
        self._indptr = pattern.indptr
        place = np.zeros(pattern.n_labels, dtype=np.int64)
        place[labels] = np.arange(len(labels))
        self._columns = place[pattern.indices]
        self._rows = np.repeat(np.arange(pattern.n_rows), np.diff(pattern.indptr))

    def within(self, rows: slice) -> tuple[slice, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Which entries lie in a block of rows, and where in the block."""
        here = slice(self._indptr[rows.start], self._indptr[rows.stop])
        return here, (self._rows[here] - rows.start, self._columns[here])


def _squared_gradient(
    objective: UnlabelledObjective, every: GramPoint, recorded: EntryPoint, taken_off: Floats | None
) -> ScoreGradient:
    """G of the squared loss, low-rank plus sparse.

    Label sums ``taken_off`` are subtracted from it, spread evenly over each label's entries.
    """
    right, left = every.Q1.copy(), 2.0 / every.term.total * every.P1
    held = objective.held.pattern
    if taken_off is not None:
        assert objective.frame.n_counted is not None
        # G = 2/N P'Q'ᵀ − sparse: the last column of Q' belongs to the ones in P'.
        counted = np.maximum(objective.frame.n_counted, 1)
        right[:, -1] -= taken_off * objective.every.total / (2 * counted)
    low_rank = LowRankGradient(every.term.design, left, right, every.term.total)
    # Held-out entries have no slope.
    out = -sampled_product(held.indptr, held.indices, left, np.ascontiguousarray(right))
    return SquaredGradient(objective, low_rank, recorded.score_gradient(), EntryGradient(objective.held, out))


class SquaredGradient(SumGradient):
    """G of the squared loss: a low-rank part over all entries and a sparse one on the recorded positives."""

    def __init__(
        self,
        objective: UnlabelledObjective,
        low_rank: LowRankGradient,
        recorded: ScoreGradient,
        held: EntryGradient,
    ) -> None:
        super().__init__([low_rank, recorded, held])
        self._objective = objective

    def conjugate(self, scale: float, capacity: Floats | None = None) -> float:
        """``1/N Σ a²/4 − a`` with a = N (scale · G + C), C = −G of the linear part on recorded positives."""
        low_rank, recorded, held = self.parts
        assert isinstance(low_rank, LowRankGradient)
        assert isinstance(recorded, EntryGradient)
        assert isinstance(held, EntryGradient)
        total, pattern = self._objective.every.total, self._objective.recorded.pattern
        # f is 1/N Σ (z + 1)² + ⟨recorded, Z⟩, so f*(A) is the first part's conjugate at A − recorded.
        sparse = (scale - 1.0) * recorded.entries
        at_recorded = sampled_product(
            pattern.indptr, pattern.indices, low_rank.left, np.ascontiguousarray(low_rank.right)
        )
        square = float(sparse @ (2 * scale * at_recorded + sparse))
        out = scale * held.entries
        of_held = 0.25 * total * float(out @ out) + float(out.sum())
        return low_rank.conjugate(scale) - of_held + 0.25 * total * square - float(sparse.sum())
