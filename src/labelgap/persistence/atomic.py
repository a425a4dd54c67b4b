"""Files that are whole or not there at all."""

from __future__ import annotations

import contextlib
import os
import secrets
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
    temporary = path.with_name(f".{_shortened(path.name)}.{secrets.token_hex(6)}.part")
    # Opened like any new file, so that the system gives it the usual permissions. Asking for the umask would
    # change it for a moment, for all threads.
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(temporary, os.stat(path).st_mode & 0o777)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def _shortened(name: str) -> str:
    """So much of a name that a longer one is no problem for the system, which counts bytes."""
    return os.fsencode(name)[:100].decode("utf-8", "ignore")


def _sync_folder(folder: Path) -> None:
    """So that the new name survives a power failure too, where folders can be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
