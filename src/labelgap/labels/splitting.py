"""Folds and splits over observed entries, every label's positives and negatives spread evenly."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from labelgap.exceptions import InvalidLabelsError, InvalidParameterError
from labelgap.labels.sources import index_type


def used_rows(row_counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows with entries, and for each entry, row by row, the place of its row among them.

    Examples
    --------
    >>> used_rows(np.array([2, 0, 1]))
    (array([0, 2]), array([0, 0, 1]))
    """
    used = np.flatnonzero(row_counts)
    return used, np.repeat(np.arange(len(used)), row_counts[used])


def shuffled_entries(n_entries: int, rng: np.random.RandomState) -> NDArray[Any]:
    """The numbers of so many entries in random order."""
    shuffled = np.arange(n_entries, dtype=index_type(n_entries))
    rng.shuffle(shuffled)
    return shuffled


class LabelSplits:
    """``folds``, ``split`` and ``fold_numbers``; the class that holds the entries supplies ``select``."""

    indices: NDArray[Any]
    values: NDArray[Any]

    @property
    @abstractmethod
    def n_observed(self) -> int:
        """The number of entries."""

    @abstractmethod
    def select(self, entries: ArrayLike) -> Self:
        """Only some entries."""

    def fold_numbers(self, k: int, random_state: Any = None) -> NDArray[np.int64]:
        """A fold from 0 to k - 1 for each entry, every label's positives and negatives spread evenly.

        Fold numbers are assigned cyclically along the entries by value, then label, then at random, so the
        numbers of any label's positives, and of all positives, differ by at most one between folds.

        Examples
        --------
        >>> from labelgap.labels import ObservedLabels
        >>> ObservedLabels.from_dense([[1], [1], [0], [0]]).fold_numbers(2, random_state=0)
        array([1, 0, 0, 1])
        """
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 2 <= k <= self.n_observed:
            raise InvalidParameterError(
                f"k must be an integer from 2 to the {self.n_observed} observed entries, not {k!r}."
            )
        folds = np.empty(self.n_observed, dtype=np.int64)
        folds[self._stratified_order(check_random_state(random_state))] = np.arange(self.n_observed) % k
        return folds

    def folds(self, k: int, random_state: Any = None) -> Iterator[tuple[Self, Self]]:
        """The k pairs (train, held out) of a k-fold cross-validation over the entries of Ω.

        Examples
        --------
        >>> from labelgap.labels import ObservedLabels
        >>> labels = ObservedLabels.from_dense(np.eye(4))
        >>> [(train.n_observed, held_out.n_observed) for train, held_out in labels.folds(4, random_state=0)]
        [(12, 4), (12, 4), (12, 4), (12, 4)]
        """
        numbers = self.fold_numbers(k, random_state)
        return ((self.select(numbers != fold), self.select(numbers == fold)) for fold in range(k))

    def split(self, fraction: float, random_state: Any = None) -> tuple[Self, Self]:
        """(train, held out) with a ``fraction`` of the entries held out, spread as in ``folds``.

        ``fraction`` lies strictly between 0 and 1; each part gets at least one entry.

        Examples
        --------
        >>> from labelgap.labels import ObservedLabels
        >>> train, held_out = ObservedLabels.from_dense(np.eye(4)).split(0.25, random_state=0)
        >>> held_out
        ObservedLabels(4 x 4, 4 observed (25.0 %), 1 positive)
        """
        if not 0 < fraction < 1:
            raise InvalidParameterError(f"fraction must lie strictly between 0 and 1, not {fraction!r}.")
        total = self.n_observed
        if total < 2:
            raise InvalidLabelsError(f"A split needs at least two observed entries; there are {total}.")
        rng = check_random_state(random_state)
        order = self._stratified_order(rng)
        size = min(max(round(fraction * total), 1), total - 1)
        # Systematic sampling: evenly spaced ticks with a random start take the same part of every stratum.
        ticks = ((np.arange(size) + rng.uniform()) * (total / size)).astype(np.int64)
        held_out = np.zeros(total, dtype=np.bool_)
        held_out[order[np.minimum(ticks, total - 1)]] = True
        return self.select(~held_out), self.select(held_out)

    def _stratified_order(self, rng: np.random.RandomState) -> NDArray[np.int64]:
        # Value comes first: with the label first and k a divisor of every label's count, the only positives
        # of all rare labels would fall into one fold.
        shuffled = shuffled_entries(self.n_observed, rng)
        stratum = _strata(self.values, self.indices)
        if stratum is None:
            return np.asarray(shuffled[np.lexsort((self.indices[shuffled], self.values[shuffled]))])
        # Few strata are counted, not sorted: the columns of a matrix of one row come in their order, and what
        # is in one of them stays in its own.
        entries = sp.csr_array(
            (shuffled, stratum[shuffled], np.array([0, len(shuffled)])), shape=(1, int(stratum.max()) + 1)
        )
        return np.asarray(entries.tocsc().data)


def _strata(values: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int32] | None:
    """The group of each entry, numbered by value and then by label; None where groups may outnumber entries.

    Examples
    --------
    >>> _strata(np.array([1, 0, 1, 0], np.int8), np.array([0, 1, 1, 0], np.int32))
    array([2, 1, 3, 0], dtype=int32)
    """
    if not len(values) or values.dtype != np.int8:
        return None
    least, n_labels = int(values.min()), int(labels.max()) + 1
    if (int(values.max()) - least + 1) * n_labels > min(len(values), np.iinfo(np.int32).max):
        return None
    strata = values.astype(np.int32)
    strata -= np.int32(least)
    strata *= np.int32(n_labels)
    strata += labels.astype(np.int32, copy=False)
    return strata
