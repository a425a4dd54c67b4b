"""What tests of several folders share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def default_interrupts() -> Iterator[None]:
    """Interrupts as Python handles them, here and in the processes that a test starts.

    Whoever runs the tests may ignore them, as shells do for what they run in the background.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
