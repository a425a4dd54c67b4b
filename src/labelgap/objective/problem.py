"""One learning problem, in one part or many, from which the objectives of all fits are made."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.objective.frame import (
    Coordinates,
    FeatureFrame,
    Frame,
    observed_frame,
    orthonormal,
    unlabelled_frame,
)
from labelgap.objective.moments import FeatureMoments, ObservedMoments, SecondMoments, UnlabelledMoments
from labelgap.objective.parts import Backend, ProblemSettings, RowBlock, RowData
from labelgap.objective.protocol import Factors, Objective
from labelgap.objective.sum import RowSplit, SumBounds, SumObjective


class Problem:
    """Features and settings, with which objectives over any labels are made.

    Parameters
    ----------
    blocks : sequence of RowBlock
        The rows of the data, in order; one block on one machine.
    settings : ProblemSettings
    backend : Backend, default the CPU
        The machine that objectives run on.
    gone : FeatureMoments or None, default None
        Moments of rows that are not there any more, which count where the features are scaled and centred.

    Examples
    --------
    >>> from labelgap.losses import Logistic
    >>> from labelgap.objective.parts import ProblemSettings, RowBlock
    >>> labels = ObservedLabels.from_dense([[1, 0], [0, 1], [1, 1], [0, 0]])
    >>> X = np.array([[1.0], [0.5], [2.0], [-1.0]])
    >>> whole = Problem([RowBlock(X, labels)], ProblemSettings(Logistic()))
    >>> halves = [RowBlock(X[rows], labels.take_rows(rows)) for rows in (np.arange(3), np.arange(3, 4))]
    >>> cut = Problem(halves, ProblemSettings(Logistic()))
    >>> model = Factors(np.array([[1.0]]), np.array([[1.0], [-1.0]]), np.zeros(2))
    >>> one, sum_of_two = (problem.objective(labels).at(model).value for problem in (whole, cut))
    >>> bool(np.isclose(one, sum_of_two))
    True
    """

    device: Any = None
    """The torch device that objectives run on; None for the CPU and for several machines."""

    def __init__(
        self,
        blocks: Sequence[RowBlock],
        settings: ProblemSettings,
        backend: Backend | None = None,
        gone: FeatureMoments | None = None,
    ) -> None:
        self._gone = gone
        self._backend = _cpu_backend() if backend is None else backend
        self.device = getattr(backend, "device", None)
        self._blocks = tuple(blocks)
        self._rows: tuple[RowData, ...] = tuple(self._backend.row_data(block) for block in self._blocks)
        self.settings = settings
        self.features = self._decide_features()

    def _decide_features(self) -> FeatureFrame:
        settings = self.settings.features
        moments, gone = reduce(add, (rows.moments(settings) for rows in self._rows)), self._gone

        def second() -> SecondMoments | None:
            total = reduce(add, (rows.second_moments() for rows in self._rows))
            if gone is None:
                return total
            return None if gone.second is None else total + gone.second

        frame = FeatureFrame.decide(
            moments if gone is None else moments + gone,
            second,
            scaling=settings.scaling,
            penalty=settings.penalty,
            centre=settings.centre,
            count_weighting=settings.count_weighting,
            label_weighting=settings.label_weighting,
        )
        # The Gram matrix of the rows that are there says nothing of the others.
        if settings.penalty == "scores" and frame.coordinates is not None and self._gone is None:
            gram = reduce(add, (rows.gram(settings, frame) for rows in self._rows))
            frame = replace(frame, coordinates=orthonormal(frame.coordinates, gram))
        return frame

    def with_settings(self, **changes: Any) -> Problem:
        """The same data under other settings; features are taken anew only if their settings change."""
        other = copy.copy(self)
        other.settings = replace(self.settings, **changes)
        if "features" in changes:
            other.features = other._decide_features()
            for name in ("mean_square_length", "_split"):
                other.__dict__.pop(name, None)
        return other

    def of_rows(self, rows: NDArray[np.int64], labels: ObservedLabels) -> Problem:
        """The problem about some of the rows, with these labels, in the coordinates of all rows.

        A model of the one is a model of the other. There must be one block, whose rows have no parameters of
        their own.
        """
        (block,) = self._blocks
        other = copy.copy(self)
        other._blocks = (RowBlock(block.X[rows], labels),)
        other._rows = (self._backend.row_data(other._blocks[0]),)
        for name in ("mean_square_length", "_split"):
            other.__dict__.pop(name, None)
        return other

    def in_span(self, basis: Floats) -> Problem:
        """The problem about M in place of ``W = basis · M``, for a basis with orthonormal columns.

        The norms of M are those of W. There must be one block, whose rows have no parameters of their own.
        """
        (block,) = self._blocks
        other = copy.copy(self)
        other._blocks = (replace(block, X=self.left(basis)),)
        other._rows = (self._backend.row_data(other._blocks[0]),)
        other.features = replace(self.features, coordinates=Coordinates(basis.shape[1]))
        for name in ("mean_square_length", "_split"):
            other.__dict__.pop(name, None)
        return other

    @property
    def loss(self) -> Any:
        return self.settings.loss

    @property
    def has_sparse_features(self) -> bool:
        """Whether the features of the rows were handed in as a sparse matrix."""
        return bool(sp.issparse(self._blocks[0].X))

    @property
    def feature_scales(self) -> Floats | None:
        """What the columns of the features are multiplied with; None where they are left alone."""
        coordinates = self.features.coordinates
        return None if coordinates is None else coordinates.scales

    @cached_property
    def mean_square_length(self) -> float:
        """The mean squared length of a row of features, in the units that are penalised.

        It is about 0 for a sparse X; for a dense one about the centre, if a free intercept can absorb that.
        """
        total = sum(rows.square_length(self.settings.features, self.features) for rows in self._rows)
        return total / max(sum(rows.n_rows for rows in self._rows), 1) - self.features.excess

    @property
    def row_features(self) -> Any:
        """X as a linear map in the coordinates that are penalised; for a problem in one block on the CPU."""
        # The kernels are imported where they are used, so that a fitted model is loaded without them.
        from labelgap.objective.cpu.part import CpuRows

        (rows,) = self._rows
        assert isinstance(rows, CpuRows)
        return rows.design(self.settings.features, self.features).rows

    # -- objectives ------------------------------------------------------------------------------------

    def objective(
        self, labels: ObservedLabels, *, free_intercept: bool = True, thinned: bool = False
    ) -> Objective:
        """The data term over these labels; ``free_intercept`` unless the intercepts are penalised.

        Under positive-unlabelled learning, ``labels`` are some of the judged entries and the others are left
        out altogether. With ``thinned`` nothing is left out: the recorded positives that are not among the
        labels count as unlabelled.
        """
        pieces = zip(self._rows, self._blocks, self._by_block(labels), strict=True)
        parts = [rows.part(self.settings, block, piece, thinned=thinned) for rows, block, piece in pieces]
        frame = frame_of(
            self.settings,
            self.features,
            reduce(add, [part.moments() for part in parts]),
            free_intercept=free_intercept,
            thinned=thinned,
        )
        terms = [part.objective(frame) for part in parts]
        if len(terms) == 1:
            return terms[0]
        bounds = [term.bounds for term in terms if term.bounds is not None]
        return SumObjective(terms, self._split, SumBounds(bounds, self._split) if bounds else None)

    def _by_block(self, labels: ObservedLabels) -> list[ObservedLabels]:
        if len(self._rows) == 1:
            return [labels]
        ends = np.cumsum([0, *(rows.n_rows for rows in self._rows)])
        return [
            labels.take_rows(np.arange(start, stop))
            for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        ]

    @cached_property
    def _split(self) -> RowSplit | None:
        if not self.settings.features.own_rows:
            return None
        return RowSplit([rows.n_rows for rows in self._rows])

    def _local(self, left: Any) -> list[Any]:
        if self._split is None or len(self._rows) == 1:
            return [left] * len(self._rows)
        return self._split.local(left)

    # -- models ----------------------------------------------------------------------------------------

    def scores(self, factors: Factors, labels: ObservedLabels) -> Floats:
        """The model's scores at the entries of these labels (plus offsets, where labels have them)."""
        pieces = zip(self._rows, self._local(factors.left), self._by_block(labels), strict=True)
        scores = [
            rows.scores(self.settings.features, self.features, left, factors.right, factors.intercept, piece)
            for rows, left, piece in pieces
        ]
        return scores[0] if len(scores) == 1 else np.concatenate(scores)

    def scores_in_place(self, factors: Factors, labels: ObservedLabels) -> Any:
        """The same scores where they were made: a tensor, if one device has all rows."""
        if len(self._rows) != 1 or not hasattr(self._rows[0], "device_scores"):
            return self.scores(factors, labels)
        features = self.settings.features, self.features
        return self._rows[0].device_scores(*features, *factors, labels)

    def left(self, A: Any) -> Any:
        """``P = XA`` of all rows."""
        pairs = zip(self._rows, self._local(A), strict=True)
        products = [rows.left(self.settings.features, self.features, local) for rows, local in pairs]
        return products[0] if len(products) == 1 else array_namespace(products[0]).concat(products)

    def right(self, B: Any) -> Any:
        """``Q = FB`` of all labels."""
        return self._rows[0].right(self.settings.features, self.features, B)

    def to_original(self, factors: Factors) -> Factors:
        """The same model in the features that were handed in.

        Where rows have parameters of their own, their rows of ``left`` become their factors; features beside
        them are used as they were given.
        """
        if self.features.coordinates is not None:
            # The centre moves the scores of a label through its row of Q.
            moved = self.features.coordinates.to_original(factors._replace(right=self.right(factors.right)))
            return moved._replace(right=factors.right)
        return self._scaled_rows(factors, 1.0)

    def from_original(self, factors: Factors) -> Factors:
        """The model in the coordinates of the fit; inverts :meth:`to_original`."""
        if self.features.coordinates is not None:
            moved = self.features.coordinates.from_original(factors._replace(right=self.right(factors.right)))
            return moved._replace(right=factors.right)
        return self._scaled_rows(factors, -1.0)

    def _scaled_rows(self, factors: Factors, power: float) -> Factors:
        scales = [rows.own_scales(self.settings.features, self.features) for rows in self._rows]
        known = [scale for scale in scales if scale is not None]
        if not known:
            return factors
        own = np.concatenate(known) ** power
        left = np.concatenate([factors.left[: len(own)] * own[:, None], factors.left[len(own) :]])
        return factors._replace(left=left)


def _cpu_backend() -> Backend:
    from labelgap.objective.cpu.part import CpuBackend

    return CpuBackend()


def frame_of(
    settings: ProblemSettings,
    features: FeatureFrame,
    total: ObservedMoments | UnlabelledMoments,
    *,
    free_intercept: bool,
    thinned: bool = False,
) -> Frame:
    """The frame of an objective, decided from the sum of its parts' moments."""
    if isinstance(total, UnlabelledMoments):
        assert settings.flip_rate is not None
        return unlabelled_frame(
            features,
            total,
            settings.loss,
            settings.flip_rate,
            thinned=thinned,
            fit_intercept=settings.fit_intercept,
            free_intercept=free_intercept,
        )
    return observed_frame(
        features, total, settings.loss, fit_intercept=settings.fit_intercept, free_intercept=free_intercept
    )
