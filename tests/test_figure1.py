"""Figure 1 at toy size: its numbers are what they say, and the command goes on after a stop."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import figure1
from experiments.baselines import tuned_plug_in

from labelgap import LowRankClassifier, PlugInClassifier
from labelgap.data import make_low_rank_labels

# A whole experiment at a small size.
pytestmark = pytest.mark.slow

TOY = figure1.Sizes(n=60, n_labels=3, n_features=2, rank=1, n_test=40, shares=(0.8,), capped_at=0.8)


def test_tasks_cover_the_figure_and_the_true_rank_once() -> None:
    tasks = figure1.all_tasks(2, TOY)
    assert len(tasks) == 2 * 2 * 2 * (3 + 1)
    assert {task["share"] for task in tasks if task["method"] == figure1.CAPPED} == {0.8}
    assert tasks[: len(tasks) // 2] == figure1.all_tasks(1, TOY)
    paper = figure1.Sizes()
    assert (paper.n, paper.n_labels, paper.n_features, paper.rank) == (1000, 100, 10, 5)
    assert paper.capped_at in paper.shares


@pytest.mark.parametrize(
    "model",
    [
        LowRankClassifier(trace_penalty=0.01, ridge_penalty=0.0, threshold="train"),
        PlugInClassifier(random_state=0),
        tuned_plug_in("micro-f1", 0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_coefficients_are_those_of_the_scores(model: Any) -> None:
    problem = make_low_rank_labels(
        n=80, n_labels=6, n_features=3, rank=2, n_test=5, observed=0.6, noise=True, random_state=0
    )
    model.fit(problem.X, problem.Y_observed)
    W = figure1.coefficients(model, 3)
    P = model.predict_proba(problem.X_test)
    P_zero = model.predict_proba(np.zeros((1, 3)))
    expected = np.log(P / (1 - P)) - np.log(P_zero / (1 - P_zero))
    np.testing.assert_allclose(problem.X_test @ W, expected, rtol=1e-6, atol=1e-6)
    if isinstance(model, LowRankClassifier):
        np.testing.assert_allclose(W, model.coef_, atol=1e-8)


def test_the_angle_ignores_length_and_counts_zero_as_a_right_angle() -> None:
    truth = np.array([[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 0.0, 1.0]])
    W = np.array([[9.0, 0.0, -1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    assert figure1.mean_angle(W, truth) == pytest.approx((0 + 90 + 180 + 45) / 4)


def test_without_noise_enough_labels_give_nearly_everything() -> None:
    sizes = figure1.Sizes(n=400, n_labels=8, n_features=3, rank=2, n_test=200)
    task = {"problem": "noise-free", "share": 1.0, "metric": "micro-f1", "method": figure1.DEFAULT, "draw": 0}
    result = figure1.measure(task, sizes)
    assert result["best"] == 1
    assert result["value"] > 0.97
    assert result["W angle"] < 5
    assert result["θ error"] < 0.2


def test_with_noise_nothing_beats_the_best() -> None:
    sizes = figure1.Sizes(n=400, n_labels=8, n_features=3, rank=2, n_test=1000)
    task = {"problem": "noisy", "share": 1.0, "metric": "micro-f1", "method": figure1.DEFAULT, "draw": 0}
    result = figure1.measure(task, sizes)
    assert 0.5 < result["value"] <= result["best"]
    assert result["best"] < 0.95


def test_the_command_writes_everything_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    figure1.main(["--draws", "1", "--out", str(tmp_path)], TOY)
    table = (tmp_path / "figure1.md").read_text(encoding="utf-8")
    assert table in capsys.readouterr().out
    for method in (figure1.DEFAULT, figure1.PLUG_IN, figure1.TUNED):
        assert table.count(f"| {method} |") == 2 * 2
    assert table.count(f"| {figure1.CAPPED} |") == 2 * 2
    first = (tmp_path / "figure1.json").read_bytes()
    content = json.loads(first)
    assert len(content["results"]) == len(figure1.all_tasks(1, TOY))
    assert (tmp_path / "figure1.png").stat().st_size > 10_000

    def no_more_work(*_: Any, **__: Any) -> Any:
        raise AssertionError("everything is done")

    monkeypatch.setattr(figure1, "measure", no_more_work)
    figure1.main(["--draws", "1", "--out", str(tmp_path)], TOY)
    assert (tmp_path / "figure1.json").read_bytes() == first
