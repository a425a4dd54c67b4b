"""The recovery experiment at toy size: the error falls with |Ω|, about as 1/|Ω|."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import recovery
from experiments.known_truth import draw_truth, observe

# A whole experiment at a small size.
pytestmark = pytest.mark.slow

TOY = recovery.Sizes(n=2000, n_labels=20, n_features=6, rank=2, observed=(8_000, 16_000, 32_000))
# How far the slope may be from −1. Four draws leave its mean uncertain by up to 0.1. Yes/no answers come to
# the rate only slowly, because large scores bend the loss so little that λ shrinks them far more.
MARGIN = {"gaussian": 0.2, "poisson": 0.2, "bernoulli": 0.4}


@pytest.mark.parametrize("family", recovery.FAMILIES)
def test_the_error_falls_as_the_theory_says(family: str) -> None:
    errors = recovery.run(4, TOY, families=[family], methods=["theory"])
    [row] = recovery.summary(errors, TOY)
    assert row["mean"] == sorted(row["mean"], reverse=True)
    assert abs(row["slope"] - recovery.THEORY_SLOPE) < MARGIN[family]


def test_the_theory_bounds_the_noise() -> None:
    # λ is meant to be twice σ₁(XᵀG) at the truth.
    truth = draw_truth("poisson", np.random.RandomState(0), **recovery.Sizes(n=1000).shape)
    labels = observe(truth, 8_000, np.random.RandomState(1))
    mean = np.exp(truth.X @ truth.W)
    G = np.zeros(labels.shape)
    G[labels.rows, labels.cols] = (mean - truth.Y)[labels.rows, labels.cols] / labels.n_observed
    largest = np.linalg.norm(truth.X.T @ G, 2)
    penalty = recovery.with_theory("poisson", truth, labels, seed=0).trace_penalty_
    assert 1.4 < penalty / largest < 2.6


def test_the_command_writes_its_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = recovery.Sizes(n=60, n_labels=4, n_features=2, rank=1, observed=(100, 200))
    recovery.main(["--draws", "1", "--out", str(tmp_path / "out")], sizes)
    printed = capsys.readouterr().out
    table = (tmp_path / "out" / "recovery.md").read_text(encoding="utf-8")
    assert table in printed
    for family in recovery.FAMILIES:
        assert table.count(f"| {family} |") == len(recovery.METHODS)
    content = json.loads((tmp_path / "out" / "recovery.json").read_text(encoding="utf-8"))
    assert set(content) == {"sizes", "errors", "summary"}
    assert content["sizes"]["observed"] == [100, 200]
