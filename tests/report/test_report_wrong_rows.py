"""The rows with the most wrong decisions, counted one entry at a time."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from labelgap import ObservedLabels
from labelgap.report import wrong_rows
from labelgap.report.wrong_rows import describe_wrong_rows


@pytest.mark.parametrize("seed", range(4))
def test_wrong_decisions_are_counted_row_by_row(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong_rows, "MOST_ROWS", 7)
    rng = np.random.RandomState(seed)
    Y = (rng.uniform(size=(20, 6)) < 0.5).astype(float)
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    Y[4] = np.nan
    scores = np.where(np.isnan(Y), np.nan, rng.standard_normal(Y.shape).round(1))
    labels = ObservedLabels.from_dense(Y, row_names=[f"r{i}" for i in range(20)])
    theta = 0.2
    probabilities = 1 / (1 + np.exp(-scores[~np.isnan(Y)]))
    found = describe_wrong_rows(labels, scores[~np.isnan(Y)], theta, probabilities)
    wrong: dict[int, list[tuple[float, int, bool]]] = {i: [] for i in range(20)}
    for i in range(20):
        for j in range(6):
            yes = bool(scores[i, j] >= theta)
            if not np.isnan(Y[i, j]) and yes != (Y[i, j] == 1):
                wrong[i].append((abs(scores[i, j] - theta), j, yes))
    observed = {i: int(np.sum(~np.isnan(Y[i]))) for i in range(20)}
    order = sorted(wrong, key=lambda i: (-len(wrong[i]), -len(wrong[i]) / max(observed[i], 1), i))
    expected = [i for i in order[:7] if wrong[i]]
    assert [row["name"] for row in found["rows"]] == [f"r{i}" for i in expected]
    for row, i in zip(found["rows"], expected, strict=True):
        assert row["observed"] == observed[i]
        assert row["false_yes"] == sum(yes for _, _, yes in wrong[i])
        assert row["false_no"] == sum(not yes for _, _, yes in wrong[i])
        furthest = sorted(wrong[i], key=lambda one: (-round(one[0], 9), one[1]))[: wrong_rows.MOST_NAMED]
        assert [(one["label"], one["yes"]) for one in row["entries"]] == [(j, yes) for _, j, yes in furthest]
        first = furthest[0][1]
        assert row["entries"][0]["probability"] == pytest.approx(1 / (1 + np.exp(-scores[i, first])))
    judged = Counter(len(wrong[i]) for i in range(20) if observed[i])
    assert found["counts"] == [judged[k] for k in range(max(judged) + 1)]
    assert (found["n_rows"], found["n_all_right"]) == (19, judged[0])


def test_rows_without_names_are_numbered_and_right_ones_left_out() -> None:
    labels = ObservedLabels.from_dense([[1, 0], [0, 1]])
    found = describe_wrong_rows(labels, np.array([1.0, -1.0, 1.0, 1.0]), 0.0)
    assert [row["name"] for row in found["rows"]] == ["row 1"]
    assert found["rows"][0]["entries"] == [{"label": 0, "yes": True, "probability": None}]
    assert not found["has_names"]
    assert describe_wrong_rows(labels, np.array([1.0, -1.0, -1.0, 1.0]), 0.0)["rows"] == []
