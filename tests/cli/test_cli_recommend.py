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
