"""The harness of the experiments: tasks that can be interrupted, progress, the command line, and files.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import sklearn

import labelgap
from experiments.problems import available, problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Task: TypeAlias = dict[str, str | int | float]
Results: TypeAlias = Sequence[dict[str, Any]]
SECONDS_BETWEEN_LINES = 30.0


class JournalError(RuntimeError):
    """A journal that is damaged, or of another experiment."""


# -- an experiment -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Experiment:
    """What an experiment does; ``main`` is its command line."""

    name: str
    doc: str
    draws: int
    tasks: Callable[[argparse.Namespace, Any], list[Task]]
    """From the options and where the data come from."""
    measure: Callable[[Task, Any], dict[str, Any]]
    """From a task, and where the data come from, to its numbers."""
    report: Callable[[Results, Any], str]
    """The tables in Markdown."""
    settings: Callable[[argparse.Namespace, Any], Mapping[str, Any]] = lambda options, given: {}
    """All else that changes results, but not the number of draws."""
    data: Sequence[str] = ()
    """The data sets to choose from."""
    default_data: Sequence[str] | None = None
    choices: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Other options of one or several values, all by default."""
    figure: Callable[[Results, Any], Figure] | None = None
    given: Any = problem
    """Where the data come from: a function (a data set, a draw, the fraction observed), or sizes."""

    def main(self, arguments: list[str] | None = None, given: Any = None) -> None:
        """Run the tasks that are not done yet, print the tables, and write the files."""
        parser = argparse.ArgumentParser(
            prog=f"python -m experiments.{self.name}",
            description=self.doc,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("--draws", type=_at_least_one, default=self.draws, help=f"default {self.draws}")
        parser.add_argument("--out", type=Path, default=Path("results"), help="folder to write to")
        parser.add_argument("--fresh", action="store_true", help="forget what is done and start again")
        parser.add_argument("--finished", action="store_true", help="only write the tables of what is done")
        if self.data:
            chosen = list(self.data if self.default_data is None else self.default_data)
            parser.add_argument("--data", nargs="+", choices=self.data, default=chosen)
        for name, values in self.choices.items():
            kind = type(values[0])
            limits = {} if kind in (int, float) else {"choices": list(values)}
            parser.add_argument(f"--{name}", nargs="+", type=kind, default=list(values), **limits)
        options = parser.parse_args(arguments)
        if self.data and given is None:
            options.data = available(options.data)
        given = self.given if given is None else given
        tasks = self.tasks(options, given)
        if not tasks:
            return
        results = run_tasks(
            self.name,
            tasks,
            lambda task: self.measure(task, given),
            folder=options.out,
            settings=self.settings(options, given),
            fresh=options.fresh,
            only_finished=options.finished,
        )
        table = self.report(results, given)
        print(table)
        write_results(
            self.name,
            folder=options.out,
            settings=self.settings(options, given),
            results=results,
            table=table,
            figure=None if self.figure is None else self.figure(results, given),
        )


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"give a number of at least 1; got {text}")
    return int(text)


# -- tasks -------------------------------------------------------------------------------------------------


def run_tasks(
    name: str,
    tasks: Sequence[Task],
    work: Callable[[Task], dict[str, Any]],
    *,
    folder: Path,
    settings: Mapping[str, Any],
    fresh: bool = False,
    only_finished: bool = False,
) -> list[dict[str, Any]]:
    """``task | work(task)`` for each task, in the order of tasks, keeping what is done.

    It is kept in ``folder/<name>.jsonl``, one line a task, on the disc as soon as it is done. Started again,
    only tasks that are not there yet are done; tasks are the same if their dictionaries are. A journal with
    other ``settings`` is refused. ``fresh`` forgets what is done; ``only_finished`` does nothing, and gives
    the results of the tasks that are done. Numpy's scalars and arrays become numbers and lists.
    """
    path = folder / f"{name}.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    if fresh:
        path.unlink(missing_ok=True)
    done = _open_journal(path, _plain({"labelgap": labelgap.__version__, "settings": dict(settings)}))
    missing = list({_line(task): task for task in tasks if _line(task) not in done}.items())
    if only_finished:
        return [task | done[_line(task)] for task in tasks if _line(task) in done]
    note = _progress(name, len(missing))
    with path.open("a", encoding="utf-8") as journal:
        try:
            for count, (key, task) in enumerate(missing):
                note(count, in_words(task))
                done[key] = _done(task, work)
                _append(journal, {"result": done[key], "task": task})
        except KeyboardInterrupt:
            kept = sum(_line(task) in done for task in tasks)
            print(
                f"\nStopped. {kept} of {len(tasks)} tasks are done and kept in {path}: the same command goes "
                "on from there.",
                file=sys.stderr,
            )
            raise SystemExit(130) from None
    return [task | done[_line(task)] for task in tasks]


def in_words(task: Task) -> str:
    """The task in words, such as "data scene, draw 3"."""
    return ", ".join(f"{name} {value}" for name, value in task.items())


def _done(task: Task, work: Callable[[Task], dict[str, Any]]) -> dict[str, Any]:
    """The result as it will be read again, so that it is the same whether or not the run was stopped."""
    try:
        result: dict[str, Any] = _plain(work(dict(task)))
    except Exception as error:
        error.add_note(f"This was in the task: {in_words(task)}.")
        raise
    return result


def _progress(name: str, count: int) -> Callable[[int, str], None]:
    """A function that prints now and then how many tasks are done, and what is next."""
    began, printed = time.monotonic(), -SECONDS_BETWEEN_LINES

    def note(done: int, words: str) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed >= SECONDS_BETWEEN_LINES or done == count - 1:
            printed = now
            left = time_left(now - began, done, count)
            print(f"{name}: {done} of {count} done, {left}now {words}", flush=True)

    return note


def time_left(seconds: float, done: int, count: int) -> str:
    """The remaining time in words, if the other tasks take as long as the finished ones on average."""
    if done == 0:
        return ""
    left = seconds / done * (count - done)
    if left < 90:
        return f"about {left:.0f} s left, "
    return f"about {left / 60:.0f} min left, " if left < 5400 else f"about {left / 3600:.1f} h left, "


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
    return {_line(entry["task"]): entry["result"] for entry in entries}


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


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, default=_number)


def _plain(value: Any) -> Any:
    return json.loads(_line(value))


def _number(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"A result must be something that JSON can hold; got {type(value).__name__}.")


# -- results -----------------------------------------------------------------------------------------------


def write_results(
    name: str,
    *,
    folder: Path,
    settings: Mapping[str, Any],
    results: Sequence[Mapping[str, Any]],
    table: str,
    figure: Figure | None = None,
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


# -- tables ------------------------------------------------------------------------------------------------


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The rows under their titles; a bar within a cell, as in |Ω|, is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    escaped = ([cell.replace("|", r"\|") for cell in cells] for cells in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in escaped)


def mean_sd(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard deviation over draws; the deviation of one draw is 0."""
    values = list(values)
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def plus_minus(values: Iterable[float], digits: int = 4, sign: str = "") -> str:
    """Mean ± standard deviation; ``sign`` "+" shows the sign of the mean."""
    mean, sd = mean_sd(values)
    return f"{mean:{sign}.{digits}f} ± {sd:.{digits}f}"


def those(results: Results, **where: Any) -> list[dict[str, Any]]:
    """The results that agree."""
    return [one for one in results if all(one[name] == value for name, value in where.items())]


def different(results: Results, *names: str) -> list[Any]:
    """The different values of a name, or of several together, in the order of the results."""
    found = [tuple(one[name] for name in names) for one in results]
    return list(dict.fromkeys(found if len(names) > 1 else (one[0] for one in found)))


def draws_of(options: argparse.Namespace, **values: Sequence[Any]) -> list[Task]:
    """A task for each draw of each combination of values, the draws of the first value first."""
    (first, firsts), *others = values.items()
    tasks: list[Task] = [{first: one, "draw": draw} for one in firsts for draw in range(options.draws)]
    for name, choices in others:
        tasks = [task | {name: choice} for task in tasks for choice in choices]
    return tasks
