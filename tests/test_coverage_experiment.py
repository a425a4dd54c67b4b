"""The experiment on the coverage of sets, at toy size."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import coverage
from experiments.problems import Problem

# A whole experiment at a small size.
pytestmark = pytest.mark.slow


def toy(name: str, seed: int) -> Problem:
    return coverage.generated(seed, popular=name == "popular", n=80, n_labels=5)


def test_every_figure_is_reported(tmp_path: Path) -> None:
    coverage.main(["--draws", "1", "--data", "synthetic", "popular", "--out", str(tmp_path)], source=toy)
    table = (tmp_path / "coverage.md").read_text(encoding="utf-8")
    for sets in ("out-of-fold", "split", "out-of-fold, weighted"):
        assert f"| popular | {sets} | class | 0.9 |" in table
    results = json.loads((tmp_path / "coverage.json").read_text(encoding="utf-8"))["results"]
    assert [one["weights"] for one in results] == ["none", "none", "inverse-propensity"]
    for one in results:
        figures = one["out-of-fold"]["class 0.9"]
        assert 0.75 < figures["entries"] <= 1
        assert 0 <= figures["undecided"] <= 1


def test_popular_labels_are_the_easy_ones() -> None:
    given = coverage.generated(0, popular=True)
    counts = given.labels.label_counts()
    assert counts[0] > 3 * counts[-1]
    assert given.Y_test.shape == (1000, 20)
    assert np.isin(given.Y_test, (0, 1)).all()
