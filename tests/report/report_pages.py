"""Models and data for the pages that are tested, and a slow reader of what a page holds."""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap import LowRankClassifier, MetricThreshold, ObservedLabels, PlugInClassifier
from labelgap.data import LowRankProblem, make_low_rank_labels
from labelgap.report import write_report

HOSTILE = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    "\"quoted\" & 'single' \\ </script>",
    "{{script}} \u2028 \u2029 \u0000",
    "🎷 emoji",
    "תווית עברית",
    "javascript:alert(1)",
    "",
]


def small_problem(n_labels: int = 12) -> LowRankProblem:
    return make_low_rank_labels(
        n=150, n_labels=n_labels, n_features=6, rank=2, observed=0.4, n_test=90, random_state=0, noise=True
    )


def hostile_names(count: int) -> list[str]:
    return [*HOSTILE, *(f"label {j}" for j in range(count - len(HOSTILE)))]


def gappy(Y: NDArray[np.float64], share: float, seed: int, names: list[str] | None = None) -> ObservedLabels:
    """A part of the labels, with a row and a label of which nothing is observed."""
    rng = np.random.RandomState(seed)
    kept = np.where(rng.uniform(size=Y.shape) < share, Y, np.nan)
    kept[3], kept[:, 2] = np.nan, np.nan
    return ObservedLabels.from_dense(kept, label_names=names)


def fitted(problem: LowRankProblem, **settings: Any) -> LowRankClassifier:
    model = LowRankClassifier(random_state=0, trace_penalty=3e-3, ridge_penalty=1e-3, **settings)
    return model.fit(problem.X, problem.Y_observed)


def plug_in(problem: LowRankProblem) -> PlugInClassifier:
    return PlugInClassifier(random_state=0).fit(problem.X, problem.Y_observed)


def with_given_scores(scores: Any, labels: Any, metric: str = "micro-f1") -> MetricThreshold:
    return MetricThreshold(metric=metric).fit(scores, labels)


def decoded(encoded: dict[str, Any]) -> NDArray[Any]:
    """What the page reads, one number at a time."""
    data, length = base64.b64decode(encoded["data"]), encoded["length"]
    if encoded["kind"] == "bits":
        return np.array([data[i // 8] >> (i % 8) & 1 for i in range(length)], dtype=np.int64)
    if encoded["kind"] != "whole":
        return np.frombuffer(data, dtype="<" + encoded["kind"])
    numbers, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(value)
            value, shift = 0, 0
    assert len(numbers) == length
    return np.array(numbers, dtype=np.int64)


def entries_of(figures: dict[str, Any]) -> dict[str, NDArray[Any] | None]:
    """Row, label, value and weight of each entry that a page holds."""
    entries = figures["entries"]
    rows, labels = [], []
    steps = iter(decoded(entries["label_steps"]).tolist())
    for row, count in enumerate(decoded(entries["row_counts"]).tolist()):
        label = 0
        for _ in range(count):
            label += next(steps)
            rows.append(row)
            labels.append(label)
    return {
        "row": np.array(rows),
        "label": np.array(labels),
        "value": decoded(entries["positive"]),
        "weight": None if entries["weights"] is None else decoded(entries["weights"]),
    }


def figures_of(model: Any, X: Any, y: Any, **options: Any) -> dict[str, Any]:
    """What the page of a model holds."""
    with tempfile.TemporaryDirectory() as folder:
        text = write_report(Path(folder) / "page.html", model, X, y, **options).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text.split('id="figures">')[1].split("</script>")[0])
    return found


def at_entries(matrix: Any, labels: ObservedLabels) -> NDArray[Any]:
    """The cells of a matrix that are observed."""
    return np.asarray(matrix)[labels.rows, labels.cols]
