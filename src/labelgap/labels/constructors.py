"""The constructors of ObservedLabels, one per form in which people hold incomplete labels.

Neither pandas nor polars is imported here before the user has handed in a frame of theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from labelgap._arrays import frame_library
from labelgap._names import check_choice
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError
from labelgap.labels import sources
from labelgap.labels.frames import read_long, read_wide
from labelgap.labels.tags import read_tags

UNOBSERVED = ("missing", "negative", "unlabelled")


def is_tag_sets(labels: Any) -> bool:
    """Whether these are tags by row: a list or tuple of sets, with None where nothing is known.

    Lists within a list are rows of a matrix; ``from_tags`` takes them as tags.

    Examples
    --------
    >>> is_tag_sets([{"sport"}, None, set()]), is_tag_sets([[1, 0], [0, 1]]), is_tag_sets([None])
    (True, False, False)
    """
    if not isinstance(labels, list | tuple):
        return False
    known = [one for one in labels if one is not None]
    return bool(known) and all(isinstance(one, set | frozenset) for one in known)


def meaning_of_silence(Y: Any, given: str | None, otherwise: str = "missing") -> str:
    """What an absent entry of Y means: as ObservedLabels say themselves, else as given, or ``otherwise``.

    "missing", which everything is by default, contradicts nothing; two other meanings are an error.

    Examples
    --------
    >>> from labelgap.labels import ObservedLabels
    >>> likes = ObservedLabels.from_dense([[1, 0]])
    >>> meaning_of_silence(likes, "negative")
    'negative'
    >>> meaning_of_silence(ObservedLabels.from_any(likes, "unlabelled"), "missing")
    'unlabelled'
    """
    if given is not None:
        check_choice("unobserved", given, UNOBSERVED)
    own = Y.unobserved if isinstance(Y, LabelConstructors) else "missing"
    if own == "missing":
        return otherwise if given is None else given
    if given not in (None, "missing", own):
        raise InvalidParameterError(
            f"unobserved is {given!r}, and the labels were made with unobserved={own!r}: an absent entry "
            f"cannot mean both. Leave unobserved out, or make the labels with unobserved={given!r}."
        )
    return own


def refuse_other_meaning(Y: Any, given: str | None, fitted_to: str) -> None:
    """Raise if later labels, or the parameter by now, say another meaning of an absent entry than the fit.

    Examples
    --------
    >>> refuse_other_meaning([[1, 0]], "negative", "negative")
    """
    now = meaning_of_silence(Y, given, fitted_to)
    if now not in ("missing", fitted_to):
        raise InvalidLabelsError(
            f"The model was fitted with unobserved={fitted_to!r}, and the new labels come with "
            f"unobserved={now!r}. Give them in the meaning of the fit, or fit anew."
        )


class LabelConstructors(ABC):
    """``from_dense`` and its siblings; the class that holds the entries supplies how to pack them."""

    unobserved: str

    @classmethod
    @abstractmethod
    def _build(cls, entries: sources.Entries, binary: bool) -> Self:
        """Sort, check and pack the entries."""

    @abstractmethod
    def _reread(self, unobserved: str) -> Self:
        """The same entries with another meaning of an absent one."""

    @abstractmethod
    def _in_rows(self, known: NDArray[np.bool_]) -> Self:
        """Only the entries of some rows, and nothing known of the others."""

    @abstractmethod
    def with_weights(self, weights: Any) -> Self:
        """The same entries with other weights."""

    @classmethod
    def from_dense(
        cls,
        Y: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        row_names: Sequence[Hashable] | None = None,
        label_names: Sequence[Hashable] | None = None,
        binary: bool = True,
    ) -> Self:
        """Labels from a dense n x L array in which NaN or None means not observed.

        Parameters
        ----------
        Y : array of shape (n, L)
            0, 1 or NaN; bool and integer arrays are fully observed; object arrays may hold None.
        weights : array of shape (n, L), default None
            Positive weights, read at the observed entries only.
        row_names, label_names : sequences of n and L names, default None
        binary : bool, default True
            False allows any finite number as a label.

        Examples
        --------
        >>> from labelgap.labels import ObservedLabels
        >>> ObservedLabels.from_dense([[1, None], [0, 1]], label_names=["cat", "dog"]).n_observed
        3
        """
        return cls._build(sources.read_dense(Y, None, weights, row_names, label_names), binary)

    @classmethod
    def from_mask(
        cls,
        Y: ArrayLike,
        mask: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        row_names: Sequence[Hashable] | None = None,
        label_names: Sequence[Hashable] | None = None,
        binary: bool = True,
    ) -> Self:
        """Labels from a dense array and a boolean mask of the same shape, True = observed.

        What the mask hides is not read, whatever it holds; NaN under a True is not observed either. The other
        parameters are those of ``from_dense``.

        Examples
        --------
        >>> from labelgap.labels import ObservedLabels
        >>> ObservedLabels.from_mask([[1, -9], [0, 1]], [[True, False], [True, True]]).to_dense()
        array([[ 1., nan],
               [ 0.,  1.]])
        """
        seen = sources.as_matrix(mask, "mask")
        if seen.dtype.kind not in "biu" or (seen.dtype.kind != "b" and not np.isin(seen, (0, 1)).all()):
            raise InvalidLabelsError(f"The mask must be boolean (True = observed), not of type {seen.dtype}.")
        return cls._build(
            sources.read_dense(Y, seen.astype(np.bool_), weights, row_names, label_names), binary
        )

    @classmethod
    def from_masked_array(
        cls,
        Y: Any,
        *,
        weights: ArrayLike | None = None,
        row_names: Sequence[Hashable] | None = None,
        label_names: Sequence[Hashable] | None = None,
        binary: bool = True,
    ) -> Self:
        """Labels from a numpy masked array; as numpy has it, a True in its mask *hides* the entry.

        The other parameters are those of ``from_dense``.

        Examples
        --------
        >>> from labelgap.labels import ObservedLabels
        >>> ObservedLabels.from_masked_array(np.ma.masked_equal([[1, -1], [0, 1]], -1)).n_observed
        3
        """
        if not isinstance(Y, np.ma.MaskedArray):
            Y = np.ma.masked_array(sources.as_matrix(Y, "Y"))
        data = sources.as_matrix(np.ma.getdata(Y), "Y")
        seen = ~np.ma.getmaskarray(Y)
        return cls._build(sources.read_dense(data, seen, weights, row_names, label_names), binary)

    @classmethod
    def from_sparse(
        cls,
        Y: Any,
        unobserved: str = "missing",
        *,
        weights: Any = None,
        row_names: Sequence[Hashable] | None = None,
        label_names: Sequence[Hashable] | None = None,
        binary: bool = True,
    ) -> Self:
        """Labels from a scipy sparse matrix, with ``unobserved`` saying what an absent entry means.

        Parameters
        ----------
        Y : sparse matrix or array of shape (n, L)
            A stored NaN counts as absent.
        unobserved : "missing", "negative" or "unlabelled", default "missing"
            "missing": absent is not observed, a stored zero is a known negative. "negative": absent is a
            known negative, so Ω has all n * L entries and takes that much memory. "unlabelled": only ones are
            kept; absent entries and stored zeros may be either.
        weights : array or sparse matrix of shape (n, L), default None
            Positive weights, read at the entries of Ω. Under "negative" an entry without a stored weight
            weighs 1.
        row_names, label_names, binary
            As in ``from_dense``.

        Examples
        --------
        >>> from labelgap.labels import ObservedLabels
        >>> Y = sparse.csr_array(([1, 0, 1], ([0, 0, 1], [0, 1, 2])), shape=(2, 3))
        >>> ObservedLabels.from_sparse(Y, unobserved="missing").n_observed
        3
        >>> ObservedLabels.from_sparse(Y, unobserved="negative").n_observed
        6
        >>> ObservedLabels.from_sparse(Y, unobserved="unlabelled").n_observed
        2
        """
        check_choice("unobserved", unobserved, UNOBSERVED)
        if not sparse.issparse(Y):
            raise InvalidLabelsError(f"from_sparse takes a scipy sparse matrix, not {type(Y).__name__}.")
        if unobserved != "negative":
            return cls._build(sources.read_sparse(Y, weights, row_names, label_names), binary)._reread(
                unobserved
            )
        full = cls._build(sources.read_sparse(Y, None, row_names, label_names), binary)._reread(unobserved)
        return full.with_weights(sources.fill_weights(weights) if sparse.issparse(weights) else weights)

    @classmethod
    def from_triplets(
        cls,
        rows: ArrayLike,
        cols: ArrayLike,
        values: ArrayLike,
        shape: tuple[int, int] | None = None,
        *,
        weights: ArrayLike | None = None,
        row_names: Sequence[Hashable] | None = None,
        label_names: Sequence[Hashable] | None = None,
        binary: bool = True,
    ) -> Self:
        """Labels from three vectors: row number, column number and value of each entry, in any order.

        ``shape`` defaults to the lengths of the names, or to the largest numbers plus one; ``weights`` is a
        vector as long as the triplets; a NaN value is not observed. The other parameters are those of
        ``from_dense``.

        Examples
        --------
        >>> from labelgap.labels import ObservedLabels
        >>> ObservedLabels.from_triplets([1, 0], [2, 0], [1, 0], shape=(3, 4))
        ObservedLabels(3 x 4, 2 observed (16.7 %), 1 positive)
        """
        entries = sources.read_triplets(rows, cols, values, shape, weights, row_names, label_names)
        return cls._build(entries, binary)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        weights: Any = None,
        row_names: Sequence[Hashable] | None = None,
        label_names: Sequence[Hashable] | None = None,
        binary: bool = True,
    ) -> Self:
        """Labels from a wide pandas or polars frame: one column per label, null or NaN = not observed.

        The names of the labels are the columns, those of the rows pandas' index, unless given here.
        ``weights`` is a frame or array of the same shape. The other parameters are those of ``from_dense``.

        Examples
        --------
        >>> from labelgap.labels import ObservedLabels
        >>> import pandas
        >>> ObservedLabels.from_frame(pandas.DataFrame({"cat": [1, None], "dog": [0, 1]})).label_names
        ('cat', 'dog')
        """
        return cls._build(read_wide(frame, weights, row_names, label_names), binary)

    @classmethod
    def from_long_frame(
        cls,
        frame: Any,
        *,
        row: str,
        label: str,
        value: str,
        weights: str | None = None,
        row_names: Sequence[Hashable] | None = None,
        label_names: Sequence[Hashable] | None = None,
        binary: bool = True,
    ) -> Self:
        """Labels from a long pandas or polars frame: one line per entry.

        Parameters
        ----------
        frame : DataFrame
            A null value is not observed.
        row, label, value : names of columns
            The row's id, the label's id (any hashable values) and the entry's value.
        weights : name of a column, default None
        row_names, label_names : sequences of ids, default None
            The order of the rows and labels, for instance that of the features; it may hold ids that the
            frame lacks. None takes the ids in order of first appearance.
        binary : bool, default True
            False allows any finite number as a label.

        Examples
        --------
        >>> from labelgap.labels import ObservedLabels
        >>> import pandas
        >>> frame = pandas.DataFrame({"user": ["ann", "bob"], "film": ["Ran", "Alien"], "liked": [1, 0]})
        >>> labels = ObservedLabels.from_long_frame(frame, row="user", label="film", value="liked")
        >>> labels.row_names, labels.label_names
        (('ann', 'bob'), ('Ran', 'Alien'))
        """
        return cls._build(read_long(frame, row, label, value, weights, row_names, label_names), binary)

    @classmethod
    def from_tags(
        cls,
        tags: Any,
        unobserved: str = "missing",
        *,
        row_names: Sequence[Hashable] | None = None,
        label_names: Sequence[Hashable] | None = None,
    ) -> Self:
        """Labels from the tags of each row, as lists or sets; None is a row whose tags nobody knows.

        ``unobserved`` says what a tag that a row does not have means, as in ``from_sparse``: nothing
        ("missing"), a no ("negative", in the rows that are known), or a yes or no ("unlabelled").
        ``label_names`` are all tags, by default those that appear, in alphabetical order.

        Examples
        --------
        >>> from labelgap.labels import ObservedLabels
        >>> labels = ObservedLabels.from_tags([{"sport"}, ["data", "sport"], None], unobserved="negative")
        >>> labels.label_names, labels.to_dense().tolist()
        (('data', 'sport'), [[0.0, 1.0], [1.0, 1.0], [nan, nan]])
        """
        check_choice("unobserved", unobserved, UNOBSERVED)
        entries, known = read_tags(tags, label_names, row_names)
        labels = cls._build(entries, True)._reread(unobserved)
        return labels if unobserved != "negative" or known.all() else labels._in_rows(known)

    @classmethod
    def from_any(cls, Y: Any, unobserved: str = "missing", binary: bool = True) -> Self:
        """Labels from anything that says by its type how to read it; this is what estimators do with ``Y``.

        ObservedLabels come back as they are, unless ``unobserved`` says something else of absent entries than
        "missing", which they then mean too. Masked arrays, sparse matrices, frames, arrays and lists of sets
        of tags go to their constructors; ``unobserved`` then says what an entry that is not observed (absent,
        masked, NaN, null) means, as in ``from_sparse``. Triplets are not guessed.

        Examples
        --------
        >>> from labelgap.labels import ObservedLabels
        >>> ObservedLabels.from_any([[1, 0], [0, 1]], unobserved="unlabelled").n_observed
        2
        """
        check_choice("unobserved", unobserved, UNOBSERVED)
        if isinstance(Y, cls):
            return Y._reread(unobserved) if Y.unobserved == "missing" else Y
        if sparse.issparse(Y):
            return cls.from_sparse(Y, unobserved, binary=binary)
        if is_tag_sets(Y):
            return cls.from_tags(Y, unobserved)
        if isinstance(Y, np.ma.MaskedArray):
            labels = cls.from_masked_array(Y, binary=binary)
        elif frame_library(Y) and type(Y).__name__ != "Series":
            labels = cls.from_frame(Y, binary=binary)
        else:
            labels = cls.from_dense(Y, binary=binary)
        return labels._reread(unobserved)
