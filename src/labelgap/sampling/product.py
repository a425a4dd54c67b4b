"""Inclusion probabilities of product form, p_ij = min(1, a_i b_j), held as two vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.sampling.draws import bernoulli_positions

# Factors within a bucket differ by less than √2, so at least half of the candidates of a block are kept,
# unless they lie below 2^-32 of the largest factor, where next to nothing is drawn.
_BUCKETS_PER_DOUBLING = 2
_MAX_BUCKETS = 64


@dataclass(frozen=True)
class ProductForm:
    """``p_ij = min(1, a_i b_j)`` with positive a and b.

    Parameters
    ----------
    row_factors : array of length n
        a.
    label_factors : array of length L
        b.
    """

    row_factors: Floats
    label_factors: Floats

    def at(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> Floats:
        """p at entries."""
        return np.minimum(1.0, self.row_factors[rows] * self.label_factors[cols])

    def row_sums(self) -> Floats:
        """Σ_j p_ij for every row."""
        return _capped_sums(self.row_factors, self.label_factors)[0]

    def label_sums(self) -> Floats:
        """Σ_i p_ij for every label."""
        return _capped_sums(self.label_factors, self.row_factors)[0]

    def smallest(self) -> float:
        """min p."""
        return min(1.0, float(self.row_factors.min() * self.label_factors.min()))

    def draw(self, rng: np.random.RandomState) -> NDArray[np.int64]:
        """The entries ``row · L + column`` observed in one draw, ascending.

        Rows and labels are put into buckets of similar factors. In a block of two buckets every entry is a
        candidate with the largest probability there, and a candidate is kept with the ratio of its own to
        that: together, each entry is kept with its own probability, independently.
        """
        L = len(self.label_factors)
        found = [np.empty(0, dtype=np.int64)]
        label_buckets = _buckets(self.label_factors)
        for rows in _buckets(self.row_factors):
            for cols in label_buckets:
                top = min(1.0, float(self.row_factors[rows].max() * self.label_factors[cols].max()))
                row_at, col_at = np.divmod(bernoulli_positions(len(rows) * len(cols), top, rng), len(cols))
                r, c = rows[row_at], cols[col_at]
                kept = rng.random_sample(len(r)) * top < self.at(r, c)
                found.append(r[kept] * L + c[kept])
        entries = np.concatenate(found)
        entries.sort()
        return entries


def scale_to_total(a: Floats, b: Floats, total: float) -> float:
    """The c with ``Σ min(1, c a_i b_j) = total``, in O((n + L) log L) per step.

    The sum is concave and increasing in c, so Newton's method from the left never overshoots.
    """
    c = total / (float(a.sum()) * float(b.sum()))
    while True:
        sums, slopes = _capped_sums(c * a, b)
        missing, slope = total - float(sums.sum()), float(slopes.sum()) / c
        further = c + missing / slope if missing > 1e-14 * total and slope > 0 else c
        if further <= c:
            return c
        c = further


def _capped_sums(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """For each a_i: Σ_j min(1, a_i b_j), and the part of it that lies below the cap."""
    ascending = np.sort(b)
    # Summed from the small end, so that a light tail is not lost in the rounding of a heavy head.
    running = np.concatenate(([0.0], np.cumsum(ascending)))
    uncapped = np.searchsorted(ascending, 1.0 / a)
    below = a * running[uncapped]
    return len(b) - uncapped + below, below


def _buckets(factors: Floats) -> list[NDArray[np.int64]]:
    doublings = np.log2(factors.max() / factors)
    number = np.minimum((_BUCKETS_PER_DOUBLING * doublings).astype(np.int64), _MAX_BUCKETS - 1)
    order = np.argsort(number, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
