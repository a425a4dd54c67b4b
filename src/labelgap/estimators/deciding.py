"""From scores to decisions in blocks of rows, by the thresholds or within a budget."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from labelgap._memory import is_dense
from labelgap._types import Floats
from labelgap.decisions import Budget, decide_within, read_budget
from labelgap.exceptions import InvalidParameterError, InvalidScoresError
from labelgap.metrics import LinearFractional


class Deciding:
    """The decisions of a fitted estimator; the class that scores rows supplies what is declared here."""

    if TYPE_CHECKING:
        metric_: LinearFractional
        threshold_: float
        classes_: NDArray[Any]
        n_labels_: int
        _single: bool
        _sparse_labels: bool
        _container: str

        def _cut(self) -> float | Floats: ...
        def _blocks(self, X: Any) -> Iterator[tuple[int, Floats]]: ...
        def _on_device(self, X: Any) -> Any: ...
        def _framed(self, values: Any, X: Any, columns: Any = None) -> Any: ...
        def _final_probabilities(self, scores: Floats) -> Floats: ...

    def _answers_dense(self, output: str, X: Any, item_size: int = 1) -> bool:
        """Whether decisions about the rows of X are dense; a frame always is."""
        if self._container != "default":
            return output != "sparse"
        return is_dense(output, not self._sparse_labels, _num_samples(X), self.n_labels_, item_size)

    def _budget_output(self, X: Any, given: Any, output: str, budget: Any) -> Any:
        self._refuse_sparse_vector(output)
        found = self._budgeted(X, budget)
        if self._single:
            return self._framed(self.classes_[found.toarray()[:, 0].astype(np.intp)], given)
        if self._answers_dense(output, X):
            return self._framed(found.toarray(), given)
        return found

    def _refuse_sparse_vector(self, output: str) -> None:
        if self._single and output == "sparse":
            raise InvalidParameterError(
                "output='sparse' is for a matrix of labels; the estimator was fitted to a 1-d y."
            )

    def _decisions(self, X: Any, given: Any, output: str) -> Any:
        self._refuse_sparse_vector(output)
        cut = self._cut()
        if self._single:
            yes = np.concatenate([block[:, 0] for _, block in self._blocks(X)]) >= self.threshold_
            return self._framed(self.classes_[yes.astype(np.intp)], given)
        if self._answers_dense(output, X):
            device = self._on_device(X)
            if device is not None:
                return self._framed(device.decisions(X, cut), given)
            decisions = np.empty((_num_samples(X), self.n_labels_), dtype=np.int8)
            for start, block in self._blocks(X):
                decisions[start : start + len(block)] = block >= cut
            return self._framed(decisions, given)
        return self._sparse_decisions(X)

    def _sparse_decisions(self, X: Any) -> sp.csr_array:
        # 32 bits hold any column number that occurs; they halve the size of the result.
        width = np.int32 if self.n_labels_ <= np.iinfo(np.int32).max else np.int64
        counts, columns = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=width)]
        for count, chosen in self._yes_columns(X):
            counts.append(count)
            columns.append(chosen.astype(width))
        indices = np.concatenate(columns)
        return sp.csr_array(
            (np.ones(len(indices), dtype=np.int8), indices, np.cumsum(np.concatenate(counts))),
            shape=(_num_samples(X), self.n_labels_),
        )

    def _yes_columns(self, X: Any) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The number of yes in each row of a block, and their columns in order."""
        device = self._on_device(X)
        if device is not None:
            yield from device.yes_columns(X, self._cut())
            return
        for _, block in self._blocks(X):
            yes = block >= self._cut()
            yield yes.sum(axis=1), np.nonzero(yes)[1]

    # -- within a budget -------------------------------------------------------------------------------

    def _budgeted(self, X: Any, budget: Any) -> Any:
        """The decisions within a budget that maximise the expected metric, as CSR."""
        asked: Budget = read_budget(budget)

        def blocks() -> Iterator[Floats]:
            for start, scores in self._blocks(X):
                yield self._block_probabilities(scores, start)

        return decide_within(blocks, self.n_labels_, asked, self.metric_)

    def _block_probabilities(self, scores: Floats, start: int) -> Floats:
        """The probabilities of a block of scores, or an error where there are none."""
        if hasattr(self, "predict_proba"):
            return np.asarray(self._final_probabilities(scores), dtype=np.float64)
        outside = ~((scores >= 0) & (scores <= 1))
        if outside.any():
            row, label = np.argwhere(outside)[0]
            raise InvalidScoresError(
                f"A budget is spent by probabilities, and the score at row {row + start}, label {label} is "
                f"{scores[row, label]:g}, which is none. Pass probabilities as scores, or an estimator with "
                "predict_proba."
            )
        return np.asarray(scores, dtype=np.float64)


def relative_scores(model: Any, scores: Floats, labels: NDArray[Any]) -> tuple[Floats, float]:
    """Scores and the one threshold that they are compared with, for a model with several thresholds too.

    The score of an entry is moved by as much as its label's threshold is from the shared one, so that one
    threshold for all of them makes the decisions of the model.
    """
    cut = model._cut() if isinstance(model, Deciding) else model.threshold_
    if isinstance(cut, float):
        return scores, cut
    shared = model.threshold_ if np.isfinite(model.threshold_) else 0.0
    own = cut[labels]
    with np.errstate(invalid="ignore"):
        moved = scores - (own - shared)
    yes = scores >= own
    # Neither rounding nor infinite scores and thresholds may change a decision.
    moved = np.where(np.isnan(moved), np.where(yes, np.inf, -np.inf), moved)
    moved = np.where(yes, np.maximum(moved, shared), np.minimum(moved, np.nextafter(shared, -np.inf)))
    return moved, float(shared)
