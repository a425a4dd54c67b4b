"""Files that commands write: what they never replace, and what an interrupt leaves behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from cli_runs import QUICK, error_of, run, run_json, standard_input

from labelgap import LowRankClassifier, demo
from labelgap.exceptions import InterruptedFitWarning
from labelgap.persistence.atomic import atomic_write

TAGS = ("--labels", "tag_*", "--id", "id")
TABLE = ("articles.csv", *TAGS)


# -- inputs, devices and pipes ---------------------------------------------------------------------------


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_an_input_is_never_replaced(fitted: dict[str, Path], force: tuple[str, ...]) -> None:
    shutil.copy(fitted["articles"], "own.labelgap")
    before = {name: Path(name).read_bytes() for name in ("articles.csv", "new_articles.csv", "own.labelgap")}
    model, new = "own.labelgap", "new_articles.csv"
    for arguments in (
        ("fit", *TABLE, "--out", "articles.csv"),
        ("complete", *TABLE, "--out", "articles.csv"),
        ("errors", *TABLE, "--out", "articles.csv"),
        ("predict", model, new, "--out", new),
        ("evaluate", model, new, "--out", new),
        ("suggest", model, new, "--out", new),
        ("update", model, new, "--out", new),
        ("report", model, new, "--out", model),
        ("report", fitted["articles"], new, "--compare", model, "--out", model),
        ("export", model, model),
        ("threshold", new, new, "--out", new),
        ("threshold", new, new, "--curve", new),
        ("split", new, "--train", new),
    ):
        said = error_of(*arguments, *force)
        assert "is read by this command, and what it holds would be lost" in said
        assert "Say --force" not in said
    assert before == {name: Path(name).read_bytes() for name in before}


def test_an_input_is_known_under_other_names(fitted: dict[str, Path]) -> None:
    os.symlink("new_articles.csv", "link.csv")
    assert "is read by" in error_of(
        "predict", fitted["articles"], "link.csv", "--out", "new_articles.csv", "--force"
    )
    with standard_input("new_articles.csv"):
        assert "is read by" in error_of(
            "predict", fitted["articles"], "-", "--out", "new_articles.csv", "--force"
        )


def test_tables_beside_ratings_and_lists_are_inputs_too(fitted: dict[str, Path], ratings: Path) -> None:
    Path("who.txt").write_text("u1\n")
    shutil.copy("who.txt", "who.csv")
    said = error_of("recommend", fitted["films"], "--users-file", "who.csv", "--out", "who.csv", "--force")
    assert "is read by" in said
    assert "is read by" in error_of("fit", ratings, "--positive", "4", "--lists", ratings, "--force")


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_devices_and_pipes_are_not_replaced(fitted: dict[str, Path], force: tuple[str, ...]) -> None:
    os.mkfifo("pipe.csv")
    for arguments in (
        ("fit", *TABLE, "--out", "pipe.csv"),
        ("predict", fitted["articles"], "new_articles.csv", "--out", "pipe.csv"),
        ("predict", fitted["articles"], "new_articles.csv", "--out", "/dev/null"),
        ("report", fitted["articles"], "new_articles.csv", "--out", "pipe.csv"),
        ("export", fitted["articles"], "pipe.csv"),
    ):
        said = error_of(*arguments, *force)
        assert "is a device or a pipe" in said
        assert "--force" not in said
    assert Path("pipe.csv").is_fifo()


def test_standard_output_is_a_stream_also_where_it_goes_to_a_file() -> None:
    with open("there.txt", "w") as file:
        done = subprocess.run(
            [sys.executable, "-m", "labelgap", "fit", *TABLE, "--out", "/dev/stdout", "--force", "--quiet"],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert done.returncode == 1
    assert "/dev/stdout is a device or a pipe" in done.stderr
    assert Path("there.txt").read_text() == ""


def test_a_file_that_is_replaced_in_one_step_is_no_pipe() -> None:
    os.mkfifo("pipe")
    with pytest.raises(OSError, match="device or a pipe"), atomic_write("pipe"):
        pass
    assert Path("pipe").is_fifo()
    assert os.listdir().count("pipe") == 1


def test_two_results_need_two_files() -> None:
    said = error_of("threshold", "articles.csv", "new_articles.csv", "--out", "a.csv", "--curve", "a.csv")
    assert "--out and --curve are both a.csv" in said


# -- the picture of the demo -----------------------------------------------------------------------------


def test_the_picture_of_the_demo_is_checked_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_work(*given: Any) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr("labelgap.demo.run", no_work)
    said = error_of("demo", "--picture", "dem.txt")
    assert "dem.txt: pictures are not saved in the format 'txt'. Let the name end in .png" in said
    assert "pictures need a format" in error_of("demo", "--picture", "dem")
    Path("keep.png").write_text("mine")
    assert "keep.png exists already. Say --force" in error_of("demo", "--picture", "keep.png")
    assert "no folder" in error_of("demo", "--picture", "nowhere/keep.png")
    assert Path("keep.png").read_text() == "mine"
    shown: list[Any] = []
    monkeypatch.setattr("labelgap.demo.run", lambda *given: shown.append(given))
    run("demo", "--picture", "keep.png", "--force")
    assert len(shown) == 1


def test_the_demo_as_a_module_checks_the_picture_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        demo.main(["--picture", "dem.txt"])
    assert "pictures are not saved in the format 'txt'" in capsys.readouterr().err


# -- interrupts ------------------------------------------------------------------------------------------


def _stopped_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every fit end as one that was stopped by the first Ctrl-C."""
    fit = LowRankClassifier.fit

    def stopped(model: Any, *given: Any, **more: Any) -> Any:
        fit(model, *given, **more)
        model.interrupted_ = True
        warnings.warn("Give fit a checkpoint= folder.", InterruptedFitWarning, stacklevel=1)
        return model

    monkeypatch.setattr(LowRankClassifier, "fit", stopped)


def test_an_interrupted_completion_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _stopped_early(monkeypatch)
    penalties = ("--trace-penalty", "0.05", "--ridge-penalty", "0.01", "--feature-map", "linear", "--quiet")
    said = error_of("complete", *TABLE, *penalties, "--out", "filled.csv", code=130)
    assert said == "Error: Interrupted; nothing was saved."
    assert not Path("filled.csv").exists()


def _interrupt(*given: Any, **more: Any) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_after_the_model_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelgap.cli.fit.finish_fit", _interrupt)
    said = error_of("fit", *TABLE, *QUICK, "--out", "a.labelgap", code=130)
    assert said == "Error: Interrupted after a.labelgap was written; what is there is complete."
    assert run_json("info", "a.labelgap")["what"] == "model"
    error = run_json("fit", *TABLE, *QUICK[:-1], "--out", "b.labelgap", code=130)["error"]
    assert error["message"].startswith("Interrupted after b.labelgap was written")


def test_an_interrupt_before_a_file_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.labelgap").write_text("mine")
    monkeypatch.setattr("labelgap.cli.fit.save", _interrupt)
    said = error_of("fit", *TABLE, *QUICK, "--out", "a.labelgap", "--force", code=130)
    assert said == "Error: Interrupted; nothing was saved."
    assert Path("a.labelgap").read_text() == "mine"


def test_an_interrupt_between_two_files(monkeypatch: pytest.MonkeyPatch, ratings: Path) -> None:
    monkeypatch.setattr("labelgap.cli.fit.write_all_lists", _interrupt)
    options = ("--positive", "4", "--trace-penalty", "0.02", "--for", "recommend", "--quiet")
    lists = ("--out", "a.labelgap", "--lists", "best.csv")
    said = error_of("fit", ratings, *options, *lists, code=130)
    assert "after a.labelgap was written; what is there is complete. best.csv was not written." in said
