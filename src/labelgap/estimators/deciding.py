"""From scores to decisions: one threshold or one for each label, and decisions within a budget."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.decisions import Budget, decide_within, read_budget
from labelgap.exceptions import InvalidScoresError
from labelgap.metrics import LinearFractional


class Deciding:
    """The thresholds of a fitted estimator, and what they are compared with."""

    metric_: LinearFractional
    threshold_: float
    n_labels_: int

    def _set_thresholds(self, threshold: float, thresholds: Floats | None, kind: str) -> None:
        """Set the shared threshold, that of each label, and what they are."""
        self.threshold_ = float(threshold)
        # An earlier fit may have left thresholds, which do not belong to these labels.
        for name in ("_label_thresholds", "_thresholds_kind"):
            self.__dict__.pop(name, None)
        if kind != "shared":
            self._label_thresholds = np.array(thresholds, dtype=np.float64)
            self._thresholds_kind = kind

    @property
    def thresholds_(self) -> Floats:
        """The threshold of each label; ``threshold_`` everywhere where they share it."""
        if self.thresholds_kind_ == "shared":
            return np.full(self.n_labels_, float(self.threshold_))
        return self._label_thresholds

    @property
    def thresholds_kind_(self) -> str:
        """What ``thresholds_`` are: "shared", "per-label" or "shrunk"."""
        # Only thresholds of their own are kept, so that models with one are saved as they always were.
        return str(self.__dict__.get("_thresholds_kind", "shared"))

    def _cut(self) -> float | Floats:
        """What scores are compared with: the shared threshold, or a row with one for each label."""
        return float(self.threshold_) if self.thresholds_kind_ == "shared" else self._label_thresholds

    def _entry_cut(self, labels: NDArray[Any]) -> float | Floats:
        """What the scores of entries of these labels are compared with."""
        cut = self._cut()
        return cut if isinstance(cut, float) else cut[labels]

    # -- within a budget -------------------------------------------------------------------------------

    def _budgeted(self, X: Any, budget: Any) -> Any:
        """The decisions within a budget that maximise the expected metric, as CSR."""
        asked: Budget = read_budget(budget)

        def blocks() -> Iterator[Floats]:
            for start, scores in self._blocks(X):  # type: ignore[attr-defined]
                yield self._block_probabilities(scores, start)

        return decide_within(blocks, self.n_labels_, asked, self.metric_)

    def _block_probabilities(self, scores: Floats, start: int) -> Floats:
        """The probabilities of a block of scores, or an error where there are none."""
        if hasattr(self, "predict_proba"):
            return np.asarray(self._final_probabilities(scores), dtype=np.float64)  # type: ignore[attr-defined]
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
