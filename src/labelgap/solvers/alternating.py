"""Alternating minimisation at a fixed rank, the method of LEML (Yu et al., 2014) and of the paper.

With ``W = A Bᵀ`` of k columns each,

    F(A, B, b) = f(XABᵀ + 1bᵀ) + λ/2 (‖A‖² + ‖B‖²) + λ₂/2 ‖ABᵀ‖²

is convex in (B, b) for a fixed A, and in A for a fixed (B, b). A sweep lowers the two in this order. Where
every row and every label has entries of its own, it is one Newton step for each of them, all at once;
elsewhere it is two convex problems solved by conjugate gradients. Users and items without features have a
small problem each, so a sweep costs about as much as two passes over the entries, and a few sweeps are enough
for a model that predicts well: the fastest way to one at a given rank.

Where each row has a system of its own, the cost of a sweep grows with the square of the number of columns.
There the first two sweeps have a quarter of them: the leading directions of the gradient at W = 0. They make
most of the way, in a fraction of the time. The other columns are then found from the gradient there.

The last digits, and with them the duality gap, come slowly: a sweep never sees how A and B would move
together. The same F is minimised over all variables at once, with a rank that finds itself, by
:mod:`labelgap.solvers.factored`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from array_api_compat import device, is_numpy_namespace
from sklearn.utils import check_random_state

from labelgap.exceptions import InvalidParameterError
from labelgap.objective.protocol import Factors, Objective, Point, Rowwise
from labelgap.solvers import newton
from labelgap.solvers.certificate import Certificate, Penalties, Wanted, certify_to_tolerance
from labelgap.solvers.linalg import (
    Array,
    contiguous,
    leading_eigenvectors,
    like,
    namespace,
    product_values,
    rotated,
    rounding,
    smallest,
    standard_normal,
    thin_qr,
    zeros_like,
)
from labelgap.solvers.loop import (
    Callback,
    Checkpoint,
    Fit,
    Method,
    State,
    balanced_factors,
    factors_from,
    factors_state,
    run,
    scalars,
    starting_factors,
)
from labelgap.solvers.newton import BlockState, FactoredState

_CERTIFY_EVERY = 5
# A sweep that gains less than this fraction of the tolerance is the last one with these columns. The run goes
# on with others while they leave less than that fraction of the gap.
_NOTHING, _CLOSING = 0.01, 0.5
# While sweeps gain this fraction of the objective, the gap is far from closed and need not be computed.
_FAR = 1e-2
# Where the steepest direction is below this fraction of λ, as far as is known, W = 0 may be the answer.
_SHALLOW = 1.1
# Accuracies of σ₁: for a gap that is far from closed, and as a fraction of the tolerance.
_ROUGH, _FINE = 0.1, 0.03
# A gap of so many times the accuracy is mostly its own.
_WIDE = 5.0
# Directions of W below this fraction of the largest are dead.
_DEAD = 1e-6

# Fraction of a block's gradient that the conjugate gradients leave, and that a half-sweep may leave.
_FORCING, _HALF_SWEEP = 0.1, 0.2
_MAX_NEWTON_STEPS = 10
# The trust region's first radius in preconditioned gradient steps: a convex problem hardly needs one.
_WIDE_RADIUS = 1e6
# Over-relaxation, which alternation gains from: how much longer than to the minimum a step is.
_RELAXATION = 1.4
# The least relative gap that single precision is good for.
_SINGLE = 1e-4

# The sweeps that have fewer columns than the fit may have, what fraction of them, and how many at least.
_NARROW_SWEEPS, _NARROW, _LEAST_COLUMNS = 2, 4, 8
# Steps of subspace iteration for new columns, and how many more than are kept take part: the last ones of a
# subspace are the least accurate. A step costs two products, much less than a sweep, and saves sweeps.
_SUBSPACE_STEPS, _MORE_COLUMNS = 3, 8
# Units of rounding of the largest value below which one is nothing but noise; rows squared at a time.
_NOISE, _ROWS = 64, 1 << 14
# Numbers in the data from which on the start is found in single precision, which is twice as fast.
_LARGE = 1 << 20
# The largest singular value found, as a fraction of λ, below which no direction can lower the objective: it
# is a lower bound, but a close one.
_HOPELESS = 0.9

# The blocks of (A, B, b) that a sweep moves.
FEATURES, LABELS = (0,), (1, 2)


class AlternatingMethod(Method):
    """Sweeps at a fixed rank, after the first ones at a smaller one, with a certificate now and then."""

    def __init__(self, *problem: Any, random_state: Any, **options: Any) -> None:
        super().__init__(*problem, **options)
        self._random_state = random_state
        self._narrow = False
        self._steps: Rowwise | None = None
        self._sweeps: Sweeps | None = None
        self._factors: Factors | None = None
        self._died_out = self._due = False
        # The relative gap where the steps died out last, and whether new columns have hardly closed it.
        self._gap_at_end, self._hopeless = math.inf, False

    def begin(self, start: Factors | None, kept: State | None) -> None:
        if kept is not None:
            self._factors = self._start = starting_factors(self._objective, factors_from(kept))
            self._steps = rowwise_steps(self._objective, self._tol)
            self.iteration, self._scale = int(kept["rounds"]), float(kept["scale"])
            self._gap_at_end, self._due = float(kept["gap_at_end"]), True
            return
        first = balanced_factors(starting_factors(self._objective, start), self._cap)
        point = self._objective.at(first)
        self._scale = max(abs(point.value), point.size)
        self._steps = rowwise_steps(self._objective, self._tol)
        columns = self._cap
        if first.rank == 0 and self._steps is not None and self._steps.quadratic_in_rank:
            columns = min(self._cap, max(_LEAST_COLUMNS, self._cap // _NARROW))
            self._narrow = columns < self._cap
        wide, steepest = with_leading_columns(
            self._objective, self._penalties, point, columns, self._random_state
        )
        # The same W without the new columns, for the first certificate. It may be good enough already.
        self._factors, self._start = first, wide
        self._due = start is not None or steepest <= _SHALLOW * self._penalties.trace

    def snapshot(self) -> Mapping[str, Array] | None:
        if not self._due or self._died_out or self._narrow or self._sweeps is None:
            return None
        self._sweeps.restart(self.factors)
        numbers = scalars(rounds=self.iteration, scale=self._scale, gap_at_end=self._gap_at_end)
        return {**factors_state(self.factors), **numbers}

    @property
    def factors(self) -> Factors:
        if self._factors is None:
            assert self._sweeps is not None
            self._factors = self._sweeps.factors()
        return self._factors

    @property
    def due(self) -> bool:
        return self._due

    def certify(self) -> Certificate:
        point = self._objective.at(self.factors)
        found = certify_to_tolerance(self._objective, point, self._penalties, self._tol, wanted=self._wanted)
        if self.iteration:
            self._scale = found.scale
        if self._died_out:
            self._hopeless = found.relative_gap > _CLOSING * self._gap_at_end
            self._gap_at_end = found.relative_gap
        return found

    @property
    def _wanted(self) -> Wanted:
        if self._died_out:
            # The last certificate says how far the run came.
            return "the gap"
        # A run that was told how many sweeps to make need not know how far it came, to the digit.
        return "a bound" if self.exhausted and not self._due else "a decision"

    def step(self, stopping: Callable[[], bool]) -> None:
        if self._died_out or (self._narrow and self.iteration >= _NARROW_SWEEPS):
            self._widen()
        if self._sweeps is None:
            self._sweeps = make_sweeps(self._objective, self._penalties, self._start, self._steps)
            del self._start
        gained = self._sweeps.sweep()
        self.iteration += 1
        self._died_out = not self._narrow and gained <= _NOTHING * self._tol * self._scale
        near = self.iteration % _CERTIFY_EVERY == 0 and gained <= _FAR * self._scale
        self._due = near or self._died_out
        self._factors = None

    def _widen(self) -> None:
        """Continue with all columns, the new ones along the steepest directions from here."""
        objective, penalties = self._objective, self._penalties
        # Without the columns that have died out.
        factors = balanced_factors(self.factors, self._cap)
        # Each holds factors of its own.
        self._factors = self._sweeps = None
        wide = with_leading_columns(
            objective, penalties, objective.at(factors), self._cap, self._random_state
        )
        self._start = wide.factors
        self._narrow = False

    def close(self) -> None:
        self._steps = self._sweeps = None

    @property
    def stalled(self) -> bool:
        # Below the cap, columns along other directions may close a gap that is still open.
        return self._died_out and (self._hopeless or self.capped)

    @property
    def settled(self) -> bool:
        return self._died_out

    @property
    def capped(self) -> bool:
        values = product_values(self.factors.left, self.factors.right, cutoff=_DEAD)
        return int(values.shape[0]) == self._cap < self._full


def solve_alternating(
    objective: Objective,
    penalties: Penalties,
    *,
    rank: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
    warm_start: Factors | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
    random_state: Any = 0,
) -> Fit:
    """Alternate between (B, b) and A until the gap is ``tol``, or a sweep gains less than a hundredth of it.

    ``rank`` is the number of columns and must be given; ``max_iter`` bounds the sweeps. Columns that the warm
    start leaves to fill begin with the leading directions of the gradient, found from random ones. That the
    steps died out is what ``converged`` says here. How far the optimum over all W can be is for the duality
    gap to say; a gap within ``tol`` ends the run too.
    """
    if rank is None:
        raise InvalidParameterError(
            "Alternating minimisation needs a fixed rank: give rank=, the number of columns of the factors. "
            "The solvers 'factored' and 'proximal' find the rank by themselves."
        )
    method = AlternatingMethod(
        objective, penalties, rank=rank, tol=tol, max_iter=max_iter, random_state=random_state
    )
    return run(method, tol=tol, warm_start=warm_start, callback=callback, checkpoint=checkpoint)


# -- sweeps ----------------------------------------------------------------------------------------------


class Sweeps(Protocol):
    """Sweeps from a place to the next, each at a lower objective."""

    def sweep(self) -> float:
        """One sweep; returns what it gained, or about as much."""
        ...

    def factors(self) -> Factors:
        """Where the sweeps have come to, balanced."""
        ...

    def restart(self, start: Factors) -> None:
        """Continue from ``start``, as a run that begins there would."""
        ...


def rowwise_steps(objective: Objective, tol: float) -> Rowwise | None:
    """Steps row by row, as precise as the tolerance needs; None where rows share parameters."""
    return objective.rowwise(objective.xp.float32 if tol >= _SINGLE else objective.dtype)


def make_sweeps(objective: Objective, penalties: Penalties, start: Factors, steps: Rowwise | None) -> Sweeps:
    """The fastest sweeps that the objective allows for, with its steps row by row where it has them."""
    if steps is None:
        return BlockSweeps(objective, penalties, start)
    return RowSweeps(steps, penalties, start)


class RowSweeps:
    """Sweeps of Newton steps row by row."""

    _at: Any
    _relaxation: float

    def __init__(self, steps: Rowwise, penalties: Penalties, start: Factors) -> None:
        self._steps, self._penalties = steps, penalties
        self.restart(start)

    def sweep(self) -> float:
        gained = self._steps.step_labels(self._at, self._penalties, self._relaxation)
        gained += self._steps.step_rows(self._at, self._penalties, self._relaxation)
        self._at.balance()
        self._relaxation = _RELAXATION
        return gained

    def factors(self) -> Factors:
        factors: Factors = self._at.factors()
        return factors

    def restart(self, start: Factors) -> None:
        self._at = self._steps.start(start)
        # Columns that begin with B = 0 have nothing to relax. In those that have died out A is 0, too.
        any_of = namespace(start.right).any
        new = any_of(start.left != 0, axis=0) & ~any_of(start.right != 0, axis=0)
        self._relaxation = 1.0 if start.rank == 0 or bool(any_of(new)) else _RELAXATION


class BlockSweeps:
    """Sweeps of two convex problems, each by Newton's method with conjugate gradients."""

    def __init__(self, objective: Objective, penalties: Penalties, start: Factors) -> None:
        self._objective, self._penalties, self._factors = objective, penalties, start

    def sweep(self) -> float:
        problem = self._objective, self._penalties
        before = FactoredState(*problem, self._objective.at(self._factors))
        point = minimise_block(*problem, before.point, LABELS).point
        after = minimise_block(*problem, point, FEATURES)
        self._factors = balanced_factors(after.x, self._factors.rank)
        return before.value - after.value

    def factors(self) -> Factors:
        return self._factors

    def restart(self, start: Factors) -> None:
        self._factors = start


def minimise_block(
    objective: Objective,
    penalties: Penalties,
    point: Point,
    block: tuple[int, ...],
    *,
    forcing: float = _FORCING,
    left: float = _HALF_SWEEP,
) -> BlockState:
    """Half a sweep: minimise over a block of (A, B, b) until a fraction ``left`` of its gradient is left.

    ``forcing`` is the fraction that the conjugate gradients of one Newton step leave. Where F is quadratic in
    the block, one step leaves no more than that.
    """
    state = BlockState(objective, penalties, point, block)
    first = state.slope()
    radius = _WIDE_RADIUS * first
    for _ in range(_MAX_NEWTON_STEPS):
        report = newton.minimise(
            state, enough=math.inf, max_steps=_MAX_NEWTON_STEPS, radius=radius, forcing=forcing
        )
        state, radius = report.state, report.radius
        if report.decrease <= 0 or state.slope() <= left * first:
            break
    return state


# -- the first columns -----------------------------------------------------------------------------------


class Start(NamedTuple):
    """Factors to begin with, and about the largest singular value of the gradient."""

    factors: Factors
    steepest: float


def with_leading_columns(
    objective: Objective, penalties: Penalties, point: Point, cap: int, random_state: Any
) -> Start:
    """Fill A up to ``cap`` columns, with zeros in B: the same W, with capacity to grow.

    The new columns are about the leading left singular vectors of the gradient outside of the spans of A and
    B, from random vectors and a few steps of subspace iteration. Each is as long as the root of the singular
    value ``(σ - λ)/c`` that a proximal step would give it, where c is the curvature along the first of them:
    then the sweep's first step in B balances the two factors. A longer column would be shrunk less than the
    trace norm shrinks it, and columns that are mostly noise would come in too strong. Where no direction
    lowers the objective from W = 0, no columns are needed.
    """
    xp, factors = objective.xp, point.factors
    missing = cap - factors.rank
    if missing <= 0:
        return Start(factors, math.inf)
    gradient = point.score_gradient()
    count = min(missing + _MORE_COLUMNS, *objective.shape)
    example = factors.right
    if objective.n_stored >= _LARGE and is_numpy_namespace(xp):
        # Other namespaces multiply only arrays of one precision.
        example = xp.zeros(0, dtype=xp.float32)
    # Within the spans the gradient balances the penalties, and is no smaller than they are.
    spans = [
        like(thin_qr(factor)[0], example) if factors.rank else None
        for factor in (factors.left, factors.right)
    ]
    V = standard_normal(check_random_state(random_state), (objective.shape[1], count), example)
    V = _outside(V, spans[1])
    for _ in range(_SUBSPACE_STEPS):
        U = _principal(_outside(gradient.left_product(V), spans[0]), xp).vectors
        # As large as a factor, and there will be another one.
        del V
        V = _principal(_outside(gradient.right_product(U), spans[1]), xp).vectors
        del U
    leading = _principal(_outside(gradient.left_product(V), spans[0]), xp)
    # It holds a copy of its entries, and these are as large as the factors.
    del gradient, spans
    steepest = float(leading.values[0])
    if steepest <= _HOPELESS * penalties.trace and not factors.rank:
        return Start(factors, steepest)
    along = (
        contiguous(like(part, factors.left)) for part in (leading.vectors[:, :1], V @ leading.rotation[:, :1])
    )
    curvature = float(point.curvature_along(*along)[0]) + penalties.ridge
    values = leading.values[:missing]
    surplus = xp.maximum(values - penalties.trace, (1 - _HOPELESS) * values)
    lengths = xp.sqrt(surplus / max(curvature, smallest(factors.left)))
    left = like(lengths, factors.left) * like(leading.vectors[:, :missing], factors.left)
    right = zeros_like(like(V[:, :missing], factors.right))
    # Each of these is as large as a factor.
    del leading, point, V
    if factors.rank:
        left = xp.concat([factors.left, left], axis=1)
        right = xp.concat([factors.right, right], axis=1)
    return Start(Factors(left, right, factors.intercept), steepest)


def _outside(M: Array, span: Array | None) -> Array:
    """What is left of the columns of M without their parts in the span of orthonormal columns.

    M is overwritten: it is as large as a factor, and so would copies be.
    """
    if span is None:
        return M
    M -= span @ (span.T @ M)
    return M


class _Principal(NamedTuple):
    """``M rotation = vectors · values``, values descending; a vector of next to no value is 0."""

    vectors: Array
    values: Array
    rotation: Array


def _gram(M: Array, xp: Any) -> Array:
    """``MᵀM`` in double precision, which squares of numbers in single precision need; some rows at a time."""
    if M.dtype == xp.float64:
        return M.T @ M
    total = xp.zeros((M.shape[1], M.shape[1]), dtype=xp.float64, device=device(M))
    for start in range(0, M.shape[0], _ROWS):
        some = xp.astype(M[start : start + _ROWS, :], xp.float64)
        total += some.T @ some
    return total


def _principal(M: Array, xp: Any) -> _Principal:
    """By the Gram matrix: half the digits are plenty for a start, and it is one matrix product.

    M is overwritten, too.
    """
    # Scaled: squares of small numbers would underflow.
    largest = max(float(xp.max(M)), -float(xp.min(M))) or 1.0
    M /= largest
    squares, rotation = leading_eigenvectors(_gram(M, xp), M.shape[1])
    values, rotation = xp.sqrt(xp.clip(squares, 0.0, None)), contiguous(like(rotation, M))
    # Squares have half the digits. A column of 0 would stay so, and a fit without a trace penalty needs all.
    known = values > max(4 * math.sqrt(rounding(values)), _NOISE * rounding(M)) * values[0]
    inverse = like(xp.where(known, 1.0 / xp.where(known, values, 1.0), 0.0), M)
    return _Principal(rotated(M, rotation * inverse), largest * values, rotation)
