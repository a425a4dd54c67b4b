"""What an objective on this machine may allocate."""

from __future__ import annotations

# A matrix of fewer numbers than this is small whatever the data.
_SMALL = 1 << 16
# The shorter side of the largest matrix whose singular value decomposition is a matter of one Gram matrix.
_SHORT_SIDE = 2048


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
