"""Observed labels with other weights, of entries or of rows, with offsets, and with entries that judge."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import plain_array
from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError
from labelgap.labels import sources


class LabelWeights:
    """Gives the entries of observed labels weights and offsets."""

    if TYPE_CHECKING:
        values: NDArray[Any]
        shape: tuple[int, int]
        weights: NDArray[np.float64] | None
        row_names: tuple[Any, ...] | None
        label_names: tuple[Any, ...] | None
        row_weights: NDArray[np.float64] | None
        judging: NDArray[np.bool_] | None

        @property
        def rows(self) -> NDArray[np.int64]: ...
        @property
        def cols(self) -> NDArray[Any]: ...
        def select(self, entries: Any) -> Self: ...
        def align(self, matrix: Any, what: str = "scores") -> NDArray[Any]: ...
        def _at_entries(self, matrix: Any, what: str) -> NDArray[Any]: ...

    def with_weights(self, weights: Any) -> Self:
        """The same entries with other weights: a vector over Ω, an n x L matrix, or None for none.

        Examples
        --------
        >>> from labelgap import ObservedLabels
        >>> ObservedLabels.from_dense([[1, None], [0, 1]]).with_weights([1, 2, 3]).weights
        array([1., 2., 3.])
        """
        if weights is None:
            return replace(self, weights=None, row_weights=None)  # type: ignore[type-var]
        aligned = self._at_entries(weights, "weights")
        entries = sources.Entries(
            self.rows, self.cols, self.values, aligned, self.shape, self.row_names, self.label_names
        )
        return replace(self, weights=sources.check_weights(entries))  # type: ignore[type-var]

    def with_row_weights(self, row_weights: Any) -> Self:
        """Every row weighted, on top of what its entries weigh; a row of weight 0 loses its entries.

        An entry of row i weighs ``w_i`` times as much, and so does the row in a mean over rows: a row of
        weight 2 is the row twice.

        Parameters
        ----------
        row_weights : array of length n
            Finite, and at least 0.

        Examples
        --------
        >>> from labelgap import ObservedLabels
        >>> labels = ObservedLabels.from_dense([[1, None], [0, 1]]).with_row_weights([0.0, 2.0])
        >>> labels.n_observed, labels.weights
        (2, array([2., 2.]))
        """
        factors = _check_row_weights(row_weights, self.shape[0])
        kept = self.select(factors[self.rows] > 0)
        if not len(kept.values):
            raise InvalidParameterError(
                "sample_weight is zero for every row with an observed value; make one of them positive."
            )
        by_entry = factors[kept.rows]
        return replace(  # type: ignore[type-var]
            kept,
            weights=by_entry if kept.weights is None else by_entry * kept.weights,
            row_weights=factors if kept.row_weights is None else factors * kept.row_weights,
        )

    def with_judging(self, judging: Any) -> Self:
        """The same entries, of which these choose penalties and thresholds: a mask over Ω, n x L, or None.

        Both values must be among them.

        Examples
        --------
        >>> from labelgap import ObservedLabels
        >>> labels = ObservedLabels.from_dense([[1, None], [0, 1]]).with_judging([True, True, False])
        >>> labels.judged().n_observed
        2
        """
        if judging is None:
            return replace(self, judging=None)  # type: ignore[type-var]
        marked = self._marked(judging)
        values = marked.judged().values
        if len(np.unique(values)) < 2:
            raise InvalidLabelsError(
                f"Of the {len(values)} observed entries in judged, all have the same value. Thresholds are "
                "chosen where both occur: let more entries judge."
            )
        return marked

    def _marked(self, judging: Any) -> Self:
        """The same entries, of which these judge, whatever their values: those of a batch may be few."""
        mask = np.asarray(self.align(judging, "judged"))
        if mask.dtype != np.bool_:
            raise InvalidInputError(
                f"judged says of each entry whether it judges, True or False; got numbers of type "
                f"{mask.dtype}. Pass a bool array, for example judged == 1."
            )
        return replace(self, judging=mask)  # type: ignore[type-var]

    def judged(self) -> Self:
        """The entries that choose penalties and thresholds."""
        if self.judging is None:
            return self
        return replace(self.select(self.judging), judging=None)  # type: ignore[type-var]

    def with_offsets(self, offsets: Any) -> Self:
        """The same entries with a known part of each score: a vector over Ω, an n x L matrix, or None.

        Examples
        --------
        >>> from labelgap import ObservedLabels
        >>> ObservedLabels.from_dense([[1, None], [0, 1]]).with_offsets([0.0, 0.5, -0.5]).offsets
        array([ 0. ,  0.5, -0.5])
        """
        if offsets is None:
            return replace(self, offsets=None)  # type: ignore[type-var]
        aligned = np.asarray(self.align(offsets, "offsets"), dtype=np.float64)
        bad = ~np.isfinite(aligned)
        if bad.any():
            first = int(np.argmax(bad))
            raise InvalidLabelsError(
                f"The offset at row {self.rows[first]}, column {self.cols[first]} is {aligned[first]}; "
                "offsets must be finite at every observed entry."
            )
        return replace(self, offsets=aligned)  # type: ignore[type-var]


def _check_row_weights(given: Any, n: int) -> NDArray[np.float64]:
    """One weight for each row, finite and at least 0, or an error that says what is wrong."""
    try:
        weights = np.asarray(plain_array(given, "The sample_weight"), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"The sample_weight must be numbers: {error}.") from error
    if weights.shape != (n,):
        raise InvalidInputError(
            f"sample_weight has shape {weights.shape}; expected one weight for each of the {n} rows."
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidInputError(
            f"sample_weight must be finite and not negative for every row; at row {row} it is {weights[row]}."
        )
    return weights
