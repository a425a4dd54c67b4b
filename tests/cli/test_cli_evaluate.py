"""``labelgap evaluate``: the numbers of the library, over known entries only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_runs import FIXED, error_of, lines, rows_of, run, run_json, told

import labelgap
from labelgap.data.files import read_label_table

pytestmark = pytest.mark.usefixtures("models")
EVALUATE = "evaluate articles.labelgap"


def judged(
    path: str = "new_articles.csv", model: str = "articles.labelgap"
) -> tuple[labelgap.LowRankClassifier, np.ndarray, np.ndarray]:
    loaded = labelgap.load(model)
    table = read_label_table(path, labels="tag_*", features=list(loaded.feature_names_in_))
    assert table.labels is not None
    return loaded, table.X, table.labels.to_dense()


def changed(path: str, target: str, label: str | None) -> None:
    """A copy of a file of articles whose last label is this in each row; None blanks known no instead."""
    header, *rows = [line.split(",") for line in lines(path)]
    if label is None:
        rows = [[cell if at < 9 or cell == "1" else "" for at, cell in enumerate(row)] for row in rows]
    else:
        rows = [[*row[:-1], label] for row in rows]
    Path(target).write_text("\n".join(",".join(row) for row in [header, *rows]))


@pytest.mark.parametrize("path", ["new_articles.csv", "articles.csv"])
def test_values_and_counts(path: str) -> None:
    said = run_json(f"{EVALUATE} {path} --per-label")
    model, X, Y = judged(path)
    decided = model.predict(X, output="dense")
    assert said["metrics"]["micro-f1"] == model.score(X, Y)
    assert said["metrics"]["macro-f1"] == labelgap.get_metric("macro-f1")(Y, decided)
    assert said["counts"] == {
        f"{'t' if right else 'f'}{'p' if yes else 'n'}": np.sum((decided == yes) & ((yes == right) == Y))
        for yes in (1, 0)
        for right in (1, 0)
    }
    assert said["observed"] == np.sum(~np.isnan(Y))
    for at, label in enumerate(said["per_label"]):
        tp = np.sum((decided[:, at] == 1) & (Y[:, at] == 1))
        assert label["recall"] == pytest.approx(tp / np.sum(Y[:, at] == 1))
        assert label["yes"] == np.nansum(Y[:, at])


def test_other_metrics_and_what_people_are_told() -> None:
    said = run_json(f"{EVALUATE} new_articles.csv --metric macro-jaccard --metric 'instance: tp/(tp+fn)'")
    assert list(said["metrics"])[:2] == ["micro-f1", "macro-jaccard"]
    model, X, Y = judged()
    recall = labelgap.get_metric("instance-recall")(Y, model.predict(X, output="dense"))
    assert list(said["metrics"].values())[2:] == [pytest.approx(recall)]
    shown = run(f"{EVALUATE} new_articles.csv --per-label").stdout
    assert "truly yes" in shown
    assert "tag_culture" in shown
    changed("new_articles.csv", "no.csv", "0")
    assert run_json(f"{EVALUATE} no.csv --per-label")["per_label"][-1]["recall"] is None


def test_labels_may_come_in_any_order() -> None:
    Path("turned.csv").write_text(
        "\n".join(",".join(line.split(",")[::-1]) for line in lines("new_articles.csv"))
    )
    here = run_json(f"{EVALUATE} new_articles.csv")
    assert run_json(f"{EVALUATE} turned.csv")["metrics"] == here["metrics"]


def test_a_model_of_positives_is_corrected_unless_no_are_known() -> None:
    changed("articles.csv", "yes.csv", None)
    said = run_json("evaluate positives.labelgap yes.csv")
    assert (said["unobserved"], said["flip_rate"]) == ("unlabelled", 0.5)
    assert (said["counts"], said["per_label"]) == (None, None)
    model, X, Y = judged("articles.csv", "positives.labelgap")
    assert said["metrics"]["micro-f1"] == pytest.approx(model.score(X, Y))
    known = run_json("evaluate positives.labelgap articles.csv")
    assert (known["unobserved"], known["no"]) == ("missing", np.sum(Y == 0))
    assert known["metrics"]["micro-f1"] == pytest.approx(model.score(X, Y, unobserved="missing"))
    shown = run("evaluate positives.labelgap articles.csv").stdout
    assert f"The file has {np.sum(Y == 0)} known no, so decisions are judged by what is known" in shown
    asked = run_json("evaluate positives.labelgap articles.csv --unobserved unlabelled")
    assert asked["metrics"]["micro-f1"] == pytest.approx(model.score(X, Y))
    words = (
        f"{np.sum(Y == 0)} entries are known as no, and --unobserved unlabelled takes them for not recorded"
    )
    assert asked["warnings"][0].startswith(words)


def test_yes_alone_are_judged_on_request() -> None:
    changed("new_articles.csv", "yes.csv", None)
    negative = run_json(f"{EVALUATE} yes.csv --unobserved negative")
    assert negative["metrics"] == run_json(f"{EVALUATE} new_articles.csv")["metrics"]
    as_is = run_json(f"{EVALUATE} yes.csv --unobserved missing")
    assert as_is["metrics"]["micro-precision"] == 1
    assert "only recall says something" in as_is["warnings"][0]


def test_a_label_with_one_class_is_named_with_what_it_does() -> None:
    changed("new_articles.csv", "paid.csv", "1")
    said = run_json(f"{EVALUATE} paid.csv")
    model, X, Y = judged("paid.csv")
    without = labelgap.get_metric("micro-f1")(Y[:, :5], model.predict(X, output="dense")[:, :5])
    [warned] = said["warnings"]
    assert warned.startswith("1 of 6 labels has one class: 'tag_data' (only yes). micro-f1 is ")
    assert warned.endswith(f"{said['metrics']['micro-f1']:.4f} with it and {without:.4f} without.")


def test_results_as_a_table() -> None:
    said = run_json(f"{EVALUATE} new_articles.csv --out metrics.csv")
    assert {row["metric"]: float(row["value"]) for row in rows_of("metrics.csv")} == said["metrics"]
    assert "Wrote 6 labels to labels.csv." in told(
        f"{EVALUATE} new_articles.csv --per-label --out labels.csv"
    )
    for name in ("label", "tp"):
        assert [row[name] for row in rows_of("labels.csv")] == [str(row[name]) for row in said["per_label"]]


def test_a_regression() -> None:
    said = run_json("evaluate counts.labelgap new_articles.csv")
    assert 0 < said["d2"] < 1
    by_label = {row["label"]: row for row in said["per_label"]}
    quotes = [float(row["quotes"]) for row in rows_of("new_articles.csv")]
    assert by_label["quotes"]["mean"] == pytest.approx(np.mean(quotes))
    weighted = [row["deviance"] * row["observed"] for row in said["per_label"]]
    assert sum(weighted) / said["observed"] == pytest.approx(said["deviance"])
    assert "of the deviance" in told("evaluate counts.labelgap new_articles.csv")
    shown = told("evaluate counts.labelgap new_articles.csv --per-label --out labels.csv")
    assert f"{by_label['quotes']['predicted']:.3f}" in shown
    assert list(rows_of("labels.csv")[0]) == ["label", "observed", "mean", "predicted", "deviance"]


def test_a_recommender() -> None:
    said = run_json("evaluate films.labelgap ratings.csv")
    users, items, stars = zip(*(line.split(",") for line in lines("ratings.csv")[1:]), strict=True)
    model = labelgap.load("films.labelgap")
    assert said["metrics"]["micro-f1"] == model.score((users, items, [float(s) for s in stars]))
    assert sum(said["counts"].values()) == len(users)
    Path("more.csv").write_text(Path("ratings.csv").read_text() + "zoe,film 1,5\n")
    assert "zoe" in error_of("evaluate films.labelgap more.csv --unknown raise")
    again = run_json("evaluate films.labelgap more.csv --skip-unknown")
    assert (again["metrics"], len(again["warnings"])) == (said["metrics"], 1)
    silent = run_json("evaluate films.labelgap more.csv --skip-unknown --unobserved negative")
    assert silent["unobserved"] == "negative"


def test_a_model_without_names_judges_by_place() -> None:
    table = read_label_table("articles.csv", labels="tag_*", ids="id")
    np.savez("a.npz", X=table.X, Y=table.labels.to_dense())  # type: ignore[union-attr]
    run(f"fit a.npz {FIXED} -q")
    assert run_json("evaluate model.labelgap a.npz")["labels"] == 6
