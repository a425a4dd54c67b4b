"""The experiment on thresholds at toy size."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import decisions
from experiments.problems import Problem, synthetic_problem

# A whole experiment at a small size.
pytestmark = pytest.mark.slow


def toy(name: str, seed: int, observed: float) -> Problem:
    return synthetic_problem(seed, observed, n=60, n_labels=4, n_features=4, rank=2, n_test=40)


def test_every_rule_is_judged_on_the_same_fits(tmp_path: Path) -> None:
    decisions.main(["--draws", "1", "--data", "emotions", "--out", str(tmp_path)], source=toy)
    table = (tmp_path / "decisions.md").read_text(encoding="utf-8")
    assert "| macro-f1 | emotions | 1 |" in table
    results = json.loads((tmp_path / "decisions.json").read_text(encoding="utf-8"))["results"]
    assert len(results) == 2
    for one in results:
        assert all(0 < one[rule] <= 1 for rule in decisions.RULES)
        # On the scores that choose, thresholds of labels look at least as good as the shared one.
        assert one["per-label on its own scores"] >= one["shared on its own scores"] - 1e-12
        assert one["auto"] in (one["shared"], one["shrunk"], one["per-label"])
