"""The experiment on recorded yes alone at toy size."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import unlabelled

from labelgap import get_metric

# A whole experiment at a small size.
pytestmark = pytest.mark.slow

TOY = unlabelled.Sizes(n=50, n_labels=5, n_test=60, n_users=40, n_items=12)


# So few users leave ρ uncertain, and an estimate above what an item allows is worth a warning.
@pytest.mark.filterwarnings("ignore:A flip rate of .* is not possible:labelgap.exceptions.LabelgapWarning")
def test_every_method_is_reported_and_judged_on_the_truth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--draws", "1", "--settings", "pairs", "--flip-rates", "0.5"]
    unlabelled.main([*small, "--out", str(tmp_path / "out")], TOY)
    table = (tmp_path / "out" / "unlabelled.md").read_text(encoding="utf-8")
    assert table in capsys.readouterr().out
    assert all(method in table for method in unlabelled.METHODS)
    content = json.loads((tmp_path / "out" / "unlabelled.json").read_text(encoding="utf-8"))
    assert set(content) == {"sizes", "scores", "summary"}
    assert set(content["scores"]) == {"pairs"}
    # Dropping silence says yes to all, whatever was recorded: F1 is 2r/(1 + r) at a rate r of yes.
    rate = unlabelled.of_pairs("pairs", TOY, seed=0).Y.mean()
    for by_method in content["scores"]["pairs"].values():
        assert by_method["silence dropped"] == pytest.approx([2 * rate / (1 + rate)])


def test_features_are_judged_on_fresh_rows() -> None:
    truth = unlabelled.with_features("features", TOY, seed=0)
    recorded = truth.Y * (np.random.RandomState(0).random_sample(truth.Y.shape) >= 0.5)
    # With λ given: how it is chosen is for other tests.
    settings = {"unobserved": "unlabelled", "flip_rate": 0.5, "trace_penalty": 0.01}
    decided, judge = truth.decide(recorded, settings, 0)["features"], truth.judges["features"]
    assert judge.shape == (TOY.n_test, TOY.n_labels)
    f1 = get_metric("micro-f1")
    assert f1(judge, np.ones(judge.shape)) < f1(judge, decided) < 1


def test_the_gain_is_paired() -> None:
    values = {"known ρ": [0.6, 0.8], "silence as no": [0.5, 0.7]}
    first, second = unlabelled.summary({"pairs": {"0.5": values}})
    assert first["gain"] == pytest.approx(0.1)
    assert first["gain_sd"] == pytest.approx(0.0, abs=1e-12)
    assert first["sd"] == pytest.approx(np.std([0.6, 0.8], ddof=1))
    assert first["draws_above"] == 2
    assert second["gain"] == 0
