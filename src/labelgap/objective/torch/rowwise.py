"""Newton steps row by row on a device, where every row of a factor has entries of its own.

With the users' factors P held, the part of the objective that an item's ``(Q_j, b_j)`` sees is a problem of
k + 1 numbers, and with (Q, b) held a user's P_i sees k numbers. Rows of about the same number of entries are
taken together: their entries are filled up to one length, their Hessians come from one batched product, and
their small systems are solved by one batched Cholesky factorisation. The guard against steps that overshoot
is that of :mod:`labelgap.kernels.newton_rows`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from labelgap.kernels.gpu.device import block_bytes
from labelgap.kernels.gpu.losses import Tensor
from labelgap.kernels.gpu.passes import EntryData, WeightedEntries
from labelgap.kernels.gpu.pattern import Compressed
from labelgap.kernels.newton_rows import MOST_RELAXATION, SAFE, SAFE_RELAXED
from labelgap.objective.protocol import FactorPenalties, Factors
from labelgap.objective.torch.design import TensorDesign
from labelgap.objective.torch.working_factors import TensorSide, TensorSideModel, TensorWorkingFactors

# Rows are grouped by powers of this number of entries: so much of a batch may be empty at most.
_GROWTH = 1.5
# What is added to the diagonal of a Hessian that is not positive definite in the working precision, as a
# fraction of its largest element.
_JITTER = 1e-6


class TensorRowwise:
    """Newton steps for the labels and for the rows of a weighted sum of losses."""

    quadratic_in_rank = True

    def __init__(
        self, design: TensorDesign, loss: WeightedEntries, dtype: Any, *, has_intercept: bool
    ) -> None:
        self.dtype = dtype
        self._models = tuple(
            TensorSideModel(features, design.device) for features in (design.rows, design.columns)
        )
        self._loss, self._has_intercept = loss, has_intercept
        self._total = 1.0 / loss.data.weight
        self._by_row = _Batches(loss.pattern.by_row, self._in_units(loss.data))
        self._by_label = _Batches(loss.pattern.by_label, self._in_units(loss.by_label))

    def _in_units(self, data: EntryData) -> EntryData:
        """Weights that are not divided by the total: steps are scaled up by it, for single precision."""
        weights = None if data.weights is None else (data.weights * self._total).to(self.dtype)
        return data._replace(weights=weights, weight=1.0)

    @staticmethod
    def fits(design: TensorDesign) -> bool:
        """Whether both sides are made of rows with entries of their own."""
        return TensorSideModel.fits(design.rows) and TensorSideModel.fits(design.columns)

    def start(self, factors: Factors) -> TensorWorkingFactors:
        rows, labels = (
            TensorSide.of(model, parameters, self.dtype)
            for model, parameters in zip(self._models, factors[:2], strict=True)
        )
        return TensorWorkingFactors(rows, labels, torch.clone(factors.intercept).to(self.dtype))

    def step_labels(
        self, at: TensorWorkingFactors, penalties: FactorPenalties, relaxation: float = 1.0
    ) -> float:
        """(Q, b) given P; returns what it gains, to second order."""
        own = at.intercept if self._has_intercept else None
        return self._step(self._by_label, at.rows, None, at.labels, own, penalties, relaxation)

    def step_rows(
        self, at: TensorWorkingFactors, penalties: FactorPenalties, relaxation: float = 1.0
    ) -> float:
        """P given (Q, b); likewise."""
        shifts = at.intercept if self._has_intercept else None
        return self._step(self._by_row, at.labels, shifts, at.rows, None, penalties, relaxation)

    def _step(
        self,
        batches: _Batches,
        given: TensorSide,
        shifts: Tensor | None,
        moving: TensorSide,
        own_shifts: Tensor | None,
        penalties: FactorPenalties,
        relaxation: float,
    ) -> float:
        N, table = self._total, given.factor
        k = table.shape[1]
        penalty = N * penalties.trace * torch.eye(k, dtype=torch.float64, device=table.device)
        if penalties.ridge:
            penalty = penalty + N * penalties.ridge * given.gram()
        penalty = penalty.to(self.dtype)
        length = min(relaxation, MOST_RELAXATION)
        gains = []
        # A row without entries goes to its prior.
        moving.factor[batches.empty] = moving.prior if len(moving.prior) == 1 else moving.prior[batches.empty]
        for rows, inside, columns, data in batches.parts(k + (own_shifts is not None), self.dtype):
            own = moving.factor[rows]
            prior = moving.prior if len(moving.prior) == 1 else moving.prior[rows]
            sizes = moving.sizes if len(moving.sizes) == 1 else moving.sizes[rows]
            gathered = table[columns] * inside[..., None]
            z = torch.einsum("bek,bk->be", gathered, own)
            if shifts is not None:
                z = z + shifts[columns]
            if own_shifts is not None:
                z = z + own_shifts[rows, None]
                gathered = torch.cat([gathered, inside[..., None]], dim=2)
            _, slopes, curvatures = self._loss.loss.derivatives(z, data.targets.to(self.dtype))
            weight = inside if data.weights is None else inside * data.weights
            slopes, curvatures = slopes * weight, curvatures * weight
            gradient = torch.einsum("bek,be->bk", gathered, slopes)
            hessian = torch.bmm((gathered * curvatures[..., None]).transpose(1, 2), gathered)
            gradient[:, :k] += sizes[:, None] * ((own - prior) @ penalty)
            hessian[:, :k, :k] += sizes[:, None, None] * penalty
            if own_shifts is not None:
                held = N * penalties.intercept
                gradient[:, k] += held * (own_shifts[rows] - penalties.centre)
                hessian[:, k, k] += held
            step = _solved(hessian, gradient)
            gains.append(0.5 * torch.sum(gradient * step, dtype=torch.float64))
            lengths = torch.full_like(step[:, 0], length)
            if not self._loss.loss.bounds_curvature:
                most = torch.amax(torch.abs(torch.einsum("bek,bk->be", gathered, step)), dim=1)
                shorter = torch.log1p(most) / torch.clamp(most, min=SAFE)
                lengths = torch.where(most >= SAFE_RELAXED, min(1.0, length), lengths)
                lengths = torch.where(most >= SAFE, shorter, lengths)
            step = step * lengths[:, None]
            moving.factor[rows] = own - step[:, :k]
            if own_shifts is not None:
                own_shifts[rows] -= step[:, k]
        moving.renew_prior()
        return float(torch.sum(torch.stack(gains))) / N if gains else 0.0


def _solved(hessian: Tensor, gradient: Tensor) -> Tensor:
    """The solution of each small system."""
    root, failed = torch.linalg.cholesky_ex(hessian)
    if bool(torch.any(failed > 0)):
        # No curvature to speak of in some direction: with a little more, it hardly moves.
        diagonal = torch.diagonal(hessian, dim1=1, dim2=2)
        more = _JITTER * torch.amax(diagonal, dim=1).clamp(min=torch.finfo(hessian.dtype).tiny)
        eye = torch.eye(hessian.shape[1], dtype=hessian.dtype, device=hessian.device)
        amount = torch.where(failed > 0, more, 0.0)
        root = torch.linalg.cholesky_ex(hessian + amount[:, None, None] * eye)[0]
    return torch.cholesky_solve(gradient[..., None], root)[..., 0]


class _Batches:
    """Rows of about the same length, whose entries are filled up to one length."""

    def __init__(self, entries: Compressed, data: EntryData) -> None:
        self._entries, self._data = entries, data
        counts = np.diff(entries.host_indptr)
        self._order = np.argsort(counts, kind="stable")
        self._lengths = counts[self._order]
        none = self._order[: np.searchsorted(self._lengths, 0, side="right")]
        self.empty = torch.from_numpy(none).to(entries.device)
        self._device_order = torch.from_numpy(self._order).to(entries.device)

    def parts(self, width: int, dtype: Any) -> Iterator[tuple[Tensor, Tensor, Tensor, EntryData]]:
        """Rows, which places hold an entry, its column (0 elsewhere) and what is known of it."""
        entries, data = self._entries, self._data
        # Factors of a batch are alive several times: gathered, times curvature, and in their product.
        most = block_bytes(entries.device) // 24
        first, n = len(self.empty), len(self._order)
        while first < n:
            # As many rows as fit, whose entries fill the batch well enough.
            longest = max(int(self._lengths[first] * _GROWTH), int(self._lengths[first]) + 3)
            last = int(np.searchsorted(self._lengths, longest, side="right"))
            fitting = max(1, most // (max(int(self._lengths[last - 1]), width) * width))
            last = min(last, first + fitting)
            longest = int(self._lengths[last - 1])
            rows = self._device_order[first:last]
            place = torch.arange(longest, device=entries.device)
            inside = place < entries.counts[rows, None]
            number = torch.where(inside, entries.indptr[rows, None] + place, 0)
            columns = torch.where(inside, entries.indices[number], 0)
            known = EntryData(
                data.targets[number],
                None if data.weights is None else data.weights[number],
                None,
                data.weight,
            )
            yield rows, inside.to(dtype), columns, known
            first = last
