"""Rows of a data set on the CPU: their moments, and their objective once the frame is known."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from labelgap._types import Floats
from labelgap.exceptions import InvalidFeaturesError
from labelgap.kernels.entries import sampled_product
from labelgap.kernels.entry_pattern import EntryPattern
from labelgap.kernels.threads import map_in_order
from labelgap.kernels.unlabelled_passes import LEFT_OUT, RECORDED, UNLABELLED
from labelgap.labels import ObservedLabels
from labelgap.labels.unobserved import observed_among
from labelgap.losses.unlabelled import Unlabelled
from labelgap.objective.cpu.all_entries import AllEntriesTerm
from labelgap.objective.cpu.design import Design
from labelgap.objective.cpu.entries import EntryTerm, WeightedLoss, entry_blocks
from labelgap.objective.cpu.features import (
    DenseFeatures,
    Features,
    IdentityFeatures,
    ScaledIdentityFeatures,
    SparseFeatures,
    StackedFeatures,
)
from labelgap.objective.cpu.gram import GramTerm
from labelgap.objective.cpu.kept_scores import KeptScoresObjective, can_keep_scores
from labelgap.objective.cpu.score_bound import EntryBounds, stiffness_for
from labelgap.objective.cpu.unlabelled import (
    CpuUnlabelled,
    HeldCorrection,
    RecordedCorrection,
    RecordedLosses,
)
from labelgap.objective.frame import Coordinates, FeatureFrame, Frame, scales_by_count
from labelgap.objective.moments import (
    ColumnMoments,
    FeatureMoments,
    LabelSums,
    ObservedMoments,
    RootMoments,
    SecondMoments,
    UnlabelledMoments,
    can_have_axes,
    row_blocks,
)
from labelgap.objective.parts import FeatureSettings, Part, ProblemSettings, RowBlock
from labelgap.objective.protocol import Objective

# Numbers in the largest sparse X that is made dense for a penalty on the scores (1 GiB of them).
_LARGEST_DENSE = 1 << 27


class CpuRows:
    """The features of some rows, as they were handed in and, once a frame is known, in its coordinates."""

    def __init__(self, block: RowBlock) -> None:
        self._X = sp.csr_array(block.X) if sp.issparse(block.X) else block.X
        self._counts, self._label_counts = block.labels.row_counts(), block.labels.label_counts()
        self._label_positives = block.labels.positive_counts()
        self.n_rows = block.labels.shape[0]
        self._columns: ColumnMoments | None = None
        self._design: tuple[FeatureSettings, FeatureFrame, Design] | None = None
        self._frozen = False

    def moments(self, settings: FeatureSettings) -> FeatureMoments:
        X, columns, root, n_stored = self._X, None, None, 0
        is_sparse = sp.issparse(X)
        if X is not None and not settings.own_rows:
            columns = self._known_columns()
            n_stored = int(X.nnz if is_sparse else np.count_nonzero(X))
            if settings.penalty == "scores":
                _refuse_large(X)
                root = RootMoments.of(X)
        filled = float(np.maximum(self._counts, 1).sum())
        counts = self._label_counts, self._label_positives
        return FeatureMoments(is_sparse, columns, None, root, self.n_rows, filled, *counts, n_stored)

    def second_moments(self) -> SecondMoments:
        return SecondMoments.of(self._X, self._known_columns())

    def lasting_moments(self, settings: FeatureSettings) -> FeatureMoments:
        """The moments of rows that are given up."""
        moments = self.moments(settings)
        if moments.columns is None or moments.root is not None or not can_have_axes(*self._X.shape):
            return moments
        # With later rows, those of a dense X may want axes though these alone do not.
        wanted = moments.wants_dense or not moments.is_sparse
        return replace(moments, second=self.second_moments()) if wanted else moments

    def _known_columns(self) -> ColumnMoments:
        # Whatever the settings, they are the same.
        self._columns = self._columns or ColumnMoments.of(self._X)
        return self._columns

    def design(self, settings: FeatureSettings, frame: FeatureFrame) -> Design:
        """The features of rows and labels in the frame's coordinates; made once for a frame."""
        if self._frozen:
            assert self._design is not None
            return self._design[2]
        known = self._design
        if known is None or known[0] is not settings or known[1] is not frame:
            design = Design(self._row_features(settings, frame), self._label_features(settings, frame))
            known = self._design = settings, frame, design
        return known[2]

    def in_frame(self, settings: FeatureSettings, frame: FeatureFrame) -> CpuRows:
        """The same rows for this one frame, whatever settings and frame they are asked with later.

        The features as they were handed in, and the coordinates, are given up: a copy of these rows for
        another process holds nothing twice.
        """
        rows = copy.copy(self)
        rows._design = settings, replace(frame, coordinates=None), self.design(settings, frame)
        rows._X, rows._frozen = None, True
        return rows

    def _row_features(self, settings: FeatureSettings, frame: FeatureFrame) -> Features:
        if not settings.own_rows:
            assert frame.coordinates is not None
            # Other threads may put another design there.
            known = self._design
            if known is not None and _alike(known[1].coordinates, frame.coordinates):
                # Other label weightings leave the rows as they are, in coordinates that were decided anew.
                return known[2].rows
            return features_in(frame.coordinates, self._X)
        own = _own_features(self.own_scales(settings, frame), self.n_rows)
        return own if self._X is None else StackedFeatures([own, SparseFeatures(self._X)])

    def _label_features(self, settings: FeatureSettings, frame: FeatureFrame) -> Features:
        own = _own_features(frame.label_scales, len(self._label_counts))
        if settings.label_features is None:
            return own
        others = SparseFeatures(settings.label_features)
        return StackedFeatures([own, others]) if settings.own_labels else others

    def own_scales(self, settings: FeatureSettings, frame: FeatureFrame) -> Floats | None:
        if not settings.own_rows or settings.count_weighting == 0:
            return None
        return scales_by_count(self._counts, settings.count_weighting, frame.mean_row_count)

    def gram(self, settings: FeatureSettings, frame: FeatureFrame) -> Floats:
        rows = self.design(settings, frame).rows
        return rows.transposed_product(rows.product(np.eye(rows.n_features)))

    def square_length(self, settings: FeatureSettings, frame: FeatureFrame) -> float:
        return self.design(settings, frame).rows.square_length()

    def n_stored(self, settings: FeatureSettings, frame: FeatureFrame) -> int:
        return self.design(settings, frame).n_stored

    def left(self, settings: FeatureSettings, frame: FeatureFrame, A: Floats) -> Floats:
        return self.design(settings, frame).left(A)

    def right(self, settings: FeatureSettings, frame: FeatureFrame, B: Floats) -> Floats:
        return self.design(settings, frame).right(B)

    def scores(
        self,
        settings: FeatureSettings,
        frame: FeatureFrame,
        A: Floats,
        B: Floats,
        b: Floats,
        labels: ObservedLabels,
    ) -> Floats:
        P, Q = self.left(settings, frame, A), self.right(settings, frame, B)
        scores = sampled_product(labels.indptr, labels.indices, P, Q)

        def work(block: slice) -> None:
            scores[block] += b[labels.indices[block]]

        map_in_order(work, entry_blocks(len(scores)))
        if labels.offsets is not None:
            scores += labels.offsets
        return scores

    def part(
        self, settings: ProblemSettings, block: RowBlock, labels: ObservedLabels, *, thinned: bool
    ) -> Part:
        if settings.flip_rate is None:
            return ObservedPart(self, settings, labels)
        judged = block.labels if block.judged is None else block.judged
        return UnlabelledPart(self, settings, judged, labels, thinned=thinned)


class CpuBackend:
    """This machine's processor, and numpy's arrays."""

    def row_data(self, block: RowBlock) -> CpuRows:
        return CpuRows(block)


def features_in(coordinates: Coordinates, X: Any) -> Features:
    """Rows of features in the coordinates of a frame: ``(s∘x − c) V R⁻¹``."""
    if coordinates.is_sparse:
        return SparseFeatures(X, coordinates.scales)
    return DenseFeatures(moved_rows(coordinates, X))


def moved_rows(coordinates: Coordinates, X: Any) -> Floats:
    """The same as a dense array, for coordinates that do not keep the rows sparse."""
    n, d = X.shape
    moved = np.empty((n, coordinates.n_coordinates))
    for rows in row_blocks(n, d):
        block = X[rows].toarray() if sp.issparse(X) else np.asarray(X[rows], dtype=np.float64)
        if coordinates.scales is not None:
            block = block * coordinates.scales
        if coordinates.centre is not None:
            block = block - coordinates.centre
        moved[rows] = block if coordinates.basis is None else block @ coordinates.basis
    if coordinates.root is not None:
        moved = scipy.linalg.solve_triangular(coordinates.root, moved.T, trans="T", overwrite_b=True).T
    return moved


def _alike(one: Coordinates | None, other: Coordinates) -> bool:
    """Whether both keep the rows sparse, and scale them alike."""
    if one is None or not (one.is_sparse and other.is_sparse):
        return False
    if one.scales is None or other.scales is None:
        return one.scales is other.scales
    return np.array_equal(one.scales, other.scales)


def _own_features(scales: Floats | None, n_rows: int) -> Features:
    return IdentityFeatures(n_rows) if scales is None else ScaledIdentityFeatures(scales)


def _refuse_large(X: Any) -> None:
    n, d = X.shape
    if sp.issparse(X) and n * d > _LARGEST_DENSE:
        raise InvalidFeaturesError(
            f"A penalty on the scores works with a dense basis of X, and X is sparse with {n} x {d} = "
            f"{n * d:.1e} entries (at most {_LARGEST_DENSE:.1e} are possible). Reduce the features first, "
            "for instance with sklearn.decomposition.TruncatedSVD, or put the penalty on W."
        )


class ObservedPart:
    """Rows with observed labels: ``Σ_Ω ω_ij ℓ(z_ij, y_ij) / total``."""

    def __init__(self, rows: CpuRows, settings: ProblemSettings, labels: ObservedLabels) -> None:
        self._rows, self._settings, self._labels = rows, settings, labels

    def moments(self) -> ObservedMoments:
        labels = self._labels
        total = float(labels.n_observed if labels.weights is None else labels.weights.sum())
        offsets = None
        if labels.offsets is not None:
            sums = np.bincount(labels.indices, weights=labels.offsets, minlength=labels.shape[1])
            offsets = sums.astype(np.float64)
        return ObservedMoments(total, LabelSums.of(labels, self._settings.loss.edge_values), offsets)

    def objective(self, frame: Frame) -> Objective:
        settings, labels = self._settings, self._labels
        kept = labels if frame.informative.all() else labels.select(frame.informative[labels.indices])
        design = self._rows.design(settings.features, frame.features)
        bound = settings.score_bound
        return EntryTerm(
            design,
            EntryPattern(kept.indptr, kept.indices, labels.shape[1]),
            WeightedLoss(settings.loss, kept.values, kept.weights, frame.total, kept.offsets),
            has_intercept=settings.fit_intercept,
            starting_intercept=frame.starting_intercept,
            bounds=None if bound is None else EntryBounds(design, bound, stiffness_for(frame.total)),
        )


class UnlabelledPart:
    """Rows of which only positives are recorded; every entry counts.

    ``labels`` are some of the ``judged`` entries; the others are held out, or with ``thinned`` those of them
    that are recorded positives count as unlabelled.
    """

    def __init__(
        self,
        rows: CpuRows,
        settings: ProblemSettings,
        judged: ObservedLabels,
        labels: ObservedLabels,
        *,
        thinned: bool,
    ) -> None:
        self._rows, self._settings, self._judged = rows, settings, judged
        self._positives = labels.select(labels.values == 1)
        outside = np.zeros(judged.n_observed, dtype=np.bool_)
        if not thinned and labels.n_observed < judged.n_observed:
            outside = ~observed_among(labels, judged.rows * judged.shape[1] + judged.cols)
        self._held = judged.select(outside)

    def moments(self) -> UnlabelledMoments:
        return UnlabelledMoments(
            self._judged.shape[0],
            self._positives.label_counts(),
            self._held.label_counts(),
            int(np.sum(self._judged.values == 1)),
            int(np.sum(self._held.values == 1)),
        )

    def objective(self, frame: Frame) -> Objective:
        settings, inside = self._settings, frame.informative
        assert frame.flip_rates is not None
        loss, total, n_labels = settings.loss, frame.total, len(inside)
        design = self._rows.design(settings.features, frame.features)
        positives = self._positives.select(inside[self._positives.indices])
        held = self._held.select(inside[self._held.indices])
        has_intercept, labels = settings.fit_intercept, np.flatnonzero(inside)
        n_rows = self._judged.shape[0]
        if can_keep_scores(loss) and n_rows * n_labels <= settings.kept_entries:
            kinds = np.where(inside, UNLABELLED, LEFT_OUT).astype(np.int8)
            kinds = np.repeat(kinds[None, :], n_rows, axis=0)
            kinds[positives.rows, positives.indices] = RECORDED
            kinds[held.rows, held.indices] = LEFT_OUT
            return KeptScoresObjective(
                design, kinds, frame, settings.score_bound, has_intercept=has_intercept
            )
        unbiased = Unlabelled(loss, frame.flip_rates[positives.indices])

        def sparse(entries: ObservedLabels, function: Any) -> EntryTerm:
            pattern = EntryPattern(entries.indptr, entries.indices, n_labels)
            return EntryTerm(design, pattern, function, has_intercept=has_intercept)

        recorded = sparse(positives, RecordedCorrection(unbiased, total))
        every: AllEntriesTerm | GramTerm
        if loss.name == "squared":
            every = GramTerm(design, labels, total, has_intercept=has_intercept)
        else:
            every = AllEntriesTerm(
                design,
                loss,
                labels,
                total,
                has_intercept=has_intercept,
                block_entries=settings.block_entries,
            )
        bounds = None
        if settings.score_bound is not None:
            # Only at recorded positives does the loss fall without limit.
            always = positives.rows * n_labels + positives.indices
            bounds = EntryBounds(design, settings.score_bound, stiffness_for(total), always)
        out = sparse(held, HeldCorrection(loss, total))
        losses = RecordedLosses(unbiased, positives.n_observed)
        return CpuUnlabelled(every, recorded, out, losses, frame, bounds)
