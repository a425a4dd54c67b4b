"""The objective of a recommender on a cluster as a function of the items alone."""

from __future__ import annotations

import itertools
from typing import Any

import array_api_compat.numpy as array_namespace
import numpy as np
import scipy.linalg

from labelgap._types import Floats
from labelgap.distributed.answering import Ask, Term
from labelgap.distributed.rounds import Rounds
from labelgap.distributed.users import ItemPlace, answer_for_items
from labelgap.objective.frame import Frame
from labelgap.objective.protocol import ScoreBounds
from labelgap.solvers.certificate import Penalties
from labelgap.solvers.linalg import dot, rounding
from labelgap.solvers.newton import Variables

_RESOLUTION = 45
# The least diagonal of a preconditioner, as a fraction of its largest number.
_LEAST = 1e-10


class ItemObjective:
    """``φ(B, b) = min_A f(ABᵀ + 1bᵀ) + λ/2 ‖A‖²``, where A are the users, which stay on the cluster.

    Parameters
    ----------
    rounds : Rounds
    term : Term
    frame : Frame
    shape : (users, columns of W)
    """

    xp: Any = array_namespace
    dtype: Any = np.float64
    bounds: ScoreBounds | None = None
    may_form = False

    def __init__(self, rounds: Rounds, term: Term, frame: Frame, shape: tuple[int, int]) -> None:
        self._rounds, self.frame, self.shape = rounds, frame, shape
        self.term = rounds.keep(term)
        self.n_labels = len(frame.starting_intercept)
        self.has_intercept = term.settings.fit_intercept
        self._names = itertools.count()
        self.n_rounds = 0

    def starting_intercept(self) -> Floats:
        return self.frame.starting_intercept.copy()

    def place(self, right: Floats, intercept: Floats, trace: float) -> ItemPlace:
        """A place of its own name."""
        arrays = np.ascontiguousarray(right), np.ascontiguousarray(intercept)
        return ItemPlace(f"B{next(self._names)}", *arrays, trace)

    def ask(self, place: ItemPlace, what: str, *given: Any) -> Any:
        """The answer of all partitions together, in one round."""
        self.n_rounds += 1
        return self._rounds.sum(answer_for_items, self.term, place, (Ask(what, given),))[what]


class ItemState:
    """``φ(B, b) + λ/2 ‖B‖² + κ/2 ‖b − c‖²`` at one place, for Newton's method."""

    def __init__(self, objective: ItemObjective, penalties: Penalties, right: Floats, b: Floats) -> None:
        self.objective, self.penalties = objective, penalties
        self.place = objective.place(right, b, penalties.trace)
        self.x: Variables = (self.place.right, self.place.intercept)
        found = objective.ask(self.place, "state")
        self.data, self.size, self.gram, self._slopes, self._diagonal, self.sums = found
        halves = 0.5 * penalties.trace * (float(np.trace(self.gram)) + dot(right, right))
        self.value = float(self.data) + halves + penalties.of_intercept(b)
        self.resolution = _RESOLUTION * rounding(b) * max(abs(self.value), float(self.size))

    @property
    def root(self) -> Floats:
        """R with ``RᵀR = AᵀA``: the users in as few rows as there are columns."""
        squares, vectors = scipy.linalg.eigh(self.gram) if len(self.gram) else (np.zeros(0), self.gram)
        root: Floats = np.sqrt(np.maximum(squares, 0.0))[:, None] * vectors.T
        return root

    def gradient(self) -> Variables:
        right, b = self.x
        dB, db = self._slopes
        return dB + self.penalties.trace * right, db + self.penalties.intercept_slope(b)

    def hessian_product(self, direction: Variables) -> Variables:
        dB, db = (np.ascontiguousarray(part) for part in direction)
        HB, Hb = self.objective.ask(self.place, "hessian_product", dB, db)
        return HB + self.penalties.trace * dB, Hb + self.penalties.intercept * db

    def preconditioner(self) -> Variables:
        DB, Db = self._diagonal
        diagonal = DB + self.penalties.trace, Db + self.penalties.intercept
        largest = max(float(part.max()) for part in diagonal if part.size)
        return tuple(np.maximum(part, _LEAST * largest) for part in diagonal)

    def moved_to(self, x: Variables) -> ItemState:
        return ItemState(self.objective, self.penalties, *x)

    def release(self) -> None:
        """Nothing large is held here."""

    # -- the score gradient ------------------------------------------------------------------------------

    def _how(self, balanced: bool) -> tuple[Any, bool]:
        return (self.sums if balanced else None), balanced

    def normal_product(self, V: Floats, *, balanced: bool) -> Floats:
        """``Hᵀ H V`` for ``H = XᵀGF``, in one round: users' vectors do not travel."""
        found: Floats = self.objective.ask(
            self.place, "normal", *self._how(balanced), np.ascontiguousarray(V)
        )
        return found

    def conjugate(self, scale: float, *, balanced: bool) -> float:
        """``f*(scale · G)``."""
        return float(self.objective.ask(self.place, "conjugate", *self._how(balanced), float(scale)))

    def curvature(self, V: Floats, *, balanced: bool) -> Floats:
        """The second derivative of f along ``u vᵀ`` with the unit vector u that belongs to v."""
        squares, curved = self.objective.ask(
            self.place, "curvature", *self._how(balanced), np.ascontiguousarray(V)
        )
        return np.asarray(curved / np.maximum(squares, np.finfo(float).tiny))
