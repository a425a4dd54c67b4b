"""The positive-unlabelled logistic loss over all n·L entries of a matrix of scores, in one pass.

An entry counts as unlabelled, as a recorded positive, or not at all, and costs

    ℓ(z, 0),    ℓ(z, 1) − κ_j z  with κ = ρ/(1 − ρ),    or 0,    where z = s_ij + b_j.

To that the pass adds, where it is asked to, the smooth term that holds every ``|s_ij|`` to a bound γ: with a
multiplier u and a stiffness μ it is ``max_a a s − γ|a| − (a − u)²/(2μ)``. One pass gives all that a data term
is asked at a point, another the conjugate. Chunks of rows are summed by themselves; they are of one size
whatever the threads, so that sums are too.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.kernels.losses import logistic_losses
from labelgap.kernels.options import INLINED, OPTIONS, compiled
from labelgap.kernels.threads import run_over_rows

# What an entry counts as.
UNLABELLED, RECORDED, LEFT_OUT = range(3)

# Entries whose losses are computed in one go; their arrays stay in the nearest cache.
_BLOCK = 512
# Entries of a chunk, unless one row has more.
_CHUNK = 1 << 14
# Multiply-adds that an entry's loss, and its conjugate, is worth.
_WORK = 32


@compiled(**INLINED)
def _beyond(score, multiplier, stiffness, bound):  # type: ignore[no-untyped-def]
    """The slope of the smooth term that stands for the bound."""
    shifted = score + multiplier / stiffness
    return stiffness * (shifted - min(max(shifted, -bound), bound))


@compiled(**OPTIONS)
def _pass(  # type: ignore[no-untyped-def]
    cuts,
    scores,
    intercept,
    kinds,
    tilts,
    weight,
    multipliers,
    stiffness,
    bound,
    slopes,
    curvatures,
    totals,
    sums,
    start,
    stop,
):
    n_labels = scores.shape[1]
    tile = max(1, _BLOCK // max(n_labels, 1))
    z, y, value = np.empty(tile * n_labels), np.empty(tile * n_labels), np.empty(tile * n_labels)
    slope, curvature = np.empty(tile * n_labels), np.empty(tile * n_labels)
    for c in range(start, stop):
        total, size = 0.0, 0.0
        for first in range(cuts[c], cuts[c + 1], tile):
            last = min(first + tile, cuts[c + 1])
            for i in range(first, last):
                at = (i - first) * n_labels
                for j in range(n_labels):
                    z[at + j] = scores[i, j] + intercept[j]
                    y[at + j] = 1.0 if kinds[i, j] == RECORDED else 0.0
            logistic_losses(z, y, value, slope, curvature, (last - first) * n_labels)
            for i in range(first, last):
                at = (i - first) * n_labels
                for j in range(n_labels):
                    e = at + j
                    counts = weight if kinds[i, j] != LEFT_OUT else 0.0
                    tilt = tilts[j] * y[e]
                    cost = counts * (value[e] - tilt * z[e])
                    total += cost
                    size += abs(cost)
                    g, curved = counts * (slope[e] - tilt), counts * curvature[e]
                    sums[c, 0, j] += max(g, 0.0)
                    sums[c, 1, j] += min(g, 0.0)
                    sums[c, 2, j] += curved
                    slopes[i, j] = g
                    curvature[e] = curved
                if curvatures.shape[0]:
                    for j in range(n_labels):
                        curvatures[i, j] = curvature[at + j]
                if multipliers.shape[0]:
                    for j in range(n_labels):
                        u = multipliers[i, j]
                        a = _beyond(scores[i, j], u, stiffness, bound)
                        cost = a * scores[i, j] - bound * abs(a) - (a - u) * (a - u) / (2.0 * stiffness)
                        total += cost
                        size += abs(cost)
                        slopes[i, j] += a
        totals[c, 0], totals[c, 1] = total, size


@compiled(**INLINED)
def _own_slopes(  # type: ignore[no-untyped-def]
    n_terms, scale, scores, slopes, kinds, tilts, multipliers, stiffness, bound, low, above
):
    """For the losses of a row, as multiples of 1/N: the least slope, and how far above it the nearest one is.

    The nearest is the one closest to ``scale`` times the slope here; the slopes of a loss are an interval of
    length 1.
    """
    n_labels = len(scores)
    for j in range(n_labels):
        above[j] = slopes[j]
    if len(multipliers):
        for j in range(n_labels):
            above[j] -= _beyond(scores[j], multipliers[j], stiffness, bound)
    for j in range(n_labels):
        low[j] = -1.0 - tilts[j] if kinds[j] == RECORDED else 0.0
        above[j] = min(max(scale * n_terms * above[j] - low[j], 0.0), 1.0)


@compiled(**INLINED)
def _row(matrix, i):  # type: ignore[no-untyped-def]
    """A row of a matrix that may be empty."""
    return matrix[i] if matrix.shape[0] else matrix.ravel()


@compiled(**OPTIONS)
def _capacity(  # type: ignore[no-untyped-def]
    cuts, n_terms, scale, scores, slopes, kinds, tilts, multipliers, stiffness, bound, out, start, stop
):
    n_labels = scores.shape[1]
    low, above = np.empty(n_labels), np.empty(n_labels)
    for c in range(start, stop):
        nearest, up, down = out[c, 0], out[c, 1], out[c, 2]
        for i in range(cuts[c], cuts[c + 1]):
            kind, u = kinds[i], _row(multipliers, i)
            _own_slopes(n_terms, scale, scores[i], slopes[i], kind, tilts, u, stiffness, bound, low, above)
            for j in range(n_labels):
                counts = 1.0 if kind[j] != LEFT_OUT else 0.0
                nearest[j] += counts * (low[j] + above[j])
                up[j] += counts * (1.0 - above[j])
                down[j] += counts * above[j]


@compiled(**OPTIONS)
def _conjugate(  # type: ignore[no-untyped-def]
    cuts,
    n_terms,
    scale,
    scores,
    slopes,
    kinds,
    tilts,
    multipliers,
    stiffness,
    bound,
    up,
    down,
    smooth,
    out,
    start,
    stop,
):
    n_labels = scores.shape[1]
    low, above = np.empty(n_labels), np.empty(n_labels)
    for c in range(start, stop):
        dual, changed, bent = 0.0, 0.0, 0.0
        for i in range(cuts[c], cuts[c + 1]):
            kind, slope, u = kinds[i], slopes[i], _row(multipliers, i)
            _own_slopes(n_terms, scale, scores[i], slope, kind, tilts, u, stiffness, bound, low, above)
            for j in range(n_labels):
                p = above[j] + up[j] * (1.0 - above[j]) - down[j] * above[j]
                # 0 log 0 counts as 0.
                p = min(max(p, 0.0), 1.0) if kind[j] != LEFT_OUT else 0.0
                if 0.0 < p < 1.0:
                    dual += p * math.log(p) + (1.0 - p) * math.log(1.0 - p)
                chosen = low[j] + p if kind[j] != LEFT_OUT else 0.0
                left = scale * slope[j] - chosen / n_terms
                changed += abs(left)
                if smooth:
                    bent += (left - u[j]) * (left - u[j])
        out[c, 0], out[c, 1], out[c, 2] = dual, changed, bent


class Hold(NamedTuple):
    """How the scores are held to a bound: the multiplier of each entry, and the stiffness."""

    multipliers: Floats
    stiffness: float


class PassResult(NamedTuple):
    """What one pass finds at some scores."""

    value: float
    size: float
    """The sum of the absolute values."""
    slopes: Floats
    """The derivative at each entry (n x L), that of the bound's term included."""
    sums: Floats
    """Per label (3 x L) the sums of the loss's positive slopes, negative slopes and curvatures."""
    curvatures: Floats | None
    """The loss's second derivative at each entry, where that was asked for."""


class UnlabelledPasses:
    """The sum over all entries as a function of scores and intercepts.

    Parameters
    ----------
    kinds : array of int8 of shape (n, L)
        What each entry counts as.
    tilts : array of length L
        κ of each label.
    n_terms : float
        N, by which the sum of the losses is divided.
    bound : float or None
        γ; None where the scores have no bound.
    """

    def __init__(self, kinds: NDArray[np.int8], tilts: Floats, n_terms: float, bound: float | None) -> None:
        n, n_labels = kinds.shape
        self._entries = np.ascontiguousarray(kinds), np.ascontiguousarray(tilts, dtype=np.float64)
        self._n_terms, self._weight = n_terms, 1.0 / n_terms
        self._bound = math.inf if bound is None else bound
        rows = max(1, _CHUNK // max(n_labels, 1))
        self._cuts = np.append(np.arange(0, n, rows), n).astype(np.int64)
        # Of work to be shared out, a row counts as its entries.
        self._shares = self._cuts * n_labels
        self._nothing = np.empty((0, 0))

    def _held(self, hold: Hold | None) -> tuple[Floats, float, float]:
        if hold is None:
            return self._nothing, 1.0, self._bound
        return hold.multipliers, hold.stiffness, self._bound

    def _run(self, kernel: Any, *args: Any) -> None:
        run_over_rows(kernel, self._shares, _WORK, self._cuts, *args)

    def at(
        self, scores: Floats, intercept: Floats, hold: Hold | None = None, *, curvatures: bool = False
    ) -> PassResult:
        """All that is asked at these scores, which are C-contiguous, as the intercepts are."""
        chunks, (n, n_labels) = len(self._cuts) - 1, scores.shape
        slopes, totals = np.empty((n, n_labels)), np.empty((chunks, 2))
        sums = np.zeros((chunks, 3, n_labels))
        out = np.empty((n, n_labels)) if curvatures else self._nothing
        self._run(
            _pass,
            scores,
            intercept,
            *self._entries,
            self._weight,
            *self._held(hold),
            slopes,
            out,
            totals,
            sums,
        )
        value, size = _added(totals).tolist()
        return PassResult(value, size, slopes, _added(sums), out if curvatures else None)

    def capacity(self, scale: float, scores: Floats, slopes: Floats, hold: Hold | None = None) -> Floats:
        """Per label (3 x L): the sum of the nearest slopes in the domain, and how far up and down they go.

        The slopes are multiplied by N.
        """
        sums = np.zeros((len(self._cuts) - 1, 3, scores.shape[1]))
        self._run(_capacity, self._n_terms, scale, scores, slopes, *self._entries, *self._held(hold), sums)
        return _added(sums)

    def conjugate(
        self,
        scale: float,
        scores: Floats,
        slopes: Floats,
        up: Floats,
        down: Floats,
        hold: Hold | None = None,
        *,
        smooth: bool = False,
    ) -> tuple[float, float]:
        """The conjugate at slopes in the domain near ``scale`` times those of the losses.

        Each label's nearest slopes are moved by the fractions ``up`` and ``down`` of what they can go. The
        second number is ``Σ|a|`` for what is left of ``scale`` times all slopes. ``smooth`` adds
        ``Σ (a − u)²/(2μ)`` to the first, as the smooth term that stands for the bound demands it.
        """
        found = np.empty((len(self._cuts) - 1, 3))
        self._run(
            _conjugate,
            self._n_terms,
            scale,
            scores,
            slopes,
            *self._entries,
            *self._held(hold),
            up,
            down,
            smooth and hold is not None,
            found,
        )
        dual, changed, bent = _added(found).tolist()
        if smooth and hold is not None:
            return dual / self._n_terms + bent / (2.0 * hold.stiffness), changed
        return dual / self._n_terms, changed


def _added(by_chunk: Floats) -> Floats:
    """The sum over the chunks, of which there is mostly one."""
    return np.asarray(by_chunk[0] if len(by_chunk) == 1 else by_chunk.sum(axis=0))
