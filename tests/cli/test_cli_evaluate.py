"""``labelgap evaluate``: the numbers of the library, over known entries only."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from cli_runs import QUICK, error_of, run, run_json

import labelgap
from labelgap.data.files import read_label_table


def judged(
    model: Path, path: str = "new_articles.csv"
) -> tuple[labelgap.LowRankClassifier, np.ndarray, np.ndarray]:
    loaded = labelgap.load(model)
    names = loaded.feature_names_in_
    table = read_label_table(path, labels="tag_*", features=list(names))
    assert table.labels is not None
    return loaded, table.X, table.labels.to_dense()


@pytest.mark.parametrize("path", ["new_articles.csv", "articles.csv"])
def test_values_and_counts(path: str, fitted: dict[str, Path]) -> None:
    said = run_json("evaluate", fitted["articles"], path)
    model, X, Y = judged(fitted["articles"], path)
    assert said["metrics"]["micro-f1"] == model.score(X, Y)
    decided = model.predict(X, output="dense")
    assert said["metrics"]["macro-f1"] == labelgap.get_metric("macro-f1")(Y, decided)
    assert said["counts"] == {
        "tp": np.sum((decided == 1) & (Y == 1)),
        "fp": np.sum((decided == 1) & (Y == 0)),
        "fn": np.sum((decided == 0) & (Y == 1)),
        "tn": np.sum((decided == 0) & (Y == 0)),
    }
    assert said["observed"] == np.sum(~np.isnan(Y))


def test_other_metrics_and_formulas(fitted: dict[str, Path]) -> None:
    asked = ("--metric", "macro-jaccard", "--metric", "instance: tp/(tp+fn)")
    said = run_json("evaluate", fitted["articles"], "new_articles.csv", *asked)
    assert list(said["metrics"])[:2] == ["micro-f1", "macro-jaccard"]
    assert len(said["metrics"]) == 3
    model, X, Y = judged(fitted["articles"])
    recall = labelgap.get_metric("instance-recall")(Y, model.predict(X, output="dense"))
    assert list(said["metrics"].values())[2] == pytest.approx(recall)


def test_each_label(fitted: dict[str, Path]) -> None:
    told = run("evaluate", fitted["articles"], "new_articles.csv", "--per-label").stdout
    assert "truly yes" in told
    assert "tag_culture" in told
    said = run_json("evaluate", fitted["articles"], "new_articles.csv", "--per-label")
    model, X, Y = judged(fitted["articles"])
    decided = model.predict(X, output="dense")
    for at, label in enumerate(said["per_label"]):
        tp = np.sum((decided[:, at] == 1) & (Y[:, at] == 1))
        assert label["recall"] == pytest.approx(tp / np.sum(Y[:, at] == 1))
        assert label["yes"] == np.sum(Y[:, at])


def test_a_label_without_a_yes_has_no_recall(fitted: dict[str, Path]) -> None:
    lines = Path("new_articles.csv").read_text().splitlines()
    no = [lines[0], *(line.rpartition(",")[0] + ",0" for line in lines[1:])]
    Path("no.csv").write_text("\n".join(no))
    said = run_json("evaluate", fitted["articles"], "no.csv", "--per-label")
    assert said["per_label"][-1]["recall"] is None


def test_labels_may_come_in_any_order(fitted: dict[str, Path]) -> None:
    table = [line.split(",") for line in Path("new_articles.csv").read_text().splitlines()]
    Path("turned.csv").write_text("\n".join(",".join(row[::-1]) for row in table))
    here = run_json("evaluate", fitted["articles"], "new_articles.csv")
    assert run_json("evaluate", fitted["articles"], "turned.csv")["metrics"] == here["metrics"]


def without_no(path: str, target: str) -> None:
    """A copy of a file of articles in which every known no is blank."""
    header, *rows = [line.split(",") for line in Path(path).read_text().splitlines()]
    blank = [[cell if at < 9 or cell == "1" else "" for at, cell in enumerate(row)] for row in rows]
    Path(target).write_text("\n".join(",".join(row) for row in [header, *blank]))


def test_positives_alone_are_corrected(positives: Path) -> None:
    without_no("articles.csv", "yes.csv")
    said = run_json("evaluate", positives, "yes.csv")
    assert said["unobserved"] == "unlabelled"
    assert (said["counts"], said["per_label"]) == (None, None)
    assert said["flip_rate"] == 0.5
    model, X, Y = judged(positives, "articles.csv")
    assert said["metrics"]["micro-f1"] == pytest.approx(model.score(X, Y))
    told = error_of("evaluate", positives, "yes.csv", "--per-label", code=2)
    assert "recorded yes alone" in told


def test_known_no_are_used_also_after_a_fit_to_positives(positives: Path) -> None:
    model, X, Y = judged(positives, "articles.csv")
    said = run_json("evaluate", positives, "articles.csv")
    assert said["unobserved"] == "missing"
    assert said["no"] == np.sum(Y == 0)
    assert said["metrics"]["micro-f1"] == pytest.approx(model.score(X, Y, unobserved="missing"))
    told = run("evaluate", positives, "articles.csv").stdout
    assert f"The file has {np.sum(Y == 0)} known no, so decisions are judged by what is known" in told
    asked = run_json("evaluate", positives, "articles.csv", "--unobserved", "unlabelled")
    assert asked["metrics"]["micro-f1"] == pytest.approx(model.score(X, Y))
    assert "takes them for not recorded" in asked["warnings"][0]


def test_yes_alone_are_refused_as_in_fit(fitted: dict[str, Path]) -> None:
    without_no("new_articles.csv", "yes.csv")
    told = error_of("evaluate", fitted["articles"], "yes.csv")
    assert "is a yes, so no decision of yes could be wrong" in told
    assert "--unobserved negative" in told
    negative = run_json("evaluate", fitted["articles"], "yes.csv", "--unobserved", "negative")
    assert negative["metrics"] == run_json("evaluate", fitted["articles"], "new_articles.csv")["metrics"]
    as_is = run_json("evaluate", fitted["articles"], "yes.csv", "--unobserved", "missing")
    assert as_is["metrics"]["micro-precision"] == 1
    assert "only recall says something" in as_is["warnings"][0]


def test_a_label_with_one_class_is_named_with_what_it_does(fitted: dict[str, Path]) -> None:
    lines = Path("new_articles.csv").read_text().splitlines()
    Path("paid.csv").write_text(
        "\n".join([lines[0], *(line.rpartition(",")[0] + ",1" for line in lines[1:])])
    )
    said = run_json("evaluate", fitted["articles"], "paid.csv")
    model, X, Y = judged(fitted["articles"], "paid.csv")
    without = labelgap.get_metric("micro-f1")(Y[:, :5], model.predict(X, output="dense")[:, :5])
    [told] = said["warnings"]
    assert told.startswith("1 of 6 labels has one class: 'tag_data' (only yes). micro-f1 is ")
    assert told.endswith(f"{said['metrics']['micro-f1']:.4f} with it and {without:.4f} without.")


def test_results_as_a_table(fitted: dict[str, Path]) -> None:
    said = run_json("evaluate", fitted["articles"], "new_articles.csv", "--out", "metrics.csv")
    with open("metrics.csv") as file:
        assert {row["metric"]: float(row["value"]) for row in csv.DictReader(file)} == said["metrics"]
    told = run("evaluate", fitted["articles"], "new_articles.csv", "--per-label", "--out", "labels.csv")
    assert "Wrote 6 labels to labels.csv." in told.stdout
    with open("labels.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == [row["label"] for row in said["per_label"]]
    assert [int(row["tp"]) for row in rows] == [row["tp"] for row in said["per_label"]]
    assert "exists already" in error_of(
        "evaluate", fitted["articles"], "new_articles.csv", "-o", "labels.csv"
    )


def test_a_regression(fitted: dict[str, Path]) -> None:
    said = run_json("evaluate", fitted["counts"], "new_articles.csv")
    assert 0 < said["d2"] < 1
    assert "of the deviance" in run("evaluate", fitted["counts"], "new_articles.csv").stdout
    error_of("evaluate", fitted["counts"], "new_articles.csv", "--metric=micro-f1", code=2)
    by_label = {row["label"]: row for row in said["per_label"]}
    with open("new_articles.csv") as file:
        quotes = [float(row["quotes"]) for row in csv.DictReader(file)]
    assert by_label["quotes"]["mean"] == pytest.approx(np.mean(quotes))
    weighted = [row["deviance"] * row["observed"] for row in said["per_label"]]
    assert sum(weighted) / said["observed"] == pytest.approx(said["deviance"])
    told = run("evaluate", fitted["counts"], "new_articles.csv", "--per-label", "--out", "labels.csv").stdout
    assert f"{by_label['quotes']['predicted']:.3f}" in told
    assert Path("labels.csv").read_text().startswith("label,observed,mean,predicted,deviance\nquotes,")


def test_a_recommender(fitted: dict[str, Path], ratings: Path) -> None:
    said = run_json("evaluate", fitted["films"], ratings)
    lines = [line.split(",") for line in ratings.read_text().splitlines()[1:]]
    users, items, stars = zip(*lines, strict=True)
    model = labelgap.load(fitted["films"])
    assert said["metrics"]["micro-f1"] == model.score((users, items, [float(s) for s in stars]))
    assert sum(said["counts"].values()) == len(lines)
    ratings.write_text(ratings.read_text() + "zoe,film 1,5\n")
    assert "zoe" in error_of("evaluate", fitted["films"], ratings, "--unknown", "raise")
    again = run_json("evaluate", fitted["films"], ratings, "--skip-unknown")
    assert again["metrics"] == said["metrics"]
    assert len(again["warnings"]) == 1
    silent = run_json("evaluate", fitted["films"], ratings, "--skip-unknown", "--unobserved", "negative")
    assert silent["unobserved"] == "negative"


def test_missing_labels_are_named(fitted: dict[str, Path]) -> None:
    lines = Path("new_articles.csv").read_text().splitlines()
    Path("few.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines))
    assert "lacks 1 of the 6 labels of the model: 'tag_data'" in error_of(
        "evaluate", fitted["articles"], "few.csv"
    )


def test_no_known_label_is_an_error(fitted: dict[str, Path]) -> None:
    lines = Path("new_articles.csv").read_text().splitlines()
    blank = [lines[0], *(",".join([*line.split(",")[:9], *[""] * 6]) for line in lines[1:])]
    Path("blank.csv").write_text("\n".join(blank))
    assert "No label is observed" in error_of("evaluate", fitted["articles"], "blank.csv")


def test_a_model_without_names_judges_by_place() -> None:
    table = read_label_table("articles.csv", labels="tag_*", ids="id")
    assert table.labels is not None
    np.savez("a.npz", X=table.X, Y=table.labels.to_dense())
    run("fit", "a.npz", *QUICK)
    assert run_json("evaluate", "model.labelgap", "a.npz")["labels"] == 6


@pytest.mark.parametrize(
    ("kind", "option", "words"),
    [
        ("articles", ("--user", "id"), "it is for a recommender"),
        ("articles", ("--skip-unknown",), "it is for a recommender"),
        ("articles", ("--average", "macro"), "it goes with a formula"),
        ("counts", ("--unobserved", "negative"), "a blank is always missing"),
        ("films", ("--labels", "tag_*"), "a recommender has users and items"),
        ("films", ("--unobserved", "negative", "--per-label"), "the model's own metric only"),
        ("films", ("--unobserved", "negative", "--metric", "macro-f1"), "the model's own metric only"),
    ],
)
def test_options_of_no_use_are_refused(
    kind: str, option: tuple[str, ...], words: str, fitted: dict[str, Path], ratings: Path
) -> None:
    data = ratings if kind == "films" else "new_articles.csv"
    assert words in error_of("evaluate", fitted[kind], data, *option, code=2)
