"""``suggest``: which entries to ask about next."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from labelgap._arrays import to_host
from labelgap._types import Floats
from labelgap.asking.candidates import Candidates, known_block
from labelgap.asking.gains import add_counts, entry_gains, expected_counts
from labelgap.asking.spreading import choose_spread, coverage, directions_of, whitening
from labelgap.asking.suggestions import Suggestions
from labelgap.decisions.expected import require_agreement
from labelgap.estimators.features_given import refuse_misaligned
from labelgap.estimators.inputs import read_judged_labels
from labelgap.exceptions import InvalidParameterError, InvalidScoresError
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional
from labelgap.metrics.linear_fractional import Counts

# Entries for which gains are computed at one time.
_BLOCK_ENTRIES = 1 << 19


class Suggesting:
    """``suggest`` of a fitted estimator with probabilities, thresholds and a metric."""

    if TYPE_CHECKING:
        metric_: LinearFractional
        n_labels_: int
        label_names_: Any
        _unobserved: str

        def _read_features(self, X: Any, *, reset: bool) -> Any: ...
        def _parts(self, X: Any) -> Iterator[tuple[int, Floats]]: ...
        def _final_probabilities(self, scores: Floats) -> Floats: ...
        def _cut(self) -> float | Floats: ...

    def _row_factors(self, X: Any) -> Floats | None:
        """Factors of validated rows that tell alike rows from others; None where the model has none."""
        return None

    def suggest(
        self, X: Any, n: int = 10, y: Any = None, *, budget_per_row: int | None = None
    ) -> Suggestions:
        """The entries to ask about next, by what the metric is expected to gain.

        An entry of probability p that is asked about is decided rightly from then on. With C the expected
        counts of the rows of X at the thresholds of the fit, and those without the entry e being C_e,

            ``gain(e) = P(y_e ≠ ŷ_e) · [Ψ(C_e + right) − Ψ(C_e + wrong)]``.

        The batch is chosen one by one, each time by the largest ``gain · √v``. v is how uncertain the label
        of the entry still is in the direction of the row's factors, given how many of its entries are known
        in y and those that were chosen before; see :mod:`labelgap.asking.spreading`. Estimators without
        factors (all but :class:`~labelgap.LowRankClassifier`) count the entries of each label alone.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            The rows to ask about: the training rows, or new ones.
        n : int, default 10
            How many entries. There are fewer in the result where fewer are left.
        y : labels in any form that ``fit`` takes, or None, default None
            What is known of these rows. Known entries are never suggested, count as decided rightly, and say
            how well a label is known. What is absent can be suggested, also after a fit with
            ``unobserved="negative"``. Weights are not used.
        budget_per_row : int or None, default None
            At most so many entries of each row; None is no limit.

        Returns
        -------
        Suggestions
            The entries in the order of the choice. Of equal ones, that of the first row, then of the first
            label.

        Examples
        --------
        >>> from labelgap import LowRankClassifier
        >>> from labelgap.data import make_low_rank_labels
        >>> problem = make_low_rank_labels(n=200, n_labels=10, observed=0.3, random_state=0)
        >>> clf = LowRankClassifier(trace_penalty=0.01, random_state=0).fit(problem.X, problem.Y_observed)
        >>> found = clf.suggest(problem.X, n=5, y=problem.Y_observed, budget_per_row=1)
        >>> len(found), len(set(found.rows.tolist()))
        (5, 5)
        """
        check_is_fitted(self)
        for name, value in (("n", n), ("budget_per_row", budget_per_row)):
            _check_count(name, value, optional=name != "n")
        require_agreement(self.metric_)
        given = X
        if y is not None:
            refuse_misaligned(X, y)
        X = self._read_features(X, reset=False)
        n_rows, known = _num_samples(X), None
        if y is not None:
            absent = "unlabelled" if self._unobserved == "unlabelled" else "missing"
            known = read_judged_labels(self, y, n_rows, absent)
        per_row = None if budget_per_row is None else int(budget_per_row)

        # The first pass sums the expected counts and the moments of the factors.
        average = self.metric_.average
        counts: Counts | None = None
        moment: Any = None
        for start, p, yes, _ in self._known_parts(X, known):
            if average != "instance":
                counts = add_counts(counts, expected_counts(p, yes, average))
            factors = self._row_factors(_safe_indexing(X, slice(start, start + len(p))))
            if factors is not None:
                moment = (0.0 if moment is None else moment) + factors.T @ factors
        white = None if moment is None else whitening(moment / n_rows)
        width = 1 if white is None else 1 + white.shape[1]

        of_labels = np.zeros(self.n_labels_) if known is None else known.label_counts().astype(np.float64)
        groups = {"micro": 1, "macro": self.n_labels_, "instance": n_rows}[average]
        scale = np.sqrt(coverage(of_labels, width))
        candidates = Candidates(int(n), self.n_labels_, per_row)
        for start, p, yes, seen in self._known_parts(X, known):
            gains = entry_gains(p, yes, self.metric_, counts) / groups
            candidates.add(start, gains * scale, gains, p, seen)
        rows, labels, gains, p = candidates.found()
        directions = self._candidate_directions(X, rows, white)
        chosen, values = choose_spread(gains, rows, labels, directions, of_labels[labels], int(n), per_row)
        return Suggestions(
            rows[chosen],
            labels[chosen],
            p[chosen],
            gains[chosen],
            values,
            _row_names(given, known),
            None if self.label_names_ is None else tuple(self.label_names_.tolist()),
        )

    def _known_parts(
        self, X: Any, known: ObservedLabels | None
    ) -> Iterator[tuple[int, Floats, NDArray[np.bool_], NDArray[np.bool_]]]:
        """Blocks of rows: the first row, probabilities, decisions, and what is known, which is decided so."""
        cut = self._cut()
        for start, scores in self._small_parts(X):
            p, yes = self._suggest_probabilities(scores, start), np.asarray(scores >= cut)
            seen = np.zeros(p.shape, dtype=np.bool_)
            if known is not None:
                rows, labels, values = known_block(known, start, start + len(p))
                seen[rows, labels] = True
                p[rows, labels] = values
                yes[rows, labels] = values > 0
            yield start, p, yes, seen

    def _small_parts(self, X: Any) -> Iterator[tuple[int, Floats]]:
        """Blocks of scores that are small enough to hold a dozen arrays of the same size beside them."""
        step = max(1, _BLOCK_ENTRIES // max(self.n_labels_, 1))
        for first, scores in self._parts(X):
            for start in range(0, len(scores), step):
                yield first + start, scores[start : start + step]

    def _suggest_probabilities(self, scores: Floats, start: int) -> Floats:
        """A new array of the probabilities of a block of scores, or an error where there are none."""
        if hasattr(self, "predict_proba"):
            return np.clip(np.array(self._final_probabilities(scores), dtype=np.float64), 0.0, 1.0)
        outside = ~((scores >= 0) & (scores <= 1))
        if outside.any():
            row, label = np.argwhere(outside)[0]
            raise InvalidScoresError(
                f"What to ask about is found by probabilities, and the score at row {row + start}, label "
                f"{label} is {scores[row, label]:g}, which is none. Pass probabilities as scores, an "
                "estimator with predict_proba, or calibration='isotonic'."
            )
        return np.array(scores, dtype=np.float64)

    def _candidate_directions(self, X: Any, rows: NDArray[np.int64], white: Floats | None) -> Floats:
        if white is None or len(rows) == 0:
            return np.ones((len(rows), 1 if white is None else 1 + white.shape[1]))
        own, places = np.unique(rows, return_inverse=True)
        factors = self._row_factors(_safe_indexing(X, own))
        assert factors is not None
        return directions_of(factors, white)[places]


def _check_count(name: str, value: Any, *, optional: bool) -> None:
    if optional and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise InvalidParameterError(
            f"{name} must be a whole number of at least 1{', or None' if optional else ''}; got {value!r}."
        )


def _row_names(X: Any, known: ObservedLabels | None) -> tuple[Hashable, ...] | None:
    """The names of the rows: those of the labels, or the index of a frame."""
    if known is not None and known.row_names is not None:
        return tuple(known.row_names)
    index = getattr(to_host(X), "index", None) if hasattr(X, "iloc") else None
    return None if index is None else tuple(index.tolist())
