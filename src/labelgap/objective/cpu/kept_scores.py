"""The positive-unlabelled objective of the logistic loss with all n·L scores kept, where memory allows.

It is the sum of :mod:`labelgap.objective.unlabelled`, with the term that holds the scores to their bound,
as one function of each entry. A point keeps the scores and the slopes at all entries, and one pass over them
gives everything but the dual; so a step of a solver makes a few calls instead of one for each term.

The dual: ``Xᵀ T F`` with T the slopes of the losses and of the bound's term together. Any split
``scale · T = G' + A`` with G' in the domain of f* and with the label sums that the intercept demands bounds
the optimum by ``f*(G') + γ‖A‖₁``. The losses' own slopes, moved into the domain, are the G' that is taken.
"""

from __future__ import annotations

import copy
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.kernels.unlabelled_passes import Hold, UnlabelledPasses
from labelgap.losses import Logistic, Loss
from labelgap.objective.cpu.design import Design, DesignGradient, DesignPoint, NumpyTerm
from labelgap.objective.cpu.features import IdentityFeatures
from labelgap.objective.cpu.score_bound import stiffness_for
from labelgap.objective.frame import Frame
from labelgap.objective.protocol import (
    Factors,
    Objective,
    Point,
    ScoreGradient,
    extrapolated,
)

# Sums over a label's entries agree to this fraction of what is summed.
_ROUNDING = 1e-12


def can_keep_scores(loss: Loss) -> bool:
    """Whether there is a compiled pass for the loss."""
    return type(loss) is Logistic


class KeptScoresObjective(NumpyTerm):
    """The unbiased logistic loss over all entries, and where ``hold`` is given the term of the bound."""

    def __init__(
        self,
        design: Design,
        kinds: NDArray[np.int8],
        frame: Frame,
        bound: float | None,
        *,
        has_intercept: bool,
    ) -> None:
        assert frame.flip_rates is not None
        self.design, self.kinds, self.frame, self.total = design, kinds, frame, frame.total
        self.has_intercept = has_intercept
        self.hold: Hold | None = None
        self.shape, self.n_labels = design.shape, design.n_labels
        # Every entry is data here, recorded or not.
        self.n_stored = design.n_stored + kinds.size
        self.score_bound = bound
        self._no_intercept = np.zeros(self.n_labels)
        self.passes = UnlabelledPasses(kinds, frame.flip_rates / (1.0 - frame.flip_rates), frame.total, bound)
        self.bounds = None if bound is None else KeptScoresBounds(self, bound)

    def holding(self, hold: Hold) -> KeptScoresObjective:
        """The same with the term that holds the scores to the bound."""
        other = copy.copy(self)
        other.hold, other.bounds = hold, None
        other.__dict__.pop("conjugate_at_zero", None)
        return other

    def starting_intercept(self) -> Floats:
        return self.frame.starting_intercept.copy()

    def low_rank_scores(self, factors: Factors, product: Floats | None = None) -> Floats:
        """``XABᵀFᵀ``, through the product ABᵀ where that is known and the shorter way."""
        design = self.design
        short = 2 * factors.rank >= min(self.shape) and isinstance(design.columns, IdentityFeatures)
        if product is not None and short:
            return np.ascontiguousarray(design.rows.product(product))
        return np.asarray(design.left(factors.left) @ design.right(factors.right).T)

    def at(self, factors: Factors, product: Floats | None = None) -> KeptScoresPoint:
        return KeptScoresPoint(self, factors, self.low_rank_scores(factors, product))

    def intercept_of(self, factors: Factors) -> Floats:
        return factors.intercept if self.has_intercept else self._no_intercept

    @cached_property
    def conjugate_at_zero(self) -> float:
        """The conjugate at slopes of 0, whatever the point."""
        nothing = np.zeros(self.kinds.shape)
        sums = np.zeros((2, self.n_labels)) if self.has_intercept else None
        return _conjugate(self, nothing, nothing, sums, 0.0, None, smooth=True)


class KeptScoresPoint(DesignPoint):
    """A :class:`KeptScoresObjective` at one ``(A, B, b)``."""

    def __init__(self, objective: KeptScoresObjective, factors: Factors, scores: Floats) -> None:
        self._objective, self._design, self.factors = objective, objective.design, factors
        self.scores = scores
        """Without the intercept."""
        found = objective.passes.at(scores, objective.intercept_of(factors), objective.hold)
        self.value, self.size, self.slopes, self._sums = found[:4]

    @cached_property
    def _Q(self) -> Floats:  # type: ignore[override]
        return self._design.right(self.factors.right)

    @cached_property
    def _curvatures(self) -> tuple[Floats, Floats]:
        """Second derivatives in the scores with the bound's term, and those of the losses alone."""
        objective, scores, hold = self._objective, self.scores, self._objective.hold
        found = objective.passes.at(scores, objective.intercept_of(self.factors), hold, curvatures=True)
        own = found.curvatures
        assert own is not None
        if hold is None:
            return own, own
        return own + np.where(self.bound_slopes() != 0, hold.stiffness, 0.0), own

    def bound_slopes(self) -> Floats:
        """The slopes of the term that stands for the bound, which are the next multipliers."""
        hold, bound = self._objective.hold, self._objective.score_bound
        assert hold is not None
        assert bound is not None
        shifted = self.scores + hold.multipliers / hold.stiffness
        return np.asarray(hold.stiffness * (shifted - np.clip(shifted, -bound, bound)))

    def _intercept_part(self, by_label: Floats) -> Floats:
        return by_label if self._objective.has_intercept else np.zeros(self._objective.n_labels)

    def _gradient(self) -> tuple[Floats, Floats, Floats]:
        T = self.slopes
        return T @ self._Q, T.T @ self._P, self._intercept_part(self._sums[0] + self._sums[1])

    def _hessian_product(self, dP: Floats, dQ: Floats, db: Floats) -> tuple[Floats, Floats, Floats]:
        D, own = self._curvatures
        T, P, Q = self.slopes, self._P, self._Q
        moved = dP @ Q.T + P @ dQ.T
        curved = D * moved
        by_label = np.zeros(self._objective.n_labels)
        if self._objective.has_intercept:
            # The bound is on the scores without the intercept.
            shifted = own * db
            by_label = np.einsum("ij,ij->j", own, moved) + shifted.sum(axis=0)
            curved += shifted
        return curved @ Q + T @ dQ, curved.T @ P + T.T @ dP, by_label

    def _hessian_diagonal(self) -> tuple[Floats, Floats, Floats]:
        D, _ = self._curvatures
        return D @ (self._Q * self._Q), D.T @ (self._P * self._P), self.label_curvature()

    def _curvature_along(self, XU: Floats, FV: Floats) -> Floats:
        return np.asarray(np.einsum("ic,ic->c", XU * XU, self._curvatures[0] @ (FV * FV)))

    def label_curvature(self) -> Floats:
        return self._intercept_part(self._sums[2])

    def signed_label_sums(self) -> tuple[Floats, Floats]:
        return self._intercept_part(self._sums[0]), self._intercept_part(self._sums[1])

    def score_gradient(
        self, sums: tuple[Floats, Floats] | None = None, *, balanced: bool = False
    ) -> ScoreGradient:
        signed = None
        if self._objective.has_intercept:
            signed = self.signed_label_sums() if sums is None else sums
        return KeptScoresGradient(self._objective, self.scores, self.slopes, signed, balanced=balanced)

    def with_intercept(self, intercept: Floats) -> Point:
        return KeptScoresPoint(self._objective, self.factors._replace(intercept=intercept), self.scores)

    def beyond(self, previous: Point, step: float) -> Point:
        assert isinstance(previous, KeptScoresPoint)
        scores = self.scores - previous.scores
        scores *= step
        scores += self.scores
        factors = extrapolated(self._objective.xp, self.factors, previous.factors, step)
        return KeptScoresPoint(self._objective, factors, scores)

    def slope_towards(self, other: Point) -> float:
        assert isinstance(other, KeptScoresPoint)
        return float(np.vdot(self.slopes, other.scores) - np.vdot(self.slopes, self.scores))


class KeptScoresGradient(DesignGradient):
    """T, with the conjugate of the losses and of the bound, or of the smooth term that stands for it."""

    def __init__(
        self,
        objective: KeptScoresObjective,
        scores: Floats,
        slopes: Floats,
        signed: tuple[Floats, Floats] | None,
        *,
        balanced: bool,
    ) -> None:
        super().__init__(objective.design)
        self._objective, self._scores, self._slopes = objective, scores, slopes
        self._signed, self._balanced = signed, balanced

    @cached_property
    def _sums(self) -> Floats | None:
        """Per label, the sum that an intercept demands and what there was to cancel."""
        if self._signed is None:
            return None
        up, down = self._signed
        return np.array([np.zeros_like(up) if self._balanced else up + down, up - down])

    def _times(self, M: Floats) -> Floats:
        return self._slopes @ M

    def _transposed_times(self, M: Floats) -> Floats:
        return self._slopes.T @ M

    def _by_features(self) -> Floats:
        return self._design.rows.transposed_product(self._slopes)

    def label_capacity(self, scale: float) -> Floats | None:
        if self._signed is None:
            return None
        objective = self._objective
        return objective.passes.capacity(scale, self._scores, self._slopes, objective.hold)

    def conjugate(self, scale: float, capacity: Floats | None = None) -> float:
        """That of the function itself; with a term for the bound, of the sum with that term."""
        if scale == 0 and capacity is None:
            return self._objective.conjugate_at_zero
        return self._priced(scale, capacity, smooth=True)

    def constrained_conjugate(self, scale: float, capacity: Floats | None = None) -> float:
        """That of the losses under the bound itself."""
        return self._priced(scale, capacity, smooth=False)

    def _priced(self, scale: float, capacity: Floats | None, *, smooth: bool) -> float:
        at = (self._scores, self._slopes)
        return _conjugate(self._objective, *at, self._sums, scale, capacity, smooth=smooth)


def _conjugate(
    objective: KeptScoresObjective,
    scores: Floats,
    slopes: Floats,
    sums: Floats | None,
    scale: float,
    capacity: Floats | None,
    *,
    smooth: bool,
) -> float:
    passes, hold, bound = objective.passes, objective.hold, objective.score_bound
    move_up = move_down = np.zeros(objective.n_labels)
    if sums is not None:
        known = passes.capacity(scale, scores, slopes, hold) if capacity is None else capacity
        total, up, down = known
        wanted, gross = scale * objective.total * sums
        missing = wanted - total
        # What is missing by rounding needs no correction.
        missing[np.abs(missing) <= _ROUNDING * (gross + np.abs(total))] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            move_up = np.where(missing > 0, missing / up, 0.0)
            move_down = np.where(missing < 0, -missing / down, 0.0)
        # Sums that no slopes in the domain have: this direction proves nothing.
        if not (np.all(move_up <= 1.0) and np.all(move_down <= 1.0)):
            return float("inf")
    dual, changed = passes.conjugate(scale, scores, slopes, move_up, move_down, hold, smooth=smooth)
    if bound is None:
        # What the domain does not hold has no price, but for rounding.
        size = scale * float(np.abs(slopes).sum())
        return dual if changed <= _ROUNDING * size else float("inf")
    return dual + bound * changed


class KeptScoresBounds:
    """``|XWFᵀ| ≤ γ`` at all entries, each with a multiplier."""

    def __init__(self, objective: KeptScoresObjective, bound: float) -> None:
        self.bound, self.stiffness = bound, stiffness_for(objective.total)
        self._scores, self._shape = objective.low_rank_scores, objective.kinds.shape

    def start(self) -> Floats:
        """Multipliers of 0."""
        return np.zeros(self._shape)

    def with_term(self, objective: Objective, entries: Floats, stiffness: float) -> Objective:
        assert isinstance(objective, KeptScoresObjective)
        return objective.holding(Hold(entries, stiffness))

    def next(self, entries: Floats, point: Point, beyond: None) -> Floats:
        assert isinstance(point, KeptScoresPoint)
        return point.bound_slopes()

    def scan(self, factors: Factors) -> tuple[float, None]:
        return float(np.abs(self._scores(factors)).max(initial=0.0)), None

    def conjugate(self, gradient: ScoreGradient, scale: float, capacity: Floats | None = None) -> float:
        assert isinstance(gradient, KeptScoresGradient)
        return gradient.constrained_conjugate(scale, capacity)
