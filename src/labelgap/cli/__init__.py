"""The command line: ``labelgap``, or ``python -m labelgap``."""

from __future__ import annotations

import importlib.util
import sys

from labelgap._version import __version__
from labelgap.cli.streams import (
    INTERRUPTED,
    exit_on_interrupt,
    fail_at_output,
    forget_stdout,
    is_about_stdout,
    open_closed_streams,
)


def main() -> None:
    """Run the command line, or say in one line what is not installed."""
    exit_on_interrupt()
    open_closed_streams()
    try:
        _run()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except (BrokenPipeError, SystemExit) as stop:
        # Typer and Rich raise an exit of their own where the pipe is broken while help is printed.
        if not isinstance(stop, BrokenPipeError) and not isinstance(stop.__context__, BrokenPipeError):
            raise
        forget_stdout()
        raise SystemExit(141) from None
    except OSError as error:
        if not is_about_stdout(error):
            raise
        fail_at_output(error)
        raise SystemExit(1) from None


def _run() -> None:
    try:
        if sys.argv[1:] == ["--version"]:
            # Nothing but the version is needed for that.
            print(f"labelgap {__version__}")
            return
        missing = [name for name in ("typer", "rich") if importlib.util.find_spec(name) is None]
        if missing:
            needed = " and ".join(missing)
            print(f"The command line needs {needed}: pip install 'labelgap[cli]'.", file=sys.stderr)
            raise SystemExit(2)
        from labelgap.cli.app import app

        app(prog_name="labelgap")
    finally:
        sys.stdout.flush()
