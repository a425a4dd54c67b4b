"""``labelgap complete``, ``errors``, ``suggest`` and ``threshold``: the numbers of the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_runs import lines, rows_of, run, run_json, told, words

import labelgap
from labelgap import LowRankClassifier, best_threshold, find_label_errors
from labelgap.data import make_low_rank_labels, read_label_table, read_numbers, write_columns
from labelgap.thresholds import choose_thresholds

TAGS = "table.csv --labels tag_*"
FIXED = {"trace_penalty": 0.01, "ridge_penalty": 0.001, "features": "linear"}
OPTIONS = "--trace-penalty 0.01 --ridge-penalty 0.001 --feature-map linear"


@pytest.fixture(scope="module")
def table_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A table with blanks, wrong labels and ids that a spreadsheet would run, and a model of it."""
    folder = tmp_path_factory.mktemp("table")
    problem = make_low_rank_labels(n=120, n_labels=5, n_features=4, rank=2, observed=0.6, random_state=0)
    wrong = (np.random.RandomState(0).uniform(size=(120, 5)) < 0.08) & ~np.isnan(problem.Y_observed)
    Y = np.where(wrong, 1 - problem.Y_observed, problem.Y_observed)
    columns: dict[str, Any] = {"id": [f"=r{i}" for i in range(120)]}
    columns |= {f"x{j}": problem.X[:, j] for j in range(4)}
    columns |= {f"tag_{j}": ["" if np.isnan(one) else str(int(one)) for one in Y[:, j]] for j in range(5)}
    write_columns(folder / "table.csv", columns)
    table = read_label_table(folder / "table.csv", labels="tag_*", ids="id")
    model = LowRankClassifier(threshold="train", random_state=0, **FIXED)
    model.fit(framed(table), table.labels).save(folder / "tags.labelgap")
    return {"folder": folder, "table": table, "wrong": wrong, "Y": Y}


@pytest.fixture
def shop(table_files: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    for path in table_files["folder"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return table_files


def framed(table: Any) -> pd.DataFrame:
    return pd.DataFrame(table.X, columns=list(table.feature_names))


# -- complete ----------------------------------------------------------------------------------------------


def test_blanks_are_filled_and_known_labels_stay(shop: dict[str, Any]) -> None:
    Y = shop["Y"]
    said = run_json(f"complete {TAGS} {OPTIONS} --out filled.csv")
    assert said["blanks"] == int(np.isnan(Y).sum())
    assert said["relative_gap"] <= 1e-3
    header, *rows = (line.split(",") for line in lines("filled.csv"))
    assert header == ["id", *(f"tag_{j}" for j in range(5))]
    assert [row[0] for row in rows] == [f"=r{i}" for i in range(120)]
    filled = np.array([[int(one) for one in row[1:]] for row in rows])
    assert set(np.unique(filled)) <= {0, 1}
    np.testing.assert_array_equal(filled[~np.isnan(Y)], Y[~np.isnan(Y)])
    piped = run(f"complete {TAGS} {OPTIONS} --what probabilities --all --row-penalty 0.01 --quiet").stdout
    header, *rows = (line.split(",") for line in piped.splitlines())
    p = np.array([[float(one) for one in row[1:]] for row in rows])
    assert (header[0], p.shape) == ("id", (120, 5))
    assert ((p > 0) & (p < 1)).all()


def test_soft_labels_are_an_option_of_fit(shop: dict[str, Any]) -> None:
    said = run_json(f"fit {TAGS} {OPTIONS} --soft-labels 1 --out m.labelgap")
    model = labelgap.load("m.labelgap")
    assert model.soft_labels == 1.0
    # 0 where the known labels of a row say nothing more than its features.
    assert said.get("soft_label_weight", 0.0) == model.soft_label_weight_


# -- errors ------------------------------------------------------------------------------------------------

ERRORS = f"errors {TAGS} --label-weighting 0 {OPTIONS}"


def test_the_list_of_errors_is_that_of_the_library(shop: dict[str, Any]) -> None:
    run(f"{ERRORS} --all -q --out all.csv")
    listed, table = rows_of("all.csv"), shop["table"]
    model = LowRankClassifier(random_state=0, label_weighting=0.0, **FIXED)
    found = find_label_errors(table.X, table.labels, model)
    expected = found.to_pandas(len(found))
    assert list(listed[0]) == ["id", "label", "recorded", "probability", "wrong"]
    names = [(one["id"], one["label"]) for one in listed]
    assert names == list(zip(expected["row"], expected["label"], strict=True))
    assert [int(one["recorded"]) for one in listed] == expected["recorded"].tolist()
    for name in ("probability", "wrong"):
        np.testing.assert_allclose([float(one[name]) for one in listed], expected[name])
    flipped = {(f"=r{i}", f"tag_{j}") for i, j in zip(*np.nonzero(shop["wrong"]), strict=True)}
    assert len(set(names[: len(flipped)]) & flipped) > 0.4 * len(flipped)


def test_errors_in_a_file_and_json(shop: dict[str, Any]) -> None:
    said = run_json(f"{ERRORS} --flip-rates 0.05 0.1 -n 7")
    assert said["flip_rates"] == {"no_to_yes": 0.05, "yes_to_no": 0.1}
    assert (said["flip_rates_from"], said["rows"], said["labels"]) == ("given", 120, 5)
    wrong = [one["wrong"] for one in said["entries"]]
    assert len(wrong) == 7
    assert wrong == sorted(wrong, reverse=True)
    written = run_json(f"{ERRORS} --out suspects.csv --spreadsheet-safe")
    assert (written["out"], written["listed"]) == ("suspects.csv", 50)
    assert written["ordered_by"] == "one minus self-confidence"
    assert len(lines("suspects.csv")) == 51
    assert lines("suspects.csv")[1].startswith("'=r")
    shown = run(f"{ERRORS} --out suspects.csv --force -n 3 -v")
    assert "Wrote the first 3 labels to look at again to suspects.csv." in shown.stdout
    assert "expected wrong" in shown.stdout
    assert "read 120 rows of table.csv" in shown.stderr
    # A blank that means no is judged.
    assert run_json(f"{ERRORS} --unobserved negative -n 1")["observed"] == 600
    table = shop["table"]
    Y = table.labels.to_dense()
    np.savez("plain.npz", X=table.X, Y=Y)
    run(f"errors plain.npz --label-weighting 0 {OPTIONS} --out plain.parquet -n 4 -q")
    frame = pd.read_parquet("plain.parquet")
    assert list(frame.columns) == ["row", "label", "recorded", "probability", "wrong"]
    assert len(frame) == 4
    assert (Y[frame["row"], frame["label"]] == frame["recorded"]).all()


def test_errors_on_a_terminal(shop: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelgap.cli.session.Session.is_read_by_people", True)
    shown = run(f"{ERRORS} -n 2").stdout.splitlines()
    assert shown[0].startswith("Judged the ")
    assert shown[-3].split() == ["id", "label", "recorded", "probability", "wrong"]
    assert shown[-1].split()[2] in ("yes", "no")


# -- suggest -----------------------------------------------------------------------------------------------


def test_suggested_blanks_are_those_of_the_library(shop: dict[str, Any]) -> None:
    run("suggest tags.labelgap table.csv -n 12 --budget-per-row 2 -q --out ask.csv")
    found, table = rows_of("ask.csv"), shop["table"]
    assert list(found[0]) == ["id", "label", "probability", "gain", "value"]
    expected = labelgap.load("tags.labelgap").suggest(framed(table), 12, table.labels, budget_per_row=2)
    assert [(one["id"], one["label"]) for one in found] == expected.names
    np.testing.assert_allclose([float(one["gain"]) for one in found], expected.gain)
    said = run_json("suggest tags.labelgap table.csv -n 3")
    assert (len(said["suggestions"]), said["known"]) == (3, table.labels.n_observed)
    run("suggest tags.labelgap table.csv --force -o ask.csv --spreadsheet-safe")
    assert lines("ask.csv")[1].startswith("'=r")
    pd.read_csv("table.csv").fillna(1).to_csv("full.csv", index=False)
    shown = run("suggest tags.labelgap full.csv")
    assert "Nothing is left to ask about" in shown.stderr
    assert shown.stdout.splitlines() == ["id,label,probability,gain,value"]


@pytest.mark.usefixtures("models")
def test_items_to_ask_a_user_about() -> None:
    model = labelgap.load("films.labelgap")
    piped = run("suggest films.labelgap -n 4 -q").stdout.splitlines()
    assert [line.split(",")[0] for line in piped[1:]] == model.suggest(n=4).ids
    theirs = run_json("suggest films.labelgap --user u3 --any-item")
    assert [one["item"] for one in theirs["suggestions"]] == model.suggest("u3", 20, by_popularity=False).ids
    assert theirs["user"] == "u3"


# -- threshold ---------------------------------------------------------------------------------------------

SCORES = np.array([[0.9, 0.2], [0.6, 0.1], [0.3, 0.8], [0.4, 0.45]])
LABELS = np.array([[1, 0], [1, np.nan], [np.nan, 1], [1, 0]])


@pytest.fixture
def scores() -> str:
    """Two small files, and the command about them."""
    ids = np.array(["a", "b", "c", "d"], dtype=object)
    write_columns("scores.csv", {"id": ids, "x": SCORES[:, 0], "y": SCORES[:, 1]})
    write_columns("labels.csv", {"id": ids, "x": LABELS[:, 0], "y": LABELS[:, 1]})
    return "threshold scores.csv labels.csv"


def test_it_is_the_best_threshold_of_the_library(scores: str) -> None:
    for metric in ("micro-f1", "macro-f1", "instance-jaccard", "micro-accuracy"):
        said = run_json(f"{scores} --metric {metric}")
        best = best_threshold(SCORES, LABELS, metric)
        assert (said["threshold"], said["value"]) == (best.threshold, best.value), metric
        assert said["at_one_half"]["value"] == labelgap.get_metric(metric)(LABELS, SCORES >= 0.5)
        assert sum(said["counts"].values()) == said["observed"] == 6
    shown = told(f"{scores} --metric '2*tp/(2*tp+fp+fn)' --average micro")
    for part in ("6 known entries of 8 (75.0 %)", "at 0.5", "(tp 4, fp 1, fn 0, tn 1)"):
        assert part in shown
    said = run_json(f"{scores} --out d.csv --curve c.csv")
    assert np.array_equal(read_numbers("d.csv", drop="id").values, said["threshold"] <= SCORES)
    curve = lines("c.csv")
    assert curve[0] == "threshold,micro-f1"
    assert curve[1].startswith("inf,")
    assert max(float(line.split(",")[1]) for line in curve[1:]) == said["value"]


def test_rows_and_columns_belong_together_by_their_names(scores: str) -> None:
    here = run_json(scores)
    header, *rows = lines("labels.csv")
    Path("turned.csv").write_text("\n".join([header, "z,1,1", *rows[::-1]]))
    result = run_json("threshold scores.csv turned.csv")
    assert result["value"] == here["value"]
    assert result["warnings"] == ["1 of 5 rows of turned.csv have no scores ('z'); they are not used."]
    write_columns("more.csv", {"other": np.zeros(4), "y": LABELS[:, 1], "x": LABELS[:, 0]})
    assert run_json("threshold scores.csv more.csv")["value"] == here["value"]
    np.savez("s.npz", scores=SCORES)
    np.savez("l.npz", Y=LABELS)
    assert run_json("threshold s.npz l.npz")["threshold"] == here["threshold"]
    write_columns("both.csv", {"p": SCORES[:, 1], "truth": LABELS[:, 1], "words": np.arange(4)})
    said = run_json("threshold both.csv --score-column p --label-column truth")
    assert said["threshold"] == best_threshold(SCORES[:, 1:], LABELS[:, 1:]).threshold
    # Scores that are no probabilities are not compared with one half.
    write_columns("scores.csv", {"x": 9 * SCORES[:, 0], "y": SCORES[:, 1]})
    assert "at_one_half" not in run_json(scores)
    write_columns("s.csv", {"row": [0.5, 0.6]})
    write_columns("l.csv", {"row": [0, 0]})
    said = run_json("threshold s.csv l.csv --metric micro-accuracy --out no.csv")
    assert (said["threshold"], said["all_decided"]) == (None, "no")
    assert "no to all" in told("threshold s.csv l.csv --metric micro-accuracy")
    # A column does not replace the ids.
    assert rows_of("no.csv") == [{"row_id": str(at), "row": "0"} for at in range(2)]


def test_thresholds_of_labels_and_bounds() -> None:
    rng = np.random.default_rng(0)
    Y = (rng.random((60, 3)) < 0.4).astype(float)
    Z = rng.standard_normal((60, 3)) + 3 * Y + [0, 3, 6]
    write_columns("scores.csv", {name: Z[:, at] for at, name in enumerate("xyz")})
    write_columns("labels.csv", {name: Y[:, at] for at, name in enumerate("xyz")})
    command = "threshold scores.csv labels.csv"
    for kind in ("per-label", "shrunk", "auto"):
        said = run_json(f"{command} --metric macro-f1 --thresholds {kind} --out yes.csv --force")
        chosen = choose_thresholds(Z, Y, "macro-f1", kind)
        assert said["kind"] == chosen.kind
        assert list(said["thresholds"]) == list("xyz")
        np.testing.assert_allclose(list(said["thresholds"].values()), chosen.thresholds)
        assert said["value"] > said["shared_value"] == best_threshold(Z, Y, "macro-f1").value
        decided = np.array([[int(row[name]) for name in "xyz"] for row in rows_of("yes.csv")])
        np.testing.assert_array_equal(decided, chosen.thresholds <= Z)
    shown = words(run(f"{command} --metric macro-f1 --thresholds shrunk").stdout)
    for part in ("thresholds", "shrunk", "with thresholds from other rows"):
        assert part in shown
    bounds = ["recall >= 0.9", "macro-recall >= 0.5"]
    given = " ".join(f"--subject-to '{bound}'" for bound in bounds)
    said = run_json(f"{command} --metric micro-precision {given}")
    best = best_threshold(Z, Y, "micro-precision", subject_to=", ".join(bounds))
    assert (said["threshold"], said["value"]) == (best.threshold, best.value)
