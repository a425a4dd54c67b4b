"""The command line in processes of its own: start, streams, terminals; and interrupts at any moment."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runs import FIXED, TABLE, error_of, lines, process, run, run_json, shell, standard_input

import labelgap
from labelgap.cli.app import COMMANDS, load_command
from labelgap.exceptions import InterruptedFitWarning
from labelgap.persistence.atomic import atomic_write

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
FIT = f"fit {TABLE} {FIXED}"
PREDICT = "predict articles.labelgap new_articles.csv"
COMMAND = [sys.executable, "-m", "labelgap"]
NO_SPACE = "Error: standard output: No space left on device.\n"
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
pytestmark = pytest.mark.usefixtures("default_interrupts")


def in_terminal(command: str, width: int = 80, stop_at: str = "", **env: str) -> tuple[int, str]:
    """Exit code and what a terminal of that width was sent; an interrupt once ``stop_at`` was seen."""
    import fcntl
    import struct
    import termios

    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    running = subprocess.Popen(
        [*COMMAND, *shlex.split(command)],
        **dict.fromkeys(("stdin", "stdout", "stderr"), there),
        env=environment | {"TERM": "xterm"} | env,
    )
    os.close(there)
    sent, stopped = b"", not stop_at
    while True:
        try:
            some = os.read(here, 65536)
        except OSError:
            break
        if not some:
            break
        sent += some
        if not stopped and stop_at.encode() in sent:
            running.send_signal(signal.SIGINT)
            stopped = True
    os.close(here)
    return running.wait(timeout=60), sent.decode("utf-8", "replace")


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "")


# -- start -------------------------------------------------------------------------------------------------

HEAVY = ("numpy", "scipy", "sklearn", "numba", "pandas", "pyarrow", "joblib")


@pytest.mark.parametrize("option", ["--version", "--help", None])
def test_what_is_printed_before_any_work_imports_nothing_heavy(option: str | None) -> None:
    program = "import labelgap; labelgap.__version__; dir(labelgap)"
    if option is not None:
        program = f"sys.argv = ['labelgap', '{option}']; import labelgap.cli; labelgap.cli.main()"
    whole = (
        "import contextlib, io, sys\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    {program}\n"
        f"print(*(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_list_says_what_the_commands_say() -> None:
    for name, (_, summary) in COMMANDS.items():
        command = load_command(name)
        assert (command.name, command.help.split("\n\n")[0]) == (name, summary)


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
    printed, said = running.communicate(timeout=60)
    assert seen
    assert "Traceback" not in said
    assert (running.returncode, printed) == (130, "")


# -- streams -----------------------------------------------------------------------------------------------


@needs_full
def test_a_full_device() -> None:
    for command in ("--version", "--help"):
        done = shell(f"labelgap {command} > /dev/full")
        assert (done.returncode, done.stderr) == (1, NO_SPACE), command


@needs_full
@pytest.mark.slow
@pytest.mark.usefixtures("models")
def test_a_full_device_of_a_command() -> None:
    for command in ("info", "info --json", "nothing --json", PREDICT):
        done = shell(f"labelgap {command} > /dev/full")
        assert (done.returncode, done.stderr) == (1, NO_SPACE), command
    assert shell(f"labelgap {PREDICT} > /dev/full 2> /dev/full").returncode == 1


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str) -> None:
    done = shell(f"labelgap --version {closed}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_a_model_is_whole_where_the_streams_are_closed() -> None:
    assert shell(f"labelgap {FIT} --out a.labelgap <&- >&- 2>&-").returncode == 0
    assert labelgap.load("a.labelgap").n_labels_ == 6


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(models: None) -> None:
    for command in ("--help", "fit --help", "--version"):
        done = shell(f"labelgap {command} | true; echo ${{PIPESTATUS[0]}}")
        assert (done.stdout, done.stderr) == ("141\n", ""), command
    header, *rows = lines("new_articles.csv")
    # The id comes first in a row, and each is to come once.
    Path("many.csv").write_text("\n".join([header, *(f"{at}-{row}" for at in range(100) for row in rows)]))
    command = "labelgap predict articles.labelgap many.csv --long | head -n 1; echo ${PIPESTATUS[0]}"
    done = shell(command)
    assert (done.stdout, done.stderr) == ("id,label,decision,probability\n141\n", "")


def test_standard_output_is_a_stream_also_where_it_goes_to_a_file() -> None:
    with open("there.txt", "w") as file:
        done = process(f"{FIT} --out /dev/stdout --force --quiet", stdout=file)
    assert done.returncode == 1
    assert "/dev/stdout is a device or a pipe" in done.stderr
    assert Path("there.txt").read_text() == ""


def test_a_file_that_is_replaced_in_one_step_is_no_pipe() -> None:
    os.mkfifo("pipe")
    with pytest.raises(OSError, match="device or a pipe"), atomic_write("pipe"):
        pass
    assert Path("pipe").is_fifo()
    assert os.listdir().count("pipe") == 1


@pytest.mark.usefixtures("models")
def test_what_standard_input_comes_from_is_not_replaced() -> None:
    before = Path("new_articles.csv").read_bytes()
    with standard_input("new_articles.csv"):
        said = error_of("predict articles.labelgap - --out new_articles.csv --force")
    assert "is read by" in said
    assert Path("new_articles.csv").read_bytes() == before


@pytest.mark.usefixtures("models")
def test_a_file_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert error_of(f"{PREDICT} --out decisions.csv") == "Error: decisions.csv: No space left on device."
    assert not Path("decisions.csv").exists()


@pytest.mark.slow
def test_the_whole_way_as_json_and_with_other_alphabets(fitted: dict[str, Path]) -> None:
    done = process(f"{FIT} --json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["model"] == "model.labelgap"
    done = process("fit --help", env={"PYTHONIOENCODING": "ascii", "COLUMNS": "40"})
    assert (done.returncode, done.stderr) == (0, "")
    with open("new_articles.csv") as file:
        done = process("predict model.labelgap -", stdin=file)
    assert (done.returncode, done.stdout) == (0, run("predict model.labelgap new_articles.csv").stdout)


# -- terminals ---------------------------------------------------------------------------------------------


def test_the_installed_command_and_what_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Path(sys.executable).with_name("labelgap")
    if not script.exists():
        pytest.skip("labelgap is not installed as a command here")
    done = subprocess.run([script, *shlex.split(FIT)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert all(re.match(r"\[ *\d+\.\d s\] ", line) for line in done.stderr.splitlines())
    assert "\x1b" not in done.stdout + done.stderr
    monkeypatch.setenv("FORCE_COLOR", "1")
    piped = run("predict model.labelgap new_articles.csv")
    assert piped.stdout.startswith("id,tag_business,"), "a wish for colour makes no terminal"


@pytest.mark.slow
def test_progress_on_a_terminal() -> None:
    code, sent = in_terminal(f"fit {TABLE} --ridge-penalty 0.01")
    assert code == 0
    shown = plain(sent)
    assert "Choosing penalties" in shown
    assert re.search(r"\d+ judged, best micro-f1 0\.\d+", shown)
    assert "Fitted a LowRankClassifier to articles.csv" in shown
    assert "\x1b[1m" in sent, "names are bold"
    code, sent = in_terminal(f"{FIT} --force", width=40, NO_COLOR="1")
    assert code == 0
    assert "\x1b[3" not in sent.replace("\x1b[?", ""), "no colour"


@pytest.mark.usefixtures("models")
def test_previews_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelgap.cli.session.Session.is_read_by_people", True)
    shown = run(PREDICT, width=40).stdout.splitlines()
    assert "200 rows in all; --out FILE writes them." in shown[-1]
    assert max(map(len, shown)) <= 40
    assert any("tag_business" in line for line in shown)
    shown = run(f"{PREDICT} --what all", width=60).stdout.splitlines()
    assert "19 columns in all." in shown
    assert max(map(len, shown)) <= 60
    shown = run("recommend films.labelgap --user u1 -n 2").stdout.splitlines()
    assert shown[0].split() == ["user", "item", "probability", "decision"]


# -- interrupts --------------------------------------------------------------------------------------------


@pytest.fixture
def long_job(tmp_path: Path) -> Path:
    """A table whose fit takes seconds."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((800, 15))
    Z = X @ rng.standard_normal((15, 4)) @ rng.standard_normal((4, 20))
    Y = np.where(rng.uniform(size=Z.shape) < 0.5, np.nan, Z + rng.standard_normal(Z.shape) > 1)
    np.savez(tmp_path / "long.npz", X=X, Y=Y)
    return tmp_path / "long.npz"


def test_the_first_interrupt_stops_early_and_saves(long_job: Path) -> None:
    code, sent = in_terminal("fit long.npz --out m.labelgap", stop_at="judged")
    shown = " ".join(plain(sent).split())
    assert code == 130, shown
    assert "Warning: The fit was stopped on request" in shown
    assert "Stopped early on request; the model so far is saved in m.labelgap." in shown
    with np.load(long_job) as arrays:
        labelgap.load("m.labelgap").predict(arrays["X"][:2])


@pytest.mark.slow
def test_the_second_interrupt_stops_at_once(long_job: Path) -> None:
    running = subprocess.Popen(
        [*COMMAND, *["fit", "long.npz", "--out", "m.labelgap", "--checkpoint", "kept", "--json"]],
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


def interrupt(*given: Any, **more: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("models")
def test_an_interrupt_at_once_saves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.read_bytes() for path in Path().iterdir()}
    for method in ("fit", "partial_fit"):
        monkeypatch.setattr(labelgap.LowRankClassifier, method, interrupt)
    # With a checkpoint, too, for this fit had not begun to keep its progress.
    for command in (FIT, f"{FIT} --checkpoint kept", "update articles.labelgap new_articles.csv"):
        assert error_of(command, code=130) == "Error: Interrupted; nothing was saved.", command
    Path("kept").mkdir()
    said = error_of(f"{FIT} --checkpoint kept", code=130)
    assert "is kept in kept: the same command continues from there" in said
    Path("kept").rmdir()
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_an_interrupted_completion_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = labelgap.LowRankClassifier.fit

    def stopped(model: Any, *given: Any, **more: Any) -> Any:
        fit(model, *given, **more)
        model.interrupted_ = True
        warnings.warn("Give fit a checkpoint= folder.", InterruptedFitWarning, stacklevel=1)
        return model

    monkeypatch.setattr(labelgap.LowRankClassifier, "fit", stopped)
    penalties = "--trace-penalty 0.05 --ridge-penalty 0.01 --feature-map linear --quiet"
    said = error_of(f"complete {TABLE} {penalties} --out filled.csv", code=130)
    assert said == "Error: Interrupted; nothing was saved."
    assert not Path("filled.csv").exists()


def test_an_interrupt_between_files_says_which_are_there(
    monkeypatch: pytest.MonkeyPatch, ratings: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("labelgap.cli.fit.finish_fit", interrupt)
        said = error_of(f"{FIT} -q --out a.labelgap", code=130)
        assert said == "Error: Interrupted after a.labelgap was written; what is there is complete."
        error = run_json(f"{FIT} --out b.labelgap", code=130)["error"]
        assert error["message"].startswith("Interrupted after b.labelgap was written")
    assert run_json("info a.labelgap")["what"] == "model"
    with monkeypatch.context() as patch:
        Path("a.labelgap").write_text("mine")
        patch.setattr("labelgap.cli.fit.save", interrupt)
        said = error_of(f"{FIT} -q --out a.labelgap --force", code=130)
        assert said == "Error: Interrupted; nothing was saved."
        assert Path("a.labelgap").read_text() == "mine"
    monkeypatch.setattr("labelgap.cli.fit.write_all_lists", interrupt)
    films = "--positive 4 --trace-penalty 0.02 --for recommend --quiet --out c.labelgap --lists best.csv"
    said = error_of(f"fit ratings.csv {films}", code=130)
    assert "after c.labelgap was written; what is there is complete. best.csv was not written." in said


def test_an_unexpected_error_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object, **options: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(labelgap.LowRankClassifier, "fit", broken)
    with pytest.raises(ZeroDivisionError):
        run(FIT)


def test_too_little_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_much(*given: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr(labelgap.LowRankClassifier, "fit", too_much)
    assert "not enough memory" in error_of(FIT)


def test_an_interrupted_fit_goes_on_without_force() -> None:
    run(f"{FIT} -q")
    model = labelgap.load("model.labelgap")
    again = f"{FIT} -q --checkpoint kept"
    Path("kept").mkdir()
    assert "exists already" in error_of(again), "it is complete"
    model.interrupted_ = True
    model.save("model.labelgap")
    run(again)
    assert not labelgap.load("model.labelgap").interrupted_
    Path("model.labelgap").write_text("precious")
    Path("kept").mkdir(exist_ok=True)
    assert "exists already" in error_of(again)
