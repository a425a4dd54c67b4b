"""Independent yes/no draws over many entries, in time and memory proportional to the number of yeses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Gaps drawn at a time; it bounds the temporary arrays.
_CHUNK = 1 << 20


def bernoulli_positions(size: int, probability: float, rng: np.random.RandomState) -> NDArray[np.int64]:
    """Ascending positions out of ``size``, each taken independently with the same probability.

    The gaps between them are geometric, ``⌈log U / log(1 − p)⌉`` with U uniform on (0, 1], so only what is
    taken is ever drawn.

    Parameters
    ----------
    size : int
        How many positions there are.
    probability : float
        The probability p of each, from 0 to 1.
    rng : RandomState

    Examples
    --------
    >>> bernoulli_positions(10, 0.3, np.random.RandomState(0)).tolist()
    [2, 6, 9]
    """
    if probability >= 1:
        return np.arange(size, dtype=np.int64)
    if probability <= 0 or size == 0:
        return np.empty(0, dtype=np.int64)
    log_miss = np.log1p(-probability)
    taken: list[NDArray[np.int64]] = []
    last = -1
    while last < size:
        expected = (size - 1 - last) * probability
        chunk = int(min(expected + 4 * np.sqrt(expected) + 8, _CHUNK))
        gaps = np.ceil(np.log(1.0 - rng.random_sample(chunk)) / log_miss)
        # A gap beyond the end says no more than that; without the cap a tiny probability would overflow.
        positions = last + np.cumsum(np.clip(gaps, 1, size + 1).astype(np.int64))
        taken.append(positions)
        last = int(positions[-1])
    found = np.concatenate(taken)
    return found[: np.searchsorted(found, size)]
