"""Files that are whole or not there at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of ``path`` at the end of the block, or never if that fails.

    It is written under another name and renamed when it is complete and on the disk. So whoever reads sees
    the old file or the new one, whenever the writer is killed.

    Examples
    --------
    >>> with atomic_write("a.txt") as file:
    ...     _ = file.write(b"all of it")
    >>> Path("a.txt").read_text()
    'all of it'
    """
    # Of a link the file it leads to is replaced, not the link.
    path = Path(os.path.realpath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files for the owner alone; this one is like the old one, or like any new file.
        os.chmod(temporary, _mode_of(path))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def _mode_of(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return os.stat(path).st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """So that the new name survives a power failure too, where folders can be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
