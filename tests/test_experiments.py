"""Benchmarks run, at toy size."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import threshold_sweep


def test_threshold_benchmark_measures_every_average(capsys: pytest.CaptureFixture[str]) -> None:
    threshold_sweep.main(["--entries", "20000", "--repeats", "1"])
    printed = capsys.readouterr().out
    for average in ("micro", "instance", "macro"):
        assert average in printed
