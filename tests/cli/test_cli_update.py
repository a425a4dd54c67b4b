"""``labelgap update`` and ``labelgap fold-in``: model files that learn or grow."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runs import QUICK, error_of, run, run_json

import labelgap
from labelgap.data.files import read_label_table

TAGS = ("--labels", "tag_*", "--id", "id")
SMALL = ("--trace-penalty", "0.05", "--ridge-penalty", "0.01", "--feature-map", "linear")


@pytest.fixture
def own(fitted: dict[str, Path]) -> dict[str, Path]:
    """Copies of the models, which may be changed."""
    return {name: Path(shutil.copy(path, f"{name}.labelgap")) for name, path in fitted.items()}


def lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def test_a_classifier_learns_as_in_the_library() -> None:
    told = run("fit", "articles.csv", *TAGS, *SMALL, "--threshold", "train", "--out", "a.labelgap").stdout
    assert "data         kept for labelgap update, about" in told
    tables = [
        read_label_table(f"{name}.csv", labels="tag_*", ids="id") for name in ("articles", "new_articles")
    ]
    model = labelgap.LowRankClassifier(
        trace_penalty=0.05, ridge_penalty=0.01, features="linear", threshold="train", random_state=0
    )
    for table in tables:
        model.partial_fit(table.X, table.labels, row_ids=table.row_ids)
    said = run_json("update", "a.labelgap", "new_articles.csv")
    loaded = labelgap.load("a.labelgap")
    assert loaded.feature_names_in_.tolist() == list(tables[0].feature_names or ())
    np.testing.assert_allclose(loaded.coef_, model.coef_, atol=1e-12)
    assert said["batch"]["added"] == 1200
    assert said["batch"]["new_rows"] == 200
    assert said["batch"]["metric"] == pytest.approx(model.batches_[1].metric)
    assert said["batch"]["metric_name"] == "micro-f1"
    assert (said["model"], said["data"]) == ("a.labelgap", "new_articles.csv")
    assert said["relative_gap"] <= 1e-3
    assert said["kept_bytes"] == loaded.kept_bytes_ > 0
    facts = run_json("info", "a.labelgap")
    assert [batch["number"] for batch in facts["batches"]] == [1, 2]
    assert facts["kept_bytes"] == loaded.kept_bytes_
    told = run("info", "a.labelgap").stdout
    assert "batches       2" in told
    assert "kept for labelgap update" in told


def test_ids_say_which_rows_are_corrected(own: dict[str, Path]) -> None:
    head, first, *_ = lines("articles.csv")
    values = first.split(",")
    assert values[-6:] == ["1", "", "", "1", "0", "1"]
    Path("more.csv").write_text(f"{head}\n{','.join([*values[:-6], '0', '1', '', '1', '', ''])}\n")
    before = own["articles"].read_bytes()
    told = run("update", own["articles"], "more.csv", "--out", "b.labelgap").stdout
    assert own["articles"].read_bytes() == before
    assert "0 rows, 1 entries; 1 corrected, 1 as they were" in told
    assert "b.labelgap" in told
    kept = labelgap.load("b.labelgap")._kept_data
    row = kept.rows.rows[kept.rows.ids.index("A001")]
    np.testing.assert_array_equal(kept.labels.to_dense()[row], [0, 1, np.nan, 1, 0, 1])
    assert "b.labelgap exists already" in error_of(
        "update", own["articles"], "more.csv", "--out", "b.labelgap"
    )


def test_labels_that_are_named_may_be_new_or_absent(own: dict[str, Path]) -> None:
    head, *rows = lines("new_articles.csv")
    names = head.split(",")
    renamed = ["tag_weather" if name == "tag_travel" else name for name in names]
    Path("more.csv").write_text("\n".join([",".join(renamed), *rows[:50]]) + "\n")
    assert "lacks 1 of the 6 labels of the model: 'tag_travel'" in error_of(
        "update", own["articles"], "more.csv"
    )
    told = run("update", own["articles"], "more.csv", "--labels", "tag_*").stdout
    assert "50 rows, 1 labels, 300 entries; 0 corrected" in told
    model = labelgap.load(own["articles"])
    assert model.label_names_.tolist() == [*names[-6:], "tag_weather"]
    kept = model._kept_data.labels.to_dense()
    assert np.isnan(kept[-50:, names[-6:].index("tag_travel")]).all()
    assert np.isnan(kept[:-50, -1]).all()
    Path("other.csv").write_text("\n".join([head.replace("tag_", "topic_"), *rows[:50]]) + "\n")
    assert "None of the 6 labels of other.csv is a label of the model ('topic_business'" in error_of(
        "update", own["articles"], "other.csv", "--labels", "topic_*"
    )


def test_new_tags_are_new_labels() -> None:
    rng = np.random.default_rng(0)
    words = ["red", "blue", "green"]
    for name, known in (("one.csv", words[:2]), ("two.csv", words)):
        tags = ["|".join(tag for tag in known if rng.random() < 0.5) for _ in range(40)]
        lines_of = [f"{rng.standard_normal():.3f},{rng.standard_normal():.3f},{tag}" for tag in tags]
        Path(name).write_text("\n".join(["a,b,tags", *lines_of]) + "\n")
    given = ("--labels", "tags", "--separator", "|")
    run(
        "fit",
        "one.csv",
        *given,
        "--unobserved",
        "negative",
        *SMALL,
        "--threshold",
        "train",
        "--out",
        "t.labelgap",
    )
    batch = run_json("update", "t.labelgap", "two.csv", *given)["batch"]
    assert (batch["new_rows"], batch["new_labels"]) == (40, 1)
    kept = labelgap.load("t.labelgap")._kept_data.labels.to_dense()
    # Silence is a no, also of a label that came later.
    assert (kept[:40, 2] == 0).all()
    assert kept[40:, 2].sum() > 0
    Path("none.csv").write_text("a,b,tags\n0.1,0.2,\n0.3,0.1,\n")
    assert run_json("update", "t.labelgap", "none.csv", *given)["batch"]["new_labels"] == 0
    assert (labelgap.load("t.labelgap")._kept_data.labels.to_dense()[80:] == 0).all()


def test_features_are_prepared_as_in_the_fit() -> None:
    head, *rows = lines("articles.csv")

    def written(path: str, some: list[str], regions: list[str]) -> None:
        words = [row.replace(",", f",{region},", 1) for row, region in zip(some, regions, strict=True)]
        # A blank among the features.
        words[0] = words[0].replace(f",{words[0].split(',')[2]},", ",,", 1)
        Path(path).write_text("\n".join([head.replace("id,", "id,region,", 1), *words]) + "\n")

    written("one.csv", rows[:200], ["north", "south"] * 100)
    written("two.csv", rows[200:], ["south", "west"] * 50)
    run("fit", "one.csv", *TAGS, *SMALL, *QUICK[4:], "--impute", "mean", "--out", "p.labelgap")
    run("update", "p.labelgap", "two.csv", "-q")
    pipeline = labelgap.load("p.labelgap")
    assert [name for name, _ in pipeline.steps] == ["prepare", "decide"]
    decide = pipeline.steps[-1][1]
    assert decide._kept_data.X.shape == (300, 10)
    assert [batch.new_rows for batch in decide.batches_] == [200, 100]
    assert run_json("predict", "p.labelgap", "two.csv", "--out", "d.csv")["rows"] == 100


def test_a_regression_learns(own: dict[str, Path]) -> None:
    told = run("update", own["counts"], "new_articles.csv").stdout
    assert "200 rows, 400 entries; 0 corrected" in told
    assert "judged       D²" in told
    assert len(labelgap.load(own["counts"]).batches_) == 2


def test_a_recommender_learns(own: dict[str, Path], ratings: Path) -> None:
    first = lines("ratings.csv")[1].split(",")
    opposite = "1" if float(first[2]) >= 4 else "5"
    new = [f"{first[0]},{first[1]},{opposite}", "newcomer," + first[1] + ",5", first[0] + ",Unheard Of,2"]
    Path("today.csv").write_text("\n".join(["user,item,value", *new]) + "\n")
    said = run_json("update", own["films"], "today.csv", "--forget", "4")
    batch = said["batch"]
    assert (batch["new_rows"], batch["new_labels"], batch["added"], batch["corrected"]) == (1, 1, 2, 1)
    model = labelgap.load(own["films"])
    assert model.forget == 4.0
    assert "newcomer" in model.user_ids_
    assert "Unheard Of" in model.item_ids_
    assert run("recommend", own["films"], "--user", "newcomer", "-n", "1").stdout
    told = run("update", own["films"], "today.csv").stdout
    assert "0 users, 0 ratings; 0 corrected, 3 as they were" in told


def test_the_columns_of_ratings_are_those_of_the_fit(ratings: Path) -> None:
    renamed = Path("ratings.csv").read_text().replace("user,item,value", "who,film,stars", 1)
    Path("stars.csv").write_text(renamed)
    named = ("--user", "who", "--item", "film", "--value", "stars")
    quick = ("--positive", "4", "--trace-penalty", "0.02", "--threshold", "train", "-q")
    run("fit", "stars.csv", *named, *quick, "--out", "s.labelgap")
    one = run_json("evaluate", "s.labelgap", "stars.csv", *named)["metrics"]
    assert run_json("evaluate", "s.labelgap", "stars.csv")["metrics"] == one
    # A file with the usual names is read, too.
    assert run_json("evaluate", "s.labelgap", "ratings.csv")["metrics"] == one
    assert run_json("update", "s.labelgap", "stars.csv")["batch"]["added"] == 0


def test_tables_of_items_describe_new_ones(ratings: Path) -> None:
    items = sorted({line.split(",")[1] for line in lines("ratings.csv")[1:]})
    table = [f"{item},{number},Film {item}" for number, item in enumerate(items)]
    Path("items.csv").write_text("\n".join(["item,year,title", *table]) + "\n")
    quick = ("--positive", "4", "--trace-penalty", "0.02", "--threshold", "train", "-q")
    run("fit", "ratings.csv", "--items", "items.csv", *quick, "--out", "f.labelgap")
    Path("new.csv").write_text("user,item,value\nu1,x1,5\nu2,x1,1\nu1,x2,1\n")
    Path("new_items.csv").write_text("item,year,title\nx1,7,The New One\n")
    said = run_json("update", "f.labelgap", "new.csv", "--items", "new_items.csv")
    assert "no row of features for 1 new items (the first: 'x2')" in said["warnings"][0]
    model = labelgap.load("f.labelgap")
    assert model.item_titles_["x1"] == "The New One"
    assert model._items.matrix.shape[0] == len(items) + 2
    Path("users.csv").write_text("user,age\nu1,7\n")
    refused = error_of("update", "f.labelgap", "new.csv", "--users", "users.csv")
    assert "fitted without a table of users" in refused


def test_ratings_are_folded_in_as_in_the_library(own: dict[str, Path], ratings: Path) -> None:
    first = lines("ratings.csv")[1].split(",")
    opposite = 1.0 if float(first[2]) >= 4 else 5.0
    rows = [(first[0], first[1], opposite), ("newcomer", first[1], 5.0), (first[0], "Unheard Of", 2.0)]
    rows += [("newcomer", "film 3", 1.0), ("u3", "Unheard Of", 5.0)]
    Path("today.csv").write_text("user,item,value\n" + "".join(f"{u},{i},{v}\n" for u, i, v in rows))
    before = own["films"].read_bytes()
    said = run_json("fold-in", own["films"], "today.csv", "--out", "later.labelgap")
    assert own["films"].read_bytes() == before
    assert (said["new_users"], said["new_items"], said["added"], said["replaced"]) == (1, 1, 4, 1)
    assert (said["model"], said["data"]) == ("later.labelgap", "today.csv")
    users, items, values = zip(*rows, strict=True)
    for prior, place in (("users", "later.labelgap"), ("fit", "fit.labelgap")):
        if prior == "fit":
            run("fold-in", own["films"], "today.csv", "--prior", "fit", "--out", place, "-q")
        model = labelgap.load(own["films"]).fold_in((list(users), list(items), list(values)), prior=prior)
        loaded = labelgap.load(place)
        assert loaded.user_ids_ == model.user_ids_
        np.testing.assert_array_equal(loaded.user_factors_, model.user_factors_)
        np.testing.assert_array_equal(loaded.item_factors_, model.item_factors_)
    assert run("recommend", "later.labelgap", "--user", "newcomer", "-n", "1").stdout
    # Into the model itself; a fit goes on from what was folded in.
    told = run("fold-in", own["films"], "today.csv").stdout
    assert "1 users, 1 items, 4 ratings; 1 of known pairs replaced" in told
    assert "newcomer" in labelgap.load(own["films"]).user_ids_
    assert run_json("update", own["films"], "today.csv")["batch"]["repeated"] == 5


def test_tables_describe_who_is_folded_in(ratings: Path) -> None:
    items = sorted({line.split(",")[1] for line in lines("ratings.csv")[1:]})
    table = [f"{item},{number},Film {item}" for number, item in enumerate(items)]
    Path("items.csv").write_text("\n".join(["item,year,title", *table]) + "\n")
    quick = ("--positive", "4", "--trace-penalty", "0.02", "--threshold", "train", "-q")
    run("fit", "ratings.csv", "--items", "items.csv", *quick, "--out", "f.labelgap")
    Path("new.csv").write_text("user,item,value\nu1,x1,5\nu2,x1,1\n")
    Path("new_items.csv").write_text("item,year,title\nx1,7,The New One\nx2,3,Nobody Has Seen\n")
    said = run_json("fold-in", "f.labelgap", "new.csv", "--items", "new_items.csv")
    assert (said["new_items"], said["warnings"]) == (2, [])
    model = labelgap.load("f.labelgap")
    assert model.item_titles_["x2"] == "Nobody Has Seen"
    assert set(model.item_ids_) == {*items, "x1", "x2"}
    Path("users.csv").write_text("user,age\nu1,7\n")
    refused = error_of("fold-in", "f.labelgap", "new.csv", "--users", "users.csv")
    assert "fitted without a table of users" in refused


# -- refusals ----------------------------------------------------------------------------------------------


def test_a_model_without_data_says_how_to_fit_one_that_has_them(own: dict[str, Path], ratings: Path) -> None:
    told = run("fit", "articles.csv", *TAGS, *QUICK[:-1], "--without-data", "--out", "n.labelgap").stdout
    assert "kept for labelgap update" not in told
    assert Path("n.labelgap").stat().st_size < own["articles"].stat().st_size / 2
    before = Path("n.labelgap").read_bytes()
    refused = error_of("update", "n.labelgap", "new_articles.csv")
    assert "does not hold the data that it was fitted to" in refused
    assert "leave --without-data out" in refused
    assert Path("n.labelgap").read_bytes() == before
    refused = error_of("fit", "ratings.csv", "--positive", "4", "--without-data", code=2)
    assert "it has no use in the setting 'recommender'" in refused


def test_a_limit_of_the_data_is_kept() -> None:
    run("fit", "articles.csv", *TAGS, *QUICK, "--memory", "300", "--out", "m.labelgap")
    assert labelgap.load("m.labelgap")._kept_data.labels.n_observed == 300
    run("update", "m.labelgap", "new_articles.csv", "-q")
    assert labelgap.load("m.labelgap")._kept_data.labels.n_observed == 300
    both = ("--memory", "300", "--without-data")
    assert "--without-data keeps none at all" in error_of("fit", "articles.csv", *TAGS, *both, code=2)


def test_what_fails_leaves_the_file(own: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    before = own["articles"].read_bytes()
    Path("bad.csv").write_text("id,words\nA900,7\n")
    assert "lacks 7 of the 8 features of the model" in error_of("update", own["articles"], "bad.csv")

    def stopped(self: Any, *arguments: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(labelgap.LowRankClassifier, "partial_fit", stopped)
    assert "Interrupted; nothing was saved." in error_of(
        "update", own["articles"], "new_articles.csv", code=130
    )
    assert own["articles"].read_bytes() == before


def test_quiet_and_verbose(own: dict[str, Path]) -> None:
    quiet = run("update", own["articles"], "new_articles.csv", "-q", "--out", "q.labelgap")
    assert quiet.output == ""
    told = run("update", own["articles"], "new_articles.csv", "-v").stderr
    assert "loaded articles.labelgap" in told
    assert "read 200 rows of new_articles.csv" in told
