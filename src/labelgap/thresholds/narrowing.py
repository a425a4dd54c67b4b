"""The best cut of many entries of weight 1: counts in buckets of scores leave few entries to be sorted."""

from __future__ import annotations

import itertools
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labelgap import kernels
from labelgap._arrays import read_only
from labelgap.kernels.threads import map_in_order, thread_count

MANY_ENTRIES = 1 << 16
"""Fewer entries are sorted in less time than it takes to narrow the search."""
# Bounds from fewer buckets would leave too much to be sorted, and more than these would not leave much less.
_FEWEST_BUCKETS = 1 << 6
_ENOUGH_BUCKETS = 1 << 8
MOST_BUCKETS = 1 << 12
# Counts that stay in the cache of a core.
_NEAR_COUNTS = 1 << 19
# At most this fraction of the entries may be left to be sorted.
_WORTH_SORTING = 0.5
# Entries for each thread, at least.
_ENTRIES_PER_THREAD = 1 << 16

SweepCoefficients = tuple[NDArray[np.float64], NDArray[np.float64], float]
"""Numerator, denominator and what 0/0 is."""


class Entries(Protocol):
    """Scores, values and groups of many entries, somewhere."""

    size: int
    most_buckets: int
    """More buckets leave less to be sorted, and take longer to count."""

    def highest(self) -> float:
        """The highest score."""
        ...

    def counts(self, n_buckets: int) -> NDArray[Any]:
        """Positives and negatives of every bucket and group (buckets x groups x 2).

        Buckets follow the order of the scores and split no ties.
        """
        ...

    def near(self, marked: NDArray[np.bool_]) -> tuple[Any, Any, Any, Any]:
        """Scores, values, groups (empty: one group) and buckets of the entries in marked buckets."""
        ...

    def highest_below(self, above: float) -> float:
        """The highest score below another one; NaN where there is none."""
        ...


def narrowed_cut(
    entries: Entries, n_groups: int, coefficients: SweepCoefficients, most_kept: int | None = None
) -> tuple[float, float, float] | None:
    """(Lowest score above the best cut, highest below it, the metric), NaN where there is no neighbour.

    The same cut as that of a walk through all entries. None where the search is not made shorter: few
    entries, many groups for them, or a metric that is level over most scores. ``most_kept`` is how many may
    be left to be sorted, half of them unless it is given.
    """
    n_buckets = _count_of_buckets(entries.size, n_groups, entries.most_buckets)
    if entries.size < MANY_ENTRIES or n_buckets < _FEWEST_BUCKETS:
        return None
    highest = entries.highest()
    counts = entries.counts(n_buckets).astype(np.int64, copy=False)
    totals = np.zeros((n_groups, 4))
    totals[:, 2:] = counts.sum(axis=0)
    marked = np.empty(n_buckets, np.bool_)
    n_kept = kernels.buckets.mark_buckets(counts, totals.copy(), *coefficients, marked)
    if n_kept > (_WORTH_SORTING * entries.size if most_kept is None else most_kept):
        return None
    kinds = (np.float64, np.int8, np.int32, np.uint16)
    scores, values, groups, buckets = (
        read_only(part, kind) for part, kind in zip(entries.near(marked), kinds, strict=True)
    )
    none_is_a_cut = highest < np.inf
    above, below = kernels.buckets.sweep_marked(
        np.argsort(scores), scores, values, groups, buckets, counts, totals, *coefficients, none_is_a_cut
    )
    if np.isnan(above):
        below = highest
    elif np.isnan(below):
        below = entries.highest_below(above)
    return (
        above,
        below,
        kernels.buckets.value_of_cut(above, scores, values, groups, buckets, counts, totals, *coefficients),
    )


class HostEntries:
    """Entries in numpy's arrays; empty ``groups`` stand for one group."""

    most_buckets = MOST_BUCKETS

    def __init__(
        self,
        scores: NDArray[np.floating[Any]],
        values: NDArray[np.int8],
        groups: NDArray[np.integer[Any]],
        n_groups: int,
    ) -> None:
        self._scores, self._values, self._n_groups = scores, read_only(values, np.int8), n_groups
        self._groups = read_only(groups, np.int32)
        self.size = scores.size

    def highest(self) -> float:
        return float(self._scores.max())

    def counts(self, n_buckets: int) -> NDArray[np.int32]:
        self._buckets, counts = _bucket_counts(
            self._scores, self._values, self._groups, self._n_groups, n_buckets
        )
        return counts

    def near(self, marked: NDArray[np.bool_]) -> tuple[Any, Any, Any, Any]:
        buckets, groups = self._buckets, self._groups

        def work(part: slice) -> NDArray[np.int64]:
            return kernels.buckets.marked_entries(buckets, marked, part.start, part.stop)

        kept = np.concatenate(map_in_order(work, _parts(self.size)))
        grouped = groups[kept] if groups.size else groups
        return self._scores[kept], self._values[kept], grouped, buckets[kept]

    def highest_below(self, above: float) -> float:
        below = self._scores < above
        return float(np.max(self._scores, where=below, initial=-np.inf)) if below.any() else np.nan


def _count_of_buckets(n_entries: int, n_groups: int, most: int) -> int:
    """A power of 2, or 0, given that there are two counts for each group."""
    near = _NEAR_COUNTS // (2 * n_groups)
    far = n_entries // (8 * n_groups)
    count = min(max(near, min(far, _ENOUGH_BUCKETS)), most)
    return 1 << (count.bit_length() - 1) if count else 0


def _parts(n_entries: int) -> list[slice]:
    threads = max(1, min(thread_count(), n_entries // _ENTRIES_PER_THREAD))
    cuts = [n_entries * t // threads for t in range(threads + 1)]
    return [slice(*pair) for pair in itertools.pairwise(cuts)]


def _bucket_counts(
    scores: NDArray[np.floating[Any]],
    values: NDArray[np.int8],
    groups: NDArray[np.int32],
    n_groups: int,
    n_buckets: int,
) -> tuple[NDArray[np.uint16], NDArray[np.int32]]:
    """The bucket of each entry, and the positives and negatives of each bucket and group."""
    whole = np.int32 if scores.itemsize == 4 else np.int64
    bits = read_only(scores.view(whole), whole)
    table = np.empty(kernels.buckets.CELLS + 1, np.int32)
    scale = kernels.buckets.make_table(bits, table)
    buckets = np.empty(scores.size, np.uint16)

    def count(part: slice) -> NDArray[np.int32]:
        counts = np.zeros((n_buckets, n_groups, 2), np.int32)
        kernels.buckets.count_in_buckets(
            bits, values, groups, table, scale, buckets, counts, part.start, part.stop
        )
        return counts

    first, *others = map_in_order(count, _parts(scores.size))
    for counts in others:
        first += counts
    return buckets, first
