"""``labelgap split``, ``recommend`` and what a fit of ratings writes, with a folder like MovieLens."""

from __future__ import annotations

import gc
import gzip
import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from cli_runs import EXAMPLES, FILMS, error_of, lines, rows_of, run, run_json, told, words

import labelgap
from labelgap.data import read_answer_file, read_side_table
from labelgap.data.files.csv_sheet import CsvSheet

FOLDER = EXAMPLES / "movielens"


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the first ratings, with titles and features of the films; held_out.csv is beside it."""
    folder = tmp_path_factory.mktemp("movielens")
    train, path = folder / "train.csv", folder / "films.labelgap"
    run(f"split {FOLDER}/u.data --how time --train {train} --held-out {folder}/held_out.csv")
    tables = f"--items {FOLDER}/u.item --users {FOLDER}/u.user --unobserved negative"
    run(f"fit {train} --positive 4 --trace-penalty 1 --threshold train -q {tables} --out {path}")
    return path


def items_of(command: str) -> list[Any]:
    return [one["item"] for one in run_json(command)["recommendations"]]


# -- split ---------------------------------------------------------------------------------------------


def test_a_split_by_time() -> None:
    shown = told(f"split {FOLDER}/u.data --how time --fraction 0.3")
    train, held = pandas.read_csv("train.csv"), pandas.read_csv("held_out.csv")
    assert f"Wrote {len(train)} ratings to train.csv and {len(held)} to held_out.csv." in shown
    assert train.columns.tolist() == ["user", "item", "value", "timestamp"]
    assert train["timestamp"].max() < held["timestamp"].min()
    both = pandas.concat([train, held]).sort_values(["user", "item"])[["user", "item", "value"]]
    whole = read_answer_file(FOLDER / "u.data")
    frame = pandas.DataFrame({"user": whole.users, "item": whole.items, "value": whole.values})
    np.testing.assert_array_equal(both.to_numpy(), frame.sort_values(["user", "item"]).to_numpy())
    assert len(held) == pytest.approx(0.3 * len(whole), abs=2)


def test_a_split_of_the_last_ratings_and_at_random() -> None:
    said = run_json(f"split {FOLDER}/u.data --how leave-last-out --last 2")
    held = pandas.read_csv("held_out.csv")
    assert said["held_out"] == {"out": "held_out.csv", "ratings": 2 * 80}
    assert set(held["user"].value_counts()) == {2}
    random = f"split {FOLDER}/u.data --train a.parquet --held-out b.tsv --seed 5"
    run(random)
    assert pandas.read_parquet("a.parquet").columns.tolist() == ["user", "item", "value"]
    first = lines("b.tsv")
    run(f"{random} --force")
    assert lines("b.tsv") == first


def test_a_split_of_texts_with_dates_and_other_encodings(recwarn: pytest.WarningsRecorder) -> None:
    Path("stars.csv").write_bytes("user;item;value\nZoë;1;5\nBob;1;4\nBob;2;1\nZoë;2;2\n".encode("latin-1"))
    said = run("split stars.csv --delimiter ; --encoding latin-1 --fraction 0.5 --force -v")
    assert "s] read 4 ratings of stars.csv" in said.stderr
    parts = pandas.concat(pandas.read_csv(name) for name in ("train.csv", "held_out.csv"))
    assert sorted(parts.user) == ["Bob", "Bob", "Zoë", "Zoë"]
    dates = "".join(f"u{at % 3},i{at},2024-05-{at + 1:02d}\n" for at in range(20))
    Path("likes.csv").write_text(f"user,item,when\n{dates}")
    run("split likes.csv --how time --time when --force")
    held = pandas.read_csv("held_out.csv")
    assert held["timestamp"].tolist() == [f"2024-05-{day}T00:00:00" for day in range(17, 21)]
    assert held.columns.tolist() == ["user", "item", "timestamp"]
    # The header says that these are ratings.
    run("fit train.csv --unobserved negative --trace-penalty 1 --threshold train -q")
    given = ["2024-05-31T14:00:00+02:00", "20240301", "2999-01-01", "2024-05-30"]
    times = "".join(f"{user},{user},3,{time}\n" for user, time in enumerate(given))
    Path("times.csv").write_text(f"user,item,value,timestamp\n{times}")
    run("split times.csv --how time --fraction 0.5 --force")
    read = pandas.concat([pandas.read_csv(name) for name in ("train.csv", "held_out.csv")]).sort_values(
        "user"
    )
    wanted = ["2024-05-31T12", "2024-03-01T00", "2999-01-01T00", "2024-05-30T00"]
    assert read["timestamp"].tolist() == [f"{hour}:00:00" for hour in wanted]
    assert not recwarn.list


# -- recommend -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("models")
def test_it_is_what_the_model_recommends() -> None:
    said = run_json("recommend films.labelgap --user u1 --user u2 -n 2")
    model = labelgap.load("films.labelgap")
    found = [(one["user"], one["item"]) for one in said["recommendations"]]
    assert found == [(user, item) for user in ("u1", "u2") for item in model.recommend(user, n=2).items]
    first = said["recommendations"][0]
    assert first["probability"] == model.predict_proba(*found[0])
    assert first["decision"] == model.predict(*found[0])
    shown = told("recommend films.labelgap --all --with-seen -n 99 --out best.csv")
    assert "Wrote the items of 12 users to best.csv." in shown
    best = rows_of("best.csv")
    assert [line["rank"] for line in best] == list("12345678") * 12
    Path("users.txt").write_text("u3\n\nu4\n")
    piped = run("recommend films.labelgap --users-file users.txt -n 1").stdout.splitlines()
    assert piped[0] == "user,rank,item,decision,probability"
    assert [line.split(",")[0] for line in piped[1:]] == ["u3", "u4"]
    shown = told("recommend films.labelgap --user u1 -n 1 --why")
    assert "the item in general" in shown
    assert "like" in shown
    why = run_json("recommend films.labelgap --user u1 -n 1 --why")["recommendations"][0]["why"]
    assert set(why["answers"][0]) == {"item", "answer", "contribution"}


def test_a_fit_writes_the_lists_of_all_users(ratings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = told(f"fit ratings.csv {FILMS} --for recommend --lists lists.csv")
    assert "lists in lists.csv" in shown
    run("recommend model.labelgap --all --out best.csv")
    assert lines("lists.csv") == lines("best.csv")
    said = run_json(f"fit ratings.csv {FILMS} --lists lists.parquet --force")
    assert said["lists"] == "lists.parquet"
    # Made for decisions.
    assert "worse than popularity" in said["warnings"][0]
    assert Path("lists.parquet").exists()
    fit = labelgap.Recommender.fit

    def stopped(model: labelgap.Recommender, *given: object, **options: object) -> labelgap.Recommender:
        fit(model, *given, **options)  # type: ignore[arg-type]
        model.interrupted_ = True
        return model

    monkeypatch.setattr(labelgap.Recommender, "fit", stopped)
    shown = told(f"fit ratings.csv {FILMS} --lists no.csv --force", code=130)
    assert "no.csv was not written; labelgap recommend model.labelgap --all --out no.csv" in shown
    assert run_json(f"fit ratings.csv {FILMS} --lists no.csv --force", code=130)["lists"] is None
    assert not Path("no.csv").exists()


def test_a_fit_does_not_hold_the_file_that_it_has_read(
    ratings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheets: list[weakref.ref[CsvSheet]] = []
    read, fit = CsvSheet.read, labelgap.Recommender.fit

    def watched(sheet: CsvSheet, *names: Any) -> Any:
        sheets.append(weakref.ref(sheet))
        return read(sheet, *names)

    def fitted(model: labelgap.Recommender, *given: Any, **options: Any) -> labelgap.Recommender:
        gc.collect()
        assert [sheet() for sheet in sheets] == [None]
        return fit(model, *given, **options)

    monkeypatch.setattr(CsvSheet, "read", watched)
    monkeypatch.setattr(labelgap.Recommender, "fit", fitted)
    run(f"fit ratings.csv {FILMS}")


def test_ids_that_are_numbers_are_found(ratings: Path) -> None:
    ratings.write_text(ratings.read_text().replace("\nu", "\n"))
    run(f"fit ratings.csv {FILMS} --quiet")
    assert run_json("recommend model.labelgap --user 7 -n 1")["recommendations"][0]["user"] == 7


@pytest.mark.usefixtures("models")
def test_items_are_unavailable_until_a_date() -> None:
    shown = "recommend films.labelgap --user u1 -n 3 --with-seen"
    best = items_of(shown)
    Path("coming.csv").write_text(f"{best[0]},2024-05-31\n{best[1]}\n\n")
    dated = f"{shown} --unavailable coming.csv"
    assert items_of(dated)[:2] == [best[0], best[2]]
    assert items_of(f"{dated} --at 2024-05-30")[0] == best[2]
    assert items_of(f"{dated} --at 2024-05-31")[:2] == [best[0], best[2]]


def test_items_without_ratings_have_their_places(ratings: Path) -> None:
    names = sorted({line["item"] for line in rows_of(ratings)})
    items = [f"{name},{len(name) % 3},{j % 2}" for j, name in enumerate([*names, "new film", "other film"])]
    Path("items.csv").write_text("\n".join(["item,length,colour", *items]) + "\n")
    run(f"fit ratings.csv {FILMS} --for recommend --items items.csv --out m.labelgap")
    said = run_json("recommend m.labelgap --user u1 -n 4 --with-seen --explore 0.5")
    found = [(one["item"], one["exploratory"]) for one in said["recommendations"]]
    assert [new for _, new in found] == [True, False, True, False]
    assert {item for item, new in found if new} == {"new film", "other film"}
    run("recommend m.labelgap --all --with-seen --explore 0.25 -n 4 --out best.csv")
    assert sum(line["exploratory"] == "True" for line in rows_of("best.csv")) == 12
    assert "exploratory" in told("recommend m.labelgap --all --explore 0.25")
    assert "exploratory" not in told("recommend m.labelgap --all")


def test_tables_give_features_and_titles(films: Path) -> None:
    model: Any = labelgap.load(films)
    table = read_side_table(FOLDER / "u.item")
    assert model.item_titles_ == table.titles
    assert len(model.item_feature_factors_) == 19
    assert len(model.user_feature_factors_) == len(read_side_table(FOLDER / "u.user", "user").names)
    # A film without ratings is known by its features.
    assert set(model.item_ids_) == set(table.ids)
    best = model.recommend(7, n=2)
    said = run_json(f"recommend {films} --user 7 -n 2")["recommendations"]
    assert [one["title"] for one in said] == [model.item_titles_[item] for item in best.items]
    header = run(f"recommend {films} --user 7 -n 2").stdout.splitlines()[0]
    assert header == "user,rank,item,title,decision,probability"
    assert f"7 and {model.item_titles_[best.items[0]]!r}" in told(f"recommend {films} --user 7 -n 1 --why")
    run(f"recommend {films} --all -n 3 --out best.parquet")
    found, expected = pandas.read_parquet("best.parquet"), model.recommend_batch(n=3).to_pandas()
    assert found.columns.tolist() == header.split(",")
    for name in ("item", "title"):
        assert found[name].tolist() == expected[name].tolist()


@pytest.mark.usefixtures("models")
def test_titles_for_a_model_without_them_and_items_without_a_row() -> None:
    Path("films.csv").write_text("item|title\nfilm 1|One\nfilm 2|Two\n")
    said = run_json("recommend films.labelgap --all -n 9 --items films.csv")
    titles = {one["item"]: one["title"] for one in said["recommendations"]}
    assert (titles["film 1"], titles["film 3"]) == ("One", "")
    Path("films.csv").write_text("item,year\n" + "".join(f"film {at},{1990 + at}\n" for at in range(7)))
    said = run_json(f"fit ratings.csv {FILMS} --items films.csv")
    assert any("no row for 1 of the items with ratings (the first: 'film 7')" in w for w in said["warnings"])
    assert said["item features"] == "1 of 7 rows"


def test_filters_and_diversity(films: Path) -> None:
    model: Any = labelgap.load(films)
    Path("some.txt").write_text("1\n2\n3\n\n4\n5\n")
    some, shown = [1, 2, 3, 4, 5], f"recommend {films} --user 9 -n 4"
    first = items_of(shown)
    for options, given in {
        "--only-file some.txt": {"only": some},
        "--only 1 --only 2": {"only": [1, 2]},
        f"--not {first[0]} --not-file some.txt": {"exclude": [first[0], *some]},
        "--diversity 0.6": {"diversity": 0.6},
    }.items():
        found = items_of(f"{shown} {options}")
        assert found == model.recommend(9, n=4, **given).items.tolist(), options
        assert found != first, options


def test_new_users_get_items(films: Path) -> None:
    model: Any = labelgap.load(films)
    assert "knows no user '777'" in error_of(f"recommend {films} --user 777")
    said = run_json(f"recommend {films} --user 777 --user 7 -n 3 --unknown average")["recommendations"]
    expected = model.recommend(777, n=3, unknown="average").items.tolist()
    assert [(one["user"], one["item"]) for one in said[:3]] == [("777", item) for item in expected]
    assert said[3]["user"] in (7, "7")
    # By their features.
    Path("new.user").write_text("901|23|F|student|12345\n7|40|M|writer|99999\n902|61|M|pilot|54321\n")
    names = read_side_table(FOLDER / "u.user", "user").names
    table = read_side_table("new.user", "user", names=names)
    student = table.rows[0]
    known = {name for name, value in zip(names, student, strict=True) if value}
    assert known == {"age", "gender=F", "occupation=student"}
    grown = model.fold_in(user_features={901: student, 902: table.rows[2]})
    expected = [item for user in (901, 7, 902) for item in grown.recommend(user, n=2).items]
    assert items_of(f"recommend {films} --users new.user -n 2") == expected
    Path("other.csv").write_text("user,age\n901,23\n")
    said = error_of(f"recommend {films} --users other.csv")
    assert "other.csv has no column for the feature 'gender=F'" in said


# -- evaluate ------------------------------------------------------------------------------------------


def test_the_ranking_is_beside_popularity(films: Path) -> None:
    model: Any = labelgap.load(films)
    held = films.with_name("held_out.csv")
    answers = read_answer_file(held).answers
    said = run_json(f"evaluate {films} {held} -n 5")["ranking"]
    assert said == json.loads(json.dumps(model.evaluate_ranking(answers, n=5).to_dict()))
    assert said["model"]["ndcg"] > said["popularity"]["ndcg"]
    shown = told(f"evaluate {films} {held}")
    for name, own, other in model.evaluate_ranking(answers).rows():
        assert f"{name} {own:.4f} {other:.4f}" in shown
    model.user_factors_[:] = 0.0
    model.item_intercept_[:] = -model.answers_.positive_counts().astype(float)
    model.save("worse.labelgap")
    warned = run_json(f"evaluate worse.labelgap {held}")["warnings"]
    assert any("Popularity ranks better" in message for message in warned)
    Path("no.csv").write_text("user,item,value\n7,3,1\n8,4,2\n")
    without = f"evaluate {films} no.csv --unobserved missing"
    assert run_json(without)["ranking"] is None
    assert "Lists of items are not judged" in told(without)


def test_unseen_users_are_folded_in_and_judged(films: Path) -> None:
    shift = [line.split("\t") for line in lines(FOLDER / "u.data")]
    Path("others.csv").write_text(
        "\n".join(["user,item,value", *(f"{user}00,{item},{value}" for user, item, value, _ in shift)])
    )
    model: Any = labelgap.load(films)
    command = f"evaluate {films} others.csv --unseen-users"
    for seed, more in ((0, ""), (7, " --seed 7")):
        answers = read_answer_file("others.csv").answers
        expected = model.evaluate_ranking(answers, unseen_users=True, random_state=seed)
        assert run_json(command + more)["ranking"] == json.loads(json.dumps(expected.to_dict()))
        shown = told(command + more)
        assert f"by {expected.n_likes} likes of {expected.n_users} users:" in shown
        for name, own, other in expected.rows():
            assert f"{name} {own:.4f} {other:.4f}" in shown
    known = error_of(f"evaluate {films} {FOLDER}/u.data --unseen-users")
    assert "--unseen-users is about users that the fit did not see, and the recommender knows" in known


def test_unknown_ids_do_not_end_an_evaluation(films: Path) -> None:
    held = lines(films.with_name("held_out.csv"))
    Path("more.csv").write_text("\n".join([*held, "777,3,5,0", "7,888,5,0"]))
    said = run_json(f"evaluate {films} more.csv")
    assert (said["ranking"]["n_unknown_users"], said["ranking"]["n_unknown_items"]) == (1, 1)
    assert any("2 of" in message and "do" in message for message in said["warnings"])
    assert "777" in error_of(f"evaluate {films} more.csv --unknown raise")
    assert run_json(f"evaluate {films} more.csv --skip-unknown")["ranking"]["n_unknown_users"] == 0
    Path("pairs.csv").write_text("user,item\n7,3\n777,3\n7,888\n")
    assert "777" in error_of(f"predict {films} pairs.csv")
    said = run_json(f"predict {films} pairs.csv --unknown average --what scores")
    model: Any = labelgap.load(films)
    expected = model.decision_function([7, 777, 7], [3, 3, 888], unknown="average")
    assert [one["score"] for one in said["predictions"]] == pytest.approx(expected.tolist())
    assert "2 of 3 lines" in said["warnings"][0]


# -- tables beside the ratings -------------------------------------------------------------------------


def test_the_limit_on_packed_files_holds_for_tables_beside_the_ratings(films: Path) -> None:
    table = b"item,title\n" + b"".join(b"%d,a film\n" % at for at in range(100_000))
    Path("items.csv.gz").write_bytes(gzip.compress(table))
    asked = f"recommend {films} --user 7 --items items.csv.gz --max-unpacked-mb"
    assert "items.csv.gz unpacks to more than the 1 MB" in error_of(f"{asked} 1")
    assert "a film" in told(f"{asked} none")


def test_tables_in_latin_1_are_told_or_said() -> None:
    items = [f"{item},{title},FR" for item, title in enumerate(("Amélie", "Köter", "Ran"), start=1)]
    Path("items.csv").write_bytes("\n".join(["item,title,land", *items]).encode("latin-1"))
    users = [f"{user},{name},{name}" for user, name in enumerate(("Zoë", "Bob", "Zoë", "Bob"), start=1)]
    Path("users.csv").write_bytes("\n".join(["user,name,kind", *users]).encode("latin-1"))
    rated = [f"{user},{item},{int((user + item) % 3 > 0)}" for user in range(1, 5) for item in range(1, 4)]
    Path("stars.csv").write_text("\n".join(["user,item,value", *rated]))
    Path("later.csv").write_text("user,item,value\n5,1,1\n")
    both, of_items = "--items items.csv --users users.csv", "--items items.csv"
    for command, tables in (
        ("fit stars.csv --trace-penalty 0.01 --threshold train --out f.labelgap --force", both),
        ("update f.labelgap later.csv --out g.labelgap --force", both),
        ("recommend f.labelgap --all", of_items),
        ("suggest f.labelgap -n 1", of_items),
        ("recommend f.labelgap", "--users users.csv"),
    ):
        warned, said = words(run(f"{command} {tables}").stderr), ""
        if "--items" in tables:
            assert "items.csv is not UTF-8 (line 2, byte 0xe9); it was read as Latin-1" in warned
            assert "Say --items-encoding latin-1 if that is right" in warned
            said += " --items-encoding latin-1"
        if "--users" in tables:
            assert "--users-encoding latin-1 if that is right" in warned
            said += " --users-encoding latin-1"
        assert "Latin-1" not in run(f"{command} {tables}{said}").stderr, command
    assert labelgap.load("f.labelgap").item_titles_[1] == "Amélie"
