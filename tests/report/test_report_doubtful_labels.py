"""The labels to look at again, against a plain sort of all wrong decisions."""

from __future__ import annotations

import numpy as np
import pytest

from labelgap import MetricThreshold, ObservedLabels
from labelgap.report import doubtful_labels
from labelgap.report.collect import collect
from labelgap.report.doubtful_labels import describe_doubtful_labels


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("known", [True, False], ids=["probabilities", "scores"])
def test_the_surest_contradictions_come_first(
    seed: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doubtful_labels, "MOST_LISTED", 9)
    rng = np.random.RandomState(seed)
    Y = (rng.uniform(size=(15, 5)) < 0.5).astype(float)
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    # With ties, and without rounding.
    z = rng.randint(-16, 17, size=Y.shape) / 8
    p = (z + 2) / 4
    here, theta = ~np.isnan(Y), -0.5
    labels = ObservedLabels.from_dense(Y, row_names=[f"r{i}" for i in range(15)])
    found = describe_doubtful_labels(labels, z[here], theta, p[here] if known else None)
    wrong = []
    for i, j in zip(*np.nonzero(here), strict=True):
        if (z[i, j] >= theta) != (Y[i, j] == 1):
            doubt = abs(z[i, j] - theta) if not known else 1 - p[i, j] if Y[i, j] else p[i, j]
            wrong.append((-doubt, int(i), int(j)))
    assert found is not None
    assert found["n_wrong"] == len(wrong) > 9
    listed = [(one["row"], one["label"], one["recorded"]) for one in found["entries"]]
    assert listed == [(f"r{i}", j, Y[i, j] == 1) for _, i, j in sorted(wrong)[:9]]
    assert all((one["probability"] is not None) == known for one in found["entries"])


def test_an_absent_entry_that_counts_as_no_was_not_recorded() -> None:
    recorded = ObservedLabels.from_triplets([0, 1], [0, 1], [1, 1], shape=(2, 2))
    labels = ObservedLabels.from_any(recorded, unobserved="negative")
    assert describe_doubtful_labels(labels, np.zeros(labels.n_observed), 0.5) is None


def test_a_page_holds_them() -> None:
    scores, labels = np.array([[0.9, 0.2], [0.6, 0.7]]), np.array([[1.0, 0.0], [0.0, np.nan]])
    model = MetricThreshold(metric="micro-f1").fit(scores, labels)
    labels[0, 1] = 1
    (one,) = collect(model, scores, labels)["doubtful"]["entries"]
    assert (one["row"], one["label"], one["recorded"], one["score"]) == ("row 0", 1, True, 0.2)
