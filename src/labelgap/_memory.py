"""Memory that was freed, and that the C library or Arrow keeps for later."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable


def give_back_freed() -> None:
    """Let the operating system have memory that was freed, where the C library has a call for it (glibc).

    Arrays of the last stage of some work leave gaps of other sizes than those of the next stage, which would
    then stand beside the gaps. Arrow has a pool of its own for the columns of files.
    """
    # Not there yet while another thread imports it.
    pool = getattr(sys.modules.get("pyarrow"), "default_memory_pool", None)
    if pool is not None:
        pool().release_unused()
    _trim()(0)


@functools.cache
def _trim() -> Callable[[int], object]:
    try:
        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        # Other systems, which need not have it.
        return lambda _: None
    return found
