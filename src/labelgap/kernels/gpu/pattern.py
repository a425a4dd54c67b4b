"""The places of observed entries on a device, by row and by label, and products over them.

Products have a fixed order of summation: a row's entries are added up in their order, in pieces whose size
does not depend on the device. There are no floating-point atomics, so that a fit can be repeated bit for bit.
Where Triton is at hand the work is done by its kernels (:mod:`labelgap.kernels.gpu.triton_entries`); the
plain torch versions here are used elsewhere, and are what the kernels are tested against.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelgap.kernels.gpu.device import block_bytes, runs_triton
from labelgap.kernels.gpu.losses import Tensor

# Entries of one piece of a row, whose partial sum is made by one program of a kernel.
PIECE = 512


class Compressed:
    """Entries row by row (CSR): the column of each, and where every row begins."""

    def __init__(self, indptr: NDArray[Any], indices: Tensor, n_columns: int) -> None:
        self.host_indptr = np.asarray(indptr, dtype=np.int64)
        self.indices, self.n_columns = indices, n_columns
        self.n_rows = len(self.host_indptr) - 1
        self.device = indices.device

    def __len__(self) -> int:
        return int(self.host_indptr[-1])

    @cached_property
    def indptr(self) -> Tensor:
        return torch.from_numpy(self.host_indptr).to(self.device)

    @cached_property
    def counts(self) -> Tensor:
        return torch.diff(self.indptr)

    @cached_property
    def pieces(self) -> tuple[Tensor, Tensor, Tensor]:
        """The row of every piece, its first entry (and the last end), and where each row's pieces begin."""
        counts = np.diff(self.host_indptr)
        per_row = -(-counts // PIECE)
        pointers = np.zeros(self.n_rows + 1, dtype=np.int64)
        np.cumsum(per_row, out=pointers[1:])
        rows = np.repeat(np.arange(self.n_rows, dtype=np.int64), per_row)
        number = np.arange(len(rows), dtype=np.int64) - pointers[:-1][rows]
        starts = self.host_indptr[:-1][rows] + PIECE * number
        ends = np.append(starts, len(self))
        rows, ends, pointers = (torch.from_numpy(part).to(self.device) for part in (rows, ends, pointers))
        return rows, ends, pointers

    def rows_of(self, start: int, stop: int) -> Tensor:
        """The row of each entry of a range."""
        ends = self.indptr[1:]
        return torch.searchsorted(ends, torch.arange(start, stop, device=self.device), right=True)

    def entry_blocks(self, width: int, itemsize: int) -> Iterator[slice]:
        """Entries at a time, so that so many numbers for each of them fit into a block."""
        step = max(1, block_bytes(self.device) // max(2 * width * itemsize, 1))
        for start in range(0, len(self), step):
            yield slice(start, min(start + step, len(self)))

    def row_blocks(self, width: int, itemsize: int) -> Iterator[tuple[slice, slice]]:
        """Whole rows at a time, and their entries; a row that is too long for a block has one of its own."""
        most = max(1, block_bytes(self.device) // max(2 * width * itemsize, 1))
        first = 0
        while first < self.n_rows:
            fitting = np.searchsorted(self.host_indptr, self.host_indptr[first] + most, side="right") - 1
            last = min(max(int(fitting), first + 1), self.n_rows)
            yield slice(first, last), slice(int(self.host_indptr[first]), int(self.host_indptr[last]))
            first = last

    def dots(self, own: Tensor, others: Tensor) -> Tensor:
        """``own_i · others_j`` at every entry (i, j)."""
        if runs_triton(own):
            from labelgap.kernels.gpu import triton_entries

            return triton_entries.dots(self, own, others)
        out = torch.empty(len(self), dtype=own.dtype, device=self.device)
        for here in self.entry_blocks(own.shape[1], own.element_size()):
            rows = self.rows_of(here.start, here.stop)
            out[here] = torch.sum(own[rows] * others[self.indices[here]], dim=1)
        return out

    def product(self, data: Tensor, others: Tensor) -> Tensor:
        """``Σ_j data_ij others_j`` for every row i."""
        if runs_triton(others):
            from labelgap.kernels.gpu import triton_entries

            return triton_entries.product(self, data, others)
        out = torch.empty((self.n_rows, others.shape[1]), dtype=others.dtype, device=self.device)
        for rows, here in self.row_blocks(others.shape[1], others.element_size()):
            gathered = others[self.indices[here]] * data[here, None]
            out[rows] = self._sums(gathered, rows, here.start)
        return out

    def sums(self, data: Tensor) -> Tensor:
        """The sum of each row's entries."""
        if runs_triton(data):
            from labelgap.kernels.gpu import triton_entries

            return triton_entries.sums(self, data)
        return self._sums(data, slice(0, self.n_rows), 0)

    def _sums(self, data: Tensor, rows: slice, first_entry: int) -> Tensor:
        """Sums of rows from the data of their entries: of every piece first, then of the pieces."""
        _, ends, pointers = self.pieces
        pointers = pointers[rows.start : rows.stop + 1]
        first, last = int(pointers[0]), int(pointers[-1])
        partial = segment_sums(data, ends[first : last + 1] - first_entry)
        return segment_sums(partial, pointers - first)


def as_tensor(array: Any, device: Any, dtype: Any = None) -> Tensor:
    """An array of numpy's, or a tensor, as a tensor on a device; of its own type where none is given."""
    if isinstance(array, torch.Tensor):
        return array.to(device=device, dtype=dtype)
    plain = np.ascontiguousarray(array)
    # torch warns of arrays that must not be written to, although nobody does.
    return torch.from_numpy(plain if plain.flags.writeable else plain.copy()).to(device=device, dtype=dtype)


def segment_sums(data: Tensor, offsets: Tensor) -> Tensor:
    """Sums between neighbouring offsets, along the first axis."""
    if 0 in data.shape:
        return torch.zeros((len(offsets) - 1, *data.shape[1:]), dtype=data.dtype, device=data.device)
    return torch.segment_reduce(data, "sum", offsets=offsets, axis=0, initial=0, unsafe=True)


class TensorPattern:
    """Entries of an n x L matrix, row by row, with the same entries label by label beside them."""

    def __init__(self, indptr: NDArray[Any], indices: Any, n_labels: int, device: Any) -> None:
        columns = as_tensor(indices, device, torch.int32)
        self.by_row = Compressed(indptr, columns, n_labels)
        self.n_rows, self.n_labels, self.device = self.by_row.n_rows, n_labels, torch.device(device)

    def __len__(self) -> int:
        return len(self.by_row)

    @cached_property
    def _label_order(self) -> tuple[Compressed, Tensor]:
        # A stable sort keeps the rows of a label in their order.
        order = torch.sort(self.by_row.indices, stable=True).indices
        counts = torch.bincount(self.by_row.indices, minlength=self.n_labels)
        indptr = np.zeros(self.n_labels + 1, dtype=np.int64)
        np.cumsum(counts.cpu().numpy(), out=indptr[1:])
        rows = torch.repeat_interleave(
            torch.arange(self.n_rows, dtype=torch.int32, device=self.device),
            self.by_row.counts,
            output_size=len(self),
        )
        narrow = torch.int32 if len(self) < 1 << 31 else torch.int64
        return Compressed(indptr, rows[order], self.n_rows), order.to(narrow)

    @property
    def indices(self) -> Tensor:
        """The label of each entry."""
        return self.by_row.indices

    def sampled(self, P: Tensor, Q: Tensor) -> Tensor:
        """``PQᵀ`` at each entry."""
        return self.by_row.dots(P.contiguous(), Q.contiguous())

    def within(self, rows: slice) -> tuple[slice, Tensor]:
        """Which entries lie in a block of rows, and in which row of the block each does."""
        start, stop = (int(self.by_row.host_indptr[row]) for row in (rows.start, rows.stop))
        return slice(start, stop), self.by_row.rows_of(start, stop) - rows.start

    @property
    def by_label(self) -> Compressed:
        return self._label_order[0]

    def in_label_order(self, data: Tensor) -> Tensor:
        """The data of each entry, label by label."""
        return data[self._label_order[1]]

    def times(self, data: Tensor, M: Tensor) -> Tensor:
        """``S M`` for the sparse S with ``data`` on the pattern."""
        return self.by_row.product(data, M)

    def transposed_times(self, data: Tensor, M: Tensor) -> Tensor:
        """``Sᵀ M``."""
        return self.by_label.product(self.in_label_order(data), M)

    def label_sums(self, data: Tensor) -> Tensor:
        """The sum of each label's entries."""
        return self.by_label.sums(self.in_label_order(data))

    def columns(self, data: Tensor, start: int, stop: int) -> Tensor:
        """Some columns of S as a dense array."""
        first, last = (int(self.by_label.host_indptr[label]) for label in (start, stop))
        block = torch.zeros((self.n_rows, stop - start), dtype=data.dtype, device=self.device)
        labels = self.by_label.rows_of(first, last) - start
        # Every entry is in a place of its own, so that nothing is added up here.
        order = self._label_order[1][first:last]
        block[self.by_label.indices[first:last].long(), labels] = data[order.long()]
        return block
