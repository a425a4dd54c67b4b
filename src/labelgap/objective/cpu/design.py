"""The two sides of the scores ``Z = X W Fᵀ``, and what all data terms over them have in common on the CPU.

A data term is written in ``P = XA`` and ``Q = FB``; this module carries derivatives from there to A and B.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import array_api_compat.numpy as array_namespace
import numpy as np

from labelgap._types import Floats
from labelgap.objective.cpu.features import Features, IdentityFeatures
from labelgap.objective.protocol import Factors, Rowwise, ScoreBounds, may_form


@dataclass(frozen=True)
class Design:
    """Features of the rows and of the labels (the identity where labels have none)."""

    rows: Features
    columns: Features

    @classmethod
    def of(cls, rows: Features, n_labels: int) -> Design:
        """Labels without features."""
        return cls(rows, IdentityFeatures(n_labels))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of W."""
        return self.rows.n_features, self.columns.n_features

    @property
    def has_own_rows(self) -> bool:
        """Whether rows and labels have parameters of their own, so that steps can be made row by row."""
        return self.rows.has_own_rows and self.columns.has_own_rows

    @property
    def n_labels(self) -> int:
        return self.columns.n_rows

    @property
    def n_stored(self) -> int:
        return self.rows.n_stored + self.columns.n_stored

    def array(self, numbers: Any) -> Floats:
        """A copy of some numbers, as the terms of this design know them."""
        return np.array(numbers, dtype=np.float64)

    def left(self, A: Floats) -> Floats:
        """``P = XA``."""
        return np.ascontiguousarray(self.rows.product(np.ascontiguousarray(A)))

    def right(self, B: Floats) -> Floats:
        """``Q = FB``."""
        return np.ascontiguousarray(self.columns.product(np.ascontiguousarray(B)))

    def back(self, P: Floats, Q: Floats, intercept: Floats) -> Factors:
        """A gradient in (P, Q, b) as one in (A, B, b)."""
        return Factors(self.rows.transposed_product(P), self.columns.transposed_product(Q), intercept)


class NumpyTerm:
    """What the data terms of this folder have in common; a subclass sets ``shape`` and ``n_stored``."""

    shape: tuple[int, int]
    n_stored: int
    xp: Any = array_namespace
    dtype: Any = np.float64
    bounds: ScoreBounds | None = None

    @property
    def may_form(self) -> bool:
        return may_form(self.shape, self.n_stored)

    def rowwise(self, dtype: Any) -> Rowwise | None:
        """None, unless a subclass has Newton steps row by row."""
        return None


class DesignPoint(ABC):
    """A data term at one ``(A, B, b)``, written by a subclass in ``P = XA`` and ``Q = FB``."""

    def __init__(self, design: Design, factors: Factors, P: Floats | None, Q: Floats) -> None:
        self._design = design
        self.factors = factors
        self._Q = Q
        if P is not None:
            self._P = P

    @cached_property
    def _P(self) -> Floats:
        return self._design.left(self.factors.left)

    @property
    def _known_P(self) -> Floats | None:
        """P where it has been computed."""
        return self.__dict__.get("_P")

    @property
    def products(self) -> tuple[Floats, Floats]:
        """P and Q, as large as the factors: another term at the same place need not have its own."""
        return self._P, self._Q

    @abstractmethod
    def _gradient(self) -> tuple[Floats, Floats, Floats]:
        """``G Q``, ``Gᵀ P`` and the label sums of G."""

    @abstractmethod
    def _hessian_product(self, dP: Floats, dQ: Floats, db: Floats) -> tuple[Floats, Floats, Floats]:
        """The Hessian in (P, Q, b) times a direction."""

    @abstractmethod
    def _hessian_diagonal(self) -> tuple[Floats, Floats, Floats]:
        """``D (Q∘Q)``, ``Dᵀ (P∘P)`` and the label sums of D, the second derivatives of f in the scores."""

    @abstractmethod
    def _curvature_along(self, XU: Floats, FV: Floats) -> Floats:
        """``Σ D (Xu vᵀFᵀ)²`` for each column."""

    def gradient(self) -> Factors:
        return self._design.back(*self._gradient())

    def hessian_product(self, direction: Factors) -> Factors:
        dP, dQ = self._design.left(direction.left), self._design.right(direction.right)
        return self._design.back(*self._hessian_product(dP, dQ, direction.intercept))

    def hessian_diagonal(self) -> Factors:
        by_row, by_label, intercept = self._hessian_diagonal()
        return Factors(
            self._design.rows.squared_transposed_product(by_row),
            self._design.columns.squared_transposed_product(by_label),
            intercept,
        )

    def curvature_along(self, U: Floats, V: Floats) -> Floats:
        return self._curvature_along(self._design.left(U), self._design.right(V))


class DesignGradient(ABC):
    """``Xᵀ G F`` as a linear map, for a G that a subclass knows how to multiply with."""

    def __init__(self, design: Design) -> None:
        self._design = design

    @abstractmethod
    def _times(self, M: Floats) -> Floats:
        """``G M``."""

    @abstractmethod
    def _transposed_times(self, M: Floats) -> Floats:
        """``Gᵀ M``."""

    @abstractmethod
    def _by_features(self) -> Floats:
        """``Xᵀ G`` (d x L)."""

    def left_product(self, V: Floats) -> Floats:
        return self._design.rows.transposed_product(self._times(self._design.right(V)))

    def right_product(self, U: Floats) -> Floats:
        return self._design.columns.transposed_product(self._transposed_times(self._design.left(U)))

    def matrix(self) -> Floats:
        by_features = self._by_features()
        if isinstance(self._design.columns, IdentityFeatures):
            return by_features
        return self._design.columns.transposed_product(np.ascontiguousarray(by_features.T)).T
