"""``labelgap threshold``: the exact search for scores made elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_runs import error_of, run, run_json

import labelgap
from labelgap.data.files import read_numbers, write_columns

SCORES = np.array([[0.9, 0.2], [0.6, 0.1], [0.3, 0.8], [0.4, 0.45]])
LABELS = np.array([[1, 0], [1, np.nan], [np.nan, 1], [1, 0]])


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    ids = np.array(["a", "b", "c", "d"], dtype=object)
    write_columns("scores.csv", {"id": ids, "x": SCORES[:, 0], "y": SCORES[:, 1]})
    write_columns("labels.csv", {"id": ids, "x": LABELS[:, 0], "y": LABELS[:, 1]})
    return "scores.csv", "labels.csv"


@pytest.mark.parametrize("metric", ["micro-f1", "macro-f1", "instance-jaccard", "micro-accuracy"])
def test_it_is_the_best_threshold_of_the_library(metric: str, tables: tuple[str, str]) -> None:
    said = run_json("threshold", *tables, "--metric", metric)
    best = labelgap.best_threshold(SCORES, LABELS, metric)
    assert (said["threshold"], said["value"]) == (best.threshold, best.value)
    assert said["at_one_half"]["value"] == labelgap.get_metric(metric)(LABELS, SCORES >= 0.5)
    assert sum(said["counts"].values()) == said["observed"] == 6


def test_what_people_are_told(tables: tuple[str, str]) -> None:
    told = run("threshold", *tables, "--metric", "2*tp/(2*tp+fp+fn)", "--average", "micro").stdout
    assert "6 known entries of 8 (75.0 %)" in told
    assert "at 0.5" in told
    assert "(tp 4, fp 1, fn 0, tn 1)" in told


def test_decisions_and_curve(tables: tuple[str, str]) -> None:
    said = run_json("threshold", *tables, "--out", "d.csv", "--curve", "c.csv")
    decided = read_numbers("d.csv", drop="id")
    assert np.array_equal(decided.values, said["threshold"] <= SCORES)
    lines = Path("c.csv").read_text().splitlines()
    assert lines[0] == "threshold,micro-f1"
    assert lines[1].startswith("inf,")
    values = [float(line.split(",")[1]) for line in lines[1:]]
    assert max(values) == said["value"]


def test_rows_belong_together_by_their_ids(tables: tuple[str, str]) -> None:
    here = run_json("threshold", *tables)
    header, *lines = Path("labels.csv").read_text().splitlines()
    Path("turned.csv").write_text("\n".join([header, "z,1,1", *lines[::-1]]))
    result = run_json("threshold", "scores.csv", "turned.csv")
    assert result["value"] == here["value"]
    assert result["warnings"] == ["1 of 5 rows of turned.csv have no scores ('z'); they are not used."]


def test_columns_belong_together_by_their_names(tables: tuple[str, str]) -> None:
    here = run_json("threshold", *tables)
    write_columns("more.csv", {"other": np.zeros(4), "y": LABELS[:, 1], "x": LABELS[:, 0]})
    assert run_json("threshold", "scores.csv", "more.csv")["value"] == here["value"]
    write_columns("less.csv", {"y": LABELS[:, 1]})
    assert "less.csv has no column 'x', which the scores are about; it has 'y'" in error_of(
        "threshold", "scores.csv", "less.csv"
    )


def test_arrays(tables: tuple[str, str]) -> None:
    here = run_json("threshold", *tables)
    np.savez("s.npz", scores=SCORES)
    np.savez("l.npz", Y=LABELS)
    assert run_json("threshold", "s.npz", "l.npz")["threshold"] == here["threshold"]


def test_two_columns_of_one_file() -> None:
    write_columns("both.csv", {"p": SCORES[:, 1], "truth": LABELS[:, 1], "words": np.arange(4)})
    said = run_json("threshold", "both.csv", "--score-column", "p", "--label-column", "truth")
    assert said["threshold"] == labelgap.best_threshold(SCORES[:, 1:], LABELS[:, 1:]).threshold


def test_scores_that_are_no_probabilities_are_not_compared_with_one_half(tables: tuple[str, str]) -> None:
    write_columns("scores.csv", {"x": 9 * SCORES[:, 0], "y": SCORES[:, 1]})
    assert "at_one_half" not in run_json("threshold", *tables)


def test_a_no_to_everything() -> None:
    write_columns("s.csv", {"x": [0.5, 0.6]})
    write_columns("l.csv", {"x": [0, 0]})
    said = run_json("threshold", "s.csv", "l.csv", "--metric", "micro-accuracy")
    assert (said["threshold"], said["all_decided"]) == (None, "no")
    assert "no to all" in run("threshold", "s.csv", "l.csv", "--metric", "micro-accuracy").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("scores.csv",), 2, "give a second file with the labels, or name two columns"),
        (("scores.csv", "labels.csv", "--score-column", "x"), 2, "one file that holds both"),
        (("scores.csv", "labels.csv", "--metric", "f1"), 1, "does not say how to average"),
        (("scores.csv", "labels.csv", "--out", "short.csv"), 1, "short.csv exists already"),
        (("scores.csv", "labels.csv", "--curve", "short.csv"), 1, "choose another --curve"),
        (("scores.csv", "short.csv"), 1, "scores.csv has 4 rows and short.csv has 1"),
        (("scores.csv", "other.csv"), 1, "have no id in common"),
        (("twice.csv", "labels.csv"), 1, "1 id comes more than once: 'a' (rows 1, 2)"),
    ],
)
def test_problems(arguments: tuple[str, ...], code: int, words: str, tables: tuple[str, str]) -> None:
    Path("short.csv").write_text("x,y\n1,0\n")
    Path("other.csv").write_text("id,x,y\nq,1,0\n")
    Path("twice.csv").write_text("id,x,y\na,1,0\na,0,1\n")
    assert words in error_of("threshold", *arguments, code=code)
