"""What a task does in a round: the answers of one partition to questions about the objective at a place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.distributed.folds import FoldPlan
from labelgap.distributed.partitions import Own, Prepared
from labelgap.labels import ObservedLabels
from labelgap.objective.frame import Frame
from labelgap.objective.moments import ObservedMoments
from labelgap.objective.parts import ProblemSettings
from labelgap.objective.protocol import Factors, Objective, Point, ScoreGradient
from labelgap.solvers.linalg import host, like


@dataclass(frozen=True, eq=False)
class Selection:
    """Some entries of every partition: all of them, or all but those of one fold."""

    plan: FoldPlan | None = None
    without: int | None = None

    def of(self, part: Prepared, own: Own) -> ObservedLabels:
        if self.plan is None or self.without is None:
            return part.labels
        return part.labels.select(self.plan.folds(part.labels, part.ids(own)) != self.without)


@dataclass(frozen=True, eq=False)
class Term:
    """The objective over some entries, as all partitions build their summand of it.

    The frame comes without its features, which every partition has.
    """

    name: str
    settings: ProblemSettings
    selection: Selection
    frame: Frame | None = None

    def part(self, part: Prepared, own: Own) -> Any:
        settings = replace(self.settings, features=part.settings)
        labels = self.selection.of(part, own)
        return part.row_data().part(settings, part.block, labels, thinned=False)

    def objective(self, part: Prepared, own: Own) -> Objective:
        def make() -> Objective:
            assert self.frame is not None
            summand: Objective = self.part(part, own).objective(replace(self.frame, features=part.features))
            return summand

        return part.objective(self.name, make)


class Place(NamedTuple):
    """Where the objective is asked: at factors, or beyond them on the way from an earlier place."""

    name: str
    """Of W: places with another intercept have the same."""
    factors: Factors
    before: Place | None = None
    step: float = 0.0


class Ask(NamedTuple):
    """One question at a place: what, and what it depends on."""

    what: str
    given: tuple[Any, ...] = ()


def entry_moments(part: Prepared, own: Own, term: Term) -> ObservedMoments:
    """What a partition contributes to the frame of an objective."""
    found: ObservedMoments = term.part(part, own).moments()
    return found


def answer(part: Prepared, own: Own, term: Term, place: Place, asks: Sequence[Ask]) -> dict[str, Any]:
    """The answers of one partition; those of all partitions add up."""
    objective = term.objective(part, own)
    point = _point(part, term, objective, place)
    return {ask.what: _host(_answered(part, objective, term, point, place, ask)) for ask in asks}


def _point(part: Prepared, term: Term, objective: Objective, place: Place) -> Point:
    before, step = place.before, place.step
    if before is not None:
        here = place._replace(before=None)

        def beyond() -> Point:
            # The earlier place first: the next one goes on from here, so that this one is to stay longer.
            earlier = _point(part, term, objective, before)
            return _point(part, term, objective, here).beyond(earlier, step)

        return part.point((term.name, place.name, before.name, step), beyond)
    name, factors = (term.name, place.name), _like(objective, place.factors)
    point = part.point(name, lambda: objective.at(factors))
    if not np.array_equal(host(point.factors.intercept), place.factors.intercept):
        # The scores without intercepts are the same, and need not be computed again.
        point = point.with_intercept(factors.intercept)
        part.points.put(name, point)
    return point


def _answered(part: Prepared, objective: Objective, term: Term, point: Point, place: Place, ask: Ask) -> Any:
    what, given = ask
    if what in ("value", "size"):
        return getattr(point, what)
    if what in ("gradient", "hessian_diagonal", "label_curvature", "signed_label_sums"):
        return getattr(point, what)()
    if what == "hessian_product":
        return point.hessian_product(_like(objective, given[0]))
    if what == "curvature_along":
        U, V = _arrays(objective, given)
        return point.curvature_along(U, V)
    if what == "slope_towards":
        return point.slope_towards(_point(part, term, objective, given[0]))
    sums, balanced, *rest = given
    gradient = _score_gradient(part, objective, term, point, place, sums, balanced)
    if what == "conjugate":
        # The conjugate of an entry does not depend on the other partitions.
        return gradient.conjugate(rest[0])
    return getattr(gradient, what)(*_arrays(objective, rest))


def _score_gradient(
    part: Prepared,
    objective: Objective,
    term: Term,
    point: Point,
    place: Place,
    sums: tuple[Floats, Floats] | None,
    balanced: bool,
) -> ScoreGradient:
    """G, which is kept for the many products that a spectral norm takes."""
    before = None if place.before is None else place.before.name
    name = (term.name, place.name, before, place.step, place.factors.intercept.tobytes(), balanced)

    def make() -> Any:
        known = None if sums is None else tuple(_arrays(objective, sums))
        return point.score_gradient(known, balanced=balanced)

    found: ScoreGradient = part.gradients.get(name, make)
    return found


def _like(objective: Objective, factors: Factors) -> Factors:
    return Factors(*_arrays(objective, factors))


def _arrays(objective: Objective, arrays: Sequence[Any]) -> list[Any]:
    example = objective.starting_intercept()
    return [like(array, example) for array in arrays]


def _host(value: Any) -> Any:
    if value is None or isinstance(value, float | int):
        return value
    if isinstance(value, tuple):
        parts = [_host(one) for one in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    array: NDArray[Any] = host(value)
    return array
