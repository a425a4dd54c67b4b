"""One run of a command: the files it reads, what it prints and warns of, and how it ends.

Exit codes: 0 fine, 1 a problem with input, data or model, 2 wrong usage, 130 interrupted, 141 when nobody
reads the output any more.
"""

from __future__ import annotations

import contextlib
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from labelgap._memory import give_back_freed
from labelgap.cli.console import json_text, new_console
from labelgap.cli.streams import (
    INTERRUPTED,
    fail_at_output,
    forget_stdout,
    interrupts_raised,
    is_about_stdout,
)
from labelgap.data.files.dialect import Dialect
from labelgap.data.files.limits import MaxUnpacked
from labelgap.data.files.reading import split_label_file
from labelgap.data.files.source import Source
from labelgap.exceptions import InterruptedFitWarning, LabelgapError, LabelgapWarning

PROBLEM, USAGE, PIPE_CLOSED = 1, 2, 141
STANDARD_INPUT = Path("/dev/stdin")


class Session:
    """Where a command prints, and what it has to say in JSON."""

    def __init__(
        self,
        *,
        as_json: bool = False,
        quiet: bool = False,
        verbose: bool = False,
        max_unpacked_mb: MaxUnpacked = "auto",
    ) -> None:
        if quiet and verbose:
            raise typer.BadParameter(
                "it is the opposite of --quiet; leave one out.", param_hint="'--verbose'"
            )
        self.as_json, self.quiet, self.verbose = as_json, quiet, verbose
        self.max_unpacked = max_unpacked_mb
        """What a packed file may become, as the readers take it."""
        self._began = time.perf_counter()
        self.out, self.err = new_console(), new_console(stderr=True)
        self.result: dict[str, Any] = {}
        self.warnings: list[str] = []
        self.kept: Path | None = None
        """The folder of the checkpoint from which the same command would continue."""
        self._before: dict[Path, tuple[int, int] | None] = {}
        """The files that are to be written, each with the one that was there before."""
        self._opened = contextlib.ExitStack()

    def source(self, path: Path, format: str | None = None, dialect: Dialect | None = None) -> Source:
        """A data file or a pipe, which is read once and closed when the command ends; - is standard input."""
        if str(path) == "-":
            path, format = STANDARD_INPUT, format or "csv"
        return self._opened.enter_context(Source(path, format, dialect, self.max_unpacked))

    def label_file(self, path: Path | None) -> tuple[Source | None, Path | None]:
        """The file of ``--label-file``: a second table, or an XML file that names the labels."""
        second, _ = split_label_file(path, self.max_unpacked)
        return (None, path) if second is None else (self._opened.enter_context(second), None)

    def close(self) -> None:
        """Close the data files."""
        self._opened.close()

    def make_room(self) -> None:
        """Close the data files, which have been read: what they take would stand beside the fit to come."""
        self.close()
        give_back_freed()

    def will_write(self, path: Path) -> None:
        """Note that the command is to write this file."""
        self._before[path] = _identity(path)

    def interrupted(self) -> str:
        """What an interrupted command has written and what not, in words."""
        # A file is replaced in one step by another one, so that it is another file once it is written.
        done = [path for path, before in self._before.items() if _identity(path) not in (None, before)]
        if not done:
            return "Interrupted; nothing was saved."
        said = f"Interrupted after {_listed(done)} written; what is there is complete."
        missing = [path for path in self._before if path not in done]
        return said + (f" {_listed(missing)} not written." if missing else "")

    @property
    def talks(self) -> bool:
        """Whether people are to be told anything besides warnings and errors."""
        return not (self.as_json or self.quiet)

    # The streams are asked, not Rich, which takes a wish for colour for a terminal.

    @property
    def shows_progress(self) -> bool:
        return self.talks and sys.stderr.isatty() and not self.err.is_dumb_terminal

    @property
    def is_read_by_people(self) -> bool:
        """Whether standard output is a terminal, and no file or pipe."""
        return sys.stdout.isatty()

    def say(self, *things: Any) -> None:
        """Print for people."""
        if self.talks:
            self.out.print(*things)

    def say_line(self, text: str) -> None:
        """Print one line that is not broken, so that it can be copied."""
        if self.talks:
            self.out.print(Text(text), soft_wrap=True)

    def step(self, text: str) -> None:
        """With --verbose: what was just done, with the time since the command began, on standard error."""
        if self.verbose:
            self.stage(text)

    def stage(self, text: str) -> None:
        """One line with the time since the command began, on standard error."""
        self.err.print(Text(f"[{time.perf_counter() - self._began:7.1f} s] {text}"), soft_wrap=True)

    def warn(self, message: str) -> None:
        if message in self.warnings:
            return
        self.warnings.append(message)
        if not self.as_json:
            self._tell("Warning", "yellow", message)

    def fail(self, kind: str, message: str, code: int) -> typer.Exit:
        """Say what went wrong; raise what comes back."""
        if self.as_json:
            error = {"type": kind, "message": message, "exit_code": code}
            self._print_json({"error": error, "warnings": self.warnings})
        else:
            self._tell("Error", "red", message)
        return typer.Exit(code)

    def finish(self) -> None:
        """Print the JSON object if there is to be one, and see that everything is out."""
        if self.as_json:
            self._print_json(self.result | {"warnings": self.warnings})
        sys.stdout.flush()

    def _tell(self, what: str, colour: str, message: str) -> None:
        self.err.print(Text.assemble((f"{what}:", f"bold {colour}"), " ", message), soft_wrap=True)

    def _print_json(self, value: dict[str, Any]) -> None:
        print(json_text(value, sys.stdout), flush=True)


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from the one that replaces it; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _listed(paths: Sequence[Path]) -> str:
    return " and ".join(map(str, paths)) + (" was" if len(paths) == 1 else " were")


@contextmanager
def command(
    *,
    as_json: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    max_unpacked_mb: str | None = None,
) -> Iterator[Session]:
    """Run the body of a command: errors and warnings of labelgap are told, others pass through."""
    limit = unpacked_limit(max_unpacked_mb)
    session = Session(as_json=as_json, quiet=quiet, verbose=verbose, max_unpacked_mb=limit)
    with interrupts_raised(), _errors_told(session):
        with _warnings_told(session):
            yield session
        session.finish()


def unpacked_limit(given: str | None) -> MaxUnpacked:
    """The value of --max-unpacked-mb: a number, or None for no limit.

    Examples
    --------
    >>> unpacked_limit("500"), unpacked_limit("none"), unpacked_limit(None)
    (500.0, None, 'auto')
    """
    if given is None:
        return "auto"
    if given.strip().lower() == "none":
        return None
    try:
        limit = float(given)
    except ValueError:
        limit = math.nan
    if not limit > 0:
        raise typer.BadParameter(
            f"{given!r} is no number of megabytes above 0, nor none.", param_hint="--max-unpacked-mb"
        )
    return limit


@contextmanager
def _errors_told(session: Session) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        forget_stdout()
        raise typer.Exit(PIPE_CLOSED) from None
    except LabelgapError as error:
        raise session.fail(type(error).__name__, in_options(str(error)), PROBLEM) from error
    except MemoryError as error:
        message = "There is not enough memory for this: use fewer rows or columns, or a larger machine."
        raise session.fail("MemoryError", message, PROBLEM) from error
    except OSError as error:
        if is_about_stdout(error):
            fail_at_output(error)
            raise typer.Exit(PROBLEM) from error
        raise session.fail(type(error).__name__, in_words(error), PROBLEM) from error
    except KeyboardInterrupt:
        message = session.interrupted()
        # A fit that has ended needs no checkpoint, and has removed it.
        if session.kept is not None and session.kept.is_dir():
            message += f" The progress is kept in {session.kept}: the same command continues from there."
        raise session.fail("Interrupted", message, INTERRUPTED) from None
    finally:
        session.close()


def in_words(error: OSError) -> str:
    """An error of the system, with its file.

    Examples
    --------
    >>> in_words(FileNotFoundError(2, "No such file or directory", "a.csv"))
    'a.csv: No such file or directory.'
    """
    if error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}." if error.filename is not None else f"{error.strerror}."


@contextmanager
def _warnings_told(session: Session) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("always", LabelgapWarning)
        show = warnings.showwarning

        def told(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, LabelgapWarning):
                session.warn(in_options(str(message)))
            else:
                show(message, category, *place, **more)

        warnings.showwarning = told
        yield


@contextmanager
def without_unfinished() -> Iterator[None]:
    """Leave out the warning that a fit was stopped and its model can be used, where a command has no use for
    it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedFitWarning)
        yield


# -- messages of the library, in the words of the command line -----------------------------------------------

# Not where it is part of a name, a path or a quoted text.
_BEFORE, _AFTER = r"(?<![\w'\"./\\-])", r"(?![\w'\"/\\-]|\.\w)"
_OPTIONS = {
    "n_jobs": "--jobs",
    "random_state": "--seed",
    "flip_rate": "--flip-rate",
    "flip_rates": "--flip-rates",
    "label_file": "--label-file",
    "half_life": "--half-life",
    "trace_penalty": "--trace-penalty",
    "ridge_penalty": "--ridge-penalty",
    "subject_to": "--subject-to",
}
_RULES: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    # What says both already: format= (--format), with drop (--drop x), value='x' (--value x).
    (re.compile(_BEFORE + r"\w+=(?:'[^']*'|\w*) \((--\w[^)]*)\)"), r"\1"),
    (re.compile(r"\b(with|of) (\w+) \((--\2\b[^)]*)\)"), r"\1 \3"),
    # Both are names of the option; the help shows the first.
    (re.compile(_BEFORE + "--ids" + _AFTER), "--id"),
    (re.compile(r": (labels|features|drop) chooses among"), r": --\1 chooses among"),
    (re.compile(r": ids chooses among"), ": --id chooses among"),
    (re.compile(_BEFORE + r"unseen_users=True"), "--unseen-users"),
    (re.compile(r"is the id column already"), "is the id column (--id) already"),
    (re.compile(_BEFORE + r"unobserved='(missing|negative|unlabelled)'"), r"--unobserved \1"),
    (re.compile(_BEFORE + r"threshold='(cross-fit|holdout|train)'"), r"--threshold \1"),
    (re.compile(_BEFORE + r"family='(gaussian|poisson|bernoulli)'"), r"--family \1"),
    (re.compile(r", or a function of the values, such as positive=lambda [^.]*\."), "."),
    (re.compile(_BEFORE + r"positive=(\d+(?:\.\d+)?)"), r"--positive \1"),
    (re.compile(_BEFORE + r"positive=\.\.\."), "--positive"),
    (re.compile(r"\bwith aggregate=None"), "without --aggregate"),
    (re.compile(_BEFORE + r"aggregate='(\w+)'"), r"--aggregate \1"),
    (re.compile(_BEFORE + r"half_life=(?=\d)"), "--half-life "),
    (re.compile(_BEFORE + r"forget=(?=\d)"), "--forget "),
    (re.compile(_BEFORE + r"checkpoint= folder"), "--checkpoint folder"),
    (re.compile(_BEFORE + r"forget(?:=|(?= must| weighs| out))"), "--forget"),
    (re.compile(_BEFORE + r"checkpoint='([^']*)'"), r"--checkpoint \1"),
    (re.compile(_BEFORE + rf"({'|'.join(_OPTIONS)})=?" + _AFTER), lambda found: _OPTIONS[found[1]]),
]


def in_options(message: str) -> str:
    """A message of the library that names options instead of parameters.

    Examples
    --------
    >>> in_options("If absent means no, pass unobserved='negative'. Say positive=4.")
    'If absent means no, pass --unobserved negative. Say --positive 4.'
    >>> in_options("label_file.csv: leave it out with drop (--drop x). Use flip_rate.")
    'label_file.csv: leave it out with --drop x. Use --flip-rate.'
    >>> in_options("forget must be a number. Look at the batch; forget= lets old entries count less.")
    '--forget must be a number. Look at the batch; --forget lets old entries count less.'
    """
    for pattern, words in _RULES:
        message = pattern.sub(words, message)
    return message
