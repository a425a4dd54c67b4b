"""Rounds of a problem in factored form, whose rank finds itself: certify, grow, minimise, balance.

For k at least the rank of the solution,

    min_{A,B,b}  f(XABᵀ + 1bᵀ) + λ/2 (‖A‖² + ‖B‖²) + λ₂/2 ‖ABᵀ‖²

has the same minimum as the convex problem in W. A round asks for the duality gap; lets the factors grow along
directions that its singular triplets show, and drops those that died out; minimises over all variables at
once; and balances the factors, so that ½(‖A‖² + ‖B‖²) is the trace norm. The same rounds serve W
(:mod:`labelgap.solvers.factored`), W beside an N of the rows (:mod:`labelgap.solvers.row_part`), and the
items of a recommender whose users stay on a cluster.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from labelgap.solvers import newton
from labelgap.solvers.certificate import Certificate
from labelgap.solvers.linalg import Array, column_squares, namespace, rounding, smallest, thin_qr
from labelgap.solvers.loop import Method, State, scalars
from labelgap.solvers.newton import SmoothState
from labelgap.solvers.spectral import SingularTriplets
from labelgap.solvers.tuning import TUNED

S = TypeVar("S", bound=SmoothState)

# Gains of so many units of rounding of the objective are nothing.
_NOISE = 4


class GrowthMethod(Method):
    """The rounds; a subclass says how its problem is certified, grown and balanced."""

    _certificate: Certificate
    _asked = False
    """Whether there is a certificate: a warm start is not always asked for one."""
    _dual = -math.inf
    """The best lower bound on the optimum so far."""
    _radius: float | None = None
    _best_gap = _last_objective = math.inf
    _gained = math.inf
    """What the last round gained."""
    _quiet = 0
    _most_steps = 500
    """Newton steps in a round."""
    _most_products: float = math.inf
    """Products with the Hessian in a round."""

    @abstractmethod
    def _certified(self) -> Certificate:
        """The certificate of this place."""

    @abstractmethod
    def _grown(self) -> Any:
        """The place to minimise from, with new directions if there are any; None to end the round here."""

    @abstractmethod
    def _settle(self, x: Any) -> None:
        """Go on from there, balanced and without directions that died out."""

    def certify(self) -> Certificate:
        self._asked = True
        found = self._certified().with_bound(self._dual)
        self._certificate, self._dual = found, found.dual
        self._gained = self._last_objective - found.objective
        self._last_objective = found.objective
        halved = found.gap < 0.5 * self._best_gap
        noise = _NOISE * rounding(self.factors.intercept) * found.scale
        nothing = TUNED.nothing_capped * self._tol * found.scale if self.capped else TUNED.nothing * found.gap
        self._quiet = 0 if halved or self._gained > max(nothing, noise) else self._quiet + 1
        if halved:
            self._best_gap = found.gap
        return found

    @property
    def stalled(self) -> bool:
        return self._quiet > (TUNED.patience_capped if self.capped else TUNED.patience)

    @property
    def capped(self) -> bool:
        return self.rank == self._cap < self._full

    def step(self, stopping: Callable[[], bool]) -> None:
        state = self._grown()
        if state is not None and not self.exhausted:
            self._settle(self._minimised(state, stopping))

    def _minimised(self, state: Any, stopping: Callable[[], bool]) -> Any:
        report = newton.minimise(
            state,
            # What new directions bring is worth taking up to a fraction of the gap that they leave open.
            enough=TUNED.round_fraction * self._certificate.gap,
            max_steps=min(self._most_steps, self._max_iter - self.iteration),
            radius=self._radius,
            forcing=TUNED.forcing,
            max_products=self._most_products,
            stopping=stopping,
        )
        self.iteration, self._radius = self.iteration + report.steps, report.radius
        report.state.release()
        return report.state.x

    # -- snapshots -----------------------------------------------------------------------------------------

    def _numbers(self) -> Mapping[str, Array]:
        return scalars(
            steps=self.iteration,
            radius=math.nan if self._radius is None else self._radius,
            best_gap=self._best_gap,
            last_objective=self._last_objective,
            quiet=self._quiet,
            dual_so_far=self._dual,
        )

    def _take_numbers(self, kept: State) -> None:
        self.iteration, self._quiet = int(kept["steps"]), int(kept["quiet"])
        radius = float(kept["radius"])
        self._radius = None if math.isnan(radius) else radius
        self._best_gap, self._last_objective = float(kept["best_gap"]), float(kept["last_objective"])
        self._dual = float(kept["dual_so_far"])


def triplets_for(rank: int) -> int:
    """How many singular triplets a certificate of so many directions is asked for."""
    return min(max(TUNED.first_columns, rank), TUNED.most_triplets)


def fresh_directions(
    residual: SingularTriplets, penalty: float, span: Array, cap: int, negligible: float, side: str = "left"
) -> tuple[Array, Array, Array]:
    """The singular vectors whose values exceed the penalty and that are new; and by how much they exceed it.

    New is what leaves the ``span`` of the factor of that side: at a stationary point the directions that are
    there have the value of the penalty. At most as many as a rank of ``cap`` leaves, and none that exceed
    the penalty by less than the fraction ``negligible``, which do not keep the gap open.
    """
    xp = namespace(span)
    fresh = residual.values > penalty * (1 + negligible)
    if span.shape[1]:
        inside = column_squares(thin_qr(span)[0].T @ getattr(residual, side))
        fresh = fresh & (inside < 0.5)
    chosen = xp.nonzero(fresh)[0][: cap - span.shape[1]]
    U, V = (xp.take(vectors, chosen, axis=1) for vectors in (residual.left, residual.right))
    return U, V, xp.take(residual.values, chosen) - penalty


def lengths_for(surplus: Array, curvature: Array) -> Array:
    """Of new columns: along ``u vᵀ`` the objective changes by ``−surplus t + curvature t²/2``."""
    xp = namespace(surplus)
    return xp.sqrt(surplus / xp.clip(curvature, smallest(curvature), None))


def lowest_of(grown: Callable[[float], S], value: float) -> S:
    """``grown(1)``, or with shorter columns where that lowers the objective from ``value`` only so."""
    state = grown(1.0)
    for trial in range(1, TUNED.growth_trials):
        if state.value < value:
            break
        # The last one is dropped before the next is made, which is as large.
        del state
        state = grown(0.5**trial)
    return state
