"""The data term whose entries are on a cluster, as the solvers see it.

Every question is a round: one task for each partition, and a sum. Rounds are what costs time, so a place asks
at once for all that was needed at the places before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import array_api_compat.numpy as array_namespace
import numpy as np

from labelgap._types import Floats
from labelgap.distributed.answering import Ask, Place, Term, answer
from labelgap.distributed.rounds import Rounds
from labelgap.objective.frame import Frame
from labelgap.objective.protocol import Factors, Point, Rowwise, ScoreBounds, extrapolated, may_form

# Numbers in the largest W-shaped matrix that travels: beyond, products with a few vectors are cheaper.
_LARGEST_MATRIX = 1 << 20
# Questions that depend on the place alone, and can be asked before anybody needs the answer.
_PLAIN = ("value", "size", "gradient", "hessian_diagonal", "label_curvature", "signed_label_sums")
_FIRST = frozenset({"value", "size"})


class ClusterObjective:
    """A sum over entries that lie on a cluster; only factors, gradients and label sums travel.

    Parameters
    ----------
    rounds : Rounds
        The prepared partitions.
    term : Term
        What every partition builds its summand from.
    frame : Frame
    shape : (rows of W, columns of W)
    n_stored : int
        Numbers that the data take on all workers.
    """

    xp: Any = array_namespace
    dtype: Any = np.float64
    bounds: ScoreBounds | None = None

    def __init__(
        self, rounds: Rounds, term: Term, frame: Frame, shape: tuple[int, int], n_stored: int
    ) -> None:
        self._rounds, self.frame = rounds, frame
        self._term = rounds.keep(term)
        self.shape, self.n_labels, self.n_stored = shape, len(frame.starting_intercept), n_stored
        self.has_intercept = term.settings.fit_intercept
        small = shape[0] * shape[1] <= _LARGEST_MATRIX
        self.may_form = small and may_form(shape, n_stored)
        self._names = itertools.count()
        # What was asked at the last place that was reached in each way.
        self.habits: dict[str, frozenset[str]] = {}
        self.n_rounds = 0
        """The rounds so far, for reports."""

    def starting_intercept(self) -> Floats:
        return self.frame.starting_intercept.copy()

    def at(self, factors: Factors, product: Floats | None = None) -> Point:
        return ClusterPoint(self, Place(f"W{next(self._names)}", _contiguous(factors)), "at")

    def rowwise(self, dtype: Any) -> Rowwise | None:
        """None: rows share the features."""
        return None

    def ask(self, place: Place, asks: Iterable[Ask]) -> dict[str, Any]:
        """The answers of all partitions together, in one round."""
        self.n_rounds += 1
        found: dict[str, Any] = self._rounds.sum(answer, self._term, place, tuple(asks))
        return found


class ClusterPoint:
    """A :class:`ClusterObjective` at one place."""

    def __init__(self, objective: ClusterObjective, place: Place, way: str) -> None:
        self._objective, self.place, self._way = objective, place, way
        self.factors = place.factors
        if place.before is not None:
            self.factors = extrapolated(objective.xp, place.factors, place.before.factors, place.step)
        self._known: dict[str, Any] = {}
        self._used: set[str] = set()
        self.matrix: Floats | None = None
        """``XᵀG``, where it has been formed."""

    def _plain(self, what: str) -> Any:
        """The answer to a question that depends on the place alone."""
        if what not in self._known:
            wanted = (
                {what} if self._known else _FIRST | {what} | self._objective.habits.get(self._way, _FIRST)
            )
            asks = [Ask(name) for name in _PLAIN if name in wanted and name not in self._known]
            self._known |= self._objective.ask(self.place, asks)
        if what not in self._used:
            self._used.add(what)
            self._objective.habits[self._way] = frozenset(self._used)
        return self._known[what]

    def asked(self, what: str, *given: Any) -> Any:
        """The answer to a question that depends on more than the place."""
        asks = [Ask(what, given)]
        if not self._known:
            # Whoever comes here first will want the value too.
            asks += [Ask(name) for name in sorted(_FIRST)]
        found = self._objective.ask(self.place, asks)
        answered = found.pop(what)
        self._known |= found
        return answered

    @property
    def value(self) -> float:
        return float(self._plain("value"))

    @property
    def size(self) -> float:
        return float(self._plain("size"))

    def gradient(self) -> Factors:
        return Factors(*self._plain("gradient"))

    def hessian_product(self, direction: Factors) -> Factors:
        return Factors(*self.asked("hessian_product", _contiguous(direction)))

    def hessian_diagonal(self) -> Factors:
        return Factors(*self._plain("hessian_diagonal"))

    def curvature_along(self, U: Floats, V: Floats) -> Floats:
        found: Floats = self.asked("curvature_along", *map(np.ascontiguousarray, (U, V)))
        return found

    def label_curvature(self) -> Floats:
        found: Floats = self._plain("label_curvature")
        return found

    def signed_label_sums(self) -> tuple[Floats, Floats]:
        up, down = self._plain("signed_label_sums")
        return up, down

    def score_gradient(
        self, sums: tuple[Floats, Floats] | None = None, *, balanced: bool = False
    ) -> ClusterGradient:
        balanced = balanced and self._objective.has_intercept
        if sums is None and balanced:
            sums = self.signed_label_sums()
        return ClusterGradient(self, sums if balanced else None, balanced)

    def with_intercept(self, intercept: Floats) -> Point:
        place = self.place._replace(factors=self.factors._replace(intercept=np.ascontiguousarray(intercept)))
        return ClusterPoint(self._objective, place, "with_intercept")

    def beyond(self, previous: Point, step: float) -> Point:
        assert isinstance(previous, ClusterPoint)
        place = self.place._replace(before=previous.place, step=float(step))
        return ClusterPoint(self._objective, place, "beyond")

    def slope_towards(self, other: Point) -> float:
        assert isinstance(other, ClusterPoint)
        if self.matrix is not None:
            # ⟨XᵀG, W_other − W⟩, of which nothing has to travel.
            return _inner(self.matrix, other.factors) - _inner(self.matrix, self.factors)
        return float(self.asked("slope_towards", other.place))


class ClusterGradient:
    """G on the entries, as the linear map ``Xᵀ G``."""

    def __init__(self, point: ClusterPoint, sums: tuple[Floats, Floats] | None, balanced: bool) -> None:
        self._point, self._how = point, (sums, balanced)

    def _asked(self, what: str, *given: Any) -> Any:
        return self._point.asked(what, *self._how, *given)

    def left_product(self, V: Floats) -> Floats:
        found: Floats = self._asked("left_product", np.ascontiguousarray(V))
        return found

    def right_product(self, U: Floats) -> Floats:
        found: Floats = self._asked("right_product", np.ascontiguousarray(U))
        return found

    def matrix(self) -> Floats:
        found: Floats = self._asked("matrix")
        if not self._how[1]:
            self._point.matrix = found
        return found

    def label_capacity(self, scale: float) -> Floats | None:
        """None: over observed entries the conjugate of a partition does not depend on the others."""
        return None

    def conjugate(self, scale: float, capacity: Floats | None = None) -> float:
        return float(self._asked("conjugate", float(scale)))


def _contiguous(factors: Factors) -> Factors:
    return Factors(*map(np.ascontiguousarray, factors))


def _inner(matrix: Floats, factors: Factors) -> float:
    """``⟨M, A Bᵀ⟩``."""
    return float(np.vdot(matrix @ factors.right, factors.left))
