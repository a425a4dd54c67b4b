"""The command line in processes of its own: streams, signals, terminals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_runs import QUICK, process, run

import labelgap

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
TAGS = ("--labels", "tag_*", "--id", "id")
COMMAND = [sys.executable, "-m", "labelgap"]
pytestmark = pytest.mark.usefixtures("default_interrupts")


def in_terminal(
    *arguments: object, width: int = 80, stop_at: str | None = None, env: dict[str, str] | None = None
) -> tuple[int, str]:
    """Exit code and what a terminal of that width was sent; an interrupt once ``stop_at`` was seen."""
    import fcntl
    import struct
    import termios

    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    running = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=there,
        stdout=there,
        stderr=there,
        env=environment | {"TERM": "xterm"} | (env or {}),
    )
    os.close(there)
    sent, stopped = b"", False
    while True:
        try:
            some = os.read(here, 65536)
        except OSError:
            break
        if not some:
            break
        sent += some
        if stop_at is not None and not stopped and stop_at.encode() in sent:
            running.send_signal(signal.SIGINT)
            stopped = True
    os.close(here)
    return running.wait(timeout=60), sent.decode("utf-8", "replace")


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "")


@pytest.fixture
def long_job(tmp_path: Path) -> Path:
    """A table whose fit takes seconds."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((800, 15))
    Z = X @ rng.standard_normal((15, 4)) @ rng.standard_normal((4, 20))
    Y = np.where(rng.uniform(size=Z.shape) < 0.5, np.nan, Z + rng.standard_normal(Z.shape) > 1)
    np.savez(tmp_path / "long.npz", X=X, Y=Y)
    return tmp_path / "long.npz"


@pytest.fixture
def read_by_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of this process take standard output for a terminal."""
    monkeypatch.setattr("labelgap.cli.session.Session.is_read_by_people", True)


@pytest.mark.slow
def test_the_whole_way_as_json() -> None:
    done = process("fit", "articles.csv", *TAGS, *QUICK, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["model"] == "model.labelgap"
    again = run("fit", "articles.csv", *TAGS, "--json", code=1)
    assert again.stderr == ""
    assert "exists already" in json.loads(again.stdout)["error"]["message"]


def test_the_installed_command_and_what_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Path(sys.executable).with_name("labelgap")
    if not script.exists():
        pytest.skip("labelgap is not installed as a command here")
    done = subprocess.run(
        [script, "fit", "articles.csv", *TAGS, *QUICK[:-1]], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert all(re.match(r"\[ *\d+\.\d s\] ", line) for line in lines), "the display is for terminals"
    assert "\x1b" not in done.stdout + done.stderr
    monkeypatch.setenv("FORCE_COLOR", "1")
    piped = run("predict", "model.labelgap", "new_articles.csv")
    assert piped.stdout.startswith("id,tag_business,"), "a wish for colour makes no terminal"


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(fitted: dict[str, Path]) -> None:
    header, *rows = Path("new_articles.csv").read_text().splitlines()
    # The id comes first in a row, and each is to come once.
    Path("many.csv").write_text("\n".join([header, *(f"{at}-{row}" for at in range(100) for row in rows)]))
    command = f"{sys.executable} -m labelgap predict {fitted['articles']} many.csv --long | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    assert done.stdout == "id,label,decision,probability\n141\n"


@pytest.mark.slow
def test_other_alphabets_and_narrow_terminals(fitted: dict[str, Path]) -> None:
    done = process("fit", "--help", env={"PYTHONIOENCODING": "ascii", "COLUMNS": "40"})
    assert (done.returncode, done.stderr) == (0, "")
    told = run("info", fitted["articles"], width=40, encoding="latin-1").stdout
    assert max(map(len, told.splitlines())) <= max(40, len(str(fitted["articles"])) + 30)


@pytest.mark.slow
def test_progress_on_a_terminal() -> None:
    code, sent = in_terminal("fit", "articles.csv", *TAGS, "--ridge-penalty", "0.01")
    assert code == 0
    told = plain(sent)
    assert "Choosing penalties" in told
    assert re.search(r"\d+ judged, best micro-f1 0\.\d+", told)
    assert "Fitted a LowRankClassifier to articles.csv" in told
    assert "\x1b[1m" in sent, "names are bold"


@pytest.mark.slow
def test_without_colour() -> None:
    code, sent = in_terminal("fit", "articles.csv", *TAGS, *QUICK[:-1], width=40, env={"NO_COLOR": "1"})
    assert code == 0
    assert "\x1b[3" not in sent.replace("\x1b[?", ""), "no colour"


def test_a_preview_in_40_columns(fitted: dict[str, Path], read_by_people: None) -> None:
    lines = run("predict", fitted["articles"], "new_articles.csv", width=40).stdout.splitlines()
    assert "200 rows in all; --out FILE writes them." in lines[-1]
    assert max(map(len, lines)) <= 40
    assert any("tag_business" in line for line in lines)


def test_a_preview_shows_what_fits(fitted: dict[str, Path], read_by_people: None) -> None:
    command = ("predict", fitted["articles"], "new_articles.csv", "--what", "all")
    lines = run(*command, width=60).stdout.splitlines()
    assert "19 columns in all." in lines
    assert max(map(len, lines)) <= 60


def test_recommendations_are_a_table(fitted: dict[str, Path], read_by_people: None) -> None:
    told = run("recommend", fitted["films"], "--user", "u1", "-n", "2").stdout
    assert told.splitlines()[0].split() == ["user", "item", "probability", "decision"]


def test_the_first_interrupt_stops_early_and_saves(long_job: Path) -> None:
    code, sent = in_terminal("fit", long_job, "--out", "m.labelgap", stop_at="judged")
    told = " ".join(plain(sent).split())
    assert code == 130, told
    assert "Warning: The fit was stopped on request" in told
    assert "Stopped early on request; the model so far is saved in m.labelgap." in told
    with np.load(long_job) as arrays:
        labelgap.load("m.labelgap").predict(arrays["X"][:2])


@pytest.mark.slow
def test_the_second_interrupt_stops_at_once(long_job: Path) -> None:
    running = subprocess.Popen(
        [*COMMAND, "fit", long_job, "--out", "m.labelgap", "--checkpoint", "kept", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # The checkpoint is there once candidates were judged, and the fit listens.
    for _ in range(600):
        if Path("kept/checkpoint.npz").exists() or running.poll() is not None:
            break
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    answer = json.loads(out)
    if "error" in answer:
        assert "nothing was saved" in answer["error"]["message"]
        assert "kept in kept: the same command continues from there" in answer["error"]["message"]
        assert not Path("m.labelgap").exists()
    else:
        # The first one was faster.
        assert answer["interrupted"]
