"""Streams that are closed or full, interrupts at any moment, and ids that a spreadsheet would run."""

from __future__ import annotations

import csv
import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import QUICK, error_of, run

import labelgap

COMMAND = [sys.executable, "-m", "labelgap"]
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
pytestmark = pytest.mark.usefixtures("default_interrupts")


def with_stdout(redirection: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A command whose standard output a shell redirects."""
    quoted = " ".join(f"'{argument}'" for argument in (*COMMAND, *arguments))
    return subprocess.run(
        ["bash", "-c", f"{quoted} {redirection}"], capture_output=True, text=True, timeout=120
    )


@needs_full
@pytest.mark.parametrize("arguments", [("--version",), ("--help",)])
def test_a_full_device(arguments: tuple[str, ...]) -> None:
    done = with_stdout("> /dev/full", *arguments)
    assert (done.returncode, done.stderr) == (1, "Error: standard output: No space left on device.\n")


@needs_full
@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("info",), ("info", "--json"), ("nothing", "--json")])
def test_a_full_device_of_a_command(arguments: tuple[str, ...]) -> None:
    done = with_stdout("> /dev/full", *arguments)
    assert (done.returncode, done.stderr) == (1, "Error: standard output: No space left on device.\n")


@needs_full
@pytest.mark.slow
def test_a_full_device_in_the_middle_of_a_table(fitted: dict[str, Path]) -> None:
    done = with_stdout("> /dev/full", "predict", fitted["articles"], "new_articles.csv")
    assert (done.returncode, done.stderr) == (1, "Error: standard output: No space left on device.\n")
    both = with_stdout("> /dev/full 2> /dev/full", "predict", fitted["articles"], "new_articles.csv")
    assert both.returncode == 1


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str) -> None:
    done = with_stdout(closed, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_a_model_is_whole_where_the_streams_are_closed() -> None:
    tags = ("--labels", "tag_*", "--id", "id", *QUICK[:-1])
    done = with_stdout("<&- >&- 2>&-", "fit", "articles.csv", *tags, "--out", "a.labelgap")
    assert done.returncode == 0
    assert labelgap.load("a.labelgap").n_labels_ == 6


@pytest.mark.parametrize("module", ["rich.console", "numpy", "scipy.sparse"])
def test_an_interrupt_while_the_command_line_starts(module: str) -> None:
    # Python tells of each module when it has been imported.
    running = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "labelgap", "fit", "articles.csv", "--labels", "tag_*"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    seen = any(line.rpartition("|")[2].strip() == module for line in running.stderr)
    running.send_signal(signal.SIGINT)
    told, said = running.communicate(timeout=60)
    assert seen
    assert "Traceback" not in said
    assert (running.returncode, told) == (130, "")


@needs_full
def test_a_file_that_cannot_be_written_is_named(
    fitted: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    said = error_of("predict", fitted["articles"], "new_articles.csv", "--out", "decisions.csv")
    assert said == "Error: decisions.csv: No space left on device."
    assert not Path("decisions.csv").exists()


def test_too_little_memory(fitted: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def too_much(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("labelgap.cli.predict.read_rows", too_much)
    assert "not enough memory" in error_of("predict", fitted["articles"], "new_articles.csv")


def test_a_packed_file_that_becomes_too_much() -> None:
    Path("a.csv.gz").write_bytes(gzip.compress(b"x,tag\n" + b"1,0\n" * 500_000))
    said = error_of("info", "a.csv.gz", "--max-unpacked-mb", "1")
    assert "a.csv.gz unpacks to more than the 1 MB that are allowed" in said
    assert "raise the limit with --max-unpacked-mb, in megabytes" in said
    assert "500000" in run("info", "a.csv.gz", "--max-unpacked-mb", "none", "--json").stdout
    for wrong in ("0", "-1", "many", "nan"):
        assert "--max-unpacked-mb" in error_of("info", "a.csv.gz", "--max-unpacked-mb", wrong, code=2)


# -- spreadsheets --------------------------------------------------------------------------------------------

FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-2+3", "@sum(1)", "\tx", "plain", "7"]


@pytest.fixture
def formulas(tmp_path: Path) -> Path:
    """A recommender whose items are named like formulas."""
    users = [f"u{number}" for number in range(4) for _ in FORMULAS]
    items = FORMULAS * 4
    likes = [(number * 7 + place) % 3 % 2 for number in range(4) for place in range(len(FORMULAS))]
    model = labelgap.Recommender(trace_penalty=0.02, threshold="train").fit((users, items, likes))
    model.save(tmp_path / "f.labelgap")
    return tmp_path / "f.labelgap"


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", None])
def test_ids_that_a_spreadsheet_would_run(formulas: Path, name: str | None) -> None:
    arguments = ("recommend", formulas, "--user", "u1", "--with-seen", "-n", "9")
    read = []
    for more in ((), ("--spreadsheet-safe",)):
        out = () if name is None else ("--out", name, "--force")
        text = run(*arguments, *more, *out).stdout
        if name is not None:
            data = Path(name).read_bytes()
            text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
        separator = "\t" if name == "a.tsv" else ","
        read.append([row["item"] for row in csv.DictReader(text.splitlines(), delimiter=separator)])
    plain, safe = read
    assert sorted(plain) == sorted(FORMULAS)
    assert safe == [f"'{item}" if item[0] in "=+-@\t" else item for item in plain]


def test_only_text_is_made_safe_for_spreadsheets(formulas: Path, fitted: dict[str, Path]) -> None:
    said = error_of("recommend", formulas, "--all", "--spreadsheet-safe", "--out", "a.parquet", code=2)
    assert "--spreadsheet-safe" in said
    scores = ("predict", fitted["articles"], "new_articles.csv", "--what", "scores")
    assert run(*scores, "--spreadsheet-safe").stdout == run(*scores).stdout, "numbers below 0 are numbers"
