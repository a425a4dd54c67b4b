"""Experiments and benchmarks run, at toy size."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import threshold_sweep
from experiments import synthetic


def test_synthetic_experiment_reports_every_method() -> None:
    results = synthetic.run(draws=2, observed=0.4, n=120, n_labels=8, n_test=80)
    table = synthetic.report(results)
    for name in synthetic.METHODS:
        assert table.count(f"| {name} |") == len(synthetic.METRICS)
    assert all(0.5 < v <= 1 for by_method in results.values() for vs in by_method.values() for v in vs)


def test_threshold_benchmark_measures_every_average(capsys: pytest.CaptureFixture[str]) -> None:
    threshold_sweep.main(["--entries", "20000", "--repeats", "1"])
    printed = capsys.readouterr().out
    for average in ("micro", "instance", "macro"):
        assert average in printed
