"""The experiment on planted errors, at toy size."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import label_errors
from experiments.problems import Problem, synthetic_problem

# A whole experiment at a small size.
pytestmark = pytest.mark.slow


def toy(name: str, seed: int, observed: float) -> Problem:
    return synthetic_problem(seed, 0.6, n=60, n_labels=5, n_features=4, rank=2, n_test=10)


def test_both_methods_are_reported(tmp_path: Path) -> None:
    label_errors.main(["--draws", "1", "--data", "emotions", "--out", str(tmp_path)], source=toy)
    table = (tmp_path / "label_errors.md").read_text(encoding="utf-8")
    assert "| data | flipped | low rank | per label |" in table
    assert "| emotions | 0.05 |" in table
    results = json.loads((tmp_path / "label_errors.json").read_text(encoding="utf-8"))["results"]
    assert len(results) == 6
    for one in results:
        assert one["precision"] > one["flipped"]
