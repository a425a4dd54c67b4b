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
    assert "| data | method | mean of the batches | after the last |" in table
    results = json.loads((tmp_path / "suggest.json").read_text(encoding="utf-8"))["results"]
    assert [one["method"] for one in results] == list(suggest.METHODS)
    # All begin with the same labels.
    assert len({one["micro-f1"][0] for one in results}) == 1
    assert all(len(one["micro-f1"]) == suggest.ROUNDS + 1 for one in results)
