"""Thresholds per label, bounds and budgets from the shell."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_runs import error_of, run, run_json

import labelgap
from labelgap import Budget, PlugInClassifier, best_threshold
from labelgap.data.files import write_columns
from labelgap.thresholds import choose_thresholds

RNG = np.random.default_rng(0)
LABELS = (RNG.random((60, 3)) < 0.4).astype(float)
SCORES = RNG.standard_normal((60, 3)) + 3 * LABELS + [0, 3, 6]
NAMES = ("x", "y", "z")


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    write_columns("scores.csv", {name: SCORES[:, at] for at, name in enumerate(NAMES)})
    write_columns("labels.csv", {name: LABELS[:, at] for at, name in enumerate(NAMES)})
    return "scores.csv", "labels.csv"


def rows_of(path: str) -> list[dict[str, str]]:
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("kind", ["per-label", "shrunk", "auto"])
def test_thresholds_of_labels(kind: str, tables: tuple[str, str]) -> None:
    said = run_json("threshold", *tables, "--metric", "macro-f1", "--thresholds", kind, "--out", "yes.csv")
    chosen = choose_thresholds(SCORES, LABELS, "macro-f1", kind)
    assert said["kind"] == chosen.kind
    assert list(said["thresholds"]) == list(NAMES)
    np.testing.assert_allclose(list(said["thresholds"].values()), chosen.thresholds)
    assert said["value"] > said["shared_value"] == best_threshold(SCORES, LABELS, "macro-f1").value
    decided = np.array([[int(row[name]) for name in NAMES] for row in rows_of("yes.csv")])
    np.testing.assert_array_equal(decided, chosen.thresholds <= SCORES)


def test_what_people_are_told_of_them(tables: tuple[str, str]) -> None:
    told = run("threshold", *tables, "--metric", "macro-f1", "--thresholds", "shrunk").stdout
    assert "thresholds" in told
    assert "shrunk" in told
    assert "with thresholds from other rows" in told


def test_bounds(tables: tuple[str, str]) -> None:
    bound = ("--subject-to", "recall >= 0.9", "--subject-to", "macro-recall >= 0.5")
    said = run_json("threshold", *tables, "--metric", "micro-precision", *bound)
    best = best_threshold(SCORES, LABELS, "micro-precision", subject_to="recall >= 0.9, macro-recall >= 0.5")
    assert (said["threshold"], said["value"]) == (best.threshold, best.value)
    told = error_of("threshold", *tables, "--subject-to", "precision >= 0.99, recall >= 0.99")
    assert "No threshold gives" in told
    assert "--subject-to holds 'recall'" in error_of("threshold", *tables, "--subject-to", "recall")


@pytest.fixture
def model(tmp_path: Path) -> PlugInClassifier:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 3))
    Y = (X @ rng.standard_normal((3, 4)) + rng.standard_normal((80, 4)) > 0.5).astype(float)
    fitted = PlugInClassifier(random_state=0).fit(X, Y)
    fitted.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
    fitted.label_names_ = np.array(["one", "two", "three", "four"])
    fitted.save("model.labelgap")
    write_columns("new.csv", {name: X[:, at] for at, name in enumerate("abc")})
    return fitted


@pytest.mark.parametrize(
    ("options", "budget"),
    [
        (("--budget", "1"), 1),
        (("--budget", "2", "--exactly"), Budget(per_row=2, exactly=True)),
        (("--total-budget", "17"), Budget(total=17)),
        (("--budget", "unlimited"), Budget()),
    ],
)
def test_budgets(options: tuple[str, ...], budget: object, model: PlugInClassifier) -> None:
    run("predict", "model.labelgap", "new.csv", *options, "--out", "out.csv")
    rows = rows_of("out.csv")
    decided = np.array([[int(row[name]) for name in ("one", "two", "three", "four")] for row in rows])
    X = np.array([[float(row[name]) for name in "abc"] for row in rows_of("new.csv")])
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    np.testing.assert_array_equal(decided, model.predict(frame, budget=budget))
    lines = run_json("predict", "model.labelgap", "new.csv", *options, "--long")["predictions"]
    assert len(lines) == decided.sum()


def test_budgets_that_make_no_sense(model: PlugInClassifier) -> None:
    given = ("predict", "model.labelgap", "new.csv")
    assert "another limit" in error_of(*given, "--budget", "1", "--total-budget", "2", code=2)
    assert "goes with a number" in error_of(*given, "--exactly", code=2)
    assert "neither a whole number" in error_of(*given, "--budget", "0", code=2)
    assert "about decisions" in error_of(*given, "--budget", "1", "--what", "scores", code=2)
    assert "exactly 9 yes in each row" in error_of(*given, "--budget", "9", "--exactly")


def test_a_fit_from_the_shell(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    Z = X @ rng.standard_normal((3, 3)) + rng.standard_normal((120, 3)) + [1, 0, -2]
    columns = {name: X[:, at] for at, name in enumerate("abc")}
    columns |= {f"tag_{at}": (Z[:, at] > 0).astype(float) for at in range(3)}
    write_columns("data.csv", columns)
    fit = ("fit", "data.csv", "--labels", "tag_*", "--trace-penalty", "0.01", "--ridge-penalty", "0")
    run(*fit, "--metric", "macro-f1", "--thresholds", "shrunk", "--out", "one.labelgap")
    fitted = labelgap.load("one.labelgap")
    assert (fitted.thresholds, fitted.thresholds_kind_) == ("shrunk", "shrunk")
    assert "one for each label (shrunk)" in run("info", "one.labelgap").stdout
    judged = run_json("evaluate", "one.labelgap", "data.csv", "--labels", "tag_*")
    Y = np.column_stack([columns[f"tag_{at}"] for at in range(3)])
    decided = fitted.decision_function(pd.DataFrame(X, columns=["a", "b", "c"])) >= fitted.thresholds_
    assert judged["metrics"]["macro-f1"] == labelgap.get_metric("macro-f1")(Y, decided)
    run(*fit, "--subject-to", "recall >= 0.9", "--out", "two.labelgap")
    assert labelgap.load("two.labelgap").subject_to == ["recall >= 0.9"]
    assert "regression" in error_of(*fit, "--family", "gaussian", "--thresholds", "auto", code=2)
