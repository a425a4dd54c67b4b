"""One run of a command: what it prints, what it warns of, and how it ends.

Exit codes: 0 fine, 1 a problem with input, data or model, 2 wrong usage, 130 interrupted, 141 when whoever
read the output has gone.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from labelgap.cli.console import forget_stdout, json_text, new_console
from labelgap.cli.wording import in_options
from labelgap.exceptions import DataFileError, LabelgapError, LabelgapWarning

PROBLEM, USAGE, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141


class Session:
    """Where a command prints, and what it has to say in JSON."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.out, self.err = new_console(), new_console(stderr=True)
        self.result: dict[str, Any] = {}
        self.warnings: list[str] = []
        self.kept: Path | None = None
        """Where an interrupted command left what it can go on from."""
        self._copies: dict[str, str] = {}
        self._stack = contextlib.ExitStack()

    def data_file(self, path: Path) -> Path:
        """A file that can be read twice: this one, or a copy of what comes out of a pipe."""
        if path.is_dir():
            raise DataFileError(f"{path} is a folder, not a file.")
        if path.is_file():
            return path
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="labelgap-"))
        copy = Path(folder) / path.name
        with path.open("rb") as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target)
        self._copies[str(copy)] = str(path)
        return copy

    def close(self) -> None:
        """Remove what was copied."""
        self._stack.close()

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

    def warn(self, message: str) -> None:
        message = self._with_own_names(message)
        if message in self.warnings:
            return
        self.warnings.append(message)
        if not self.as_json:
            self._tell("Warning", "yellow", message)

    def fail(self, kind: str, message: str, code: int) -> typer.Exit:
        """Say what went wrong; raise what comes back."""
        message = self._with_own_names(message)
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

    def _with_own_names(self, message: str) -> str:
        for copy, path in self._copies.items():
            message = message.replace(copy, path)
        return message

    def _tell(self, what: str, colour: str, message: str) -> None:
        self.err.print(Text.assemble((f"{what}:", f"bold {colour}"), " ", message), soft_wrap=True)

    def _print_json(self, value: dict[str, Any]) -> None:
        print(json_text(value, sys.stdout), flush=True)


@contextmanager
def command(*, as_json: bool = False, quiet: bool = False) -> Iterator[Session]:
    """Run the body of a command: errors and warnings of labelgap are told, others pass through."""
    session = Session(as_json=as_json, quiet=quiet)
    try:
        with _warnings_told(session):
            yield session
        session.finish()
    except BrokenPipeError:
        forget_stdout()
        raise typer.Exit(PIPE_CLOSED) from None
    except LabelgapError as error:
        raise session.fail(type(error).__name__, in_options(str(error)), PROBLEM) from error
    except OSError as error:
        raise session.fail(type(error).__name__, in_words(error), PROBLEM) from error
    except KeyboardInterrupt:
        message = "Interrupted; nothing was saved."
        if session.kept is not None:
            message += f" What was done is kept in {session.kept}: the same command goes on from there."
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
