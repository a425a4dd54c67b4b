"""Bytes for Arrow to read, in memory of its own.

Arrow reads in threads that may let go of their source late, even while the interpreter ends. Were it a Python
object, such a thread would then ask for the interpreter's lock, and the process would abort.
"""

from __future__ import annotations

from typing import Any

_THREADS_FROM = 1 << 23


def arrow_reader(arrow: Any, data: bytes | memoryview) -> Any:
    """A reader of a copy of ``data`` that no Python object owns."""
    copy = arrow.BufferOutputStream()
    copy.write(data)
    return arrow.BufferReader(copy.getvalue())


def is_worth_threads(size: int) -> bool:
    """Whether so many bytes are read faster by several threads; fewer are read by none but the caller's."""
    return size >= _THREADS_FROM
