"""Splitters for scikit-learn that keep the known yes and no of every label in proportion.

Rows, or whole groups of them, are dealt one after the other, as in iterative stratification (Sechidis,
Tsoumakas, Vlahavas: On the Stratification of Multi-Label Data, ECML PKDD 2011): first what holds the largest
part of any kind of entry, each to the fold that lacks most of what it has. A kind is a known yes, or a known
no, of one label; what is not observed belongs to none.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from labelgap._arrays import frame_library
from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError
from labelgap.labels.observed import ObservedLabels
from labelgap.labels.sources import observed_mask

# Gains that differ by less, as a fraction of the largest, are equal.
_ROUNDING = 1e-12


class _Stratified(BaseCrossValidator):  # type: ignore[misc]
    """K folds, by a number for each row or entry."""

    # For scikit-learn's metadata routing: groups that are given are meant for the splitter.
    __metadata_request__split: ClassVar = {"groups": True}

    def __init__(self, n_splits: int = 5, *, random_state: Any = None) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    @abstractmethod
    def fold_numbers(self, X: Any, y: Any = None, groups: Any = None) -> NDArray[np.int64]:
        """The fold, from 0 to ``n_splits - 1``, in which each row or entry is held out."""

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Pairs of numbers to fit to and numbers to test on, ascending; a group is never in both."""
        folds = self.fold_numbers(X, y, groups)
        for fold in range(self.n_splits):
            yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)

    def _units(self, n: int, groups: Any, what: str) -> NDArray[np.int64]:
        """The number of what is dealt together with each of n rows or entries: itself, or its group."""
        units = np.arange(n) if groups is None else numbered_groups(groups, n, what)
        count = int(units.max(initial=-1)) + 1
        what = what if groups is None else "groups"
        k = self.n_splits
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 2 <= k <= count:
            raise InvalidParameterError(
                f"n_splits must be an integer from 2 to the {count} {what}, not {k!r}."
            )
        return units

    def _deal(
        self, units: NDArray[np.int64], rows: NDArray[np.int64], kinds: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The fold of each row, of which some have an entry of a kind; rows of a unit are dealt together.

        A unit goes to the fold f with the largest ``Σ_k u_k (1/n_splits − f_k)``, where u_k and f_k are the
        parts of all entries of kind k that the unit has and that f has already: that is where it lowers
        ``Σ_f Σ_k (1/n_splits − f_k)²`` most. The rows themselves are a kind as well.
        """
        # Where models are only loaded and used, nothing is to be compiled.
        from labelgap.kernels.dealing import deal

        rng = check_random_state(self.random_state)
        n_kinds = int(kinds.max(initial=-1)) + 2
        of_unit = np.concatenate([units[rows], units])
        of_kind = np.concatenate([kinds, np.full(len(units), n_kinds - 1)])
        parts = 1.0 / np.bincount(of_kind, minlength=n_kinds)[of_kind]
        table = sp.csr_array((parts, (of_unit, of_kind)), shape=(int(units.max()) + 1, n_kinds))
        largest = table.max(axis=1).toarray().ravel()
        lacking = np.full((self.n_splits, n_kinds), 1.0 / self.n_splits)
        # What holds less evens out the rest.
        order = np.lexsort((rng.permutation(len(largest)), -table.sum(axis=1), -largest))
        draws = rng.random_sample(len(largest))
        indptr, held = (numbers.astype(np.int64) for numbers in (table.indptr, table.indices))
        folds = deal(order, indptr, held, table.data, lacking, draws, _ROUNDING)
        return np.asarray(folds[units])


class StratifiedRowSplit(_Stratified):
    """K folds of rows in which every label's known yes and known no are in proportion.

    Each fold has about ``1/k`` of the rows, and of the known yes and the known no of each label. Rows without
    any known label even out the sizes. Where ``split`` is given ``groups`` (scaffolds of molecules, patients,
    sites), all rows of a group are in one fold, and the folds are as even as whole groups allow.

    Parameters
    ----------
    n_splits : int, default 5
        k, at least 2 and at most the number of rows, or of groups where there are any.
    random_state : int, RandomState or None, default None
        Orders rows, or groups, that are equally good to deal.

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
    >>> scaffolds = ["a", "a", "b", "b", "c", "c"]
    >>> StratifiedRowSplit(3, random_state=0).fold_numbers(None, Y, scaffolds)
    array([2, 2, 1, 1, 0, 0])
    """

    def fold_numbers(self, X: Any, y: Any = None, groups: Any = None) -> NDArray[np.int64]:
        """The fold in which each row is held out.

        Parameters
        ----------
        X : anything with as many rows as y, or None
        y : labels
        groups : sequence with the group of each row, or None
        """
        labels = _labels_of(y)
        n = labels.shape[0]
        if X is not None and _num_samples(X) != n:
            raise InvalidLabelsError(
                f"X has {_num_samples(X)} rows and the labels have {n}; they must match row by row."
            )
        units = self._units(n, groups, "rows")
        yes = labels.values > 0
        # Where a label is known of every row, its no follow from its yes.
        counted = yes | (labels.label_counts() < n)[labels.indices]
        kinds = labels.indices.astype(np.int64) + labels.shape[1] * ~yes
        return self._deal(units, labels.rows[counted], kinds[counted])


class StratifiedEntrySplit(_Stratified):
    """K folds of known entries in which every label's yes and no are in proportion.

    The numbers of any label's entries with one value differ by at most one between folds.

    Parameters
    ----------
    n_splits : int, default 5
        k, at least 2 and at most the number of known entries, or of groups where there are any.
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

    def fold_numbers(self, X: Any, y: Any = None, groups: Any = None) -> NDArray[np.int64]:
        """The fold in which each entry, or line of a long frame, is held out.

        ``groups`` has the group of each of them (the user, say), whose entries are then in one fold.
        """
        if y is None and frame_library(X):
            columns, values = self._of_frame(X)
        else:
            labels = _labels_of(X if y is None else y)
            columns, values = labels.indices, labels.values
        units = self._units(len(columns), groups, "known entries")
        if groups is not None:
            _, kinds = np.unique(np.stack([columns, values]), axis=1, return_inverse=True)
            return self._deal(units, np.arange(len(columns)), kinds)
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


def numbered_groups(groups: Any, n: int, what: str) -> NDArray[np.int64]:
    """The number of the group of each of n rows or entries."""
    try:
        names = np.asarray(groups)
    except ValueError:  # Sequences of several lengths.
        names = np.empty((n, 0))
    if names.shape != (n,):
        raise InvalidInputError(
            f"groups must be a sequence with the group of each of the {n} {what}, a number or a name; its "
            f"shape is {names.shape}."
        )
    missing = ~observed_mask(names)
    if missing.any():
        raise InvalidInputError(
            f"groups has no value at place {int(np.argmax(missing))}. Give each of the {what} a group, one "
            "of its own where it belongs to none."
        )
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names.tolist()], dtype=np.int64)
