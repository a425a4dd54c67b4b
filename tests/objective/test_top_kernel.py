"""The passes over tiles of scores, against sorting and comparing everything."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from numpy.testing import assert_array_equal

from labelgap.kernels import top

NOTHING = np.zeros(0, np.int64), np.zeros(0, np.int32)


def candidates(scores, n, margin, seen, width, capacity):
    """(items of each row or None where the capacity was too small) after all tiles."""
    rows, n_items = scores.shape
    dtype = scores.dtype
    best, cuts = np.empty((rows, n), dtype), np.full(rows, -np.inf, dtype)
    items, rough = np.empty((rows, capacity), np.int32), np.empty((rows, capacity), dtype)
    filled, counts = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    for first in range(0, n_items, width):
        tile = np.ascontiguousarray(scores[:, first : first + width])
        top.keep_best(tile, first, margin, *seen, best, cuts, filled, items, rough, counts)
    indptr = np.empty(rows + 1, np.int64)
    packed = top.pack_candidates(cuts, items, rough, counts, indptr)
    return [None if counts[i] < 0 else packed[indptr[i] : indptr[i + 1]].tolist() for i in range(rows)]


def as_seen(mask):
    indptr = np.concatenate(([0], np.cumsum(mask.sum(axis=1))))
    return indptr, np.nonzero(mask)[1].astype(np.int32)


def test_candidates_are_all_that_come_near_the_nth_best():
    for dtype, width, n, fraction in product(
        (np.float32, np.float64), (1, 63, 64, 500, 1000), (1, 10, 200), (0.0, 0.1, 0.95)
    ):
        rng = np.random.default_rng(0)
        scores = rng.normal(size=(7, 1000)).astype(dtype)
        # The last row has many ties.
        scores[6] = np.round(scores[6])
        margin = np.array([0, 0, 0.1, 0.1, 0.3, 0.3, 0]).astype(dtype)
        mask = rng.random(scores.shape) < fraction
        found = candidates(scores, n, margin, as_seen(mask) if fraction else NOTHING, width, 1000)
        for row in range(7):
            kept = np.flatnonzero(~mask[row])
            ranked = np.sort(scores[row, kept])[::-1]
            cut = ranked[n - 1] - margin[row] if len(kept) >= n else -np.inf
            expected = kept[scores[row, kept] >= cut].tolist()
            assert found[row] == expected, (dtype, width, n, fraction, row)


def test_rows_with_more_near_ties_than_capacity_are_named():
    scores = np.ones((3, 300), np.float32)
    scores[1] = np.arange(300)
    found = candidates(scores, 5, np.zeros(3, np.float32), NOTHING, 64, 40)
    assert found == [None, list(range(295, 300)), None]


def test_infinite_and_undefined_scores():
    scores = np.array([[np.nan, 1.0, -np.inf, np.nan, 2.0, np.inf]])
    assert candidates(scores, 2, np.zeros(1), NOTHING, 6, 6) == [[4, 5]]
    assert candidates(scores, 5, np.zeros(1), NOTHING, 6, 6) == [[1, 2, 4, 5]]


def test_all_above_a_cut():
    for width, fraction in product((7, 64, 200), (0.0, 0.3)):
        rng = np.random.default_rng(1)
        scores, cuts = rng.normal(size=(8, 300)).astype(np.float32), np.linspace(-4, 4, 8, dtype=np.float32)
        cuts[3] = scores[3, 17]
        mask = rng.random(scores.shape) < fraction
        seen = as_seen(mask) if fraction else NOTHING
        rows, items = np.empty(0, np.int32), np.empty(0, np.int32)
        filled = 0
        for first in range(0, 300, width):
            tile, row = np.ascontiguousarray(scores[:, first : first + width]), 0
            while row < 8:
                row, filled = top.keep_above(tile, first, cuts, *seen, row, rows, items, filled)
                if row < 8:
                    rows, items = np.resize(rows, filled + width), np.resize(items, filled + width)
        indptr = np.empty(9, np.int64)
        grouped = top.group_by_row(rows, items, filled, indptr)
        reached = (scores >= cuts[:, None]) & ~mask
        for row in range(8):
            assert_array_equal(grouped[indptr[row] : indptr[row + 1]], np.flatnonzero(reached[row]))


def test_rows_are_sorted_stably():
    for lengths in ([0, 1, 5], [48, 49, 300]):
        rng = np.random.default_rng(2)
        indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        items = np.concatenate([np.arange(length) for length in lengths]).astype(np.int64)
        scores = rng.integers(0, 4, len(items)).astype(float)
        before = scores.copy()
        top.sort_rows(indptr, items, scores)
        for begin, end in pairwise(indptr):
            order = np.argsort(-before[begin:end], kind="stable")
            assert_array_equal(items[begin:end], order)
            assert_array_equal(scores[begin:end], before[begin:end][order])
        best, values = np.full((3, 3), -1), np.full((3, 3), np.nan)
        top.write_best(indptr, items, scores, best, values)
        for row, length in enumerate(lengths):
            kept = min(length, 3)
            assert_array_equal(best[row, :kept], items[indptr[row] : indptr[row] + kept])
            assert_array_equal(values[row, :kept], scores[indptr[row] : indptr[row] + kept])
            assert (best[row, kept:] == -1).all()


def test_what_is_left_over():
    mask = np.array([[True, False, True], [False, False, False], [True, True, True]])
    indptr = np.empty(4, np.int64)
    items = top.left_over(3, *as_seen(mask), indptr)
    assert (items.tolist(), indptr.tolist()) == ([1, 0, 1, 2], [0, 1, 4, 4])
    assert top.left_over(3, *NOTHING, indptr).tolist() == [0, 1, 2] * 3
