"""Splitters for scikit-learn that keep the known yes and no of every label in proportion.

Rows are dealt by iterative stratification (Sechidis, Tsoumakas, Vlahavas: On the Stratification of
Multi-Label Data, ECML PKDD 2011): the kind of entry of which fewest are left is dealt first, each of its rows
to the fold that wants most of that kind. A kind is a known yes, or a known no, of one label; what is not
observed belongs to none.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from labelgap._arrays import frame_library
from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError
from labelgap.labels.observed import ObservedLabels
from labelgap.labels.sources import row_pointers


class _Stratified(BaseCrossValidator):  # type: ignore[misc]
    """K folds, by a number for each row or entry."""

    def __init__(self, n_splits: int = 5, *, random_state: Any = None) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    @abstractmethod
    def fold_numbers(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """The fold, from 0 to ``n_splits - 1``, in which each row or entry is held out."""

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Pairs of numbers to fit to and numbers to test on, ascending."""
        folds = self.fold_numbers(X, y)
        for fold in range(self.n_splits):
            yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)

    def _check(self, count: int, what: str) -> None:
        k = self.n_splits
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 2 <= k <= count:
            raise InvalidParameterError(
                f"n_splits must be an integer from 2 to the {count} {what}, not {k!r}."
            )


class StratifiedRowSplit(_Stratified):
    """K folds of rows in which every label's known yes and known no are in proportion.

    Each fold has about ``1/k`` of the rows, and of the known yes and the known no of each label. Rows without
    any known label even out the sizes.

    Parameters
    ----------
    n_splits : int, default 5
        k, at least 2 and at most the number of rows.
    random_state : int, RandomState or None, default None
        Orders rows that are equally good to deal.

    Notes
    -----
    It serves as ``cv`` in scikit-learn. y is a label matrix in any form that ``ObservedLabels.from_any``
    takes, NaN = not observed, or a vector with the values of one label.

    Examples
    --------
    >>> import numpy as np
    >>> from labelgap import StratifiedRowSplit
    >>> nan = float("nan")
    >>> Y = np.array([[1, nan], [1, 0], [nan, 1], [0, 1], [0, nan], [nan, 0]])
    >>> for train, test in StratifiedRowSplit(2, random_state=0).split(np.zeros((6, 3)), Y):
    ...     print(np.nansum(Y[test] == 1, axis=0), np.nansum(Y[test] == 0, axis=0))
    [1 1] [1 1]
    [1 1] [1 1]
    """

    def fold_numbers(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """The fold in which each row is held out.

        Parameters
        ----------
        X : anything with as many rows as y, or None
        y : labels
        """
        labels = _labels_of(y)
        n = labels.shape[0]
        if X is not None and _num_samples(X) != n:
            raise InvalidLabelsError(
                f"X has {_num_samples(X)} rows and the labels have {n}; they must match row by row."
            )
        self._check(n, "rows")
        return _deal_rows(labels, self.n_splits, check_random_state(self.random_state))


class StratifiedEntrySplit(_Stratified):
    """K folds of known entries in which every label's yes and no are in proportion.

    The numbers of any label's entries with one value differ by at most one between folds.

    Parameters
    ----------
    n_splits : int, default 5
        k, at least 2 and at most the number of known entries.
    random_state : int, RandomState or None, default None
        Deals equal entries.
    label, value : names of columns, default "item" and "value"
        Read in a long frame only. ``value=None``, or a frame without that column, means likes only.

    Notes
    -----
    What is split is a table with one line per entry: a long frame of ratings as X, which a
    :class:`~labelgap.Recommender` is fitted to, serves in ``cross_val_score(model, frame, cv=...)``. With a
    label matrix (as y, or as X without y) the numbers are those of its known entries, row by row;
    scikit-learn takes rows only there, so use :meth:`split_labels`.

    Examples
    --------
    >>> from labelgap import ObservedLabels, StratifiedEntrySplit
    >>> labels = ObservedLabels.from_dense([[1, 0], [1, None], [0, 0], [0, 0]])
    >>> for train, held_out in StratifiedEntrySplit(2, random_state=0).split_labels(labels):
    ...     print(held_out.label_counts(), held_out.positive_counts())
    [2 2] [1 0]
    [2 1] [1 0]
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        random_state: Any = None,
        label: str = "item",
        value: str | None = "value",
    ) -> None:
        super().__init__(n_splits, random_state=random_state)
        self.label = label
        self.value = value

    def fold_numbers(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """The fold in which each entry, or line of a long frame, is held out."""
        if y is None and frame_library(X):
            columns, values = self._of_frame(X)
        else:
            labels = _labels_of(X if y is None else y)
            columns, values = labels.indices, labels.values
        self._check(len(columns), "known entries")
        order = np.lexsort((check_random_state(self.random_state).permutation(len(columns)), columns, values))
        folds = np.empty(len(columns), dtype=np.int64)
        folds[order] = np.arange(len(columns)) % self.n_splits
        return folds

    def _of_frame(self, frame: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        names = list(frame.columns)
        if self.label not in names:
            raise InvalidInputError(
                f"The frame has no column {self.label!r}; it has {', '.join(map(repr, names))}. Say which of "
                "them holds the labels or items: label=..."
            )
        labels = np.asarray(frame[self.label])
        _, columns = np.unique(labels.astype(str) if labels.dtype.hasobject else labels, return_inverse=True)
        if self.value is None or self.value not in names:
            return columns, np.ones(len(columns))
        return columns, np.asarray(frame[self.value], dtype=np.float64)

    def split_labels(self, y: Any) -> Iterator[tuple[ObservedLabels, ObservedLabels]]:
        """Pairs of labels to fit to and labels to test on, with the shape of y.

        Parameters
        ----------
        y : label matrix in any form that ``ObservedLabels.from_any`` takes
        """
        labels = ObservedLabels.from_any(y)
        folds = self.fold_numbers(labels)
        for fold in range(self.n_splits):
            yield labels.select(folds != fold), labels.select(folds == fold)


def _labels_of(y: Any) -> ObservedLabels:
    if y is None:
        raise InvalidLabelsError("To stratify by labels takes labels: pass y.")
    if not isinstance(y, ObservedLabels) and np.ndim(y) == 1 and not frame_library(y):
        values = np.asarray(y)
        if values.dtype.kind not in "biuf":
            # The two classes of a single label.
            values = np.unique(values, return_inverse=True)[1]
        return ObservedLabels.from_dense(values.astype(np.float64)[:, None], binary=False)
    return ObservedLabels.from_any(y, binary=False)


def _deal_rows(labels: ObservedLabels, k: int, rng: np.random.RandomState) -> NDArray[np.int64]:
    """The fold of each row."""
    n, n_labels = labels.shape
    yes = labels.values > 0
    complete = labels.label_counts() == n
    # Where a label is known of every row, its no follow from its yes.
    counted = yes | ~complete[labels.indices]
    kinds, rows = (labels.indices.astype(np.int64) + n_labels * ~yes)[counted], labels.rows[counted]
    of_row = row_pointers(np.bincount(rows, minlength=n))
    by_kind = np.lexsort((rng.permutation(n)[rows], kinds))
    left = np.bincount(kinds, minlength=2 * n_labels)
    of_kind = row_pointers(left)
    wanted = np.tile(left / k, (k, 1))
    space = np.full(k, n / k)
    folds = np.full(n, -1, dtype=np.int64)

    def deal(row: int, best: NDArray[np.int64]) -> NDArray[np.int64]:
        if len(best) > 1:
            best = best[space[best] == space[best].max()]
        fold = int(best[0]) if len(best) == 1 else int(rng.choice(best))
        here = kinds[of_row[row] : of_row[row + 1]]
        folds[row] = fold
        wanted[fold, here] -= 1
        left[here] -= 1
        space[fold] -= 1
        return np.asarray(here)

    queue = [(int(left[kind]), int(kind)) for kind in np.flatnonzero(left)]
    heapq.heapify(queue)
    while queue:
        count, kind = heapq.heappop(queue)
        if left[kind] != count or count == 0:
            # A later line says how many are left now.
            continue
        changed: set[int] = set()
        for row in rows[by_kind[of_kind[kind] : of_kind[kind + 1]]].tolist():
            if folds[row] < 0:
                most = wanted[:, kind]
                changed.update(deal(row, np.flatnonzero(most == most.max())).tolist())
        for other in changed:
            if left[other] > 0:
                heapq.heappush(queue, (int(left[other]), other))
    for row in rng.permutation(np.flatnonzero(folds < 0)).tolist():
        deal(row, np.arange(k))
    return folds
