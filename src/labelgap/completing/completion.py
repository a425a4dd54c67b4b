"""What ``complete`` returns: scores and decisions for every entry of the training rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap import kernels
from labelgap._html import paragraph
from labelgap._memory import is_dense
from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.exceptions import InvalidInputError, InvalidLabelsError
from labelgap.labels import ObservedLabels
from labelgap.labels.sources import index_type
from labelgap.metrics import LinearFractional
from labelgap.recommending.tables import as_column, frame_of

# Scores held at one time.
_BLOCK_SCORES = 1 << 22


class RowCandidate(NamedTuple):
    """One value of μ as judged on held-out entries."""

    row_penalty: float
    """μ; infinite for N = 0."""
    metric_value: float
    """The metric at its best threshold over held-out entries."""
    loss: float
    """Mean held-out loss."""
    rank: float
    """Mean rank of N over the folds."""


@dataclass(frozen=True, eq=False, repr=False)
class Completion:
    """Scores ``Z = XW + N + 1bᵀ`` of the training rows, their decisions, and the certificate of the fit.

    Nothing of size n x L is held: the scores are ``row_factors @ label_factors.T + intercept``, and are made
    for the rows or entries that are asked for.

    Attributes
    ----------
    row_factors, label_factors, intercept : arrays of shape (n, k), (L, k) and (L,)
    threshold : float
        θ, chosen on held-out scores of XW + N.
    thresholds : array of shape (L,)
        The threshold of each label; θ everywhere where they share it.
    row_penalty : float
        μ as used; infinite where N = 0 was best on held-out entries.
    rank, row_rank : int
        The ranks of W and N.
    objective, duality_gap, relative_gap : float
        The penalised objective in W, N and b; how far it can be above its minimum over all of them; and that
        as a fraction of it.
    held_out_metric, held_out_metric_without : float or None
        The metric over held-out entries at the threshold in use, with N and without it; None where nothing
        could be held out.
    candidates : tuple of RowCandidate
        What was compared.
    observed : ObservedLabels
        The entries that were known.
    metric : LinearFractional

    Examples
    --------
    >>> from labelgap import LowRankClassifier
    >>> from labelgap.data import make_low_rank_labels
    >>> problem = make_low_rank_labels(n=200, n_labels=20, observed=0.4, random_state=0)
    >>> X = problem.X[:, :2]  # Most of what decides the labels is not among the features.
    >>> clf = LowRankClassifier(features="linear", random_state=0).fit(X, problem.Y_observed)
    >>> completed = clf.complete(X, problem.Y_observed)
    >>> completed.predict().shape, completed.held_out_metric > completed.held_out_metric_without
    ((200, 20), True)
    """

    row_factors: Floats
    label_factors: Floats
    intercept: Floats
    threshold: float
    thresholds: Floats
    row_penalty: float
    rank: int
    row_rank: int
    objective: float
    duality_gap: float
    relative_gap: float
    held_out_metric: float | None
    held_out_metric_without: float | None
    candidates: tuple[RowCandidate, ...]
    observed: ObservedLabels
    metric: LinearFractional
    _probabilities: Callable[[Floats], Floats] = field(repr=False)
    _sparse: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and labels."""
        return self.observed.shape

    # -- scores ----------------------------------------------------------------------------------------

    def decision_function(self, rows: Any = None) -> Floats:
        """Scores of all labels (dense) for these rows, by number; None is all of them."""
        P = self.row_factors if rows is None else self.row_factors[self._row_numbers(rows)]
        return np.asarray(P @ self.label_factors.T + self.intercept)

    def predict_proba(self, rows: Any = None, *, keep_observed: bool = False) -> Floats:
        """Probabilities of yes of all labels (dense) for these rows, by number; None is all of them.

        With ``keep_observed`` an observed entry has the value that was observed, 0 or 1.
        """
        numbers = np.arange(self.shape[0]) if rows is None else self._row_numbers(rows)
        probabilities = self._probabilities(self.decision_function(numbers))
        if keep_observed:
            self._put_observed(probabilities, numbers)
        return probabilities

    def scores_at(self, rows: Any, labels: Any) -> Floats:
        """The scores of pairs of a row and a label, by number."""
        rows, labels = self._row_numbers(rows), np.atleast_1d(np.asarray(labels))
        if rows.shape != labels.shape:
            raise InvalidInputError(
                f"There are {rows.size} rows and {labels.size} labels; give one label for each row."
            )
        if labels.size and not 0 <= labels.min() <= labels.max() < self.shape[1]:
            raise InvalidInputError(f"Labels are numbered from 0 to {self.shape[1] - 1}.")
        products = np.einsum("ek,ek->e", self.row_factors[rows], self.label_factors[labels])
        return np.asarray(products + self.intercept[labels])

    def _row_numbers(self, rows: Any) -> NDArray[Any]:
        chosen = np.atleast_1d(np.asarray(rows))
        if chosen.dtype.kind not in "iu" and chosen.size:
            raise InvalidInputError(f"Rows are chosen by their numbers, not by {chosen.dtype}.")
        chosen = chosen.astype(np.int64)
        if chosen.size and not 0 <= chosen.min() <= chosen.max() < self.shape[0]:
            raise InvalidInputError(f"Rows are numbered from 0 to {self.shape[0] - 1}.")
        return chosen

    # -- decisions -------------------------------------------------------------------------------------

    def predict(self, output: str = "auto", *, rows: Any = None, keep_observed: bool = True) -> Any:
        """Decisions for every entry of the rows, 1 for yes.

        Parameters
        ----------
        output : "auto", "dense" or "sparse"
            "auto" is dense, except where the labels were a scipy sparse matrix or the array would have more
            than a gigabyte: then it is CSR.
        rows : array of int, or None, default None
            The rows to decide, by number; None is all of them.
        keep_observed : bool, default True
            Whether observed entries keep the value that was observed. With False all of them are decided.
        """
        check_choice("output", output, ("auto", "dense", "sparse"))
        numbers = np.arange(self.shape[0]) if rows is None else self._row_numbers(rows)
        shape, blocks = (len(numbers), self.shape[1]), self._decided(numbers, keep_observed)
        if is_dense(output, not self._sparse, *shape):
            decisions = np.empty(shape, dtype=np.int8)
            for start, yes in blocks:
                decisions[start : start + len(yes)] = yes
            return decisions
        counts, columns = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=index_type(shape[1]))]
        for _, yes in blocks:
            counts.append(yes.sum(axis=1))
            columns.append(np.nonzero(yes)[1].astype(columns[0].dtype))
        indices = np.concatenate(columns)
        pointers = np.cumsum(np.concatenate(counts))
        return sp.csr_array((np.ones(len(indices), dtype=np.int8), indices, pointers), shape=shape)

    def _decided(self, rows: NDArray[Any], keep_observed: bool) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        """Blocks of the rows: the place of the first, and what is yes."""
        step = max(1, _BLOCK_SCORES // max(self.shape[1], 1))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            yes = self.decision_function(some) >= self.thresholds
            if keep_observed:
                self._put_observed(yes, some)
            yield start, yes

    def _put_observed(self, values: NDArray[Any], rows: NDArray[Any]) -> None:
        """Write what was observed of these rows into their array."""
        known = self.observed.take_rows(rows)
        values[known.rows, known.indices] = known.values

    def to_frame(self, library: str = "pandas") -> Any:
        """The table without gaps as a frame of "pandas" (the default) or "polars": what :meth:`predict` says.

        The columns are the names of the labels, and the index of pandas those of the rows.
        """
        check_choice("library", library, ("pandas", "polars"))
        decisions, known = self.predict("dense"), self.observed
        names = range(self.shape[1]) if known.label_names is None else known.label_names
        frame = frame_of({str(name): decisions[:, j] for j, name in enumerate(names)}, library)
        if library == "pandas" and known.row_names is not None:
            frame.index = as_column(known.row_names)
        return frame

    def score(self, y: Any) -> float:
        """The metric of the decisions over those entries of y that the fit did not see.

        Parameters
        ----------
        y : labels of the same rows in any form that ``fit`` takes
            The truth, as far as it is known; what the fit saw of it does not count.
        """
        truth = ObservedLabels.from_any(y)
        if truth.shape != self.shape:
            raise InvalidLabelsError(
                f"The labels have shape {truth.shape}; those of the rows have {self.shape}."
            )
        n_labels = self.shape[1]
        seen = self.observed.rows * n_labels + self.observed.cols
        fresh = truth.select(~np.isin(truth.rows * n_labels + truth.cols, seen, assume_unique=True))
        fresh.require_observed()
        low_rank = kernels.entries.sampled_product(
            fresh.indptr, fresh.indices, self.row_factors, self.label_factors
        )
        scores = low_rank + self.intercept[fresh.indices]
        return self.metric(fresh, scores >= self.thresholds[fresh.indices])

    def __repr__(self) -> str:
        n, n_labels = self.shape
        part = "N = 0" if self.row_penalty == math.inf else f"N of rank {self.row_rank}"
        return f"Completion({n} x {n_labels}, W of rank {self.rank}, {part}, gap {self.relative_gap:.1e})"

    def _repr_html_(self) -> str:
        return paragraph(repr(self))
