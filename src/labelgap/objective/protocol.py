"""The data term as the solvers see it.

The scores are ``Z = X W Fᵀ + 1bᵀ``, with X the features of the rows and F those of the labels (usually the
identity). A solver knows nothing of losses, kernels or where the entries live. It asks an :class:`Objective`
for the data term at a low-rank ``W = A Bᵀ`` and an intercept ``b``, and gets a :class:`Point` that answers
every further question there (gradient, curvature, dual) without repeating work. All answers are sums over the
entries, so a sum of objectives, over several terms or over the parts of a data set, is an objective again
(:mod:`labelgap.objective.sum`). What parts have to agree on is in :mod:`labelgap.objective.frame`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

from array_api_compat import array_namespace, device

from labelgap._types import Floats


class Factors(NamedTuple):
    """A low-rank parameter ``W = left @ right.T`` (d x k, r x k) with one intercept per label.

    Also used for a direction in that space and for a gradient with respect to it.
    """

    left: Floats
    right: Floats
    intercept: Floats

    @property
    def rank(self) -> int:
        return int(self.left.shape[1])

    @classmethod
    def zero(cls, shape: tuple[int, int], intercept: Floats) -> Factors:
        """``W = 0``, in the namespace and precision of the intercept."""
        xp = array_namespace(intercept)
        kind = {"dtype": intercept.dtype, "device": device(intercept)}
        left, right = (xp.zeros((length, 0), **kind) for length in shape)
        return cls(left, right, xp.asarray(intercept, copy=True))


@runtime_checkable
class ScoreGradient(Protocol):
    """The gradient ``G`` of the data term with respect to the scores, on the entries, as a linear map."""

    def left_product(self, V: Floats) -> Floats:
        """``Xᵀ G F V`` (a row for each of W)."""
        ...

    def right_product(self, U: Floats) -> Floats:
        """``Fᵀ Gᵀ X U`` (a row for each column of W)."""
        ...

    def matrix(self) -> Floats:
        """``Xᵀ G F`` as a dense array like W, for callers that know it to be small."""
        ...

    def label_capacity(self, scale: float) -> Floats | None:
        """Sums over each label's entries (3 x L) that :meth:`conjugate` must know of all parts together.

        None where the conjugate of a part does not depend on the other parts.
        """
        ...

    def conjugate(self, scale: float, capacity: Floats | None = None) -> float:
        """``f*(scale · G)``, the convex conjugate of the data term as a function of the scores.

        A term that comes with a bound γ on every ``|XWFᵀ|`` may change G to a G' in the conjugate's domain
        and answer ``f*(G') + γ‖scale · G − G'‖₁``, which bounds the same optimum. ``capacity`` is the sum of
        :meth:`label_capacity` over all parts; None where this is the only one.
        """
        ...


@runtime_checkable
class Point(Protocol):
    """The data term at one ``(A, B, b)``."""

    @property
    def factors(self) -> Factors: ...

    @property
    def value(self) -> float:
        """``f(XABᵀFᵀ + 1bᵀ)``."""
        ...

    @property
    def size(self) -> float:
        """The sum of the terms' absolute values: what a relative gap is relative to, at least."""
        ...

    def gradient(self) -> Factors:
        """With respect to A, B and b."""
        ...

    def hessian_product(self, direction: Factors) -> Factors:
        """The full Hessian in (A, B, b) times a direction, the cross term through G included."""
        ...

    def hessian_diagonal(self) -> Factors:
        """The diagonal of that Hessian (never negative: the cross term has none)."""
        ...

    def curvature_along(self, U: Floats, V: Floats) -> Floats:
        """Second derivative of f along each rank-one ``u vᵀ`` in W (columns of U and V)."""
        ...

    def label_curvature(self) -> Floats:
        """Second derivative of f in each label's intercept."""
        ...

    def signed_label_sums(self) -> tuple[Floats, Floats]:
        """Per label, the sums of two parts of G, one ≥ 0 and one ≤ 0 (intercept terms only).

        They say how much there is to cancel; for observed entries, the positive and the negative ones.
        """
        ...

    def score_gradient(
        self, sums: tuple[Floats, Floats] | None = None, *, balanced: bool = False
    ) -> ScoreGradient:
        """G, or with ``balanced`` a G that sums to 0 in every label, as a free intercept demands.

        ``sums`` are the :meth:`signed_label_sums` of all parts together; None where this is the only one.
        They say how to balance: usually by shrinking the heavier sign of each label
        (:func:`zero_sum_factors`), which keeps every entry in the domain of the conjugate whatever the loss.
        """
        ...

    def with_intercept(self, intercept: Floats) -> Point:
        """The same W with another b, for the price of the losses alone."""
        ...

    def beyond(self, previous: Point, step: float) -> Point:
        """At ``W + step (W − W_previous)``, b likewise; scores are linear, so only losses are computed."""
        ...

    def slope_towards(self, other: Point) -> float:
        """``⟨∇f, W_other − W⟩``, the derivative along the way to another point's W (b held)."""
        ...


@runtime_checkable
class Objective(Protocol):
    """A smooth convex function of the scores on some entries."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of W."""
        ...

    @property
    def n_labels(self) -> int:
        """The length of the intercept; the columns of W too, unless labels have features."""
        ...

    @property
    def n_stored(self) -> int:
        """Numbers that the data take (entries and features): the yardstick for what may be allocated."""
        ...

    @property
    def xp(self) -> Any:
        """The array namespace (array API) of all arrays that it takes and gives: numpy's, torch's."""
        ...

    @property
    def dtype(self) -> Any:
        """The floating-point type of those arrays."""
        ...

    @property
    def may_form(self) -> bool:
        """Whether a dense array of W's shape may be made: it fits beside the data, and its SVD is cheap."""
        ...

    @property
    def has_intercept(self) -> bool: ...

    @property
    def bounds(self) -> ScoreBounds | None:
        """The constraint on the scores, where there is one."""
        ...

    def starting_intercept(self) -> Floats:
        """The best intercept at W = 0 (zeros without one)."""
        ...

    def at(self, factors: Factors, product: Floats | None = None) -> Point:
        """The data term there; ``product`` is ABᵀ, for a caller who has made it, and saves some work."""
        ...

    def rowwise(self, dtype: Any) -> Rowwise | None:
        """Newton steps row by row in that precision; None where the objective has none.

        There are none where the rows share features, or the loss has no compiled form.
        """
        ...


class ScoreBounds(Protocol):
    """The constraint ``|(XWFᵀ)_ij| ≤ γ`` on every entry, observed or not, for the method of multipliers.

    The entries that are held to the bound, with their multipliers, are the objective's own; a solver hands
    them from one method to the next.
    """

    @property
    def bound(self) -> float:
        """γ."""
        ...

    @property
    def stiffness(self) -> float:
        """The curvature of the smooth term to begin with, a few times that of an entry's loss."""
        ...

    def start(self) -> Any:
        """The entries that are held from the beginning."""
        ...

    def with_term(self, objective: Objective, entries: Any, stiffness: float) -> Objective:
        """The objective that the bounds belong to, plus a smooth term for the constraint on these entries."""
        ...

    def next(self, entries: Any, point: Point, beyond: Any) -> Any:
        """The entries to hold next, from a point of that sum and those found beyond the bound."""
        ...

    def scan(self, factors: Factors) -> tuple[float, Any]:
        """The largest |score|, and the entries beyond the bound."""
        ...

    def conjugate(self, gradient: ScoreGradient, scale: float, capacity: Floats | None = None) -> float:
        """The conjugate of the data term and the constraint itself at the gradient of that sum.

        With a the gradient of the smooth term, ``f*(scale · G) + γ Σ|scale · a|``, or less. ``capacity`` is
        as in :meth:`ScoreGradient.conjugate`.
        """
        ...


class FactorPenalties(Protocol):
    """λ, λ₂, and the penalty κ that holds the intercepts to a centre."""

    @property
    def trace(self) -> float: ...

    @property
    def ridge(self) -> float: ...

    @property
    def intercept(self) -> float: ...

    @property
    def centre(self) -> float: ...


class RowwiseState(Protocol):
    """Factors in the form and precision that steps row by row work on."""

    def balance(self) -> None:
        """The same scores at the least penalty."""
        ...

    def factors(self) -> Factors: ...


class Rowwise(Protocol):
    """Steps for all labels at once, and for all rows at once, where each has entries of its own."""

    quadratic_in_rank: bool
    """Whether the cost of a step grows with the square of the rank: each row has a system of its own."""

    def start(self, factors: Factors) -> Any:
        """A :class:`RowwiseState` made from the factors, for the other methods."""
        ...

    def step_labels(self, at: Any, penalties: FactorPenalties, relaxation: float = 1.0) -> float:
        """A Newton step for every label's (B_j, b_j), in place; the penalised objective can only fall.

        Returns by how much, as far as the second-order model tells. ``relaxation`` between 1 and 1.4 makes
        steps longer where that is safe (over-relaxation).
        """
        ...

    def step_rows(self, at: Any, penalties: FactorPenalties, relaxation: float = 1.0) -> float:
        """The same for every row's A_i."""
        ...


def zero_sum_factors(xp: Any, up: Any, down: Any) -> tuple[Any, Any]:
    """Per label, factors for the positive and the negative part of G with which they cancel.

    The heavier sign is shrunk. ``up`` and ``down`` are the sums of the two parts, ``xp`` their namespace.
    """
    weight, other = up, -down
    lighter = xp.minimum(weight, other)
    one = xp.ones_like(weight)
    return (
        xp.where(weight > 0, lighter / xp.where(weight > 0, weight, one), one),
        xp.where(other > 0, lighter / xp.where(other > 0, other, one), one),
    )


def extrapolated(xp: Any, here: Factors, before: Factors, step: float) -> Factors:
    """``W + step (W − W_before)``, b likewise."""
    return Factors(
        xp.concat([here.left, before.left], axis=1),
        xp.concat([(1 + step) * here.right, -step * before.right], axis=1),
        here.intercept + step * (here.intercept - before.intercept),
    )


# A matrix of fewer numbers than this is small whatever the data.
_SMALL = 1 << 16
# The shorter side of the largest matrix whose singular value decomposition is a matter of one Gram matrix.
_SHORT_SIDE = 2048
# Arrays of a block's size that are alive at one time (scores, losses, slopes, curvatures and their workings).
_ARRAYS = 8
# Entries in a block at most: its arrays stay in the cache, and there are blocks for every thread.
_MOST_ENTRIES = 1 << 14
# Arrays of n·L numbers that are alive at one time where the scores are kept: scores and slopes of the points
# on a solver's way, multipliers, and workings.
_KEPT_ARRAYS = 24
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


def entries_kept_within(megabytes: float) -> int:
    """Of how many entries the scores may be kept, so that all arrays of that size take at most so much."""
    return int(megabytes * 1e6 / (8 * _KEPT_ARRAYS))
