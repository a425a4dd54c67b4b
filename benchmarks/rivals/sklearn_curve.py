"""scikit-learn: the threshold of the best F1 from ``precision_recall_curve``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rivals import why_missing

NAME = "scikit-learn (precision_recall_curve)"


def unavailable() -> str | None:
    """Why it cannot run here."""
    return why_missing(NAME, "sklearn.metrics")


def best_f1(values: NDArray[Any], scores: NDArray[np.float64]) -> tuple[float, float]:
    """The threshold with the best F1 for "yes from there on", and that F1."""
    from sklearn.metrics import precision_recall_curve

    precision, recall, thresholds = precision_recall_curve(values, scores)
    # The curve ends with a point of its own, which has no threshold.
    total = precision[:-1] + recall[:-1]
    f1 = np.divide(2 * precision[:-1] * recall[:-1], total, out=np.zeros_like(total), where=total > 0)
    best = int(np.argmax(f1))
    return float(thresholds[best]), float(f1[best])


def best_f1_per_label(
    values: list[NDArray[Any]], scores: list[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], float]:
    """A threshold for each label, from its own entries, and the mean of the F1."""
    found = [best_f1(y, z) for y, z in zip(values, scores, strict=True)]
    return np.array([threshold for threshold, _ in found]), float(np.mean([f1 for _, f1 in found]))
