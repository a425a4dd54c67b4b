"""Files as users have them: other formats, ids, pipes, columns that the model does not use."""

from __future__ import annotations

import csv
import os
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runs import QUICK, error_of, run, run_json

import labelgap
from labelgap.data.files import read_label_table, write_columns

FILMS = ("--positive", "4", "--trace-penalty", "0.02", "--threshold", "train", "--quiet")


def rows_of(path: str | Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def figures(model: Path, *arguments: object) -> dict[str, Any]:
    """What a model is worth, without the name of the file."""
    return run_json("evaluate", model, *arguments) | {"data": None}


# -- xmc ---------------------------------------------------------------------------------------------------


def xmc_lines(n: int, n_features: int = 6, n_labels: int = 4) -> list[str]:
    rng = np.random.RandomState(n)
    X = np.round(rng.uniform(0.1, 1, (n, n_features)), 3)
    Y = X[:, :n_labels] > 0.5
    return [
        ",".join(map(str, np.flatnonzero(yes))) + " " + " ".join(f"{at}:{v:g}" for at, v in enumerate(row))
        for row, yes in zip(X, Y, strict=True)
    ]


@pytest.fixture
def xmc(tmp_path: Path) -> Path:
    Path("train.txt").write_text("\n".join(["60 6 4", *xmc_lines(60)]) + "\n")
    Path("test.txt").write_text("\n".join(["20 6 4", *xmc_lines(20)]) + "\n")
    run("fit", "train.txt", *QUICK)
    return Path("model.labelgap")


def test_xmc_files_are_predicted_judged_and_looked_at(xmc: Path) -> None:
    table = read_label_table("test.txt")
    assert table.labels is not None
    model = labelgap.load(xmc)
    run("predict", xmc, "test.txt", "--out", "d.csv")
    found = np.array([[int(row[f"label_{at}"]) for at in range(4)] for row in rows_of("d.csv")])
    assert np.array_equal(found, model.predict(table.X, output="dense"))
    said = run_json("evaluate", xmc, "test.txt")
    assert said["observed"] == 80
    assert said["metrics"]["micro-f1"] == model.score(table.X, table.labels)
    assert run_json("evaluate", xmc, "test.txt", "--unobserved", "missing")["observed"] < 80
    run("report", xmc, "test.txt")
    looked = run_json("info", "test.txt")
    assert (looked["features"], looked["labels"], looked["observed"]) == (6, 4, 80)
    assert looked["above_0"] == table.labels.values.sum()


def test_a_narrower_xmc_file_is_widened_and_a_wider_one_refused(xmc: Path) -> None:
    Path("whole.txt").write_text("2 6 4\n0 0:1 1:0.5\n 0:0.2\n")
    Path("narrow.txt").write_text("0 0:1 1:0.5\n 0:0.2\n")
    whole, narrow = (
        run("predict", xmc, name, "--what", "scores").stdout for name in ("whole.txt", "narrow.txt")
    )
    assert whole == narrow
    assert figures(xmc, "narrow.txt") == figures(xmc, "whole.txt")
    Path("wide.txt").write_text("0 0:1 9:0.5\n")
    assert "wide.txt has 10 features, and the model was fitted to 6" in error_of("predict", xmc, "wide.txt")
    Path("more.txt").write_text("7 0:1 5:0.5\n")
    assert "more.txt has 8 labels, and the model was fitted to 4" in error_of("evaluate", xmc, "more.txt")


# -- arff --------------------------------------------------------------------------------------------------


@pytest.fixture
def arff(tmp_path: Path) -> Path:
    """A model of one number and one nominal attribute, fitted without the attribute that is text."""
    header = [
        "@relation songs",
        "@attribute title string",
        "@attribute pace numeric",
        "@attribute key {major, minor}",
        "@attribute calm {0,1}",
        "@attribute sad {0,1}",
        "@data",
    ]
    rng = np.random.RandomState(0)
    paces = rng.uniform(0, 1, 40)
    rows = [f"'song {at}',{p:.3f},{'major' if at % 2 else 'minor'}" for at, p in enumerate(paces)]
    known = [f"{row},{int(p < 0.5)},{at % 2}" for at, (row, p) in enumerate(zip(rows, paces, strict=True))]
    Path("songs.arff").write_text("\n".join([*header, *known]))
    Path("songs.xml").write_text(
        '<labels xmlns="http://mulan.sourceforge.net/labels"><label name="calm"/><label name="sad"/></labels>'
    )
    # No XML beside it, and nothing known in it.
    Path("fresh.arff").write_text("\n".join([*header, *(f"{row},?,?" for row in rows)]))
    Path("judged.arff").write_text("\n".join([*header, *known]))
    run("fit", "songs.arff", "--drop", "title", *QUICK)
    return Path("model.labelgap")


def test_attributes_that_the_model_does_not_use_are_passed_over(arff: Path) -> None:
    run("predict", arff, "songs.arff", "--out", "a.csv")
    run("predict", arff, "fresh.arff", "--out", "b.csv")
    assert Path("a.csv").read_text() == Path("b.csv").read_text()
    assert list(rows_of("a.csv")[0]) == ["row", "calm", "sad"]
    here = figures(arff, "songs.arff")
    assert figures(arff, "judged.arff") == here
    assert here["observed"] == 80
    run("report", arff, "judged.arff")
    text = Path("fresh.arff").read_text()
    Path("less.arff").write_text(text.replace("attribute pace", "attribute speed"))
    assert "lacks 1 of the 3 features of the model: 'pace'" in error_of("predict", arff, "less.arff")


def test_info_of_arff_files_with_text(arff: Path) -> None:
    said = run_json("info", "songs.arff")
    assert (said["rows"], said["features"], said["labels"], said["text"]) == (40, 3, 2, ["title"])
    assert run_json("info", "fresh.arff")["rows"] == 40


# -- ids ---------------------------------------------------------------------------------------------------


@pytest.fixture
def two_files(tmp_path: Path) -> tuple[str, str]:
    """The features of new_articles.csv, and its labels in the opposite order beside a column of remarks."""
    table = [line.split(",") for line in Path("new_articles.csv").read_text().splitlines()]
    Path("x.csv").write_text("\n".join(",".join(row[:9]) for row in table))
    header, *rows = [[row[0], *row[9:], "why"] for row in table]
    Path("y.csv").write_text("\n".join(",".join(row) for row in [header, *rows[::-1]]))
    return "x.csv", "y.csv"


def test_labels_of_a_second_file_are_matched_by_id(
    fitted: dict[str, Path], two_files: tuple[str, str]
) -> None:
    features, labels = two_files
    here = figures(fitted["articles"], "new_articles.csv")
    assert figures(fitted["articles"], features, "--label-file", labels) == here
    for name in two_files:
        Path(f"k{name}").write_text(Path(name).read_text().replace("id,", "key,", 1))
    assert figures(fitted["articles"], "kx.csv", "--label-file", "ky.csv", "--id", "key") == here
    assert figures(fitted["articles"], "kx.csv", "--label-file", "ky.csv") != here
    run("report", fitted["articles"], "kx.csv", "--label-file", "ky.csv", "--id", "key")
    Path("ID.csv").write_text(Path(labels).read_text().replace("id,", "ID,", 1))
    assert "Give both the same name" in error_of(
        "evaluate", fitted["articles"], features, "--label-file", "ID.csv"
    )


def test_a_second_file_without_ids_goes_by_order(fitted: dict[str, Path], two_files: tuple[str, str]) -> None:
    lines = Path("new_articles.csv").read_text().splitlines()
    Path("bare.csv").write_text("\n".join(",".join(line.split(",")[9:]) for line in lines))
    here = figures(fitted["articles"], "new_articles.csv")
    assert figures(fitted["articles"], two_files[0], "--label-file", "bare.csv") == here
    assert "lacks 6 of the 6 labels" in error_of(
        "evaluate", fitted["articles"], two_files[0], "--label-file", "x.csv"
    )


def test_a_fit_matches_a_second_file_by_id(two_files: tuple[str, str]) -> None:
    said = run_json("fit", "x.csv", "--label-file", "y.csv", "--labels", "tag_*", *QUICK)
    assert said["ids"] == "id"
    one = labelgap.load("model.labelgap").coef_
    run("fit", "new_articles.csv", "--labels", "tag_*", "--out", "other.labelgap", *QUICK)
    assert np.array_equal(one, labelgap.load("other.labelgap").coef_)


def test_a_column_called_id_is_no_feature() -> None:
    text = Path("articles.csv").read_text().replace("\nA", "\n")
    Path("numbered.csv").write_text(text)
    told = run("fit", "numbered.csv", "--labels", "tag_*", *QUICK[:-1]).stdout
    assert ["ids", "id"] in [line.split() for line in told.splitlines()]
    assert labelgap.load("model.labelgap").n_features_in_ == 8
    assert (
        "ids "
        not in run("fit", "numbered.csv", "--labels", "tag_*", "--id", "id", "--force", *QUICK[:-1]).stdout
    )
    run("fit", "numbered.csv", "--labels", "tag_*", "--features", "id,words", "--force", *QUICK)
    assert labelgap.load("model.labelgap").n_features_in_ == 2


def test_users_are_the_same_whatever_the_file_takes_them_for(ratings: Path) -> None:
    # One user of letters makes all of them text.
    text = ratings.read_text().replace("\nu", "\n").replace("\n11,", "\neve,")
    ratings.write_text(text)
    run("fit", ratings, *FILMS)
    Path("numbers.csv").write_text("\n".join(line for line in text.splitlines() if "eve" not in line))
    run("predict", "model.labelgap", "numbers.csv", "--out", "d.csv")
    assert run_json("evaluate", "model.labelgap", "numbers.csv")["observed"] > 0
    assert run_json("evaluate", "model.labelgap", "numbers.csv", "--skip-unknown")["warnings"] == []
    run("report", "model.labelgap", "numbers.csv")
    Path("numbers.csv").write_text("user,item\n99,film 1\n")
    assert "99" in error_of("predict", "model.labelgap", "numbers.csv")


def test_the_header_of_movielens_says_that_there_are_ratings() -> None:
    lines = [f"{u},{i},{1 + (u * i) % 5},0" for u in range(1, 9) for i in range(1, 7) if (u + i) % 4]
    Path("ratings.csv").write_text("\n".join(["userId,movieId,rating,timestamp", *lines]))
    assert run_json("fit", "ratings.csv", "--positive", "3", *FILMS[2:])["kind"] == "Recommender"
    assert run_json("fit", "ratings.csv", "--force", *FILMS)["kind"] == "Recommender"
    assert "--positive 4 for 4 and more." in error_of("fit", "ratings.csv", "--force")
    assert run_json("info", "ratings.csv")["what"] == "answers"


# -- names of columns --------------------------------------------------------------------------------------


@pytest.fixture
def odd_names(tmp_path: Path) -> Path:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((30, 2))
    columns = {
        "x": X[:, 0],
        "y": X[:, 1],
        "row": X[:, 0] > 0,
        "a": X[:, 1] > 0,
        "a_probability": X[:, 0] > X[:, 1],
    }
    write_columns("odd.csv", {name: np.asarray(column, dtype=np.float64) for name, column in columns.items()})
    run("fit", "odd.csv", "--labels", "row,a,a_probability", *QUICK)
    return Path("model.labelgap")


def test_a_label_does_not_replace_the_ids(odd_names: Path) -> None:
    run("predict", odd_names, "odd.csv", "--out", "d.csv")
    found = rows_of("d.csv")
    assert list(found[0]) == ["row_id", "row", "a", "a_probability"]
    assert [row["row_id"] for row in found[:3]] == ["0", "1", "2"]
    assert {row["row"] for row in found} <= {"0", "1"}
    told = error_of("predict", odd_names, "odd.csv", "--what", "all")
    assert "Two columns would be called 'a_probability'. Write one thing at a time with --what" in told
    write_columns("named.csv", {"label": list("ab"), "x": [0.5, 1.0], "y": [2.0, 1.0]})
    run("predict", odd_names, "named.csv", "--id", "label", "--long", "--all", "--out", "long.csv")
    assert [row["row_id"] for row in rows_of("long.csv")][::3] == ["a", "b"]


def test_a_score_does_not_replace_the_ids() -> None:
    write_columns("s.csv", {"row": [0.2, 0.9, 0.8]})
    write_columns("l.csv", {"row": [0, 1, 1]})
    run("threshold", "s.csv", "l.csv", "--out", "d.csv")
    assert rows_of("d.csv") == [{"row_id": str(at), "row": str(int(at > 0))} for at in range(3)]


def test_info_looks_at_the_labels_only() -> None:
    text = Path("articles.csv").read_text().replace("id,", "title,", 1)
    Path("titles.csv").write_text(text)
    said = run_json("info", "titles.csv", "--labels", "tag_*")
    assert (said["rows"], said["features"], said["labels"]) == (300, 9, 6)
    assert run_json("info", "articles.csv", "--labels", "tag_*")["features"] == 8, "as in a fit"


# -- pipes, folders, other alphabets -----------------------------------------------------------------------


class Opened:
    """Counts how often files are opened, by their names; the hook of Python cannot be taken away again."""

    def __init__(self) -> None:
        self.counts: Counter[str] | None = None
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and self.counts is not None and isinstance(arguments[0], str | os.PathLike):
            self.counts[Path(arguments[0]).name] += 1

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        self.counts = counts = Counter()
        try:
            yield counts
        finally:
            self.counts = None


@pytest.fixture(scope="module")
def opened() -> Opened:
    return Opened()


@pytest.mark.parametrize(
    "command",
    [
        "fit articles.csv --labels tag_*",
        "fit x.csv --label-file y.csv --labels tag_*",
        "predict articles new_articles.csv",
        "evaluate articles new_articles.csv",
        "evaluate articles x.csv --label-file y.csv",
        "evaluate films ratings.csv",
        "report articles new_articles.csv",
        "info articles.csv --labels tag_*",
        "threshold p.csv new_articles.csv",
        "threshold p.csv --score-column tag_data --label-column tag_sport",
    ],
)
def test_a_data_file_is_opened_once(
    command: str, opened: Opened, fitted: dict[str, Path], two_files: tuple[str, str], ratings: Path
) -> None:
    rng = np.random.RandomState(0)
    write_columns("p.csv", {tag: rng.randint(0, 2, 200) for tag in ("tag_data", "tag_sport")})
    words = command.split()
    options = QUICK if words[0] == "fit" else ()
    with opened.counting() as counts:
        run(*(fitted.get(word, word) for word in words), *options)
    files = [word for word in words if word.endswith(".csv")]
    assert [counts[file] for file in files] == [1 for _ in files]


@pytest.mark.parametrize("name", ["new_articles.npz", "new_articles.arff", "new_articles.txt"])
def test_a_file_of_another_format_is_opened_once(name: str, opened: Opened) -> None:
    rng = np.random.RandomState(0)
    X, Y = np.round(rng.uniform(0.1, 1, (40, 2)), 3), rng.randint(0, 2, (40, 2))
    if name.endswith("npz"):
        np.savez(name, X=X, Y=Y, row_ids=np.arange(40))
    elif name.endswith("arff"):
        header = ["@relation 'r: -C -2'", *(f"@attribute x{at} numeric" for at in range(2))]
        header += [f"@attribute y{at} {{0,1}}" for at in range(2)]
        rows = [",".join(f"{v:g}" for v in row) for row in np.hstack([X, Y])]
        Path(name).write_text("\n".join([*header, "@data", *rows]))
    else:
        lines = [f"{int(y[0])} 0:{x[0]:g} 1:{x[1]:g}" for x, y in zip(X, Y, strict=True)]
        Path(name).write_text("\n".join(["40 2 2", *lines]))
    for command in (
        ("fit", name, *QUICK),
        ("predict", "model.labelgap", name),
        ("evaluate", "model.labelgap", name),
    ):
        with opened.counting() as counts:
            run(*command)
        assert counts[name] == 1, command


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_a_file(fitted: dict[str, Path], tmp_path: Path) -> None:
    def piped(*arguments: object, source: str = "new_articles.csv", code: int = 0) -> str:
        Path("pipe").unlink(missing_ok=True)
        os.mkfifo("pipe")

        def write() -> None:
            with open(source, "rb") as data, open("pipe", "wb") as pipe:
                shutil.copyfileobj(data, pipe)

        writer = threading.Thread(target=write)
        writer.start()
        result = run(*arguments, code=code)
        writer.join()
        return result.output

    csv_ = ("--format", "csv")
    assert (
        piped("predict", fitted["articles"], "pipe", *csv_)
        == run("predict", fitted["articles"], "new_articles.csv").stdout
    )
    assert (
        piped("evaluate", fitted["articles"], "pipe", *csv_)
        == run("evaluate", fitted["articles"], "new_articles.csv").stdout
    )
    run("predict", fitted["articles"], "new_articles.csv", "--what", "probabilities", "--out", "p.csv")
    assert (
        piped("threshold", "pipe", "new_articles.csv", *csv_, source="p.csv")
        == run("threshold", "p.csv", "new_articles.csv").stdout
    )
    assert "Fitted a LowRankClassifier to pipe in" in piped(
        "fit", "pipe", "--labels", "tag_*", *csv_, *QUICK[:-1], source="articles.csv"
    )
    assert piped("info", "pipe", *csv_).startswith("pipe: csv")
    wrong = piped("fit", "pipe", "--labels", "tags_*", *csv_, "--force", source="articles.csv", code=1)
    assert wrong.startswith("Error: pipe: 'tags_*'")


def test_input_that_is_no_file_is_told_in_json(fitted: dict[str, Path]) -> None:
    said = run_json("evaluate", fitted["articles"], "nowhere.csv", code=2)["error"]
    assert (said["type"], said["exit_code"]) == ("Usage", 2)
    assert said["message"] == "Invalid value for 'DATA': path 'nowhere.csv' does not exist."


def test_users_in_another_encoding_are_told_of(fitted: dict[str, Path]) -> None:
    Path("users.txt").write_bytes("u1\nZoë\n".encode("latin-1"))
    told = error_of("recommend", fitted["films"], "--users-file", "users.txt")
    assert told == "Error: users.txt, line 2: the byte 0xeb is not UTF-8; save the file as UTF-8."


def test_the_index_that_pandas_wrote_names_the_rows() -> None:
    frames = pytest.importorskip("pandas", reason="pandas is not installed")
    for name in ("articles", "new_articles"):
        frames.read_csv(f"{name}.csv").set_index("id").to_parquet(f"{name}.parquet")
    run("fit", "articles.parquet", "--labels", "tag_*", *QUICK, "--out", "m.labelgap")
    run("predict", "m.labelgap", "new_articles.parquet", "--out", "from_parquet.csv")
    run("predict", "m.labelgap", "new_articles.csv", "--out", "from_csv.csv")
    assert rows_of("from_parquet.csv") == rows_of("from_csv.csv")
