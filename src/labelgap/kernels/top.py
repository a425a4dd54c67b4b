"""Compiled passes over tiles of rough scores: what may be among the n best of a row, or above a cut.

A tile holds the scores of some rows for the items from ``first`` on. Tiles come with ascending items, so what
is kept of a row is in the order of the items. ``seen`` are the items to be left out, ascending in each row
(CSR; ``seen_indptr`` begins with the tile's first row, or is empty where nothing is left out).
"""

from __future__ import annotations

import numpy as np

from labelgap.kernels.options import compiled

# A number, not a constant that functions would be compiled for anew.
_ZERO = np.int64(0)
# Scores compared together: nearly all such runs hold nothing that is of use, and a run is one branch.
_RUN = 64
# Interleaved groups of items, as a multiple of n, whose best scores give a first cut.
_GROUPS = 5
# Rows so short are sorted by insertion.
_SHORT = 48


@compiled(nogil=True)
def _count_in_runs(scores, begin, end, cut, hits):  # type: ignore[no-untyped-def]
    """Fill ``hits`` with how many scores of each run reach the cut; how many these are together."""
    # In this form, with 32 bits to count in and a known length, the loop is compiled to vector instructions.
    whole = (end - begin) // _RUN
    total = 0
    for r in range(whole):
        run = scores[begin + r * _RUN : begin + (r + 1) * _RUN]
        count = np.int32(0)
        for j in range(_RUN):
            count = np.int32(count + (np.int32(1) if run[j] >= cut else np.int32(0)))
        hits[r] = count
        total += count
    if whole < hits.size:
        hits[whole] = 0
        for j in range(begin + whole * _RUN, end):
            hits[whole] += scores[j] >= cut
        total += hits[whole]
    return total


@compiled(nogil=True)
def _before_hits(scores, begin, end, cut, count):  # type: ignore[no-untyped-def]
    """A place of a run, or just before it, that no score that reaches the cut stands before or at."""
    if count != 1 or end - begin < _RUN:
        return begin - 1
    # The sum of the places of one hit is its place, and a sum is compiled to vector instructions.
    run = scores[begin : begin + _RUN]
    place = np.int32(0)
    for j in range(_RUN):
        place = np.int32(place + (np.int32(j) if run[j] >= cut else np.int32(0)))
    return begin + place - 1


@compiled(nogil=True)
def first_at_least(item, seen, low, high):  # type: ignore[no-untyped-def]
    """The first place from ``low`` to ``high`` whose item is no lower; ``high`` where there is none."""
    while low < high:
        middle = (low + high) // 2
        if seen[middle] < item:
            low = middle + 1
        else:
            high = middle
    return low


@compiled(nogil=True)
def is_left_out(item, seen, low, high):  # type: ignore[no-untyped-def]
    """Whether the item is among those from ``low`` to ``high``."""
    at = first_at_least(item, seen, low, high)
    return at < high and seen[at] == item


@compiled(nogil=True)
def _bounds(indptr, i):  # type: ignore[no-untyped-def]
    if indptr.size == 0:
        return 0, 0
    return indptr[i], indptr[i + 1]


@compiled(nogil=True)
def _sift_up(heap, begin, at, value):  # type: ignore[no-untyped-def]
    while at > 0:
        parent = (at - 1) // 2
        if heap[begin + parent] <= value:
            break
        heap[begin + at] = heap[begin + parent]
        at = parent
    heap[begin + at] = value


@compiled(nogil=True)
def _replace_lowest(heap, begin, size, value):  # type: ignore[no-untyped-def]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[begin + child + 1] < heap[begin + child]:
            child += 1
        if heap[begin + child] >= value:
            break
        heap[begin + at] = heap[begin + child]
        at = child
    heap[begin + at] = value


@compiled(nogil=True)
def _drop_below(items, rough, begin, end, cut):  # type: ignore[no-untyped-def]
    """Keep, in order, what reaches the cut; the end of that."""
    kept = begin
    for e in range(begin, end):
        if rough[e] >= cut:
            items[kept] = items[e]
            rough[kept] = rough[e]
            kept += 1
    return kept


@compiled(nogil=True)
def _first_cut(scores, begin, end, n, groups, heap):  # type: ignore[no-untyped-def]
    """A lower bound of the n-th best score of a row; −inf where it has too few scores for that.

    Of the best scores of disjoint groups, n are no smaller than the n-th largest of them. The groups are
    interleaved: good items often stand together, and the loop is compiled to vector instructions.
    """
    width = groups.size
    if 2 * n > width or 2 * width > end - begin:
        heap[0] = -np.inf
        return heap[0]
    # One number at a time: compiling the assignment of an array brings in the text of its errors.
    for j in range(width):
        groups[j] = scores[begin + j]
    for at in range(begin + width, end - width + 1, width):
        part = scores[at : at + width]
        for j in range(width):
            groups[j] = part[j] if part[j] > groups[j] else groups[j]
    for j in range(n):
        _sift_up(heap, _ZERO, j, groups[j])
    for j in range(n, width):
        if groups[j] > heap[0]:
            _replace_lowest(heap, _ZERO, n, groups[j])
    return heap[0]


@compiled(nogil=True)
def keep_best(  # type: ignore[no-untyped-def]
    scores, first, margin, seen_indptr, seen, best, cuts, filled, items, rough, counts
):
    """Add what may be among the n best of each row to its candidates.

    Parameters
    ----------
    scores : float array, rows x width
        One tile.
    first : int
        The item of its first column.
    margin : array of the scores' type
        How far below the n-th best rough score of a row a score may be that is better in truth.
    seen_indptr, seen : integer arrays
        What is left out.
    best : array of the scores' type, rows x n
        A heap of the n best rough scores of each row so far, the lowest first; ``filled`` of them are there.
    cuts : array of the scores' type
        What a rough score must reach; −inf to begin with.
    filled : int64 array
        0 to begin with.
    items, rough : int32 array and array of the scores' type, rows x capacity
        The candidates so far, with their scores.
    counts : int64 array
        How many there are; −1 for a row with more near ties than it has space for, where they are lost.
    """
    n = best.shape[1]
    width = scores.shape[1]
    capacity = items.shape[1]
    # Flat, with places counted by hand: a view of a row would be made and counted for each row of each tile.
    scores, heap, items, rough = scores.ravel(), best.ravel(), items.ravel(), rough.ravel()
    hits = np.empty(-(-width // _RUN), np.int32)
    groups = np.empty(min(_RUN * (1 + _GROUPS * n // _RUN), width), heap.dtype)
    heap_of_groups = np.empty(groups.size, heap.dtype)
    for i in range(scores.size // width):
        if counts[i] < 0:
            continue
        row = i * width
        start = cuts[i]
        low, high = _bounds(seen_indptr, i)
        if filled[i] == 0:
            # Those left out may be the best of as many groups.
            above = n + first_at_least(first + width, seen, low, high) - low
            start = max(
                start, _first_cut(scores, row, row + width, above, groups, heap_of_groups) - margin[i]
            )
        if _count_in_runs(scores, row, row + width, start, hits) == 0:
            continue
        cut, size, base = start, filled[i], i * n
        begin, end = i * capacity, i * capacity + counts[i]
        for r in range(hits.size):
            left = hits[r]
            if left == 0:
                continue
            j = _before_hits(scores, row + r * _RUN, row + width, start, left)
            while left > 0:
                j += 1
                score = scores[j]
                if not score >= start:
                    continue
                left -= 1
                item = first + j - row
                if not score >= cut or is_left_out(item, seen, low, high):
                    continue
                if end == begin + capacity:
                    end = _drop_below(items, rough, begin, end, cut)
                    # A row that stays nearly full would be gone through again and again.
                    if 4 * (end - begin) > 3 * capacity:
                        end = begin - 1
                        break
                items[end] = item
                rough[end] = score
                end += 1
                if size < n:
                    _sift_up(heap, base, size, score)
                    size += 1
                elif score > heap[base]:
                    _replace_lowest(heap, base, n, score)
                if size == n:
                    # Never lower than before: the first cut may have been higher than this.
                    cut = max(cut, heap[base] - margin[i])
            if end < begin:
                break
        cuts[i], filled[i], counts[i] = cut, size, end - begin


@compiled(nogil=True)
def pack_candidates(cuts, items, rough, counts, indptr):  # type: ignore[no-untyped-def]
    """The candidates of each row that reach its last cut, one row after the other; fills ``indptr``."""
    capacity = items.shape[1]
    items, rough = items.ravel(), rough.ravel()
    total = 0
    for i in range(counts.size):
        begin = i * capacity
        if counts[i] > 0:
            counts[i] = _drop_below(items, rough, begin, begin + counts[i], cuts[i]) - begin
        indptr[i] = total
        total += max(counts[i], 0)
    indptr[counts.size] = total
    packed = np.empty(total, np.int64)
    for i in range(counts.size):
        for e in range(indptr[i + 1] - indptr[i]):
            packed[indptr[i] + e] = items[i * capacity + e]
    return packed


@compiled(nogil=True)
def keep_above(scores, first, cuts, seen_indptr, seen, start, rows, items, filled):  # type: ignore[no-untyped-def]
    """Add all that reach the cut of their row to ``rows`` and ``items``, from the row ``start`` on.

    Returns (the first row that there was no space for, or the number of rows; how many are there now).
    """
    width = scores.shape[1]
    scores = scores.ravel()
    hits = np.empty(-(-width // _RUN), np.int32)
    for i in range(start, cuts.size):
        row = i * width
        found = _count_in_runs(scores, row, row + width, cuts[i], hits)
        if found == 0:
            continue
        if filled + found > rows.size:
            return i, filled
        low, high = _bounds(seen_indptr, i)
        for r in range(hits.size):
            left = hits[r]
            if left == 0:
                continue
            j = _before_hits(scores, row + r * _RUN, row + width, cuts[i], left)
            while left > 0:
                j += 1
                if scores[j] >= cuts[i]:
                    left -= 1
                    item = first + j - row
                    if not is_left_out(item, seen, low, high):
                        rows[filled] = i
                        items[filled] = item
                        filled += 1
    return cuts.size, filled


@compiled(nogil=True)
def group_by_row(rows, items, count, indptr):  # type: ignore[no-untyped-def]
    """The first ``count`` items, one row after the other, in their order within it; fills ``indptr``."""
    indptr[:] = 0
    for e in range(count):
        indptr[rows[e] + 1] += 1
    for i in range(indptr.size - 1):
        indptr[i + 1] += indptr[i]
    place = indptr[:-1].copy()
    grouped = np.empty(count, np.int64)
    for e in range(count):
        grouped[place[rows[e]]] = items[e]
        place[rows[e]] += 1
    return grouped


@compiled(nogil=True)
def _insert_sorted(items, scores, begin, end):  # type: ignore[no-untyped-def]
    for e in range(begin + 1, end):
        score = scores[e]
        item = items[e]
        at = e
        while at > begin and scores[at - 1] < score:
            scores[at] = scores[at - 1]
            items[at] = items[at - 1]
            at -= 1
        scores[at] = score
        items[at] = item


@compiled(nogil=True)
def _merge(items, scores, begin, middle, end, spare_items, spare_scores):  # type: ignore[no-untyped-def]
    """Merge two sorted neighbours; the first of them goes through the spare arrays."""
    left = middle - begin
    for e in range(left):
        spare_items[e] = items[begin + e]
        spare_scores[e] = scores[begin + e]
    i, j, to = 0, middle, begin
    while i < left and j < end:
        if spare_scores[i] < scores[j]:
            items[to] = items[j]
            scores[to] = scores[j]
            j += 1
        else:
            items[to] = spare_items[i]
            scores[to] = spare_scores[i]
            i += 1
        to += 1
    while i < left:
        items[to] = spare_items[i]
        scores[to] = spare_scores[i]
        i += 1
        to += 1


@compiled(nogil=True)
def sort_rows(indptr, items, scores):  # type: ignore[no-untyped-def]
    """Put each row's items in the order of their scores, best first, in place; equal scores stay in order."""
    longest = 0
    for i in range(indptr.size - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    size = longest if longest > _SHORT else 0
    spare_items = np.empty(size, items.dtype)
    spare_scores = np.empty(size, scores.dtype)
    for i in range(indptr.size - 1):
        begin, end = indptr[i], indptr[i + 1]
        for first in range(begin, end, _SHORT):
            _insert_sorted(items, scores, first, min(first + _SHORT, end))
        width = _SHORT
        while width < end - begin:
            for first in range(begin, end - width, 2 * width):
                last = min(first + 2 * width, end)
                _merge(items, scores, first, first + width, last, spare_items, spare_scores)
            width *= 2


@compiled(nogil=True)
def write_best(indptr, items, scores, out_items, out_scores):  # type: ignore[no-untyped-def]
    """The first items of each sorted row, as many as there is space for."""
    for i in range(indptr.size - 1):
        for e in range(min(indptr[i + 1] - indptr[i], out_items.shape[1])):
            out_items[i, e] = items[indptr[i] + e]
            out_scores[i, e] = scores[indptr[i] + e]


@compiled(nogil=True)
def left_over(n_items, seen_indptr, seen, indptr):  # type: ignore[no-untyped-def]
    """All items of each row that are not left out, one row after the other; fills ``indptr``."""
    rows = indptr.size - 1
    kept = np.empty(rows * n_items, np.int64)
    filled = 0
    for i in range(rows):
        indptr[i] = filled
        at, high = _bounds(seen_indptr, i)
        for item in range(n_items):
            while at < high and seen[at] < item:
                at += 1
            if at < high and seen[at] == item:
                continue
            kept[filled] = item
            filled += 1
    indptr[rows] = filled
    return kept[:filled]
