"""A sum of objectives over the same W: several terms, or the parts of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from operator import add
from typing import Any

from array_api_compat import array_namespace

from labelgap._types import Floats
from labelgap.objective.protocol import (
    Factors,
    Objective,
    Point,
    Rowwise,
    ScoreBounds,
    ScoreGradient,
    extrapolated,
    may_form,
)


class RowSplit:
    """Which rows of A each part has of its own; the rows after those are shared by all parts.

    Where X = I, row i of A belongs to row i of the data, and so to the part that holds it.
    """

    def __init__(self, own: Sequence[int]) -> None:
        self._counts = tuple(own)
        self._ends = tuple(accumulate(own, initial=0))
        self.n_own = self._ends[-1]

    def total(self, n_rows: int) -> int:
        """The rows of A, where the first part works on ``n_rows`` of them."""
        return self.n_own + n_rows - self._counts[0]

    def local(self, array: Any) -> list[Any]:
        """The rows of an array that each part works on."""
        shared = array[self.n_own :]
        pairs = zip(self._ends[:-1], self._ends[1:], strict=True)
        xp = array_namespace(array)
        return [xp.concat([array[start:stop], shared]) for start, stop in pairs]

    def gathered(self, arrays: Sequence[Any]) -> Any:
        """One array from what each part has to say of its rows: own rows stacked, shared ones added up."""
        own = [array[:count] for array, count in zip(arrays, self._counts, strict=True)]
        shared = [array[count:] for array, count in zip(arrays, self._counts, strict=True)]
        return array_namespace(arrays[0]).concat([*own, reduce(add, shared)])


class _SameRows:
    """Every part works on all rows."""

    def __init__(self, n_parts: int) -> None:
        self._n_parts = n_parts

    def local(self, array: Any) -> list[Any]:
        return [array] * self._n_parts

    def gathered(self, arrays: Sequence[Any]) -> Any:
        return reduce(add, arrays)


class SumObjective:
    """``Σ f_t``; each answer is the sum of the terms' answers.

    ``split`` says which rows of A the terms have of their own; None where all work on all rows.
    """

    def __init__(
        self, terms: Sequence[Objective], split: RowSplit | None = None, bounds: ScoreBounds | None = None
    ) -> None:
        self.terms = tuple(terms)
        self.split = split or _SameRows(len(self.terms))
        self.bounds = bounds
        first = self.terms[0]
        self.xp, self.dtype = first.xp, first.dtype
        rows, columns = first.shape
        self.shape = (rows if split is None else split.total(rows), columns)
        self.n_labels = first.n_labels
        self.n_stored = sum(term.n_stored for term in self.terms)
        self.may_form = may_form(self.shape, self.n_stored)
        self.has_intercept = any(term.has_intercept for term in self.terms)

    def starting_intercept(self) -> Floats:
        return self.terms[0].starting_intercept()

    def at(self, factors: Factors, product: Floats | None = None) -> Point:
        lefts = self.split.local(factors.left)
        products = [None] * len(lefts) if product is None else self.split.local(product)
        parts = [
            term.at(factors._replace(left=left), known)
            for term, left, known in zip(self.terms, lefts, products, strict=True)
        ]
        return SumPoint(self, parts, factors)

    def rowwise(self, dtype: Any) -> Rowwise | None:
        """None: a row's problem would have to gather its entries from all terms."""
        return None


class SumPoint:
    """A :class:`SumObjective` at one place; a subclass is made of the same three arguments."""

    def __init__(self, objective: SumObjective, parts: Sequence[Point], factors: Factors) -> None:
        self._sum, self.parts, self.factors = objective, tuple(parts), factors
        self.value = float(sum(part.value for part in self.parts))
        self.size = float(sum(part.size for part in self.parts))

    def gradient(self) -> Factors:
        return self._added([part.gradient() for part in self.parts])

    def hessian_product(self, direction: Factors) -> Factors:
        lefts = self._sum.split.local(direction.left)
        pairs = zip(self.parts, lefts, strict=True)
        return self._added([part.hessian_product(direction._replace(left=left)) for part, left in pairs])

    def hessian_diagonal(self) -> Factors:
        return self._added([part.hessian_diagonal() for part in self.parts])

    def _added(self, parts: Sequence[Factors]) -> Factors:
        lefts, rights, intercepts = zip(*parts, strict=True)
        return Factors(self._sum.split.gathered(lefts), reduce(add, rights), reduce(add, intercepts))

    def curvature_along(self, U: Floats, V: Floats) -> Floats:
        pairs = zip(self.parts, self._sum.split.local(U), strict=True)
        return reduce(add, [part.curvature_along(rows, V) for part, rows in pairs])

    def label_curvature(self) -> Floats:
        return reduce(add, [part.label_curvature() for part in self.parts])

    def signed_label_sums(self) -> tuple[Floats, Floats]:
        up, down = zip(*(part.signed_label_sums() for part in self.parts), strict=True)
        return reduce(add, up), reduce(add, down)

    def score_gradient(
        self, sums: tuple[Floats, Floats] | None = None, *, balanced: bool = False
    ) -> ScoreGradient:
        if sums is None and self._sum.has_intercept:
            sums = self.signed_label_sums()
        parts = [part.score_gradient(sums, balanced=balanced) for part in self.parts]
        return SumGradient(parts, self._sum.split)

    def with_intercept(self, intercept: Floats) -> Point:
        parts = [part.with_intercept(intercept) for part in self.parts]
        return type(self)(self._sum, parts, self.factors._replace(intercept=intercept))

    def beyond(self, previous: Point, step: float) -> Point:
        assert isinstance(previous, SumPoint)
        pairs = zip(self.parts, previous.parts, strict=True)
        parts = [part.beyond(before, step) for part, before in pairs]
        factors = extrapolated(self._sum.xp, self.factors, previous.factors, step)
        return type(self)(self._sum, parts, factors)

    def slope_towards(self, other: Point) -> float:
        assert isinstance(other, SumPoint)
        pairs = zip(self.parts, other.parts, strict=True)
        return sum(part.slope_towards(there) for part, there in pairs)


class SumGradient:
    """The sum of the terms' score gradients."""

    def __init__(self, parts: Sequence[ScoreGradient], split: RowSplit | _SameRows | None = None) -> None:
        self.parts = tuple(parts)
        self._split = split or _SameRows(len(self.parts))

    def left_product(self, V: Floats) -> Floats:
        product: Floats = self._split.gathered([part.left_product(V) for part in self.parts])
        return product

    def right_product(self, U: Floats) -> Floats:
        pairs = zip(self.parts, self._split.local(U), strict=True)
        return reduce(add, [part.right_product(rows) for part, rows in pairs])

    def matrix(self) -> Floats:
        matrix: Floats = self._split.gathered([part.matrix() for part in self.parts])
        return matrix

    def label_capacity(self, scale: float) -> Floats | None:
        capacities = [part.label_capacity(scale) for part in self.parts]
        known = [capacity for capacity in capacities if capacity is not None]
        return reduce(add, known) if known else None

    def conjugate(self, scale: float, capacity: Floats | None = None) -> float:
        total = self.label_capacity(scale) if capacity is None else capacity
        return float(sum(part.conjugate(scale, total) for part in self.parts))


class SumBounds:
    """The bounds of all parts; entries are a tuple with those of each part."""

    def __init__(self, parts: Sequence[ScoreBounds], split: RowSplit | None) -> None:
        self._parts, self._split = tuple(parts), split
        self.bound = self._parts[0].bound
        self.stiffness = self._parts[0].stiffness

    def start(self) -> tuple[Any, ...]:
        return tuple(part.start() for part in self._parts)

    def next(self, entries: Any, point: Point, beyond: Any) -> tuple[Any, ...]:
        assert isinstance(point, SumPoint)
        rows = zip(self._parts, entries, point.parts, beyond, strict=True)
        return tuple(part.next(held, at, found) for part, held, at, found in rows)

    def scan(self, factors: Factors) -> tuple[float, tuple[Any, ...]]:
        lefts = (self._split or _SameRows(len(self._parts))).local(factors.left)
        pairs = zip(self._parts, lefts, strict=True)
        found = [part.scan(factors._replace(left=left)) for part, left in pairs]
        return max(largest for largest, _ in found), tuple(beyond for _, beyond in found)

    def with_term(self, objective: Objective, entries: Any, stiffness: float) -> Objective:
        assert isinstance(objective, SumObjective)
        rows = zip(self._parts, objective.terms, entries, strict=True)
        return SumObjective([part.with_term(term, held, stiffness) for part, term, held in rows], self._split)

    def conjugate(self, gradient: ScoreGradient, scale: float, capacity: Floats | None = None) -> float:
        assert isinstance(gradient, SumGradient)
        total = gradient.label_capacity(scale) if capacity is None else capacity
        pairs = zip(self._parts, gradient.parts, strict=True)
        return float(sum(part.conjugate(one, scale, total) for part, one in pairs))
