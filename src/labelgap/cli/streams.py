"""Standard streams and interrupts of a process of the command line; nothing heavy is imported here."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED = 130
# What a stream that cannot be written to any more says; a broken pipe is another matter.
_CANNOT_WRITE = {errno.ENOSPC, errno.EFBIG, errno.EBADF, getattr(errno, "EDQUOT", errno.ENOSPC)}


def open_closed_streams() -> None:
    """Give the process the standard streams that it was started without.

    Without them, the next file that is opened would get the number of standard output, and what is printed
    would end up in it. What is printed to a closed stream goes nowhere.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The system gives the lowest number that is free, and that is this one.
            os.open(os.devnull, os.O_RDWR)
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def forget_stdout() -> None:
    """Discard what is left to write, since nobody reads it, without an error message at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):  # a stream without a file raises no error at exit
        pass
    finally:
        os.close(nowhere)


def is_about_stdout(error: OSError) -> bool:
    """Whether the error is of standard output: those of files name the file."""
    return error.filename is None and error.errno in _CANNOT_WRITE


def fail_at_output(error: OSError) -> None:
    """Say on standard error that standard output cannot be written, if that can be said anywhere."""
    forget_stdout()
    try:
        print(f"Error: standard output: {error.strerror}.", file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


# -- interrupts ----------------------------------------------------------------------------------------------


def exit_on_interrupt() -> None:
    """Let Ctrl-C end the process at once, for as long as no command is running.

    While modules are imported there is nothing to save, and an exception could come up anywhere. It does
    nothing where somebody else handles or ignores interrupts.
    """
    if _is_ours_to_set() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """While a command runs, Ctrl-C raises KeyboardInterrupt, as usual."""
    ours = _is_ours_to_set() and signal.getsignal(signal.SIGINT) is _exit
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, _exit)


def _is_ours_to_set() -> bool:
    return threading.current_thread() is threading.main_thread()


def _exit(number: int, frame: Any) -> None:
    os._exit(INTERRUPTED)
