"""What a task does with its users: their factors follow from their ratings and the factors of the items.

Given the items' (B, b), the factors of a user minimise a convex problem of k numbers, which is solved where
the ratings are. So users' factors never travel and are never kept: whoever has the partition and the items'
factors makes the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from labelgap._types import Floats
from labelgap.distributed.answering import Ask, Term
from labelgap.distributed.partitions import Own, Prepared
from labelgap.exceptions import InvalidParameterError
from labelgap.objective.cpu.entries import EntryPoint
from labelgap.objective.protocol import Factors
from labelgap.solvers.certificate import Penalties

# Newton steps for all users at a time; and the gain, as a fraction of the objective, that is nothing.
_MOST_STEPS, _NOTHING = 60, 1e-15


class ItemPlace(NamedTuple):
    """Factors and intercepts of the items, and the penalty that the users' factors are found with."""

    name: str
    right: Floats
    intercept: Floats
    trace: float


def at_best_users(part: Prepared, own: Own, term: Term, place: ItemPlace) -> EntryPoint:
    """The summand of the objective at the best factors of the users here."""
    point = part.point((term.name, place.name), lambda: _solved(part, own, term, place))
    assert isinstance(point, EntryPoint)
    return point


def _solved(part: Prepared, own: Own, term: Term, place: ItemPlace) -> Any:
    objective = term.objective(part, own)
    n_users = part.labels.shape[0]
    start = Factors(np.zeros((n_users, place.right.shape[1])), place.right, place.intercept)
    if start.rank == 0 or n_users == 0:
        return objective.at(start)
    steps = part.objectives.get((term.name, "rows"), lambda: objective.rowwise(np.float64))
    if steps is None:
        raise InvalidParameterError(
            "On a cluster a recommender needs a loss that has a compiled form: logistic, squared, "
            "squared_hinge or exponential."
        )
    at, penalties = steps.start(start), Penalties(place.trace)
    total = 0.0
    for _ in range(_MOST_STEPS):
        gained = steps.step_rows(at, penalties)
        total += gained
        if gained <= _NOTHING * max(total, 1e-3):
            break
    # The items' factors as they were given: a step of the users does not change them.
    return objective.at(start._replace(left=at.factors().left))


def answer_for_items(
    part: Prepared, own: Own, term: Term, place: ItemPlace, asks: Sequence[Ask]
) -> dict[str, Any]:
    """The answers of one partition, with its users at their best; those of all partitions add up."""
    point = at_best_users(part, own, term, place)
    return {what: _answered(part, term, point, place, what, given) for what, given in asks}


def _answered(
    part: Prepared, term: Term, point: EntryPoint, place: ItemPlace, what: str, given: tuple[Any, ...]
) -> Any:
    if what == "state":
        # All that a step needs, in one round.
        A, gradient, diagonal = point.factors.left, point.gradient(), point.hessian_diagonal()
        return (
            point.value,
            point.size,
            A.T @ A,
            (gradient.right, gradient.intercept),
            (diagonal.right, diagonal.intercept),
            point.signed_label_sums(),
        )
    if what == "hessian_product":
        return _reduced_product(point, place.trace, *given)
    sums, balanced, *rest = given
    gradient_of = part.gradients.get(
        (term.name, place.name, balanced), lambda: point.score_gradient(sums, balanced=balanced)
    )
    if what == "conjugate":
        return gradient_of.conjugate(rest[0])
    (V,) = rest
    image = gradient_of.left_product(V)
    if what == "normal":
        return gradient_of.right_product(image)
    assert what == "curvature"
    squares = np.einsum("ic,ic->c", image, image)
    return squares, point.curvature_along(image, V)


def _reduced_product(point: EntryPoint, trace: float, dB: Floats, db: Floats) -> tuple[Floats, Floats]:
    """The Hessian of ``min_A f`` times a direction of the items: users move along with them.

    With H the Hessian in (A, B, b), it is ``H_BB − H_BA H_AA⁻¹ H_AB``, and H_AA is one small block a user.
    """
    still = np.zeros_like(point.factors.left)
    moved = still
    if still.size:
        moved = -point.solve_rows(point.hessian_product(Factors(still, dB, db)).left, trace)
    product = point.hessian_product(Factors(moved, dB, db))
    return product.right, product.intercept
