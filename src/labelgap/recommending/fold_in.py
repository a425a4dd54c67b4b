"""Factors of new users, or of new items, while the other factors stay fixed: many small convex problems.

A new user i with ratings of the items J has

    ``u_i = p_i + argmin_a  w Σ_{j∈J} ω_j ℓ((p_i + a)·v_j + b_j, y_j) + ½ aᵀ M a``

which is the problem that a fit solves for each of its users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

from labelgap._types import Floats, Ints
from labelgap._warn import warn
from labelgap.exceptions import ConvergenceWarning, InvalidInputError
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss

# The number of entries in the gathered factors of a batch, and in one piece of a Hessian's sum.
_BATCH = 1 << 20
# A step must achieve this fraction of the decrease that the slope promises.
_ARMIJO = 1e-4
_MAX_HALVINGS = 60
# The relative size of a few rounding errors.
_EPS = 4 * float(np.finfo(np.float64).eps)
# Curvature added for a free intercept, as a fraction of the weight, because a loss may be locally flat.
_INTERCEPT_CURVATURE = 1e-8


def fold_in(
    item_factors: Floats,
    item_intercept: Floats,
    labels: ObservedLabels,
    penalty: Floats,
    *,
    entry_loss: Loss,
    rating_weight: float,
    prior: Floats | None = None,
    sizes: Floats | None = None,
    tol: float = 1e-10,
    max_iter: int = 100,
) -> Floats:
    """Factors of new users from their ratings of known items.

    For each row of the labels, ``prior + argmin_a w Σ_j ω_j ℓ((prior + a)·v_j + b_j, y_j) + ½ aᵀ M a``. A row
    without ratings gets its prior.

    Parameters
    ----------
    item_factors : array of shape (L, k)
    item_intercept : array of length L
    labels : ObservedLabels of shape (m, L)
        New users x known items; weights are the ω.
    penalty : positive definite array of shape (k, k)
        M.
    entry_loss : Loss
        It must be convex in z. It is called with matrices of one row per user; where the users rated every
        item, their columns are the items.
    rating_weight : float
        w, above 0.
    prior : array of shape (m, k), default None
        The users' factors as far as they are known without ratings; None for 0.
    sizes : array of length m, default None
        The factor by which M is multiplied for each user; None for 1.
    tol : float, default 1e-10
        The largest gradient at which a problem is solved, as a fraction of the sum of the norms of its terms.
    max_iter : int, default 100
        The largest number of Newton steps.

    Returns
    -------
    factors : array of shape (m, k)

    Examples
    --------
    >>> from labelgap.losses import Squared
    >>> labels = ObservedLabels.from_dense([[1, 0], [float("nan"), float("nan")]])
    >>> V, M = np.array([[1.0], [-1.0]]), np.eye(1)
    >>> fold_in(V, np.zeros(2), labels, M, entry_loss=Squared(), rating_weight=0.5)
    array([[0.66666667],
           [0.        ]])
    """
    V, b = np.ascontiguousarray(item_factors, dtype=np.float64), np.asarray(item_intercept)
    if labels.shape[1] != len(V):
        raise InvalidInputError(
            f"The labels have {labels.shape[1]} columns for {len(V)} items with factors; they must match."
        )
    base = _prior_or_zero(prior, (labels.shape[0], V.shape[1]))

    def offset(rows: Ints, items: Ints) -> Floats:
        if prior is None:
            return np.asarray(b[items])
        return np.asarray((V[items] @ base[rows][:, :, None])[:, :, 0] + b[items])

    problem = SmallProblems(
        V,
        labels.indptr,
        labels.indices,
        labels.values,
        labels.weights,
        np.asarray(penalty) / rating_weight,
        offset,
        entry_loss,
        has_intercept=False,
        sizes=sizes,
    )
    return base + minimise_rows(problem, np.zeros(base.shape), tol, max_iter)


def fold_in_columns(
    user_factors: Floats,
    labels: ObservedLabels,
    penalty: Floats,
    *,
    entry_loss: Loss,
    rating_weight: float,
    prior: Floats | None = None,
    sizes: Floats | None = None,
    intercept_penalty: tuple[float, float] | None = None,
    tol: float = 1e-10,
    max_iter: int = 100,
) -> tuple[Floats, Floats]:
    """Factors and intercepts of new items from the ratings of known users.

    For each column of the labels, ``v_j = prior + v`` and b_j with
    ``argmin_{v, b} w Σ_i ω_i ℓ(u_i·(prior + v) + b, y_i) + ½ vᵀ M v + κ/2 (b − c)²``. Without a penalty on
    the intercept, an item with only likes, only dislikes or no ratings has no finite minimiser; it gets v = 0
    and the intercept that stands for a probability of (likes + ½) / (ratings + 1).

    Parameters
    ----------
    user_factors : array of shape (n, k)
    labels : ObservedLabels of shape (n, m)
        Known users x new items; weights are the ω.
    penalty : positive definite array of shape (k, k)
        M.
    entry_loss, rating_weight, tol, max_iter
        As in :func:`fold_in`.
    prior : array of shape (m, k), default None
        The items' factors as far as they are known without ratings; None for 0.
    sizes : array of length m, default None
        The factor by which M is multiplied for each item; None for 1.
    intercept_penalty : (κ, c), default None
        The penalty of the intercept and what it is drawn to; None for none.

    Returns
    -------
    factors : array of shape (m, k)
    intercept : array of length m

    Examples
    --------
    >>> from labelgap.losses import Squared
    >>> labels = ObservedLabels.from_dense([[1, 1], [0, 1]])
    >>> U, M = np.array([[1.0], [-1.0]]), np.eye(1)
    >>> factors, intercept = fold_in_columns(U, labels, M, entry_loss=Squared(), rating_weight=0.5)
    >>> factors.round(3).tolist(), intercept.round(3).tolist()
    ([[0.667], [0.0]], [0.0, 0.667])
    """
    U = np.ascontiguousarray(user_factors, dtype=np.float64)
    n, k = U.shape
    m = labels.shape[1]
    if labels.shape[0] != n:
        raise InvalidInputError(
            f"The labels have {labels.shape[0]} rows for {n} users with factors; they must match."
        )
    base = _prior_or_zero(prior, (m, k))
    counts, likes = labels.label_counts(), labels.positive_counts()
    start = np.zeros((m, k + 1))
    start[:, -1] = entry_loss.link((likes + 0.5) / (counts + 1))
    held = np.zeros((k + 1, k + 1))
    held[:-1, :-1] = np.asarray(penalty) / rating_weight
    mixed, centre = np.flatnonzero((likes > 0) & (likes < counts)), 0.0
    if intercept_penalty is not None:
        # The last variable is how far the intercept is from what it is drawn to.
        strength, centre = intercept_penalty
        held[-1, -1] = strength / rating_weight
        mixed = np.flatnonzero(counts)
        start[:, -1] = np.where(counts > 0, start[:, -1] - centre, 0.0)

    def offset(items: Ints, users: Ints) -> Floats:
        return np.asarray((U[users] @ base[mixed[items]][:, :, None])[:, :, 0] + centre)

    indptr, users, entries = _by_column(labels, mixed)
    problem = SmallProblems(
        np.column_stack([U, np.ones(n)]),
        indptr,
        users,
        labels.values[entries],
        None if labels.weights is None else labels.weights[entries],
        held,
        offset,
        entry_loss,
        has_intercept=True,
        sizes=None if sizes is None else sizes[mixed],
    )
    start[mixed] = minimise_rows(problem, start[mixed], tol, max_iter)
    return base + start[:, :-1], start[:, -1] + centre


def _prior_or_zero(prior: Floats | None, shape: tuple[int, int]) -> Floats:
    base = np.zeros(shape) if prior is None else np.asarray(prior, dtype=np.float64)
    if base.shape != shape:
        raise InvalidInputError(f"The prior has shape {base.shape}; {shape} was expected.")
    return base


def _by_column(labels: ObservedLabels, columns: Ints) -> tuple[Ints, Ints, Ints]:
    """Pointers, rows and entry numbers of some columns, column by column."""
    numbers = np.arange(labels.n_observed)
    table = sparse.csr_array((numbers, labels.indices, labels.indptr), shape=labels.shape).tocsc()
    chosen = table[:, columns]
    return chosen.indptr, chosen.indices, chosen.data


# -- many small problems -------------------------------------------------------------------------------
#
# Each is ``min_a Σ_e ω_e ℓ(o_e + a·x_e, y_e) + ½ aᵀ P a`` over a few numbers a, with entries e of its own out
# of one table of features x. Problems with about the same number of entries form a batch, and the problems of
# a batch are solved side by side by Newton's method with backtracking.


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
    loss: Loss
    has_intercept: bool
    sizes: Floats | None = None
    """The factor by which the penalty of each row is multiplied; None for 1."""


class _Batch(NamedTuple):
    """Rows of about equal length, filled up with entries of weight 0."""

    features: Floats
    offset: Floats
    values: Ints
    weights: Floats
    lengths: Floats
    """The norms of the features."""
    sizes: Floats
    """The factor by which the penalty of each row is multiplied."""


def minimise_rows(problem: SmallProblems, start: Floats, tol: float, max_iter: int) -> Floats:
    """The minimiser of every row with entries, found from its start; other rows keep their start."""
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
        # The indices ascend and none comes twice: these are all features in order, which need not be copied.
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
        gradient = batch.weights * problem.loss.gradient(z, batch.values)
        curvature = batch.weights * problem.loss.curvature(z, batch.values)
        held = batch.sizes[:, None] * (a @ problem.penalty)
        slope = (gradient[:, None, :] @ batch.features)[:, 0, :] + held
        size = (np.abs(gradient) * batch.lengths).sum(axis=1) + _lengths(held)
        # A score is known up to its rounding, and a slope up to that times the curvature.
        score_size = np.abs(batch.offset) + batch.lengths * _lengths(a)[:, None]
        rounding = _EPS * (curvature * batch.lengths * score_size).sum(axis=1)
        excess = np.maximum(_lengths(slope) - rounding, 0.0)
        relative = np.divide(excess, size, out=np.zeros(len(a)), where=size > 0)
        result[rows], left[rows] = a, relative
        going = relative > tol
        if step == max_iter or not going.any():
            break
        if not going.all():
            rows, a, z, slope, curvature = (part[going] for part in (rows, a, z, slope, curvature))
            batch = _Batch(*(part[going] for part in batch))
        hessian = _hessian(problem, batch, curvature)
        direction = np.asarray(-np.linalg.solve(hessian, slope[:, :, None])[:, :, 0], np.float64)
        change = _times(batch.features, direction)
        promise = np.einsum("bk,bk->b", slope, direction)
        length = _step_lengths(problem, batch, z, change, a, direction, promise)[:, None]
        a, z = a + length * direction, z + length * change
    return result, left


def _hessian(problem: SmallProblems, batch: _Batch, curvature: Floats) -> Floats:
    """``Σ_e ω_e ℓ''_e x_e x_eᵀ + P`` of each row, summed in pieces; ``curvature`` holds the ω ℓ''."""
    n_rows, longest, k = batch.features.shape
    total = batch.sizes[:, None, None] * problem.penalty
    if problem.has_intercept:
        total[:, -1, -1] += _INTERCEPT_CURVATURE * batch.weights.sum(axis=1)
    piece = max(1, _BATCH // (n_rows * k))
    for start in range(0, longest, piece):
        part = batch.features[:, start : start + piece]
        total += part.swapaxes(1, 2) @ (curvature[:, start : start + piece, None] * part)
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
    """1, ½, ¼, ... for each row, until the objective falls by a fraction of what the slope promises."""
    penalised = batch.sizes[:, None] * (direction @ problem.penalty)
    linear, square = np.einsum("bk,bk->b", penalised, a), np.einsum("bk,bk->b", penalised, direction)
    terms = batch.weights * problem.loss.value(z, batch.values)
    # Differences of objectives are compared; differences below their rounding mean nothing.
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
