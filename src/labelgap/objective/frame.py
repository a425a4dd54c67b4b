"""What all parts of a data set must agree on before they can be added up, decided once from their moments.

The features are scaled, moved and rotated (:class:`Coordinates`): a rotation changes neither the trace norm
nor the Frobenius norm of W, a free intercept absorbs the centre, and in principal axes ``XᵀX`` is diagonal,
so that the solvers' diagonal preconditioner takes out the conditioning of the features. The sum of the losses
is divided by the weight of all entries; one-class labels are left out of it; the intercepts begin at the
labels' rates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.losses import Loss
from labelgap.objective.moments import (
    VANISHING,
    ColumnMoments,
    FeatureMoments,
    ObservedMoments,
    RootMoments,
    SecondMoments,
    UnlabelledMoments,
    can_have_axes,
)
from labelgap.objective.protocol import Factors

SCALINGS = ("none", "root", "standard")
# Scales this close to each other would change next to nothing.
_ALIKE = 2.0
# A spread below this fraction of the largest value of the column is no ground for a scale.
_ROUNDING = 1e-7
# A spread below this fraction is rounding alone: the mean of equal values differs from them by that much.
_NO_SPREAD = 64 * np.finfo(np.float64).eps
# Features with spreads below this are brought to 1: the curvature, which has the square of their unit, would
# vanish beside the numbers that the solvers add to it.
_SMALLEST_SPREAD = 1e-12
# Axes whose squared length is below this fraction of the largest are not found from products of rows, and
# below its root not without a second step.
_UNEVEN = 1e-9
# Directions of X below this fraction of the largest are dropped under a penalty on the scores (or below the
# precision that X came in): scores come back from W with a relative error of the machine's precision over
# this.
_CUTOFF = 1e-10


def feature_scales(columns: ColumnMoments, scaling: str, *, is_sparse: bool) -> Floats | None:
    """What to multiply each column of X with, or None where that would change next to nothing.

    A penalty on W treats all features alike, so their units matter: a feature that is multiplied by s needs a
    weight smaller by s for the same effect on the scores, and pays that much less. With spreads s_j of the
    columns and their quadratic mean s̄, the scale is ``s̄/s_j`` for "standard", which makes all spreads
    equal, and ``√(s̄/s_j)`` for "root", half the way there on a logarithmic scale. The spread is the standard
    deviation, for a sparse X the quadratic mean (its zeros are its centre). Columns without any spread keep
    their scale, and so do those whose spread is next to the smallest numbers there are. Where s̄ is extremely
    small, all scales are divided by it, so that the units of X do not matter.

    Examples
    --------
    >>> columns = ColumnMoments.of(np.array([[-1.0, 10.0], [1.0, -10.0]]))
    >>> feature_scales(columns, "standard", is_sparse=False).round(3)
    array([7.106, 0.711])
    """
    spreads = columns.spreads(centred=not is_sparse)
    # A spread without all its digits, or so small beside the others that its scale has none, is none either.
    informative = spreads > VANISHING * max(1.0, float(spreads.max(initial=0.0)))
    if not is_sparse:
        informative &= spreads > _ROUNDING * columns.largest
    if scaling == "none" or not informative.any():
        return None
    known = spreads[informative]
    largest = known.max()
    mean_spread = largest * np.sqrt(np.mean((known / largest) ** 2))
    ratios = mean_spread / known
    used = ratios if scaling == "standard" else np.sqrt(ratios)
    if used.max() <= _ALIKE * used.min():
        used = np.ones(len(known))
    if mean_spread < _SMALLEST_SPREAD:
        used = used / mean_spread
    elif used.max() == used.min():
        return None
    scales = np.ones(len(spreads))
    scales[informative] = used
    return scales


@dataclass(frozen=True)
class Coordinates:
    """How a row of features is taken: ``x ↦ (s∘x − c) V R⁻¹``."""

    n_features: int
    """The features that were handed in."""
    is_sparse: bool = False
    """Whether the rows are sparse, which a centre or a basis would end."""
    scales: Floats | None = None
    centre: Floats | None = None
    basis: Floats | None = None
    inverse: Floats | None = None
    """A left inverse of the basis; None for its transpose."""
    root: Floats | None = None
    """R, upper triangular and next to the identity; None for the identity.

    It is kept apart from the basis: multiplied into it, it would be lost to the rounding of ``x V``.
    """
    excess: float = 0.0
    """What the mean squared length of the rows is more than it is where they are meant to be.

    A sparse X is about 0. A dense X is about its centre, if a free intercept can absorb that. Wherever a fit
    is faster, the units of a ridge stay.
    """

    @property
    def n_coordinates(self) -> int:
        return self.n_features if self.basis is None else int(self.basis.shape[1])

    def to_original(self, factors: Factors) -> Factors:
        """The same model in the features that were handed in."""
        left, right, intercept = factors
        if self.root is not None:
            left = scipy.linalg.solve_triangular(self.root, left)
        if self.basis is not None:
            left = self.basis @ left
        if self.centre is not None:
            intercept = intercept - right @ (left.T @ self.centre)
        return Factors(left if self.scales is None else self.scales[:, None] * left, right, intercept)

    def from_original(self, factors: Factors) -> Factors:
        """The model in these coordinates, from one in the features that were handed in.

        It inverts :meth:`to_original`. Of a W that has components outside the span of the rows, it keeps what
        the rows can see.
        """
        left, right, intercept = factors
        if self.scales is not None:
            left = left / self.scales[:, None]
        if self.centre is not None:
            intercept = intercept + right @ (left.T @ self.centre)
        if self.basis is not None:
            left = (self.basis.T if self.inverse is None else self.inverse) @ left
        if self.root is not None:
            left = self.root @ left
        return Factors(left, right, intercept)


def decide_coordinates(
    moments: FeatureMoments,
    second: Callable[[], SecondMoments | None],
    *,
    scaling: str,
    penalty: str,
    centre: bool,
) -> Coordinates:
    """Coordinates for features with these moments.

    ``penalty`` "scores" makes the columns orthonormal, so that the trace norm is that of the scores;
    ``centre`` says whether a free intercept may absorb the mean. What is done to the features depends on how
    X was handed in; whether a fit then works on a dense array or on numbers that are stored is a matter of
    time alone, and the optimum is the same. ``second`` is asked where axes are wanted.
    """
    columns = moments.columns
    assert columns is not None
    if penalty == "scores":
        assert moments.root is not None
        return _whitening(moments.root)
    scales = feature_scales(columns, scaling, is_sparse=moments.is_sparse)
    d = len(columns.mean)
    factors = 1.0 if scales is None else scales
    moved = columns.mean * factors if centre else None
    # Squares that are no numbers say nothing below.
    with np.errstate(over="ignore"):
        square = 0.0 if moved is None else float(moved @ moved)
        spread = np.sum(np.square(columns.spreads(centred=True) * factors))
    # Rows far from 0 have more digits about their centre.
    if not moments.wants_dense and (moments.is_sparse or moved is None or square < spread):
        return Coordinates(d, True, scales, excess=0.0 if moments.is_sparse else square)
    excess = -square if moments.is_sparse else 0.0
    if centre and _only_rounding(columns):
        # One direction stays, with features and W of 0.
        return Coordinates(d, False, None, columns.mean, np.zeros((d, 1)), np.zeros((1, d)), excess=excess)
    found = second() if can_have_axes(moments.n_rows, d) else None
    basis = None if found is None else _principal_axes(found, scales, moved)
    return Coordinates(d, False, scales, moved, basis, excess=excess)


def _only_rounding(columns: ColumnMoments) -> bool:
    """Whether centred features would be rounding alone: they are constant, but not exactly zero."""
    spreads = columns.spreads(centred=True)
    return bool(np.any(spreads > 0) and np.all(spreads <= _NO_SPREAD * columns.largest))


def _principal_axes(second: SecondMoments, scales: Floats | None, centre: Floats | None) -> Floats:
    """Orthonormal columns that span the rows and make ``XᵀX`` diagonal."""
    if second.rows is None:
        gram = second.about_origin() if centre is None else second.gram
        assert gram is not None
        if scales is not None:
            gram = scales[:, None] * gram * scales
        return np.ascontiguousarray(scipy.linalg.eigh(gram)[1][:, ::-1])
    # More features than rows: W has no component outside the row space at the optimum.
    rows = second.rows if scales is None else second.rows * scales
    moved = rows if centre is None else rows - centre
    # Centred rows span one dimension less than there are rows.
    axes = _axes_by_products(moved, len(moved) - (centre is not None))
    if axes is not None:
        return axes
    Q, R = scipy.linalg.qr(moved.T, mode="economic")
    _, values, Vt = scipy.linalg.svd(R.T)
    # What is left over is rounding.
    rank = max(1, int(np.sum(values > len(values) * np.finfo(float).eps * values[0])))
    return np.ascontiguousarray(Q @ Vt[:rank].T)


def _axes_by_products(rows: Floats, rank: int) -> Floats | None:
    """The axes of rows that span so many dimensions; None where their products are too uneven to show them.

    It takes a third of the time of an orthogonal decomposition.
    """
    largest = float(np.abs(rows).max(initial=0.0))
    if largest == 0.0 or rank == 0:
        return None
    rows = np.divide(rows, largest, dtype=np.float64)
    squares, U = scipy.linalg.eigh(rows @ rows.T, driver="evd")
    squares, U = squares[::-1][:rank], U[:, ::-1][:, :rank]
    if squares[-1] <= _UNEVEN * squares[0]:
        return None
    V = rows.T @ (U / np.sqrt(squares))
    if squares[-1] <= np.sqrt(_UNEVEN) * squares[0]:
        # Small values cost digits of the right angles, which the products of the axes show.
        V = scipy.linalg.solve_triangular(scipy.linalg.cholesky(V.T @ V), V.T, trans="T").T
    return np.ascontiguousarray(V)


def _whitening(moments: RootMoments) -> Coordinates:
    """Coordinates in which the columns of X are orthonormal: the penalty ``‖XW‖_*`` as an ordinary trace
    norm.

    With the thin singular value decomposition ``X = U S Vᵀ`` and ``M = S VᵀW`` the scores are ``XW = UM``. U
    has orthonormal columns, so ``‖XW‖_* = ‖M‖_*`` and ``‖XW‖_F = ‖M‖_F``. A penalty on the scores (Lafond,
    2015) is thus a penalty on M for the features U, and solvers and duality gap need not know of it. With
    dependent features many W have the same scores; ``W = V S⁻¹ M`` is the one of smallest norm.
    """
    d = moments.root.shape[1]
    if len(moments.root) == 0:
        return Coordinates(d, basis=np.zeros((d, 1)), inverse=np.zeros((1, d)))
    _, values, Vt = scipy.linalg.svd(moments.root, full_matrices=False)
    # Without any signal in X one direction stays, with features and W of 0.
    cutoff = max(_CUTOFF, 8.0 * moments.precision)
    rank = max(1, int(np.sum(values > cutoff * values[0])))
    basis, inverse = np.zeros((d, 1)), np.zeros((1, d))
    if values[0] > 0:
        basis, inverse = Vt[:rank].T / values[:rank], values[:rank, None] * Vt[:rank]
    return Coordinates(d, basis=np.ascontiguousarray(basis), inverse=np.ascontiguousarray(inverse))


def orthonormal(coordinates: Coordinates, gram: Floats) -> Coordinates:
    """Whitening coordinates, corrected by the Gram matrix that the features turned out to have in them.

    A small singular value costs digits of the column that belongs to it. The Gram matrix shows which, and its
    Cholesky factor takes the error out of the columns as they were computed.
    """
    return replace(coordinates, root=scipy.linalg.cholesky(gram)) if gram.any() else coordinates


def scales_by_count(counts: NDArray[Any], power: float, mean: float | None = None) -> Floats:
    """``(m/mean m)^(−power/2)`` for each count m; a count of 0 is taken as 1.

    Under the trace norm of W a row with a small scale pays more for the same scores, so the penalty of its
    factor grows with m^power: the weighted trace norm of Srebro and Salakhutdinov (2010), which is to be
    preferred where a few rows and columns have most of the entries.

    Examples
    --------
    >>> scales_by_count(np.array([1, 4, 4]), 1.0).round(3).tolist()
    [1.732, 0.866, 0.866]
    """
    filled = np.maximum(np.asarray(counts, dtype=np.float64), 1.0)
    return np.asarray((filled / (filled.mean() if mean is None else mean)) ** (-0.5 * power))


def scales_by_positives(positives: NDArray[Any], power: float) -> Floats:
    """``c p^(−power/2)`` for each number p of positives; a number of 0 is taken as 1.

    With ``Z = X V diag(s)`` and a penalty on ``V = W diag(1/s)``, a label with few positives pays less for
    the same scores. Without it, the few directions that the trace norm leaves are those of the labels with
    most positives, whose gradients are largest. c makes the mean of ``s²`` over all positives 1: the gradient
    at W = 0, whose squares grow with p, keeps its size, and with it the scale of λ.

    Examples
    --------
    >>> scales_by_positives(np.array([1, 4, 4]), 1.0).round(3).tolist()
    [1.732, 0.866, 0.866]
    """
    filled = np.maximum(np.asarray(positives, dtype=np.float64), 1.0)
    powers = (filled / filled.max()) ** -power
    return np.asarray(np.sqrt(powers / np.average(powers, weights=filled)))


@dataclass(frozen=True)
class FeatureFrame:
    """What all parts agree on about the features of rows and labels."""

    coordinates: Coordinates | None
    """None where rows have no features."""
    n_rows: int
    mean_row_count: float
    """The mean number of a row's entries, with 1 for none."""
    label_scales: Floats | None
    """What the labels' own parameters are multiplied with; None for 1."""

    @classmethod
    def decide(
        cls,
        moments: FeatureMoments,
        second: Callable[[], SecondMoments | None] = lambda: None,
        *,
        scaling: str = "none",
        penalty: str = "weights",
        centre: bool = False,
        count_weighting: float = 0.0,
        label_weighting: float = 0.0,
    ) -> FeatureFrame:
        coordinates = None
        if moments.columns is not None:
            coordinates = decide_coordinates(moments, second, scaling=scaling, penalty=penalty, centre=centre)
        label_scales = (
            None if count_weighting == 0 else scales_by_count(moments.label_counts, count_weighting)
        )
        if label_weighting != 0:
            by_positives = scales_by_positives(moments.label_positives, label_weighting)
            label_scales = by_positives if label_scales is None else label_scales * by_positives
        return cls(coordinates, moments.n_rows, moments.filled_rows / max(moments.n_rows, 1), label_scales)

    @property
    def excess(self) -> float:
        """What the mean squared length of the rows is more than it is where they are meant to be."""
        return 0.0 if self.coordinates is None else self.coordinates.excess


@dataclass(frozen=True)
class Frame:
    """Everything that a part needs to know of the whole to build its objective."""

    features: FeatureFrame
    total: float
    """What the sum of the losses is divided by."""
    informative: NDArray[np.bool_]
    """Which labels take part in the sum."""
    starting_intercept: Floats
    flip_rates: Floats | None = None
    """For recorded positives alone: the fraction of positives that is not recorded, per label."""
    n_counted: NDArray[np.int64] | None = None
    """Where all entries count: how many entries of each label do."""


def observed_frame(
    features: FeatureFrame, moments: ObservedMoments, loss: Loss, *, fit_intercept: bool, free_intercept: bool
) -> Frame:
    """The frame of a mean over observed entries.

    A label whose values all lie on one edge (one class only; counts that are all 0) has its optimum at
    ``w_j = 0`` with an intercept that makes its loss vanish, at infinity for most losses. So with a free
    (unpenalised) intercept its entries are left out of the sum and its intercept is set from a smoothed rate,
    ``link((positives + ½)/(observed + 1))`` for yes and no. A label without observations gets the overall
    rate.
    """
    n_labels = len(moments.labels.count)
    if not fit_intercept:
        return Frame(features, moments.total, np.ones(n_labels, dtype=np.bool_), np.zeros(n_labels))
    rates, informative = moments.labels.rates()
    start = np.asarray(loss.link(rates), dtype=np.float64)
    if moments.offsets is not None:
        # The mean offset of each label's entries, for a start; Newton's method does the rest.
        start = start - moments.offsets / np.maximum(moments.labels.count, 1)
    kept = informative if free_intercept else np.ones(n_labels, dtype=np.bool_)
    return Frame(features, moments.total, kept, start)


def unlabelled_frame(
    features: FeatureFrame,
    moments: UnlabelledMoments,
    loss: Loss,
    flip_rate: Floats,
    *,
    thinned: bool,
    fit_intercept: bool,
    free_intercept: bool,
) -> Frame:
    """The frame of the mean unbiased loss over all entries, from the recorded positives.

    Where a fraction s of the recorded positives and a fraction t of all entries are left, as a fold of a
    sample of entries leaves them, positives are rarer than in truth by s/t, and the flip rate is ``1 − (1 −
    ρ) s/t``. With ``thinned`` no entry is left out: positives that are not recorded here count as unlabelled.

    A label without a recorded positive has its best intercept at −∞, and one with all rows recorded at +∞:
    with a free intercept they are left out of the sum, and their intercepts come from the smoothed rates
    ``½/(n + 1)``, corrected by the flip rate, and ``(n + ½)/(n + 1)``.
    """
    n, n_labels = moments.n_rows, len(moments.recorded)
    total = float(n * n_labels - moments.held.sum())
    rows, counts = n - moments.held, moments.recorded
    if thinned:
        thinning = float(counts.sum() / max(moments.all_recorded, 1))
    else:
        left = moments.all_recorded - moments.held_recorded
        thinning = left / max(moments.all_recorded, 1) * (n * n_labels / max(total, 1.0))
    rho = possible_flip_rates(counts, rows, np.maximum(1.0 - (1.0 - flip_rate) * thinning, 0.0))
    start = np.zeros(n_labels)
    informative = np.ones(n_labels, dtype=np.bool_)
    if fit_intercept:
        smallest = 0.5 / (rows + 1.0)
        rates = np.where(counts > 0, counts / np.maximum(rows, 1), smallest) / (1.0 - rho)
        start = np.asarray(loss.link(np.minimum(rates, 1 - smallest)), dtype=np.float64)
        if free_intercept:
            informative = (counts > 0) & (counts < rows)
    return Frame(features, total, informative, start, rho, rows)


def possible_flip_rates(recorded: NDArray[np.int64], rows: NDArray[np.int64], flip_rate: Floats) -> Floats:
    """The flip rates, lowered where a label has more recorded positives than they allow.

    A rate ρ says that there are ``recorded/(1 − ρ)`` positives in truth, which cannot be more than rows: with
    more, the loss of some labels would fall without limit in their intercept. The positives may be as large a
    fraction of the rows as the smoothed rate of a label that is all yes, ``(n + ½)/(n + 1)``.
    """
    most = np.maximum(rows, 1) * (rows + 0.5) / (rows + 1.0)
    return np.asarray(np.minimum(flip_rate, np.maximum(1.0 - np.maximum(recorded, 0.5) / most, 0.0)))
