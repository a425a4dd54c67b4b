"""``predict --coverage`` and ``fit --calibration``."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runs import EXAMPLES, error_of, run, run_json

import labelgap
from labelgap.data.files import read_label_table

FAST = ("--trace-penalty", "0.05", "--ridge-penalty", "0.01")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with held-out scores and a calibration."""
    path = tmp_path_factory.mktemp("models") / "articles.labelgap"
    data = EXAMPLES / "articles.csv"
    told = run(
        "fit", data, "--labels", "tag_*", "--id", "id", "--out", path, "--calibration", "sigmoid", *FAST
    )
    assert "sigmoid: expected error 0.0" in told.stdout
    return path


def expected(path: Path, coverage: float, guarantee: str = "class") -> tuple[Any, Any]:
    loaded = labelgap.load(path)
    names = loaded.feature_names_in_
    X = read_label_table("new_articles.csv", features=list(names)).X
    return loaded, loaded.predict_set(X, coverage, guarantee, output="dense")


def test_what_is_not_decided_is_blank(model: Path) -> None:
    told = run("predict", model, "new_articles.csv", "--coverage", "0.95", "--out", "d.csv").stdout
    _, sets = expected(model, 0.95)
    with open("d.csv", encoding="utf-8", newline="") as file:
        _, *rows = list(csv.reader(file))
    texts = {1.0: "1", 0.0: "0"}
    assert [row[1:] for row in rows] == [[texts.get(one, "") for one in row] for row in sets]
    unsure = int(np.isnan(sets).sum())
    assert unsure > 0
    assert (
        f"{int(np.nansum(sets))} yes among {sets.size - unsure} decisions, {unsure} not decided"
        in " ".join(told.split())
    )
    assert run("predict", model, "new_articles.csv", "--coverage", "0.95").stdout == Path("d.csv").read_text()


@pytest.mark.parametrize("name", ["d.parquet", "d.npz", "d.csv.gz", "d.tsv"])
def test_every_kind_of_file(model: Path, name: str) -> None:
    run("predict", model, "new_articles.csv", "--coverage", "0.95", "--guarantee", "entries", "--out", name)
    _, sets = expected(model, 0.95, "entries")
    if name == "d.npz":
        with np.load(name) as file:
            found = np.column_stack([file[label] for label in file.files if label != "id"])
    else:
        found = read_label_table(name, labels="tag_*", drop="id").labels.to_dense()
    assert np.array_equal(found, sets, equal_nan=True)


def test_lines_of_yes_and_of_what_is_not_decided(model: Path) -> None:
    run("predict", model, "new_articles.csv", "--coverage", "0.95", "--long", "--out", "d.csv")
    fitted, sets = expected(model, 0.95)
    with open("d.csv", encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == np.sum(sets != 0)
    assert sum(line["decision"] == "" for line in lines) == np.isnan(sets).sum()
    X = read_label_table("new_articles.csv", features=list(labelgap.load(model).feature_names_in_)).X
    assert float(lines[0]["probability"]) == fitted.predict_proba(X)[np.nonzero(sets != 0)][0]


def test_json_has_null(model: Path) -> None:
    said = run_json("predict", model, "new_articles.csv", "--coverage", "0.95")
    _, sets = expected(model, 0.95)
    values = [[one for name, one in row.items() if name != "id"] for row in said["predictions"]]
    assert sum(one is None for row in values for one in row) == np.isnan(sets).sum()
    said = run_json("predict", model, "new_articles.csv", "--coverage", "0.95", "--out", "d.csv")
    assert said["undecided"] == np.isnan(sets).sum()


def test_info_tells_of_the_calibration(model: Path) -> None:
    facts = run_json("info", model)
    assert facts["calibration"]["method"] == "sigmoid"
    assert 0 <= facts["calibration"]["after"] < 0.1


def test_wrong_usage(model: Path, fitted: dict[str, Path]) -> None:
    rows = "new_articles.csv"
    assert "above 0 and below 1" in error_of("predict", model, rows, "--coverage", "1.5", code=2)
    assert "it goes with --coverage" in error_of("predict", model, rows, "--guarantee", "class", code=2)
    told = error_of("predict", model, rows, "--coverage", "0.9", "--what", "scores", code=2)
    assert "it is about decisions" in told
    told = error_of("predict", fitted["counts"], rows, "--coverage", "0.9", code=2)
    assert "it is for classifiers of rows" in told
    assert "holds nothing out" in error_of("predict", fitted["articles"], rows, "--coverage", "0.9")
    told = error_of("fit", rows, "--labels", "tag_*", "--calibration", "beta", code=2)
    assert "calibration" in told
    told = error_of(
        "fit", rows, "--labels", "words", "--family", "poisson", "--calibration", "sigmoid", code=2
    )
    assert "it has no use in the setting 'regression'" in told
