"""Many small convex problems of one kind, solved side by side by Newton's method with backtracking.

Each is ``min_a Σ_e ω_e ℓ(o_e + a·x_e, y_e) + ½ aᵀ P a`` over a few numbers a, with entries e of its own out
of one table of features x. Problems of about the same number of entries share a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from labelgap._types import Floats, Ints
from labelgap._warn import warn
from labelgap.exceptions import ConvergenceWarning

# Numbers in the gathered factors of a batch, and in one piece of a Hessian's sum.
_BATCH = 1 << 20
# The share of a full step's promise that a step must keep.
_ARMIJO = 1e-4
_MAX_HALVINGS = 60
# A few rounding errors, relative to what is rounded.
_EPS = 4 * float(np.finfo(np.float64).eps)
# Curvature given to a free intercept, as a share of the weight: a loss may be flat all around.
_LEVEL = 1e-8


class EntryLoss(Protocol):
    """A convex loss of a score and an answer, entry by entry."""

    def value(self, z: Any, y: Any) -> Any: ...

    def gradient(self, z: Any, y: Any) -> Any: ...

    def curvature(self, z: Any, y: Any) -> Any: ...


class SmallProblems(NamedTuple):
    """One minimisation per row of the entries: ``Σ ω ℓ(offset + a·features, y) + ½ aᵀ penalty a``."""

    features: Floats
    indptr: Ints
    indices: Ints
    values: Ints
    weights: Floats | None
    penalty: Floats
    offset: Callable[[Ints, Ints], Floats]
    """From row numbers (B) and feature numbers (B x c) to the scores at a = 0 (B x c)."""
    loss: EntryLoss
    has_intercept: bool
    sizes: Floats | None = None
    """What the penalty of each row is multiplied with; None for 1."""


class _Batch(NamedTuple):
    """Rows of about equal length, filled up with entries of weight 0."""

    features: Floats
    offset: Floats
    values: Ints
    weights: Floats
    lengths: Floats
    """Norms of the features."""
    sizes: Floats
    """What the penalty is multiplied with."""


def minimise_rows(problem: SmallProblems, start: Floats, tol: float, max_iter: int) -> Floats:
    """The minimiser of every row that has entries, from its start; other rows stay."""
    result = start.copy()
    if start.shape[1] == 0:
        return result
    late, worst = 0, 0.0
    for rows in _rows_of_like_length(np.diff(problem.indptr), start.shape[1]):
        result[rows], left = _newton(problem, _batch(problem, rows), start[rows], tol, max_iter)
        late += int(np.sum(left > tol))
        worst = max(worst, float(left.max()))
    if late:
        warn(
            f"{late} of {len(start)} fold-ins stopped after {max_iter} Newton steps with a relative gradient "
            f"of up to {worst:.1e}; {tol:.1e} was asked for.",
            ConvergenceWarning,
        )
    return result


def _rows_of_like_length(counts: Ints, k: int) -> Iterator[Ints]:
    """Batches of rows, none empty, in which no row is less than half as long as another."""
    order = np.argsort(counts, kind="stable")
    order = order[np.searchsorted(counts[order], 1) :]
    ordered = counts[order]
    stop = len(order)
    while stop > 0:
        longest = int(ordered[stop - 1])
        start = max(int(np.searchsorted(ordered, longest / 2)), stop - max(1, _BATCH // (longest * k)))
        yield order[start:stop]
        stop = start


def _batch(problem: SmallProblems, rows: Ints) -> _Batch:
    counts = np.diff(problem.indptr)[rows]
    longest = int(counts.max())
    place = np.arange(longest)
    filled = place < counts[:, None]
    entries = np.where(filled, problem.indptr[rows][:, None] + place, 0)
    indices = problem.indices[entries]
    everything = longest == len(problem.features) and bool(filled.all())
    if everything:
        # Ascending and none twice: all features in their order, which need not be copied.
        features = np.broadcast_to(problem.features, (len(rows), *problem.features.shape))
    else:
        features = problem.features[indices] * filled[:, :, None]
    weights = filled.astype(np.float64)
    if problem.weights is not None:
        weights *= problem.weights[entries]
    lengths = np.sqrt(np.einsum("bck,bck->bc", features, features))
    offset = problem.offset(rows, indices) * filled
    sizes = np.ones(len(rows)) if problem.sizes is None else problem.sizes[rows]
    return _Batch(features, offset, problem.values[entries], weights, lengths, sizes)


def _newton(
    problem: SmallProblems, batch: _Batch, start: Floats, tol: float, max_iter: int
) -> tuple[Floats, Floats]:
    """Minimisers of the rows of a batch, and the relative gradient left in each."""
    result, left = start.copy(), np.zeros(len(start))
    rows, a = np.arange(len(start)), start
    z = batch.offset + _times(batch.features, a)
    for step in range(max_iter + 1):
        pulls = batch.weights * problem.loss.gradient(z, batch.values)
        bend = batch.weights * problem.loss.curvature(z, batch.values)
        held = batch.sizes[:, None] * (a @ problem.penalty)
        slope = (pulls[:, None, :] @ batch.features)[:, 0, :] + held
        size = (np.abs(pulls) * batch.lengths).sum(axis=1) + _lengths(held)
        # A score is known up to its rounding, and a slope up to that times the curvature.
        blur = np.abs(batch.offset) + batch.lengths * _lengths(a)[:, None]
        excess = np.maximum(_lengths(slope) - _EPS * (bend * batch.lengths * blur).sum(axis=1), 0.0)
        relative = np.divide(excess, size, out=np.zeros(len(a)), where=size > 0)
        result[rows], left[rows] = a, relative
        going = relative > tol
        if step == max_iter or not going.any():
            break
        if not going.all():
            rows, a, z, slope, bend = (part[going] for part in (rows, a, z, slope, bend))
            batch = _Batch(*(part[going] for part in batch))
        direction = -np.linalg.solve(_hessian(problem, batch, bend), slope[:, :, None])[:, :, 0]
        change = _times(batch.features, direction)
        promise = np.einsum("bk,bk->b", slope, direction)
        length = _step_lengths(problem, batch, z, change, a, direction, promise)[:, None]
        a, z = a + length * direction, z + length * change
    return result, left


def _hessian(problem: SmallProblems, batch: _Batch, bend: Floats) -> Floats:
    """``Σ_e ω_e ℓ''_e x_e x_eᵀ + P`` of each row, in pieces of the sum; the bend of an entry is ω ℓ''."""
    n_rows, longest, k = batch.features.shape
    total = batch.sizes[:, None, None] * problem.penalty
    if problem.has_intercept:
        total[:, -1, -1] += _LEVEL * batch.weights.sum(axis=1)
    piece = max(1, _BATCH // (n_rows * k))
    for start in range(0, longest, piece):
        part = batch.features[:, start : start + piece]
        total += part.swapaxes(1, 2) @ (bend[:, start : start + piece, None] * part)
    return total


def _step_lengths(
    problem: SmallProblems,
    batch: _Batch,
    z: Floats,
    change: Floats,
    a: Floats,
    direction: Floats,
    promise: Floats,
) -> Floats:
    """1, ½, ¼, ... for each row, until the objective falls by a share of what the slope promises."""
    turned = batch.sizes[:, None] * (direction @ problem.penalty)
    linear, square = np.einsum("bk,bk->b", turned, a), np.einsum("bk,bk->b", turned, direction)
    terms = batch.weights * problem.loss.value(z, batch.values)
    # Differences of objectives are compared; below their rounding every step is as good.
    rounding = 2 * _EPS * (np.abs(terms).sum(axis=1) + np.abs(linear) + square)
    length = np.ones(len(z))
    trying = np.arange(len(z))
    for _ in range(_MAX_HALVINGS):
        t = length[trying]
        part = _Batch(*(piece[trying] for piece in batch)) if len(trying) < len(z) else batch
        moved = part.weights * problem.loss.value(z[trying] + t[:, None] * change[trying], part.values)
        rise = (moved - terms[trying]).sum(axis=1) + t * linear[trying] + t * t / 2 * square[trying]
        failed = ~(rise <= _ARMIJO * t * promise[trying] + rounding[trying])
        trying = trying[failed]
        if len(trying) == 0:
            break
        length[trying] /= 2
    return length


def _times(features: Floats, a: Floats) -> Floats:
    return np.asarray((features @ a[:, :, None])[:, :, 0])


def _lengths(vectors: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("bk,bk->b", vectors, vectors)))
