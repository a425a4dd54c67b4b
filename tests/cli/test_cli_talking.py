"""How much the commands say, and that their advice can be followed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cli_runs import QUICK, error_of, process, run, run_json, standard_input

import labelgap
from labelgap import LowRankClassifier
from labelgap.cli.app import COMMANDS

STAGE = re.compile(r"^\[ *\d+\.\d s\] (.*)$", re.MULTILINE)


def test_a_fit_without_a_terminal_says_its_stages_with_the_time() -> None:
    options = ("--labels", "tag_*", "--tol", "0.01", "--ridge-penalty", "0.1", "--rank", "1")
    result = run("fit", "articles.csv", *options)
    stages = STAGE.findall(result.stderr)
    assert stages[0] == "choosing penalties"
    assert any(re.fullmatch(r"\d+ candidates judged, best micro-f1 0\.\d{4}", line) for line in stages)
    assert re.fullmatch(r"duality gap \S+ \(asked for 1.0e-02\), rank 1", stages[-1])
    assert "Fitted a LowRankClassifier" in result.stdout


def test_more_and_less_is_said_on_request() -> None:
    arguments = ("fit", "articles.csv", "--labels", "tag_*", "--force", *QUICK[:-1])
    told = STAGE.findall(run(*arguments, "-v").stderr)
    assert told[0] == "read 300 rows of articles.csv"
    quiet = run(*arguments, "-q")
    assert (quiet.stdout, quiet.stderr) == ("", "")
    assert STAGE.findall(run(*arguments, "--json").stderr) == []
    assert "it is the opposite of --quiet" in error_of(*arguments, "-q", "-v", code=2)


def test_every_command_can_be_quiet_and_talk(fitted: dict[str, Path]) -> None:
    for name in COMMANDS:
        told = run(name, "--help").stdout
        assert "--quiet" in told, name
        assert "--verbose" in told, name
    commands = [
        ("predict", fitted["articles"], "new_articles.csv", "--out", "d.csv", "--force"),
        ("evaluate", fitted["articles"], "new_articles.csv"),
        ("report", fitted["articles"], "new_articles.csv", "--force"),
        ("recommend", fitted["films"], "--user", "u1"),
        ("info", "articles.csv"),
    ]
    for arguments in commands:
        assert STAGE.findall(run(*arguments, "-v").stderr), arguments
    quiet = run("info", fitted["articles"], "-q")
    assert (quiet.stdout, quiet.stderr) == ("", "")


def test_a_model_of_many_features_takes_a_page() -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((30, 1000))
    model = LowRankClassifier(trace_penalty=0.5, threshold="train").fit(X, (X[:, :2] > 0).astype(float))
    model.feature_names_in_ = np.array([f"feature number {at}" for at in range(1000)], dtype=object)
    model.save("wide.labelgap")
    told = run("info", "wide.labelgap").stdout
    assert len(told.splitlines()) < 30
    assert "and 980 more" in " ".join(told.split())
    assert len(run_json("info", "wide.labelgap")["feature_names"]) == 1000


def test_counts_are_written_in_one_way() -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 1449))
    Y = np.where(rng.uniform(size=(60, 250)) < 0.999, X[:, :250] > 0, np.nan)
    np.savez("wide.npz", X=X, Y=Y)
    told = run(
        "fit", "wide.npz", "--trace-penalty", "5", "--ridge-penalty", "1", "--threshold", "train"
    ).stdout
    assert re.search(r"features +1449\n", told)
    assert "of 15000 entries" in told


# -- advice that can be followed ----------------------------------------------------------------------------


def test_threshold_lists_the_formats_that_it_takes() -> None:
    told = " ".join(run("threshold", "--help", width=200).stdout.split())
    assert "csv, tsv, parquet, npz." in told
    assert "arff" not in told
    assert "'arff' is no format of tables of numbers" in error_of(
        "threshold", "articles.csv", "articles.csv", "--format", "arff", code=2
    )


def test_predict_advises_no_option_that_it_lacks(fitted: dict[str, Path]) -> None:
    lines = Path("new_articles.csv").read_text().splitlines()
    header = lines[0].split(",")
    column = next(at for at, name in enumerate(header) if name not in ("id",) and not name.startswith("tag_"))
    for value in ("", "many", "inf"):
        row = lines[1].split(",")
        row[column] = value
        Path("bad.csv").write_text("\n".join([lines[0], ",".join(row), *lines[2:]]))
        told = error_of("predict", fitted["articles"], "bad.csv")
        assert repr(header[column]) in told
        assert "--drop" not in told
        assert "--categorical" not in told


ARFF = """@relation songs
@attribute pace numeric
@attribute key {1,2,3}
@attribute calm {0,1}
@attribute sad {0,1}
@data
"""


def test_an_arff_without_its_xml_lacks_the_list_of_labels() -> None:
    Path("songs.arff").write_text(ARFF + "".join(f"{at / 9},{at % 3 + 1},?,{at % 2}\n" for at in range(9)))
    told = error_of("fit", "songs.arff")
    assert "which attributes are labels? There is no XML file beside it" in told
    assert "'?' is a missing value" not in told
    Path("gaps.arff").write_text(
        ARFF
        + "".join(f"{'?' if at == 4 else at / 9},{at % 3 + 1},{at % 2},{int(at > 3)}\n" for at in range(9))
    )
    told = error_of("fit", "gaps.arff", "--labels", "calm,sad")
    assert "attribute 'pace': '?' is a missing value. Fill it in (--impute median), or leave it out" in told
    run("fit", "gaps.arff", "--labels", "calm,sad", "--impute", "median", *QUICK)
    assert run_json("predict", "model.labelgap", "gaps.arff")["rows"] == 9


def test_a_pipe_from_standard_input(fitted: dict[str, Path]) -> None:
    with standard_input("new_articles.csv"):
        done = run("predict", fitted["articles"], "-")
    assert done.stdout == run("predict", fitted["articles"], "new_articles.csv").stdout
    with standard_input("new_articles.csv"):
        looked = run("info", "-")
    assert "rows     200" in looked.stdout
    with standard_input("new_articles.csv"):
        found = run("threshold", "-", "--score-column", "words", "--label-column", "tag_sport")
    assert "200 known entries" in found.stdout
    assert "path 'none.csv' does not exist" in error_of("predict", fitted["articles"], "none.csv", code=2)


@pytest.mark.slow
def test_a_pipe_into_a_process(fitted: dict[str, Path]) -> None:
    with open("new_articles.csv") as file:
        done = process("predict", fitted["articles"], "-", stdin=file)
    assert done.returncode == 0
    assert done.stdout == run("predict", fitted["articles"], "new_articles.csv").stdout


@pytest.mark.parametrize("format", ["parquet", "npz"])
def test_other_formats_through_standard_input(format: str) -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((30, 3))
    Y = (X[:, :2] > 0).astype(float)
    path = Path(f"train.{format}")
    if format == "npz":
        np.savez(path, X=X, Y=Y)
    else:
        columns = {f"x{at}": X[:, at] for at in range(3)} | {f"y{at}": Y[:, at] for at in range(2)}
        labelgap.data.write_columns(path, columns)
    options = () if format == "npz" else ("--labels", "y*")
    with standard_input(path):
        done = run("fit", "-", "--format", format, *options, *QUICK)
    assert done.stderr == ""
