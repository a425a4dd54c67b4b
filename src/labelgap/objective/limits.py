"""What an objective on this machine may allocate."""

from __future__ import annotations

# A matrix of fewer numbers than this is small whatever the data.
_SMALL = 1 << 16
# The shorter side of the largest matrix whose singular value decomposition is a matter of one Gram matrix.
_SHORT_SIDE = 2048


# Arrays of a block's size that are alive at one time (scores, losses, slopes, curvatures and their workings).
_ARRAYS = 8


# Entries in a block at most: its arrays stay in the cache, and there are blocks for every thread.
_MOST_ENTRIES = 1 << 14
# Blocks at work at one time. Not the number of threads: on that no sum may depend.
BLOCKS_AT_A_TIME = 8


def may_form(shape: tuple[int, int], n_stored: int) -> bool:
    """Whether a d x L array takes memory in proportion to the data, and its SVD is cheap.

    ``n_stored`` is the number of values that the data take, entries and features.

    Examples
    --------
    >>> may_form((1000, 50), n_stored=20_000), may_form((100_000, 5000), n_stored=20_000)
    (True, False)
    """
    d, n_labels = shape
    return d * n_labels <= max(4 * n_stored, _SMALL) and min(shape) <= _SHORT_SIDE


def entries_within(megabytes: float) -> int:
    """Entries in a block, so that several blocks at work take at most this much memory."""
    fitting = int(megabytes * 1e6 / (8 * _ARRAYS * BLOCKS_AT_A_TIME))
    return max(1, min(fitting, _MOST_ENTRIES))
