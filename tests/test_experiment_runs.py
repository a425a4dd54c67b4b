"""Long experiments go on where they were stopped, and their files are whole."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import runs
from matplotlib.figure import Figure

TASKS: list[runs.Task] = [{"method": m, "draw": d} for d in range(3) for m in ("ours", "theirs")]
SETTINGS = {"sizes": {"n": 10, "observed": (0.1, 0.5)}}


class Work:
    """Counts what it is asked to do, and may stop in the middle."""

    def __init__(self, stop_at: int | None = None, error: BaseException | None = None) -> None:
        self.asked: list[runs.Task] = []
        self.stop_at, self.error = stop_at, error or RuntimeError("power cut")

    def __call__(self, task: runs.Task) -> dict[str, Any]:
        if len(self.asked) == self.stop_at:
            raise self.error
        self.asked.append(task)
        draw = int(task["draw"])
        return {"score": np.float64(draw / 3), "curve": np.arange(draw), "pair": (draw, None)}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    def call(work: Any, tasks: Any = TASKS, settings: Any = SETTINGS, **options: Any) -> list[dict[str, Any]]:
        return runs.run_tasks("trial", tasks, work, folder=tmp_path, settings=settings, **options)

    return call


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "trial.jsonl"


def test_results_are_in_the_order_of_the_tasks(run: Any) -> None:
    results = run(Work())
    assert [{"method": r["method"], "draw": r["draw"]} for r in results] == TASKS
    assert results[-1] == {"method": "theirs", "draw": 2, "score": 2 / 3, "curve": [0, 1], "pair": [2, None]}
    assert run(Work(stop_at=0), TASKS[::-1]) == results[::-1]


def test_a_stopped_run_goes_on_and_gives_the_same(run: Any, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="power cut") as caught:
        run(Work(stop_at=4))
    assert caught.value.__notes__ == ["This was in the task: method ours, draw 2."]
    rest = Work()
    results = run(rest)
    assert rest.asked == TASKS[4:]
    at_once = runs.run_tasks("at once", TASKS, Work(), folder=tmp_path, settings=SETTINGS)
    assert results == at_once


@pytest.mark.parametrize("cut", [1, 5, 1000])
def test_a_cut_off_last_line_is_done_again(run: Any, journal: Path, cut: int) -> None:
    expected = run(Work())
    content = journal.read_bytes()
    last = content.rstrip(b"\n").rfind(b"\n") + 1
    journal.write_bytes(content[: max(last + 1, len(content) - cut)])
    again = Work()
    assert run(again) == expected
    assert again.asked == TASKS[-1:]
    assert journal.read_bytes() == content


def test_a_cut_off_first_line_is_a_fresh_start(run: Any, journal: Path) -> None:
    expected = run(Work())
    journal.write_bytes(journal.read_bytes()[:10])
    assert run(Work()) == expected


@pytest.mark.parametrize("damage", [b"{nonsense\n", b"[1, 2]\n", b'{"task": {}}\n', b"\xff\xfe\n"])
def test_other_damage_is_named_by_its_line(run: Any, journal: Path, damage: bytes) -> None:
    run(Work())
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[3] = damage
    journal.write_bytes(b"".join(lines))
    with pytest.raises(runs.JournalError, match=r"trial\.jsonl, line 4, is damaged.*--fresh"):
        run(Work())
    assert journal.read_bytes() == b"".join(lines)


def test_other_settings_are_refused(run: Any, journal: Path) -> None:
    run(Work())
    other = {"sizes": {"n": 11, "observed": (0.1, 0.5)}, "metric": "micro-f1"}
    with pytest.raises(runs.JournalError) as caught:
        run(Work(), settings=other)
    text = str(caught.value)
    assert 'metric was not set and is "micro-f1"' in text
    assert 'sizes was {"n": 10, "observed": [0.1, 0.5]} and is {"n": 11' in text
    assert "--fresh" in text
    assert "--out" in text
    assert run(Work(stop_at=0)), "the journal is as it was"


def test_another_version_is_refused(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run(Work())
    monkeypatch.setattr("labelgap.__version__", "99.0")
    with pytest.raises(runs.JournalError, match=r'labelgap version was ".*" and is "99.0"'):
        run(Work())


def test_fresh_forgets(run: Any) -> None:
    run(Work())
    again = Work()
    run(again, settings={"sizes": 3}, fresh=True)
    assert again.asked == TASKS


def test_more_draws_can_be_added(run: Any) -> None:
    run(Work())
    more = Work()
    extra: list[runs.Task] = [{"draw": 3, "method": "ours"}]
    results = run(more, [*extra, *TASKS])
    assert more.asked == extra
    assert len(results) == 7
    assert run(Work(stop_at=0), TASKS[:2]) == results[1:3]


def test_a_task_given_twice_is_done_once(run: Any) -> None:
    work = Work()
    results = run(work, [TASKS[0], TASKS[0]])
    assert work.asked == TASKS[:1]
    assert results[0] == results[1]


def test_an_interrupt_says_how_to_go_on(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(Work(stop_at=2, error=KeyboardInterrupt()))
    assert caught.value.code == 130
    said = capsys.readouterr().err
    assert "2 of 6 tasks are done" in said
    assert "the same command goes on" in said


@pytest.mark.parametrize("bad", [float("nan"), object()])
def test_what_json_cannot_hold_is_refused(run: Any, bad: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        run(lambda task: {"score": bad})
    assert "draw 0" in caught.value.__notes__[0]


def test_lines_where_there_is_no_terminal(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(Work())
    first, last = capsys.readouterr().out.splitlines()
    assert first == "trial: 0 of 6 done, now method ours, draw 0"
    assert last.startswith("trial: 5 of 6 done, about 0 s left, now method theirs, draw 2")
    run(Work())
    assert capsys.readouterr().out == ""


def test_a_bar_on_a_terminal(
    run: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    run(Work())
    printed = capsys.readouterr().out
    assert "trial" in printed
    assert "6/6" in printed


@pytest.mark.parametrize(("per_task", "words"), [(1, "9 s"), (60, "9 min"), (3600, "9.0 h")])
def test_time_left(monkeypatch: pytest.MonkeyPatch, per_task: float, words: str) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    left = runs.time_left(10)
    now[0] = per_task
    assert left(1) == f"about {words} left, "


def test_results_are_written_whole(tmp_path: Path) -> None:
    figure = Figure()
    figure.add_subplot().plot([1, 2])
    folder = tmp_path / "made"
    results = [{"score": np.float32(0.5), "draw": 0}]
    runs.write_results(
        "trial", folder=folder, settings=SETTINGS, results=results, table="| a |", figure=figure
    )
    assert {path.name for path in folder.iterdir()} == {"trial.json", "trial.md", "trial.png"}
    content = json.loads((folder / "trial.json").read_text(encoding="utf-8"))
    assert list(content) == ["labelgap", "numpy", "python", "results", "scikit-learn", "settings"]
    assert content["results"] == [{"draw": 0, "score": 0.5}]
    assert (folder / "trial.md").read_text(encoding="utf-8") == "| a |\n"
    assert (folder / "trial.png").read_bytes().startswith(b"\x89PNG")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    def write(table: str, figure: Any) -> None:
        runs.write_results("trial", folder=tmp_path, settings={}, results=[], table=table, figure=figure)

    write("old", None)

    class Broken:
        def savefig(self, path: Path, **options: Any) -> None:
            path.write_bytes(b"half")
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        write("new", Broken())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trial.json", "trial.md"]


def test_small_helpers() -> None:
    assert runs.mean_sd([2.0]) == (2.0, 0.0)
    assert runs.mean_sd([1.0, 2.0, 3.0]) == (2.0, 1.0)
    assert runs.markdown_table(["a"], [["1"], ["2"]]) == "| a |\n| --- |\n| 1 |\n| 2 |"
    assert runs.markdown_table(["|Ω|"], []) == "| \\|Ω\\| |\n| --- |"


def test_the_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    parser = runs.argument_parser("What it does.", draws=20)
    options = parser.parse_args([])
    assert (options.draws, options.out, options.fresh) == (20, Path("results"), False)
    with pytest.raises(SystemExit):
        parser.parse_args(["--draws", "0"])
    assert "at least 1" in capsys.readouterr().err
