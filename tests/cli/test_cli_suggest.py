"""``labelgap suggest``: the lists of the library, in a file, in JSON and in a pipe, and what is refused."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_runs import error_of, run, run_json

import labelgap
from labelgap import LowRankClassifier, Recommender
from labelgap.data import make_low_rank_labels, read_label_table, write_columns


@pytest.fixture(autouse=True)
def files() -> None:
    """A table with blanks and a model of it, ratings and a model of them."""
    problem = make_low_rank_labels(n=60, n_labels=4, n_features=3, rank=2, observed=0.5, random_state=0)
    Y = problem.Y_observed
    columns: dict[str, Any] = {"id": [f"=r{i}" for i in range(60)]}
    columns |= {f"x{j}": problem.X[:, j] for j in range(3)}
    columns |= {f"tag_{j}": ["" if np.isnan(one) else str(int(one)) for one in Y[:, j]] for j in range(4)}
    write_columns("table.csv", columns)
    table = read_label_table("table.csv", labels="tag_*", ids="id")
    settings: dict[str, Any] = {"trace_penalty": 0.01, "threshold": "train", "random_state": 0}
    model = LowRankClassifier(**settings, ridge_penalty=0.0, intercept_penalty=0.0, features="linear")
    model.fit(framed(table), table.labels).save("tags.labelgap")
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((15, 8)) < 0.6)
    ratings = ([f"u{i}" for i in users], [f"film {j}" for j in items], rng.integers(0, 2, len(users)))
    Recommender(**settings).fit(ratings).save("films.labelgap")


def framed(table: Any) -> pd.DataFrame:
    return pd.DataFrame(table.X, columns=list(table.feature_names))


def listed(*arguments: str) -> list[dict[str, str]]:
    return list(csv.DictReader(run("suggest", *arguments, "-q").stdout.splitlines()))


def test_blanks_are_those_of_the_library() -> None:
    found = listed("tags.labelgap", "table.csv", "-n", "12", "--budget-per-row", "2")
    assert list(found[0]) == ["id", "label", "probability", "gain", "value"]
    table = read_label_table("table.csv", labels="tag_*", ids="id")
    model = labelgap.load("tags.labelgap")
    expected = model.suggest(framed(table), 12, table.labels, budget_per_row=2)
    assert [(one["id"], one["label"]) for one in found] == expected.names
    np.testing.assert_allclose([float(one["gain"]) for one in found], expected.gain)
    told = run_json("suggest", "tags.labelgap", "table.csv", "-n", "3")
    assert len(told["suggestions"]) == 3
    assert told["known"] == table.labels.n_observed


def test_items_to_ask_a_user_about() -> None:
    model = labelgap.load("films.labelgap")
    assert [one["item"] for one in listed("films.labelgap", "-n", "4")] == model.suggest(n=4).ids
    theirs = run_json("suggest", "films.labelgap", "--user", "u3", "--any-item")
    expected = model.suggest("u3", 20, by_popularity=False)
    assert [one["item"] for one in theirs["suggestions"]] == expected.ids
    assert theirs["user"] == "u3"


def test_a_file_is_written_once() -> None:
    run("suggest", "tags.labelgap", "table.csv", "-o", "ask.csv", "--spreadsheet-safe")
    assert Path("ask.csv").read_text().splitlines()[1].startswith("'=r")
    assert "exists" in error_of("suggest", "tags.labelgap", "table.csv", "-o", "ask.csv")


def test_a_table_without_blanks_is_said_to_have_none() -> None:
    table = pd.read_csv("table.csv")
    table.fillna(1).to_csv("full.csv", index=False)
    told = run("suggest", "tags.labelgap", "full.csv")
    assert "Nothing is left to ask about" in told.stderr
    assert told.stdout.splitlines() == ["id,label,probability,gain,value"]


def test_what_does_not_belong_together_is_refused() -> None:
    assert "give the table" in error_of("suggest", "tags.labelgap", code=2)
    assert "has its ratings" in error_of("suggest", "films.labelgap", "table.csv", code=2)
    assert "it is for a recommender" in error_of(
        "suggest", "tags.labelgap", "table.csv", "--user", "u1", code=2
    )
    assert "it is for a table" in error_of("suggest", "films.labelgap", "--budget-per-row", "2", code=2)
    assert "knows no user 'u99'" in error_of("suggest", "films.labelgap", "--user", "u99")
