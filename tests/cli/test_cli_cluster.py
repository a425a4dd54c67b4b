"""``labelgap fit --cluster`` on folders of Parquet files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_runs import error_of, run_json

from labelgap import load
from labelgap.cli import cluster
from labelgap.data import make_low_rank_labels

pytest.importorskip("distributed", reason="no Dask here: install the extra labelgap[dask]")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    problem = make_low_rank_labels(n=60, n_labels=4, rank=2, observed=0.7, random_state=0)
    table = pd.DataFrame(problem.X, columns=[f"x{i}" for i in range(problem.X.shape[1])])
    table = table.assign(id=np.arange(60), **{f"tag_{j}": problem.Y_observed[:, j] for j in range(4)})
    (tmp_path / "table").mkdir()
    for number, rows in enumerate((slice(0, 25), slice(25, 60))):
        table[rows].to_parquet(tmp_path / "table" / f"{number}.parquet")
    return tmp_path / "table"


def test_bad_uses_are_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = ("--out", tmp_path / "m.labelgap")
    little = ("--cluster", "local", "--workers", "1", "--worker-memory", "300MB")
    assert "too little" in error_of("fit", folder, "--labels", "tag_*", *little, *out, code=2)
    assert "is for --cluster local" in error_of("fit", folder, "--workers", "2", *out, code=2)
    monkeypatch.setattr(cluster, "_PATIENCE", 0.5)
    words = error_of("fit", folder, "--labels", "tag_*", "--cluster", "tcp://127.0.0.1:9", *out)
    assert "no Dask scheduler at tcp://127.0.0.1:9" in words


@pytest.mark.slow
def test_a_folder_is_fitted_by_processes_of_this_machine(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.labelgap"
    options = ("--cluster", "local", "--workers", "2", "--worker-memory", "1GB")
    fixed = ("--trace-penalty", "0.02", "--ridge-penalty", "0.001", "--threshold", "train")
    told = run_json("fit", folder, "--labels", "tag_*", *options, *fixed, "--out", out)
    assert told["rows"] == 60
    model = load(out)
    assert model.feature_names_in_.tolist()[:2] == ["x0", "x1"]
    assert model.label_names_.tolist() == [f"tag_{j}" for j in range(4)]
    bad = ("--impute", "mean", "--out", tmp_path / "other.labelgap")
    words = error_of("fit", folder, "--labels", "tag_*", *options, *bad, code=2)
    assert "has no use with --cluster" in words


@pytest.mark.slow
def test_a_folder_of_likes_makes_lists(tmp_path: Path) -> None:
    likes = pd.DataFrame({"user": np.arange(240) // 6, "item": np.arange(240) * 7 % 11})
    (tmp_path / "likes").mkdir()
    likes[:120].to_parquet(tmp_path / "likes" / "0.parquet")
    likes[120:].to_parquet(tmp_path / "likes" / "1.parquet")
    options = ("--cluster", "local", "--workers", "1", "--unobserved", "negative")
    run_json("fit", tmp_path / "likes", *options, "--user", "user", "--out", tmp_path / "m.labelgap")
    model = load(tmp_path / "m.labelgap")
    assert model.answers_.n_observed == 240
    assert model.list_settings_ is not None
