"""Factors of new users, or of new items, against factors that stay: many small convex problems.

A new user i with answers about the items J has

    ``u_i = p_i + argmin_a  w Σ_{j∈J} ω_j ℓ((p_i + a)·v_j + b_j, y_j) + ½ aᵀ M a``

which is the problem that the user's part of a fit solves.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy import sparse

from labelgap._types import Floats, Ints
from labelgap.exceptions import InvalidInputError
from labelgap.labels import ObservedLabels
from labelgap.recommending.small_problems import EntryLoss, SmallProblems, minimise_rows


class LinkedLoss(EntryLoss, Protocol):
    """An entry loss that knows which score stands for a probability."""

    def link(self, eta: Any) -> Any: ...


def fold_in(
    item_factors: Floats,
    item_intercept: Floats,
    labels: ObservedLabels,
    penalty: Floats,
    *,
    entry_loss: EntryLoss,
    answer_weight: float,
    prior: Floats | None = None,
    sizes: Floats | None = None,
    tol: float = 1e-10,
    max_iter: int = 100,
) -> Floats:
    """Factors of new users from their answers about known items.

    For each row of the labels, ``prior + argmin_a w Σ_j ω_j ℓ((prior + a)·v_j + b_j, y_j) + ½ aᵀ M a``. A row
    without answers gets its prior.

    Parameters
    ----------
    item_factors : array of shape (L, k)
    item_intercept : array of length L
    labels : ObservedLabels of shape (m, L)
        New users x known items; weights are the ω.
    penalty : positive definite array of shape (k, k)
        M.
    entry_loss : object with ``value``, ``gradient`` and ``curvature`` of (z, y)
        Convex in z. Called with matrices of one row per user; where the users answered everything, their
        columns are the items.
    answer_weight : float
        w, above 0.
    prior : array of shape (m, k), default None
        What is known of the users' factors without their answers; None for 0.
    sizes : array of length m, default None
        What M is multiplied with for each user; None for 1.
    tol : float, default 1e-10
        The gradient left, as a share of the sum of the lengths of its terms.
    max_iter : int, default 100
        Newton steps at most.

    Returns
    -------
    factors : array of shape (m, k)

    Examples
    --------
    >>> from labelgap.losses import Squared
    >>> labels = ObservedLabels.from_dense([[1, 0], [float("nan"), float("nan")]])
    >>> V, M = np.array([[1.0], [-1.0]]), np.eye(1)
    >>> fold_in(V, np.zeros(2), labels, M, entry_loss=Squared(), answer_weight=0.5)
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
        np.asarray(penalty) / answer_weight,
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
    entry_loss: LinkedLoss,
    answer_weight: float,
    prior: Floats | None = None,
    sizes: Floats | None = None,
    tol: float = 1e-10,
    max_iter: int = 100,
) -> tuple[Floats, Floats]:
    """Factors and intercepts of new items from the answers of known users.

    For each column of the labels, ``v_j = prior + v`` and b_j with
    ``argmin_{v, b} w Σ_i ω_i ℓ(u_i·(prior + v) + b, y_i) + ½ vᵀ M v``. The intercept is free. So an item with
    answers of one kind only, or none, has no minimiser of use; it gets v = 0 and the intercept that stands
    for a probability of (likes + ½) / (answers + 1).

    Parameters
    ----------
    user_factors : array of shape (n, k)
    labels : ObservedLabels of shape (n, m)
        Known users x new items; weights are the ω.
    penalty : positive definite array of shape (k, k)
        M.
    entry_loss, answer_weight, tol, max_iter
        As in :func:`fold_in`; the loss has a ``link`` too.
    prior : array of shape (m, k), default None
        What is known of the items' factors without the answers; None for 0.
    sizes : array of length m, default None
        What M is multiplied with for each item; None for 1.

    Returns
    -------
    factors : array of shape (m, k)
    intercept : array of length m

    Examples
    --------
    >>> from labelgap.losses import Squared
    >>> labels = ObservedLabels.from_dense([[1, 1], [0, 1]])
    >>> U, M = np.array([[1.0], [-1.0]]), np.eye(1)
    >>> factors, intercept = fold_in_columns(U, labels, M, entry_loss=Squared(), answer_weight=0.5)
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
    held[:-1, :-1] = np.asarray(penalty) / answer_weight

    def offset(items: Ints, users: Ints) -> Floats:
        return np.asarray((U[users] @ base[mixed[items]][:, :, None])[:, :, 0])

    mixed = np.flatnonzero((likes > 0) & (likes < counts))
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
    return base + start[:, :-1], start[:, -1].copy()


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
