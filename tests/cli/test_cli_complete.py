"""``labelgap complete``: a table without its blanks."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from cli_runs import error_of, run

import labelgap
from labelgap.data import make_low_rank_labels

QUICK = ("--trace-penalty", "0.02", "--ridge-penalty", "0.001", "--feature-map", "linear")


def write_table(path: Path, *, all_yes: bool = False) -> tuple[np.ndarray, list[str]]:
    problem = make_low_rank_labels(n=80, n_labels=6, observed=0.6, random_state=0)
    Y = np.where(np.isnan(problem.Y_observed), np.nan, 1.0) if all_yes else problem.Y_observed
    names = [f"tag_{j}" for j in range(6)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "a", "b", *names])
        for i, (x, y) in enumerate(zip(problem.X[:, :2], Y, strict=True)):
            writer.writerow([f"r{i}", *x, *("" if np.isnan(one) else int(one) for one in y)])
    return Y, names


def read_rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_blanks_are_filled_and_known_labels_stay(tmp_path: Path) -> None:
    Y, names = write_table(tmp_path / "table.csv")
    done = run("complete", "table.csv", "--labels", "tag_*", *QUICK, "--out", "filled.csv", "--json")
    said = json.loads(done.stdout)
    assert said["blanks"] == int(np.isnan(Y).sum())
    assert said["relative_gap"] <= 1e-3
    header, *rows = read_rows(tmp_path / "filled.csv")
    assert header == ["id", *names]
    assert [row[0] for row in rows] == [f"r{i}" for i in range(80)]
    filled = np.array([[int(one) for one in row[1:]] for row in rows])
    assert set(np.unique(filled)) <= {0, 1}
    np.testing.assert_array_equal(filled[~np.isnan(Y)], Y[~np.isnan(Y)])


def test_probabilities_of_all_entries_go_to_standard_output(tmp_path: Path) -> None:
    write_table(tmp_path / "table.csv")
    options = ("--what", "probabilities", "--all", "--row-penalty", "0.01", "--quiet")
    done = run("complete", "table.csv", "--labels", "tag_*", *QUICK, *options)
    header, *rows = list(csv.reader(done.stdout.splitlines()))
    p = np.array([[float(one) for one in row[1:]] for row in rows])
    assert header[0] == "id"
    assert p.shape == (80, 6)
    assert ((p > 0) & (p < 1)).all()


def test_what_cannot_be_completed_is_said(tmp_path: Path) -> None:
    write_table(tmp_path / "yes.csv", all_yes=True)
    assert "all" in error_of("complete", "yes.csv", "--labels", "tag_*")
    (tmp_path / "ratings.csv").write_text("user,item,rating\na,x,1\nb,y,0\n")
    assert "holds ratings" in error_of("complete", "ratings.csv")
    write_table(tmp_path / "table.csv")
    (tmp_path / "there.csv").write_text("")
    assert "--force" in error_of("complete", "table.csv", "--labels", "tag_*", "--out", "there.csv")


def test_soft_labels_are_an_option_of_fit(tmp_path: Path) -> None:
    write_table(tmp_path / "table.csv")
    options = ("--soft-labels", "1", "--out", "m.labelgap", "--json")
    said = json.loads(run("fit", "table.csv", "--labels", "tag_*", *QUICK, *options).stdout)
    model = labelgap.load(tmp_path / "m.labelgap")
    assert model.soft_labels == 1.0
    # 0 where the known labels of a row say nothing more than its features.
    assert said.get("soft_label_weight", 0.0) == model.soft_label_weight_
