"""Compiled counts of how many items come before each held-out item of a row.

Held-out items are given row by row (CSR): ``held_indptr``, ``held`` and their scores. Items to be left out,
``seen``, come in the same form.
"""

from __future__ import annotations

import numpy as np

from labelgap.kernels.options import compiled
from labelgap.kernels.top import first_at_least, is_left_out


@compiled(nogil=True)
def hide_seen(scores, first, seen_indptr, seen):  # type: ignore[no-untyped-def]
    """Write −inf over the scores of the items to be left out, in a tile whose first column is ``first``."""
    width = scores.shape[1]
    for i in range(seen_indptr.size - 1):
        for e in range(first_at_least(first, seen, seen_indptr[i], seen_indptr[i + 1]), seen_indptr[i + 1]):
            if seen[e] >= first + width:
                break
            scores[i, seen[e] - first] = -np.inf


@compiled(nogil=True)
def count_before(scores, margin, held_indptr, held_scores, surely, perhaps):  # type: ignore[no-untyped-def]
    """Add to ``surely`` and ``perhaps``, per held-out item, the scores of a tile that are higher.

    Those above by more than the row's margin are surely higher; those that are not below by more than that
    perhaps are. The held-out item itself is counted among the latter.
    """
    for i in range(scores.shape[0]):
        row = scores[i]
        for e in range(held_indptr[i], held_indptr[i + 1]):
            high = held_scores[e] + margin[i]
            low = held_scores[e] - margin[i]
            # Sums of whole numbers in one loop without branches are compiled to vector instructions.
            above = 0
            near = 0
            for j in range(row.size):
                above += row[j] > high
                near += row[j] >= low
            surely[e] += above
            perhaps[e] += near


@compiled(nogil=True)
def count_exactly(scores, held_indptr, held, held_scores, before):  # type: ignore[no-untyped-def]
    """Fill ``before`` with how many items of the row come first; equal scores in the order of the items."""
    for i in range(scores.shape[0]):
        row = scores[i]
        for e in range(held_indptr[i], held_indptr[i + 1]):
            score = held_scores[e]
            count = 0
            for j in range(row.size):
                count += row[j] > score
            for j in range(held[e]):
                count += row[j] == score
            before[e] = count


@compiled(nogil=True)
def mark_first(order, n, seen_indptr, seen, shown):  # type: ignore[no-untyped-def]
    """Set ``shown`` for the first n items in one order, for each row without its seen ones."""
    for i in range(seen_indptr.size - 1):
        left = n
        for item in order:
            if left == 0:
                break
            if is_left_out(item, seen, seen_indptr[i], seen_indptr[i + 1]):
                continue
            shown[item] = True
            left -= 1
