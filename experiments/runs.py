"""Tools for long experiments: tasks that can be interrupted, progress, and files of results.

An experiment is a list of small tasks, each a dictionary that says what is done ({"data": "scene", "method":
"default", "draw": 3}). What a task gave is kept in a journal as soon as it is done, so an experiment that was
stopped goes on where it was, and more draws can be added to one that is finished.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import sklearn

import labelgap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Task: TypeAlias = dict[str, str | int | float]
Note: TypeAlias = Callable[[int, str], None]
"""A function that is called with the number of finished tasks and the next task."""
SECONDS_BETWEEN_LINES = 30.0


class JournalError(RuntimeError):
    """A journal that is damaged, or of another experiment."""


# -- tasks -------------------------------------------------------------------------------------------------


def run_tasks(
    name: str,
    tasks: Sequence[Task],
    work: Callable[[Task], dict[str, Any]],
    *,
    folder: Path,
    settings: Mapping[str, Any],
    fresh: bool = False,
) -> list[dict[str, Any]]:
    """``task | work(task)`` for each task, in the order of tasks, keeping what is done.

    Parameters
    ----------
    name : str
        What is done is kept in ``folder/<name>.jsonl``, one line a task, on the disc as soon as it is done.
        Started again, only tasks that are not there yet are done.
    tasks : sequence of dict
        Tasks are the same if their dictionaries are.
    work : callable
        From a task to what JSON can hold; numpy's scalars and arrays become numbers and lists.
    folder : Path
        Made if there is none.
    settings : mapping
        All else that changes results: sizes, not the number of draws. A journal with other settings is
        refused.
    fresh : bool, default False
        Forget what is done.
    """
    path = folder / f"{name}.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    if fresh:
        path.unlink(missing_ok=True)
    header = _plain({"labelgap": labelgap.__version__, "settings": dict(settings)})
    done = _open_journal(path, header)
    missing = list({_key(task): task for task in tasks if _key(task) not in done}.items())
    with path.open("a", encoding="utf-8") as journal, _progress(name, len(missing)) as note:
        try:
            for count, (key, task) in enumerate(missing):
                note(count, in_words(task))
                done[key] = _done(task, work)
                _append(journal, {"result": done[key], "task": task})
        except KeyboardInterrupt:
            kept = sum(_key(task) in done for task in tasks)
            print(
                f"\nStopped. {kept} of {len(tasks)} tasks are done and kept in {path}: the same command goes "
                "on from there.",
                file=sys.stderr,
            )
            raise SystemExit(130) from None
    return [task | done[_key(task)] for task in tasks]


def finished_results(name: str, *, folder: Path, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """``task | result`` for every task in the journal, in the order in which they were done."""
    path = folder / f"{name}.jsonl"
    done = _open_journal(path, _plain({"labelgap": labelgap.__version__, "settings": dict(settings)}))
    return [json.loads(key) | result for key, result in done.items()]


def in_words(task: Task) -> str:
    """The task in words.

    >>> in_words({"data": "scene", "draw": 3})
    'data scene, draw 3'
    """
    return ", ".join(f"{name} {value}" for name, value in task.items())


def _done(task: Task, work: Callable[[Task], dict[str, Any]]) -> dict[str, Any]:
    """The result as it will be read again, so that it is the same whether or not the run was stopped."""
    try:
        result: dict[str, Any] = _plain(work(dict(task)))
    except Exception as error:
        error.add_note(f"This was in the task: {in_words(task)}.")
        raise
    return result


# -- the journal -------------------------------------------------------------------------------------------


def _open_journal(path: Path, header: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Finished results by task. Makes the journal if there is none, and repairs an incomplete last line."""
    lines = _whole_lines(path)
    if not lines:
        with path.open("w", encoding="utf-8") as journal:
            _append(journal, header)
        return {}
    _check_header(path, _read_line(path, 1, lines[0], {"labelgap", "settings"}), header)
    entries = [
        _read_line(path, number, line, {"result", "task"}) for number, line in enumerate(lines[1:], start=2)
    ]
    return {_key(entry["task"]): entry["result"] for entry in entries}


def _whole_lines(path: Path) -> list[bytes]:
    """The lines that were written to their end; the rest, of a run killed while writing, is cut off."""
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        os.truncate(path, len(whole))
    return whole.splitlines()


def _read_line(path: Path, number: int, line: bytes, keys: set[str]) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or set(entry) != keys:
        raise JournalError(
            f"{path}, line {number}, is damaged. Delete that line if it is not the first, or start again "
            "with --fresh or with another --out."
        )
    return entry


def _check_header(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    old, new = (header["settings"] | {"labelgap version": header["labelgap"]} for header in (found, wanted))
    differences = [
        f"{name} was {_shown(old, name)} and is {_shown(new, name)}"
        for name in sorted(old.keys() | new.keys())
        if _shown(old, name) != _shown(new, name)
    ]
    if differences:
        raise JournalError(
            f"{path} is of a run with other settings: {'; '.join(differences)}. Start again with --fresh, or "
            "keep both with another --out."
        )


def _shown(settings: Mapping[str, Any], name: str) -> str:
    return _line(settings[name]) if name in settings else "not set"


def _append(journal: Any, entry: dict[str, Any]) -> None:
    journal.write(_line(entry) + "\n")
    journal.flush()
    os.fsync(journal.fileno())


def _key(task: Task) -> str:
    return _line(task)


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, default=_number)


def _plain(value: Any) -> Any:
    return json.loads(_line(value))


def _number(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"A result must be something that JSON can hold; got {type(value).__name__}.")


# -- progress ----------------------------------------------------------------------------------------------


@contextmanager
def _progress(name: str, count: int) -> Iterator[Note]:
    """A progress bar on a terminal, and plain lines elsewhere; nothing if there is nothing to do."""
    if count == 0:
        yield lambda done, words: None
    elif sys.stdout.isatty():
        with _bar(name, count) as note:
            yield note
    else:
        yield _plain_lines(name, count)


@contextmanager
def _bar(name: str, count: int) -> Iterator[Note]:
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    except ImportError:
        yield _plain_lines(name, count)
        return
    left = time_left(count)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[words]}"))
    with Progress(*columns) as progress:
        bar = progress.add_task(name, total=count, words="")

        def note(done: int, words: str) -> None:
            progress.update(bar, completed=done, words=f"{left(done)}[dim]{words}[/dim]")

        yield note
        progress.update(bar, completed=count, words="")


def _plain_lines(name: str, count: int) -> Note:
    left = time_left(count)
    printed = -SECONDS_BETWEEN_LINES

    def note(done: int, words: str) -> None:
        nonlocal printed
        if time.monotonic() - printed >= SECONDS_BETWEEN_LINES or done == count - 1:
            printed = time.monotonic()
            print(f"{name}: {done} of {count} done, {left(done)}now {words}", flush=True)

    return note


def time_left(count: int) -> Callable[[int], str]:
    """The remaining time in words, if the other tasks take as long as the finished ones on average."""
    began = time.monotonic()

    def words(done: int) -> str:
        if done == 0:
            return ""
        seconds = (time.monotonic() - began) / done * (count - done)
        if seconds < 90:
            return f"about {seconds:.0f} s left, "
        minutes = seconds / 60
        return f"about {minutes:.0f} min left, " if minutes < 90 else f"about {minutes / 60:.1f} h left, "

    return words


# -- results -----------------------------------------------------------------------------------------------


def write_results(
    name: str,
    *,
    folder: Path,
    settings: Mapping[str, Any],
    results: Sequence[Mapping[str, Any]],
    table: str,
    figure: Figure | None,
) -> None:
    """Write ``<name>.json`` (settings, versions, results), ``<name>.md`` (table) and ``<name>.png`` (figure).

    Each is written under another name first, so that there is never half a file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "labelgap": labelgap.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "results": [_plain(result) for result in results],
        "scikit-learn": sklearn.__version__,
        "settings": _plain(dict(settings)),
    }
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
    _replace(folder / f"{name}.json", lambda path: path.write_text(text + "\n", encoding="utf-8"))
    _replace(folder / f"{name}.md", lambda path: path.write_text(table.rstrip() + "\n", encoding="utf-8"))
    if figure is not None:
        _replace(folder / f"{name}.png", lambda path: figure.savefig(path, format="png"))


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        write(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The rows under their titles; a bar within a cell, as in |Ω|, is escaped.

    >>> print(markdown_table(["method", "F1"], [["default", "0.97"]]))
    | method | F1 |
    | --- | --- |
    | default | 0.97 |
    """
    lines = [header, ["---"] * len(header), *rows]
    escaped = ([cell.replace("|", r"\|") for cell in cells] for cells in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in escaped)


def mean_sd(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation over draws; the deviation of one draw is 0.

    >>> mean_sd([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


# -- the command line --------------------------------------------------------------------------------------


def argument_parser(doc: str, *, draws: int) -> argparse.ArgumentParser:
    """``--draws``, ``--out`` and ``--fresh``, which every experiment has."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=_at_least_one, default=draws, help=f"default {draws}")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder to write to")
    parser.add_argument("--fresh", action="store_true", help="forget what is done and start again")
    return parser


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"give a number of at least 1; got {text}")
    return int(text)
