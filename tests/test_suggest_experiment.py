"""The experiment on what to label next, at toy size."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import suggest
from experiments.problems import Problem, synthetic_problem

# A whole experiment at a small size.
pytestmark = pytest.mark.slow


def toy(name: str, seed: int, observed: float) -> Problem:
    return synthetic_problem(seed, observed, n=100, n_labels=8, n_features=4, rank=2, n_test=20)


def test_all_methods_are_reported(tmp_path: Path) -> None:
    suggest.main(["--draws", "1", "--data", "emotions", "--out", str(tmp_path)], source=toy)
    table = (tmp_path / "suggest.md").read_text(encoding="utf-8")
    assert "| data | method | micro-F1 at 10 % | at 15 % | labels saved at 10 %, % | at 15 %, % |" in table
    results = json.loads((tmp_path / "suggest.json").read_text(encoding="utf-8"))["results"]
    assert [one["method"] for one in results] == list(suggest.METHODS)
    # All begin with the same labels.
    assert len({one["micro-f1"][0] for one in results}) == 1
    assert all(len(one["micro-f1"]) == suggest.BATCHES + 1 for one in results)


def test_labels_saved() -> None:
    curve = [0.4, 0.5, 0.49, 0.6, 0.7]
    # 0.55 takes 15 % of random labels; 0.3 is reached by the first, and 0.8 counts as the last.
    assert suggest.saved([0.55, 0.3, 0.8], [0.1, 0.1, 0.15], curve) == [0.3333, -1.0, 0.5]
