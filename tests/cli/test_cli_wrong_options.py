"""Options and files that are slightly wrong: the error says what, where and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runs import QUICK, error_of, run, run_json

TAGS = ("--labels", "tag_*", "--id", "id")


@pytest.mark.parametrize("command", ["fit", "complete", "threshold"])
@pytest.mark.parametrize("bound", ["recall > 0.9", "recall", "recall >= 90%", "foo >= 0.5", ""])
def test_a_bound_that_cannot_be_read(command: str, bound: str) -> None:
    files = ("articles.csv", "new_articles.csv") if command == "threshold" else ("articles.csv", *TAGS)
    said = error_of(command, *files, "--subject-to", bound)
    words = (
        "Unknown metric 'foo'" if bound.startswith("foo") else f"--subject-to holds {bound!r}, which is no"
    )
    assert said.startswith(f"Error: {words}")
    error = run_json(command, *files, "--subject-to", bound, code=1)["error"]
    assert error["exit_code"] == 1
    assert words in error["message"]


def test_more_jobs_than_there_is_work_for() -> None:
    options = ("--trace-penalty", "0.05", "--ridge-penalty", "0.01", "--quiet")
    run("fit", "articles.csv", *TAGS, *options, "--jobs", "99999")


# -- columns -----------------------------------------------------------------------------------------------


def test_repeated_options_may_have_commas() -> None:
    labels = ("--labels", "tag_business", "--labels", "tag_politics,tag_sport")
    drop = ("--drop", "tag_travel", "--drop", "tag_culture, tag_data")
    told = run_json("fit", "articles.csv", *labels, *drop, *QUICK[:-1])
    assert (told["labels"], told["features"]) == (3, 8)
    assert run_json("info", "articles.csv", *labels)["labels"] == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--labels", "12"), "'12' in labels matches no column"),
        (("--labels", "12"), "The column with the number 12, counted from 1, is written 12:12."),
        (("--labels", "tag_*", "--drop", "*"), "all columns but the ids are left out with --drop"),
        (
            ("--labels", "tag_*", "--drop", "tag_*"),
            "every column that 'tag_*' in labels matches is dropped already",
        ),
        ((*TAGS, "--encoding", "utf-16"), "Leave --encoding out, so that the encoding is found"),
    ],
)
def test_what_is_wrong_with_the_columns(arguments: tuple[str, ...], words: str) -> None:
    # With an odd number of bytes it would be no UTF-16 at all.
    table = Path("articles.csv").read_bytes()
    Path("even.csv").write_bytes(table + b"\n" * (len(table) % 2))
    assert words in error_of("fit", "even.csv", *arguments)


def test_a_file_without_a_header_is_warned_of() -> None:
    rows = Path("articles.csv").read_text().splitlines()[1:]
    filled = next(row for row in rows if "" not in row.split(","))
    numbers = [f"{at}.5" for at in range(len(filled.split(",")) - 1)]
    Path("bare.csv").write_text("\n".join([",".join(["A1", *numbers]), *rows]))
    told = run("info", "bare.csv")
    assert "Warning: bare.csv, line 1: most names in the header are numbers" in told.stderr


@pytest.mark.parametrize(
    ("option", "value"), [("--positive", "4"), ("--lists", "best.csv"), ("--silence-weight", "0.1")]
)
def test_the_option_that_chose_the_setting_is_named(option: str, value: str) -> None:
    said = error_of("fit", "articles.csv", *TAGS, option, value, code=2)
    assert f"it has no use in the setting 'recommender', which {option} chose" in said
    assert "Leave one of the two out" in said
    said = error_of("fit", "articles.csv", *TAGS, option, value, "--setting", "features", code=2)
    assert f"'{option}': it has no use in the setting 'features'; it is for recommender" in said


# -- formats -----------------------------------------------------------------------------------------------


def test_the_suffix_of_what_is_written(fitted: dict[str, Path]) -> None:
    for name in ("out.xlsx", "out.txt", "out", "out.csv.bz2"):
        said = error_of("predict", fitted["articles"], "new_articles.csv", "--out", name)
        assert "Let the name end in .csv, .tsv, .parquet or .npz" in said
        assert "--format" not in said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.csv.bz2", "files packed by bzip2 are not read. Unpack it first"),
        ("a.csv.zst", "files packed by Zstandard are not read"),
        ("a.feather", "Feather files are not read. Save the table as CSV or Parquet"),
        ("a.jsonl", "JSON Lines files are not read"),
    ],
)
def test_formats_that_are_not_read(name: str, words: str) -> None:
    Path(name).write_text("x")
    said = error_of("fit", name, "--labels", "y")
    assert words in said
    assert "--format" not in said


# -- ratings -----------------------------------------------------------------------------------------------

RATED = ("--trace-penalty", "0.02", "--threshold", "train", "--quiet")


def test_contradicting_ratings_are_named_by_their_lines(ratings: Path, fitted: dict[str, Path]) -> None:
    lines = ratings.read_text().splitlines()
    user, item, value = lines[1].split(",")
    other = 1 if float(value) >= 4 else 5
    # An empty line is no rating, but is counted in the file.
    ratings.write_text("\n".join([*lines, "", f"{user},{item},{other}"]) + "\n")
    words = (
        f"there are two ratings of item {item!r} by user {user!r}, {value} in line 2 and {other} in line "
        f"{len(lines) + 2}."
    )
    assert words in error_of("fit", ratings, "--positive", "4", *RATED)
    assert words in error_of("evaluate", fitted["films"], ratings)
    assert words in error_of("update", fitted["films"], ratings, "--out", "later.labelgap")


def test_contradicting_ratings_of_a_file_without_a_header() -> None:
    Path("u.data").write_text("1\t7\t5\t0\n2\t7\t1\t0\n\n1\t7\t2\t0\n")
    said = error_of("fit", "u.data", "--positive", "4", *RATED)
    assert "item 7 by user 1, 5 in line 1 and 2 in line 4." in said


def test_ratings_that_repeat_count_once(ratings: Path) -> None:
    lines = ratings.read_text().splitlines()
    ratings.write_text("\n".join([*lines, *lines[1:4]]) + "\n")
    told = run_json("fit", ratings, "--positive", "4", *RATED[:-1])
    assert told["answers"] == len(lines) - 1


def test_a_value_for_positive_that_divides_nothing(ratings: Path) -> None:
    said = error_of("fit", ratings, "--positive", "40", *RATED)
    assert "no rating is 40 or more, so none is a like. The ratings are from 1 to 5" in said
    assert "another value for --positive" in said
    said = error_of("fit", ratings, "--positive", "0.5", *RATED)
    assert "every rating is 0.5 or more" in said
    assert "--for recommend" in said


def test_likes_with_further_columns(ratings: Path) -> None:
    lines = [line.split(",") for line in ratings.read_text().splitlines()[1:]]
    likes = [f"{user},{item},2024-05-31" for user, item, value in lines if float(value) >= 4]
    Path("likes.csv").write_text("\n".join(["user,item,date", *likes]) + "\n")
    said = error_of("fit", "likes.csv", "--user", "user", "--item", "item")
    # A date is no rating.
    assert "Say which one holds the ratings, or --value none where each line is a like" in said
    assert "Its columns are 'user', 'item', 'date'." in said
    options = ("--for", "recommend", "--trace-penalty", "0.05", "--quiet")
    run("fit", "likes.csv", "--value", "none", *options, "--out", "likes.labelgap")
    # Later files are read in the same way.
    Path("later.csv").write_text("user,item,date\nu0,film 1,2024-06-01\nnew,film 0,2024-06-01\n")
    run("update", "likes.labelgap", "later.csv", "--quiet")
    assert run_json("info", "likes.labelgap")["users"] == 13
    assert "each line is a like" in error_of("fit", "likes.csv", "--value", "none", "--positive", "4", code=2)


def test_unknown_users_are_named_by_their_lines(fitted: dict[str, Path]) -> None:
    Path("pairs.csv").write_text("user,item\nu1,film 1\n\nnobody,film 1\nu1,nothing\n")
    said = error_of("predict", fitted["films"], "pairs.csv")
    assert "pairs.csv, line 4: the user 'nobody' is not among the 12 users" in said
    assert "--unknown average" in said
    assert "--skip-unknown" in said
    assert "fold_in" not in said
    Path("pairs.csv").write_text("user,item,value\nu1,film 1,5\nu1,nothing,2\n")
    said = error_of("evaluate", fitted["films"], "pairs.csv", "--unknown", "raise")
    assert "pairs.csv, line 3: the item 'nothing' is not among the 8 items" in said
