"""What a model keeps of the data that it has seen, so that later batches join them.

All of it, by default. With a limit, a weighted sample of the entries and the moments of the features of rows
that are gone: an entry that is drawn with probability π then weighs 1/π times as much, so that every weighted
sum over entries keeps its expectation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.arriving.drift import forget_weights
from labelgap.arriving.union import JoinedLabels, join_labels, place_labels
from labelgap.exceptions import InvalidInputError
from labelgap.labels import ObservedLabels
from labelgap.objective.moments import FeatureMoments
from labelgap.objective.parts import FeatureSettings
from labelgap.persistence.registry import savable_record
from labelgap.recommending.ids import Ids, number_ids


class Incoming(NamedTuple):
    """A batch that has been read: rows of weight 0 are left out."""

    X: Any
    labels: ObservedLabels
    row_ids: Any
    row_weights: Floats | None
    propensities: Floats | None


@savable_record("row_ids")
@dataclass(frozen=True)
class RowIds:
    """Which rows have an id, so that a later batch can say more about them.

    Attributes
    ----------
    n_rows : int
        All rows, those without an id too.
    ids : tuple of hashable values
    rows : int64 array
        The row of each id.

    Examples
    --------
    >>> known, rows = RowIds().place(["a", "b"], 2)
    >>> known, rows = known.place(["b", "c"], 2)
    >>> rows.tolist(), known.n_rows, known.ids
    ([1, 2], 3, ('a', 'b', 'c'))
    """

    n_rows: int = 0
    ids: Ids = ()
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @cached_property
    def _row_of(self) -> dict[Hashable, int]:
        return dict(zip(self.ids, self.rows.tolist(), strict=True))

    def place(self, row_ids: Any, n: int) -> tuple[Self, NDArray[np.int64]]:
        """The rows with those of a batch of n rows, and the row of the union that each of these has.

        Parameters
        ----------
        row_ids : sequence of n hashable values, or None
            A row with a known id is that row. All others are new rows, which come last and in order; without
            ids (None) every row is new. An id may come once in a batch.
        """
        if row_ids is None:
            rows = np.arange(self.n_rows, self.n_rows + n, dtype=np.int64)
            return replace(self, n_rows=self.n_rows + n), rows
        numbers, ids = number_ids(row_ids, "row")
        if len(numbers) != n:
            raise InvalidInputError(f"There are {len(numbers)} row_ids for {n} rows of X; give one for each.")
        if len(ids) != n:
            twice = int(np.argmax(np.bincount(numbers) > 1))
            first, second = np.flatnonzero(numbers == twice)[:2].tolist()
            raise InvalidInputError(
                f"The row id {ids[twice]!r} comes twice in one batch, at rows {first} and {second}; merge "
                "these rows, or pass them as two batches, of which the later one counts."
            )
        rows = np.array([self._row_of.get(name, -1) for name in ids], dtype=np.int64)
        fresh = np.flatnonzero(rows < 0)
        rows[fresh] = np.arange(self.n_rows, self.n_rows + len(fresh))
        joined = type(self)(
            self.n_rows + len(fresh),
            self.ids + tuple(ids[row] for row in fresh.tolist()),
            np.concatenate([self.rows, rows[fresh]]),
        )
        return joined, rows


@savable_record("kept_data")
@dataclass(frozen=True)
class KeptData:
    """The union of all batches, or a sample of it.

    Attributes
    ----------
    X : array, sparse matrix or None
        Features of the rows, as they came.
    labels : ObservedLabels
        Entries with their own weights, those of a sample multiplied by 1/π.
    rows : RowIds
    born : int32 array of length |Ω|
        The batch that each entry came with, or was last seen in.
    held_out : float64 array of length |Ω|
        The score of each entry by a model that had not seen it; NaN where there is none.
    row_weights : float64 array of length n or None
    propensities : float64 array of length |Ω| or None
    features : FeatureSettings
        How the features were used at the last choice of penalties.
    n_batches : int
    chosen_at : float
        The sum of the weights of all entries at the last choice of penalties.
    gone : FeatureMoments or None
        Of rows and entries that were not kept.
    """

    X: Any
    labels: ObservedLabels
    rows: RowIds
    born: NDArray[np.int32]
    held_out: Floats
    row_weights: Floats | None
    propensities: Floats | None
    features: FeatureSettings
    n_batches: int
    chosen_at: float
    gone: FeatureMoments | None = None

    def __post_init__(self) -> None:
        n, count = self.labels.shape[0], self.labels.n_observed
        per_entry = (self.born, self.held_out, self.propensities)
        whole = (
            self.rows.n_rows == n
            and (self.X is None or (len(self.X.shape) == 2 and self.X.shape[0] == n))
            and all(each is None or each.shape == (count,) for each in per_entry)
            and (self.row_weights is None or self.row_weights.shape == (n,))
            and len(self.rows.ids) == len(self.rows.rows)
            and (not len(self.rows.rows) or 0 <= self.rows.rows.min() <= self.rows.rows.max() < n)
        )
        if not whole:
            raise ValueError("the data that it keeps do not fit together")

    @classmethod
    def begin(cls, batch: Incoming, held_out: Floats, features: FeatureSettings) -> Self:
        """What is kept of the first batch."""
        labels = replace(batch.labels, row_names=None)
        rows, _ = RowIds().place(batch.row_ids, labels.shape[0])
        born = np.ones(labels.n_observed, dtype=np.int32)
        kept = cls(
            batch.X,
            labels,
            rows,
            born,
            held_out,
            batch.row_weights,
            batch.propensities,
            features,
            1,
            0.0,
        )
        return replace(kept, chosen_at=kept.total_weight)

    @property
    def total_weight(self) -> float:
        """The number of entries, or the sum of their weights: those of a sample stand for all."""
        labels = self.labels
        return float(labels.n_observed if labels.weights is None else labels.weights.sum())

    @property
    def n_bytes(self) -> int:
        """About how large it is, in memory and in a file that is not compressed."""
        arrays = [self.labels.indptr, self.labels.indices, self.labels.values, self.born, self.held_out]
        arrays += [
            each
            for each in (self.labels.weights, self.labels.offsets, self.labels.judging)
            if each is not None
        ]
        arrays += [each for each in (self.row_weights, self.propensities) if each is not None]
        if sp.issparse(self.X):
            arrays += [self.X.data, self.X.indices, self.X.indptr]
        elif self.X is not None:
            arrays.append(self.X)
        return sum(int(array.nbytes) for array in arrays)

    # -- more data -------------------------------------------------------------------------------------

    def join(self, batch: Incoming) -> tuple[Self, JoinedLabels]:
        """The union with a batch, and how its entries were joined; the batch has no held-out scores yet."""
        old, new = self.labels, batch.labels
        columns, names, n_labels = place_labels(old.label_names, old.shape[1], new.label_names, new.shape[1])
        rows, places = self.rows.place(batch.row_ids, new.shape[0])
        if old.unobserved == "missing":
            # A sample of labels whose absent ones are a no is not complete any more.
            new = replace(new, unobserved="missing")
        joined = join_labels(old, new, places, columns, shape=(rows.n_rows, n_labels), label_names=names)
        number, known = self.n_batches + 1, joined.earlier >= 0
        held_out = np.full(joined.labels.n_observed, np.nan)
        held_out[known] = self.held_out[joined.earlier[known]]
        born = joined.per_entry(self.born, np.full(new.n_observed, number), otherwise=number)
        union = replace(
            self,
            X=_join_rows(self.X, batch.X, places),
            labels=joined.labels,
            rows=rows,
            born=born.astype(np.int32),
            held_out=held_out,
            row_weights=_join_weights(self.row_weights, batch.row_weights, places, old.shape[0]),
            propensities=None
            if self.propensities is None or batch.propensities is None
            else joined.per_entry(self.propensities, batch.propensities, otherwise=1.0),
            n_batches=number,
        )
        return union, joined

    def forgotten(self, half_life: float | None) -> ObservedLabels:
        """The labels with the weights of their age on top of their own."""
        ages = forget_weights(self.n_batches - self.born, half_life)
        if ages is None:
            return self.labels
        own = self.labels.weights
        return replace(self.labels, weights=ages if own is None else ages * own)

    # -- a bounded sample ------------------------------------------------------------------------------

    def within(
        self,
        most: int,
        half_life: float | None,
        rng: np.random.RandomState,
        moments_of: Callable[[Any, ObservedLabels], FeatureMoments],
    ) -> Self:
        """At most so many entries, with the rows that they are in, drawn in proportion to their weights.

        ``moments_of`` gives the moments of the features of rows, which are all that is kept of rows without
        an entry left.
        """
        labels = self.labels
        if labels.n_observed <= most:
            return self
        weights = self.forgotten(half_life).weights
        weights = np.ones(labels.n_observed) if weights is None else weights
        if self.row_weights is not None:
            weights = weights * self.row_weights[labels.rows]
        drawn, probability = draw_in_proportion(weights, most, rng)
        mask = np.zeros(labels.n_observed, dtype=np.bool_)
        mask[drawn] = True
        sample = labels.select(mask)
        own = np.ones(len(drawn)) if sample.weights is None else sample.weights
        sample = replace(sample, weights=own / probability[drawn], unobserved="missing")

        stays = sample.row_counts() > 0
        left, lost = np.flatnonzero(stays), np.flatnonzero(~stays)
        gone = moments_of(_take(self.X, lost), labels.take_rows(lost))
        # Of entries that are gone from rows that stay, the counts are all that a frame asks for.
        dropped = labels.select(~mask)
        gone = replace(gone, label_counts=dropped.label_counts(), label_positives=dropped.positive_counts())
        place = np.cumsum(stays) - 1
        with_id = stays[self.rows.rows]
        ids = tuple(name for name, kept in zip(self.rows.ids, with_id.tolist(), strict=True) if kept)
        return replace(
            self,
            X=_take(self.X, left),
            labels=sample.take_rows(left),
            rows=RowIds(len(left), ids, place[self.rows.rows[with_id]]),
            born=self.born[mask],
            held_out=self.held_out[mask],
            row_weights=None if self.row_weights is None else self.row_weights[left],
            propensities=None if self.propensities is None else self.propensities[mask],
            gone=gone if self.gone is None else _widened(self.gone, labels.shape[1]) + gone,
        )


def draw_in_proportion(
    weights: Floats, most: int, rng: np.random.RandomState
) -> tuple[NDArray[np.int64], Floats]:
    """``most`` entries, each with a probability in proportion to its weight, and the probabilities.

    Entry i is drawn with ``π_i = min(1, c w_i)``, c such that they sum to ``most``, by systematic sampling in
    a random order: each at most once.

    Examples
    --------
    >>> drawn, probability = draw_in_proportion(np.array([9.0, 1.0, 1.0, 1.0]), 2, np.random.RandomState(0))
    >>> len(drawn), probability.round(3).tolist()
    (2, [1.0, 0.333, 0.333, 0.333])
    """
    probability = np.zeros(len(weights))
    certain = np.zeros(len(weights), dtype=np.bool_)
    while True:
        free = most - int(certain.sum())
        probability[~certain] = weights[~certain] * (free / weights[~certain].sum())
        above = ~certain & (probability >= 1.0)
        if not above.any():
            break
        certain |= above
        probability[certain] = 1.0
    order = rng.permutation(len(weights))
    steps = np.floor(np.cumsum(probability[order]) + rng.uniform())
    return np.sort(order[np.diff(steps, prepend=0.0) > 0]), probability


# -- rows --------------------------------------------------------------------------------------------------


def _take(X: Any, rows: NDArray[np.int64]) -> Any:
    return None if X is None else X[rows]


def _join_rows(old: Any, new: Any, places: NDArray[np.int64]) -> Any:
    """Features of the union, in the form of the earlier ones; of a row that comes again the later ones."""
    if old is None:
        return None
    n = old.shape[0]
    if sp.issparse(old):
        both: Any = sp.vstack([sp.csr_array(old), sp.csr_array(new)], format="csr")
    else:
        both = np.concatenate([old, new.toarray() if sp.issparse(new) else new])
    again = places < n
    if not again.any():
        return both
    order = np.concatenate([np.arange(n), n + np.flatnonzero(~again)])
    order[places[again]] = n + np.flatnonzero(again)
    return both[order]


def _join_weights(old: Floats | None, new: Floats | None, places: NDArray[np.int64], n: int) -> Floats | None:
    if old is None and new is None:
        return None
    joined = np.ones(max(n, int(places.max(initial=-1)) + 1))
    joined[:n] = 1.0 if old is None else old
    joined[places] = 1.0 if new is None else new
    return joined


def _widened(moments: FeatureMoments, n_labels: int) -> FeatureMoments:
    """The moments with zeros for labels that came later."""
    more = n_labels - len(moments.label_counts)
    if more == 0:
        return moments
    counts, positives = (np.pad(each, (0, more)) for each in (moments.label_counts, moments.label_positives))
    return replace(moments, label_counts=counts, label_positives=positives)
