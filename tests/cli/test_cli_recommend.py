"""``labelgap recommend``: the best items of users."""

from __future__ import annotations

import csv
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
from cli_runs import error_of, run, run_json

import labelgap
from labelgap.data.files.csv_sheet import CsvSheet


def test_it_is_what_the_model_recommends(fitted: dict[str, Path]) -> None:
    said = run_json("recommend", fitted["films"], "--user", "u1", "--user", "u2", "-n", "2")
    model = labelgap.load(fitted["films"])
    found = [(one["user"], one["item"]) for one in said["recommendations"]]
    wanted = [(user, item) for user in ("u1", "u2") for item in model.recommend(user, n=2).items]
    assert found == wanted
    first = said["recommendations"][0]
    assert first["probability"] == model.predict_proba(*found[0])
    assert first["decision"] == model.predict(*found[0])


def test_all_users_into_a_file(fitted: dict[str, Path]) -> None:
    told = run("recommend", fitted["films"], "--all", "--with-seen", "-n", "99", "--out", "best.csv").stdout
    assert "Wrote the items of 12 users to best.csv." in told
    with open("best.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 12 * 8
    assert [line["rank"] for line in lines[:8]] == list("12345678")
    run("recommend", fitted["films"], "--all", "--out", "best.parquet")


QUICK_FIT = ("--positive", "4", "--trace-penalty", "0.02", "--threshold", "train")


def test_a_fit_writes_the_lists_of_all_users(ratings: Path) -> None:
    told = run("fit", ratings, *QUICK_FIT, "--for", "recommend", "--lists", "lists.csv").stdout
    assert ["lists", "in", "lists.csv"] in [line.split() for line in told.splitlines()]
    run("recommend", "model.labelgap", "--all", "--out", "best.csv")
    assert Path("lists.csv").read_text() == Path("best.csv").read_text()
    said = run_json("fit", ratings, *QUICK_FIT, "--lists", "lists.parquet", "--force")
    assert said["lists"] == "lists.parquet"
    # Made for decisions.
    assert "worse than popularity" in said["warnings"][0]
    assert Path("lists.parquet").exists()


def test_a_fit_that_is_stopped_writes_no_lists(ratings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = labelgap.Recommender.fit

    def stopped(model: labelgap.Recommender, *arguments: object, **options: object) -> labelgap.Recommender:
        fit(model, *arguments, **options)
        model.interrupted_ = True
        return model

    monkeypatch.setattr(labelgap.Recommender, "fit", stopped)
    told = " ".join(run("fit", ratings, *QUICK_FIT, "--lists", "lists.csv", code=130).stdout.split())
    assert "lists.csv was not written; labelgap recommend model.labelgap --all --out lists.csv" in told
    assert not Path("lists.csv").exists()
    assert run_json("fit", ratings, *QUICK_FIT, "--lists", "a.csv", "--force", code=130)["lists"] is None


def test_a_fit_does_not_hold_the_file_that_it_has_read(
    ratings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheets: list[weakref.ref[CsvSheet]] = []
    read, fit = CsvSheet.read, labelgap.Recommender.fit

    def watched(sheet: CsvSheet, *names: Any) -> Any:
        sheets.append(weakref.ref(sheet))
        return read(sheet, *names)

    def fitted(model: labelgap.Recommender, *arguments: object, **options: object) -> labelgap.Recommender:
        gc.collect()
        assert [sheet() for sheet in sheets] == [None]
        return fit(model, *arguments, **options)

    monkeypatch.setattr(CsvSheet, "read", watched)
    monkeypatch.setattr(labelgap.Recommender, "fit", fitted)
    run("fit", ratings, *QUICK_FIT)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--lists", "model.labelgap"), 2, "the model itself is saved under that name"),
        (("--lists", "lists.xlsx"), 1, "'.xlsx' does not say what format to write. Let the name end in .csv"),
        (("--lists", "there.csv"), 1, "there.csv exists already. Say --force to replace it"),
        (("--lists", "lists.csv", "--setting", "features"), 2, "it is for recommender"),
    ],
)
def test_lists_that_cannot_be_written(
    arguments: tuple[str, ...], code: int, words: str, ratings: Path
) -> None:
    Path("there.csv").write_text("")
    assert words in error_of("fit", ratings, "--positive", "4", *arguments, code=code)
    assert not Path("model.labelgap").exists()


def test_users_of_a_file_into_a_pipe(fitted: dict[str, Path]) -> None:
    Path("users.txt").write_text("u3\n\nu4\n")
    lines = run("recommend", fitted["films"], "--users-file", "users.txt", "-n", "1").stdout.splitlines()
    assert lines[0] == "user,rank,item,decision,probability"
    assert [line.split(",")[0] for line in lines[1:]] == ["u3", "u4"]


def test_reasons(fitted: dict[str, Path]) -> None:
    told = run("recommend", fitted["films"], "--user", "u1", "-n", "1", "--why").stdout
    assert "the item in general" in told
    assert "like" in told
    said = run_json("recommend", fitted["films"], "--user", "u1", "-n", "1", "--why")
    why = said["recommendations"][0]["why"]
    assert set(why["answers"][0]) == {"item", "answer", "contribution"}


def test_ids_that_are_numbers_are_found(ratings: Path) -> None:
    ratings.write_text(ratings.read_text().replace("\nu", "\n"))
    options = ("--positive", "4", "--trace-penalty", "0.02", "--threshold", "train", "--quiet")
    run("fit", ratings, *options)
    said = run_json("recommend", "model.labelgap", "--user", "7", "-n", "1")
    assert said["recommendations"][0]["user"] == 7


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "say for whom"),
        (("--user", "u1", "--all"), 2, "say for whom"),
        (("--user", "u1", "--why", "--out", "x.csv"), 2, "no column for reasons"),
        (("--user", "u1", "-n", "0"), 2, "-n"),
        (("--user", "u99"), 1, "The model knows no user 'u99'. Did you mean 'u9'"),
        (("--users-file", "empty.txt"), 1, "empty.txt names no user"),
    ],
)
def test_problems(arguments: tuple[str, ...], code: int, words: str, fitted: dict[str, Path]) -> None:
    Path("empty.txt").write_text("\n")
    assert words in error_of("recommend", fitted["films"], *arguments, code=code)


def test_a_model_without_users(fitted: dict[str, Path]) -> None:
    told = error_of("recommend", fitted["articles"], "--user", "u1")
    assert "is a LowRankClassifier, which has no users; see labelgap predict" in told


# -- items that cannot be shown, and items without ratings -------------------------------------------------


def test_items_are_unavailable_until_a_date(fitted: dict[str, Path]) -> None:
    def items(*options: object) -> list[Any]:
        said = run_json("recommend", fitted["films"], "--user", "u1", "-n", "3", "--with-seen", *options)
        return [one["item"] for one in said["recommendations"]]

    best = items()
    Path("coming.csv").write_text(f"{best[0]},2024-05-31\n{best[1]}\n\n")
    options = ("--unavailable", "coming.csv")
    assert items(*options)[:2] == [best[0], best[2]]
    assert items(*options, "--at", "2024-05-30")[0] == best[2]
    assert items(*options, "--at", "2024-05-31")[:2] == [best[0], best[2]]
    Path("coming.csv").write_text(f"{best[0]}\tsoon\n")
    said = error_of("recommend", fitted["films"], "--all", *options)
    assert "coming.csv, item 1: what stands after the item must be a date" in said
    Path("coming.csv").write_text("a,b,c\n")
    assert "'a,b,c' has 3 parts" in error_of("recommend", fitted["films"], "--all", *options)
    Path("coming.csv").write_text("nothing,2024-05-31\n")
    assert "knows no item 'nothing'" in error_of("recommend", fitted["films"], "--all", *options)
    Path("coming.csv").write_text(f"{best[0]},2024-05-31\n")
    assert "at must be a date" in error_of("recommend", fitted["films"], "--all", *options, "--at", "noon")
    assert "for the dates of --unavailable" in error_of(
        "recommend", fitted["films"], "--all", "--at", "2024-05-31", code=2
    )


def test_items_without_ratings_have_their_places(ratings: Path, fitted: dict[str, Path]) -> None:
    names = sorted({line["item"] for line in csv.DictReader(ratings.read_text().splitlines())})
    lines = [f"{name},{len(name) % 3},{j % 2}" for j, name in enumerate([*names, "new film", "other film"])]
    Path("items.csv").write_text("\n".join(["item,length,colour", *lines]) + "\n")
    run("fit", ratings, *QUICK_FIT, "--for", "recommend", "--items", "items.csv", "--out", "m.labelgap")
    said = run_json("recommend", "m.labelgap", "--user", "u1", "-n", "4", "--with-seen", "--explore", "0.5")
    found = [(one["item"], one["exploratory"]) for one in said["recommendations"]]
    assert [new for _, new in found] == [True, False, True, False]
    assert {item for item, new in found if new} == {"new film", "other film"}
    run(
        "recommend", "m.labelgap", "--all", "--with-seen", "--explore", "0.25", "-n", "4", "--out", "best.csv"
    )
    with open("best.csv", newline="", encoding="utf-8") as file:
        assert sum(line["exploratory"] == "True" for line in csv.DictReader(file)) == 12
    assert "exploratory" in run("recommend", "m.labelgap", "--all", "--explore", "0.25").stdout
    assert "exploratory" not in run("recommend", "m.labelgap", "--all").stdout
    assert "without item_features" in error_of("recommend", fitted["films"], "--all", "--explore", "0.5")
