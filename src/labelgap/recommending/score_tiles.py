"""Rough scores of many users for many items, a tile at a time: some users by some items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats, Ints

Rough: TypeAlias = NDArray[np.floating[Any]]
"""Scores in float32 or float64."""

# Bytes of scores in one tile, which is written and read while it is in the cache of one core.
TILE_BYTES = 1 << 20
# Users of one tile: enough for the matrix product to be at full speed.
TILE_USERS = 512
# From this many users on, the smaller numbers make up for copying the factors.
_MANY_USERS = 64
# Scores from here on could overflow in float32.
_LARGEST_SINGLE = 1e30


class Factors(NamedTuple):
    """Factors of some users and of all items: ``z_ij = u_i · v_j + b_j``."""

    users: Floats
    items: Floats
    intercept: Floats


class Seen(NamedTuple):
    """Items to be left out, row by row (CSR), ascending in each row."""

    indptr: Ints
    indices: Ints


class RoughScores:
    """What tiles of rough scores are made from, and how far off they may be."""

    def __init__(self, factors: Factors, seen: Seen | None) -> None:
        users, items = _norms(factors.users), float(_norms(factors.items).max())
        reach = users * items + np.abs(factors.intercept).max()
        many = len(factors.users) >= _MANY_USERS
        self.single = many and max(reach.max(), users.max(), items) < _LARGEST_SINGLE
        self.dtype = np.dtype(np.float32 if self.single else np.float64)
        self._factors = factors
        if self.single:
            # The intercept is one more factor, of users that all have 1 there.
            self._users = np.column_stack([factors.users, np.ones(len(users))]).astype(np.float32)
            self._items = np.vstack([factors.items.T, factors.intercept]).astype(np.float32)
        # Rounding of two factors, of each product and sum, and what underflows; then of the exact score and
        # of the cut, which are far less. Twice that, as both scores that are compared may be off.
        limits = np.finfo(np.float32) if self.single else np.finfo(np.float64)
        eps, tiny = float(limits.eps), float(limits.tiny)
        slack = (factors.users.shape[1] + 6) * (eps * reach + tiny * (1 + users + items))
        self.margin: Rough = (2 * slack).astype(self.dtype)
        nothing = np.zeros(0, np.int64)
        self._seen = (nothing, nothing.astype(np.int32))
        if seen is not None:
            indptr = np.ascontiguousarray(seen.indptr, np.int64)
            self._seen = (indptr, np.ascontiguousarray(seen.indices, np.int32))

    @property
    def n_items(self) -> int:
        return len(self._factors.items)

    def left_out(self, rows: slice) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The items to be left out of these rows (CSR); row pointers are empty where there are none."""
        indptr, indices = self._seen
        return (indptr if indptr.size == 0 else indptr[rows.start : rows.stop + 1]), indices

    def write(self, rows: slice, items: slice, out: Rough) -> None:
        """The rough scores of some users for some items."""
        if self.single:
            np.matmul(self._users[rows], self._items[:, items], out=out)
        else:
            np.matmul(self._factors.users[rows], self._factors.items[items].T, out=out)
            out += self._factors.intercept[items]


class Tiles:
    """Room for one tile, and the order in which tiles come: all items of some users, then the next users."""

    def __init__(self, rough: RoughScores, most_rows: int) -> None:
        self._rough = rough
        self._most_rows = min(most_rows, TILE_USERS)
        self._room: Rough = np.empty(0, rough.dtype)

    def row_blocks(self, part: slice) -> Iterator[slice]:
        for start in range(part.start, part.stop, self._most_rows):
            yield slice(start, min(start + self._most_rows, part.stop))

    def blocks(self, rows: slice) -> Iterator[tuple[int, Rough]]:
        """(first item, scores) of each tile of these rows."""
        rough, n_rows = self._rough, rows.stop - rows.start
        width = min(max(1, TILE_BYTES // (rough.dtype.itemsize * n_rows)), rough.n_items)
        if self._room.size < n_rows * width:
            self._room = np.empty(n_rows * width, rough.dtype)
        for first in range(0, rough.n_items, width):
            items = slice(first, min(first + width, rough.n_items))
            scores = self._room[: n_rows * (items.stop - first)].reshape(n_rows, -1)
            rough.write(rows, items, scores)
            yield first, scores


def _norms(factors: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", factors, factors)))
