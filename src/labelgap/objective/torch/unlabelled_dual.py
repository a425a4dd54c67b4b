"""The gradient in the scores of the positive-unlabelled term on a device, and its conjugate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from labelgap.kernels.gpu.losses import Tensor
from labelgap.kernels.gpu.pattern import TensorPattern
from labelgap.objective.protocol import ScoreGradient
from labelgap.objective.sum import SumGradient
from labelgap.objective.torch.entries import TensorEntryGradient, TensorEntryPoint
from labelgap.objective.torch.gram import TensorGramPoint, TensorLowRankGradient

if TYPE_CHECKING:
    from labelgap.objective.torch.all_entries import TensorAllEntriesPoint
    from labelgap.objective.torch.unlabelled import TensorUnlabelled

# Sums over a label's entries agree to this fraction of what is summed.
_ROUNDING = 1e-12
# How many rounding errors beyond the edge of a conjugate's domain still count as lying on the edge.
_EDGE_ULPS = 8


class TensorUnlabelledGradient(SumGradient):
    """G of the logistic loss, with the conjugate under the bound γ.

    ``conjugate(scale)`` looks for a G' near ``scale · G`` inside the domain of f*, with the label sums that
    the intercept demands, and answers ``f*(G') + γ ‖scale · G − G'‖₁``. A slope at an unlabelled entry is in
    [0, 1], at a recorded positive in ``[−1 − κ, −κ]`` with κ = ρ/(1 − ρ); all are multiplied by N.
    """

    def __init__(
        self,
        objective: TensorUnlabelled,
        every: TensorAllEntriesPoint,
        recorded: TensorEntryPoint,
        held: Any,
        sums: tuple[Tensor, Tensor] | None,
    ) -> None:
        super().__init__([part.score_gradient() for part in (every, recorded, held)])
        self._objective, self._every, self._recorded = objective, every, recorded
        # Per label, the sum that an intercept demands and what there was to cancel.
        self._sums = sums
        self._at_recorded = _Places(objective.recorded.pattern, every.term.labels)
        self._at_held = _Places(objective.held.pattern, every.term.labels)
        self._kappa = objective.rates / (1.0 - objective.rates)

    def label_capacity(self, scale: float) -> Tensor | None:
        """Per label: the sum of the nearest slopes in the domain, and how far they could go up and down."""
        if self._sums is None:
            return None

        def work(rows: slice) -> tuple[Tensor, ...]:
            _, nearest, up, down = self._slopes(rows, scale)
            return nearest.sum(dim=0), up.sum(dim=0), down.sum(dim=0)

        return torch.stack(self._every.exact.total(work))

    def conjugate(self, scale: float, capacity: Tensor | None = None) -> float:
        term, bound = self._every.term, self._objective.score_bound
        move_up = move_down = torch.zeros_like(self._every.exact.b)
        if self._sums is not None:
            known = self.label_capacity(scale) if capacity is None else capacity
            assert known is not None
            total, up, down = known
            wanted, gross = (scale * part[term.labels] * term.total for part in self._sums)
            missing = wanted - total
            # What is missing by rounding needs no correction.
            missing[torch.abs(missing) <= _ROUNDING * (gross + torch.abs(total))] = 0.0
            move_up = torch.where(missing > 0, missing / up, 0.0)
            move_down = torch.where(missing < 0, -missing / down, 0.0)
            # Sums that no slopes in the domain have: this direction proves nothing.
            if not (bool(torch.all(move_up <= 1.0)) and bool(torch.all(move_down <= 1.0))):
                return float("inf")
        dual, changed = self._every.exact.total(lambda rows: self._price(rows, scale, move_up, move_down))
        if float(changed) > 0 and bound is None:
            return float("inf")
        return float(dual + (bound or 0.0) * changed) / term.total

    def _slopes(self, rows: slice, scale: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The slopes wanted in a block, the nearest in the domain, and how far those are from its edges."""
        wanted = scale * self._every.exact.slopes(rows)
        here, at = self._at_recorded.within(rows)
        wanted[at] += scale * self._every.term.total * self._recorded.entry_gradient[here]
        low, high = torch.zeros_like(wanted), torch.ones_like(wanted)
        kappa = self._kappa[here]
        low[at], high[at] = -1 - kappa, -kappa
        # An entry that is held out has no loss and hence no slope.
        _, out = self._at_held.within(rows)
        for part in (wanted, low, high):
            part[out] = 0.0
        nearest = torch.minimum(torch.maximum(wanted, low), high)
        return wanted, nearest, high - nearest, nearest - low

    def _price(self, rows: slice, scale: float, move_up: Tensor, move_down: Tensor) -> tuple[Tensor, Tensor]:
        """The conjugate at the slopes with the right sums, and how much had to be changed for them."""
        wanted, nearest, up, down = self._slopes(rows, scale)
        chosen = nearest + move_up * up - move_down * down
        here, at = self._at_recorded.within(rows)
        loss = self._every.term.loss
        zero = chosen.new_zeros(())
        dual = loss.conjugate(torch.clamp(chosen, 0.0, 1.0), zero)
        kappa = self._kappa[here]
        tilted = chosen[at] + kappa
        inside = torch.clamp(tilted, -1.0, 0.0)
        rounding = _EDGE_ULPS * torch.finfo(chosen.dtype).eps * (1 + kappa)
        dual[at] = torch.where(
            torch.abs(tilted - inside) <= rounding, loss.conjugate(inside, zero + 1.0), float("inf")
        )
        dual[self._at_held.within(rows)[1]] = 0.0
        return torch.sum(dual), torch.sum(torch.abs(wanted - chosen))


class _Places:
    """Where the entries of a pattern lie in blocks of rows over some of the labels."""

    def __init__(self, pattern: TensorPattern, labels: Tensor) -> None:
        self._entries = pattern.by_row
        place = torch.zeros(pattern.n_labels, dtype=torch.int64, device=pattern.device)
        place[labels] = torch.arange(len(labels), device=pattern.device)
        self._columns = place[self._entries.indices]

    def within(self, rows: slice) -> tuple[slice, tuple[Tensor, Tensor]]:
        """Which entries lie in a block of rows, and where in the block."""
        indptr = self._entries.host_indptr
        here = slice(int(indptr[rows.start]), int(indptr[rows.stop]))
        return here, (self._entries.rows_of(here.start, here.stop) - rows.start, self._columns[here])


def squared_gradient(
    objective: TensorUnlabelled, every: TensorGramPoint, recorded: TensorEntryPoint, taken_off: Tensor | None
) -> ScoreGradient:
    """G of the squared loss, low-rank plus sparse.

    Label sums ``taken_off`` are subtracted from it, spread evenly over each label's entries.
    """
    right, left = every.Q1.clone(), 2.0 / every.term.total * every.P1
    held = objective.held.pattern
    if taken_off is not None:
        assert objective.frame.n_counted is not None
        # G = 2/N P'Q'ᵀ − sparse: the last column of Q' belongs to the ones in P'.
        counted = torch.clamp(every.term.design.tensor(objective.frame.n_counted), min=1)
        right[:, -1] -= taken_off * objective.every.total / (2 * counted)
    low_rank = TensorLowRankGradient(every.term.design, left, right, every.term.total)
    # Held-out entries have no slope.
    out = -held.by_row.dots(left.contiguous(), right.contiguous())
    return TensorSquaredGradient(
        objective, low_rank, recorded.score_gradient(), TensorEntryGradient(objective.held, out)
    )


class TensorSquaredGradient(SumGradient):
    """G of the squared loss: a low-rank part over all entries and a sparse one on the recorded positives."""

    def __init__(
        self,
        objective: TensorUnlabelled,
        low_rank: TensorLowRankGradient,
        recorded: Any,
        held: TensorEntryGradient,
    ) -> None:
        super().__init__([low_rank, recorded, held])
        self._objective = objective

    def conjugate(self, scale: float, capacity: Tensor | None = None) -> float:
        """``1/N Σ a²/4 − a`` with a = N (scale · G + C), C = −G of the linear part on recorded positives."""
        low_rank, recorded, held = self.parts
        assert isinstance(low_rank, TensorLowRankGradient)
        assert isinstance(recorded, TensorEntryGradient)
        assert isinstance(held, TensorEntryGradient)
        total, pattern = self._objective.every.total, self._objective.recorded.pattern
        # f is 1/N Σ (z + 1)² + ⟨recorded, Z⟩, so f*(A) is the first part's conjugate at A − recorded.
        sparse = (scale - 1.0) * recorded.entries
        at_recorded = pattern.by_row.dots(low_rank.left.contiguous(), low_rank.right.contiguous())
        square = float(torch.dot(sparse, 2 * scale * at_recorded + sparse))
        out = scale * held.entries
        of_held = 0.25 * total * float(torch.dot(out, out)) + float(out.sum())
        return low_rank.conjugate(scale) - of_held + 0.25 * total * square - float(sparse.sum())
