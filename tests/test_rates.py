"""The rates experiment at toy size: bounds and slopes are what they say, and the command writes its files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import rates
from experiments.known_truth import draw_truth, slope

from labelgap.theory import feature_bound, unlabelled_bound

# A whole experiment at a small size.
pytestmark = pytest.mark.slow

TOY = rates.Sizes(
    n=60,
    n_labels=4,
    n_features=2,
    rank=1,
    n_observed=160,
    n_test=50,
    n_observed_values=(80, 160),
    rank_values=(1, 2),
    n_labels_values=(4, 8),
    n_values=(60, 120),
    unlabelled_n=40,
    flip_rate_values=(0.2, 0.5),
)


def test_the_slope_is_the_exponent() -> None:
    x = np.array([10, 20, 80])
    assert slope(x.tolist(), (3.0 / x**1.5).tolist()) == pytest.approx(-1.5)


def test_exponents_are_those_of_the_theorems() -> None:
    sizes = rates.Sizes()
    for name, axis in sizes.axes().items():
        if name == "1/(1 − ρ)":
            bounds = [
                unlabelled_bound(n=p.n, n_labels=p.n_labels, flip_rate=p.flip_rate, trace_norm=10.0).value
                for p in axis.points
            ]
        else:
            bounds = [
                feature_bound(
                    n=p.n,
                    n_features=sizes.n_features,
                    n_labels=p.n_labels,
                    n_observed=p.n_observed,
                    rank=p.rank,
                    score_bound=2.0,
                ).value
                for p in axis.points
            ]
        # log(n + L) counts as constant; over these sizes it is worth at most 0.15.
        assert slope([axis.x(p) for p in axis.points], bounds) == pytest.approx(axis.exponent, abs=0.15)


def test_one_size_changes_at_a_time_and_the_common_point_is_done_once() -> None:
    axes = rates.Sizes().axes()
    for name, axis in axes.items():
        varied = {field for field in vars(axis.points[0]) if len({vars(p)[field] for p in axis.points}) > 1}
        assert len(varied) == 1, name
    tasks = rates.all_tasks(1, rates.Sizes())
    assert len({json.dumps(task) for task in tasks}) == len(tasks)
    assert len(tasks) == 2 * (sum(len(axis.points) for axis in axes.values()) - 3)


def test_the_error_and_the_regrets_fall_with_more_labels() -> None:
    sizes = rates.Sizes(n=1000, n_labels=20, n_features=5, n_test=500)
    few, many = (
        rates.measure(
            {
                "n": 1000,
                "n_labels": 20,
                "rank": 2,
                "n_observed": m,
                "flip_rate": 0.0,
                "method": "theory",
                "draw": 0,
            },
            sizes,
        )
        for m in (2_000, 20_000)
    )
    for measure in rates.MEASURES:
        assert 0 < many[measure] < few[measure] / 2


def test_the_theory_bounds_the_noise_of_recorded_positives() -> None:
    # λ is meant to be twice σ₁(XᵀG) at the truth.
    rng = np.random.RandomState(0)
    truth = draw_truth("bernoulli", rng, n=1000, n_labels=40, n_features=10, rank=2)
    point = rates.Point(n=1000, n_labels=40, rank=2, n_observed=40_000, flip_rate=0.5)
    labels, penalty = rates.known_labels(truth, point, rng)
    recorded = np.zeros(truth.Y.shape)
    recorded[labels.rows, labels.indices] = labels.values
    G = (1 / (1 + np.exp(-truth.X @ truth.W)) - recorded / 0.5) / recorded.size
    assert 1.4 < penalty / np.linalg.norm(truth.X.T @ G, 2) < 2.6


def test_a_slope_comes_with_the_standard_error_of_its_mean() -> None:
    axis = rates.Axis("", lambda point: point.n, 0.0, [rates.Point(n, 1, 1, 1) for n in (1, 10)])
    mean, error = rates.fitted_slope(axis, [[1.0, 1.0], [10.0, 1000.0]])
    assert mean == pytest.approx(2)
    assert error == pytest.approx(1)


def test_the_command_writes_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rates.main(["--draws", "1", "--out", str(tmp_path)], TOY)
    table = (tmp_path / "rates.md").read_text(encoding="utf-8")
    assert table in capsys.readouterr().out
    assert len(table.splitlines()) == 2 + len(TOY.axes()) * len(rates.MEASURES) * len(rates.COLOURS)
    content = json.loads((tmp_path / "rates.json").read_text(encoding="utf-8"))
    assert len(content["results"]) == len(rates.all_tasks(1, TOY))
    assert (tmp_path / "rates.png").stat().st_size > 10_000
