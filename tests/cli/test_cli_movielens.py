"""A folder in the form of MovieLens: split, fit with tables of items and users, recommend, evaluate."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from cli_runs import EXAMPLES, error_of, run, run_json

import labelgap
from labelgap.data import read_answer_file, read_side_table
from labelgap.recommending import best_items

FOLDER = EXAMPLES / "movielens"
QUICK_FIT = ("--positive", "4", "--trace-penalty", "0.0013", "--threshold", "train", "--quiet")


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the first ratings, with titles and features of the films; held_out.csv is beside it."""
    folder = tmp_path_factory.mktemp("movielens")
    train, held_out = folder / "train.csv", folder / "held_out.csv"
    run("split", FOLDER / "u.data", "--how", "time", "--train", train, "--held-out", held_out)
    tables = ("--items", FOLDER / "u.item", "--users", FOLDER / "u.user")
    run("fit", train, *QUICK_FIT, *tables, "--unobserved", "negative", "--out", folder / "films.labelgap")
    return folder / "films.labelgap"


# -- split ---------------------------------------------------------------------------------------------


def test_a_split_of_a_text_with_semicolons_and_what_was_done() -> None:
    Path("stars.csv").write_bytes("user;item;value\nZoë;1;5\nBob;1;4\nBob;2;1\nZoë;2;2\n".encode("latin-1"))
    said = run("split", "stars.csv", "--delimiter", ";", "--encoding", "latin-1", "--fraction", "0.5", "-v")
    assert "s] read 4 ratings of stars.csv" in said.stderr
    parts = pandas.concat(pandas.read_csv(name) for name in ("train.csv", "held_out.csv"))
    assert sorted(parts.user) == ["Bob", "Bob", "Zoë", "Zoë"]


def test_the_limit_on_packed_files_holds_for_tables_beside_the_ratings(films: Path) -> None:
    table = b"item,title\n" + b"".join(b"%d,a film\n" % at for at in range(100_000))
    Path("items.csv.gz").write_bytes(gzip.compress(table))
    asked = ("recommend", films, "--user", "7", "--items", "items.csv.gz", "--max-unpacked-mb")
    assert "items.csv.gz unpacks to more than the 1 MB" in error_of(*asked, "1")
    assert "a film" in run(*asked, "none").stdout


def test_tables_in_latin_1_are_told_or_said(films: Path) -> None:
    items = [f"{item},{title},FR" for item, title in enumerate(("Amélie", "Köter", "Ran"), start=1)]
    Path("items.csv").write_bytes("\n".join(["item,title,land", *items]).encode("latin-1"))
    users = [f"{user},{name},{name}" for user, name in enumerate(("Zoë", "Bob", "Zoë", "Bob"), start=1)]
    Path("users.csv").write_bytes("\n".join(["user,name,kind", *users]).encode("latin-1"))
    rated = [f"{user},{item},{int((user + item) % 3 > 0)}" for user in range(1, 5) for item in range(1, 4)]
    Path("stars.csv").write_text("\n".join(["user,item,value", *rated]))
    Path("later.csv").write_text("user,item,value\n5,1,1\n")
    quick = ("--trace-penalty", "0.01", "--threshold", "train")
    for command, of_users in (
        (("fit", "stars.csv", *quick, "--out", "f.labelgap", "--force"), True),
        (("update", "f.labelgap", "later.csv", "--out", "g.labelgap", "--force"), True),
        (("recommend", "f.labelgap", "--all"), False),
        (("suggest", "f.labelgap", "-n", "1"), False),
    ):
        tables, said = ["--items", "items.csv"], ["--items-encoding", "latin-1"]
        if of_users:
            tables += ["--users", "users.csv"]
            said += ["--users-encoding", "latin-1"]
        warned = " ".join(run(*command, *tables).stderr.split())
        assert "items.csv is not UTF-8 (line 2, byte 0xe9); it was read as Latin-1" in warned
        assert "Say --items-encoding latin-1 if that is right" in warned
        assert ("Say --users-encoding latin-1 if that is right" in warned) == of_users
        assert "Latin-1" not in run(*command, *tables, *said).stderr
        assert "--items-encoding" in error_of(*command, "--items-encoding", "latin-1", code=2)
    assert labelgap.load("f.labelgap").item_titles_[1] == "Amélie"
    new = ("recommend", "f.labelgap", "--users", "users.csv")
    assert "--users-encoding latin-1" in " ".join(run(*new).stderr.split())
    assert "Latin-1" not in run(*new, "--users-encoding", "latin-1").stderr


def test_a_split_by_time() -> None:
    told = run("split", FOLDER / "u.data", "--how", "time", "--fraction", "0.3").stdout
    train, held = pandas.read_csv("train.csv"), pandas.read_csv("held_out.csv")
    assert f"Wrote {len(train)} ratings to train.csv and {len(held)} to held_out.csv." in told
    assert train.columns.tolist() == ["user", "item", "value", "timestamp"]
    assert train["timestamp"].max() < held["timestamp"].min()
    both = pandas.concat([train, held]).sort_values(["user", "item"])[["user", "item", "value"]]
    whole = read_answer_file(FOLDER / "u.data")
    whole_frame = pandas.DataFrame({"user": whole.users, "item": whole.items, "value": whole.values})
    expected = whole_frame.sort_values(["user", "item"]).to_numpy()
    np.testing.assert_array_equal(both.to_numpy(), expected)
    assert len(held) == pytest.approx(0.3 * len(whole), abs=2)


def test_a_split_of_the_last_ratings_and_at_random() -> None:
    said = run_json("split", FOLDER / "u.data", "--how", "leave-last-out", "--last", "2")
    held = pandas.read_csv("held_out.csv")
    assert said["held_out"] == {"out": "held_out.csv", "ratings": 2 * 80}
    assert set(held["user"].value_counts()) == {2}
    run("split", FOLDER / "u.data", "--train", "a.parquet", "--held-out", "b.tsv", "--seed", "5")
    assert pandas.read_parquet("a.parquet").columns.tolist() == ["user", "item", "value"]
    first = pandas.read_csv("b.tsv", sep="\t")
    run("split", FOLDER / "u.data", "--train", "a.parquet", "--held-out", "b.tsv", "--seed", "5", "--force")
    assert pandas.read_csv("b.tsv", sep="\t").equals(first)


def test_dates_and_likes_without_values() -> None:
    Path("likes.csv").write_text(
        "user,item,when\n" + "".join(f"u{at % 3},i{at},2024-05-{at + 1:02d}\n" for at in range(20))
    )
    run("split", "likes.csv", "--how", "time", "--time", "when")
    held = pandas.read_csv("held_out.csv")
    assert held["timestamp"].tolist() == [f"2024-05-{day}T00:00:00" for day in range(17, 21)]
    assert held.columns.tolist() == ["user", "item", "timestamp"]
    # The header says that these are ratings.
    run("fit", "train.csv", "--unobserved", "negative", *QUICK_FIT[2:])


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--how", "time", "--last", "2"), 2, "it has no use here"),
        (("--how", "leave-last-out", "--fraction", "0.5"), 2, "it has no use here"),
        (("--time", "when"), 2, "a random split uses no times"),
        (("--how", "time", "--seed", "3"), 2, "nothing is random here"),
        (("--how", "time", "--time", "when"), 1, "has no column 'when'"),
        (("--train", "x.csv", "--held-out", "x.csv"), 1, "are both x.csv"),
        (("--fraction", "2"), 1, "strictly between 0 and 1"),
        (("--train", "x.npy"), 1, "does not say what format"),
    ],
)
def test_problems_of_a_split(options: tuple[str, ...], code: int, words: str) -> None:
    assert words in error_of("split", FOLDER / "u.data", *options, code=code)
    assert not Path("train.csv").exists()


def test_times_that_are_none() -> None:
    Path("bad.csv").write_text("user,item,value,timestamp\n1,2,3,yesterday\n2,3,4,2024-01-01\n")
    told = error_of("split", "bad.csv", "--how", "time")
    assert "bad.csv, line 2, column 'timestamp', is 'yesterday', which is no number or date" in told


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (("2024-03-01", "1709251200"), "bad.csv, line 3, column 'timestamp', is a number"),
        (("2024-03-01", "1701013150000"), "bad.csv, line 3, column 'timestamp', is a number"),
        (("2024-03-01", ""), "line 3, column 'timestamp', is '', which is no number or date"),
        (("5", "nan"), "bad.csv, line 3, column 'timestamp', has no time"),
    ],
)
def test_times_of_two_kinds(times: tuple[str, str], words: str) -> None:
    lines = "".join(f"{user},2,3,{time}\n" for user, time in enumerate(times))
    Path("bad.csv").write_text("user,item,value,timestamp\n" + lines)
    assert words in error_of("split", "bad.csv", "--how", "time")
    assert not Path("train.csv").exists()


def test_times_in_files_are_read_as_from_python(recwarn: pytest.WarningsRecorder) -> None:
    times = ["2024-05-31T14:00:00+02:00", "20240301", "2999-01-01", "2024-05-30"]
    lines = "".join(f"{user},{user},3,{time}\n" for user, time in enumerate(times))
    Path("times.csv").write_text("user,item,value,timestamp\n" + lines)
    run("split", "times.csv", "--how", "time", "--fraction", "0.5")
    written = [pandas.read_csv(name) for name in ("train.csv", "held_out.csv")]
    read = pandas.concat(written).sort_values("user")["timestamp"].tolist()
    assert read == [
        "2024-05-31T12:00:00",
        "2024-03-01T00:00:00",
        "2999-01-01T00:00:00",
        "2024-05-30T00:00:00",
    ]
    assert not recwarn.list


# -- fit and recommend ---------------------------------------------------------------------------------


def test_tables_give_features_and_titles(films: Path) -> None:
    model: Any = labelgap.load(films)
    table = read_side_table(FOLDER / "u.item")
    assert model.item_titles_ == table.titles
    assert len(model.item_feature_factors_) == 19
    assert len(model.user_feature_factors_) == len(read_side_table(FOLDER / "u.user", "user").names)
    # A film without ratings is known by its features.
    assert set(model.item_ids_) == set(table.ids)


def test_titles_in_the_answers(films: Path) -> None:
    model: Any = labelgap.load(films)
    best = model.recommend(7, n=2)
    said = run_json("recommend", films, "--user", "7", "-n", "2")["recommendations"]
    assert [one["title"] for one in said] == [model.item_titles_[item] for item in best.items]
    lines = run("recommend", films, "--user", "7", "-n", "2").stdout.splitlines()
    assert lines[0] == "user,rank,item,title,decision,probability"
    told = run("recommend", films, "--user", "7", "-n", "1", "--why").stdout
    assert f"7 and {model.item_titles_[best.items[0]]!r}" in " ".join(told.split())


def test_titles_for_a_model_without_them(ratings: Path) -> None:
    run("fit", ratings, *QUICK_FIT)
    Path("films.csv").write_text("item|title\nfilm 1|One\nfilm 2|Two\n")
    said = run_json("recommend", "model.labelgap", "--all", "-n", "9", "--items", "films.csv")
    titles = {one["item"]: one["title"] for one in said["recommendations"]}
    assert titles["film 1"] == "One"
    assert titles["film 3"] == ""


def test_filters_and_diversity(films: Path) -> None:
    model: Any = labelgap.load(films)
    Path("some.txt").write_text("1\n2\n3\n\n4\n5\n")

    def shown(*options: str) -> list[Any]:
        said = run_json("recommend", films, "--user", "9", "-n", "4", *options)
        return [one["item"] for one in said["recommendations"]]

    some = [1, 2, 3, 4, 5]
    assert shown("--only-file", "some.txt") == model.recommend(9, n=4, only=some).items.tolist()
    assert shown("--only", "1", "--only", "2") == model.recommend(9, n=4, only=[1, 2]).items.tolist()
    first = shown()
    without = shown("--not", str(first[0]), "--not-file", "some.txt")
    assert without == model.recommend(9, n=4, exclude=[first[0], *some]).items.tolist()
    diverse = model.recommend(9, n=4, diversity=0.6).items.tolist()
    assert shown("--diversity", "0.6") == diverse != first
    assert "no item '999'" in error_of("recommend", films, "--user", "9", "--only", "999")
    error_of("recommend", films, "--user", "9", "--diversity", "2", code=2)


def test_unknown_users_get_the_average_users_items(films: Path) -> None:
    model: Any = labelgap.load(films)
    assert "knows no user '777'" in error_of("recommend", films, "--user", "777")
    said = run_json("recommend", films, "--user", "777", "--user", "7", "-n", "3", "--unknown", "average")
    found = [(one["user"], one["item"]) for one in said["recommendations"]]
    expected = model.recommend(777, n=3, unknown="average").items.tolist()
    assert found[:3] == [("777", item) for item in expected]
    assert found[3][0] in (7, "7")


def test_new_users_get_items_by_their_features(films: Path) -> None:
    model: Any = labelgap.load(films)
    Path("new.user").write_text("901|23|F|student|12345\n7|40|M|writer|99999\n902|61|M|pilot|54321\n")
    said = run_json("recommend", films, "--users", "new.user", "-n", "2")["recommendations"]
    names = read_side_table(FOLDER / "u.user", "user").names
    assert model._users.names == names
    table = read_side_table("new.user", "user", names=names)
    student = table.rows[0]
    assert {name for name, value in zip(names, student, strict=True) if value} == {
        "age",
        "gender=F",
        "occupation=student",
    }
    grown = model.fold_in(user_features={901: student, 902: table.rows[2]})
    expected = [item for user in (901, 7, 902) for item in grown.recommend(user, n=2).items]
    assert [one["item"] for one in said] == expected
    Path("other.csv").write_text("user,age\n901,23\n")
    told = error_of("recommend", films, "--users", "other.csv")
    assert "other.csv has no column for the feature 'gender=F'" in told


def test_users_by_features_need_a_fit_with_features(fitted: dict[str, Path]) -> None:
    told = error_of("recommend", fitted["films"], "--users", FOLDER / "u.user")
    assert "fitted without a table of users" in told


def test_all_users_stream_into_parquet(films: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(best_items, "BLOCK_USERS", 7)
    run("recommend", films, "--all", "-n", "3", "--out", "best.parquet")
    found = pandas.read_parquet("best.parquet")
    expected = labelgap.load(films).recommend_batch(n=3).to_pandas()
    assert found["item"].tolist() == expected["item"].tolist()
    assert found["title"].tolist() == expected["title"].tolist()
    assert found.columns.tolist() == ["user", "rank", "item", "title", "decision", "probability"]


# -- evaluate ------------------------------------------------------------------------------------------


def test_the_ranking_is_beside_popularity(films: Path) -> None:
    model: Any = labelgap.load(films)
    held = films.with_name("held_out.csv")
    said = run_json("evaluate", films, held, "-n", "5")
    expected = model.evaluate_ranking(read_answer_file(held).answers, n=5)
    assert said["ranking"] == json.loads(json.dumps(expected.to_dict()))
    assert said["ranking"]["model"]["ndcg"] > said["ranking"]["popularity"]["ndcg"]
    told = run("evaluate", films, held).stdout
    for name, own, other in model.evaluate_ranking(read_answer_file(held).answers).rows():
        assert f"{name} {own:.4f} {other:.4f}" in " ".join(told.split())


def test_a_warning_when_popularity_wins(films: Path) -> None:
    model: Any = labelgap.load(films)
    model.user_factors_[:] = 0.0
    model.item_intercept_[:] = -model.answers_.positive_counts().astype(float)
    model.save("worse.labelgap")
    said = run_json("evaluate", "worse.labelgap", films.with_name("held_out.csv"))
    assert any("Popularity ranks better" in message for message in said["warnings"])


def test_unknown_ids_do_not_end_an_evaluation(films: Path) -> None:
    held = films.with_name("held_out.csv").read_text().splitlines()
    Path("more.csv").write_text("\n".join([*held, "777,3,5,0", "7,888,5,0"]))
    said = run_json("evaluate", films, "more.csv")
    assert said["ranking"]["n_unknown_users"] == 1
    assert said["ranking"]["n_unknown_items"] == 1
    assert any("2 of" in message and "do" in message for message in said["warnings"])
    assert "777" in error_of("evaluate", films, "more.csv", "--unknown", "raise")
    skipped = run_json("evaluate", films, "more.csv", "--skip-unknown")
    assert skipped["ranking"]["n_unknown_users"] == 0
    told = error_of("evaluate", films, "more.csv", "--skip-unknown", "--unknown", "average", code=2)
    assert "--skip-unknown leaves them out" in told


def test_decisions_about_unknown_pairs(films: Path) -> None:
    Path("pairs.csv").write_text("user,item\n7,3\n777,3\n7,888\n")
    assert "777" in error_of("predict", films, "pairs.csv")
    said = run_json("predict", films, "pairs.csv", "--unknown", "average", "--what", "scores")
    model: Any = labelgap.load(films)
    expected = model.decision_function([7, 777, 7], [3, 3, 888], unknown="average")
    assert [one["score"] for one in said["predictions"]] == pytest.approx(expected.tolist())
    assert "2 of 3 lines" in said["warnings"][0]


def test_without_likes_nothing_is_ranked(films: Path) -> None:
    Path("no.csv").write_text("user,item,value\n7,3,1\n8,4,2\n")
    assert run_json("evaluate", films, "no.csv", "--unobserved", "missing")["ranking"] is None
    assert (
        "Lists of items are not judged" in run("evaluate", films, "no.csv", "--unobserved", "missing").stdout
    )


# -- tables that do not fit ----------------------------------------------------------------------------


def test_items_without_a_row_get_the_mean(ratings: Path) -> None:
    Path("films.csv").write_text("item,year\n" + "".join(f"film {at},{1990 + at}\n" for at in range(7)))
    said = run_json("fit", ratings, *QUICK_FIT[:-1], "--items", "films.csv")
    assert any("no row for 1 of the items with ratings (the first: 'film 7')" in w for w in said["warnings"])
    assert said["item features"] == "1 of 7 rows"


def test_tables_of_other_ids_and_other_settings(ratings: Path, fitted: dict[str, Path]) -> None:
    Path("films.csv").write_text("item,year\n1,1990\n2,1991\n")
    told = error_of("fit", ratings, "--positive", "4", "--items", "films.csv")
    assert "films.csv has none of the items with ratings; the first here is 1" in told
    told = error_of(
        "fit", "articles.csv", "--labels", "tag_*", "--setting", "features", "--items", "films.csv", code=2
    )
    assert "it has no use in the setting 'features'" in told
    assert "it is for a recommender" in error_of(
        "evaluate", fitted["articles"], "new_articles.csv", "-n", "3", code=2
    )
    assert "it is for a recommender" in error_of(
        "predict", fitted["articles"], "new_articles.csv", "--unknown", "average", code=2
    )
