"""The positive-unlabelled data term: the unbiased loss over all n·L cells.

    f(Z) = 1/N [ Σ_all ℓ(z_ij, 0) + Σ_recorded ( ℓ̃(z_ij, 1) − ℓ(z_ij, 0) ) − Σ_held ℓ(z_ij, 0) ]

is a sum of a term over all cells and sparse ones; cells that are held out are taken off again. What does not
come from the parts is the dual. The slope of ℓ̃(·, 1) stays below 0 for the logistic and the exponential loss,
because it falls for ever; so a gradient that is shrunk towards 0, as the duality gap has it, leaves the
domain of the conjugate. There the bound γ on the scores helps: with |XWFᵀ| ≤ γ any part of the dual may be
given up at the price of γ for each unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.kernels.entries import sampled_product
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.losses.unlabelled import Unlabelled
from labelgap.objective.cpu.all_entries import CellPoint, CellTerm
from labelgap.objective.cpu.design import Design
from labelgap.objective.cpu.gram import GramPoint, GramTerm, LowRankGradient
from labelgap.objective.cpu.observed import EntryGradient, EntryPoint, EntryTerm
from labelgap.objective.cpu.pattern import EntryPattern
from labelgap.objective.cpu.rowwise_gram import GramRowwise
from labelgap.objective.cpu.working_factors import SideModel
from labelgap.objective.protocol import Factors, Point, ScoreGradient
from labelgap.objective.sum import SumGradient, SumObjective, SumPoint

# Sums over a label's cells agree to this share of what is summed.
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
        """Infinite but at one slope: only together with the other cells is there a useful one."""
        return float("inf")


class HeldCorrection:
    """``−Σ ℓ(z, 0) / N`` over cells that are held out, an entry function (concave; the sum is convex)."""

    def __init__(self, loss: Loss, total: float) -> None:
        self._loss, self._total = loss, total

    def value_and_gradient(self, z: Floats) -> tuple[float, Floats]:
        value, slope = self._loss.value_and_gradient(z, 0)
        return -float(np.sum(value)) / self._total, np.asarray(slope / -self._total)

    def curvature(self, z: Floats) -> Floats:
        return np.asarray(self._loss.curvature(z, 0) / -self._total)

    def conjugate(self, gradient: Floats, scale: float = 1.0) -> float:
        """None: only together with the other cells is there one."""
        return float("inf")


class UnlabelledObjective(SumObjective):
    """The unbiased loss, with the bound γ that its conjugate may use (None: it must do without)."""

    def __init__(
        self,
        cells: CellTerm | GramTerm,
        recorded: EntryTerm,
        held: EntryTerm,
        loss: Unlabelled,
        start: Floats,
        score_bound: float | None,
    ) -> None:
        super().__init__([cells, recorded, held])
        self.cells, self.recorded, self.held, self.loss = cells, recorded, held, loss
        self.score_bound = score_bound
        self._start = start

    def starting_intercept(self) -> Floats:
        return self._start.copy()

    def at(self, factors: Factors, product: Floats | None = None) -> Point:
        return UnlabelledPoint(self, super().at(factors, product))

    def rowwise(self, dtype: Any) -> GramRowwise | None:
        """Exact steps under the squared loss, where all cells count."""
        cells, pattern = self.cells, self.recorded.pattern
        sides = (cells.design.rows, cells.design.columns)
        if not isinstance(cells, GramTerm) or len(self.held.pattern) or not all(map(SideModel.fits, sides)):
            return None
        slopes = np.zeros(self.n_labels)
        # ((z − 1)² − (z + 1)²) / (1 − ρ)
        slopes[pattern.indices] = -4.0 / (1.0 - np.asarray(self.loss.flip_rate))
        return GramRowwise(
            cells.design,
            pattern,
            cells.labels,
            slopes,
            cells.total,
            dtype,
            has_intercept=self.has_intercept,
        )

    def recorded_keys(self) -> NDArray[np.int64]:
        """Row times the number of labels plus label of the recorded positives in the term."""
        pattern = self.recorded.pattern
        rows = np.repeat(np.arange(pattern.n_rows, dtype=np.int64), np.diff(pattern.indptr))
        return rows * pattern.n_labels + pattern.indices


class UnlabelledPoint(SumPoint):
    """An :class:`UnlabelledObjective` at one place; all but the dual is the sum of the parts."""

    def __init__(self, objective: UnlabelledObjective, summed: Point) -> None:
        assert isinstance(summed, SumPoint)
        super().__init__(summed.parts)
        self._objective = objective
        cells, recorded, held = summed.parts
        assert isinstance(recorded, EntryPoint)
        # What the corrections take back must not count as size.
        loss, z = objective.loss, recorded.scores
        change = float(np.sum(np.abs(loss.value(z, 1)) - loss.base.value(z, 0)))
        self.size = max(cells.value + change / objective.cells.total + held.value, abs(self.value))

    def score_gradient(self, balance: tuple[Floats, Floats] | None = None) -> ScoreGradient:
        cells, recorded, held = self.parts
        assert isinstance(recorded, EntryPoint)
        sums = None
        if self._objective.has_intercept:
            up, down = self.signed_label_sums()
            sums = (np.zeros_like(up) if balance else up + down, up - down)
        if isinstance(cells, GramPoint):
            return _squared_gradient(self._objective, cells, recorded, centred=balance is not None)
        assert isinstance(cells, CellPoint)
        return UnlabelledGradient(self._objective, cells, recorded, held, sums)

    def with_intercept(self, intercept: Floats) -> Point:
        return UnlabelledPoint(self._objective, super().with_intercept(intercept))

    def beyond(self, previous: Point, share: float) -> Point:
        return UnlabelledPoint(self._objective, super().beyond(previous, share))


class UnlabelledGradient(SumGradient):
    """G of the logistic or exponential loss, with the conjugate under the bound γ.

    ``conjugate(scale)`` looks for a G' near ``scale · G`` inside the domain of f*, with the label sums that
    the intercept demands, and answers ``f*(G') + γ ‖scale · G − G'‖₁``.
    """

    def __init__(
        self,
        objective: UnlabelledObjective,
        cells: CellPoint,
        recorded: EntryPoint,
        held: Point,
        sums: tuple[Floats, Floats] | None,
    ) -> None:
        super().__init__([part.score_gradient() for part in (cells, recorded, held)])
        self._objective, self._cells, self._recorded = objective, cells, recorded
        # Per label, the sum that an intercept demands and what there was to cancel.
        self._sums = sums
        self._at_recorded = _Places(objective.recorded.pattern, cells.term.labels)
        self._at_held = _Places(objective.held.pattern, cells.term.labels)
        base = objective.loss.base
        self._low, self._high = (float(edge) for edge in Unlabelled(base, 0.0).slope_range(0))
        self._boxed = np.isfinite(self._high)
        n_recorded = len(objective.recorded.pattern)
        self._recorded_range = [np.broadcast_to(e, n_recorded) for e in objective.loss.slope_range(1)]

    def conjugate(self, scale: float) -> float:
        term, bound = self._cells.term, self._objective.score_bound
        share_up, share_down = np.zeros(len(term.labels)), np.zeros(len(term.labels))
        if self._sums is not None:
            total, up, down = self._cells.sum_rows(lambda rows: self._room(rows, scale))
            wanted, gross = (scale * part[term.labels] * term.total for part in self._sums)
            missing = wanted - total
            # What is missing by rounding needs no room.
            missing[np.abs(missing) <= _ROUNDING * (gross + np.abs(total))] = 0.0
            with np.errstate(divide="ignore", invalid="ignore"):
                share_up = np.where(missing > 0, missing / up, 0.0)
                share_down = np.where(missing < 0, -missing / down, 0.0)
            # Sums that no slopes in the domain have: this direction proves nothing.
            limit = 1.0 if self._boxed else np.finfo(float).max
            if not (np.all(share_up <= limit) and np.all(share_down <= 1.0)):
                return float("inf")
        dual, given_up = self._cells.sum_rows(lambda rows: self._price(rows, scale, share_up, share_down))
        if given_up > 0 and bound is None:
            return float("inf")
        return float(dual + (bound or 0.0) * given_up) / term.total

    def _slopes(self, rows: slice, scale: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Of a block: the slopes wanted, the nearest in the domain, its room above and below; all times N."""
        wanted = scale * self._cells.slopes(rows)
        here, at = self._at_recorded.within(rows)
        wanted[at] += scale * self._cells.term.total * self._recorded.entry_gradient[here]
        low, high = np.full_like(wanted, self._low), np.full_like(wanted, self._high)
        low[at], high[at] = (edge[here] for edge in self._recorded_range)
        # A cell that is held out has no loss and hence no slope.
        _, out = self._at_held.within(rows)
        wanted[out] = low[out] = high[out] = 0.0
        nearest = np.clip(wanted, low, high)
        with np.errstate(invalid="ignore"):
            down = np.where(np.isfinite(low), nearest - low, 0.0)
            # Without an edge above, cells may grow by multiples of their size and need no help.
            up = high - nearest if self._boxed else np.where(np.isfinite(high), 0.0, nearest)
        return wanted, nearest, up, down

    def _room(self, rows: slice, scale: float) -> tuple[Floats, Floats, Floats]:
        """Per label: the sum of the nearest slopes, and how far they could go up and down."""
        _, nearest, up, down = self._slopes(rows, scale)
        return nearest.sum(axis=0), up.sum(axis=0), down.sum(axis=0)

    def _price(self, rows: slice, scale: float, share_up: Floats, share_down: Floats) -> tuple[float, float]:
        """The conjugate at the slopes with the right sums, and how much was given up for them."""
        wanted, nearest, up, down = self._slopes(rows, scale)
        chosen = nearest + share_up * up - share_down * down
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
    objective: UnlabelledObjective, cells: GramPoint, recorded: EntryPoint, *, centred: bool
) -> ScoreGradient:
    """G of the squared loss, low-rank plus sparse; ``centred`` takes each label's mean off."""
    right, left = cells.Q1.copy(), 2.0 / cells.term.total * cells.P1
    held = objective.held.pattern
    if centred:
        out = held.label_sums(sampled_product(held.indptr, held.indices, left, right))
        sums = cells.label_sums() - out + np.add(*recorded.signed_label_sums())
        # G = 2/N P'Q'ᵀ − sparse: the last column of Q' belongs to the ones in P'.
        counted = np.maximum(len(left) - np.bincount(held.indices, minlength=held.n_labels), 1)
        right[:, -1] -= sums * objective.cells.total / (2 * counted)
    low_rank = LowRankGradient(cells.term.design, left, right, cells.term.total)
    # Held-out cells have no slope.
    taken_off = -sampled_product(held.indptr, held.indices, left, np.ascontiguousarray(right))
    return SquaredGradient(
        objective, low_rank, recorded.score_gradient(), EntryGradient(objective.held, taken_off)
    )


class SquaredGradient(SumGradient):
    """G of the squared loss: a low-rank part over all cells and a sparse one on the recorded positives."""

    def __init__(
        self,
        objective: UnlabelledObjective,
        low_rank: LowRankGradient,
        recorded: ScoreGradient,
        held: EntryGradient,
    ) -> None:
        super().__init__([low_rank, recorded, held])
        self._objective = objective

    def conjugate(self, scale: float) -> float:
        """``1/N Σ a²/4 − a`` with a = N (scale · G + C), C = −G of the linear part on recorded positives."""
        low_rank, recorded, held = self.parts
        assert isinstance(low_rank, LowRankGradient)
        assert isinstance(recorded, EntryGradient)
        assert isinstance(held, EntryGradient)
        total, pattern = self._objective.cells.total, self._objective.recorded.pattern
        # f is 1/N Σ (z + 1)² + ⟨recorded, Z⟩, so f*(A) is the first part's conjugate at A − recorded.
        sparse = (scale - 1.0) * recorded.entries
        at_recorded = sampled_product(
            pattern.indptr, pattern.indices, low_rank.left, np.ascontiguousarray(low_rank.right)
        )
        square = float(sparse @ (2 * scale * at_recorded + sparse))
        out = scale * held.entries
        of_held = 0.25 * total * float(out @ out) + float(out.sum())
        return low_rank.conjugate(scale) - of_held + 0.25 * total * square - float(sparse.sum())


def possible_flip_rates(recorded: NDArray[np.int64], rows: NDArray[np.int64], flip_rate: Floats) -> Floats:
    """The flip rates, lowered where a label has more recorded positives than they allow.

    A rate ρ says that there are ``recorded/(1 − ρ)`` positives in truth, which cannot be more than rows: with
    more, the loss of some labels would fall for ever in their intercept. Their share of the rows may be as
    high as the smoothed rate of a label that is all yes, ``(n + ½)/(n + 1)``.
    """
    most = np.maximum(rows, 1) * (rows + 0.5) / (rows + 1.0)
    return np.asarray(np.minimum(flip_rate, np.maximum(1.0 - np.maximum(recorded, 0.5) / most, 0.0)))


def unlabelled_objective(
    design: Design,
    positives: ObservedLabels,
    loss: Loss,
    flip_rate: Floats,
    *,
    held_out: ObservedLabels | None = None,
    fit_intercept: bool,
    free_intercept: bool = True,
    score_bound: float | None,
    block_cells: int,
) -> UnlabelledObjective:
    """The mean unbiased loss over all cells, from the recorded positives and one flip rate per label.

    Entries of ``held_out``, none of them among the ``positives``, are left out of the mean.

    A label without a recorded positive has its best intercept at −∞, and one with all rows recorded at +∞:
    with a free intercept they are left out of the sum, and their intercepts come from the smoothed rates
    ``½/(n + 1)``, corrected by the flip rate, and ``(n + ½)/(n + 1)``.
    """
    n, n_labels = positives.shape
    none = np.zeros(positives.n_observed, dtype=np.bool_)
    held = positives.select(none) if held_out is None else held_out
    total = float(n * n_labels - held.n_observed)
    rows, counts = n - held.label_counts(), positives.positive_counts()
    rho = possible_flip_rates(counts, rows, flip_rate)
    start = np.zeros(n_labels)
    labels = np.arange(n_labels)
    if fit_intercept:
        smallest = 0.5 / (rows + 1.0)
        rates = np.where(counts > 0, counts / np.maximum(rows, 1), smallest) / (1.0 - rho)
        start = np.asarray(loss.link(np.minimum(rates, 1 - smallest)), dtype=np.float64)
        if free_intercept:
            informative = (counts > 0) & (counts < rows)
            labels = np.flatnonzero(informative)
            positives = positives.select(informative[positives.indices])
            held = held.select(informative[held.indices])
    unbiased = Unlabelled(loss, rho[positives.indices])
    recorded = EntryTerm(
        design,
        EntryPattern(positives.indptr, positives.indices, n_labels),
        RecordedCorrection(unbiased, total),
        has_intercept=fit_intercept,
    )
    cells: CellTerm | GramTerm
    if loss.name == "squared":
        cells = GramTerm(design, labels, total, has_intercept=fit_intercept)
    else:
        cells = CellTerm(design, loss, labels, total, has_intercept=fit_intercept, block_cells=block_cells)
    out = EntryTerm(
        design,
        EntryPattern(held.indptr, held.indices, n_labels),
        HeldCorrection(loss, total),
        has_intercept=fit_intercept,
    )
    return UnlabelledObjective(cells, recorded, out, unbiased, start, score_bound)
