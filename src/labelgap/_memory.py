"""How large an answer may be, memory that is free, and memory that was freed but is kept for later."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

from labelgap.exceptions import InvalidLabelsError

# Decisions of that many bytes are made dense unless a sparse matrix is asked for: a gigabyte.
_ORDINARY_SIZE = 1 << 30
# So many bytes any process can have, whatever is said to be free: the pages of files go first.
_SMALL = 1 << 24


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


def free_memory() -> int | None:
    """The bytes of memory that are free on this machine, or in its container; None where that is unknown."""
    found = [size for size in (_available(), _left_in_container()) if size is not None]
    return min(found, default=None)


def _available() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _left_in_container() -> int | None:
    try:
        group = Path("/sys/fs/cgroup")
        most, used = ((group / f"memory.{name}").read_text().strip() for name in ("max", "current"))
        if most == "max":
            return None
        # Pages of files that were read count as used, although they go as soon as memory is wanted.
        kept = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        pages = sum(int(kept.get(f"{name}_file", 0)) for name in ("active", "inactive"))
        return max(0, int(most) - int(used) + pages)
    except (OSError, ValueError):
        return None


def require_free(needed: int, what: str, advice: str) -> None:
    """Raise before an array of labels is made that is larger than the memory that is free.

    A few megabytes are always taken to be free.

    Parameters
    ----------
    needed : int
        Bytes.
    what : str
        What takes them, as the subject of a sentence.
    advice : str
    """
    free = free_memory() if needed > _SMALL else None
    if free is not None and needed > free:
        raise InvalidLabelsError(
            f"{what} would take {needed / 1e9:,.1f} GB of memory, and {free / 1e9:,.1f} GB are free. {advice}"
        )
