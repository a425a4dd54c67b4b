"""``labelgap errors``: the list of the library, in a file, a table or JSON, and what is refused."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_runs import error_of, run, run_json

from labelgap import LowRankClassifier, find_label_errors
from labelgap.cli import errors as errors_command
from labelgap.cli.session import Session
from labelgap.data import make_low_rank_labels, read_label_table, write_columns

FIXED = ("--trace-penalty", "0.01", "--ridge-penalty", "0.001", "--feature-map", "linear")
COMMAND = ("errors", "table.csv", "--labels", "tag_*", "--label-weighting", "0", *FIXED)


@pytest.fixture(autouse=True)
def flipped() -> set[tuple[str, str]]:
    """The planted errors of a table with names that a spreadsheet would run."""
    problem = make_low_rank_labels(n=120, n_labels=5, n_features=4, rank=2, observed=0.6, random_state=0)
    wrong = (np.random.RandomState(0).uniform(size=(120, 5)) < 0.08) & ~np.isnan(problem.Y_observed)
    Y = np.where(wrong, 1 - problem.Y_observed, problem.Y_observed)
    columns: dict[str, Any] = {"id": [f"=r{i}" for i in range(120)]}
    columns |= {f"x{j}": problem.X[:, j] for j in range(4)}
    columns |= {f"tag_{j}": ["" if np.isnan(one) else str(int(one)) for one in Y[:, j]] for j in range(5)}
    write_columns("table.csv", columns)
    return {(f"=r{i}", f"tag_{j}") for i, j in zip(*np.nonzero(wrong), strict=True)}


def test_the_list_is_that_of_the_library(flipped: set[tuple[str, str]]) -> None:
    listed = list(csv.DictReader(run(*COMMAND, "--all", "-q").stdout.splitlines()))
    table = read_label_table("table.csv", labels="tag_*", ids="id")
    fixed = {"trace_penalty": 0.01, "ridge_penalty": 0.001, "features": "linear", "label_weighting": 0.0}
    found = find_label_errors(table.X, table.labels, LowRankClassifier(random_state=0, **fixed))
    expected = found.to_pandas(len(found))
    assert list(listed[0]) == ["id", "label", "recorded", "probability", "wrong"]
    assert [(one["id"], one["label"]) for one in listed] == list(
        zip(expected["row"], expected["label"], strict=True)
    )
    assert [int(one["recorded"]) for one in listed] == expected["recorded"].tolist()
    for name in ("probability", "wrong"):
        np.testing.assert_allclose([float(one[name]) for one in listed], expected[name])
    first = {(one["id"], one["label"]) for one in listed[: len(flipped)]}
    assert len(first & flipped) > 0.4 * len(flipped)


def test_a_file_and_json() -> None:
    told = run_json(*COMMAND, "--flip-rates", "0.05", "0.1", "-n", "7")
    assert told["flip_rates"] == {"no_to_yes": 0.05, "yes_to_no": 0.1}
    assert (told["flip_rates_from"], told["rows"], told["labels"]) == ("given", 120, 5)
    wrong = [one["wrong"] for one in told["entries"]]
    assert len(wrong) == 7
    assert wrong == sorted(wrong, reverse=True)
    written = run_json(*COMMAND, "--out", "suspects.csv", "--spreadsheet-safe")
    assert (written["out"], written["listed"]) == ("suspects.csv", 50)
    assert written["ordered_by"] == "one minus self-confidence"
    lines = Path("suspects.csv").read_text().splitlines()
    assert len(lines) == 51
    assert lines[1].startswith("'=r")
    assert "exists already" in error_of(*COMMAND, "--out", "suspects.csv")
    told = run(*COMMAND, "--out", "suspects.csv", "--force", "-n", "3", "-v")
    assert "Wrote the first 3 labels to look at again to suspects.csv." in told.stdout
    assert "expected wrong" in told.stdout
    assert "read 120 rows of table.csv" in told.stderr


def test_a_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "is_read_by_people", True)
    shown = run(*COMMAND, "-n", "2").stdout.splitlines()
    assert shown[0].startswith("Judged the ")
    assert shown[-3].split() == ["id", "label", "recorded", "probability", "wrong"]
    assert shown[-1].split()[2] in ("yes", "no")


def test_an_interrupt_ends_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(errors_command, "find_label_errors", interrupted)
    assert "Interrupted; nothing was saved." in error_of(*COMMAND, "-q", code=130)


def test_what_is_refused(ratings: Path) -> None:
    assert "holds ratings of items by users" in error_of("errors", ratings)
    assert "--unobserved negative to judge every blank" in error_of(
        *COMMAND, "--unobserved", "unlabelled", code=2
    )
    assert "-n says how many" in error_of(*COMMAND, "--all", "-n", "3", code=2)
    assert "--flip-rates are at least 0, and their sum is below 1" in error_of(
        *COMMAND, "-q", "--flip-rates", "0.6", "0.5"
    )
    assert "Say it with --labels" in error_of("errors", "table.csv")
    assert "it is about CSV and TSV" in error_of(*COMMAND, "--spreadsheet-safe", "--out", "a.parquet", code=2)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (("1", ""), "all 6 known labels are yes"),
        (("0", "0"), "all 12 known labels are no"),
        (("", ""), "no label is known"),
    ],
)
def test_labels_of_one_class(values: tuple[str, str], words: str) -> None:
    lines = [f"{at},{values[at % 2]}" for at in range(12)]
    Path("one.csv").write_text("\n".join(["x,y", *lines]) + "\n", encoding="utf-8")
    assert words in error_of("errors", "one.csv", "--labels", "y")


def test_a_blank_that_means_no_is_judged() -> None:
    told = run_json(*COMMAND, "--unobserved", "negative", "-n", "1")
    assert told["observed"] == 600


def test_rows_and_labels_without_names_are_numbered() -> None:
    problem = make_low_rank_labels(n=60, n_labels=3, n_features=3, rank=2, observed=0.7, random_state=0)
    np.savez("plain.npz", X=problem.X, Y=problem.Y_observed)
    run("errors", "plain.npz", "--label-weighting", "0", *FIXED, "--out", "plain.parquet", "-n", "4", "-q")
    table = pd.read_parquet("plain.parquet")
    assert list(table.columns) == ["row", "label", "recorded", "probability", "wrong"]
    assert len(table) == 4
    assert (problem.Y_observed[table["row"], table["label"]] == table["recorded"]).all()
