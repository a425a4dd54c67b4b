"""The experiment on gaps and soft labels at toy size."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import complete
from experiments.problems import Problem, synthetic_problem

# A whole experiment at a small size.
pytestmark = pytest.mark.slow


def toy(name: str, seed: int, observed: float) -> Problem:
    return synthetic_problem(seed, 0.4, n=80, n_labels=8, n_features=4, rank=2, n_test=40)


def test_gaps_and_test_rows_are_judged_on_entries_that_no_fit_saw(tmp_path: Path) -> None:
    complete.main(["--draws", "1", "--data", "emotions", "--out", str(tmp_path)], source=toy)
    table = (tmp_path / "complete.md").read_text(encoding="utf-8")
    assert "| emotions | 1 |" in table
    (result,) = json.loads((tmp_path / "complete.json").read_text(encoding="utf-8"))["results"]
    assert all(0 < result[name] <= 1 for name in ("gaps by XW", "gaps by XW + N", "test"))
    given = toy("", 0, 0.2)
    assert complete.unobserved_truth(given).n_observed == 80 * 8 - given.labels.n_observed
