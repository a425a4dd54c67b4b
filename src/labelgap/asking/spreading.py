"""Batches of entries that are not near-duplicates, chosen greedily.

For label j the score of row i is taken to be linear in the directions φ_i of the row, with a prior and noise
of variance 1. Given m_j labels that are known already, in directions like those of all rows, and the rows S_j
that are chosen, it is uncertain by

    ``v_ij = φ_iᵀ ((1 + m_j / width) I + Σ_{s in S_j} φ_s φ_sᵀ)⁻¹ φ_i``,

with ‖φ_i‖² being 1 on average. Each step chooses the entry of the largest ``gain · √v``. A second entry of
the same label is worth less the more its row is in the direction of the first one, and labels of which little
is known come earlier. Nothing is worth more after a choice than before it, so the values never rise.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats

# Eigenvalues below this fraction of the largest are directions in which no rows differ.
_RANK_TOLERANCE = 1e-10


def whitening(moment: Floats) -> Floats:
    """The matrix that makes factors of rows with this mean of ``uuᵀ`` as long in all directions.

    Examples
    --------
    >>> whitening(np.diag([4.0, 0.0]))
    array([[0.5],
           [0. ]])
    """
    values, vectors = np.linalg.eigh(moment)
    kept = values > _RANK_TOLERANCE * max(float(values.max(initial=0.0)), np.finfo(np.float64).tiny)
    found: Floats = vectors[:, kept] / np.sqrt(values[kept])
    return found


def directions_of(factors: Floats, white: Floats) -> Floats:
    """φ of rows: a constant beside their whitened factors, with a squared length of 1 on average.

    Examples
    --------
    >>> directions_of(np.array([[2.0, 0.0]]), whitening(np.diag([4.0, 0.0]))).round(3)
    array([[0.707, 0.707]])
    """
    beside = np.column_stack([np.ones(len(factors)), factors @ white])
    found: Floats = beside / np.sqrt(beside.shape[1])
    return found


def coverage(known: Floats, width: int) -> Floats:
    """v of a row of average length, for labels of which so many entries are known.

    Examples
    --------
    >>> coverage(np.array([0.0, 3.0]), 1)
    array([1.  , 0.25])
    """
    found: Floats = 1.0 / (1.0 + known / width)
    return found


def choose_spread(
    gains: Floats,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    directions: Floats,
    known: Floats,
    n: int,
    per_row: int | None = None,
) -> tuple[NDArray[np.int64], Floats]:
    """Places of at most n candidates in the order of the choice, and the value of each when it was chosen.

    Parameters
    ----------
    gains : array of length M
        The expected gain of each candidate.
    rows, labels : int arrays of length M
    directions : array of shape (M, width)
        φ of the row of each candidate.
    known : array of length M
        How many entries of the candidate's label are known.
    n : int
    per_row : int or None, default None
        At most so many of a row.

    Examples
    --------
    >>> phi = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> zeros = np.zeros(3, dtype=np.int64)
    >>> choose_spread(np.array([1.0, 0.9, 0.8]), np.arange(3), zeros, phi, np.zeros(3), 3)[0]
    array([0, 2, 1])
    """
    if len(gains) == 0:
        return np.empty(0, dtype=np.int64), np.empty(0)
    # By label, so that what a choice changes lies together: its own label alone.
    order = np.argsort(labels, kind="stable")
    gains, rows, directions, known = gains[order], rows[order], directions[order], known[order]
    names, starts, of_label = np.unique(labels[order], return_index=True, return_inverse=True)
    blocks = [slice(*ends) for ends in itertools.pairwise([*starts.tolist(), len(order)])]
    alpha = 1.0 / coverage(known, directions.shape[1])
    v = np.einsum("ij,ij->i", directions, directions) / alpha
    worth = gains * np.sqrt(v)
    of_row = {} if per_row is None else _places(rows)
    # The best candidate of each label.
    first = starts + [np.argmax(worth[block]) for block in blocks]
    inverses: list[Floats | None] = [None] * len(names)
    taken: dict[int, int] = {}
    chosen, values = [], []
    for _ in range(min(n, len(gains))):
        leading = worth[first]
        # Of equal ones, the first candidate.
        best = min(first[leading == leading.max()].tolist(), key=order.__getitem__)
        if worth[best] == -np.inf:
            break
        chosen.append(int(order[best]))
        values.append(worth[best])
        row, label, phi = int(rows[best]), int(of_label[best]), directions[best]
        inverse = inverses[label]
        if inverse is None:
            inverse = inverses[label] = np.eye(len(phi)) / alpha[best]
        h = inverse @ phi
        h /= np.sqrt(1.0 + float(phi @ h))
        inverse -= np.outer(h, h)
        block = blocks[label]
        v[block] = np.maximum(v[block] - (directions[block] @ h) ** 2, 0.0)
        worth[block] = np.where(worth[block] == -np.inf, -np.inf, gains[block] * np.sqrt(v[block]))
        worth[best] = -np.inf
        taken[row] = taken.get(row, 0) + 1
        changed = {label}
        if taken[row] == per_row:
            worth[of_row[row]] = -np.inf
            changed.update(of_label[of_row[row]].tolist())
        for one in changed:
            first[one] = starts[one] + np.argmax(worth[blocks[one]])
    return np.array(chosen, dtype=np.int64), np.array(values, dtype=np.float64)


def _places(groups: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    """The places of each group, in order."""
    order = np.argsort(groups, kind="stable")
    names, starts = np.unique(groups[order], return_index=True)
    return dict(zip(names.tolist(), np.split(order, starts[1:]), strict=True))
