"""Columns that are no numbers: words, blanks and dates in ``fit``, and the same again in ``predict``."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_runs import QUICK, error_of, run, run_json, standard_input
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import labelgap
from labelgap import LowRankClassifier, PlugInClassifier

COLOURS = ("red", "blue", "green")


def rows(n: int = 60, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.RandomState(seed)
    found = []
    for number in range(n):
        colour, zone, size = COLOURS[rng.randint(3)], rng.randint(1, 5), rng.normal()
        found.append(
            {
                "id": f"k{number}",
                "colour": colour,
                "zone": zone,
                "size": "" if rng.uniform() < 0.1 else f"{size:.3f}",
                "t_a": int(2 * (colour == "red") + size > 0.8),
                "t_b": int(zone > 2),
            }
        )
    return found


def write(path: str, table: list[dict[str, Any]], delimiter: str = ",", encoding: str = "utf-8") -> None:
    with open(path, "w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(table)


def by_hand(table: list[dict[str, Any]], median: float) -> Any:
    """The features that the options ask for, one at a time."""
    zones = ("1", "2", "3", "4")
    return np.array(
        [
            [float(row["size"]) if row["size"] else median]
            + [float(row["colour"] == colour) for colour in sorted(COLOURS)]
            + [float(str(row["zone"]) == zone) for zone in zones]
            for row in table
        ]
    )


PREPARED = ("--labels", "t_*", "--impute", "median", "--categorical", "zone", *QUICK)


@pytest.fixture
def fitted_by_hand() -> Any:
    table = rows()
    write("train.csv", table)
    median = float(np.median([float(row["size"]) for row in table if row["size"]]))
    model = LowRankClassifier(trace_penalty=0.05, ridge_penalty=0.01, threshold="train", random_state=0).fit(
        by_hand(table, median), np.array([[row["t_a"], row["t_b"]] for row in table], dtype=float)
    )
    return model, median


def test_words_and_blanks_become_features_here_and_for_new_rows(fitted_by_hand: Any) -> None:
    model, median = fitted_by_hand
    run("fit", "train.csv", *PREPARED)
    new = rows(20, seed=1)
    # A word that the fit has not seen is none of those that it has.
    new[0]["colour"] = "violet"
    write(
        "new.csv",
        [{name: row[name] for name in ("size", "zone", "id", "colour", "t_b", "t_a")} for row in new],
    )
    said = run_json("predict", "model.labelgap", "new.csv", "--what", "scores")
    found = [[row["t_a"], row["t_b"]] for row in said["predictions"]]
    np.testing.assert_allclose(found, model.decision_function(by_hand(new, median)), rtol=1e-6, atol=1e-8)
    judged = run_json("evaluate", "model.labelgap", "new.csv")
    Y = np.array([[row["t_a"], row["t_b"]] for row in new], dtype=float)
    assert judged["metrics"]["micro-f1"] == pytest.approx(model.score(by_hand(new, median), Y))
    run("report", "model.labelgap", "new.csv")
    assert '"colour_red"' in Path("report.html").read_text(encoding="utf-8")
    told = run("info", "model.labelgap").stdout
    assert "blanks filled with the median; one-hot colour (3), zone (4)" in " ".join(told.split())
    # Python reads the same file as a pipeline, which takes the columns as they are.
    again = labelgap.load("model.labelgap")
    raw = np.array([["red", "1", 0.5], ["blue", "4", np.nan]], dtype=object)
    assert again.predict(raw).shape == (2, 2)
    assert again.named_steps["prepare"].get_feature_names_out().tolist()[0] == "size"


def test_all_columns_that_cannot_be_used_are_named_at_once() -> None:
    table = rows(150)
    for number, row in enumerate(table):
        row["joined"] = f"2024-01-{number % 28 + 1:02d}"
        row["note"] = f"note {number}"
        row["age"] = "old" if number == 7 else number
        row["nothing"] = ""
    write("train.csv", table)
    told = error_of("fit", "train.csv", "--labels", "t_*")
    assert "5 columns are no features as they are" in told
    assert "'size' has a missing value in" in told
    assert "fill them with --impute median" in told
    assert "'joined' holds dates: turn them into numbers" in told
    assert "'note' is text with 150 different values: leave it out with --drop note" in told
    assert "'age' has numbers, but 'old' (line 9) is no number" in told
    assert "'nothing' is blank in every row" in told
    said = run_json(
        "fit", "train.csv", "--drop", "joined,note,nothing", "--categorical", "age", *PREPARED[:-1]
    )
    assert said["prepared"].startswith(
        "blanks filled with the median; one-hot colour (3), zone (4), age (150)"
    )


def test_parquet_with_words_and_dates() -> None:
    table = rows(40)
    days = pa.array(np.datetime64("2024-01-01") + np.arange(40))
    columns = {name: [row[name] for row in table] for name in ("colour", "zone", "t_a", "t_b")}
    pq.write_table(pa.table(columns | {"joined": days}), "train.parquet")
    assert "'joined' holds dates" in error_of("fit", "train.parquet", "--labels", "t_*")
    run("fit", "train.parquet", "--labels", "t_*", "--drop", "joined", *QUICK)
    write("new.csv", rows(5))
    assert run_json("predict", "model.labelgap", "new.csv")["rows"] == 5


def test_blanks_in_new_rows_are_refused_unless_the_model_fills_them() -> None:
    table = [row | {"size": 1.0} for row in rows()]
    write("train.csv", table)
    write("new.csv", rows(20, seed=1))
    run("fit", "train.csv", "--labels", "t_*", *QUICK)
    assert "'size' has a missing value" in error_of("predict", "model.labelgap", "new.csv")
    write("words.csv", [row | {"zone": "north"} for row in table])
    assert "was fitted to numbers in this column" in error_of("predict", "model.labelgap", "words.csv")


def test_a_pipeline_made_in_python_is_used_by_the_commands() -> None:
    table = rows()
    write("train.csv", table)
    X = np.array([[float(row["size"] or "nan"), row["zone"]] for row in table])
    Y = np.array([[row["t_a"], row["t_b"]] for row in table], dtype=float)
    model = make_pipeline(
        SimpleImputer(), StandardScaler(), LowRankClassifier(trace_penalty=0.05, threshold="train")
    ).fit(X, Y)
    labelgap.save(model, "python.labelgap")
    write("new.csv", [{"size": row["size"], "zone": row["zone"]} for row in table])
    said = run_json("predict", "python.labelgap", "new.csv")
    assert [[row["label_0"], row["label_1"]] for row in said["predictions"]] == model.predict(X).tolist()


def test_a_pipeline_of_a_frame_is_used_by_the_commands() -> None:
    table = rows()
    write("train.csv", table)
    frame = pd.DataFrame(table).assign(size=lambda f: pd.to_numeric(f["size"]))
    by_name = ColumnTransformer(
        [("word", OneHotEncoder(), ["colour"]), ("number", SimpleImputer(), ["size", "zone"])]
    )
    model = make_pipeline(by_name, LowRankClassifier(trace_penalty=0.05, threshold="train"))
    model.fit(frame[["zone", "colour", "size"]], frame[["t_a", "t_b"]])
    labelgap.save(model, "python.labelgap")
    said = run_json("predict", "python.labelgap", "train.csv")
    decided = model.predict(frame[["zone", "colour", "size"]])
    assert [[row["t_a"], row["t_b"]] for row in said["predictions"]] == decided.tolist()
    assert (
        "one-hot colour (3); blanks filled with the mean" in run_json("info", "python.labelgap")["prepared"]
    )


def test_pipelines_of_texts_from_python() -> None:
    table = rows()
    write("train.csv", table)
    frame = pd.read_csv("train.csv").fillna({"size": 0.0})
    write("filled.csv", frame.to_dict("records"))
    Y = frame[["t_a", "t_b"]].to_numpy(dtype=float)
    steps = [("words", TfidfVectorizer(), "colour"), ("numbers", StandardScaler(), ["size"])]
    decide = LowRankClassifier(trace_penalty=0.01, threshold="train")
    model = make_pipeline(ColumnTransformer(steps), decide).fit(frame[["colour", "size"]], Y)
    labelgap.save(model, "columns.labelgap")
    run("predict", "columns.labelgap", "filled.csv", "--what", "scores", "--out", "s.csv")
    scores = pd.read_csv("s.csv").drop(columns="id").to_numpy()
    np.testing.assert_allclose(scores, model.decision_function(frame[["colour", "size"]]))
    # Texts alone are no columns.
    labelgap.save(make_pipeline(TfidfVectorizer(), decide).fit(frame["colour"], Y), "texts.labelgap")
    texts = make_pipeline(TfidfVectorizer(), LogisticRegression())
    PlugInClassifier(texts, threshold="train").fit(frame["colour"], Y).save("each.labelgap")
    for name in ("texts.labelgap", "each.labelgap"):
        run("info", name)
        for command in ("predict", "report"):
            said = error_of(command, name, "filled.csv")
            assert f"{name} was fitted in Python to texts, which commands do not read" in said
        assert "cannot be exported to ONNX" in error_of("export", name, "m.onnx")


def test_tags_semicolons_commas_and_latin_1_through_a_pipe() -> None:
    table = [
        {
            "colour": row["colour"].replace("green", "grün"),
            "weight": str(row["zone"] / 4).replace(".", ","),
            "tags": " ".join(tag for tag in ("t_a", "t_b") if row[tag]),
        }
        for row in rows()
    ]
    write("tags.csv", table, delimiter=";", encoding="latin-1")
    options = ("--labels", "tags", "--separator", " ", "--encoding", "latin-1")
    fit = ("fit", "-", *options, "--unobserved", "negative", "--out", "m.labelgap", *QUICK)
    with standard_input("tags.csv"):
        done = run(*fit)
    assert done.stderr == ""
    said = run_json("evaluate", "m.labelgap", "tags.csv", *options)
    assert (said["observed"], [row["label"] for row in said["per_label"]]) == (120, ["t_a", "t_b"])
    assert said["metrics"]["micro-f1"] > 0.8
    alone = error_of("fit", "tags.csv", *options, "--out", "x.labelgap")
    assert "is positive, so nothing can be learned about 'no'" in alone
    table[0]["tags"] = "t_c"
    write("tags.csv", table, delimiter=";", encoding="latin-1")
    said = run_json("evaluate", "m.labelgap", "tags.csv", *options)
    assert said["warnings"] == ["tags.csv: 1 tags are no labels of the model: 't_c'."]


@pytest.mark.parametrize("form", ["{:.2f}%", "${:.2f}", "10:{:.2f}"])
def test_texts_that_nearly_all_differ_are_warned_of_in_fit_and_predict(form: str) -> None:
    table = [row | {"growth": form.format(number / 7)} for number, row in enumerate(rows())]
    write("train.csv", table)
    fit = ("fit", "train.csv", "--out", "model.labelgap", "--force", "--id", "id", *PREPARED)
    told = run_json(*fit)["warnings"]
    assert len(told) == 1
    assert "column 'growth' is text" in told[0]
    assert "60 different ones in 60 rows" in told[0]
    assert form.format(0) in told[0]
    assert "write them as numbers; else leave the column out with --drop growth" in told[0]
    new = [row | {"growth": form.format(1000 + number)} for number, row in enumerate(rows(20, seed=1))]
    write("new.csv", new)
    predict = ("predict", "model.labelgap", "--out", "decisions.csv", "--force")
    told = run_json(*predict, "new.csv")["warnings"]
    assert len(told) == 1
    assert "column 'growth' has no value that the fit has seen" in told[0]
    # Values of the fit, and a column that somebody has called categories, are fine.
    assert run_json(*predict, "train.csv")["warnings"] == []
    assert run_json(*fit, "--categorical", "growth")["warnings"] == []
