"""What users read: options instead of parameters, refusals, narrow tables."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_runs import QUICK, error_of, run, run_json

import labelgap
from labelgap.cli.session import in_options

TAGS = ("--labels", "tag_*")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("pass unobserved='negative', or 'missing'", "pass --unobserved negative, or 'missing'"),
        ("say unobserved='negative' (--unobserved negative); so", "say --unobserved negative; so"),
        ("Name it with format= (--format).", "Name it with --format."),
        ("leave it out with drop (--drop a(b)).", "leave it out with --drop a(b)."),
        (
            "likes as positive=4, together with positive=...",
            "likes as --positive 4, together with --positive",
        ),
        ("n_jobs must be 1", "--jobs must be 1"),
        ("flip_rate is for these; use flip_rate.", "--flip-rate is for these; use --flip-rate."),
        ("flip_rate.csv lacks 'flip_rate', my/label_file", "flip_rate.csv lacks 'flip_rate', my/label_file"),
        ("the column 'positive=4' and n_jobs_2", "the column 'positive=4' and n_jobs_2"),
        ("Fit again with checkpoint='kept' to go on.", "Fit again with --checkpoint kept to go on."),
    ],
)
def test_parameters_become_options(message: str, words: str) -> None:
    assert in_options(message) == words


@pytest.mark.parametrize("command", [("fit", "articles.csv", *TAGS), ("demo",)])
def test_a_seed_that_is_too_large(command: tuple[str, ...]) -> None:
    assert "--seed" in error_of(*command, "--seed", "99999999999", code=2)


def test_a_correction_needs_a_flip_rate(fitted: dict[str, Path], positives: Path) -> None:
    told = error_of("evaluate", fitted["articles"], "new_articles.csv", "--unobserved", "unlabelled", code=2)
    assert "so it has no flip rate to correct by" in told
    said = run_json("evaluate", positives, "new_articles.csv", "--unobserved", "unlabelled")
    assert re.match(
        r"\d+ entries are known as no, and --unobserved unlabelled takes them", said["warnings"][0]
    )


def test_a_regression_with_exposures_is_judged_in_python() -> None:
    rng = np.random.RandomState(0)
    X, exposure = rng.standard_normal((40, 2)), rng.uniform(1, 3, (40, 2))
    model = labelgap.LowRankRegressor(family="poisson", trace_penalty=0.05, ridge_penalty=0.01)
    model.fit(X, rng.poisson(exposure), exposure=exposure).save("m.labelgap")
    np.savez("d.npz", X=X, Y=rng.poisson(exposure))
    assert "write_report(..., exposure=...)" in error_of("report", "m.labelgap", "d.npz")
    assert "model.score(X, y, exposure=...)" in error_of("evaluate", "m.labelgap", "d.npz")


def test_numbers_are_whole_in_40_columns(fitted: dict[str, Path]) -> None:
    command = ("evaluate", fitted["articles"], "new_articles.csv", "--per-label")
    wide, narrow = run(*command).stdout, run(*command, width=40).stdout
    # The first line is never broken.
    assert max(map(len, narrow.splitlines()[1:])) <= 40
    numbers = r"(?<!\S)[\d.]+(?!\S)"
    assert sorted(re.findall(numbers, narrow)) == sorted(re.findall(numbers, wide))


@pytest.mark.parametrize("arguments", ["--help", "fit --help", "--version"])
@pytest.mark.slow
def test_a_closed_pipe_ends_help(arguments: str) -> None:
    command = f"{sys.executable} -m labelgap {arguments} | true"
    done = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("141\n", "")


def test_an_interrupted_fit_goes_on_without_force() -> None:
    run("fit", "articles.csv", *TAGS, *QUICK)
    model = labelgap.load("model.labelgap")
    again = ("fit", "articles.csv", *TAGS, "--checkpoint", "kept", *QUICK)
    Path("kept").mkdir()
    assert "exists already" in error_of(*again), "it is complete"
    model.interrupted_ = True
    model.save("model.labelgap")
    run(*again)
    assert not labelgap.load("model.labelgap").interrupted_
    Path("model.labelgap").write_text("precious")
    Path("kept").mkdir(exist_ok=True)
    assert "exists already" in error_of(*again)
