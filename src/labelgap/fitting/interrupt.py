"""Ctrl-C during a fit: the first one ends it early with a usable model, the second one at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether somebody wants the fit to end."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def make(self) -> None:
        self._event.set()

    @property
    def made(self) -> bool:
        return self._event.is_set()


@contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """Inside, an interrupt makes a request instead of raising KeyboardInterrupt, once.

    Only in the main thread, the only one that may, and only where nobody else handles interrupts already.
    """
    request = StopRequest()
    free = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not free or threading.current_thread() is not threading.main_thread():
        yield request
        return

    def handle(number: int, frame: FrameType | None) -> None:
        request.make()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, handle)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
