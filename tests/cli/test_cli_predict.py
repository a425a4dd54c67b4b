"""``labelgap predict``: by name, in every form, for every kind of model."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from cli_runs import QUICK, error_of, run, run_json

import labelgap
from labelgap.data.files import read_label_table, read_numbers

TAGS = ["tag_business", "tag_politics", "tag_sport", "tag_travel", "tag_culture", "tag_data"]


def rows_of(path: str | Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def expected(model: Path) -> tuple[labelgap.LowRankClassifier, np.ndarray]:
    loaded = labelgap.load(model)
    return loaded, read_label_table("new_articles.csv", features=list(loaded.feature_names_in_)).X


def test_decisions_in_a_wide_table(fitted: dict[str, Path]) -> None:
    told = run("predict", fitted["articles"], "new_articles.csv", "--out", "d.csv").stdout
    model, X = expected(fitted["articles"])
    found = rows_of("d.csv")
    assert list(found[0]) == ["id", *TAGS]
    assert [row["id"] for row in found] == [f"A{301 + at}" for at in range(200)]
    decisions = np.array([[int(row[tag]) for tag in TAGS] for row in found])
    assert np.array_equal(decisions, model.predict(X, output="dense"))
    assert f"Wrote 200 rows to d.csv: {decisions.sum()} yes among 1200 decisions." in told


@pytest.mark.parametrize(
    ("what", "method"), [("probabilities", "predict_proba"), ("scores", "decision_function")]
)
@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.parquet", "p.csv.gz"])
def test_numbers_keep_all_their_digits(what: str, method: str, name: str, fitted: dict[str, Path]) -> None:
    run("predict", fitted["articles"], "new_articles.csv", "--what", what, "--out", name)
    model, X = expected(fitted["articles"])
    assert np.array_equal(read_numbers(name, drop="id").values, getattr(model, method)(X))


def test_everything_at_once(fitted: dict[str, Path]) -> None:
    run("predict", fitted["articles"], "new_articles.csv", "--what", "all", "--out", "all.csv")
    first = rows_of("all.csv")[0]
    assert list(first)[:4] == ["id", "tag_business", "tag_business_probability", "tag_business_score"]
    model, X = expected(fitted["articles"])
    assert float(first["tag_data_score"]) == model.decision_function(X)[0, -1]


def test_a_line_for_each_yes(fitted: dict[str, Path]) -> None:
    run("predict", fitted["articles"], "new_articles.csv", "--long", "--out", "yes.csv")
    run("predict", fitted["articles"], "new_articles.csv", "--long", "--all", "--out", "each.csv")
    model, X = expected(fitted["articles"])
    decisions = model.predict(X, output="dense")
    yes, each = rows_of("yes.csv"), rows_of("each.csv")
    assert (len(yes), len(each)) == (decisions.sum(), decisions.size)
    assert list(yes[0]) == ["id", "label", "decision", "probability"]
    assert yes == [row for row in each if row["decision"] == "1"]
    assert float(each[1]["probability"]) == model.predict_proba(X)[0, 1]


def test_the_order_of_columns_does_not_matter(fitted: dict[str, Path]) -> None:
    table = [line.split(",") for line in Path("new_articles.csv").read_text().splitlines()]
    turned = "\n".join(
        ",".join(["note", *row[::-1]] if at == 0 else ["x", *row[::-1]]) for at, row in enumerate(table)
    )
    Path("turned.csv").write_text(turned)
    run("predict", fitted["articles"], "new_articles.csv", "--out", "a.csv")
    run("predict", fitted["articles"], "turned.csv", "--out", "b.csv")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


def test_rows_without_ids_are_numbered(fitted: dict[str, Path]) -> None:
    lines = Path("new_articles.csv").read_text().splitlines()
    Path("bare.csv").write_text("\n".join(line.partition(",")[2] for line in lines))
    run("predict", fitted["articles"], "bare.csv", "--out", "d.csv")
    assert [row["row"] for row in rows_of("d.csv")][:3] == ["0", "1", "2"]
    run("predict", fitted["articles"], "new_articles.csv", "--id", "tag_data", "--out", "e.csv")
    assert rows_of("e.csv")[0]["tag_data"] in "01"


def test_csv_into_a_pipe(fitted: dict[str, Path]) -> None:
    run("predict", fitted["articles"], "new_articles.csv", "--out", "d.csv")
    piped = run("predict", fitted["articles"], "new_articles.csv")
    assert piped.stdout == Path("d.csv").read_text()
    assert piped.stderr == ""


def test_json_with_and_without_a_file(fitted: dict[str, Path]) -> None:
    said = run_json("predict", fitted["articles"], "new_articles.csv")
    assert said["rows"] == len(said["predictions"]) == 200
    assert said["predictions"][0]["id"] == "A301"
    said = run_json("predict", fitted["articles"], "new_articles.csv", "--out", "d.csv")
    assert said["out"] == "d.csv"
    assert said["yes"] == sum(int(row[tag]) for row in rows_of("d.csv") for tag in TAGS)


def test_blocks_make_no_difference(fitted: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    run("predict", fitted["articles"], "new_articles.csv", "--long", "--out", "a.csv")
    monkeypatch.setattr("labelgap.cli.predict._BLOCK_ENTRIES", 40)
    run("predict", fitted["articles"], "new_articles.csv", "--long", "--out", "b.csv")
    run("predict", fitted["articles"], "new_articles.csv", "--out", "b.parquet")
    whole, blocks = rows_of("a.csv"), rows_of("b.csv")
    # The last digit of a product of matrices may depend on how many rows it has.
    ours, theirs = ([float(row.pop("probability")) for row in rows] for rows in (whole, blocks))
    assert whole == blocks
    np.testing.assert_allclose(ours, theirs, rtol=1e-14)
    assert read_numbers("b.parquet", drop="id").values.shape == (200, 6)


def test_files_without_names_go_by_place(fitted: dict[str, Path]) -> None:
    model, X = expected(fitted["articles"])
    np.savez("rows.npz", X=X)
    run("predict", fitted["articles"], "rows.npz", "--out", "d.csv")
    decisions = np.array([[int(row[tag]) for tag in TAGS] for row in rows_of("d.csv")])
    assert np.array_equal(decisions, model.predict(X, output="dense"))
    np.savez("short.npz", X=X[:, 1:])
    told = error_of("predict", fitted["articles"], "short.npz")
    assert "short.npz has 7 features, and the model was fitted to 8" in told


def test_a_regression_predicts_means(fitted: dict[str, Path]) -> None:
    run("predict", fitted["counts"], "new_articles.csv", "--out", "means.csv")
    run("predict", fitted["counts"], "new_articles.csv", "--what", "scores", "--out", "scores.csv")
    means, scores = (read_numbers(name, drop="id") for name in ("means.csv", "scores.csv"))
    assert means.names == ("quotes", "images")
    assert np.allclose(means.values, np.exp(scores.values))
    told = error_of("predict", fitted["counts"], "new_articles.csv", "--what", "decisions", code=2)
    assert "a regression has predictions, or scores" in told
    assert "no yes and no" in error_of("predict", fitted["counts"], "new_articles.csv", "--long", code=2)


def test_pairs_for_a_recommender(fitted: dict[str, Path]) -> None:
    Path("pairs.csv").write_text("user,item\nu1,film 1\nu1,film 2\nu2,film 2\n")
    run("predict", fitted["films"], "pairs.csv", "--out", "d.csv")
    model = labelgap.load(fitted["films"])
    found = rows_of("d.csv")
    assert [row["item"] for row in found] == ["film 1", "film 2", "film 2"]
    wanted = model.predict(["u1", "u1", "u2"], ["film 1", "film 2", "film 2"])
    assert [int(row["decision"]) for row in found] == wanted.tolist() == [1, 0, 1]
    run("predict", fitted["films"], "pairs.csv", "--what", "scores", "--out", "s.csv")
    assert list(rows_of("s.csv")[0]) == ["user", "item", "score"]


def test_unknown_users_are_named_or_left_out(fitted: dict[str, Path]) -> None:
    Path("pairs.csv").write_text("user,item\nu1,film 1\nzoe,film 2\n")
    assert "zoe" in error_of("predict", fitted["films"], "pairs.csv")
    result = run("predict", fitted["films"], "pairs.csv", "--skip-unknown")
    assert "1 of 2 lines have a user or an item that the model does not know" in result.stderr
    assert len(result.stdout.splitlines()) == 2
    Path("pairs.csv").write_text("user,item\nzoe,film 2\n")
    told = error_of("predict", fitted["films"], "pairs.csv", "--skip-unknown")
    assert "No line has a user and an item that the model knows." in told


def test_missing_columns_are_named(fitted: dict[str, Path]) -> None:
    text = Path("new_articles.csv").read_text()
    Path("renamed.csv").write_text(text.replace("links", "urls", 1).replace("images", "pictures", 1))
    told = error_of("predict", fitted["articles"], "renamed.csv")
    assert told == "Error: renamed.csv lacks 2 of the 8 features of the model: 'links', 'images'."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--all",), "it goes with --long"),
        (("--long", "--what", "scores"), "--long has its own columns"),
        (("--user", "id"), "it is for a recommender"),
        (("--skip-unknown",), "it is for a recommender"),
        (("--what", "guesses"), "--what"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], words: str, fitted: dict[str, Path]) -> None:
    assert words in error_of("predict", fitted["articles"], "new_articles.csv", *arguments, code=2)


def test_what_is_no_model_is_refused(fitted: dict[str, Path]) -> None:
    told = error_of("predict", "new_articles.csv", "new_articles.csv")
    assert "new_articles.csv is not a file that labelgap wrote" in told
    damaged = bytearray(fitted["articles"].read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    Path("damaged.labelgap").write_bytes(damaged)
    told = error_of("predict", "damaged.labelgap", "new_articles.csv")
    assert "damaged.labelgap" in told
    assert "does not exist" in error_of("predict", "no.labelgap", "new_articles.csv", code=2)


def test_an_output_is_not_replaced_unasked(fitted: dict[str, Path]) -> None:
    Path("d.csv").write_text("precious")
    assert "exists already" in error_of("predict", fitted["articles"], "new_articles.csv", "--out", "d.csv")
    assert Path("d.csv").read_text() == "precious"
    run("predict", fitted["articles"], "new_articles.csv", "--out", "d.csv", "--force")
    assert "does not say" in error_of("predict", fitted["articles"], "new_articles.csv", "--out", "d.docx")


def test_names_of_any_alphabet_survive() -> None:
    text = Path("articles.csv").read_text(encoding="utf-8")
    Path("a.csv").write_text(text.replace("tag_sport", "tag_κέρδος"), encoding="utf-8")
    run("fit", "a.csv", "--labels", "tag_*", "--id", "id", *QUICK)
    piped = run("predict", "model.labelgap", "new_articles.csv").stdout_bytes
    assert "tag_κέρδος" in piped.decode("utf-8").splitlines()[0]
    assert "tag_κέρδος" in json.dumps(run_json("info", "model.labelgap"), ensure_ascii=False)


def test_ids_that_come_twice_are_told_in_one_line(fitted: dict[str, Path]) -> None:
    lines = Path("new_articles.csv").read_text().splitlines()
    first = lines[1].split(",")[0]
    Path("twice.csv").write_text("\n".join([*lines[:3], lines[1], lines[2], lines[1]]))
    second = lines[2].split(",")[0]
    result = run("predict", fitted["articles"], "twice.csv", "--out", "d.csv")
    assert result.stderr == (
        f"Warning: twice.csv: 2 ids come more than once: {first!r} (rows 1, 3, 5), {second!r} (rows 2, 4). "
        "Each row is decided on its own, so such an id has several lines in the output.\n"
    )
    lines = Path("articles.csv").read_text().splitlines()
    Path("twice.csv").write_text("\n".join([*lines, lines[1]]))
    said = run_json("fit", "twice.csv", "--labels", "tag_*", *QUICK[:-1])
    first = lines[1].split(",")[0]
    assert f"1 id comes more than once: {first!r} (rows 1, {len(lines)})" in said["warnings"][0]
    assert run_json("predict", fitted["articles"], "new_articles.csv")["warnings"] == []
