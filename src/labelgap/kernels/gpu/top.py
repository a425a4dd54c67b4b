"""The best items of many users on a device: the largest score of every block of items leads to them.

A fused sweep scores some users against all items and keeps the largest score of each block of items, so that
no matrix of scores is written. The n best items of a user lie in the n blocks with the largest scores, up to
rounding. A few more blocks than that are scored again, item by item and in single precision. What remains
beyond them is bounded by the next largest block; a user for whom that bound does not settle the n best gets
more blocks. The result is a list of candidates that holds the n best for certain, for exact scores to decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from labelgap._types import Floats, Ints
from labelgap.kernels.gpu.device import block_bytes, require_memory, runs_triton
from labelgap.kernels.gpu.losses import Tensor

BLOCK = 128
"""Items of a block."""
# Blocks that are looked at beyond the n that would do without rounding, and what their number grows by for
# users whom these do not settle.
_MORE_BLOCKS, _GROWTH = 6, 4
# Factors up to which a tile of a fused sweep fits the fast memory of a GPU; more go through matrix products.
_FUSED_FACTORS = 128
# Scores from here on could overflow in single precision.
_LARGEST_SINGLE = 1e30
# Relative rounding of the factors in the sweep: TF32 has 10 bits after the first one.
_SWEEP_ROUNDING = 2.0**-10


class Candidates(NamedTuple):
    """Items of some users, row by row (CSR), among which their n best are."""

    rows: slice
    indptr: NDArray[np.int64]
    items: NDArray[np.int64]


class TopSearch:
    """All items on a device, for users a tile at a time."""

    def __init__(self, items: Floats, intercept: Floats, device: Any) -> None:
        self.n_items, self._device = len(items), device
        self._n_blocks = -(-len(items) // BLOCK)
        padded = self._n_blocks * BLOCK
        require_memory(device, 4.0 * padded * (items.shape[1] + 2), "The items' factors")
        self.items = torch.zeros((padded, items.shape[1]), dtype=torch.float32, device=device)
        self.items[: len(items)] = torch.as_tensor(items, dtype=torch.float32, device=device)
        # What only fills up the last block can never be the best.
        self.intercept = torch.full((padded,), -torch.inf, dtype=torch.float32, device=device)
        self.intercept[: len(items)] = torch.as_tensor(intercept, dtype=torch.float32, device=device)
        self._largest_item = float(np.sqrt(np.einsum("ij,ij->i", items, items).max(initial=0.0)))
        self._largest_intercept = float(np.abs(intercept).max(initial=0.0))

    def fits_single(self, users: Floats) -> bool:
        """Whether no score could overflow in single precision."""
        longest = float(np.sqrt(np.einsum("ij,ij->i", users, users).max(initial=0.0)))
        largest = longest * self._largest_item + self._largest_intercept
        return max(largest, longest, self._largest_item) < _LARGEST_SINGLE

    def tiles(self, users: Floats, n: int, seen: tuple[Ints, Ints] | None) -> Iterator[Candidates]:
        """The candidates of all users, a tile of them at a time; ``seen`` are items to be left out (CSR)."""
        # Maxima, the blocks chosen from them, and the scores of the first blocks are alive together.
        per_user = 4 * (3 * self._n_blocks + 6 * BLOCK * (n + _MORE_BLOCKS) * (1 + self.items.shape[1] // 8))
        step = max(1, min(8192, 4 * block_bytes(self._device) // per_user))
        for start in range(0, len(users), step):
            rows = slice(start, min(start + step, len(users)))
            yield self._tile(users, rows, n, seen)

    def _tile(self, users: Floats, rows: slice, n: int, seen: tuple[Ints, Ints] | None) -> Candidates:
        mine = users[rows]
        factors = torch.as_tensor(mine, dtype=torch.float32, device=self._device)
        reach = np.sqrt(np.einsum("ij,ij->i", mine, mine)) * self._largest_item + self._largest_intercept
        # The rounding of two factors, of each product and sum, and of the exact score, as on the CPU.
        single = float(np.finfo(np.float32).eps) * (mine.shape[1] + 6)
        exact, rough = (
            torch.as_tensor(part * reach + 1e-30, dtype=torch.float32, device=self._device)
            for part in (single, single + 2 * _SWEEP_ROUNDING)
        )
        maxima = self.maxima(factors)
        waiting = torch.arange(len(mine), device=self._device)
        found: list[tuple[Tensor, Tensor]] = []
        count = min(self._n_blocks, n + _MORE_BLOCKS)
        while len(waiting):
            rest, left = self._look(factors, maxima, waiting, n, count, exact, rough, seen, rows.start)
            found.append(rest)
            waiting, count = left, min(self._n_blocks, count * _GROWTH)
        numbers = torch.cat([part for part, _ in found])
        items = torch.cat([part for _, part in found])
        order = torch.sort(numbers, stable=True).indices
        counts = torch.bincount(numbers, minlength=len(mine)).cpu().numpy()
        return Candidates(rows, np.append(0, np.cumsum(counts)), items[order].cpu().numpy())

    def _look(
        self,
        factors: Tensor,
        maxima: Tensor,
        waiting: Tensor,
        n: int,
        count: int,
        exact: Tensor,
        rough: Tensor,
        seen: tuple[Ints, Ints] | None,
        first_user: int,
    ) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Candidates (users, items) of the users that so many blocks settle, and the users left."""
        of_users = maxima[waiting]
        best, blocks = torch.topk(of_users, min(count + 1, self._n_blocks), dim=1)
        beyond = best[:, count] if count < self._n_blocks else torch.full_like(best[:, 0], -torch.inf)
        blocks = torch.sort(blocks[:, :count], dim=1).values
        scores = self._scores(factors[waiting], blocks)
        if seen is not None:
            self._leave_out(scores, blocks, waiting, seen, first_user)
        last = torch.topk(scores, min(n, scores.shape[1]), dim=1).values[:, -1]
        margin = exact[waiting]
        settled = last - margin >= beyond + rough[waiting]
        if count >= self._n_blocks:
            settled = torch.ones_like(settled)
        cut = torch.clamp(last - 2 * margin, min=-torch.finfo(torch.float32).max)
        near = (scores >= cut[:, None]) & settled[:, None]
        row, place = torch.nonzero(near, as_tuple=True)
        items = blocks[row, place // BLOCK] * BLOCK + place % BLOCK
        return (waiting[row], items), waiting[~settled]

    def maxima(self, users: Tensor) -> Tensor:
        """The largest score of every block of items, users x blocks, in the precision of TF32."""
        if runs_triton(users) and users.shape[1] <= _FUSED_FACTORS:
            from labelgap.kernels.gpu import triton_top

            return triton_top.block_maxima(users, self.items, self.intercept)
        out = torch.empty((len(users), self._n_blocks), dtype=torch.float32, device=users.device)
        step = max(1, block_bytes(self._device) // (8 * BLOCK * max(len(users), 1)))
        for start in range(0, self._n_blocks, step):
            stop = min(start + step, self._n_blocks)
            here = slice(start * BLOCK, stop * BLOCK)
            scores = users @ self.items[here].T + self.intercept[here]
            out[:, start:stop] = torch.amax(scores.view(len(users), stop - start, BLOCK), dim=2)
        return out

    def _scores(self, users: Tensor, blocks: Tensor) -> Tensor:
        """The scores of the items of some blocks of each user, users x (blocks · BLOCK)."""
        if runs_triton(users) and users.shape[1] <= _FUSED_FACTORS:
            from labelgap.kernels.gpu import triton_top

            return triton_top.scores_of_blocks(users, self.items, self.intercept, blocks)
        out = torch.empty((len(users), blocks.shape[1] * BLOCK), dtype=torch.float32, device=users.device)
        step = max(1, block_bytes(self._device) // (8 * max(out.shape[1] * users.shape[1], 1)))
        within = torch.arange(BLOCK, device=users.device)
        for start in range(0, len(users), step):
            here = slice(start, start + step)
            items = (blocks[here, :, None] * BLOCK + within).view(len(blocks[here]), -1)
            gathered = self.items[items]
            out[here] = torch.bmm(gathered, users[here, :, None])[..., 0] + self.intercept[items]
        return out

    def _leave_out(
        self,
        scores: Tensor,
        blocks: Tensor,
        waiting: Tensor,
        seen: tuple[Ints, Ints],
        first_user: int,
    ) -> None:
        """Give −∞ to the items that a user has seen."""
        indptr, indices = seen
        users = waiting.cpu().numpy() + first_user
        counts = np.asarray(indptr[users + 1] - indptr[users], dtype=np.int64)
        if not counts.any():
            return
        place = np.repeat(np.asarray(indptr[users], dtype=np.int64), counts)
        place += np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        row = torch.from_numpy(np.repeat(np.arange(len(users)), counts)).to(scores.device)
        item = torch.from_numpy(np.asarray(indices[place], dtype=np.int64)).to(scores.device)
        at = torch.searchsorted(blocks[row], (item // BLOCK)[:, None])[:, 0]
        at = torch.clamp(at, max=blocks.shape[1] - 1)
        looked_at = blocks[row, at] == item // BLOCK
        scores[row[looked_at], (at * BLOCK + item % BLOCK)[looked_at]] = -torch.inf
