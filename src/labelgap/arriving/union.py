"""The union of the observed labels of all batches: new rows, new labels, more entries, and corrections."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap.exceptions import InvalidLabelsError
from labelgap.labels import ObservedLabels
from labelgap.labels.matching import only_count
from labelgap.labels.sources import index_type, row_pointers

Names = Sequence[Hashable] | None


def place_labels(
    known: Names, n_known: int, given: Names, n_given: int
) -> tuple[NDArray[np.int64], tuple[Hashable, ...] | None, int]:
    """The column of the union that each label of a batch has, the names of all labels, and their number.

    Labels with names are matched by name, those with new names come last. Without names, labels are matched
    by their order: a batch with more columns brings new labels at the end, one with fewer is an error.

    Examples
    --------
    >>> columns, names, n_labels = place_labels(("red", "blue"), 2, ("green", "red"), 2)
    >>> columns.tolist(), names, n_labels
    ([2, 0], ('red', 'blue', 'green'), 3)
    """
    if known is not None and given is not None and only_count(given) and not only_count(known):
        # A frame that was made without names numbers its columns; they go by their order, as in an array.
        given = None
    if known is not None and given is not None:
        places = {name: place for place, name in enumerate(known)}
        columns = np.array([places.setdefault(name, len(places)) for name in given], dtype=np.int64)
        return columns, tuple(places), len(places)
    names = None if known is None else tuple(known)
    if n_given == n_known:
        return np.arange(n_given, dtype=np.int64), names, n_known
    if known is None and given is None and n_given > n_known:
        return np.arange(n_given, dtype=np.int64), None, n_given
    if known is None and given is None:
        raise InvalidLabelsError(
            f"The batch has {n_given} labels and the model knows {n_known}. Labels without names are told "
            "apart by their order: give all columns, with NaN where nothing is observed, or use frames with "
            "names of labels throughout."
        )
    named, plain = ("model", "batch") if given is None else ("batch", "model")
    raise InvalidLabelsError(
        f"The batch has {n_given} labels and the model knows {n_known}, and only the {named} names its "
        f"labels, the {plain} does not. Name the labels in both to match them."
    )


@dataclass(frozen=True)
class JoinedLabels:
    """The union of two sets of observed labels.

    Attributes
    ----------
    labels : ObservedLabels
    source : int64 array of length |Ω|
        Where each entry comes from: its number among the earlier entries followed by those of the batch; −1
        where absent entries count as no and neither has it. What belongs to entries is joined by it.
    earlier : int64 array of length |Ω|
        The number of each entry among the earlier entries; −1 where it was not observed before.
    added, corrected, repeated : int
        Entries of the batch that are new, that replaced another value, and that were known with this value.
    """

    labels: ObservedLabels
    source: NDArray[np.int64]
    earlier: NDArray[np.int64]
    added: int
    corrected: int
    repeated: int

    @property
    def is_added(self) -> NDArray[np.bool_]:
        """Which entries the batch has added: they were not observed before."""
        return (self.earlier < 0) & (self.source >= 0)

    def per_entry(self, old: NDArray[Any], new: NDArray[Any], otherwise: Any = 0) -> NDArray[Any]:
        """One number per entry, from those of the earlier entries and of the batch, the batch's where both.

        ``otherwise`` is for entries that neither has, where absent ones count as no.
        """
        found = np.concatenate([old, new])[self.source]
        return np.asarray(np.where(self.source < 0, otherwise, found))


def join_labels(
    old: ObservedLabels,
    new: ObservedLabels,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64] | None = None,
    *,
    shape: tuple[int, int] | None = None,
    row_names: Names = None,
    label_names: Names = None,
) -> JoinedLabels:
    """The union of earlier labels and a batch; where both observe an entry, that of the batch counts.

    Nothing is dense: the entries of both are merged in the order of rows and columns. Where absent entries
    count as no (``unobserved="negative"``), a row of the batch replaces the whole row.

    Parameters
    ----------
    old, new : ObservedLabels
    rows : int64 array, one per row of ``new``
        The row of the union; rows beyond those of ``old`` are new ones.
    columns : int64 array, one per label of ``new``, or None
        The label of the union; None: the same.
    shape : pair of int or None, default None
        Of the union; None: as large as the rows and columns need.
    row_names, label_names : sequences or None, default None
        Names of the union.

    Examples
    --------
    >>> old = ObservedLabels.from_dense([[1, None], [0, 1]])
    >>> new = ObservedLabels.from_dense([[1, 0], [None, 1]])
    >>> both = join_labels(old, new, np.array([1, 2]))
    >>> both.labels.to_dense().tolist()
    [[1.0, nan], [1.0, 0.0], [nan, 1.0]]
    >>> both.added, both.corrected, both.repeated
    (1, 2, 0)
    """
    columns = np.arange(new.shape[1], dtype=np.int64) if columns is None else columns
    if shape is None:
        shape = (
            max(old.shape[0], int(rows.max(initial=-1)) + 1),
            max(old.shape[1], int(columns.max(initial=-1)) + 1),
        )
    width = max(shape[1], 1)
    known = old.rows * width + old.indices
    place = rows[new.rows] * width + columns[new.indices]
    order = np.argsort(place, kind="stable")
    place = place[order]
    at = np.searchsorted(known, place)
    hit = np.zeros(len(place), dtype=np.bool_)
    inside = at < len(known)
    hit[inside] = known[at[inside]] == place[inside]

    fresh = at[~hit] + np.arange(int(np.sum(~hit)))
    source = np.empty(len(known) + len(fresh), dtype=np.int64)
    is_fresh = np.zeros(len(source), dtype=np.bool_)
    is_fresh[fresh] = True
    source[~is_fresh] = np.arange(len(known))
    source[fresh] = len(known) + order[~hit]
    source[np.flatnonzero(~is_fresh)[at[hit]]] = len(known) + order[hit]
    earlier = np.full(len(source), -1, dtype=np.int64)
    earlier[~is_fresh] = np.arange(len(known))
    keys = np.empty(len(source), dtype=np.int64)
    keys[~is_fresh], keys[fresh] = known, place[~hit]

    changed = int(np.sum(old.values[at[hit]] != new.values[order[hit]]))
    labels = ObservedLabels(
        indptr=row_pointers(np.bincount(keys // width, minlength=shape[0])),
        indices=(keys % width).astype(index_type(shape[1])),
        values=np.concatenate([old.values, new.values])[source],
        shape=shape,
        weights=_joined(old.weights, new.weights, len(known), len(place), 1.0, source),
        offsets=_joined(old.offsets, new.offsets, len(known), len(place), 0.0, source),
        row_names=None if row_names is None else tuple(row_names),
        label_names=None if label_names is None else tuple(label_names),
        unobserved=old.unobserved,
        judging=_joined_judging(old.judging, new.judging, earlier, source, len(place)),
    )
    joined = JoinedLabels(labels, source, earlier, len(fresh), changed, int(hit.sum()) - changed)
    return _filled(joined) if old.unobserved == "negative" else joined


def _joined(old: Any, new: Any, n_old: int, n_new: int, default: float, source: NDArray[np.int64]) -> Any:
    """Weights or offsets of the union; None where neither has any."""
    if old is None and new is None:
        return None
    pieces = [
        np.full(count, default) if piece is None else piece for piece, count in ((old, n_old), (new, n_new))
    ]
    return np.concatenate(pieces)[source]


def _joined_judging(
    old: NDArray[np.bool_] | None,
    new: NDArray[np.bool_] | None,
    earlier: NDArray[np.int64],
    source: NDArray[np.int64],
    n_new: int,
) -> NDArray[np.bool_] | None:
    """Which entries of the union judge: where the batch does not say, new ones do and known ones stay."""
    if old is None and new is None:
        return None
    known = earlier >= 0
    before = np.ones(int(known.sum()), dtype=np.bool_) if old is None else old
    marks = np.concatenate([before, np.ones(n_new, dtype=np.bool_) if new is None else new])[source]
    if new is None:
        marks[known] = before[earlier[known]]
    return marks


def _filled(joined: JoinedLabels) -> JoinedLabels:
    """The union with a no for each absent entry: of new labels in old rows, and the other way round."""
    labels = joined.labels
    if labels.is_complete:
        return joined
    places = labels.rows * labels.shape[1] + labels.cols
    source, earlier = np.full((2, labels.shape[0] * labels.shape[1]), -1, dtype=np.int64)
    source[places], earlier[places] = joined.source, joined.earlier
    filled = replace(labels, unobserved="missing")._reread("negative")
    return replace(joined, labels=filled, source=source, earlier=earlier)
