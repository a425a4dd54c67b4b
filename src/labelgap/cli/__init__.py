"""The command line: ``labelgap``, or ``python -m labelgap``."""

from __future__ import annotations

import importlib.util
import sys

from labelgap._version import __version__


def main() -> None:
    """Run the command line, or say in one line what is not installed."""
    if sys.argv[1:] == ["--version"]:
        # Nothing but the version is needed for that.
        print(f"labelgap {__version__}")
        return
    missing = [name for name in ("typer", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"The command line needs {' and '.join(missing)}: pip install 'labelgap[cli]'.", file=sys.stderr
        )
        raise SystemExit(2)
    try:
        from labelgap.cli.app import app

        try:
            app(prog_name="labelgap")
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except (BrokenPipeError, SystemExit) as stop:
        # Typer and Rich raise an exit of their own where the pipe is broken while help is printed.
        if not isinstance(stop, BrokenPipeError) and not isinstance(stop.__context__, BrokenPipeError):
            raise
        from labelgap.cli.console import forget_stdout

        forget_stdout()
        raise SystemExit(141) from None
