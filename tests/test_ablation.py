"""The ablation experiment at toy size."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import ablation
from experiments.problems import Problem, synthetic_problem

from labelgap.fitting import search as selection

# A whole experiment at a small size.
pytestmark = pytest.mark.slow


def toy(name: str, seed: int, observed: float) -> Problem:
    return synthetic_problem(seed, observed, n=60, n_labels=4, n_features=4, rank=2, n_test=40)


def test_every_variant_is_reported_beside_the_default(tmp_path: Path) -> None:
    ablation.main(["--draws", "1", "--data", "emotions", "--out", str(tmp_path)], source=toy)
    table = (tmp_path / "ablation.md").read_text(encoding="utf-8")
    for variant in ablation.VARIANTS:
        assert f"| {variant} |" in table
    results = json.loads((tmp_path / "ablation.json").read_text(encoding="utf-8"))["results"]
    assert len(results) == len(ablation.VARIANTS)
    assert all(0 < one["score"] <= 1 for one in results)


def test_some_variants_are_reported_beside_the_default(tmp_path: Path) -> None:
    asked = ["--draws", "1", "--data", "synthetic", "--variants", "thorough search", "--out", str(tmp_path)]
    ablation.main(asked, source=toy)
    results = json.loads((tmp_path / "ablation.json").read_text(encoding="utf-8"))["results"]
    assert [one["variant"] for one in results] == ["default", "thorough search"]


def test_the_variants_change_what_they_say_and_put_it_back() -> None:
    given, before = toy("toy", 0, 0.4), selection.Contest.__init__.__defaults__
    with ablation.chosen_within(7.0):
        assert selection.Contest([].append, None, "metric")._alike_errors == 7.0
    steady = ablation.VARIANTS["default"].fitted(given, 0)
    exact = ablation.VARIANTS["exact best threshold"].fitted(given, 0)
    assert exact.trace_penalty_ == steady.trace_penalty_
    assert exact.held_out_metric_ >= steady.held_out_metric_
    ablation.VARIANTS["chosen by the loss alone"].fitted(given, 0)
    assert before == selection.Contest.__init__.__defaults__
