"""Observed labels: the entries Ω of a label matrix that are known, and nothing else."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from labelgap._arrays import frame_library, plain_array, refuse_other_rows, sums_by_number
from labelgap._html import paragraph, table
from labelgap._memory import require_free
from labelgap.exceptions import InvalidInputError, InvalidLabelsError
from labelgap.labels import sources
from labelgap.labels.constructors import LabelConstructors
from labelgap.labels.matching import names_in_order, same_names
from labelgap.labels.splitting import LabelSplits
from labelgap.labels.weighting import LabelWeights

_OPTIONAL = ("weights", "offsets", "row_weights", "judging")
# Labels that a notebook shows.
_SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class ObservedLabels(LabelWeights, LabelConstructors, LabelSplits):
    """The known entries Ω of an n x L label matrix, row by row (CSR), with values and optional weights.

    Three states are kept apart: known positive (1), known negative (0), not observed (no entry). Build one
    with ``from_dense``, ``from_mask``, ``from_masked_array``, ``from_sparse``, ``from_triplets``,
    ``from_frame``, ``from_long_frame`` or ``from_tags``; the class itself takes CSR pieces, valid and sorted
    already. The arrays are shared between selections, so do not write to them.

    Parameters
    ----------
    indptr : int64 array of length n + 1
        The entries of row i are ``indptr[i]`` to ``indptr[i + 1] - 1``.
    indices : int32 array of length |Ω| (int64 when L exceeds the range of int32)
        Column of each entry, ascending within a row, none twice.
    values : int8 array of 0/1, or float64 array when built with ``binary=False``
        Value of each entry.
    shape : (n, L)
        Instances and labels.
    weights : float64 array of length |Ω| or None, default None
        Positive weight of each entry; None means 1 for all.
    row_names, label_names : tuple or None, default None
        Names of the rows and columns.
    unobserved : "missing", "negative" or "unlabelled", default "missing"
        What an entry that is not observed means. Under "negative" there is none: every entry is observed.
    offsets : float64 array of length |Ω| or None, default None
        A known part of the score of each entry, such as the logarithm of an exposure.
    row_weights : float64 array of length n or None, default None
        The weight of each row in a mean over rows (instance averages); None means 1 for all. Made by
        ``with_row_weights``, which multiplies ``weights`` too.
    judging : bool array of length |Ω| or None, default None
        Which entries choose penalties and thresholds in a fit; None means all of them. Made by
        ``with_judging``; the fit is to all entries in any case.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 0, float("nan")], [float("nan"), 1, 0]])
    >>> labels
    ObservedLabels(2 x 3, 4 observed (66.7 %), 2 positive)
    >>> labels.label_counts()
    array([1, 2, 1])
    >>> train, held_out = labels.split(0.25, random_state=0)
    >>> train.n_observed, held_out.n_observed
    (3, 1)
    """

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[Any]
    shape: tuple[int, int]
    weights: NDArray[np.float64] | None = None
    row_names: tuple[Hashable, ...] | None = None
    label_names: tuple[Hashable, ...] | None = None
    unobserved: str = "missing"
    offsets: NDArray[np.float64] | None = None
    row_weights: NDArray[np.float64] | None = None
    judging: NDArray[np.bool_] | None = None

    __hash__: ClassVar[None]  # type: ignore[assignment]

    @classmethod
    def _build(cls, entries: sources.Entries, binary: bool) -> Self:
        entries = sources.sort_entries(entries)
        n, L = entries.shape
        if n > len(entries.rows):
            require_free(
                16 * n,
                f"{n:,} rows (the largest row number with a label is {entries.rows.max(initial=0)})",
                "Number the rows from 0 without gaps, as np.unique(rows, return_inverse=True) does, or take "
                "the numbers for ids: from_long_frame does, and so does a Recommender.",
            )
        return cls(
            indptr=sources.row_pointers(np.bincount(entries.rows, minlength=n)),
            indices=entries.cols.astype(sources.index_type(L)),
            values=sources.check_values(entries, binary),
            shape=(n, L),
            weights=sources.check_weights(entries),
            row_names=entries.row_names,
            label_names=entries.label_names,
        )

    def _reread(self, unobserved: str) -> Self:
        n, L = self.shape
        if unobserved == "missing":
            return self
        if unobserved == "unlabelled":
            return replace(self.select(self.values == 1), unobserved=unobserved)
        if self.offsets is not None:
            raise InvalidLabelsError(
                "Labels with offsets cannot be read with unobserved='negative': an entry that was not given "
                "has no offset. Give every entry with its offset instead."
            )
        require_free(
            n * L * (self.values.itemsize + self.indices.itemsize + (0 if self.weights is None else 8)),
            f"{n:,} x {L:,} labels, each of which is known under unobserved='negative',",
            "Take fewer rows or labels at a time, or LowRankClassifier or Recommender with "
            "unobserved='unlabelled', which keep what is recorded alone.",
        )
        values = np.zeros(n * L, dtype=self.values.dtype)
        places = self.rows * L + self.cols
        values[places] = self.values
        weights = None
        if self.weights is not None:
            # An entry that was not given a weight counts once.
            weights = np.ones(n * L)
            weights[places] = self.weights
        judging = None
        if self.judging is not None:
            # An entry that was not given is no choice of anybody's.
            judging = np.ones(n * L, dtype=np.bool_)
            judging[places] = self.judging
        return replace(
            self,
            weights=weights,
            indptr=np.arange(n + 1, dtype=np.int64) * L,
            indices=np.tile(np.arange(L, dtype=sources.index_type(L)), n),
            values=values,
            judging=judging,
            unobserved=unobserved,
        )

    def _in_rows(self, known: NDArray[np.bool_]) -> Self:
        return replace(self.select(known[self.rows]), unobserved="missing")

    @property
    def n_observed(self) -> int:
        """|Ω|, the number of observed entries."""
        return len(self.indices)

    @property
    def cols(self) -> NDArray[Any]:
        """Column of each entry (the same array as ``indices``)."""
        return self.indices

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Row of each entry, int64, computed once."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int64), self.row_counts())

    @property
    def is_complete(self) -> bool:
        """Whether every entry is observed."""
        return self.n_observed == self.shape[0] * self.shape[1]

    def row_counts(self) -> NDArray[np.int64]:
        """Observed entries per row."""
        return np.diff(self.indptr)

    def label_counts(self) -> NDArray[np.int64]:
        """Observed entries per label."""
        return self._label_counts.copy()

    @cached_property
    def _label_counts(self) -> NDArray[np.int64]:
        return sums_by_number(self.indices, self.shape[1])

    def positive_counts(self) -> NDArray[np.int64]:
        """Entries above 0 per label, not weighted."""
        return self._positive_counts.copy()

    @cached_property
    def _positive_counts(self) -> NDArray[np.int64]:
        positive = sums_by_number(self.indices, self.shape[1], lambda some: self.values[some] > 0)
        return positive.astype(np.int64)

    def require_observed(self) -> None:
        """Raise InvalidLabelsError when nothing at all is observed."""
        if self.n_observed == 0:
            hint = (
                " Under unobserved='unlabelled' only ones count." if self.unobserved == "unlabelled" else ""
            )
            raise InvalidLabelsError(
                f"No label is observed in the {self.shape[0]} x {self.shape[1]} matrix; "
                f"at least one entry must be known.{hint}"
            )

    def require_both_classes(self) -> None:
        """Raise InvalidLabelsError unless there are positives and, unless "unlabelled", negatives."""
        self.require_observed()
        if self.unobserved == "unlabelled":
            return
        if np.all(self.values == 1):
            raise InvalidLabelsError(
                f"Every one of the {self.n_observed} observed labels is positive, so nothing can be learned "
                "about 'no': under unobserved='missing' absent entries are not taken as negatives. "
                "If absent means no, pass unobserved='negative'; if absent may be yes or no, pass "
                "unobserved='unlabelled'."
            )
        if np.all(self.values == 0):
            raise InvalidLabelsError(
                f"Every one of the {self.n_observed} observed labels is negative, so nothing can be learned "
                "about 'yes'; at least one positive must be known."
            )

    def select(self, entries: ArrayLike) -> Self:
        """Only some entries, given by a mask over Ω or by ascending entry numbers; the shape stays.

        Examples
        --------
        >>> labels = ObservedLabels.from_dense([[1, 0], [0, 1]])
        >>> labels.select(labels.values == 1).to_dense()
        array([[ 1., nan],
               [nan,  1.]])
        """
        chosen = np.asarray(entries)
        if chosen.dtype == np.bool_:
            if chosen.shape != (self.n_observed,):
                raise InvalidInputError(
                    f"The mask over entries has shape {chosen.shape}; there are {self.n_observed} entries."
                )
            kept = sources.chosen_before(chosen, self.indptr)
        else:
            chosen = chosen.astype(np.int64) if chosen.size == 0 else chosen
            ascending = chosen.dtype.kind in "iu" and bool(np.all(chosen[1:] > chosen[:-1]))
            if not ascending or (chosen.size and (chosen[0] < 0 or chosen[-1] >= self.n_observed)):
                raise InvalidInputError(
                    f"Entry numbers must be ascending integers from 0 to {self.n_observed - 1}, none twice."
                )
            kept = np.searchsorted(chosen, self.indptr)
        return replace(
            self,
            indptr=kept.astype(np.int64),
            indices=self.indices[chosen],
            values=self.values[chosen],
            weights=None if self.weights is None else self.weights[chosen],
            offsets=None if self.offsets is None else self.offsets[chosen],
            judging=None if self.judging is None else self.judging[chosen],
        )

    def take_rows(self, rows: ArrayLike) -> Self:
        """The rows with the given numbers, in that order; a number may come twice, -1 is the last row.

        Examples
        --------
        >>> ObservedLabels.from_dense([[1, 0], [0, 1]]).take_rows([1, 1]).to_dense()
        array([[0., 1.],
               [0., 1.]])
        """
        n = self.shape[0]
        chosen = np.asarray(rows)
        if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
            raise IndexError(
                f"Rows are chosen by a vector of integers, not {chosen.ndim}-d of type {chosen.dtype}."
            )
        if chosen.size and not -n <= chosen.min() <= chosen.max() < n:
            raise IndexError(
                f"Row numbers must lie between 0 and {n - 1}; got {chosen.min()} to {chosen.max()}."
            )
        numbers = np.where(chosen < 0, chosen + n, chosen).astype(np.int64)
        counts = self.row_counts()[numbers]
        indptr = sources.row_pointers(counts)
        # Entry t of the new row r is entry t of the old one: shift a running number by each row's offset.
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[numbers] - indptr[:-1], counts)
        return replace(
            self,
            indptr=indptr,
            indices=self.indices[entries],
            values=self.values[entries],
            shape=(len(numbers), self.shape[1]),
            weights=None if self.weights is None else self.weights[entries],
            offsets=None if self.offsets is None else self.offsets[entries],
            judging=None if self.judging is None else self.judging[entries],
            row_names=None if self.row_names is None else tuple(self.row_names[i] for i in numbers),
            row_weights=None if self.row_weights is None else self.row_weights[numbers],
        )

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Self:
        """Rows by number, slice, mask or list, also as ``labels[key, ...]``, which scikit-learn writes."""
        if isinstance(key, tuple):
            if len(key) != 2 or not (key[1] is Ellipsis or key[1] == slice(None)):
                raise IndexError("ObservedLabels are indexed by rows only; use labels[rows].")
            key = key[0]
        if isinstance(key, slice):
            return self.take_rows(np.arange(self.shape[0])[key])
        chosen = np.asarray(key)
        if chosen.dtype == np.bool_ and chosen.ndim == 1:
            if len(chosen) != self.shape[0]:
                raise IndexError(f"The row mask has length {len(chosen)}; there are {self.shape[0]} rows.")
            chosen = np.flatnonzero(chosen)
        return self.take_rows(np.atleast_1d(chosen))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        raise TypeError(
            "ObservedLabels are not turned into an array unasked: call to_dense() or to_sparse(). "
            "scikit-learn asks for an array when a classifier is cross-validated with a number as cv; "
            "pass a splitter such as cv=KFold(5) instead."
        )

    def align(self, matrix: Any, what: str = "scores") -> NDArray[Any]:
        """One number per entry of Ω, in CSR order, from a matrix or from a vector that is so already.

        Parameters
        ----------
        matrix : array of shape (n, L), sparse matrix of that shape, or vector of length |Ω|
            Of a single label, a vector of length n is a matrix of one column.
            A sparse matrix holds 0 where nothing is stored. Columns of a frame that has names of the labels
            are matched by name, those of other names by their order.
        what : str, default "scores"
            What the matrix is called in an error.

        Examples
        --------
        >>> ObservedLabels.from_dense([[1, None], [0, 1]]).align([[0.1, 0.2], [0.3, 0.4]])
        array([0.1, 0.3, 0.4])
        """
        aligned = self._at_entries(matrix, what)
        kind = aligned.dtype.kind
        if kind in "biuf":
            return aligned
        given = sources.observed_mask(aligned) if kind == "O" else np.ones(len(aligned), dtype=np.bool_)
        for entry in np.flatnonzero(given):
            value = aligned[entry]
            if kind != "O" or not isinstance(value, bool | int | float | np.number | np.bool_):
                raise InvalidInputError(
                    f"The {what} must be numbers; they hold {str(value)!r} at row {self.rows[entry]}, column "
                    f"{self.cols[entry]}."
                )
        # None is NaN.
        return np.asarray(np.where(given, aligned, np.nan), dtype=np.float64)

    def _at_entries(self, matrix: Any, what: str) -> NDArray[Any]:
        """What such a matrix or vector holds at each entry of Ω, numbers or not."""
        given = plain_array(matrix, f"The {what}")
        refuse_other_rows(matrix, self, what)
        names = list(matrix.columns) if frame_library(matrix) and given.ndim == 2 else None
        if self.label_names is not None and names is not None and same_names(names, self.label_names):
            order = names_in_order(names, self.label_names, found_in=f"the {what}", wanted_in="the labels")
            given = given if order is None else given[:, order]
        if given.ndim == 1 and not sparse.issparse(given):
            if len(given) == self.n_observed:
                return np.asarray(given)
            if self.shape == (len(given), 1):
                # A single label, whose values may be a vector too.
                return np.asarray(given[self.rows])
        if given.shape != self.shape:
            raise InvalidInputError(
                f"The {what} have shape {given.shape}; expected {self.shape} like the labels, "
                f"or a vector with one number for each of the {self.n_observed} observed entries."
            )
        if sparse.issparse(given):
            return sources.gather_sparse(given, self.rows, self.cols)[0]
        return given.reshape(-1) if self.is_complete else np.asarray(given[self.rows, self.cols])

    def to_dense(self) -> NDArray[np.float64]:
        """An n x L float64 array with NaN where nothing is observed.

        Examples
        --------
        >>> ObservedLabels.from_triplets([0, 1], [1, 0], [1, 0]).to_dense()
        array([[nan,  1.],
               [ 0., nan]])
        """
        dense = np.full(self.shape, np.nan)
        dense[self.rows, self.cols] = self.values
        return dense

    def to_sparse(self) -> sparse.csr_array:
        """A scipy CSR array of the entries, with stored zeros for known negatives.

        Examples
        --------
        >>> ObservedLabels.from_dense([[1, None], [0, 1]]).to_sparse().nnz
        3
        """
        pieces = (self.values.copy(), self.indices.copy(), self.indptr.copy())
        return sparse.csr_array(pieces, shape=self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObservedLabels):
            return NotImplemented
        if any((getattr(self, name) is None) != (getattr(other, name) is None) for name in _OPTIONAL):
            return False
        mine = (self.shape, self.unobserved, self.row_names, self.label_names)
        return mine == (other.shape, other.unobserved, other.row_names, other.label_names) and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("indptr", "indices", "values", *_OPTIONAL)
        )

    def __repr__(self) -> str:
        n, L = self.shape
        fraction = self.n_observed / (n * L) if n * L else 0.0
        text = (
            f"{n} x {L}, {self.n_observed} observed ({fraction:.1%}), {int(np.sum(self.values > 0))} positive"
        )
        text = text.replace("%", " %")
        if self.weights is not None:
            text += ", weighted"
        if self.offsets is not None:
            text += ", with offsets"
        if self.unobserved != "missing":
            text += f", unobserved={self.unobserved!r}"
        return f"ObservedLabels({text})"

    def _repr_html_(self) -> str:
        """For notebooks: what is known, in all and of the labels with most known entries."""
        shown = np.sort(np.argsort(-self._label_counts, kind="stable")[:_SHOWN])
        positives = self.positive_counts()
        rows = [
            (
                label if self.label_names is None else self.label_names[label],
                self._label_counts[label],
                positives[label],
            )
            for label in shown.tolist()
        ]
        more = f" (the {_SHOWN} labels with most of {self.shape[1]})" if self.shape[1] > _SHOWN else ""
        return paragraph(repr(self)) + table(("label", f"observed{more}", "above 0"), rows)
