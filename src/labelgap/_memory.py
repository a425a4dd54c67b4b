"""How large an answer may be, and memory that was freed but is kept by the C library or Arrow."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable

# Decisions of that many bytes are made dense unless a sparse matrix is asked for: a gigabyte.
_ORDINARY_SIZE = 1 << 30


def is_dense(output: str, as_default: bool, n: int, n_labels: int, item_size: int = 1) -> bool:
    """Whether decisions are dense, for an ``output`` of "dense", "sparse" or "auto".

    "auto" is dense where that is the default, and the array has at most a gigabyte.

    Examples
    --------
    >>> is_dense("auto", True, 1_000, 500), is_dense("auto", True, 10**7, 500)
    (True, False)
    """
    is_ordinary = n * n_labels * item_size <= _ORDINARY_SIZE
    return output == "dense" or (output == "auto" and as_default and is_ordinary)


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
